/** Draws which experts each token is routed to, to show whether the first token has experts of its own. */
import { firstPromptWeights, layerNumber, mean, modelHead, type Frame } from '../frame';
import { drawChart } from '../plot/chart';
import { sequential } from '../plot/color';
import { createHeatmap, type Cell } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { quantity } from '../save/numbers';
import { firstPromptWords, formatPercent, quote, formatValue } from '../words';
import { cacheLast, addElement, setText, type View } from '../page/view';

/** Returns the weight of each expert for one token, [E]; 0 for an expert that was not chosen. */
function weightsOf(frame: Frame, layer: number, token: number): Float32Array {
  const { E } = frame.architecture;
  const offset = (layer * frame.T + token) * E;
  return (frame.tensors.router!.data as Float32Array).subarray(offset, offset + E);
}

/** Returns the weights of a layer's experts, [E, T]. */
export function weightsByExpert(frame: Frame, layer: number): Float32Array {
  const { T, architecture } = frame;
  const data = new Float32Array(architecture.E * T);
  for (let t = 0; t < T; t++)
    weightsOf(frame, layer, t).forEach((weight, e) => (data[e * T + t] = weight));
  return data;
}

/** Returns the share of tokens that are routed to each expert, [L, E]. */
export function expertLoads(frame: Frame): Float32Array {
  const { L, E } = frame.architecture;
  const counts = new Float32Array(L * E);
  for (let l = 0; l < L; l++)
    for (let t = 0; t < frame.T; t++)
      weightsOf(frame, l, t).forEach((weight, e) => (counts[l * E + e]! += weight > 0 ? 1 : 0));
  return counts.map((count) => count / frame.T);
}

/** Returns the experts' weights by layer, [L, E]: the first token's, or the mean of the others (NaN without any). */
export function weightsByLayer(frame: Frame, tokenKind: 'first' | 'others'): Float32Array {
  const { L, E } = frame.architecture;
  const [from, end] = tokenKind === 'first' ? [0, 1] : [1, frame.T];
  return Float32Array.from({ length: L * E }, (_, i) => {
    const [l, e] = [Math.floor(i / E), i % E];
    const weights = Array.from({ length: end - from }, (_, t) => weightsOf(frame, l, from + t)[e]!);
    return mean(weights);
  });
}

export function expertsOf(frame: Frame, layer: number, token: number): number[] {
  const weights = weightsOf(frame, layer, token);
  return [...weights.entries()]
    .filter(([, weight]) => weight > 0)
    .sort(([, a], [, b]) => b - a)
    .map(([e]) => e);
}

function sentence(frame: Frame, layer: number): string {
  const expertSet = (token: number) =>
    expertsOf(frame, layer, token)
      .sort((a, b) => a - b)
      .join();
  const laterSets = Array.from({ length: frame.T - 1 }, (_, i) => expertSet(i + 1));
  const sameShare =
    laterSets.filter((experts) => experts === expertSet(0)).length / laterSets.length;
  const sameNote = laterSets.length
    ? `; ${formatPercent(sameShare, 0)} of the other tokens use the same`
    : '';
  const weights = weightsOf(frame, layer, 0);
  const experts = expertsOf(frame, layer, 0).map((e) => `${e} (${formatValue(weights[e]!)})`);
  const alphas = firstPromptWeights(frame);
  const alphaNote = alphas ? ` Its largest α₁: ${formatValue(Math.max(...alphas))}.` : '';
  return (
    `Layer ${layerNumber(frame, layer)}${firstPromptWords(frame)}: the first token, ${quote(frame, 0)}, is routed to expert ${experts.join(' and ')}` +
    `${sameNote}.${alphaNote}`
  );
}

function formatCell(frame: Frame, layer: number, expert: number, token: number): string {
  if (token < 0) return '';
  const tokenName = `token ${token} ${quote(frame, token)}`;
  if (expert < 0) return `${tokenName}: expert ${expertsOf(frame, layer, token).join(' and ')}`;
  const weight = weightsOf(frame, layer, token)[expert];
  return `${tokenName}, expert ${expert}: ${weight ? `weight ${formatValue(weight, 3)}` : 'not selected'}`;
}

const LAYER_TITLES = { first: 'first token', others: 'mean of the others' } as const;

const layerTitle = (frame: Frame, layer: number) =>
  `layer ${layerNumber(frame, layer)} of ${frame.title}`;

/** Draws the share of the tokens that a layer routes to each expert. */
function drawLoads(chart: HTMLElement, frame: Frame, loads: Float32Array, layer: number): void {
  const { E, chosen } = frame.architecture;
  const values = loads.subarray(layer * E, (layer + 1) * E);
  const loadWords = [...values].map((load) => formatPercent(load, 0)).join(', ');
  drawChart(chart, {
    kind: 'bars',
    xLabel: 'expert',
    yLabel: 'load',
    domain: [0, 1],
    percent: true,
    label: `Load of the experts in ${layerTitle(frame, layer)}: ${loadWords} of the tokens.`,
    series: [
      { name: 'tokens routed to it', color: '--query', values },
      { name: 'uniform load', color: '--ink-3', values: values.map(() => chosen! / E) },
    ],
  });
}

export const router: View = {
  name: 'router',
  title: 'Router',
  question: 'Does the first token have its own experts?',
  how:
    'In each layer a router sends every token to a few experts. Column: token; ' +
    'color: weight of each expert. Is the load balanced, and is the first ' +
    'token routed like the others?',
  reads: ['router', 'alpha'],
  fits: ({ architecture }) => architecture.E > 0,
  numbers: (frame) => {
    const { L, E } = frame.architecture;
    return [
      quantity('router_weight', ['layer', 'token', 'expert'], frame.tensors.router!),
      quantity('load', ['layer', 'expert'], { shape: [L, E], data: expertLoads(frame) }),
    ];
  },
  says: (frame, { layer }) => sentence(frame, layer),
  draw(root, api) {
    let head = 0;
    let drawnFrame: Frame | undefined;
    const captionElement = addElement(root, 'caption', 'p');
    const legend = addElement(root, 'legend-place');
    const tokenMap = createHeatmap(addElement(root, 'plot'), {
      onPoint: (cell) => api.point(cell ? { query: cell.col, key: cell.col } : {}),
      onChoose: ({ col }) => api.set({ query: col, key: -1 }),
    });
    api.effect(() => {
      const { query = -1 } = api.pointed.value;
      tokenMap.highlight(query < 0 ? undefined : { row: -1, col: query });
    });
    const chart = addElement(root, 'chart');
    const pair = addElement(root, 'pair');
    const layerMaps = (['first', 'others'] as const).map((tokenKind) => {
      const plot = addElement(pair, 'plot');
      addElement(plot, 'subtitle', 'p').textContent =
        tokenKind === 'first' ? 'first token, by layer' : LAYER_TITLES.others;
      const onChoose = ({ row: layer }: Cell) =>
        drawnFrame && api.set(modelHead(drawnFrame, { layer, head }));
      return { tokenKind, map: createHeatmap(plot, { onChoose }) };
    });
    const cachedNumbers = cacheLast((frame: Frame) => ({
      loads: expertLoads(frame),
      layerWeights: layerMaps.map(({ tokenKind }) => weightsByLayer(frame, tokenKind)),
    }));
    const tokenWeights = cacheLast((frame: Frame) =>
      cacheLast((layer: number) => weightsByExpert(frame, layer)),
    );
    return (frame, { theme, at, state }) => {
      const { layer } = at;
      const { T, title } = frame;
      const { L, E } = frame.architecture;
      head = at.head;
      drawnFrame = frame;
      const scale = sequential(theme);
      const { loads, layerWeights } = cachedNumbers(frame);
      setText(captionElement, sentence(frame, layer));
      drawLegend(legend, scale, ['weight 0', '1']);
      tokenMap.draw({
        rows: E,
        cols: T,
        data: tokenWeights(frame)(layer),
        scale,
        rowTitle: 'expert',
        colTitle: 'token',
        // Cells are square unless the map would be higher than wide, or more than four times as wide as high.
        cellShape: Math.min((4 * E) / T, Math.max(1, E / T)),
        label: `Weights of ${E} experts for ${T} tokens in ${layerTitle(frame, layer)}.`,
        chosen: state.query >= 0 ? { row: -1, col: state.query } : undefined,
        describe: ({ row, col }) => formatCell(frame, layer, row, col),
      });
      drawLoads(chart, frame, loads, layer);
      layerMaps.forEach(({ tokenKind, map }, i) => {
        const data = layerWeights[i]!;
        map.draw({
          rows: L,
          cols: E,
          data,
          scale,
          rowTitle: 'layer',
          rowWords: Array.from({ length: L }, (_, l) => String(layerNumber(frame, l))),
          colTitle: 'expert',
          cellShape: 1.4,
          label: `Weights of the experts by layer, ${LAYER_TITLES[tokenKind]}, of ${title}.`,
          chosen: { row: layer, col: -1 },
          describe: ({ row, col }) =>
            row < 0 || col < 0
              ? ''
              : `layer ${layerNumber(frame, row)}, expert ${col}, ${LAYER_TITLES[tokenKind]}: ${formatValue(data[row * E + col]!, 3)}`,
        });
      });
    };
  },
};
