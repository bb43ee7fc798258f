/** Where the page lies, whoever's page this runs in: every part of the program is in a folder of it. */
export const base = new URL('../', import.meta.url);

/** A page of Sinkscope's own: it lies there too, but for the npm package, which holds no page. */
export const pageAt = (path: string) => new URL(path, HOME || base).href;
