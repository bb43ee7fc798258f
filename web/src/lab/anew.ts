/** A model that begins with drawn weights: its shape, its task, and an alphabet for its tokens. */
import { labConfig } from 'sinkscope';
import { pick, type Settings } from './settings';
import type { Setup } from './setup';

const FIRST = '<s>';
const VOCABULARY = 64;

function run(from: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => String.fromCodePoint(from.codePointAt(0)! + i));
}

/** How a token reads: triggers are ringed numbers, all others letters and digits. */
export function letters({ triggers, first }: Settings): readonly string[] {
  const plain = [...run('a', 26), ...run('A', 26), ...run('0', 10), '+', '='];
  const zero = first === 'fixed' ? FIRST : '*';
  return [zero, ...run('①', Number(triggers)), ...plain].slice(0, VOCABULARY);
}

/** A tokenizer.json in which every letter is a token. */
function tokenizerOf(words: readonly string[], isFixed: boolean): string {
  const special = {
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  };
  return JSON.stringify({
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: isFixed ? [{ id: 0, content: FIRST, ...special }] : [],
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    decoder: null,
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      vocab: Object.fromEntries(words.map((text, id) => [text, id])),
      merges: [],
    },
  });
}

export function setUp(settings: Settings): Setup {
  const { width, length } = settings;
  const sizes = { inner: 4 * Number(width), context: Number(length), vocabulary: VOCABULARY };
  const isFixed = settings.first === 'fixed';
  const words = letters(settings);
  const own = {
    tokenizer_class: 'PreTrainedTokenizerFast',
    ...(isFixed ? { bos_token: FIRST } : {}),
  };
  return {
    options: {
      config: labConfig({ ...pick(settings, true), ...sizes }),
      recipe: { ...pick(settings, false), first: isFixed ? 0 : -1 },
    },
    piece: (id) => words[id] ?? '',
    tokenizer: tokenizerOf(words, isFixed),
    tokenizerConfig: JSON.stringify(own, null, 2),
    ...(isFixed ? { first: FIRST } : {}),
  };
}
