// @vitest-environment happy-dom
/** embed.html in a frame: the layout that it finds in the size it got, the height that it reports, the theme that it is told. */
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { startFrame } from '../src/embed/frame';

const holder = { postMessage: vi.fn() };
const onTheme = vi.fn();
const listeners: Record<string, ((event: object) => void)[]> = {};
const observers: (() => void)[] = [];

/** Whether the figure fits in a layout. */
let fits: (now: { zoom: number; share: number; isSide: boolean; hasColumns: boolean }) => boolean;
/** The part that is too large where it does not fit, and by how many pixels in which direction. */
let cut: string;
let [beyond, side] = [2, 'Height'];
let height = 300;
const { body } = document;
const layout = () => ({
  zoom: Number(body.style.getPropertyValue('--zoom') || 1),
  share: parseFloat(body.style.getPropertyValue('--fit') || '100') / 100,
  isSide: body.classList.contains('side'),
  hasColumns: body.classList.contains('columns'),
});
for (const name of ['Height', 'Width']) {
  const isCut = (one: Element) => one.matches(cut) && name === side && !fits(layout());
  Object.defineProperty(HTMLElement.prototype, `client${name}`, {
    get: () => 100,
    configurable: true,
  });
  Object.defineProperty(HTMLElement.prototype, `scroll${name}`, {
    get(this: Element) {
      return isCut(this) ? 100 + beyond : 100;
    },
    configurable: true,
  });
}

/** Frames and timers until nothing is due. */
let due: (() => void)[] = [];
let looks = 0;
function settle(): void {
  for (looks = 0; due.length && looks < 50; looks++) due.shift()!();
}
const resize = (width: number, to: number) => {
  vi.stubGlobal('innerWidth', width);
  vi.stubGlobal('innerHeight', to);
  for (const one of listeners.resize ?? []) one({});
};
const say = (data: unknown, source: object = holder) => {
  for (const one of listeners.message ?? []) one({ source, data });
};
const place = () => {
  const room = document.createElement('div');
  room.className = 'room-figure';
  room.innerHTML = '<div class="figure"><div class="table-place"></div></div>';
  document.querySelector('main')!.replaceChildren(room);
  observers.forEach((look) => look());
};

beforeEach(() => {
  [fits, cut, beyond, side, height] = [() => true, 'html', 2, 'Height', 300];
  due = [];
  observers.length = 0;
  for (const name of Object.keys(listeners)) delete listeners[name];
  vi.clearAllMocks();
  body.className = '';
  body.removeAttribute('style');
  body.innerHTML = '<main></main>';
  vi.spyOn(body, 'getBoundingClientRect').mockImplementation(() => ({ height }) as DOMRect);
  vi.stubGlobal('parent', holder);
  vi.stubGlobal('requestAnimationFrame', (run: () => void) => due.push(run));
  vi.stubGlobal('setTimeout', (run: () => void) => due.push(run));
  vi.stubGlobal('addEventListener', (name: string, run: () => void) =>
    (listeners[name] ??= []).push(run),
  );
  class Observer {
    constructor(look: () => void) {
      observers.push(look);
    }
    observe() {}
  }
  vi.stubGlobal('MutationObserver', Observer);
  vi.stubGlobal('ResizeObserver', Observer);
});

describe('an embed that is no frame', () => {
  it('is laid out as its page is', () => {
    vi.stubGlobal('parent', window);
    startFrame(onTheme);
    expect([body.className, observers.length, Object.keys(listeners)]).toEqual(['', 0, []]);
  });
});

describe('an embed in a frame', () => {
  const start = (width = 800, to = 600) => {
    startFrame(onTheme);
    resize(width, to);
    settle();
  };

  it('stays whole where it fits, and reports its height once for each', () => {
    height = 299.2;
    start();
    expect(holder.postMessage.mock.calls).toEqual([[{ sinkscope: 'height', height: 300 }, '*']]);
    place();
    settle();
    expect(layout()).toEqual({ zoom: 1, share: 1, isSide: false, hasColumns: false });
    expect(body.className).toBe('fit');
    observers.forEach((look) => look());
    // However often it is looked at before the next frame, it is looked at once.
    expect(due).toHaveLength(1);
    settle();
    expect(holder.postMessage).toHaveBeenCalledTimes(1);
    height = 310;
    observers[1]!();
    settle();
    expect(holder.postMessage.mock.lastCall).toEqual([{ sinkscope: 'height', height: 310 }, '*']);
    // One pixel is a fraction that was rounded.
    [fits, beyond] = [() => false, 1];
    resize(700, 500);
    settle();
    expect(layout().zoom).toBe(1);
  });

  it.each([
    ['html', 'Height'],
    ['.room-figure', 'Height'],
    ['.figure', 'Width'],
    ['.table-place', 'Width'],
  ])('takes the most legible layout in which its %s is not cut in its %s', (what, direction) => {
    [cut, side] = [what, direction];
    fits = ({ share, zoom }) => share <= 0.7 && zoom <= 0.9;
    start();
    place();
    settle();
    expect(layout()).toEqual({ zoom: 0.9, share: 0.7, isSide: false, hasColumns: false });
    // The caption at the side, in the same frame.
    fits = ({ isSide, hasColumns }) => isSide && hasColumns;
    resize(800, 300);
    settle();
    expect(layout()).toEqual({ zoom: 1, share: 1, isSide: true, hasColumns: true });
    expect(body.classList.contains('scrolls')).toBe(false);
  });

  it('goes on to a smaller layout as it grows, and back to a larger one with its frame or figure', () => {
    start();
    place();
    settle();
    fits = ({ zoom }) => zoom <= 0.8;
    observers[0]!();
    settle();
    expect(layout()).toMatchObject({ zoom: 0.8, share: 1 });
    // What has become small again is not made larger under the reader's hand.
    fits = () => true;
    observers[0]!();
    settle();
    expect(layout().zoom).toBe(0.8);
    resize(801, 600);
    settle();
    expect(layout().zoom).toBe(1);
    fits = ({ zoom }) => zoom <= 0.8;
    observers[0]!();
    settle();
    // Another figure is tried from the first layout on.
    fits = ({ zoom }) => zoom <= 0.9;
    cut = '.room-figure:not(.fine)';
    const before = layout().zoom;
    fits = ({ zoom }) => zoom !== 0.8 && zoom <= 0.9;
    place();
    settle();
    expect([before, layout().zoom]).toEqual([0.8, 0.9]);
  });

  it('makes the map smaller, then sets words beside it and in columns, before it makes all smaller', () => {
    const tried: string[] = [];
    const room = () => tried.filter((one) => one !== tried[0]).length;
    fits = ({ zoom, share, isSide, hasColumns }) => {
      const one = `${zoom} ${isSide ? 'beside' : 'below'}${hasColumns ? ' columns' : ''} ${share}`;
      if (one !== tried.at(-1)) tried.push(one);
      return false;
    };
    start();
    place();
    settle();
    expect(room()).toBeGreaterThan(0);
    const each = [
      ...[
        'below 1',
        'below 0.85',
        'beside 1',
        'beside 0.85',
        'below columns 1',
        'beside columns 1',
      ],
      ...['below 0.7', 'beside 0.7', 'below columns 0.75', 'beside columns 0.75'],
      ...['below 0.55', 'beside 0.55', 'below 0.45', 'beside 0.4'],
    ];
    const words = (one: string, zoom: number) =>
      one.replace(/^\w+( columns)?/, (found) => `${zoom} ${found}`);
    const all = [1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4].flatMap((zoom) =>
      each.map((one) => words(one, zoom)),
    );
    expect(tried.slice(tried.indexOf(all[0]!)).slice(0, all.length)).toEqual(all);
  });

  it('scrolls where nothing fits, and stops trying, until its frame has another size', () => {
    fits = () => false;
    start();
    place();
    settle();
    expect(looks).toBeLessThan(10);
    expect(body.classList.contains('scrolls')).toBe(true);
    expect(layout()).toEqual({ zoom: 0.7, share: 1, isSide: false, hasColumns: false });
    fits = ({ zoom, share, isSide }) => zoom === 0.4 && share === 0.4 && isSide;
    resize(300, 200);
    settle();
    expect(layout()).toEqual({ zoom: 0.4, share: 0.4, isSide: true, hasColumns: false });
    expect(body.classList.contains('scrolls')).toBe(false);
  });

  it('keeps its own size where the holder follows its height, and takes the holder’s theme', () => {
    fits = () => false;
    start();
    place();
    settle();
    for (const wrong of [undefined, 'host', { sinkscope: 'height', follows: true }]) say(wrong);
    say({ sinkscope: 'host', theme: 'dark', follows: true }, {});
    expect([onTheme.mock.calls, body.classList.contains('fit')]).toEqual([[], true]);
    say({ sinkscope: 'host', theme: 'dark' });
    say({ sinkscope: 'host', theme: 'light', follows: false });
    say({ sinkscope: 'host', theme: 'red', follows: false });
    expect(onTheme.mock.calls).toEqual([['dark'], ['light']]);
    expect(body.classList.contains('fit')).toBe(true);
    height = 420;
    say({ sinkscope: 'host', follows: true });
    settle();
    expect(body.className).toBe('');
    expect(holder.postMessage.mock.lastCall![0]).toEqual({ sinkscope: 'height', height: 420 });
    resize(300, 200);
    settle();
    expect(body.className).toBe('');
  });
});
