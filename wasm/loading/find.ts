/** Finds the plan of a model from a path, files, an address, or a name on the hub. */
import { checkList, checkOptions, urlOf } from '../abi/arguments.ts';
import { SinkscopeError, argumentError, expect, readError } from '../abi/errors.ts';
import { diskFiles, subfolders } from '#host';
import { REQUEST_OPTIONS } from './ask.ts';
import { isWeights, planDiskFiles, planNamedFile } from './disk.ts';
import { readUtf8 } from './files.ts';
import { ENDPOINT, resolveHub, findStandardFiles } from './hub.ts';
import { FILES } from './foreign.ts';
import { checkPlan, makePlan } from './plan.ts';
import { folderInZoo } from './zoo.ts';
import type { DiskFile } from '../host/types.ts';
import type { FindOptions, HubOptions, ModelSource, Plan } from './types.ts';

/**
 * Plans a model before any large download.
 * @throws SinkscopeError as `resolveHub` and `planFiles`; 'argument' if the files hold several
 * models
 * @example const { bytes, refusal } = await findPlan('owner/name');
 */
export async function findPlan(source: ModelSource, options: FindOptions = {}): Promise<Plan> {
  checkOptions(options, { ...REQUEST_OPTIONS, cache: 'flag' });
  const { zoo: zooOption, ...hubOptions } = options;
  const zoo = zooOption === undefined ? undefined : urlOf(zooOption, undefined, 'zoo');
  if (typeof source === 'string') return planByName(source, hubOptions, zoo);
  if (source instanceof URL) return planByAddress(source, hubOptions);
  if (typeof source !== 'object' || source === null) throw argumentError('source', SOURCES, source);
  if ('files' in source) {
    checkPlan(source);
    return source;
  }
  if ('stream' in source) return planSingleModel('source', [asDiskFile(source)]);
  const isList = Symbol.iterator in source || 'length' in source;
  const list = isList ? Array.from(source) : [];
  if ([source, ...list].some((one) => ArrayBuffer.isView(one) || one instanceof ArrayBuffer))
    throw new SinkscopeError(
      'argument',
      'source',
      `expected ${SOURCES}, got bytes: new Blob([bytes]) is a file`,
    );
  if (!isList) throw argumentError('source', SOURCES, source);
  checkList(list, 'object', 'source');
  return planSingleModel('source', list.map(asDiskFile));
}

const SOURCES = 'a name, a path, an address, files, or the plan of a model';

/** Plans a model by name: an existing path, a model of the zoo, an address, a model of the hub. */
async function planByName(name: string, options: HubOptions, zoo?: URL) {
  const files = await diskFiles(name);
  if (files) return planByPath(name, files);
  const folder = folderInZoo(name, zoo);
  if (folder) return { ...(await planByAddress(folder, options)), id: name };
  const isAddress = /^(https?|file):/.test(name) && URL.canParse(name);
  const isOnHub = name.startsWith(String(options.endpoint ?? ENDPOINT));
  if (isAddress && !isOnHub) return planByAddress(new URL(name), options);
  return resolveHub(name, options).catch((error: unknown) => {
    // A reader who meant a path should not have to read the hub's answer first.
    if (files === undefined || isOnHub || !(error instanceof SinkscopeError)) throw error;
    const text = `no such path exists here, and as a model of the hub: ${error.message}`;
    throw new SinkscopeError(error.code, name, text);
  });
}

/** Plans an address: one GGUF file, or a folder, whose standard files are requested by name. */
async function planByAddress(address: URL, options: HubOptions): Promise<Plan> {
  if (address.protocol === 'file:') {
    const path = decodeURIComponent(address.pathname);
    const files = await diskFiles(path);
    if (files) return planByPath(path, files);
    throw readError(path, 'expected a file or a folder, found none');
  }
  const { endpoint: _, cache, ...requestOptions } = options;
  const { token, signal } = requestOptions;
  const id = address.href;
  const name = decodeURIComponent(address.pathname.split('/').at(-1) ?? '');
  if (/\.gguf$/i.test(name)) {
    const file = { name, url: id };
    return makePlan([file], { id, readText: async () => '' });
  }
  const folder = new URL(address);
  if (!folder.pathname.endsWith('/')) folder.pathname += '/';
  const fileUrl = (file: string) => new URL(file, folder).href;
  const standardFiles = await findStandardFiles(fileUrl, requestOptions);
  const files = standardFiles.map(({ file, bytes }) => ({ name: file, bytes, url: fileUrl(file) }));
  return makePlan(files, {
    id,
    readText: ({ url, bytes }) =>
      readUtf8({ url: String(url), bytes, token, cache, id }, signal, requestOptions),
  });
}

function asDiskFile(source: Blob | DiskFile): DiskFile {
  if (!('stream' in source)) return source;
  const { webkitRelativePath, name } = source as Partial<File>;
  return { path: webkitRelativePath || name || 'model.gguf', file: source };
}

/** Plans the model at a path; a file of weights or an index means the model of its folder. */
async function planByPath(path: string, files: readonly DiskFile[]) {
  const parts = path.split(/[\\/]/);
  const name = parts.at(-1) ?? '';
  const isFile = files.length === 1 && files[0].path === name;
  if (isFile && /\.(safetensors|bin|pt|pth|ckpt|index\.json)$/i.test(name)) {
    const folder = path.slice(0, path.length - name.length) || '.';
    const id = parts.slice(0, -1).findLast((part) => part !== '' && part !== '.') ?? name;
    const folderFiles = (await diskFiles(folder)) ?? files;
    return { ...(await planNamedFile(folder.replace(/(?<=.)[\\/]$/, ''), folderFiles, name)), id };
  }
  const isModelFile = (path: string) => isWeights(path) && !/(tokenizer|spiece)\.\w+$/.test(path);
  if (!files.some(({ path }) => isModelFile(path) || path.endsWith('training.state')))
    await nameSubfolders(path);
  const id = parts.findLast((part) => part !== '' && part !== '.');
  return { ...(await planSingleModel(path, files, path)), ...(id ? { id } : {}) };
}

/** Refuses a folder without weights whose subfolders have some, as a Trainer leaves it, or the cache of the hub. */
async function nameSubfolders(path: string) {
  const folders = [];
  for (const folder of [...(await subfolders(path)), ...(await subfolders(`${path}/snapshots`))])
    if ((await diskFiles(folder))?.some(({ path }) => isWeights(path))) folders.push(folder);
  if (folders.length === 0) return;
  const actual =
    folders.length === 1 ? `${folders[0]} has one` : `these have one: ${folders.join(', ')}`;
  throw readError(path, `expected the folder of a model, found a folder above it: ${actual}`);
}

/** Plans the model of files; several models among them are an error. */
async function planSingleModel(where: string, files: readonly DiskFile[], id = FILES) {
  const plans = await planDiskFiles(files, id);
  const ids = plans.map(({ id }) => id).join(', ');
  expect(plans.length === 1, where, 'one model, or the name of its file', ids);
  return plans[0];
}
