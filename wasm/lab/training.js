/** What lab.d.ts promises of a training, over a link to a desk. */
import { transfer } from 'comlink';
import { JOB, check, checkList, checkOptions } from '../border/arguments.js';
import { SinkscopeError, expect, expectInteger } from '../border/errors.js';

/** @typedef {import('../sinkscope.js').Training} TrainingShape */
/** @typedef {import('../sinkscope.js').TrainOptions} TrainOptions */
/** @typedef {import('../engine/link.js').Link} Link */
/** @typedef {import('../engine/link.js').Face} Face */

/** How long steps run before the desk answers: ten pictures a second. */
const SLICE = 100;

/**
 * @param {Link} link
 * @param {readonly { name: string }[]} columns of the log
 * @param {TrainOptions} options
 */
export async function beginTraining(link, columns, options) {
  checkOptions(options, { config: 'object', recipe: 'object', text: 'list' });
  const { config, recipe = {}, text = [], begin } = options;
  check(config, 'object', 'config');
  expect(begin === undefined || begin instanceof Uint8Array, 'begin', 'a Uint8Array', begin);
  const wanted = {
    config: JSON.stringify(config),
    recipe: JSON.stringify(recipe),
    text: Int32Array.from(text),
    begin,
  };
  const { desk, id } = await link.ask(async (desk) => {
    const id = await desk.train(transfer(wanted, [wanted.text.buffer]));
    return { desk, id };
  });
  return new Training(link, desk, id, columns, config, recipe);
}

/** @implements {TrainingShape} */
class Training {
  #link;
  #desk;
  #id;
  #columns;

  /**
   * @param {Link} link
   * @param {Face} desk
   * @param {number} id
   * @param {readonly { name: string }[]} columns
   * @param {object} config
   * @param {Readonly<Record<string, number | string>>} recipe
   */
  constructor(link, desk, id, columns, config, recipe) {
    this.#link = link;
    this.#desk = desk;
    this.#id = id;
    this.#columns = columns.map(({ name }) => name);
    this.config = config;
    this.recipe = recipe;
  }

  /** @param {number} [count] */
  async step(count = 1) {
    expectInteger(count, 1, 2 ** 31 - 1, 'count');
    const entries = [];
    while (entries.length < count) entries.push(...(await this.#slice(count - entries.length)));
    return entries;
  }

  /**
   * @param {number} steps
   * @param {import('../sinkscope.js').Options} [options]
   */
  async *run(steps, options = {}) {
    checkOptions(options, JOB);
    expectInteger(steps, 0, 2 ** 31 - 1, 'steps');
    for (let done = 0; done < steps;) {
      options.signal?.throwIfAborted();
      for (const entry of await this.#slice(steps - done)) {
        done++;
        yield entry;
      }
      options.onProgress?.({ stage: 'train', done, total: steps });
    }
  }

  async look() {
    return this.#entry(await this.#ask((desk) => desk.lookAtTraining(this.#id)));
  }

  /** @param {number} [number] */
  async sample(number = 0) {
    expectInteger(number, 0, 2 ** 31 - 1, 'number');
    return Array.from(await this.#ask((desk) => desk.trainingSample(this.#id, number)));
  }

  /** @returns {Promise<Uint8Array>} */
  async weights() {
    return this.#ask((desk) => desk.trainedWeights(this.#id));
  }

  /**
   * @param {ArrayLike<number>} tokens
   * @param {readonly import('../sinkscope.js').Read[]} reads
   * @returns {Promise<import('../sinkscope.js').Tensor[]>}
   */
  async read(tokens, reads) {
    check(tokens, 'list', 'tokens');
    checkList(reads, 'object', 'reads');
    for (const read of reads) {
      const alone = !('base' in read) || read.base === undefined;
      if (!alone) expect(false, 'base', 'a read of one run alone', read.base);
    }
    const ids = Int32Array.from(tokens);
    const alone = /** @type {readonly import('../engine/desk.js').Posted[]} */ (reads);
    return this.#ask((desk) => desk.readTraining(this.#id, ids, alone));
  }

  async close() {
    if (this.#link.isOpen) await this.#ask((desk) => desk.endTraining(this.#id));
  }

  /** @param {number} most */
  async #slice(most) {
    const entries = await this.#ask((desk) => desk.trainSteps(this.#id, most, SLICE));
    return entries.map((numbers) => this.#entry(numbers));
  }

  /** @param {Float32Array} numbers */
  #entry(numbers) {
    /** @type {Record<string, number | null>} */
    const entry = {};
    // A float has seven digits; what is not a number there is null.
    this.#columns.forEach((name, i) => {
      entry[name] = Number.isFinite(numbers[i]) ? Number(numbers[i].toPrecision(7)) : null;
    });
    return /** @type {import('../sinkscope.js').LogEntry} */ (entry);
  }

  /**
   * A training lives at its desk and cannot be made again at another: what it was is in the weights
   * that were asked for last.
   * @template T
   * @param {(desk: Face) => Promise<T>} use
   */
  #ask(use) {
    return this.#link.ask((desk) => {
      if (desk !== this.#desk)
        throw new SinkscopeError('closed', 'training', 'its worker has ended, and it with it');
      return use(desk);
    });
  }
}
