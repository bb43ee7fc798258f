// @vitest-environment happy-dom
/** The dialog that opens a model, and its requests to hosts, the disk and the reader. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { SinkscopeError, type Plan } from 'sinkscope';
import { suggestions } from '../src/open/catalog';
import { createDialog } from '../src/open/dialog';
import { acceptDrops } from '../src/open/drop';
import { Opener } from '../src/open/opener';
import type { Watch } from '../src/run/opened';
import { PATIENCE, turn } from './fixture';
import { readOf } from './page';

const hub = vi.hoisted(() => ({
  resolveHub: vi.fn(),
  planFiles: vi.fn(),
  cacheList: vi.fn(),
  cacheBytes: vi.fn(),
  cacheClear: vi.fn(),
  filesOfDrop: vi.fn(),
}));
vi.mock('sinkscope', async (load) => ({ ...(await load<object>()), ...hub }));
vi.mock('sinkscope/internal', async (load) => ({ ...(await load<object>()), ...hub }));

const URL_ = 'https://hub.example/model.safetensors';
const plan = (change: Partial<Plan> = {}): Plan => ({
  id: 'owner/name',
  format: 'safetensors',
  files: {
    weights: [{ name: 'model.safetensors', bytes: 5e6, url: URL_ }],
    tokenizer: { name: 'tokenizer.json', bytes: 1, url: URL_ },
  },
  ...{ bytes: 5e6, memory: 7e6, choices: [], revision: 'main', commit: '0123456789abcdef' },
  ...change,
});
const filesOf = (bytes: string) => ({
  weights: [{ name: 'my.safetensors', bytes: bytes.length, blob: new Blob([bytes]) }],
});
const diskPlan = (bytes = 'abc') =>
  plan({ id: 'mine', files: filesOf(bytes) as never, commit: undefined, revision: undefined });

beforeEach(() => {
  localStorage.clear();
  for (const call of Object.values(hub)) call.mockReset();
  hub.resolveHub.mockResolvedValue(plan());
  hub.cacheList.mockResolvedValue([]);
  hub.cacheBytes.mockResolvedValue(0);
  hub.cacheClear.mockResolvedValue(undefined);
});
afterEach(() => document.body.replaceChildren());

function createOpener({ isRunning = true } = {}) {
  let knownIds: string[] = [];
  const models = {
    canOpen: (id: string) => knownIds.includes(id),
    ...{ admit: vi.fn(), pin: vi.fn(), unpin: vi.fn(), forget: vi.fn(), stop: vi.fn() },
    get: vi.fn<(id: string, watch: Watch) => Promise<unknown>>(async () => {}),
    recordings: {
      canOpen: (id: string) => knownIds.includes(id),
      ...{
        admit: vi.fn(),
        forget: vi.fn(),
        get: vi.fn(async () => {}) as ReturnType<typeof vi.fn>,
      },
      size: vi.fn(async () => 3e6) as ReturnType<typeof vi.fn>,
    },
  };
  const [opened, onFail] = [vi.fn(), vi.fn()];
  let draw = () => {};
  const opener = new Opener({
    models: () => (isRunning ? (models as never) : undefined),
    ...{ onOpened: opened, onFailed: onFail, onChanged: () => draw() },
  });
  ({ draw } = createDialog(opener));
  const dialog = document.querySelector<HTMLDialogElement>('#open')!;
  return {
    ...{ opener, models, opened, onFail, dialog, ...readOf(dialog) },
    know: (ids: string[]) => (knownIds = ids),
    press: async (name: string) => {
      readOf(dialog).button(name).click();
      await turn();
    },
  };
}

describe('a model of a hub', () => {
  it('is looked up by its name, and its cost is shown before it is loaded', async () => {
    const { opener, dialog, enter, all, text, texts, press, models, opened } = createOpener();
    expect(dialog.open).toBe(false);
    opener.show();
    expect([dialog.open, text('h2')]).toEqual([true, 'Open a model']);
    enter('#open-name', ' owner/name ', 'input');
    all('form')[0]!.dispatchEvent(new Event('submit', { cancelable: true }));
    expect(text('[role=status]')).toBe('Looking up owner/name …');
    await vi.waitFor(() => expect(hub.resolveHub).toHaveBeenCalled());
    expect(hub.resolveHub.mock.lastCall).toMatchObject([
      'owner/name',
      { endpoint: 'https://huggingface.co', token: undefined, cache: true },
    ]);
    await turn();
    expect(text('h3')).toBe('owner/name');
    const at = texts('dt').indexOf('to download');
    expect(texts('dd')[at]).toBe('5.0 MB');
    expect(opener.work).toBeUndefined();
    await press('Download and run');
    expect(models.admit.mock.lastCall).toMatchObject([
      'hub:owner/name',
      { title: 'owner/name', source: 'hub' },
    ]);
    expect(models.pin).toHaveBeenCalledWith('hub:owner/name');
    expect(opened).toHaveBeenCalledWith('hub:owner/name', 'alone');
    expect(dialog.open).toBe(false);
  });

  it('can be a suggested one, with a token and an endpoint', async () => {
    const { opener, all, texts, enter, press } = createOpener();
    opener.show();
    expect(texts('.open-list strong')).toEqual(suggestions.map(({ id }) => id));
    expect(texts('.open-list span')[0]).toMatchSnapshot();
    expect(
      texts('.open-list span').filter((item) => item!.includes('starts with')),
    ).toMatchSnapshot();
    enter('input[type=password]', 'hf_secret', 'input');
    enter('input[type=url]', ' https://mirror.example ');
    expect(localStorage.getItem('sinkscope.endpoint')).toBe('https://mirror.example');
    expect(Object.values({ ...localStorage }).join()).not.toContain('hf_secret');
    all('.open-list button')[0]!.click();
    await vi.waitFor(() => expect(hub.resolveHub).toHaveBeenCalled());
    await turn();
    expect(hub.resolveHub.mock.lastCall).toMatchObject([
      'EleutherAI/pythia-14m',
      { endpoint: 'https://mirror.example', token: 'hf_secret' },
    ]);
    await press('Back');
    expect(all<HTMLInputElement>('#open-name')[0]!.value).toBe('EleutherAI/pythia-14m');
    expect(createOpener().opener.fields).toMatchObject({
      endpoint: 'https://mirror.example',
      token: '',
    });
  });

  it('is no longer looked up after another lookup begins or the dialog closes', async () => {
    const { opener, models } = createOpener();
    opener.show();
    const isStopped = () => hub.resolveHub.mock.calls.map(([, { signal }]) => signal.aborted);
    hub.resolveHub.mockImplementation(() => new Promise(() => {}));
    void opener.lookUp('owner/name');
    void opener.lookUp('owner/other');
    await vi.waitFor(() => expect(isStopped()).toEqual([true, false]));
    opener.hide();
    expect(isStopped()).toEqual([true, true]);
    // A later lookup does not stop an open model.
    await opener.load(plan());
    void opener.lookUp('owner/other');
    expect(models.stop).not.toHaveBeenCalled();
  });

  it('is not looked up without a name', () => {
    const { opener, all } = createOpener();
    opener.show();
    all('form')[0]!.dispatchEvent(new Event('submit', { cancelable: true }));
    expect(hub.resolveHub).not.toHaveBeenCalled();
  });

  it('can be shown beside the current model', async () => {
    const { opener, all, press, opened } = createOpener();
    await opener.lookUp('owner/name');
    opener.show();
    const [alone, beside] = all<HTMLInputElement>('input[type=radio]');
    expect([alone!.checked, beside!.checked]).toEqual([true, false]);
    beside!.dispatchEvent(new Event('change'));
    await press('Download and run');
    expect(opened).toHaveBeenCalledWith('hub:owner/name', 'beside');
  });

  it('is loaded without a network if all of its files are stored', async () => {
    const cacheFiles = (bytes: number) =>
      hub.cacheList.mockResolvedValue([
        { url: URL_, bytes },
        { url: 'https://hub.example/other', bytes: 9e9 },
      ]);
    const { opener, texts } = createOpener();
    opener.show();
    const offer = async (bytes: number, of = plan()) => {
      cacheFiles(bytes);
      hub.resolveHub.mockResolvedValue(of);
      await opener.lookUp('owner/name');
      return texts('.links button')[0];
    };
    expect(await offer(5e6)).toBe('Load from this machine');
    expect(await offer(4_999_999)).toBe('Download and run');
    expect(await offer(0, plan({ bytes: 0 }))).toBe('Download and run');
  });

  it('shows why it cannot be opened, and offers no button to load it', async () => {
    const { opener, text, texts, enter } = createOpener();
    opener.show();
    const problemOf = async (change: Partial<Plan>) => {
      hub.resolveHub.mockResolvedValue(plan(change));
      await opener.lookUp('owner/name');
      return [text('.open-problem'), texts('.links button').join()];
    };
    expect(await problemOf({ refusal: 'has an unknown family' })).toMatchSnapshot();
    const { weights } = plan().files;
    expect((await problemOf({ files: { weights } }))[0]).toBe('');
    expect((await problemOf({ gated: true }))[0]).toMatch(/enter an access token\.$/);
    opener.goBack();
    enter('input[type=password]', 't', 'input');
    expect((await problemOf({ gated: true }))[0]).toBe('');
  });

  it('is a choice if the repository has several', async () => {
    const choices = [
      { file: 'a.gguf', bytes: 2e6, id: 'owner/name:a.gguf' },
      { file: 'b.gguf', bytes: 3e6, id: 'owner/name:b.gguf' },
    ];
    hub.resolveHub.mockResolvedValueOnce(plan({ choices } as never));
    const { opener, text, texts, press } = createOpener();
    opener.show();
    await opener.lookUp('owner/name');
    expect(text('.open-body p')).toMatchSnapshot();
    expect(texts('.open-list button')).toEqual(['a.gguf2.0 MB', 'b.gguf3.0 MB']);
    await press('b.gguf');
    expect(hub.resolveHub.mock.lastCall![0]).toBe('owner/name:b.gguf');
    expect(text('h3')).toBe('owner/name');
  });

  it('shows its progress, and stops if the reader cancels', async () => {
    const { opener, models, all, text, press, opened } = createOpener();
    opener.show();
    let report: (stage: string, done: number, total?: number) => void = () => {};
    let isOver: () => void = () => {};
    models.get.mockImplementation((_, { signal, onProgress }) => {
      report = (stage, done, total = 4e6) => onProgress('', done, total, { stage } as never);
      return new Promise((done, fail) => {
        isOver = () => done(undefined);
        signal.addEventListener('abort', () => fail(new Error('stopped')));
      });
    });
    void opener.load(plan());
    await turn();
    const share = () => (all<HTMLProgressElement>('progress')[0] as { value: number }).value;
    expect(share()).toBe(0);
    report('read', 1e6);
    expect([share(), text('.open-loaded'), opener.work]).toMatchSnapshot();
    report('read', 9e6);
    expect(share()).toBe(1);
    report('read', 0, 0);
    expect(share()).toBe(0);
    report('read', 4e6);
    report('open', 0, 1);
    const isBarFull = () => all<HTMLProgressElement>('progress')[0]!.hasAttribute('max');
    expect([isBarFull(), text('.open-loaded'), opener.work]).toMatchSnapshot();
    report('tokenizer', 0, NaN);
    expect([isBarFull(), text('.open-loaded')]).toEqual([false, 'building the tokenizer']);
    report('tokenizer', 36_863, 48_900);
    expect(opener.work).toBe('Loading: building the tokenizer, 75%');
    await press('Cancel');
    expect(models.stop).toHaveBeenCalledWith('hub:owner/name');
    expect(models.unpin).toHaveBeenCalledWith('hub:owner/name');
    expect(models.forget).toHaveBeenCalledWith('hub:owner/name');
    expect([opened.mock.calls, text('.open-error'), all('#open-name').length]).toEqual([[], '', 1]);
    // The last progress report may arrive after the end.
    void opener.load(plan());
    await turn();
    isOver();
    await turn();
    report('read', 1);
    expect([opener.stage.name, opened.mock.calls.length]).toEqual(['choose', 1]);
  });

  it.each([
    ['names neither a rate nor a download of files on disk', diskPlan],
    ['says how fast a download is, and that its bytes are kept', plan],
  ])('%s', async (_, of) => {
    const { opener, models, text, texts } = createOpener();
    opener.show();
    models.get.mockImplementation((_id, { onProgress }) => {
      onProgress('', 1e6, 4e6, { stage: 'read', rate: 454e6, remaining: 2 } as never);
      return new Promise(() => {});
    });
    void opener.load(of());
    await vi.waitFor(() => expect(text('.open-loaded')).toMatch(/^1\.0 MB of/), PATIENCE);
    expect([text('.open-loaded'), texts('.hint').join(' '), opener.work]).toMatchSnapshot();
  });

  it('shows why a download failed, and can resume it', async () => {
    const { opener, models, text, texts, all, onFail, press } = createOpener();
    opener.show();
    hub.resolveHub.mockRejectedValueOnce(
      new SinkscopeError('not_found', 'x/y', 'expected a model, found none'),
    );
    await opener.lookUp('x/y');
    expect(text('.open-error')).toMatchSnapshot();
    expect(all('.open-error')[0]!.hidden).toBe(false);
    await opener.lookUp('owner/name');
    expect(all('.open-error')[0]!.hidden).toBe(true);
    models.get.mockRejectedValueOnce(new Error('cut'));
    await press('Download and run');
    expect([text('.open-error'), texts('.links button')[0]]).toEqual(['cut', 'Download and run']);
    models.get.mockRejectedValueOnce(new SinkscopeError('too_slow', 'x', 'expected an end'));
    await press('Download and run');
    expect(texts('.links button')[0]).toBe('Wait longer');
    // Without a commit, a second download may get other files.
    models.get.mockRejectedValueOnce(new Error('cut'));
    await opener.load(plan({ commit: undefined }));
    expect(opener.stage.name).toBe('choose');
    expect(onFail).not.toHaveBeenCalled();
    opener.hide();
    models.get.mockRejectedValueOnce(new Error('cut again'));
    await opener.load(plan({ commit: undefined }));
    expect(onFail).toHaveBeenCalledWith('cut again');
    models.get.mockRejectedValueOnce(new SinkscopeError('too_slow', 'x', 'y'));
    await opener.load(plan());
    expect(opener.isShown).toBe(true);
    const earlyOpener = createOpener({ isRunning: false });
    await earlyOpener.opener.load(plan());
    expect(earlyOpener.onFail.mock.lastCall).toMatchSnapshot();
    await earlyOpener.opener.loadRecording('recording:https://a.example/x.safetensors');
    expect(earlyOpener.onFail).toHaveBeenCalledTimes(2);
  });

  it('says nothing of a download that failed once the reader has gone on', async () => {
    const { opener, models, onFail, text } = createOpener();
    opener.show();
    await opener.lookUp('owner/name');
    models.get.mockRejectedValueOnce(new Error('cut'));
    const cacheLists: ((files: []) => void)[] = [];
    hub.cacheList.mockImplementation(
      () => new Promise<[]>((resolve) => void cacheLists.push(resolve)),
    );
    const load = opener.load(plan());
    await vi.waitFor(() => expect(cacheLists).toHaveLength(1));
    opener.goBack();
    cacheLists[0]!([]);
    await load;
    expect([opener.stage.name, opener.error, text('.open-error')]).toEqual(['choose', '', '']);
    expect(onFail).not.toHaveBeenCalled();
  });

  it('says why and when a host is tried again', async () => {
    const { opener, text } = createOpener();
    opener.show();
    hub.resolveHub.mockImplementationOnce((_: string, { onRetry }) => {
      onRetry({ reason: 'no answer; again in 2 s' });
      return new Promise(() => {});
    });
    void opener.lookUp('owner/name');
    await vi.waitFor(() => expect(hub.resolveHub).toHaveBeenCalled());
    expect([text('[role=status]'), opener.work]).toMatchSnapshot();
  });
});

describe('files of the reader', () => {
  const droppedFiles = (name = 'a.gguf', bytes = 'abc') => [
    { path: name, file: new File([bytes], name) },
  ];

  it('open at once if they are one model, and are offered as a choice otherwise', async () => {
    const { opener, models, opened, press, text, texts } = createOpener();
    hub.planFiles.mockResolvedValueOnce([diskPlan()]);
    await opener.openFiles(droppedFiles());
    const [id] = opened.mock.lastCall!;
    expect(id).toMatch(/^disk:[0-9a-f]+\/mine$/);
    expect(models.admit.mock.lastCall).toMatchObject([id, { title: 'mine', source: 'disk' }]);
    expect('token' in models.admit.mock.lastCall![1]).toBe(false);
    hub.planFiles.mockResolvedValueOnce([diskPlan('one'), { ...diskPlan('second'), id: 'other' }]);
    await opener.openFiles(droppedFiles());
    expect(text('.open-body p')).toMatchSnapshot();
    expect(texts('.open-list strong')).toEqual(['mine', 'other']);
    await press('other');
    await vi.waitUntil(() => opened.mock.calls.length === 2, PATIENCE);
    expect(opened.mock.lastCall![0]).toMatch(/^disk:[0-9a-f]+\/other$/);
  });

  it('are rejected if they are empty or no model', async () => {
    const { opener, onFail } = createOpener();
    await opener.openFiles([...droppedFiles(), ...droppedFiles('b.gguf', '')]);
    expect(onFail.mock.lastCall).toMatchSnapshot();
    hub.planFiles.mockRejectedValueOnce(new Error('no model'));
    await opener.openFiles(droppedFiles());
    expect(onFail).toHaveBeenLastCalledWith('no model');
  });

  it('are chosen or dropped, and a drop does not leave the page', async () => {
    const { opener } = createOpener();
    const openFiles = vi.spyOn(opener, 'openFiles').mockResolvedValue();
    acceptDrops(opener);
    const items = (kinds: readonly string[]) =>
      kinds.map((kind) => ({ kind, getAsFile: () => new File(['abc'], `${kind}.gguf`) }));
    const drop = (kinds: string[], name = 'drop') => {
      const event = new Event(name, { cancelable: true, bubbles: true });
      const transfer = { items: items(kinds) };
      Object.assign(event, { dataTransfer: transfer });
      document.dispatchEvent(event);
      // A browser clears the items after the event.
      transfer.items = [];
      return event.defaultPrevented;
    };
    expect([drop([], 'dragover'), drop(['string']), openFiles.mock.calls.length]).toEqual([
      true,
      true,
      0,
    ]);
    hub.filesOfDrop.mockImplementation(async ({ items: dropped }) =>
      dropped.map((item: { webkitGetAsEntry(): File }) => item.webkitGetAsEntry().name),
    );
    expect([drop(['string', 'file']), openFiles.mock.calls.length]).toEqual([true, 1]);
    expect(await openFiles.mock.lastCall![0]).toEqual(['file.gguf']);
  });
});

describe('the model of a link', () => {
  const { signal } = new AbortController();

  it('is fetched only after the reader agrees; a refusal is remembered', async () => {
    const { opener, dialog, text, press, know, opened } = createOpener();
    const admit = (id: string) => opener.admit(id, signal);
    know(['hub:known/x']);
    expect([await admit('softmax'), await admit('hub:known/x')]).toEqual([true, true]);
    expect([dialog.open, await admit('hub:owner/name'), dialog.open]).toEqual([false, false, true]);
    expect(hub.resolveHub).not.toHaveBeenCalled();
    expect(text('.open-body p')).toMatchSnapshot();
    await press('Not now');
    expect([dialog.open, await admit('hub:owner/name'), dialog.open]).toEqual([
      false,
      false,
      false,
    ]);
    opener.openDialog('owner/name');
    await turn();
    await press('Download and run');
    expect(opened).toHaveBeenCalledWith('hub:owner/name', 'alone');
    expect([await admit('hub:owner/name'), dialog.open]).toEqual([false, true]);
  });

  it('is asked about after the previous link model, one at a time', async () => {
    const { opener, text, press, opened, dialog } = createOpener();
    await opener.admit('hub:owner/name', signal);
    await opener.admit('hub:owner/name', signal);
    expect(text('strong')).toBe('owner/name');
    await press('Look it up');
    await opener.admit('hub:second/x', signal);
    await press('Download and run');
    expect(opened).toHaveBeenCalledWith('hub:owner/name', 'asked');
    expect([dialog.open, text('strong')]).toEqual([true, 'second/x']);
    dialog.close();
    expect(opener.isShown).toBe(false);
  });

  it('replaces a choice that the reader has not made yet', async () => {
    const { opener, text } = createOpener();
    opener.show();
    expect(opener.stage.name).toBe('choose');
    await opener.admit('hub:owner/name', signal);
    expect([opener.stage.name, text('strong')]).toEqual(['ask', 'owner/name']);
  });

  it('opens without asking if it is stored completely, or if the reader steps through its checkpoints', async () => {
    const { opener, models } = createOpener();
    const cacheList = (complete: boolean, bytes = 5e6) =>
      hub.cacheList.mockResolvedValue([{ id: 'owner/name', complete, url: URL_, bytes }]);
    cacheList(false);
    expect(await opener.admit('hub:owner/name', signal)).toBe(false);
    opener.goBack();
    cacheList(true, 4e6);
    expect(await opener.admit('hub:owner/name', signal)).toBe(false);
    cacheList(true);
    for (const change of [{ bytes: 0 }, { refusal: 'no' }, { choices: [{}] }]) {
      hub.resolveHub.mockResolvedValueOnce(plan(change as never));
      expect(await opener.admit('hub:owner/name', signal), JSON.stringify(change)).toBe(false);
    }
    expect(await opener.admit('hub:owner/name', signal)).toBe(true);
    expect(models.admit.mock.lastCall![1]).toMatchObject({ isTemporary: false });
    hub.cacheList.mockResolvedValue([]);
    opener.trust('owner/name');
    expect(await opener.admit('hub:owner/name@step1', signal)).toBe(true);
    expect(models.admit.mock.lastCall).toMatchObject([
      'hub:owner/name@step1',
      { isTemporary: true },
    ]);
  });

  it('on a disk must be the files that the link identifies', async () => {
    const { opener, text, dialog, opened } = createOpener();
    const wantedId = 'disk:0123456789abcdef/my model';
    expect(await opener.admit(wantedId, signal)).toBe(false);
    expect(text('.open-body p')).toMatch(
      /^This page shows my model, .* \(0123456789abcdef\)\. Choose the same files/,
    );
    hub.planFiles.mockResolvedValue([diskPlan()]);
    const files = [{ path: 'a', file: new File(['abc'], 'a') }];
    await opener.openFiles(files);
    expect(text('.open-error')).toMatch(
      /^mine: expected the files that the link names, fingerprint 0123456789abcdef, found [0-9a-f]{16}\./,
    );
    const [, foundFingerprint] = /found ([0-9a-f]+)/.exec(text('.open-error')!)!;
    dialog.close();
    expect(await opener.admit(`disk:${foundFingerprint}/mine`, signal)).toBe(false);
    await opener.openFiles(files);
    expect(opened).toHaveBeenCalledWith(`disk:${foundFingerprint}/mine`, 'asked');
    expect(dialog.open).toBe(false);
    // When a button in the room calls openDialog, the dialog asks for the model again.
    opener.openDialog(wantedId);
    expect([dialog.open, text('strong')]).toEqual([true, 'my model']);
    opener.openDialog(`disk:${foundFingerprint}/mine`);
    opener.openDialog(`disk:${foundFingerprint}/mine`);
    expect(text('strong')).toBe('mine');
    await opener.openFiles(files);
    expect([dialog.open, text('strong')]).toEqual([true, 'my model']);
  });

  it('may be a recording of another site, whose size is shown first', async () => {
    const { opener, models, text, texts, press, opened, know } = createOpener();
    const id = 'recording:https://a.example/run.safetensors';
    expect(await opener.admit(id, signal)).toBe(false);
    expect(text('.open-body p')).toMatch(
      /^This link shows a recording, run, from a\.example\. This page contacts a\.example only if/,
    );
    await press('Look it up');
    expect(texts('dd')).toEqual(['a.example', '3.0 MB']);
    models.recordings.get.mockRejectedValueOnce(new Error('broken'));
    await press('Load the recording');
    expect([text('.open-error'), models.recordings.forget.mock.calls]).toEqual(['broken', [[id]]]);
    await press('Look it up');
    await press('Load the recording');
    expect(opened).toHaveBeenCalledWith(id, 'asked');
    know([id]);
    expect(await opener.admit(id, signal)).toBe(true);
    models.recordings.size.mockResolvedValueOnce(undefined);
    opener.openDialog();
    await opener.lookUp('https://a.example/run.safetensors');
    expect(texts('dd')[1]).toBe('size unknown');
    expect(hub.resolveHub).not.toHaveBeenCalled();
  });
});

it('can be removed from the cache, whose size is shown', async () => {
  const { opener, text, press, all } = createOpener();
  opener.show();
  await turn();
  expect(all('.open-kept')).toEqual([]);
  hub.cacheBytes.mockResolvedValueOnce(2.5e9);
  opener.show();
  await turn();
  expect(text('.open-kept span')).toBe('Cached models: 2.50 GB');
  await press('Clear');
  expect([hub.cacheClear.mock.calls.length, all('.open-kept')]).toEqual([1, []]);
});
