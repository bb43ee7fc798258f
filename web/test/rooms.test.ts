// @vitest-environment happy-dom
/** Rooms over frames with known numbers: their sentences, pictures, requests and links. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { lessons } from '../ship/lessons';
import type { State } from '../src/ask/state';
import type { Frame } from '../src/frame';
import { markRead } from '../src/page/lessons';
import { build as compare } from '../src/rooms/compare';
import { aboutModel } from '../src/rooms/about';
import { build as explore } from '../src/rooms/explore';
import { capitalize, sinkDefinition, SOFTMAX_AND_SIGMOID } from '../src/words';
import { choiceOf, QUESTIONS as QUESTIONS_, tabsOf, views } from '../src/views';
import { build as learn } from '../src/rooms/learn';
import { build as training } from '../src/rooms/training';
import { chartsIn, mapsIn } from './drawn';
import { frameOf, tensor } from './fixture';
import { pageOf, roomOf, servesZoo, mount } from './page';

vi.mock('../src/plot/heatmap', async () => (await import('./drawn')).plots.heatmap);
vi.mock('../src/plot/chart', async () => (await import('./drawn')).plots.chart);

let isScreenWide = true;
const mediaListeners = new Set<() => void>();
beforeEach(() => {
  vi.useFakeTimers();
  servesZoo();
  isScreenWide = true;
  mediaListeners.clear();
  vi.stubGlobal('matchMedia', () => ({
    get matches() {
      return isScreenWide;
    },
    addEventListener: (_: string, turn: () => void) => mediaListeners.add(turn),
    removeEventListener: (_: string, turn: () => void) => mediaListeners.delete(turn),
  }));
});
afterEach(() => vi.useRealTimers());

const head = {
  layer: 1,
  head: 0,
  tensors: { att: tensor([3, 3], [1, 0, 0, 0.9, 0.1, 0, 0.8, 0.1, 0.1]) },
};
const softmax = (change: Partial<Frame> = {}, tensors: Frame['tensors'] = {}) =>
  frameOf({ head, ...change } as never, {
    near_eps: tensor([1], [0]),
    loss_at: tensor([3], [NaN, 2, 3]),
    ...tensors,
  });
const sigmoid = (change: Partial<Frame> = {}, tensors: Frame['tensors'] = {}) =>
  softmax(
    {
      subject: 'sigmoid',
      title: 'Sigmoid model',
      model: { id: 'sigmoid', title: 'Sigmoid model', source: 'zoo' },
      ...change,
    } as never,
    tensors,
  );
const choices = ['softmax', 'sigmoid'].map((id) => ({
  id,
  title: `The ${id} model`,
  source: 'zoo',
}));
const createPage = (change: Partial<State>, frames: readonly Frame[], more: object = {}) =>
  pageOf({ shown: ['softmax', 'sigmoid'], ...change }, frames, { models: { choices, ...more } });

const viewsOf = ({ all }: Pick<ReturnType<typeof roomOf>, 'all'>) =>
  all('.figure').map(({ dataset, hidden }) => `${dataset.view}${hidden ? ' (hidden)' : ''}`);

const cellsOf = ({ all }: Pick<ReturnType<typeof roomOf>, 'all'>) =>
  Object.fromEntries(
    all('.figure[data-view]').map((figure) => [
      figure.dataset.view,
      figure.querySelectorAll('.cell').length,
    ]),
  );

describe('Explore', () => {
  const exploreRoom = (
    change: Partial<State> = {},
    frames = [softmax(), sigmoid()],
    more: object = {},
  ) => roomOf(explore, createPage(change, frames, more));

  const QUESTIONS = [
    ...['Where does attention go?', 'Why does the first key win?', 'What does the head write?'],
    ...['What if …?', 'When did it appear?', 'Does the sink matter?'],
  ];

  it('answers in a plain sentence, then names the head, its numbers and the models', () => {
    const { text, texts, pressed, click, state, asked } = exploreRoom();
    expect(text('h1')).toMatchSnapshot();
    expect(text('.room-head .hint')).toMatchSnapshot();
    expect(text('.lead')).toMatchSnapshot();
    expect(texts('.subject-list button')).toEqual(['Softmax model', 'Sigmoid model', '+ add']);
    expect(pressed('.subject-list button')).toEqual(['Softmax model']);
    expect(texts('.chip')).toEqual(['<s>', 'a', '=1,"x"↵']);
    expect(text('.tokens summary')).toBe('3 tokens');
    state.value = { ...state.value, layer: 0, head: 1 };
    expect(text('.room-head .hint')).toMatch(/^In layer 0, head 1 \(L0H1\)/);
    expect(asked().head).toEqual({ layer: 0, head: 1 });
    click('Sigmoid model');
    expect(state.value).toMatchObject({ at: 1, layer: -1, head: -1 });
    expect(pressed('.subject-list button')).toEqual(['Sigmoid model']);
    expect(asked().subjects).toEqual(['sigmoid']);
    expect(exploreRoom({ at: 7 }).pressed('.subject-list button')).toEqual(['Sigmoid model']);
  });

  it('explains why attention has to go somewhere, and which ablation shows whether a head matters', () => {
    const leadOf = (view: string) => exploreRoom({ view }).text('.lead');
    expect(leadOf('geometry')).toBe(SOFTMAX_AND_SIGMOID);
    expect(leadOf('effects')).toMatchSnapshot();
    expect(leadOf('contribution')).toMatchSnapshot();
    expect(leadOf('compression')).toBe('');
  });

  it('says what happens without the first token, and names other tokens only where rows must sum to 100%', () => {
    const zeros = tensor([2, 2], [0, 0, 0, 0]);
    const tensors = {
      effect: zeros,
      contribution: zeros,
      first_share: tensor([2, 2], [0.9, 0.9, 0.9, 0.9]),
    };
    const loss_mean = (subject: string) => tensor([1], [subject.includes('~') ? 2.5 : 2]);
    const leadOf = (change: Partial<Frame>) => {
      const frame = softmax(change, tensors);
      const studyEntry = ({ subject }: { subject: string }) => ({
        frame: softmax({}, { loss_mean: loss_mean(subject) }),
      });
      return roomOf(
        explore,
        pageOf({ shown: ['softmax'], view: 'effects' }, [frame], {
          models: { choices },
          queue: { studyEntry },
        }),
      ).text('.lead');
    };
    const { architecture, operation } = frameOf();
    expect(leadOf({})).toMatchSnapshot();
    expect(leadOf({ operation: { ...operation, normalizes: false } })).toMatchSnapshot();
    expect(
      leadOf({ architecture: { ...architecture, bias_key: 'head' } as never }),
    ).toMatchSnapshot();
  });

  it('requests the reads of its figures for the shown model, and those of its own sentences', () => {
    const { asked, state } = exploreRoom();
    expect(asked().reads).toEqual(
      expect.arrayContaining(['alpha', 'sink_ratio', 'massive', 'massive_at', 'att']),
    );
    expect(asked().headReads).toContain('att');
    state.value = { ...state.value, shown: ['softmax~silence(1,0)', 'sigmoid'] };
    expect(asked().subjects).toEqual(['softmax~silence(1,0)']);
    state.value = { ...state.value, view: 'change' };
    expect(asked().subjects).toEqual(['softmax~silence(1,0)', 'softmax']);
    state.value = { ...state.value, view: 'loss' };
    expect(asked().reads).toContain('loss_at');
    const otherRoom = exploreRoom({ shown: ['hub:a/b'] }, []);
    expect(otherRoom.asked().reads).not.toContain('att');
  });

  it('shows one head of both runs that it compares: the strongest one without the edit', () => {
    const subject = 'softmax~silence(0,0)';
    const weaker = tensor([2, 2, 3], [0.1, 0, 0, 0.4, 0, 0, 0.2, 0, 0, 0.3, 0, 0]);
    const edited = softmax({ subject, edits: [{ kind: 'silence' }] } as never, { alpha: weaker });
    const { text, asked, state } = exploreRoom({ shown: [subject], view: 'change' }, [
      edited,
      softmax(),
    ]);
    expect(text('.view-change .caption')).toMatchSnapshot();
    expect(text('.view-change .subtitle')).toBe('Attention of head L1H0');
    expect(text('.room-head .hint')).toContain('(L1H0)');
    expect(text('.hand')).toContain('Ablate head L1H0');
    expect(asked().heads).toEqual({ [subject]: { layer: 1, head: 0 } });
    state.value = { ...state.value, view: 'loss' };
    expect(text('.room-head .hint')).toContain('(L0H1)');
  });

  it('has one navigator: the sink map, or the maps of all heads if there are few', () => {
    const room = exploreRoom({ shown: ['hub:a/b'] }, []);
    const navigators = () => room.all('.rail .figure').map(({ dataset }) => dataset.view);
    expect(navigators()).toEqual(['sinks']);
    room.know({ 'hub:a/b': { frame: softmax({ subject: 'hub:a/b' }) } });
    expect(navigators()).toEqual(['heads']);
    room.state.value = { ...room.state.value, shown: ['hub:c/d'] };
    expect(navigators()).toEqual(['sinks']);
  });

  it('has an element order that follows the window, so that Tab reaches what a choice shows', () => {
    const orderOf = ({ root }: ReturnType<typeof exploreRoom>) =>
      [...root.children].map((child) => child.className.split(' ')[0]);
    const wideRoom = exploreRoom();
    expect(orderOf(wideRoom)).toEqual(['bar', 'rail', 'middle', 'inspector']);
    isScreenWide = false;
    for (const listener of mediaListeners) listener();
    expect(orderOf(wideRoom)).toEqual(['bar', 'middle', 'inspector', 'rail']);
    expect(orderOf(exploreRoom())).toEqual(['bar', 'middle', 'inspector', 'rail']);
    expect(mediaListeners.size).toBe(2);
    wideRoom.scope.end();
    expect([mediaListeners.size, viewsOf(wideRoom)]).toEqual([1, []]);
  });

  it('requests the unedited run for a view that compares with it, before the view can be drawn', () => {
    const edits = [{ kind: 'silence', layer: 1, head: 0 }] as never;
    const subject = 'softmax~silence(1,0)';
    const room = exploreRoom({ shown: [subject], view: 'change' }, [softmax({ subject, edits })]);
    expect(room.asked().subjects).toEqual([subject, 'softmax']);
    expect(room.asked().reads).toContain('loss_at');
    expect(viewsOf(room)).toEqual(['heads', 'attention']);
  });

  it('has six questions; the selected one shows its tabs and its figure', () => {
    const room = exploreRoom();
    const questions = () =>
      room.all('.ask').map((question) => question.firstChild!.parentElement!.textContent!.trim());
    const selectedQuestion = () => room.text('.asks.selected .ask');
    const tabs = () => room.texts('.asks .tabs button');
    const stageViews = () =>
      room
        .all('.stage .figure')
        .map(
          ({ dataset, classList }) =>
            `${dataset.view}${classList.contains('main') ? ' (main)' : ''}`,
        );
    for (const [i, question] of QUESTIONS.entries()) expect(questions()[i]).toContain(question);
    expect(questions()).toHaveLength(6);
    expect([selectedQuestion(), tabs(), stageViews()]).toEqual([
      expect.stringContaining('Where does attention go?'),
      ['This head', 'All heads', 'Other tokens'],
      ['attention (main)'],
    ]);
    room.click('Other tokens');
    expect(room.state.value.view).toBe('scores');
    expect(stageViews()[0]).toBe('scores (main)');
    expect(stageViews()).toContain('likeness');
    room.click('What does the head write?');
    expect([room.state.value.view, room.pressed('.asks .tabs button')]).toEqual([
      'outputs',
      ['Output'],
    ]);
    room.click('Norms');
    expect(stageViews()).toEqual(['norms (main)', 'ratios', 'channels']);
    // Views of parts that a model lacks are not offered; row sums are offered only if rows need not sum to 1.
    room.click('Where does attention go?');
    expect(tabs()).not.toContain('Row sums');
    const sigmoidOperation = { ...frameOf().operation, normalizes: false };
    const otherRoom = exploreRoom({ at: 1 }, [
      softmax(),
      sigmoid({ operation: sigmoidOperation as never }),
    ]);
    expect(otherRoom.texts('.asks .tabs button')).toContain('Row sums');
    expect(room.texts('.research button')).toEqual(
      expect.arrayContaining(['Parts of the logit', 'Compression valley']),
    );
    for (const tab of ['Router', 'Gate', 'Unmasking'])
      expect(room.texts('.research button')).not.toContain(tab);
  });

  it('opens every view by its name, also those below another view or in a closed section', () => {
    const frameWith = (change: object) =>
      softmax({ architecture: { ...frameOf().architecture, ...change }, T: 8 } as never);
    const mask = { mask: { kind: 'bidirectional' } };
    const evict = [{ kind: 'evict', policy: 'window', budget: 2 }] as never;
    const image = { kinds: 'siiiiiii', rows: 1, cols: 7 };
    const withImage = (change: object) => ({ ...frameWith(mask), image, ...change }) as never;
    const frames: Record<string, Frame> = {
      bias: frameWith({ bias_key: {} }),
      gate: frameWith({ gate: {} }),
      router: frameWith({ E: 2 }),
      unmasking: frameWith(mask),
      masked: { ...frameWith(mask), maskToken: 7 } as never,
      cache: { ...frameWith({}), edits: evict },
      context: { ...frameWith({}), T: 17 },
      change: { ...frameWith({}), base: { ...frameWith({}) } } as never,
      patches: withImage({}),
    };
    for (const { name, needsSeveralSettings: isOfMany } of views) {
      if (isOfMany) continue;
      const choice = choiceOf(name, [frames[name] ?? frameWith({})]);
      expect({ name, first: choice.views[0]!.name }).toEqual({ name, first: name });
      expect(choice.tab.views.map((view) => view.name)).toContain(name);
    }
    // A view that the model lacks opens its question; an unknown name opens the first question.
    expect(choiceOf('bias', [frameWith({})])).toMatchObject({ question: { name: 'why' } });
    expect(choiceOf('change', [frameWith({})]).views[0]!.name).toBe('attention');
    expect(choiceOf('nonsense', [frameWith({})]).views[0]!.name).toBe('attention');
    for (const question of QUESTIONS_)
      for (const frame of [frameWith({}), frames.patches!])
        expect(tabsOf(question, [frame]).length).toBeLessThanOrEqual(4);
  });

  it('states the conditions once, and at other figures only those that differ', () => {
    const att = { att: tensor([2, 2, 3, 3], new Float32Array(36).fill(0.25)) };
    const room = exploreRoom({ view: 'sinks' }, [softmax({}, att)]);
    expect(room.text('.stage .main .stamp')).toMatch(
      /^MEASURED · ε = 0\.3 · T = 3 · .* · Softmax model$/,
    );
    const others = '.rail .stamp, .stage > :not(.main) .stamp';
    expect(room.all(others).length).toBeGreaterThan(1);
    for (const stamp of room.all(others))
      expect([stamp.hidden, stamp.textContent]).toEqual([true, '']);
    const spread = { alpha: new Float32Array(12), sink_ratio: new Float32Array(3) };
    const manyPrompts = exploreRoom({ view: 'sinks' }, [softmax({ sequences: 2, spread }, att)]);
    expect(manyPrompts.text('.stage .main .stamp')).toContain('mean of 2 prompts');
    expect(manyPrompts.text('.rail .stamp')).toBe('1 prompt');
    expect(manyPrompts.text('.rail .hint')).toMatchSnapshot();
  });

  it('offers what-ifs on request, but not in a recording', () => {
    const room = exploreRoom();
    expect(room.all('.hand')).toEqual([]);
    room.click('What if …?');
    expect(room.state.value.view).toBe('change');
    expect(room.texts('.hand a')[0]).toBe('Hide the first token “<s>”');
    expect(room.text('h1')).toMatchSnapshot();
    expect(viewsOf(room)).toEqual(['heads', 'attention']);
    const recording = { model: { id: 'x' }, prompts: {}, versions: {}, edits: [] } as never;
    expect(exploreRoom({ view: 'change' }, [softmax({ recording })]).all('.hand')).toEqual([]);
    const edits = [{ kind: 'silence', layer: 1, head: 0 }] as never;
    const change = { subject: 'softmax~silence(1,0)', edits, class: 'counterfactual' } as const;
    const editedFrame = softmax(change, { loss_at: tensor([3], [NaN, 2.5, 3.5]) });
    const shown = ['softmax~silence(1,0)'];
    const otherRoom = exploreRoom({ shown, view: 'change' }, [editedFrame, softmax()]);
    expect(viewsOf(otherRoom)).toEqual(['heads', 'change', 'attention']);
    expect(otherRoom.text('h1')).toMatchSnapshot();
    expect(otherRoom.texts('.about summary')).toEqual(['About this counterfactual']);
  });

  it('says what it waits for, or why there is nothing to show, and then shows its figures', async () => {
    const room = exploreRoom({}, []);
    expect([room.text('h1'), room.text('.lead')]).toEqual([
      'Explore',
      'Loading The softmax model …',
    ]);
    expect(room.root.className).toBe('awaited');
    expect(room.all('.chip, .hand, .about, .cell, .room-head .hint')).toEqual([]);
    room.know({ softmax: { error: 'softmax: expected a file, found none' } });
    expect([room.text('h1'), room.text('.lead')]).toEqual(['Explore', '']);
    expect(room.text('.trouble')).toMatchSnapshot();
    await vi.advanceTimersByTimeAsync(20);
    expect(room.root.className).toBe('');
    const lateRoom = exploreRoom({}, []);
    await vi.advanceTimersByTimeAsync(2999);
    expect(lateRoom.root.className).toBe('awaited');
    await vi.advanceTimersByTimeAsync(1);
    expect(lateRoom.root.className).toBe('awaited late');
    expect(room.root.className).toBe('');
  });

  it('omits what a link hides', () => {
    const { all } = exploreRoom({ hide: ['subjects', 'generate', 'text', 'numbers', 'hand'] });
    expect(all('.subject-list, .about, .generate, textarea, .numbers, .hand')).toEqual([]);
  });
});

describe('Training', () => {
  const timelines = async () => ({
    cards: [],
    steps: async () => [0, 40, 4000],
    preload: async () => {},
  });
  const zoo = { cards: choices.map((choice) => ({ ...choice, timeline: true })) };
  const trainingRoom = async (
    change: Partial<State> = {},
    frames = [softmax(), sigmoid({}, { sink_ratio: tensor([3], [0, 0, 0]) })],
  ) => {
    const room = roomOf(training, createPage(change, frames, { zoo, timelines }));
    await vi.advanceTimersByTimeAsync(0);
    return room;
  };

  const early = (id: string) => {
    const alpha = tensor([2, 2, 3], [0.1, 0, 0, 0.1, 0, 0, 0.2, 0, 0, 0.1, 0, 0]);
    const step = { step: 0, of: 4000 };
    const model = { id: `${id}@0`, title: `The ${id} model`, source: 'zoo', step };
    const sink_ratio = tensor([3], [0, 0, 0]);
    const att = tensor([3, 3], [0.1, 0, 0, 0.1, 0.9, 0, 0.1, 0.1, 0.1]);
    const own = { ...head, tensors: { att } };
    return softmax({ subject: `${id}@0`, model, head: own } as never, { alpha, sink_ratio });
  };

  /**
   * A frame of a checkpoint of which a share of the four heads has a sink: first L1H0, which the fixture's map is of, then
   * the others from the first on.
   */
  const at = (subject: string, share: number, tensors: Frame['tensors'] = {}) => {
    const [id = '', step] = subject.split('@');
    const model = {
      ...{
        id: subject,
        title: `${capitalize(id)} model${step ? ` at step ${step}` : ''}`,
        source: 'zoo',
      },
      ...(step ? { step: { step: Number(step), of: 4000 } } : {}),
    };
    const operation = { ...softmax().operation, name: id };
    const order = [1, 2, 0, 3];
    const firsts = order.map((place) => (place < 4 * share ? 0.9 : 0.1) - place / 1000);
    const alpha = tensor(
      [2, 2, 3],
      firsts.flatMap((first) => [first, 0, 0]),
    );
    const given = firsts[2]!;
    const att = tensor([3, 3], [given, 0, 0, given, 1 - given, 0, given, 0, 1 - given]);
    const measured = { alpha, alpha_raw: alpha, sink_ratio: tensor([3], [share, 0, 0]) };
    const own = { subject, model, operation, head: { ...head, tensors: { att } } };
    return softmax(own as never, { ...measured, ...tensors });
  };
  const course = (id: string, ...shares: number[]) =>
    ['@0', '@40', ''].map((step, i) => at(`${id}${step}`, shares[i]!));

  const mapsOf = (room: Awaited<ReturnType<typeof trainingRoom>>) =>
    room.texts('.view-attention .cell-head');

  it('follows the head that is strongest in the end, with its map before training in a corner', async () => {
    const room = await trainingRoom();
    expect(room.asked()).toMatchObject({ ahead: ['softmax@0', 'sigmoid@0'] });
    expect(room.asked().subjects).toEqual(['softmax', 'sigmoid', 'softmax@0', 'sigmoid@0']);
    const followed = { layer: 1, head: 0 };
    expect(room.asked().heads).toMatchObject({ 'softmax@0': followed, 'sigmoid@0': followed });
    expect(mapsOf(room)).toMatchSnapshot();
    expect(room.texts('h1, .lead, .finding')).toMatchSnapshot();
    room.click('Other models');
    expect(room.calls.pickModels).toHaveBeenCalled();
    room.know([...course('softmax', 0, 0.25, 0.5), ...course('sigmoid', 0, 0, 0)]);
    expect(mapsOf(room)).toMatchSnapshot();
    const places = () =>
      room
        .all('.maps .cell')
        .map(({ style, className }) => `${style.getPropertyValue('--at')} ${className}`);
    expect(places()).toEqual(['1 cell shown', '1 cell before', '2 cell shown', '2 cell before']);
    const subjects = () => room.all('.maps .cell').map(({ dataset }) => dataset.subject);
    // At step 0 the map is not repeated in its corner.
    room.state.value = { ...room.state.value, shown: ['softmax@40', 'sigmoid@0'] };
    expect(subjects()).toEqual(['softmax@40', 'softmax@0', 'sigmoid@0']);
    // Another text: what was drawn stays, faint, until it is measured on the new one.
    room.know({});
    room.state.value = { ...room.state.value, shown: ['softmax'], prompt: 'Another.' };
    room.know([at('softmax', 0.5)]);
    expect([subjects(), room.all('.maps .cell.stale').length]).toEqual([
      ['softmax', 'softmax@0'],
      1,
    ]);
  });

  it('says what the first token gets before training', async () => {
    const att = tensor([3, 3], [1, 0, 0, 0.5, 0.5, 0, 0.51, 0.25, 0.24]);
    const frame = { ...at('softmax@0', 0), head: { ...head, tensors: { att } } };
    const room = await trainingRoom({ shown: ['softmax'] }, [frame, at('softmax', 0.5)]);
    expect(mapsIn(room.root).map(({ data }) => data.remark?.text)[1]).toBe('at step 0: 67% on <s>');
    // The few large cells of a short text leave it no room.
    const short = [frame, at('softmax', 0.5)].map((one) => ({ ...one, eps: 0.01 }));
    const shortRoom = await trainingRoom({ shown: ['softmax'] }, short);
    expect(mapsIn(shortRoom.root)).toHaveLength(1);
  });

  it('writes what each model writes then, once its fold is open', async () => {
    const soft = course('softmax', 0, 0.25, 0.5);
    const writes = ['TheThe', '', '\n "They is\u0001 the\uFFFD bir'];
    const written = soft.map((frame, i) => ({ ...frame, writes: writes[i]! }));
    const room = await trainingRoom({}, [...written, ...course('sigmoid', 0, 0, 0)]);
    expect(room.asked().writes).toBeUndefined();
    const fold = room.all<HTMLDetailsElement>('.more')[0]!;
    fold.open = true;
    fold.dispatchEvent(new Event('toggle'));
    expect(room.asked().writes).toBe(12);
    expect(room.texts('.writing')).toEqual(['Softmax after training writes next: "They is …']);
    room.state.value = { ...room.state.value, shown: ['softmax@0'] };
    expect(room.texts('.writing')).toEqual(['Softmax before training writes next: TheThe …']);
  });

  it('embeds the chosen step', async () => {
    const room = await trainingRoom({}, course('softmax', 0, 0, 0.5));
    room.all('.view-attention .how .code')[0]!.click();
    expect(room.calls.embed.mock.lastCall![2]).toMatchObject({ shown: ['softmax', 'sigmoid'] });
  });

  it('says why a softmax head looks at the first token, where it does', async () => {
    const lead = async (frames: Frame[]) => (await trainingRoom({}, frames)).text('.lead');
    const [soft, none] = [at('softmax', 0.5), at('sigmoid', 0)];
    expect(await lead([soft, none])).toMatchSnapshot();
    expect(await lead([at('softmax', 0), none])).toBe(sinkDefinition(soft));
    const architecture = (change: object, frame = soft) => ({
      ...frame,
      architecture: { ...frame.architecture, ...change },
    });
    // A model with an extra key has another place for what it need not give to tokens.
    const keyed = at('softmax', 0, { sink_ratio_bias: tensor([1], [0.75]) });
    const withKey = architecture({ bias_key: 'head' }, keyed) as never;
    expect(await lead([withKey, none])).toBe(
      'The softmax model has an extra slot ∗ besides the tokens: 3 of the 4 heads give it over 30%.',
    );
    expect(await lead([architecture({ bias_key: 'head' }) as never, none])).toBe(
      sinkDefinition(soft),
    );
  });

  it('plays once by itself, outside the address, until the end or a press', async () => {
    isScreenWide = false;
    const frames = [...course('softmax', 0, 0.5, 0.5), ...course('sigmoid', 0, 0, 0)];
    const linked = await trainingRoom({ shown: ['softmax@40', 'sigmoid@40'] }, frames);
    expect(linked.text('.walk-play')).toMatch(/Play/);
    linked.scope.end();
    const room = await trainingRoom({}, frames);
    const steps = () => [room.text('.range span'), room.state.value.shown.join()];
    expect(steps()).toEqual(['step 0 of 4,000', 'softmax,sigmoid']);
    expect(room.asked().ahead).toEqual(['softmax@40', 'sigmoid@40']);
    expect(room.all('[role=status]')[0]!.getAttribute('aria-live')).toBe('off');
    await vi.advanceTimersByTimeAsync(450);
    expect(steps()).toEqual(['step 40 of 4,000', 'softmax,sigmoid']);
    // It stays longer where a followed head gets its sink. Another text goes into the play.
    await vi.advanceTimersByTimeAsync(1900);
    expect(steps()[0]).toBe('step 40 of 4,000');
    const field = room.all<HTMLTextAreaElement>('textarea')[0]!;
    for (const kind of ['pointerdown', 'keydown'])
      field.dispatchEvent(new Event(kind, { bubbles: true }));
    field.value = 'Another.';
    field.dispatchEvent(new Event('input'));
    expect(room.state.value.prompt).toBe('Another.');
    expect([room.text('.walk-play'), room.state.value.shown.join()]).toEqual([
      expect.stringMatching(/Pause/),
      'softmax,sigmoid',
    ]);
    // A link leaves the room with the trained models; another press makes the step the reader's.
    room.all('.next a')[0]!.dispatchEvent(new Event('pointerdown', { bubbles: true }));
    expect(room.text('.walk-play')).toMatch(/Pause/);
    room.all('h1')[0]!.dispatchEvent(new Event('pointerdown', { bubbles: true }));
    expect(steps()).toEqual(['step 40 of 4,000', 'softmax@40,sigmoid@40']);
    await vi.advanceTimersByTimeAsync(2000);
    expect(room.text('.walk-play')).toMatch(/Play/);
    room.scope.end();
    const again = await trainingRoom({}, frames);
    expect(again.text('.range span')).toBe('step 4,000 of 4,000');
  });

  it('writes into a map what the first column of its followed head gets', async () => {
    const remarks = async (frame: Frame) => {
      const room = await trainingRoom({ shown: ['softmax@40'] }, [frame, at('softmax', 0.5)]);
      return mapsIn(room.root).map(({ data }) => data.remark?.text ?? '');
    };
    expect(await remarks(at('softmax@40', 0))).toEqual(['◀ 10% on <s>']);
    expect(await remarks(at('softmax@40', 0.5))).toEqual(['◀ 90% on <s>: a sink']);
    // The map of another head, until that of the followed one is read.
    const other = { ...at('softmax@40', 0.5), head: { ...head, head: 1 } } as Frame;
    expect((await remarks(other))[0]).not.toMatch(/on <s>/);
  });

  it('shows one map of a model without checkpoints', async () => {
    const model = { id: 'hub:a/b', title: 'b', source: 'hub' };
    const frame = softmax({ subject: 'hub:a/b', title: 'b', model } as never);
    const room = await trainingRoom({ shown: ['hub:a/b'] }, [frame]);
    expect(mapsOf(room)).toMatchSnapshot();
    expect(room.all('.maps .cell')).toHaveLength(1);
    const pythia = 'hub:EleutherAI/pythia-14m@step1000';
    const checkpoint = softmax({ subject: pythia, model: { ...model, id: pythia } } as never);
    const visited = await trainingRoom({ shown: [pythia] }, [checkpoint]);
    expect(visited.text('[data-finding]')).toMatch(/^Here, at step 1,000, /);
    // All that is known of it are averages over other texts.
    expect([viewsOf(visited), visited.all('.averages[hidden]').length]).toEqual([
      ['training', 'attention'],
      0,
    ]);
    expect(visited.asked().ahead).toEqual([]);
  });

  it('says in the title when sinks appear, once each checkpoint is measured', async () => {
    const titleOf = async (...frames: Frame[][]) => {
      const shown = frames.map((own) => own.at(-1)!.subject);
      const page = createPage({ shown }, frames.flat(), { zoo, timelines });
      const room = roomOf(training, page);
      await vi.advanceTimersByTimeAsync(0);
      return room.text('h1');
    };
    const learned = course('softmax', 0, 0.25, 0.75);
    const never = course('sigmoid', 0, 0, 0);
    const titles = [
      await titleOf(learned, never),
      await titleOf(course('softmax', 0, 0.5, 0.5)),
      await titleOf(course('softmax', 0, 0, 0), course('sigmoid', 0, 0, 0.5)),
      await titleOf(learned, course('sigmoid', 0, 0, 0.25)),
      await titleOf(never, course('softmax', 0, 0, 0)),
      // A sink before training, one that goes, a checkpoint that is not measured, and a short text.
      await titleOf(course('softmax', 0.25, 0.5, 0.5)),
      await titleOf(course('softmax', 0, 0.5, 0)),
      await titleOf(learned.slice(1), never),
      await titleOf(learned.map((frame) => ({ ...frame, eps: 0.01 }))),
      await titleOf(learned, course('sigmoid', 0.25, 0, 0)),
      await titleOf(learned, course('sigmoid', 0, 0.25, 0)),
    ];
    expect(titles).toMatchSnapshot();
  });

  it('says when sinks appear, and the marks when they do, for any numbers', async () => {
    // Three checkpoints with any share of heads with a sink; the followed head has one wherever any head has.
    const shares = [0, 0.25, 0.5];
    for (let n = 0; n < 27; n++) {
      const counts = Array.from({ length: 3 }, (_, i) => shares[Math.floor(n / 3 ** i) % 3]!);
      const [before, between, end] = counts;
      const answer = !counts.some(Boolean)
        ? 'never appear'
        : !end
          ? 'appear only for a time'
          : before
            ? 'appear even before training'
            : `appear by step ${between ? '40' : '4,000'}`;
      const room = await trainingRoom({ shown: ['softmax'] }, course('softmax', ...counts));
      expect(room.text('h1'), `${counts}`).toBe(`Sinks ${answer} with softmax`);
      const marks = chartsIn(room.all('.chart')[0]!)[0]!.marks!.map(({ text }) => text);
      const first = /by (step .*)/.exec(answer)?.[1];
      expect(marks, `${counts}`).toEqual(first ? [`first: ${first}`] : []);
    }
  });

  it('says how many tokens of a long text are not read', async () => {
    const note = async (dropped: number) =>
      (await trainingRoom({}, [{ ...at('softmax', 0.5), dropped }])).texts('[data-token-note]');
    expect(await note(7)).toEqual(['7 more tokens of this text not read (T = 3).']);
    expect(await note(0)).toEqual([]);
  });

  it('marks where the followed head has a sink, and whether it keeps it', async () => {
    const steps = [0, 10, 20, 40, 4000];
    const listed = async () => ({ ...(await timelines()), steps: async () => steps });
    // Some head has a sink from step 10 on.
    const marksOf = async (...attentions: number[]) => {
      const known = attentions.flatMap((first, i) => {
        const frame = at(`softmax${i < 4 ? `@${steps[i]}` : ''}`, Number(i > 0) / 4);
        const att = tensor([3, 3], [first, 0, 0, first, 0, 0, first, 0, 0]);
        return Number.isNaN(first) ? [] : { ...frame, head: { ...head, tensors: { att } } };
      });
      const page = createPage({ shown: ['softmax'] }, known, { zoo, timelines: listed });
      const room = roomOf(training, page);
      await vi.advanceTimersByTimeAsync(0);
      return chartsIn(room.all('.chart')[0]!)[0]!.marks!.map(({ text }) => text);
    };
    const own = async (...attentions: number[]) => (await marksOf(0.1, 0.2, ...attentions))[1];
    expect(await own(0.9, 0.9, 0.9)).toBe('mapped: from step 20');
    expect(await own(0.9, 0.2, 0.9)).toBe('mapped: first at step 20');
    expect(await own(0.9, NaN, 0.9)).toBe('mapped: by step 20');
    expect(await own(0.9, 0.9, 0.2)).toBeUndefined();
    expect(await marksOf(0.1, 0.9, 0.2, 0.9, 0.9)).toEqual(['first: step 10']);
  });

  it('measures each checkpoint once, one after the other, and draws what is counted', async () => {
    const trained = [at('softmax', 0.5), at('sigmoid', 0)];
    const room = await trainingRoom({}, trained);
    const chart = () => chartsIn(room.all('.chart')[0]!)[0]!;
    const values = () => chart().series.map(({ values: own }) => Array.from(own));
    expect(values()).toEqual([
      [NaN, NaN, 2],
      [NaN, NaN, 0],
    ]);
    expect(chart().yLabel).toMatchSnapshot();
    expect(room.asked().ahead).toEqual(['softmax@0', 'sigmoid@0']);
    // The earlier step comes first; each model has one; what failed is left out.
    room.know([...trained, at('softmax@0', 0)]);
    expect(room.asked().ahead).toEqual(['sigmoid@0', 'softmax@40']);
    const entries = Object.fromEntries(trained.map((frame) => [frame.subject, { frame }]));
    room.know({ ...entries, 'sigmoid@0': { error: 'no network' } });
    expect(room.asked().ahead).toEqual(['softmax@40', 'sigmoid@40']);
    // The map of another head than the strongest is read again, and only that.
    const other = { ...at('softmax@40', 0.5), head: { ...head, head: 1 } } as Frame;
    room.know([...trained, other, at('sigmoid@40', 0), at('sigmoid@0', 0)]);
    expect(room.asked().ahead).toEqual(['softmax@40']);
    room.know([...trained, at('softmax@40', 0.5)]);
    expect(room.asked().ahead).toEqual([]);
    expect(values()).toEqual([
      [0, 2, 2],
      [0, 0, 0],
    ]);
    expect(chart()).toMatchObject({ domain: [0, 4], named: true, cursor: 4000 });
    expect([chart().label, chart().marks]).toMatchSnapshot();
    chart().onChoose!(50);
    expect(room.state.value.shown).toEqual(['softmax@40', 'sigmoid@40']);
    // Heads are not counted on a short text.
    const short = at('softmax@40', 0.5, { alpha_uniform: tensor([3], [0.5, 0.2, 0.3]) });
    room.know([...trained, short, at('sigmoid@40', 0)]);
    expect(values()[0]).toEqual([0, NaN, 2]);
    expect(chart().marks).toEqual([]);
  });

  it('fetches no checkpoint ahead where the browser saves data', async () => {
    vi.stubGlobal('navigator', { connection: { saveData: true } });
    const room = await trainingRoom({ shown: ['softmax@40'] }, [
      softmax({ subject: 'softmax@40' }),
    ]);
    expect(room.asked().ahead).toEqual([]);
    vi.unstubAllGlobals();
  });

  it('draws the head that a link names', async () => {
    const room = await trainingRoom({ shown: ['softmax'] }, [softmax()]);
    const hints = () => room.texts('.cell:not(.absent) .hint');
    expect(hints()).toEqual(['strongest after training: layer 1, head 0']);
    room.state.value = { ...room.state.value, layer: 1, head: 1 };
    expect(hints()[0]).toBe('layer 1, head 1');
    expect(room.asked().head).toMatchObject({ layer: 1, head: 1 });
  });

  it('explains why the heads of a short text are not counted', async () => {
    const frames = [softmax({}, { alpha_uniform: tensor([3], [0.5, 0.2, 0.3]) }), sigmoid()];
    expect((await trainingRoom({}, frames)).text('[data-finding]')).toMatchSnapshot();
  });

  it('waits, and hides the caption while a frame is stale or failed', async () => {
    const room = await trainingRoom({}, []);
    expect(room.text('[data-finding]')).toBe('Loading the models …');
    room.know({ softmax: { frame: softmax() } });
    expect(room.text('[data-finding]')).toBe('Loading the models …');
    const stale = { frame: sigmoid(), isStale: true };
    room.know({ softmax: { frame: softmax(), isStale: true }, sigmoid: stale });
    expect(room.text('[data-finding]')).toBe('');
    // What is drawn stays while another checkpoint loads.
    room.know({ softmax: { frame: softmax() }, sigmoid: { frame: sigmoid() } });
    const said = room.text('[data-finding]');
    room.know({ softmax: { frame: softmax() } });
    expect([said.length > 9, room.text('[data-finding]')]).toEqual([true, said]);
    room.know({ softmax: { error: 'broken' }, sigmoid: { frame: sigmoid(), isStale: true } });
    expect([room.text('[data-finding]'), room.texts('.trouble p')]).toMatchSnapshot();
    room.know({ softmax: { error: 'broken' }, sigmoid: { frame: sigmoid() } });
    expect(room.text('[data-finding]')).toMatchSnapshot();
  });

  it('goes to the step that a reader selects in the curve', async () => {
    const { root, state, asked } = await trainingRoom();
    chartsIn(root)[0]!.onChoose!(70);
    expect(state.value.shown).toEqual(['softmax@40', 'sigmoid@40']);
    const subjects = ['softmax', 'sigmoid', 'softmax@40', 'sigmoid@40', 'softmax@0', 'sigmoid@0'];
    expect(asked().subjects).toEqual(subjects);
  });

  it('has the maps and the course, and controls that a link may hide', async () => {
    const room = await trainingRoom({}, [softmax(), sigmoid(), early('softmax')]);
    expect([viewsOf(room), room.all('.averages[hidden]').length]).toEqual([
      ['training', 'attention'],
      1,
    ]);
    expect(room.asked().reads).toEqual(expect.arrayContaining(['alpha', 'sink_ratio']));
    expect(room.all('textarea')[0]!.getAttribute('rows')).toBe('1');
    // With three models the reader chooses the one beside the first.
    expect(room.texts('.model-choice button')).toEqual([]);
    const shown = ['softmax', 'sigmoid', 'hub:a/b'];
    const three = await trainingRoom({ shown }, [softmax(), sigmoid(), early('softmax')]);
    expect(three.texts('.model-choice button')).toHaveLength(2);
    const bareRoom = await trainingRoom({ hide: ['subjects', 'text'] });
    expect(bareRoom.all('.add, textarea')).toEqual([]);
  });
});

describe('Learn', () => {
  const allLessons = lessons();
  const learnRoom = () => roomOf(learn, pageOf());
  const minutes = allLessons.reduce((sum, lesson) => sum + lesson.minutes, 0);
  beforeEach(() => localStorage.clear());

  it('lists the lessons with their minutes, and selects the first', () => {
    const { text, texts, all: find } = learnRoom();
    expect(text('h1')).toMatchSnapshot();
    expect(text('.lead')).toContain(`All of them take about ${minutes} minutes;`);
    expect(texts('.lessons h2')).toEqual(
      allLessons.map(({ number, title }) => `${number}. ${title}`),
    );
    expect(texts('.lessons .hint')).toEqual(
      allLessons.map((lesson) => `${lesson.minutes} minutes`),
    );
    const links = find<HTMLAnchorElement>('.lessons a, .lessons-go a').map(({ href }) => href);
    const slugs = [...allLessons.map(({ slug }) => slug), allLessons[0]!.slug, 'glossary'];
    expect(links.map((href) => /learn\/([^/]+)\/index\.html$/.exec(href)![1])).toEqual(slugs);
    expect(text('.lessons-go a')).toBe('Start with lesson 1');
  });

  it('marks read lessons, also on the next visit, and links to the next one', () => {
    markRead(allLessons[0]!.slug);
    const { text, texts, scope } = learnRoom();
    const readMarks = () => texts('.lessons .hint').map((hint) => hint!.endsWith(' · read'));
    expect(readMarks()).toEqual(allLessons.map((_, i) => i === 0));
    expect(text('.lessons-go a')).toBe('Continue with lesson 2');
    markRead(allLessons[2]!.slug);
    dispatchEvent(new Event('pageshow'));
    expect(readMarks()).toEqual(allLessons.map((_, i) => i === 0 || i === 2));
    for (const { slug } of allLessons) markRead(slug);
    dispatchEvent(new Event('pageshow'));
    expect(text('.lessons-go a')).toBe('Continue with lesson 1');
    scope.end();
    localStorage.clear();
    dispatchEvent(new Event('pageshow'));
    expect(readMarks()).toEqual(allLessons.map(() => true));
  });

  it('treats invalid or blocked storage as no lesson read', () => {
    for (const stored of ['{', '{"a":1}', '[1, null]']) {
      localStorage.setItem('sinkscope:lessons', stored);
      expect(learnRoom().text('.lessons-go a')).toBe('Start with lesson 1');
    }
  });
});

const cardOf = (id: string, more: object = {}) => ({
  ...{ id, title: `The ${id} model`, what: `What ${id} is.`, seed: 2, operation: 'softmax' },
  measured: { sink_1: 60.29, value_ratio: 0.5, loss: 3.411, eps: 0.3, T: 64, sequences: 100 },
  training: { steps: 4000, front: ['<s>'] },
  ...more,
});
const seeds = [
  { seed: 1, sink_1: 20, value_ratio: 0.25, loss: 3 },
  { seed: 3, sink_1: 40, value_ratio: 0.75, loss: 4 },
];

describe('About a model', () => {
  const aboutText = async (frame: Frame, ...cards: object[]) => {
    const reader = mount(aboutModel(frame, pageOf({}, [], { models: { zoo: { cards } } }).context));
    await vi.advanceTimersByTimeAsync(0);
    return reader;
  };
  const operationWith = (formula: string) => ({
    ...frameOf().operation,
    formula,
    source: 'A paper',
  });

  it('gives class, formula and the measurements of its card, with the seeds', async () => {
    // The zoo has no log of this model.
    const model = { id: 'own', title: 'Own', source: 'zoo' } as never;
    const frame = softmax({ model, operation: operationWith('e^x / Σ e^x') as never });
    const paper = { sink_1: 74.11, base: 18.18, where: 'section 5' };
    const about = await aboutText(frame, cardOf('own', { further_seeds: seeds, paper }));
    expect(about.text('summary')).toBe('About this model');
    expect(about.texts('p').slice(0, 4)).toMatchSnapshot();
    expect([about.all('code')[0]!.title, about.all('details')[0]!.className]).toEqual([
      'A paper',
      'more about measured',
    ]);
    expect(about.all('table.seeds')).toHaveLength(1);
  });

  it('states only what the card contains', async () => {
    const bareCard = { training: {}, measured: { ...cardOf('').measured, sink_bias: 12.34 } };
    const papers = [{ where: 'no sink' }, { sink_1: 5, where: 'table 2' }];
    const texts = await Promise.all(
      papers.map(
        async (paper) =>
          (await aboutText(softmax(), cardOf('softmax', { ...bareCard, paper }))).texts('p')[3],
      ),
    );
    const words =
      'Over 100 held-out sequences (T = 64, ε = 0.3, no start token): Sink₁ 60.3% (seed 2, the only one), on the bias key 12.3%, loss 3.41.';
    expect(texts).toEqual([
      `${words} Reported: no sink.`,
      `${words} Reported: Sink₁ 5.00%: table 2.`,
    ]);
    const maskedArchitecture = {
      ...frameOf().architecture,
      mask: { kind: 'bidirectional' },
    } as never;
    expect(
      (await aboutText(softmax({ architecture: maskedArchitecture }), cardOf('softmax'))).texts(
        'p',
      )[3],
    ).toMatch(/, loss at masked positions 3\.41\.$/);
    expect((await aboutText(softmax(), cardOf('other'))).all('p')).toHaveLength(2);
    expect(
      (await aboutText(softmax(), cardOf('softmax', { measured: {} }))).texts('p'),
    ).not.toContain('What softmax is.');
    // Card measurements describe the trained weights, not edited ones.
    const edit = { class: 'counterfactual', edits: [{ kind: 'silence' }] } as never;
    expect((await aboutText(softmax(edit), cardOf('softmax'))).texts('p').join()).not.toContain(
      'held-out',
    );
  });

  it('states what was stored about a checkpoint, and what a counterfactual replaced', async () => {
    const weights = {
      bits: 3.25,
      stored: { sink_1: 12.3, loss: 4.5 },
      measured: { sink_1: 12.5, loss: 4.25 },
    };
    const step = { step: 40, of: 4000, weights };
    const checkpointFrame = softmax({
      model: { id: 'softmax@40', title: 'x', source: 'zoo', step },
    } as never);
    const about = await aboutText(checkpointFrame, cardOf('softmax'));
    expect(about.texts('p').slice(2, 3)).toMatchSnapshot();
    expect(about.texts('p')).not.toContain('What softmax is.');
    const edits = [{ kind: 'operation', operation: 'power', parameters: { p: 2 } }] as never;
    const editedFrame = softmax({
      class: 'counterfactual',
      edits,
      operation: operationWith('x^p') as never,
    });
    const otherAbout = await aboutText(editedFrame, cardOf('softmax', { further_seeds: seeds }));
    expect([otherAbout.text('summary'), otherAbout.text('code'), otherAbout.all('table')]).toEqual([
      'About this counterfactual',
      'x^p, p = 2.00',
      [],
    ]);
    expect(otherAbout.text('p')).toMatch(/^COUNTERFACTUAL replaced at inference\./);
    const attention = { operation: 'softmax', parameters: { tau: 0.5 } };
    const ownArchitecture = { ...frameOf().architecture, attention } as never;
    expect(
      (
        await aboutText(
          softmax({ architecture: ownArchitecture, operation: operationWith('f') as never }),
        )
      ).text('code'),
    ).toBe('f, tau = 0.50');
    const silenceEdits = [{ kind: 'silence', layer: 0, head: 0 }] as never;
    const silencedFrame = softmax({
      architecture: ownArchitecture,
      edits: silenceEdits,
      operation: operationWith('f') as never,
    });
    expect((await aboutText(silencedFrame)).text('code')).toBe('f, tau = 0.50');
  });
});

describe('Compare', () => {
  const openModels = async () => ({
    source: 'Gu et al.',
    measure: 'ε = 0.3',
    kinds: { natural: 'natural text', random: 'random tokens' },
    models: [{ model: 'GPT2-XL', natural: 77, random: 66 }],
  });
  const zoo = { cards: [cardOf('softmax'), cardOf('sigmoid')], openModels };
  const norms = { hidden_ratio: tensor([3], [9, 4, 8]), key_ratio: tensor([2, 2], [1, 0.5, 2, 1]) };
  const ratios = {
    ...norms,
    value_ratio: tensor([2, 2], [1, 2, 0.25, 1]),
    entropy_mean: tensor([2, 2], [1, 2, 2, 3]),
  };
  const pair = () => [
    softmax({}, ratios),
    sigmoid({}, { ...ratios, sink_ratio: tensor([3], [0, 0, 0]) }),
  ];
  const compareRoom = async (
    change: Partial<State> = {},
    frames: readonly Frame[] = pair(),
    zooChange: object = {},
  ) => {
    const room = roomOf(compare, createPage(change, frames, { zoo: { ...zoo, ...zooChange } }));
    await vi.advanceTimersByTimeAsync(0);
    return room;
  };

  it('asks the question of its chapter and draws the maps of two models with their reason', async () => {
    const room = await compareRoom();
    expect(room.text('h1')).toBe('Must attention sum to 100% for sinks to form?');
    expect(room.texts('.lead, .reason')).toMatchSnapshot();
    expect(room.text('.verdict')).toMatchSnapshot();
    expect(viewsOf(room)[0]).toBe('attention');
    expect(cellsOf(room)).toMatchObject({ attention: 2 });
    expect(room.texts('.cell-head > :not(.badge)')).toMatchSnapshot();
    expect(room.all('.metrics')).toEqual([]);
    expect(room.asked().reads).not.toContain('key_ratio');
    const waitingRoom = await compareRoom({}, []);
    expect(waitingRoom.text('[data-finding]')).toBe('Measuring …');
    waitingRoom.know({ softmax: { error: 'broken' } });
    expect(waitingRoom.text('[data-finding]')).toBe('');
  });

  it('draws the strongest heads; with an extra slot those that leave something to tokens, in all cards alike', async () => {
    const withSlots = (...shares: number[]) => {
      const plain = sigmoid({}, { alpha_bias: tensor([2, 2], shares) });
      return { ...plain, architecture: { ...plain.architecture, bias_key: 'head' } as never };
    };
    const own = { alpha: tensor([2, 2, 3], [0.1, 0, 0, 0.7, 0, 0, 0.95, 0, 0, 0.2, 0, 0]) };
    const roomWith = (frame: Frame, change: Partial<State> = {}) =>
      compareRoom(change, [softmax({}, own), frame]);
    const headsAsked = async (...given: Parameters<typeof roomWith>) =>
      (await roomWith(...given)).asked().heads;
    const mixed = withSlots(0, 0.4, 0.6, 0.95);
    const softmaxHead = { layer: 0, head: 1 };
    expect(await headsAsked(mixed)).toEqual({
      softmax: softmaxHead,
      sigmoid: { layer: 1, head: 0 },
    });
    expect(await headsAsked(withSlots(0.98, 0.96, 0.93, 1))).toEqual({
      softmax: softmaxHead,
      sigmoid: { layer: 1, head: 0 },
    });
    const named = { layer: 0, head: 0 };
    expect(await headsAsked(mixed, named)).toEqual({ softmax: named, sigmoid: named });
    expect(await headsAsked(sigmoid({}, ratios))).toEqual({});
    // The words above the maps explain the choice; happy-dom has no popovers.
    Object.assign(HTMLElement.prototype, { showPopover: () => {}, hidePopover: () => {} });
    const noteOf = async (frame: Frame) => {
      const word = (await roomWith(frame)).all('.map-legend .term')[0]!;
      word.click();
      return `${word.textContent}: ${document.querySelector('.note')!.textContent}`;
    };
    expect([await noteOf(sigmoid({}, ratios)), await noteOf(mixed)]).toMatchSnapshot();
  });

  const RULES = ['softmax', 'sigmoid', 'sigmoid-norm', 'softpick', 'elu1', 'relu'];
  const ruleCards = () => RULES.map((id) => cardOf(id));
  const framesOfRules = (...ids: readonly string[]) =>
    ids.map((subject) => (subject === 'softmax' ? softmax : sigmoid)({ subject }, ratios));

  const names = (room: Awaited<ReturnType<typeof compareRoom>>) =>
    room.texts('.model b:first-child');

  it('lists every model of the chapter; the others are measured after the first two, one by one', async () => {
    const room = await compareRoom({}, [], { cards: ruleCards() });
    const askedFor = () => room.asked().subjects;
    expect(names(room)).toEqual([
      'softmax',
      'normalized sigmoid',
      'sigmoid',
      'softpick',
      'ELU+1',
      'ReLU',
    ]);
    expect(askedFor()).toEqual(['softmax', 'sigmoid']);
    room.know(framesOfRules('softmax', 'sigmoid'));
    expect(askedFor()).toEqual(RULES.slice(0, 3));
    expect(room.asked().ahead).toEqual(['sigmoid-norm']);
    expect(room.texts('.model').slice(0, 3)).toMatchSnapshot();
    expect(room.text('[data-finding]')).toBe('Measuring …');
    room.know(framesOfRules(...RULES));
    expect(askedFor()).toEqual(RULES);
    const amounts = () =>
      room.all('.model .amount').map((bar) => bar.style.getPropertyValue('--share'));
    expect(amounts()).toEqual(Array(6).fill('0.5'));
    expect(room.texts('h1, .lead, .models h2, .columns')).toMatchSnapshot();
    // Another text: all models are measured again in this order.
    room.know(
      Object.fromEntries(
        framesOfRules(...RULES).map((frame) => [frame.subject, { frame, isStale: true }]),
      ),
    );
    expect([askedFor(), room.all('.model.stale').length]).toEqual([RULES, 6]);
    expect([amounts(), room.texts('.model .count').join('')]).toEqual([[], '']);
    expect(room.text('[data-finding]')).toBe('Measuring …');
    const hidden = await compareRoom({ hide: ['subjects'] }, framesOfRules(...RULES.slice(0, 2)));
    expect([hidden.asked().subjects, hidden.all('.model')]).toEqual([RULES.slice(0, 2), []]);
  });

  it('says behind “How sure?” how well the shown models predict, and what their trained runs have', async () => {
    const seeds = (...sinks: readonly number[]) => ({
      measured: { sink_1: 60, loss: 3 },
      further_seeds: sinks.map((sink_1) => ({ sink_1, loss: 3 })),
    });
    const cards = [
      cardOf('softmax', seeds(25, 100)),
      cardOf('sigmoid', { measured: { sink_1: 0, loss: 3.1 } }),
    ];
    const room = await compareRoom({}, pair(), { cards });
    expect(room.texts('.panels .hint')).toMatchSnapshot();
  });

  it('says how many heads give an extra slot as much, below those with a sink', async () => {
    const architecture = { ...sigmoid().architecture, bias_key: 'head' } as never;
    const countsOf = async (share: number, slots: number) => {
      const ratios_ = {
        sink_ratio: tensor([3], [share, 0, 0]),
        sink_ratio_bias: tensor([1], [slots]),
      };
      const frames = [
        softmax({}, ratios),
        { ...sigmoid({ subject: 'key-bias' }, ratios_), architecture },
      ];
      const room = await compareRoom({ shown: ['softmax', 'key-bias'] }, frames);
      const row = room.all('.model').find(({ dataset }) => dataset.subject === 'key-bias')!;
      const wordsOf = (selector: string) =>
        [...row.querySelectorAll(selector)].map(({ textContent }) => textContent);
      const places = wordsOf('.place');
      return wordsOf('.count').map((count, i) => `${places[i]}: ${count}`);
    };
    expect([await countsOf(0, 0.75), await countsOf(0.25, 0.75), await countsOf(0, 0)]).toEqual([
      ['<s>: 0/4', '∗: 3/4'],
      ['<s>: 1/4', '∗: 3/4'],
      ['<s>: 0/4', '∗: 0/4'],
    ]);
  });

  it('has a published model in the chapter on size alone, counted by the same threshold', async () => {
    const sizes = () => ['short', 'heads-8'].map((subject) => softmax({ subject }, ratios));
    const shown = ['short', 'heads-8'];
    const last = async (change: Partial<State>, frames: readonly Frame[]) =>
      (await compareRoom(change, frames)).texts('.model').at(-1)!;
    expect(await last({ shown }, sizes())).toMatch(/^SmolLM2-135M-Instruct \d+\/270$/);
    const other = sizes().map((frame) => ({ ...frame, eps: 0.2 }));
    for (const model of [await last({ shown, eps: 0.2 }, other), await last({}, pair())])
      expect(model).not.toMatch(/270/);
  });

  it('loads the others on a press where data are saved or one failed', async () => {
    const frames = framesOfRules('softmax', 'sigmoid');
    const room = await compareRoom({}, frames, { cards: ruleCards() });
    room.know({
      ...Object.fromEntries(frames.map((frame) => [frame.subject, { frame }])),
      'sigmoid-norm': { error: 'broken' },
    });
    const waiting = () => room.texts('.model .hint');
    expect(waiting()).toEqual(Array(4).fill('press to measure'));
    expect(room.asked().subjects).toEqual(RULES.slice(0, 3));
    room.click('normalized sigmoid');
    expect(room.queue.retry).toHaveBeenCalled();
    expect(room.state.value.shown).toEqual(['softmax', 'sigmoid-norm']);
    vi.stubGlobal('navigator', { ...navigator, connection: { saveData: true } });
    const savingRoom = await compareRoom({}, frames, { cards: ruleCards() });
    vi.unstubAllGlobals();
    expect(savingRoom.asked().subjects).toEqual(['softmax', 'sigmoid']);
    expect(savingRoom.texts('.model .hint')).toEqual(Array(4).fill('press to measure'));
    expect(savingRoom.text('[data-finding]')).toMatch(/^With softmax/);
  });

  it('shows a pressed model beside the baseline, marks both, and leads to the other chapters', async () => {
    const room = await compareRoom();
    const shown = () => room.state.value.shown.join();
    const current = () => room.texts('.chapters [aria-current]');
    const marked = () => room.all('.model.shown').map(({ dataset }) => dataset.subject);
    expect([current(), marked()]).toEqual([['Attention rule'], ['softmax', 'sigmoid']]);
    room.click('ELU+1');
    expect([shown(), marked()]).toEqual(['softmax,elu1', ['softmax', 'elu1']]);
    expect(room.texts('.model [aria-pressed="true"]').join()).toMatch(/^ELU\+1 /);
    expect(current()).toEqual(['Attention rule']);
    room.click('First token');
    expect([shown(), current()]).toEqual(['short,no-bos', ['First token']]);
    expect(room.text('h1')).toBe('Do sinks need texts that begin alike?');
    room.click('Other models');
    expect(room.calls.pickModels).toHaveBeenCalled();
    const several = await compareRoom({ shown: ['softmax', 'relu', 'elu1'], view: 'norms' });
    expect(several.all('.model.shown')).toHaveLength(3);
    const ownModels = { shown: ['softmax@40', 'sigmoid'] };
    const ownRoom = await compareRoom(ownModels, [softmax({ subject: 'softmax@40' }), sigmoid()]);
    expect(ownRoom.texts('.chapters [aria-current]')).toEqual(['Other models']);
    expect(ownRoom.text('h1')).toBe('What makes a sink?');
    expect(ownRoom.text('[data-finding]')).toMatchSnapshot();
    expect(ownRoom.all('.verdict')).toEqual([]);
    expect([ownRoom.all('.model').length, ownRoom.all('.model button')]).toEqual([2, []]);
    const alone = await compareRoom({ shown: ['softmax@40'] }, [
      softmax({ subject: 'softmax@40' }),
    ]);
    expect(alone.text('[data-finding]')).toMatchSnapshot();
  });

  it('opens the section that a link names, before the engine is loaded', () => {
    for (const change of [{ panel: 'reported' }, { columns: ['loss'] }] as const) {
      const page = createPage(change, pair(), { zoo });
      const engine = page.engine.value;
      page.engine.value = undefined;
      const room = roomOf(compare, page);
      page.engine.value = engine;
      expect(room.all('.metrics')).toHaveLength(1);
    }
  });

  it('explains each column heading in a tooltip once the explanations are loaded', async () => {
    const column = {
      ...{ name: 'open', label: 'openness', unit: 'share', shape: ['L', 'H'], arguments: [] },
      ...{ summary: true, averaged: true },
    };
    const describe_ = { operations: [], fields: [], edits: [], letters: {}, metrics: [column] };
    const texts = { ...describe_, metrics: [{ ...column, question: 'How open?' }] };
    const frames = [softmax({}, { ...ratios, open: tensor([2, 2], [1, 0, 0, 1]) })];
    const titleIn = async (explain: () => Promise<unknown>) => {
      const models = { describe: describe_, explain, zoo };
      const change = { shown: ['softmax'], columns: ['open'] };
      const room = roomOf(compare, createPage(change, frames, models));
      await vi.advanceTimersByTimeAsync(0);
      const headings = room.all('.numbers-of-all th button');
      return headings
        .find((heading) => heading.textContent!.includes('openness'))!
        .getAttribute('title');
    };
    expect(await titleIn(() => new Promise(() => {}))).toBe(null);
    expect(await titleIn(async () => texts)).toMatchSnapshot();
  });

  it('lists what differs below all numbers', async () => {
    const frameOfHeads = (H: number, name: string) =>
      softmax(
        { subject: name, title: name, architecture: { ...frameOf().architecture, D: H } } as never,
        ratios,
      );
    const training = (weight_decay: number) => ({ training: { steps: 4000, weight_decay } });
    const cards = [cardOf('a', training(1)), cardOf('b', training(2))];
    const roomOfFrames = (shown: string[], frames: Frame[]) =>
      compareRoom({ shown, panel: 'numbers' }, frames, { cards });
    const rowsOf = async (...frames: Frame[]) => {
      const room = await roomOfFrames(
        frames.map(({ subject }) => subject),
        frames,
      );
      return room.texts('.differs tbody tr');
    };
    expect(await rowsOf(frameOfHeads(8, 'a'), frameOfHeads(16, 'b'))).toEqual([
      'D 816',
      'training weight decay 12',
    ]);
    // A checkpoint has the steps of its training; a model outside the zoo has no training facts.
    expect(await rowsOf(frameOfHeads(8, 'a@40'), frameOfHeads(8, 'a'))).toEqual([
      'training steps 404,000',
    ]);
    expect(await rowsOf(frameOfHeads(8, 'a'), frameOfHeads(8, 'x'))).toEqual([]);
    const editedFrame = {
      ...frameOfHeads(8, 'b'),
      title: 'b + head silenced + x',
      edits: [{ kind: 'silence' }],
    } as never;
    expect(await rowsOf(frameOfHeads(8, 'x'), editedFrame)).toMatchSnapshot();
    expect(await rowsOf(frameOfHeads(8, 'a'))).toEqual([]);
  });

  it('has a table with its conditions and the values that papers report', async () => {
    const paper = { sink_1: 18, where: 'section 5' };
    const cards = [cardOf('softmax', { paper }), cardOf('sigmoid')];
    const room = await compareRoom({ panel: 'numbers' }, pair(), { cards });
    expect(room.text('.table-of-all caption')).toMatchSnapshot();
    const generated = pair().map((frame) => ({ ...frame, generated: 2 }));
    const generatedRoom = await compareRoom({ panel: 'numbers' }, generated, { cards });
    expect(generatedRoom.text('.table-of-all caption')).toMatchSnapshot();
    expect(room.all('tr.reported')).toEqual([]);
    room.click('In papers?');
    expect(room.state.value.panel).toBe('reported');
    const reportedTitles = () => room.texts('tr.reported th');
    expect(reportedTitles().map((title) => title!.replace(/REPORTED.*/, '').trim())).toEqual([
      'The softmax model’s counterpart',
      'GPT2-XL',
    ]);
    expect(room.texts('tr.reported').join()).toContain('77');
    room.state.value = { ...room.state.value, input: 'random' };
    expect(room.texts('tr.reported').join()).toContain('66');
    room.state.value = { ...room.state.value, input: 'heldout', T: 64 };
    expect(room.text('.table-of-all caption')).toMatchSnapshot();
    const staleEntry = {
      frame: softmax({ T: 4, tokens: Array(4).fill(frameOf().tokens[1]) }, ratios),
      isStale: true,
    };
    room.know({ softmax: staleEntry, sigmoid: { frame: pair()[1]! } });
    expect(room.text('.table-of-all caption')).toMatchSnapshot();
    const menu = room.all('.numbers-of-all .save')[0]!;
    expect(menu.hidden).toBe(false);
    room.know({ softmax: staleEntry });
    expect(menu.hidden).toBe(true);
    room.know(pair());
    room.state.value = { ...room.state.value, hide: ['save'] };
    expect(menu.hidden).toBe(true);
  });
});
