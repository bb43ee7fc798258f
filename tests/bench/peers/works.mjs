/**
 * Lists which operations are timed on which file, and their texts. The page that times and the script that runs
 * PyTorch both read this list.
 *
 *     tests/node tests/bench/peers/works.mjs FOLDER [FILE...]     writes these files or all, and prints the rows of each
 */
import { SHAPES, randomFile } from './gguf.mjs';

/** Files, named `shape.type`, and the rows of each. The row `key` replaces the last token of a text that was run. */
export const TABLE = {
  'gpt2.f32': [
    ...['decode', 'decode 256', 'key 64', 'read 64, all logits', 'read 64', 'measure 64'],
    ...['read 256, all logits', 'read 256', 'measure 256'],
  ],
  'gpt2.q8_0': ['decode', 'read 64', 'read 256'],
  'smollm2.f32': ['decode', 'decode 256', 'key 256', 'read 256', 'measure 256'],
  'smollm2.q8_0': ['decode', 'key 64', 'read 64'],
  'smollm2.q4_1': ['decode', 'key 64', 'read 64'],
  'zoo.f32': ['decode', 'read 64', 'measure 64', 'read 128', 'measure 128'],
  'zoo.i8': ['decode', 'read 64', 'measure 64', 'read 128'],
};

export const SHIPPED = { file: 'zoo.i8', folder: 'models/zoo/lr-1e-3' };

export function parsed(row) {
  const [, kind, T] = row.match(/^(\w+) ?(\d*)/);
  return { kind, T: Number(T || 64), all: row.endsWith('all logits') };
}

/** Returns the name of a row's text. Several rows may share a text. */
export const textName = (row) => (parsed(row).kind === 'decode' ? row : `${parsed(row).T}`);

export function textOf(file, row) {
  const { V } = SHAPES[file.split('.')[0]].sizes;
  const { kind, T } = parsed(row);
  return {
    tokens: Array.from({ length: T }, (_, i) => (i * 7919 + i * i * 31 + 11) % V),
    steps: Array.from({ length: kind === 'decode' ? 8 : 0 }, (_, i) => (i * 997) % V),
  };
}

if (globalThis.process?.argv[1] === new URL(import.meta.url).pathname) {
  const { writeFileSync } = await import('node:fs');
  const [folder, ...names] = process.argv.slice(2);
  const chosenEntries = Object.entries(TABLE).filter(
    ([file]) => !names.length || names.includes(file),
  );
  const fileOrders = chosenEntries.map(([file, rows]) => {
    const [shape, type] = file.split('.');
    const path = file === SHIPPED.file ? undefined : `${folder}/${file}.gguf`;
    if (path) writeFileSync(path, randomFile(shape, type));
    const texts = rows.map((row) => {
      const { tokens, steps } = textOf(file, row);
      return [textName(row), [...tokens, ...steps]];
    });
    return { file, path, texts: Object.fromEntries(texts) };
  });
  console.log(JSON.stringify({ shipped: SHIPPED, asked: fileOrders }));
}
