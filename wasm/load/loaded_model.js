/** A model with its tokenizer, which takes text. */
import { JOB, check, checkOptions } from '../abi/arguments.js';
import { expect, expectInteger } from '../abi/errors.js';
import { readEdit } from '../engine/edits.js';
import { judge } from '../study/judge.js';
import { fieldsFor, finite } from '../study/measure.js';

/** @typedef {import('../sinkscope.js').Run} Run */
/** @typedef {import('../sinkscope.js').Read} Read */
/** @typedef {import('../sinkscope.js').Tensor} Tensor */
/** @typedef {import('../sinkscope.js').TextOptions} TextOptions */

const OF_TEXT = { ...JOB, edits: 'list' };

/** @typedef {import('../sinkscope.js').LoadedModel} Loaded */

/** @implements {Loaded} */
export class LoadedModel {
  #isOwner;

  /**
   * @param {object} parts
   * @param {import('../sinkscope.js').Plan} parts.plan
   * @param {import('../sinkscope.js').Engine} parts.engine
   * @param {import('../sinkscope.js').Model} parts.model
   * @param {import('../sinkscope.js').GuardedTokenizer} parts.tokenizer
   * @param {boolean} parts.isOwner whether this model owns the engine and closes it
   */
  constructor({ plan, engine, model, tokenizer, isOwner }) {
    this.id = plan.id;
    this.plan = plan;
    this.engine = engine;
    this.model = model;
    this.tokenizer = tokenizer;
    this.#isOwner = isOwner;
  }

  /** @type {Loaded['measure']} */
  async measure(text, options = {}) {
    checkOptions(options, { ...OF_TEXT, eps: 'number' });
    const { describe, architecture } = this.model;
    const { eps = describe.defaults.eps } = options;
    const { normalises } = this.#operation();
    /** @type {Read[]} */
    const reads = [
      { metric: normalises ? 'alpha' : 'alpha_raw' },
      { metric: 'alpha_uniform' },
      { metric: 'sink_ratio', eps },
      { metric: 'sink_ratio_raw', eps },
      { metric: 'loss_mean' },
    ];
    return this.#withRun(text, options, [...reads, { field: 'att' }], async (run, tokens) => {
      const [alpha, uniform, sink, sinkRaw, loss] = await run.read(reads);
      const [L, H, T] = alpha.shape;
      const first = Float32Array.from({ length: L * H }, (_, i) => alpha.data[i * T]);
      const even = uniform.data[0];
      const quantities = { eps, even, normalises, sink: sink.data[0], sinkRaw: sinkRaw.data[0] };
      const strongest = first.reduce((most, x, i) => (x > first[most] ? i : most), 0);
      const at = this.#place(options, Math.floor(strongest / H), strongest % H);
      const verdict = judge(quantities);
      return {
        text,
        tokens,
        T,
        eps,
        sink: verdict.sink,
        uniform: even,
        conclusive: verdict.conclusive,
        loss: architecture.mask.kind === 'bidirectional' ? null : finite(loss.data[0]),
        alpha: { shape: [L, H], data: first },
        ...at,
        map: await run.field('att', at),
      };
    });
  }

  /** @type {Loaded['map']} */
  async map(text, options) {
    checkOptions(options, OF_TEXT);
    const at = this.#place(options);
    return this.#withRun(text, options, [{ field: 'att' }], async (run, tokens) => ({
      text,
      tokens,
      ...at,
      map: await run.field('att', at),
    }));
  }

  /** @type {Loaded['generate']} */
  async generate(text, options = {}) {
    checkOptions(options, { ...OF_TEXT, count: 'count', onText: 'call' });
    const { count = 16, temperature, topK, seed, signal, onText } = options;
    const runOptions = { ...options, capacity: count };
    return this.#withRun(text, runOptions, [], async (run) => {
      const { length } = await this.tokenizer.decode(run.tokens);
      const written = async () => (await this.tokenizer.decode(run.tokens)).slice(length);
      for await (const _ of run.generate({ count, temperature, topK, seed, signal }))
        onText?.(await written());
      return written();
    });
  }

  /** @type {Loaded['ablate']} */
  async ablate(text, options) {
    checkOptions(options, OF_TEXT);
    const { layer, head, edits, signal, onProgress } = options;
    const { L, H } = this.model.architecture;
    expect(Boolean(edits) || layer !== undefined, 'layer', `an integer from 0 to ${L - 1}`, layer);
    if (layer !== undefined) expectInteger(layer, 0, L - 1, 'layer');
    if (head !== undefined) expectInteger(head, 0, H - 1, 'head');
    const silence = layer === undefined ? [] : [{ kind: 'silence', layer, head }];
    const shared = { eps: options.eps, special: options.special, signal, onProgress };
    const before = await this.measure(text, shared);
    const after = await this.measure(text, { ...shared, edits: [...(edits ?? []), ...silence] });
    const [lossBefore, lossAfter] = [before.loss, after.loss];
    const change = lossBefore === null || lossAfter === null ? null : lossAfter - lossBefore;
    return { before, after, change };
  }

  async close() {
    this.tokenizer.close();
    await this.model.close();
    if (this.#isOwner) await this.engine.close();
  }

  #operation() {
    const { describe, architecture } = this.model;
    const { operation } = architecture.attention;
    return /** @type {import('../sinkscope.js').Operation} */ (
      describe.operations.find(({ name }) => name === operation)
    );
  }

  /**
   * Returns the requested head.
   * @param {{ readonly layer?: number, readonly head?: number }} where
   * @param {number} [layer] used if no head is named
   * @param {number} [head]
   */
  #place(where, layer, head) {
    const { L, H } = this.model.architecture;
    const isNamed = where.layer !== undefined || where.head !== undefined;
    const at = isNamed ? where : { layer, head };
    expectInteger(at.layer, 0, L - 1, 'layer');
    expectInteger(at.head, 0, H - 1, 'head');
    return { layer: Number(at.layer), head: Number(at.head) };
  }

  /**
   * Runs a text, and closes the run even if `use` throws.
   * @template Result
   * @param {string} text
   * @param {TextOptions & { readonly capacity?: number }} options
   * @param {readonly Read[]} reads
   * @param {(run: Run, tokens: string[]) => Promise<Result>} use
   */
  async #withRun(text, options, reads, use) {
    check(text, 'text', 'text');
    const { describe } = this.model;
    const { special, signal, onProgress, capacity = 0 } = options;
    const edits = (options.edits ?? []).map((edit) =>
      typeof edit === 'string' ? readEdit(edit, describe) : edit,
    );
    const tokens = await this.tokenizer.encode(text, { special });
    const ids = tokens.map(({ id }) => id);
    const fields = fieldsFor(describe, reads);
    const total = ids.length + capacity;
    const run = await this.model.run(ids, { fields, edits, capacity: total, signal, onProgress });
    try {
      return await use(
        run,
        tokens.map((token) => token.text),
      );
    } finally {
      await run.close();
    }
  }
}
