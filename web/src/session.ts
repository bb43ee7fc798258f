/**
 * The only room of the page that talks to the engine: state in, frames out. Models stay open;
 * a side's run stays open until its next one, so that more can be read from it.
 */
import {
  type Architecture,
  type Describe,
  type Edit,
  type Engine,
  type Operation,
  type Read,
  type Run,
  type Tensor,
  type Token,
  type AnyTokenizer,
} from 'sinkscope';
import { isBidirectional, type Frame, type HeadFrame } from './frame';
import { firstTokens, inputTokens, otherSequences, specialWords } from './input';
import { InputError, Models, type OpenModel, type Watch } from './models';
import type { State } from './state';
import type { Zoo } from './zoo';

export type Side = 'a' | 'b';

const FIELDS = ['hidden', 'q', 'att', 'att_bias', 'gate', 'router', 'next', 'loss'];
/** What a mean over several sequences replaces; metrics by their names in describe. */
const AVERAGED = [
  'alpha',
  'alpha_raw',
  'alpha_bias',
  'sink_ratio',
  'sink_ratio_raw',
  'sink_ratio_bias',
  'near_eps',
  'row_mass',
  'row_mass_summary',
  'gate_mean',
  'loss_mean',
];
/** Read once for a frame. */
const METRICS = [
  ...AVERAGED,
  'alpha_uniform',
  'entropy_mean',
  'cos_gap',
  'hidden_norm',
  'key_norm',
  'value_norm',
  'hidden_ratio',
  'key_ratio',
  'value_ratio',
  'massive',
  'massive_at',
];
/** Fields that such a mean replaces, where a model has them. */
const AVERAGED_FIELDS = ['att_bias', 'gate'];

export class Session {
  readonly describe: Describe;
  readonly models: Models;
  readonly #zoo: Zoo;
  readonly #runs = new Map<Side, { run: Run; opened: OpenModel }>();

  constructor(engine: Engine, zoo: Zoo) {
    this.describe = engine.describe;
    this.models = new Models(engine, zoo);
    this.#zoo = zoo;
  }

  /** Runs one side. The side's earlier run is closed when this one stands. */
  async run(side: Side, state: State, watch: Watch): Promise<Frame> {
    const opened = await this.models.get(this.models.at(state[side], state.step), watch);
    const began = performance.now();
    const all = await inputTokens(opened.tokenizer, state);
    const { context } = opened.model.architecture;
    const T = Math.min(state.T, context, all.length);
    if (T === 0) throw new InputError('The prompt is empty: type something, or turn BOS on.');
    const tokens = all.slice(0, T);
    const edits = editsOf(side, state, this.describe.operations);
    const run = await opened.model.run(
      tokens.map((token) => token.id),
      {
        fields: FIELDS,
        edits,
        capacity: Math.min(context, T + 64),
        signal: watch.signal,
        onProgress: (p) => watch.onProgress('Running', p.done, p.total),
      },
    );
    try {
      const made = { edits, tokens, dropped: all.length - T, generated: 0, began };
      const frame = await this.#frame(opened, run, state, made);
      const whole = await this.#average(frame, opened, state, watch);
      watch.signal.throwIfAborted();
      // Where its result was not wanted any more, its model may be closed, and the run with it.
      await this.#runs
        .get(side)
        ?.run.close()
        .catch(() => {});
      this.#runs.set(side, { run, opened });
      return whole;
    } catch (error) {
      // Nobody else knows this run.
      await run.close();
      throw error;
    }
  }

  async #frame(
    opened: OpenModel,
    run: Run,
    state: State,
    made: {
      edits: readonly Edit[];
      tokens: readonly Token[];
      dropped: number;
      generated: number;
      began: number;
    },
  ): Promise<Frame> {
    const reads: Read[] = METRICS.map((metric) => ({ metric, eps: state.eps }));
    const { architecture } = opened.model;
    const fields = ['att', 'next', ...this.#own(architecture)];
    const results = await run.read([...reads, ...fields.map((field) => ({ field }))]);
    const names = [...METRICS, ...fields];
    const tensors = Object.fromEntries(results.map((tensor, i) => [names[i], tensor]));
    const { id, title, source, commit, step } = opened;
    const swapped = made.edits.find((edit) => edit.kind === 'operation');
    const name =
      swapped && 'operation' in swapped ? swapped.operation : architecture.attention.operation;
    return {
      model: { id, title, source, commit, step },
      class: made.edits.length ? 'counterfactual' : 'measured',
      architecture,
      operation: this.describe.operations.find((one) => one.name === name)!,
      edits: made.edits,
      tokens: made.tokens,
      T: made.tokens.length,
      dropped: made.dropped,
      eps: state.eps,
      first: firstTokens(made.tokens),
      special: await specialWords(opened.tokenizer),
      sequences: 1,
      generated: made.generated,
      tensors,
      next: isBidirectional({ architecture }) ? [] : likeliest(tensors.next, opened.tokenizer),
      milliseconds: performance.now() - made.began,
    };
  }

  /** Recorded fields that only some models have. */
  #own(architecture: Architecture): string[] {
    return this.describe.fields
      .filter(({ needs }) => needs && architecture[needs])
      .map(({ name }) => name);
  }

  /** The same measurements over further sequences of the same length, averaged. */
  async #average(frame: Frame, opened: OpenModel, state: State, watch: Watch): Promise<Frame> {
    if (state.n === 1) return frame;
    const texts = state.input === 'text' ? await this.#zoo.heldOut() : [];
    const fields = AVERAGED_FIELDS.filter((name) => name in frame.tensors);
    const names = [...AVERAGED, ...fields];
    const sums = names.map((name) => Float64Array.from(frame.tensors[name].data));
    let count = 1;
    for await (const ids of otherSequences(opened.tokenizer, state, frame.T, texts)) {
      if (count === state.n) break;
      watch.onProgress(`Averaging ${opened.title}`, count, state.n);
      const run = await opened.model.run(ids, {
        fields: ['att', 'loss', ...AVERAGED_FIELDS],
        edits: frame.edits,
        capacity: ids.length,
        signal: watch.signal,
      });
      const metrics = AVERAGED.map((metric) => ({ metric, eps: state.eps }));
      const reads = [...metrics, ...fields.map((field) => ({ field }))];
      const tensors = await run.read(reads).finally(() => run.close());
      tensors.forEach((tensor, i) => tensor.data.forEach((v, j) => (sums[i][j] += v)));
      count++;
    }
    const means = names.map((name, i): [string, Tensor] => [
      name,
      { shape: frame.tensors[name].shape, data: Float32Array.from(sums[i], (v) => v / count) },
    ]);
    return {
      ...frame,
      sequences: count,
      tensors: { ...frame.tensors, ...Object.fromEntries(means) },
    };
  }

  /** The maps of one head, read from the side's last run. */
  async head(side: Side, layer: number, head: number): Promise<HeadFrame | undefined> {
    const run = this.#runs.get(side)?.run;
    if (!run) return undefined;
    const names = ['qk_dot', 'qk_cos', 'qk_norm'];
    const [dot, cos, norm] = await run.read(names.map((metric) => ({ metric, layer, head })));
    return { layer, head, dot, cos, norm };
  }

  /** Adds tokens to the side's run; a frame for each. */
  async *generate(
    side: Side,
    frame: Frame,
    state: State,
    count: number,
    signal: AbortSignal,
  ): AsyncGenerator<Frame> {
    const open = this.#runs.get(side);
    if (!open || isBidirectional(frame)) return;
    const { run, opened } = open;
    const room = opened.model.architecture.context - run.tokens.length;
    let tokens = frame.tokens;
    const { temperature, topK, seed } = state;
    const options = { count: Math.min(count, room, 64), temperature, topK, seed, signal };
    if (options.count < 1) throw new InputError('The model has no room for more tokens.');
    for await (const step of run.generate(options)) {
      const text = opened.tokenizer.piece(step.token);
      tokens = [...tokens, { id: step.token, text, start: 0, end: 0, special: false }];
      yield this.#frame(opened, run, state, {
        edits: frame.edits,
        tokens,
        dropped: frame.dropped,
        generated: frame.generated + tokens.length - frame.tokens.length,
        began: performance.now(),
      });
    }
  }
}

function editsOf(side: Side, state: State, operations: readonly Operation[]): Edit[] {
  const name = side === 'a' ? state.swapA : state.swapB;
  const value = side === 'a' ? state.paramA : state.paramB;
  const operation = operations.find((one) => one.name === name);
  if (!operation) return [];
  const [first] = operation.parameters;
  const given = first && Number.isFinite(value);
  const parameters = given ? { [first.name]: clamp(value, first.min, first.max) } : undefined;
  return [{ kind: 'operation', operation: name, parameters }];
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}

const SHOWN = 8;

function likeliest(logits: Tensor, tokenizer: AnyTokenizer): Frame['next'] {
  const data = logits.data as Float32Array;
  const top = data.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = Float64Array.from(data, (x) => Math.exp(x - top));
  const sum = powers.reduce((a, b) => a + b, 0);
  return Array.from(powers.keys())
    .sort((i, j) => powers[j] - powers[i])
    .slice(0, SHOWN)
    .map((id) => ({ text: tokenizer.piece(id), probability: powers[id] / sum }));
}
