/**
 * The wiring: state in the address, engine and zoo, one room at a time, messages. Rooms are effects over
 * signals (@preact/signals-core, 2 kB, no dependency), which find their own dependencies.
 */
import { computed, effect, signal } from '@preact/signals-core';
import { html, nothing, render } from 'lit';
import { createEngine } from 'sinkscope';
import { OTHERS, others } from '../ask/arithmetic';
import { base } from './base';
import { choices, nameOf } from './controls';
import { Scope, type Desk, type Engine } from './context';
import { Models } from '../run/models';
import { acceptDrops, createDialog } from '../open/dialog';
import { Opener } from '../open/opener';
import { Picker } from '../open/picker';
import { fingerprintOf, isOfHub, nameOfId, sentence } from '../open/words';
import type { Theme } from '../plot/color';
import { Queue } from '../run/queue';
import { promptsOfFile, type PromptFile, type Question } from '../ask/question';
import { rooms, type Build } from '../rooms/index';
import { sources } from '../rooms/sources';
import {
  defaults,
  isOfDisk,
  linkable,
  linkTo,
  parseHash,
  printHash,
  type State,
} from '../ask/state';
import { parseSubject } from '../ask/subject';
import { part, say, type Pointed } from '../views/view';
import { heldOutFile, openZoo, type Zoo } from '../ask/zoo';

/** Browsers refuse addresses that change too often. */
const ADDRESS_MS = 150;
/** Work shorter than this shows no progress. */
const PATIENCE_MS = 250;
/** How long a notice is shown. */
const NOTICE_MS = 6000;

const parsed = parseHash(location.hash);
const state = signal<State>(parsed.state);
const notices = signal<readonly string[]>(parsed.problems);
const failure = signal('');
const engine = signal<Engine | undefined>(undefined);
const file = signal<PromptFile | undefined>(undefined);
/** Takes up a newer build that has come. */
const newer = signal<(() => void) | undefined>(undefined);
const files = signal(0);
const pointed = signal<Pointed>({});
const dark = matchMedia('(prefers-color-scheme: dark)');
const isDark = signal(dark.matches);
dark.addEventListener('change', () => (isDark.value = dark.matches));
const theme = computed<Theme>(() => {
  const { theme: own } = state.value;
  return own === 'auto' ? (isDark.value ? 'dark' : 'light') : own;
});
/** Counts what is no signal: stages of the dialogs. */
const changes = signal(0);

function set(change: Partial<State>): void {
  const now = state.peek();
  const names = Object.keys(change) as (keyof State)[];
  if (names.some((name) => !Object.is(now[name], change[name])))
    state.value = { ...now, ...change };
}

let telling = 0;

/** A notice disappears by itself; an error stays until the next action. */
function tell(notice: string): void {
  clearTimeout(telling);
  notices.value = [notice];
  telling = window.setTimeout(() => (notices.value = []), NOTICE_MS);
}

function fail(error: unknown): void {
  failure.value = sentence(error);
}

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
  changed: () => (changes.value = changes.peek() + 1),
});

const desk: Desk = {
  state,
  theme,
  pointed,
  engine,
  file,
  set,
  point: (at) => (pointed.value = at),
  choose: (chosen) => {
    file.value = chosen;
    files.value = files.peek() + 1;
  },
  open: (name) => opener.invite(name),
  inside: (given) => void opener.openFiles(given),
  pick: () => picker.show(),
  trust: (repository) => opener.trust(repository),
  fail,
  tell,
  facts: (change) => {
    const { input, prompt, seed, T } = { ...state.peek(), ...change };
    const own = {
      heldout: { file: `zoo/${heldOutFile(T)}` },
      text: { text: prompt },
      random: { seed },
      repeat: { seed },
      file: { ...file.peek(), text: undefined },
    }[input];
    const version = engine.peek()?.models.describe.version ?? '';
    return { corpus: { kind: input, ...own }, version, link: address() };
  },
  link: (change) => linkTo(state.value, change),
};
const picker = new Picker(desk);

/** The page in this state, for somebody else. */
function address(change: Partial<State> = {}): string {
  return new URL(`./${linkTo(state.peek(), change)}`, location.href.split('#')[0]).href;
}

async function copied(text: string): Promise<string> {
  try {
    await navigator.clipboard.writeText(text);
    return 'Link copied.';
  } catch {
    return `Copy this link: ${text}`;
  }
}

/** Models of the disk that the link which was just copied leaves out. */
const leftOut = signal<readonly string[]>([]);

async function copyLink(): Promise<void> {
  const { shown, input } = state.peek();
  const said = [await copied(address())];
  if (input === 'file') said.push('It does not contain your file of prompts.');
  leftOut.value = shown.filter((one) => isOfDisk(one));
  tell(said.join(' '));
}

/** The link with the names of the disk's models, for whoever has the same files. */
async function copyNames(): Promise<void> {
  const ids = [...new Set(leftOut.value.map((one) => parseSubject(one)!.id))];
  leftOut.value = [];
  const hash = `#${printHash(linkable(state.peek(), true))}`;
  const said = await copied(new URL(`./${hash}`, location.href.split('#')[0]).href);
  const names = ids.map((id) => `${nameOfId(id)} (fingerprint ${fingerprintOf(id)})`);
  tell(`${said} Whoever opens it is asked for the files of ${names.join(', ')}.`);
}

/* The address. */

/** The address as it was last written or read; another one is a link whose event is still to come. */
let known = location.hash;
let writing = 0;

function writeAddress(): void {
  clearTimeout(writing);
  const hash = linkTo(state.peek());
  if (location.hash !== known || hash === known || (!known && hash === '#')) return;
  history.replaceState(null, '', hash);
  known = location.hash;
}

effect(() => {
  void state.value;
  clearTimeout(writing);
  writing = window.setTimeout(writeAddress, ADDRESS_MS);
});
// Going back from a link leads to the state in which it was followed.
addEventListener('click', writeAddress, { capture: true });

/** A link of this page was followed, or another pasted over it. */
addEventListener('hashchange', () => {
  known = location.hash;
  const next = parseHash(known);
  // What was wrong with the link before is not said of this one.
  notices.value = next.problems;
  // A link cannot carry the reader's own models and files; those stay as they are.
  const own = state.peek();
  const carried = { ...linkable(own), ...(file.peek() ? {} : { input: own.input }) };
  if (printHash(next.state) === printHash(carried)) return;
  const { shown, input } = carried;
  const kept = {
    ...(next.state.shown.join() === shown.join() ? { shown: own.shown } : {}),
    ...(next.state.input === input ? { input: own.input } : {}),
  };
  failure.value = '';
  state.value = { ...next.state, ...kept };
  checkNames();
});

/** Replaces names in a link that this page does not have. */
function checkNames(): void {
  const models = engine.peek()?.models;
  if (!models) return;
  const now = state.peek();
  if (!rooms.some(({ name }) => name === now.room)) {
    notices.value = [
      ...notices.peek(),
      `The link names the room “${now.room}”, which this page does not have.`,
    ];
    set({ room: defaults.room });
  }
  const isHere = (text: string) => {
    const id = parseSubject(text)?.id ?? '';
    return isOfHub(id) || isOfDisk(id) || models.knows(id);
  };
  const gone = now.shown.filter((text) => !isHere(text));
  const left = now.shown.filter(isHere);
  if (!gone.length) return;
  const said = gone.map(
    (text) => `The link names the model “${text}”, which this page does not have.`,
  );
  notices.value = [...notices.peek(), ...said];
  set({ shown: left.length ? left : defaults.shown, at: 0 });
}

/* Around the rooms. */

function header(place: HTMLElement): void {
  effect(() => {
    const { room, theme: own, hide } = state.value;
    render(
      html`<a class="brand" tabindex="-1" href=${linkTo(state.value, { room: 'start', why: 0 })}
          >Sinkscope</a
        >
        <nav class="rooms" aria-label="Rooms">
          ${rooms.map(
            ({ name, title }) =>
              html`<a
                href=${linkTo(state.value, { room: name })}
                aria-current=${name === room ? 'page' : 'false'}
                tabindex=${name === room ? -1 : 0}
                >${title}</a
              >`,
          )}
        </nav>
        <div class="tools" ?hidden=${hide.includes('links')}>
          <button type="button" @click=${() => opener.show()}>Open a model</button>
          <button type="button" @click=${() => void copyLink()}>Share</button>
          ${choices(
            'Theme',
            own,
            [
              ['auto', 'Theme: system'],
              ['light', 'Theme: light'],
              ['dark', 'Theme: dark'],
            ],
            (value) => set({ theme: value as State['theme'] }),
          )}
        </div>`,
      place,
    );
  });
}

export function offer(take: () => void): void {
  newer.value = take;
}

function messages(place: HTMLElement): void {
  const update = part(place, 'newer');
  effect(() => {
    render(
      newer.value
        ? html`<p class="message" role="status">
            A newer version of this page is available.
            <button type="button" @click=${newer.value}>Reload</button>
          </p>`
        : nothing,
      update,
    );
  });
  const unshared = part(place, 'unshared');
  effect(() => {
    const names = [...new Set(leftOut.value.map((one) => nameOf({ subject: one }, desk)))];
    const isAll = names.length && state.value.shown.every((one) => isOfDisk(one));
    render(
      names.length
        ? html`<p class="message" role="status">
            The link does not contain ${names.join(', ')}, because those files are on your
            disk${isAll ? ': it opens the softmax and sigmoid models instead' : ''}.
            <button type="button" @click=${() => void copyNames()}>
              Include name and fingerprint
            </button>
            <button type="button" aria-label="Close" @click=${() => (leftOut.value = [])}>✕</button>
          </p>`
        : nothing,
      unshared,
    );
  });
  const text = part(place, 'message', 'p');
  text.setAttribute('role', 'alert');
  const progress = part(place, 'progress', 'p');
  progress.setAttribute('role', 'status');
  let waiting = 0;
  effect(() => {
    const said = [...new Set([...(failure.value ? [failure.value] : []), ...notices.value])].join(
      '\n',
    );
    text.hidden = !said;
    say(text, said);
    text.classList.toggle('error', failure.value !== '');
  });
  effect(() => {
    void changes.value;
    const work = engine.value?.queue.work.value;
    const loads = opener.isShown ? undefined : opener.work;
    const told = work?.text ? work : undefined;
    document.body.toggleAttribute(
      'data-busy',
      !engine.value ? failure.value === '' : Boolean(work),
    );
    clearTimeout(waiting);
    const stop = () => {
      engine.peek()?.queue.stop();
      opener.back();
    };
    const draw = () => {
      progress.hidden = !told && !loads;
      const share =
        told && told.share >= 0
          ? html`<progress max="1" .value=${told.share} aria-label="Progress"></progress>`
          : nothing;
      render(
        told || loads
          ? html`<span>${loads ?? told!.text} …</span> ${share}
              <button type="button" @click=${stop}>Stop</button>`
          : nothing,
        progress,
      );
    };
    const isLate = loads || (told && performance.now() - told.since > PATIENCE_MS);
    if (isLate || !told) draw();
    else waiting = window.setTimeout(draw, PATIENCE_MS);
  });
}

/** The page's promise about data, and About: what it is based on, and what this browser does. */
function footer(place: HTMLElement): void {
  const first = signal(0);
  new PerformanceObserver((list) => {
    const [mark] = list.getEntriesByName('first-sink');
    if (mark) first.value = mark.startTime;
  }).observe({ type: 'mark', buffered: true });
  effect(() => {
    const describe = engine.value?.models.describe;
    const entries = engine.value?.queue.entries.value;
    if (!describe) return;
    const [entry] = entries?.values() ?? [];
    const used = new Set([...(entries?.keys() ?? [])].map((one) => parseSubject(one)?.arithmetic));
    const arithmetic = others.filter((one) => used.has(one)).map((one) => OTHERS[one].footer);
    const counters = [
      `${describe.kernels} kernels${arithmetic.length ? `, ${arithmetic.join(' and ')} where a figure says so` : ''}`,
      ...(first.value ? [`first sink after ${Math.round(first.value)} ms`] : []),
      ...(entry?.frame ? [`last run ${Math.round(entry.frame.milliseconds)} ms`] : []),
    ];
    render(
      html`<span
          >Sinkscope ${describe.version} · Your text and files stay on this machine; models download
          from Hugging Face only on request.</span
        >
        <details class="more">
          <summary>About</summary>
          <p>
            Sinkscope runs small language models in this page and measures their attention sinks.
            License: Apache-2.0. No server computes anything.
          </p>
          <div class="sources">${sources(describe.version)}</div>
          <p>This browser: ${counters.join(' · ')}.</p>
        </details>`,
      place,
    );
  });
}

/* Rooms. */

/** The tab's title: the question on Start, elsewhere the room. */
function titleOf(name: string): string {
  if (name === defaults.room) return 'Why do language models stare at the first token? · Sinkscope';
  return `${rooms.find((room) => room.name === name)?.title ?? 'Figure'} · Sinkscope`;
}

function enter(main: HTMLElement, embedded: boolean): void {
  let inside: { readonly name: string; readonly scope: Scope } | undefined;
  let standing: { readonly name: string; readonly scope: Scope } | undefined;
  const built = new Map<string, Build>();
  const name = computed(() => {
    if (embedded) return 'figure';
    return rooms.find((room) => room.name === state.value.room)?.name ?? rooms[0]!.name;
  });
  const loading = (wanted: string) =>
    embedded ? import('../rooms/figure') : rooms.find((room) => room.name === wanted)!.load();
  effect(() => {
    const wanted = name.value;
    if (inside?.name === wanted) return;
    const scope = new Scope();
    inside = { name: wanted, scope };
    // The room before stands until there is another one to see.
    const start = (build: Build) => {
      if (inside?.scope !== scope) return;
      standing?.scope.end();
      standing = inside;
      pointed.value = {};
      const root = document.createElement('div');
      root.className = `room room-${wanted}`;
      main.replaceChildren(root);
      main.dataset.room = wanted;
      document.title = titleOf(wanted);
      build(root, desk, scope);
    };
    const known = built.get(wanted);
    // A room sets state and asks the queue, which must not happen inside this effect.
    if (known) queueMicrotask(() => start(known));
    else
      loading(wanted).then(
        ({ build }) => {
          built.set(wanted, build);
          start(build);
        },
        async (error: unknown) => {
          const isNewer = await isReplaced();
          if (inside?.scope !== scope) return;
          if (standing) {
            inside = standing;
            set({ room: standing.name });
          }
          if (isNewer) offer(() => location.reload());
          else fail(error);
        },
      );
  });
}

/** Whether the host has another build than the one that runs here: its files are gone then. */
async function isReplaced(): Promise<boolean> {
  const own = document.querySelector('script[type="module"]')?.getAttribute('src');
  try {
    const answer = await fetch(location.href.split('#')[0]!, { cache: 'no-store' });
    return answer.ok && Boolean(own) && !(await answer.text()).includes(own!);
  } catch {
    return false;
  }
}

/* The engine. */

/** More share one memory bus. */
const MOST_THREADS = 4;

function startEngine() {
  const onLost = (error: Error) => tell(sentence(error));
  // Where the host's headers set the page apart; a model of the zoo is too small to need them.
  const threads = Math.min(navigator.hardwareConcurrency || 1, MOST_THREADS);
  return createEngine({ base: new URL(ENGINE, base), threads, onLost });
}

/** Texts of the inputs that are made of texts. */
async function textsOf(zoo: Awaited<ReturnType<typeof openZoo>>, { input, T }: Question) {
  if (input === 'heldout') return zoo.heldOut(T);
  const chosen = file.peek();
  return input === 'file' && chosen ? promptsOfFile(chosen.text, chosen.splitting) : [];
}

function hurry({ cards, quick }: Zoo): void {
  const { room, shown } = state.peek();
  const [first] = shown;
  if (room === defaults.room && cards.some((card) => card.id === first && card.quick))
    quick(first!).catch(() => {});
}

async function start(): Promise<void> {
  try {
    const coming = openZoo();
    // What the first screen reads comes while the engine starts.
    coming.then(hurry, () => {});
    const [first, zoo] = await Promise.all([startEngine(), coming]);
    const models = new Models(first, zoo);
    const queue = new Queue({
      models,
      texts: (question) => textsOf(zoo, question),
      admit: (id, abort) => opener.admit(id, abort),
    });
    failure.value = '';
    engine.value = { models, queue, file: files };
    checkNames();
  } catch (error) {
    fail(error);
    render(
      html`<button type="button" @click=${() => void start()}>Try again</button>`,
      document.getElementById('retry')!,
    );
  }
}

export function startPage(embedded: boolean): void {
  const place = (id: string) => document.getElementById(id)!;
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
  });
  if (!embedded) header(place('header'));
  messages(place('messages'));
  footer(place('version'));
  // An anchor would be taken for a state.
  document.querySelector('.skip')?.addEventListener('click', (event) => {
    event.preventDefault();
    const main = place('main');
    (main.querySelector<HTMLElement>('[data-view="attention"] .heatmap') ?? main).focus();
  });
  const dialog = createDialog(opener);
  effect(() => {
    void changes.value;
    dialog.draw();
  });
  acceptDrops(opener);
  void start();
  enter(place('main'), embedded);
}
