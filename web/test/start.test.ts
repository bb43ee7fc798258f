// @vitest-environment happy-dom
/** The room Start over frames with known numbers: its sentences and its requests. */
import { signal } from '@preact/signals-core';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { State } from '../src/ask/state';
import type { Frame } from '../src/frame';
import type { Context } from '../src/page/context';
import { failure } from '../src/page/messages';
import { build, leadSentence } from '../src/rooms/start';
import { PATIENCE, frameOf, tensor } from './fixture';
import { pageOf, roomOf } from './page';

type Extra = (frame: Frame) => { remark?: object; readRow?: number };
const figures = vi.hoisted(() => [] as { extra?: Extra }[]);
const updates = vi.hoisted(() => [] as string[]);
const entriesShown = vi.hoisted(() => [] as object[]);
const story = vi.hoisted(() => ({ made: vi.fn(), needs: vi.fn() }));
vi.mock('../src/rooms/story', () => ({
  createStory: (...parameters: unknown[]) => {
    story.made(...parameters);
    return story.needs;
  },
}));
vi.mock('../src/page/figure', () => ({
  Figure: class {
    root = document.createElement('section');
    constructor(_: unknown, __: unknown, ___: unknown, ____: unknown, options: { extra: Extra }) {
      figures.push(options);
    }
    update(parameters: { subject: string }[]) {
      updates.push(parameters.map(({ subject }) => subject).join());
      entriesShown.push(parameters);
    }
  },
}));

const rowSums = { row_mass: tensor([2, 2, 3], [0, 0, 0, 0, 0, 0, 1, 0.5, 0.75, 0, 0, 0]) };
const head = {
  layer: 1,
  head: 0,
  tensors: { att: tensor([3, 3], [1, 0, 0, 0.9, 0.1, 0, 0.8, 0.1, 0.1]) },
};
const softmax = () => frameOf({ head } as never, rowSums);
const sigmoid = () =>
  frameOf(
    {
      head,
      subject: 'sigmoid',
      title: 'Sigmoid model',
      model: { id: 'sigmoid', title: 'Sigmoid model', source: 'zoo' },
      operation: { name: 'sigmoid', label: 'sigmoid', normalizes: false, proxy: 'weights' },
    } as never,
    rowSums,
  );

/** Returns a card of the zoo with Sink₁ of the shipped weights and of further seeds. */
const createCard = (id: string, sink_1: number, ...others: number[]) => ({
  id,
  title: id,
  seed: 1,
  measured: { sink_1 },
  further_seeds: others.map((otherSink, i) => ({ seed: i + 2, sink_1: otherSink })),
});

function startRoom(
  change: Partial<State>,
  frames: readonly Frame[],
  cards = [createCard('softmax', 40, 50, 60), createCard('sigmoid', 0, 1.25)],
  more: Partial<Context> = {},
) {
  const page = pageOf(change, frames, {
    models: { zoo: { cards } },
    ...more,
  });
  const room = roomOf(build, page);
  return {
    ...room,
    work: page.queue.work,
    ask: page.queue.ask,
    extra: figures.findLast((figure) => figure.extra)!.extra!,
  };
}

const pair = () => [softmax(), sigmoid()];
const shown = ['softmax', 'sigmoid'];

/** Returns what the word opens that names the head of a side. happy-dom has no popovers. */
function headNote({ all }: ReturnType<typeof startRoom>, side: number): string {
  HTMLElement.prototype.showPopover = vi.fn();
  all(`.twin-${side} .term`)[0]!.click();
  return document.querySelector('.note')!.textContent!;
}

describe('the lead of Start', () => {
  it('says why, and each map reads one row; the rest is behind a word and More', () => {
    updates.length = 0;
    const room = startRoom({ shown }, pair());
    const { text, texts, root } = room;
    expect(text('.lead')).toMatchSnapshot();
    expect(updates).toContain('softmax,sigmoid');
    expect(texts('.twin, .start-how')).toMatchSnapshot();
    expect([0, 1].map((side) => headNote(room, side))).toMatchSnapshot();
    expect(text('.facts p')).toMatchSnapshot();
    expect(
      root.querySelectorAll('.facts p')[1]!.textContent!.replace(/\s+/g, ' '),
    ).toMatchSnapshot();
    expect(root.querySelectorAll('.start-tabs button')).toHaveLength(2);
    expect(root.classList).not.toContain('coming');
    expect(root.querySelector('.start-stage')!.classList).toContain('nesting');
  });

  it('reads the row that the reader presses, as a strip of 100%, at which a longer row is cut', () => {
    const long = {
      ...sigmoid(),
      head: { ...head, tensors: { att: tensor([3, 3], [0.1, 0, 0, 0.2, 0.3, 0, 0.5, 0.5, 1]) } },
    } as Frame;
    const { texts, all, set, extra } = startRoom({ shown }, [softmax(), long]);
    const parts = () =>
      all('.row-strip > [style]').map(
        (part) => /[\d.]+(?=%)/.exec(part.getAttribute('style')!)![0],
      );
    expect(texts('[data-row]')).toEqual([
      '“a” spends 90% on <s>',
      '“a” spends 20% on <s>, 50% in all',
    ]);
    expect(parts().map(Number)).toEqual([90, 10, 20, 30].map((n) => expect.closeTo(n, 3)));
    expect(extra(long).readRow).toBe(1);
    set({ query: 2, key: 0 });
    expect(texts('[data-row]')).toEqual([
      '“=1,"x"↵” spends 80% on <s>',
      '“=1,"x"↵” spends 50% on <s>, 200% in all',
    ]);
    expect(parts().map(Number)).toEqual([80, 20, 50, 50].map((n) => expect.closeTo(n, 3)));
    expect(texts('.row-strip > i')[1]).toBe('other tokens, cut at 100%');
    expect([softmax(), long].map((frame) => extra(frame).readRow)).toEqual([2, 2]);
    set({ query: 0 });
    expect(texts('[data-row]')[0]).toBe('“<s>” spends 100% on itself');
  });

  it('states the number of the highest head, also if no head attends much to the first token', () => {
    const headWith = (weights: number[]) => ({
      ...head,
      tensors: { att: tensor([3, 3], weights) },
    });
    const frame = frameOf(
      { ...sigmoid(), head: headWith([0.03, 0, 0, 0.01, 0.4, 0, 0.008, 0.5, 0.2]) } as never,
      { ...rowSums, alpha_raw: tensor([2, 2, 3], [0.01, 0, 0, 0, 0, 0, 0.016, 0, 0, 0.012, 0, 0]) },
    );
    const room = startRoom({ shown }, [softmax(), frame]);
    const { text, set, all } = room;
    expect(text('.lead')).toMatch(
      /^In this softmax head, almost .* which every token sees\. Sigmoid has no such rule\.$/,
    );
    expect(headNote(room, 1)).toMatchSnapshot();
    set({ normalize: 'yes' });
    expect(headNote(room, 1)).toBe(
      'Of 4 heads, L1H0 (layer 1, head 0) gives <s> most: 35% of its row sums.',
    );
    // The mean is of the same shares: those of the four heads' alpha on the first token.
    const shares = Array.from({ length: 4 }, (_, i) => frame.tensors.alpha!.data[3 * i]!);
    const mean = shares.reduce((a, b) => a + b, 0) / 4;
    expect(all('.facts p')[1]!.textContent).toContain(
      `The mean over all 4 heads is ${(100 * mean).toFixed(0)}%.`,
    );
  });

  it('calls no head the highest by a measure by which another is higher', () => {
    const alpha = tensor([2, 2, 3], [0.9, 0, 0, 0.1, 0, 0, 0.35, 0, 0, 0.1, 0, 0]);
    const alpha_raw = tensor([2, 2, 3], [0.01, 0, 0, 0, 0, 0, 0.016, 0, 0, 0.012, 0, 0]);
    const twin = sigmoid();
    const frame = { ...twin, tensors: { ...twin.tensors, alpha, alpha_raw } };
    const room = startRoom({ shown }, [softmax(), frame]);
    expect([room.text('.twin-1 .term'), headNote(room, 1)]).toEqual([
      'strongest head',
      expect.stringMatching(/^Of 4 heads, L1H0 \(layer 1, head 0\) gives <s> most: /),
    ]);
    room.set({ normalize: 'yes' });
    expect([room.text('.twin-1 .term'), headNote(room, 1)]).toEqual([
      'head L1H0',
      expect.stringMatching(/^Head L1H0 \(layer 1, head 0\) gives <s>/),
    ]);
  });

  it('says that the reader has chosen the head', () => {
    const room = startRoom({ shown, layer: 0, head: 1 }, pair());
    const { text } = room;
    expect(text('.twin-0 .term')).toBe('head L0H1');
    expect(headNote(room, 0)).toBe('Head L0H1 (layer 0, head 1) gives <s> 40% of its attention.');
    expect(text('.facts p')).toMatch(/head L0H1 \(layer 0, head 1, counted from 0\) is drawn\./);
  });

  it('compares the second model with the first, and claims nothing about a weaker sink', () => {
    const leadOf = (...kinds: ('all' | 'weak' | 'none')[]) =>
      leadSentence(
        pair(),
        kinds.map((kind) => ({ kind, at: head }) as never),
      ).replace(/^.*?\. /, '');
    const twinClause = 'In a sigmoid model trained alike';
    const explanation = leadOf('all', 'none');
    expect(explanation).toMatchSnapshot();
    const why = explanation.replace(' Sigmoid has no such rule.', '');
    // A weak column is no sink unless its mean is over the threshold.
    expect(leadOf('weak', 'weak')).toBe(`${twinClause}, it does, too.`);
    expect(leadOf('weak', 'none')).toBe(`${twinClause}, it does not.`);
    const [weak, none] = ['weak', 'none'].map((kind) => ({ kind, at: head, attention: 0.31 }));
    const frame = {
      ...softmax(),
      tensors: { ...softmax().tensors, alpha_uniform: tensor([3], [0.1]) },
    };
    expect(leadSentence([frame, sigmoid()], [weak, none] as never)).toMatch(
      /^In this softmax head, more .* Sigmoid has no such rule\.$/,
    );
    // The sentence gives no reason for an operation other than softmax, or for another pair of kinds.
    const sigmoidFrame = { ...softmax(), operation: { ...softmax().operation, normalizes: false } };
    const kinds = ['all', 'none'].map((kind) => ({ kind, at: head }) as never);
    expect(leadSentence([sigmoidFrame, sigmoid()], kinds)).toMatch(
      /, the start token\. In .*, they do not\.$/,
    );
    expect(leadOf('all', 'weak')).toBe(why);
    for (const otherKind of ['none', 'all'] as const)
      expect(leadOf('none', otherKind)).toMatchSnapshot();
  });

  it('waits for the second model, which is requested after the first', () => {
    const oneModel = startRoom({ shown }, [softmax()]);
    expect(oneModel.text('.twin-1')).toBe('Loading the second model …');
    expect(oneModel.text('.lead')).toMatch(
      /^In this softmax head, almost every token .* which every token sees\.$/,
    );
    expect(oneModel.ask.mock.lastCall![0].subjects).toEqual(shown);
    const noModel = startRoom({ shown }, []);
    expect(noModel.ask.mock.lastCall![0].subjects).toEqual(['softmax']);
    expect(noModel.root.classList).toContain('coming');
    expect(noModel.text('.lead')).toMatchSnapshot();
  });
});

describe('the saved picture of Start', () => {
  const saved = pair().map((frame) => ({ ...frame, isSaved: true }));
  /** A room whose page has saved frames. Its engine may not run yet. */
  const savedRoom = (change: Partial<State> = {}, frames: readonly Frame[] = []) => {
    const fetched = signal<Record<string, { done: number; total: number }>>({});
    const room = startRoom({ shown, ...change }, frames, undefined, {
      saved: () => saved,
      fetched,
    });
    return { ...room, fetched };
  };
  const line = ({ text }: ReturnType<typeof savedRoom>) => text('.start-saved');
  const words = ({ text }: ReturnType<typeof savedRoom>) =>
    ['h1', '.starts', '.lead', '.twin-0', '.twin-1', '.facts'].map(text);

  it('has the words of the live one, and says how much of its model has been fetched', () => {
    const room = savedRoom();
    const { fetched, entries, ask, root } = room;
    expect(words(room)).toEqual(words(savedRoom({}, pair())));
    expect(root.classList).not.toContain('coming');
    expect(line(room)).toBe('Recorded; the model is loading');
    // The page shows no other progress of these models.
    expect(ask.mock.lastCall![0]).toMatchObject({ subjects: ['softmax'], ahead: shown });
    fetched.value = { softmax: { done: 412_000, total: 907_280 } };
    expect(line(room)).toBe('Recorded; the model is loading: 412 kB of 907 kB');
    fetched.value = { softmax: { done: 9, total: 9 }, sigmoid: { done: 5000, total: 904_000 } };
    entries.value = new Map([['softmax', { frame: softmax() }]]);
    expect(line(room)).toBe('Sigmoid model: recorded; it is loading: 5 kB of 904 kB');
    expect(ask.mock.lastCall![0]).toMatchObject({ subjects: shown, ahead: ['sigmoid'] });
    entries.value = new Map(pair().map((frame) => [frame.subject, { frame }]));
    expect(root.querySelector('.start-saved')).toBeNull();
    expect(ask.mock.lastCall![0]).toMatchObject({ subjects: shown, ahead: [] });
  });

  it.each([
    [{ prompt: 'Another text.' }],
    [{ first: 'none' }],
    [{ layer: 1, head: 0 }],
    [{ eps: 0.2 }],
    [{ input: 'heldout' as const }],
    [{ shown: ['gated', 'softmax@100'] }],
  ])('is not shown to a link with %o', (change) => {
    const room = savedRoom(change);
    expect(room.root.querySelector('.start-saved')).toBeNull();
    expect(room.text('.lead')).toMatch(/^A small language model/);
  });

  it('stays as an old one while the reader types, until a model has answered', () => {
    const room = savedRoom();
    const before = words(room);
    entriesShown.length = 0;
    room.set({ prompt: 'A text that the reader types.' });
    expect(words(room)).toEqual(before);
    expect(entriesShown.at(-1)).toMatchObject([{ isStale: true }, { isStale: true }]);
    room.entries.value = new Map([['softmax', { frame: softmax() }]]);
    expect(room.text('.twin-1')).toBe('Loading the second model …');
    expect(room.root.querySelector('.start-saved')).toBeNull();
  });

  it('stays beside an error, and promises no model that cannot load', () => {
    const room = savedRoom();
    const before = words(room);
    failure.value = 'No engine.';
    expect(line(room)).toBe('Recorded; the model has not loaded.');
    failure.value = '';
    room.entries.value = new Map([['softmax', { error: 'no such file' }]]) as never;
    expect(room.text('.trouble')).toMatch(/Softmax model: no such file\. Try again/);
    expect([words(room), line(room)]).toEqual([before, 'Recorded; the model has not loaded.']);
    const entries = [
      ['softmax', { frame: softmax() }],
      ['sigmoid', { error: 'no such file' }],
    ];
    room.entries.value = new Map(entries as never);
    expect(line(room)).toBe('Sigmoid model: recorded; it has not loaded.');
    expect(words(room)).toEqual(before);
  });

  it('has the second model only on request where data are saved', () => {
    vi.stubGlobal('navigator', { connection: { saveData: true } });
    const room = savedRoom();
    expect(room.text('.twin-1')).toMatch(/^Load the second model/);
    room.root.querySelector<HTMLElement>('.twin-1 button')!.click();
    expect(words(room)).toEqual(words(savedRoom({}, pair())));
    vi.unstubAllGlobals();
  });
});

describe('Start without a start token', () => {
  const cards = [
    { ...createCard('softmax', 60), training: { front: ['<s>'] } },
    createCard('no-bos', 0.67),
  ].map((card, i) => ({ ...card, measured: { ...card.measured, sink_1_raw: i ? 0.67 : 60 } }));
  const even = [0.1, 0.1, 0.1];
  /** Head L1H0 attends to its own token; as often as `sinks` says, heads have a sink at the first token. */
  const without = (sinks = 0) =>
    frameOf(
      {
        ...{ first: [], T: 3, eps: 0.45 },
        tokens: frameOf().tokens.map((token) => ({ ...token, special: false })),
        head: { ...head, tensors: { att: tensor([3, 3], [1, 0, 0, 0.1, 0.9, 0, 0.1, 0.1, 0.8]) } },
      } as never,
      {
        alpha_uniform: tensor([3], even),
        sink_ratio: tensor([3], [sinks, 0, 0]),
        sink_ratio_raw: tensor([3], [sinks, 0, 0]),
      },
    );

  it('asks no question that its picture answers with no, and says why in the lead', () => {
    const { text } = startRoom({ shown: ['softmax'] }, [without()], cards as never);
    expect(text('h1')).toBe('Do language models always stare at the first token?');
    expect(text('.lead')).toMatchSnapshot();
    const some = startRoom({ shown: ['softmax'] }, [without(0.25)], cards as never);
    expect(some.text('[data-no-start]')).toMatch(/without it, only 1 of the 4 heads has a sink/);
    const none = startRoom({ shown }, pair());
    expect([none.text('h1'), none.all('[data-no-start]').length]).toEqual([
      'Why do language models stare at the first token?',
      0,
    ]);
  });
});

describe('the rest of Start', () => {
  it('shows at most two models, and tabs to switch between them', () => {
    const thirdFrame = { ...sigmoid(), subject: 'third' } as Frame;
    const subjects = ['softmax', 'sigmoid', 'third'];
    const { root, state } = startRoom({ shown: subjects, at: 2 }, [...pair(), thirdFrame]);
    expect(root.querySelectorAll('.twin')).toHaveLength(2);
    const tabs = [...root.querySelectorAll('.start-tabs button')];
    expect(tabs.map((tab) => [tab.textContent!.trim(), tab.getAttribute('aria-pressed')])).toEqual([
      ['softmax', 'false'],
      ['sigmoid', 'true'],
    ]);
    const stage = root.querySelector<HTMLElement>('.start-stage')!;
    expect(stage.dataset.at).toBe('1');
    state.value = { ...state.value, at: 0 };
    expect(stage.dataset.at).toBe('0');
    expect(
      startRoom({ shown: ['softmax'] }, [softmax()]).root.querySelector('.start-tabs button'),
    ).toBeNull();
  });

  it('states the conditions', () => {
    const { text, root } = startRoom({ shown }, pair());
    expect(text('.facts .lines')).toMatch(
      /^MEASURED · ε = 0\.3 .* Softmax model MEASURED · .* Sigmoid model$/,
    );
    expect(root.querySelector('.facts a')!.getAttribute('href')).toBe(
      '#{"room":"explore","why":0}',
    );
  });

  it('reports a model that failed, and waits no longer', () => {
    const { root, entries, text } = startRoom({ shown }, []);
    entries.value = new Map([['softmax', { error: 'no such file' }]]) as never;
    expect(root.classList).not.toContain('coming');
    expect(text('.trouble')).toMatch(/softmax: no such file\. Try again/);
    expect(root.querySelector('.twin .hint')).toBeNull();
  });

  it('names the model of a recording that read the text, and links back', () => {
    const recording = { model: { id: 'owner/name' }, prompts: {}, versions: {} };
    const model = { id: 'recording:x', title: 'X', source: 'recording' };
    const recordingRoom = (more: object = {}) =>
      startRoom({ shown: ['recording:x'] }, [
        { ...softmax(), subject: 'recording:x', recording, model, ...more } as never,
      ]);
    const { text, root } = recordingRoom();
    expect(text('.lead')).toMatch(
      /^owner\/name read this text, and the page shows what was recorded\. In this softmax head, almost every token/,
    );
    expect(root.querySelector('textarea')).toBeNull();
    expect(text('.recorded-text')).toBe('<s> a=1,"x"');
    expect(recordingRoom({ sequences: 9 }).text('.lead')).toMatchSnapshot();
    const pooledRoom = recordingRoom({ pooled: 2 });
    expect(pooledRoom.text('.lead')).toMatchSnapshot();
    expect(text('.lead')).not.toContain('the first of');
  });

  it('brings the map in the corner to the front when it is tapped', () => {
    const { root, context } = startRoom({ shown }, pair());
    const stage = root.querySelector('.start-stage')!;
    document.body.append(root);
    const grid = document.createElement('div');
    grid.innerHTML =
      '<div class="cell"></div><div class="cell" style="position: absolute"><p></p></div>';
    stage.append(grid);
    const listener = vi.fn();
    stage.querySelectorAll('.cell').forEach((cell) => cell.addEventListener('click', listener));
    const tap = (target: Element) =>
      target.dispatchEvent(new MouseEvent('click', { bubbles: true }));
    tap(grid.children[0]!);
    tap(stage);
    expect(context.set).not.toHaveBeenCalled();
    expect(listener).toHaveBeenCalledTimes(1);
    tap(grid.querySelector('p')!);
    expect(context.set).toHaveBeenCalledExactlyOnceWith({ at: 1 });
    expect(listener).toHaveBeenCalledTimes(1);
    root.remove();
  });

  it('gives a mean over prompts that begin differently to no token', () => {
    const ids = [
      [0, 5, 6],
      [1, 5, 6],
    ];
    const several = { ...softmax(), sequences: 2, ids };
    expect(headNote(startRoom({ shown: ['softmax'] }, [several]), 0)).toMatch(
      /gives the first token most: 90% of its attention on average over 2 prompts\.$/,
    );
  });

  it('says which numbers are means over prompts, and which are of the first prompt', () => {
    const several = pair().map((frame) => ({ ...frame, sequences: 5 }));
    const room = startRoom({ shown }, several);
    const { text, root } = room;
    expect(text('.lead')).toMatch(
      /^On the first prompt, in this softmax head, almost every token attends/,
    );
    const kinds = ['all', 'none'].map((kind) => ({ kind, at: head }) as never);
    expect(leadSentence(several, kinds)).toMatch(
      /^On the first prompt, in this softmax head, almost every token attends/,
    );
    expect(headNote(room, 0)).toMatch(/: 90% of its attention on average over 5 prompts\.$/);
    const [softmaxWords, sigmoidWords] = [...root.querySelectorAll('.facts p')].map((p) =>
      p.textContent!.replace(/\s+/g, ' '),
    );
    expect(softmaxWords).toMatch(
      /Each row sums to 100% on the first prompt; .* heads is 42% on average over 5 prompts\.$/,
    );
    expect(sigmoidWords).toMatch(
      /100% on average on the first prompt\. The mean over all 4 heads is 42% on average over 5 prompts\./,
    );
    const pooled = startRoom({ shown }, [{ ...several[0]!, pooled: 2 } as Frame]);
    expect(pooled.text('.lead')).toBe('');
    expect(pooled.text('.twin-0')).toMatch(/strongest head Of 4 heads, L1H0 .* over 5 prompts\.$/);
  });

  it('says what the models read if that is not the text in the field', () => {
    const noteOf = (change: Partial<Frame>) =>
      startRoom({ shown: ['softmax'] }, [{ ...softmax(), ...change }]).text('[data-input]');
    expect(noteOf({})).toBe('');
    expect(noteOf({ dropped: 166 })).toMatchSnapshot();
    const question = { ...softmax().question, input: 'heldout' as const };
    expect(noteOf({ question })).toMatchSnapshot();
    expect(noteOf({ question, sequences: 8 })).toMatch(/ The maps show the first of 8 prompts\.$/);
  });

  it('covers a text of one token, and a second model that is not a twin', () => {
    const singleToken = { ...softmax(), T: 1 } as Frame;
    expect(startRoom({ shown: ['softmax'] }, [singleToken]).text('.lead')).toMatch(
      /This text has a single token, which can only attend to itself: type more\.$/,
    );
    const otherFrame = {
      ...sigmoid(),
      subject: 'b',
      title: 'B at step 1,400',
      model: { id: 'b', title: 'B' },
    };
    const { text } = startRoom({ shown: ['softmax', 'b'] }, [softmax(), otherFrame as never]);
    expect(text('.lead')).toMatch(/ In B at step 1,400, they do, too\. Softmax makes/);
    expect(text('.twin-1')).toMatch(/^B at step 1,400 /);
    const untrained = { ...sigmoid(), model: { ...sigmoid().model, step: { step: 0, of: 4000 } } };
    expect(
      startRoom({ shown }, [softmax(), untrained as never]).text('.lead'),
      'a checkpoint is no twin of a trained model',
    ).not.toContain('trained alike');
    const namedRoom = startRoom({ shown: ['softmax'] }, [
      { ...softmax(), tokens: softmax().tokens.map((token) => ({ ...token, special: false })) },
    ]);
    expect(namedRoom.text('.lead')).toMatchSnapshot();
    const encoder = {
      ...softmax(),
      architecture: { ...softmax().architecture, mask: { kind: 'bidirectional' } },
    };
    const { root } = startRoom({ shown: ['softmax'] }, [encoder as never]);
    expect(root.querySelector('.start-stage')!.classList).not.toContain('nesting');
  });
});

describe('the story on Start', () => {
  /** Reports steps as the observer of the steps does. */
  let report: (steps: readonly Element[]) => void;
  const observed: Element[] = [];
  beforeEach(() => {
    observed.length = 0;
    story.made.mockClear();
    story.needs.mockReturnValue({ views: [], more: [], subjects: [], heads: {}, studies: [] });
    vi.stubGlobal(
      'IntersectionObserver',
      class {
        constructor(notify: (entries: object[]) => void) {
          report = (targets) => notify(targets.map((target) => ({ target, isIntersecting: true })));
        }
        observe = (element: Element) => observed.push(element);
        disconnect = vi.fn();
      },
    );
  });
  afterEach(() => vi.unstubAllGlobals());
  const waitForStory = () => vi.waitFor(() => expect(story.made).toHaveBeenCalledOnce(), PATIENCE);

  it('has six questions as headings with links, and is fetched when the reader scrolls to one', async () => {
    const { root, all } = startRoom({ shown }, pair());
    expect(
      all('h2').map((heading) => heading.textContent!.replace(/\s+/g, ' ').trim()),
    ).toMatchSnapshot();
    expect(all('.step-number').map((link) => link.getAttribute('href'))).toEqual(
      [1, 2, 3, 4, 5, 6].map((why) => `#{"why":${why}}`),
    );
    expect(observed).toEqual(all('.step'));
    await Promise.resolve();
    expect(story.made).not.toHaveBeenCalled();
    expect(all('.step.unread')).toHaveLength(6);
    report([observed[1]!]);
    await waitForStory();
    const [places, , { reachedSteps }] = story.made.mock.lastCall!;
    expect(places).toEqual(all('.step > .step-place'));
    expect([...reachedSteps.value]).toEqual([1]);
    report([observed[0]!, observed[1]!]);
    expect([...reachedSteps.value].sort()).toEqual([0, 1]);
    expect(story.made).toHaveBeenCalledOnce();
    expect(root.querySelectorAll('.step.unread')).toHaveLength(4);
  });

  it('waits for a text in every step where there is none', () => {
    const { all, root } = startRoom({ shown, prompt: '' }, []);
    expect(all('.step > .hint').map((hint) => hint.textContent)).toMatchSnapshot();
    expect(root.matches('.waiting:not(.failed)')).toBe(true);
  });

  it('is drawn ahead once the numbers are drawn and nothing runs', async () => {
    const { work } = startRoom({ shown }, pair());
    await new Promise((done) => setTimeout(done));
    expect(story.made).not.toHaveBeenCalled();
    work.value = undefined;
    await waitForStory();
    expect(story.made.mock.lastCall![2].isAhead.value).toBe(true);
  });

  it('is not drawn ahead while the browser saves data', async () => {
    vi.stubGlobal('navigator', { ...navigator, connection: { saveData: true } });
    const { work } = startRoom({ shown }, pair());
    work.value = undefined;
    await new Promise((done) => setTimeout(done));
    expect(story.made).not.toHaveBeenCalled();
  });

  it('loads the second model on a press, or when a step is reached, while the browser saves data', () => {
    vi.stubGlobal('navigator', { ...navigator, connection: { saveData: true } });
    const requested = (room: ReturnType<typeof startRoom>) => room.ask.mock.lastCall![0].subjects;
    const room = startRoom({ shown }, [softmax()]);
    expect(requested(room)).toEqual(['softmax']);
    room.click('Load the second model');
    expect(requested(room)).toEqual(shown);
    const reading = startRoom({ shown }, [softmax()]);
    report([observed.at(-6)!]);
    expect(requested(reading)).toEqual(shown);
  });

  it('requests what its steps need besides the first screen', async () => {
    const { ask } = startRoom({ shown }, pair());
    const study = { subject: 'softmax', question: {}, measures: ['loss_mean'] };
    const pinnedHeads = { 'softmax@0': { layer: 1, head: 0 } };
    story.needs.mockReturnValue({
      ...{ views: [{ reads: ['att'], headReads: ['qk_cos'] }], more: ['value_ratio'] },
      ...{ subjects: ['softmax@0'], heads: pinnedHeads, studies: [study] },
    });
    report([observed[0]!]);
    await waitForStory();
    await vi.waitFor(
      () =>
        expect(ask.mock.lastCall![0]).toMatchObject({
          subjects: ['softmax', 'sigmoid', 'softmax@0'],
          reads: expect.arrayContaining(['att', 'value_ratio']),
          headReads: expect.arrayContaining(['att', 'qk_cos']),
          heads: pinnedHeads,
          studies: [study],
        }),
      PATIENCE,
    );
  });

  it('scrolls into view on “Test it”, and by a link that names a step', async () => {
    const scrolledSteps: [string | undefined, object][] = [];
    vi.spyOn(HTMLElement.prototype, 'scrollIntoView').mockImplementation(function (
      this: HTMLElement,
      how,
    ) {
      scrolledSteps.push([this.dataset.step, how as object]);
    });
    const { click, set } = startRoom({ shown }, pair());
    click('Test it in 6 steps');
    expect(scrolledSteps).toEqual([['1', { behavior: 'smooth', block: 'start' }]]);
    expect(document.activeElement!.textContent).toMatch(/is it only this head/);
    const waitForScroll = () => vi.waitFor(() => expect(scrolledSteps).toHaveLength(1), PATIENCE);
    scrolledSteps.length = 0;
    set({ why: 4 });
    await waitForScroll();
    expect(scrolledSteps).toEqual([['4', { behavior: 'auto', block: 'start' }]]);
    scrolledSteps.length = 0;
    set({ layer: 0, head: 1 });
    set({ why: 0 });
    startRoom({ shown, why: 6 }, pair());
    await waitForScroll();
    expect(scrolledSteps).toEqual([['6', { behavior: 'auto', block: 'start' }]]);
  });
});
