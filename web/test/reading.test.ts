import { describe, expect, it } from 'vitest';
import type { Describe, RunRead, Run, Tensor } from 'sinkscope';
import type { Frame, Head } from '../src/frame';
import type { OpenModel } from '../src/run/opened';
import { parseSubject } from '../src/ask/subject';
import {
  LONG_TEXT,
  completeFrame,
  contextOf,
  emptyFrame,
  isAnswered,
  canStream,
  namesFor,
  fieldsToRecord,
} from '../src/run/reading';
import { frameOf, tensor } from './fixture';

const metric = (name: string, fields: string[] = []) => ({
  name,
  fields,
  arguments: [],
  averaged: true,
});
const field = (name: string, more: object = {}) => ({
  name,
  needs: null,
  standard: false,
  streamed: false,
  ...more,
});
const describe_ = {
  metrics: [
    metric('alpha', ['att']),
    metric('loss_mean', ['loss']),
    metric('keeps_first', ['evicted']),
    metric('entropy', ['att']),
  ],
  fields: [
    field('att', { standard: true }),
    field('loss', { streamed: true }),
    field('evicted', { streamed: true }),
    field('next', { standard: true }),
    field('router', { needs: 'E' }),
    field('q'),
  ],
  edits: [{ name: 'evict', fields: ['evicted'] }],
} as unknown as Describe;

const eviction = (more: object = {}) => ({ kind: 'evict', policy: 'window', budget: 8, ...more });
const edits = (...list: object[]) => list as unknown as Frame['edits'];
const architectureOf = (more: object) => more as unknown as Frame['architecture'];
const rotary = architectureOf({ context: 16, positions: 'rotary' });

describe('the longest text of a model', () => {
  it('is its context, unless every head’s cache keeps its positions inside the context', () => {
    const cachePositions = eviction({ positions: 'cache' });
    expect(contextOf(rotary, [])).toBe(16);
    expect(contextOf(rotary, edits(cachePositions))).toBe(Infinity);
    expect(contextOf(rotary, edits(eviction()))).toBe(16);
    expect(contextOf(rotary, edits({ ...cachePositions, budget: 16 }))).toBe(Infinity);
    expect(contextOf(rotary, edits({ ...cachePositions, budget: 17 }))).toBe(16);
    for (const limit of [{ layer: 0 }, { head: 0 }, { policy: 'snapkv' }])
      expect(contextOf(rotary, edits({ ...cachePositions, ...limit }))).toBe(16);
    const learnedPositions = architectureOf({ context: 16, positions: 'learned' });
    expect(contextOf(learnedPositions, edits(cachePositions))).toBe(16);
  });

  it('is unlimited if each token is predicted from a window inside the context', () => {
    expect(contextOf(rotary, [], 15)).toBe(Infinity);
    expect(contextOf(rotary, [], 16)).toBe(16);
  });
});

describe('a streaming run', () => {
  const canStreamText = (
    T: number,
    list = edits(eviction()),
    measures = ['loss_mean', 'keeps_first'],
    context = 99_999,
  ) => canStream(describe_, architectureOf({ context }), list, measures, T);

  it('is chosen for a long text if the only edit is an eviction', () => {
    expect(canStreamText(LONG_TEXT + 1)).toBe(true);
    expect(canStreamText(LONG_TEXT)).toBe(false);
    expect(canStreamText(17, undefined, undefined, 16)).toBe(true);
    expect(canStreamText(16, undefined, undefined, 16)).toBe(false);
    expect(canStreamText(LONG_TEXT + 1, [])).toBe(false);
    expect(canStreamText(LONG_TEXT + 1, edits({ kind: 'hide_key', key: 0 }))).toBe(false);
    expect(canStreamText(LONG_TEXT + 1, edits(eviction(), { kind: 'hide_key', key: 0 }))).toBe(
      false,
    );
    expect(canStreamText(LONG_TEXT + 1, edits(eviction({ policy: 'snapkv' })))).toBe(false);
  });

  it('is not chosen if a metric needs fields that it does not store', () => {
    expect(canStreamText(LONG_TEXT + 1, undefined, ['loss_mean', 'entropy'])).toBe(false);
    expect(canStreamText(LONG_TEXT + 1, undefined, [])).toBe(true);
  });
});

describe('the list of reads', () => {
  const namesOf = (reads: string[], change: Partial<Frame> = {}) =>
    namesFor(describe_, frameOf(change), reads);

  it('contains the reads of all sentences and the requested ones, once each', () => {
    expect(namesOf(['alpha', 'entropy'])).toMatchSnapshot();
  });

  it('omits reads that the model or its edits do not allow', () => {
    expect(namesOf(['router'])).not.toContain('router');
    const experts = { ...frameOf().architecture, E: 4 } as Frame['architecture'];
    expect(namesOf(['router'], { architecture: experts })).toContain('router');
    for (const name of ['evicted', 'keeps_first']) {
      expect(namesOf([name])).not.toContain(name);
      expect(namesOf([name], { edits: edits(eviction()) })).toContain(name);
    }
  });

  it('omits next tokens if every token sees every other', () => {
    const architecture = {
      ...frameOf().architecture,
      mask: { kind: 'bidirectional' },
    } as Frame['architecture'];
    expect(namesOf(['next'])).toContain('next');
    expect(namesOf(['next'], { architecture })).not.toContain('next');
  });

  it('records the requested fields and those of the metrics, besides the standard fields', () => {
    const request = { reads: ['entropy', 'loss_mean'], headReads: ['q', 'keeps_first'] };
    const shortText = { architecture: architectureOf({ L: 2 }), T: 8 };
    expect(fieldsToRecord(describe_, request, shortText)).toEqual(['att', 'next', 'loss', 'q']);
  });

  it('records only its own fields of a long text if the standard ones take much memory', () => {
    const fields = [
      field('hidden', { standard: true, shape: ['L+1', 'T', 'D'] }),
      field('att', { standard: true, shape: ['L', 'H', 'T', 'T'] }),
    ];
    const table = { ...describe_, fields } as unknown as Describe;
    const fieldsOf = (D: number, T: number) =>
      fieldsToRecord(
        table,
        { reads: [], headReads: ['att'] },
        { architecture: architectureOf({ L: 3, H: 2, D }), T },
      );
    expect(fieldsOf(4096, 4096)).toEqual(['hidden', 'att']);
    expect(fieldsOf(4097, 4096)).toEqual(['att']);
    // With a short text, all fields fit in memory.
    expect(fieldsOf(2 ** 20, 512)).toEqual(['hidden', 'att']);
    // A dimension that the model lacks counts as 1.
    fields[0] = field('hidden', { standard: true, shape: ['L+1', 'T', 'D', 'E'] });
    expect([4096, 4097].map((D) => fieldsOf(D, 4096))).toEqual([['hidden', 'att'], ['att']]);
  });
});

describe('a frame without measurements', () => {
  const table = {
    operations: [
      { name: 'softmax', label: 'softmax', parameters: [], normalizes: true, features: 'none' },
      {
        name: 'sigmoid',
        label: 'sigmoid',
        parameters: [{ name: 'bias', default: 0, min: -9, max: 9 }],
        features: 'none',
      },
    ],
    metrics: [],
    fields: [],
    edits: [
      { name: 'operation', label: 'another operation', counterfactual: true, parameters: [] },
      {
        name: 'silence',
        meaning: 'a head',
        label: 'a head ablated',
        counterfactual: true,
        parameters: ['layer', 'head'].map((name) => ({ name, required: true, min: 0, max: 9 })),
      },
      {
        name: 'hide_key',
        label: '{key} hidden',
        counterfactual: true,
        parameters: [
          { name: 'key', type: 'index', below: 'T', required: true },
          { name: 'layer', type: 'index', below: 'L' },
          { name: 'head', type: 'index', below: 'H' },
          { name: 'query', type: 'index', below: 'T' },
        ],
      },
      {
        name: 'evict',
        meaning: 'a cache',
        label: 'a cache',
        counterfactual: false,
        parameters: [
          {
            name: 'policy',
            required: true,
            choices: ['window', 'h2o'],
            labels: ['recent keys', 'heavy hitters'],
          },
          { name: 'budget', required: true, min: 1, max: 99 },
        ],
      },
    ],
  } as unknown as Describe;
  const tokens = [
    { id: 0, text: '<s>', start: 0, end: 0, special: true },
    { id: 5, text: 'a', start: 0, end: 1, special: false },
  ];
  const frameFor = (
    text: string,
    operation = 'softmax',
    more: object = {},
    masks: { readonly model?: number | null; readonly tokenizer?: readonly object[] } = {},
  ) => {
    const openModel = {
      ...{ id: 'm', title: 'Model', source: 'zoo', bits: 8 },
      tokenizer: { specials: masks.tokenizer ?? [], bos: null, encode: async () => [] },
      model: {
        architecture: {
          ...frameOf().architecture,
          attention: { operation, parameters: {} },
          mask_token: masks.model ?? null,
        },
      },
    } as unknown as OpenModel;
    const prompts = {
      tokens,
      dropped: 3,
      ids: [
        [0, 5],
        [0, 6],
      ],
      ...more,
    };
    return emptyFrame(
      table,
      parseSubject(text)!,
      text,
      openModel,
      { ...frameOf().question, eps: 0.25 },
      prompts,
    );
  };

  it('has the model, the prompts and the question', async () => {
    expect(await frameFor('m@7')).toMatchObject({
      ...{ subject: 'm@7', title: 'Model', class: 'measured', edits: [], labels: [], choices: [] },
      model: { id: 'm', title: 'Model', source: 'zoo', bits: 8 },
      ...{
        T: 2,
        eps: 0.25,
        dropped: 3,
        generated: 0,
        first: ['<s>'],
        sequences: 2,
        milliseconds: 0,
      },
      operation: { name: 'softmax' },
      special: { automatic: [], bos: null, choices: [] },
    });
  });

  it('has the mask token of the model, or else of its tokenizer', async () => {
    const maskTokenOf = async (masks: Parameters<typeof frameFor>[3]) =>
      (await frameFor('m', 'softmax', {}, masks)).maskToken;
    const specials = [
      { id: 3, text: '[SEP]', kind: 'sep' },
      { id: 4, text: '[MASK]', kind: 'mask' },
    ];
    expect(await maskTokenOf({ model: 0, tokenizer: specials })).toBe(0);
    expect(await maskTokenOf({ tokenizer: specials })).toBe(4);
    expect(await frameFor('m')).not.toHaveProperty('maskToken');
  });

  it('lists its edits with their labels, except edits without effect', async () => {
    const evictedFrame = await frameFor('m~evict(h2o,8)');
    expect(evictedFrame).toMatchObject({
      class: 'measured',
      edits: [{ kind: 'evict', policy: 'h2o', budget: 8 }],
      choices: [{ policy: 'heavy hitters' }],
    });
    expect(evictedFrame.title).toBe(`Model, ${evictedFrame.labels[0]}`);
    expect(await frameFor('m~silence(1,0)')).toMatchObject({ class: 'counterfactual' });
    const swappedFrame = await frameFor('m~sigmoid');
    expect(swappedFrame).toMatchObject({ class: 'counterfactual', operation: { name: 'sigmoid' } });
    // An edit to the model's own operation is ignored, unless it has a parameter.
    expect(await frameFor('m~softmax')).toMatchObject({
      title: 'Model',
      class: 'measured',
      edits: [],
    });
    expect((await frameFor('m~sigmoid', 'sigmoid')).edits).toHaveLength(1);
  });
});

describe('a completed frame', () => {
  const strongestHead = (frame: Frame): Head =>
    'alpha' in frame.tensors ? { layer: 1, head: 0 } : { layer: 0, head: 0 };

  function runOf(answers: Readonly<Record<string, Tensor>>) {
    const requests: RunRead[][] = [];
    const run = {
      read: async (reads: RunRead[]) => {
        requests.push(reads);
        return reads.map((read) => answers['metric' in read ? read.metric : read.field]!);
      },
    } as unknown as Run;
    return { run, requests };
  }
  const openModel = { tokenizer: { piece: (id: number) => `#${id}` } } as unknown as OpenModel;
  const zeroTensor = tensor([1], [0]);

  it('lists the eight most likely next tokens, with a softmax over all logits', async () => {
    const logits = [0, 5, 1, 4, 2, 3, -1, -2, -3, -4];
    const { run } = runOf({ next: tensor([10], logits) });
    const frame = await completeFrame(
      describe_,
      frameOf(),
      { run, openModel },
      { reads: ['next'], headReads: [] },
      { headOf: strongestHead },
    );
    const sum = logits.reduce((a, x) => a + Math.exp(x), 0);
    expect(frame.next.map(({ text }) => text)).toEqual(
      [1, 3, 5, 4, 2, 0, 6, 7].map((id) => `#${id}`),
    );
    expect(frame.next[0]!.probability).toBeCloseTo(Math.exp(5) / sum, 12);
    expect(frame.next[7]!.probability).toBeCloseTo(Math.exp(-2) / sum, 12);
  });

  it('keeps numbers that it has, and reads a head’s numbers once alpha has determined the head', async () => {
    const { run, requests } = runOf({ q: zeroTensor, entropy: zeroTensor });
    const request = { reads: ['alpha', 'entropy'], headReads: ['q'] };
    const rawTensors = { alpha_raw: frameOf().tensors.alpha! };
    const firstFrame = await completeFrame(
      describe_,
      frameOf({}, rawTensors),
      { run, openModel },
      request,
      { headOf: strongestHead },
    );
    expect(requests.flat()).toEqual([
      { metric: 'entropy', eps: 0.3 },
      { field: 'q', layer: 1, head: 0 },
    ]);
    expect(firstFrame.head).toEqual({ layer: 1, head: 0, tensors: { q: zeroTensor } });
    // A frame with its own alpha asks no earlier frame, which may have another strongest head.
    const { alpha: _, ...others } = frameOf().tensors;
    const previousFrame = { ...frameOf(), tensors: others };
    await completeFrame(describe_, frameOf({}, rawTensors), { run, openModel }, request, {
      headOf: strongestHead,
      previousFrame,
    });
    expect(requests.splice(1).flat()).toEqual(requests.flat());
    const secondFrame = await completeFrame(describe_, firstFrame, { run, openModel }, request, {
      headOf: strongestHead,
    });
    expect(requests).toHaveLength(1);
    expect(secondFrame.head).toEqual(firstFrame.head);
  });

  it('keeps the numbers of different heads separate', async () => {
    const request = { reads: ['alpha'], headReads: ['q'] };
    const rawTensors = { alpha_raw: frameOf().tensors.alpha! };
    for (const [layer, head] of [
      [0, 0],
      [1, 1],
      [1, 0],
    ] as const) {
      const { run, requests } = runOf({ q: zeroTensor });
      const frame = frameOf({ head: { layer, head, tensors: { q: zeroTensor } } }, rawTensors);
      const isStrongest = layer === 1 && head === 0;
      expect(isAnswered(frame, describe_, request, { layer: 1, head: 0 })).toBe(isStrongest);
      await completeFrame(describe_, frame, { run, openModel }, request, { headOf: strongestHead });
      expect(requests.flat()).toEqual(isStrongest ? [] : [{ field: 'q', layer: 1, head: 0 }]);
    }
  });

  it('reads a long map in blocks, and exactly where the reader zooms', async () => {
    const T = 100;
    const table = {
      ...describe_,
      metrics: [
        { ...metric('qk_cos', ['q']), shape: ['T', 'T'] },
        ...describe_.metrics.map((definition) => ({ ...definition, shape: ['L', 'H', 'T'] })),
      ],
    } as unknown as Describe;
    const { run, requests } = runOf({ att: zeroTensor, qk_cos: zeroTensor });
    const rawTensors = { alpha_raw: frameOf().tensors.alpha! };
    const request = { reads: ['att'], headReads: ['att', 'qk_cos'], cells: 32 };
    const complete = (frame: Frame, change: object = {}) =>
      completeFrame(
        table,
        frame,
        { run, openModel },
        { ...request, ...change },
        { headOf: strongestHead },
      );
    const at = { layer: 1, head: 0 };
    const initialFrame = { ...frameOf({ T }, rawTensors) };
    const firstFrame = await complete(initialFrame);
    expect(requests.splice(0)).toEqual([
      [
        { field: 'att', block: 4 },
        { field: 'att', ...at, block: 4 },
      ],
    ]);
    expect(firstFrame.pooled).toBe(25);
    // A number for each query and key is not read for a long text; a view gives the reason.
    expect(firstFrame.lacks!.qk_cos).toMatchSnapshot();
    expect(firstFrame.head!.tensors).not.toHaveProperty('qk_cos');
    expect(isAnswered(firstFrame, table, request, at)).toBe(true);
    const zoom = { query: 90, key: 7 };
    expect(isAnswered(firstFrame, table, { ...request, zoom }, at)).toBe(false);
    const zoomedFrame = await complete(firstFrame, { zoom });
    expect(requests.splice(0)).toEqual([[{ field: 'att', ...at, rows: [60, 100] }]]);
    expect(zoomedFrame.head!.rows).toEqual({ query: 60, key: 7, att: zeroTensor });
    expect(isAnswered(zoomedFrame, table, { ...request, zoom }, at)).toBe(true);
    expect(isAnswered(zoomedFrame, table, request, at)).toBe(true);
    for (const other of [
      { query: 90, key: 20 },
      { query: 30, key: 7 },
    ])
      expect(isAnswered(zoomedFrame, table, { ...request, zoom: other }, at)).toBe(false);
    await complete(zoomedFrame, { zoom });
    expect(requests).toEqual([]);
    await complete(frameOf({ T: 130 }, rawTensors), {
      cells: 129,
      reads: ['att'],
      headReads: ['att'],
    });
    expect(requests.splice(0)).toEqual([
      [
        { field: 'att', block: 3 },
        { field: 'att', ...at, block: 2 },
      ],
    ]);
    expect(isAnswered(zoomedFrame, table, { ...request, cells: 100 }, at)).toBe(false);
    const wholeFrame = await complete(zoomedFrame, { cells: 100 });
    expect(requests.flat()).toContainEqual({ field: 'att', ...at });
    expect(requests.flat()).toContainEqual({ field: 'att' });
    expect(wholeFrame).not.toHaveProperty('pooled');
    expect(wholeFrame.head!.tensors).toHaveProperty('qk_cos');
  });

  it('reads another head if alpha shows that the expected head is not the strongest', async () => {
    const { alpha, ...others } = frameOf().tensors;
    const { run, requests } = runOf({ alpha: alpha!, q: zeroTensor });
    const frame = await completeFrame(
      describe_,
      { ...frameOf(), tensors: others },
      { run, openModel },
      { reads: [], headReads: ['q'] },
      { headOf: strongestHead, previousFrame: { ...frameOf(), tensors: others } },
    );
    expect(requests[0]).toContainEqual({ field: 'q', layer: 0, head: 0 });
    expect(requests[1]).toEqual([{ field: 'q', layer: 1, head: 0 }]);
    expect(frame.head).toMatchObject({ layer: 1, head: 0 });
  });

  it('keeps the numbers by prompt for several prompts only', async () => {
    const { run } = runOf({});
    const completeWith = (sequences: number) =>
      completeFrame(
        describe_,
        frameOf({ sequences, perPrompt: { loss_mean: [7] } }),
        { run, openModel },
        { reads: [], headReads: [] },
        { headOf: strongestHead },
      );
    expect((await completeWith(1)).perPrompt.loss_mean).toEqual([2]);
    expect((await completeWith(2)).perPrompt).toEqual({ loss_mean: [7] });
  });
});
