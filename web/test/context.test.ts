import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { signal } from '@preact/signals-core';
import type { Describe } from 'sinkscope';
import { describe, expect, it, test, vi } from 'vitest';
import { defaults } from '../src/ask/state';
import type { Frame } from '../src/frame';
import {
  hideUntilDrawn,
  requestFrames,
  Scope,
  entriesOf,
  type Context,
  type SubjectEntry,
} from '../src/page/context';
import { hasNumbersOf, type View } from '../src/page/view';
import { frameOf, tensor, turn } from './fixture';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

test('ending a scope ends its children, once', () => {
  const parent = new Scope();
  const child = parent.child();
  let ends = 0;
  child.onEnd(() => ends++);
  child.end();
  parent.child().onEnd(() => ends++);
  parent.end();
  parent.end();
  expect(ends).toBe(2);
  const unparented = new Scope();
  unparented.onEnd(() => ends++);
  unparented.end();
  unparented.end();
  expect(ends).toBe(3);
});

test('a scope that has ended is not referenced by its parent', async () => {
  const parent = new Scope();
  const endedChild = (() => {
    const child = parent.child();
    child.end();
    return new WeakRef(child);
  })();
  // The target of a WeakRef that was created or read in a task is kept until the task ends.
  await turn();
  collect();
  expect(endedChild.deref()).toBeUndefined();
  parent.end();
});

describe('the shown frames', () => {
  const frameWith = (edits: object[] = []) => ({ ...frameOf(), edits }) as unknown as Frame;
  const shownFrames = (entries: [string, object][], subjects: string[]) => {
    const queue = { entries: signal(new Map(entries)) };
    return entriesOf({ engine: signal({ queue }) } as unknown as Context, subjects);
  };

  it('are one per subject in order, or the reason why a frame is missing', () => {
    const frame = frameWith();
    expect(
      shownFrames(
        [
          ['b', { error: 'no such file' }],
          ['a', { frame: frame, isStale: true }],
        ],
        ['a', 'b', 'c'],
      ),
    ).toEqual([
      { subject: 'a', frame: frame, isStale: true },
      { subject: 'b', isStale: false, error: 'no such file' },
      { subject: 'c', isStale: false },
    ]);
    expect(entriesOf({ engine: signal(undefined) } as unknown as Context, ['a'])).toMatchSnapshot();
  });

  it('pair an edited frame with the unedited one, and return the same object each time', () => {
    const [edited, base] = [frameWith([{ kind: 'silence' }]), frameWith()];
    const entries: [string, object][] = [
      ['a~silence(1,0)', { frame: edited }],
      ['a', { frame: base }],
    ];
    const shownFramesOf = (all = entries) =>
      shownFrames(all, ['a~silence(1,0)', 'a']).map((one) => one.frame!);
    expect(shownFramesOf()[0]).toEqual({ ...edited, base });
    expect(shownFramesOf()[0]).toBe(shownFramesOf()[0]);
    expect(shownFramesOf()[1]).toBe(base);
    expect(shownFramesOf([entries[0]!, ['a', { frame: base, isStale: true }]])[0]).toBe(edited);
    expect(shownFramesOf([entries[0]!])[0]).toBe(edited);
  });

  it('are requested together with the frames that views compare them with', () => {
    const ask = vi.fn();
    const state = signal({ ...defaults, shown: ['a~silence(1,0)', 'b'], layer: 1, head: 2 });
    const entries = signal(new Map<string, object>());
    const context = { state, engine: signal({ queue: { ask, entries }, fileVersion: signal(0) }) };
    const view = { reads: ['x', 'y'], headReads: ['q'], needsBaseline: true } as unknown as View;
    requestFrames(context as unknown as Context, new Scope(), () => ({
      views: [view, view],
      more: ['x', 'z'],
    }));
    expect(ask.mock.lastCall![0]).toMatchObject({
      subjects: ['a~silence(1,0)', 'b', 'a'],
      reads: ['x', 'y', 'z'],
      headReads: ['q'],
      head: { layer: 1, head: 2 },
      ...{ cells: 512, zoom: { query: -1, key: -1 } },
      ...{ studies: [], heads: {}, isFixed: false },
      follows: { a: 'a~silence(1,0)' },
    });
    state.value = { ...state.value, prompt: 'other' };
    expect(ask).toHaveBeenCalledTimes(2);
    // Both runs show the head that is the strongest without the edit, unless the reader chooses one.
    const alpha = tensor([2, 2, 3], [0, 0, 0, 0.9, 0, 0, 0.1, 0, 0, 0, 0, 0]);
    const edited = { ...frameWith([{ kind: 'silence' }]), subject: 'a~silence(1,0)' };
    entries.value = new Map([
      ['a~silence(1,0)', { frame: edited }],
      ['a', { frame: frameOf({}, { alpha }) }],
    ]);
    const headsAsked = () => ask.mock.lastCall![0].heads;
    expect(headsAsked()).toEqual({ 'a~silence(1,0)': { layer: 1, head: 1 } });
    state.value = { ...state.value, layer: -1, head: -1 };
    expect(headsAsked()).toEqual({ 'a~silence(1,0)': { layer: 0, head: 1 } });
    ask.mockClear();
    const otherView = { ...view, needsBaseline: false };
    requestFrames(context as unknown as Context, new Scope(), () => ({
      views: [otherView],
      subjects: ['c'],
      head: { layer: 0, head: 0 },
    }));
    expect(ask.mock.lastCall![0]).toMatchObject({ subjects: ['c'], head: { layer: 0, head: 0 } });
    const unstarted = { state, engine: signal(undefined) };
    requestFrames(unstarted as unknown as Context, new Scope(), () => ({ views: [] }));
    expect(ask).toHaveBeenCalledTimes(1);
  });
});

test('a view fits a frame that has its numbers, of a model that has its parts', () => {
  const fields = [
    { name: 'router', needs: 'E' },
    { name: 'q', needs: null },
  ] as unknown as Describe['fields'];
  const hasNumbers = (view: object, change: object = {}) =>
    hasNumbersOf({ reads: [], ...view } as unknown as View, { ...frameOf(), ...change } as Frame, {
      fields,
    });
  expect([hasNumbers({ reads: ['alpha'] }), hasNumbers({ reads: ['alpha', 'entropy'] })]).toEqual([
    true,
    false,
  ]);
  // A dense model has no router to be read.
  const experts = { architecture: { ...frameOf().architecture, E: 4 } };
  expect([hasNumbers({ reads: ['router'] }), hasNumbers({ reads: ['router'] }, experts)]).toEqual([
    true,
    false,
  ]);
  const head = { layer: 0, head: 0, tensors: { q: tensor([1], [1]) } };
  expect([
    hasNumbers({ headReads: ['q'] }),
    hasNumbers({ headReads: ['q'] }, { head }),
    hasNumbers({ headReads: ['k'] }, { head }),
  ]).toEqual([...[false, true, false]]);
});

test('a room waits for its pictures, is late after three seconds, and never late once drawn', () => {
  vi.useFakeTimers();
  vi.stubGlobal('requestAnimationFrame', (run: () => void) => run());
  const drawnSubject: SubjectEntry = { subject: 'a', isStale: false, frame: frameOf() };
  const openRoom = (scope: Scope) => {
    const shown = signal<SubjectEntry[]>([{ subject: 'a', isStale: false }]);
    const names = new Set<string>();
    const classList = {
      add: (name: string) => void names.add(name),
      remove: (...some: string[]) => some.forEach((name) => names.delete(name)),
    };
    hideUntilDrawn({ classList } as unknown as HTMLElement, scope, () => shown.value);
    return { shown, names };
  };
  const [slowRoom, quickRoom] = [openRoom(new Scope()), openRoom(new Scope())];
  const endingScope = new Scope();
  const endedRoom = openRoom(endingScope);
  endingScope.end();
  quickRoom.shown.value = [drawnSubject];
  vi.advanceTimersByTime(2999);
  expect([...slowRoom.names]).toEqual(['awaited']);
  vi.advanceTimersByTime(1);
  expect([slowRoom, quickRoom, endedRoom].map(({ names }) => [...names])).toMatchSnapshot();
  slowRoom.shown.value = [{ subject: 'a', isStale: false, error: 'lost' }];
  expect([...slowRoom.names]).toEqual([]);
  vi.useRealTimers();
  vi.unstubAllGlobals();
});
