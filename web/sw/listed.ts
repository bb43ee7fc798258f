/**
 * What the build lists for an address: undefined where the address is of no file, so that the browser fetches it as
 * it would without a service worker. A folder stands for its index.html.
 * @param scope the address of the folder that the service worker serves
 */
export function listedFor(
  files: Readonly<Record<string, string>>,
  scope: string,
  address: string,
): string | undefined {
  if (!address.startsWith(scope)) return undefined;
  const path = pathOf(address.slice(scope.length).split(/[?#]/)[0]!);
  if (path === undefined) return undefined;
  const file = /(^|\/)$/.test(path) ? `${path}index.html` : path;
  return Object.hasOwn(files, file) ? files[file] : undefined;
}

/** Undefined for what is no path: a percent sign may stand for nothing. */
function pathOf(text: string): string | undefined {
  try {
    return decodeURI(text);
  } catch {
    return undefined;
  }
}
