// @vitest-environment happy-dom
/** Sentences, stamps and colors agree with the numbers next to them. */
import { readFileSync } from 'node:fs';
import { describe, expect, it, vi } from 'vitest';
import type { Card } from '../src/ask/zoo';
import type { Frame } from '../src/frame';
import { toCsv } from '../src/save/number_files';
import { colorsOf, STYLED_MODELS } from '../src/timeline/course';
import { metricsTable } from '../src/rooms/metrics_table';
import { tableOf } from '../src/rooms/metrics';
import { sinks } from '../src/views/sinks';
import { tasks } from '../src/views/tasks';
import { training } from '../src/views/training';
import {
  lossNote,
  OTHER_TEXTS,
  OTHER_VOCABULARIES,
  formatPercent,
  formatValue,
  stampWords,
} from '../src/words';
import { obstacleOf } from '../src/rooms/compared';
import { frameOf, tensor } from './fixture';
import { mount } from './page';

vi.mock('../src/plot/heatmap', async () => (await import('./drawn')).plots.heatmap);

const frameNamed = (id: string) => frameOf({ model: { id, title: id, source: 'zoo' } } as never);

describe('small numbers', () => {
  it('are shown as numbers everywhere, never as a dash', () => {
    expect([
      formatValue(0),
      formatValue(0, 3),
      formatValue(1.4e-4),
      formatValue(-1.4e-4),
    ]).toMatchSnapshot();
    expect([0, 1.4e-4, 4e-4, 6e-4, 0.004, 0.006].map((x) => formatPercent(x))).toMatchSnapshot();
    expect([0, 0.004, 0.006, -0.004, -15.538].map((x) => formatPercent(x, 0))).toMatchSnapshot();
  });
});

describe('the stamp of a view', () => {
  const stampOf = (view: typeof training, frame: Frame) =>
    stampWords({ ...frame, ...view.conditions!(frame, {} as never) });

  it('names the held-out sequences for the curve of a training run, not the text', () => {
    expect(stampOf(training, frameNamed('softmax@1400'))).toMatchSnapshot();
    // A published checkpoint is measured when a reader visits it.
    const hub = frameOf({ model: { id: 'hub:a/b', title: 'b', source: 'hub' } } as never);
    expect(stampOf(training, hub)).toBe(stampWords(hub));
  });

  it('names the prompts of the tasks for the view of tasks', () => {
    expect(stampOf(tasks, frameNamed('softmax'))).toMatchSnapshot();
  });
});

describe('colors of models', () => {
  it('do not depend on the order of subjects, and the twins’ colors go to others only when all are used', () => {
    const cards = JSON.parse(
      readFileSync(`${import.meta.dirname}/../../models/zoo/index.json`, 'utf8'),
    ) as Card[];
    expect(cards.flatMap(({ id, timeline }) => (timeline ? [id] : []))).toEqual(STYLED_MODELS);
    const colorCodes = (...ids: string[]) =>
      colorsOf(ids.map(frameNamed))
        .map((one) => one.slice(-1))
        .join('');
    expect([
      colorCodes('softmax', 'sigmoid'),
      colorCodes('sigmoid', 'softmax'),
      colorCodes('sigmoid@40'),
    ]).toEqual([...['12', '21', '2']]);
    expect(colorCodes('relu', 'softmax', 'elu1', 'gated')).toBe('3154');
    expect(colorCodes('softmax', 'softmax')).toBe('13');
    expect(colorCodes('a', 'b', 'c', 'd', 'e', 'f')).toBe('345612');
    expect(colorCodes('a', 'b', 'c', 'd', 'e', 'f', 'g')).toBe('3456121');
  });
});

describe('losses of several models', () => {
  const withVocabularySize = (size: number) =>
    ({ architecture: { ...frameOf().architecture, V: size } }) as never;

  it('have a note where the models tokenize the text differently', () => {
    const frame = frameOf(withVocabularySize(9));
    const otherVocabulary = frameOf(withVocabularySize(10));
    const otherTokens = {
      ...frame,
      tokens: [frame.tokens[0]!, { ...frame.tokens[1]!, text: ' ab' }],
    };
    const noLoss = {
      ...otherVocabulary,
      tensors: { ...otherVocabulary.tensors, loss_mean: tensor([1], [NaN]) },
    };
    expect(
      [
        [frame],
        [frame, frame],
        [frame, otherVocabulary],
        [frame, otherTokens],
        [frame, noLoss],
      ].map((all) => lossNote(all as Frame[])),
    ).toEqual(['', '', OTHER_VOCABULARIES, OTHER_VOCABULARIES, '']);
    const captionOf = (frames: Frame[]) =>
      mount(
        metricsTable(
          {
            ...{ measuredRows: frames.map((frame) => ({ frame, isStale: false })), reported: [] },
            ...{ table: tableOf({ metrics: [] }).slice(0, 1), file: undefined, sort: () => {} },
            sorting: { name: 'loss', descending: true },
          },
          'T = 3.',
        ),
      ).text('caption');
    expect(captionOf([frame, otherVocabulary])).toBe(`T = 3. ${OTHER_VOCABULARIES}`);
    expect(captionOf([frame, frame])).toBe('T = 3.');
  });
});

describe('models that read different texts', () => {
  const frame = frameOf({ generated: 1 });
  const withLastToken = (text: string) =>
    frameOf({
      ...{ title: 'Other', generated: 1 },
      tokens: [...frame.tokens.slice(0, 2), { ...frame.tokens[2]!, text }],
    });

  it('since each generated its own are not ranked, and their losses are not compared', () => {
    const otherFrame = withLastToken(' b');
    expect(obstacleOf([frame, otherFrame])).toMatchSnapshot();
    expect(lossNote([frame, otherFrame])).toBe(OTHER_TEXTS);
    const sameText = withLastToken(frame.tokens[2]!.text);
    expect(obstacleOf([frame, sameText])).toBe('');
    expect(lossNote([frame, sameText])).toBe('');
  });

  it('in their start tokens or lengths have losses over different tokens of one vocabulary', () => {
    const { tokens } = frameOf();
    const noStart = frameOf({ T: 2, first: [], tokens: tokens.slice(1) });
    expect(lossNote([frameOf(), noStart])).toMatchSnapshot();
    const shortContext = frameOf({ T: 2, tokens: tokens.slice(0, 2) });
    expect(lossNote([frameOf(), shortContext])).toMatch(/^These models read the text up to /);
  });
});

describe('files of a hybrid model', () => {
  it('state the layer numbers of the model', () => {
    const architecture = { ...frameOf().architecture, blocks: 4, layers: [1, 3] };
    const frame = frameOf({ architecture } as never);
    const numbers = sinks.numbers(frame, { layer: 0, head: 0 });
    const alpha = numbers.find(({ name }) => name === 'alpha_1');
    const csv = toCsv([{ frame, quantities: [alpha!] }], {
      ...{ corpus: {}, version: '1', link: '#' },
    });
    const lines = csv.split('\n').filter((line) => line.startsWith('softmax,alpha_1'));
    expect(lines.map((line) => line.split(',').slice(2, 4).join())).toMatchSnapshot();
  });
});
