// @vitest-environment happy-dom
/** The slider through training, over models with known steps. */
import { signal } from '@preact/signals-core';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { PYTHIA_STEPS } from '../src/ask/steps';
import { defaults, type State } from '../src/ask/state';
import { Scope, type Context } from '../src/page/context';
import { addTrainingSlider, trainedSubjects, type Play } from '../src/rooms/walk';
import { frameOf } from './fixture';

const STEPS: Record<string, number[]> = {
  softmax: [0, 40, 1000, 4000],
  sigmoid: [4000, 40, 20, 0],
};
const cards = [
  ...Object.keys(STEPS).map((id) => ({ id, title: id, timeline: true })),
  { id: 'short', title: 'short', timeline: false },
];

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => vi.useRealTimers());

async function renderSlider(
  shown: readonly string[],
  isReady?: () => boolean,
  play?: Play,
  isScaled?: () => boolean,
) {
  const state = signal<State>({ ...defaults, shown });
  const entries = signal(new Map<string, object>());
  const calls = { steps: 0, trusted: [] as string[], preloaded: [] as string[] };
  const timelines = async () => ({
    steps: async (id: string) => {
      calls.steps++;
      return STEPS[id]!;
    },
    preload: async (id: string, step: number) => void calls.preloaded.push(`${id}@${step}`),
  });
  const engine = signal<unknown>(undefined);
  const set = vi.fn((change: Partial<State>) => (state.value = { ...state.value, ...change }));
  const context = {
    state,
    engine,
    set,
    trust: (repository: string) => calls.trusted.push(repository),
    fail: (error: unknown) => {
      throw error;
    },
  } as unknown as Context;
  const root = document.createElement('div');
  const scope = new Scope();
  const go = addTrainingSlider(root, context, scope, isReady, play, isScaled);
  const textBefore = root.textContent!.trim();
  engine.value = { models: { zoo: { cards }, timelines }, queue: { entries } };
  await vi.advanceTimersByTimeAsync(0);
  const input = () => root.querySelector('input')!;
  return {
    go,
    root,
    scope,
    calls,
    textBefore,
    set,
    input,
    shown: () => state.value.shown.join(' '),
    said: () => root.querySelector('.range span')?.textContent,
    button: (name: string) =>
      [...root.querySelectorAll('button')].find(
        (button) =>
          (button.getAttribute('aria-label') ?? button.textContent!.replace(/[▶❚]/g, '').trim()) ===
          name,
      )!,
    /** Finishes or fails the drawing of all shown subjects. */
    draw: async (
      entry: object = { frame: frameOf(), isStale: false },
      subjects: readonly string[] = state.value.shown,
    ) => {
      entries.value = new Map(subjects.map((subject) => [subject, entry]));
      await vi.advanceTimersByTimeAsync(0);
    },
    show: async (now: readonly string[]) => {
      state.value = { ...state.value, shown: now };
      await vi.advanceTimersByTimeAsync(0);
    },
  };
}

describe('the slider', () => {
  it('has a stop for each step of any shown model, and ends at the trained weights', async () => {
    const { textBefore, input, said, shown, root, button } = await renderSlider([
      'softmax',
      'sigmoid',
    ]);
    expect(textBefore).toMatchSnapshot();
    // The steps are 0, 20, 40, 1000 and 4000.
    expect([input().min, input().max, input().value]).toEqual(['0', '4', '4']);
    expect(said()).toBe('step 4,000 of 4,000');
    input().value = '2';
    input().dispatchEvent(new Event('input'));
    expect(shown()).toBe('softmax@40 sigmoid@40');
    expect([input().value, `training ${said()}`]).toEqual([
      '2',
      input().getAttribute('aria-valuetext'),
    ]);
    expect(said()).toMatch(/40 of 4,000/);
    button('Previous checkpoint').click();
    expect(shown()).toBe('softmax@20 sigmoid@20');
    button('Next checkpoint').click();
    button('Next checkpoint').click();
    expect(shown()).toBe('softmax@1000 sigmoid@1000');
    button('Next checkpoint').click();
    expect(shown()).toBe('softmax sigmoid');
    expect(root.className).toBe('walk');
  });

  it('has no previous checkpoint at its start, and no next one at its end', async () => {
    const { go, button } = await renderSlider(['softmax@0']);
    const isDisabled = () =>
      ['Previous checkpoint', 'Next checkpoint'].map((name) => button(name).disabled);
    expect(isDisabled()).toEqual([true, false]);
    go(40);
    expect(isDisabled()).toEqual([false, false]);
    go(9999);
    expect(isDisabled()).toEqual([false, true]);
  });

  it('shows the step of a link, and requests a frame only for other models', async () => {
    const { input, calls, show } = await renderSlider(['softmax@999']);
    expect(input().value).toBe('2');
    await show(['softmax@40']);
    expect(calls.steps).toBe(1);
    await show(['sigmoid@40']);
    expect(calls.steps).toBe(2);
    expect(input().value).toBe('2');
  });

  it('is absent if no shown model has checkpoints, and names two models that have', async () => {
    const { root, button, shown, go } = await renderSlider(['short']);
    expect(root.textContent).toMatchSnapshot();
    go(40);
    expect(shown()).toBe('short');
    button('Show the softmax and sigmoid models').click();
    expect(shown()).toBe('softmax sigmoid');
  });

  it('visits the checkpoints of a hub, which the reader permits by moving it', async () => {
    const id = 'hub:EleutherAI/pythia-14m@step1000';
    const { input, go, calls, shown } = await renderSlider([id, 'softmax@1000']);
    const steps = [...new Set([...PYTHIA_STEPS, ...STEPS.softmax!])].sort((a, b) => a - b);
    expect(input().max).toBe(String(steps.length - 1));
    expect(input().value).toBe(String(steps.indexOf(1000)));
    go(2000);
    expect(calls.trusted).toEqual(['EleutherAI/pythia-14m']);
    expect(shown()).toBe('hub:EleutherAI/pythia-14m@step2000 softmax@2000');
  });

  it('does not move before the steps are known, and leaves invalid subjects unchanged', async () => {
    const { set, go } = await renderSlider([]);
    go(0);
    expect(set).not.toHaveBeenCalled();
    expect(trainedSubjects(['softmax@40', 'sigmoid', '?!'])).toEqual(['softmax', 'sigmoid', '?!']);
  });
});

it('is an axis of steps if its room draws one above it; arrow keys move by a checkpoint', async () => {
  const { input, shown, go } = await renderSlider(['softmax'], undefined, undefined, () => true);
  expect([input().max, input().value]).toEqual(['4000', '4000']);
  input().value = '900';
  input().dispatchEvent(new Event('input'));
  expect([shown(), input().value]).toEqual(['softmax@1000', '1000']);
  const press = (key: string) => {
    const event = new KeyboardEvent('keydown', { key, cancelable: true });
    input().dispatchEvent(event);
    return [shown(), event.defaultPrevented];
  };
  expect(press('ArrowLeft')).toEqual(['softmax@40', true]);
  expect(press('ArrowRight')).toEqual(['softmax@1000', true]);
  expect(press('Home')).toEqual(['softmax@1000', false]);
  go(0);
  expect(press('ArrowDown')).toEqual(['softmax@0', true]);
});

describe('playing the slider', () => {
  it('begins at step 0, and shows each checkpoint for a while once it is drawn', async () => {
    const { button, shown, draw, calls } = await renderSlider(['softmax']);
    button('Play').click();
    expect([shown(), button('Pause') !== undefined]).toEqual(['softmax@0', true]);
    await vi.advanceTimersByTimeAsync(2000);
    expect(shown()).toBe('softmax@0');
    await draw({ frame: frameOf(), isStale: true });
    await vi.advanceTimersByTimeAsync(2000);
    expect([shown(), calls.preloaded]).toEqual(['softmax@0', []]);
    await draw();
    await vi.advanceTimersByTimeAsync(369);
    // The files of three further checkpoints are fetched.
    expect([shown(), calls.preloaded]).toEqual(['softmax@0', ['softmax@4000']]);
    await vi.advanceTimersByTimeAsync(1);
    expect(shown()).toBe('softmax@40');
    for (const nextSubject of ['softmax@1000', 'softmax']) {
      await draw();
      await vi.advanceTimersByTimeAsync(370);
      expect(shown()).toBe(nextSubject);
    }
    expect(button('Play again')).toBeDefined();
    await draw();
    await vi.advanceTimersByTimeAsync(2000);
    expect(shown()).toBe('softmax');
  });

  it('waits for each checkpoint that its room measures ahead, and leaves none out', async () => {
    let milliseconds = 370;
    const play: Play = {
      ...{ isPlaying: signal(false), next: signal<readonly string[]>([]) },
      stay: () => milliseconds,
    };
    const { button, shown, draw } = await renderSlider(['softmax'], undefined, play);
    expect(play.next.value).toEqual([]);
    button('Play').click();
    await draw();
    expect(play.next.value).toEqual(['softmax@40']);
    await vi.advanceTimersByTimeAsync(5000);
    expect(shown()).toBe('softmax@0');
    const drawn = { frame: frameOf(), isStale: false };
    await draw(drawn, ['softmax@0', 'softmax@40']);
    expect([shown(), play.next.value]).toEqual(['softmax@40', ['softmax@1000']]);
    await draw(drawn, ['softmax@40', 'softmax@1000']);
    await vi.advanceTimersByTimeAsync(369);
    expect(shown()).toBe('softmax@40');
    // The room decides for how long a checkpoint stays.
    milliseconds = 2000;
    await vi.advanceTimersByTimeAsync(1);
    expect(shown()).toBe('softmax@1000');
    await draw(drawn, ['softmax@1000', 'softmax']);
    await vi.advanceTimersByTimeAsync(1999);
    expect(shown()).toBe('softmax@1000');
    button('Pause').click();
    expect(play.next.value).toEqual([]);
  });

  it('continues from a step in the middle, and pauses', async () => {
    const { button, shown, draw, scope } = await renderSlider(['softmax@40', 'short']);
    button('Play').click();
    expect(shown()).toBe('softmax@40 short');
    await draw();
    button('Pause').click();
    await vi.advanceTimersByTimeAsync(2000);
    expect([shown(), button('Play') !== undefined]).toEqual(['softmax@40 short', true]);
    button('Play').click();
    scope.end();
    await vi.advanceTimersByTimeAsync(2000);
    expect(shown()).toBe('softmax@40 short');
  });

  it('stays at a step to which the reader moves it, until that one is drawn', async () => {
    const { go, button, shown, draw } = await renderSlider(['softmax']);
    button('Play').click();
    await draw();
    await vi.advanceTimersByTimeAsync(300);
    go(1000);
    await vi.advanceTimersByTimeAsync(2000);
    expect(shown()).toBe('softmax@1000');
    await draw();
    await vi.advanceTimersByTimeAsync(370);
    expect(shown()).toBe('softmax');
  });

  it('waits while a text is emptied to type another one', async () => {
    const { button, draw, shown } = await renderSlider(['softmax@40']);
    button('Play').click();
    await draw({ error: 'Type a sentence: there is no text yet.' });
    await vi.advanceTimersByTimeAsync(2000);
    expect([shown(), button('Pause') !== undefined]).toEqual(['softmax@40', true]);
    await draw();
    await vi.advanceTimersByTimeAsync(370);
    expect(shown()).toBe('softmax@1000');
  });

  it('ends if a checkpoint fails', async () => {
    const { button, draw, shown } = await renderSlider(['softmax@40']);
    button('Play').click();
    await draw({ error: 'no such file' });
    expect([shown(), button('Play') !== undefined]).toEqual(['softmax@40', true]);
  });

  it('goes to the first stored step once the room is ready, and plays on request', async () => {
    const isReady = signal(false);
    const storySlider = await renderSlider(['softmax'], () => isReady.value);
    expect(storySlider.shown()).toBe('softmax');
    isReady.value = true;
    await vi.advanceTimersByTimeAsync(0);
    expect([storySlider.shown(), storySlider.button('Play') !== undefined]).toEqual([
      'softmax@0',
      true,
    ]);
    // If the reader has moved the slider on, the slider does not go back.
    storySlider.go(40);
    isReady.value = false;
    isReady.value = true;
    await vi.advanceTimersByTimeAsync(2000);
    expect(storySlider.shown()).toBe('softmax@40');
    expect((await renderSlider(['softmax'])).shown()).toBe('softmax');
    expect((await renderSlider(['short'], () => true)).shown()).toBe('short');
  });
});
