// @vitest-environment happy-dom
/** The dialogs in which models are chosen and figures embedded, the header, the link that is shared, and the address. */
import { signal } from '@preact/signals-core';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { defaults, linkTo, parseHash, printHash, type State } from '../src/ask/state';
import { showEmbed } from '../src/embed/dialog';
import { snippets } from '../src/embed/snippets';
import { Picker } from '../src/open/picker';
import {
  address,
  replaceUnknownNames,
  replaceUnknownValues,
  file,
  set,
  sharedLink,
  state,
} from '../src/page/address';
import { enter } from '../src/page/enter';
import { fail, failure, notices, notify, offerNewVersion } from '../src/page/messages';
import { drawMessages } from '../src/page/messages';
import { drawFooter, drawHeader } from '../src/page/page';
import { drawNamesOffer } from '../src/page/share';
import { frameOf, turn } from './fixture';
import { pageOf, readOf } from './page';

// happy-dom dispatches an event when a program replaces the hash; a browser does not.
vi.hoisted(() =>
  addEventListener('hashchange', (event) => {
    if (event instanceof HashChangeEvent) event.stopImmediatePropagation();
  }),
);

const { settings } = (window as unknown as { happyDOM: { settings: object } }).happyDOM;
Object.assign(settings, { handleDisabledFileLoadingAsSuccess: true });

const DISK = 'disk:0123456789abcdef/mine';
const copied: string[] = [];
beforeEach(() => {
  document.body.replaceChildren();
  copied.length = 0;
  vi.stubGlobal('navigator', {
    clipboard: { writeText: async (text: string) => void copied.push(text) },
  });
  state.value = defaults;
  file.value = undefined;
  notices.value = [];
  failure.value = '';
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

// The address is written some time after a change, perhaps after the test has ended; a click writes it at once.
afterAll(() => void dispatchEvent(new Event('click')));

describe('the picker of models', () => {
  const choices = [
    { id: 'softmax', title: 'Softmax', source: 'zoo' },
    { id: 'sigmoid', title: 'Sigmoid', source: 'zoo' },
    { id: 'hub:a/b', title: 'a/b', source: 'hub' },
    { id: 'recording:x', title: 'A recording', source: 'recording' },
  ];
  const cards = [
    { id: 'softmax', operation: 'softmax', timeline: true },
    { id: 'sigmoid', operation: 'sigmoid', factor: 'operation', timeline: true },
  ];
  const texts_ = {
    ...{ version: '', metrics: [], fields: [], letters: {} },
    operations: [
      { name: 'softmax', label: 'softmax', parameters: [], features: '' },
      {
        name: 'power',
        label: 'a power',
        parameters: [{ name: 'p', meaning: 'The exponent.', default: 2, min: 1, max: 20_000 }],
        features: '',
      },
      { name: 'sigmoid', label: 'sigmoid', parameters: [], features: '' },
    ],
    edits: [
      {
        name: 'evict',
        meaning: 'evict keys',
        parameters: [
          {
            name: 'policy',
            meaning: 'Which.',
            choices: ['window', 'first'],
            labels: ['by age', 'all but the first'],
          },
          { name: 'budget', meaning: 'How many.', default: 8, min: 1, required: true },
          { name: 'first', meaning: 'Kept.', min: -1e9, required: false },
        ],
      },
    ],
  };
  const describe_ = JSON.parse(
    JSON.stringify(texts_, (key, value) => (key === 'meaning' ? undefined : value)),
  );
  const stepsOf = async (id: string) => (id === 'softmax' ? [0, 4000] : []);
  const open = async (
    change: Partial<State> = {},
    explain = async () => texts_,
    steps: (id: string) => Promise<number[]> = stepsOf,
  ) => {
    const timelines = async () => ({ steps });
    const page = pageOf(change, [], {
      models: { choices, zoo: { cards }, describe: describe_, explain, timelines },
    });
    new Picker(page.context).show();
    await turn();
    const dialog = [...document.querySelectorAll<HTMLDialogElement>('#pick')].at(-1)!;
    const dialogReader = readOf(dialog);
    const title = dialog.getAttribute('aria-labelledby')!;
    expect(dialogReader.words(dialog.querySelector<HTMLElement>(`#${title}`)!)).toBeTruthy();
    return {
      ...{ ...page, ...dialogReader, dialog },
      boxes: () =>
        dialogReader
          .all<HTMLInputElement>('.pick input')
          .map(
            (element) =>
              `${dialogReader.words(element.parentElement!)!.replace(/: .*/, '')}${element.checked ? ' ✓' : ''}${element.disabled ? ' –' : ''}`,
          ),
      tick: (i: number) => dialogReader.all('.pick input')[i]!.click(),
      send: (name: string) => {
        const { form } = dialogReader.button(name);
        form!.dispatchEvent(new Event('submit', { cancelable: true }));
        return page.state.value.shown.at(-1);
      },
    };
  };

  it('lists the models by what their recipes change, and selects one to six of them', async () => {
    const { texts, boxes, tick, text, state, dialog, click } = await open({ shown: ['softmax'] });
    expect(texts('legend')).toMatchSnapshot();
    expect(boxes()).toEqual(['Softmax ✓ –', 'Sigmoid', 'a/b', 'A recording']);
    expect(text('[role=status]')).toBe('1 of 6');
    tick(2);
    expect(state.value.shown).toEqual(['softmax', 'hub:a/b']);
    expect(boxes()).toEqual(['Softmax ✓', 'Sigmoid', 'a/b ✓', 'A recording']);
    tick(0);
    expect([state.value.shown, boxes()[2]]).toEqual([['hub:a/b'], 'a/b ✓ –']);
    click('Done');
    expect(dialog.open).toBe(false);
    const fullPicker = await open({ shown: ['a', 'b', 'c', 'd', 'e', 'softmax'] });
    expect([
      fullPicker.text('[role=status]'),
      fullPicker.boxes()[0],
      fullPicker.boxes()[1],
    ]).toEqual(['At most 6.', 'Softmax ✓', 'Sigmoid –']);
    expect(
      fullPicker.all<HTMLButtonElement>('button[type=submit]').map((element) => element.disabled),
    ).toEqual([true, true]);
    expect(fullPicker.boxes().slice(4)).toEqual(['a ✓', 'b ✓', 'c ✓', 'd ✓', 'e ✓']);
  });

  it('adds a checkpoint or a counterfactual of the selected model', async () => {
    const { send, enter, all, texts, state } = await open();
    expect(texts('[name=step] option')).toEqual(['0', '4,000']);
    enter('[name=step]', '4000');
    expect(send('Add checkpoint')).toBe('softmax@4000');
    const oldShown = state.value.shown;
    send('Add checkpoint');
    expect(state.value.shown).toBe(oldShown);
    expect(texts('[name=edit] option')).toEqual(['a power', 'sigmoid', 'evict keys']);
    expect(all<HTMLSelectElement>('[name=edit]')[0]!.value).toBe('sigmoid');
    expect(send('Add counterfactual')).toBe('softmax~sigmoid');
  });

  it('offers the checkpoints of the chosen model only, however late those of another arrive', async () => {
    const answers = new Map<string, (steps: number[]) => void>();
    const steps = (id: string) => new Promise<number[]>((resolve) => void answers.set(id, resolve));
    const { enter, texts, send } = await open({}, undefined, steps);
    const [modelChoice, options] = ['.open-body select', '[name=step] option'];
    answers.get('softmax')!([0, 4000]);
    await turn();
    expect(texts(options)).toEqual(['0', '4,000']);
    enter(modelChoice, 'sigmoid');
    expect(texts(options)).toEqual([]);
    enter(modelChoice, 'softmax');
    enter(modelChoice, 'sigmoid');
    await turn();
    answers.get('sigmoid')!([0, 700]);
    await turn();
    answers.get('softmax')!([0, 4000]);
    await turn();
    expect(texts(options)).toEqual(['0', '700']);
    enter('[name=step]', '700');
    expect(send('Add checkpoint')).toBe('sigmoid@700');
  });

  it('has the parameters of a counterfactual, and omits those with standard values', async () => {
    const { send, enter, all, state } = await open({ shown: ['sigmoid'] });
    enter('[name=edit]', 'power');
    const [p] = all<HTMLInputElement>('[name=p]');
    expect([p!.value, p!.min, p!.max, p!.title]).toEqual(['2', '1', '9999', 'The exponent.']);
    expect(send('Add counterfactual')).toBe('softmax~power');
    enter('[name=p]', '3');
    expect(send('Add counterfactual')).toBe('softmax~power(3)');
    enter('[name=edit]', 'evict');
    expect(all<HTMLSelectElement>('[name=policy]')[0]!.value).toBe('window');
    expect(
      all<HTMLInputElement>('[name=budget], [name=first]').map(({ value }) => value),
    ).toMatchSnapshot();
    enter('[name=budget]', '5');
    expect(send('Add counterfactual')).toBe('softmax~evict(window,5)');
    enter('[name=first]', '1');
    expect(send('Add counterfactual')).toBe('softmax~evict(window,5,1)');
    state.value = { ...state.value, shown: ['softmax'] };
    const models = all<HTMLSelectElement>('label > select').find((element) =>
      element.querySelector('optgroup'),
    )!;
    expect([...models.querySelectorAll('optgroup')].map(({ label }) => label)).toMatchSnapshot();
    models.value = 'sigmoid';
    models.dispatchEvent(new Event('change'));
    await turn();
    expect(all('[name=step]')).toEqual([]);
    expect(
      [...all('[name=edit] option')].map((one) => (one as HTMLOptionElement).value),
    ).toMatchSnapshot();
    expect(send('Add counterfactual')).toMatch(/^sigmoid~evict/);
  });

  it('names a counterfactual by its name until its description is loaded', async () => {
    let deliver = (_: typeof texts_) => {};
    const { texts, all, enter } = await open({}, () => new Promise((done) => (deliver = done)));
    expect(texts('[name=edit] option')).toEqual(['a power', 'sigmoid', 'evict']);
    enter('[name=edit]', 'power');
    expect(all('[name=p]')[0]!.hasAttribute('title')).toBe(false);
    deliver(texts_);
    await turn();
    expect(texts('[name=edit] option')).toEqual(['a power', 'sigmoid', 'evict keys']);
    expect(all('[name=p]')[0]!.title).toBe('The exponent.');
  });

  it('has a button that opens a model it does not list', async () => {
    const { click, calls } = await open();
    click('Open another model …');
    expect(calls.open).toHaveBeenCalledWith();
  });
});

describe('the code to embed a figure', () => {
  const openDialog = (change: Partial<State> = {}, pinned: Partial<State> = {}) => {
    const page = pageOf({ shown: ['softmax', DISK], ...change });
    showEmbed(page.context, 'sinks', pinned);
    const dialog = document.querySelector<HTMLDialogElement>('.embed-dialog')!;
    const dialogReader = readOf(dialog);
    const frame = dialogReader.all<HTMLIFrameElement>('iframe')[0]!;
    const codeText = () => dialogReader.all<HTMLTextAreaElement>('textarea')[0]!.value;
    const places: string[] = [];
    vi.spyOn(frame, 'contentWindow', 'get').mockReturnValue({
      location: { replace: (to: string) => places.push(to) },
    } as never);
    return { ...page, ...dialogReader, dialog, frame, code: codeText, places };
  };
  const stateIn = (hash: string) => parseHash(new URL(hash).hash).state;

  it('embeds the view with the state of its figure, for each host that takes it', () => {
    const { text, code, frame, enter, texts, dialog } = openDialog(
      { eps: 0.4 },
      { layer: 1, head: 0 },
    );
    expect([text('h2'), dialog.getAttribute('aria-label')]).toMatchSnapshot();
    expect(texts('[aria-label=for] option')).toEqual(snippets.map(({ label }) => label));
    expect(code()).toMatch(
      /<sink-scope shown="softmax" prompt="The old man .*" eps="0\.4" layer="1" head="0" view="sinks"/,
    );
    expect(code()).toContain('height="520"');
    // A picture and a link are shown until the script has loaded, or if it does not load.
    expect(code()).toMatch(
      /<sink-scope [^>]*><a href="[^"]*embed\.html#[^"]*"><img src="[^"]*\.png" width="100%" alt="Sinkscope: Sink map">/,
    );
    expect(code()).not.toContain('style=');
    // No link can name a model on a disk.
    expect(stateIn(frame.src)).toMatchObject({
      view: 'sinks',
      shown: ['softmax'],
      eps: 0.4,
      layer: 1,
      head: 0,
    });
    enter('[aria-label=for]', '2');
    expect(code()).toMatch(/^<iframe src=[^>]* width="100%" height="520" frameborder="0"/);
    enter('[aria-label=for]', '3');
    expect(code()).toMatch(/^[^<]*embed\.html#/);
    expect(stateIn(code())).toMatchObject({ view: 'sinks', theme: 'auto' });
    enter('[aria-label=theme]', 'dark');
    expect(stateIn(code()).theme).toBe('dark');
  });

  it('keeps a blank line of the text inside its attribute, where Markdown does not see it', () => {
    const prompt = 'One line.\n\nAnother "line".';
    const { code, enter } = openDialog({ prompt });
    expect(code()).toMatchSnapshot();
    for (const i of snippets.keys()) {
      enter('[aria-label=for]', String(i));
      expect(code(), snippets[i]!.label).not.toMatch(/\n\n/);
    }
  });

  it('has the size and controls that a teacher chooses, and a preview of that size', () => {
    const { code, all, enter, frame, texts, places } = openDialog();
    expect([frame.style.width, frame.style.height]).toEqual(['calc(100% - 2px)', '520px']);
    enter('[aria-label=size]', '1');
    expect([frame.style.width, frame.style.height]).toEqual(['360px', '300px']);
    expect(code()).toMatch(/<sink-scope [^>]* width="360" height="300"/);
    const names = texts('.check');
    const boxes = all<HTMLInputElement>('.check input');
    boxes[0]!.click();
    boxes[2]!.click();
    expect(code()).toContain(`controls="${names[0]},${names[2]}"`);
    boxes[0]!.click();
    expect(code()).toContain(`controls="${names[2]}"`);
    expect(stateIn(places.at(-1)!).controls).toEqual([names[2]]);
    expect(places).toHaveLength(4);
  });

  it('is copied by a button, and the dialog is removed when it is closed', async () => {
    const { code, click, calls, dialog } = openDialog();
    click('Copy');
    await turn();
    expect([copied, calls.notify.mock.lastCall]).toEqual([[code()], ['Embed code copied.']]);
    expect(dialog.open).toBe(true);
    click('Close');
    expect(document.querySelector('.embed-dialog')).toBeNull();
    const reason = new Error('not allowed');
    vi.stubGlobal('navigator', { clipboard: { writeText: () => Promise.reject(reason) } });
    const page = pageOf({}, [], { fail: vi.fn() });
    showEmbed(page.context, 'sinks', {});
    readOf(document.querySelector('.embed-dialog')!).click('Copy');
    await turn();
    expect(page.context.fail).toHaveBeenCalledWith(reason);
  });
});

describe('the header', () => {
  const rooms = [
    { name: 'start', title: 'Start' },
    { name: 'explore', title: 'Explore' },
  ];
  const drawPageHeader = () => {
    const place = document.body.appendChild(document.createElement('header'));
    const open = vi.fn();
    drawHeader(place, rooms, open);
    return { open, ...readOf(place) };
  };

  it('links to every room with the current state, and marks the current room', () => {
    const { all, texts } = drawPageHeader();
    const links = () =>
      all('nav a').map((element) => `${element.getAttribute('aria-current')} ${element.tabIndex}`);
    expect([texts('nav a'), links()]).toMatchSnapshot();
    set({ room: 'explore', eps: 0.5, why: 2 });
    expect(links()).toEqual(['false 0', 'page -1']);
    const [home, , explore] = all<HTMLAnchorElement>('a').map(
      (element) => parseHash(element.getAttribute('href')!).state,
    );
    expect(home).toMatchObject({ room: 'start', eps: 0.5, why: 0 });
    expect(explore).toMatchObject({ room: 'explore', eps: 0.5, why: 2 });
  });

  it('opens a model, changes the theme, and copies the link', async () => {
    const { click, open, enter, all } = drawPageHeader();
    click('Open a model');
    expect(open).toHaveBeenCalled();
    enter('select', 'dark');
    expect(state.value.theme).toBe('dark');
    set({ room: 'compare', shown: ['softmax', DISK], input: 'file' });
    click('Share');
    await turn();
    expect(copied[0]).toMatch(/\/compare\/index\.html#/);
    expect(parseHash(new URL(copied[0]!).hash).state).toMatchObject({
      room: 'compare',
      shown: ['softmax'],
    });
    expect(notices.value).toMatchSnapshot();
    set({ hide: ['links'] });
    expect(all('.tools')[0]!.hidden).toBe(true);
  });

  it('shows the link as text if it cannot be copied', async () => {
    vi.stubGlobal('navigator', { clipboard: { writeText: () => Promise.reject(new Error()) } });
    drawPageHeader().click('Share');
    await turn();
    expect(notices.value.map((note) => note.split(': ').at(-1))).toEqual([
      sharedLink(linkTo(state.value)),
    ]);
  });
});

describe('sharing a link', () => {
  const showShareOffers = (change: Partial<State>, frame = frameOf()) => {
    state.value = { ...defaults, ...change };
    const offers = document.body.appendChild(document.createElement('div'));
    const header = document.body.appendChild(document.createElement('div'));
    const page = pageOf({}, [frame]);
    drawHeader(header, [], () => {});
    drawNamesOffer(offers, page.context);
    const share = async () => {
      readOf(header).click('Share');
      await turn();
    };
    return { ...page, ...readOf(offers), share };
  };

  it('can name models on a disk, for readers with the same files', async () => {
    const { text, click, share } = showShareOffers({ shown: ['softmax', DISK, `${DISK}~sigmoid`] });
    expect(text('.unshared')).toBe('');
    await share();
    expect(text('.unshared')).toMatch(
      /^The link does not contain mine, .*, because those files are on your disk\. Include/,
    );
    click('Include name and fingerprint');
    await turn();
    expect(parseHash(new URL(copied[1]!).hash).state.shown).toEqual([
      'softmax',
      DISK,
      `${DISK}~sigmoid`,
    ]);
    expect(notices.value).toMatchSnapshot();
    expect(text('.unshared')).toBe('');
    const diskOnly = showShareOffers({ shown: [DISK] });
    await diskOnly.share();
    expect(diskOnly.text('.unshared')).toMatchSnapshot();
    diskOnly.all('.unshared [aria-label=Close]')[0]!.click();
    expect(diskOnly.text('.unshared')).toBe('');
  });
});

describe('the footer', () => {
  it('shows the version and the duration of the last run', () => {
    const place = document.body.appendChild(document.createElement('footer'));
    const page = pageOf({}, [frameOf({ milliseconds: 12.4 })]);
    drawFooter(place, page.context.engine);
    const { text } = readOf(place);
    expect(text('span')).toMatch(/^Sinkscope 1\.2\.3 · Your text and files stay on this machine;/);
    expect(text('details > p:last-child')).toMatch(
      /^This browser: (first sink after \d+ ms · )?last run 12 ms\.$/,
    );
    page.know({});
    expect(text('details > p:last-child')).not.toContain('last run');
    const emptyFooter = document.body.appendChild(document.createElement('footer'));
    drawFooter(emptyFooter, signal(undefined));
    expect(emptyFooter.textContent).toBe('');
  });
});

describe('messages', () => {
  const drawWork = (work?: object, download: object = { isShown: true }) => {
    const place = document.body.appendChild(document.createElement('div'));
    const stop = vi.fn();
    const goBack = vi.fn();
    const at = signal<unknown>(work);
    const changes = signal(0);
    const engine = signal({ queue: { work: at, stop } });
    drawMessages(place, engine as never, Object.assign(download, { goBack }) as never, changes);
    return { ...readOf(place), at, changes, stop, goBack };
  };

  it('are notices, which disappear, and errors, which stay', () => {
    vi.useFakeTimers();
    const { text, all } = drawWork();
    const message = all('.message')[0]!;
    expect(message.hidden).toBe(true);
    notify('One.');
    notify('Two.');
    fail(new Error('broken'));
    expect([message.textContent, message.hidden, message.className]).toMatchSnapshot();
    vi.advanceTimersByTime(5999);
    expect(text('.message')).toContain('Two.');
    vi.advanceTimersByTime(1);
    expect([message.textContent, message.hidden]).toEqual(['broken', false]);
    failure.value = '';
    expect([message.hidden, message.className]).toEqual([true, 'message']);
  });

  it('stay for six seconds each, also after an earlier message', () => {
    vi.useFakeTimers();
    notify('One.');
    vi.advanceTimersByTime(4000);
    notify('Two.');
    vi.advanceTimersByTime(4000);
    expect(notices.value).toEqual(['Two.']);
    vi.advanceTimersByTime(2000);
    expect(notices.value).toEqual([]);
  });

  it('do not show progress of work that ends quickly', () => {
    vi.useFakeTimers();
    const { all, at } = drawWork({ text: 'Measuring', share: 0.5, since: performance.now() });
    vi.advanceTimersByTime(200);
    at.value = undefined;
    vi.advanceTimersByTime(200);
    expect(all('.progress button')).toEqual([]);
    expect(all('.progress')[0]!.hidden).toBe(true);
  });

  it('show progress only of work that takes time, with a button to stop it', () => {
    vi.useFakeTimers();
    const work = { text: 'Measuring', share: 0.5, since: performance.now() };
    const { text, all, click, at, stop, goBack } = drawWork(work);
    expect([text('.progress'), document.body.hasAttribute('data-busy')]).toEqual(['', true]);
    vi.advanceTimersByTime(250);
    expect(text('.progress')).toBe('Measuring … Stop');
    expect((all('progress')[0] as HTMLProgressElement).value).toBe(0.5);
    click('Stop');
    expect([stop.mock.calls.length, goBack.mock.calls.length]).toEqual([1, 1]);
    at.value = { ...work, share: -1, since: performance.now() - 251 };
    expect([text('.progress'), all('progress')]).toEqual(['Measuring … Stop', []]);
    at.value = { ...work, share: 0, since: performance.now() - 251 };
    expect(all('progress')).toHaveLength(1);
    at.value = undefined;
    expect([all('.progress')[0]!.hidden, document.body.hasAttribute('data-busy')]).toEqual([
      true,
      false,
    ]);
    const loads = { isShown: false, work: 'Loading: 1 MB' };
    const loadingMessages = drawWork(undefined, loads);
    expect([
      loadingMessages.text('.progress'),
      loadingMessages.all('.progress')[0]!.hidden,
    ]).toEqual(['Loading: 1 MB … Stop', false]);
    loads.isShown = true;
    loadingMessages.changes.value++;
    expect(loadingMessages.all('.progress')[0]!.hidden).toBe(true);
  });

  it('count the seconds in which the words of the work stay the same', () => {
    vi.useFakeTimers();
    const work = { text: 'Running', share: NaN, since: performance.now() - 251 };
    const { text, at } = drawWork(work);
    const wordsAfter = (milliseconds: number) => {
      vi.advanceTimersByTime(milliseconds);
      return text('.progress');
    };
    expect([0, 499, 1, 500, 2000].map(wordsAfter)).toMatchSnapshot();
    // The first half second begins with the words, not with a tick of the words before.
    vi.advanceTimersByTime(300);
    at.value = { ...work, text: 'Running 2 of 3 prompts' };
    expect([0, 499, 1].map(wordsAfter)).toMatchSnapshot();
    at.value = undefined;
    expect(vi.getTimerCount()).toBe(0);
  });

  it('announce a newer build', () => {
    const { all, click } = drawWork();
    expect(all('.newer button')).toEqual([]);
    const take = vi.fn();
    offerNewVersion(take);
    click('Reload');
    expect(take).toHaveBeenCalled();
  });
});

describe('the address', () => {
  it('follows the state after a moment, and the state follows a link', () => {
    vi.useFakeTimers();
    // Dragging a slider writes one address, since browsers refuse frequent changes.
    set({ eps: 0.35 });
    vi.advanceTimersByTime(100);
    set({ eps: 0.45 });
    const oldHash = location.hash;
    vi.advanceTimersByTime(149);
    expect(location.hash).toBe(oldHash);
    vi.advanceTimersByTime(1);
    expect([oldHash === location.hash, parseHash(location.hash).state.eps]).toEqual([false, 0.45]);
    expect(address().split('#')[1]).toBe(printHash(state.value));
    // A click writes the address at once, so that Back leads to this state.
    set({ eps: 0.55 });
    document.body.click();
    expect(parseHash(location.hash).state.eps).toBe(0.55);
    const oldState = state.value;
    set({ eps: 0.55 });
    expect(state.value).toBe(oldState);
    failure.value = 'old';
    notices.value = ['old'];
    const follow = (hash: string) => {
      history.replaceState(null, '', hash);
      dispatchEvent(new Event('hashchange'));
    };
    follow('#eps=0.2&room=explore&nonsense=1');
    expect(state.value).toMatchObject({ eps: 0.2, room: 'explore' });
    expect([failure.value, notices.value.length]).toEqual(['', 1]);
    // Following a link keeps the values that no link can contain.
    file.value = { name: 'a', text: 'b', splitting: 'lines' } as never;
    set({ shown: [DISK, 'softmax'], input: 'file' });
    follow(`#${printHash({ ...state.value, shown: ['softmax'], input: 'text', eps: 0.1 })}`);
    expect(state.value).toMatchObject({ eps: 0.1, shown: [DISK, 'softmax'], input: 'file' });
    follow(`#${printHash({ ...state.value, shown: ['sigmoid'], input: 'random' })}`);
    expect(state.value).toMatchObject({ shown: ['sigmoid'], input: 'random' });
  });

  it('reports values that the page cannot show, and replaces them without a step in the history', () => {
    vi.useFakeTimers();
    set({ room: 'explore', view: 'hedas', columns: ['foo'] });
    vi.advanceTimersByTime(150);
    const pushed = vi.spyOn(history, 'pushState');
    notices.value = ['The link names “x”, which this page does not know.'];
    replaceUnknownValues([]);
    replaceUnknownValues([
      ['view', 'hedas'],
      ['columns', 'foo'],
    ]);
    vi.advanceTimersByTime(150);
    expect(notices.value).toMatchSnapshot();
    expect(state.value).toMatchObject({ view: defaults.view, columns: [] });
    expect(pushed).not.toHaveBeenCalled();
    pushed.mockRestore();
  });

  it('has a history entry for each picture that a reader opens', () => {
    vi.useFakeTimers();
    const pushState = vi.spyOn(history, 'pushState');
    const open = (change: Partial<State>) => {
      set(change);
      vi.advanceTimersByTime(150);
      return pushState.mock.calls.length;
    };
    const entryCount = open({ room: 'explore', view: 'norms' });
    expect(open({ eps: 0.25 })).toBe(entryCount);
    expect(open({ view: 'scores' })).toBe(entryCount + 1);
    expect(open({ layer: 2, head: 1 })).toBe(entryCount + 1);
    expect(open({ experiment: 'cache' })).toBe(entryCount + 2);
    history.replaceState(null, '', '#room=explore&view=mass');
    dispatchEvent(new Event('hashchange'));
    expect(open({ eps: 0.2 })).toBe(entryCount + 2);
    pushState.mockRestore();
  });

  it('keeps models on the disk in the step of the history, which a reload keeps, and in no link', async () => {
    vi.useFakeTimers();
    set({ room: 'explore', shown: [DISK, 'softmax'], at: 1 });
    vi.advanceTimersByTime(150);
    expect([history.state, location.hash.includes('disk')]).toEqual([
      { shown: [DISK, 'softmax'], at: 1 },
      false,
    ]);
    const stateAfterReload = async () => {
      vi.resetModules();
      const reloaded = await import('../src/page/address');
      return reloaded.state.value;
    };
    expect(await stateAfterReload()).toMatchObject({ shown: [DISK, 'softmax'], at: 1 });
    // A state of another program, or one without a model on the disk, is not taken.
    for (const entry of [{ shown: ['~~', DISK] }, { shown: 7 }, { shown: ['sigmoid'] }, 'x']) {
      history.replaceState(entry, '');
      expect((await stateAfterReload()).shown, JSON.stringify(entry)).toEqual(['softmax']);
    }
    set({ shown: ['softmax'] });
    vi.advanceTimersByTime(150);
    expect(history.state).toBeNull();
  });

  it('is shared as the address of the room’s own page', () => {
    set({ room: 'start' });
    expect(sharedLink('#x')).toMatch(/^[^#]*\/#x$/);
    set({ room: 'lab' });
    expect(sharedLink('#x')).toMatch(/\/lab\/index\.html#x$/);
  });

  it('loses models and rooms that the page does not have, and says so', () => {
    const models = { canOpen: (id: string) => ['softmax', 'sigmoid'].includes(id) } as never;
    const rooms = [{ name: 'start' }, { name: 'explore' }];
    set({ room: 'explore', shown: ['softmax', 'hub:a/b', DISK, 'recording:x.safetensors'] });
    const oldState = state.value;
    replaceUnknownNames(models, rooms);
    expect([state.value, notices.value]).toEqual([oldState, []]);
    set({ room: 'attic', shown: ['gone', 'softmax@40', 'lost'], at: 2 });
    replaceUnknownNames(models, rooms);
    expect(state.value).toMatchObject({ room: 'start', shown: ['softmax@40'], at: 0 });
    expect(notices.value).toMatchSnapshot();
    set({ shown: ['gone'] });
    replaceUnknownNames(models, rooms);
    expect(state.value.shown).toEqual(defaults.shown);
  });
});

describe('entering a room', () => {
  const build = (name: string) =>
    vi.fn((root: HTMLElement, _: unknown, scope: { onEnd(end: () => void): void }) => {
      root.textContent = `room ${name}`;
      scope.onEnd(() => ended.push(name));
    });
  const ended: string[] = [];

  it('loads its code once, ends the previous room, and stays in that room if loading fails', async () => {
    const main = document.body.appendChild(document.createElement('main'));
    const [start, explore] = [build('start'), build('explore')];
    const loads = {
      start: vi.fn(async () => ({ build: start })),
      explore: vi.fn(async () => ({ build: explore })),
    };
    let failLab: (error: Error) => void = () => {};
    const rooms = [
      { name: 'start', title: 'Start', load: loads.start },
      { name: 'explore', title: 'Explore', load: loads.explore },
      { name: 'lab', title: 'Lab', load: () => new Promise((_, no) => (failLab = no)) },
    ];
    const { context, calls } = pageOf();
    enter(main, rooms as never, context);
    await turn();
    expect([
      main.textContent,
      main.dataset.room,
      main.firstElementChild!.className,
    ]).toMatchSnapshot();
    expect(document.title).toMatchSnapshot();
    expect(calls.point).toHaveBeenCalledWith({});
    set({ room: 'explore' });
    expect([main.textContent, ended]).toEqual(['room start', []]);
    await turn();
    expect([main.textContent, document.title, ended]).toMatchSnapshot();
    set({ room: 'start' });
    await turn();
    expect([main.textContent, loads.start.mock.calls.length]).toEqual(['room start', 1]);
    set({ eps: 0.35 });
    await turn();
    expect(start).toHaveBeenCalledTimes(2);
    vi.stubGlobal('fetch', async () => {
      throw new Error('offline');
    });
    set({ room: 'lab' });
    failLab(new Error('no network'));
    await turn();
    expect([state.value.room, main.textContent, failure.value]).toMatchSnapshot();
    set({ room: 'lab' });
    set({ room: 'explore' });
    await turn();
    failure.value = '';
    failLab(new Error('late'));
    await turn();
    expect([main.textContent, failure.value]).toEqual(['room explore', '']);
    document.head.innerHTML = '<script type="module" src="./assets/index-1.js"></script>';
    const answerWith = (text: string, ok = true) =>
      vi.stubGlobal('fetch', async () => ({ ok, text: async () => text }));
    const failureOfLab = async () => {
      failure.value = '';
      set({ room: 'lab' });
      failLab(new Error('gone'));
      await turn();
      return failure.value;
    };
    answerWith('<script src="./assets/index-2.js">');
    expect(await failureOfLab()).toBe('');
    answerWith('<script src="./assets/index-1.js">');
    expect(await failureOfLab()).toBe('gone');
    answerWith('not found', false);
    expect(await failureOfLab()).toBe('gone');
    set({ room: 'nowhere' });
    await turn();
    expect(main.dataset.room).toBe('start');
  });
});
