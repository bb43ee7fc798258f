/** The content of <sink-scope>: the page's room of one figure, over an engine that all figures share. */
import { effect, signal } from '@preact/signals-core';
import { html, render } from 'lit';
import { createEngine } from 'sinkscope';
import { base, pageAt } from '../base';
import { substitutionNotes } from '../page/controls';
import { framesOf, Scope, entriesOf, type Context, type Engine } from '../page/context';
import { headShown, type Frame } from '../frame';
import { Models } from '../run/models';
import { errorSentence } from '../ask/errors';
import type { Theme } from '../plot/color';
import { isPrinting } from '../plot/paper';
import { Queue } from '../run/queue';
import { textsOf, type PromptFile } from '../ask/question';
import { build } from '../rooms/figure';
import { unknownNames } from '../rooms/link_names';
import { areRecordings, isRecordingId, isOnThisSite } from '../ask/recordings';
import { linkTo, printHash, unreadableValue, type ParsedState, type State } from '../ask/state';
import defaults from '../page/base.css?inline';
import page from '../page/page.css?inline';
import controls from '../page/controls.css?inline';
import figure from '../page/figure.css?inline';
import print from '../page/print.css?inline';
import heatmap from '../plot/heatmap.css?inline';
import views from '../views/views.css?inline';
import tables from '../rooms/tables.css?inline';
import room from '../rooms/figure.css?inline';
import fit from './fit.css?inline';
import lab from '../lab/embedded.css?inline';
import experiment from '../rooms/purpose.css?inline';
import { hasNumbersOf, numbersOf, type PointerTarget } from '../page/view';
import { isWholeRoom, titleOf, viewNamed } from '../views/index';
import { trustOwnScripts } from '../page/trust';
import { openZoo } from '../ask/zoo';
import { recordingOf, SOURCE, writeAttributes } from './attributes';
import { createFitter } from './fit';
import { isUsed, leaveFocus } from './keys';
import { removeRepeats } from './label';
import { inheritanceParent, themeOf, watchTheme } from './theme';
import { takeTurn } from './turns';

/** In pixels; no host means to limit an element's height by more. */
const TALL = 10_000;

const SELECTION_KEYS = ['layer', 'head', 'query', 'key', 'channel'] as const;

/** The host decides alignment and background. The foot keeps its place when the figure is drawn. */
const HOST_STYLES = `
  :host { background: none; }
  /* Labels have places that were computed for this text layout, which the figure would inherit otherwise. */
  .room-figure,
  .room-problems {
    direction: ltr;
    writing-mode: horizontal-tb;
    text-orientation: mixed;
    text-align: start;
    text-align-last: auto;
    text-indent: 0;
    text-shadow: none;
    text-transform: none;
    white-space: normal;
    word-break: normal;
    overflow-wrap: normal;
    line-break: auto;
    hyphens: manual;
    letter-spacing: normal;
    word-spacing: normal;
    tab-size: 8;
    border-collapse: separate;
    border-spacing: 0;
    list-style: disc;
  }
  /* The figure takes the element's width, but does not set it. */
  .room-figure { min-width: 100%; contain: inline-size; }
  .room-figure { display: flex; flex-direction: column; min-height: var(--sinkscope-height, 480px); }
  .room-figure > .figure { flex: 1; }
`;

/** A style sheet belongs to one document. */
const styles = new WeakMap<Document, CSSStyleSheet>();
function sharedStyle({ ownerDocument }: Element): CSSStyleSheet {
  const shared = styles.get(ownerDocument);
  if (shared) return shared;
  const style = new ownerDocument.defaultView!.CSSStyleSheet();
  const sheets = [defaults, page, controls, figure, heatmap, views, tables, room, lab, experiment];
  style.replaceSync([...sheets, print, HOST_STYLES, fit].join('\n'));
  styles.set(ownerDocument, style);
  return style;
}

let sharedModels: Promise<Models> | undefined;
/** For each figure of the document, and each other borrower, the subjects whose models must stay open. */
const shownSubjects = new Map<object, ReadonlySet<string>>();

async function openModels(shown: readonly string[]): Promise<Models> {
  // Registers the policy for scripts on this site only, since a host page has a policy of its own.
  if (base.origin === location.origin) trustOwnScripts();
  const options = { base: new URL(ENGINE, base), lab: areRecordings(shown) };
  return new Models(...(await Promise.all([createEngine(options), openZoo()])));
}

/** Returns the models that all figures share; those of the first decide whether the lab's engine suffices. */
function shareModels(shown: readonly string[]): Promise<Models> {
  sharedModels ??= openModels(shown);
  // After a failure the next figure tries again.
  sharedModels.catch(() => (sharedModels = undefined));
  return sharedModels;
}

/** Sets what `borrower` shows, and closes the models that no figure or borrower shows. */
async function setShownSubjects(borrower: object, shown: ReadonlySet<string>): Promise<void> {
  shownSubjects.set(borrower, shown);
  const models = await sharedModels!;
  await models.release(new Set([...shownSubjects.values()].flatMap((subjects) => [...subjects])));
}

/** Gives other code the models that the document's figures share; those of `ids` stay open until `returnModels`. */
export async function borrowModels(borrower: object, ids: readonly string[]): Promise<Models> {
  shownSubjects.set(borrower, new Set(ids));
  return shareModels(ids);
}

export function returnModels(borrower: object): void {
  shownSubjects.delete(borrower);
}

interface Host extends HTMLElement {
  readonly internals: ElementInternals;
  report(name: 'run' | 'select' | 'error', detail: object): void;
}

export class Live {
  readonly #host: Host;
  readonly #state;
  readonly #theme = signal<Theme>('light');
  readonly #engine = signal<Engine | undefined>(undefined);
  readonly #scope = new Scope();
  readonly #root = document.createElement('div');
  readonly #problemsPlace = document.createElement('div');
  /** Sentences about attributes that cannot be read. */
  readonly #attributeProblems = signal<readonly string[]>([]);
  /** The same, and sentences about attributes that name what no table has. */
  readonly #problems = signal<readonly string[]>([]);
  /** What has failed since the state changed last. */
  readonly #failures = signal<readonly string[]>([]);
  /** Errors of the shown subjects that the host knows. */
  #reportedErrors: readonly string[] = [];
  #lastLabel = '';

  constructor(host: Host, shadow: ShadowRoot, { state, problems }: ParsedState) {
    this.#host = host;
    this.#state = signal(state);
    this.#root.className = 'room room-figure';
    this.#problemsPlace.className = 'room-problems';
    shadow.prepend(this.#problemsPlace, this.#root);
    shadow.adoptedStyleSheets = [sharedStyle(host), ...shadow.adoptedStyleSheets];
    this.#followTheme();
    const context = this.#context();
    this.#scope.effect(() => {
      const sentences = new Set([...this.#problems.value, ...this.#failures.value]);
      render(
        [...sentences].map((text) => html`<p class="trouble" role="alert">${text}</p>`),
        this.#problemsPlace,
      );
    });
    this.#attributeProblems.value = problems;
    this.#scope.effect(() => {
      const state = this.#state.value;
      const describe = this.#engine.value?.models.describe;
      const names = describe ? unknownNames(state, describe) : [];
      const sentences = names.map(([key, name]) => unreadableValue(key, name, SOURCE));
      const problems = [...this.#attributeProblems.value, ...sentences];
      this.#reportErrors(problems, this.#problems.peek());
      this.#problems.value = problems;
    });
    let endRoom = () => {};
    let view = '';
    const endEffect = effect(() => {
      if (this.#state.value.view === view) return;
      view = this.#state.value.view;
      queueMicrotask(() => {
        endRoom();
        const scope = new Scope(this.#scope);
        endRoom = () => scope.end();
        this.#root.replaceChildren();
        build(this.#root, context, scope);
      });
    });
    this.#scope.onEnd(endEffect);
    // The lab and the experiments report a run only when it ends, but show something earlier.
    this.#root.addEventListener('waits', (event) =>
      host.toggleAttribute('data-waits', (event as CustomEvent<boolean>).detail),
    );
    this.#root.addEventListener('built', () => host.toggleAttribute('data-live', true));
    this.#root.addEventListener('ended', (event) => {
      const { detail } = event as CustomEvent<{ readonly view: string; readonly says: string }>;
      host.internals.ariaLabel = `${titleOf(detail.view)}. ${detail.says}`;
      host.report('run', detail);
    });
    this.#scope.effect(() => {
      void this.#state.value;
      // Without an engine nothing is tried again, so the failure stays.
      if (this.#engine.peek()) this.#failures.value = [];
    });
    this.#scope.effect(() => this.#reportRun(context));
    this.#fit();
    // A slide deck must not react to keys typed in a figure; keys that the figure does not use reach the deck.
    this.#root.addEventListener('keydown', (event) => isUsed(event) && event.stopPropagation());
    this.#root.addEventListener('mousedown', leaveFocus);
    void this.#open(context);
  }

  /** Fits the figure into an element of a given height; otherwise the figure is as high as it needs. */
  #fit(): void {
    const host = this.#host;
    const { look, pause, end } = createFitter(
      () => (host.hasAttribute('data-box') ? this.#root : null),
      () => host.getBoundingClientRect(),
    );
    const lookAtBox = () => {
      if (isPrinting.peek()) return;
      const isBox = this.#isHeightLimited();
      if (!isBox && host.hasAttribute('data-box')) pause();
      host.toggleAttribute('data-box', isBox);
      look();
    };
    this.#scope.effect(() => (isPrinting.value ? pause() : look()));
    this.#scope.onEnd(() => host.removeAttribute('data-box'));
    if (typeof ResizeObserver === 'undefined') return;
    const [resizes, mutations] = [new ResizeObserver(lookAtBox), new MutationObserver(look)];
    resizes.observe(host);
    mutations.observe(this.#root, { childList: true, characterData: true, subtree: true });
    this.#scope.onEnd(() => {
      resizes.disconnect();
      mutations.disconnect();
      end();
    });
  }

  /** Whether the host's page limits the element's height, by whatever rule, so that its content does not extend it. */
  #isHeightLimited(): boolean {
    const host = this.#host;
    // A hidden element has no size. These sizes, unlike those on the screen, ignore that a slide deck scales its slides.
    if (!host.offsetWidth) return host.hasAttribute('data-box');
    this.#root.style.minHeight = `${TALL}px`;
    const { offsetHeight } = host;
    this.#root.style.minHeight = '';
    return offsetHeight < TALL;
  }

  #reportErrors(messages: readonly string[], known: readonly string[]): void {
    for (const message of messages)
      if (!known.includes(message)) this.#host.report('error', { message });
  }

  follow({ state, problems }: ParsedState): void {
    if (printHash(state) !== printHash(this.#state.peek())) this.#state.value = state;
    this.#attributeProblems.value = problems;
  }

  end(): void {
    this.#scope.end();
    this.#root.remove();
    this.#problemsPlace.remove();
    this.#host.removeAttribute('data-live');
    this.#host.removeAttribute('data-waits');
    this.#engine.peek()?.queue.stop();
    shownSubjects.delete(this);
  }

  async #open(context: Context): Promise<void> {
    try {
      const models = await shareModels(this.#state.peek().shown);
      const queue = new Queue({
        models,
        release: (kept) => setShownSubjects(this, kept),
        texts: (question) => textsOf(question, models.zoo, context.file.peek()),
        turn: () => takeTurn(this.#host),
        // On another site a figure contacts no hub, since only Sinkscope's page asks the reader first. The figure
        // fetches the recording that the host names, and recordings shipped with this file.
        admit: async (id) => {
          if (id !== recordingOf(this.#host) && !(isRecordingId(id) && isOnThisSite(id)))
            return false;
          models.recordings.admit(id);
          return true;
        },
      });
      this.#engine.value = { models, queue, fileVersion: signal(0) };
    } catch (error) {
      context.fail(error);
    }
  }

  #context(): Context {
    const host = this.#host;
    const pointed = signal<PointerTarget>({});
    const link = (change?: Partial<State>) => pageAt(linkTo(this.#state.value, change));
    const openPage = () => void window.open(link({ room: 'explore' }), '_blank', 'noopener');
    return {
      state: this.#state,
      theme: this.#theme,
      pointed,
      engine: this.#engine,
      file: signal<PromptFile | undefined>(undefined),
      set: (change) => {
        const names = Object.keys(change) as (keyof State)[];
        const currentState = this.#state.peek();
        if (names.every((name) => Object.is(currentState[name], change[name]))) return;
        const state = { ...currentState, ...change };
        this.#state.value = state;
        writeAttributes(host, state, names);
        const selection = SELECTION_KEYS.map((name) => [name, state[name]] as const);
        if (selection.some(([name]) => name in change))
          host.report('select', Object.fromEntries(selection));
      },
      point: (at) => (pointed.value = at),
      chooseFile: () => {},
      open: openPage,
      embed: () => {},
      pickModels: openPage,
      openFiles: () => {},
      trust: () => {},
      fail: (error) => {
        const message = errorSentence(error);
        this.#failures.value = [...this.#failures.peek(), message];
        host.report('error', { message });
      },
      notify: () => {},
      facts: () => ({
        corpus: { kind: this.#state.peek().input, text: this.#state.peek().prompt },
        version: this.#engine.peek()?.models.describe.version ?? '',
        link: link({ room: 'explore' }),
      }),
      link,
    };
  }

  /** Dispatches the event `run` and updates the text for screen readers, once for each new answer. */
  #reportRun(context: Context): void {
    const state = this.#state.value;
    if (isWholeRoom(state.view)) return;
    const view = viewNamed(state.view);
    const entries = entriesOf(context, state.shown);
    const errors = [
      ...new Set(entries.flatMap(({ error }) => error ?? [])),
      ...substitutionNotes(entries, state),
    ];
    const isOutdated = entries.some(({ frame, isStale, error }) => !error && (!frame || isStale));
    this.#reportErrors(errors, this.#reportedErrors);
    // An outdated answer has no notes; those of the last answer are not reported again when the next one has them, too.
    this.#reportedErrors = isOutdated ? [...new Set([...this.#reportedErrors, ...errors])] : errors;
    const frames = framesOf(entries).filter((frame) => view.fits?.(frame) ?? true);
    const describe = this.#engine.value?.models.describe;
    const isComplete = frames.every((frame) => describe && hasNumbersOf(view, frame, describe));
    const isPending = frames.some((frame) => view.isPending?.(frame));
    if (!frames.length || isOutdated || !isComplete || isPending) return;
    const headOf = (frame: Frame) => headShown(frame, [view], state);
    const sentences = frames.map((frame) => view.says(frame, headOf(frame), state));
    const label = [view.title, ...removeRepeats(sentences)].join('. ');
    this.#host.internals.ariaLabel = label;
    if (label === this.#lastLabel) return;
    this.#lastLabel = label;
    const results = frames.map((frame, i) => {
      const { subject, title, T, eps, sequences } = frame;
      const tokens = frame.tokens.map(({ text }) => text);
      const numbers = numbersOf(view, frame, { at: headOf(frame), state, sequences });
      return { subject, title, tokens, T, eps, sequences, says: sentences[i], numbers };
    });
    this.#host.toggleAttribute('data-live', true);
    this.#host.report('run', { view: view.name, results });
  }

  #followTheme(): void {
    const parent = () => inheritanceParent(this.#host) ?? document.documentElement;
    const updateTheme = () => {
      const { theme } = this.#state.peek();
      const shownTheme = theme === 'auto' ? themeOf(parent()) : theme;
      this.#theme.value = isPrinting.value ? 'light' : shownTheme;
    };
    updateTheme();
    this.#scope.onEnd(watchTheme(parent(), updateTheme));
    this.#scope.effect(() => {
      void this.#state.value;
      updateTheme();
      if (this.#root.parentNode) this.#host.setAttribute('data-theme', this.#theme.value);
    });
  }
}
