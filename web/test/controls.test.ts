// @vitest-environment happy-dom
/** The controls that rooms share: what they show for a state, and how a reader changes the state with them. */
import { describe, expect, it, vi } from 'vitest';
import { defaults, type State } from '../src/ask/state';
import type { Frame } from '../src/frame';
import type { SubjectEntry } from '../src/page/context';
import {
  choiceField,
  EXAMPLES,
  exampleField,
  nameOf,
  segmentedControl,
  startTokenButton,
  substitutionNotes,
  textField,
  troubleNotes,
} from '../src/page/controls';
import {
  addModelButton,
  askBar,
  tokenChips,
  fileField,
  startTokenField,
  generateControls,
  numberField,
  roomHeading,
  subjectList,
} from '../src/page/room_controls';
import { choiceOf } from '../src/views/index';
import { PATIENCE, frameOf } from './fixture';
import { pageOf, mount } from './page';
import { namePart } from '../src/parts';

function context(change: Partial<State> = {}, more: object = {}) {
  const models = {
    choices: [{ id: 'softmax', title: 'Softmax model' }],
    canOpen: (id: string) => id === 'hub:known/model',
  };
  const { calls, context: inner, ...page } = pageOf(change, [], { models, ...more });
  const signals = inner as unknown as Record<'pointed' | 'file', { value: unknown }>;
  return { ...page, ...calls, ...signals, inner };
}
const as = ({ inner }: ReturnType<typeof context>) => inner;

describe('a number field', () => {
  const field = (name: 'T' | 'eps' = 'T', most = Infinity) => {
    const page = context();
    const { enter, all } = mount(numberField('size', name, as(page), most));
    return {
      page,
      enter: (value: string) => [
        enter('[aria-label="size"]', value),
        page.set.mock.lastCall![0][name],
      ],
      all,
    };
  };

  it('keeps its value within bounds, rounds counts, and replaces invalid input by the default', () => {
    const { enter, all } = field('T', 512);
    expect([enter('7'), enter('0'), enter('513'), enter('2.6'), enter(''), enter('x')]).toEqual([
      ['7', 7],
      ['1', 1],
      ['512', 512],
      ['3', 3],
      ['64', 64],
      ['64', 64],
    ]);
    const [input] = all<HTMLInputElement>('input');
    expect(
      ['min', 'max', 'step', 'type'].map((name) => input!.getAttribute(name)),
    ).toMatchSnapshot();
    expect(field('eps').enter('0.25')).toEqual(['0.25', 0.25]);
    expect(field().enter('9000')).toEqual(['8192', 8192]);
  });
});

describe('a choice', () => {
  it('is a menu or a row of buttons that marks the selected one', () => {
    const pick = vi.fn();
    const options = [
      ['a', 'One'],
      ['b', 'Two'],
    ] as const;
    const menu = mount(choiceField('kind', 'b', options, pick));
    expect(
      menu
        .all<HTMLOptionElement>('option')
        .map((option) => [option.value, option.hasAttribute('selected')]),
    ).toMatchSnapshot();
    menu.enter('[aria-label="kind"]', 'a');
    expect(pick).toHaveBeenLastCalledWith('a');
    const row = mount(
      segmentedControl(
        'kind',
        [
          [1, 'One', 'the first'],
          [2, 'Two'],
        ],
        2,
        pick,
        true,
      ),
    );
    expect(
      row.all('button').map((button) => [button.title, button.getAttribute('aria-pressed')]),
    ).toMatchSnapshot();
    row.all('button')[0]!.click();
    expect(pick).toHaveBeenLastCalledWith(1);
    expect(row.all('.segmented')[0]!.className).toBe('segmented small');
    expect(
      mount(segmentedControl('kind', [], 0, pick))
        .all('.segmented')[0]!
        .className.trim(),
    ).toBe('segmented');
  });
});

describe('the heading of a room', () => {
  it('has its title and its finding, which an embed can hide', () => {
    const { all, text } = mount(roomHeading('Explore', 'A head has a sink.', as(context())));
    expect([text('h1'), text('.lead'), all('.lead')[0]!.hidden]).toMatchSnapshot();
    // All terms together are one tab stop.
    expect(all('.lead .term').map((element) => element.tabIndex)).toEqual([0, -1]);
    const hiddenHeading = mount(roomHeading('Explore', 'x', as(context({ hide: ['finding'] }))));
    expect(hiddenHeading.all('.lead')[0]!.hidden).toBe(true);
  });
});

describe('the list of subjects', () => {
  const twoSubjects = [
    { subject: 'softmax' },
    { subject: 'sigmoid@4', frame: frameOf({ title: 'Sigmoid' }) },
  ];

  it('names each subject, removes all but the last, and adds up to six', () => {
    const page = context();
    const show = vi.fn();
    const list = (all = twoSubjects) => mount(subjectList('Models', all, as(page), show));
    const { texts, all, button } = list();
    expect(texts('.subject')).toEqual(['Softmax model ✕', 'Sigmoid ✕']);
    expect(
      all('.subject button').map((button) => button.getAttribute('aria-label')),
    ).toMatchSnapshot();
    all('.subject button')[0]!.click();
    expect(show).toHaveBeenCalledExactlyOnceWith(['sigmoid@4']);
    button('+ add').click();
    expect(page.pickModels).toHaveBeenCalled();
    const isDisabled = (count: number) => {
      const { all: buttons } = list(
        Array.from({ length: count }, (_, i) => ({ subject: `m${i}` })),
      );
      return [buttons('.subject button'), buttons('.add')].map(
        ([one]) => (one as HTMLButtonElement).disabled,
      );
    };
    expect([isDisabled(1), isDisabled(2), isDisabled(5), isDisabled(6)]).toEqual([
      [true, false],
      [false, false],
      [false, false],
      [false, true],
    ]);
    expect(
      mount(subjectList('x', twoSubjects, as(context({ hide: ['subjects'] })), show)).root
        .textContent,
    ).toBe('');
    expect(
      (mount(addModelButton(true, as(page))).all('button')[0] as HTMLButtonElement).disabled,
    ).toBe(true);
    const numberedList = mount(
      subjectList('x', twoSubjects, as(page), show, (name, i) => `${i}: ${name}`),
    );
    expect(numberedList.texts('.subject')).toEqual(['0: Softmax model ✕', '1: Sigmoid ✕']);
  });

  it('names models that are not open yet by their ids', () => {
    const page = context();
    const name = (subject: string) => nameOf({ subject }, as(page));
    expect([name('softmax@40'), name('hub:a/b'), name('?!')]).toMatchSnapshot();
    page.engine.value = undefined;
    expect(name('softmax')).toBe('softmax');
  });
});

describe('the text field and the file input', () => {
  it('update as the reader types', () => {
    const page = context();
    mount(textField(as(page), 3)).enter('textarea', 'Some words', 'input');
    expect(page.set.mock.calls).toEqual([[{ prompt: 'Some words', input: 'text' }]]);
    const { all } = mount(textField(as(page), 5));
    expect([
      all<HTMLTextAreaElement>('textarea')[0]!.value,
      all('textarea')[0]!.getAttribute('rows'),
    ]).toEqual(['Some words', '5']);
  });

  it('show how the prompt file is split, which the reader can change', async () => {
    const page = context();
    expect(mount(fileField(as(page))).text('.hint')).toMatch(/^UTF-8: one prompt per line/);
    const promptFile = { name: 'my.txt', text: 'a\nb\nc', splitting: 'lines' };
    page.file.value = promptFile;
    const { text, enter, all } = mount(fileField(as(page)));
    expect(text('.prompt-file > span')).toBe('my.txt: 3 prompts');
    enter('[aria-label="split"]', 'whole');
    expect(page.chooseFile).toHaveBeenLastCalledWith({ ...promptFile, splitting: 'whole' });
    page.file.value = { ...promptFile, splitting: 'whole' };
    expect(mount(fileField(as(page))).text('.prompt-file > span')).toBe('my.txt: 1 text');
    const [input] = all<HTMLInputElement>('input');
    const file = new File(['x\ny'], 'new.txt');
    Object.defineProperty(input, 'files', { value: [file] });
    input!.dispatchEvent(new Event('change'));
    await vi.waitUntil(() => page.chooseFile.mock.calls.length > 1, PATIENCE);
    expect(page.chooseFile.mock.lastCall![0]).toMatchObject({ name: 'new.txt', text: 'x\ny' });
  });
});

describe('the start token and example texts', () => {
  const special = { automatic: ['<s>'], bos: '<s>', choices: ['<s>', '</s>'] };
  const frameWith = (change: object = {}) => frameOf({ special, ...change } as never);
  const options = (first: string, ...frames: Frame[]) =>
    mount(startTokenField(as(context({ first })), frames))
      .all<HTMLOptionElement>('option')
      .map(
        (option) =>
          `${option.value}|${option.textContent}${option.hasAttribute('selected') ? '*' : ''}`,
      );

  it('offers the start tokens of the tokenizers', () => {
    expect(options('', frameWith())).toMatchSnapshot();
    // The start token, which this default adds anyway, is offered only if a link asked for it.
    const standard = '|the tokenizer’s default: <s>';
    expect(options('bos', frameWith())).toEqual([
      ...[standard, 'none|none', 'bos|start token <s>*', '</s>|</s>'],
    ]);
    expect(options('none', frameWith())).toEqual([standard, 'none|none*', '</s>|</s>']);
    const noneFrame = frameWith({ special: { ...special, automatic: [] } });
    expect(options('', noneFrame)).toMatchSnapshot();
    expect(options('', frameWith(), noneFrame)[0]).toBe('|the tokenizer’s default: <s> / none*');
    expect(options('<s>', frameWith())).toContain('<s>|<s>*');
    expect(
      options('', frameWith({ special: { automatic: [], bos: null, choices: [] } })),
    ).toHaveLength(2);
  });

  it('shows the current one, and adds or removes it with one press', () => {
    const press = (change: object) => {
      const page = context();
      const { text, all } = mount(startTokenButton(as(page), [frameWith(change)]));
      all('button')[0]?.click();
      return [text('button'), all('button')[0]?.title, page.set.mock.lastCall?.[0].first];
    };
    expect(press({})).toMatchSnapshot();
    const addLabel = 'no start token: add <s>';
    expect(press({ first: [] })).toEqual([addLabel, addLabel, '']);
    expect(press({ first: [], special: { ...special, automatic: [] } })).toEqual([
      ...[addLabel, addLabel, 'bos'],
    ]);
    expect(press({ special: { ...special, bos: null } })).toEqual(['', undefined, undefined]);
    expect(mount(startTokenButton(as(context()), [])).root.textContent).toBe('');
    const bothButton = mount(
      startTokenButton(as(context()), [frameWith(), frameWith({ first: ['<s>', '</s>'] })]),
    );
    expect(bothButton.text('button')).toBe('starts with <s> / starts with <s> </s> ✕');
  });

  it('example texts replace the reader’s text', () => {
    const page = context({ prompt: EXAMPLES[1] });
    const { all, texts } = mount(exampleField(as(page)));
    expect(texts('option')).toEqual(['Example texts', ...EXAMPLES]);
    const select = all('select')[0] as unknown as HTMLSelectElement;
    const options = all('option') as unknown as HTMLOptionElement[];
    expect(
      options.filter((option) => option.hasAttribute('selected')).map((option) => option.value),
    ).toEqual([EXAMPLES[1]]);
    select.value = EXAMPLES[2];
    select.dispatchEvent(new Event('change'));
    expect(page.set).toHaveBeenCalledWith({
      prompt: EXAMPLES[2],
      input: 'text',
      query: -1,
      key: -1,
    });
  });
});

describe('the text panel', () => {
  const drawPanel = (change: Partial<State> = {}, ...frames: Frame[]) => {
    const page = context(change);
    return { page, ...mount(askBar(as(page), frames)) };
  };

  it('has the text, its length and the number of prompts, and more on request', () => {
    const { text, texts, enter, page, all, button } = drawPanel(
      {},
      frameOf({ architecture: { ...frameOf().architecture, context: 99 } }),
    );
    expect(text('.numbers .hint')).toBe('T = 3 here');
    expect(all('[aria-label="T ≤"]')[0]!.getAttribute('max')).toBe('99');
    expect(texts('.segmented button')).toEqual(['1 prompt', '10', '100']);
    button('10').click();
    expect(page.set).toHaveBeenLastCalledWith({ n: 10, input: 'heldout' });
    button('1 prompt').click();
    expect(page.set).toHaveBeenLastCalledWith({ n: 1 });
    enter('[aria-label="prompts from"]', 'random');
    expect(page.set).toHaveBeenLastCalledWith({ input: 'random' });
    enter('[aria-label="map colors"]', 'linear');
    expect(page.set).toHaveBeenLastCalledWith({ scale: 'linear' });
    expect([all('textarea').length, all('[aria-label=seed]').length]).toEqual([1, 0]);
    expect(drawPanel({ T: 3 }, frameOf()).all('.numbers .hint')).toHaveLength(0);
    const randomPanel = drawPanel({ input: 'random', n: 10 });
    randomPanel.button('100').click();
    expect(randomPanel.page.set).toHaveBeenLastCalledWith({ n: 100 });
    const [first] = randomPanel.all('.segmented button');
    first!.click();
    expect(randomPanel.page.set).toHaveBeenLastCalledWith({ n: 1 });
    expect([
      randomPanel.all('[aria-label=seed]').length,
      randomPanel.all('textarea').length,
    ]).toEqual([1, 0]);
    expect(drawPanel({ input: 'repeat' }).all('[aria-label=seed]')).toHaveLength(1);
    expect(drawPanel({ input: 'file' }).all('input[type=file]')).toHaveLength(1);
    expect(drawPanel().all('[aria-label="T ≤"]')[0]!.getAttribute('max')).toBe('8192');
  });

  it('says once how the tokenizers read a text that they read in an unexpected way', () => {
    const token = (id: number, start: number, end: number, special = false) => ({
      ...{ id, start, end, special, text: id ? namePart('注', id - 6, 3) : '<s>' },
    });
    const notes = (...frames: Frame[]) => drawPanel({}, ...frames).texts('[data-token-note]');
    expect(notes(frameOf())).toEqual([]);
    const twice = frameOf({ tokens: [token(0, 0, 0, true), token(0, 0, 3), token(5, 3, 4)] });
    expect(notes(twice, twice)).toMatchSnapshot();
    const bytes = frameOf({ tokens: [token(0, 0, 0, true), token(7, 0, 1), token(8, 0, 1)] });
    expect(notes(bytes)).toMatchSnapshot();
    // The second character is cut after its first byte.
    const cut = token(9, 1, 2);
    expect(notes(frameOf({ tokens: [...bytes.tokens, cut] }))).toMatchSnapshot();
  });

  it('omits what an embed hides, and is absent for a recording', () => {
    expect(
      drawPanel({ hide: ['text'] })
        .all('textarea, .segmented')
        .map((element) => element.className),
    ).toHaveLength(1);
    expect(drawPanel({ hide: ['numbers'] }).all('textarea, .segmented')).toHaveLength(1);
    const recordedFrame = frameOf({ recording: {} } as never);
    expect(drawPanel({}, recordedFrame).all('[data-recorded]')).toHaveLength(1);
    expect(drawPanel({}, recordedFrame, frameOf()).all('[data-recorded]')).toHaveLength(0);
  });
});

describe('the row of tokens', () => {
  const tokens = ['<s>', ' a', ' b', ' c'].map((text, id) => ({
    id: 7 + id,
    text,
    start: id,
    end: id + 1,
    special: !id,
  }));
  const frameWith = (change: object = {}) => frameOf({ T: 4, tokens, ...change } as never);
  const drawRow = (change: Partial<State> = {}, of = frameWith()) => {
    const page = context(change);
    const chipRow = mount(tokenChips(of, as(page)));
    return { page, ...chipRow, chips: chipRow.all('.chip') };
  };

  it('is one tab stop, and marks tokens by their roles', () => {
    const { chips: all, text } = drawRow({ query: 2 }, frameWith({ generated: 1, dropped: 5 }));
    expect(
      all.map((element) => [
        element.textContent,
        element.tabIndex,
        element.getAttribute('aria-pressed'),
      ]),
    ).toMatchSnapshot();
    expect(all.map((element) => element.className.replace(/\s+/g, ' ').trim())).toMatchSnapshot();
    expect([all[1]!.title, text('.cut')]).toMatchSnapshot();
    expect(drawRow().chips.map((element) => element.tabIndex)).toEqual([0, -1, -1, -1]);
    expect(drawRow({ query: 99 }).chips.map((element) => element.tabIndex)).toEqual([
      -1, -1, -1, 0,
    ]);
    const usualRow = mount(tokenChips(frameWith(), as(context())));
    expect(usualRow.all('.chip')[0]!.title).toBe('position 0, id 7');
    expect(drawRow().all('.cut')).toHaveLength(0);
  });

  it('can be selected, hovered and traversed by the arrow keys', () => {
    const { chips: all, page, all: find } = drawRow({ query: 1 });
    all[2]!.click();
    all[1]!.click();
    expect(page.set.mock.calls).toEqual([[{ query: 2, key: -1 }], [{ query: -1, key: -1 }]]);
    all[3]!.dispatchEvent(new Event('pointerenter'));
    expect(page.point).toHaveBeenLastCalledWith({ query: 3 });
    find('.chips')[0]!.dispatchEvent(new Event('pointerleave'));
    expect(page.point).toHaveBeenLastCalledWith({});
    const press = (at: number, key: string) => {
      all[at]!.focus();
      const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true });
      all[at]!.dispatchEvent(event);
      expect(event.defaultPrevented).toBe(key.startsWith('Arrow'));
      return all.indexOf(document.activeElement as HTMLElement);
    };
    expect(
      ['ArrowLeft', 'ArrowUp', 'ArrowRight', 'ArrowDown', 'a'].map((key) => press(1, key)),
    ).toEqual([...[0, 0, 2, 2, 1]]);
    expect([press(0, 'ArrowLeft'), press(3, 'ArrowRight')]).toEqual([0, 3]);
    page.point.mockClear();
    all[2]!.focus();
    expect(page.point).toHaveBeenLastCalledWith({ query: 2 });
  });
});

describe('generating', () => {
  it('continues the text with models that can generate, stops on request, and reports a failure', async () => {
    const page = context({ temperature: 0.5, topK: 7, seed: 3 });
    page.queue.generate.mockRejectedValue(new Error('no room'));
    const fail = vi.spyOn(page.inner, 'fail').mockImplementation(() => {});
    const maskedArchitecture = { ...frameOf().architecture, mask: { kind: 'bidirectional' } };
    const frames = [
      frameOf(),
      frameOf({ subject: 'b', architecture: maskedArchitecture } as never),
      frameOf({ subject: 'c', recording: {} } as never),
    ];
    const { button, all } = mount(generateControls(as(page), frames));
    const ranges = all<HTMLInputElement>('input').map(({ min, max, step }) => [min, max, step]);
    expect(ranges).toMatchSnapshot();
    button('Generate 16 tokens').click();
    expect(page.queue.generate).toHaveBeenCalledExactlyOnceWith(['softmax'], {
      ...{ count: 16, temperature: 0.5, topK: 7, seed: 3 },
    });
    await vi.waitFor(() => expect(fail).toHaveBeenCalledWith(new Error('no room')), PATIENCE);
    page.queue.isGenerating = true;
    const generatedFrames = frames.map((one) => ({ ...one, generated: 1 }));
    const { text: said } = mount(generateControls(as(page), generatedFrames));
    expect(said('.generated')).toBe('a=1,"x"');
    expect(said('.generated strong')).toBe('=1,"x"');
    expect(mount(generateControls(as(page), frames)).all('.generated')).toEqual([]);
    mount(generateControls(as(page), frames))
      .button('Stop')
      .click();
    expect(page.queue.stopGenerating).toHaveBeenCalledTimes(1);
    expect(mount(generateControls(as(page), frames.slice(1))).root.textContent).toBe('');
    expect(
      mount(generateControls(as(context({ hide: ['generate'] })), frames)).root.textContent,
    ).toBe('');
    const headless = { ...frameOf().architecture, head: false };
    const baseModel = frameOf({ title: 'Base', architecture: headless } as never);
    expect(
      mount(generateControls(as(page), [baseModel])).text('[data-headless]'),
    ).toMatchSnapshot();
  });
});

describe('an error message', () => {
  const drawNotes = (...all: Partial<SubjectEntry>[]) => {
    const page = context();
    return {
      page,
      ...mount(
        troubleNotes(
          all.map((one) => ({ subject: 'softmax', isStale: false, ...one })),
          as(page),
        ),
      ),
    };
  };

  it('appears at its model, with a button that helps', () => {
    const { text, button, page } = drawNotes({ error: 'no such file' }, { frame: frameOf() });
    expect(text('[role=alert] p')).toMatchSnapshot();
    button('Try again').click();
    expect(page.queue.retry).toHaveBeenCalledTimes(1);
    const stopped = { error: 'Stopped!', frame: frameOf() };
    expect(drawNotes({ ...stopped, isStale: true }).text('p')).toMatchSnapshot();
    // The measurement of a view was stopped: the frame is that of this question, and there is none of an earlier one.
    expect(drawNotes(stopped).text('p')).toMatchSnapshot();
    expect(drawNotes({ error: 'expected an end (too_slow)' }).text('button')).toBe('Wait longer');
    expect(drawNotes({ frame: frameOf() }).root.textContent).toBe('');
  });

  it('appears once for a model and its intervention, which fail alike', () => {
    const lost = { error: 'the run took too long (lost)' };
    const { text, root } = drawNotes(lost, { ...lost, subject: 'softmax~hide_key(0)' });
    expect(root.querySelectorAll('p, button')).toHaveLength(2);
    expect(text('p')).toMatch(
      /^Softmax model, Softmax model, .*: the run took too long \(lost\)\. Try again$/,
    );
    expect(drawNotes(lost, { error: 'other' }).root.querySelectorAll('p')).toHaveLength(2);
  });

  it('names what a model does not have of a request, and what is shown instead', () => {
    const words = (change: Partial<State>, first = '', more: Partial<Frame> = {}) => {
      const frame = frameOf({ question: { ...frameOf().question, first }, ...more });
      const notes = troubleNotes(
        [{ subject: 'softmax', isStale: false, frame }],
        as(context(change)),
      );
      return mount(notes).text('[role=status]');
    };
    expect(words({ layer: 1, head: 0 }, '<s>')).toBe('');
    expect(words({}, 'none')).toBe('');
    const special = { automatic: [], bos: null, choices: [] };
    expect(words({}, 'zzz', { recording: {} as never })).toBe('');
    expect(words({ query: 2, key: 1 })).toBe('');
    expect(words({ channel: 7 })).toBe('');
    expect([
      words({ layer: 100, head: 100 }),
      words({ layer: 1, head: 2 }),
      words({}, 'zzz'),
      words({}, 'bos', { special, first: [] }),
      words({ query: 3 }),
      words({ query: 7, key: 3 }),
      words({ key: 9, lastKey: 9 }),
      words({ key: 1, lastKey: 8 }),
      words({ channel: 8 }),
    ]).toMatchSnapshot();
    // Numbers of an earlier question say nothing about this one.
    const stale = { subject: 'softmax', isStale: true, frame: frameOf() };
    expect(substitutionNotes([stale], { ...defaults, layer: 100, head: 100 })).toEqual([]);
  });

  it('says that a layer or a head alone names no head, except where a view draws a layer', () => {
    const notesOf = (change: Partial<State>) =>
      substitutionNotes([{ subject: 'softmax', isStale: false, frame: frameOf() }], {
        ...defaults,
        ...change,
      }).map((note) => note.replace(frameOf().title, 'M'));
    expect(notesOf({ layer: 0 })).toMatchSnapshot();
    expect(notesOf({ head: 1 })).toMatchSnapshot();
    expect(notesOf({ layer: 50 })).toMatchSnapshot();
    expect(notesOf({ layer: 0, view: 'channels' })).toEqual([]);
    expect(notesOf({ layer: 50, view: 'channels' })).toMatchSnapshot();
    // Each of these views is in the tab of the channels.
    const { tab } = choiceOf('channels', []);
    for (const { name } of tab.views) expect(notesOf({ layer: 0, view: name })).toEqual([]);
  });

  it('names the stored step that is shown in place of the one asked for', () => {
    const notesOf = (subject: string, nearestStep?: number) => {
      const model = { ...frameOf().model, ...(nearestStep === undefined ? {} : { nearestStep }) };
      const frame = frameOf({ subject, model });
      return substitutionNotes([{ subject, isStale: false, frame }], defaults);
    };
    expect(notesOf('softmax@99999', 4000)).toMatchSnapshot();
    expect(notesOf('softmax@4000')).toEqual([]);
  });

  it('offers to open a model that is not open yet', () => {
    const offerFor = (subject: string) => {
      const { all, text, page } = drawNotes({ subject, error: 'x is not loaded yet.' });
      all('button')[0]!.click();
      return [text('button'), page.open.mock.lastCall?.[0], page.queue.retry.mock.calls.length];
    };
    expect(offerFor('hub:a/b@main')).toEqual(['Open a/b@main', 'a/b@main', 0]);
    expect(offerFor('disk:0123456789abcdef/m')).toEqual(['Open m', 'disk:0123456789abcdef/m', 0]);
    expect(offerFor('recording:https://x/y.safetensors')[0]).toBe('Open y');
    expect(offerFor('hub:known/model')).toEqual(['Try again', undefined, 1]);
  });

  it('appears once if all models have the same problem', () => {
    const error = 'Type a sentence: there is no text yet.';
    const { all, text } = drawNotes({ error }, { error, subject: 'b' });
    expect([all('p').length, text('.wanting'), all('button').length]).toEqual([1, error, 0]);
    const staleNotes = drawNotes({ error, frame: frameOf(), isStale: true });
    expect(staleNotes.text('.wanting')).toMatchSnapshot();
  });
});
