// @vitest-environment happy-dom
/** Several keys that the reader selects in the attention map: their sum, its sentence, and how they are selected. */
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { spanOf } from '../src/claims';
import { defaults, parseHash, printHash } from '../src/ask/state';
import type { Frame } from '../src/frame';
import { attention } from '../src/views/attention';
import { spanSentence } from '../src/words';
import { drawView } from './drawn';
import { bytesOf, openPage } from './engine';
import { frameOf, isBuilt, tensor, UNBUILT } from './fixture';

vi.mock('../src/plot/heatmap', async () => (await import('./drawn')).plots.heatmap);

const MAP = [1, 0, 0, 0.75, 0.25, 0, 0.5, 0.125, 0.375];
const mapFrame = (change: object = {}): Frame =>
  frameOf({ head: { layer: 1, head: 0, tensors: { att: tensor([3, 3], MAP) } }, ...change });
const select = (key: number, lastKey: number, change: object = {}) =>
  spanOf(mapFrame(change), { ...defaults, key, lastKey });

describe('a span of keys', () => {
  it('sums its cells over the queries that see all of them', () => {
    expect(select(0, 1)).toMatchObject({ from: 0, to: 1, queries: 2, attention: 0.8125 });
    expect(select(0, 1)!.uniform).toBeCloseTo((2 / 2 + 2 / 3) / 2, 9);
    expect(select(2, 1)).toMatchObject({ from: 1, to: 2, queries: 1, attention: 0.5 });
    expect(select(0, 2)).toMatchObject({ queries: 1, attention: 1, uniform: 1 });
  });

  it('needs two keys of a map that is drawn exactly', () => {
    for (const [key, lastKey] of [
      [-1, -1],
      [1, -1],
      [-1, 1],
      [1, 1],
      [1, 3],
    ] as const)
      expect(select(key, lastKey)).toBeUndefined();
    expect(select(0, 1, { pooled: 2 })).toBeUndefined();
    expect(select(0, 1, { head: undefined })).toBeUndefined();
  });

  it('is said with the share of uniform attention, or as a weight where rows need not sum to 1', () => {
    expect(spanSentence(select(0, 1), mapFrame())).toMatchSnapshot();
    const sigmoid = { operation: { name: 'sigmoid', normalizes: false, proxy: 'weights' } };
    expect(spanSentence(select(1, 2, sigmoid), mapFrame({ sequences: 4 }))).toMatchSnapshot();
    expect(spanSentence(undefined, mapFrame())).toBe('');
  });

  it('is selected by extending the choice, marked, described and kept in the link', () => {
    const view = drawView(attention, mapFrame(), { query: 2, key: 0 });
    view.map.events.onExtend!({ row: 2, col: 0 }, { row: 2, col: 1 });
    expect(view.set).toHaveBeenLastCalledWith({ query: 2, key: 0, lastKey: 1 });
    // The first key stays while the other end moves.
    view.map.events.onExtend!({ row: 2, col: 1 }, { row: 2, col: 2 });
    expect(view.set).toHaveBeenLastCalledWith({ query: 2, key: 0, lastKey: 2 });
    view.draw(mapFrame(), { query: 2, key: 1, lastKey: 0 });
    expect(view.map.data).toMatchObject({ chosen: { row: -1, col: 0 }, chosenCols: 2 });
    expect(view.text('.span-words')).toMatch(/^Tokens 0–1, .* 81\.3% of the attention/);
    expect(view.map.data.label).toContain(view.all('.span-words')[0]!.textContent);
    view.root.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
    expect(view.set).toHaveBeenLastCalledWith({ lastKey: -1 });
    view.map.events.onChoose!({ row: 1, col: 1 });
    expect(view.set).toHaveBeenLastCalledWith({ query: 1, key: 1, lastKey: -1 });
    view.draw(mapFrame(), { query: 1, key: 1 });
    expect(view.map.data).not.toHaveProperty('chosenCols');
    expect(view.all('.span-words')[0]!.hidden).toBe(true);
    // Without a chosen key, a span begins at the pointed one.
    view.draw(mapFrame());
    view.map.events.onExtend!({ row: 0, col: 1 }, { row: 0, col: 2 });
    expect(view.set).toHaveBeenLastCalledWith({ query: 0, key: 1, lastKey: 2 });
    const { state } = parseHash('key=1&lastKey=4');
    expect([state.key, state.lastKey, printHash(state)]).toEqual([1, 4, 'key=1&lastKey=4']);
  });
});

describe.skipIf(!isBuilt)(`the sum over a span${isBuilt ? '' : UNBUILT}`, () => {
  let page: Awaited<ReturnType<typeof openPage>>;
  beforeAll(async () => {
    page = await openPage();
  });

  // Layer 0 of `Recording.open(name).share([2, 3, 4])`.
  it.each([
    ['many', [0.3778767, 0.5691247, 0.47282849, 0.32422304]],
    ['bidirectional', [0.04676938, 0.29534325, 0.31836435, 0.04510182]],
    ['sink_logit', [0.15236962, 0.39135343, 0.60653079, 0.4873831]],
  ])('is that of `share` in the Python package: %s', async (name, shares) => {
    const file = bytesOf(`tests/golden/recordings/${name}.safetensors`);
    const id = await page.openRecording(name, file);
    for (const [head, share] of shares.entries()) {
      const [frame] = (await page.framesOf([id], { layer: 0, head }, [attention])) as [Frame];
      const span = spanOf(frame, { ...defaults, key: 4, lastKey: 2 })!;
      expect(span.attention).toBeCloseTo(share, 5);
    }
  });
});
