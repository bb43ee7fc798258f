/**
 * Draws one query and the keys that the query sees as arrows, each key with its measured length and angle to the query,
 * to show why the first key wins. Angles between two keys are not drawn.
 */
import { svg, render, type TemplateResult } from 'lit';
import { firstKey, groupOf, mean, ofHead, visibleKeyEnd, type Frame, type Head } from '../frame';
import { quantity } from '../save/numbers';
import { headWords, quote, show, withSign, word } from '../words';
import { addElement, setText, type View } from '../page/view';
import { queryRange, shownQuery } from './query';

const SIZE = { width: 620, height: 392, x: 310, y: 318, radius: 288 } as const;
/** The height of the axis below the arrows, which shows the projection of each tip onto the query. */
const AXIS = SIZE.y + 34;

interface Keys {
  readonly T: number;
  readonly cos: ArrayLike<number>;
  /** [T] */
  readonly norms: ArrayLike<number>;
}

function keysOf(frame: Frame, at: Head): Keys | undefined {
  const cos = frame.head?.tensors.qk_cos;
  const norms = frame.tensors.key_norm;
  // Returns nothing for a single token, whose key has no competitor.
  if (!cos || !norms || frame.T < 2) return undefined;
  const group = { layer: at.layer, head: groupOf(frame, at) };
  return { T: frame.T, cos: cos.data, norms: ofHead(norms, group) };
}

export interface Contest {
  /**
   * The number of queries after the first one, the number of these whose largest score is the first key's, and the
   * number of these whose largest cosine is the first key's.
   */
  readonly rows: number;
  readonly wins: number;
  readonly aligned: number;
  /** The mean cosine of the queries with the first key, and with the other keys. */
  readonly first: number;
  readonly others: number;
  /** The norm of the first key divided by the mean norm of the others. */
  readonly ratio: number;
}

/** Compares the first key with the others, over all queries that see more than one key. */
export function contestOf(frame: Frame, at: Head): Contest | undefined {
  const keys = keysOf(frame, at);
  if (!keys) return undefined;
  const { T, cos, norms } = keys;
  const [first, others]: [number[], number[]] = [[], []];
  let [wins, aligned] = [0, 0];
  const key = firstKey(frame);
  for (let t = key + 1; t < T; t++) {
    const firstCosine = cos[t * T + key]!;
    const rest = Array.from({ length: visibleKeyEnd(frame, t) }, (_, j) => j).filter(
      (j) => j !== key,
    );
    first.push(firstCosine);
    others.push(...rest.map((j) => cos[t * T + j]!));
    if (rest.every((j) => firstCosine * norms[key]! > cos[t * T + j]! * norms[j]!)) wins++;
    if (rest.every((j) => firstCosine > cos[t * T + j]!)) aligned++;
  }
  const ratio = norms[key]! / mean(Array.from(norms).filter((_, j) => j !== key));
  return { rows: T - 1 - key, wins, aligned, first: mean(first), others: mean(others), ratio };
}

/** Returns the answer in words, as far as the numbers support it. */
export function answerOf({ rows, wins, aligned, first, others }: Contest): string {
  const threshold = 0.75 * rows;
  // The first token's own query sees no other key.
  const quantifier = (count: number) => (count === rows ? 'Every later' : 'Almost every later');
  if (wins < threshold)
    return wins > 0.25 * rows
      ? 'In this head the first key wins for some tokens only.'
      : 'In this head the first key does not win.';
  if (aligned < threshold)
    return `${quantifier(wins)} token’s query scores highest with the first key, which wins by its length.`;
  if (first > 0 && others < 0)
    return first < -others
      ? `${quantifier(aligned)} token’s query points away from the other keys, and a little towards the first.`
      : `${quantifier(aligned)} token’s query points towards the first key and away from the others.`;
  return `${quantifier(aligned)} token’s query points more towards the first key than towards any other.`;
}

function sentence(frame: Frame, at: Head): string {
  const contest = contestOf(frame, at);
  if (!contest) return '';
  const { rows, wins, first, others, ratio } = contest;
  // Explains how a key wins although it is shorter than the others.
  const short =
    wins > rows / 2 && ratio < 0.8 && first > 0 && others < 0
      ? ' It wins although it is short: a score is a length times a cosine, so a key that points away scores below zero, however long it is.'
      : '';
  return (
    `${answerOf(contest)} In ${headWords(at, frame)} the cosine of query and key is ${withSign(first)} on average with the first ` +
    `key and ${withSign(others)} with the others; the first key is ${show(ratio)}× as long as these, and has the highest score in ` +
    `${wins} of ${rows} rows.${short}`
  );
}

/** Draws a line with a head of two strokes. */
function arrow(x: number, y: number, kind: string, title: string): TemplateResult {
  const length = Math.hypot(x, y);
  const size = Math.min(9, length / 2);
  const [ux, uy] = length ? [x / length, y / length] : [0, 0];
  const side = (sign: number) =>
    `${x - size * (ux + sign * 0.5 * uy)},${y - size * (uy - sign * 0.5 * ux)}`;
  return svg`<path class=${`arrow ${kind}`} d=${`M0,0L${x},${y}M${side(1)}L${x},${y}L${side(-1)}`}><title>${title}</title></path>`;
}

function picture(frame: Frame, { T, cos, norms }: Keys, query: number, label: string) {
  const keyEnd = visibleKeyEnd(frame, query);
  const longest = Math.max(...Array.from(norms));
  const { width, height, x, y, radius } = SIZE;
  const tips = Array.from({ length: keyEnd }, (_, j) => {
    const c = Math.max(-1, Math.min(1, cos[query * T + j]!));
    const size = (radius * norms[j]!) / longest;
    return { j, x: size * c, y: -size * Math.sqrt(1 - c * c) };
  }).filter((one) => Number.isFinite(one.x));
  // The first key is drawn on top of the others.
  const firstIndex = firstKey(frame);
  const order = [
    ...tips.filter(({ j }) => j !== firstIndex),
    ...tips.filter(({ j }) => j === firstIndex),
  ];
  const kind = (j: number) => (j === firstIndex ? 'first' : 'other');
  const first = tips.find(({ j }) => j === firstIndex);
  const laterTips = tips.filter(({ j }) => j !== firstIndex);
  // The label of the other keys is above the highest of them, inside the picture.
  const top = laterTips.length ? laterTips.reduce((a, b) => (b.y < a.y ? b : a)) : undefined;
  const [topX, topY] = [
    Math.max(110 - radius, Math.min(top?.x ?? 0, radius - 110)),
    Math.min(top?.y ?? 0, -40) - 10,
  ];
  return svg`<svg viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${label}>
    <g transform=${`translate(${x},${y})`}>
      <path class="ground" d=${`M${-radius},0A${radius},${radius} 0 0 1 ${radius},0Z`}></path>
      ${order.map((one) => arrow(one.x, one.y, kind(one.j), `key of ${quote(frame, one.j)}`))}
      ${arrow(radius, 0, 'query', `query of ${quote(frame, query)}`)}
      <text class="query" x=${radius} y="-8" text-anchor="end">query of ${quote(frame, query)}</text>
      ${top ? svg`<text x=${topX} y=${topY} text-anchor="middle">${laterTips.length > 1 ? `${laterTips.length} other keys` : `key of ${quote(frame, top.j)}`}</text>` : ''}
      ${first ? svg`<text class="first" x=${first.x + 8} y=${first.y - 6}>key of ${quote(frame, firstIndex)}</text>` : ''}
    </g>
    <path class="axis" d=${`M${x - radius},${AXIS}H${x + radius}`}></path>
    ${order.map((one) => svg`<circle class=${kind(one.j)} cx=${x + one.x} cy=${AXIS} r=${one.j === firstIndex ? 7 : 4}></circle>`)}
    <text class="note" x=${x + radius} y=${AXIS + 24} text-anchor="end">higher score →</text>
    <text class="note" x=${x - radius} y=${AXIS + 24}>← lower score</text>
  </svg>`;
}

export const arrows: View = {
  name: 'arrows',
  title: 'Queries and keys as arrows',
  question: 'Why does the first key win?',
  how:
    'The query of one token lies to the right. Each key has its measured angle to that query and its measured length; ' +
    'the score of a key is how far its arrow reaches along the query, before scaling and position biases.',
  formula: 'q·k = ‖q‖ ‖k‖ cos(q, k)',
  source: 'Gu et al., ICLR 2025, figure 2',
  reads: ['key_norm'],
  headReads: ['qk_cos'],
  numbers: ({ head, tensors }) => [
    quantity('cos', ['query', 'key'], head!.tensors.qk_cos!),
    quantity('key_norm', ['layer', 'kv_head', 'key'], tensors.key_norm!),
  ],
  says: sentence,
  draw(root, { set }) {
    const words = addElement(root, 'caption', 'p');
    const place = addElement(root, 'arrows');
    const choice = addElement(root, '');
    return (frame, { at, state, isPlain, isAnswered }) => {
      const keys = keysOf(frame, at);
      words.hidden = Boolean(isPlain);
      place.hidden = choice.hidden = !keys;
      if (!keys) return;
      const query = shownQuery(frame, state.query);
      const text = `query of token ${query}, ${word(frame.tokens[query]!.text)}`;
      const caption = sentence(frame, at);
      setText(words, isAnswered ? caption.replace(/^.*?\. (?=In head)/, '') : caption);
      render(picture(frame, keys, query, `Arrows for the ${text}. ${caption}`), place);
      render(queryRange(frame, state, set), choice);
    };
  },
};
