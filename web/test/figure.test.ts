// @vitest-environment happy-dom
/** A view on the page: its cells, when they are drawn, their sentences, and its saved and embedded forms. */
import { signal } from '@preact/signals-core';
import { html } from 'lit';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { INPUTS } from '../src/ask/question';
import type { State } from '../src/ask/state';
import type { Frame } from '../src/frame';
import { Scope, type SubjectEntry } from '../src/page/context';
import { Figure } from '../src/page/figure';
import type { DrawOptions, View } from '../src/page/view';
import { isPrinting } from '../src/plot/paper';
import { quantity } from '../src/save/numbers';
import { frameOf, PATIENCE, tensor } from './fixture';
import { pageOf, readOf } from './page';

const savedFiles: { name: string; file: Blob }[] = [];
let top = 0;
let see: (isIntersecting: boolean) => void = () => {};
const watchedElements = new Set<object>();
beforeEach(() => {
  top = 0;
  savedFiles.length = 0;
  isPrinting.value = false;
  document.body.replaceChildren();
  watchedElements.clear();
  vi.stubGlobal(
    'IntersectionObserver',
    class {
      constructor(report: (entries: object[]) => void) {
        see = (isIntersecting) => report([{ isIntersecting: !isIntersecting }, { isIntersecting }]);
      }
      observe = (root: Element) => watchedElements.add(root);
      disconnect = () => watchedElements.clear();
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
    savedFiles.push({ name: this.download, file: blob });
  });
});
afterEach(() => vi.restoreAllMocks());

const sigmoidFrame = (change: Partial<Frame> = {}) =>
  frameOf({
    ...{ subject: 'sigmoid', title: 'Sigmoid model' },
    model: { id: 'sigmoid', title: 'Sigmoid model', source: 'zoo' },
    ...change,
  } as never);
const entriesFrom = (...frames: Frame[]): SubjectEntry[] =>
  frames.map((frame) => ({ subject: frame.subject, frame, isStale: false }));

function drawFigure(
  entries: readonly SubjectEntry[],
  viewChange: Partial<View> = {},
  figureOptions: ConstructorParameters<typeof Figure>[4] = {},
  change: Partial<State> = {},
  queue: object = {},
) {
  const drawings: [string, DrawOptions][] = [];
  const ended: string[] = [];
  let cellCount = 0;
  const view: View = {
    ...{ name: 'mine', title: 'My view', question: 'What?', how: 'Read it.', reads: ['alpha'] },
    formula: 'a = b',
    source: 'A paper',
    numbers: (frame) =>
      [{ name: `of ${frame.title}`, axes: [], shape: [], data: Float32Array.of(1) }] as never,
    says: (frame, at) => `${frame.title} L${at.layer}H${at.head}`,
    draw: (root) => {
      const name = `cell ${++cellCount}`;
      root.textContent = name;
      return (frame, options) => void drawings.push([frame.title, options]);
    },
    ...viewChange,
  };
  const page = pageOf(change, [], { queue });
  const place = document.body.appendChild(document.createElement('div'));
  const scope = new Scope();
  const figure = new Figure(place, view, page.context, scope, figureOptions);
  figure.update(entries);
  const reader = readOf(figure.root);
  return {
    ...{ ...page, ...reader, figure, drawings, ended, scope, view },
    cells: () =>
      reader
        .all('.cell')
        .map(
          (cell) =>
            `${reader.words(cell.querySelector<HTMLElement>('.cell-body')!)} ${cell.dataset.subject}${cell.classList.contains('stale') ? ' stale' : ''}`,
        ),
    titles: () =>
      reader
        .all('.cell-head')
        .map((head) => (head.hidden ? '' : reader.words(head.querySelector('strong')!))),
    badges: () => reader.all('.badge').map((badge) => (badge.hidden ? '' : badge.textContent)),
    save: async (kind: string) => {
      reader.click(kind);
      await vi.waitUntil(() => savedFiles.length, PATIENCE);
      return savedFiles.at(-1)!;
    },
  };
}

describe('the heading of a figure', () => {
  it('has the question, a reading guide, and the action buttons', () => {
    const { root, text, texts, all } = drawFigure(entriesFrom(frameOf()));
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
    expect(all('.how summary')[0]!.getAttribute('aria-label')).toMatchSnapshot();
    expect(texts('.save button')).toEqual(['SVG', 'PNG', 'CSV', 'JSON', 'Recording …']);
    expect([...root.children].map(({ className }) => className)).toMatchSnapshot();
    const bare = { formula: undefined, source: undefined } as never;
    expect(drawFigure([], bare).texts('.how p')).toHaveLength(2);
  });

  it('follows the picture if the room has its own heading, and is absent if the room shows it', () => {
    const classesOf = (look: object) =>
      [...drawFigure([], {}, look).root.children].map(({ className }) => className);
    expect(classesOf({ isMain: true })).toEqual(['cells', 'lacks', 'figure-head']);
    expect(classesOf({ isBare: true })).toEqual(['cells', 'lacks']);
    expect(drawFigure([], {}, { isMain: true }).root.classList.contains('main')).toBe(true);
  });

  it('omits what a link hides, and in an embed all that its host does not request', () => {
    const visibleParts = (look: object, change: Partial<State> = {}) => {
      const { all } = drawFigure([], {}, look, change);
      return all('.how, .save, .code')
        .filter(({ hidden }) => !hidden)
        .map(({ className }) => className);
    };
    expect(visibleParts({})).toEqual(['how', 'code', 'save']);
    expect(visibleParts({}, { hide: ['save'] })).toEqual(['how', 'code']);
    expect(visibleParts({}, { hide: ['links', 'how'] })).toEqual(['save']);
    expect(visibleParts({ isEmbed: true })).toEqual(['how']);
    expect(visibleParts({ isEmbed: true }, { controls: ['save'] })).toEqual(['how', 'save']);
    const { root } = drawFigure([], {}, { isEmbed: true });
    expect([root.tagName, root.getAttribute('aria-label')]).toEqual(['DIV', null]);
  });
});

describe('cells of a figure', () => {
  it('can state a number below their title, with the conditions in the menu', () => {
    const about = (frame: Frame) => ({ text: html`${frame.T} tokens`, color: '--run-1' });
    const entries = entriesFrom(frameOf());
    const { all, text, texts } = drawFigure(entries, {}, { about, isUnstamped: true });
    expect(text('.about')).toBe('3 tokens');
    expect(all('.cell-head')[0]!.style.getPropertyValue('--own')).toBe('var(--run-1)');
    expect(all('.stamp')[0]!.hidden).toBe(true);
    expect(texts('.how p').at(-1)).toMatchSnapshot();
    expect(drawFigure(entries).all('.about')).toEqual([]);
  });

  it('are one per subject, with title, class and conditions', () => {
    const { cells, titles, badges, texts, all, figure, drawings } = drawFigure(
      entriesFrom(frameOf(), sigmoidFrame({ class: 'counterfactual' })),
    );
    expect(cells()).toEqual(['cell 1 softmax', 'cell 2 sigmoid']);
    expect([[titles(), badges()], texts('.stamp')]).toMatchSnapshot();
    expect(all('.cells')[0]!.style.getPropertyValue('--cells')).toBe('2');
    expect(drawings[1]![1]).toMatchObject({
      at: { layer: 1, head: 0 },
      theme: 'light',
      frames: [{}, {}],
      group: [{}],
    });
    // A cell of one frame has the frame's whole title; a cell of a group has the title of the model.
    figure.update(entriesFrom(frameOf({ title: 'Softmax model at step 40' }), sigmoidFrame()));
    expect(titles()[0]).toBe('Softmax model at step 40');
    figure.update(entriesFrom(frameOf()));
    expect([cells(), titles()]).toEqual([['cell 1 softmax'], ['']]);
    figure.update([]);
    expect([cells(), all('.cells')[0]!.style.getPropertyValue('--cells')]).toEqual([[], '1']);
    const bareFigure = drawFigure(
      entriesFrom(frameOf(), sigmoidFrame()),
      {},
      { isBare: true, extra: (_, i) => ({ isPlain: i === 1 }) },
    );
    expect([
      bareFigure.titles(),
      bareFigure.all('.stamp').map(({ hidden }) => hidden),
    ]).toMatchSnapshot();
    expect(bareFigure.drawings.map(([, { isPlain }]) => isPlain)).toEqual([false, true]);
  });

  it('state the conditions of the view’s own runs, also in saved files', async () => {
    const ownConditions = {
      conditions: ({ title }: Frame, { hiddenKey: without }: State) =>
        without === 'none'
          ? {}
          : { class: 'counterfactual' as const, T: 5, title: `${title}, less` },
    };
    expect(drawFigure(entriesFrom(frameOf()), ownConditions).texts('.stamp')[0]).toMatch(
      /^MEASURED .* T = 3 .* model$/,
    );
    const { texts, badges, save } = drawFigure(
      entriesFrom(frameOf()),
      ownConditions,
      {},
      { hiddenKey: 'random' },
    );
    expect([badges(), texts('.stamp')]).toEqual([
      ['COUNTERFACTUAL'],
      [expect.stringMatching(/^COUNTERFACTUAL .* T = 5 .* Softmax model, less$/)],
    ]);
    expect(await (await save('CSV')).file.text()).toContain(
      '"class":"COUNTERFACTUAL"'.replaceAll('"', '""'),
    );
  });

  it('keep their place while a model moves through training, in the order of the subjects', () => {
    const frameAt = (step: number) => frameOf({ subject: `softmax@${step}`, title: `at ${step}` });
    const { figure, cells } = drawFigure(entriesFrom(frameAt(40), sigmoidFrame()));
    const [first] = [...document.querySelectorAll('.cell')];
    figure.update(entriesFrom(frameAt(80), sigmoidFrame()));
    expect(cells()).toEqual(['cell 1 softmax@80', 'cell 2 sigmoid']);
    expect(document.querySelector('.cell')).toBe(first);
    figure.update(entriesFrom(sigmoidFrame(), frameAt(80)));
    expect(cells()).toEqual(['cell 2 sigmoid', 'cell 1 softmax@80']);
    figure.update(entriesFrom(sigmoidFrame(), frameAt(80), frameAt(40)));
    expect(cells()).toEqual(['cell 2 sigmoid', 'cell 1 softmax@80', 'cell 3 softmax@40']);
    const hub = (step: string) => frameOf({ subject: `hub:EleutherAI/pythia-14m@step${step}` });
    figure.update(entriesFrom(hub('1'), frameOf({ subject: '?!' })));
    figure.update(entriesFrom(hub('2')));
    expect(cells()).toEqual(['cell 4 hub:EleutherAI/pythia-14m@step2']);
  });

  it('are gray while they show an earlier answer or wait for numbers', () => {
    const { figure, cells, drawings } = drawFigure(entriesFrom(frameOf()));
    figure.update([{ ...entriesFrom(frameOf())[0]!, isStale: true }]);
    expect(cells()).toEqual(['cell 1 softmax stale']);
    const { alpha: _, ...tensors } = frameOf().tensors;
    const oldCount = drawings.length;
    figure.update(entriesFrom({ ...frameOf(), tensors }));
    expect([cells(), drawings.length]).toEqual([['cell 1 softmax stale'], oldCount]);
    figure.update([{ subject: 'softmax', isStale: false }]);
    expect(cells()).toEqual(['cell 1 softmax stale']);
    expect(drawFigure([{ subject: 'softmax', isStale: true }]).cells()).toEqual([]);
    expect(drawFigure(entriesFrom({ ...frameOf(), tensors })).cells()).toEqual([]);
  });

  it('are missing for a frame without content, and name what a recording lacks', () => {
    const fits = ({ T }: Frame) => T > 2;
    const { figure, cells, texts } = drawFigure(entriesFrom(frameOf(), sigmoidFrame()), { fits });
    figure.update(entriesFrom(frameOf({ T: 2 }), sigmoidFrame()));
    expect(cells()).toEqual(['cell 2 sigmoid']);
    expect(texts('[data-lacks]')).toEqual([]);
    const { alpha: _, ...tensors } = frameOf().tensors;
    figure.update(
      entriesFrom(
        { ...frameOf(), tensors, recording: {}, lacks: { alpha: 'needs the field att' } } as never,
        sigmoidFrame(),
      ),
    );
    expect(texts('[data-lacks]')).toMatchSnapshot();
  });

  it('show all settings of a model together, titled by the model', () => {
    const settingFrame = (edit: string, change: Partial<Frame> = {}) =>
      frameOf({
        subject: `softmax${edit}`,
        title: `Softmax ${edit}`,
        edits: edit ? [{}] : [],
        ...change,
      } as never);
    const all = [
      settingFrame(''),
      settingFrame('~hide_key(0)', { class: 'counterfactual', T: 9 }),
      sigmoidFrame(),
    ];
    const { cells, titles, drawings, badges, texts, figure } = drawFigure(entriesFrom(...all), {
      drawsAllSettings: true,
    });
    expect([cells(), titles(), badges()]).toMatchSnapshot();
    expect(
      drawings.map(([title, { group, frames }]) => [title, group.length, frames.length]),
    ).toEqual([
      ['Softmax ', 2, 3],
      ['Sigmoid model', 1, 3],
    ]);
    expect(texts('.stamp')[0]).toMatch(/^COUNTERFACTUAL · .*T = 9 /);
    figure.update(
      entriesFrom(
        settingFrame('', { class: 'edited' }),
        settingFrame('~x'),
        settingFrame('~y', { class: 'counterfactual' }),
      ),
    );
    expect(badges()).toEqual(['COUNTERFACTUAL']);
    figure.update(entriesFrom(settingFrame('', { class: 'edited' }), settingFrame('~x')));
    expect([badges(), titles()]).toEqual([['EDITED'], ['']]);
    figure.update([{ subject: 'softmax', isStale: true }, ...entriesFrom(settingFrame('~x'))]);
    expect(drawings.at(-1)![0]).toBe('Softmax ~x');
  });

  it('show all subjects together if the view requests it', () => {
    const { cells, drawings, figure, texts } = drawFigure(
      [{ subject: 'gone', isStale: true }, ...entriesFrom(frameOf(), sigmoidFrame())],
      { drawsAllSubjects: true },
    );
    expect([cells().length, drawings[0]![0], drawings[0]![1].group.length]).toEqual([
      1,
      'Softmax model',
      2,
    ]);
    expect(texts('.stamp')[0]).toMatch(/ · Softmax model, Sigmoid model$/);
    figure.update([
      { subject: 'softmax', isStale: true },
      { subject: 'sigmoid', isStale: true },
    ]);
    expect(cells()).toEqual(['cell 1 softmax stale']);
  });
});

describe('drawing a figure', () => {
  it('waits until the figure is visible or printed', () => {
    top = 5000;
    const { drawings, figure, scope } = drawFigure(entriesFrom(frameOf()));
    expect(drawings).toEqual([]);
    see(false);
    expect(drawings).toEqual([]);
    see(true);
    expect(drawings).toHaveLength(1);
    see(true);
    expect(drawings).toHaveLength(1);
    figure.update(entriesFrom(sigmoidFrame()));
    expect(drawings).toHaveLength(2);
    see(false);
    figure.update(entriesFrom(frameOf()));
    expect(drawings).toHaveLength(2);
    isPrinting.value = true;
    expect(drawings).toHaveLength(3);
    figure.update(entriesFrom(sigmoidFrame()));
    expect(drawings).toHaveLength(4);
    scope.end();
    expect([watchedElements.size, document.querySelector('.figure')]).toEqual([0, null]);
    // A figure is drawn once it is a short scroll away from the window.
    const countDrawn = (at: number) => {
      top = at;
      return drawFigure(entriesFrom(frameOf())).drawings.length;
    };
    isPrinting.value = false;
    expect([
      countDrawn(-131),
      countDrawn(-129),
      countDrawn(innerHeight + 119),
      countDrawn(innerHeight + 120),
    ]).toEqual([0, 1, 1, 0]);
  });

  it('is not repeated for each typed letter', () => {
    const all = entriesFrom(frameOf());
    const { drawings, figure, state } = drawFigure(all);
    const drawingsAfter = (change: Partial<State>, next = all) => {
      state.value = { ...state.value, ...change };
      figure.update(next);
      return drawings.length;
    };
    expect(drawingsAfter({ prompt: 'a' })).toBe(1);
    expect(drawingsAfter({ eps: 0.4 })).toBe(2);
    expect(drawingsAfter({ prompt: 'ab' })).toBe(2);
    const next = entriesFrom(frameOf());
    expect(drawingsAfter({ prompt: 'abc' }, next)).toBe(3);
    expect(drawingsAfter({ prompt: 'abcd' }, [{ ...next[0]!, isStale: true }])).toBe(4);
    expect(drawingsAfter({ prompt: 'abcde' }, [...all, ...entriesFrom(sigmoidFrame())])).toBe(6);
  });

  it('uses the head that the reader chose', () => {
    const { drawings } = drawFigure(entriesFrom(frameOf()), {}, {}, { layer: 0, head: 1 });
    expect(drawings[0]![1].at).toEqual({ layer: 0, head: 1 });
  });
});

describe('exports of a figure', () => {
  it('have the numbers of all measured subjects, under their conditions', async () => {
    const averagedFrame = frameOf({ sequences: 8, spread: { alpha: new Float32Array(12) } });
    const averagedFigure = drawFigure(entriesFrom(averagedFrame, sigmoidFrame({ sequences: 8 })));
    const { name, file } = await averagedFigure.save('CSV');
    expect(name).toBe('sinkscope-mine-softmax-model-sigmoid-model.csv');
    expect(await file.text()).toMatch(/,of Softmax model,/);
    savedFiles.length = 0;
    const { file: json } = await averagedFigure.save('JSON');
    const { subjects } = JSON.parse(await json.text());
    expect(subjects.map((one: { sequences: number }) => one.sequences)).toEqual([8, 1]);
  });

  it('state the number of prompts of the verdict and of quantities that differ from the file’s', async () => {
    const frame = frameOf(
      {
        sequences: 8,
        ids: Array(8).fill([0, 5, 6]),
        spread: { norms: new Float32Array(3), sink_ratio: new Float32Array(3) },
      },
      { norms: tensor([3], [1, 2, 3]), hidden: tensor([3], [4, 5, 6]) },
    );
    const saidOf: number[] = [];
    const figureOf = (reads: string[]) =>
      drawFigure(entriesFrom(frame), {
        reads,
        numbers: ({ tensors }) =>
          ['norms', 'hidden'].map((name) => quantity(name, ['token'], tensors[name]!)),
        says: ({ sequences }) => String(saidOf.push(sequences)),
      });
    const saved = async (kind: string, reads: string[]) => {
      savedFiles.length = 0;
      return (await figureOf(reads).save(kind)).file.text();
    };
    const [meanSubject] = JSON.parse(await saved('JSON', ['norms'])).subjects;
    expect([meanSubject.sequences, meanSubject.verdict.sequences]).toEqual([8, undefined]);
    expect(meanSubject.quantities).toMatchObject([{ name: 'norms' }, { sequences: 1 }]);
    expect(meanSubject.quantities[0]).not.toHaveProperty('sequences');
    const [firstSubject] = JSON.parse(await saved('JSON', ['hidden'])).subjects;
    expect([firstSubject.sequences, firstSubject.verdict.sequences]).toEqual([1, 8]);
    expect(firstSubject.quantities).toMatchObject([{ sequences: 8 }, { name: 'hidden' }]);
    expect(firstSubject.quantities[1]).not.toHaveProperty('sequences');
    const csv = await saved('CSV', ['hidden']);
    expect(csv).toContain(
      '# quantity,"{""subject"":""softmax"",""name"":""norms"",""sequences"":8}"',
    );
    expect(csv.match(/^# quantity/gm)).toHaveLength(1);
    // Only the numbers of the first prompt belong to its tokens.
    expect(csv).toMatch(/^softmax,norms,1,,2$/m);
    expect(csv).toMatch(/^softmax,hidden,1, a,5$/m);
    // The description of a picture is its caption, which needs the number of prompts that were measured.
    expect(saidOf).toEqual([8, 8, 8]);
  });

  it('have the verdict of all prompts beside numbers of the first one', async () => {
    // Means of shares and of weights exceed eps in one head, but no prompt need have such a head.
    const frame = sigmoidFrame({
      operation: { ...frameOf().operation, normalizes: false },
      sequences: 8,
      ids: Array(8).fill([0, 5, 6]),
      spread: { sink_ratio: new Float32Array(3) },
      tensors: {
        ...frameOf().tensors,
        alpha: tensor([2, 2, 3], [0.9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        alpha_raw: tensor([2, 2, 3], [0.9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        sink_ratio: tensor([3], [0.125, 0, 0]),
        sink_ratio_raw: tensor([3], [0.0625, 0, 0]),
        hidden: tensor([3], [4, 5, 6]),
      },
    } as never);
    const { save } = drawFigure(entriesFrom(frame), {
      reads: ['hidden'],
      numbers: ({ tensors }) => [quantity('hidden', ['token'], tensors.hidden!)],
    });
    const [subject] = JSON.parse(await (await save('JSON')).file.text()).subjects;
    expect([subject.sequences, subject.verdict.sequences]).toEqual([1, 8]);
    expect(subject.verdict.sink_1).toBe(0.0625);
  });

  it('are offered once the view’s numbers are measured, with the sentences of the subjects that have them', async () => {
    const says = vi.fn((frame: Frame) => `α has the shape ${frame.tensors.alpha!.shape}`);
    const { alpha: _, ...tensors } = frameOf().tensors;
    const unmeasured = sigmoidFrame({ tensors });
    const { figure, all, save } = drawFigure(entriesFrom(unmeasured), { says });
    const areOffered = () =>
      all('.save button').map((button) => !(button as HTMLButtonElement).disabled);
    // A recording has all that was measured.
    expect(areOffered()).toEqual([false, false, false, false, true]);
    figure.update(entriesFrom(frameOf(), unmeasured));
    expect(areOffered()).toEqual([true, true, true, true, true]);
    const { subjects } = JSON.parse(await (await save('JSON')).file.text());
    expect(subjects.map((one: { quantities: object[] }) => one.quantities.length)).toEqual([1, 0]);
    expect(says.mock.calls.map(([{ title }]) => title)).toEqual(['Softmax model']);
    figure.update([{ subject: 'softmax', isStale: false }]);
    expect(areOffered()).toEqual([false, false, false, false, true]);
  });

  it('may be a recording of each subject that is measured', async () => {
    const record = vi.fn(async () => new Uint8Array(2500));
    const entries = signal(new Map(['softmax', 'sigmoid'].map((subject) => [subject, {}])));
    const { click, texts, button } = drawFigure(
      entriesFrom(frameOf(), sigmoidFrame(), frameOf({ subject: 'softmax@40' })),
      {},
      {},
      { input: 'random' },
      { record, entries },
    );
    click('Recording …');
    await vi.waitUntil(() => texts('.save button').at(-1)!.startsWith('Save'), PATIENCE);
    expect(record.mock.calls).toEqual([
      ['softmax', INPUTS.random],
      ['sigmoid', INPUTS.random],
    ]);
    button('Save recording (5 kB)').click();
    expect(savedFiles.map(({ name }) => name)).toMatchSnapshot();
  });

  it('embed the figure as shown, with each subject once and the common head', () => {
    const embeddedState = (...frames: Frame[]) => {
      const { click, calls, context } = drawFigure(entriesFrom(...frames));
      click('Embed My view');
      const [view, from, change] = calls.embed.mock.lastCall!;
      expect([view, from]).toEqual(['mine', context]);
      return change;
    };
    expect(embeddedState(frameOf(), sigmoidFrame())).toEqual({
      shown: ['softmax', 'sigmoid'],
      at: 0,
      layer: 1,
      head: 0,
    });
    const withAlphas = (...values: number[]) => ({
      tensors: {
        ...frameOf().tensors,
        alpha: tensor(
          [2, 2, 3],
          values.flatMap((one) => [one, 0, 0]),
        ),
      },
    });
    expect(
      embeddedState(frameOf(), sigmoidFrame(withAlphas(0.1, 0.2, 0.3, 0.9))),
    ).toMatchSnapshot();
    expect(
      embeddedState(frameOf(), sigmoidFrame(withAlphas(0.9, 0.2, 0.3, 0.1))),
    ).toMatchSnapshot();
    expect(embeddedState(frameOf(), frameOf())).toEqual({
      shown: ['softmax'],
      at: 0,
      layer: 1,
      head: 0,
    });
    // A link names a head of a hybrid by the model's number of its layer.
    const architecture = { ...frameOf().architecture, blocks: 6, layers: [2, 5] };
    expect(embeddedState(frameOf({ architecture }))).toMatchObject({ layer: 5, head: 0 });
    expect(embeddedState()).toEqual({ shown: [], at: 0 });
  });
});
