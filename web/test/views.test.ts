// @vitest-environment happy-dom
/**
 * Each view's picture and sentence for a frame with known numbers, and its reaction to the pointer. The pictures are in
 * the snapshot; where a number there follows from its frame by a calculation, a comment has it.
 */
import { describe, expect, it, vi } from 'vitest';
import type { Frame } from '../src/frame';
import { attention } from '../src/views/attention';
import { bias } from '../src/views/bias';
import { change } from '../src/views/change';
import { channels } from '../src/views/channels';
import { length, threshold } from '../src/views/curves';
import { effects } from '../src/views/effects';
import { likeness } from '../src/views/likeness';
import { gate } from '../src/views/gate';
import { geometry } from '../src/views/geometry';
import { contribution } from '../src/views/contribution';
import { heads } from '../src/views/heads';
import { cache } from '../src/views/cache';
import { loss } from '../src/views/loss';
import { mass } from '../src/views/mass';
import { next } from '../src/views/next';
import { norms } from '../src/views/norms';
import { logitParts, partsOf } from '../src/views/logit_parts';
import { perturbations } from '../src/views/perturbations';
import { ratios } from '../src/views/ratios';
import { settingName } from '../src/views/settings';
import { router } from '../src/views/router';
import { scores } from '../src/views/scores';
import { sinks } from '../src/views/sinks';
import { sweep } from '../src/views/sweep';
import { compression } from '../src/views/compression';
import { views } from '../src/views';
import type { View } from '../src/page/view';
import { drawView, paintedMaps } from './drawn';
import { frameOf, tensor } from './fixture';
import { shows } from './picture';

vi.mock('../src/plot/heatmap', async () => (await import('./drawn')).plots.heatmap);
vi.mock('../src/plot/chart', async () => (await import('./drawn')).plots.chart);

/** Attention maps whose cells are fractions of powers of 2, and so exact. Head (1, 0) is the strongest. */
const ALPHA = tensor(
  [2, 2, 3],
  [0.125, 0.5, 0.25, 0.375, 0, 0.5, 0.875, 0.125, 0, 0.25, 0.25, 0.25],
);
const MAP = [1, 0, 0, 0.75, 0.25, 0, 0.5, 0.25, 0.25];
const headOf = (att: number[], more: Frame['tensors'] = {}) => ({
  layer: 1,
  head: 0,
  tensors: { att: tensor([3, 3], att), ...more },
});
const mapFrame = (change: Partial<Frame> = {}, tensors: Frame['tensors'] = {}) =>
  frameOf({ head: headOf(MAP), ...change } as never, {
    alpha: ALPHA,
    alpha_uniform: tensor([3], [0.125, 0.25, 0.5]),
    ...tensors,
  });
const architecture = (more: object) => ({ ...frameOf().architecture, ...more }) as never;
/** Returns the frame of a hybrid model, whose layers with attention are 1 and 3 of 4. */
const hybridOf = (frame: Frame): Frame => ({
  ...frame,
  architecture: { ...frame.architecture, blocks: 4, layers: [1, 3] } as never,
});
const sigmoid = {
  operation: { name: 'sigmoid', label: 'sigmoid', normalizes: false, proxy: 'weights' },
} as never;
const at = { layer: 1, head: 0 };

describe('the attention map', () => {
  const tokensOf = (T: number) =>
    Array.from({ length: T }, (_, id) => ({ ...frameOf().tokens[1]!, id }));

  it('has the colors of the map of heads beside it, on both scales', () => {
    for (const scale of ['root', 'linear'] as const) {
      const [map, heads] = [attention, sinks].map((view) => drawView(view, mapFrame(), { scale }));
      expect(heads!.map.data.scale).toBe(map!.map.data.scale);
      expect(heads!.texts('.tick')).toEqual(scale === 'root' ? map!.texts('.tick') : []);
    }
  });

  it('has weights, a scale from 0 to 1, and a description of each cell; on the first screen no axis titles', () => {
    shows(attention, mapFrame());
    shows(attention, mapFrame(), { scale: 'linear', query: 2, key: -1 });
    shows(attention, mapFrame(), { isPlain: true });
    const mask = { kind: 'bidirectional' };
    shows(attention, mapFrame({ architecture: architecture({ mask }) }));
  });

  it('mentions shares and row sums if rows need not sum to 1, and signs if weights have any', () => {
    const head = headOf([0.5, 0, 0, 0.375, 0.125, 0, 0.25, 0, 0]);
    const frame = mapFrame({ head, ...(sigmoid as object) });
    shows(attention, frame);
    shows(attention, frame, { normalize: 'yes' });
    shows(attention, frame, { normalize: 'yes', isPlain: true });
    const operation = { ...frameOf().operation, proxy: 'share_abs' } as never;
    shows(attention, mapFrame({ operation }));
  });

  it('hides weights of keys that the cache has evicted', () => {
    const evictedAt = new Float32Array(12).fill(NaN);
    evictedAt[6] = 2; // head (1, 0), key 0, from query 2 on
    shows(attention, mapFrame({ head: headOf(MAP) }, { evicted: tensor([2, 2, 3], evictedAt) }));
  });

  it('of a long text is drawn by blocks', () => {
    const alpha = tensor([2, 2, 5], new Float32Array(20).fill(0.5));
    const head = headOf([0.5, 0, 0, 0.25, 0.125, 0, 0.25, 0.125, 0]);
    const pooledText = { T: 5, tokens: tokensOf(5), pooled: 3, head };
    const view = drawView(attention, mapFrame(pooledText as never, { alpha }), {});
    view.pointed.value = { query: 3, key: 0 };
    expect(view.map.lit).toEqual({ row: 1, col: 0 });
    shows(attention, mapFrame(pooledText as never, { alpha }), { query: 3, key: 4 });
    const shortText = { ...pooledText, T: 3, tokens: tokensOf(3), head: headOf(MAP) };
    shows(attention, mapFrame(shortText as never));
  });

  it('of a long text shows the exact cells of a part, and leads there and back', () => {
    const [T, n] = [100, 40];
    const alpha = tensor([2, 2, T], new Float32Array(4 * T).fill(0.5));
    // Blocks of 4 tokens. The first map has their means, the second their maxima.
    const att = tensor([2, 25, 25], [...Array(625).fill(0.25), ...Array(625).fill(0.75)]);
    const longText = { T, tokens: tokensOf(T), pooled: 25, head: { ...at, tensors: { att } } };
    const longFrame = mapFrame(longText as never, { alpha });
    shows(attention, longFrame);
    shows(attention, longFrame, { pool: 'largest' });
    const view = drawView(attention, longFrame);
    view.map.events.onChoose!({ row: 20, col: 0 });
    expect(view.set).toHaveBeenCalledWith({ query: 80, key: 0, zoomQuery: 60, zoomKey: 0 });
    // The chosen cell is in the middle of the part, unless it is near an edge.
    view.map.events.onChoose!({ row: 10, col: 9 });
    expect(view.set).toHaveBeenLastCalledWith({ query: 40, key: 36, zoomQuery: 22, zoomKey: 18 });

    const rows = tensor(
      [n, T],
      Float32Array.from({ length: n * T }, (_, i) => (i % T) / 1000 + Math.trunc(i / T) / 100),
    );
    const zoomedHead = { ...longFrame.head!, rows: { query: 60, key: 50, att: rows } };
    const zoomedFrame = { ...longFrame, head: zoomedHead } as never;
    const zoom = { zoomQuery: 60, zoomKey: 50 };
    shows(attention, zoomedFrame, { ...zoom, query: 70, key: 55 });
    const exactView = drawView(attention, zoomedFrame, { ...zoom, query: 70, key: 55 });
    expect(exactView.map.data.data[5 * n + 4]).toBeCloseTo(0.104);
    const locator = exactView.all('.locator')[0]!;
    locator.getBoundingClientRect = () => new DOMRect(0, 0, 100, 100);
    const clickAt = (clientX: number, clientY: number) =>
      locator.dispatchEvent(new MouseEvent('click', { clientX, clientY, bubbles: true }));
    clickAt(50, 30);
    expect(exactView.set).toHaveBeenLastCalledWith({ zoomQuery: 10, zoomKey: 30 });
    clickAt(50.6, 30.4);
    expect(exactView.set).toHaveBeenLastCalledWith({ zoomQuery: 10, zoomKey: 31 });
    const press = (key: string) =>
      locator.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    exactView.set.mockClear();
    press('Enter');
    expect(exactView.set).not.toHaveBeenCalled();
    press('Escape');
    expect(exactView.set).toHaveBeenLastCalledWith({ zoomQuery: -1, zoomKey: -1 });
    expect(drawView(attention, longFrame, zoom).map.data.rows).toBe(25);
  });
});

describe('the sink map', () => {
  it('counts heads, compares with uniform attention, and outlines the selected head', () =>
    shows(sinks, mapFrame()));

  it('gives the caveats: raw weights, heads near ε, a text that is too short', () => {
    shows(sinks, mapFrame(sigmoid));
    shows(sinks, mapFrame({}, { sink_ratio: tensor([3], [0, 0, 0]) }));
    shows(sinks, mapFrame({ sequences: 1 }, { near_eps: tensor([1], [2]) }));
    shows(sinks, mapFrame({ sequences: 8 }, { near_eps: tensor([1], [1.5]) }));
    shows(sinks, mapFrame({}, { alpha_uniform: tensor([3], [0.5, 0, 0]) }));
  });
});

describe('the view of a change by an intervention', () => {
  const baseline = mapFrame({}, { loss_at: tensor([3], [NaN, 2, 1]) });
  const editedFrame = mapFrame(
    {
      edits: [{ kind: 'silence' }],
      base: baseline,
      head: headOf([1, 0, 0, 0.25, 0.75, 0, 0.5, 0.5, 0]),
    } as never,
    {
      loss_at: tensor([3], [NaN, 2.5, 4]),
      alpha: tensor([2, 2, 3], [0.125, 0, 0, 0.375, 0, 0, 0.25, 0, 0, 0.25, 0, 0]),
    },
  );

  it('draws lines, a difference of maps, and the change in all heads', () => {
    shows(change, editedFrame, { query: 2 });
    shows(change, editedFrame, { ...at, query: 0 });
    shows(change, editedFrame);
  });

  it('has no map if the two frames show different heads, and no line without predictions', () => {
    const hidesMap = (base: object) =>
      drawView(change, { ...editedFrame, base } as never, at).all('.change-map')[0]!.hidden;
    const ofHead = (more: object) => ({ ...baseline, head: { ...baseline.head!, ...more } });
    // A map of blocks cannot be subtracted from one of single tokens.
    const blocks = { tensors: { att: tensor([2, 2], [1, 0, 0.5, 0.5]) } };
    expect(
      [ofHead({ layer: 0 }), ofHead({ head: 1 }), { ...ofHead(blocks), pooled: 2 }, baseline].map(
        hidesMap,
      ),
    ).toEqual([true, true, true, false]);
    const noLosses = { loss_at: tensor([3], [NaN, NaN, NaN]) };
    shows(change, mapFrame({ base: baseline } as never, noLosses));
    shows(change, mapFrame());
    const otherTokens = { ...baseline, tokens: baseline.tokens.slice(1) };
    shows(change, { ...editedFrame, base: otherTokens }, at);
    const view = drawView(change, { ...editedFrame, base: otherTokens }, at);
    view.draw(editedFrame, at);
    expect(['.chart', '.change-maps'].map((name) => view.all(name)[0]!.hidden)).toEqual([
      ...[false, false],
    ]);
  });
});

describe('query-key geometry', () => {
  const geometryTensors = {
    qk_cos: tensor([3, 3], [1, NaN, NaN, 0.5, -0.5, NaN, 0, -1, -1]),
    qk_dot: tensor([3, 3], [4, NaN, NaN, -8, 2, NaN, 0, 1, 1]),
    qk_norm: tensor([3, 3], [4, NaN, NaN, 8, 2, NaN, 1, 1, 1]),
    cos_gap: tensor([2, 2], [0, 0, 1, 0]),
    key_ratio: tensor([2, 1], [9, 0.25]),
  };
  const frame = mapFrame(
    { head: headOf(MAP, geometryTensors), architecture: architecture({ G: 1 }) } as never,
    // A mean over the prompts, which belongs to no cosine of the first prompt.
    { key_ratio: tensor([2, 1], [7, 7]) },
  );

  // The first query sees no other key: its mean cosines are (1 + 0.5 + 0) / 3, and (-0.5 - 1 - 1) / 3.
  it.each(['cos', 'dot', 'norm'] as const)('maps %s', (map) => shows(geometry, frame, { map }));

  it('says of which head and which prompts its numbers are', () => {
    shows(geometry, frame, { layer: 1, head: 1 });
    shows(geometry, { ...frame, sequences: 8 });
    expect(geometry.says(mapFrame(), at)).toBe('');
  });
});

describe('the router', () => {
  /** The weights in two layers: for each of three tokens those of three experts, two of them in use. */
  const weights = [
    [0.75, 0.25, 0, 0, 0.5, 0.5, 0.25, 0.75, 0],
    [0, 0.25, 0.75, 0, 0.25, 0.75, 0.5, 0, 0.5],
  ].flat();
  const frame = mapFrame({ architecture: architecture({ E: 3, chosen: 2 }) } as never, {
    router: tensor([2, 3, 3], weights),
  });

  it('names the expert of the first token, and counts other tokens with the same expert', () => {
    // One of three others shares the first token's experts; the second token's are shared by two.
    const fourTokens = mapFrame({ T: 4, architecture: architecture({ L: 1, E: 2 }) } as never, {
      router: tensor([1, 4, 2], [1, 0, 0, 1, 0, 1, 1, 0]),
      alpha: tensor([1, 2, 4], new Float32Array(8)),
    });
    const singleToken = mapFrame({ T: 1, architecture: architecture({ E: 3 }) } as never, {
      router: tensor([2, 1, 3], [1, 0, 0, 1, 0, 0]),
      alpha: tensor([2, 2, 1], [1, 1, 1, 1]),
    });
    expect([
      ...[router.says(fourTokens, { layer: 0, head: 0 }), router.says(singleToken, at)],
    ]).toMatchSnapshot();
  });

  it('draws tokens by experts, the load of experts, and layers by experts', () => {
    shows(router, frame, { layer: 1, head: 1, query: 1 });
    shows(router, frame, { layer: 0, head: 0, query: 0 });
    const view = drawView(router, frame, { layer: 1, head: 1, query: 1 });
    const [tokens] = view.maps;
    view.draw(frame, { layer: 0, head: 0 });
    expect([...tokens!.data.data]).toEqual([0.75, 0, 0.25, 0.25, 0.5, 0.75, 0, 0.5, 0]);
    expect(tokens!.data.chosen).toBeUndefined();
    const otherWeights = tensor(
      [2, 3, 3],
      weights.map((x) => 1 - x),
    );
    const otherFrame = { ...frame, tensors: { ...frame.tensors, router: otherWeights } };
    view.draw(otherFrame, { layer: 0, head: 0 });
    expect([...tokens!.data.data]).toEqual([0.25, 1, 0.75, 0.75, 0.5, 0.25, 1, 0.5, 1]);
  });

  it('limits the height of cells for a long text', () => {
    const cellShapeOf = (E: number, T: number) => {
      const frame = mapFrame({ T, architecture: architecture({ E, chosen: 1 }) } as never, {
        router: tensor([2, T, E], new Float32Array(2 * T * E).fill(1)),
      });
      return drawView(router, frame).map.data.cellShape;
    };
    expect([cellShapeOf(4, 2), cellShapeOf(2, 4), cellShapeOf(2, 16)]).toEqual([2, 1, 0.5]);
  });
});

describe('views with lines and bars', () => {
  const otherModel = { title: 'Other', model: { id: 'sigmoid', title: 'Other', source: 'zoo' } };

  it('positions: draws the keys that enough queries see, and names the strongest sinks', () => {
    const T = 10;
    const tokens = Array.from({ length: T }, (_, t) => ({
      ...frameOf().tokens[1]!,
      text: ` w${t}`,
    }));
    const counted = (valueOf: (i: number) => number, ...shape: number[]) =>
      tensor(
        shape,
        Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => valueOf(i)),
      );
    const frame = mapFrame({ T, tokens } as never, {
      alpha: counted((i) => i / 64, 2, 2, T),
      alpha_uniform: counted((t) => t / 16, T),
      sink_ratio: tensor([T], [0.5, 0, 0.75, 1, 0, 0, 0, 0, 0, 0]),
      sink_ratio_raw: tensor([T], [0.25, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    });
    shows(scores, frame, at);
    // Where rows need not sum to 1, heads count by their shares and by their raw weights.
    shows(scores, { ...frame, ...(sigmoid as object) }, at);
    const showsWith = (tensors: Frame['tensors'], change: object = {}) =>
      shows(scores, { ...frame, ...change, tensors: { ...frame.tensors, ...tensors } }, at);
    const mask = { kind: 'bidirectional' };
    const ratios = tensor([T], [0.1, 0.2, 0.3, 0.4, 0.5, 0, 0, 0, 0, 0]);
    showsWith({ sink_ratio: ratios }, { architecture: architecture({ mask }) });
    showsWith({ alpha_uniform: counted(() => 0.5, T) });
    showsWith({ sink_ratio: counted(() => 0, T) });
    // A number of all prompts is of a token only if all of them have it at that position.
    const promptsFrom = (first: number) => ({
      ids: [
        [0, 5, 6],
        [first, 5, 7],
      ],
    });
    for (const first of [0, 1]) showsWith({}, { sequences: 2, ...promptsFrom(first) });
  });

  it('Sink₁ by threshold: draws the share of heads whose α₁ exceeds each threshold', () => {
    const view = drawView(threshold, mapFrame());
    const { values, places } = view.charts()[0]!.series[0]!;
    expect([0, 12, 13, 24, 25, 37, 38, 87, 88, 100].map((i) => values[i])).toEqual([
      1, 1, 0.75, 0.75, 0.5, 0.5, 0.25, 0.25, 0, 0,
    ]);
    expect(places![25]).toBe(0.25);
    shows(threshold, mapFrame());
    const halves = ALPHA.data.map((_, i) => [0.5, 0.5, 0.5, 0.75][i / 3] ?? 0);
    expect(threshold.says(mapFrame({}, { alpha: tensor([2, 2, 3], halves) }), at)).toContain(
      '25% have α₁ > 0.5',
    );
  });

  it('Sink₁ by threshold: averages the shares of the prompts, which are not the share of the means', () => {
    // Two prompts of four heads: 3 of 4 and 1 of 4 are above 0.3, 50% on average; of the means, 0.29 or more, 3 are.
    const first_alphas = tensor([2, 4], [0.9, 0.9, 0.9, 0.1, 0.9, 0.2, 0.2, 0.1]);
    const alpha = tensor([2, 2, 3], [0.9, 0, 0, 0.55, 0, 0, 0.55, 0, 0, 0.1, 0, 0]);
    const eachPrompt = mapFrame({ sequences: 2 }, { alpha, first_alphas });
    expect(threshold.numbers(eachPrompt, at)[0]!.data[30]).toBe(0.5);
    shows(threshold, eachPrompt);
    // Of a recording only the means may be known: it then says so, and draws no Sink₁.
    shows(threshold, mapFrame({ sequences: 2 }, { alpha }));
  });

  it('Sink₁ by length: its uniform attention is that of the mask, a bias key included', () => {
    const T = 9;
    const att = tensor([1, 1, T, T], new Float32Array(T * T));
    const uniformOf = (more: object) =>
      length
        .numbers(
          mapFrame({ T, architecture: architecture({ L: 1, H: 1, ...more }) } as never, { att }),
          at,
        )
        .map(({ data }) => Array.from(data))[2]!;
    // With a prefix of 4 tokens each of the first four queries sees 4 keys.
    const prefix = uniformOf({ mask: { kind: 'prefix', prefix: 4 } });
    expect(prefix.slice(0, 3)).toEqual([NaN, NaN, NaN]);
    expect(prefix.slice(3, 5)).toEqual([0.25, expect.closeTo((4 / 4 + 1 / 5) / 5)]);
    expect(uniformOf({ bias_key: 'head' }).slice(0, 2)).toEqual([
      0.5,
      expect.closeTo((1 / 2 + 1 / 3) / 2),
    ]);
  });

  it('Sink₁ by length: draws running means of the first column', () => {
    const T = 9;
    const mapOf = (first: (t: number) => number) =>
      Array.from({ length: T * T }, (_, i) => (i % T ? 0 : first(Math.floor(i / T))));
    const lengthFrame = (maps: number[], H: number, change: object = {}) =>
      mapFrame({ T, architecture: architecture({ L: 1, H }), ...change } as never, {
        att: tensor([1, H, T, T], maps),
      });
    // Head 0: (1 + 0.5 (n - 1)) / n; head 1: 1 / n, above 0.3 up to n = 3.
    const maps = [...mapOf((t) => (t ? 0.5 : 1)), ...mapOf((t) => (t ? 0 : 1))];
    shows(length, lengthFrame(maps, 2), { layer: 0, head: 0 });
    // If rows need not sum to 1, shares of rows count: here all of each row goes to the first key.
    shows(length, lengthFrame(maps, 2, sigmoid), { layer: 0, head: 0 });
    // One head gives the first key weight only in row 0: α₁ is 1 / T, so Sink₁ is 0 from four tokens on.
    const singleHead = lengthFrame(
      mapOf((t) => (t ? 0 : 1)),
      1,
    );
    expect(length.says(singleHead, at)).toMatchSnapshot();
    const ofLength = (T: number) =>
      length.says(
        { ...singleHead, T, tensors: { att: tensor([1, 1, T, T], new Float32Array(T * T)) } },
        at,
      );
    const lengths = (T: number) =>
      ofLength(T)
        .match(/(?<=T = )\d+/g)!
        .map(Number);
    expect([4, 64, 600].map(lengths)).toEqual([[4], [8, 16, 32, 64], [128, 256, 512, 600]]);
    const mask = { kind: 'bidirectional' };
    expect(length.fits!(mapFrame({ architecture: architecture({ mask }) }))).toBe(false);
    expect([2048, 2049].map((T) => length.fits!({ ...mapFrame(), T }))).toEqual([true, false]);
  });

  it('norm ratios: draws a line for each model', () => {
    const frame = mapFrame({}, { hidden_ratio: tensor([3], [1, 8, 2]) });
    const otherFrame = mapFrame(otherModel as never, { hidden_ratio: tensor([3], [3, 2, 1]) });
    shows(ratios, frame, { frames: [frame, otherFrame] });
  });

  it('compression valley: draws a line for each model, and a dashed one without the first token', () => {
    const entropyFrame = (change: object, all: number[], others: number[]) =>
      mapFrame(change, {
        matrix_entropy: tensor([3], all),
        matrix_entropy_others: tensor([3], others),
      });
    const frame = entropyFrame({}, [0.75, 0.25, 0.5], [0.75, 0.375, 0.5]);
    const otherFrame = entropyFrame(otherModel, [0.5, 0.125, 0.25], [0.5, 0.5, 0.5]);
    shows(compression, frame, { frames: [frame, otherFrame] });
  });

  it('parts of the logit: draws the contributions of attention and feed-forward of each layer', () => {
    // Head (1, 0): an embedding, then attention of layer 0 by head and its feed-forward, then biases.
    const logit_parts = tensor(
      [2, 2, 6],
      [1, 2, 3, 4].flatMap((x) => [x, 0.5 * x, x / 8, NaN, NaN, 0.25]),
    );
    const logit_parts_heads = tensor([2, 2, 2, 2], new Array(16).fill(1));
    const frame = mapFrame({}, { logit_parts, logit_parts_heads });
    expect(partsOf(frame, at)).toMatchSnapshot();
    shows(logitParts, frame);
  });

  it('norms: draws the first token beside the mean of the others', () => {
    const frame = mapFrame(
      {},
      {
        hidden_norm: tensor([3, 3], [8, 1, 3, 16, 2, 2, 4, 4, 4]),
        key_norm: tensor([2, 2, 3], [1, 2, 2, 3, 4, 8, 1, 1, 1, 1, 1, 1]),
        value_norm: tensor([2, 2, 3], [0.5, 2, 2, 0.5, 4, 4, 1, 1, 1, 1, 1, 1]),
        hidden_ratio: tensor([3], [4, 8, 1]),
        value_ratio: tensor([2, 2], [0.25, 0.125, 1, 1]),
        massive: tensor([3, 4], [1, 0, 0, 1, 9, 0, 0, 0.5, 5, 0, 0, 1]),
        massive_at: tensor([3, 3, 2], [0, 0, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0]),
      },
    );
    shows(norms, frame);
    // Over several prompts the size is a mean, but the place belongs to the first prompt.
    shows(norms, { ...frame, sequences: 4 });
    // In a hybrid, keys and values exist in the layers with attention.
    shows(norms, hybridOf(frame));
    const zeroNorm = {
      ...frame,
      tensors: { ...frame.tensors, hidden_norm: tensor([3, 3], [0, 1, 3, 16, 2, 2, 4, 4, 4]) },
    };
    for (const [shown, frames] of [
      [frame, [frame, zeroNorm]],
      [zeroNorm, [zeroNorm]],
    ] as const)
      expect(drawView(norms, shown, { frames }).charts()[0]!.domain).toEqual([2, 16]);
  });

  it('row sums: draws all models on one scale', () => {
    const headSums = (...values: number[]) =>
      tensor([2, 2, 3], [0, 0, 0, 0, 0, 0, ...values, 0, 0, 0]);
    const frameOfSums = (most: number) =>
      mapFrame(sigmoid as never, {
        row_mass: headSums(0.5, most, 0.25),
        row_mass_summary: headSums(0.5, 0.25, 0.75),
        alpha_raw: headSums(0.125, 0, 0),
      });
    shows(mass, frameOfSums(0.75));
    const largestWith = (other: Frame, head = {}) =>
      drawView(mass, frameOfSums(0.75), {
        frames: [frameOfSums(0.75), other],
        ...head,
      }).charts()[0]!.domain![1];
    const otherHead = mapFrame(
      {},
      {
        row_mass: tensor([2, 2, 3], [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        alpha: tensor([2, 2, 3], [0.9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
      },
    );
    const singleHead = mapFrame({ architecture: architecture({ L: 1, H: 1 }) } as never, {
      row_mass: tensor([1, 1, 3], [2, 2, 2]),
    });
    expect(largestWith(frameOfSums(4))).toBeCloseTo(4.4);
    expect(largestWith(otherHead)).toBeCloseTo(3.3);
    expect(largestWith(singleHead, { layer: 1, head: 1 })).toBeCloseTo(2.2);
  });
});

describe('views with a number for each head and a line over the text', () => {
  const lineOf = (...values: number[]) =>
    tensor([2, 2, 3], [...Array(6).fill(0), ...values, 0, 0, 0]);

  it('contribution: draws what each key contributes', () => {
    const sharesOf = (first: number) =>
      tensor([2, 2, 3], [0.5, 0, 0, 0.25, 0, 0, first, 0.25, 0.5, 0, 0, 0]);
    const parts = { contribution_at: sharesOf(0.125), contribution_out_at: sharesOf(0.0625) };
    shows(contribution, mapFrame({}, parts));
  });

  it('gate: draws the gate of each head', () => {
    const gate_mean = tensor([2, 2], [0.5, 0.25, 0.125, 0.125]);
    const frame = mapFrame({}, { gate_mean, gate: lineOf(1, 0.25, 0.5) });
    shows(gate, frame);
    shows(gate, hybridOf(frame));
    expect(gate.says({ ...frame, T: 1 }, at)).toMatch(/1\.00 at <s>\.$/);
    const fitsGate = (kind: unknown) =>
      gate.fits!(mapFrame({ architecture: architecture({ gate: kind }) }));
    expect([null, 'output'].map(fitsGate)).toEqual([false, true]);
  });

  it('bias key: draws the attention to the bias key', () => {
    const biasTensors = {
      sink_ratio_bias: tensor([1], [0.25]),
      alpha_bias: tensor([2, 2], [0.5, 0.25, 0.75, 0]),
      att_bias: lineOf(0.75, 0.5, 0.25),
      row_mass: lineOf(0.25, 0.5, 0.75),
    };
    shows(bias, mapFrame({ architecture: architecture({ bias_key: 'learned' }) }, biasTensors));
  });

  it('head ablation: labels heads, outlines dormant ones, and draws a row for each kind of head', () => {
    const frame = mapFrame(
      {},
      {
        // In order: an active head, one that broadcasts and is dormant, one with a sink that the model needs, a no-op.
        alpha: tensor([2, 2, 3], [0.25, 0, 0, 0.75, 0, 0, 0.5, 0, 0, 0.5, 0, 0]),
        first_share: tensor([2, 2], [0.25, 0.75, 0.5, 0.5]),
        contribution: tensor([2, 2], [0.75, 0.5, 0.25, 0.25]),
        effect: tensor([2, 2], [-0.25, 0.0078125, 0.5, 0.00390625]),
      },
    );
    const withTensors = (tensors: Frame['tensors'], change: object = {}) => ({
      ...frame,
      ...change,
      tensors: { ...frame.tensors, ...tensors },
    });
    const effect = (...values: number[]) => ({ effect: tensor([2, 2], values) });
    shows(effects, frame);
    shows(effects, frame, { layer: 0, head: 1 });
    // Under the room's answer, which explains dormant heads, the caption begins with the head.
    shows(effects, frame, { isAnswered: true });
    shows(effects, hybridOf(frame), { layer: 1, head: 0 });
    // A head whose ablation changes the loss is not called a no-op, whatever its attention.
    shows(effects, { ...frame, eps: 0.2 }, { layer: 0, head: 0 });
    shows(effects, withTensors(effect(-0.75, 0, 0.5, 0)));
    shows(effects, withTensors(effect(0, 0, 0.001, 0)));
    // Where rows need not sum to 1, a large share without a large raw weight is no sink.
    const alpha_raw = tensor([2, 2, 3], [1, 0, 0, 0.1, 0, 0, 1, 0, 0, 0.1, 0, 0]);
    shows(effects, withTensors({ alpha_raw }, sigmoid), { layer: 0, head: 1 });
    // A text that is too short for a verdict has no head with a sink, and none without one.
    const shortText = withTensors({ alpha_uniform: tensor([3], [0.5, 0, 0]) });
    shows(effects, shortText, { isAnswered: true });
    const view = drawView(effects, frame);
    view.draw(withTensors(effect(0.5, 0.5, 0.5, 0.5)));
    expect(view.text('.outline-key')).toBe('');
  });
});

describe('hidden states', () => {
  const hidden = new Float32Array(3 * 3 * 4).fill(0.5);
  hidden[12 + 4 + 2] = -8; // after layer 0, token 1, channel 2
  hidden[24 + 3] = 2; // after layer 1, token 0, channel 3
  const tensors = {
    hidden: tensor([3, 3, 4], hidden),
    massive: tensor([3, 4], [1, 0, 0, 1, 8, 0, 0, 0.5, 2, 0, 0, 1]),
    kurtosis: tensor([3], [3, 40, 5]),
    super_weight: tensor([2, 6], [3, 5, 0, 0.5, 4, 8, 1, 6, 2, -0.5, 4, -2]),
  };
  const frame = mapFrame({}, tensors);

  it('state the largest activation, in the most extreme layer or the selected one', () => {
    shows(channels, frame);
    shows(channels, frame, { layer: 1, head: 0, channel: 1, query: 2 });
    shows(channels, frame, { channel: 0, query: 1 });
    // Of two equal activations the sentence names the first.
    const evenHidden = Float32Array.from(hidden);
    evenHidden[24 + 8 + 1] = -2;
    const evenFrame = mapFrame({}, { ...tensors, hidden: tensor([3, 3, 4], evenHidden) });
    shows(channels, evenFrame, { layer: 1, head: 0 });
    // A link names a layer of a hybrid by the model's number.
    const hybrid = mapFrame(
      { architecture: architecture({ L: 2, blocks: 6, layers: [2, 5] }) } as never,
      {
        ...tensors,
        hidden: tensor([7, 3, 4], new Float32Array(84).fill(0.5)),
        massive: tensor([7, 4], new Float32Array(28).fill(1)),
        kurtosis: tensor([7], [3, 3, 3, 3, 3, 3, 3]),
      },
    );
    expect(drawView(channels, hybrid, { layer: 2, head: 0 }).text('.caption')).toMatch(
      /^After layer 2, /,
    );
    const massive = tensor([3, 4], [9, 0, 0, 1, 8, 0, 0, 4, 2, 0, 0, 1]);
    shows(channels, mapFrame({}, { ...tensors, massive }));
    const noWeight = tensor([2, 6], new Float32Array(12).fill(NaN));
    expect(channels.says(mapFrame({}, { ...tensors, super_weight: noWeight }), at)).toMatch(
      /has 3\)\.$/,
    );
  });

  it('state the largest activation of the first prompt, which the map shows, not the mean over several', () => {
    const massive = tensor([3, 4], [1, 0, 0, 1, 80, 0, 0, 4, 2, 0, 0, 1]);
    shows(channels, mapFrame({ sequences: 2 }, { ...tensors, massive }));
  });

  it('count channels like those of the first token after the layer where that is largest', () => {
    const plainFrame = mapFrame(
      {},
      {
        hidden_norm: tensor([3, 3], [4, 4, 4, 8, 4, 3, 1, 1, 1]),
        hidden_ratio: tensor([3], [1, 4, 2]),
      },
    );
    const question = { ...plainFrame.question, input: 'repeat', repeatedToken: 'first' } as never;
    const repeatedFrame = mapFrame(
      { question },
      {
        hidden_norm: tensor([3, 3], [1, 1, 1, 2, 2, 8, 1, 1, 1]),
        hidden_ratio: tensor([3], [9, 1, 1]),
      },
    );
    shows(likeness, plainFrame);
    // Values far above the first token's norm do not flatten the chart.
    const frames = [plainFrame, repeatedFrame];
    shows(likeness, repeatedFrame, { group: frames, frames });
    shows(likeness, plainFrame, { group: [...frames, repeatedFrame], frames: [plainFrame] });
  });
});

describe('caches and settings', () => {
  it('labels an edit of an unknown kind by the core’s label', () => {
    for (const kind of ['constructor', 'toString', 'of a later version']) {
      const edits = [{ kind }] as never;
      expect(
        settingName(mapFrame({ edits, labels: ['as the core says'], choices: [{}] })),
      ).toMatchSnapshot();
    }
  });

  it('names an edit with the core’s defaults for omitted parameters', () => {
    const nameOf = (kind: string, fields: object) =>
      settingName(
        mapFrame({ edits: [{ kind, ...fields }] as never, labels: [kind], choices: [{}] }),
      );
    for (const [kind, fields, defaults, words] of [
      ['quantize', { bits: 4 }, { by: 'token', first: 0 }, '4 bits per token'],
      ['clamp_channel', { channel: 3 }, { to: 'zero', value: 0 }, 'channel 3 to zero'],
      ['project', {}, { direction: 'tag', from: 'stream' }, 'without the tag'],
      [
        'project',
        { direction: 'random' },
        { from: 'stream', seed: 1 },
        'without random directions 1',
      ],
      ['scale_weight', { matrix: 'q', row: 1, column: 2 }, { factor: 0 }, 'q (1, 2) × 0'],
    ] as const) {
      expect(nameOf(kind, fields)).toBe(words);
      expect(nameOf(kind, { ...fields, ...defaults })).toBe(words);
    }
  });

  const evictChange = (policy: string, budget: number, more: object = {}) => ({
    edits: [{ kind: 'evict', policy, budget, ...more }],
    labels: ['evict'],
    choices: [{ policy: policy === 'h2o' ? 'H2O' : policy }],
  });
  const createSetting = (change: object, tensors: Frame['tensors'] = {}, losses = [2, 4]) =>
    mapFrame({ ...change, perPrompt: { loss_mean: losses } } as never, {
      loss_at: tensor([3], [NaN, 2, 4]),
      loss_mean: tensor([1], [(losses[0]! + losses.at(-1)!) / 2]),
      ...tensors,
    });

  it('keys in the cache: draws a strip for each head', () => {
    // Evicted at query 2: key 0 stayed for 2 of 3 queries, key 1 for 1 of 2.
    const evictedAt = Float32Array.from([NaN, NaN, NaN, 2, NaN, NaN, NaN, 2, NaN, NaN, NaN, NaN]);
    const frame = mapFrame(evictChange('window', 2) as never, {
      evicted: tensor([2, 2, 3], evictedAt),
      keeps_first: tensor([2, 2], [1, 0, 1, 1]),
    });
    shows(cache, frame);
    shows(cache, hybridOf(frame));
    expect(cache.fits!(mapFrame())).toBe(false);
    // A row is a 41st as high as the map is wide; a map of many rows is at most 1 / 0.6 times as high as wide.
    expect(drawView(cache, frame).map.data.cellShape).toBeCloseTo((41 / 4) * (4 / 3));
    const deepFrame = mapFrame(
      { ...evictChange('window', 2), architecture: architecture({ L: 50, H: 2 }) } as never,
      {
        evicted: tensor([50, 2, 3], new Float32Array(300).fill(NaN)),
        keeps_first: tensor([50, 2], new Float32Array(100)),
      },
    );
    expect(drawView(cache, deepFrame, { layer: 0, head: 0 }).map.data.cellShape).toBeCloseTo(
      (0.6 * 100) / 3,
    );
  });

  it('loss by position: draws a smoothed line for each setting, and marks where the first token is evicted', () => {
    const T = 40;
    const tokens = Array.from({ length: T }, () => frameOf().tokens[1]!);
    const frameOfText = (change: object = {}, length = T) =>
      mapFrame({ T: length, tokens, ...change } as never, {
        loss_at: tensor(
          [length],
          Array.from({ length }, (_, t) => t || NaN),
        ),
      });
    const wholeFrame = frameOfText();
    const windowFrame = frameOfText(evictChange('window', 20), 30);
    // The lines begin after a quarter of the text; a point is the mean of up to 16 losses: here 1 to 10, and 24 to 39.
    const frames = [windowFrame, wholeFrame];
    shows(loss, wholeFrame, { group: frames, frames });
    for (const frame of [
      wholeFrame,
      frameOfText(evictChange('h2o', 20)),
      frameOfText(evictChange('window', 40)),
    ])
      expect(drawView(loss, frame).charts()[0]).not.toHaveProperty('cursor');
    const budgets = [4, 5, 6, 7].map((n) => frameOfText(evictChange('h2o', n)));
    shows(loss, wholeFrame, { group: [wholeFrame, ...budgets] });
    const bookLength = 600;
    const bookLosses = tensor([bookLength], new Float32Array(bookLength).fill(1));
    const book = mapFrame({ T: bookLength } as never, { loss_at: bookLosses });
    shows(loss, book);
    shows(loss, wholeFrame, { frames: [wholeFrame, book] });
  });

  it('loss by setting: draws a point for each setting, above the unedited run of the same prompts', () => {
    const baseline = createSetting({});
    const kl = { kl_mean: tensor([1], [0.5]) };
    const group = [
      baseline,
      createSetting(evictChange('h2o', 8), kl, [3, 6]),
      createSetting(evictChange('h2o', 4), kl, [4, 8]),
      createSetting(evictChange('tova', 4), kl, [2, 4]),
    ];
    for (const measure of ['error', 'kl', 'sink'])
      shows(sweep, group[1]!, { group, frames: group, measure });
    shows(sweep, baseline);
    const lowerGroup = [baseline, createSetting(evictChange('h2o', 8), {}, [1, 3])];
    shows(sweep, baseline, { group: lowerGroup, frames: lowerGroup });
    const seven = Array.from({ length: 7 }, (_, i) => createSetting(evictChange(`p${i}`, 4)));
    shows(sweep, baseline, { group: [baseline, ...seven] });
  });

  it('loss by setting of rounding: draws the loss by bits, with the rounding error', () => {
    const quantizedSetting = (
      bits: number,
      error: number[],
      change: object = {},
      losses = [2, 4],
    ) =>
      createSetting(
        {
          edits: [{ kind: 'quantize', bits, by: 'channel' }],
          labels: [''],
          choices: [{}],
          ...change,
        },
        {
          quantize_error: tensor([2], error),
          hidden_change: tensor([2], [0.25, 0.75]),
          keeps_first: tensor([2], [1, 0]),
        },
        losses,
      );
    const group = [
      createSetting({}),
      quantizedSetting(8, [0.25, NaN]),
      quantizedSetting(4, [0.5, 0.25]),
    ];
    for (const measure of ['loss', 'kl', 'sink', 'kept', 'error', 'change'])
      shows(sweep, group[0]!, { group, frames: group, measure });
    // The losses of another model do not change the scale.
    const model = { id: 'b', title: 'B', source: 'zoo' };
    const otherSetting = quantizedSetting(2, [0, 0], { model }, [90, 90]);
    const domainIn = (frames: readonly Frame[]) =>
      drawView(sweep, group[1]!, { group, frames }).charts()[0]!.domain;
    expect(domainIn([...group, otherSetting])).toEqual(domainIn(group));
  });

  it('loss by perturbation: draws a bar for each perturbation above the baseline, on one scale for all models', () => {
    const clampSetting = (channel: number, losses: number[], change: object = {}) =>
      createSetting(
        { edits: [{ kind: 'clamp_channel', channel }], labels: [''], choices: [{}], ...change },
        {},
        losses,
      );
    const group = [createSetting({}), clampSetting(7, [6, 8]), clampSetting(3, [1.5, 3.5])];
    shows(perturbations, group[1]!, { group, frames: group });
    const model = { model: { id: 'b', title: 'B', source: 'zoo' } };
    const frames = [...group, createSetting(model), clampSetting(1, [12, 14], model)];
    expect(drawView(perturbations, group[1]!, { group, frames }).charts()[0]!.domain).toEqual([
      -0.5, 10,
    ]);
  });
});

it('each view declares how figures draw it, and which models and texts it fits', () => {
  const namesWhere = (holds: (view: View) => unknown) =>
    views.filter(holds).map(({ name }) => name);
  const namesFitting = (change: object) =>
    namesWhere(({ fits }) => fits?.(mapFrame({ model, ...change } as never)));
  const model = { id: 'hub:a/b', title: 'B', source: 'hub' };
  const withParts = (more: object) => ({
    architecture: architecture({ E: 0, gate: null, ...more }),
  });
  const encoder = withParts({ mask: { kind: 'bidirectional' } });
  const smallestT = ({ fits }: View) => [0, 1, 2, 3, 4, 5, 6].find((T) => fits?.(mapFrame({ T })));
  expect({
    allSettings: namesWhere(({ drawsAllSettings: draws }) => draws),
    severalSettings: namesWhere(({ needsSeveralSettings: needs }) => needs),
    allSubjects: namesWhere(({ drawsAllSubjects: draws }) => draws),
    baseline: namesWhere(({ needsBaseline: needs }) => needs),
    causal: namesFitting(withParts({})),
    experts: namesFitting(withParts({ E: 4 })),
    gated: namesFitting(withParts({ gate: 'head' })),
    biasKey: namesFitting(withParts({ bias_key: 'head' })),
    noOutputHead: namesFitting({ T: 8, ...withParts({ head: false }) }),
    encoder: namesFitting(encoder),
    maskedEncoder: namesFitting({ ...encoder, maskToken: 7 }),
    recordedEncoder: namesFitting({ ...encoder, maskToken: 7, recording: {} }),
    evicting: namesFitting({ edits: [{ kind: 'evict' }] }),
    eightTokens: namesFitting({ T: 8, ...withParts({}) }),
    smallestT: Object.fromEntries(views.map((view) => [view.name, smallestT(view)])),
  }).toMatchSnapshot();
  // A text that is joined from several strings must not contain NaN or undefined by mistake.
  for (const { how, question, title } of views)
    for (const text of [how, question, title]) expect(text).not.toMatch(/NaN|undefined/);
});

describe('further views of a frame', () => {
  it('next tokens: lists the most likely first', () => {
    const predictions = [
      { text: ' a', probability: 0.5 },
      { text: '\n', probability: 0.125 },
    ];
    shows(next, mapFrame({ next: predictions, generated: 2, sequences: 3 } as never));
    shows(next, mapFrame());
  });

  it('all heads: names the prompts of the numbers on the maps', () => {
    const att = tensor([2, 2, 3, 3], [...MAP, ...MAP, ...MAP, ...MAP]);
    const labelOf = (tensors: Frame['tensors'], change: Partial<Frame> = {}) =>
      drawView(heads, mapFrame({ sequences: 2, ...change }, { att, ...tensors }))
        .all('.thumb')[0]!
        .getAttribute('aria-label');
    const blocks = tensor([2, 2, 2, 1, 1], new Float32Array(8));
    expect([
      labelOf({ first_alphas: tensor([2, 4], [0.5, 0, 0, 0, 0, 0, 0, 0]) }),
      labelOf({}),
      labelOf({ att: blocks }, { pooled: 1 }),
    ]).toMatchSnapshot();
  });

  it('all heads: draws each head’s map as a thumbnail that opens the head', () => {
    const att = tensor(
      [2, 2, 3, 3],
      [...MAP, ...MAP, ...MAP, ...MAP].map((x, i) => (i < 9 ? x : x / 2)),
    );
    const frame = mapFrame({}, { att });
    shows(heads, frame);
    paintedMaps.length = 0;
    const view = drawView(heads, frame);
    expect(paintedMaps).toHaveLength(4);
    expect(paintedMaps[1]).toMatchObject({ rows: 3, cols: 3 });
    expect([...paintedMaps[1]!.data]).toEqual([
      ...[0.5, NaN, NaN, 0.375, 0.125, NaN, 0.25, 0.125, 0.125],
    ]);
    const thumbs = view.all('.thumb');
    expect(thumbs.map((thumb) => [thumb.dataset.row, thumb.dataset.column])).toMatchSnapshot();
    thumbs[1]!.querySelector('canvas')!.click();
    expect(view.set).toHaveBeenCalledWith({ layer: 0, head: 1 });
    view.all('.thumbs')[0]!.click();
    expect(view.set).toHaveBeenCalledTimes(1);
    thumbs[3]!.dispatchEvent(new Event('pointerover', { bubbles: true }));
    view.all('.thumbs')[0]!.dispatchEvent(new Event('pointerleave'));
    expect(view.point.mock.calls).toEqual([[{ layer: 1, head: 1 }], [{}]]);
    view.pointed.value = { layer: 1, head: 0 };
    expect(view.all('.thumb.lit')).toEqual([thumbs[2]]);
    view.draw(frame, { layer: 0, head: 0 });
    expect(paintedMaps).toHaveLength(4);
    expect(view.all('.thumb[aria-selected=true]')).toEqual([thumbs[0]]);
    expect(thumbs.map((thumb) => thumb.tabIndex)).toEqual([0, -1, -1, -1]);
    document.body.append(view.root);
    const press = (key: string) =>
      document.activeElement!.dispatchEvent(
        new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }),
      );
    thumbs[0]!.focus();
    const keys = ['ArrowDown', 'ArrowRight', 'ArrowUp', 'ArrowUp', 'x'];
    expect(keys.map(press)).toEqual([false, false, false, false, true]);
    expect(document.activeElement).toBe(thumbs[1]);
    expect([press('ArrowDown'), document.activeElement]).toEqual([false, thumbs[3]]);
    expect([press('ArrowLeft'), document.activeElement]).toEqual([false, thumbs[2]]);
    for (const [key, head] of [
      ['Enter', 1],
      [' ', 0],
    ] as const) {
      thumbs[head]!.focus();
      view.set.mockClear();
      expect(press(key)).toBe(false);
      expect(view.set.mock.calls).toEqual([[{ layer: 0, head }]]);
    }
    view.draw(frame, { scale: 'linear' });
    expect(paintedMaps).toHaveLength(8);
    const sigmoidFrame = mapFrame(sigmoid as never, { att: tensor([2, 2, 3, 3], att.data) });
    view.draw(sigmoidFrame);
    expect([...paintedMaps.at(-1)!.data].slice(3, 5)).toEqual([0.375, 0.125]);
    view.draw(sigmoidFrame, { normalize: 'yes' });
    expect([...paintedMaps.at(-1)!.data].slice(3, 5)).toEqual([0.75, 0.25]);
    view.draw(
      mapFrame({ architecture: architecture({ L: 1, H: 4 }) } as never, {
        att: tensor([1, 4, 3, 3], att.data),
        alpha: tensor([1, 4, 3], ALPHA.data),
      }),
    );
    expect(view.all('.thumb').map((thumb) => thumb.dataset.head)).toEqual(['0', '1', '2', '3']);
  });
});
