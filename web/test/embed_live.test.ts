// @vitest-environment happy-dom
/**
 * The content of <sink-scope>: its state, its reports to its host, and the models that the figures of a document share.
 */
import { signal } from '@preact/signals-core';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createEngine } from 'sinkscope';
import { base } from '../src/base';
import { defaults, parseHash, type State } from '../src/ask/state';
import { idOfAddress } from '../src/ask/recordings';
import { borrowModels, Live, returnModels } from '../src/embed/live';
import type { Frame } from '../src/frame';
import type { Context, Scope } from '../src/page/context';
import { trustOwnScripts } from '../src/page/trust';
import { viewNamed } from '../src/views/index';
import { frameOf as frameOf_, tensor, turn } from './fixture';

interface QueueOptions {
  readonly models: { canOpen: () => string };
  readonly release: (shown: ReadonlySet<string>) => Promise<void>;
  readonly admit: (id: string) => Promise<boolean>;
}
const fakes = vi.hoisted(() => ({
  queues: [] as { entries: { value: Map<string, object> }; stop: () => void; given: unknown }[],
  rooms: [] as { root: Element; context: unknown; scope: unknown }[],
  released: [] as string[][],
  admitted: [] as string[],
  describe: { version: '1.2.3', fields: [] as object[], edits: [] },
}));
vi.mock('sinkscope', async (load) => ({ ...(await load<object>()), createEngine: vi.fn() }));
vi.mock('../src/ask/zoo', async (load) => ({
  ...(await load<object>()),
  openZoo: async () => ({ cards: [] }),
}));
vi.mock('../src/run/models', () => ({
  Models: class {
    describe = fakes.describe;
    recordings = { admit: (id: string) => void fakes.admitted.push(id) };
    name = 'one for all';
    canOpen() {
      return this.name;
    }
    release(shown: ReadonlySet<string>) {
      fakes.released.push([...shown].sort());
    }
  },
}));
vi.mock('../src/run/queue', () => ({
  Queue: class {
    entries = signal(new Map<string, object>());
    stop = vi.fn();
    constructor(readonly given: unknown) {
      fakes.queues.push(this);
    }
  },
}));
vi.mock('../src/page/trust', () => ({ trustOwnScripts: vi.fn() }));
vi.mock('../src/rooms/figure', () => ({
  build: (root: Element, context: unknown, scope: unknown) =>
    void fakes.rooms.push({ root, context, scope }),
}));

const frameOf = (change: Partial<Frame> = {}) => {
  const missing = viewNamed('sinks').reads.map((name) => [name, tensor([1], [0])]);
  return frameOf_(change, { ...Object.fromEntries(missing), ...frameOf_().tensors });
};

/** The fitters that were created: the room that each fits, and how often it has ended. */
const fits = vi.hoisted(
  () => [] as { roomOf: () => Element | null; paused: number; ended: number }[],
);
vi.mock('../src/embed/fit', () => ({
  createFitter: (roomOf: () => Element | null) => {
    const fit = { roomOf, paused: 0, ended: 0 };
    fits.push(fit);
    return { look: () => {}, pause: () => void fit.paused++, end: () => void fit.ended++ };
  },
}));

const holder = vi.hoisted(() => ({ theme: 'light', look: () => {}, isWatched: false }));
vi.mock('../src/embed/theme', async (load) => ({
  ...(await load<object>()),
  themeOf: () => holder.theme,
  watchTheme: (_: Element, look: () => void) => {
    Object.assign(holder, { look, isWatched: true });
    return () => void (holder.isWatched = false);
  },
}));

beforeEach(() => {
  document.body.replaceChildren();
  for (const list of [fakes.queues, fakes.rooms, fakes.released, fakes.admitted]) list.length = 0;
  fakes.describe.fields = [];
  holder.theme = 'light';
  vi.mocked(createEngine)
    .mockReset()
    .mockResolvedValue({} as never);
  vi.stubGlobal('open', vi.fn());
});
const lives: Live[] = [];
afterEach(() => {
  for (const live of lives.splice(0)) live.end();
});

function createLive(hash = '', attributes: Record<string, string> = {}) {
  const host = document.createElement('p');
  for (const [name, value] of Object.entries(attributes)) host.setAttribute(name, value);
  document.body.append(host);
  const inside = host.attachShadow({ mode: 'open' });
  const reports: [string, object][] = [];
  const internals = { ariaLabel: '' };
  Object.assign(host, {
    internals,
    report: (name: string, detail: object) => void reports.push([name, detail]),
  });
  const live = new Live(host as never, inside, parseHash(hash));
  lives.push(live);
  const room = () => fakes.rooms.at(-1)!;
  return {
    ...{ host, inside, live, reports, internals, room },
    root: inside.querySelector('.room-figure')!,
    context: () => room().context as Context,
    know: (entries: Record<string, { frame?: Frame; isStale?: boolean; error?: string }>) => {
      fakes.queues.at(-1)!.entries.value = new Map(Object.entries(entries));
    },
    problems: () => [...inside.querySelectorAll('.room-problems > *')].map((p) => p.textContent),
    runs: () => reports.filter(([name]) => name === 'run').map(([, detail]) => detail),
    errors: () => reports.filter(([name]) => name === 'error').map(([, detail]) => detail),
  };
}
async function start(hash = 'view=sinks&shown=softmax', attributes = {}) {
  const element = createLive(hash, attributes);
  await turn();
  return { ...element, given: fakes.queues.at(-1)?.given as QueueOptions };
}

describe('the engine shared by the figures of a document', () => {
  it('is reported in the figure if it cannot be loaded; the next figure tries again', async () => {
    vi.mocked(createEngine).mockRejectedValue(new Error('no engine'));
    vi.stubGlobal('location', new URL('https://host.example/'));
    const { errors, root, problems } = await start();
    // The element does not change the policy of a host's page.
    expect(trustOwnScripts).not.toHaveBeenCalled();
    vi.stubGlobal('location', base);
    expect(errors()).toEqual([{ message: 'no engine' }]);
    // Not in the room, which the host's picture covers until the figure is drawn.
    expect([root.textContent, problems()]).toEqual(['', ['no engine']]);
    vi.mocked(createEngine)
      .mockReset()
      .mockResolvedValue({} as never);
    const { context, root: other } = await start();
    expect([other.textContent, fakes.queues.length]).toEqual(['', 1]);
    expect(vi.mocked(createEngine).mock.calls[0]![0]).toMatchObject({ lab: false });
    expect(trustOwnScripts).toHaveBeenCalledTimes(1);
    vi.unstubAllGlobals();
    expect(context().engine.value!.models.describe.version).toBe('1.2.3');
    await start();
    expect(createEngine).toHaveBeenCalledTimes(1);
  });

  it('keeps a model open while a figure shows it', async () => {
    const [oneFigure, otherFigure] = [await start(), await start()];
    expect(oneFigure.given.models.canOpen()).toBe('one for all');
    await oneFigure.given.release(new Set(['softmax', 'relu']));
    await otherFigure.given.release(new Set(['sigmoid']));
    const borrower = {};
    expect(await borrowModels(borrower, ['gelu'])).toBe(oneFigure.given.models);
    await oneFigure.given.release(new Set(['softmax']));
    expect(fakes.released).toMatchSnapshot();
    otherFigure.live.end();
    returnModels(borrower);
    await oneFigure.given.release(new Set());
    expect(fakes.released.at(-1)).toEqual([]);
  });

  it('fetches only recordings of this site and those that the host names', async () => {
    const hostRecording = idOfAddress(new URL('a.safetensors', document.baseURI));
    const { given } = await start('', { recording: 'a.safetensors' });
    const siteRecording = idOfAddress(new URL('b.safetensors', base));
    const otherRecording = idOfAddress('https://other.example/c.safetensors');
    const ids = [hostRecording, siteRecording, otherRecording, 'hub:owner/name'];
    expect(await Promise.all(ids.map((id) => given.admit(id)))).toEqual([
      ...[true, true],
      ...[false, false],
    ]);
    expect(fakes.admitted).toEqual([hostRecording, siteRecording]);
  });
});

describe('a figure in its element', () => {
  it('is built in the shadow root with the style of the page, once for each view', async () => {
    const { root, inside, live, room, context } = await start();
    expect([room().root, inside.lastElementChild]).toEqual([root, root]);
    expect(inside.adoptedStyleSheets).toHaveLength(1);
    const ended = vi.fn();
    (room().scope as Scope).onEnd(ended);
    root.append('drawn');
    live.follow({ state: { ...context().state.value, eps: 0.5 }, problems: [] });
    await turn();
    expect([fakes.rooms.length, context().state.value.eps, ended.mock.calls.length]).toEqual([
      ...[1, 0.5],
      0,
    ]);
    live.follow({ state: { ...context().state.value, view: 'norms' }, problems: [] });
    await turn();
    expect([fakes.rooms.length, root.textContent, ended.mock.calls.length]).toEqual([2, '', 1]);
    expect((await start()).inside.adoptedStyleSheets[0]).toBe(inside.adoptedStyleSheets[0]);
  });

  it('shows and reports invalid attributes, each once, initially and after changes', async () => {
    const { errors, problems, live, context } = await start('view=sinks&eps=many');
    expect(errors()).toHaveLength(1);
    expect(problems()).toEqual([expect.stringMatching(/eps.*many/)]);
    const wrong = { state: context().state.value, problems: ['T: expected a number'] };
    live.follow(wrong);
    live.follow(wrong);
    expect(errors().slice(1)).toEqual([{ message: 'T: expected a number' }]);
    expect(problems()).toEqual(['T: expected a number']);
    context().fail(new Error('broken'));
    expect(errors().at(-1)).toEqual({ message: 'broken' });
    expect(problems()).toEqual(['T: expected a number', 'broken']);
    // A failure is shown until the next action, a problem of an attribute until the attribute changes.
    context().set({ eps: 0.4 });
    expect(problems()).toEqual(['T: expected a number']);
    live.follow({ state: context().state.value, problems: [] });
    expect(problems()).toEqual([]);
  });

  it('shows and reports names that no table has', async () => {
    const { errors, problems, live, context } = await start('view=hedas&policy=nose&measure=kl');
    expect(problems()).toMatchSnapshot();
    expect(errors()).toEqual(problems().map((message) => ({ message })));
    live.follow({ state: { ...context().state.value, view: 'lab', policy: 'h2o' }, problems: [] });
    expect(problems()).toEqual([]);
  });

  it('writes the reader’s changes into its attributes, and reports selections', async () => {
    const { context, host, reports } = await start('view=sinks&layer=1');
    const { set } = context();
    set({ layer: 1 });
    expect([reports, host.hasAttribute('layer')]).toEqual([[], false]);
    set({ eps: 0.5 });
    expect([reports, host.getAttribute('eps')]).toEqual([[], '0.5']);
    set({ head: 2, key: 3 });
    const { query, channel } = context().state.value;
    expect(reports).toEqual([['select', { layer: 1, head: 2, query, key: 3, channel }]]);
    expect([host.getAttribute('head'), host.getAttribute('key')]).toEqual(['2', '3']);
    context().point({ key: 1 } as never);
    expect(context().pointed.value).toEqual({ key: 1 });
  });

  it('links to the page for features that it lacks', async () => {
    const { context } = await start('view=sinks&prompt=Hello&eps=0.4');
    const { open, pickModels, embed, chooseFile, openFiles, trust, notify, link, facts } =
      context();
    open();
    pickModels();
    const [first, second] = vi.mocked(window.open).mock.calls;
    expect(first).toEqual(second);
    const [address, ...features] = first as unknown as [string, ...string[]];
    expect(features).toEqual(['_blank', 'noopener']);
    expect(address.startsWith(base.href)).toBe(true);
    const linkedState = parseHash(new URL(address).hash.slice(1)).state;
    expect([linkedState.room, linkedState.prompt, linkedState.eps]).toMatchSnapshot();
    expect(facts()).toEqual({
      corpus: { kind: defaults.input, text: 'Hello' },
      version: '1.2.3',
      link: link({ room: 'explore' }),
    });
    // On another site the context's page functions do nothing.
    for (const other of [embed, chooseFile, openFiles, trust, notify] as (() => unknown)[])
      expect(other()).toBeUndefined();
  });

  it('reports a complete answer once', async () => {
    const view = viewNamed('sinks');
    const { know, runs, errors, host, internals } = await start('view=sinks&shown=softmax,relu');
    const frame = frameOf();
    const relu = frameOf({ subject: 'relu', title: 'ReLU model' });
    know({ softmax: { frame } });
    know({ softmax: { frame }, relu: { frame: relu, isStale: true } });
    expect([runs(), host.hasAttribute('data-live')]).toEqual([[], false]);
    know({ softmax: { frame }, relu: { frame: relu } });
    const at = { layer: 1, head: 0 };
    expect(runs()).toEqual([
      {
        view: 'sinks',
        results: [frame, relu].map((one) => ({
          ...{ subject: one.subject, title: one.title, T: 3, eps: 0.3, sequences: 1 },
          tokens: ['<s>', ' a', '=1,"x"\n'],
          says: view.says(one, at),
          numbers: view.numbers(one, at),
        })),
      },
    ]);
    expect(internals.ariaLabel).toBe(
      `${view.title}. ${view.says(frame, at)}. ${view.says(relu, at)}`,
    );
    expect(host.hasAttribute('data-live')).toBe(true);
    know({ softmax: { frame }, relu: { frame: relu } });
    expect(runs()).toHaveLength(1);
    const other = frameOf({ title: 'Another' });
    know({ softmax: { frame: other }, relu: { error: 'no such model' } });
    know({ softmax: { error: 'no such model' }, relu: { error: 'no such model' } });
    expect(errors()).toEqual([{ message: 'no such model' }]);
    expect((runs()[1] as { results: object[] }).results).toHaveLength(1);
    know({ softmax: { error: 'it ended' }, relu: { error: 'it ended' } });
    expect(errors().slice(1)).toEqual([{ message: 'it ended' }]);
  });

  it('reports what the model lacks once, also if a later answer lacks it, too', async () => {
    const { know, errors } = await start('view=sinks&shown=softmax&layer=7&head=0');
    const frame = frameOf();
    const message = expect.stringContaining('no head L7H0');
    know({ softmax: { frame } });
    know({ softmax: { frame, isStale: true } });
    know({ softmax: { frame: frameOf({ T: 2 }) } });
    expect(errors()).toEqual([{ message }]);
    // A head that a model between the two had is reported again.
    const { architecture } = frame;
    know({ softmax: { frame: frameOf({ architecture: { ...architecture, L: 8 } }) } });
    know({ softmax: { frame } });
    expect(errors()).toEqual([{ message }, { message }]);
  });

  it('reports only after the numbers of its view have arrived', async () => {
    const { know, runs } = await start('view=sinks&shown=softmax');
    const { alpha: _, ...tensors } = frameOf().tensors;
    know({ softmax: { frame: { ...frameOf(), tensors } as Frame } });
    expect(runs()).toEqual([]);
    know({ softmax: { frame: frameOf() } });
    expect(runs()).toHaveLength(1);
  });

  it('reports when the lab or an experiment waits, is built and ends', async () => {
    const { host, root, runs, internals, know } = await start('view=lab');
    know({ softmax: { frame: frameOf() } });
    expect([runs(), host.hasAttribute('data-live')]).toEqual([[], false]);
    const dispatch = (name: string, detail?: unknown) =>
      root.dispatchEvent(new CustomEvent(name, { detail }));
    dispatch('waits', true);
    expect(host.hasAttribute('data-waits')).toBe(true);
    dispatch('waits', false);
    expect(host.hasAttribute('data-waits')).toBe(false);
    dispatch('built');
    expect(host.hasAttribute('data-live')).toBe(true);
    dispatch('ended', { view: 'lab', says: 'Both have a sink.' });
    expect(internals.ariaLabel).toMatch(/\. Both have a sink\.$/);
    expect(runs()).toEqual([{ view: 'lab', says: 'Both have a sink.' }]);
  });

  it('fits into an element that does not grow with its content, and leaves other elements alone', async () => {
    let resize = () => {};
    class Sizes {
      constructor(look: () => void) {
        resize = look;
      }
      observe() {}
      disconnect() {}
    }
    vi.stubGlobal('ResizeObserver', Sizes);
    const { host, root, live } = await start();
    const fit = fits.at(-1)!;
    let [width, limit] = [600, Infinity];
    Object.defineProperties(host, {
      offsetWidth: { get: () => width },
      offsetHeight: {
        get: () => Math.min(limit, parseFloat((root as HTMLElement).style.minHeight) || 480),
      },
    });
    // On a slide that is drawn at half its size.
    host.getBoundingClientRect = () =>
      new DOMRect(0, 0, host.offsetWidth / 2, host.offsetHeight / 2);
    const roomAt = (size: number, height: number) => {
      [width, limit] = [size, height];
      resize();
      expect((root as HTMLElement).style.minHeight).toBe('');
      return fit.roomOf();
    };
    expect(roomAt(600, Infinity)).toBe(null);
    // The height may come from an attribute, a style sheet, or a container.
    expect(roomAt(600, 300)).toBe(root);
    // The element is hidden.
    expect(roomAt(0, 0)).toBe(root);
    expect([roomAt(600, Infinity), fit.paused]).toEqual([null, 1]);
    // Paper is as long as the figure needs.
    dispatchEvent(new Event('beforeprint'));
    expect(fit.paused).toBe(2);
    dispatchEvent(new Event('afterprint'));
    live.end();
    expect(fit.ended).toBe(1);
    vi.unstubAllGlobals();
  });

  it('ends with its element, and leaves no timers or listeners behind', async () => {
    const disconnectTheme = vi.spyOn(MutationObserver.prototype, 'disconnect');
    const disconnectSize = vi.spyOn(ResizeObserver.prototype, 'disconnect');
    const { live, host, root, inside, room, know, runs } = await start();
    know({ softmax: { frame: frameOf() } });
    host.toggleAttribute('data-waits', true);
    const ended = vi.fn();
    (room().scope as Scope).onEnd(ended);
    live.end();
    expect([disconnectTheme, disconnectSize].map(({ mock }) => mock.calls.length)).toEqual([1, 1]);
    expect([host.hasAttribute('data-live'), host.hasAttribute('data-waits')]).toEqual([
      ...[false, false],
    ]);
    expect(inside.contains(root)).toBe(false);
    expect([ended, fakes.queues[0]!.stop].map((one) => vi.mocked(one).mock.calls.length)).toEqual([
      1, 1,
    ]);
    know({ softmax: { frame: frameOf({ title: 'Another' }) } });
    expect(runs()).toHaveLength(1);
  });
});

describe('the theme of an element', () => {
  it('is set by its attribute, else by the host, and light in print', async () => {
    const { host, context, live } = await start('view=sinks&theme=dark');
    const theme = () => [context().theme.value, host.getAttribute('data-theme')];
    const follow = (change: Partial<State>) =>
      live.follow({ state: { ...context().state.value, ...change }, problems: [] });
    expect(theme()).toEqual(['dark', 'dark']);
    dispatchEvent(new Event('beforeprint'));
    expect(theme()).toEqual(['light', 'light']);
    dispatchEvent(new Event('afterprint'));
    expect(theme()).toEqual(['dark', 'dark']);
    follow({ theme: 'auto' });
    expect(theme()).toEqual(['light', 'light']);
    holder.theme = 'dark';
    holder.look();
    expect(theme()).toEqual(['dark', 'dark']);
    expect(holder.isWatched).toBe(true);
    live.end();
    expect(holder.isWatched).toBe(false);
    follow({ theme: 'light' });
    expect(host.getAttribute('data-theme')).toBe('dark');
  });
});
