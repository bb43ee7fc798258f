// @vitest-environment happy-dom
/** Series of checkpoints, which the Python package wrote (tests/record/kinds.py): their steps, files and courses. */
import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { SinkscopeError } from 'sinkscope';
import { isRecordingFile } from '../src/ask/recordings';
import { openSeries, type Series } from 'sinkscope/internal';
import { seriesCourse } from '../src/run/series_course';
import type { Frame } from '../src/frame';
import { subjectsAtStep } from '../src/rooms/walk';
import { lineSeries, SINK_QUANTITY } from '../src/timeline/course';
import { Timelines } from '../src/timeline/timelines';
import { emergenceOf, training } from '../src/views/training';
import { drawView } from './drawn';
import { openPage } from './engine';
import { isBuilt, UNBUILT } from './fixture';

vi.mock('../src/plot/heatmap', async () => (await import('./drawn')).plots.heatmap);
vi.mock('../src/plot/chart', async () => (await import('./drawn')).plots.chart);

const bytes = readFileSync(`${import.meta.dirname}/../../tests/golden/series.safetensors`);
const ID = 'recording:disk:0123456789abcdef/series.safetensors';

/** Returns the file with another header. */
function withHeader(change: (header: Record<string, Record<string, unknown>>) => void): Blob {
  const length = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + length).toString()) as Record<
    string,
    Record<string, unknown>
  >;
  change(header);
  const json = new TextEncoder().encode(JSON.stringify(header));
  const start = new DataView(new ArrayBuffer(8));
  start.setBigUint64(0, BigInt(json.length), true);
  return new Blob([start, json, bytes.subarray(8 + length)]);
}

const withContent = (change: (content: Record<string, unknown>) => void): Blob =>
  withHeader(({ __metadata__: metadata }) => {
    const content = JSON.parse(String(metadata!.sinkscope)) as Record<string, unknown>;
    change(content);
    metadata!.sinkscope = JSON.stringify(content);
  });

describe('a series', () => {
  it('is recognized by its header, unlike a recording', async () => {
    expect(await isRecordingFile(new Blob([bytes]))).toBe(true);
    expect((await openSeries(new Blob([bytes])))!.steps).toEqual([0, 30, 1000]);
    const recording = readFileSync(
      `${import.meta.dirname}/../../tests/golden/recordings/many.safetensors`,
    );
    expect(await openSeries(new Blob([recording]))).toBeUndefined();
    expect(await openSeries(new Blob(['no safetensors']))).toBeUndefined();
  });

  it.each<[string, Blob]>([
    ['sinkscope.series', withHeader((h) => (h.__metadata__!['sinkscope.series'] = '2'))],
    ['sinkscope', withHeader((h) => (h.__metadata__!.sinkscope = '{'))],
    ['steps', withContent((content) => (content.steps = [0, 1000, 30]))],
    ['steps', withContent((content) => (content.steps = [0, 0.5, 30]))],
    ['steps', withContent((content) => delete content.steps)],
    ['recordings', withContent((content) => (content.recordings as unknown[]).pop())],
    ['7/x', withHeader((h) => (h['7/x'] = { dtype: 'F32', shape: [0], data_offsets: [0, 0] }))],
    ['x', withHeader((h) => (h.x = { dtype: 'F32', shape: [0], data_offsets: [0, 0] }))],
    ['0/x', withHeader((h) => (h['0/x'] = { data_offsets: [0, 1e9] }))],
    ['0/x', withHeader((h) => (h['0/x'] = { data_offsets: [4, 0] }))],
    ['0/x', withHeader((h) => (h['0/x'] = null!))],
  ])('with a malformed %s is refused', async (where, file) => {
    const error: unknown = await openSeries(file).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(SinkscopeError);
    expect(error).toMatchObject({ code: 'bad_file', where });
  });
});

describe.skipIf(!isBuilt)(`a series in the page${isBuilt ? '' : UNBUILT}`, () => {
  let page: Awaited<ReturnType<typeof openPage>>;
  let series: Series;
  beforeAll(async () => {
    page = await openPage();
    page.models.recordings.admit(ID, new Blob([bytes]));
    series = (await openSeries(new Blob([bytes])))!;
  });

  it('opens each checkpoint with the numbers that the Python package wrote', async () => {
    for (const [i, step] of series.steps.entries()) {
      const recording = await page.models.recordings.open(`${ID}@${step}`);
      expect(recording.conditions.model.id).toBe(`lab/llama@step${step}`);
      const { data } = await recording.mean('alpha');
      const header = JSON.parse(
        bytes.subarray(8, 8 + Number(bytes.readBigUInt64LE(0))).toString(),
      ) as Record<string, { data_offsets: [number, number] }>;
      const [from] = header[`${i}/mean.alpha`]!.data_offsets;
      const start = 8 + Number(bytes.readBigUInt64LE(0)) + from;
      const expected = Array.from(data, (_, k) => bytes.readFloatLE(start + 4 * k));
      expect(Array.from(data)).toEqual(expected);
      await recording.close();
    }
  });

  it('shows the nearest checkpoint, and the last one without a step', async () => {
    const { recordings } = page.models;
    const titleOf = async (id: string) => {
      const recording = await recordings.open(id);
      await recording.close();
      return recording.conditions.model.id;
    };
    expect(await titleOf(`${ID}@700`)).toBe('lab/llama@step1000');
    expect(await titleOf(`${ID}@3`)).toBe('lab/llama@step0');
    expect(await titleOf(ID)).toBe('lab/llama@step1000');
    expect(recordings.steps(`${ID}@30`)).toEqual([0, 30, 1000]);
    expect(subjectsAtStep(page.models, [ID], 30, 1000)).toEqual([`${ID}@30`]);
    expect(subjectsAtStep(page.models, [`${ID}@30`], 1000, 1000)).toEqual([ID]);
  });

  it('opens from an address, which may be that of a recording, and keeps its bytes', async () => {
    const { recordings } = page.models;
    const served = globalThis.fetch;
    const requests: string[] = [];
    vi.stubGlobal('fetch', async (address: URL) => {
      if (!String(address).startsWith('https://a.example/')) return served(address);
      requests.push(String(address));
      // happy-dom's blobs are not Node.js's, of which the page's are in these tests.
      return Object.assign(new Response(bytes), { blob: async () => new Blob([bytes]) });
    });
    const id = 'recording:https://a.example/s.safetensors';
    const openAt = async (one: string) => {
      const recording = await recordings.open(one);
      await recording.close();
      return recording.conditions.model.id;
    };
    expect(await openAt(id)).toBe('lab/llama@step1000');
    expect(await openAt(`${id}@30`)).toBe('lab/llama@step30');
    // Once as a recording, which its header refuses, and once as a series.
    expect(requests).toEqual(Array(2).fill('https://a.example/s.safetensors'));
    expect(recordings.steps(id)).toEqual([0, 30, 1000]);
    const part = await series.part(30).arrayBuffer();
    expect(Buffer.from(await recordings.bytes(`${id}@30`)).equals(Buffer.from(part))).toBe(true);
    recordings.forget(id);
    expect(recordings.steps(id)).toEqual([]);
    vi.stubGlobal('fetch', served);
  });

  it('refuses a step of a file that is one recording', async () => {
    const id = 'recording:disk:0123456789abcdef/many.safetensors';
    const file = readFileSync(
      `${import.meta.dirname}/../../tests/golden/recordings/many.safetensors`,
    );
    page.models.recordings.admit(id, new Blob([file]));
    await expect(page.models.recordings.open(`${id}@30`)).rejects.toThrowErrorMatchingSnapshot();
    expect(subjectsAtStep(page.models, [id], 30, 1000)).toEqual([id]);
  });

  it('gives the course of the room Training', async () => {
    const { models } = page;
    const [frame] = (await page.framesOf([`${ID}@30`])) as [Frame];
    expect(frame.title).toMatchSnapshot();
    expect(frame.model.step).toEqual({ step: 30, of: 1000 });
    const course = (await seriesCourse(models.recordings, models.describe, frame))!;
    expect(course.title).toBe('lab/llama');
    expect(course.series!.words).toBe('recorded: 5 prompts, T = 12, ε = 0.3');
    // The numbers of `series.table()` in Python.
    const line = lineSeries(course, SINK_QUANTITY);
    expect(line.places).toEqual([0, 30, 1000]);
    [38.33, 38.33, 33.33].forEach((x, i) => expect(line.values[i]).toBeCloseTo(x, 1));
    [18.16, 16.88, 20.66].forEach((x, i) => expect(line.band!.low[i]).toBeCloseTo(x, 1));
    [58.5, 59.79, 46.01].forEach((x, i) => expect(line.band!.high[i]).toBeCloseTo(x, 1));
    expect(course.timeline.checkpoints[2]!.measured.loss).toBeCloseTo(5.624, 3);
    expect(course.timeline.checkpoints[0]!.measured.value_ratio).toBeCloseTo(0.9983, 3);
  });

  it('is drawn in Training without the models of the page, whose texts differ', async () => {
    const { models } = page;
    const frames = await page.framesOf([`${ID}@30`]);
    const [frame] = frames as [Frame];
    expect(training.fits!(frame)).toBe(true);
    const timelines = async () => {
      const course = (one: Frame) => seriesCourse(models.recordings, models.describe, one);
      return new Timelines([], { steps: () => [], course });
    };
    const fail = vi.fn();
    const view = drawView(training, frame, { frames, api: { timelines, fail } });
    await vi.waitFor(() => expect(view.charts()[0]!.series).toHaveLength(1));
    const [chart] = view.charts();
    expect(chart).toMatchObject({ cursor: 30, series: [{ name: 'lab/llama' }] });
    expect(training.says(frame, { layer: 0, head: 0 })).toMatchSnapshot();
    expect(emergenceOf(frame)).toMatchObject({ isNone: false, step: 0 });
    expect(fail).not.toHaveBeenCalled();
  });
});
