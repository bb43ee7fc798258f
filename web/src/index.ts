/** The entry of both pages, index.html and embed.html: connects the page, its rooms and its dialogs. */
import { computed, effect, signal } from '@preact/signals-core';
import { html, render } from 'lit';
import { createEngine } from 'sinkscope';
import savedStart from '../lessons/pictures/start.json';
import { errorSentence } from './ask/errors';
import { linkTo, defaults } from './ask/state';
import { textsOf } from './ask/question';
import { areRecordings } from './ask/recordings';
import { heldOutFile, openZoo, type Zoo } from './ask/zoo';
import { base, savesData } from './base';
import { acceptDrops } from './open/drop';
import { Opener } from './open/opener';
import type { Picker } from './open/picker';
import {
  address,
  replaceUnknownNames,
  replaceUnknownValues,
  file,
  set,
  state,
} from './page/address';
import type { Context, Engine } from './page/context';
import { enter } from './page/enter';
import { drawMessages, fail, failure, offerNewVersion, notify } from './page/messages';
import { keepForOffline } from './page/offline';
import { drawFooter, drawHeader } from './page/page';
import { drawNamesOffer } from './page/share';
import { trustOwnScripts } from './page/trust';
import type { PointerTarget } from './page/view';
import type { Theme } from './plot/color';
import { isPrinting } from './plot/paper';
import { figure, rooms } from './rooms/index';
import { SIDE_COUNT } from './rooms/start';
import { Models } from './run/models';
import type { LoadProgress } from './run/progress';
import { Queue } from './run/queue';
import { readSaved } from './run/saved';
import './page/base.css';
import './page/page.css';
import './page/controls.css';
import './page/figure.css';
import './plot/heatmap.css';
import './views/views.css';
import './page/print.css';
// Imported here and not in start.ts, whose code a <sink-scope> shares: its host page must not get these styles.
import './rooms/start.css';

/** The engine starts no more threads, since they share one memory bus. */
const MAX_THREADS = 4;

const isEmbed = document.body.classList.contains('embed');
const engine = signal<Engine | undefined>(undefined);
const promptFileVersion = signal(0);
const fetched = signal<Readonly<Record<string, LoadProgress>>>({});
const pointed = signal<PointerTarget>({});
const openerChanges = signal(0);
const systemScheme = matchMedia('(prefers-color-scheme: dark)');
const isDark = signal(systemScheme.matches);
systemScheme.addEventListener('change', () => (isDark.value = systemScheme.matches));
/** Undefined until an embed's host page sends its theme. */
const hostTheme = signal<Theme | undefined>(undefined);
const theme = computed<Theme>(() => {
  const { theme: chosenTheme } = state.value;
  if (isPrinting.value) return 'light';
  return chosenTheme === 'auto'
    ? (hostTheme.value ?? (isDark.value ? 'dark' : 'light'))
    : chosenTheme;
});

const opener = new Opener({
  models: () => engine.peek()?.models,
  onOpened: (id, how) => {
    engine.peek()?.queue.retry();
    if (how === 'asked') return;
    const isBeside = how === 'beside' || state.peek().room === 'compare';
    const shown = isBeside ? [...new Set([...state.peek().shown, id])].slice(-6) : [id];
    const isSeries = Boolean(engine.peek()?.models.recordings.steps(id).length);
    const isElsewhere = ['start', 'lab'].includes(state.peek().room);
    const room = isSeries ? { room: 'training' } : isElsewhere ? { room: 'explore' } : {};
    set({ ...room, shown, at: shown.indexOf(id), layer: -1, head: -1, query: -1, key: -1 });
  },
  onFailed: (text) => (failure.value = text),
  onChanged: () => (openerChanges.value = openerChanges.peek() + 1),
});

const context: Context = {
  state,
  theme,
  pointed,
  engine,
  file,
  saved: () => readSaved(savedStart),
  fetched,
  set,
  point: (at) => (pointed.value = at),
  chooseFile: (promptFile) => {
    failure.value = '';
    file.value = promptFile;
    promptFileVersion.value = promptFileVersion.peek() + 1;
  },
  open: (name) => opener.openDialog(name),
  openFiles: (files) => void opener.openFiles(files),
  pickModels: () =>
    void import('./open/picker').then(
      ({ Picker }) => (picker ??= new Picker(context)).show(),
      fail,
    ),
  embed: (view, figureContext, pinned) =>
    void import('./embed/dialog').then(
      ({ showEmbed }) => showEmbed(figureContext, view, pinned),
      fail,
    ),
  trust: (repository) => opener.trust(repository),
  fail,
  notify,
  facts: (change) => {
    const { input, prompt, seed, T } = { ...state.peek(), ...change };
    const promptFacts = {
      heldout: { file: `zoo/${heldOutFile(T)}` },
      text: { text: prompt },
      random: { seed },
      repeat: { seed },
      file: { ...file.peek(), text: undefined },
    }[input];
    const version = engine.peek()?.models.describe.version ?? '';
    return { corpus: { kind: input, ...promptFacts }, version, link: address() };
  },
  link: (change) => linkTo(state.value, change),
};
/** Fetched when the reader opens it for the first time. */
let picker: Picker | undefined;
let dialog: Promise<{ draw(): void }> | undefined;

/** Fetches the weights of the start screen's models while the engine starts and computes. */
function prefetch({ fetchAhead }: Zoo): void {
  const { room, shown } = state.peek();
  if (room !== defaults.room) return;
  const ids = shown.slice(0, isEmbed || savesData() ? 1 : SIDE_COUNT);
  fetchAhead(ids).catch(() => {});
}

/** Reports names in the link that this page does not know. */
function checkNames(models: Models): void {
  replaceUnknownNames(models, rooms);
  // Fetched only for links that name something, since the page's first screen must wait for few files.
  if (location.hash)
    import('./rooms/link_names').then(
      ({ unknownNames }) => replaceUnknownValues(unknownNames(state.peek(), models.describe)),
      // Without a network the views still show their defaults.
      () => {},
    );
}

async function start(): Promise<void> {
  try {
    const zooLoading = openZoo((id, done, total) => {
      fetched.value = { ...fetched.peek(), [id]: { done, total } };
    });
    zooLoading.then(prefetch, () => {});
    // A page without cross-origin isolation has no threads; models of the zoo are too small to need them.
    const threads = Math.min(navigator.hardwareConcurrency || 1, MAX_THREADS);
    const onLost = (error: Error) => notify(errorSentence(error));
    const lab = isEmbed && areRecordings(state.peek().shown);
    const [createdEngine, zoo] = await Promise.all([
      createEngine({ base: new URL(ENGINE, base), threads, lab, onLost }),
      zooLoading,
    ]);
    const models = new Models(createdEngine, zoo);
    const queue = new Queue({
      models,
      texts: (question) => textsOf(question, zoo, file.peek()),
      admit: (id, abort) => opener.admit(id, abort),
    });
    failure.value = '';
    engine.value = { models, queue, fileVersion: promptFileVersion };
    checkNames(models);
  } catch (error) {
    fail(error);
    render(
      html`<button type="button" @click=${() => void start()}>Try again</button>`,
      document.getElementById('retry')!,
    );
  }
}

const elementById = (id: string) => document.getElementById(id)!;

trustOwnScripts();
document.querySelector('#plain')?.remove();
effect(() => {
  document.documentElement.dataset.theme = theme.value;
});
addEventListener('hashchange', () => {
  const models = engine.peek()?.models;
  if (models) checkNames(models);
});
if (!isEmbed) drawHeader(elementById('header'), rooms, () => opener.show());
drawNamesOffer(elementById('messages'), context);
drawMessages(elementById('messages'), engine, opener, openerChanges);
drawFooter(elementById('version'), engine);
// Moves the focus by a script, since the hash of a plain anchor would be read as a state.
document.querySelector('.skip')?.addEventListener('click', (event) => {
  event.preventDefault();
  const main = elementById('main');
  const map = main.querySelector<HTMLElement>('[data-view="attention"] .heatmap');
  // A map of the lab is hidden while its model loads.
  (map?.checkVisibility({ visibilityProperty: true }) ? map : main).focus();
});
effect(() => {
  void openerChanges.value;
  if (opener.isShown)
    dialog ??= import('./open/dialog').then(({ createDialog }) => createDialog(opener));
  dialog?.then(
    (openedDialog) => openedDialog.draw(),
    (error: unknown) => {
      dialog = undefined;
      fail(error);
    },
  );
});
acceptDrops(opener);
void start();
enter(elementById('main'), isEmbed ? [figure] : rooms, context);
// Only embeds fetch this code: the page's first screen must wait for few files.
if (isEmbed)
  void import('./embed/frame').then(
    ({ startFrame }) => startFrame((sentTheme) => (hostTheme.value = sentTheme)),
    fail,
  );
keepForOffline(offerNewVersion);
