/**
 * Tests random tokenizers under a time limit: each gives tokens or an error with a code, or is ended by the
 * caller; never another error, an id out of range or a span outside of the text.
 *
 *     FUZZ_ROUNDS=1000000 FUZZ_SECONDS=600 FUZZ_SEED=2 node --test tests/wasm/tokenizer_fuzz.test.mjs
 */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import { openTokenizer } from '../../wasm/index.ts';

const { FUZZ_ROUNDS = 1500, FUZZ_SECONDS = 60, FUZZ_SEED = 1 } = process.env;
/** Milliseconds after which a call without an answer is ended. */
const LIMIT_MS = 1000;

class Draw {
  #state;

  constructor(seed) {
    this.#state = Math.imul(seed, 0x9e3779b1) >>> 0;
  }

  below(n) {
    this.#state = (Math.imul(this.#state ^ (this.#state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5) >>> 0;
    return Math.floor((this.#state / 2 ** 32) * n);
  }

  of(list) {
    return list[this.below(list.length)];
  }

  some(countMax, make) {
    return Array.from({ length: this.below(countMax + 1) }, () => make(this));
  }
}

const STRANGE_VALUES = [null, true, -1, 0.5, 1e300, '', 'x', '__proto__', [], [[]], {}, undefined];
const WORDS = ['a', 'b', 'ab', ' a', '▁a', 'Ġa', '##b', 'é', '😀', '\ufeff', '<0x41>', '</w>', ' '];
const PATTERN_ATOMS = [
  'a',
  '.',
  '\\s',
  '\\S',
  '[a-z ]',
  '[^a]',
  '\\p{L}',
  '\\p{N}',
  "'s",
  '\\d',
  '\\1',
  '$',
];
const REPEATS = ['', '', '', '*', '+', '?', '{2,}', '{1,3}', '*?', '{40}'];
const MARKS = ['(', ')', '[', '\\', '(?<', '|', '{', '(?i:', '\\A', '(?!\\S)', '\\p{Xx}'];

function pattern(draw, depth = 0) {
  const part = () => {
    if (draw.below(40) === 0) return draw.of(MARKS);
    const open = draw.of(['(?:', '(', '(?=', '(?!']);
    const isGroup = depth < 3 && draw.below(4) === 0;
    return (
      (isGroup ? `${open}${pattern(draw, depth + 1)})` : draw.of(PATTERN_ATOMS)) + draw.of(REPEATS)
    );
  };
  return [part(), ...draw.some(3, part)].join(draw.of(['', '', '|']));
}

const mostly = (draw, times, make) => (draw.below(times) ? make(draw) : draw.of(STRANGE_VALUES));
const drawPattern = (draw) =>
  mostly(draw, 20, () => draw.of([{ Regex: pattern(draw) }, { String: draw.of(WORDS) }]));
const replace = (draw) => ({
  type: 'Replace',
  pattern: drawPattern(draw),
  content: draw.of(['', 'aa', '▁', ' ']),
});
const BEHAVIORS = [
  'Isolated',
  'Contiguous',
  'Removed',
  'MergedWithPrevious',
  'MergedWithNext',
  'x',
];
const flags = (draw, ...names) =>
  Object.fromEntries(names.map((name) => [name, mostly(draw, 9, () => draw.below(2) === 1)]));

/** Stages by the place where they belong. A random tokenizer may have any of them anywhere. */
const STAGES = {
  normalizers: [
    (draw) => ({
      type: draw.of(['NFC', 'NFD', 'NFKC', 'NFKD', 'Lowercase', 'StripAccents', 'Nmt']),
    }),
    (draw) => ({ type: 'Strip', ...flags(draw, 'strip_left', 'strip_right') }),
    (draw) => ({ type: 'Prepend', prepend: draw.of(WORDS) }),
    (draw) => ({ type: 'BertNormalizer', ...flags(draw, 'clean_text', 'lowercase') }),
    (draw) => ({ type: 'Precompiled', precompiled_charsmap: draw.of(['', 'AAAA', '%', null]) }),
    replace,
  ],
  pretokenizers: [
    (draw) => ({
      type: 'Split',
      pattern: drawPattern(draw),
      behavior: draw.of(BEHAVIORS),
      ...flags(draw, 'invert'),
    }),
    (draw) => ({ type: 'ByteLevel', ...flags(draw, 'add_prefix_space', 'use_regex') }),
    (draw) => ({
      type: draw.of(['Whitespace', 'WhitespaceSplit', 'BertPreTokenizer', 'Punctuation']),
    }),
    (draw) => ({ type: 'Digits', ...flags(draw, 'individual_digits') }),
    (draw) => ({ type: 'Metaspace', replacement: '▁', prepend_scheme: draw.of(['always', 'x']) }),
    (draw) => ({ type: 'FixedLength', length: draw.of([1, 3, ...STRANGE_VALUES]) }),
    replace,
  ],
  decoders: [
    (draw) => ({ type: draw.of(['ByteLevel', 'ByteFallback', 'Fuse', 'BPEDecoder', 'CTC']) }),
    (draw) => ({ type: 'Strip', content: ' ', start: draw.below(3), stop: draw.below(3) }),
    (draw) => ({ type: 'WordPiece', prefix: '##', ...flags(draw, 'cleanup') }),
    (draw) => ({ type: 'Metaspace', replacement: '▁', ...flags(draw, 'add_prefix_space') }),
    replace,
  ],
};

function stage(draw, key, depth = 0) {
  const choice = draw.below(40);
  if (choice === 0) return draw.of(STRANGE_VALUES);
  if (choice === 1) return { type: draw.of(['Klingon', 'constructor', '']) };
  if (choice < 14 && depth < 3) {
    return { type: 'Sequence', [key]: draw.some(4, () => stage(draw, key, depth + 1)) };
  }
  return draw.of(STAGES[draw.below(20) ? key : draw.of(Object.keys(STAGES))])(draw);
}

function model(draw) {
  const names = [
    ...new Set([...'abc dĠ▁\u0100', 'ab', 'Ġa', ...draw.some(9, () => draw.of(WORDS)), '<unk>']),
  ];
  const vocab = Object.fromEntries(names.map((name, id) => [name, draw.below(300) ? id : 7]));
  const unk_token = draw.of(['<unk>', null, 'nothing']);
  const pieces = names.map((name) => [name, -draw.below(9)]);
  const merges = draw.of([[], [], ['a b'], [['a', 'b']], [['Ġ', 'a'], 'a  b'], ['a a']]);
  const common = { unk_token, ...flags(draw, 'fuse_unk', 'byte_fallback', 'ignore_merges') };
  const otherModels = [
    { type: 'WordPiece', vocab, ...common, continuing_subword_prefix: draw.of(['##', '', null]) },
    { type: 'Unigram', vocab: pieces, ...common, unk_id: draw.of([0, names.length, null]) },
    { type: 'WordLevel', vocab, ...common },
    draw.of(STRANGE_VALUES),
  ];
  return draw.below(2) ? { type: 'BPE', vocab, merges, ...common } : draw.of(otherModels);
}

const piece = (draw) =>
  draw.of([
    { SpecialToken: { id: draw.of(WORDS), type_id: 0 } },
    { Sequence: { id: 'A', type_id: 0 } },
  ]);
const drawAddedToken = (draw) => ({
  id: draw.below(40),
  content: draw.of([...WORDS, '<s>', '.*', '(']),
  ...flags(draw, 'special', 'normalized', 'lstrip', 'rstrip', 'single_word'),
});

function tokenizer(draw) {
  return {
    model: model(draw),
    normalizer: draw.of([null, stage(draw, 'normalizers')]),
    pre_tokenizer: draw.of([null, stage(draw, 'pretokenizers')]),
    decoder: draw.of([null, stage(draw, 'decoders')]),
    post_processor: draw.of([null, { type: 'TemplateProcessing', single: draw.some(3, piece) }]),
    added_tokens: draw.of([undefined, draw.some(5, drawAddedToken)]),
  };
}

const LINES = [
  '',
  'Ab  cd 12\n\tthe "é😀漢" <s> the\u2581',
  'a'.repeat(60),
  ' '.repeat(60),
  '\ufeff\ud83d<',
];

function checkTokens(text, tokens, size) {
  for (const { id, start, end, text: shownText } of tokens) {
    assert.ok(Number.isInteger(id) && id >= 0 && id < size, `id ${id} of ${size}`);
    assert.ok(
      0 <= start && start <= end && end <= text.length,
      `[${start}, ${end}) of ${text.length}`,
    );
    assert.equal(typeof shownText, 'string');
  }
}

function execute(seed) {
  const draw = new Draw(seed);
  const file = tokenizer(draw);
  const config = draw.of([{}, { bos_token: draw.of(WORDS), remove_space: true }]);
  const counts = { rounds: 1, opened: 0, encoded: 0 };
  try {
    const fuzzedTokenizer = openTokenizer(draw.below(2) ? JSON.stringify(file) : file, config);
    counts.opened = 1;
    for (const text of LINES) {
      const tokens = fuzzedTokenizer.encode(text);
      checkTokens(text, tokens, fuzzedTokenizer.size);
      assert.equal(typeof fuzzedTokenizer.decode(tokens.map(({ id }) => id)), 'string');
      counts.encoded++;
    }
  } catch (error) {
    if (error.name !== 'SinkscopeError') throw error;
    assert.match(error.code, /^(bad_tokenizer|unsupported)$/);
    assert.ok(error.where && error.text, String(error));
  }
  return counts;
}

function fuzzRange({ from, to }) {
  // A tokenizer calls console.warn if it ignores an unknown setting.
  const warnings = [];
  console.warn = (...words) => warnings.push(words.join(' '));
  for (let seed = from; seed < to; seed++) {
    parentPort.postMessage({ seed });
    try {
      const counts = execute(seed);
      assert.deepEqual(warnings.splice(0), []);
      parentPort.postMessage({ seed, counts });
    } catch (error) {
      parentPort.postMessage({ seed, failure: error.stack });
    }
  }
}

/** Runs seeds in a worker until one does not answer, or time is up. Returns the seed from which to continue. */
function watchWorker(range, tally, endTime) {
  return new Promise((resolve) => {
    const options = { workerData: range, resourceLimits: { maxOldGenerationSizeMb: 1024 } };
    const worker = new Worker(fileURLToPath(import.meta.url), options);
    let seed = range.from;
    let timer;
    const endWorker = (nextRange) => {
      clearTimeout(timer);
      worker.removeAllListeners('message');
      worker.terminate().then(() => resolve(nextRange));
    };
    const isSilent = () => endWorker((tally.ended++, seed + 1));
    worker.on('message', (message) => {
      clearTimeout(timer);
      timer = setTimeout(isSilent, LIMIT_MS);
      seed = message.seed;
      if (message.failure) tally.failures.push(`seed ${seed}: ${message.failure}`);
      if (message.counts) for (const key in message.counts) tally[key] += message.counts[key];
      if (performance.now() > endTime) endWorker(range.to);
    });
    worker.on('error', isSilent);
    worker.on('exit', () => seed === range.to - 1 && endWorker(range.to));
  });
}

if (isMainThread) {
  test('random tokenizers give tokens or an error, or are ended', async () => {
    const tally = { rounds: 0, opened: 0, encoded: 0, ended: 0, failures: [] };
    const endTime = performance.now() + 1000 * FUZZ_SECONDS;
    const firstSeed = 1e6 * Number(FUZZ_SEED);
    const range = { from: firstSeed, to: firstSeed + Number(FUZZ_ROUNDS) };
    let seed = range.from;
    while (seed < range.to && tally.failures.length < 9)
      seed = await watchWorker({ ...range, from: seed }, tally, endTime);
    const { failures, ...counts } = tally;
    console.log(JSON.stringify(counts));
    assert.deepEqual(failures, []);
    // Each outcome must occur, or this tests nothing.
    assert.ok(tally.opened > 9 && tally.encoded > 9, JSON.stringify(counts));
  });
} else fuzzRange(workerData);
