/**
 * The page on the real engine, without a browser: models, recordings and texts give the frames and rooms of a reader. A
 * test that imports this runs in happy-dom, and skips itself if `isBuilt` is false.
 */
import { turn } from './fixture';
import { effect } from '@preact/signals-core';
import { Blob as Blob_, File as File_ } from 'node:buffer';
import { openAsBlob, readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import {
  createEngine,
  modelFiles,
  planFiles,
  openTokenizer,
  type AnyTokenizer,
  type Engine,
} from 'sinkscope';
import { tokenizerOfGguf } from 'sinkscope/internal';
import { vi } from 'vitest';
import { readMetadata } from '../../wasm/abi/metadata';
import { questionKey, questionOf, textsOf } from '../src/ask/question';
import { idOfRecordingFile } from '../src/ask/recordings';
import { defaults, type State } from '../src/ask/state';
import { withoutEdits } from '../src/ask/subject';
import { openZoo, zooAddress } from '../src/ask/zoo';
import type { Frame } from '../src/frame';
import type { View } from '../src/page/view';
import { Models } from '../src/run/models';
import type { OpenModel } from '../src/run/opened';
import { Queue } from '../src/run/queue';
import { views } from '../src/views/index';
import { mapsIn } from './drawn';
import { pageOf } from './page';

/** In happy-dom a module's own address is that of a server. */
const root = pathToFileURL(`${import.meta.dirname}/../../`);
export const bytesOf = (path: string) => new Uint8Array(readFileSync(new URL(path, root)));

function serveFiles(): void {
  vi.stubGlobal('fetch', async ({ href }: URL) => {
    const path = href.slice(zooAddress('').href.length);
    try {
      return new Response(bytesOf(`models/zoo/${path}`));
    } catch {
      return new Response('', { status: 404 });
    }
  });
  // Node.js can neither read happy-dom's files nor stream its responses.
  vi.stubGlobal('Blob', Blob_);
  vi.stubGlobal('File', File_);
  vi.spyOn(WebAssembly, 'instantiateStreaming').mockImplementation(async (source, imports) =>
    WebAssembly.instantiate(await (await source).arrayBuffer(), imports),
  );
}

export async function openPage() {
  serveFiles();
  const engine: Engine = await createEngine({
    base: new URL('.build/wasm/', root),
    worker: false,
    lab: true,
  });
  const zoo = await openZoo();
  const models = new Models(engine, zoo);
  // The timelines of the zoo are megabytes, and have tests of their own.
  vi.spyOn(models, 'timelines').mockReturnValue(new Promise(() => {}));
  const openedModels = new Map<string, OpenModel>();
  const get = models.get.bind(models);
  vi.spyOn(models, 'get').mockImplementation(
    async (id, watch) => openedModels.get(id) ?? get(id, watch),
  );
  const queue = new Queue({
    models,
    texts: (question) => textsOf(question, zoo, undefined),
    admit: async (id) => openedModels.has(id) || models.recordings.canOpen(id),
  });
  const until = (isDone: () => boolean) =>
    new Promise<void>((done) => {
      const stop = effect(() => {
        if (!isDone()) return;
        done();
        queueMicrotask(() => stop());
      });
    });
  const adopt = (name: string, model: OpenModel['model'], tokenizer: AnyTokenizer) => {
    const id = `disk:${String(openedModels.size).padStart(16, '0')}/${name}`;
    openedModels.set(id, { id, title: name, source: 'disk', model, tokenizer });
    return id;
  };
  return {
    engine,
    models,
    queue,
    /** Opens a model as from a reader's disk, without the worker in which the page opens the tokenizers of strangers. */
    openModel: async (name: string, config: object, weights: Uint8Array, tokenizer: AnyTokenizer) =>
      adopt(name, await engine.open({ config: JSON.stringify(config), weights }), tokenizer),
    /** Opens a GGUF file of this machine; like `openModel`, without the worker of the page's tokenizers. */
    openFile: async (name: string, path: string) => {
      const file = (await openAsBlob(new URL(path, root))) as Blob;
      const [plan] = await planFiles([{ path: name, file }]);
      const model = await engine.open(modelFiles(plan!));
      const { json, config } = tokenizerOfGguf(readMetadata(model.header!));
      return adopt(name, model, openTokenizer(json, config));
    },
    openRecording: async (name: string, bytes: Uint8Array): Promise<string> => {
      const file = new File([bytes as BlobPart], `${name}.safetensors`);
      const id = await idOfRecordingFile(file);
      models.recordings.admit(id, file);
      return id;
    },
    /** Returns a frame of each subject with all reads of the views, except the effect of heads, which needs further runs. */
    framesOf: async (
      subjects: readonly string[],
      change: Partial<State> = {},
      shownViews: readonly View[] = views,
      more: readonly string[] = [],
    ): Promise<Frame[]> => {
      const state = { ...defaults, shown: subjects, ...change };
      const neededSubjects = [...new Set([...subjects, ...subjects.map(withoutEdits)])];
      const question = questionOf(state);
      const reads = shownViews.flatMap((view) => [...view.reads, ...(view.optional ?? [])]);
      queue.ask({
        subjects: neededSubjects,
        question,
        reads: [...new Set([...reads, ...more])].filter((name) => name !== 'effect'),
        headReads: [...new Set(shownViews.flatMap(({ headReads = [] }) => headReads))],
        head: { layer: state.layer, head: state.head },
      });
      // The queue starts after this call.
      await turn();
      await until(
        () =>
          queue.work.value === undefined &&
          neededSubjects.every((one) => {
            const { frame, isStale, error } = queue.entries.value.get(one) ?? {};
            const isCurrent =
              frame && (frame.recording || questionKey(frame.question) === questionKey(question));
            return error || (isCurrent && !isStale);
          }),
      );
      return subjects.map((one) => {
        const { frame, error } = queue.entries.value.get(one)!;
        if (!frame || error) throw new Error(`${one}: ${error}`);
        const base = queue.entries.value.get(withoutEdits(one))?.frame;
        return frame.edits.length && base ? { ...frame, base } : frame;
      });
    },
    /** Returns a page that shows these frames, and requests nothing. */
    pageOf: (change: Partial<State>, frames: readonly Frame[]) => {
      const page = pageOf({ shown: frames.map(({ subject }) => subject), ...change }, frames);
      const pageEngine = { ...page.engine.peek()!, models };
      page.engine.value = pageEngine;
      return page;
    },
    close: () => engine.close(),
  };
}

/** Makes charts and maps draw although they are not on a screen. */
export function stubScreen(): void {
  vi.stubGlobal('matchMedia', () => ({
    matches: true,
    addEventListener: () => {},
    removeEventListener: () => {},
  }));
  // happy-dom does not know the attribute for a host's styles.
  Object.defineProperty(HTMLElement.prototype, 'part', {
    configurable: true,
    value: { add: () => {} },
  });
}

/** Returns all texts of a part of the page: its words, its labels, and the readouts of its maps. */
export function wordsOf(place: Element): string[] {
  const texts: string[] = [];
  const walk = (node: Element) => {
    for (const { name, value } of node.attributes)
      if (!['class', 'href', 'id', 'part'].includes(name)) texts.push(`${name}: ${value}`);
    for (const child of node.childNodes)
      if (child.nodeType === 3) texts.push(child.textContent!.trim());
      else if (child.nodeType === 1) walk(child as Element);
  };
  walk(place);
  for (const { data } of mapsIn(place)) {
    const { rows, cols, label } = data;
    texts.push(label, ...(data.rowWords ?? []));
    for (let row = -1; row < rows; row += 1 + Math.floor(rows / 7))
      for (let col = -1; col < cols; col += 1 + Math.floor(cols / 7))
        texts.push(data.describe({ row, col }));
  }
  return texts.filter(Boolean);
}
