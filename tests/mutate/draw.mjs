/**
 * Draws small edits of a source text: one operator, constant or statement of one line is changed, as a slip
 * of a programmer would. Comments and strings are left alone, and so is the border of a comparison that takes
 * the larger or the smaller of two, which are equal there. The same seed draws the same edits.
 */

/** What is replaced by what; each stands for one kind of slip. @type {[RegExp, string | ((found: string) => string)][]} */
const SLIPS = [
  [/ < /g, ' <= '],
  [/ <= /g, ' < '],
  [/ > /g, ' >= '],
  [/ >= /g, ' > '],
  [/ === /g, ' !== '],
  [/ !== /g, ' === '],
  [/ == /g, ' != '],
  [/ != /g, ' == '],
  [/ \+ /g, ' - '],
  [/ - /g, ' + '],
  [/ \* /g, ' / '],
  [/ \/ /g, ' * '],
  [/ \+= /g, ' -= '],
  [/ -= /g, ' += '],
  [/ && /g, ' || '],
  [/ \|\| /g, ' && '],
  [/ and /g, ' or '],
  [/ or /g, ' and '],
  [/ not /g, ' '],
  [/\btrue\b/g, 'false'],
  [/\bfalse\b/g, 'true'],
  [/\bTrue\b/g, 'False'],
  [/\bFalse\b/g, 'True'],
  [/\bMath\.max\b/g, 'Math.min'],
  [/\bMath\.min\b/g, 'Math.max'],
  [/\bMath\.floor\b/g, 'Math.ceil'],
  [/(?<=[(\s])!(?=[\w(])/g, ''],
  [/(?<![\w.])\d+(?![\w.]|\s*[:=](?!=))/g, (found) => String(Number(found) + 1)],
  [/^( *)(?!return|const|let|import|export|case|break|continue)\w[\w.]*\(.*\);$/gm, ';'],
];

const MASKS = {
  c: /\/\*[\s\S]*?\*\/|\/\/.*|^\s*#.*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'/gm,
  js: /\/\*[\s\S]*?\*\/|\/\/.*|^import.*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\[\s\S]|[^`\\])*`/gm,
  py: /"""[\s\S]*?"""|#.*|^(?:from|import) .*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'/gm,
};

/** The larger or the smaller of two. */
const EITHER = /([\w.]+)( [<>]=? )([\w.]+) \? (?:\1 : \3|\3 : \1)(?![\w.[(])/g;

/** @param {string} file @returns {RegExp} */
const maskOf = (file) => MASKS[file.endsWith('.c') ? 'c' : file.endsWith('.py') ? 'py' : 'js'];

/**
 * Every edit that a text allows.
 * @param {string} file its name tells the language @param {string} text
 * @returns {{ at: number, from: string, to: string }[]}
 */
export function slips(file, text) {
  const code = text
    .replace(maskOf(file), (found) => found.replace(/[^\n]/g, '\0'))
    .replace(EITHER, (found, left, sign) =>
      found.replace(left + sign, left + '\0'.repeat(sign.length)),
    );
  return SLIPS.flatMap(([pattern, to]) =>
    [...code.matchAll(pattern)].map(({ index, 0: from }) => ({
      at: index,
      from: text.slice(index, index + from.length),
      to: typeof to === 'string' ? to : to(from),
    })),
  );
}

/** A generator of numbers in 0..1 (mulberry32). @param {number} seed @returns {() => number} */
export function numbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = state;
    x = Math.imul(x ^ (x >>> 15), x | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * Draws `count` edits of some files; a file is drawn as often as it has places to edit.
 * @param {Map<string, string>} texts by the name of the file @param {number} count @param {number} seed
 * @returns {{ file: string, line: number, before: string, after: string, text: string }[]}
 */
export function draw(texts, count, seed) {
  const all = [...texts].flatMap(([file, text]) =>
    slips(file, text).map((slip) => ({ file, text, ...slip })),
  );
  const next = numbers(seed);
  return Array.from({ length: Math.min(count, all.length) }, () => {
    const [{ file, text, at, from, to }] = all.splice(Math.floor(next() * all.length), 1);
    const edited = text.slice(0, at) + to + text.slice(at + from.length);
    const line = text.slice(0, at).split('\n').length;
    /** @param {string} whole */
    const shown = (whole) => whole.split('\n')[line - 1].trim();
    return { file, line, before: shown(text), after: shown(edited), text: edited };
  });
}
