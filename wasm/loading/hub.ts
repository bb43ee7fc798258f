/** Finds models on a hub by name: their files, sizes and addresses. */
import { REQUEST_OPTIONS, ask, isMissing } from './ask.ts';
import { recallPlan, rememberPlan } from './cache.ts';
import { check, checkOptions } from '../abi/arguments.ts';
import { SinkscopeError, expect, readError } from '../abi/errors.ts';
import { readUtf8 } from './files.ts';
import { makePlan } from './plan.ts';
import type { HubOptions, PlanFile, Plan } from './types.ts';

type HubName = { repository: string; revision: string; file?: string };
type HubAnswer = {
  siblings?: readonly ({ rfilename?: unknown; size?: unknown } | null)[];
  sha?: unknown;
  gated?: unknown;
  tags?: unknown;
  cardData?: { license?: unknown; license_name?: unknown };
};
type Listing = { files: PlanFile[]; commit?: string; license?: string; gated: boolean };

export const ENDPOINT = 'https://huggingface.co';

/** Files that are requested by name if a hub gives no list. */
const STANDARD_FILES = [
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

/**
 * Finds a model by `owner/name`, `owner/name@revision`, `owner/name@revision:file.gguf`, or the
 * address of its page.
 * @throws SinkscopeError 'argument', 'access' (needs a token), 'not_found', 'busy', 'offline' or 'read'
 * @example
 * const plan = await resolveHub('owner/name@main');
 * const model = await engine.open(modelFiles(plan, { cache: true }), { onProgress });
 */
export async function resolveHub(id: string, options: HubOptions = {}): Promise<Plan> {
  check(id, 'text', 'model');
  checkOptions(options, { ...REQUEST_OPTIONS, cache: 'flag' });
  const endpoint = baseOf(options.endpoint ?? ENDPOINT);
  const name = parseHubId(id, endpoint);
  const { repository, revision, file = '' } = name;
  const address = new URL(`${repository}@${revision}:${file}`, endpoint).href;
  try {
    const plan = await planFromHub(endpoint, name, options);
    // Without a commit, the addresses may have other files tomorrow, so the plan is not cached.
    if (options.cache && plan.commit) await rememberPlan(address, plan);
    return plan;
  } catch (error) {
    const isUnreachable =
      error instanceof SinkscopeError && /^(offline|read|busy)$/.test(error.code);
    const plan = options.cache && isUnreachable ? await recallPlan(address) : undefined;
    if (plan) return { ...plan, remembered: true };
    throw error;
  }
}

async function planFromHub(endpoint: URL, name: HubName, options: HubOptions): Promise<Plan> {
  const { files, commit, license, gated } = await listFiles(endpoint, name, options);
  const { token, signal, cache } = options;
  const plan = await makePlan(files, {
    id: name.repository,
    file: name.file,
    readText({ url, version, bytes }) {
      const source = { url: String(url), version, bytes, token, cache, id: name.repository };
      return readUtf8(source, signal, options);
    },
  });
  const choices = plan.choices.map((choice) => ({ ...choice, id: hubIdOf(name, choice.file) }));
  return { ...plan, choices, revision: name.revision, commit, license, gated };
}

/**
 * Parses `owner/name[@revision]`, with a file after a colon, or after a slash if it is a .gguf; or
 * the address of a page of the hub.
 */
export function parseHubId(id: string, endpoint: URL = baseOf(ENDPOINT)): HubName {
  const text = String(id).trim();
  const expectedForms = 'owner/name, owner/name@revision or owner/name:file.gguf';
  const path = text.startsWith(endpoint.href) ? text.slice(endpoint.href.length) : undefined;
  const fields = path === undefined ? parseName(text) : parsePage(path);
  const { repository = '', revision = 'main', file } = fields ?? {};
  const parts = repository.split('/');
  const isName = parts.length <= 2 && parts.every((part) => /^\w[\w.-]{0,95}$/.test(part));
  expect(isName, 'model', expectedForms, text);
  expect(isSafePath(revision), 'revision', 'a branch, tag or commit', revision);
  expect(file === undefined || isSafePath(file), 'file', 'a path inside the repository', file);
  return { repository, revision, ...(file === undefined ? {} : { file }) };
}

function parseName(text: string) {
  const ggufMatch = /^([^/@:]+\/[^/@:]+)(?:@([^:]+?))?\/([^/@:]+\.gguf)$/i.exec(text);
  const [, repository, revision, file] =
    ggufMatch ?? /^([^@:]+)(?:@([^:]+))?(?::(.+\.(?:gguf|safetensors|bin)))?$/i.exec(text) ?? [];
  return { repository, revision, file };
}

/** Parses a page: owner/name[/tree/revision | /blob/revision/file | /resolve/revision/file]. */
function parsePage(path: string) {
  const decodedPath = decodeIfValid(path.replace(/[?#].*$/, '').replace(/\/$/, ''));
  const match = /^([^/]+\/[^/]+)(?:\/(?:tree|blob|resolve)\/([^/]+)(?:\/(.+))?)?$/.exec(
    decodedPath,
  );
  return match ? { repository: match[1], revision: match[2], file: match[3] } : undefined;
}

function decodeIfValid(text: string) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns whether a path stays inside the repository and means the same in an address. */
function isSafePath(path: string) {
  const isSafe = path.split('/').every((step) => step !== '' && step !== '.' && step !== '..');
  return isSafe && path.length <= 400 && !/[\p{Cc}\\]/u.test(path);
}

function hubIdOf({ repository, revision }: HubName, file: string) {
  return `${repository}${revision === 'main' ? '' : `@${revision}`}:${file}`;
}

function baseOf(endpoint: string | URL) {
  const text = endpoint instanceof URL ? endpoint.href : endpoint;
  const url = typeof text === 'string' && URL.canParse(text) ? new URL(text) : undefined;
  const isWeb = url?.protocol === 'https:' || url?.protocol === 'http:';
  expect(isWeb, 'endpoint', 'an address that begins with https://', text);
  const base = url as URL;
  base.search = base.hash = '';
  if (!base.pathname.endsWith('/')) base.pathname += '/';
  return base;
}

async function listFiles(endpoint: URL, name: HubName, options: HubOptions): Promise<Listing> {
  try {
    return await fetchListing(endpoint, name, options);
  } catch (error) {
    // A mirror may have the files but no list of them. A refusal of the hub is final, and so is a
    // connection that failed: each further request would take as long.
    if (!(error instanceof SinkscopeError) || error.code !== 'read' || error.cause) throw error;
    const listing = await probeFiles(endpoint, name, options);
    if (listing.files.length > 0) return listing;
    throw error;
  }
}

async function fetchListing(endpoint: URL, name: HubName, options: HubOptions): Promise<Listing> {
  const { repository, revision } = name;
  const path = `api/models/${repository}/revision/${encodeURIComponent(revision)}?blobs=true`;
  const address = new URL(path, endpoint);
  const { token, signal } = options;
  const json = jsonOf(await readUtf8({ url: address, token }, signal, options));
  if (!Array.isArray(json?.siblings))
    throw readError(address.href, 'expected a list of files, found none');
  const sha = String(json.sha);
  const commit = /^[0-9a-f]{40}$/.test(sha) ? sha : undefined;
  const files = json.siblings.flatMap((sibling) => {
    const file = sibling?.rfilename;
    if (typeof file !== 'string' || !isSafePath(file)) return [];
    const size = Number(sibling?.size);
    const bytes = Number.isSafeInteger(sibling?.size) && size >= 0 ? size : undefined;
    return [fileOf(endpoint, name, file, bytes, commit, listedHash(sibling))];
  });
  return { files, commit, license: licenseOf(json), gated: Boolean(json.gated) };
}

function jsonOf(text: string): HubAnswer | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function probeFiles(endpoint: URL, name: HubName, options: HubOptions): Promise<Listing> {
  const urlOf = (file: string) => fileOf(endpoint, name, file).url;
  const standardFiles = await findStandardFiles(urlOf, options, name.file);
  const commit = standardFiles.map((file) => file.commit).find(Boolean);
  const files = standardFiles.map(({ file, bytes }) => fileOf(endpoint, name, file, bytes, commit));
  return { files, commit, gated: false };
}

/**
 * Returns the standard files that exist, and `extraFile`, with stated sizes; other failures throw,
 * since a model without its tokenizer.json would open with another tokenizer or none.
 */
export async function findStandardFiles(
  addressOf: (file: string) => string | undefined,
  options: Pick<HubOptions, 'token' | 'signal' | 'tries' | 'wait' | 'stall' | 'onRetry'>,
  extraFile?: string,
) {
  // One failure ends the other requests, too.
  const controller = new AbortController();
  const signals = options.signal ? [options.signal, controller.signal] : [controller.signal];
  const headOptions = { ...options, method: 'HEAD', tries: 2, signal: AbortSignal.any(signals) };
  const filesOrNone = await Promise.all(
    (extraFile ? [...STANDARD_FILES, extraFile] : STANDARD_FILES).map(async (file) => {
      try {
        const { headers } = await ask(new URL(String(addressOf(file))), headOptions);
        const length = headers.get('x-linked-size') ?? headers.get('content-length');
        const bytes = length === null ? undefined : Number(length);
        return [{ file, bytes, commit: headers.get('x-repo-commit') ?? undefined }];
      } catch (error) {
        if (isMissing(error)) return [];
        controller.abort(error);
        throw error;
      }
    }),
  );
  return filesOrNone.flat();
}

/** Returns the plan's entry of a file; with a commit in the address its content never changes. */
function fileOf(
  endpoint: URL,
  { repository, revision }: HubName,
  file: string,
  bytes?: number,
  commit?: string,
  sha256?: string,
): PlanFile {
  const path = file.split('/').map(encodeURIComponent).join('/');
  const revisionPart = encodeURIComponent(commit ?? revision);
  const { href } = new URL(`${repository}/resolve/${revisionPart}/${path}`, endpoint);
  const identity = { ...(commit ? { version: commit } : {}), ...(sha256 ? { sha256 } : {}) };
  return { name: file, bytes, url: href, ...identity };
}

/** Returns the hub's hash of a large file; undefined if there is none or it is malformed. */
function listedHash(sibling: unknown) {
  const { lfs } = (sibling ?? {}) as { lfs?: { sha256?: unknown } | null };
  const hash = String(lfs?.sha256 ?? '');
  return /^[0-9a-f]{64}$/.test(hash) ? hash : undefined;
}

function licenseOf({ cardData, tags }: HubAnswer) {
  const license = cardData?.license_name ?? cardData?.license;
  if (typeof license === 'string') return license;
  const tag = Array.isArray(tags) && tags.find((item) => String(item).startsWith('license:'));
  return tag ? String(tag).slice('license:'.length) : undefined;
}
