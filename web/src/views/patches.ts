/** Draws attention over the patches of an image, in their rows and columns, with the picture itself if a recording has it. */
import { render } from 'lit';
import { defaults, type State } from '../ask/state';
import {
  isBidirectional,
  largestMagnitude,
  mapsOf,
  mean,
  ofHead,
  type Frame,
  type Head,
} from '../frame';
import { sequential } from '../plot/color';
import { choiceField } from '../page/controls';
import { createHeatmap, type Cell } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { quantity } from '../save/numbers';
import {
  capitalize,
  firstPromptWords,
  formatPercent,
  formatValue,
  headWords,
  modelName,
  stateWords,
  tokenText,
} from '../words';
import { addElement, setText, type View } from '../page/view';
import { createPicture } from './picture';

/** A patch has a high norm above this multiple of the median patch. */
const HIGH_NORM = 3;
const SINKS_NAMED = 3;

/** Returns the positions of the tokens of one kind: t text, i patches, s special. */
const tokensOfKind = ({ image }: Frame, kind: 't' | 'i' | 's'): number[] =>
  [...(image?.kinds ?? '')].flatMap((letter, t) => (letter === kind ? [t] : []));

const ofPatches = (frame: Frame, values: ArrayLike<number>): Float32Array =>
  Float32Array.from(tokensOfKind(frame, 'i'), (t) => values[t]!);

/** Returns the chosen query; -1 for the mean over all, which is the only choice where maps are pooled. */
const queryOf = (frame: Frame, { query }: Pick<State, 'query'>): number =>
  frame.pooled || !mapsOf(frame) ? -1 : Math.min(query, frame.T - 1);

/** Returns the attention of a query, or of all, on each token of the first prompt; NaN where the query does not see it. */
function attentionOnTokens(frame: Frame, at: Head, query: number): Float32Array {
  const { T, head } = frame;
  if (query >= 0) return mapsOf(frame)!.weights.subarray(query * T, (query + 1) * T);
  const alpha = head?.tensors.alpha;
  return alpha ? ofHead(alpha, head ?? at) : new Float32Array(T).fill(NaN);
}

/**
 * Returns the norms of patches as multiples of the median patch, and the patches with a high norm, in the hidden state
 * where one exceeds the median most; state 0 is the embedding.
 */
export function highNorms(frame: Frame) {
  const { data = [] } = frame.head?.tensors.hidden_norm ?? {};
  const states = Array.from({ length: data.length / frame.T }, (_, state) => {
    const norms = ofPatches(frame, data.slice(state * frame.T, (state + 1) * frame.T));
    const median = norms.toSorted()[norms.length >> 1]!;
    const multiples = norms.map((norm) => norm / median);
    return { state, multiples, largest: Math.max(...multiples) };
  });
  const none = { state: 0, multiples: new Float32Array(), largest: -1 };
  const found = states.reduce((best, one) => (one.largest > best.largest ? one : best), none);
  const patches = Array.from(found.multiples.keys()).filter((i) => found.multiples[i]! > HIGH_NORM);
  return { ...found, patches };
}

const sumAt = (values: ArrayLike<number>, places: readonly number[]): number =>
  places.reduce((sum, t) => sum + (Number.isNaN(values[t]) ? 0 : values[t]!), 0);

const tokenName = (frame: Frame, t: number): string =>
  tokensOfKind(frame, 't').includes(t) ? tokenText(frame, t) : (frame.tokens[t]?.text ?? '');

/** Says what the patches and the special tokens receive; of all queries only where all of them see every key. */
function shareWords(frame: Frame, query: number, weights: Float32Array): string {
  const who =
    query >= 0 ? `the query ${tokenName(frame, query)} gives` : 'the mean over all queries gives';
  const places = tokensOfKind(frame, 'i');
  if (!places.some((t) => weights[t]! >= 0))
    return `${who} the patches nothing: it is before them and does not see them.`;
  if (query < 0 && !isBidirectional(frame)) return 'means over the queries that see a patch.';
  const seen = weights.filter((weight) => !Number.isNaN(weight)).length;
  const seenPatches = places.filter((t) => !Number.isNaN(weights[t])).length;
  const sinks = tokensOfKind(frame, 's')
    .filter((t) => weights[t]! > 0)
    .sort((a, b) => weights[b]! - weights[a]!)
    .slice(0, SINKS_NAMED)
    .map((t) => `${tokenName(frame, t)} ${formatPercent(weights[t]!)}`);
  return (
    `${who} the ${seenPatches} patches ${formatPercent(sumAt(weights, places))}${sinks.length ? ` and of the special tokens ${sinks.join(', ')}` : ''}; ` +
    `uniform attention would give the patches ${formatPercent(seenPatches / seen)}.`
  );
}

/** Says which patch receives most, and which have a high norm. */
function says(frame: Frame, at: Head, state: Pick<State, 'query'> = defaults): string {
  if (!frame.image?.rows || !frame.head) return '';
  const query = queryOf(frame, state);
  const weights = attentionOnTokens(frame, at, query);
  const patchWeights = ofPatches(frame, weights);
  const head = capitalize(
    `${headWords(frame.head, frame)} of ${modelName(frame)}${firstPromptWords(frame)}`,
  );
  const shares = shareWords(frame, query, weights);
  const seen = patchWeights.filter((weight) => !Number.isNaN(weight));
  const strongest = patchWeights.indexOf(Math.max(...seen));
  const strongestWords = seen.length
    ? ` ${capitalize(tokenName(frame, tokensOfKind(frame, 'i')[strongest]!))} receives most, ${formatPercent(Math.max(...seen))}, ` +
      `${formatValue(Math.max(...seen) / mean(seen), 1)} times the mean patch.`
    : '';
  const { state: layer, largest, multiples, patches: high } = highNorms(frame);
  const ratio = `${formatValue(largest, 1)} times the median, ${stateWords(layer)}`;
  const received = formatPercent(high.reduce((sum, i) => sum + patchWeights[i]!, 0));
  const normWords = high.length
    ? `${high.length} of ${patchWeights.length} patches ${high.length > 1 ? 'have' : 'has'} a high norm (outlined; up to ${ratio}) and ${high.length > 1 ? 'receive' : 'receives'} ${received}.`
    : `No patch has a norm above ${HIGH_NORM} times the median patch; the largest is ${ratio}.`;
  return `${head}: ${shares}${strongestWords} ${multiples.length ? normWords : ''}`.trim();
}

/** Returns the choices of the query: all, each token that is no patch, and the chosen patch. */
function queryChoices(frame: Frame, query: number) {
  const kinds = frame.image!.kinds;
  const isListed = (t: number) => kinds[t] !== 'i' || t === query;
  const tokens = frame.tokens.flatMap((_, t) =>
    isListed(t) ? [[String(t), `${t}: ${tokenName(frame, t)}`] as const] : [],
  );
  return [['-1', 'all, their mean'] as const, ...(frame.pooled ? [] : tokens)];
}

export const patches: View = {
  name: 'patches',
  title: 'Attention by patch',
  question: 'Which patches of the image does the head attend to?',
  how:
    'Each cell is a patch of the image, in its row and column: the attention that it receives from the chosen query, or the ' +
    'mean over all queries. Choose the class token, a register or a text token from the list, or select a patch to see what it ' +
    `attends to. Outlined: patches whose hidden state has a norm above ${HIGH_NORM} times that of the median patch, in the layer where ` +
    'one exceeds it most. In the picture beside the map, patches that receive less are covered.',
  formula: 'A[q, k] of the patches k, or αₖ',
  source: 'high norms after Darcet et al., 2024 (arXiv 2309.16588); threshold of this project',
  reads: [],
  headReads: ['att', 'alpha', 'hidden_norm'],
  fits: ({ image }) => Boolean(image?.rows),
  numbers: (frame, at) => {
    const { rows = 0, cols = 0 } = frame.image ?? {};
    const { multiples } = highNorms(frame);
    const alpha = ofPatches(frame, attentionOnTokens(frame, at, -1));
    return [
      quantity('attention_on_patch', ['row', 'col'], { shape: [rows, cols], data: alpha }),
      quantity('norm_to_median', ['row', 'col'], { shape: [rows, cols], data: multiples }),
    ];
  },
  says,
  draw(root, { set, point, pointed, effect }) {
    const controls = addElement(root, 'lens');
    const legend = addElement(root, 'legend-place');
    const caption = addElement(root, 'caption', 'p');
    const pair = addElement(root, 'patches');
    let [places, cols]: [readonly number[], number] = [[], 1];
    const cellAt = (i: number): Cell => ({ row: Math.floor(i / cols), col: i % cols });
    const tokenAt = ({ row, col }: Cell) => places[row * cols + col] ?? -1;
    const cellOf = (token: number): Cell | undefined =>
      places.includes(token) ? cellAt(places.indexOf(token)) : undefined;
    const heatmap = createHeatmap(addElement(pair, 'plot'), {
      onPoint: (cell) => point(cell ? { key: tokenAt(cell) } : {}),
      onChoose: (cell) => set({ query: tokenAt(cell) }),
    });
    const drawPicture = createPicture(pair);
    effect(() => heatmap.highlight(cellOf(pointed.value.key ?? -1)));
    return (frame, { state, theme, at }) => {
      if (!frame.image?.rows || !frame.head) return;
      const { rows, cols: columnCount = 1, picture } = frame.image;
      [places, cols] = [tokensOfKind(frame, 'i'), columnCount];
      const query = queryOf(frame, state);
      const data = ofPatches(frame, attentionOnTokens(frame, at, query));
      const scale = sequential(theme, largestMagnitude([data]));
      const { multiples, patches: outlined } = highNorms(frame);
      const choose = (value: string) => set({ query: Number(value) });
      render(choiceField('Query', String(query), queryChoices(frame, query), choose), controls);
      drawLegend(legend, scale, ['attention 0', formatPercent(scale.high)]);
      const sentence = says(frame, at, state);
      setText(caption, sentence);
      heatmap.draw({
        ...{ rows, cols, data, scale },
        label: sentence,
        outlined: outlined.map(cellAt),
        chosen: cellOf(query),
        describe: (cell) => {
          if (cell.row < 0 || cell.col < 0) return '';
          const i = cell.row * cols + cell.col;
          const weight = Number.isNaN(data[i]) ? 'not visible' : formatPercent(data[i]!, 2);
          return `${tokenName(frame, tokenAt(cell))}: ${weight}, norm ${formatValue(multiples[i]!, 1)} times the median`;
        },
      });
      drawPicture(picture, { rows, cols, data });
    };
  },
};
