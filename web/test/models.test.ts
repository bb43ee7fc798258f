/** The open models of a visit, over a mocked engine that records the models to open. */
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { SinkscopeError, type Engine, type Plan, type Progress } from 'sinkscope';
import { zooAddress, type Card, type Zoo } from '../src/ask/zoo';
import { Models } from '../src/run/models';
import type { OpenModel, Watch } from '../src/run/opened';
import { Shelf } from '../src/run/shelf';
import { PATIENCE, turn } from './fixture';

const hub = vi.hoisted(() => ({
  openTokenizer: vi.fn(),
  planTokenizer: vi.fn(),
  modelFiles: (plan: object, options: object) => ({ plan, ...options }),
  cacheClear: vi.fn(),
  openTimeline: vi.fn(),
}));
vi.mock('sinkscope', async (load) => ({ ...(await load<object>()), ...hub }));
vi.mock('sinkscope/internal', async (load) => ({ ...(await load<object>()), ...hub }));
vi.mock('../../wasm/loading/plan', async (load) => ({ ...(await load<object>()), ...hub }));
vi.mock('../../wasm/text/plan_tokenizer', () => hub);

const card = (id: string, change: Partial<Card> = {}) =>
  ({
    ...{ id, title: `The ${id}`, parameters: 1000, sha256: `hash of ${id}`, tokenizer: 'softmax' },
    ...{ tokenizer_config: { of: id } },
    ...change,
  }) as Card;
const packed = { file: 'packed.gz', bytes: 400, config: {} };
const cards = [
  card('softmax', { packed, timeline: true }),
  card('relu', { tokenizer_config: { of: 'another' } }),
  card('own', { tokenizer: 'own' }),
];

let fetchedUrls: string[] = [];
let openCalls: {
  files: unknown;
  options: Record<string, unknown>;
  close: ReturnType<typeof vi.fn>;
}[];
let onOpen: (options: { signal?: AbortSignal }) => unknown = () => {};
const zoo = { cards, files: vi.fn(async (id: string) => `unpacked ${id}`), forget: vi.fn() };
const engine = {
  describe: { version: '1.0' },
  explain: vi.fn(async () => ({ version: '1.0', edits: [] })),
  open: vi.fn(async (files: unknown, options: Record<string, unknown>) => {
    const close = vi.fn(async () => {});
    openCalls.push({ files, options, close });
    await onOpen(options);
    return { architecture: { V: 10 }, close };
  }),
};
const createModels = () => new Models(engine as unknown as Engine, zoo as unknown as Zoo);
const progress: unknown[][] = [];
const watcher: Watch = {
  signal: new AbortController().signal,
  onProgress: (...report) => void progress.push(report),
};
const plan = { id: 'owner/name', bytes: 500, commit: 'abc', files: {} } as unknown as Plan;
const recipe = { title: 'Name', source: 'hub', plan, token: 'secret' } as const;
const HUB = 'hub:owner/name';

beforeEach(() => {
  [fetchedUrls, openCalls, onOpen, progress.length] = [[], [], () => {}, 0];
  vi.clearAllMocks();
  hub.openTokenizer.mockImplementation(async (json: string) => ({ size: 10, json }));
  hub.planTokenizer.mockImplementation(async () => ({ size: 10, close: vi.fn() }));
  hub.cacheClear.mockResolvedValue(undefined);
  vi.stubGlobal('fetch', async (url: URL, { cache }: { cache: string }) => {
    fetchedUrls.push(`${url.href.slice(zooAddress('').href.length)} ${cache}`);
    return new Response('text');
  });
});

describe('the explanations of tables', () => {
  it('are fetched once, and again after a failure', async () => {
    const models = createModels();
    engine.explain.mockRejectedValueOnce(new Error('offline'));
    expect(await models.explain()).toBe(engine.describe);
    const explanations = await Promise.all([models.explain(), models.explain()]);
    expect(explanations).toEqual([{ version: '1.0', edits: [] }, explanations[0]]);
    expect(await models.explain()).toBe(explanations[0]);
    expect(engine.explain).toHaveBeenCalledTimes(2);
  });
});

describe('a model of the zoo', () => {
  it('is opened once for all callers, and its tokenizer once for all models that share it', async () => {
    const models = createModels();
    const openings = [models.get('relu', watcher), models.get('relu', watcher)];
    expect(models.isOpen('relu')).toBe(false);
    const [firstModel, secondModel] = await Promise.all(openings);
    expect(firstModel).toBe(secondModel);
    expect(models.isOpen('relu')).toBe(true);
    expect(firstModel).toMatchObject({ id: 'relu', title: 'The relu', source: 'zoo' });
    expect(firstModel).toMatchObject({ sha256: 'hash of relu', tokenizer: { json: 'text' } });
    expect(firstModel!.bits).toBeUndefined();
    expect(openCalls[0]!.files).toEqual({
      config: zooAddress('relu/config.json'),
      weights: zooAddress('relu/model.safetensors'),
    });
    await models.get('softmax', watcher);
    expect([openCalls[1]!.files, progress.at(-1)]).toEqual([
      'unpacked softmax',
      ['Loading The softmax', 0, 0],
    ]);
    await models.get('own', watcher);
    expect(fetchedUrls).toEqual(['softmax/tokenizer.json default', 'own/tokenizer.json default']);
    expect(hub.openTokenizer.mock.calls[0]).toEqual(['text', '{"of":"another"}']);
    (openCalls[0]!.options.onProgress as (p: object) => void)({ done: 1, total: 4 });
    expect(progress.at(-1)).toEqual(['Loading The relu', 1, 4, { done: 1, total: 4 }]);
  });

  it.each([
    ['softmax', ['softmax/packed.gz', 'softmax/tokenizer.json']],
    ['own', ['own/config.json', 'own/model.safetensors', 'own/tokenizer.json']],
  ])(
    '%s is fetched past the cache and read again where its files are damaged',
    async (id, paths) => {
      for (const code of ['bad_file', 'read']) {
        fetchedUrls = [];
        let tries = 0;
        onOpen = () => {
          if (tries++ === 0) throw new SinkscopeError(code as 'read', 'weights', 'broken');
        };
        await expect(createModels().get(id, watcher)).resolves.toMatchObject({ id });
        expect(fetchedUrls.filter((url) => url.endsWith('reload'))).toEqual(
          paths.map((path) => `${path} reload`),
        );
        expect(zoo.forget).toHaveBeenLastCalledWith(id);
      }
    },
  );

  it('is tried again by the next request after a failure', async () => {
    const models = createModels();
    onOpen = () => {
      throw new SinkscopeError('memory', 'engine', 'no memory is left');
    };
    await expect(models.get('relu', watcher)).rejects.toThrow('no memory');
    expect(fetchedUrls.filter((url) => url.endsWith('reload'))).toEqual([]);
    onOpen = () => {};
    await expect(models.get('relu', watcher)).resolves.toMatchObject({ id: 'relu' });
    hub.openTokenizer.mockRejectedValueOnce(new Error('no tokenizer'));
    await expect(models.get('own', watcher)).rejects.toThrow('no tokenizer');
    expect(openCalls.at(-1)!.close).toHaveBeenCalledTimes(1);
    await expect(models.get('own', watcher)).resolves.toMatchObject({ id: 'own' });
  });

  it('is rejected with the list of known names if it does not exist', async () => {
    await expect(createModels().get('gelu', watcher)).rejects.toThrowErrorMatchingSnapshot();
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
    const models = createModels();
    const checkpoint = await models.get('softmax@12', watcher);
    expect(checkpoint).toMatchObject({
      id: 'softmax@12',
      title: 'The softmax at step 10 of 100',
      bits: 4,
      nearestStep: 10,
    });
    expect(checkpoint.step).toMatchObject({
      ...{ step: 10, of: 100 },
      weights: { measured: { sink_1: 10 } },
    });
    expect(openCalls[0]!.files).toBe('files at 10');
    const lastCheckpoint = await models.get('softmax@4000', watcher);
    expect(lastCheckpoint).toMatchObject({
      id: 'softmax@4000',
      title: 'The softmax',
      sha256: 'hash of softmax',
      nearestStep: 100,
    });
    expect([lastCheckpoint.step, openCalls[1]!.files]).toEqual([undefined, 'unpacked softmax']);
    await expect(models.get('relu@10', watcher)).rejects.toThrowErrorMatchingSnapshot();
    for (const id of ['softmax@10', 'softmax@100', 'softmax'])
      expect((await models.get(id, watcher)).nearestStep).toBeUndefined();
    await models.release(new Set(['softmax@12']));
    expect([openCalls[0]!, openCalls[1]!].map(({ close }) => close.mock.calls.length)).toEqual([
      0, 1,
    ]);
    expect(forget).not.toHaveBeenCalled();
    await models.release(new Set());
    expect(openCalls[0]!.close).toHaveBeenCalledTimes(1);
    expect(forget).toHaveBeenCalledTimes(1);
  });

  it('is closed if it was stopped while opening, and can be opened again at once', async () => {
    const models = createModels();
    let release = () => {};
    onOpen = () => new Promise<void>((resolve) => (release = resolve));
    const firstOpening = models.get('softmax@12', watcher);
    await vi.waitUntil(() => openCalls.length, PATIENCE);
    models.stop('softmax@12');
    const secondOpening = models.get('softmax@12', watcher);
    release();
    await expect(firstOpening).rejects.toMatchObject({ name: 'AbortError' });
    expect(openCalls[0]!.close).toHaveBeenCalledTimes(1);
    await vi.waitUntil(() => openCalls.length === 2, PATIENCE);
    release();
    await expect(secondOpening).resolves.toMatchObject({ id: 'softmax@12' });
    expect([models.isOpen('softmax@12'), openCalls[1]!.close.mock.calls.length]).toEqual([true, 0]);
  });
});

describe('a model of a hub or disk', () => {
  it('is known from its admission until the admission is withdrawn', async () => {
    const models = createModels();
    expect([models.canOpen(HUB), models.canOpen('relu'), models.canOpen('gelu')]).toEqual([
      false,
      true,
      false,
    ]);
    models.admit(HUB, recipe);
    expect([models.canOpen(HUB), models.bytesOf(HUB), models.bytesOf('relu')]).toEqual([
      true,
      500,
      undefined,
    ]);
    expect(models.choices.map(({ id, source }) => `${id} ${source}`)).toEqual([
      ...['softmax zoo', 'relu zoo', 'own zoo'],
      `${HUB} hub`,
    ]);
    models.forget(HUB);
    expect(models.canOpen(HUB)).toBe(false);
  });

  it('is read from the cache with its token, reports its progress, and is stopped by its id', async () => {
    const models = createModels();
    models.admit(HUB, recipe);
    let release = () => {};
    onOpen = () => new Promise<void>((resolve) => (release = resolve));
    const opening = models.get(HUB, watcher);
    await vi.waitUntil(() => openCalls.length, PATIENCE);
    const { files, options } = openCalls[0]!;
    expect(files).toEqual({ plan, token: 'secret', cache: true });
    (options.onProgress as (p: Partial<Progress>) => void)({ done: 2, total: 5 });
    expect(progress).toEqual([['Loading Name', 2, 5, { done: 2, total: 5 }]]);
    release();
    const model = await opening;
    expect(model).toMatchObject({ id: HUB, title: 'Name', source: 'hub', commit: 'abc' });
    expect(hub.planTokenizer.mock.calls[0]![2]).toMatchObject({ token: 'secret', limit: 5000 });
    models.admit('hub:owner/other', recipe);
    const otherOpening = models.get('hub:owner/other', watcher);
    await vi.waitUntil(() => openCalls.length === 2, PATIENCE);
    models.stop('hub:owner/other');
    expect((openCalls[1]!.options.signal as AbortSignal).aborted).toBe(true);
    release();
    await expect(otherOpening).rejects.toThrow('aborted');
    models.stop('nothing that was asked for');
  });

  it('is stopped while it opens, unless the dialog opens it', async () => {
    const models = createModels();
    models.admit(HUB, recipe);
    let release = () => {};
    onOpen = () => new Promise<void>((resolve) => (release = resolve));
    const opening = models.get(HUB, watcher);
    await vi.waitUntil(() => openCalls.length, PATIENCE);
    const signal = openCalls[0]!.options.signal as AbortSignal;
    models.pin(HUB);
    models.stopOpening(HUB);
    expect(signal.aborted).toBe(false);
    // A room that shows the model unpins it only once it is open.
    await models.release(new Set([HUB]));
    models.stopOpening(HUB);
    expect(signal.aborted).toBe(false);
    models.unpin(HUB);
    models.stopOpening(HUB);
    expect(signal.aborted).toBe(true);
    release();
    await expect(opening).rejects.toThrow('aborted');
    expect(openCalls[0]!.close).toHaveBeenCalledOnce();
    models.admit('hub:owner/other', recipe);
    const otherOpening = models.get('hub:owner/other', watcher);
    await vi.waitUntil(() => openCalls.length === 2, PATIENCE);
    release();
    await otherOpening;
    models.stopOpening('hub:owner/other');
    expect((openCalls[1]!.options.signal as AbortSignal).aborted).toBe(false);
  });

  it('is closed with its tokenizer when no view shows it, and can be opened again', async () => {
    const models = createModels();
    models.admit(HUB, recipe);
    const { tokenizer } = (await models.get(HUB, watcher)) as OpenModel & {
      tokenizer: { close: ReturnType<typeof vi.fn> };
    };
    await models.release(new Set([HUB]));
    expect(openCalls[0]!.close).not.toHaveBeenCalled();
    await models.release(new Set(['relu']));
    expect([openCalls[0]!.close, tokenizer.close].map(({ mock }) => mock.calls.length)).toEqual([
      1, 1,
    ]);
    expect([models.isOpen(HUB), models.canOpen(HUB)]).toEqual([false, true]);
    await models.get(HUB, watcher);
    expect(openCalls).toHaveLength(2);
  });

  it('is released together with recordings that no view shows', async () => {
    const models = createModels();
    const release = vi.spyOn(models.recordings, 'release');
    await models.release(new Set(['relu']));
    expect(release).toHaveBeenCalledExactlyOnceWith(new Set(['relu']));
  });

  it('that the reader only steps through is forgotten when no room shows it', async () => {
    const models = createModels();
    models.admit(HUB, { ...recipe, isTemporary: true });
    await models.get(HUB, watcher);
    await models.release(new Set([HUB]));
    expect(models.canOpen(HUB)).toBe(true);
    await models.release(new Set(['relu']));
    expect(models.canOpen(HUB)).toBe(false);
  });

  it('stays open while it is pinned, until it was shown once', async () => {
    const models = createModels();
    models.admit(HUB, recipe);
    await models.get(HUB, watcher);
    models.pin(HUB);
    await models.release(new Set());
    expect(models.isOpen(HUB)).toBe(true);
    await models.release(new Set([HUB]));
    await models.release(new Set());
    expect(models.isOpen(HUB)).toBe(false);
    await models.get(HUB, watcher);
    models.pin(HUB);
    models.unpin('relu');
    await models.release(new Set());
    expect(models.isOpen(HUB)).toBe(true);
    models.unpin(HUB);
    await models.release(new Set());
    expect(models.isOpen(HUB)).toBe(false);
  });

  it('has its downloaded files deleted if they are broken, but not files on a disk', async () => {
    const models = createModels();
    models.admit(HUB, recipe);
    models.admit('disk:1/name', { title: 'Name', source: 'disk', plan });
    onOpen = () => {
      throw new SinkscopeError('bad_file', 'weights', 'expected a, found b');
    };
    await expect(models.get(HUB, watcher)).rejects.toThrowErrorMatchingSnapshot();
    expect(hub.cacheClear.mock.calls).toEqual([['owner/name']]);
    await expect(models.get('disk:1/name', watcher)).rejects.toThrow(/found b$/);
    onOpen = () => {
      throw new SinkscopeError('memory', 'engine', 'no memory is left');
    };
    await expect(models.get(HUB, watcher)).rejects.toThrow(/is left$/);
    expect(hub.cacheClear).toHaveBeenCalledTimes(1);
  });

  it('is closed if its tokenizer is slow, and has twice the time at the next request', async () => {
    const models = createModels();
    models.admit(HUB, recipe);
    hub.planTokenizer.mockRejectedValueOnce(new SinkscopeError('too_slow', 'tokenizer', 'slow'));
    await expect(models.get(HUB, watcher)).rejects.toThrow('slow');
    expect(openCalls[0]!.close).toHaveBeenCalledTimes(1);
    await models.get(HUB, watcher);
    expect(hub.planTokenizer.mock.lastCall![2].limit).toBe(10_000);
  });

  it('opens even if the tokenizer has more tokens than the model', async () => {
    const models = createModels();
    models.admit(HUB, recipe);
    hub.planTokenizer.mockResolvedValueOnce({ size: 11, close: vi.fn() });
    expect((await models.get(HUB, watcher)).tokenizer.size).toBe(11);
    expect(openCalls[0]!.close).not.toHaveBeenCalled();
  });

  it('comes to no caller that has stopped, nor do its progress and its listeners', async () => {
    const shelf = new Shelf<string>(async () => {});
    const reports: string[] = [];
    const watch = (name: string, signal: AbortSignal): Watch => ({
      signal,
      onProgress: (what) => void reports.push(`${name} ${what}`),
    });
    let shared: Watch | undefined;
    let finish = (_: string) => {};
    const open = (opening: Watch) => {
      shared = opening;
      return new Promise<string>((done) => (finish = done));
    };
    const [first, second] = [new AbortController(), new AbortController()];
    const remove = vi.spyOn(second.signal, 'removeEventListener');
    const stopped = shelf.get('id', watch('first', first.signal), open);
    const waiting = shelf.get('id', watch('second', second.signal), open);
    first.abort();
    await expect(stopped).rejects.toThrow();
    const late = shelf.get('id', watch('third', AbortSignal.abort()), open);
    await expect(late).rejects.toThrow();
    shared!.onProgress('read', 1, 2);
    expect(reports).toEqual(['second read']);
    finish('item');
    expect(await waiting).toBe('item');
    await vi.waitFor(() => expect(remove).toHaveBeenCalledTimes(1));
  });

  it('stays on the shelf when an earlier opening fails, and waits for every earlier one to end', async () => {
    const shelf = new Shelf<string>(async () => {});
    const openings: { resolve: (item: string) => void; reject: (error: Error) => void }[] = [];
    const open = () =>
      new Promise<string>((resolve, reject) => void openings.push({ resolve, reject }));
    const get = (id: string) => {
      const item = shelf.get(id, watcher, open);
      item.catch(() => {});
      return item;
    };
    void get('a');
    shelf.stop('a');
    const second = get('a');
    openings[0]!.reject(new Error('stopped'));
    await vi.waitUntil(() => openings.length === 2, PATIENCE);
    openings[1]!.resolve('second');
    expect([await second, shelf.isOpen('a')]).toEqual(['second', true]);
    openings.length = 0;
    for (let i = 0; i < 2; i++) {
      void get('b');
      shelf.stop('b');
    }
    openings[0]!.resolve('first');
    await vi.waitUntil(() => openings.length === 2, PATIENCE);
    await turn();
    void get('b');
    await turn();
    expect(openings).toHaveLength(2);
    openings[1]!.resolve('second');
    await vi.waitUntil(() => openings.length === 3, PATIENCE);
  });

  it('is closed by the shelf if it was removed while it opened; no caller gets it, and the next opening waits', async () => {
    const models = createModels();
    models.admit(HUB, recipe);
    const releases: (() => void)[] = [];
    onOpen = () => new Promise<void>((resolve) => void releases.push(resolve));
    const firstOpening = models.get(HUB, watcher);
    await vi.waitUntil(() => openCalls.length, PATIENCE);
    const releasing = models.release(new Set());
    await turn();
    expect((openCalls[0]!.options.signal as AbortSignal).aborted).toBe(true);
    const secondOpening = models.get(HUB, watcher);
    await turn();
    expect(releases).toHaveLength(1);
    releases[0]!();
    await expect(firstOpening).rejects.toThrow('aborted');
    await releasing;
    await vi.waitUntil(() => releases.length === 2, PATIENCE);
    releases[1]!();
    await secondOpening;
    expect(openCalls.map(({ close }) => close.mock.calls.length)).toEqual([1, 0]);
  });
});
