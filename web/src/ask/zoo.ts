/** The models that are shipped with the page. */
import { sha256, SinkscopeError } from 'sinkscope';
import { base } from '../base';
import { fetched } from './errors';
import { headerOf, refined, unpacked } from './preview';

export interface Card {
  readonly id: string;
  readonly title: string;
  readonly what: string;
  readonly parameters: number;
  readonly operation: string;
  /** Settings of its recipe that differ from the baseline's. */
  readonly factor?: string;
  /** The model with which its factor is compared. */
  readonly baseline?: string | null;
  /** Facts of its training: steps, learning rate, weight decay, start tokens, and so on. */
  readonly training?: Readonly<Record<string, unknown>> & { readonly front?: readonly string[] };
  readonly sha256: string;
  readonly measured: Readonly<Record<string, number | boolean>>;
  /** Results of the same recipe with other seeds, in percent. */
  readonly further_seeds?: readonly SeedResult[];
  /** Metrics of the shipped weights. */
  readonly seed?: number;
  /**
   * The quantized preview of about three bits, its effect on the metrics, and the refinement that restores the exact
   * weights.
   */
  readonly preview?: {
    readonly file: string;
    readonly bytes: number;
    readonly sha256: string;
    /** Absent if the exact weights are shipped as a file. */
    readonly refinement?: { readonly file: string; readonly bytes: number };
    readonly measured: Readonly<Record<string, number>>;
  };
  /** Whether timeline/ has its checkpoints. */
  readonly timeline?: boolean;
  /** The model with the same tokenizer, byte for byte. */
  readonly tokenizer: string;
  /** Its tokenizer_config.json, included since it is small. */
  readonly tokenizer_config: object;
  /** Numbers that a paper reports of its own model of this kind; null or absent if none does. */
  readonly paper?: Reported | null;
  /** The effect of its factor over several seeds, in pairs with the baseline's; null if undecided. */
  readonly differs?: Difference | null;
}

/** The results of one run of a recipe. */
interface SeedResult {
  readonly seed: number;
  /** Sink_1 in percent. */
  readonly sink_1: number;
  readonly value_ratio: number;
  readonly loss: number;
}

/** The runs of a model's shipped recipe, and which of them has the shipped weights. */
export function seedsOf({ seed: own = 1, measured, further_seeds = [] }: Card): {
  readonly own: number;
  readonly all: readonly SeedResult[];
} {
  const of = (name: string) => Number(measured[name]);
  const shipped = { sink_1: of('sink_1'), value_ratio: of('value_ratio'), loss: of('loss') };
  return { own, all: [{ seed: own, ...shipped }, ...further_seeds] };
}

/** The effect of a factor, which models/train/factors.py writes from the logs of the long runs. */
interface Difference {
  readonly seeds: number;
  /** alpha_1 above uniform attention with its interval, and a paper's number. */
  readonly says: string;
  /** [mean, low, high] of the paired differences, 95%. */
  readonly outcomes: Readonly<Record<string, readonly [number, number, number]>>;
}

/** Numbers from a paper, of its own model and data. */
export interface Reported {
  /** Sink_1 in percent. */
  readonly sink_1?: number;
  /** The same for its model without the factor. */
  readonly base?: number;
  readonly loss?: number;
  /** The direction of the difference, if the paper has another measure. */
  readonly says?: string;
  /** The paper, and the place in it. */
  readonly where: string;
}

/** A paper's measurements of open models, by kind of prompt. */
export interface OpenModels {
  readonly source: string;
  readonly measure: string;
  /** The kind of prompt: natural, random, repeat. */
  readonly kinds: Readonly<Record<string, string>>;
  /** Sink_1 in percent for each kind. */
  readonly models: readonly (Readonly<Record<string, number>> & { readonly model: unknown })[];
}

/** The files from which the engine opens a model. */
interface Files {
  readonly config: string;
  readonly weights: Uint8Array;
}

export interface Zoo {
  readonly cards: readonly Card[];
  /** Fetches the quantized preview of a model that has one; an early call shortens the wait. */
  readonly preview: (id: string) => Promise<Files>;
  /** Fetches the exact weights. */
  readonly exact: (id: string) => Promise<Files>;
  /** Removes a preview from the cache after a failure. */
  readonly forget: (id: string) => void;
  readonly openModels: () => Promise<OpenModels>;
  /** Texts that no model of the zoo was trained on, each long enough for `tokens` tokens. */
  readonly heldOut: (tokens: number) => Promise<readonly string[]>;
}

function get(path: string, cache: RequestCache = 'default'): Promise<Response> {
  return fetched(zooAddress(path), path, { cache });
}

export async function textOf(path: string): Promise<string> {
  return (await get(path)).text();
}

/**
 * Reads files of the zoo. A damaged file is fetched again past the browser's cache, which may hold a login page in its
 * place, and the new response is kept.
 */
export async function readRenewing<Result>(
  paths: readonly string[],
  read: () => Promise<Result>,
  isDamaged: (error: unknown) => boolean,
): Promise<Result> {
  try {
    return await read();
  } catch (error) {
    if (!isDamaged(error)) throw error;
    const renewed = async (path: string) => (await get(path, 'reload')).arrayBuffer();
    await Promise.allSettled(paths.map(renewed));
    return read();
  }
}

function getJson<T>(path: string): Promise<T> {
  const read = async () => {
    const text = await textOf(path);
    try {
      return JSON.parse(text) as T;
    } catch (cause) {
      const excerpt = text.slice(0, 40).trim();
      throw new Error(`${path}: expected JSON, the server sent “${excerpt}…”.`, { cause });
    }
  };
  return readRenewing([path], read, (error) => (error as Error).cause instanceof SyntaxError);
}

async function getBytes(path: string): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await (await get(path)).arrayBuffer());
}

async function getUnpacked(path: string): Promise<Uint8Array> {
  return unpacked(await getBytes(path), path);
}

async function getWhole({ id }: Card): Promise<Files> {
  const paths = [textOf(`${id}/config.json`), getBytes(`${id}/model.safetensors`)] as const;
  const [config, weights] = await Promise.all(paths);
  return { config, weights };
}

async function getPreview({ id, preview }: Card): Promise<Files> {
  const path = `${id}/${preview!.file}`;
  const weights = await getUnpacked(path);
  return { config: headerOf(weights, path).config, weights };
}

/** Fetches the refinement of a preview; both together are the bytes whose hash the card has. */
async function getRefined(card: Card, file: string, coming: Promise<Files>): Promise<Files> {
  const path = `${card.id}/${file}`;
  const [{ config, weights: preview }, rest] = await Promise.all([coming, getUnpacked(path)]);
  const weights = refined(preview, rest, path);
  const hash = (await sha256(weights)) ?? card.sha256;
  if (hash !== card.sha256)
    throw new SinkscopeError('bad_file', path, `expected sha256 ${card.sha256}, found ${hash}`);
  return { config, weights };
}

export function zooAddress(path: string): URL {
  return new URL(ZOO + path, base);
}

/** Every one of the hundred passages has this many tokens, and every one of the forty long ones that many. */
const [SHORT, LONG] = [100, 150];

/** Two corpora of children's books that no model of the zoo was trained on, in the public domain. */
export const PASSAGES = ['heldout.json', 'heldout-long.json'] as const;

/** Returns the name of the corpus for prompts of this length. */
export function corpusName(tokens: number): string {
  return tokens <= SHORT ? '100 short passages' : '40 long passages';
}

/** Returns the number of long passages that make one prompt of this length. */
export const passagesEach = (tokens: number): number =>
  tokens <= SHORT ? 1 : Math.ceil(tokens / LONG);

/** Returns the file of passages for prompts of this length. */
export function heldOutFile(tokens: number): string {
  return PASSAGES[tokens <= SHORT ? 0 : 1];
}

export async function openZoo(): Promise<Zoo> {
  const texts = new Map<string, Promise<unknown>>();
  const read = <T = string[]>(name: string): Promise<T> => {
    const cached = texts.get(name) ?? getJson<unknown>(name);
    texts.set(name, cached);
    cached.catch(() => texts.delete(name));
    return cached as Promise<T>;
  };
  const cards = await getJson<Card[]>('index.json');
  const pending = new Map<string, Promise<Files>>();
  const cardOf = (id: string) => cards.find((card) => card.id === id)!;
  const preview = (id: string): Promise<Files> => {
    const files = pending.get(id) ?? getPreview(cardOf(id));
    pending.set(id, files);
    files.catch(() => pending.delete(id));
    return files;
  };
  return {
    cards,
    preview,
    exact: async (id) => {
      const card = cardOf(id);
      const { refinement } = card.preview ?? {};
      if (!refinement) return getWhole(card);
      const files = await getRefined(card, refinement.file, preview(id));
      pending.delete(id);
      return files;
    },
    forget: (id) => void pending.delete(id),
    openModels: () => read<OpenModels>('reported.json'),
    heldOut: async (tokens) => {
      const passages = await read(heldOutFile(tokens));
      if (tokens <= SHORT) return passages;
      const passageCount = passagesEach(tokens);
      // If more tokens are needed than the passages have, all are joined into one text.
      const count = Math.max(1, Math.floor(passages.length / passageCount));
      const starts = Array.from({ length: count }, (_, i) => i * passageCount);
      return starts.map((from) => passages.slice(from, from + passageCount).join('\n\n'));
    },
  };
}
