/**
 * Which characters of the text each token covers.
 *
 *     text -> what the normalizer makes of it, and from where each unit came -> its UTF-8 -> tokens
 *
 * The tokens are walked along the bytes. A token that holds part of a character covers the whole
 * character, so neighbours may overlap. Where a tokenizer drops characters, the walk skips them;
 * where it adds some (a space before the first word), they are empty.
 */

/** @typedef {(token: string) => Uint8Array | string} Surface */

const encoder = new TextEncoder();

/** How far the walk looks for a token that is not where it is expected, in bytes. */
const REACH = 256;

/**
 * @param {string} text well-formed
 * @param {readonly string[]} tokens
 * @param {Surface} surface
 * @param {{ normalizer: ((text: string) => string) | null, added_tokens: readonly { content: string }[] }} library
 * @param {boolean} hasBlocks the sign U+2581 means a space
 * @returns {Uint32Array} [start, end] of each token, in UTF-16 units
 */
export function locate(text, tokens, surface, { normalizer, added_tokens: added }, hasBlocks) {
  const made = normalizer === null ? identity(text) : align(text, normalizer, added);
  // A space is as long as the sign in UTF-16, so that places in the text stay the same.
  if (hasBlocks) made.text = made.text.replaceAll('\u2581', ' ');
  const bytes = encoder.encode(made.text);
  const spans = spansOfBytes(made, bytes.length);
  return walk(tokens, surface, bytes, spans, text.length);
}

/**
 * A text with where each of its UTF-16 units came from: units [from[i], to[i]) of the original;
 * null where it is the original.
 * @typedef {{ text: string, from: Uint32Array | null, to: Uint32Array | null }} Made
 */

/**
 * @param {string} text
 * @returns {Made}
 */
function identity(text) {
  return { text, from: null, to: null };
}

/**
 * What the normalizer makes of the text between added tokens, which it does not touch.
 * @param {string} text
 * @param {(text: string) => string} normalizer
 * @param {readonly { content: string }[]} added
 * @returns {Made}
 */
function align(text, normalizer, added) {
  const sections = split(text, added);
  const made = sections.map((section, i) => (i % 2 ? section : normalizer(section)));
  const whole = made.join('');
  if (whole === text) return identity(text);
  const from = new Uint32Array(whole.length);
  const to = new Uint32Array(whole.length);
  let place = 0;
  let start = 0;
  sections.forEach((section, i) => {
    alignSection(section, made[i], normalizer, start, from.subarray(place), to.subarray(place));
    place += made[i].length;
    start += section.length;
  });
  return { text: whole, from, to };
}

/**
 * Sections at even places, added tokens at odd ones.
 * @param {string} text
 * @param {readonly { content: string }[]} added
 */
function split(text, added) {
  const names = added.map(({ content }) => content).filter((name) => text.includes(name));
  if (names.length === 0) return [text];
  names.sort((a, b) => b.length - a.length);
  const escaped = names.map((name) => name.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
  return text.split(new RegExp(`(${escaped.join('|')})`));
}

/** A character with its marks, or a run of Hangul letters: normal forms do not reach beyond. */
const CLUSTER = /[\u1100-\u11ff\uac00-\ud7a3]+\p{M}*|\P{M}\p{M}*|\p{M}+/gsu;

/**
 * Walks both texts cluster by cluster, and character by character where each has become what it is
 * alone; else the cluster has become what it is alone, or itself, or nothing.
 * @param {string} section
 * @param {string} made
 * @param {(text: string) => string} normalizer
 * @param {number} start of the section in the text
 * @param {Uint32Array} from
 * @param {Uint32Array} to
 */
function alignSection(section, made, normalizer, start, from, to) {
  const alone = remember((/** @type {string} */ part) => normalizer(part).slice(prefix.length));
  const prefix = prefixOf(normalizer);
  let at = 0;
  /** Of the section. */
  let aligned = 0;
  const put = (
    /** @type {number} */ length,
    /** @type {number} */ place,
    /** @type {string} */ part,
  ) => {
    from.fill(start + place, at, at + length);
    to.fill(start + place + part.length, at, at + length);
    at += length;
    if (length) aligned = place + part.length;
  };
  // What is put before a text belongs to its first character.
  if (made.startsWith(prefix)) put(prefix.length, 0, firstOf(section));
  for (const { 0: cluster, index } of section.matchAll(CLUSTER)) {
    const forms = [...cluster].map(alone);
    const whole = alone(cluster);
    if (whole && forms.join('') === whole && made.startsWith(whole, at)) {
      let place = index;
      for (const [i, character] of [...cluster].entries()) {
        put(forms[i].length, place, character);
        place += character.length;
      }
    } else {
      // What is dropped at an end of the text, as a space, may be kept inside of it.
      const form = [whole, cluster].find((text) => text && made.startsWith(text, at)) ?? '';
      put(form.length, index, cluster);
    }
  }
  // What several clusters became together covers all that follows what was aligned.
  from.fill(start + aligned, at);
  to.fill(start + section.length, at);
}

/**
 * @param {(part: string) => string} compute
 * @returns {(part: string) => string}
 */
function remember(compute) {
  /** @type {Map<string, string>} */
  const known = new Map();
  return (part) => {
    let result = known.get(part);
    if (result === undefined) known.set(part, (result = compute(part)));
    return result;
  };
}

/**
 * What the normalizer puts before any text.
 * @param {(text: string) => string} normalizer
 */
function prefixOf(normalizer) {
  const form = normalizer('a');
  return form.endsWith('a') ? form.slice(0, -1) : '';
}

/** @param {string} text */
function firstOf(text) {
  return text === '' ? '' : String.fromCodePoint(/** @type {number} */ (text.codePointAt(0)));
}

/**
 * For each byte the units of the original it belongs to, as [starts[byte], ends[byte]).
 * @param {Made} made
 * @param {number} n bytes
 */
function spansOfBytes({ text, from, to }, n) {
  const starts = new Uint32Array(n);
  const ends = new Uint32Array(n);
  let [byte, unit] = [0, 0];
  for (const character of text) {
    const code = /** @type {number} */ (character.codePointAt(0));
    const length = code < 0x80 ? 1 : code < 0x800 ? 2 : code > 0xffff ? 4 : 3;
    for (const end = byte + length; byte < end; byte++) {
      starts[byte] = from ? from[unit] : unit;
      ends[byte] = to ? to[unit] : unit + character.length;
    }
    unit += character.length;
  }
  return { starts, ends };
}

/**
 * @param {readonly string[]} tokens
 * @param {Surface} surface
 * @param {Uint8Array} bytes
 * @param {{ starts: Uint32Array, ends: Uint32Array }} spans
 * @param {number} end of the text
 */
function walk(tokens, surface, bytes, { starts, ends }, end) {
  const found = new Uint32Array(2 * tokens.length);
  const known = new Map();
  const bytesOf = (/** @type {string} */ token) => {
    let result = known.get(token);
    if (result === undefined) known.set(token, (result = toBytes(surface(token))));
    return result;
  };
  let at = 0;
  /** @type {number[]} Tokens whose text is not known yet: they reach to the next one that is found. */
  const open = [];
  const close = (/** @type {number} */ place) => {
    for (const i of open.splice(0)) found[2 * i + 1] = place;
  };
  tokens.forEach((token, i) => {
    const place = find(bytes, bytesOf(token), at);
    const from = starts[place ? place.start : at] ?? end;
    found[2 * i] = from;
    if (!place) return void open.push(i);
    close(from);
    found[2 * i + 1] = place.end > place.start ? ends[place.end - 1] : from;
    at = place.end;
  });
  close(end);
  return found;
}

/** @param {Uint8Array | string} surface */
function toBytes(surface) {
  return typeof surface === 'string' ? encoder.encode(surface) : surface;
}

/**
 * The place of the wanted bytes: here; here, less a space that the tokenizer put before them; or
 * behind bytes that it dropped.
 * @param {Uint8Array} bytes
 * @param {Uint8Array} wanted
 * @param {number} at
 */
function find(bytes, wanted, at) {
  if (matches(bytes, wanted, 0, at)) return { start: at, end: at + wanted.length };
  if (wanted[0] === 32 && matches(bytes, wanted, 1, at)) {
    return { start: at, end: at + wanted.length - 1 };
  }
  for (let start = at + 1; start <= at + REACH; start++) {
    if (matches(bytes, wanted, 0, start)) return { start, end: start + wanted.length };
  }
  return null;
}

/**
 * @param {Uint8Array} bytes
 * @param {Uint8Array} wanted
 * @param {number} skip bytes of wanted
 * @param {number} at
 */
function matches(bytes, wanted, skip, at) {
  for (let i = skip; i < wanted.length; i++) if (bytes[at + i - skip] !== wanted[i]) return false;
  return true;
}
