/**
 * Generates text after its first token is deleted: the model has read a prompt, and then continues with the first key,
 * without it, without it for half of the text, and without the second key. Measures the texts over several seeds.
 */
import {
  measureLoss,
  continuePrompt,
  type Condition,
  type Writer,
  type Continuation,
} from './writing.ts';

const hiddenKeyEdits = (prompt: number, count: number, key = 0) =>
  Array.from({ length: count }, (_, i) => ({ kind: 'hide_key', key, query: prompt + i }) as const);

/** In the order of the table. The first generated token is the same: the prompt's last query sees all keys. */
export const CONDITIONS = {
  kept: { title: 'With the first token', edits: () => [] },
  deleted: { title: 'Without it', edits: (prompt, count) => hiddenKeyEdits(prompt, count) },
  restored: {
    title: 'Without it, then put back',
    edits: (prompt, count) => hiddenKeyEdits(prompt, Math.floor(count / 2)),
  },
  // Shows whether hiding any other token has the same effect.
  control: {
    title: 'Without the second token',
    edits: (prompt, count) => hiddenKeyEdits(prompt, count, 1),
  },
} as const satisfies Readonly<Record<string, Condition>>;

export type ConditionName = keyof typeof CONDITIONS;
export const CONDITION_NAMES = Object.keys(CONDITIONS) as readonly ConditionName[];

export interface Measures {
  /** The loss under the unedited model, in nats per token. */
  readonly loss: number;
  /** The share of generated tokens that end a sequence of three that the text already had. */
  readonly repeated: number;
  /** The share of repeated tokens in the second half of the text. */
  readonly late: number;
}

export type Trial = Readonly<Record<ConditionName, Measures & Continuation>>;

/** Written by lessons/without_first.mjs: a text for each condition (unless the control's is equal), and all measures. */
export interface RecordedTrials {
  readonly texts: Readonly<
    Record<Exclude<ConditionName, 'control'>, string> & { control?: string }
  >;
  readonly trials: Readonly<
    Record<ConditionName, Readonly<Record<keyof Measures, readonly number[]>>>
  >;
}

export function readRecorded({ texts, trials }: RecordedTrials): {
  readonly texts: Readonly<Record<ConditionName, string>>;
  readonly trials: readonly Readonly<Record<ConditionName, Measures>>[];
} {
  const measuresOf = (name: ConditionName, seed: number): Measures => {
    const { loss, repeated, late } = trials[name];
    return { loss: loss[seed]!, repeated: repeated[seed]!, late: late[seed]! };
  };
  return {
    texts: { control: texts.kept, ...texts },
    trials: trials.kept.loss.map(
      (_, seed) =>
        Object.fromEntries(CONDITION_NAMES.map((name) => [name, measuresOf(name, seed)])) as Record<
          ConditionName,
          Measures
        >,
    ),
  };
}

/** Returns for each token or word whether it ends a sequence of three that the text already had. */
export function repeats(tokens: readonly (number | string)[]): boolean[] {
  const triples = new Set<string>();
  return tokens.map((_, t) => {
    const triple = tokens.slice(Math.max(0, t - 2), t + 1).join('\0');
    const isRepeated = t > 1 && triples.has(triple);
    triples.add(triple);
    return isRepeated;
  });
}

/** Returns the share of tokens, from index `from` on, that repeat. */
export const repeatedShare = (tokens: readonly (number | string)[], from: number): number =>
  repeats(tokens).slice(from).filter(Boolean).length / (tokens.length - from);

export async function runTrial(
  writer: Writer,
  job: Parameters<typeof continuePrompt>[2],
): Promise<Trial> {
  const results: [ConditionName, Measures & Continuation][] = [];
  for (const name of CONDITION_NAMES) {
    const continuation = await continuePrompt(writer, CONDITIONS[name], job);
    const tokens = [...job.prompt, ...continuation.tokens];
    results.push([
      name,
      {
        ...continuation,
        loss: await measureLoss(writer, job, continuation),
        repeated: repeatedShare(tokens, job.prompt.length),
        late: repeatedShare(tokens, tokens.length - Math.ceil(continuation.tokens.length / 2)),
      },
    ]);
  }
  return Object.fromEntries(results) as unknown as Trial;
}
