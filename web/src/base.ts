/** The address of the folder with the program and all its files, also if the program runs on another site's page. */
export const base = new URL('../', import.meta.url);

/**
 * Returns an address on Sinkscope's page, which is in the program's folder, except in the npm package without a page.
 */
export const pageAt = (path: string) => new URL(path, HOME || base).href;
