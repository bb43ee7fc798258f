// @vitest-environment happy-dom
/** The room of the lab, and its pair of labs, as a reader uses them; the labs train nothing. */
import { signal } from '@preact/signals-core';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { LogEntry } from 'sinkscope';
import type { State } from '../src/ask/state';
import { Pair } from '../src/lab/pair';
import { PRESETS } from '../src/lab/presets';
import type { Settings } from '../src/lab/settings';
import { Scope } from '../src/page/context';
import { createMap } from '../src/lab/map';
import { build } from '../src/rooms/lab';
import { chartsIn, mapsIn } from './drawn';
import { pageOf, roomOf } from './page';

vi.mock('../src/plot/heatmap', async () => (await import('./drawn')).plots.heatmap);
vi.mock('../src/plot/chart', async () => (await import('./drawn')).plots.chart);

const engine = {
  describe: {
    version: '1.0',
    operations: ['softmax', 'sigmoid_log_n', 'relu'].map((name) => ({
      ...{ name, label: name, trainable: true, features: 'none', formula: 'exp(x_j)' },
      normalizes: name === 'softmax',
    })),
    training: {
      log: [{ name: 'step' }, { name: 'loss' }],
      settings: Object.entries({
        ...{ steps: 700, seed: 5, batch: 32, length: 32, triggers: 8, first: 0 },
        ...{ optimizer: 'adamw', learning_rate: 0.003, weight_decay: 0.01, task: 'backcopy' },
        ...{ first_value_gradient: 1, embedding_deviation: 1, deviation: 0.02, planted: 0 },
      }).map(([name, value]) => ({ name, default: value })),
    },
  },
};

interface Fake {
  readonly changes: { value: number };
  readonly calls: string[];
  key: string | undefined;
  stage: string;
  settings: Settings;
  log: LogEntry[];
  seconds: number;
  error: string;
}
const fakes = vi.hoisted(() => ({
  labs: [] as Fake[],
  /** The number of steps of each side's saved training, and why the engine cannot be opened. */
  savedSteps: [] as (number | undefined)[],
  /** The sides whose saved training this build refuses. */
  refusedSides: [] as number[],
  refuses: '',
  /** What the next readings of saved trainings, starts and runs wait for. */
  holds: { read: [], start: [], run: [] } as Record<'read' | 'start' | 'run', Promise<void>[]>,
}));
const deleted = vi.hoisted(() => [] as string[]);
vi.mock('../src/lab/store', () => ({
  deleteTrainings: async (pair: string) => void deleted.push(pair),
}));
vi.mock('../src/lab/lab', () => ({
  Lab: class implements Fake {
    readonly changes = signal(0);
    readonly calls: string[] = [];
    stage = 'loading';
    settings: Settings = {};
    log: LogEntry[] = [];
    sample: number[] = [];
    picture = undefined;
    hasModel = true;
    setup = undefined;
    key: string | undefined;
    seconds = 0;
    error = '';
    stepSeconds = 0.1;
    words: string[] = [];
    constructor(readonly side: number) {
      fakes.labs.push(this);
    }
    get step() {
      return this.log.length;
    }
    get isRunning() {
      return this.stage === 'running';
    }
    async engine() {
      if (fakes.refuses) throw new Error(fakes.refuses);
      return engine;
    }
    #now(call: string, stage = this.stage) {
      this.calls.push(call);
      this.stage = stage;
      this.changes.value = this.changes.peek() + 1;
    }
    async readSaved(settings: Settings) {
      this.settings = settings;
      this.#now('read', 'loading');
      if (fakes.holds.read.length) await fakes.holds.read.shift();
      const length = fakes.savedSteps[this.side];
      const log = Array.from({ length: length ?? 0 }, (_, step) => ({ step, loss: 1 }) as LogEntry);
      return length === undefined ? undefined : { log };
    }
    async start(settings: Settings, key?: string, saved?: { log: LogEntry[] }) {
      this.settings = settings;
      this.key = key;
      this.log = saved?.log ?? [];
      const isRefused = saved && fakes.refusedSides.includes(this.side);
      if (fakes.holds.start.length) await fakes.holds.start.shift();
      this.#now(saved ? 'continue' : 'start', isRefused ? 'refused' : 'ready');
    }
    adjust(settings: Settings) {
      this.settings = settings;
      this.#now('adjust');
    }
    async run(until: number, pace = Infinity) {
      this.#now(`run ${until} ${pace}`, 'running');
      await fakes.holds.run.shift();
    }
    async pause() {
      this.#now('pause', this.stage === 'running' ? 'ready' : this.stage);
    }
    async end() {
      this.#now('end');
    }
  },
}));

const cards = ['softmax', 'relu'].map((id) => ({ id, title: `The ${id}` }));
const pageWith = (change: Partial<State> = {}, more = {}) =>
  pageOf(
    { room: 'lab', leftRun: '', rightRun: 'operation:sigmoid_log_n', ...change } as Partial<State>,
    [],
    {
      models: { zoo: { cards } },
      fail: vi.fn(),
      ...more,
    },
  );

/** Advances the clock until all drawings are done. */
const redraw = () => vi.advanceTimersByTimeAsync(1000);
let isHidden = false;
const hide = (now: boolean) => {
  isHidden = now;
  document.dispatchEvent(new Event('visibilitychange'));
};
beforeEach(() => {
  vi.useFakeTimers();
  fakes.savedSteps = [];
  fakes.refusedSides = [];
  fakes.refuses = '';
  deleted.length = 0;
  isHidden = false;
  vi.spyOn(document, 'hidden', 'get').mockImplementation(() => isHidden);
  // The labs outlive their room, so each test resets them.
  for (const lab of fakes.labs)
    Object.assign(lab, { stage: 'loading', settings: {}, log: [], seconds: 0, error: '' });
});
afterEach(() => vi.useRealTimers());

async function openRoom(change: Partial<State> = {}) {
  const room = roomOf(build, pageWith(change));
  await redraw();
  const labs = fakes.labs.slice(0, 2) as [Fake, Fake];
  for (const lab of labs) lab.calls.length = 0;
  const calls = () => labs.map((lab) => lab.calls.splice(0));
  const press = (key: string, more = {}, target: Element = room.all('.lab-pair')[0]!) => {
    const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more });
    target.dispatchEvent(event);
    return event.defaultPrevented;
  };
  return { ...room, labs, said: calls, press };
}

describe('the room of the lab', () => {
  it('describes the two models and what to look for before any training', async () => {
    const { text, texts, scope, labs, all } = await openRoom({
      rightRun: 'operation:sigmoid_log_n',
    });
    expect(text('[data-finding]')).toBe('Two models with the same task and seed.');
    expect(labs.map(({ settings }) => settings.operation)).toEqual(['softmax', 'sigmoid_log_n']);
    expect(labs.map(({ settings }) => settings.steps)).toEqual([700, 700]);
    expect(labs[0].key).toMatch(/^1\.0 .*operation:sigmoid_log_n/);
    expect(labs[1].key).toBe(labs[0].key);
    const labels = all('.lab-set').map((set) => set.getAttribute('aria-label')!);
    const labLabels = labels.filter((label) => label.startsWith('Lab '));
    expect(labLabels).not.toEqual([]);
    expect(texts('.lab-map strong')).toEqual(
      labLabels.map((label) => label.replace(/^Lab \d: /, '')),
    );
    expect(text('.lab-step')).toMatchSnapshot();
    expect(text('.train')).toBe('Skip the guess');
    expect(text('.lab-bar .how p')).toContain('sequences over 64 tokens');
    expect(text('.lab-rule')).toMatch(/^“copy” repeats the token before it/);
    expect(all('.lab-trouble p')).toEqual([]);
    expect(all('.save')).toHaveLength(1);
    scope.end();
  });

  it('draws levels and the planned length into its charts before any training', async () => {
    const { root, scope } = await openRoom({ leftRun: 'length:4', rightRun: 'length:4' });
    const [attention, error] = chartsIn(root);
    const levels = (chart: typeof error) =>
      chart!.series.flatMap(({ name, values }) => (values.length ? [[name, values[0]]] : []));
    expect(levels(attention)).toEqual([
      ['if spread evenly', (1 / 2 + 1 / 3 + 1 / 4) / 3],
      ['sink: over 30%', 0.3],
    ]);
    expect(levels(error)).toEqual([
      ['blind guess', Math.log(64)],
      ['best possible', 0],
    ]);
    expect([attention!.xDomain, error!.xDomain]).toEqual(Array(2).fill([0, 700]));
    scope.end();
  });

  it('has another lead if the settings match no preset, and names invalid parts of a link', async () => {
    const { text, texts, scope, labs } = await openRoom({
      leftRun: 'width:33,seed:9',
      rightRun: 'huh:1',
    });
    expect(text('[data-finding]')).toMatchSnapshot();
    expect(texts('.lab-trouble p')).toMatchSnapshot();
    expect(labs.map(({ settings }) => settings.seed)).toEqual([9, 5]);
    scope.end();
  });

  it('hides what an embed leaves out', async () => {
    const { all, state, scope } = await openRoom();
    expect(all('[data-finding]')[0]!.hidden).toBe(false);
    expect(all('.lab-bar .save, .lab-bar .save-menu').some((element) => element.hidden)).toBe(
      false,
    );
    state.value = { ...state.value, hide: ['finding', 'save'] };
    await redraw();
    expect(all('[data-finding]')[0]!.hidden).toBe(true);
    expect(all('.lab-bar [hidden]')).toHaveLength(1);
    scope.end();
  });

  it('trains both labs, pauses, takes a step, and begins again, by buttons and by keys', async () => {
    const { click, said, text, press, scope, button } = await openRoom();
    click('Skip the guess');
    await redraw();
    expect([said(), text('.train')]).toEqual([Array(2).fill(['run 700 Infinity']), 'Pause']);
    expect(button('One step').disabled).toBe(true);
    expect(text('[data-finding]')).toMatchSnapshot();
    click('Pause');
    await redraw();
    expect(said()).toEqual(Array(2).fill(['pause']));
    click('One step');
    expect(said()).toEqual(Array(2).fill(['run 1 Infinity']));
    click('Reset');
    await redraw();
    expect(said()).toEqual(Array(2).fill(['pause', 'start']));
    expect(press('t')).toBe(true);
    expect(said()).toEqual(Array(2).fill(['run 700 Infinity']));
    expect(press('t')).toBe(true);
    await redraw();
    expect(said()).toEqual(Array(2).fill(['pause']));
    expect([press('s'), said()]).toEqual([true, Array(2).fill(['run 1 Infinity'])]);
    expect([press('r'), said()]).toEqual([true, Array(2).fill(['pause'])]);
    await redraw();
    expect(said()).toEqual(Array(2).fill(['start']));
    // Keys with modifiers, and keys in a field, do not belong to the room.
    for (const modifier of [{ ctrlKey: true }, { metaKey: true }, { altKey: true }])
      expect(press('t', modifier)).toBe(false);
    expect(press('x')).toBe(false);
    const field = document.querySelector('.lab-controls input, .lab-controls select')!;
    expect(press('t', {}, field)).toBe(false);
    expect(said()).toEqual([[], []]);
    scope.end();
  });

  it('restarts training if a setting differs, and continues if only the view does', async () => {
    const { state, said, labs, scope, ...own } = await openRoom();
    state.value = { ...state.value, rightRun: 'operation:relu' };
    await redraw();
    expect(said()).toEqual(Array(2).fill(['read', 'start']));
    expect(labs[1].settings.operation).toBe('relu');
    state.value = {
      ...state.value,
      leftRun: 'steps:900,head:0',
      rightRun: 'operation:relu,steps:900',
    };
    await redraw();
    expect(said()).toEqual(Array(2).fill(['adjust']));
    expect(own.text('.lab-step')).toContain('step 0 of 900');
    own.click('Skip the guess');
    said();
    state.value = {
      ...state.value,
      leftRun: 'steps:900,speed:2',
      rightRun: 'operation:relu,speed:2',
    };
    await redraw();
    expect(said()).toEqual([
      ['adjust', 'pause', 'run 900 2'],
      ['adjust', 'pause', 'run 700 2'],
    ]);
    state.value = { ...state.value, rightRun: 'operation:relu,speed:2,head:0' };
    await redraw();
    expect(said()).toEqual(Array(2).fill(['adjust']));
    scope.end();
  });

  it('restores the training run of the last visit and states its step', async () => {
    fakes.savedSteps = [12, 12];
    const { scope, text } = await openRoom();
    expect(text('.lab-step')).toContain('step 12 of 700');
    scope.end();
    const page = pageWith();
    for (const lab of fakes.labs) lab.settings = {};
    const secondRoom = roomOf(build, page);
    await redraw();
    expect(page.calls.notify.mock.calls).toMatchSnapshot();
    secondRoom.scope.end();
  });

  it('says Continue where a training is restored or paused, and offers to skip the guess before its first step', async () => {
    fakes.savedSteps = [12, 12];
    const { scope, labs, text } = await openRoom();
    expect(text('.train')).toBe('Continue');
    labs[0].stage = 'running';
    labs[0].changes.value++;
    await redraw();
    expect(text('.train')).toBe('Pause');
    for (const lab of labs) Object.assign(lab, { stage: 'ready', log: [] });
    labs[0].changes.value++;
    await redraw();
    expect(text('.train')).toBe('Skip the guess');
    scope.end();
  });

  it('starts nothing of settings that changed while their saved training was read, and announces nothing late', async () => {
    const { state, said, scope, labs, calls } = await openRoom();
    fakes.savedSteps = [12, 12];
    let release = () => {};
    for (const name of ['read', 'start'] as const) {
      const outdated = new Promise<void>((done) => (release = done));
      fakes.holds[name].push(outdated, outdated);
      state.value = { ...state.value, rightRun: 'operation:relu' };
      await redraw();
      said();
      calls.notify.mockClear();
      state.value = { ...state.value, rightRun: 'operation:softmax' };
      await redraw();
      const restored = [['Your training is restored at step 12.']];
      expect([said(), calls.notify.mock.calls]).toEqual([
        Array(2).fill(['read', 'continue']),
        restored,
      ]);
      release();
      await redraw();
      // The start that was held ends without an effect.
      const ended = name === 'start' ? ['continue'] : [];
      expect([said(), calls.notify.mock.calls]).toEqual([Array(2).fill(ended), restored]);
      expect(labs[1].settings.operation).toBe('softmax');
    }
    scope.end();
  });

  it('restores nothing over a training that was reset meanwhile', async () => {
    const { state, said, scope, labs, text, click, calls } = await openRoom();
    fakes.savedSteps = [12, 12];
    let release = () => {};
    const outdated = new Promise<void>((done) => (release = done));
    fakes.holds.read.push(outdated, outdated);
    state.value = { ...state.value, rightRun: 'operation:relu' };
    await redraw();
    said();
    calls.notify.mockClear();
    click('Reset');
    await redraw();
    expect(said()).toEqual(Array(2).fill(['pause', 'start']));
    expect(deleted).toEqual([labs[0].key]);
    release();
    await redraw();
    expect([said(), calls.notify.mock.calls]).toEqual([Array(2).fill([]), []]);
    expect(text('.lab-step')).toContain('step 0');
    // Settings that change while a reset waits for the pause are not reset.
    click('Reset');
    state.value = { ...state.value, rightRun: 'operation:softmax' };
    await redraw();
    expect(said()).toEqual(Array(2).fill(['pause', 'read', 'continue']));
    scope.end();
  });

  it('restores the one training that is saved, and starts both if one is refused', async () => {
    fakes.savedSteps = [248, undefined];
    const { state, said, labs, text, scope } = await openRoom();
    expect(labs.map(({ log }) => log.length)).toEqual([248, 0]);
    fakes.savedSteps = [12, 12];
    fakes.refusedSides = [1];
    state.value = { ...state.value, rightRun: 'operation:relu' };
    await redraw();
    expect(said()).toEqual(Array(2).fill(['read', 'continue', 'start']));
    expect(deleted).toEqual([labs[0].key]);
    expect(text('.lab-step')).toContain('step 0 of 700');
    scope.end();
  });

  it('trains by a guess, which it remembers until the labs are reset', async () => {
    const { all, labs, said, text, click, scope } = await openRoom();
    const isAsked = () => all('.lab-pair')[0]!.matches('.lab-new');
    expect([isAsked(), text('.lab-guess')]).toMatchSnapshot();
    all<HTMLButtonElement>('.lab-guess .left')[0]!.click();
    await redraw();
    expect([isAsked(), said()]).toEqual([false, Array(2).fill(['run 700 Infinity'])]);
    const log = Array.from({ length: 19 }, (_, step) => ({ step, loss: 1 }) as LogEntry);
    for (const lab of labs) Object.assign(lab, { stage: 'ended', log });
    labs[0].changes.value++;
    await redraw();
    expect([text('.lab-guess h2'), text('h1'), text('[data-finding]')]).toMatchSnapshot();
    // The browser keeps the guess for the next visit, as long as the training.
    const isKept = () => Object.values({ ...localStorage }).includes('left');
    expect(isKept()).toBe(true);
    click('Reset');
    await redraw();
    expect(isKept()).toBe(false);
    click('Skip the guess');
    await redraw();
    expect(text('.lab-guess h2')).toBe('Watch the first column');
    expect(text('[data-finding]')).toBe('Two models with the same task and seed.');
    scope.end();
  });

  it('offers the next experiment once one is over, and keeps the focus for its keys', async () => {
    const { all, labs, state, text, scope } = await openRoom(PRESETS[0]);
    const guess = all<HTMLButtonElement>('.lab-guess .left')[0]!;
    guess.focus();
    guess.click();
    await redraw();
    // The pressed button is gone.
    expect(document.activeElement!.textContent!.trim()).toBe('Pause');
    expect(all('.lab-next')).toEqual([]);
    const log = Array.from({ length: 400 }, (_, step) => ({ step, loss: 1 }) as LogEntry);
    for (const lab of labs) Object.assign(lab, { stage: 'ended', log });
    labs[0].changes.value++;
    await redraw();
    expect(text('.lab-next')).toBe(`Next: ${PRESETS[2]!.action} →`);
    expect(document.activeElement!.matches('.lab-next')).toBe(true);
    all<HTMLButtonElement>('.lab-next')[0]!.click();
    expect(state.value.rightRun).toBe(PRESETS[2]!.rightRun);
    await redraw();
    expect(all('.lab-next')).toEqual([]);
    scope.end();
  });

  it('pauses both models at one step, unless it is pressed again', async () => {
    const { labs, said, click, scope } = await openRoom();
    click('Skip the guess');
    await redraw();
    said();
    labs[1].log = [{ step: 0, loss: 3 }] as LogEntry[];
    let release = () => {};
    fakes.holds.run.push(new Promise<void>((done) => (release = done)));
    click('Pause');
    await redraw();
    expect(said()).toEqual([['pause', 'run 1 Infinity'], ['pause']]);
    click('Pause');
    await redraw();
    expect(said()).toEqual(Array(2).fill(['pause']));
    release();
    scope.end();
  });

  it('pauses while its tab is hidden, and resumes only what was running then', async () => {
    const page = pageWith();
    const room = roomOf(build, page);
    await redraw();
    const calls = () => fakes.labs.slice(0, 2).map((lab) => lab.calls.splice(0));
    calls();
    hide(true);
    hide(false);
    expect(calls()).toEqual([[], []]);
    room.click('Skip the guess');
    calls();
    hide(true);
    await redraw();
    expect(calls()).toEqual(Array(2).fill(['pause']));
    expect(page.calls.notify).not.toHaveBeenCalled();
    hide(false);
    expect(calls()).toEqual(Array(2).fill(['run 700 Infinity']));
    expect(page.calls.notify.mock.calls).toMatchSnapshot();
    hide(false);
    expect(calls()).toEqual([[], []]);
    room.scope.end();
    expect(calls()).toEqual(Array(2).fill(['pause']));
    hide(true);
    hide(false);
    expect(calls()).toEqual([[], []]);
  });

  it('extends a finished training run', async () => {
    const { labs, text, click, state, said, scope, button } = await openRoom({
      ...{ leftRun: 'steps:100', rightRun: 'steps:100' },
    });
    const setStages = async (left: string, right: string) => {
      [labs[0].stage, labs[1].stage] = [left, right];
      labs[0].changes.value++;
      await redraw();
      return [text('.train'), button(text('.train')).disabled];
    };
    expect(await setStages('ended', 'ready')).toEqual(['Skip the guess', false]);
    expect(await setStages('diverged', 'diverged')).toEqual(['Skip the guess', true]);
    expect(await setStages('loading', 'ready')).toEqual(['Skip the guess', true]);
    expect(text('.lab-step')).toMatch(/· loading …( [\d.]+ s)?$/);
    expect(await setStages('ended', 'diverged')).toEqual(['Train more', false]);
    expect(await setStages('ended', 'ended')).toEqual(['Train more', false]);
    expect(text('.lab-step')).toBe('step 0 of 100');
    said();
    click('Train more');
    await redraw();
    expect([state.value.leftRun, state.value.rightRun]).toEqual(['steps:500', 'steps:500']);
    expect(said()).toEqual(Array(2).fill(['adjust', 'run 500 Infinity']));
    scope.end();
  });

  it('shows the step of the slower lab and the time of the slower one', async () => {
    const { labs, text, scope } = await openRoom();
    labs[0].log = [
      { step: 0, loss: 3 },
      { step: 1, loss: 2 },
    ] as LogEntry[];
    labs[1].log = [{ step: 0, loss: 3 }] as LogEntry[];
    labs[0].seconds = 2;
    Object.assign(labs[1], { seconds: 5.25, stepSeconds: 2 });
    labs[0].changes.value++;
    await redraw();
    // 699 steps of two seconds are left.
    expect(text('.lab-step')).toMatchSnapshot();
    expect(text('[data-finding]')).toMatchSnapshot();
    expect(text('.lab-numbers')).toMatch(/gives the first token .* Loss above the best possible/s);
    Object.assign(labs[1], { stepSeconds: 0.1 });
    scope.end();
  });

  it('changes one lab or both through its fields and presets', async () => {
    const { state, enter, all, click, calls, scope } = await openRoom();
    const field = (name: string, i: number) => {
      const input = all(`.lab-set [aria-label="${name}"]`)[i]!;
      input.id = 'this';
      return '#this';
    };
    enter(field('operation', 1), 'relu');
    expect([state.value.leftRun, state.value.rightRun]).toEqual(['', 'operation:relu']);
    await redraw();
    all('#this').forEach((element) => element.removeAttribute('id'));
    click(PRESETS[0]!.title);
    expect([state.value.leftRun, state.value.rightRun]).toEqual([
      PRESETS[0]!.leftRun,
      PRESETS[0]!.rightRun,
    ]);
    const [left, right] = [
      'width 32, learning rate 0.01, batch 16, steps 400',
      'operation sigmoid_log_n',
    ];
    expect(calls.notify.mock.lastCall).toEqual([
      `Changed settings, left: ${left}; right: ${right}, ${left}.`,
    ]);
    // The next pair has the same left model.
    await redraw();
    click('AdamW or SGD');
    expect(calls.notify).toHaveBeenCalledTimes(1);
    scope.end();
  });

  it('fine-tunes trained models, and names the text', async () => {
    const { state, click, text, labs, scope } = await openRoom();
    click('ReLU model, continue with softmax');
    await redraw();
    const { leftRun, rightRun } = PRESETS.find(
      ({ title }) => title === 'ReLU model, continue with softmax',
    )!;
    expect([state.value.leftRun, state.value.rightRun]).toEqual([leftRun, rightRun]);
    expect(labs.map(({ settings }) => settings.from)).toEqual(['relu', 'relu']);
    expect(text('.lab-bar .how p')).toContain('passages of children’s books');
    const { steps, batch, length } = labs[0].settings;
    Object.assign(labs[0], { setup: { text: { name: 'the passages', tokens: 10_000 } } });
    Object.assign(labs[0], { stage: 'loading' });
    labs[0].changes.value++;
    await redraw();
    const readsPerToken = (Number(steps) * Number(batch) * Number(length)) / 10_000;
    expect(text('.lab-bar .how p')).toContain(
      `10,000 tokens. ${steps} steps read each token about ${readsPerToken.toFixed(1)} times`,
    );
    Object.assign(labs[0], { setup: { text: { name: 'mine.txt', tokens: 10_000 } } });
    labs[0].changes.value++;
    await redraw();
    expect(text('.lab-bar .how p')).toMatchSnapshot();
    Object.assign(labs[0], { setup: undefined });
    scope.end();
  });

  it('reports why its engine failed to load, and loads it again on Reset', async () => {
    fakes.refuses = 'no engine';
    const page = pageWith();
    const room = roomOf(build, page);
    await redraw();
    expect(page.context.fail).toHaveBeenCalledTimes(1);
    expect(room.all('.lab-controls *, .lab-new')).toEqual([]);
    fakes.refuses = '';
    room.click('Reset');
    await redraw();
    expect(room.all('.lab-set')).toHaveLength(3);
    expect(fakes.labs[0]!.settings.operation).toBe('softmax');
    room.scope.end();
  });

  it('draws nothing after the reader has left, and begins once a late engine is ready', async () => {
    const page = pageWith();
    const { value } = page.engine;
    page.engine.value = undefined;
    const room = roomOf(build, page);
    await redraw();
    expect(room.all('.lab-set')).toEqual([]);
    page.engine.value = value;
    await redraw();
    expect(room.all('.lab-set')).toHaveLength(3);
    room.scope.end();
    const leftRoom = roomOf(build, pageWith());
    leftRoom.scope.end();
    await redraw();
    expect(leftRoom.all('.lab-set')).toEqual([]);
  });

  it('offers the code that embeds the lab', async () => {
    const ownPage = pageWith();
    const room = roomOf(build, ownPage);
    await redraw();
    room.click('Embed the lab');
    expect(ownPage.calls.embed.mock.calls[0]![0]).toBe('lab');
    room.scope.end();
  });
});

describe('a pair without a room', () => {
  it('stores nothing for the next visit, and ends with its scope', async () => {
    const { context } = pageWith();
    const scope = new Scope();
    const pair = new Pair(context, scope, true);
    const pairLabs = fakes.labs.slice(-2);
    expect(pairLabs).toEqual(pair.labs);
    expect([pair.isReady, pair.columns, pair.isRunning]).toEqual([false, [], false]);
    await pair.openEngine({ zoo: { cards: [] } } as never);
    expect([pair.isReady, pair.columns]).toEqual([true, ['step', 'loss']]);
    expect(pair.steps).toBe(0);
    scope.end();
    await Promise.resolve();
    expect(pairLabs.map(({ calls }) => calls)).toEqual(Array(2).fill(['end', 'pause']));
    const sharedPairs = [new Pair(context, new Scope()), new Pair(context, new Scope())];
    expect(sharedPairs[0]!.labs).toBe(sharedPairs[1]!.labs);
  });

  it("has the operation of its settings, or of a trained model's config", async () => {
    const { context } = pageWith({ rightRun: 'operation:relu' });
    const scope = new Scope();
    const pair = new Pair(context, scope, true);
    await pair.openEngine({ zoo: { cards } } as never);
    pair.applyState();
    const [left, right] = pair.labs as unknown as { setup: unknown }[];
    left!.setup = { options: { config: { sinkscope: { attention: { operation: 'relu' } } } } };
    right!.setup = { options: { config: {} } };
    const namedLabs = pair.namedLabs();
    expect(namedLabs.map(({ operation }) => operation?.name)).toEqual(['relu', 'softmax']);
    expect(namedLabs[1].command).toMatchSnapshot();
    expect(new Set(namedLabs.map(({ name }) => name)).size).toBe(2);
    scope.end();
  });
});

describe('the map of a lab', () => {
  it('draws unnormalized weights, and states the share of the row at a cell', () => {
    const grid = document.createElement('div');
    const lab = {
      picture: { data: new Float32Array([0.2, 0, 0.05, 0.15]), shape: [1, 1, 2, 2] },
      ...{ sample: [0, 40], settings: { triggers: 8, head: -1, length: 32 }, log: [], step: 0 },
      words: ['a', 'b'],
    };
    const operation = { normalizes: false };
    createMap(grid, 0)({ name: 'sigmoid', lab, operation, command: '' } as never, 'light');
    const { data } = mapsIn(grid)[0]!;
    expect(Array.from(data!.data, (x) => Number(x.toFixed(3)))).toEqual([0.2, NaN, 0.05, 0.15]);
    expect(data!.describe!({ row: 1, col: 0 })).toMatch(/25\.0% of the row, weight 0\.050$/);
    expect(data!.colTitle).toBe('where it looks (first 2 of 32 tokens)');
  });
});
