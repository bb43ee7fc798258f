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

const evict = (more: object = {}) => ({ kind: 'evict', policy: 'window', budget: 8, ...more });
const edits = (...list: object[]) => list as unknown as Frame['edits'];
const architectureOf = (more: object) => more as unknown as Frame['architecture'];
const rotary = architectureOf({ context: 16, positions: 'rotary' });

describe('the longest text of a model', () => {
  it('is its context, unless every head’s cache keeps its positions inside the context', () => {
    const turned = evict({ positions: 'cache' });
    expect(contextOf(rotary, [])).toBe(16);
    expect(contextOf(rotary, edits(turned))).toBe(Infinity);
    expect(contextOf(rotary, edits(evict()))).toBe(16);
    expect(contextOf(rotary, edits({ ...turned, budget: 16 }))).toBe(Infinity);
    expect(contextOf(rotary, edits({ ...turned, budget: 17 }))).toBe(16);
    for (const only of [{ layer: 0 }, { head: 0 }, { policy: 'snapkv' }])
      expect(contextOf(rotary, edits({ ...turned, ...only }))).toBe(16);
    const learned = architectureOf({ context: 16, positions: 'learned' });
    expect(contextOf(learned, edits(turned))).toBe(16);
  });

  it('is unlimited if each token is predicted from a window inside the context', () => {
    expect(contextOf(rotary, [], 15)).toBe(Infinity);
    expect(contextOf(rotary, [], 16)).toBe(16);
  });
});

describe('a streaming run', () => {
  const streams = (
    T: number,
    list = edits(evict()),
    measures = ['loss_mean', 'keeps_first'],
    context = 99_999,
  ) => canStream(describe_, architectureOf({ context }), list, measures, T);

  it('is chosen for a long text if the only edit is an eviction', () => {
    expect(streams(LONG_TEXT + 1)).toBe(true);
    expect(streams(LONG_TEXT)).toBe(false);
    expect(streams(17, undefined, undefined, 16)).toBe(true);
    expect(streams(16, undefined, undefined, 16)).toBe(false);
    expect(streams(LONG_TEXT + 1, [])).toBe(false);
    expect(streams(LONG_TEXT + 1, edits({ kind: 'hide_key', key: 0 }))).toBe(false);
    expect(streams(LONG_TEXT + 1, edits(evict(), { kind: 'hide_key', key: 0 }))).toBe(false);
    expect(streams(LONG_TEXT + 1, edits(evict({ policy: 'snapkv' })))).toBe(false);
  });

  it('is not chosen if a metric needs fields that it does not store', () => {
    expect(streams(LONG_TEXT + 1, undefined, ['loss_mean', 'entropy'])).toBe(false);
    expect(streams(LONG_TEXT + 1, undefined, [])).toBe(true);
  });
});

describe('the list of reads', () => {
  const names = (reads: string[], change: Partial<Frame> = {}) =>
    namesFor(describe_, frameOf(change), reads);

  it('contains the reads of all sentences and the requested ones, once each', () => {
    expect(names(['alpha', 'entropy'])).toEqual([
      'alpha',
      'alpha_raw',
      'alpha_uniform',
      'sink_ratio',
      'sink_ratio_raw',
      'row_mass_summary',
      'entropy',
    ]);
  });

  it('omits reads that the model or its edits do not allow', () => {
    expect(names(['router'])).not.toContain('router');
    const experts = { ...frameOf().architecture, E: 4 } as Frame['architecture'];
    expect(names(['router'], { architecture: experts })).toContain('router');
    for (const name of ['evicted', 'keeps_first']) {
      expect(names([name])).not.toContain(name);
      expect(names([name], { edits: edits(evict()) })).toContain(name);
    }
  });

  it('omits next tokens if every token sees every other', () => {
    const architecture = {
      ...frameOf().architecture,
      mask: { kind: 'bidirectional' },
    } as Frame['architecture'];
    expect(names(['next'])).toContain('next');
    expect(names(['next'], { architecture })).not.toContain('next');
  });

  it('records the requested fields and those of the metrics, besides the standard fields', () => {
    const wanted = { reads: ['entropy', 'loss_mean'], headReads: ['q', 'keeps_first'] };
    const short = { architecture: architectureOf({ L: 2 }), T: 8 };
    expect(fieldsToRecord(describe_, wanted, short)).toEqual(['att', 'next', 'loss', 'q']);
  });

  it('records only its own fields of a long text if the standard ones take much memory', () => {
    const fields = [
      field('hidden', { standard: true, shape: ['L+1', 'T', 'D'] }),
      field('att', { standard: true, shape: ['L', 'H', 'T', 'T'] }),
    ];
    const table = { ...describe_, fields } as unknown as Describe;
    const run = (D: number, T: number) =>
      fieldsToRecord(
        table,
        { reads: [], headReads: ['att'] },
        { architecture: architectureOf({ L: 3, H: 2, D }), T },
      );
    expect(run(4096, 4096)).toEqual(['hidden', 'att']);
    expect(run(4097, 4096)).toEqual(['att']);
    // With a short text, all fields fit in memory.
    expect(run(2 ** 20, 512)).toEqual(['hidden', 'att']);
    // A dimension that the model lacks counts as 1.
    fields[0] = field('hidden', { standard: true, shape: ['L+1', 'T', 'D', 'E'] });
    expect([4096, 4097].map((D) => run(D, 4096))).toEqual([['hidden', 'att'], ['att']]);
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
    expect(await frameFor('m')).not.toHaveProperty('groups');
    expect(await frameFor('m', 'softmax', { groups: ['x', 'y'] })).toMatchObject({
      groups: ['x', 'y'],
    });
    expect(await frameFor('m~int8')).toMatchObject({
      class: 'approximate',
      title: 'Model in 8 bits (int8)',
    });
  });

  it('has the mask token of the model, or else of its tokenizer', async () => {
    const of = async (masks: Parameters<typeof frameFor>[3]) =>
      (await frameFor('m', 'softmax', {}, masks)).maskToken;
    const specials = [
      { id: 3, text: '[SEP]', kind: 'sep' },
      { id: 4, text: '[MASK]', kind: 'mask' },
    ];
    expect(await of({ model: 0, tokenizer: specials })).toBe(0);
    expect(await of({ tokenizer: specials })).toBe(4);
    expect(await frameFor('m')).not.toHaveProperty('maskToken');
  });

  it('lists its edits with their labels, except edits without effect', async () => {
    const cached = await frameFor('m~evict(h2o,8)');
    expect(cached).toMatchObject({
      class: 'measured',
      edits: [{ kind: 'evict', policy: 'h2o', budget: 8 }],
      choices: [{ policy: 'heavy hitters' }],
    });
    expect(cached.title).toBe(`Model, ${cached.labels[0]}`);
    expect(await frameFor('m~silence(1,0)~int8')).toMatchObject({ class: 'counterfactual' });
    const swapped = await frameFor('m~sigmoid');
    expect(swapped).toMatchObject({ class: 'counterfactual', operation: { name: 'sigmoid' } });
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
  const strongest = (frame: Frame): Head =>
    'alpha' in frame.tensors ? { layer: 1, head: 0 } : { layer: 0, head: 0 };

  function runOf(answers: Readonly<Record<string, Tensor>>) {
    const asked: RunRead[][] = [];
    const run = {
      read: async (reads: RunRead[]) => {
        asked.push(reads);
        return reads.map((read) => answers['metric' in read ? read.metric : read.field]!);
      },
    } as unknown as Run;
    return { run, asked };
  }
  const openModel = { tokenizer: { piece: (id: number) => `#${id}` } } as unknown as OpenModel;
  const nothing = tensor([1], [0]);

  it('lists the eight most likely next tokens, with a softmax over all logits', async () => {
    const logits = [0, 5, 1, 4, 2, 3, -1, -2, -3, -4];
    const { run } = runOf({ next: tensor([10], logits) });
    const frame = await completeFrame(
      describe_,
      frameOf(),
      { run, openModel },
      { reads: ['next'], headReads: [] },
      { headOf: strongest },
    );
    const sum = logits.reduce((a, x) => a + Math.exp(x), 0);
    expect(frame.next.map(({ text }) => text)).toEqual(
      [1, 3, 5, 4, 2, 0, 6, 7].map((id) => `#${id}`),
    );
    expect(frame.next[0]!.probability).toBeCloseTo(Math.exp(5) / sum, 12);
    expect(frame.next[7]!.probability).toBeCloseTo(Math.exp(-2) / sum, 12);
  });

  it('keeps numbers that it has, and reads a head’s numbers once alpha has determined the head', async () => {
    const { run, asked } = runOf({ q: nothing, entropy: nothing });
    const wanted = { reads: ['alpha', 'entropy'], headReads: ['q'] };
    const raw = { alpha_raw: frameOf().tensors.alpha! };
    const first = await completeFrame(describe_, frameOf({}, raw), { run, openModel }, wanted, {
      headOf: strongest,
    });
    expect(asked.flat()).toEqual([
      { metric: 'entropy', eps: 0.3 },
      { field: 'q', layer: 1, head: 0 },
    ]);
    expect(first.head).toEqual({ layer: 1, head: 0, tensors: { q: nothing } });
    const again = await completeFrame(describe_, first, { run, openModel }, wanted, {
      headOf: strongest,
    });
    expect(asked).toHaveLength(1);
    expect(again.head).toEqual(first.head);
  });

  it('keeps the numbers of different heads separate', async () => {
    const wanted = { reads: ['alpha'], headReads: ['q'] };
    const raw = { alpha_raw: frameOf().tensors.alpha! };
    for (const [layer, head] of [
      [0, 0],
      [1, 1],
      [1, 0],
    ] as const) {
      const { run, asked } = runOf({ q: nothing });
      const frame = frameOf({ head: { layer, head, tensors: { q: nothing } } }, raw);
      const isOwn = layer === 1 && head === 0;
      expect(isAnswered(frame, describe_, wanted, { layer: 1, head: 0 })).toBe(isOwn);
      await completeFrame(describe_, frame, { run, openModel }, wanted, { headOf: strongest });
      expect(asked.flat()).toEqual(isOwn ? [] : [{ field: 'q', layer: 1, head: 0 }]);
    }
  });

  it('reads a long map in blocks, and exactly where the reader zooms', async () => {
    const T = 100;
    const table = {
      ...describe_,
      metrics: [
        { ...metric('qk_cos', ['q']), shape: ['T', 'T'] },
        ...describe_.metrics.map((one) => ({ ...one, shape: ['L', 'H', 'T'] })),
      ],
    } as unknown as Describe;
    const { run, asked } = runOf({ att: nothing, qk_cos: nothing });
    const raw = { alpha_raw: frameOf().tensors.alpha! };
    const wanted = { reads: ['att'], headReads: ['att', 'qk_cos'], cells: 32 };
    const of = (frame: Frame, change: object = {}) =>
      completeFrame(
        table,
        frame,
        { run, openModel },
        { ...wanted, ...change },
        { headOf: strongest },
      );
    const at = { layer: 1, head: 0 };
    const known = { ...frameOf({ T }, raw) };
    const first = await of(known);
    expect(asked.splice(0)).toEqual([
      [
        { field: 'att', block: 4 },
        { field: 'att', ...at, block: 4 },
      ],
    ]);
    expect(first.pooled).toBe(25);
    // A number for each query and key is not read for a long text; a view gives the reason.
    expect(first.lacks!.qk_cos).toContain('up to 32 tokens, and this one has 100');
    expect(first.head!.tensors).not.toHaveProperty('qk_cos');
    expect(isAnswered(first, table, wanted, at)).toBe(true);
    const zoom = { query: 90, key: 7 };
    expect(isAnswered(first, table, { ...wanted, zoom }, at)).toBe(false);
    const zoomed = await of(first, { zoom });
    expect(asked.splice(0)).toEqual([[{ field: 'att', ...at, rows: [60, 100] }]]);
    expect(zoomed.head!.rows).toEqual({ query: 60, key: 7, att: nothing });
    expect(isAnswered(zoomed, table, { ...wanted, zoom }, at)).toBe(true);
    expect(isAnswered(zoomed, table, wanted, at)).toBe(true);
    await of(zoomed, { zoom });
    expect(asked).toEqual([]);
    await of(frameOf({ T: 130 }, raw), { cells: 129, reads: ['att'], headReads: ['att'] });
    expect(asked.splice(0)).toEqual([
      [
        { field: 'att', block: 3 },
        { field: 'att', ...at, block: 2 },
      ],
    ]);
    expect(isAnswered(zoomed, table, { ...wanted, cells: 100 }, at)).toBe(false);
    const whole = await of(zoomed, { cells: 100 });
    expect(asked.flat()).toContainEqual({ field: 'att', ...at });
    expect(whole).not.toHaveProperty('pooled');
    expect(whole.head!.tensors).toHaveProperty('qk_cos');
  });

  it('reads another head if alpha shows that the expected head is not the strongest', async () => {
    const { alpha, ...others } = frameOf().tensors;
    const { run, asked } = runOf({ alpha: alpha!, q: nothing });
    const frame = await completeFrame(
      describe_,
      { ...frameOf(), tensors: others },
      { run, openModel },
      { reads: [], headReads: ['q'] },
      { headOf: strongest, previousFrame: { ...frameOf(), tensors: others } },
    );
    expect(asked[0]).toContainEqual({ field: 'q', layer: 0, head: 0 });
    expect(asked[1]).toEqual([{ field: 'q', layer: 1, head: 0 }]);
    expect(frame.head).toMatchObject({ layer: 1, head: 0 });
  });

  it('keeps the numbers by prompt for several prompts only', async () => {
    const { run } = runOf({});
    const of = (sequences: number) =>
      completeFrame(
        describe_,
        frameOf({ sequences, perPrompt: { loss_mean: [7] } }),
        { run, openModel },
        { reads: [], headReads: [] },
        { headOf: strongest },
      );
    expect((await of(1)).perPrompt.loss_mean).toEqual([2]);
    expect((await of(2)).perPrompt).toEqual({ loss_mean: [7] });
  });
});
