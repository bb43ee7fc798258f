/** Draws a query and its keys as arrows of measured length and angle to the query: why does the first key win? */
import { svg, render, type TemplateResult } from 'lit';
import { firstKey, groupOf, mean, ofHead, visibleKeyEnd, type Frame, type Head } from '../frame';
import { quantity } from '../save/numbers';
import { firstPromptWords, headWords, quote, formatValue, formatSigned, tokenWord } from '../words';
import { addElement, setText, type View } from '../page/view';
import { queryRange, shownQuery } from './query';

const SIZE = { width: 620, height: 334, x: 310, y: 260, radius: 230 } as const;
/** The y coordinate of the axis below the arrows, which shows the projection of each tip onto the query. */
const AXIS_Y = SIZE.y + 34;

/** Returns the cosines [T, T] of queries and keys, and the norms [T] of keys, of the first prompt, if drawable. */
function keyVectorsOf(frame: Frame, at: Head) {
  const cos = frame.head?.tensors.qk_cos;
  const norms = frame.head?.tensors.key_norm;
  // A single token's key has no other key to compare with.
  if (!cos || !norms || frame.T < 2) return undefined;
  const group = { layer: at.layer, head: groupOf(frame, at) };
  return { cos: cos.data, norms: ofHead(norms, group) };
}

/** Compares the first key with the others over all queries that see it. */
export function compareKeys(frame: Frame, at: Head) {
  const vectors = keyVectorsOf(frame, at);
  if (!vectors) return undefined;
  const { T } = frame;
  const { cos, norms } = vectors;
  const key = firstKey(frame);
  // The means are those of `cos_gap`, with the first token's own query, which sees no other key.
  const [firstCosines, otherCosines]: [number[], number[]] = [[cos[key * T + key]!], []];
  let [winCount, alignedCount, alignedWinCount] = [0, 0, 0];
  for (let t = key + 1; t < T; t++) {
    const firstCosine = cos[t * T + key]!;
    const otherKeys = Array.from({ length: visibleKeyEnd(frame, t) }, (_, j) => j).filter(
      (j) => j !== key,
    );
    firstCosines.push(firstCosine);
    otherCosines.push(...otherKeys.map((j) => cos[t * T + j]!));
    const wins = otherKeys.every((j) => firstCosine * norms[key]! > cos[t * T + j]! * norms[j]!);
    const isAligned = otherKeys.every((j) => firstCosine > cos[t * T + j]!);
    winCount += Number(wins);
    alignedCount += Number(isAligned);
    alignedWinCount += Number(wins && isAligned);
  }
  return {
    /** The number of queries after the first one. */
    rowCount: T - 1 - key,
    /** The number of these queries that score highest with the first key, and whose cosine with it is the largest. */
    winCount,
    alignedCount,
    /** The number of queries that the first key would also win if all keys had the same length. */
    alignedWinCount,
    firstCosine: mean(firstCosines),
    otherCosine: mean(otherCosines),
    /** The norm of the first key divided by the mean norm of the others. */
    normRatio: norms[key]! / mean(norms.filter((_, j) => j !== key)),
  };
}

type KeyComparison = NonNullable<ReturnType<typeof compareKeys>>;

export function answerOf(comparison: KeyComparison): string {
  const { rowCount, winCount, alignedCount, alignedWinCount, firstCosine, otherCosine } =
    comparison;
  const threshold = 0.75 * rowCount;
  const quantifier = (count: number) => (count === rowCount ? 'Every later' : 'Almost every later');
  if (winCount < threshold)
    return winCount > 0.25 * rowCount
      ? 'In this head the first key wins for some tokens only.'
      : `In ${winCount ? 'most rows of ' : ''}this head the first key does not win.`;
  if (alignedCount < threshold) {
    const reason = alignedWinCount > 0.25 * winCount ? 'direction and its length' : 'length';
    return `${quantifier(winCount)} token’s query scores highest with the first key, which wins by its ${reason}.`;
  }
  if (firstCosine > 0 && otherCosine < 0)
    return firstCosine < -otherCosine
      ? `${quantifier(alignedCount)} token’s query points away from the other keys on average, and less far towards the first.`
      : `${quantifier(alignedCount)} token’s query points towards the first key and, on average, away from the others.`;
  return `${quantifier(alignedCount)} token’s query points more towards the first key than towards any other.`;
}

function sentence(frame: Frame, at: Head): string {
  const comparison = compareKeys(frame, at);
  if (!comparison) return '';
  const { rowCount, winCount, firstCosine, otherCosine, normRatio } = comparison;
  // Explains why a key that is shorter than the others wins.
  const shortKeyNote =
    winCount > rowCount / 2 && normRatio < 0.8 && firstCosine > 0 && otherCosine < 0
      ? ' It wins although it is short: a score is a length times a cosine, so a key that points away scores below zero, however long it is.'
      : '';
  return (
    `${answerOf(comparison)} In ${headWords(at, frame)}${firstPromptWords(frame)} the cosine of query and key is ${cosineWords(firstCosine)} on average with the first ` +
    `key and ${cosineWords(otherCosine)} with the others; the first key is ${formatValue(normRatio)}× as long as these, and has the highest score in ` +
    `${winWords(winCount, rowCount)}.${shortKeyNote}`
  );
}

/** Formats a cosine: one of thousandths is 0.00, and no power of ten. */
const cosineWords = (cosine: number): string =>
  cosine && Math.abs(cosine) < 0.005 ? '0.00' : formatSigned(cosine);

/** Says in how many of the rows after the first one the first key has the highest score. */
function winWords(count: number, of: number): string {
  if (!count) return 'no later row';
  if (of === 1) return 'the one later row';
  if (count === of) return of === 2 ? 'both later rows' : `all ${of} later rows`;
  return `${count} of the ${of} later rows`;
}

function drawArrow(x: number, y: number, kind: string, title: string): TemplateResult {
  const length = Math.hypot(x, y);
  const headSize = Math.min(9, length / 2);
  const [ux, uy] = length ? [x / length, y / length] : [0, 0];
  const barbAt = (sign: number) =>
    `${x - headSize * (ux + sign * 0.5 * uy)},${y - headSize * (uy - sign * 0.5 * ux)}`;
  return svg`<path class=${`arrow ${kind}`} d=${`M0,0L${x},${y}M${barbAt(1)}L${x},${y}L${barbAt(-1)}`}><title>${title}</title></path>`;
}

function drawPicture(
  frame: Frame,
  { cos, norms }: NonNullable<ReturnType<typeof keyVectorsOf>>,
  query: number,
  label: string,
) {
  const keyEnd = visibleKeyEnd(frame, query);
  const maxNorm = Math.max(...norms);
  const { width, height, x, y, radius } = SIZE;
  const tips = Array.from({ length: keyEnd }, (_, j) => {
    const c = Math.max(-1, Math.min(1, cos[query * frame.T + j]!));
    const length = (radius * norms[j]!) / maxNorm;
    return { j, x: length * c, y: -length * Math.sqrt(1 - c * c) };
  }).filter((tip) => Number.isFinite(tip.x));
  const firstIndex = firstKey(frame);
  const kindOf = (j: number) => (j === firstIndex ? 'first' : 'other');
  const firstTip = tips.find(({ j }) => j === firstIndex);
  const otherTips = tips.filter(({ j }) => j !== firstIndex);
  // The first key is drawn on top of the others.
  const drawingOrder = firstTip ? [...otherTips, firstTip] : otherTips;
  // The label of the other keys is above the highest of them, inside the picture.
  const [highestTip] = otherTips.toSorted((a, b) => a.y - b.y);
  const [topX, topY] = [
    Math.max(110 - radius, Math.min(highestTip?.x ?? 0, radius - 110)),
    Math.min(highestTip?.y ?? 0, -40) - 10,
  ];
  return svg`<svg viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${label}>
    <g transform=${`translate(${x},${y})`}>
      <path class="ground" d=${`M${-radius},0A${radius},${radius} 0 0 1 ${radius},0Z`}></path>
      ${drawingOrder.map((tip) => drawArrow(tip.x, tip.y, kindOf(tip.j), `key of ${quote(frame, tip.j)}`))}
      ${drawArrow(radius, 0, 'query', `query of ${quote(frame, query)}`)}
      <text class="query" x=${radius} y="-8" text-anchor="end">query of ${quote(frame, query)}</text>
      ${highestTip ? svg`<text x=${topX} y=${topY} text-anchor="middle">${otherTips.length > 1 ? `${otherTips.length} other keys` : `key of ${quote(frame, highestTip.j)}`}</text>` : ''}
      ${firstTip ? svg`<text class="first" x=${firstTip.x + 8} y=${firstTip.y - 6}>key of ${quote(frame, firstIndex)}</text>` : ''}
    </g>
    <path class="axis" d=${`M${x - radius},${AXIS_Y}H${x + radius}M${x},${AXIS_Y - 6}v12`}></path>
    <text class="note" x=${x} y=${AXIS_Y + 24} text-anchor="middle">score 0</text>
    ${drawingOrder.map((tip) => svg`<circle class=${kindOf(tip.j)} cx=${x + tip.x} cy=${AXIS_Y} r=${tip.j === firstIndex ? 7 : 4}></circle>`)}
    <text class="note" x=${x + radius} y=${AXIS_Y + 24} text-anchor="end">higher score →</text>
    <text class="note" x=${x - radius} y=${AXIS_Y + 24}>← lower score</text>
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
  reads: [],
  headReads: ['qk_cos', 'key_norm'],
  numbers: ({ head }) => [
    quantity('cos', ['query', 'key'], head!.tensors.qk_cos!),
    quantity('key_norm', ['layer', 'kv_head', 'key'], head!.tensors.key_norm!),
  ],
  says: sentence,
  draw(root, { set }) {
    const captionElement = addElement(root, 'caption', 'p');
    const plot = addElement(root, 'arrows');
    const slider = addElement(root, '');
    return (frame, { at, state, isPlain, isAnswered }) => {
      const vectors = keyVectorsOf(frame, at);
      captionElement.hidden = Boolean(isPlain);
      plot.hidden = slider.hidden = !vectors;
      if (!vectors) return;
      const query = shownQuery(frame, state.query);
      const queryText = `query of token ${query}, ${tokenWord(frame.tokens[query]!.text)}`;
      const caption = sentence(frame, at);
      setText(captionElement, isAnswered ? caption.replace(/^.*?\. (?=In head)/, '') : caption);
      render(drawPicture(frame, vectors, query, `Arrows for the ${queryText}. ${caption}`), plot);
      render(queryRange(frame, state, set), slider);
    };
  },
};
