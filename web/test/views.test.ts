// @vitest-environment happy-dom
/** Each view's picture and sentence for a frame with known numbers, and its reaction to the pointer. */
import { describe, expect, it, vi } from 'vitest';
import type { Frame } from '../src/frame';
import type { Quantity } from '../src/save/numbers';
import { attention } from '../src/views/attention';
import { bias } from '../src/views/bias';
import { change } from '../src/views/change';
import { channels } from '../src/views/channels';
import { length, threshold } from '../src/views/curves';
import { domains } from '../src/views/domains';
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
const legendText = ({ text }: ReturnType<typeof drawView>) => text('.legend-place');
/** Returns the name and the shape of each quantity, and the first index of its axes if not 0. */
const shapesOf = (quantities: readonly Quantity[]) =>
  quantities.map(({ name, shape, from }) => [name, ...shape, ...(from ? [`from ${from}`] : [])]);
const at = { layer: 1, head: 0 };

describe('the attention map', () => {
  const cells = '-1,-1 1,-1 -1,2 1,0 0,2 0,-1 -1,0';
  it('explains why the next token is not attended to', () => {
    expect(drawView(attention, mapFrame()).says('0,1 1,1')).toMatchSnapshot();
    expect(drawView(attention, mapFrame(), { isPlain: true }).says('0,1')[0]).toMatch(
      /cannot attend to “a”/,
    );
  });

  it('has the colors of the map of heads beside it, on both scales', () => {
    for (const scale of ['root', 'linear'] as const) {
      const [map, heads] = [attention, sinks].map((view) => drawView(view, mapFrame(), { scale }));
      expect(heads!.map.data.scale).toBe(map!.map.data.scale);
      expect(heads!.texts('.tick')).toEqual(scale === 'root' ? map!.texts('.tick') : []);
    }
  });

  it('has weights, a scale from 0 to 1, and a description of each cell', () => {
    const view = drawView(attention, mapFrame());
    const { data } = view.map;
    expect(data).toMatchObject({
      rows: 3,
      cols: 3,
      scale: { low: 0, high: 1, isSquareRoot: true },
    });
    expect([...data.data]).toEqual([1, NaN, NaN, 0.75, 0.25, NaN, 0.5, 0.25, 0.25]);
    expect(data.rowWords).toEqual(['<s>', 'a', '=1,"x"↵']);
    expect(data).toMatchObject({
      rowTitle: 'attending token (query)',
      colTitle: 'attended to (key)',
      chosen: undefined,
    });
    expect(data.label).toMatchSnapshot();
    expect([view.text('.subtitle'), view.text('.scale-name')]).toMatchSnapshot();
    const ticks = view.all('.tick').map((tick) => `${tick.textContent} ${tick.style.left}`);
    expect(ticks.map((tick) => tick.replace(/(\.\d).*%/, '$1%'))).toEqual([
      ...['0 0%', '10% 31.6%', '30% 54.7%', '50% 70.7%', '100% 100%'],
    ]);
    expect(view.says(cells)).toMatchSnapshot();
    expect(view.wrong()).toEqual([]);
    const linearView = drawView(attention, mapFrame(), { scale: 'linear', query: 2, key: -1 });
    expect(linearView.map.data).toMatchObject({
      scale: { isSquareRoot: false },
      chosen: { row: 2, col: -1 },
    });
    expect(linearView.text('.scale-name')).toBe('attention weight');
    expect(linearView.texts('.tick')).toEqual(['0', '25%', '50%', '75%', '100%']);
  });

  it('explains the gray triangle where there is one', () => {
    const remarkOf = (change: Partial<Frame> = {}) =>
      (drawView(attention, mapFrame(change)).map.data as { remark?: { text: string } }).remark
        ?.text;
    expect(remarkOf()).toBe('later tokens: not visible');
    const { architecture } = mapFrame();
    const mask = { kind: 'bidirectional' } as never;
    expect(remarkOf({ architecture: { ...architecture, mask } })).toBeUndefined();
    expect(drawView(attention, mapFrame(), { isPlain: true }).map.data).toHaveProperty('remark');
  });

  it('has no axis titles or key on the first screen', () => {
    const view = drawView(attention, mapFrame(), { isPlain: true });
    expect(view.map.data).toMatchObject({ rowTitle: '', colTitle: '' });
    expect(view.all('.subtitle, .map-key').map((element) => element.hidden)).toEqual([true, true]);
    expect(view.says(cells).slice(1)).toMatchSnapshot();
    expect(view.wrong()).toEqual([]);
  });

  it('mentions shares and row sums if rows need not sum to 1, and signs if weights have any', () => {
    const head = headOf([0.5, 0, 0, 0.375, 0.125, 0, 0.25, 0, 0]);
    const view = drawView(attention, mapFrame({ head, ...(sigmoid as object) }));
    expect(view.says('1,1')).toMatchSnapshot();
    expect(view.map.data.label).toMatch(
      /receives a mean weight of 38%\. Rows need not sum to 100%: those of this head sum to 42% on average\.$/,
    );
    const shareView = drawView(attention, mapFrame({ head, ...(sigmoid as object) }), {
      normalize: 'yes',
    });
    expect([...shareView.map.data.data]).toEqual([1, NaN, NaN, 0.75, 0.25, NaN, 1, 0, 0]);
    expect(shareView.map.data.label).toMatchSnapshot();
    const plainView = drawView(attention, mapFrame({ head, ...(sigmoid as object) }), {
      normalize: 'yes',
      isPlain: true,
    });
    expect(plainView.says('1,1')).toEqual(['“a” attends to “a”: 25.0%']);
    const operation = { ...frameOf().operation, proxy: 'share_abs' } as never;
    expect(drawView(attention, mapFrame({ operation })).map.data.scale).toMatchObject({
      low: -1,
      high: 1,
    });
  });

  it('hides weights of keys that the cache has evicted', () => {
    const evictedAt = new Float32Array(12).fill(NaN);
    evictedAt[6] = 2; // head (1, 0), key 0, from query 2 on
    const view = drawView(
      attention,
      mapFrame({ head: headOf(MAP) }, { evicted: tensor([2, 2, 3], evictedAt) }),
    );
    expect(view.says('2,0')[0]).toMatch(/key 0 “<s>”: forgotten \(not in the cache\)$/);
    expect(view.says('1,0')[0]).toMatch(/: 0\.7500$/);
  });

  it('of a long text is drawn by blocks', () => {
    const tokens = Array.from({ length: 5 }, (_, id) => ({ ...frameOf().tokens[1]!, id }));
    const pooledChange = {
      T: 5,
      tokens,
      pooled: 3,
      head: headOf([0.5, 0, 0, 0.25, 0.125, 0, 0.25, 0.125, 0]),
    };
    const alpha = tensor([2, 2, 5], new Float32Array(20).fill(0.5));
    const view = drawView(attention, mapFrame(pooledChange as never, { alpha }), {
      query: 3,
      key: 4,
    });
    expect(view.map.data).toMatchObject({
      rows: 3,
      rowTitle: 'attending token (query) (blocks of 2 tokens)',
      rowWords: undefined,
      chosen: { row: 1, col: 2 },
    });
    expect(view.map.data.label).toMatchSnapshot();
    expect(view.text('.subtitle')).toMatchSnapshot();
    expect(legendText(view)).toBe('mean weight 00.500');
    expect(view.says(`${cells} 2,2`)).toMatchSnapshot();
    view.map.events.onChoose!({ row: 1, col: 2 });
    expect(view.set).toHaveBeenCalledWith({ query: 2, key: 4 });
    view.pointed.value = { query: 3, key: 0 };
    expect(view.map.lit).toEqual({ row: 1, col: 0 });
    const ownHead = headOf(MAP);
    const unpooled = mapFrame({
      ...pooledChange,
      T: 3,
      tokens: tokens.slice(0, 3),
      head: ownHead,
    } as never);
    expect(drawView(attention, unpooled).text('.subtitle')).toMatch(/weights rounded to 8 bits$/);
    expect(shapesOf(attention.numbers(mapFrame(pooledChange as never, { alpha }), at))).toEqual([
      ['mean_weight', 3, 3],
    ]);
  });

  it('of a long text shows the exact cells of a part, and leads there and back', () => {
    const [T, n] = [100, 40];
    const tokens = Array.from({ length: T }, (_, id) => ({ ...frameOf().tokens[1]!, id }));
    const alpha = tensor([2, 2, T], new Float32Array(4 * T).fill(0.5));
    // Blocks of 4 tokens. The first map has their means, the second their maxima.
    const att = tensor([2, 25, 25], [...Array(625).fill(0.25), ...Array(625).fill(0.75)]);
    const longText = { T, tokens, pooled: 25 };
    const longFrame = mapFrame({ ...longText, head: { ...at, tensors: { att } } } as never, {
      alpha,
    });
    const view = drawView(attention, longFrame);
    expect(view.says('2,1')).toMatchSnapshot();
    const firstOf = (drawnView: typeof view, selector: string) => drawnView.all(selector)[0]!;
    expect([firstOf(view, '.lens').hidden, view.all('.locator').length]).toEqual([false, 0]);
    view.map.events.onChoose!({ row: 20, col: 0 });
    expect(view.set).toHaveBeenCalledWith({ query: 80, key: 0, zoomQuery: 60, zoomKey: 0 });
    // The chosen cell is in the middle of the part, unless it is near an edge.
    view.map.events.onChoose!({ row: 10, col: 9 });
    expect(view.set).toHaveBeenLastCalledWith({ query: 40, key: 36, zoomQuery: 22, zoomKey: 18 });
    view.click('Largest');
    expect(view.set).toHaveBeenLastCalledWith({ pool: 'largest' });
    const maximaView = drawView(attention, longFrame, { pool: 'largest' });
    expect(maximaView.map.data.data[0]).toBe(0.75);
    expect(maximaView.text('.subtitle')).toMatchSnapshot();
    expect(shapesOf(attention.numbers(longFrame, at))).toEqual([
      ['mean_weight', 25, 25],
      ['largest_weight', 25, 25],
    ]);

    const rows = tensor(
      [n, T],
      Float32Array.from({ length: n * T }, (_, i) => (i % T) / 1000 + Math.trunc(i / T) / 100),
    );
    const zoomedFrame = {
      ...longFrame,
      head: { ...longFrame.head!, rows: { query: 60, key: 50, att: rows } },
    };
    const exactView = drawView(attention, zoomedFrame as never, {
      zoomQuery: 60,
      zoomKey: 50,
      query: 70,
      key: 55,
    });
    expect(exactView.map.data).toMatchObject({ rows: n, cols: n, chosen: { row: 10, col: 5 } });
    expect(exactView.map.data.data[3]).toBeCloseTo(0.053);
    expect(exactView.map.data.data[5 * n + 4]).toBeCloseTo(0.104);
    expect(exactView.map.data.rowWords).toHaveLength(n);
    expect(exactView.map.data.label).toContain('Shown exactly: queries 60-99, keys 50-89.');
    expect(exactView.says('0,3 0,11')).toMatchSnapshot();
    exactView.map.events.onBeyond!([1, 0]);
    expect(exactView.set).toHaveBeenLastCalledWith({ zoomQuery: 60, zoomKey: 50 });
    exactView.map.events.onBeyond!([-1, 1]);
    expect(exactView.set).toHaveBeenLastCalledWith({ zoomQuery: 59, zoomKey: 51 });
    exactView.map.events.onChoose!({ row: 0, col: 1 });
    expect(exactView.set).toHaveBeenLastCalledWith({ query: 60, key: 51 });
    const locator = firstOf(exactView, '.locator');
    locator.getBoundingClientRect = () => new DOMRect(0, 0, 100, 100);
    locator.dispatchEvent(new MouseEvent('click', { clientX: 50, clientY: 30, bubbles: true }));
    expect(exactView.set).toHaveBeenLastCalledWith({ zoomQuery: 10, zoomKey: 30 });
    locator.dispatchEvent(new MouseEvent('click', { clientX: 50.6, clientY: 30.4, bubbles: true }));
    expect(exactView.set).toHaveBeenLastCalledWith({ zoomQuery: 10, zoomKey: 31 });
    expect(firstOf(exactView, '.locator .mark').style.top).toBe('60%');
    const press = (key: string) =>
      locator.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    exactView.set.mockClear();
    press('Enter');
    expect(exactView.set).not.toHaveBeenCalled();
    press('Escape');
    expect(exactView.set).toHaveBeenLastCalledWith({ zoomQuery: -1, zoomKey: -1 });
    expect(shapesOf(attention.numbers(zoomedFrame as never, at))).toContainEqual([
      ...['weight', n, n, 'from 60,50'],
    ]);
    expect(drawView(attention, longFrame, { zoomQuery: 60, zoomKey: 50 }).map.data.rows).toBe(25);
  });

  it('reports hovering and selection, and shows what is hovered in another view', () => {
    const view = drawView(attention, mapFrame());
    const { onPoint, onChoose } = view.map.events;
    onPoint!({ row: 1, col: 0 });
    onPoint!(undefined);
    onChoose!({ row: 2, col: 1 });
    expect(view.point.mock.calls).toEqual([[{ query: 1, key: 0 }], [{}]]);
    expect(view.set).toHaveBeenCalledWith({ query: 2, key: 1 });
    view.pointed.value = { query: 0 };
    expect(view.map.lit).toEqual({ row: 0, col: -1 });
    view.pointed.value = { key: 0 };
    expect(view.map.lit).toEqual({ row: -1, col: 0 });
    view.pointed.value = {};
    expect(view.map.lit).toBeUndefined();
    const [map, sums] = attention.numbers(mapFrame(), at);
    expect(map).toMatchObject({ name: 'weight', axes: ['query', 'key'], shape: [3, 3] });
    expect([...(sums!.data as Float32Array)]).toEqual([1, 1, 1]);
  });
});

describe('the sink map', () => {
  it('counts heads, compares with uniform attention, and outlines the selected head', () => {
    const view = drawView(sinks, mapFrame());
    expect(view.text('.caption')).toMatchSnapshot();
    expect(view.map.data).toMatchObject({ rows: 2, cols: 2, chosen: { row: 1, col: 0 } });
    expect([...view.map.data.data]).toEqual([0.125, 0.375, 0.875, 0.25]);
    expect(view.map.data).toMatchObject({ cellShape: 1.2, rowWords: ['0', '1'] });
    expect(legendText(view)).toBe('010%30%50%100%');
    const cells = '1,0 0,1 -1,0 0,-1';
    expect(view.wrong()).toEqual([]);
    expect(view.says(cells)).toEqual([
      'L1H0: α₁ = 0.875, 7.0 times uniform',
      'L0H1: α₁ = 0.375, 3.0 times uniform',
      '',
      '',
    ]);
    view.map.events.onPoint!({ row: 0, col: 1 });
    view.map.events.onPoint!(undefined);
    view.map.events.onChoose!({ row: 0, col: 1 });
    expect(view.point.mock.calls).toEqual([[{ layer: 0, head: 1 }], [{}]]);
    expect(view.set).toHaveBeenCalledWith({ layer: 0, head: 1 });
    view.pointed.value = { layer: 0 };
    expect(view.map.lit).toEqual({ row: 0, col: -1 });
  });

  it('gives the caveats: raw weights, heads near ε, a text that is too short', () => {
    const sentenceOf = (change: object, tensors: Frame['tensors'] = {}) =>
      sinks.says(mapFrame(change as never, tensors), at);
    expect(sentenceOf(sigmoid as never)).toMatchSnapshot();
    expect(sentenceOf({}, { sink_ratio: tensor([3], [0, 0, 0]) })).toMatch(
      /^On this text, none of the 4 heads give <s> more than 30%/,
    );
    const wordsNearThreshold = (n: number, sequences: number) =>
      sentenceOf({ sequences }, { near_eps: tensor([1], [n]) });
    expect([wordsNearThreshold(2, 1), wordsNearThreshold(1.5, 8)]).toEqual([
      expect.stringContaining('; 2 within 0.002 of ε'),
      expect.stringContaining('; 38% within 0.002 of ε'),
    ]);
    expect(sentenceOf({}, { alpha_uniform: tensor([3], [0.5, 0, 0]) })).toMatch(
      /^Heads are not counted: in a text of 3 tokens, uniform attention alone gives <s> 50%, above ε = 0.3; 10 tokens suffice\.$/,
    );
    const numbers = sinks
      .numbers(mapFrame(), at)
      .map(({ name, data }) => [name, ...Array.from(data)]);
    expect(numbers.slice(0, 4)).toEqual([
      ['sink_1', 0.5],
      ['sink_1_raw', 0.5],
      ['sink_1_by_shares', 0.5],
      ['alpha_of_even_attention', 0.125],
    ]);
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
    const view = drawView(change, editedFrame, { query: 2 });
    expect(view.text('.caption')).toMatchSnapshot();
    const selectedView = drawView(change, editedFrame, { ...at, query: 2 });
    expect(selectedView.lines()).toEqual([
      ['without', NaN, 2, 1],
      ['with', NaN, 2.5, 4],
      ['difference', NaN, 0.5, 3],
    ]);
    const [chart] = selectedView.charts();
    expect(chart).toMatchObject({ cursor: 2 });
    chart!.onChoose!(2.9);
    expect(selectedView.set).toHaveBeenCalledWith({ query: 2, key: -1 });
    const [map, alphas] = selectedView.maps;
    expect([...map!.data.data]).toEqual([0, NaN, NaN, -0.5, 0.5, NaN, 0, 0.25, -0.25]);
    expect(map!.data.scale).toMatchObject({ low: -0.5, high: 0.5 });
    expect(selectedView.texts('.subtitle')).toEqual(['Attention of head L1H0', 'α₁ of all heads']);
    expect(legendText(selectedView)).toBe('−0.50+0.50');
    expect(selectedView.says('1,1 1,0 -1,0 0,-1')).toEqual([
      'query 1 “a” → key 1 “a”: +0.500',
      'query 1 “a” → key 0 “<s>”: −0.500',
      '',
      '',
    ]);
    expect([...alphas!.data.data]).toEqual([0, 0, -0.625, 0]);
    expect(selectedView.wrong()).toEqual([]);
    map!.events.onPoint!({ row: 2, col: 1 });
    map!.events.onPoint!(undefined);
    map!.events.onChoose!({ row: 2, col: 1 });
    expect(selectedView.point.mock.calls).toEqual([[{ query: 2, key: 1 }], [{}]]);
    expect(selectedView.set).toHaveBeenLastCalledWith({ query: 2, key: 1, lastKey: -1 });
    expect(shapesOf(change.numbers(editedFrame, at))).toEqual([
      ['loss_change_at', 3],
      ['alpha_1_change', 2, 2],
      ['weight_change', 3, 3],
    ]);
  });

  it('has no map if the two frames show different heads, and no line without predictions', () => {
    for (const head of [
      { layer: 0, head: 0 },
      { layer: 1, head: 1 },
    ]) {
      const otherFrame = {
        ...editedFrame,
        base: { ...baseline, head: { ...baseline.head!, ...head } },
      };
      expect(drawView(change, otherFrame, at).all('.change-map')[0]!.hidden).toBe(true);
    }
    // A map of blocks cannot be subtracted from one of single tokens.
    const blockBaseline = {
      ...baseline,
      pooled: 2,
      head: { ...baseline.head!, tensors: { att: tensor([2, 2], [1, 0, 0.5, 0.5]) } },
    };
    expect(
      drawView(change, { ...editedFrame, base: blockBaseline } as never, at).all('.change-map')[0]!
        .hidden,
    ).toBe(true);
    expect(drawView(change, editedFrame, at).all('.change-map')[0]!.hidden).toBe(false);
    const withoutLosses = mapFrame({ base: baseline } as never, {
      loss_at: tensor([3], [NaN, NaN, NaN]),
    });
    const view = drawView(change, withoutLosses);
    expect(view.all('.chart')[0]!.hidden).toBe(true);
    expect(view.text('.caption')).toMatch(/^The mean weight of <s> in head L1H0 is 88%/);
    expect(change.says(mapFrame(), at)).toBe('No intervention yet.');
    const otherTokens = { ...baseline, tokens: baseline.tokens.slice(1) };
    const emptyView = drawView(change, { ...editedFrame, base: otherTokens }, at);
    const hiddenParts = () =>
      ['.chart', '.change-maps'].map((name) => emptyView.all(name)[0]!.hidden);
    expect(emptyView.text('.caption')).toMatch(/^There is nothing to compare: /);
    expect(hiddenParts()).toEqual([true, true]);
    emptyView.draw(editedFrame, at);
    expect(hiddenParts()).toEqual([false, false]);
    expect(drawView(change, editedFrame).all('.chart')[0]!.hidden).toBe(false);
    expect(drawView(change, editedFrame).charts()[0]).not.toHaveProperty('cursor');
    expect(drawView(change, editedFrame, { query: 0 }).charts()[0]).toMatchObject({ cursor: 0 });
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

  it('gives the mean cosines and the norm of the first key', () => {
    // The first query sees no other key: (1 + 0.5 + 0) / 3, and (-0.5 - 1 - 1) / 3.
    expect(geometry.says(frame, at)).toMatchSnapshot();
    expect(geometry.says(frame, { layer: 1, head: 1 })).toMatch(/‖k₁‖ is 0\.25× the mean/);
    expect(geometry.says(mapFrame(), at)).toBe('');
    expect(geometry.says({ ...frame, sequences: 8 }, at)).toMatch(
      /^Cosine of query and key on the first prompt: \+0\.50 .*‖k₁‖ is 0\.25×/,
    );
    expect(shapesOf(geometry.numbers(frame, at))).toEqual([
      ['cos', 3, 3],
      ['dot', 3, 3],
      ['norm', 3, 3],
      ['cosine_gap', 2, 2],
    ]);
  });

  it.each([
    ['cos', [-1, 1], '-1.01.0', 'q 1, k 0: 0.50'],
    ['dot', [-8, 8], '-8.08.0', 'q 1, k 0: -8.00'],
    ['norm', [0, 8], '08.0', 'q 1, k 0: 8.00'],
  ] as const)('maps %s', (map, [low, high], legend, cell) => {
    const view = drawView(geometry, frame, { map });
    expect(view.map.data.scale).toMatchObject({ low, high });
    expect(legendText(view)).toBe(legend);
    expect(view.wrong()).toEqual([]);
    expect(view.says('1,0 -1,0 0,-1')).toEqual([cell, '', '']);
    expect(view.text('[aria-pressed=true]')).toBe(
      { cos: 'cosine', dot: 'q·k', norm: '‖q‖‖k‖' }[map],
    );
    view.click('cosine');
    expect(view.set).toHaveBeenCalledWith({ map: 'cos' });
  });

  it('marks the cell that another view points at', () => {
    const view = drawView(geometry, frame);
    view.map.events.onPoint!({ row: 1, col: 0 });
    expect(view.point).toHaveBeenCalledWith({ query: 1, key: 0 });
    view.pointed.value = { key: 0 };
    expect(view.map.lit).toEqual({ row: -1, col: 0 });
    view.pointed.value = { query: 0 };
    expect(view.map.lit).toEqual({ row: 0, col: -1 });
    view.pointed.value = {};
    expect(view.map.lit).toBeUndefined();
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
    expect(router.says(frame, { layer: 0, head: 0 })).toMatchSnapshot();
    expect(router.says(frame, at)).toMatch(
      /^Layer 1: .* to expert 2 \(0\.75\) and 1 \(0\.25\); 50% of/,
    );
    expect(drawView(router, frame, { layer: 0, head: 0 }).text('.caption')).toBe(
      router.says(frame, { layer: 0, head: 0 }),
    );
    // One of three others shares the first token's experts; the second token's are shared by two.
    const fourTokens = mapFrame({ T: 4, architecture: architecture({ L: 1, E: 2 }) } as never, {
      router: tensor([1, 4, 2], [1, 0, 0, 1, 0, 1, 1, 0]),
      alpha: tensor([1, 2, 4], new Float32Array(8)),
    });
    expect(router.says(fourTokens, { layer: 0, head: 0 })).toMatch(
      /expert 0 \(1\.00\); 33% of the other/,
    );
    const singleToken = mapFrame({ T: 1, architecture: architecture({ E: 3 }) } as never, {
      router: tensor([2, 1, 3], [1, 0, 0, 1, 0, 0]),
      alpha: tensor([2, 2, 1], [1, 1, 1, 1]),
    });
    expect(router.says(singleToken, at)).toMatch(
      /to expert 0 \(1\.00\)\. Its largest α₁: 1\.00\.$/,
    );
  });

  it('draws tokens by experts, the load of experts, and layers by experts', () => {
    const view = drawView(router, frame, { layer: 1, head: 1, query: 1 });
    const [tokens, firstMap, othersMap] = view.maps;
    expect(tokens!.data).toMatchObject({
      rows: 3,
      cols: 3,
      chosen: { row: -1, col: 1 },
      cellShape: 1,
    });
    expect([...tokens!.data.data]).toEqual([0, 0, 0.5, 0.25, 0.25, 0, 0.75, 0.75, 0.5]);
    expect(view.says('2,1 0,0 -1,2 0,-1')).toEqual([
      'token 1 “a”, expert 2: weight 0.750',
      'token 0 “<s>”, expert 0: not selected',
      'token 2 “=1,"x"↵”: expert 0 and 2',
      '',
    ]);
    expect(
      view.lines().map(([name, ...values]) => [name, ...values.map((x) => Number(x).toFixed(3))]),
    ).toEqual([
      ['tokens routed to it', '0.333', '0.667', '1.000'],
      ['uniform load', '0.667', '0.667', '0.667'],
    ]);
    expect(view.charts()[0]!.label).toContain('33%, 67%, 100% of the tokens');
    expect(view.charts()[0]).toMatchObject({ percent: true, domain: [0, 1] });
    expect([...firstMap!.data.data]).toEqual([0.75, 0.25, 0, 0, 0.25, 0.75]);
    expect(firstMap!.data).toMatchObject({ rows: 2, cols: 3, chosen: { row: 1, col: -1 } });
    expect(firstMap!.data.describe({ row: 1, col: 2 })).toBe(
      'layer 1, expert 2, first token: 0.750',
    );
    expect(othersMap!.data.describe({ row: 0, col: 1 })).toMatchSnapshot();
    expect([
      firstMap!.data.describe({ row: -1, col: 1 }),
      firstMap!.data.describe({ row: 1, col: -1 }),
    ]).toEqual(['', '']);
    expect(view.texts('.subtitle')).toEqual(['first token, by layer', 'mean of the others']);
    expect(legendText(view)).toBe('weight 01');
    expect(view.wrong()).toEqual([]);
    tokens!.events.onPoint!({ row: 0, col: 2 });
    tokens!.events.onPoint!(undefined);
    expect(view.point.mock.calls).toEqual([[{ query: 2, key: 2 }], [{}]]);
    tokens!.events.onChoose!({ row: 0, col: 2 });
    expect(view.set).toHaveBeenLastCalledWith({ query: 2, key: -1 });
    firstMap!.events.onChoose!({ row: 0, col: 2 });
    expect(view.set).toHaveBeenLastCalledWith({ layer: 0, head: 1 });
    view.pointed.value = { query: 0 };
    expect(tokens!.lit).toEqual({ row: -1, col: 0 });
    view.pointed.value = { query: -1 };
    expect(tokens!.lit).toBeUndefined();
    view.draw(frame, { layer: 0, head: 0 });
    expect([...tokens!.data.data]).toEqual([0.75, 0, 0.25, 0.25, 0.5, 0.75, 0, 0.5, 0]);
    const otherWeights = Float32Array.from(weights, (x) => 1 - x);
    view.draw(
      {
        ...frame,
        tensors: { ...frame.tensors, router: tensor([2, 3, 3], [...otherWeights]) },
      } as never,
      {
        ...{ layer: 0, head: 0 },
      },
    );
    expect([...tokens!.data.data]).toEqual([0.25, 1, 0.75, 0.75, 0.5, 0.25, 1, 0.5, 1]);
    view.draw(frame, { layer: 0, head: 0 });
    expect(tokens!.data.chosen).toBeUndefined();
    view.draw(frame, { layer: 0, head: 0, query: 0 });
    expect(tokens!.data.chosen).toEqual({ row: -1, col: 0 });
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
  it('positions: draws the keys that enough queries see, and names the strongest sinks', () => {
    const T = 10;
    const tokens = Array.from({ length: T }, (_, t) => ({
      ...frameOf().tokens[1]!,
      text: ` w${t}`,
    }));
    const frame = mapFrame({ T, tokens } as never, {
      alpha: tensor(
        [2, 2, T],
        Float32Array.from({ length: 40 }, (_, i) => i / 64),
      ),
      alpha_uniform: tensor(
        [T],
        Float32Array.from({ length: T }, (_, t) => t / 16),
      ),
      sink_ratio: tensor([T], [0.5, 0, 0.75, 1, 0, 0, 0, 0, 0, 0]),
      sink_ratio_raw: tensor([T], [0.25, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    });
    const mask = { kind: 'bidirectional' };
    const alphaTensor = tensor([T], [0.1, 0.2, 0.3, 0.4, 0.5, 0, 0, 0, 0, 0]);
    const encoder = { ...frame, architecture: architecture({ mask }) } as Frame;
    expect(
      scores.says({ ...encoder, tensors: { ...encoder.tensors, sink_ratio: alphaTensor } }, at),
    ).toMatchSnapshot();
    // Where rows need not sum to 1, heads count by their shares and by their raw weights.
    const sigmoidView = drawView(scores, { ...frame, ...(sigmoid as Partial<Frame>) }, at);
    expect(sigmoidView.text('.caption')).toMatchSnapshot();
    expect(sigmoidView.lines(1)).toEqual([['αₖ > 0.3', 0.25, 0, 0]]);
    const even = { ...frame.tensors, alpha_uniform: tensor([T], Array(T).fill(0.5)) };
    expect(scores.says({ ...frame, tensors: even } as Frame, at)).toMatch(
      /^Heads are not counted: in a text of 10 tokens/,
    );
    const view = drawView(scores, frame, at);
    expect(view.text('.caption')).toMatchSnapshot();
    expect(view.lines()).toEqual([
      ['head L1H0', 20 / 64, 21 / 64, 22 / 64],
      ['uniform attention', 0, 1 / 16, 2 / 16],
    ]);
    expect(view.lines(1)).toEqual([['αₖ > 0.3', 0.5, 0, 0.75]]);
    expect(view.charts().map((chart) => chart.domain)).toEqual([
      [0, 1],
      [0, 0.75],
    ]);
    // The paper's α₁ is that of the first token.
    expect(view.charts().map((chart) => chart.from)).toEqual([1, 1]);
    // A number of all prompts is of a token only if all of them have it at that position.
    const manyPrompts = {
      ...frame,
      sequences: 2,
      ids: [
        [0, 5, 6],
        [0, 5, 7],
      ],
    };
    expect(scores.says(manyPrompts, at)).toMatchSnapshot();
    expect(
      scores.says(
        {
          ...manyPrompts,
          ids: [
            [0, 5, 6],
            [1, 5, 7],
          ],
        },
        at,
      ),
    ).toMatch(/ k = 1 in 50%/);
    const withoutSink = {
      ...frame,
      tensors: { ...frame.tensors, sink_ratio: tensor([T], new Float32Array(T)) },
    };
    expect(scores.says(withoutSink, at)).toMatchSnapshot();
    expect(drawView(scores, withoutSink, at).charts()[1]!.domain).toEqual([0, 0.2]);
    expect(shapesOf(scores.numbers(frame, at))).toEqual([
      ['alpha', T],
      ['alpha_of_even_attention', T],
      ['sink', T],
    ]);
  });

  it('Sink₁ by threshold: draws the share of heads whose α₁ exceeds each threshold', () => {
    const view = drawView(threshold, mapFrame());
    expect(view.text('.caption')).toMatchSnapshot();
    expect(
      threshold.says(
        mapFrame(
          {},
          {
            alpha: tensor(
              [2, 2, 3],
              ALPHA.data.map((_, i) => [0.5, 0.5, 0.5, 0.75][i / 3] ?? 0),
            ),
          },
        ),
        at,
      ),
    ).toContain('25% have α₁ > 0.5');
    const [chart] = view.charts();
    const { values, places } = chart!.series[0]!;
    expect([values.length, places!.length]).toEqual([101, 101]);
    expect([0, 12, 13, 24, 25, 37, 38, 87, 88, 100].map((i) => values[i])).toEqual([
      1, 1, 0.75, 0.75, 0.5, 0.5, 0.25, 0.25, 0, 0,
    ]);
    expect(places![25]).toBe(0.25);
    expect(chart).toMatchObject({
      cursor: 0.3,
      cursorWords: 'ε = 0.3',
      domain: [0, 1],
      dots: false,
      percent: true,
    });
  });

  it('Sink₁ by threshold: averages the shares of the prompts, which are not the share of the means', () => {
    // Two prompts of four heads: 3 of 4 and 1 of 4 are above 0.3, 50% on average; of the means, 0.29 or more, 3 are.
    const first_alphas = tensor([2, 4], [0.9, 0.9, 0.9, 0.1, 0.9, 0.2, 0.2, 0.1]);
    const alpha = tensor([2, 2, 3], [0.9, 0, 0, 0.55, 0, 0, 0.55, 0, 0, 0.1, 0, 0]);
    const means = mapFrame({ sequences: 2 }, { alpha });
    const eachPrompt = mapFrame({ sequences: 2 }, { alpha, first_alphas });
    expect(threshold.says(eachPrompt, at)).toMatch(
      /^Of 4 heads, on average over 2 prompts 75% have α₁ > 0\.1, .* 50% have α₁ > 0\.3, /,
    );
    expect(threshold.numbers(eachPrompt, at)[0]!.data[30]).toBe(0.5);
    // Of a recording only the means may be known: it then says so, and draws no Sink₁.
    expect(threshold.says(means, at)).toMatch(/^Of 4 heads, .* 75% have mean α₁ > 0\.3, /);
    expect(drawView(threshold, means).charts()[0]!.yLabel).toBe('share of heads');
    expect(drawView(threshold, eachPrompt).charts()[0]!.yLabel).toBe('Sink₁');
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
    const att = tensor(
      [1, 2, T, T],
      [...mapOf((t) => (t ? 0.5 : 1)), ...mapOf((t) => (t ? 0 : 1))],
    );
    const frame = mapFrame({ T, architecture: architecture({ L: 1 }) } as never, { att });
    const [sink, mean, uniform] = length.numbers(frame, at).map(({ data }) => Array.from(data));
    // Head 0: (1 + 0.5 (n - 1)) / n; head 1: 1 / n, above 0.3 up to n = 3.
    expect(sink).toEqual([1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]);
    expect([mean![0], mean![1], mean![3]]).toEqual([1, (0.75 + 0.5) / 2, (2.5 / 4 + 0.25) / 2]);
    expect([uniform![0], uniform![1]]).toEqual([1, 0.75]);
    expect(length.says(frame, at)).toBe(
      'T = 8: Sink₁ 50%, mean α₁ 0.34 (uniform 0.34); T = 9: Sink₁ 50%, mean α₁ 0.33 (uniform 0.31).',
    );
    // One head gives the first key weight only in row 0: α₁ is 1 / T, so Sink₁ is 0 from four tokens on.
    const onlyFirst = tensor(
      [1, 1, T, T],
      mapOf((t) => (t ? 0 : 1)),
    );
    const singleHead = mapFrame({ T, architecture: architecture({ L: 1, H: 1 }) } as never, {
      att: onlyFirst,
    });
    expect(
      length.says(
        {
          ...singleHead,
          T: 4,
          tensors: { att: tensor([1, 1, 4, 4], [1, ...new Float32Array(15)]) },
        },
        at,
      ),
    ).toBe('T = 4: Sink₁ 0%, mean α₁ 0.25 (uniform 0.52).');
    expect(length.says(singleHead, at)).toBe(
      'T = 8: Sink₁ 0%, mean α₁ 0.13 (uniform 0.34); T = 9: Sink₁ 0%, mean α₁ 0.11 (uniform 0.31).',
    );
    const bookLength = 600;
    const book = mapFrame({ T: bookLength, architecture: architecture({ L: 1, H: 1 }) } as never, {
      att: tensor(
        [1, 1, bookLength, bookLength],
        new Float32Array(bookLength * bookLength).fill(0.25),
      ),
    });
    const lengthWords = (T: number) =>
      length.says(
        { ...book, T, tensors: { att: tensor([1, 1, T, T], new Float32Array(T * T)) } },
        at,
      );
    expect(
      length
        .says(book, at)
        .match(/T = \d+/g)!
        .join(),
    ).toBe('T = 128,T = 256,T = 512,T = 600');
    expect(
      lengthWords(64)
        .match(/T = \d+/g)!
        .join(),
    ).toBe('T = 8,T = 16,T = 32,T = 64');
    expect(drawView(length, frame).charts()[0]).toMatchObject({
      from: 1,
      domain: [0, 1],
      dots: false,
      percent: true,
    });
    expect(
      drawView(length, frame)
        .lines()
        .map(([name]) => name),
    ).toEqual(['Sink₁', 'mean α₁', 'uniform attention']);
    // If rows need not sum to 1, shares of rows count: here all of each row goes to the first key.
    const sigmoidFrame = {
      ...frame,
      ...(sigmoid as object),
      tensors: { ...frame.tensors },
    } as Frame;
    expect(Array.from(length.numbers(sigmoidFrame, at)[1]!.data)[1]).toBe((1 + 0.5) / 2);
    expect(length.fits!(frame)).toBe(true);
    expect(
      length.fits!({ ...frame, architecture: architecture({ mask: { kind: 'bidirectional' } }) }),
    ).toBe(false);
    expect([2048, 2049].map((T) => length.fits!({ ...mapFrame(), T }))).toEqual([true, false]);
  });

  it('norm ratios: draws a line for each model', () => {
    const frame = mapFrame({}, { hidden_ratio: tensor([3], [1, 8, 2]) });
    const model = { id: 'sigmoid', title: 'Other', source: 'zoo' } as const;
    const otherFrame = mapFrame(
      { title: 'Other', model },
      { hidden_ratio: tensor([3], [3, 2, 1]) },
    );
    const view = drawView(ratios, frame, { frames: [frame, otherFrame] });
    expect(view.root.querySelector('.caption')!.textContent).toMatchSnapshot();
    expect(view.lines()).toEqual([
      ['Softmax model', 1, 8, 2],
      ['Other', 3, 2, 1],
    ]);
    expect(view.charts()[0]).toMatchObject({ from: -1, log: true });
    expect(view.charts()[0]!.series.map(({ color }) => color)).toEqual(['--run-1', '--run-2']);
  });

  it('compression valley: draws a line for each model, and a dashed one without the first token', () => {
    const entropyTensors = (all: number[], others: number[]) => ({
      matrix_entropy: tensor([3], all),
      matrix_entropy_others: tensor([3], others),
    });
    const frame = mapFrame({}, entropyTensors([0.75, 0.25, 0.5], [0.75, 0.375, 0.5]));
    const model = { id: 'sigmoid', title: 'Other', source: 'zoo' } as const;
    const otherFrame = mapFrame(
      { title: 'Other', model },
      entropyTensors([0.5, 0.125, 0.25], [0.5, 0.5, 0.5]),
    );
    const view = drawView(compression, frame, { frames: [frame, otherFrame] });
    expect(view.lines()).toEqual([
      ['Softmax model', 0.75, 0.25, 0.5],
      ['Softmax model', 0.75, 0.375, 0.5],
      ['Other', 0.5, 0.125, 0.25],
      ['Other', 0.5, 0.5, 0.5],
    ]);
    const [chart] = view.charts();
    expect(chart).toMatchObject({ from: -1, domain: [0, 1] });
    expect(chart!.series.map(({ color, dash }) => [color, dash])).toEqual([
      ...[
        ['--run-1', undefined],
        ['--run-1', '4,3'],
      ],
      ...[
        ['--run-2', undefined],
        ['--run-2', '4,3'],
      ],
    ]);
    expect(view.root.querySelector('.caption')!.textContent).toBe(
      [frame, otherFrame].map((frame) => compression.says(frame, at)).join('\n'),
    );
  });

  it('parts of the logit: draws the contributions of attention and feed-forward of each layer', () => {
    // Head (1, 0): an embedding, then attention of layer 0 by head and its feed-forward, then biases.
    const logit_parts = tensor(
      [2, 2, 6],
      [1, 2, 3, 4].flatMap((x) => [x, 0.5 * x, x / 8, NaN, NaN, 0.25]),
    );
    const frame = mapFrame(
      {},
      { logit_parts, logit_parts_heads: tensor([2, 2, 2, 2], new Array(16).fill(1)) },
    );
    const view = drawView(logitParts, frame);
    const { embedding, attention, ffn } = partsOf(frame, at);
    expect(view.lines()).toEqual([
      ['feed-forward', NaN, ...ffn],
      ['attention', NaN, ...attention],
      ['embedding', embedding],
    ]);
    expect(view.charts()[0]).toMatchObject({ from: -1, kind: 'lines' });
    const sentence = logitParts.says(frame, at);
    expect(view.text('.caption')).toBe(sentence);
    expect(view.charts()[0]!.label).toBe(`Parts of the first key’s logit by layer. ${sentence}`);
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
    const view = drawView(norms, frame);
    expect(view.text('.caption')).toMatchSnapshot();
    // Over several prompts the size is a mean, but the place belongs to the first prompt.
    expect(norms.says({ ...frame, sequences: 4 } as Frame, at)).toMatchSnapshot();
    expect([0, 1, 2].map((i) => view.lines(i).map(([, ...values]) => values))).toEqual([
      [
        [8, 16, 4],
        [2, 2, 4],
      ],
      [
        [2, 1],
        [4, 1],
      ],
      [
        [0.5, 1],
        [3, 1],
      ],
    ]);
    const placesOf = (drawnView: typeof view) =>
      drawnView.charts().map(({ series }) => series[0]!.places);
    expect(view.charts().map(({ domain }) => domain)).toEqual([
      [2, 16],
      [1, 4],
      [0.5, 3],
    ]);
    expect(placesOf(view)).toEqual([
      [-1, 0, 1],
      [0, 1],
      [0, 1],
    ]);
    // In a hybrid, keys and values exist in the layers with attention.
    expect(placesOf(drawView(norms, hybridOf(frame)))[1]).toEqual([1, 3]);
    expect(shapesOf(norms.numbers(frame, at))).toEqual([
      ['hidden_norm', 3, 3, 'from -1,0'],
      ['key_norm', 2, 2, 3],
      ['value_norm', 2, 2, 3],
    ]);
    const zeroNorm = {
      ...frame,
      tensors: { ...frame.tensors, hidden_norm: tensor([3, 3], [0, 1, 3, 16, 2, 2, 4, 4, 4]) },
    };
    expect(drawView(norms, frame, { frames: [frame, zeroNorm] }).charts()[0]!.domain).toEqual([
      2, 16,
    ]);
    expect(drawView(norms, zeroNorm).charts()[0]!.domain).toEqual([2, 16]);
  });

  it('row sums: draws all models on one scale', () => {
    const frameOfSums = (most: number) =>
      mapFrame(sigmoid as never, {
        row_mass: tensor([2, 2, 3], [0, 0, 0, 0, 0, 0, 0.5, most, 0.25, 0, 0, 0]),
        row_mass_summary: tensor([2, 2, 3], [0, 0, 0, 0, 0, 0, 0.5, 0.25, 0.75, 0, 0, 0]),
        alpha_raw: tensor([2, 2, 3], [0, 0, 0, 0, 0, 0, 0.125, 0, 0, 0, 0, 0]),
      });
    const view = drawView(mass, frameOfSums(0.75));
    expect(view.text('.caption')).toBe(
      'Head L1H0: mean 0.50, min 0.25, max 0.75; unnormalized α₁ 0.125.',
    );
    expect(view.lines()).toEqual([['sigmoid', 0.5, 0.75, 0.25]]);
    expect(view.charts()[0]!.domain).toEqual([0, 1.1]);
    const smallFrame = { ...frameOfSums(4), architecture: architecture({ L: 2, H: 2 }) };
    expect(
      drawView(mass, frameOfSums(0.75), { frames: [frameOfSums(0.75), smallFrame] }).charts()[0]!
        .domain,
    ).toEqual([0, 4.4]);
    const otherFrame = mapFrame(
      {},
      {
        row_mass: tensor([2, 2, 3], [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        alpha: tensor([2, 2, 3], [0.9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
      },
    );
    expect(
      drawView(mass, frameOfSums(0.75), { frames: [frameOfSums(0.75), otherFrame] }).charts()[0]!
        .domain![1],
    ).toBeCloseTo(3.3);
    const singleHead = mapFrame({ architecture: architecture({ L: 1, H: 1 }) } as never, {
      row_mass: tensor([1, 1, 3], [2, 2, 2]),
    });
    expect(
      drawView(mass, frameOfSums(0.75), {
        frames: [frameOfSums(0.75), singleHead],
        layer: 1,
        head: 1,
      }).charts()[0]!.domain,
    ).toEqual([0, 2.2]);
    expect(shapesOf(mass.numbers(frameOfSums(1), at))).toEqual([['row_mass', 3]]);
  });
});

describe('views with a number for each head and a line over the text', () => {
  it('contribution: draws what each key contributes', () => {
    const sharesOf = (first: number) =>
      tensor([2, 2, 3], [0.5, 0, 0, 0.25, 0, 0, first, 0.25, 0.5, 0, 0, 0]);
    const frame = mapFrame(
      {},
      { contribution_at: sharesOf(0.125), contribution_out_at: sharesOf(0.0625) },
    );
    const view = drawView(contribution, frame);
    expect(view.text('.caption')).toMatchSnapshot();
    expect([...view.map.data.data]).toEqual([0.5, 0.25, 0.0625, 0]);
    expect(view.lines()).toMatchSnapshot();
    expect(shapesOf(contribution.numbers(frame, at))).toHaveLength(3);
    expect(view.charts()[0]!.domain).toEqual([0, 1]);
  });

  it('gate: draws the gate of each head', () => {
    const frame = mapFrame(
      {},
      {
        gate_mean: tensor([2, 2], [0.5, 0.25, 0.125, 0.125]),
        gate: tensor([2, 2, 3], [0, 0, 0, 0, 0, 0, 1, 0.25, 0.5, 0, 0, 0]),
      },
    );
    const view = drawView(gate, frame);
    expect(view.text('.caption')).toMatchSnapshot();
    expect(gate.says({ ...frame, T: 1 }, at)).toMatch(/1\.00 at <s>\.$/);
    expect(view.lines()).toEqual([['gate', 1, 0.25, 0.5]]);
    expect(view.says('0,1')).toEqual(['L0H1: gate = 0.250']);
    expect(view.charts()[0]!.domain).toEqual([0, 1]);
    const hybridView = drawView(gate, hybridOf(frame));
    expect(hybridView.text('.caption')).toContain('Head L3H0: 1.00 at <s>');
    expect(hybridView.charts()[0]!.label).toContain('head L3H0');
    const fitsGate = (kind: unknown) =>
      gate.fits!(mapFrame({ architecture: architecture({ gate: kind }) } as never));
    expect([null, 'output'].map(fitsGate)).toEqual([false, true]);
  });

  it('bias key: draws the attention to the bias key', () => {
    const frame = mapFrame(
      {},
      {
        sink_ratio_bias: tensor([1], [0.25]),
        alpha_bias: tensor([2, 2], [0.5, 0.25, 0.75, 0]),
        att_bias: tensor([2, 2, 3], [0, 0, 0, 0, 0, 0, 0.75, 0.5, 0.25, 0, 0, 0]),
        row_mass: tensor([2, 2, 3], [0, 0, 0, 0, 0, 0, 0.25, 0.5, 0.75, 0, 0, 0]),
      },
    );
    const view = drawView(bias, frame);
    expect(view.text('.caption')).toMatchSnapshot();
    expect(view.lines()).toEqual([
      ['bias key', 0.75, 0.5, 0.25],
      ['all tokens', 0.25, 0.5, 0.75],
    ]);
    expect([...view.map.data.data]).toEqual([0.5, 0.25, 0.75, 0]);
    expect(view.charts()[0]!.domain).toEqual([0, 1]);
    expect(
      [null, 'learned'].map((kind) =>
        bias.fits!(mapFrame({ architecture: architecture({ bias_key: kind }) } as never)),
      ),
    ).toEqual([false, true]);
    expect(shapesOf(bias.numbers(frame, at))).toEqual([
      ['sink_bias'],
      ['alpha_bias', 2, 2],
      ['weight_of_bias', 2, 2, 3],
    ]);
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
    const view = drawView(effects, frame);
    expect(view.text('.caption')).toMatchSnapshot();
    // Under the room's answer, which explains dormant heads, the caption begins with the head.
    expect(drawView(effects, frame, { isAnswered: true }).text('.caption')).toMatch(
      /^Head L0H1 is dormant/,
    );
    expect(effects.says(frame, { layer: 0, head: 1 })).toMatch(
      /Head L0H1 is dormant: .* 75% .* changes the loss by \+0\.008\. Ablating/,
    );
    expect(effects.says(frame, { layer: 0, head: 0 })).toMatch(/Head L0H0 has no sink: .* 25%/);
    expect(effects.says(hybridOf(frame), { layer: 0, head: 0 })).toMatch(
      /Head L1H0 has no sink: .* Ablating head L3H0 changes/,
    );
    expect(view.map.data).toMatchObject({
      outlined: [
        { row: 0, col: 1 },
        { row: 1, col: 1 },
      ],
      scale: { low: -0.5, high: 0.5 },
    });
    expect(view.text('.outline-key')).toMatchSnapshot();
    const usedTensors = { ...frame.tensors, effect: tensor([2, 2], [0.5, 0.5, 0.5, 0.5]) };
    view.draw({ ...frame, tensors: usedTensors });
    expect(view.text('.outline-key')).toBe('');
    view.draw(frame);
    expect(view.wrong()).toEqual([]);
    expect(view.says('0,1 1,0')).toMatchSnapshot();
    // A head whose ablation changes the loss is not called a no-op, whatever its attention.
    expect(effects.says({ ...frame, eps: 0.2 }, { layer: 0, head: 0 })).toMatch(
      /has a sink, and the model predicts better without it:/,
    );
    const fallingTensors = { ...frame.tensors, effect: tensor([2, 2], [-0.75, 0, 0.5, 0]) };
    expect(effects.says({ ...frame, tensors: fallingTensors }, at)).toMatchSnapshot();
    expect(legendText(view)).toBe('loss change −0.50.5');
    expect(view.texts('tbody tr')).toEqual([
      'sink, dormant 2 63% +0.006',
      'sink, changes the loss 1 50% +0.500',
      'no sink 1 25% −0.250',
    ]);
    const kinds = effects.numbers(frame, at)[3]!;
    expect([kinds.name, ...Array.from(kinds.data)]).toEqual([
      ...['label (1 active, 2 no-op, 3 parked, 4 broadcast)', 1, 4, 3, 2],
    ]);
    const [table] = view.all('.table-place');
    expect([
      table!.tabIndex,
      table!.getAttribute('role'),
      table!.getAttribute('aria-label'),
    ]).toEqual([...[0, 'region', 'Heads by kind']]);
    // Where rows need not sum to 1, a large share without a large raw weight is no sink.
    const alpha_raw = tensor([2, 2, 3], [1, 0, 0, 0.1, 0, 0, 1, 0, 0, 0.1, 0, 0]);
    const sigmoidFrame = {
      ...frame,
      ...(sigmoid as Partial<Frame>),
      tensors: { ...frame.tensors, alpha_raw },
    };
    expect(effects.says(sigmoidFrame, { layer: 0, head: 1 })).toMatch(
      /^0 of 4 heads are dormant .* Head L0H1 has no sink: it gives <s> a mean weight of 10%,/,
    );
    // A text that is too short for a verdict has no head with a sink, and none without one.
    const shortTensors = { ...frame.tensors, alpha_uniform: tensor([3], [0.5, 0, 0]) };
    const shortView = drawView(effects, { ...frame, tensors: shortTensors }, { isAnswered: true });
    expect(shortView.text('.caption')).toMatch(
      /^Heads are not counted: .* Head L0H1 gives <s> 75% of its attention, and ablating/,
    );
    expect(shortView.all('.table-place')[0]!.hidden).toBe(true);
    const weakFrame = {
      ...frame,
      tensors: { ...frame.tensors, effect: tensor([2, 2], [0, 0, 0.001, 0]) },
    };
    const weakView = drawView(effects, weakFrame);
    expect(weakView.map.data.scale).toMatchObject({ high: 0.01 });
    expect(legendText(weakView)).toBe('loss change −0.0100.010');
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
    const view = drawView(channels, frame);
    expect(view.text('.caption')).toMatchSnapshot();
    const { data } = view.map;
    expect(data).toMatchObject({
      rows: 3,
      cols: 4,
      chosen: { row: 1, col: 2 },
      scale: { high: 8, isSquareRoot: true },
    });
    expect([Array.from(data.data)[6], data.cellShape]).toEqual([8, (1.3 * 3) / 4]);
    expect(legendText(view)).toBe('|h| 08.0');
    expect(view.wrong()).toEqual([]);
    expect(view.says('1,2 -1,2 1,-1')).toEqual(['token 1 “a”, channel 2: |h| = 8.00', '', '']);
    view.map.events.onChoose!({ row: 2, col: 3 });
    expect(view.set).toHaveBeenCalledWith({ channel: 3, query: 2, key: -1, layer: 0, head: 0 });
    const evenHidden = Float32Array.from(hidden);
    evenHidden[24 + 8 + 1] = -2;
    const evenFrame = mapFrame({}, { ...tensors, hidden: tensor([3, 3, 4], evenHidden) });
    expect(drawView(channels, evenFrame, { layer: 1, head: 0 }).text('.caption')).toMatch(
      /^After layer 1, .*median: channel 3 of token 0/,
    );
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
    const lastView = drawView(channels, frame, { layer: 1, head: 0, channel: 1, query: 2 });
    expect(lastView.text('.caption')).toMatch(
      /^After layer 1, the largest activation of the residual stream is 2\.0, 2× the median: channel 3 of token 0/,
    );
    expect(lastView.map.data.chosen).toEqual({ row: 2, col: 1 });
    expect(drawView(channels, frame, { channel: 0, query: 1 }).map.data.chosen).toEqual({
      row: 1,
      col: 0,
    });
    lastView.draw(frame, { layer: 0, head: 0 });
    expect(Array.from(lastView.map.data.data)[6]).toBe(8);
    const earlyPeak = mapFrame(
      {},
      { ...tensors, massive: tensor([3, 4], [9, 0, 0, 1, 8, 0, 0, 4, 2, 0, 0, 1]) },
    );
    const embeddingView = drawView(channels, earlyPeak);
    embeddingView.map.events.onChoose!({ row: 0, col: 0 });
    expect(embeddingView.set).toHaveBeenCalledWith({ channel: 0, query: 0, key: -1 });
    expect(shapesOf(channels.numbers(frame, { layer: 1, head: 0 }))).toEqual([
      ['hidden', 3, 4],
      ['kurtosis', 3, 'from -1'],
      ['super_weight', 2, 6],
    ]);
    expect(Array.from(channels.numbers(frame, { layer: 0, head: 0 })[0]!.data)[6]).toBe(-8);
    const withoutSuperWeight = mapFrame(
      {},
      { ...tensors, super_weight: tensor([2, 6], new Float32Array(12).fill(NaN)) },
    );
    expect(channels.says(withoutSuperWeight, at)).toMatch(/has 3\)\.$/);
  });

  it('state the largest activation of the first prompt, which the map shows, not the mean over several', () => {
    const massive = tensor([3, 4], [1, 0, 0, 1, 80, 0, 0, 4, 2, 0, 0, 1]);
    const means = mapFrame({ sequences: 2 }, { ...tensors, massive });
    expect(channels.says(means, at)).toMatch(
      /^After layer 0, the largest activation of the residual stream is 8\.0, 16× the median: channel 2 of token 1, .*\(mean over 2 prompts;/,
    );
    expect(drawView(channels, means).map.data.scale).toMatchObject({ high: 8 });
  });

  it('count channels like those of the first token after the layer where that is largest', () => {
    const norms = tensor([3, 3], [4, 4, 4, 8, 4, 3, 1, 1, 1]);
    const ratio = tensor([3], [1, 4, 2]);
    const plainFrame = mapFrame({}, { hidden_norm: norms, hidden_ratio: ratio });
    expect(likeness.says(plainFrame, at)).toMatchSnapshot();
    const question = { ...plainFrame.question, input: 'repeat', repeatedToken: 'first' } as never;
    const repeatedFrame = mapFrame(
      { question },
      {
        hidden_norm: tensor([3, 3], [1, 1, 1, 2, 2, 8, 1, 1, 1]),
        hidden_ratio: tensor([3], [9, 1, 1]),
      },
    );
    expect(likeness.says(repeatedFrame, at)).toMatchSnapshot();
    const view = drawView(likeness, repeatedFrame, {
      group: [plainFrame, repeatedFrame],
      frames: [plainFrame, repeatedFrame],
    });
    expect(view.text('.caption')).toMatchSnapshot();
    expect(view.lines()).toEqual([
      ['ordinary text', 1, 0.5, 0.375],
      ['“<s>”, 2 times', 1, 1, 4],
    ]);
    expect(shapesOf(likeness.numbers(plainFrame, at))).toEqual([
      ['hidden_norm', 3, 3, 'from -1,0'],
    ]);
    // Values far above the first token's norm do not flatten the chart.
    expect(view.charts()[0]!.domain).toEqual([0, 3]);
    expect(view.charts()[0]!.series.map(({ color }) => color)).toEqual(['--ink-3', '--query']);
    const plainView = drawView(likeness, plainFrame);
    expect(plainView.charts()[0]!.domain).toEqual([0, 1.2]);
    const thirdView = drawView(likeness, plainFrame, {
      group: [plainFrame, repeatedFrame, repeatedFrame],
      frames: [plainFrame],
    });
    expect(thirdView.charts()[0]!.series[2]!.color).toBe('--sink');
  });
});

describe('caches and settings', () => {
  it('labels an edit of an unknown kind by the core’s label', () => {
    for (const kind of ['constructor', 'toString', 'of a later version']) {
      const edits = [{ kind }] as never;
      expect(settingName(mapFrame({ edits, labels: ['as the core says'], choices: [{}] }))).toBe(
        'as the core says',
      );
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
      ['project', {}, { direction: 'tag', from: 'stream' }, 'tag out of the stream'],
      [
        'project',
        { direction: 'random' },
        { from: 'stream', seed: 1 },
        'random directions 1 out of the stream',
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
    const evictedAt = Float32Array.from([NaN, NaN, NaN, 2, NaN, NaN, NaN, 2, NaN, NaN, NaN, NaN]);
    const frame = mapFrame(evictChange('window', 2) as never, {
      evicted: tensor([2, 2, 3], evictedAt),
      keeps_first: tensor([2, 2], [1, 0, 1, 1]),
    });
    const view = drawView(cache, frame);
    expect(view.text('.caption')).toMatchSnapshot();
    expect(view.map.data).toMatchObject({ rows: 4, cols: 3, chosen: { row: 2, col: -1 } });
    // Evicted at query 2: key 0 stayed for 2 of 3 queries, key 1 for 1 of 2.
    expect([...view.map.data.data].map((lifetime) => lifetime.toFixed(3))).toEqual([
      ...['1.000', '1.000', '1.000', '0.667', '1.000', '1.000'],
      ...['1.000', '0.500', '1.000', '1.000', '1.000', '1.000'],
    ]);
    expect(view.says('1,0 2,2 -1,0 0,-1 2,1 0,0')).toMatchSnapshot();
    expect(drawView(cache, hybridOf(frame)).says('2,2')).toEqual(['L3H0: token 2 “=1,"x"↵” stays']);
    view.map.events.onPoint!({ row: 3, col: 1 });
    view.map.events.onPoint!(undefined);
    view.map.events.onChoose!({ row: 3, col: 1 });
    expect(view.point.mock.calls).toEqual([[{ layer: 1, head: 1, key: 1 }], [{}]]);
    expect(view.set).toHaveBeenCalledWith({ layer: 1, head: 1 });
    expect(cache.fits!(frame)).toBe(true);
    expect(cache.fits!(mapFrame())).toBe(false);
    // A row is a 41st as high as the map is wide; a map of many rows is at most 1 / 0.6 times as high as wide.
    expect(view.map.data.cellShape).toBeCloseTo((41 / 4) * (4 / 3));
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
    const losses = tensor(
      [T],
      Float32Array.from({ length: T }, (_, t) => (t ? t : NaN)),
    );
    const tokens = Array.from({ length: T }, () => frameOf().tokens[1]!);
    const frameOfText = (change: object = {}, length = T) =>
      mapFrame({ T: length, tokens, ...change } as never, {
        loss_at: length === T ? losses : tensor([length], losses.data.slice(0, length)),
      });
    const wholeFrame = frameOfText();
    const windowFrame = frameOfText(evictChange('window', 20), 30);
    const view = drawView(loss, wholeFrame, {
      group: [windowFrame, wholeFrame],
      frames: [windowFrame, wholeFrame],
    });
    expect(view.text('.caption')).toMatchSnapshot();
    const [shortLine, longLine] = view.charts()[0]!.series;
    expect([shortLine!.name, longLine!.name]).toEqual(['last 20 (no first)', 'all tokens']);
    expect([shortLine!.color, longLine!.color]).toEqual(['--sink', '--ink']);
    // The lines begin after a quarter of the text; a point is the mean of up to 16 losses: here 1 to 10, and 24 to 39.
    expect([longLine!.places![0], longLine!.values[0], longLine!.places!.length]).toEqual([
      10, 5.5, 30,
    ]);
    expect([Array.from(longLine!.places!).at(-1), Array.from(longLine!.values).at(-1)]).toEqual([
      39, 31.5,
    ]);
    expect([shortLine!.places![0], Array.from(shortLine!.places!).at(-1)]).toEqual([8, 29]);
    expect(view.charts()[0]).toMatchObject({
      cursor: 20,
      domain: [4.5, 31.5],
      yLabel: 'loss in nats, smoothed',
    });
    expect(drawView(loss, wholeFrame).charts()[0]).not.toHaveProperty('cursor');
    expect(drawView(loss, frameOfText(evictChange('h2o', 20))).charts()[0]).not.toHaveProperty(
      'cursor',
    );
    expect(drawView(loss, frameOfText(evictChange('window', 40))).charts()[0]).not.toHaveProperty(
      'cursor',
    );
    const fiveSettings = [
      wholeFrame,
      ...[4, 5, 6, 7].map((n) => frameOfText(evictChange('h2o', n))),
    ];
    expect(
      drawView(loss, wholeFrame, { group: fiveSettings })
        .charts()[0]!
        .series.map(({ dash }) => dash),
    ).toEqual([undefined, undefined, undefined, '5,3', '2,3']);
    const bookLength = 600;
    const bookLosses = tensor([bookLength], new Float32Array(bookLength).fill(1));
    const book = mapFrame({ T: bookLength } as never, { loss_at: bookLosses });
    const [line] = drawView(loss, book).charts()[0]!.series;
    expect([Array.from(line!.places!).at(-1), Array.from(line!.places!).at(-2)]).toEqual([
      599, 597,
    ]);
    expect(drawView(loss, book).charts()[0]!.yLabel).toMatchSnapshot();
    expect(
      drawView(loss, wholeFrame, { frames: [wholeFrame, book] }).charts()[0]!.yLabel,
    ).toMatchSnapshot();
    expect(loss.fits!(wholeFrame)).toBe(true);
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
    const view = drawView(sweep, group[1]!, { group, frames: group });
    const [chart] = view.charts();
    expect(view.lines()).toEqual([
      ['most attended', 3, 1.5],
      ['attended last', 0],
    ]);
    expect(chart!.series[0]).toMatchObject({ places: [4, 8], color: '--sink' });
    // Differences by prompt: 2 and 4, 1 and 2.
    expect(Array.from(chart!.series[0]!.spread!)).toEqual([Math.SQRT2, Math.SQRT1_2]);
    expect(chart).toMatchObject({
      doubling: true,
      xLabel: 'keys kept',
      yLabel: 'loss above baseline, nats',
      domain: [0, 3],
    });
    expect(chart!.label).toMatchSnapshot();
    expect(view.texts('.segmented button')).toEqual(['Loss', 'Predictions', 'Sinks']);
    view.click('Predictions');
    expect(view.set).toHaveBeenCalledWith({ measure: 'kl' });
    view.draw(group[1]!, { group, frames: group, measure: 'kl' });
    expect(view.lines()).toEqual([
      ['most attended', 0.5, 0.5],
      ['attended last', 0.5],
    ]);
    view.draw(group[1]!, { group, frames: group, measure: 'sink' });
    expect(view.charts()[0]).toMatchObject({ percent: true, yLabel: 'heads with a sink (Sink₁)' });
    view.draw(group[1]!, { group, frames: group, measure: 'error' });
    expect(view.charts()[0]!.yLabel).toBe('loss above baseline, nats');
    expect(view.text('.caption')).toBe('');
    const firstView = drawView(sweep, baseline);
    expect([firstView.text('.caption'), firstView.charts()[0]!.yLabel]).toEqual([
      ...['Measuring the first setting …', 'loss above baseline, nats'],
    ]);
    const lowerGroup = [baseline, createSetting(evictChange('h2o', 8), {}, [1, 3])];
    expect(
      drawView(sweep, baseline, { group: lowerGroup, frames: lowerGroup }).charts()[0]!.domain,
    ).toEqual([-1, 0]);
    expect(
      drawView(sweep, baseline, { group: lowerGroup, frames: lowerGroup }).charts()[0]!.xLabel,
    ).toBe('keys kept');
    const sevenSettings = Array.from({ length: 7 }, (_, i) =>
      createSetting(evictChange(`p${i}`, 4)),
    );
    const lines = drawView(sweep, baseline, { group: [baseline, ...sevenSettings] }).charts()[0]!
      .series;
    expect([lines[4]!.dash, lines[5]!.dash, lines[5]!.color]).toEqual([
      undefined,
      '4,3',
      '--run-4',
    ]);
    expect(shapesOf(sweep.numbers(group[1]!, at))).toEqual([
      ['loss_mean', 1],
      ['kl_mean', 1],
      ['sink_ratio', 3],
      ['sink_ratio_raw', 3],
    ]);
    expect(sweep.numbers(group[1]!, at)[0]!.axes).toEqual(['axis 1']);
    expect(sweep.says(group[1]!, at)).toMatchSnapshot();
  });

  it('loss by setting of rounding: draws the loss by bits, with the rounding error', () => {
    const quantizedSetting = (bits: number, error: number[]) =>
      createSetting(
        { edits: [{ kind: 'quantize', bits, by: 'channel' }], labels: [''], choices: [{}] },
        {
          quantize_error: tensor([2], error),
          hidden_change: tensor([2], [0.25, 0.75]),
          keeps_first: tensor([2], [1, 0]),
        },
      );
    const group = [
      createSetting({}),
      quantizedSetting(8, [0.25, NaN]),
      quantizedSetting(4, [0.5, 0.25]),
    ];
    const drawMeasure = (measure: string) =>
      drawView(sweep, group[0]!, { group, frames: group, measure });
    expect(drawMeasure('error').lines()).toEqual([['all rounded', 0.375, 0.25]]);
    expect(drawMeasure('error').charts()[0]!.xLabel).toBe('bits');
    expect(drawMeasure('change').lines()).toEqual([['all rounded', 0.5, 0.5]]);
    expect(drawMeasure('kept').lines()).toEqual([['all rounded', 0.5, 0.5]]);
    expect(
      ['loss', 'kl', 'sink', 'kept', 'error', 'change'].map(
        (measure) => drawMeasure(measure).charts()[0]!.percent ?? false,
      ),
    ).toEqual([false, false, true, true, true, true]);
    const otherModel = { model: { id: 'b', title: 'B', source: 'zoo' } };
    const otherSetting = createSetting(
      {
        edits: [{ kind: 'quantize', bits: 2, by: 'channel' }],
        labels: [''],
        choices: [{}],
        ...otherModel,
      },
      {},
      [90, 90],
    );
    expect(
      drawView(sweep, group[1]!, { group, frames: [...group, otherSetting] }).charts()[0]!.domain,
    ).toEqual(drawView(sweep, group[1]!, { group, frames: group }).charts()[0]!.domain);
  });

  it('loss by perturbation: draws a bar for each perturbation above the baseline, on one scale for all models', () => {
    const clampSetting = (channel: number, losses: number[]) =>
      createSetting(
        { edits: [{ kind: 'clamp_channel', channel }], labels: [''], choices: [{}] },
        {},
        losses,
      );
    const group = [createSetting({}), clampSetting(7, [6, 8]), clampSetting(3, [1.5, 3.5])];
    const view = drawView(perturbations, group[1]!, { group, frames: group });
    expect(view.lines()).toMatchSnapshot();
    expect(view.text('.caption')).toMatchSnapshot();
    expect(view.charts()[0]).toMatchObject({ from: 1, domain: [-0.5, 4] });
    const otherModel = { model: { id: 'b', title: 'B', source: 'zoo' } };
    const otherSettings = [
      createSetting(otherModel),
      { ...clampSetting(1, [12, 14]), ...otherModel },
    ] as Frame[];
    expect(
      drawView(perturbations, group[1]!, {
        group,
        frames: [...group, ...otherSettings],
      }).charts()[0]!.domain,
    ).toEqual([-0.5, 10]);
    expect(perturbations.says(group[1]!, at)).toBe('Channel 7 to zero: 7.000 nats.');
    expect(shapesOf(perturbations.numbers(group[1]!, at))).toEqual([['loss_mean']]);
  });
});

it('each view declares how figures draw it', () => {
  const namesWhere = (holds: (view: View) => unknown) =>
    views.filter((view) => holds(view)).map(({ name }) => name);
  expect(namesWhere(({ drawsAllSettings: isGroup }) => isGroup)).toEqual([
    'likeness',
    'loss',
    'sweep',
    'perturbations',
  ]);
  expect(namesWhere(({ needsSeveralSettings: isOfMany }) => isOfMany)).toEqual([
    'sweep',
    'perturbations',
  ]);
  expect(namesWhere(({ drawsAllSubjects: isOfAll }) => isOfAll)).toEqual([
    'ratios',
    'training',
    'compression',
  ]);
  expect(namesWhere(({ needsBaseline: compares }) => compares)).toEqual(['change']);
  const hubModel = { id: 'hub:a/b', title: 'B', source: 'hub' };
  const fittingNames = (change: object) =>
    views
      .filter(
        ({ fits }) =>
          fits && fits(mapFrame({ groups: undefined, model: hubModel, ...change } as never)),
      )
      .map(({ name }) => name)
      .toSorted();
  const namesFor = (more: object) =>
    fittingNames({ architecture: architecture({ E: 0, gate: null, ...more }) });
  const causalNames = ['compression', 'diagonal', 'effects', 'length', 'loss', 'next'];
  expect(namesFor({})).toEqual(causalNames);
  const encoder = {
    architecture: architecture({ E: 0, gate: null, mask: { kind: 'bidirectional' } }),
  };
  expect(fittingNames(encoder)).toEqual(['compression', 'diagonal', 'unmasking']);
  expect(fittingNames({ ...encoder, maskToken: 7 })).toEqual([
    'compression',
    'diagonal',
    'masked',
    'unmasking',
  ]);
  expect(fittingNames({ ...encoder, maskToken: 7, recording: {} })).not.toContain('unmasking');
  expect(namesFor({ E: 4 })).toEqual([
    'compression',
    'diagonal',
    'effects',
    'length',
    'loss',
    'next',
    'router',
  ]);
  expect(namesFor({ gate: 'head' })).toEqual([
    'compression',
    'diagonal',
    'effects',
    'gate',
    'length',
    'loss',
    'next',
  ]);
  expect(namesFor({ bias_key: 'head' })).toEqual([
    'bias',
    'compression',
    'diagonal',
    'effects',
    'length',
    'loss',
    'next',
  ]);
  expect(fittingNames({ groups: ['a'] })).toContain('domains');
  const smallestT = (name: string) => {
    const { fits } = views.find((view) => view.name === name)!;
    return [0, 1, 2, 3, 4, 5, 6].find((T) => fits!(mapFrame({ T })));
  };
  expect(['compression', 'suffix', 'tasks', 'loss'].map((name) => [name, smallestT(name)])).toEqual(
    [
      ...[
        ['compression', 3],
        ['suffix', 4],
        ['tasks', 5],
        ['loss', 0],
      ],
    ],
  );
  expect(fittingNames({ edits: [{ kind: 'evict' }] })).toContain('cache');
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
    const frame = mapFrame({ next: predictions, generated: 2, sequences: 3 } as never);
    const view = drawView(next, frame);
    expect(view.texts('li')).toEqual(['a50.0%', '↵12.5%']);
    expect(view.all('li').map((item) => item.style.getPropertyValue('--share'))).toEqual([
      '1',
      '0.25',
    ]);
    expect(view.text('.caption')).toMatchSnapshot();
    expect(next.says(mapFrame(), at)).toMatchSnapshot();
    expect(next.numbers(frame, at)[0]).toMatchObject({
      shape: [2],
      data: [0.5, 0.125],
      labels: [' a', '\n'],
    });
    expect(
      next.fits!({ ...frame, architecture: architecture({ mask: { kind: 'bidirectional' } }) }),
    ).toBe(false);
  });

  it('Sink₁ by label: draws a row per label with a dot per prompt', () => {
    const frame = mapFrame({
      groups: ['prose', 'code', 'prose'],
      perPrompt: { sink_ratio: [0.25, 0.5, 0.75] },
    } as never);
    const view = drawView(domains, frame);
    expect(view.texts('tbody tr')).toEqual(['prose 50.0% ± 35.4%', 'code 50.0%']);
    const [row] = view.all('tbody tr');
    const coordinatesOf = (selector: string, name: string) =>
      [...row!.querySelectorAll(selector)].map((element) => Number(element.getAttribute(name)));
    // The strip is 240 wide, with 6 at each side.
    expect([
      coordinatesOf('circle', 'cx'),
      coordinatesOf('.mean', 'x1'),
      coordinatesOf('.mean', 'x2'),
    ]).toEqual([[63, 177], [120], [120]]);
    expect(shapesOf(domains.numbers(frame, at))).toEqual([
      ['sink_1 of prose', 2],
      ['sink_1 of code', 1],
    ]);
    const threeLabels = mapFrame({
      groups: ['a', 'b', 'c', 'b'],
      perPrompt: { sink_ratio: [0.5, 0.75, 0.25, 1] },
    } as never);
    expect(drawView(domains, threeLabels).text('.caption')).toMatch(
      /^Sink₁ is largest for “b” \(87\.5% ± 17\.7%, 2 prompts\) and smallest for “c” \(25\.0%, 1 prompt\)/,
    );
    expect(domains.says(mapFrame({ groups: [] } as never), at)).toBe('');
  });

  it('all heads: names the prompts of the numbers on the maps', () => {
    const att = tensor([2, 2, 3, 3], [...MAP, ...MAP, ...MAP, ...MAP]);
    const labelOf = (tensors: Frame['tensors'], change: Partial<Frame> = {}) =>
      drawView(heads, mapFrame({ sequences: 2, ...change }, { att, ...tensors }))
        .all('.thumb')[0]!
        .getAttribute('aria-label');
    expect(labelOf({ first_alphas: tensor([2, 4], [0.5, 0, 0, 0, 0, 0, 0, 0]) })).toMatchSnapshot();
    expect(labelOf({})).toMatchSnapshot();
    const blocks = tensor([2, 2, 2, 1, 1], new Float32Array(8));
    expect(labelOf({ att: blocks }, { pooled: 1 })).toMatchSnapshot();
  });

  it('all heads: draws each head’s map as a thumbnail that opens the head', () => {
    const att = tensor(
      [2, 2, 3, 3],
      [...MAP, ...MAP, ...MAP, ...MAP].map((x, i) => (i < 9 ? x : x / 2)),
    );
    const frame = mapFrame({}, { att });
    paintedMaps.length = 0;
    const view = drawView(heads, frame);
    expect(paintedMaps).toHaveLength(4);
    expect(paintedMaps[1]).toMatchObject({ rows: 3, cols: 3 });
    expect([...paintedMaps[1]!.data]).toEqual([
      0.5,
      NaN,
      NaN,
      0.375,
      0.125,
      NaN,
      0.25,
      0.125,
      0.125,
    ]);
    const thumbs = view.all('.thumb');
    expect(thumbs.map((thumb) => thumb.getAttribute('aria-label'))).toEqual([
      'L0H0 gives <s> 13%, 1.0 times uniform',
      'L0H1 gives <s> 38%, 3.0 times uniform',
      'L1H0 gives <s> 88%, 7.0 times uniform',
      'L1H1 gives <s> 25%, 2.0 times uniform',
    ]);
    expect(thumbs.map((thumb) => thumb.textContent)).toEqual(['13%', '38%', '88%', '25%']);
    expect(thumbs.map((thumb) => [thumb.dataset.row, thumb.dataset.column])).toEqual([
      ['L0', 'H0'],
      [undefined, 'H1'],
      ['L1', undefined],
      [undefined, undefined],
    ]);
    expect(thumbs.map((thumb) => thumb.getAttribute('aria-selected'))).toEqual([
      'false',
      'false',
      'true',
      'false',
    ]);
    thumbs[1]!.querySelector('canvas')!.click();
    expect(view.set).toHaveBeenCalledWith({ layer: 0, head: 1 });
    view.all('.thumbs')[0]!.click();
    expect(view.set).toHaveBeenCalledTimes(1);
    thumbs[3]!.dispatchEvent(new Event('pointerover', { bubbles: true }));
    view.all('.thumbs')[0]!.dispatchEvent(new Event('pointerleave'));
    expect(view.point.mock.calls).toEqual([[{ layer: 1, head: 1 }], [{}]]);
    view.pointed.value = { layer: 1, head: 0 };
    expect(thumbs.map((thumb) => thumb.classList.contains('lit'))).toEqual([
      false,
      false,
      true,
      false,
    ]);
    view.draw(frame, { layer: 0, head: 0 });
    expect(paintedMaps).toHaveLength(4);
    expect(thumbs[0]!.getAttribute('aria-selected')).toBe('true');
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
    const [maps] = heads.numbers(frame, at);
    expect(maps).toMatchObject({ name: 'weight', shape: [2, 2, 3, 3] });
    expect([maps!.data[9], maps!.data[12]]).toEqual([0.5, 0.375]);
    expect(heads.says(frame, at)).toMatchSnapshot();
  });
});

it('views of predictions do not apply to a model without an output head', () => {
  const { architecture } = frameOf();
  const headless = frameOf({ architecture: { ...architecture, head: false } } as never);
  const lost = views.filter(
    ({ fits }) => fits?.({ ...frameOf(), T: 8 }) && !fits({ ...headless, T: 8 }),
  );
  expect(lost.map(({ name }) => name).sort()).toEqual([
    'effects',
    'loss',
    'next',
    'suffix',
    'tasks',
  ]);
});
