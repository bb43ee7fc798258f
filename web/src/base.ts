/** Where the page lies, whoever's page this runs in: every part of the program is in a folder of it. */
export const base = new URL('../', import.meta.url);
