/** The folder of the program and of all its files, also where the program runs in another site's page. */
export const base = new URL('../', import.meta.url);

/** Returns an address on Sinkscope's page: in the program's folder, except for the npm package, which has no page. */
export const pageAt = (path: string) => new URL(path, HOME || base).href;

export const savesData = (): boolean =>
  Boolean((navigator as { connection?: { saveData?: boolean } }).connection?.saveData);
