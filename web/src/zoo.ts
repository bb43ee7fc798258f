/** The models that lie beside the page. */
import { base } from './base';

export interface Card {
  readonly id: string;
  readonly title: string;
  readonly what: string;
  readonly parameters: number;
  readonly operation: string;
  /** What of its recipe is not the baseline's. */
  readonly factor?: string;
  /** How it was trained: steps, learning rate, weight decay, what stands in front, and so on. */
  readonly training?: Readonly<Record<string, unknown>> & { readonly front?: readonly string[] };
  readonly sha256: string;
  readonly measured: Readonly<Record<string, number | boolean>>;
  /** The same recipe from other initial weights and another order of the texts; in percent. */
  readonly further_seeds?: readonly { readonly seed: number; readonly sink_1: number }[];
  /** Whether its checkpoints lie in timeline/. */
  readonly timeline?: boolean;
  /** The model whose tokenizer is the same, byte for byte; absent: its own. */
  readonly tokenizer?: string;
  readonly licence: string;
  /** What a paper reports of its own model of this kind; null or absent where none does. */
  readonly paper?: Reported | null;
  /** Whether that agrees, and what the factor did there and here. */
  readonly verdict?: string;
}

/** Numbers of another's model and data. */
export interface Reported {
  /** In percent. */
  readonly sink_1?: number;
  readonly loss?: number;
  /** Which paper, and where in it. */
  readonly where: string;
}

export interface Zoo {
  readonly cards: readonly Card[];
  /** Texts that no model of the zoo was trained on. */
  readonly heldOut: () => Promise<readonly string[]>;
}

async function getJson<T>(address: URL): Promise<T> {
  const response = await fetch(address);
  if (!response.ok)
    throw new Error(`${address.pathname}: expected a file, the server said ${response.status}.`);
  return response.json() as Promise<T>;
}

export function zooAddress(path: string): URL {
  return new URL(ZOO + path, base);
}

export async function openZoo(): Promise<Zoo> {
  let texts: Promise<string[]> | undefined;
  return {
    cards: await getJson<Card[]>(zooAddress('index.json')),
    heldOut: () => (texts ??= getJson<string[]>(zooAddress('heldout.json'))),
  };
}
