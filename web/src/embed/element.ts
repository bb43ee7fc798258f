/**
 * <sink-scope>: one figure of Sinkscope in anybody's page, by one module script.
 *
 *     <script type="module" src="https://HOST/sink-scope.js"></script>
 *     <sink-scope view="attention" shown="softmax,sigmoid" controls="text"></sink-scope>
 *
 * `recording="smollm2.safetensors"` in the place of `shown` names a recording, relative to the host's page: it is
 * drawn without any weights.
 *
 * This file is small; the engine is fetched once a figure comes near the viewport, and all figures of a
 * page share it and its models. Attributes mirror the state, properties bear the names of the state's
 * rows; events are `run`, `select` and `error`. It also lets the iframes of embed.html have the height
 * that they ask for.
 */
import type { State } from '../ask/state';
import { attributeNames, printed, propertyNames, stateOf } from './attributes';
import type { Live } from './live';
import { themeOf, watchTheme } from './theme';

/** A figure begins to load this far from the viewport. */
const NEAR = '600px';
const HIGHEST = 20_000;

const RESERVED = `
  :host { display: block; min-height: var(--sinkscope-height, 480px); }
  :host([hidden]) { display: none; }
  /* The content of the element is seen until the figure is, and on paper. */
  :host([data-live]) slot { display: none; }
  /* Of what the reader has to start, as the lab is, the picture stays below its button, in the figure's place. */
  :host([data-pictured][data-waits]) slot { display: block; position: absolute; bottom: 12px; }
  :host([data-waits]) ::slotted(img) { width: auto; max-height: calc(var(--sinkscope-height, 480px) - 170px); }
  :host([data-pictured][data-waits]) .lab-embedded > .hint { display: none; }
  :host([data-pictured]) { position: relative; }
  :host([data-pictured]:not([data-live])) .room {
    position: absolute; inset: 0; overflow: hidden; visibility: hidden;
  }
  @media print {
    :host([data-pictured]) slot { display: contents; }
    :host([data-pictured]) .room { display: none; }
  }
`;

class SinkScope extends HTMLElement {
  static readonly observedAttributes = [...attributeNames, 'caption', 'recording'];
  readonly #inside = this.attachShadow({ mode: 'open' });
  readonly internals = this.attachInternals();
  #watcher: IntersectionObserver | undefined;
  /** Of nothing where it could not begin, which `error` has said. */
  #live: Promise<Live | undefined> | undefined;
  #isDue = false;

  connectedCallback(): void {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(RESERVED);
    this.#inside.adoptedStyleSheets = [sheet];
    this.#inside.replaceChildren(document.createElement('slot'));
    this.toggleAttribute('data-pictured', this.childElementCount > 0);
    this.internals.role = 'figure';
    this.internals.ariaLabel = 'A figure of Sinkscope';
    this.#watcher = new IntersectionObserver(
      (entries) => entries.some(({ isIntersecting }) => isIntersecting) && this.#start(),
      { rootMargin: NEAR },
    );
    this.#watcher.observe(this);
  }

  disconnectedCallback(): void {
    this.#watcher?.disconnect();
    void this.#live?.then((live) => live?.end());
    this.#live = undefined;
  }

  attributeChangedCallback(): void {
    if (this.#isDue || !this.#live) return;
    this.#isDue = true;
    queueMicrotask(() => {
      this.#isDue = false;
      void this.#live?.then((live) => live?.follow(stateOf(this)));
    });
  }

  #start(): void {
    if (this.#live) return;
    this.#watcher?.disconnect();
    this.#live = import('./live')
      .then(({ Live }) => new Live(this, this.#inside, stateOf(this)))
      .catch((error: unknown) => this.report('error', { message: String(error) }));
  }

  report(name: 'run' | 'select' | 'error', detail: object): undefined {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }
}

for (const name of propertyNames)
  Object.defineProperty(SinkScope.prototype, name, {
    get(this: SinkScope) {
      return stateOf(this).state[name];
    },
    set(this: SinkScope, value: never) {
      const state = { [name]: value } as unknown as State;
      this.setAttribute(
        name.toLowerCase(),
        typeof value === 'string' ? value : printed(state, name),
      );
    },
    configurable: true,
    enumerable: true,
  });

const own = new URL(import.meta.url).origin;
/** Frames of this very site that have reported their height. */
const frames = new Set<HTMLIFrameElement>();

/** Says to a frame what it cannot know. One with `data-size="fixed"`, as on a slide, keeps its height. */
function greet(frame: HTMLIFrameElement): void {
  const said = {
    sinkscope: 'host',
    theme: themeOf(frame.parentElement ?? document.body),
    follows: frame.dataset.size !== 'fixed',
  };
  frame.contentWindow?.postMessage(said, own);
}

/** A frame of this very site may set its own height, and nothing else. */
addEventListener('message', ({ origin, source, data }) => {
  if (origin !== own) return;
  const height: unknown = data?.sinkscope === 'height' ? data.height : undefined;
  if (typeof height !== 'number' || !(height > 0 && height < HIGHEST)) return;
  for (const frame of document.querySelectorAll('iframe')) {
    if (frame.contentWindow !== source) continue;
    if (frame.dataset.size !== 'fixed') frame.style.height = `${Math.ceil(height)}px`;
    if (!frames.has(frame)) watchTheme(frame.parentElement!, () => greet(frame));
    frames.add(frame);
    greet(frame);
  }
});

if (!customElements.get('sink-scope')) customElements.define('sink-scope', SinkScope);
