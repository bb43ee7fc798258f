/** Trainings by number, at a desk: what the core trains, step by step. */
import { SinkscopeError } from '../border/errors.js';

/** @typedef {{ address: number, config: string, text: number, failure?: unknown }} OpenTraining */
/** @typedef {{ config: string, recipe: string, text: Int32Array, begin?: Uint8Array }} Wanted */

const utf8 = new TextEncoder();

export class Trainer {
  #module;
  #last = 0;
  /** @type {Map<number, OpenTraining>} */
  #trainings = new Map();

  /** @param {import('../border/module.js').Module} module */
  constructor(module) {
    this.#module = module;
  }

  /** @param {Wanted} wanted */
  begin({ config, recipe, text, begin }) {
    const module = this.#module;
    const words = utf8.encode(config);
    const settings = utf8.encode(recipe);
    // The text is read at every step, so it stays.
    const at = text.length ? module.reserve(text.byteLength) : 0;
    if (at)
      module
        .bytes(at, text.byteLength)
        .set(new Uint8Array(text.buffer, text.byteOffset, text.byteLength));
    const train = (/** @type {number} */ file) =>
      module.lend(words, (a) =>
        module.lend(settings, (b) =>
          module.handle('train', a, words.length, b, settings.length, at, text.length, file),
        ),
      );
    try {
      const address = begin
        ? module.lend(begin, (data) => module.lend(Uint32Array.of(data, begin.length), train))
        : train(0);
      this.#trainings.set(++this.#last, { address, config, text: at });
      return this.#last;
    } catch (error) {
      if (at) module.release(at);
      throw error;
    }
  }

  /**
   * At most so many steps, and no new one once the time is over: the log's columns of each. What
   * ends a training is thrown when the entries before it have been handed out, and ever after.
   * @param {number} id
   * @param {number} most
   * @param {number} milliseconds
   */
  steps(id, most, milliseconds) {
    const training = this.#training(id);
    const end = performance.now() + milliseconds;
    /** @type {Float32Array[]} */
    const entries = [];
    if (training.failure) throw training.failure;
    while (entries.length < most && (entries.length === 0 || performance.now() < end)) {
      try {
        entries.push(this.#entry(training, 1));
      } catch (error) {
        training.failure = error;
        if (entries.length === 0) throw error;
        break;
      }
    }
    return entries;
  }

  /**
   * What the next step would begin with.
   * @param {number} id
   */
  look(id) {
    return this.#entry(this.#training(id), 0);
  }

  /**
   * @param {OpenTraining} training
   * @param {number} update
   */
  #entry({ address }, update) {
    const { data } = this.#module.tensor('train_step', address, update);
    return /** @type {Float32Array} */ (data);
  }

  /**
   * Tokens that no step learns from.
   * @param {number} id
   * @param {number} number
   */
  sample(id, number) {
    return this.#module.tensor('train_sample', this.#training(id).address, number).data;
  }

  /**
   * A safetensors file.
   * @param {number} id
   */
  weights(id) {
    return this.#module.file('train_weights', this.#training(id).address);
  }

  /** @param {number} id */
  config(id) {
    return this.#training(id).config;
  }

  /** @param {number} id */
  end(id) {
    const { address, text } = this.#training(id);
    this.#trainings.delete(id);
    this.#module.call('train_end', address);
    if (text) this.#module.release(text);
  }

  /** @param {number} id */
  #training(id) {
    const training = this.#trainings.get(id);
    if (!training) throw new SinkscopeError('closed', 'training', 'this training has ended');
    return training;
  }
}
