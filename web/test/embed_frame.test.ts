// @vitest-environment happy-dom
/** embed.html in a frame: reports its height and unused keys, and receives the theme. */
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { startFrame } from '../src/embed/frame';

const holder = { postMessage: vi.fn() };
const onTheme = vi.fn();
const listeners: Record<string, ((event: object) => void)[]> = {};
const observers: (() => void)[] = [];
const fit = vi.hoisted(() => ({ look: vi.fn(), end: vi.fn() }));
vi.mock('../src/embed/fit', () => ({ createFitter: () => fit }));
let height = 300;
const { body } = document;
const receiveMessage = (data: unknown, source: object = holder) => {
  for (const one of listeners.message ?? []) one({ source, data });
};
beforeEach(() => {
  height = 300;
  observers.length = 0;
  for (const name of Object.keys(listeners)) delete listeners[name];
  vi.clearAllMocks();
  body.className = '';
  body.innerHTML = '<main></main>';
  vi.spyOn(body, 'getBoundingClientRect').mockImplementation(() => ({ height }) as DOMRect);
  vi.stubGlobal('parent', holder);
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

describe('an embed outside a frame', () => {
  it('has the layout of its page', () => {
    vi.stubGlobal('parent', window);
    startFrame(onTheme);
    expect([body.className, observers.length, Object.keys(listeners)]).toEqual(['', 0, []]);
  });
});

describe('an embed in a frame', () => {
  it('fits into the frame, and reports each new height once', () => {
    height = 299.2;
    startFrame(onTheme);
    for (const look of observers) look();
    expect(fit.look).toHaveBeenCalledTimes(2);
    expect(holder.postMessage.mock.calls).toEqual([[{ sinkscope: 'height', height: 300 }, '*']]);
    height = 310;
    for (const one of listeners.resize!) one({});
    expect(holder.postMessage.mock.lastCall).toEqual([{ sinkscope: 'height', height: 310 }, '*']);
  });

  it('keeps its own size if the host follows its height, and takes the host’s theme', () => {
    startFrame(onTheme);
    for (const wrong of [undefined, 'host', { sinkscope: 'height', follows: true }])
      receiveMessage(wrong);
    receiveMessage({ sinkscope: 'host', theme: 'dark', follows: true }, {});
    expect([onTheme.mock.calls, body.className]).toEqual([[], 'fit-page']);
    receiveMessage({ sinkscope: 'host', theme: 'dark' });
    receiveMessage({ sinkscope: 'host', theme: 'light', follows: false });
    receiveMessage({ sinkscope: 'host', theme: 'red', follows: false });
    expect([onTheme.mock.calls, body.className]).toEqual([[['dark'], ['light']], 'fit-page']);
    height = 420;
    receiveMessage({ sinkscope: 'host', follows: true });
    expect([fit.end.mock.calls.length, body.className]).toEqual([1, '']);
    expect(holder.postMessage.mock.lastCall![0]).toEqual({ sinkscope: 'height', height: 420 });
  });

  it('forwards keys that no control and no map uses', () => {
    startFrame(onTheme);
    body.insertAdjacentHTML(
      'beforeend',
      '<input type="range"><input type="checkbox"><button></button><textarea></textarea><div class="heatmap"></div>',
    );
    const press = (key: string, on = 'main', isDone = false) => {
      holder.postMessage.mockClear();
      const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true });
      const target = document.querySelector(on)!;
      vi.spyOn(event, 'composedPath').mockReturnValue([target]);
      if (isDone) event.preventDefault();
      for (const listener of listeners.keydown!) listener(event);
      return holder.postMessage.mock.lastCall?.[0] as
        { sinkscope: string; key: string } | undefined;
    };
    expect(press('ArrowRight')).toMatchObject({ sinkscope: 'key', key: 'ArrowRight' });
    expect(press('ArrowRight', '.heatmap', true)).toBeUndefined();
    expect(press('ArrowRight', '[type=range]')).toBeUndefined();
    expect(press('n', 'textarea')).toBeUndefined();
    expect(press(' ', 'button')).toBeUndefined();
    expect(press('ArrowRight', 'button')).toBeDefined();
    expect(press('ArrowRight', '[type=checkbox]')).toBeDefined();
    // After a click on the map, the slide still receives the keys.
    const isPrevented = (on: string) => {
      const event = new MouseEvent('mousedown', { cancelable: true });
      vi.spyOn(event, 'composedPath').mockReturnValue([document.querySelector(on)!]);
      for (const hear of listeners.mousedown!) hear(event);
      return event.defaultPrevented;
    };
    expect([isPrevented('.heatmap'), isPrevented('textarea')]).toEqual([true, false]);
  });
});
