/** Implements `describe` and `--version`, which print the tables and the version of this build. */
import { readFile } from 'node:fs/promises';
import { readError } from '../abi/errors.ts';
import type { Describe } from '../abi/types.ts';

export async function readVersion() {
  const file = new URL('../package.json', import.meta.url);
  return JSON.parse(await readFile(file, 'utf8')).version;
}

export function tablesText({ metrics, fields, edits, operations, families }: Describe) {
  const formatShape = (letters: readonly string[]) => `[${letters.join('][')}]`;
  const sections: [string, (readonly [string, string | undefined])[]][] = [
    ['Metrics', metrics.map((row) => [row.name, `${formatShape(row.shape)} ${row.question}`])],
    [
      'Fields of a run',
      fields.map((row) => [row.name, `${formatShape(row.shape)} ${row.meaning}`]),
    ],
    ['Edits', edits.map((row) => [row.name, row.meaning])],
    ['Attention operations', operations.map((row) => [row.name, row.formula])],
  ];
  const width = Math.max(...sections.flatMap(([, rows]) => rows.map(([name]) => name.length)));
  const lines = sections.map(
    ([title, rows]) =>
      `${title}\n${rows.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`).join('\n')}\n`,
  );
  return `${lines.join('\n')}\nFamilies (model_type in config.json)\n  ${families.join(', ')}\n`;
}

/** Reads the tables of this build with their texts, from the file next to the binaries. */
export async function readTables() {
  const file = new URL('../sinkscope.describe.json', import.meta.url);
  const text = await readFile(file, 'utf8').catch((error) => {
    const hint = 'in a checkout, web/serve --build-only builds it';
    throw readError(file.pathname, `could not be read (${error.code}); ${hint}`);
  });
  return JSON.parse(text) as Describe;
}
