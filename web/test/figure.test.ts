// @vitest-environment happy-dom
/** A view on the page: its cells, when they are drawn, their sentences, and its saved and embedded forms. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { INPUTS } from '../src/ask/question';
import type { State } from '../src/ask/state';
import type { Frame } from '../src/frame';
import { Scope, type SubjectEntry } from '../src/page/context';
import { Figure } from '../src/page/figure';
import type { DrawOptions, View } from '../src/page/view';
import { isPrinting } from '../src/plot/paper';
import { frameOf, PATIENCE, tensor } from './fixture';
import { pageOf, readOf } from './page';

const saved: { name: string; file: Blob }[] = [];
let top = 0;
let see: (isIntersecting: boolean) => void = () => {};
const watching = new Set<object>();
beforeEach(() => {
  top = 0;
  saved.length = 0;
  isPrinting.value = false;
  document.body.replaceChildren();
  watching.clear();
  vi.stubGlobal(
    'IntersectionObserver',
    class {
      constructor(report: (entries: object[]) => void) {
        see = (isIntersecting) => report([{ isIntersecting }]);
      }
      observe = (root: Element) => watching.add(root);
      disconnect = () => watching.clear();
    },
  );
  vi.spyOn(HTMLElement.prototype, 'getBoundingClientRect').mockImplementation(
    () => new DOMRect(0, top, 10, 10),
  );
  let blob: Blob;
  vi.spyOn(URL, 'createObjectURL').mockImplementation((file) => ((blob = file as Blob), 'blob:1'));
  vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (
    this: HTMLAnchorElement,
  ) {
    saved.push({ name: this.download, file: blob });
  });
});
afterEach(() => vi.restoreAllMocks());

const twin = (change: Partial<Frame> = {}) =>
  frameOf({
    ...{ subject: 'sigmoid', title: 'Sigmoid model' },
    model: { id: 'sigmoid', title: 'Sigmoid model', source: 'zoo' },
    ...change,
  } as never);
const entries = (...frames: Frame[]): SubjectEntry[] =>
  frames.map((frame) => ({ subject: frame.subject, frame, isStale: false }));

function figure(
  all: readonly SubjectEntry[],
  own: Partial<View> = {},
  look: ConstructorParameters<typeof Figure>[4] = {},
  change: Partial<State> = {},
  queue: object = {},
) {
  const drawn: [string, DrawOptions][] = [];
  const ended: string[] = [];
  let made = 0;
  const view: View = {
    ...{ name: 'mine', title: 'My view', question: 'What?', how: 'Read it.', reads: ['alpha'] },
    formula: 'a = b',
    source: 'A paper',
    numbers: (frame) =>
      [{ name: `of ${frame.title}`, axes: [], shape: [], data: Float32Array.of(1) }] as never,
    says: (frame, at) => `${frame.title} L${at.layer}H${at.head}`,
    draw: (root) => {
      const name = `cell ${++made}`;
      root.textContent = name;
      return (frame, options) => void drawn.push([frame.title, options]);
    },
    ...own,
  };
  const page = pageOf(change, [], { queue });
  const place = document.body.appendChild(document.createElement('div'));
  const scope = new Scope();
  const one = new Figure(place, view, page.context, scope, look);
  one.update(all);
  const read = readOf(one.root);
  return {
    ...{ ...page, ...read, one, drawn, ended, scope, view },
    cells: () =>
      read
        .all('.cell')
        .map(
          (cell) =>
            `${read.words(cell.querySelector<HTMLElement>('.cell-body')!)} ${cell.dataset.subject}${cell.classList.contains('stale') ? ' stale' : ''}`,
        ),
    titles: () =>
      read
        .all('.cell-head')
        .map((head) => (head.hidden ? '' : read.words(head.querySelector('strong')!))),
    badges: () => read.all('.badge').map((badge) => (badge.hidden ? '' : badge.textContent)),
    save: async (kind: string) => {
      read.click(kind);
      await vi.waitUntil(() => saved.length, PATIENCE);
      return saved.at(-1)!;
    },
  };
}

describe('the heading of a figure', () => {
  it('has the question, a reading guide, and the action buttons', () => {
    const { root, text, texts, all } = figure(entries(frameOf()));
    expect([
      root.tagName,
      root.getAttribute('aria-label'),
      (root as HTMLElement).dataset.view,
    ]).toEqual([...['SECTION', 'My view', 'mine']]);
    expect([text('h2'), text('.question')]).toEqual(['My view', 'What?']);
    expect(texts('.how p')).toEqual([
      'Read it.',
      expect.stringMatching(/^The line below/),
      'a = b',
      'A paper',
    ]);
    expect(all('.how summary')[0]!.getAttribute('aria-label')).toBe('How to read My view');
    expect(texts('.save button')).toEqual(['SVG', 'PNG', 'CSV', 'JSON', 'Recording …']);
    expect([...root.children].map(({ className }) => className)).toEqual([
      'figure-head',
      'cells',
      'lacks',
    ]);
    const bare = { formula: undefined, source: undefined } as never;
    expect(figure([], bare).texts('.how p')).toHaveLength(2);
  });

  it('follows the picture if the room has its own heading, and is absent if the room shows it', () => {
    const order = (look: object) =>
      [...figure([], {}, look).root.children].map(({ className }) => className);
    expect(order({ isMain: true })).toEqual(['cells', 'lacks', 'figure-head']);
    expect(order({ isBare: true })).toEqual(['cells', 'lacks']);
    expect(figure([], {}, { isMain: true }).root.classList.contains('main')).toBe(true);
  });

  it('omits what a link hides, and in an embed all that its host does not request', () => {
    const there = (look: object, change: Partial<State> = {}) => {
      const { all } = figure([], {}, look, change);
      return all('.how, .save, .code')
        .filter(({ hidden }) => !hidden)
        .map(({ className }) => className);
    };
    expect(there({})).toEqual(['how', 'save', 'code']);
    expect(there({}, { hide: ['save'] })).toEqual(['how', 'code']);
    expect(there({}, { hide: ['links', 'how'] })).toEqual(['save']);
    expect(there({ isEmbed: true })).toEqual(['how']);
    expect(there({ isEmbed: true }, { controls: ['save'] })).toEqual(['how', 'save']);
    const { root } = figure([], {}, { isEmbed: true });
    expect([root.tagName, root.getAttribute('aria-label')]).toEqual(['DIV', null]);
  });
});

describe('cells of a figure', () => {
  it('are one per subject, with title, class and conditions', () => {
    const { cells, titles, badges, texts, all, one, drawn } = figure(
      entries(frameOf(), twin({ class: 'counterfactual' })),
    );
    expect(cells()).toEqual(['cell 1 softmax', 'cell 2 sigmoid']);
    expect([titles(), badges()]).toEqual([
      ['Softmax model', 'Sigmoid model'],
      ['', 'COUNTERFACTUAL'],
    ]);
    expect(texts('.stamp')).toEqual([
      'MEASURED · ε = 0.3 · T = 3 · starts with <s> (start token) · 1 prompt · Softmax model',
      expect.stringMatching(/^COUNTERFACTUAL · .* Sigmoid model$/),
    ]);
    expect(all('.cells')[0]!.style.getPropertyValue('--cells')).toBe('2');
    expect(drawn[1]![1]).toMatchObject({
      at: { layer: 1, head: 0 },
      theme: 'light',
      frames: [{}, {}],
      group: [{}],
    });
    // A cell of one frame has the frame's whole title; a cell of a group has the title of the model.
    one.update(entries(frameOf({ title: 'Softmax model at step 40' }), twin()));
    expect(titles()[0]).toBe('Softmax model at step 40');
    one.update(entries(frameOf()));
    expect([cells(), titles()]).toEqual([['cell 1 softmax'], ['']]);
    one.update([]);
    expect([cells(), all('.cells')[0]!.style.getPropertyValue('--cells')]).toEqual([[], '1']);
    const bare = figure(
      entries(frameOf(), twin()),
      {},
      { isBare: true, extra: (_, i) => ({ isPlain: i === 1 }) },
    );
    expect([bare.titles(), bare.all('.stamp').map(({ hidden }) => hidden)]).toEqual([
      ['', ''],
      [true, true],
    ]);
    expect(bare.drawn.map(([, { isPlain }]) => isPlain)).toEqual([false, true]);
  });

  it('state the conditions of the view’s own runs, also in saved files', async () => {
    const own = {
      conditions: ({ title }: Frame, { hiddenKey: without }: State) =>
        without === 'none'
          ? {}
          : { class: 'counterfactual' as const, T: 5, title: `${title}, less` },
    };
    expect(figure(entries(frameOf()), own).texts('.stamp')[0]).toMatch(
      /^MEASURED .* T = 3 .* model$/,
    );
    const { texts, badges, save } = figure(entries(frameOf()), own, {}, { hiddenKey: 'random' });
    expect([badges(), texts('.stamp')]).toEqual([
      ['COUNTERFACTUAL'],
      [expect.stringMatching(/^COUNTERFACTUAL .* T = 5 .* Softmax model, less$/)],
    ]);
    expect(await (await save('CSV')).file.text()).toContain(
      '"class":"COUNTERFACTUAL"'.replaceAll('"', '""'),
    );
  });

  it('keep their place while a model moves through training, in the order of the subjects', () => {
    const at = (step: number) => frameOf({ subject: `softmax@${step}`, title: `at ${step}` });
    const { one, cells } = figure(entries(at(40), twin()));
    const [first] = [...document.querySelectorAll('.cell')];
    one.update(entries(at(80), twin()));
    expect(cells()).toEqual(['cell 1 softmax@80', 'cell 2 sigmoid']);
    expect(document.querySelector('.cell')).toBe(first);
    one.update(entries(twin(), at(80)));
    expect(cells()).toEqual(['cell 2 sigmoid', 'cell 1 softmax@80']);
    one.update(entries(twin(), at(80), at(40)));
    expect(cells()).toEqual(['cell 2 sigmoid', 'cell 1 softmax@80', 'cell 3 softmax@40']);
    const hub = (step: string) => frameOf({ subject: `hub:EleutherAI/pythia-14m@step${step}` });
    one.update(entries(hub('1'), frameOf({ subject: '?!' })));
    one.update(entries(hub('2')));
    expect(cells()).toEqual(['cell 4 hub:EleutherAI/pythia-14m@step2']);
  });

  it('are gray while they show an earlier answer or wait for numbers', () => {
    const { one, cells, drawn } = figure(entries(frameOf()));
    one.update([{ ...entries(frameOf())[0]!, isStale: true }]);
    expect(cells()).toEqual(['cell 1 softmax stale']);
    const { alpha: _, ...tensors } = frameOf().tensors;
    const before = drawn.length;
    one.update(entries({ ...frameOf(), tensors }));
    expect([cells(), drawn.length]).toEqual([['cell 1 softmax stale'], before]);
    one.update([{ subject: 'softmax', isStale: false }]);
    expect(cells()).toEqual(['cell 1 softmax stale']);
    expect(figure([{ subject: 'softmax', isStale: true }]).cells()).toEqual([]);
    expect(figure(entries({ ...frameOf(), tensors })).cells()).toEqual([]);
  });

  it('are missing for a frame without content, and name what a recording lacks', () => {
    const fits = ({ T }: Frame) => T > 2;
    const { one, cells, texts } = figure(entries(frameOf(), twin()), { fits });
    one.update(entries(frameOf({ T: 2 }), twin()));
    expect(cells()).toEqual(['cell 2 sigmoid']);
    expect(texts('[data-lacks]')).toEqual([]);
    const { alpha: _, ...tensors } = frameOf().tensors;
    one.update(
      entries(
        { ...frameOf(), tensors, recording: {}, lacks: { alpha: 'needs the field att' } } as never,
        twin(),
      ),
    );
    expect(texts('[data-lacks]')).toEqual([
      'Not in the recording of Softmax model: “My view” needs the field att.',
    ]);
  });

  it('show all settings of a model together, titled by the model', () => {
    const setting = (edit: string, change: Partial<Frame> = {}) =>
      frameOf({
        subject: `softmax${edit}`,
        title: `Softmax ${edit}`,
        edits: edit ? [{}] : [],
        ...change,
      } as never);
    const all = [setting(''), setting('~hide_key(0)', { class: 'approximate', T: 9 }), twin()];
    const { cells, titles, drawn, badges, texts, one } = figure(entries(...all), {
      drawsAllSettings: true,
    });
    expect([cells(), titles(), badges()]).toEqual([
      ['cell 1 softmax', 'cell 2 sigmoid'],
      ['Softmax model', 'Sigmoid model'],
      ['APPROXIMATE', ''],
    ]);
    expect(drawn.map(([title, { group, frames }]) => [title, group.length, frames.length])).toEqual(
      [
        ['Softmax ', 2, 3],
        ['Sigmoid model', 1, 3],
      ],
    );
    expect(texts('.stamp')[0]).toMatch(/^APPROXIMATE · .*T = 9 /);
    one.update(
      entries(
        setting('', { class: 'relaxed' }),
        setting('~x', { class: 'approximate' }),
        setting('~y', { class: 'counterfactual' }),
      ),
    );
    expect(badges()).toEqual(['COUNTERFACTUAL']);
    one.update(entries(setting('', { class: 'relaxed' }), setting('~x')));
    expect([badges(), titles()]).toEqual([['RELAXED'], ['']]);
    one.update([{ subject: 'softmax', isStale: true }, ...entries(setting('~x'))]);
    expect(drawn.at(-1)![0]).toBe('Softmax ~x');
  });

  it('show all subjects together if the view requests it', () => {
    const { cells, drawn, one, texts } = figure(
      [{ subject: 'gone', isStale: true }, ...entries(frameOf(), twin())],
      { drawsAllSubjects: true },
    );
    expect([cells().length, drawn[0]![0], drawn[0]![1].group.length]).toEqual([
      1,
      'Softmax model',
      2,
    ]);
    expect(texts('.stamp')[0]).toMatch(/ · Softmax model, Sigmoid model$/);
    one.update([
      { subject: 'softmax', isStale: true },
      { subject: 'sigmoid', isStale: true },
    ]);
    expect(cells()).toEqual(['cell 1 softmax stale']);
  });
});

describe('drawing a figure', () => {
  it('waits until the figure is visible or printed', () => {
    top = 5000;
    const { drawn, one, scope } = figure(entries(frameOf()));
    expect(drawn).toEqual([]);
    see(false);
    expect(drawn).toEqual([]);
    see(true);
    expect(drawn).toHaveLength(1);
    see(true);
    expect(drawn).toHaveLength(1);
    one.update(entries(twin()));
    expect(drawn).toHaveLength(2);
    see(false);
    one.update(entries(frameOf()));
    expect(drawn).toHaveLength(2);
    isPrinting.value = true;
    expect(drawn).toHaveLength(3);
    one.update(entries(twin()));
    expect(drawn).toHaveLength(4);
    scope.end();
    expect([watching.size, document.querySelector('.figure')]).toEqual([0, null]);
    // A figure is drawn once it is a short scroll away from the window.
    const near = (at: number) => {
      top = at;
      return figure(entries(frameOf())).drawn.length;
    };
    isPrinting.value = false;
    expect([near(-131), near(-129), near(innerHeight + 119), near(innerHeight + 120)]).toEqual([
      0, 1, 1, 0,
    ]);
  });

  it('is not repeated for each typed letter', () => {
    const all = entries(frameOf());
    const { drawn, one, state } = figure(all);
    const after = (change: Partial<State>, next = all) => {
      state.value = { ...state.value, ...change };
      one.update(next);
      return drawn.length;
    };
    expect(after({ prompt: 'a' })).toBe(1);
    expect(after({ eps: 0.4 })).toBe(2);
    expect(after({ prompt: 'ab' })).toBe(2);
    const next = entries(frameOf());
    expect(after({ prompt: 'abc' }, next)).toBe(3);
    expect(after({ prompt: 'abcd' }, [{ ...next[0]!, isStale: true }])).toBe(4);
    expect(after({ prompt: 'abcde' }, [...all, ...entries(twin())])).toBe(6);
  });

  it('uses the head that the reader chose', () => {
    const { drawn } = figure(entries(frameOf()), {}, {}, { layer: 0, head: 1 });
    expect(drawn[0]![1].at).toEqual({ layer: 0, head: 1 });
  });
});

describe('exports of a figure', () => {
  it('have the numbers of all measured subjects, under their conditions', async () => {
    const many = frameOf({ sequences: 8, spread: { alpha: new Float32Array(12) } });
    const averaged = figure(entries(many, twin({ sequences: 8 })));
    const { name, file } = await averaged.save('CSV');
    expect(name).toBe('sinkscope-mine-softmax-model-sigmoid-model.csv');
    expect(await file.text()).toMatch(/,of Softmax model,/);
    saved.length = 0;
    const { file: json } = await averaged.save('JSON');
    const { subjects } = JSON.parse(await json.text());
    expect(subjects.map((one: { sequences: number }) => one.sequences)).toEqual([8, 1]);
  });

  it('may be a recording of each subject', async () => {
    const record = vi.fn(async () => new Uint8Array(2500));
    const { click, texts, button } = figure(
      entries(frameOf(), twin()),
      {},
      {},
      { input: 'random' },
      { record },
    );
    click('Recording …');
    await vi.waitUntil(() => texts('.save button').at(-1)!.startsWith('Save'), PATIENCE);
    expect(record.mock.calls).toEqual([
      ['softmax', INPUTS.random],
      ['sigmoid', INPUTS.random],
    ]);
    button('Save recording (5 kB)').click();
    expect(saved.map(({ name }) => name)).toEqual([
      'sinkscope-recording-softmax-model.safetensors',
      'sinkscope-recording-sigmoid-model.safetensors',
    ]);
  });

  it('embed the figure as shown, with each subject once and the common head', () => {
    const pinned = (...frames: Frame[]) => {
      const { click, calls, context } = figure(entries(...frames));
      click('Embed My view');
      const [view, from, change] = calls.embed.mock.lastCall!;
      expect([view, from]).toEqual(['mine', context]);
      return change;
    };
    expect(pinned(frameOf(), twin())).toEqual({
      shown: ['softmax', 'sigmoid'],
      at: 0,
      layer: 1,
      head: 0,
    });
    const alpha = (...values: number[]) => ({
      tensors: {
        ...frameOf().tensors,
        alpha: tensor(
          [2, 2, 3],
          values.flatMap((one) => [one, 0, 0]),
        ),
      },
    });
    expect(pinned(frameOf(), twin(alpha(0.1, 0.2, 0.3, 0.9)))).toEqual({
      shown: ['softmax', 'sigmoid'],
      at: 0,
    });
    expect(pinned(frameOf(), twin(alpha(0.9, 0.2, 0.3, 0.1)))).toEqual({
      shown: ['softmax', 'sigmoid'],
      at: 0,
    });
    expect(pinned(frameOf(), frameOf())).toEqual({ shown: ['softmax'], at: 0, layer: 1, head: 0 });
    expect(pinned()).toEqual({ shown: [], at: 0 });
  });
});
