import { readFile } from 'node:fs/promises';

const mutant = new URL(`../../${process.env.MUTANT}`, import.meta.url).href;

/** @type {import('node:module').LoadHook} */
export async function load(url, context, next) {
  if (url.split('?')[0] !== mutant) return next(url, context);
  return {
    format: mutant.endsWith('.ts') ? 'module-typescript' : 'module',
    shortCircuit: true,
    source: await readFile(/** @type {string} */ (process.env.MUTANT_TEXT), 'utf8'),
  };
}
