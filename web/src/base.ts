/** The address of the program's folder, on whichever page it runs: all its parts are below it. */
export const base = new URL('../', import.meta.url);

/** The address of Sinkscope's page: the same folder, except in the npm package, which has no page. */
export const pageAt = (path: string) => new URL(path, HOME || base).href;
