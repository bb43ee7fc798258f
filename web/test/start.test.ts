// @vitest-environment happy-dom
/** The first room over frames whose numbers are known: what a reader reads of them, and what is asked. */
import { describe, expect, it, vi } from 'vitest';
import type { State } from '../src/ask/state';
import type { Frame } from '../src/frame';
import { Scope } from '../src/page/context';
import { build } from '../src/rooms/start';
import { frameOf, tensor } from './fixture';
import { pageOf, roomOf } from './page';

type Extra = (frame: Frame) => { rowBars?: number[]; colBars?: number[]; remark?: object };
const figures = vi.hoisted(() => [] as { extra?: Extra }[]);
const updates = vi.hoisted(() => [] as string[]);
const deletion = vi.hoisted(() => ({ start: vi.fn(), stop: vi.fn(), made: vi.fn() }));
vi.mock('../src/rooms/without_first', () => ({
  WithoutFirst: class {
    start = deletion.start;
    stop = deletion.stop;
    constructor() {
      deletion.made();
    }
  },
}));
vi.mock('../src/page/figure', () => ({
  Figure: class {
    root = document.createElement('section');
    constructor(_: unknown, __: unknown, ___: unknown, ____: unknown, options: { extra: Extra }) {
      figures.push(options);
    }
    update(all: { subject: string }[]) {
      updates.push(all.map(({ subject }) => subject).join());
    }
  },
}));

const more = {
  value_ratio: tensor([2, 2], [1, 1, 0.25, 1]),
  contribution_out_at: tensor([2, 2, 3], [0, 0, 0, 0, 0, 0, 0.125, 0, 0, 0, 0, 0]),
  row_mass: tensor([2, 2, 3], [0, 0, 0, 0, 0, 0, 1, 0.5, 0.75, 0, 0, 0]),
  value_norm: tensor([2, 2, 3], [9, 9, 9, 9, 9, 9, 1, 4, 2, 9, 9, 9]),
};
/** Of the head that is shown. */
const head = {
  layer: 1,
  head: 0,
  tensors: { att: tensor([3, 3], [1, 0, 0, 0.9, 0.1, 0, 0.8, 0.1, 0.1]) },
};
const softmax = () => frameOf({ head } as never, more);
const sigmoid = () =>
  frameOf(
    {
      head,
      subject: 'sigmoid',
      title: 'Sigmoid model',
      model: { id: 'sigmoid', title: 'Sigmoid model', source: 'zoo' },
      operation: { name: 'sigmoid', label: 'sigmoid', normalises: false, proxy: 'weights' },
    } as never,
    more,
  );

/** A card of the zoo: Sink₁ of the weights that ship, and of further seeds. */
const card = (id: string, sink_1: number, ...others: number[]) => ({
  id,
  title: id,
  seed: 1,
  measured: { sink_1 },
  preview: {
    file: 'q',
    bytes: 1,
    refinement: { file: 'r', bytes: 1 },
    measured: { sink_1: sink_1 - 1 },
  },
  further_seeds: others.map((one, i) => ({ seed: i + 2, sink_1: one })),
});

function room(
  change: Partial<State>,
  frames: readonly Frame[],
  losses?: readonly number[],
  cards = [card('softmax', 40, 50, 60), card('sigmoid', 0, 1.25)],
) {
  const studied = ({ subject }: { subject: string }) => {
    const value = losses?.[subject.includes('~silence') ? 1 : 0];
    return value === undefined
      ? undefined
      : { frame: frameOf({}, { loss_mean: tensor([1], [value]) }) };
  };
  const timelines = async () => ({ steps: async () => [0] });
  const page = pageOf(change, frames, {
    models: { zoo: { cards }, timelines },
    queue: { studied },
  });
  const made = roomOf(build, page);
  return {
    ...made,
    ask: page.queue.ask,
    extra: figures.findLast((one) => one.extra)!.extra!,
    links: () => made.all('.start-ask a').map((a) => a.getAttribute('href')),
  };
}

const both = () => [softmax(), sigmoid()];
const shown = ['softmax', 'sigmoid'];

describe('the first token', () => {
  it('is deleted from the first model’s text, until another text, model or step is looked at', async () => {
    const made = room({ shown }, both());
    const { click, set } = made;
    const after = async (change: Partial<State>) => {
      deletion.stop.mockClear();
      set(change);
      await vi.waitFor(() => Promise.resolve());
      return deletion.stop.mock.calls.length;
    };
    // Nothing was begun that could be stopped.
    expect(await after({ prompt: 'before' })).toBe(0);
    click('Delete the first token');
    await vi.waitFor(() => expect(deletion.start).toHaveBeenCalledTimes(1));
    expect(deletion.start.mock.lastCall![0].subject).toBe('softmax');
    // Another second model or another head changes no text that is written.
    expect(await after({ shown: ['softmax', 'relu'] })).toBe(0);
    expect(await after({ layer: 0, head: 1 })).toBe(0);
    expect(await after({ shown: ['relu', 'softmax'] })).toBe(1);
    expect(await after({ prompt: 'after' })).toBe(1);
    expect(await after({ why: 1 })).toBe(1);
    set({ why: 0, shown });
    click('Delete the first token');
    await vi.waitFor(() => expect(deletion.start).toHaveBeenCalledTimes(2));
    expect(deletion.made).toHaveBeenCalledTimes(1);
  });
});

describe('the first sentence', () => {
  it('has no number; each side has one, and the rest is behind More', () => {
    updates.length = 0;
    const { text, root } = room({ shown }, both());
    expect(text('.lead')).toBe(
      'Almost every token attends to the first one: <s>, a marker that begins every text and carries no meaning. In the same model trained with sigmoid instead of softmax, they do, too.',
    );
    expect(updates).toContain('softmax,sigmoid');
    expect(text('.twin-0')).toBe(
      'Softmax model This head gives <s> 90% of its attention; spread evenly over the tokens that each row can see, it would be 10%.',
    );
    expect(text('.twin-1')).toBe('Sigmoid model This head gives <s> a mean weight of 90%.');
    expect(text('.facts p')).toBe(
      'Softmax model: head L1H0 (layer 1, head 0, counted from 0) of 4, the one that gives the first token most. Its rows sum to 100%. The mean over all 4 heads is 42%.',
    );
    expect(root.querySelectorAll('.facts p')[1]!.textContent!.replace(/\s+/g, ' ')).toBe(
      'Sigmoid model: head L1H0 (layer 1, head 0, counted from 0) of 4, the one that gives the first token most. Its rows sum to 100% on average. As a share of its row sums the first token gets 90% in this head, 42% on average.',
    );
    expect(root.querySelectorAll('.start-tabs button')).toHaveLength(2);
    expect([...root.classList].filter((one) => /explaining|walking|coming/.test(one))).toEqual([]);
    expect(root.querySelector('.start-stage')!.classList).toContain('nesting');
  });

  it('bounds every head where the rows of none give the first token much', () => {
    const faint = (weights: number[]) => ({ ...head, tensors: { att: tensor([3, 3], weights) } });
    const frame = frameOf(
      { ...sigmoid(), head: faint([0.03, 0, 0, 0.01, 0.4, 0, 0.008, 0.5, 0.2]) } as never,
      { ...more, alpha_raw: tensor([2, 2, 3], [0.01, 0, 0, 0, 0, 0, 0.016, 0, 0, 0.012, 0, 0]) },
    );
    const { text, set } = room({ shown }, [softmax(), frame]);
    expect(text('.lead')).toMatch(
      /In the same model trained with sigmoid instead of softmax, they do not\.$/,
    );
    expect(text('.twin-1')).toBe(
      'Sigmoid model No head gives <s> more than 2%; this head gives it the most.',
    );
    // Shares of the row are another picture, with another sentence.
    set({ normalize: 'yes' });
    expect(text('.twin-1')).toMatch(/gives <s> 35% of its row sums; spread evenly/);
  });

  it('names a head that is chosen as such', () => {
    const { text } = room({ shown, layer: 0, head: 1 }, both());
    expect(text('.twin-0')).toMatch(/This head gives <s> 40% of its attention/);
    expect(text('.facts p')).toMatch(/head L0H1 \(layer 0, head 1, counted from 0\) is selected\./);
  });

  it('says “about” of a preview, and the same number without it of the exact weights', () => {
    const quick = { ...softmax(), model: { ...softmax().model, bits: 3.3 } };
    expect(room({ shown }, [quick]).text('.twin-0 span strong')).toBe('about 90%');
    expect(room({ shown }, [softmax()]).text('.twin-0 span strong')).toBe('90%');
  });

  it('waits for the second model, and asks for it after the first', () => {
    const one = room({ shown }, [softmax()]);
    expect(one.text('.twin-1')).toBe('Loading the second model …');
    expect(one.text('.lead')).toMatch(/^Almost every token .* no meaning\.$/);
    expect(one.ask.mock.lastCall![0].subjects).toEqual(shown);
    const none = room({ shown }, []);
    expect(none.ask.mock.lastCall![0].subjects).toEqual(['softmax']);
    expect(none.root.classList).toContain('coming');
    expect(none.text('.lead')).toBe('A small language model reads your text on this machine.');
  });
});

describe('the rest of the room', () => {
  it('has two models at most, and tabs between them', () => {
    const third = { ...sigmoid(), subject: 'third' } as Frame;
    const all = ['softmax', 'sigmoid', 'third'];
    const { root, state } = room({ shown: all, at: 2 }, [...both(), third]);
    expect(root.querySelectorAll('.twin')).toHaveLength(2);
    const tabs = [...root.querySelectorAll('.start-tabs button')];
    expect(tabs.map((one) => [one.textContent!.trim(), one.getAttribute('aria-pressed')])).toEqual([
      ['softmax', 'false'],
      ['sigmoid', 'true'],
    ]);
    const stage = root.querySelector<HTMLElement>('.start-stage')!;
    expect(stage.dataset.at).toBe('1');
    state.value = { ...state.value, at: 0 };
    expect(stage.dataset.at).toBe('0');
    expect(
      room({ shown: ['softmax'] }, [softmax()]).root.querySelector('.start-tabs button'),
    ).toBeNull();
  });

  it('offers the recording of a real model before the first step, where it ships', () => {
    const real = (change: Partial<State>) => {
      const links = room({ shown, ...change }, both()).root.querySelectorAll('.start-deleting a');
      return [...links].map((one) => one.getAttribute('href'));
    };
    const isShipped = SHIPPED.includes('smollm2-135m-instruct.safetensors');
    expect(real({})).toEqual(
      isShipped
        ? ['#{"shown":["recording:smollm2-135m-instruct.safetensors"],"at":0,"layer":-1,"head":-1}']
        : [],
    );
    expect(real({ why: 1 })).toEqual([]);
  });

  it('says the conditions, and which weights are a preview', () => {
    const { text, root } = room({ shown }, both());
    expect(text('.facts .lines')).toMatch(
      /^MEASURED · ε = 0\.3 .* Softmax model MEASURED · .* Sigmoid model$/,
    );
    expect(root.querySelector('.facts a')!.getAttribute('href')).toBe(
      '#{"room":"explore","why":0}',
    );
    const quick = softmax();
    const model = { ...quick.model, bits: 8 };
    expect(room({ shown }, [{ ...quick, model }]).text('.facts .lines')).toMatch(
      /8\.0 bits per weight · Softmax model|stored at 8\.0 bits per weight/,
    );
    expect(room({ shown }, [{ ...quick, model }]).text('.facts .lines')).toMatch(
      /over 100 passages its Sink₁ is 39%, of the exact weights 40%\)$/,
    );
    expect(text('.facts .lines')).not.toContain('preview');
  });

  it('says what a failed model lacks, and waits for nothing then', () => {
    const { root, entries, text } = room({ shown }, []);
    entries.value = new Map([['softmax', { error: 'no such file' }]]) as never;
    expect(root.classList).not.toContain('coming');
    expect(text('.trouble')).toMatch(/softmax: no such file\. Try again/);
    expect(root.querySelector('.twin .hint')).toBeNull();
  });

  it('of a recording says who read the text, and leads back', () => {
    const recording = { model: { id: 'owner/name' }, prompts: {}, versions: {} };
    const model = { id: 'recording:x', title: 'X', source: 'recording' };
    const recorded = (more: object = {}) =>
      room({ shown: ['recording:x'] }, [
        { ...softmax(), subject: 'recording:x', recording, model, ...more } as never,
      ]);
    const { text, root } = recorded();
    expect(text('.lead')).toMatch(
      /^owner\/name read this text, and the page shows what was recorded\. Almost every token/,
    );
    expect(root.querySelector('textarea')).toBeNull();
    expect(text('.recorded-text')).toBe('<s> a=1,"x"');
    expect(text('.start-deleting .links')).toBe('Back to the two small models');
    expect(text('.start-ask > a')).toMatch(/^Lesson 1/);
    expect(recorded({ sequences: 9 }).text('.lead')).toContain(
      'The shares below are means over 9 such texts.',
    );
    const pooled = recorded({ pooled: 2 });
    expect(pooled.text('.lead')).toContain(
      'Each row is a block of 2 tokens, and each cell the mean',
    );
    expect(text('.lead')).not.toContain('means over');
  });

  it('brings the map that is tapped in the corner to the front', () => {
    const { root, context } = room({ shown }, both());
    const stage = root.querySelector('.start-stage')!;
    document.body.append(root);
    const grid = document.createElement('div');
    grid.innerHTML =
      '<div class="cell"></div><div class="cell" style="position: absolute"><p></p></div>';
    stage.append(grid);
    const heard = vi.fn();
    stage.querySelectorAll('.cell').forEach((cell) => cell.addEventListener('click', heard));
    const tap = (on: Element) => on.dispatchEvent(new MouseEvent('click', { bubbles: true }));
    tap(grid.children[0]!);
    tap(stage);
    expect(context.set).not.toHaveBeenCalled();
    expect(heard).toHaveBeenCalledTimes(1);
    tap(grid.querySelector('p')!);
    expect(context.set).toHaveBeenCalledExactlyOnceWith({ at: 1 });
    // The map behind the tap chooses no cell of its own.
    expect(heard).toHaveBeenCalledTimes(1);
    root.remove();
  });

  it('has words for a text of one token, and for a second model that is no twin', () => {
    const one = { ...softmax(), T: 1 } as Frame;
    expect(room({ shown: ['softmax'] }, [one]).text('.lead')).toMatch(
      /This text has a single token, which can only attend to itself: type more\.$/,
    );
    const other = {
      ...sigmoid(),
      subject: 'b',
      title: 'B at step 1,400',
      model: { id: 'b', title: 'B' },
    };
    const { text } = room({ shown: ['softmax', 'b'] }, [softmax(), other as never]);
    expect(text('.lead')).toMatch(/In B, they do, too\.$/);
    const named = room({ shown: ['softmax'] }, [
      { ...softmax(), tokens: softmax().tokens.map((token) => ({ ...token, special: false })) },
    ]);
    expect(named.text('.lead')).toBe('Almost every token attends to the first one: “<s>”.');
    const both_ = {
      ...softmax(),
      architecture: { ...softmax().architecture, mask: { kind: 'bidirectional' } },
    };
    const { root } = room({ shown: ['softmax'] }, [both_ as never]);
    expect(root.querySelector('.start-stage')!.classList).not.toContain('nesting');
  });

  it('has the values of the heads that share them', () => {
    const architecture = { ...softmax().architecture, H: 2, G: 1 };
    const shared = {
      value_ratio: tensor([2, 1], [9, 0.5]),
      value_norm: tensor([2, 1, 3], [9, 9, 9, 1, 4, 2]),
      row_mass: more.row_mass,
    };
    const frame = frameOf({ head: { ...head, head: 1 }, architecture } as never, shared);
    const { text, extra } = room(
      { shown: ['softmax'], why: 3, layer: 1, head: 1 },
      [frame],
      [2, 2],
    );
    expect(text('.why p')).toMatch(/has 0\.50× the mean value norm\./);
    expect([...extra(frame).colBars!]).toEqual([0.25, 1, 0.5]);
    expect(extra(frame).rowBars).toBeUndefined();
    const own = frameOf({ head: { ...head, head: 1 } } as never, {
      value_norm: tensor([2, 2, 3], [9, 9, 9, 9, 9, 9, 9, 9, 9, 2, 8, 4]),
      value_ratio: tensor([2, 2], [9, 9, 9, 0.75]),
    });
    const each = room({ shown: ['softmax'], why: 3, layer: 1, head: 1 }, [own], [2, 2]);
    expect([...each.extra(own).colBars!]).toEqual([0.25, 1, 0.5]);
    expect(each.text('.why p')).toMatch(/has 0\.75× the mean value norm\./);
    const none = frameOf({ head } as never, { value_ratio: tensor([2, 2], [1, 1, NaN, 1]) });
    const silent = room({ shown: ['softmax'], why: 3 }, [none], [2, 2]);
    expect(silent.text('.why p')).toMatch(/the bars under the picture are value norms\. Ablating/);
    expect(silent.extra(none)).not.toHaveProperty('colBars');
    const lost = room({ shown: ['softmax'], why: 3 }, [softmax()], [2, NaN]);
    expect(lost.text('.late')).toBe('');
  });
});

describe('the four steps', () => {
  it('lead on, one after the other', () => {
    const begin = room({ shown }, both());
    expect([begin.text('.start-ask > a'), begin.text('.why')]).toEqual(['Why?', '']);
    expect(begin.links()[0]).toContain('"why":1');
    for (const why of [1, 2, 3]) {
      const { text, links, root } = room({ shown, why }, both());
      expect(text('.why h2')).toMatch(new RegExp(`^${why}\\. `));
      expect(text('.start-ask > a')).toBe('Next');
      expect(links()[0]).toContain(`"why":${why + 1}`);
      expect(links().some((link) => link?.includes('"why":0'))).toBe(true);
      expect(
        [...root.querySelectorAll('[aria-current="step"]')].map((one) => one.textContent![0]),
      ).toEqual([String(why)]);
      expect([root.classList.contains('explaining'), root.classList.contains('walking')]).toEqual([
        true,
        false,
      ]);
      expect(root.querySelector<HTMLElement>('.why-walk')!.hidden).toBe(true);
    }
    const last = room({ shown, why: 4 }, both());
    expect(last.text('.start-ask > a')).toMatch(/^Lesson 1: /);
    expect(last.text('.why p')).toMatch(
      /with 3 random seeds, 40%, 50% and 60% of the heads .*; in its sigmoid twin at most 1\.3%\. The first seed/,
    );
    const seeds = (...own: number[]) =>
      room({ shown, why: 4 }, both(), [], [card('softmax', 40, ...own), card('sigmoid', 0)]).text(
        '.why p',
      );
    expect(seeds(50)).toMatch(
      /with 2 random seeds, 40% and 50% of the heads .* more than 30%\. The first/,
    );
    expect(seeds()).not.toContain('random seeds');
    expect(last.text('.walk-line')).toMatch(
      /^Softmax model, after training: head L1H0 gives the first token 90% of its attention; uniform attention would give 10%\.$/,
    );
    expect(last.root.classList.contains('walking')).toBe(true);
    expect(last.root.querySelector<HTMLElement>('.why-walk')!.hidden).toBe(false);
  });

  it('1: the column is a sink by what uniform attention would give it', () => {
    const { text, extra } = room({ shown, why: 1 }, both());
    expect(text('.why p')).toMatch(
      /Uniform attention would give it 10%; head L1H0 gives it 90%\. This is called an/,
    );
    expect(extra(softmax()).remark).toBeDefined();
    const weak = room({ shown, why: 1, layer: 0, head: 0 }, both());
    expect(weak.text('.why p')).toMatch(
      /head L0H0 gives it 10%\. Where it gets far more than that, it is called/,
    );
  });

  it('2: rows must sum to 100% or not, and the bars are row sums', () => {
    const { text, extra } = room({ shown, why: 2 }, both());
    expect(text('.why p')).toMatch(
      /In a softmax model every row must sum to 100%.* somewhere, and it goes to .*In its twin a row may have any sum/,
    );
    expect([...extra(softmax()).rowBars!]).toEqual([1, 0.5, 0.75]);
    expect(extra(softmax())).toMatchObject({
      remark: undefined,
      isPlain: true,
      at: { layer: 1, head: 0 },
    });
    const free = room({ shown: ['sigmoid', 'softmax'], why: 2 }, both());
    expect(free.text('.why p')).toMatch(
      /In this model a row may have any sum: .* In the other model every row must/,
    );
  });

  it('3: what the head writes, by its values, its contribution, and its ablation', () => {
    const { text, extra, ask } = room({ shown, why: 3 }, both(), [2, 2.25]);
    expect(text('.why p')).toMatch(
      /has 0\.25× the mean value norm: it receives 90% of the attention but makes up 13% of what head L1H0 writes\./,
    );
    expect(text('.late')).toBe(
      'Ablating the head (its output set to 0) changes the loss by +0.250 nats per token: on this text the model uses what it writes.',
    );
    expect([...extra(softmax()).colBars!]).toEqual([0.25, 1, 0.5]);
    expect(
      ask.mock.lastCall![0].studies.map(({ subject }: { subject: string }) => subject),
    ).toEqual(['softmax', 'softmax~silence(1,0)']);
    const alone = room({ shown, why: 4 }, [
      softmax(),
      { ...sigmoid(), model: { ...sigmoid().model, id: 'b' } },
    ]);
    expect(alone.text('.why p')).not.toContain('in its sigmoid twin');
    const late = (losses?: number[]) => room({ shown, why: 3 }, both(), losses).text('.late');
    expect(late()).toBe('Ablating the head …');
    expect(late([2.5, 2])).toMatch(/by −0\.500 nats/);
    expect(late([1, 1])).toMatch(/by \+0\.000 nats per token: on this text the model barely uses/);
    expect(late([0, 0.0023])).toMatch(/by \+0\.0023 nats per token: on this text the model barely/);
    expect(late([0, 0.00023])).toMatch(/by \+0\.00023 nats/);
    expect(late([0, 1e-9])).toMatch(/by \+0\.0000000 nats/);
  });

  it('has a walk through the training in its fourth step alone, and a new one each time', () => {
    const { root, set } = room({ shown, why: 3 }, both());
    const walks = () => root.querySelector('.why-walk')!.children.length;
    expect(walks()).toBe(0);
    set({ why: 4 });
    const begun = walks();
    expect(begun).toBeGreaterThan(0);
    // The walk that is left neither draws nor plays on.
    const ends = vi.spyOn(Scope.prototype, 'end');
    set({ why: 3 });
    expect(ends).toHaveBeenCalledOnce();
    ends.mockRestore();
    expect(root.querySelector<HTMLElement>('.why-walk')!.hidden).toBe(true);
    set({ why: 4 });
    expect(walks()).toBe(begun);
  });

  it('4: the heads stay those of the trained models, and nothing is drawn between two steps', () => {
    const { text, ask, state, entries, extra } = room({ shown, why: 4 }, both());
    const at = { layer: 1, head: 0 };
    // Which head is the strongest changes from step to step: a step names it, the walk does not.
    expect(text('.twin-0')).toMatch(/^Softmax model head L1H0/);
    expect(room({ shown, why: 3 }, both()).text('.twin-0')).toMatch(
      /^Softmax model This head gives/,
    );
    expect(ask.mock.lastCall![0]).toMatchObject({ subjects: shown, studies: [] });
    state.value = { ...state.value, shown: shown.map((id) => `${id}@0`) };
    const before = text('.lead');
    entries.value = new Map(entries.value);
    expect(text('.lead')).toBe(before);
    const stale = { frame: entries.value.get('softmax')!.frame, isStale: true };
    entries.value = new Map([...entries.value, ['softmax@0', stale], ['sigmoid@0', stale]]);
    expect(text('.lead')).toBe(before);
    // At step 0 another head is the strongest.
    const alpha = tensor([2, 2, 3], [0.5, 0, 0, 0.1, 0, 0, 0.2, 0, 0, 0.1, 0, 0]);
    const early = both().map((frame) => {
      const step = { step: 0, of: 4000 };
      const att = tensor([3, 3], [0.2, 0, 0, 0.2, 0.8, 0, 0.2, 0.4, 0.4]);
      return {
        ...frame,
        head: { ...head, tensors: { att } },
        subject: `${frame.subject}@0`,
        model: { ...frame.model, id: `${frame.subject}@0`, step },
        tensors: { ...frame.tensors, alpha },
      } as unknown as Frame;
    });
    entries.value = new Map(early.map((frame) => [frame.subject, { frame, isStale: false }]));
    expect(text('.walk-line')).toMatch(/^Softmax model, .*: head L1H0 gives the first token 20%/);
    expect(text('.twin-0')).toMatch(/^Softmax model head L1H0/);
    expect(extra(early[0]!)).toMatchObject({ at, remark: undefined });
    expect(ask.mock.lastCall![0]).toMatchObject({
      subjects: ['softmax@0', 'sigmoid@0'],
      heads: { 'softmax@0': at, 'sigmoid@0': at },
    });
    // A link to a step: the trained models are run first.
    const linked = room({ shown: ['softmax@0', 'sigmoid@0'], why: 4 }, early);
    expect(linked.ask.mock.lastCall![0]).toMatchObject({ subjects: shown, heads: {} });
    expect(linked.text('.walk-line')).toMatch(/head L0H0 gives the first token 50%/);
  });
});
