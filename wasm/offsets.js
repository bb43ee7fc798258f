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

/** How far the walk looks for a token that does not stand where it is expected, in bytes. */
const REACH = 256;

/**
 * @param {string} text well-formed
 * @param {readonly string[]} tokens
 * @param {Surface} surface
 * @param {{ normalizer: ((text: string) => string) | null, added_tokens: readonly { content: string }[] }} library
 * @param {boolean} isByteLevel else the sign U+2581 means a space
 * @returns {Uint32Array} [start, end] of each token, in UTF-16 units
 */
export function locate(text, tokens, surface, { normalizer, added_tokens: added }, isByteLevel) {
  const made = normalizer === null ? identity(text) : align(text, normalizer, added);
  // A space is as long as the sign in UTF-16, so that places in the text stay the same.
  if (!isByteLevel) made.text = made.text.replaceAll('\u2581', ' ');
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
 * Walks both texts cluster by cluster; each cluster has become what it is alone, if that stands
 * there, or itself, or nothing.
 * @param {string} section
 * @param {string} made
 * @param {(text: string) => string} normalizer
 * @param {number} start of the section in the text
 * @param {Uint32Array} from
 * @param {Uint32Array} to
 */
function alignSection(section, made, normalizer, start, from, to) {
  /** @type {Map<string, string>} */
  const known = new Map();
  const alone = (/** @type {string} */ cluster) => {
    let result = known.get(cluster);
    if (result === undefined) known.set(cluster, (result = normalizer(cluster)));
    return result;
  };
  let at = 0;
  for (const { 0: cluster, index } of section.matchAll(CLUSTER)) {
    const forms = [alone(cluster), cluster, stripFirst(alone(cluster))];
    let form = forms.find((form) => form && made.startsWith(form, at));
    // The normalizer put something before the first cluster: it came from nowhere.
    if (form === undefined && at === 0 && made.startsWith(cluster, 1)) {
      from[0] = to[0] = start;
      at = 1;
      form = cluster;
    }
    for (const end = at + (form?.length ?? 0); at < end; at++) {
      from[at] = start + index;
      to[at] = start + index + cluster.length;
    }
  }
  from.fill(start + section.length, at, made.length);
  to.fill(start + section.length, at, made.length);
}

/**
 * Without its first character: "\u2581a" is "a" alone, behind another word.
 * @param {string} form
 */
function stripFirst(form) {
  return form.length > 1 ? form.slice(1) : '';
}

/**
 * For each byte the units of the original it belongs to, as [from..., to...]; the last of each is
 * the end.
 * @param {Made} made
 * @param {number} n bytes
 */
function spansOfBytes({ text, from, to }, n) {
  const starts = new Uint32Array(n + 1);
  const ends = new Uint32Array(n + 1);
  let byte = 0;
  for (let i = 0; i < text.length;) {
    const code = /** @type {number} */ (text.codePointAt(i));
    const units = code > 0xffff ? 2 : 1;
    const length = code < 0x80 ? 1 : code < 0x800 ? 2 : code > 0xffff ? 4 : 3;
    for (const end = byte + length; byte < end; byte++) {
      starts[byte] = from ? from[i] : i;
      ends[byte] = to ? to[i + units - 1] : i + units;
    }
    i += units;
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
  /** Tokens whose text is not known yet: they reach to the next one that is found. */
  let open = 0;
  const close = (/** @type {number} */ i, /** @type {number} */ place) => {
    for (; open < i; open++) found[2 * open + 1] = Math.max(found[2 * open], place);
  };
  tokens.forEach((token, i) => {
    const place = find(bytes, bytesOf(token), at);
    const start = place ? place.start : at;
    found[2 * i] = start < bytes.length ? starts[start] : end;
    if (!place) return;
    close(i, found[2 * i]);
    found[2 * i + 1] = place.end > place.start ? ends[place.end - 1] : found[2 * i];
    open = i + 1;
    at = place.end;
  });
  close(tokens.length, end);
  return found;
}

/** @param {Uint8Array | string} surface */
function toBytes(surface) {
  return typeof surface === 'string' ? encoder.encode(surface) : surface;
}

/**
 * Where the wanted bytes stand: here; here, less a space that the tokenizer put before them; or
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
  for (let start = at + 1; start <= at + REACH && start < bytes.length; start++) {
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
  if (at + wanted.length - skip > bytes.length) return false;
  for (let i = skip; i < wanted.length; i++) if (bytes[at + i - skip] !== wanted[i]) return false;
  return true;
}
