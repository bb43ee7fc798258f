/** Implements the model that `load` returns, which takes text. */
import { JOB_OPTIONS, check, checkOptions } from '../abi/arguments.ts';
import { expect, expectInteger } from '../abi/errors.ts';
import { readEdit } from '../engine/edit_text.ts';
import { judge, operationOf } from '../study/judge.ts';
import { fieldsFor, finiteOrNull } from '../study/measure.ts';
import { whyNoLoss } from '../abi/head.ts';
import { tokenNotes } from '../text/notes.ts';
import { layerNumber } from '../abi/layers.ts';
import type { Run, RunRead, Model } from '../engine/types.ts';
import type {
  Ablation,
  ContinuedTextOptions,
  Engine,
  TextMap,
  TextMeasures,
  TextOptions,
} from './types.ts';
import type { Plan } from '../loading/types.ts';
import type { GuardedTokenizer } from '../text/types.ts';

const TEXT_OPTIONS = { ...JOB_OPTIONS, edits: 'list' };

interface LoadedParts {
  plan: Plan;
  engine: Engine;
  model: Model;
  tokenizer: GuardedTokenizer;
  isOwner: boolean;
}

/** A model that takes text. `model`, `tokenizer` and `engine` give access to its parts. */
export class LoadedModel {
  readonly id: string;
  readonly plan: Plan;
  readonly engine: Engine;
  readonly model: Model;
  readonly tokenizer: GuardedTokenizer;
  #isOwner: boolean;

  /** @internal */
  constructor({ plan, engine, model, tokenizer, isOwner }: LoadedParts) {
    this.id = plan.id;
    this.plan = plan;
    this.engine = engine;
    this.model = model;
    this.tokenizer = tokenizer;
    this.#isOwner = isOwner;
  }

  /**
   * Measures Sink_1, alpha_1 of all heads, the loss, and the map of one head: the one with the
   * largest alpha_1, or the one that layer and head name.
   * @example const { sink, alpha, map } = await model.measure('The old man sat at the door.');
   */
  async measure(
    text: string,
    options: ContinuedTextOptions & {
      readonly layer?: number;
      readonly head?: number;
      /** Default: describe.defaults.eps. */
      readonly eps?: number;
    } = {},
  ): Promise<TextMeasures> {
    checkOptions(options, { ...TEXT_OPTIONS, eps: 'number', generate: 'count' });
    const { describe, architecture } = this.model;
    const { eps = describe.defaults.eps } = options;
    const reads: RunRead[] = [
      { metric: 'alpha' },
      { metric: 'alpha_raw' },
      { metric: 'alpha_uniform' },
      { metric: 'sink_ratio', eps },
      { metric: 'sink_ratio_raw', eps },
      { metric: 'loss_mean' },
    ];
    return this.#withRun(text, options, [...reads, { field: 'att' }], async (run, words) => {
      const [alpha, alphaRaw, uniform, sink, sinkRaw, loss] = await run.read(reads);
      const [L, H, T] = alpha.shape;
      const noLoss = whyNoLoss(architecture);
      const { normalizes, proxy } = operationOf(describe, architecture, run.edits);
      const signed = proxy === 'share_abs';
      const weights = (normalizes || signed ? alpha : alphaRaw).data;
      const firstAlphas = Float32Array.from({ length: L * H }, (_, i) => weights[i * T]);
      const verdict = judge({
        eps,
        even: uniform.data[0],
        normalizes,
        signed,
        sink: sink.data[0],
        sinkRaw: sinkRaw.data[0],
      });
      const strongestHead = firstAlphas.reduce(
        (best, x, i) => (x > firstAlphas[best] ? i : best),
        0,
      );
      const layer = layerNumber(architecture, Math.floor(strongestHead / H));
      const { place, indices } = this.#resolveHead(options, layer, strongestHead % H);
      return {
        text,
        ...words,
        T,
        eps,
        sink: verdict.sink,
        sinkByShares: verdict.sinkByShares,
        uniform: verdict.even,
        conclusive: verdict.conclusive,
        loss: noLoss === null ? finiteOrNull(loss.data[0]) : null,
        noLoss,
        alpha: { shape: [L, H], data: firstAlphas },
        ...place,
        map: await run.field('att', indices),
      };
    });
  }

  /**
   * Returns the attention map of one head on a text.
   * @example const { map, tokens } = await model.map('The old man', { layer: 1, head: 3 });
   */
  async map(
    text: string,
    options: ContinuedTextOptions & { readonly layer: number; readonly head: number },
  ): Promise<TextMap> {
    checkOptions(options, { ...TEXT_OPTIONS, generate: 'count' });
    const { place, indices } = this.#resolveHead(options);
    return this.#withRun(text, options, [{ field: 'att' }], async (run, words) => ({
      text,
      ...words,
      ...place,
      map: await run.field('att', indices),
    }));
  }

  /**
   * Continues a text.
   * @example const story = await model.generate('Once upon a time', { count: 32, temperature: 0.8, seed: 1 });
   */
  async generate(
    text: string,
    options: Omit<ContinuedTextOptions, 'generate'> & {
      /** Number of tokens to add; default 16. */
      readonly count?: number;
      /** Receives the whole continuation so far, after each token. */
      readonly onText?: (continuation: string) => void;
    } = {},
  ): Promise<string> {
    checkOptions(options, { ...TEXT_OPTIONS, count: 'count', onText: 'call' });
    const { count = 16, temperature, topK, seed, signal, onText } = options;
    const runOptions = { ...options, newTokens: count };
    return this.#withRun(text, runOptions, [], async (run) => {
      const { length } = await this.tokenizer.decode(run.tokens);
      const readContinuation = async () => (await this.tokenizer.decode(run.tokens)).slice(length);
      for await (const _ of run.generate({ count, temperature, topK, seed, signal }))
        onText?.(await readContinuation());
      return readContinuation();
    });
  }

  /**
   * Measures a text with and without a head, all heads of a layer, or whatever `edits` change.
   * @example const { change } = await model.ablate('The old man sat at the door.', { layer: 1, head: 3 });
   */
  async ablate(
    text: string,
    options: TextOptions & {
      readonly layer?: number;
      readonly head?: number;
      readonly eps?: number;
    },
  ): Promise<Ablation> {
    checkOptions(options, TEXT_OPTIONS);
    const { layer, head, edits, signal, onProgress } = options;
    const { L, H, blocks = L } = this.model.architecture;
    if (!edits || layer !== undefined) expectInteger(layer, 0, blocks - 1, 'layer');
    if (head !== undefined) expectInteger(head, 0, H - 1, 'head');
    const silenceEdits = layer === undefined ? [] : [{ kind: 'silence', layer, head }];
    const sharedOptions = { eps: options.eps, special: options.special, signal, onProgress };
    const baseline = await this.measure(text, sharedOptions);
    const ablatedMeasures = await this.measure(text, {
      ...sharedOptions,
      edits: [...(edits ?? []), ...silenceEdits],
    });
    const [lossBefore, lossAfter] = [baseline.loss, ablatedMeasures.loss];
    const change = lossBefore === null || lossAfter === null ? null : lossAfter - lossBefore;
    return { before: baseline, after: ablatedMeasures, change };
  }

  /** Closes the model, its tokenizer, and the engine if `load` started it for this model. */
  async close(): Promise<void> {
    this.tokenizer.close();
    await this.model.close();
    if (this.#isOwner) await this.engine.close();
  }

  /**
   * Returns the head that `where` names, by default the given one, and the indices to read it by,
   * which count only layers with attention.
   */
  #resolveHead(
    where: { readonly layer?: number; readonly head?: number },
    layer?: number,
    head?: number,
  ) {
    const { L, H, layers, blocks = L } = this.model.architecture;
    const isNamed = where.layer !== undefined || where.head !== undefined;
    const target = isNamed ? where : { layer, head };
    expectInteger(target.layer, 0, blocks - 1, 'layer');
    expectInteger(target.head, 0, H - 1, 'head');
    const place = { layer: Number(target.layer), head: Number(target.head) };
    const row = layers ? layers.indexOf(place.layer) : place.layer;
    expect(row >= 0, 'layer', `one with attention: ${layers?.join(', ')}`, place.layer);
    return { place, indices: { ...place, layer: row } };
  }

  /** Runs a text and lets the model write `generate` tokens; `use` will write `newTokens`. */
  async #withRun<Result>(
    text: string,
    options: ContinuedTextOptions & { readonly newTokens?: number },
    reads: readonly RunRead[],
    use: (run: Run, tokens: Pick<TextMap, 'tokens' | 'notes' | 'generated'>) => Promise<Result>,
  ) {
    check(text, 'text', 'text');
    const { describe } = this.model;
    const { special, signal, onProgress, generate = 0, newTokens = generate } = options;
    const edits = (options.edits ?? []).map((edit) =>
      typeof edit === 'string' ? readEdit(edit, describe) : edit,
    );
    const tokens = await this.tokenizer.encode(text, { special });
    const ids = tokens.map(({ id }) => id);
    const fields = fieldsFor(describe, reads);
    const { context } = this.model.architecture;
    const limit = edits.length > 0 ? describe.limits.tokens : context;
    const counter = generate ? 'generate' : 'count';
    const reason = `what the text's ${ids.length} tokens leave of ${limit === context ? `the model's context of ${limit}` : limit}`;
    if (newTokens && ids.length <= limit)
      expectInteger(newTokens, 0, limit - ids.length, counter, reason);
    // Without spare tokens, the core refuses an edit of a token that the text never has.
    const capacity = ids.length + newTokens;
    const run = await this.model.run(ids, { fields, edits, capacity, signal, onProgress });
    try {
      const texts = tokens.map((token) => token.text);
      const notes = tokenNotes(tokens);
      if (generate > 0) {
        const { temperature, topK, seed } = options;
        const sampling = { count: generate, temperature, topK, seed, signal };
        for await (const { token } of run.generate(sampling))
          texts.push(this.tokenizer.piece(token));
      }
      return await use(run, { tokens: texts, notes, generated: texts.length - ids.length });
    } finally {
      await run.close();
    }
  }
}
