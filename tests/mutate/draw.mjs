/**
 * Draws small edits of source code: each changes one operator, constant or statement in one line, like a programmer's
 * slip. Some code is not edited, because no test could notice:
 *
 * - comments, string literals, imports, types and assertions
 * - `<` in `a < b ? a : b`, since at equality both branches are the same
 * - in Python, flushing of output, frozen dataclasses and the description of a command
 * - in C, the size of a text buffer
 * - pixel positions, delays of timers, and a -1 that means none
 */
import { createRequire } from 'node:module';

/** @typedef {{ at: number, from: string, to: string }} Slip */

const CONFUSED_OPERATORS = Object.fromEntries(
  ['< <=', '> >=', '=== !==', '== !=', '+ -', '* /', '+= -=', '&& ||']
    .map((pair) => pair.split(' '))
    .flatMap(([firstOperator, secondOperator]) => [
      [firstOperator, secondOperator],
      [secondOperator, firstOperator],
    ]),
);
const escapeRegExp = (/** @type {string} */ sign) => sign.replace(/[+*|]/g, '\\$&');

/**
 * Replacements in C and in Python, one row per kind of slip.
 * @type {[RegExp, string | ((found: string) => string)][]}
 */
const SLIPS = [
  ...Object.entries(CONFUSED_OPERATORS).map(
    ([from, to]) =>
      /** @type {[RegExp, string]} */ ([RegExp(` ${escapeRegExp(from)} `, 'g'), ` ${to} `]),
  ),
  [/ and /g, ' or '],
  [/ or /g, ' and '],
  [/ not /g, ' '],
  [/\btrue\b/g, 'false'],
  [/\bfalse\b/g, 'true'],
  [/\bTrue\b/g, 'False'],
  [/\bFalse\b/g, 'True'],
  [/(?<=[(\s])!(?=[\w(])/g, ''],
  [/(?<![\w.])\d+(?![\w.]|\s*[:=](?!=))/g, (number) => String(Number(number) + 1)],
  [/^( *)(?!return|const|let|import|export|case|break|continue)\w[\w.]*\(.*\);$/gm, ';'],
];

const MASKS = {
  c: /\/\*[\s\S]*?\*\/|\/\/.*|^\s*#.*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'/gm,
  py: /"""[\s\S]*?"""|#.*|^(?:from|import) .*|\b(?:flush|frozen)=\w+|\bdescription=.*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'/gm,
};

/**
 * Matches the maximum or minimum of two operands; each may be a sum, a difference or a product.
 */
const MAX_OR_MIN =
  /((?:[\w.]+ [-+*] )?[\w.]+(?:\[\w+\])?)( [<>]=? )((?:[\w.]+ [-+*] )?[\w.]+(?:\[\w+\])?) \? (?:\1 : \3|\3 : \1)(?![\w.[(])/g;
/** Matches a -1 that means none in C: the last column of a row, or a returned -1. */
const MINUS_ONE_AS_NONE = /(?<=, )-1(?= ?\})|(?<=return )-1(?=;)/g;
/** Matches text buffers, where no test notices one more byte, and assertions, which are always true. */
const BUFFERS_AND_ASSERTIONS = /\bchar(?: \w+\[\d+\],?)+;|\bSS_ASSERT\(.*\);/g;

/**
 * Returns the code of C or Python with zeros in place of comments and texts.
 * @param {string} file
 * @param {string} text
 */
export const maskText = (file, text) =>
  text.replace(MASKS[file.endsWith('.c') ? 'c' : 'py'], (match) => match.replace(/[^\n]/g, '\0'));

/**
 * Returns every edit that a text allows.
 * @param {string} file the name, which determines the language
 * @param {string} text
 * @returns {Slip[]}
 */
export function slips(file, text) {
  if (/\.[mc]?[jt]s$/.test(file)) return slipsOfScript(file, text);
  const code = maskText(file, text)
    .replace(MINUS_ONE_AS_NONE, '\0\0')
    .replace(BUFFERS_AND_ASSERTIONS, (match) => '\0'.repeat(match.length))
    .replace(MAX_OR_MIN, (match, left, sign) =>
      match.replace(left + sign, left + '\0'.repeat(sign.length)),
    );
  return SLIPS.flatMap(([pattern, to]) =>
    [...code.matchAll(pattern)].map(({ index, 0: from }) => ({
      at: index,
      from: text.slice(index, index + from.length),
      to: typeof to === 'string' ? to : to(from),
    })),
  );
}

/** @type {Record<string, string>} */
const OPPOSITE_CALLS = { max: 'min', min: 'max', floor: 'ceil' };
/** Matches canvas calls, whose arguments are pixels. */
const CANVAS_CALLS =
  /^(fillRect|clearRect|strokeRect|rect|fillText|strokeText|moveTo|lineTo|arc|arcTo|quadraticCurveTo|bezierCurveTo|roundRect|drawImage|putImageData|translate|setLineDash)$/;
const TIMER_CALLS = /^(setTimeout|setInterval)$/;
const SIZE_PROPERTIES = /^(cellShape|width|height)$/;
/** Matches an attribute in a template that places or sizes something, up to its value. */
const LAYOUT_ATTRIBUTES =
  /\b(d|x|y|[xy][12]|[dc][xy]|r[xy]?|width|height|points|transform|viewBox|style|stroke-width|font-size)=("[^"]*|'[^']*)?$/;

/**
 * Returns the edits of JavaScript or TypeScript. TypeScript's parser recognizes types, texts, and
 * expressions inside texts.
 * @param {string} file
 * @param {string} text
 */
function slipsOfScript(file, text) {
  /** @type {typeof import('typescript')} */
  const ts = createRequire(new URL('../../wasm/package.json', import.meta.url))('typescript');
  const { SyntaxKind: Kind } = ts;
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  /** @type {Slip[]} */
  const scriptSlips = [];
  /** @typedef {import('typescript').Node} Node */
  /** @param {Node} node */
  const textOf = (node) => node.getText(source);
  /** @param {Node} node @param {string} to */
  const add = (node, to) => scriptSlips.push({ at: node.getStart(source), from: textOf(node), to });

  /** @param {import('typescript').BinaryExpression} node */
  const isEither = ({ left, right, parent }) =>
    ts.isConditionalExpression(parent) &&
    [textOf(left), textOf(right)].sort().join() ===
      [textOf(parent.whenTrue), textOf(parent.whenFalse)].sort().join();

  /** Returns whether a node is a text, also one written over several lines. @param {Node} node @returns {boolean} */
  const isText = (node) =>
    ts.isStringLiteralLike(node) ||
    ts.isTemplateExpression(node) ||
    (ts.isBinaryExpression(node) && isText(node.left) && isText(node.right));

  /**
   * Returns whether a -1 means none, as in { layer: -1 }, key = -1, ?? -1 and return -1; there -2 would mean
   * the same.
   * @param {Node} node
   */
  const isNone = ({ parent }) =>
    ts.isReturnStatement(parent) ||
    ('initializer' in parent && 'name' in parent) ||
    (ts.isBinaryExpression(parent) && parent.operatorToken.kind === Kind.QuestionQuestionToken);

  /** @param {Node} node @param {boolean} isPlace */
  const visit = (node, isPlace) => {
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isInterfaceDeclaration(node))
      return ts.isExpressionWithTypeArguments(node) ? visit(node.expression, isPlace) : undefined;
    if (ts.isBinaryExpression(node)) {
      const to = CONFUSED_OPERATORS[textOf(node.operatorToken)];
      const isBorder = /^[<>]/.test(textOf(node.operatorToken)) && isEither(node);
      const isPixel = isPlace && /^[-+]$/.test(textOf(node.operatorToken));
      if (
        to &&
        !isBorder &&
        !isText(node) &&
        !(isPixel && [node.left, node.right].some(ts.isNumericLiteral))
      )
        add(node.operatorToken, to);
    } else if (node.kind === Kind.TrueKeyword) add(node, 'false');
    else if (node.kind === Kind.FalseKeyword) add(node, 'true');
    else if (ts.isPrefixUnaryExpression(node) && node.operator === Kind.ExclamationToken)
      scriptSlips.push({ at: node.getStart(source), from: '!', to: '' });
    else if (ts.isNumericLiteral(node) && /^\d+$/.test(textOf(node))) {
      const { parent } = node;
      const isName = 'name' in parent && parent.name === node;
      if (!isName && !isPlace) add(node, String(Number(node.text) + 1));
    } else if (ts.isPropertyAccessExpression(node) && textOf(node.expression) === 'Math') {
      const to = OPPOSITE_CALLS[node.name.text];
      if (to) add(node.name, to);
    } else if (ts.isExpressionStatement(node) && ts.isCallExpression(node.expression)) {
      if (!textOf(node).includes('\n') && node.expression.expression.kind !== Kind.SuperKeyword)
        add(node, ';');
    }
    if (ts.isVariableDeclaration(node) && /_MS$/.test(textOf(node.name))) return undefined;
    if (textOf(node) === '-1' && isNone(node)) return undefined;
    if (ts.isPropertyAssignment(node) && SIZE_PROPERTIES.test(textOf(node.name)))
      return visit(node.initializer, true);
    if (ts.isTemplateSpan(node)) {
      const { templateSpans, head } = node.parent;
      const before = templateSpans[templateSpans.indexOf(node) - 1]?.literal ?? head;
      const isTagged = ts.isTaggedTemplateExpression(node.parent.parent);
      return visit(node.expression, isPlace || (isTagged && LAYOUT_ATTRIBUTES.test(before.text)));
    }
    if (ts.isCallExpression(node)) {
      const callee = node.expression;
      const name = ts.isPropertyAccessExpression(callee) ? callee.name.text : textOf(callee);
      visit(callee, isPlace);
      node.arguments.forEach((argument, i) =>
        visit(argument, isPlace || CANVAS_CALLS.test(name) || (TIMER_CALLS.test(name) && i > 0)),
      );
      return undefined;
    }
    return ts.forEachChild(node, (child) => visit(child, isPlace));
  };
  visit(source, false);
  return scriptSlips;
}

/**
 * Returns a function that draws random numbers between 0 and 1 (mulberry32).
 * @param {number} seed
 * @returns {() => number}
 */
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
 * Draws `count` edits of some files; a file's chance is proportional to its number of possible
 * edits. If edits have kinds, the kinds alternate.
 * @param {Map<string, string>} texts contents by the name of the file
 * @param {number} count
 * @param {number} seed
 * @param {(file: string, text: string) => (Slip & { kind?: string })[]} [slipsOf]
 * @returns {{ file: string, line: number, before: string, after: string, text: string, kind?: string }[]}
 */
export function draw(texts, count, seed, slipsOf = slips) {
  /** @type {Map<string | undefined, (Slip & { file: string, text: string, kind?: string })[]>} */
  const byKind = new Map();
  for (const [file, text] of texts)
    for (const slip of slipsOf(file, text)) {
      const kindSlips = byKind.get(slip.kind) ?? [];
      byKind.set(slip.kind, kindSlips);
      kindSlips.push({ file, text, ...slip });
    }
  const kinds = [...byKind.values()];
  const total = kinds.reduce((sum, { length }) => sum + length, 0);
  const random = numbers(seed);
  return Array.from({ length: Math.min(count, total) }, () => {
    const kindSlips = /** @type {typeof kinds[number]} */ (kinds.shift());
    const [{ file, text, at, from, to, kind }] = kindSlips.splice(
      Math.floor(random() * kindSlips.length),
      1,
    );
    if (kindSlips.length) kinds.push(kindSlips);
    const editedText = text.slice(0, at) + to + text.slice(at + from.length);
    const line = text.slice(0, at).split('\n').length;
    /** @param {string} text */
    const lineOf = (text) => text.split('\n')[line - 1].trim();
    return { file, line, before: lineOf(text), after: lineOf(editedText), text: editedText, kind };
  });
}
