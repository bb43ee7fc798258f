/**
 * Measures the processor time of opening a tokenizer as large as that of Gemma 3: 262,144 pieces, 520,000 merges,
 * 33 MB of indented JSON. Every measurement has its own process, as every tokenizer of a page has its own worker.
 *
 *     node tests/bench/large_tokenizer.mjs [processes]
 */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const PIECES = 262_144;

const LETTERS = [...'bdfghjklmnprstvwz', ...'aeiou'];

/**
 * Returns a tokenizer of words of one, two and three syllables, with a merge wherever two pieces meet. The words of
 * three syllables have a scattered order, so that neighbors differ, as in a natural vocabulary.
 */
function makeLargeTokenizer() {
  const starts = LETTERS.flatMap((a) => LETTERS.map((b) => a + b)).slice(-64);
  const syllables = starts.map((start, i) => start + 'nst'.slice(0, i % 4));
  const pairs = syllables.flatMap((a) => syllables.map((b) => [a, b]));
  const count = PIECES - LETTERS.length - 64 - pairs.length;
  const triples = Array.from({ length: count }, (_, i) => {
    const word = (i * 100_003) % 64 ** 3;
    return [syllables[word >> 12], ...pairs[word & 4095]];
  });
  const words = [...pairs, ...triples];
  const merges = words.flatMap((word) =>
    word.slice(1).map((_, i) => [word.slice(0, i + 1).join(''), word.slice(i + 1).join('')]),
  );
  const pieces = new Set([...LETTERS, ...syllables, ...words.map((word) => word.join(''))]);
  const vocab = Object.fromEntries([...pieces].map((piece, id) => [piece, id]));
  const model = { type: 'BPE', vocab, merges };
  return JSON.stringify({ version: '1.0', added_tokens: [], model }, null, 2);
}

async function measure() {
  const { openTokenizer } = await import('../../wasm/text/tokenizer.ts');
  const json = makeLargeTokenizer();
  globalThis.gc?.();
  const before = process.cpuUsage();
  const startTime = performance.now();
  const tokenizer = openTokenizer(json);
  const { user, system } = process.cpuUsage(before);
  const tokens = tokenizer.encode('abab');
  return {
    pieces: tokenizer.size,
    bytes: json.length,
    merges: JSON.parse(json).model.merges.length,
    cpu: (user + system) / 1e6,
    wall: (performance.now() - startTime) / 1e3,
    tokens: tokens.length,
  };
}

if (process.argv[2] === 'one') {
  console.log(JSON.stringify(await measure()));
} else {
  const self = fileURLToPath(import.meta.url);
  for (let i = 0; i < Number(process.argv[2] ?? 3); i++) {
    console.log(execFileSync(process.execPath, [self, 'one'], { encoding: 'utf8' }).trim());
  }
}
