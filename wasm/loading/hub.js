/** Models of a hub by name: what there is, what it would cost, and where it is fetched from. */
import { PATIENCE, ask } from './ask.js';
import { recallPlan, rememberPlan } from './cache.js';
import { check, checkOptions } from '../abi/arguments.js';
import { SinkscopeError, expect } from '../abi/errors.js';
import { readAll } from './files.js';
import { makePlan } from './plan.js';

/** @typedef {import('../sinkscope.js').HubOptions} HubOptions */
/** @typedef {import('../sinkscope.js').PlanFile} PlanFile */
/** @typedef {{ repository: string, revision: string, file?: string }} Name */
/**
 * What a hub answers, if it is one.
 * @typedef {{ siblings?: readonly ({ rfilename?: unknown, size?: unknown } | null)[], sha?: unknown,
 *   gated?: unknown, tags?: unknown, cardData?: { license?: unknown, license_name?: unknown } }} Said
 */
/** @typedef {{ files: PlanFile[], commit?: string, licence?: string, gated: boolean }} Listing */

export const ENDPOINT = 'https://huggingface.co';

/** What is looked for where a hub gives no list. */
const USUAL = [
  'config.json',
  'model.safetensors',
  'model.safetensors.index.json',
  'pytorch_model.bin',
  'pytorch_model.bin.index.json',
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'vocab.txt',
  'vocab.json',
  'merges.txt',
];

/** @type {typeof import('../sinkscope.js').resolveHub} */
export async function resolveHub(id, options = {}) {
  check(id, 'text', 'model');
  checkOptions(options, { ...PATIENCE, cache: 'flag' });
  const endpoint = baseOf(options.endpoint ?? ENDPOINT);
  const name = parseHubId(id, endpoint);
  const { repository, revision, file = '' } = name;
  const address = new URL(`${repository}@${revision}:${file}`, endpoint).href;
  try {
    const plan = await look(endpoint, name, options);
    // Without a commit the addresses may hold other files tomorrow.
    if (options.cache && plan.commit) await rememberPlan(address, plan);
    return plan;
  } catch (error) {
    const isAway = error instanceof SinkscopeError && /^(offline|read|busy)$/.test(error.code);
    const plan = options.cache && isAway ? await recallPlan(address) : undefined;
    if (plan) return { ...plan, remembered: true };
    throw error;
  }
}

/**
 * @param {URL} endpoint
 * @param {Name} name
 * @param {HubOptions} options
 * @returns {Promise<import('../sinkscope.js').Plan>}
 */
async function look(endpoint, name, options) {
  const { files, commit, licence, gated } = await list(endpoint, name, options);
  const { token, signal, cache } = options;
  const plan = await makePlan(files, {
    id: name.repository,
    file: name.file,
    async readText({ url, version, bytes }) {
      const source = { url: String(url), version, bytes, token, cache, id: name.repository };
      return new TextDecoder().decode(await readAll(source, signal));
    },
  });
  const choices = plan.choices.map((choice) => ({ ...choice, id: nameOf(name, choice.file) }));
  return { ...plan, choices, revision: name.revision, commit, licence, gated };
}

/**
 * `owner/name[@revision]`, with a file behind a colon, or behind a slash if it is a .gguf; or an
 * address of the hub's pages.
 * @param {string} id
 * @param {URL} [endpoint]
 * @returns {Name}
 */
export function parseHubId(id, endpoint = baseOf(ENDPOINT)) {
  const text = String(id).trim();
  const form = 'owner/name, owner/name@revision or owner/name:file.gguf';
  const path = text.startsWith(endpoint.href) ? text.slice(endpoint.href.length) : undefined;
  const parsed = path === undefined ? parseName(text) : parsePage(path);
  const { repository = '', revision = 'main', file } = parsed ?? {};
  const parts = repository.split('/');
  const isName = parts.length <= 2 && parts.every((part) => /^\w[\w.-]{0,95}$/.test(part));
  expect(isName, 'model', form, text);
  expect(isPath(revision), 'revision', 'a branch, tag or commit', revision);
  expect(file === undefined || isPath(file), 'file', 'a path inside the repository', file);
  return { repository, revision, ...(file === undefined ? {} : { file }) };
}

/** @param {string} text */
function parseName(text) {
  const gguf = /^([^/@:]+\/[^/@:]+)(?:@([^:]+?))?\/([^/@:]+\.gguf)$/i.exec(text);
  const [, repository, revision, file] =
    gguf ?? /^([^@:]+)(?:@([^:]+))?(?::(.+\.(?:gguf|safetensors|bin)))?$/i.exec(text) ?? [];
  return { repository, revision, file };
}

/** @param {string} path owner/name[/tree/revision | /blob/revision/file | /resolve/revision/file] */
function parsePage(path) {
  const clean = decode(path.replace(/[?#].*$/, '').replace(/\/$/, ''));
  const match = /^([^/]+\/[^/]+)(?:\/(?:tree|blob|resolve)\/([^/]+)(?:\/(.+))?)?$/.exec(clean);
  return match ? { repository: match[1], revision: match[2], file: match[3] } : undefined;
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Nothing that leads out of the repository, or that an address would read otherwise.
 * @param {string} path
 */
function isPath(path) {
  const steps = path.split('/').every((step) => step !== '' && step !== '.' && step !== '..');
  return steps && path.length <= 400 && !/[\p{Cc}\\]/u.test(path);
}

/**
 * @param {Name} name
 * @param {string} file
 */
function nameOf({ repository, revision }, file) {
  return `${repository}${revision === 'main' ? '' : `@${revision}`}:${file}`;
}

/**
 * The hub's address, with a slash at its end.
 * @param {string | URL} endpoint
 */
function baseOf(endpoint) {
  const text = endpoint instanceof URL ? endpoint.href : endpoint;
  const url = typeof text === 'string' && URL.canParse(text) ? new URL(text) : undefined;
  const isWeb = url?.protocol === 'https:' || url?.protocol === 'http:';
  expect(isWeb, 'endpoint', 'an address that begins with https://', text);
  const base = /** @type {URL} */ (url);
  base.search = base.hash = '';
  if (!base.pathname.endsWith('/')) base.pathname += '/';
  return base;
}

/**
 * @param {URL} endpoint
 * @param {Name} name
 * @param {HubOptions} options
 * @returns {Promise<Listing>}
 */
async function list(endpoint, name, options) {
  try {
    return await listing(endpoint, name, options);
  } catch (error) {
    // A mirror may have the files and no list of them. What the hub itself refuses stays refused.
    if (!(error instanceof SinkscopeError) || error.code !== 'read') throw error;
    const found = await probe(endpoint, name, options);
    if (found.files.length > 0) return found;
    throw error;
  }
}

/**
 * @param {URL} endpoint
 * @param {Name} name
 * @param {HubOptions} options
 * @returns {Promise<Listing>}
 */
async function listing(endpoint, name, options) {
  const { repository, revision } = name;
  const path = `api/models/${repository}/revision/${encodeURIComponent(revision)}?blobs=true`;
  const address = new URL(path, endpoint);
  const answer = await ask(address, { ...options, headers: { accept: 'application/json' } });
  /** @type {Said | undefined} */
  const said = await answer.json().catch(() => undefined);
  if (!Array.isArray(said?.siblings)) {
    throw new SinkscopeError('read', address.href, 'expected a list of files, found none');
  }
  const sha = String(said.sha);
  const commit = /^[0-9a-f]{40}$/.test(sha) ? sha : undefined;
  const files = said.siblings.flatMap((one) => {
    const file = one?.rfilename;
    if (typeof file !== 'string' || !isPath(file)) return [];
    const size = Number(one?.size);
    const bytes = Number.isSafeInteger(one?.size) && size >= 0 ? size : undefined;
    return [fileOf(endpoint, name, file, bytes, commit, hashOf(one))];
  });
  return { files, commit, licence: licenceOf(said), gated: Boolean(said.gated) };
}

/**
 * What a mirror without lists has of the usual files.
 * @param {URL} endpoint
 * @param {Name} name
 * @param {HubOptions} options
 * @returns {Promise<Listing>}
 */
async function probe(endpoint, name, options) {
  const found = await usualFiles((file) => fileOf(endpoint, name, file).url, options, name.file);
  const commit = found.map((one) => one.commit).find(Boolean);
  const files = found.map(({ file, bytes }) => fileOf(endpoint, name, file, bytes, commit));
  return { files, commit, gated: false };
}

/**
 * Those of the usual files of a model that are there, with their sizes where they are stated.
 * @param {(file: string) => string | undefined} addressOf
 * @param {Pick<HubOptions, 'token' | 'signal' | 'tries' | 'wait' | 'onRetry'>} options
 * @param {string} [other] asked for, too
 */
export async function usualFiles(addressOf, options, other) {
  const found = await Promise.all(
    (other ? [...USUAL, other] : USUAL).map(async (file) => {
      try {
        const asked = { ...options, method: 'HEAD', tries: 2 };
        const { headers } = await ask(new URL(String(addressOf(file))), asked);
        const length = headers.get('x-linked-size') ?? headers.get('content-length');
        const bytes = length === null ? undefined : Number(length);
        return [{ file, bytes, commit: headers.get('x-repo-commit') ?? undefined }];
      } catch (error) {
        const isMissing = error instanceof SinkscopeError && /read|not_found/.test(error.code);
        if (isMissing) return [];
        throw error;
      }
    }),
  );
  return found.flat();
}

/**
 * A file by its commit where it is known: such an address never changes what it names.
 * @param {URL} endpoint
 * @param {Name} name
 * @param {string} file
 * @param {number} [bytes]
 * @param {string} [commit]
 * @param {string} [sha256] of its bytes, where the hub lists it
 * @returns {PlanFile}
 */
function fileOf(endpoint, { repository, revision }, file, bytes, commit, sha256) {
  const path = file.split('/').map(encodeURIComponent).join('/');
  const at = encodeURIComponent(commit ?? revision);
  const { href } = new URL(`${repository}/resolve/${at}/${path}`, endpoint);
  const known = { ...(commit ? { version: commit } : {}), ...(sha256 ? { sha256 } : {}) };
  return { name: file, bytes, url: href, ...known };
}

/**
 * Large files are listed with their hash; what is none is none.
 * @param {unknown} listed
 */
function hashOf(listed) {
  const { lfs } = /** @type {{ lfs?: { sha256?: unknown } | null }} */ (listed ?? {});
  const hash = String(lfs?.sha256 ?? '');
  return /^[0-9a-f]{64}$/.test(hash) ? hash : undefined;
}

/** @param {Said} said */
function licenceOf({ cardData, tags }) {
  const named = cardData?.license_name ?? cardData?.license;
  if (typeof named === 'string') return named;
  const tag = Array.isArray(tags) && tags.find((one) => String(one).startsWith('license:'));
  return tag ? String(tag).slice('license:'.length) : undefined;
}
