/** Finds models among files that the reader dropped or picked; nothing leaves the machine. */
import { check, checkList } from '../abi/arguments.ts';
import { readError } from '../abi/errors.ts';
import { reasonOf } from './ask.ts';
import { FILES, hasSigns, isForeign } from './foreign.ts';
import { makePlan } from './plan.ts';
import type { DiskFile } from '../host/types.ts';
import type { Plan, PlanFile, DroppedItem } from './types.ts';

/** Limits the search if someone drops a whole disk; a model has a handful of files. */
const FILES_MAX = 10_000;
const DEPTH_MAX = 8;

const WEIGHTS_PATTERN = /\.(safetensors|gguf)$|(^|\/)pytorch_model.*\.bin$|\.index\.json$/i;
/** Ollama names GGUF files, licenses and templates alike by their hash. */
const OLLAMA_PATTERN = /(^|\/)sha256-[0-9a-f]{64}$/;
/** Files that hold weights, or say what a folder without weights holds. */
export const isWeights = (path: string) =>
  WEIGHTS_PATTERN.test(path) ||
  OLLAMA_PATTERN.test(path) ||
  isForeign(path.slice(path.lastIndexOf('/') + 1));

const UNFINISHED_HELP =
  'Nothing is trained there yet: "sinkscope train --resume FOLDER" continues the training';

/**
 * Finds the models among files: one plan per folder, and one for each GGUF file.
 * @throws SinkscopeError 'read' that names the missing files and those present
 * @example const [plan] = await planFiles(filesOfList(input.files));
 */
export const planFiles = async (files: readonly DiskFile[]): Promise<Plan[]> =>
  planDiskFiles(files, FILES);

/** @param id of the files that are in no folder */
export async function planDiskFiles(files: readonly DiskFile[], id: string) {
  checkList(files, 'object', 'files');
  for (const { path, file } of files) {
    check(path, 'text', 'files.path');
    check(file, 'blob', 'files.file');
  }
  const folders = await groupByFolder(files);
  const plans = [];
  const failures = [];
  for (const [folder, folderFiles] of folders) {
    if (!folderFiles.some(({ name }) => isWeights(name))) continue;
    try {
      plans.push(
        ...(await planFolder(folder, id, folderFiles, () => nestedFiles(folder, folders))),
      );
    } catch (error) {
      failures.push(error);
    }
  }
  if (plans.length > 0) return plans;
  if (failures.length > 0) throw failures[0];
  const names = files.slice(0, 8).map(({ path }) => path);
  const actual = names.join(', ') || 'no files';
  const text = `expected model.safetensors with config.json, or a .gguf file; found ${actual}`;
  if (files.some(({ path }) => /(^|\/)training\.state$/.test(path)))
    throw readError(id, `${text}. ${UNFINISHED_HELP}`);
  throw readError(id, text);
}

/** Plans the model that one file belongs to, among the files of its folder. */
export async function planNamedFile(id: string, files: readonly DiskFile[], name: string) {
  const folders = await groupByFolder(files);
  const listNestedFiles = () => nestedFiles('', folders);
  const folderFiles = folders.get('') ?? [];
  const options = { id, file: name, readText: readBlob, listNestedFiles };
  const [plan] = await addFacts([await makePlan(folderFiles, options)], folderFiles);
  return plan;
}

/** Adds what a hub says of its models. */
async function addFacts(plans: readonly Plan[], files: readonly PlanFile[]): Promise<Plan[]> {
  const license = await licenseOf(files);
  return plans.map((plan) => ({ ...plan, ...(license ? { license } : {}), gated: false }));
}

const readBlob = ({ blob }: PlanFile) => (blob as Blob).text();

/** Plans a folder's model and one per GGUF file; `name` is the id of files in no folder. */
async function planFolder(
  folder: string,
  name: string,
  files: PlanFile[],
  listNestedFiles: () => PlanFile[],
): Promise<Plan[]> {
  const isGguf = ({ name }: PlanFile) => /\.gguf$/i.test(name);
  const otherFiles = files.filter((file) => !isGguf(file));
  const plans = [];
  if (
    otherFiles.length === files.length ||
    otherFiles.some(({ name }) => WEIGHTS_PATTERN.test(name))
  ) {
    const id = folder || name;
    plans.push(await makePlan(otherFiles, { id, readText: readBlob, listNestedFiles }));
  }
  for (const name of await firstGgufFiles(files.filter(isGguf))) {
    const id = folder ? `${folder}/${name}` : name;
    plans.push(await makePlan(files.filter(isGguf), { id, file: name, readText: readBlob }));
  }
  return addFacts(plans, files);
}

async function firstGgufFiles(files: PlanFile[]) {
  if (files.length === 0) return [];
  const plan = await makePlan(files, { id: 'files', readText: async () => '' });
  return plan.choices.length > 0
    ? plan.choices.map(({ file }) => file)
    : [plan.files.weights[0].name];
}

async function groupByFolder(files: readonly DiskFile[]) {
  const folders: Map<string, PlanFile[]> = new Map();
  for (const { path, file } of files) {
    const slash = path.lastIndexOf('/');
    const folder = path.slice(0, Math.max(slash, 0));
    const folderFiles = folders.get(folder) ?? [];
    const named = { name: path.slice(slash + 1), bytes: file.size, blob: file };
    const isGguf = OLLAMA_PATTERN.test(path) && (await hasSigns(named, [/^GGUF/]));
    folderFiles.push(isGguf ? { ...named, name: `${named.name}.gguf` } : named);
    folders.set(folder, folderFiles);
  }
  return folders;
}

function nestedFiles(folder: string, folders: Map<string, PlanFile[]>) {
  const prefix = folder && `${folder}/`;
  const subfolders = [...folders].filter(([path]) => path !== folder && path.startsWith(prefix));
  return subfolders.flatMap(([path, files]) =>
    files.map((file) => ({ ...file, name: `${path.slice(prefix.length)}/${file.name}` })),
  );
}

async function licenseOf(files: readonly PlanFile[]) {
  const card = files.find(({ name }) => /^readme\.md$/i.test(name))?.blob;
  const text = card ? await card.slice(0, 65_536).text() : '';
  const frontMatter = /^---\r?\n([^]*?)\r?\n---/.exec(text)?.[1] ?? '';
  return /^license:\s*["']?([\w.+-]+)/m.exec(frontMatter)?.[1];
}

/** Returns the files of an <input type=file>, with or without `webkitdirectory`. */
export function filesOfList(list: Iterable<File> | ArrayLike<File>): DiskFile[] {
  check(list, 'object', 'list');
  const files = Array.from(list);
  checkList(files, 'object', 'list');
  return files.map((file) => ({ path: file.webkitRelativePath || file.name, file }));
}

/**
 * Returns the files of a drop, including those in folders. Call it before the handler's first
 * await.
 * @example box.ondrop = async (event) => open(await planFiles(await filesOfDrop(event.dataTransfer)));
 */
export async function filesOfDrop(transfer: {
  readonly items: ArrayLike<DroppedItem>;
}): Promise<DiskFile[]> {
  check(transfer, 'object', 'transfer');
  checkList(transfer.items, 'object', 'transfer.items');
  // The browser clears the items at the first await, so their entries are read before.
  const items = Array.from(transfer.items).filter(({ kind }) => kind === 'file');
  const entries = items.map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
  const droppedFiles: DiskFile[] = [];
  for (const entry of entries) {
    if (entry instanceof File) droppedFiles.push({ path: entry.name, file: entry });
    else if (entry) await collectFiles(entry as FileSystemEntry, droppedFiles, 0);
  }
  return droppedFiles;
}

/** Throws errors with the file's name and a remedy, which a browser's message lacks. */
const makeMissingHandler = (entry: FileSystemEntry) => (error: unknown) => {
  const text = `expected a file or folder that can be read, found none (${reasonOf(error)})`;
  throw readError(entry.fullPath, `${text}; drop it again`);
};

const isFile = (entry: FileSystemEntry): entry is FileSystemFileEntry => entry.isFile;

async function collectFiles(entry: FileSystemEntry, droppedFiles: DiskFile[], depth: number) {
  if (droppedFiles.length >= FILES_MAX) {
    const text = `expected at most ${FILES_MAX} files, found more`;
    throw readError(entry.fullPath, text);
  }
  if (isFile(entry)) {
    const result: Promise<File> = new Promise((resolve, reject) => entry.file(resolve, reject));
    const file = await result.catch(makeMissingHandler(entry));
    droppedFiles.push({ path: entry.fullPath.replace(/^\//, ''), file });
    return;
  }
  if (depth >= DEPTH_MAX || entry.name.startsWith('.')) return;
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    // readEntries returns a hundred entries at a time, and none at the end.
    const entriesPromise: Promise<FileSystemEntry[]> = new Promise((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    const entries = await entriesPromise.catch(makeMissingHandler(entry));
    if (entries.length === 0) return;
    for (const child of entries) await collectFiles(child, droppedFiles, depth + 1);
  }
}
