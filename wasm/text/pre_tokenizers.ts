/** The pre-tokenizers of a tokenizer.json, which split a text into the words of the model. */
import { BEHAVIORS, widthAt, type AlignedText } from './aligned.ts';
import { spellLetters } from './normalizers.ts';
import {
  compile,
  compileRegex,
  invertPattern,
  createLiteralMatcher,
  createMatcher,
} from './patterns.ts';
import { createStages, refuse, findRow } from './vocabulary.ts';
import type { Stage } from './shapes.ts';

type PreTokenizer = (text: AlignedText) => AlignedText[];

export const GPT2_WORDS =
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

export function isolate(pattern: string) {
  return { type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false };
}

const SPACE_PATTERN = createMatcher(/\p{White_Space}/gu);
const PUNCTUATION_PATTERN = createMatcher(/[\p{P}$+<=>^`|~]/gu);
const DIGIT_PATTERN = createMatcher(/\p{N}/gu);

/** Character classes of \w according to UTS 18 of Unicode. */
const WORD_CHARACTERS = '\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}';
const WORDS_OR_SIGNS = createMatcher(
  new RegExp(`[${WORD_CHARACTERS}]+|[^${WORD_CHARACTERS}\\p{White_Space}]+`, 'gu'),
);
const WORD_CHARACTER = new RegExp(`[${WORD_CHARACTERS}]`, 'u');

export const isWord = (character: string | undefined): boolean =>
  character !== undefined && WORD_CHARACTER.test(character);

export function createPreTokenizer(
  stage: Stage | null | undefined,
  where: string = 'pre_tokenizer',
): PreTokenizer {
  if (stage === null || stage === undefined) return (text) => [text];
  return findRow(PRE_TOKENIZERS, 'pre_tokenizer', stage)(stage, where);
}

const PRE_TOKENIZERS: Record<string, (stage: Stage, where: string) => PreTokenizer> = {
  Sequence({ pretokenizers }, where) {
    const stages = createStages(pretokenizers, `${where}.pretokenizers`, createPreTokenizer);
    return (text) => stages.reduce((texts, cut) => texts.flatMap(cut), [text]);
  },
  ByteLevel({ add_prefix_space, use_regex }) {
    const pattern = use_regex === false ? null : compileRegex(GPT2_WORDS);
    return (text) => {
      const needsPrefix = add_prefix_space === true && !text.text.startsWith(' ');
      const prefixedText = needsPrefix ? text.prepend(' ') : text;
      return (pattern ? prefixedText.split(pattern, 'Isolated') : [prefixedText]).map(spellLetters);
    };
  },
  Whitespace: () => (text) => text.split(invertPattern(WORDS_OR_SIGNS), 'Removed'),
  WhitespaceSplit: () => (text) => text.split(SPACE_PATTERN, 'Removed'),
  BertPreTokenizer: () => (text) =>
    text
      .split(SPACE_PATTERN, 'Removed')
      .flatMap((word) => word.split(PUNCTUATION_PATTERN, 'Isolated')),
  Punctuation({ behavior = 'Isolated' }, where) {
    checkBehavior(behavior, where);
    return (text) => text.split(PUNCTUATION_PATTERN, behavior);
  },
  Digits:
    ({ individual_digits }) =>
    (text) =>
      text.split(DIGIT_PATTERN, individual_digits ? 'Isolated' : 'Contiguous'),
  CharDelimiterSplit({ delimiter }, where) {
    const pattern = createLiteralMatcher(expectCharacter(delimiter, `${where}.delimiter`));
    return (text) => text.split(pattern, 'Removed');
  },
  Split({ pattern, behavior = '', invert: isInverted }, where) {
    checkBehavior(behavior, where);
    const compiledPattern = compile(pattern, where);
    const match = isInverted ? invertPattern(compiledPattern) : compiledPattern;
    return (text) => text.split(match, behavior);
  },
  FixedLength({ length = 5 }, where) {
    if (!Number.isInteger(length) || Number(length) <= 0)
      refuse(`${where}.length`, `expected a length above 0, got ${JSON.stringify(length)}`);
    return (text) => splitEvenly(text, Number(length));
  },
  Metaspace(stage, where) {
    const block = expectCharacter(stage.replacement ?? '\u2581', `${where}.replacement`);
    const scheme = readPrependScheme(stage, where);
    const [spacePattern, blockPattern] = [createLiteralMatcher(' '), createLiteralMatcher(block)];
    return (text) => {
      const blockText = text.replace(spacePattern, block);
      const needsPrefix = scheme === 'always' || (scheme === 'first' && blockText.start === 0);
      const prefixedText =
        needsPrefix && !blockText.text.startsWith(block) ? blockText.prepend(block) : blockText;
      return stage.split === false
        ? [prefixedText]
        : prefixedText.split(blockPattern, 'MergedWithNext');
    };
  },
};

function checkBehavior(behavior: string, where: string) {
  if (Object.hasOwn(BEHAVIORS, behavior)) return;
  refuse(`${where}.behavior`, `expected a way to split, got ${JSON.stringify(behavior)}`);
}

function expectCharacter(value: unknown, where: string) {
  if (typeof value === 'string' && [...value].length === 1) return value;
  return refuse(where, `expected one character, got ${JSON.stringify(value)}`);
}

/** Returns where Metaspace prepends a block; older files have `add_prefix_space` instead. */
function readPrependScheme(
  { prepend_scheme: scheme = 'always', add_prefix_space }: Stage,
  where: string,
) {
  if (add_prefix_space === false) return 'never';
  if (['always', 'first', 'never'].includes(scheme)) return scheme;
  const text = `expected "always", "first" or "never", got ${JSON.stringify(scheme)}`;
  return refuse(`${where}.prepend_scheme`, text);
}

function splitEvenly(text: AlignedText, length: number) {
  const words = [];
  for (let start = 0; start < text.text.length;) {
    let end = start;
    for (let i = 0; i < length && end < text.text.length; i++) end += widthAt(text.text, end);
    words.push(text.slice(start, end));
    start = end;
  }
  return words;
}
