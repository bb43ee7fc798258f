/**
 * A page without an engine: its state, frames with known numbers, and a record of its requests. A test that imports
 * this runs in happy-dom.
 */
import { existsSync, readFileSync } from 'node:fs';
import { signal } from '@preact/signals-core';
import { render } from 'lit';
import { vi } from 'vitest';
import { defaults, type State } from '../src/ask/state';
import { zooAddress } from '../src/ask/zoo';
import type { Frame } from '../src/frame';
import { Scope, type Context } from '../src/page/context';

/** Serves the texts of the zoo, as the page's server does. */
export function servesZoo(): void {
  vi.stubGlobal('fetch', async (url: URL) => {
    const path = url.href.slice(zooAddress('').href.length);
    const file = `${import.meta.dirname}/../../models/zoo/${path}`;
    return existsSync(file)
      ? new Response(readFileSync(file, 'utf8'))
      : new Response('', { status: 404 });
  });
}

interface Entry {
  readonly frame?: Frame;
  readonly isStale?: boolean;
  readonly error?: string;
}
const describe = {
  ...{ version: '1.2.3', letters: {} },
  ...{ operations: [], metrics: [], fields: [], edits: [] },
};

/** @param more overrides of its models, its queue, and its context */
export function pageOf(
  change: Partial<State> = {},
  frames: readonly Frame[] = [],
  { models, queue, ...more }: { models?: object; queue?: object } & Record<string, unknown> = {},
) {
  const state = signal<State>({ ...defaults, ...change });
  const entriesOf = (frames: readonly Frame[]) =>
    new Map<string, Entry>(frames.map((frame) => [frame.subject, { frame, isStale: false }]));
  const entries = signal(entriesOf(frames));
  const calls = {
    ...{ point: vi.fn(), chooseFile: vi.fn(), open: vi.fn(), pickModels: vi.fn() },
    ...{ embed: vi.fn(), openFiles: vi.fn(), trust: vi.fn(), notify: vi.fn() },
  };
  const pageQueue = {
    ...{ entries, ask: vi.fn(), studyEntry: vi.fn(), retry: vi.fn() },
    ...{ isGenerating: false, generate: vi.fn(), stopGenerating: vi.fn() },
    // Always busy, so that no room draws ahead of its reader.
    work: signal<object | undefined>({ text: 'Running' }),
    ...queue,
  };
  const engine = signal<unknown>({
    fileVersion: signal(0),
    queue: pageQueue,
    models: {
      ...{ zoo: { cards: [] }, choices: [], canOpen: () => true },
      ...{ describe, explain: async () => describe },
      ...models,
    },
  });
  const context = {
    ...{ state, engine, theme: signal('light'), pointed: signal({}), file: signal(undefined) },
    ...calls,
    set: vi.fn((to: Partial<State>) => void (state.value = { ...state.peek(), ...to })),
    link: (to?: Partial<State>) => `#${JSON.stringify(to)}`,
    facts: () => ({ corpus: { kind: 'text' }, version: '1.2.3', link: 'https://page.example/#a' }),
    fail: (error: unknown) => {
      throw error;
    },
    ...more,
  };
  return {
    ...{ context: context as unknown as Context, state, engine, entries },
    ...{ queue: pageQueue, set: context.set },
    calls,
    know: (known: readonly Frame[] | Record<string, Entry>) => {
      entries.value = Array.isArray(known)
        ? entriesOf(known as Frame[])
        : new Map(Object.entries(known));
    },
    asked: () => pageQueue.ask.mock.lastCall![0],
  };
}

export function readOf(root: Element) {
  const all = <E extends HTMLElement = HTMLElement>(selector: string) => [
    ...root.querySelectorAll<E>(selector),
  ];
  const words = (element: Element | undefined) => element?.textContent!.replace(/\s+/g, ' ').trim();
  const findNamed = (name: string, selector: string) =>
    all(selector).find(
      (element) => element.getAttribute('aria-label') === name || words(element)!.includes(name),
    )!;
  return {
    ...{ root, all, words },
    text: (selector: string) => words(all(selector)[0]) ?? '',
    texts: (selector: string) => all(selector).map(words),
    button: (name: string) => findNamed(name, 'button') as HTMLButtonElement,
    click: (name: string) => findNamed(name, 'button, a').click(),
    pressed: (selector: string) =>
      all(selector)
        .filter((element) => element.getAttribute('aria-pressed') === 'true')
        .map(words),
    enter: (selector: string, value: string, event = 'change') => {
      const field = all<HTMLInputElement>(selector)[0]!;
      field.value = value;
      field.dispatchEvent(new Event(event));
      return field.value;
    },
  };
}

export function mount(template: unknown) {
  const root = document.createElement('div');
  document.body.replaceChildren(root);
  render(template, root);
  return readOf(root);
}

export function roomOf(
  build: (root: HTMLElement, context: Context, scope: Scope) => void,
  page: ReturnType<typeof pageOf>,
) {
  const reader = mount(undefined);
  const scope = new Scope();
  build(reader.root as HTMLElement, page.context, scope);
  return { ...page, ...reader, scope };
}
