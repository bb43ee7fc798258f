/** A file of the page, as the build lists it for the service worker. */
export interface ListedFile {
  readonly path: string;
  /** Whether the first visit fetches it. */
  readonly ahead: boolean;
  /** The beginning of the file's SHA-256 in base64, and of the unpacked content's for .gz files. */
  readonly hashes: readonly string[];
}

export const HASH_BYTES = 6;

/**
 * Packs the list into a text, which each first visit downloads. Each line describes a folder: its path, where a leading
 * slash means `zoo`, then name and hashes of each file, with a star before the names of files with `ahead`.
 */
export function packList(files: readonly ListedFile[], zoo: string): string {
  const folders = new Map<string, string[]>();
  for (const { path, ahead, hashes } of files) {
    if (/[\t\n*]/.test(path)) throw new Error(`${path}: expected no tab, line or star in a path`);
    const short = path.startsWith(zoo) ? `/${path.slice(zoo.length)}` : path;
    const end = short.lastIndexOf('/') + 1;
    const folder = short.slice(0, end);
    const line = folders.get(folder) ?? folders.set(folder, [folder]).get(folder)!;
    line.push(`${ahead ? '*' : ''}${short.slice(end)}`, hashes.join(','));
  }
  return [...folders.values()].map((line) => line.join('\t')).join('\n');
}

export function unpackList(list: string, zoo: string): ListedFile[] {
  return list.split('\n').flatMap((line) => {
    const [folder, ...rest] = line.split('\t') as [string, ...string[]];
    const paths = folder.replace(/^\//, zoo);
    return Array.from({ length: rest.length / 2 }, (_, i) => {
      const name = rest[2 * i]!;
      const ahead = name.startsWith('*');
      return {
        path: paths + name.slice(ahead ? 1 : 0),
        ahead,
        hashes: rest[2 * i + 1]!.split(','),
      };
    });
  });
}

/**
 * Returns the build's entry for an address; undefined if the address has no file, so that the browser fetches it as
 * it would without a service worker. A folder has the entry of its index.html.
 * @param scope the address of the folder that the service worker serves
 */
export function listedFor<T>(
  files: Readonly<Record<string, T>>,
  scope: string,
  address: string,
): T | undefined {
  if (!address.startsWith(scope)) return undefined;
  const path = decodePath(address.slice(scope.length).split(/[?#]/)[0]!);
  if (path === undefined) return undefined;
  const file = /(^|\/)$/.test(path) ? `${path}index.html` : path;
  return Object.hasOwn(files, file) ? files[file] : undefined;
}

function decodePath(text: string): string | undefined {
  try {
    return decodeURI(text);
  } catch {
    return undefined;
  }
}
