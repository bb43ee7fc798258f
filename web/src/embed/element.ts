/**
 * <sink-scope>: one figure of Sinkscope in any page, by one module script.
 *
 *     <script type="module" src="https://HOST/sink-scope.js"></script>
 *     <sink-scope view="attention" shown="softmax,sigmoid" controls="text"></sink-scope>
 *
 * `recording="smollm2.safetensors"` instead of `shown` names a recording, relative to the host's page, which is drawn
 * without any weights.
 *
 * `width` and `height`, in CSS pixels or as lengths with a unit, make the element a box that the figure fits into, and
 * so does a height in the host's CSS; without a height the element is as high as the figure. The element's content, a
 * picture and a link, is visible until the figure is drawn.
 *
 * This file is small; the engine is fetched once a figure comes near the viewport, and all figures of a page share it
 * and its models. Attributes mirror the state, properties have the names of the state's rows; events are `run`,
 * `select` and `error`. This file also gives iframes of embed.html the height that they ask for, and passes the keys
 * that these iframes do not use to the page.
 */
import { attributeNames, lengthOf, propertyNames, SIZES, stateOf } from './attributes';
import { keyOf } from './keys';
import type { Live } from './live';
import { themeOf, watchTheme } from './theme';

const LOAD_DISTANCE = '600px';
const MAX_HEIGHT = 20_000;

const STYLES = `
  :host { display: block; min-height: var(--sinkscope-height, 480px); writing-mode: horizontal-tb; direction: ltr; }
  /* In a host's flex box, table or float the element is as wide as this text, which can wrap, and not as its figure. */
  :host::before {
    content: '. . . . . . . . . . . . . . . . . . . . .'; display: block; height: 0; overflow: hidden; visibility: hidden;
    font: 0/0 sans-serif; letter-spacing: normal; word-spacing: 60px; white-space: normal;
  }
  :host(:is([width], [height])) { max-width: 100%; }
  /* live.ts sets the attribute if the host limits the height by other means. */
  :host([data-box]) { min-height: 200px; overflow: auto; }
  :host([height]) { min-height: 0; overflow: auto; }
  :host([hidden]) { display: none; }
  /* The element's own content is visible until the figure is drawn. */
  :host([data-live]) slot { display: none; }
  /* For views that the reader starts, such as the lab, the picture stays below the button, in the figure's place. */
  :host([data-pictured][data-waits]) slot { display: block; position: absolute; bottom: 12px; }
  :host([data-waits]) ::slotted(*) { width: auto; max-height: calc(var(--sinkscope-height, 480px) - 170px); overflow: hidden; }
  :host([data-pictured][data-waits]) .lab-embedded > .hint { display: none; }
  :host([data-pictured]) { position: relative; }
  :host([data-pictured]:not([data-live])) .room {
    position: absolute; inset: 0; overflow: hidden; visibility: hidden;
  }
  /* On paper, where nothing scrolls, a drawn figure has the height that it needs; otherwise the picture is printed. */
  @media print {
    :host([data-live]) { height: auto !important; max-height: none !important; overflow: visible !important; }
    :host([data-pictured]:is(:not([data-live]), [data-waits])) slot { display: contents; }
    :host([data-pictured]:is(:not([data-live]), [data-waits])) .room { display: none; }
  }
`;

class SinkScope extends HTMLElement {
  static readonly observedAttributes = [...attributeNames, 'caption', 'recording', ...SIZES];
  readonly #shadow = this.attachShadow({ mode: 'open' });
  readonly internals = this.attachInternals();
  #watcher: IntersectionObserver | undefined;
  /** Undefined if the figure could not start, which the event `error` has reported. */
  #live: Promise<Live | undefined> | undefined;
  #isUpdatePending = false;
  /** A style sheet with the element's size, since a host's policy may refuse style attributes. */
  #size: CSSStyleSheet | undefined;

  connectedCallback(): void {
    // A style sheet belongs to one document, and a host may move the element to another.
    const { CSSStyleSheet } = this.ownerDocument.defaultView!;
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLES);
    this.#size = new CSSStyleSheet();
    this.#shadow.adoptedStyleSheets = [sheet, this.#size];
    this.#resize();
    this.#shadow.replaceChildren(document.createElement('slot'));
    this.toggleAttribute('data-pictured', this.childElementCount > 0);
    this.internals.role = 'figure';
    this.internals.ariaLabel = 'A figure of Sinkscope';
    this.#watcher = new IntersectionObserver(
      (entries) => entries.some(({ isIntersecting }) => isIntersecting) && this.#start(),
      { rootMargin: LOAD_DISTANCE },
    );
    this.#watcher.observe(this);
  }

  disconnectedCallback(): void {
    this.#watcher?.disconnect();
    void this.#live?.then((live) => live?.end());
    this.#live = undefined;
  }

  attributeChangedCallback(name: string): void {
    if (SIZES.some((attribute) => attribute === name)) this.#resize();
    if (this.#isUpdatePending || !this.#live) return;
    this.#isUpdatePending = true;
    queueMicrotask(() => {
      this.#isUpdatePending = false;
      void this.#live?.then((live) => live?.follow(stateOf(this)));
    });
  }

  #resize(): void {
    const rules = SIZES.flatMap((name) => {
      const length = lengthOf(this, name);
      return length ? `${name}: ${length};` : [];
    });
    this.#size?.replaceSync(`:host { ${rules.join(' ')} }`);
  }

  #start(): void {
    if (this.#live) return;
    this.#watcher?.disconnect();
    this.#live = import('./live')
      .then(({ Live }) => new Live(this, this.#shadow, stateOf(this)))
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
    // Frameworks set a property to undefined or null to remove it, and a value of a wrong type must not throw.
    set(this: SinkScope, value: unknown) {
      if (value === undefined || value === null) this.removeAttribute(name.toLowerCase());
      else this.setAttribute(name.toLowerCase(), String(value));
    },
    configurable: true,
    enumerable: true,
  });

const siteOrigin = new URL(import.meta.url).origin;
const frames = new Set<HTMLIFrameElement>();

/** Sends a frame the host page's theme. A frame with `data-size="fixed"`, as on a slide, keeps its height. */
function sendTheme(frame: HTMLIFrameElement): void {
  const message = {
    sinkscope: 'host',
    theme: themeOf(frame.parentElement ?? document.body),
    follows: frame.dataset.size !== 'fixed',
  };
  frame.contentWindow?.postMessage(message, siteOrigin);
}

// Frames of this site may set their own height, and pass unused keys on to this page.
addEventListener('message', ({ origin, source, data }) => {
  if (origin !== siteOrigin || !['height', 'key'].includes(data?.sinkscope)) return;
  const frame = [...document.querySelectorAll('iframe')].find(
    (candidate) => candidate.contentWindow === source,
  );
  if (!frame) return;
  if (data.sinkscope === 'key') {
    frame.dispatchEvent(new KeyboardEvent('keydown', { ...keyOf(data), bubbles: true }));
    return;
  }
  const { height } = data as { readonly height: unknown };
  if (typeof height !== 'number' || !(height > 0 && height < MAX_HEIGHT)) return;
  if (frame.dataset.size !== 'fixed') frame.style.height = `${Math.ceil(height)}px`;
  if (!frames.has(frame)) watchTheme(frame.parentElement!, () => sendTheme(frame));
  frames.add(frame);
  sendTheme(frame);
});

if (!customElements.get('sink-scope')) customElements.define('sink-scope', SinkScope);
// The embed dialog loads this file from an opaque origin, which has no storage.
if (parent !== window) parent.postMessage({ sinkscope: 'defined' }, '*');
