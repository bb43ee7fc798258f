/**
 * Lists edits of the kinds that numeric tests do not notice: cache keys that omit something, released
 * resources, bounds, the first token's position, percent scales, defaults. `fresh.mjs --kinds`
 * draws them.
 */
import { createRequire } from 'node:module';
import { maskText } from './draw.mjs';

/** @typedef {import('./draw.mjs').Slip} Slip */
/** @typedef {import('typescript').Node} Node */

/** @type {typeof import('typescript')} */
const ts = createRequire(new URL('../../wasm/package.json', import.meta.url))('typescript');
const { SyntaxKind: Kind } = ts;

const RELEASE_NAMES =
  /^(close|clear\w*|remove\w*|delete|release\w*|terminate|end\w*|abort|cancel|forget|unsubscribe|unobserve|disconnect|revoke\w*|dispose|free|drop\w*|stop|unlink|destroy)$/;
/** Matches names of positions from which something is counted. */
const FIRST_NAMES =
  /^(first|at|from|begin|start|offset|before|front|position|resumed|index|\w+Index)$/;
const BORDERS = { '<': '<=', '<=': '<', '>': '>=', '>=': '>' };
const ROUNDS = { floor: 'ceil', ceil: 'floor', trunc: 'ceil', round: 'floor' };
const EQUALITIES = /^[!=]==?$/;

/**
 * Edits of JavaScript and TypeScript by kind: functions that get a node and return its replacement,
 * or undefined if the node allows none.
 * @type {Record<string, (node: Node, textOf: (node: Node) => string) => string | undefined>}
 */
const SCRIPT_EDITS = {
  key(node, textOf) {
    if (ts.isTemplateExpression(node) && node.templateSpans.length > 1) {
      const { parent } = node;
      const name = 'name' in parent && parent.name ? textOf(/** @type {Node} */ (parent.name)) : '';
      if (!/key/i.test(name)) return undefined;
      const [span] = node.templateSpans;
      return textOf(node).replace(`\${${textOf(span.expression)}}`, '');
    }
    // Drops one condition of several, if it compares two things.
    if (!ts.isBinaryExpression(node) || !/^(&&|\|\|)$/.test(textOf(node.operatorToken)))
      return undefined;
    const compares = (/** @type {Node} */ operand) =>
      ts.isBinaryExpression(operand) && EQUALITIES.test(textOf(operand.operatorToken));
    if (compares(node.right)) return textOf(node.left);
    return compares(node.left) ? textOf(node.right) : undefined;
  },
  release(node, textOf) {
    if (ts.isPropertyAccessExpression(node.parent ?? node)) return undefined;
    if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
      const { name, expression } = node.expression;
      if (name.text === 'finally') return textOf(expression);
    }
    if (!ts.isExpressionStatement(node)) return undefined;
    let call = node.expression;
    while (ts.isVoidExpression(call) || ts.isAwaitExpression(call)) call = call.expression;
    // x.close().catch(...) releases like x.close().
    while (
      ts.isCallExpression(call) &&
      ts.isPropertyAccessExpression(call.expression) &&
      /^(catch|then)$/.test(call.expression.name.text)
    )
      call = call.expression.expression;
    if (!ts.isCallExpression(call)) return undefined;
    const callee = call.expression;
    const name = ts.isPropertyAccessExpression(callee) ? textOf(callee.name) : textOf(callee);
    return RELEASE_NAMES.test(name.replace(/^#/, '')) ? ';' : undefined;
  },
  round(node, textOf) {
    if (!ts.isPropertyAccessExpression(node) || textOf(node.expression) !== 'Math')
      return undefined;
    const to = ROUNDS[/** @type {keyof typeof ROUNDS} */ (node.name.text)];
    return to && `Math.${to}`;
  },
  border(node, textOf) {
    if (!ts.isBinaryExpression(node)) return undefined;
    const to = BORDERS[/** @type {keyof typeof BORDERS} */ (textOf(node.operatorToken))];
    const [left, right] = [textOf(node.left), textOf(node.right)];
    // At the bound of a comparison that selects the larger or smaller of two values, both are equal.
    const { parent } = node;
    const isEither =
      ts.isConditionalExpression(parent) &&
      [left, right].sort().join() ===
        [textOf(parent.whenTrue), textOf(parent.whenFalse)].sort().join();
    // Where `Math.abs(x) < limit ? a : x > 0 ? b : c` asks for the sign, x is not 0.
    const isSign =
      right === '0' &&
      ts.isConditionalExpression(parent) &&
      ts.isConditionalExpression(parent.parent) &&
      parent.parent.whenFalse === parent &&
      textOf(parent.parent.condition).startsWith(`Math.abs(${left}) <`);
    // No computed number meets a tolerance exactly.
    const isTolerance = /\de-\d+$/.test(right);
    // No clock is read at the very moment of a limit.
    const isClock = /\bperformance\.now\(\)/.test(left + right);
    return to && !isEither && !isSign && !isTolerance && !isClock
      ? `${left} ${to} ${right}`
      : undefined;
  },
  first(node, textOf) {
    const isFirst = (/** @type {Node} */ node) =>
      (ts.isIdentifier(node) && FIRST_NAMES.test(node.text)) ||
      (ts.isPropertyAccessExpression(node) && FIRST_NAMES.test(node.name.text.replace(/^#/, '')));
    if (ts.isElementAccessExpression(node) && isFirst(node.argumentExpression))
      return `${textOf(node.expression)}[0]`;
    if (!ts.isBinaryExpression(node) || !/^[-+]$/.test(textOf(node.operatorToken)))
      return undefined;
    if (isFirst(node.right)) return textOf(node.left);
    return isFirst(node.left) && textOf(node.operatorToken) === '+'
      ? textOf(node.right)
      : undefined;
  },
  percent(node, textOf) {
    if (!ts.isBinaryExpression(node) || !/^[*/]$/.test(textOf(node.operatorToken)))
      return undefined;
    if (/^1000?$/.test(textOf(node.right))) return textOf(node.left);
    const isTimes = textOf(node.operatorToken) === '*';
    return isTimes && /^1000?$/.test(textOf(node.left)) ? textOf(node.right) : undefined;
  },
  default(node) {
    const { parent } = node;
    const isDefault =
      ((ts.isBindingElement(parent) || ts.isParameter(parent)) && parent.initializer === node) ||
      (ts.isBinaryExpression(parent) &&
        parent.right === node &&
        parent.operatorToken.kind === Kind.QuestionQuestionToken);
    if (!isDefault) return undefined;
    if (ts.isNumericLiteral(node)) return String(Number(node.text) + 1);
    if (node.kind === Kind.TrueKeyword) return 'false';
    return node.kind === Kind.FalseKeyword ? 'true' : undefined;
  },
};

/** A tolerance, which no computed number meets exactly. */
const TOLERANCE = String.raw`(?!\d[\d.]*e-\d)`;
const TERM_PATTERN = String.raw`[\w.>-]+(?:\[[\w.]+\])?`;

/**
 * Edits of C and Python by kind: pattern and replacement.
 * @type {Record<string, [RegExp, string | ((...found: string[]) => string)][]>}
 */
const LINE_EDITS = {
  key: [
    [
      RegExp(
        String.raw` (?:&&|\|\||and|or) ${TERM_PATTERN} (?:==|!=|is(?: not)?) ${TERM_PATTERN}(?=[ ;:),\]]|$)`,
        'gm',
      ),
      '',
    ],
    [
      RegExp(
        String.raw`(?<=[( ])${TERM_PATTERN} (?:==|!=) ${TERM_PATTERN} (?:&&|\|\||and|or) `,
        'g',
      ),
      '',
    ],
  ],
  release: [
    [
      /^( *)[\w.]*\.(?:close|unlink|clear|remove|release|terminate|join|shutdown|stop|end)\(.*\)$/gm,
      'pass',
    ],
    [/^( *)ss_\w*(?:close|free|release|reset|clear|forget|end|drop)\w*\(.*\);$/gm, ';'],
    [/^( *)memset\(.*\);$/gm, ';'],
  ],
  round: [
    [/\bmath\.floor\b/g, 'math.ceil'],
    [/\bmath\.ceil\b/g, 'math.floor'],
    [
      /-\(-[\w.]+(?:\([^()]*\)|\[[^[\]]*\])? \/\/ [\w.]+(?:\[[^[\]]*\])?\)/g,
      (match) => match.replace('-(-', '('),
    ],
    // Rounding down becomes rounding up, except in divisions by H or G, which have no remainder.
    [
      /(?<!-)(?<![\w.])(?!(?:\w+\.)*H \/)([\w.]+(?:\([^()]*\)|\[[^[\]]*\])?) \/\/ (?!(?:\w+\.)*[GH]\b)([\w.]+(?:\[[^[\]]*\])?)/g,
      (match) => `-(-${match})`,
    ],
    [/(?<!math\.)\bfloorf?\(/g, (match) => match.replace('floor', 'ceil')],
    [/(?<!math\.)\bceilf?\(/g, (match) => match.replace('ceil', 'floor')],
  ],
  border: [
    [RegExp(` < ${TOLERANCE}`, 'g'), ' <= '],
    [RegExp(` <= ${TOLERANCE}`, 'g'), ' < '],
    [RegExp(` > ${TOLERANCE}`, 'g'), ' >= '],
    [RegExp(` >= ${TOLERANCE}`, 'g'), ' > '],
  ],
  first: [
    [/ [-+] (?:self\.)?(?:first|at|begin|start|offset|resumed)\b(?![.([])/g, ''],
    [/(?<=[[ ,])(?:self\.)?(?:first|at)(?=\])/g, '0'],
  ],
  percent: [
    [/\b1000?(?:\.0?f?)? \* /g, ''],
    [/ [*/] 1000?(?:\.0?f?)?(?!\w)/g, ''],
  ],
  default: [
    [/(?<=\.get\(\0+, )\d+(?=\))/g, (match) => String(Number(match) + 1)],
    [/(?<=^ *(?:def |\w+: ).*= )\d+(?=[,)]|$)/gm, (match) => String(Number(match) + 1)],
    [/(?<=json_\w+\(.*, )\d+(?=\))/g, (match) => String(Number(match) + 1)],
  ],
};

export const KINDS = Object.keys(SCRIPT_EDITS);

/** @param {string} file @param {string} text @param {string} kind @returns {Slip[]} */
function slipsOf(file, text, kind) {
  if (!/\.[mc]?[jt]s$/.test(file)) {
    const code = maskText(file, text);
    return LINE_EDITS[kind].flatMap(([pattern, to]) =>
      [...code.matchAll(pattern)].map(({ index, 0: found, 1: indent = '' }) => ({
        at: index,
        from: text.slice(index, index + found.length),
        to: typeof to === 'string' ? indent + to : to(found),
      })),
    );
  }
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const textOf = (/** @type {Node} */ node) => node.getText(source);
  /** @type {Slip[]} */
  const list = [];
  const visit = (/** @type {Node} */ node) => {
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isInterfaceDeclaration(node))
      return;
    const to = node.parent && SCRIPT_EDITS[kind](node, textOf);
    if (to !== undefined) list.push({ at: node.getStart(source), from: textOf(node), to });
    ts.forEachChild(node, visit);
  };
  visit(source);
  return list;
}

/**
 * Returns all edits of the given kinds, each with its kind.
 * @param {string} file
 * @param {string} text
 * @param {readonly string[]} kinds
 * @returns {(Slip & { kind: string })[]}
 */
export function slipsOfKinds(file, text, kinds) {
  return kinds.flatMap((kind) => slipsOf(file, text, kind).map((slip) => ({ ...slip, kind })));
}
