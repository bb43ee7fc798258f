/** The entry of both pages, index.html and embed.html: connects the page, its rooms and its dialogs. */
import { computed, effect, signal } from '@preact/signals-core';
import { html, render } from 'lit';
import { createEngine } from 'sinkscope';
import { errorSentence } from './ask/errors';
import { linkTo, defaults } from './ask/state';
import { textsOf } from './ask/question';
import { areRecordings } from './ask/recordings';
import { heldOutFile, openZoo, type Zoo } from './ask/zoo';
import { base } from './base';
import { acceptDrops } from './open/drop';
import { Opener } from './open/opener';
import type { Picker } from './open/picker';
import { address, replaceUnknownNames, file, set, state } from './page/address';
import type { Context, Engine } from './page/context';
import { enter } from './page/enter';
import { drawMessages, fail, failure, offerNewVersion, notify } from './page/messages';
import { keepForOffline } from './page/offline';
import { drawFooter, drawHeader } from './page/page';
import { drawNamesOffer, drawPictureOffer } from './page/share';
import { trustOwnScripts } from './page/trust';
import type { PointerTarget } from './page/view';
import type { Theme } from './plot/color';
import { isPrinting } from './plot/paper';
import { figure, rooms } from './rooms/index';
import { Models } from './run/models';
import { Queue } from './run/queue';
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
const pointed = signal<PointerTarget>({});
const openerChanges = signal(0);
const dark = matchMedia('(prefers-color-scheme: dark)');
const isDark = signal(dark.matches);
dark.addEventListener('change', () => (isDark.value = dark.matches));
/** Undefined until an embed's host page sends its theme. */
const hostTheme = signal<Theme | undefined>(undefined);
const theme = computed<Theme>(() => {
  const { theme: own } = state.value;
  if (isPrinting.value) return 'light';
  return own === 'auto' ? (hostTheme.value ?? (isDark.value ? 'dark' : 'light')) : own;
});

const opener = new Opener({
  models: () => engine.peek()?.models,
  opened: (id, how) => {
    engine.peek()?.queue.retry();
    if (how === 'asked') return;
    const { shown } = state.peek();
    const isBeside = how === 'beside' || state.peek().room === 'compare';
    const list = isBeside ? [...new Set([...shown, id])].slice(-6) : [id];
    const room = ['start', 'lab'].includes(state.peek().room) ? { room: 'explore' } : {};
    set({ ...room, shown: list, at: list.indexOf(id), layer: -1, head: -1, query: -1, key: -1 });
  },
  failed: (text) => (failure.value = text),
  changed: () => (openerChanges.value = openerChanges.peek() + 1),
});

const context: Context = {
  state,
  theme,
  pointed,
  engine,
  file,
  set,
  point: (at) => (pointed.value = at),
  chooseFile: (chosen) => {
    file.value = chosen;
    promptFileVersion.value = promptFileVersion.peek() + 1;
  },
  open: (name) => opener.invite(name),
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

/** Fetches the preview of the first model while the engine starts, on the start screen only. */
function prefetch({ cards, preview }: Zoo): void {
  const { room, shown } = state.peek();
  const [first] = shown;
  if (room === defaults.room && cards.some((card) => card.id === first && card.preview))
    preview(first!).catch(() => {});
}

async function start(): Promise<void> {
  try {
    const zooLoading = openZoo();
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
    replaceUnknownNames(models, rooms);
  } catch (error) {
    fail(error);
    render(
      html`<button type="button" @click=${() => void start()}>Try again</button>`,
      document.getElementById('retry')!,
    );
  }
}

const place = (id: string) => document.getElementById(id)!;

trustOwnScripts();
document.querySelector('#plain')?.remove();
effect(() => {
  document.documentElement.dataset.theme = theme.value;
});
addEventListener('hashchange', () => {
  const models = engine.peek()?.models;
  if (models) replaceUnknownNames(models, rooms);
});
if (!isEmbed) drawHeader(place('header'), rooms, () => opener.show());
drawNamesOffer(place('messages'), context);
drawMessages(place('messages'), engine, opener, openerChanges);
drawPictureOffer(place('messages'), context);
drawFooter(place('version'), engine);
// Moves the focus by a script, since the hash of a plain anchor would be read as a state.
document.querySelector('.skip')?.addEventListener('click', (event) => {
  event.preventDefault();
  const main = place('main');
  (main.querySelector<HTMLElement>('[data-view="attention"] .heatmap') ?? main).focus();
});
effect(() => {
  void openerChanges.value;
  if (opener.isShown)
    dialog ??= import('./open/dialog').then(({ createDialog }) => createDialog(opener));
  dialog?.then(
    (one) => one.draw(),
    (error: unknown) => {
      dialog = undefined;
      fail(error);
    },
  );
});
acceptDrops(opener);
void start();
enter(place('main'), isEmbed ? [figure] : rooms, context);
// Only embeds fetch this code: the page's first screen must wait for few files.
if (isEmbed)
  void import('./embed/frame').then(
    ({ startFrame }) => startFrame((sentTheme) => (hostTheme.value = sentTheme)),
    fail,
  );
keepForOffline(offerNewVersion);
