/** The models that are shipped with the page. */
import { SinkscopeError } from 'sinkscope';
import { base } from '../base';
import { cachedPromise } from './cached';
import { fetchNamed } from './errors';

/** The measurements of a card that the page reads. The build leaves out the others; card.md names all. */
export type Measurement =
  'sink_1' | 'sink_1_raw' | 'sink_bias' | 'value_ratio' | 'loss' | 'eps' | 'T' | 'sequences';

/** A model of the zoo, as models/zoo/index.json describes it. */
export interface Card {
  readonly id: string;
  readonly title: string;
  readonly what: string;
  readonly parameters: number;
  readonly operation: string;
  /** The settings of the model's recipe that differ from the baseline's. */
  readonly factor?: string;
  /** The model to which this one is compared; `factor` says how their recipes differ. */
  readonly baseline?: string | null;
  /** Facts about the training: steps, learning rate, weight decay, start tokens and others. */
  readonly training?: Readonly<Record<string, unknown>> & { readonly front?: readonly string[] };
  readonly sha256: string;
  readonly measured: Readonly<Partial<Record<Measurement, number | boolean>>>;
  /** Results of the same recipe with other seeds, in percent. */
  readonly further_seeds?: readonly SeedResult[];
  readonly seed?: number;
  /** The model's weights as I8 in a gzip file, a third of model.safetensors, with the contents of config.json. */
  readonly packed?: { readonly file: string; readonly bytes: number; readonly config: object };
  /** Whether the model's folder has checkpoints, in `timeline/`. */
  readonly timeline?: boolean;
  /** The model whose folder has this model's tokenizer; the two tokenizers are equal byte for byte. */
  readonly tokenizer: string;
  /** The contents of tokenizer_config.json; the file is too small to be worth a request. */
  readonly tokenizer_config: object;
  /** What a paper reports of its own model with this factor; null or absent without such a paper. */
  readonly paper?: Reported | null;
  /** The effect of the model's factor across runs; null without enough runs. */
  readonly differs?: Difference | null;
}

/** Returns the facts about a model's training; a setting that is newer than its card has the baseline's value. */
export function trainingOf(card: Card, cards: readonly Card[]): Card['training'] {
  const defaults = cards.find(({ id }) => id === 'softmax')?.training;
  return card.training && { ...defaults, ...card.training };
}

interface SeedResult {
  readonly seed: number;
  /** Sink_1 in percent. */
  readonly sink_1: number;
  readonly value_ratio: number;
  readonly loss: number;
}

export function seedsOf({ seed = 1, measured, further_seeds = [] }: Card): {
  readonly shippedSeed: number;
  readonly all: readonly SeedResult[];
} {
  const shippedResult = {
    seed,
    sink_1: Number(measured.sink_1),
    value_ratio: Number(measured.value_ratio),
    loss: Number(measured.loss),
  };
  return { shippedSeed: seed, all: [shippedResult, ...further_seeds] };
}

/** The effect of a factor by the runs of protocol B: the mean difference of each outcome, and the ends of its interval. */
export interface Difference {
  readonly seeds: number;
  readonly alpha: readonly [number, number, number];
  readonly loss: readonly [number, number, number];
}

export interface Reported {
  /** Sink_1 in percent. */
  readonly sink_1?: number;
  /** Sink_1, in percent, of the paper's baseline: the same model without this factor. */
  readonly base?: number;
  readonly loss?: number;
  /** The direction of the difference in words, for a paper with another measure. */
  readonly says?: string;
  readonly where: string;
}

/** A paper's measurements of open models, for several kinds of prompts. */
export interface OpenModels {
  readonly source: string;
  readonly measure: string;
  readonly kinds: Readonly<Record<string, string>>;
  /** Sink_1 in percent for each kind. */
  readonly models: readonly (Readonly<Record<string, number>> & { readonly model: unknown })[];
}

type Files = { readonly config: string; readonly weights: Uint8Array };

export interface Zoo {
  readonly cards: readonly Card[];
  /** Fetches the packed weights of models one after the other, so that what is drawn first comes first. */
  readonly fetchAhead: (ids: readonly string[]) => Promise<void>;
  /** Returns the contents of config.json and of a safetensors file with the weights. */
  readonly files: (id: string) => Promise<Files>;
  /** Removes a model's files from the cache; to call when they failed to open. */
  readonly forget: (id: string) => void;
  readonly openModels: () => Promise<OpenModels>;
  /** Texts from outside the training data of the zoo's models, each at least `tokens` tokens long. */
  readonly heldOut: (tokens: number) => Promise<readonly string[]>;
}

const fetchFile = (path: string, cache: RequestCache = 'default'): Promise<Response> =>
  fetchNamed(zooAddress(path), path, { cache });

export const fetchText = async (path: string): Promise<string> => (await fetchFile(path)).text();

/** Reads files of the zoo; if they are damaged, again past the browser's cache, which may hold a login page instead. */
export async function readWithRetry<Result>(
  paths: readonly string[],
  read: () => Promise<Result>,
  isDamaged: (error: unknown) => boolean,
): Promise<Result> {
  try {
    return await read();
  } catch (error) {
    if (!isDamaged(error)) throw error;
    const refetch = async (path: string) => (await fetchFile(path, 'reload')).arrayBuffer();
    await Promise.allSettled(paths.map(refetch));
    return read();
  }
}

function fetchJson<T>(path: string): Promise<T> {
  const read = async () => {
    const text = await fetchText(path);
    try {
      return JSON.parse(text) as T;
    } catch (cause) {
      const excerpt = text.slice(0, 40).trim();
      throw new Error(`${path}: expected JSON, the server sent “${excerpt}…”.`, { cause });
    }
  };
  return readWithRetry([path], read, (error) => (error as Error).cause instanceof SyntaxError);
}

/** @param onBytes gets the number of bytes so far */
async function fetchBytes(
  path: string,
  onBytes?: (done: number) => void,
): Promise<Uint8Array<ArrayBuffer>> {
  const response = await fetchFile(path);
  let done = 0;
  const counter = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform: (part, controller) => {
      onBytes!((done += part.length));
      controller.enqueue(part);
    },
  });
  const counted =
    onBytes && response.body ? new Response(response.body.pipeThrough(counter)) : response;
  return new Uint8Array(await counted.arrayBuffer());
}

async function fetchPlain({ id }: Card): Promise<Files> {
  const [config, weights] = await Promise.all([
    fetchText(`${id}/config.json`),
    fetchBytes(`${id}/model.safetensors`),
  ]);
  return { config, weights };
}

/** Says how much of a model's packed weights has been fetched. */
type OnBytes = (id: string, done: number, total: number) => void;

async function fetchPacked({ id, packed }: Card, onBytes?: OnBytes): Promise<Files> {
  const { file, bytes, config } = packed!;
  const path = `${id}/${file}`;
  const packedBytes = await fetchBytes(path, onBytes && ((done) => onBytes(id, done, bytes)));
  return { config: JSON.stringify(config), weights: await unpack(packedBytes, path) };
}

/** Unpacks a file that ends in .gz, unless the server has unpacked it already. */
export async function unpack(bytes: Uint8Array<ArrayBuffer>, where: string): Promise<Uint8Array> {
  const [first, second] = bytes;
  if (first !== 0x1f || second !== 0x8b) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  const content = await new Response(stream).arrayBuffer().catch(() => {
    // The browser's own error does not say what is wrong: in Chromium, that a fetch failed.
    const text = `expected a complete gzip file, found ${bytes.length.toLocaleString('en')} bytes that do not unpack`;
    throw new SinkscopeError('bad_file', where, text);
  });
  return new Uint8Array(content);
}

export const zooAddress = (path: string): URL => new URL(ZOO + path, base);

const [SHORT_TOKENS, LONG_TOKENS] = [100, 150];

/** Passages from children's books in the public domain, outside the training data of the zoo's models. */
export const PASSAGE_FILES = ['heldout.json', 'heldout-long.json'] as const;

export const corpusName = (tokens: number): string =>
  tokens <= SHORT_TOKENS ? '100 short passages' : '40 long passages';

export const passagesPerPrompt = (tokens: number): number =>
  tokens <= SHORT_TOKENS ? 1 : Math.ceil(tokens / LONG_TOKENS);

export const heldOutFile = (tokens: number): string =>
  PASSAGE_FILES[tokens <= SHORT_TOKENS ? 0 : 1];

export async function openZoo(onBytes?: OnBytes): Promise<Zoo> {
  const jsonFiles = new Map<string, Promise<unknown>>();
  const read = (name: string) => cachedPromise(jsonFiles, name, () => fetchJson(name));
  const cards = await fetchJson<Card[]>('index.json');
  const packedFiles = new Map<string, Promise<Files>>();
  const cardOf = (id: string) => cards.find((card) => card.id === id);
  const files = (id: string) => {
    const card = cardOf(id)!;
    return card.packed
      ? cachedPromise(packedFiles, id, () => fetchPacked(card, onBytes))
      : fetchPlain(card);
  };
  return {
    cards,
    files,
    fetchAhead: async (ids) => {
      for (const id of ids) if (cardOf(id)?.packed) await files(id);
    },
    forget: (id) => void packedFiles.delete(id),
    openModels: () => read('reported.json') as Promise<OpenModels>,
    heldOut: async (tokens) => {
      const passages = (await read(heldOutFile(tokens))) as string[];
      if (tokens <= SHORT_TOKENS) return passages;
      const passageCount = passagesPerPrompt(tokens);
      const promptCount = Math.max(1, Math.floor(passages.length / passageCount));
      const starts = Array.from({ length: promptCount }, (_, i) => i * passageCount);
      return starts.map((from) => passages.slice(from, from + passageCount).join('\n\n'));
    },
  };
}
