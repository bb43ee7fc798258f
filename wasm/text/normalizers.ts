/** Implements the normalizers of a tokenizer.json, which change the text before it is split. */
import { compile } from './patterns.ts';
import { spellBytes } from './surface.ts';
import { createStages, refuse, findRow } from './vocabulary.ts';
import type { AlignedText, Change } from './aligned.ts';
import type { Stage } from './shapes.ts';

export type Normalizer = (text: AlignedText) => AlignedText;

const keepText = (text: AlignedText) => text;

export function createNormalizer(
  stage: Stage | null | undefined,
  where: string = 'normalizer',
): Normalizer {
  if (stage === null || stage === undefined) return keepText;
  return findRow(NORMALIZERS, 'normalizer', stage)(stage, where);
}

const NORMALIZERS: Record<string, (stage: Stage, where: string) => Normalizer> = {
  Sequence({ normalizers }, where) {
    const stages = createStages(normalizers, `${where}.normalizers`, createNormalizer);
    return (text) => stages.reduce((normalized, change) => change(normalized), text);
  },
  Replace({ pattern, content }, where) {
    const match = compile(pattern, where);
    const replacement = expectText(content, `${where}.content`);
    return (text) => text.replace(match, replacement);
  },
  Prepend({ prepend }, where) {
    const prefix = expectText(prepend, `${where}.prepend`);
    return (text) => text.prepend(prefix);
  },
  Strip:
    ({ strip_left, strip_right }) =>
    (text) => {
      const { length } = text.text;
      const start = strip_left ? text.text.search(/\P{White_Space}|$/u) : 0;
      const end = strip_right ? length - countTrailingSpaces(text.text) : length;
      return start === 0 && end === length ? text : text.slice(start, Math.max(start, end));
    },
  StripAccents: () => createRemover(/\p{M}/u),
  Lowercase: () => lowercaseText,
  NFC: () => (text) => compose(text, 'NFD', 'NFC'),
  NFD: () => (text) => decompose(text, 'NFD'),
  NFKC: () => (text) => compose(text, 'NFKD', 'NFKC'),
  NFKD: () => (text) => decompose(text, 'NFKD'),
  Nmt: () => (text) => text.map(cleanNmtCharacter),
  ByteLevel: () => spellLetters,
  BertNormalizer(stage) {
    const { clean_text, handle_chinese_chars, strip_accents, lowercase } = stage;
    const steps = [
      clean_text && ((text: AlignedText) => text.map(cleanCharacter)),
      handle_chinese_chars &&
        ((text: AlignedText) => text.map((c) => (CHINESE_BLOCKS.test(c) ? ` ${c} ` : c))),
      (strip_accents ?? lowercase) &&
        ((text: AlignedText) => createRemover(/\p{Mn}/u)(decompose(text, 'NFD'))),
      lowercase && lowercaseText,
    ].filter((step) => typeof step === 'function');
    return (text) => steps.reduce((normalized, change) => change(normalized), text);
  },
};

function expectText(value: unknown, where: string) {
  return typeof value === 'string'
    ? value
    : refuse(where, `expected text, got ${JSON.stringify(value)}`);
}

/** Counts in a loop, since a regular expression with $ would scan every run of spaces. */
export function countTrailingSpaces(text: string) {
  let end = text.length;
  while (SPACE.test(text.charAt(end - 1))) end--;
  return text.length - end;
}

/** Matches a white-space character; each takes one unit. */
const SPACE = /\p{White_Space}/u;

const lowercaseText: Normalizer = (text) => text.map((character) => character.toLowerCase());

function createRemover(pattern: RegExp): Normalizer {
  return (text) => text.map((character) => (pattern.test(character) ? '' : character));
}

export const spellLetters: Normalizer = (text) => text.map(spellBytes);

/** The blocks of Chinese characters that the tokenizers library lists. */
const CHINESE_BLOCKS =
  /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/u;

function cleanCharacter(character: string) {
  if (/[\t\n\r]/.test(character)) return ' ';
  if (/[\ufffd\p{Cc}\p{Cf}\p{Co}]/u.test(character)) return '';
  return SPACE.test(character) ? ' ' : character;
}

function cleanNmtCharacter(character: string) {
  if (/[\x01-\x08\v\x0e-\x1f\x7f\x8f\x9f]/.test(character)) return '';
  return /[\t\n\f\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]/.test(character)
    ? ' '
    : character;
}

/** Takes a character's change count: that of its first entry which no earlier call has used. */
function createCountTaker(list: readonly Change[]) {
  const isUsed = new Uint8Array(list.length);
  let firstUnused = 0;
  return (character: string) => {
    let i = firstUnused;
    while (isUsed[i] || list[i][0] !== character) i++;
    isUsed[i] = 1;
    while (isUsed[firstUnused]) firstUnused++;
    return list[i][1];
  };
}

/** The first part replaces a character, the others are inserted, marks in Unicode's order. */
function listParts(text: string, form: 'NFD' | 'NFKD'): Change[] {
  const list: Change[] = [];
  for (const character of text)
    [...character.normalize(form)].forEach((part, i) => list.push([part, i > 0 ? 1 : 0]));
  const takeCount = createCountTaker(list);
  return [...text.normalize(form)].map((part) => [part, takeCount(part)]);
}

function decompose(text: AlignedText, form: 'NFD' | 'NFKD') {
  return text.text.normalize(form) === text.text
    ? text
    : text.transform(listParts(text.text, form));
}

function compose(text: AlignedText, decomposedForm: 'NFD' | 'NFKD', form: 'NFC' | 'NFKC') {
  const composedText = text.text.normalize(form);
  if (composedText === text.text) return text;
  const takeCount = createCountTaker(listParts(text.text, decomposedForm));
  return text.transform(
    Array.from(composedText, (character) => {
      const [firstCount, ...otherCounts] = Array.from(character.normalize('NFD'), takeCount);
      return [character, otherCounts.reduce((sum, change) => sum + change - 1, firstCount)];
    }),
  );
}
