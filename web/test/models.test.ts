/** The open models of a visit, over a mocked engine that records the models to open. */
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { SinkscopeError, type Engine, type Plan, type Progress } from 'sinkscope';
import { zooAddress, type Card, type Zoo } from '../src/ask/zoo';
import { Models, previewId } from '../src/run/models';
import type { OpenModel, Watch } from '../src/run/opened';
import { turn } from './fixture';

const hub = vi.hoisted(() => ({
  openTokenizer: vi.fn(),
  planTokenizer: vi.fn(),
  modelFiles: (plan: object, options: object) => ({ plan, ...options }),
  cacheClear: vi.fn(),
  openTimeline: vi.fn(),
}));
vi.mock('sinkscope', async (load) => ({ ...(await load<object>()), ...hub }));

const card = (id: string, change: Partial<Card> = {}) =>
  ({
    ...{ id, title: `The ${id}`, parameters: 1000, sha256: `hash of ${id}`, tokenizer: 'softmax' },
    ...{ tokenizer_config: { of: id } },
    ...change,
  }) as Card;
const preview = {
  ...{ file: 'preview.gz', bytes: 400, sha256: 'hash of the preview', measured: {} },
  refinement: { file: 'refinement.gz', bytes: 900 },
};
const cards = [
  card('softmax', { preview, timeline: true }),
  card('relu', { tokenizer_config: { of: 'another' } }),
  card('own', { tokenizer: 'own' }),
];

let fetched: string[] = [];
let openCalls: {
  files: unknown;
  options: Record<string, unknown>;
  close: ReturnType<typeof vi.fn>;
}[];
let befalls: (options: { signal?: AbortSignal }) => unknown = () => {};
const zoo = {
  cards,
  preview: vi.fn(async (id: string) => `preview of ${id}`),
  exact: vi.fn(async (id: string) => `exact ${id}`),
  forget: vi.fn(),
};
const engine = {
  describe: { version: '1.0' },
  explain: vi.fn(async () => ({ version: '1.0', edits: [] })),
  open: vi.fn(async (files: unknown, options: Record<string, unknown>) => {
    const close = vi.fn(async () => {});
    openCalls.push({ files, options, close });
    await befalls(options);
    return { architecture: { V: 10 }, close };
  }),
};
const models = () => new Models(engine as unknown as Engine, zoo as unknown as Zoo);
const progress: unknown[][] = [];
const watch: Watch = {
  signal: new AbortController().signal,
  onProgress: (...all) => void progress.push(all),
};
const plan = { id: 'owner/name', bytes: 500, commit: 'abc', files: {} } as unknown as Plan;
const recipe = { title: 'Name', source: 'hub', plan, token: 'secret' } as const;
const HUB = 'hub:owner/name';

beforeEach(() => {
  [fetched, openCalls, befalls, progress.length] = [[], [], () => {}, 0];
  vi.clearAllMocks();
  hub.openTokenizer.mockImplementation(async (json: string) => ({ size: 10, json }));
  hub.planTokenizer.mockImplementation(async () => ({ size: 10, close: vi.fn() }));
  hub.cacheClear.mockResolvedValue(undefined);
  vi.stubGlobal('fetch', async (url: URL, { cache }: { cache: string }) => {
    fetched.push(`${url.href.slice(zooAddress('').href.length)} ${cache}`);
    return new Response('text');
  });
});

describe('the explanations of tables', () => {
  it('are fetched once, and again after a failure', async () => {
    const own = models();
    engine.explain.mockRejectedValueOnce(new Error('offline'));
    expect(await own.explain()).toBe(engine.describe);
    const both = await Promise.all([own.explain(), own.explain()]);
    expect(both).toEqual([{ version: '1.0', edits: [] }, both[0]]);
    expect(await own.explain()).toBe(both[0]);
    expect(engine.explain).toHaveBeenCalledTimes(2);
  });
});

describe('a model of the zoo', () => {
  it('is opened once for all callers, and its tokenizer once for all models that share it', async () => {
    const own = models();
    const both = [own.get('relu', watch), own.get('relu', watch)];
    expect(own.isOpen('relu')).toBe(false);
    const [one, other] = await Promise.all(both);
    expect(one).toBe(other);
    expect(own.isOpen('relu')).toBe(true);
    expect(one).toMatchObject({ id: 'relu', title: 'The relu', source: 'zoo' });
    expect(one).toMatchObject({ sha256: 'hash of relu', tokenizer: { json: 'text' } });
    expect([one!.isPreview, one!.bits]).toEqual([undefined, undefined]);
    expect(openCalls[0]!.files).toEqual({
      config: zooAddress('relu/config.json'),
      weights: zooAddress('relu/model.safetensors'),
    });
    await own.get('softmax', watch);
    await own.get('own', watch);
    expect(fetched).toEqual(['softmax/tokenizer.json default', 'own/tokenizer.json default']);
    expect(hub.openTokenizer.mock.calls[0]).toEqual(['text', '{"of":"another"}']);
    (openCalls[0]!.options.onProgress as (p: object) => void)({ done: 1, total: 4 });
    expect(progress.at(-1)).toEqual(['Loading The relu', 1, 4, { done: 1, total: 4 }]);
  });

  it('is a quantized preview until the exact weights are open', async () => {
    const own = models();
    const [first, again] = await Promise.all([
      own.getPreview('softmax', watch),
      own.getPreview('softmax', watch),
    ]);
    expect(first).toBe(again);
    // 400 bytes hold 1,000 weights, 3.2 bits each.
    expect(first).toMatchObject({ isPreview: true, bits: 3.2, sha256: preview.sha256 });
    expect([openCalls[0]!.files, own.isOpen('softmax')]).toEqual(['preview of softmax', false]);
    expect(progress).toEqual([]);
    const exact = await own.get('softmax', watch);
    expect(progress[0]).toEqual(['Loading The softmax', 0, 0]);
    expect([openCalls[1]!.files, exact.sha256, exact.isPreview]).toEqual([
      'exact softmax',
      'hash of softmax',
      undefined,
    ]);
    expect(await own.getPreview('softmax', watch)).toBe(exact);
    expect(await own.getPreview('relu', watch)).toBe(await own.get('relu', watch));
    await own.release(new Set(['relu']));
    expect(openCalls.map(({ close }) => close.mock.calls.length)).toEqual([1, 0, 0]);
    expect(own.isOpen(previewId('softmax'))).toBe(false);
  });

  it('opens in another arithmetic beside the exact one', async () => {
    const own = models();
    const int8 = await own.get('relu~int8', watch);
    expect([int8.id, openCalls[0]!.options.arithmetic]).toEqual(['relu~int8', 'int8']);
    await own.get('relu', watch);
    expect(openCalls[1]!.options.arithmetic).toBe('exact');
    await own.release(new Set());
    expect(openCalls.map(({ close }) => close.mock.calls.length)).toEqual([1, 0]);
  });

  it.each([
    ['softmax', ['softmax/preview.gz', 'softmax/refinement.gz', 'softmax/tokenizer.json']],
    ['own', ['own/config.json', 'own/model.safetensors', 'own/tokenizer.json']],
  ])(
    '%s is fetched past the cache and read again where its files are damaged',
    async (id, paths) => {
      for (const code of ['bad_file', 'read']) {
        fetched = [];
        let tries = 0;
        befalls = () => {
          if (tries++ === 0) throw new SinkscopeError(code as 'read', 'weights', 'broken');
        };
        await expect(models().get(id, watch)).resolves.toMatchObject({ id });
        expect(fetched.filter((one) => one.endsWith('reload'))).toEqual(
          paths.map((path) => `${path} reload`),
        );
        expect(zoo.forget).toHaveBeenLastCalledWith(id);
      }
    },
  );

  it('downloads no refinement for the preview alone', async () => {
    let tries = 0;
    befalls = () => {
      if (tries++ === 0) throw new SinkscopeError('bad_file', 'weights', 'broken');
    };
    await models().getPreview('softmax', watch);
    expect(fetched.filter((one) => one.endsWith('reload'))).toEqual([
      'softmax/preview.gz reload',
      'softmax/tokenizer.json reload',
    ]);
  });

  it('is tried again by the next request after a failure', async () => {
    const own = models();
    befalls = () => {
      throw new SinkscopeError('memory', 'engine', 'no memory is left');
    };
    await expect(own.get('relu', watch)).rejects.toThrow('no memory');
    expect(fetched.filter((one) => one.endsWith('reload'))).toEqual([]);
    befalls = () => {};
    await expect(own.get('relu', watch)).resolves.toMatchObject({ id: 'relu' });
    hub.openTokenizer.mockRejectedValueOnce(new Error('no tokenizer'));
    await expect(own.get('own', watch)).rejects.toThrow('no tokenizer');
    await expect(own.get('own', watch)).resolves.toMatchObject({ id: 'own' });
  });

  it('is rejected with the list of known names if it does not exist', async () => {
    await expect(models().get('gelu', watch)).rejects.toThrow(
      'This page has no model “gelu”. It has softmax, relu, own.',
    );
  });
});

describe('a checkpoint of the zoo', () => {
  const checkpoints = [0, 10, 100].map((step) => ({
    ...{ step, bytes: 500, measured: { sink_1: step }, stored: {} },
  }));
  const forget = vi.fn();
  const timeline = {
    ...{ checkpoints, parameters: 1000, forget, preload: vi.fn() },
    open: vi.fn(async (step: number) => `files at ${step}`),
  };
  beforeEach(() => {
    hub.openTimeline.mockResolvedValue(timeline);
    vi.stubGlobal('Worker', undefined);
  });

  it('is the nearest stored step, and the last one is the trained model', async () => {
    const own = models();
    const at = await own.get('softmax@12', watch);
    expect(at).toMatchObject({ id: 'softmax@12', title: 'The softmax at step 10 of 100', bits: 4 });
    expect(at.step).toMatchObject({ step: 10, of: 100, measured: { sink_1: 10 } });
    expect(openCalls[0]!.files).toBe('files at 10');
    const last = await own.get('softmax@4000', watch);
    expect(last).toMatchObject({
      id: 'softmax@4000',
      title: 'The softmax',
      sha256: 'hash of softmax',
    });
    expect([last.step, openCalls[1]!.files]).toEqual([undefined, 'exact softmax']);
    await expect(own.get('relu@10', watch)).rejects.toThrow('“relu” has no stored checkpoints');
    await own.release(new Set(['softmax@12']));
    expect([openCalls[0]!, openCalls[1]!].map(({ close }) => close.mock.calls.length)).toEqual([
      0, 1,
    ]);
    expect(forget).not.toHaveBeenCalled();
    await own.release(new Set());
    expect(openCalls[0]!.close).toHaveBeenCalledTimes(1);
    expect(forget).toHaveBeenCalledTimes(1);
  });

  it('is closed if it was stopped while opening, and can be opened again at once', async () => {
    const own = models();
    let go = () => {};
    befalls = () => new Promise<void>((done) => (go = done));
    const first = own.get('softmax@12', watch);
    await vi.waitUntil(() => openCalls.length);
    own.stop('softmax@12');
    const second = own.get('softmax@12', watch);
    go();
    await expect(first).rejects.toMatchObject({ name: 'AbortError' });
    expect(openCalls[0]!.close).toHaveBeenCalledTimes(1);
    await vi.waitUntil(() => openCalls.length === 2);
    go();
    await expect(second).resolves.toMatchObject({ id: 'softmax@12' });
    expect([own.isOpen('softmax@12'), openCalls[1]!.close.mock.calls.length]).toEqual([true, 0]);
  });
});

describe('a model of a hub or disk', () => {
  it('is known from its admission until the admission is withdrawn', async () => {
    const own = models();
    expect([own.canOpen(HUB), own.canOpen('relu'), own.canOpen('gelu')]).toEqual([
      false,
      true,
      false,
    ]);
    own.admit(HUB, recipe);
    expect([own.canOpen(HUB), own.bytesOf(`${HUB}~int8`), own.bytesOf('relu')]).toEqual([
      true,
      500,
      undefined,
    ]);
    expect(own.choices.map(({ id, source }) => `${id} ${source}`)).toEqual([
      ...['softmax zoo', 'relu zoo', 'own zoo'],
      `${HUB} hub`,
    ]);
    own.forget(HUB);
    expect(own.canOpen(HUB)).toBe(false);
  });

  it('is read from the cache with its token, reports its progress, and is stopped by its id', async () => {
    const own = models();
    own.admit(HUB, recipe);
    const coming = own.get(`${HUB}~int8`, watch);
    await vi.waitUntil(() => openCalls.length);
    const { files, options } = openCalls[0]!;
    expect(files).toEqual({ plan, token: 'secret', cache: true });
    expect(options.arithmetic).toBe('int8');
    (options.onProgress as (p: Partial<Progress>) => void)({ done: 2, total: 5 });
    expect(progress).toEqual([['Loading Name', 2, 5, { done: 2, total: 5 }]]);
    const got = await coming;
    expect(got).toMatchObject({ id: `${HUB}~int8`, title: 'Name', source: 'hub', commit: 'abc' });
    expect(hub.planTokenizer.mock.calls[0]![2]).toMatchObject({ token: 'secret', limit: 5000 });
    own.stop(`${HUB}~int8`);
    expect((options.signal as AbortSignal).aborted).toBe(true);
    own.stop('nothing that was asked for');
  });

  it('is closed with its tokenizer when no view shows it, and can be opened again', async () => {
    const own = models();
    own.admit(HUB, recipe);
    const { tokenizer } = (await own.get(HUB, watch)) as OpenModel & {
      tokenizer: { close: ReturnType<typeof vi.fn> };
    };
    await own.release(new Set([HUB]));
    expect(openCalls[0]!.close).not.toHaveBeenCalled();
    await own.release(new Set(['relu']));
    expect([openCalls[0]!.close, tokenizer.close].map(({ mock }) => mock.calls.length)).toEqual([
      1, 1,
    ]);
    expect([own.isOpen(HUB), own.canOpen(HUB)]).toEqual([false, true]);
    await own.get(HUB, watch);
    expect(openCalls).toHaveLength(2);
  });

  it('is released together with recordings that no view shows', async () => {
    const own = models();
    const release = vi.spyOn(own.recordings, 'release');
    await own.release(new Set(['relu']));
    expect(release).toHaveBeenCalledExactlyOnceWith(new Set(['relu']));
  });

  it('that the reader only steps through is forgotten when no room shows it, in any arithmetic', async () => {
    const own = models();
    own.admit(HUB, { ...recipe, isTemporary: true });
    await own.get(`${HUB}~int8`, watch);
    await own.release(new Set([`${HUB}~int8`]));
    expect(own.canOpen(HUB)).toBe(true);
    await own.release(new Set(['relu']));
    expect(own.canOpen(HUB)).toBe(false);
  });

  it('stays open while it is pinned, until it was shown once', async () => {
    const own = models();
    own.admit(HUB, recipe);
    await own.get(HUB, watch);
    own.pin(HUB);
    await own.release(new Set());
    expect(own.isOpen(HUB)).toBe(true);
    await own.release(new Set([HUB]));
    await own.release(new Set());
    expect(own.isOpen(HUB)).toBe(false);
    await own.get(HUB, watch);
    own.pin(HUB);
    own.unpin('relu');
    await own.release(new Set());
    expect(own.isOpen(HUB)).toBe(true);
    own.unpin(HUB);
    await own.release(new Set());
    expect(own.isOpen(HUB)).toBe(false);
  });

  it('has its downloaded files deleted if they are broken, but not files on a disk', async () => {
    const own = models();
    own.admit(HUB, recipe);
    own.admit('disk:1/name', { title: 'Name', source: 'disk', plan });
    befalls = () => {
      throw new SinkscopeError('bad_file', 'weights', 'expected a, found b');
    };
    await expect(own.get(HUB, watch)).rejects.toThrow(
      'expected a, found b; its downloaded files were removed',
    );
    expect(hub.cacheClear.mock.calls).toEqual([['owner/name']]);
    await expect(own.get('disk:1/name', watch)).rejects.toThrow(/found b$/);
    befalls = () => {
      throw new SinkscopeError('memory', 'engine', 'no memory is left');
    };
    await expect(own.get(HUB, watch)).rejects.toThrow(/is left$/);
    expect(hub.cacheClear).toHaveBeenCalledTimes(1);
  });

  it('is closed if its tokenizer is slow, and has twice the time at the next request', async () => {
    const own = models();
    own.admit(HUB, recipe);
    hub.planTokenizer.mockRejectedValueOnce(new SinkscopeError('too_slow', 'tokenizer', 'slow'));
    await expect(own.get(HUB, watch)).rejects.toThrow('slow');
    expect(openCalls[0]!.close).toHaveBeenCalledTimes(1);
    await own.get(HUB, watch);
    expect(hub.planTokenizer.mock.lastCall![2].limit).toBe(10_000);
  });

  it('opens even if the tokenizer has more tokens than the model', async () => {
    const own = models();
    own.admit(HUB, recipe);
    hub.planTokenizer.mockResolvedValueOnce({ size: 11, close: vi.fn() });
    expect((await own.get(HUB, watch)).tokenizer.size).toBe(11);
    expect(openCalls[0]!.close).not.toHaveBeenCalled();
  });

  it('is removed from the list before it is closed, so that no caller gets a closing model', async () => {
    const own = models();
    own.admit(HUB, recipe);
    const go: (() => void)[] = [];
    befalls = () => new Promise<void>((done) => void go.push(done));
    const first = own.get(HUB, watch);
    await vi.waitUntil(() => openCalls.length);
    const released = own.release(new Set());
    await turn();
    expect((openCalls[0]!.options.signal as AbortSignal).aborted).toBe(true);
    const second = own.get(HUB, watch);
    expect(second).not.toBe(first);
    await vi.waitUntil(() => go.length === 2);
    for (const one of go) one();
    await released;
    expect((await second).model).not.toBe((await first).model);
    expect(openCalls.map(({ close }) => close.mock.calls.length)).toEqual([1, 0]);
  });
});
