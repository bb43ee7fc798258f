// @vitest-environment happy-dom
/** Attention over the patches of an image: of a query and of all, the special tokens by name, and patches of high norm. */
import { describe, expect, it, vi } from 'vitest';
import type { Frame } from '../src/frame';
import { highNorms, patches } from '../src/views/patches';
import { drawView } from './drawn';
import { bytesOf, openPage, stubScreen } from './engine';
import { frameOf, isBuilt, tensor, UNBUILT } from './fixture';

vi.mock('../src/plot/heatmap', async () => (await import('./drawn')).plots.heatmap);
vi.mock('../src/plot/chart', async () => (await import('./drawn')).plots.chart);

const NAMES = ['[CLS]', 'register 1', ...['0,0', '0,1', '1,0', '1,1'].map((p) => `patch ${p}`)];
const UNIFORM_ROW = Array.from({ length: 6 }, () => 1 / 6);
const ROWS = [
  [0.125, 0.25, 0.5, 0.0625, 0.0625, 0],
  ...Array.from({ length: 5 }, () => UNIFORM_ROW),
];
const NORMS = [1, 1, 1, 1, 1, 1, 9, 9, 2, 1, 2, 8];
const ALPHA = [0.1, 0.5, 0.1, 0.1, 0.1, 0.1];

function imageFrame(change: object = {}): Frame {
  const base = frameOf();
  const token = (text: string) => ({ ...base.tokens[0]!, text, special: text === '[CLS]' });
  return frameOf({
    T: 6,
    tokens: NAMES.map(token),
    architecture: { ...base.architecture, L: 1, H: 1, mask: { kind: 'bidirectional' } },
    image: { kinds: 'ssiiii', rows: 2, cols: 2 },
    head: {
      ...{ layer: 0, head: 0 },
      tensors: {
        att: tensor([6, 6], ROWS.flat()),
        alpha: tensor([1, 1, 6], ALPHA),
        hidden_norm: tensor([2, 6], NORMS),
      },
    },
    ...change,
  });
}
const says = (query: number, change?: object) =>
  patches.says(imageFrame(change), { layer: 0, head: 0 }, { query } as never);

describe('attention over patches', () => {
  it('is said by kind of token, with the special tokens by name and the share of uniform attention', () => {
    expect(says(0)).toMatchSnapshot();
    expect(says(-1)).toMatchSnapshot();
  });

  it('is the mean over all queries where maps are pooled', () => {
    expect(says(0, { pooled: 3 })).toBe(says(-1, { pooled: 3 }));
    expect(says(0, { pooled: 3 })).toMatchSnapshot();
  });

  it('outlines the patches whose norm exceeds three times the median patch', () => {
    expect(highNorms(imageFrame())).toMatchObject({ state: 1, patches: [3], largest: 4 });
    expect(says(0)).toMatchSnapshot();
    const flat = imageFrame();
    const tensors = { ...flat.head!.tensors, hidden_norm: tensor([2, 6], Array(12).fill(2)) };
    expect(says(0, { head: { ...flat.head, tensors } })).toMatchSnapshot();
  });

  it('is drawn in rows and columns, and a patch that is selected becomes the query', () => {
    const view = drawView(patches, imageFrame(), { query: 0 });
    expect(view.map.data).toMatchObject({ rows: 2, cols: 2, outlined: [{ row: 1, col: 1 }] });
    expect([...view.map.data.data]).toEqual([0.5, 0.0625, 0.0625, 0]);
    expect(view.map.data.describe({ row: 0, col: 1 })).toMatchSnapshot();
    view.map.events.onChoose!({ row: 1, col: 0 });
    expect(view.set).toHaveBeenLastCalledWith({ query: 4 });
    view.map.events.onPoint!({ row: 0, col: 1 });
    expect(view.point).toHaveBeenLastCalledWith({ key: 3 });
  });

  it('is a mean over the queries that see a patch where a mask hides later tokens', () => {
    const { architecture } = imageFrame();
    const causal = { architecture: { ...architecture, mask: { kind: 'causal' } } };
    expect(says(-1, causal)).toMatchSnapshot();
    const before = imageFrame(causal).image!;
    expect(says(0, { ...causal, image: before })).toMatchSnapshot();
  });

  it('is no view of a frame without a grid of patches', () => {
    expect(patches.fits!(imageFrame())).toBe(true);
    expect(patches.fits!(imageFrame({ image: { kinds: 'ssiiii' } }))).toBe(false);
    expect(patches.fits!(frameOf())).toBe(false);
  });

  it.skipIf(!isBuilt)(`is that of the file, with its picture (${UNBUILT})`, async () => {
    stubScreen();
    const page = await openPage();
    const bytes = bytesOf('tests/golden/recordings/registers.safetensors');
    const [frame] = await page.framesOf([await page.openRecording('registers', bytes)], {}, [
      patches,
    ]);
    expect(frame!.image).toMatchObject({ rows: 6, cols: 6, picture: { shape: [48, 48, 3] } });
    // The disc of the picture is green.
    const { data } = frame!.image!.picture!;
    expect([...data.slice(3 * (26 * 48 + 20), 3 * (26 * 48 + 20) + 3)][1]).toBe(255);
    expect(frame!.tokens.slice(0, 6).map(({ text }) => text)).toEqual([
      ...['[CLS]', 'register 1', 'register 2', 'register 3', 'register 4', 'patch 0,0'],
    ]);
    await page.close();
  });
});
