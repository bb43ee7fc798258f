// @vitest-environment happy-dom
/** Recordings of cross-attention: two axes with their own labels, and sentences that are true of them. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { answerOf, firstTokenClause } from '../src/answers';
import { claimOf, columnOf, spanOf } from '../src/claims';
import { defaults } from '../src/ask/state';
import { mapsOf, selectedHead, type Frame } from '../src/frame';
import { lackWords } from '../src/page/view';
import { differsSentence, topicsOf } from '../src/rooms/compared';
import { differencesOf } from '../src/rooms/differs';
import { attention } from '../src/views/attention';
import { heads } from '../src/views/heads';
import { choiceOf, viewNamed, views } from '../src/views/index';
import { findingWords, recordedText, spanSentence, stampWords } from '../src/words';
import { drawView } from './drawn';
import { bytesOf, openPage, stubScreen } from './engine';
import { isBuilt, UNBUILT } from './fixture';

vi.mock('../src/plot/heatmap', async () => (await import('./drawn')).plots.heatmap);

const noHead = { layer: -1, head: -1 };

describe.skipIf(!isBuilt)(`a recording of cross-attention ${UNBUILT}`, () => {
  let page: Awaited<ReturnType<typeof openPage>>;
  const frames: Record<string, Frame> = {};
  beforeAll(async () => {
    stubScreen();
    page = await openPage();
    for (const name of ['cross', 'frames']) {
      const bytes = bytesOf(`tests/golden/recordings/${name}.safetensors`);
      const id = await page.openRecording(name, bytes);
      frames[name] = (await page.framesOf([id]))[0]!;
    }
  }, 60_000);
  afterAll(() => page?.close());

  it('has maps of queries by keys, whose rows sum to 1', () => {
    const { weights, rows, side, rowBlock, block } = mapsOf(frames.cross!)!;
    expect([rows, side, rowBlock, block, weights.length]).toEqual([9, 12, 1, 1, 108]);
    for (let t = 0; t < 9; t++) {
      const sum = weights.subarray(12 * t, 12 * t + 12).reduce((a, b) => a + b, 0);
      expect(sum).toBeCloseTo(1, 2);
    }
    const pooled = mapsOf(frames.frames!)!;
    expect([pooled.rows, pooled.side, pooled.rowBlock, pooled.block]).toEqual([9, 75, 1, 2]);
    expect(frames.frames!.tensors.att!.shape).toEqual([3, 4, 9, 75]);
  });

  it('is drawn with the names of both axes, and says which numbers it cannot have', () => {
    const { map } = drawView(attention, frames.cross!);
    expect(map.data).toMatchObject({ rows: 9, cols: 12 });
    expect([map.data.rowTitle, map.data.colTitle]).toEqual([
      'decoder token (query)',
      'encoder token (key)',
    ]);
    expect(map.data.rowWords?.slice(0, 3)).toEqual(['the', 'old', 'man']);
    expect(map.data.colWords).toHaveLength(12);
    expect(map.data.remark).toBeUndefined();
    expect(map.data.describe({ row: 1, col: 0 })).toMatch(/^query 1 “old” → key 0 “<s>”: 0\.\d+$/);
    const long = drawView(attention, frames.frames!).map.data;
    expect(long.colTitle).toMatchSnapshot();
    expect(long.rowWords).toHaveLength(9);
    expect(long.cellShape).toBeCloseTo(18 / 75, 9);
    expect(long.describe({ row: 0, col: 3 })).toMatchSnapshot();
    expect(heads.numbers(frames.cross!, noHead)[0]!.shape).toEqual([3, 4, 9, 12]);
    expect(lackWords(viewNamed('norms')!, frames.cross!)).toContain('this is cross-attention');
  });

  it('differs from a recording of the decoder in the part that was recorded', () => {
    const { architecture } = frames.cross!;
    const decoder = { ...architecture, part: 'decoder' };
    expect(
      differsSentence(topicsOf(differencesOf([architecture, decoder]).differences, {})),
    ).toMatchSnapshot();
  });

  it('has a claim of all its rows, since no row is that of the key itself', () => {
    const frame = frames.cross!;
    const at = selectedHead(frame, noHead);
    const { weights } = mapsOf(frame)!;
    const first = Array.from({ length: 9 }, (_, t) => weights[12 * t]!);
    const mean = first.reduce((a, b) => a + b, 0) / 9;
    const { column } = claimOf(frame, at);
    expect(column!.rows).toBe(9);
    expect(column!.alpha).toBeCloseTo(mean, 6);
    expect(column!.mean).toBeCloseTo(mean, 6);
    expect(column!.uniform).toBeCloseTo(1 / 12, 3);
    expect(columnOf([1, 0, 0, 1, 0.5, 0.5], 2, 0, -1)).toMatchObject({ rows: 3, strongRows: 1 });
    const span = spanOf(frame, { ...defaults, key: 0, lastKey: 1 })!;
    expect([span.queries, span.uniform]).toEqual([9, 2 / 12]);
  });

  it('is described as two sequences without a start token or later tokens', () => {
    const words = ({ frame }: { frame: Frame }) => {
      const at = selectedHead(frame, noHead);
      const choice = choiceOf('attention', [frame]);
      return [
        findingWords(frame, at),
        firstTokenClause(frame),
        stampWords(frame),
        attention.says(frame, at, defaults),
        answerOf(choice, frame, at, defaults, undefined),
        recordedText(frame),
        spanSentence(spanOf(frame, { ...defaults, key: 0, lastKey: 1 }), frame),
      ].join('\n');
    };
    const [text, speech] = [words({ frame: frames.cross! }), words({ frame: frames.frames! })];
    for (const sentences of [text, speech]) {
      expect(sentences).not.toMatch(/start token|the first token|later token|earlier token/);
      expect(sentences).toContain('cross-attention');
    }
    expect(text).toMatchSnapshot();
    expect(text).toMatchSnapshot();
    expect(text).toMatchSnapshot();
    expect(text).toMatchSnapshot();
    expect(speech).toMatchSnapshot();
    expect(speech).toMatchSnapshot();
    expect(speech).toMatchSnapshot();
    expect(views.every((view) => typeof lackWords(view, frames.frames!) === 'string')).toBe(true);
  });
});
