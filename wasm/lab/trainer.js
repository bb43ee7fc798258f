/**
 * Trainings by number, at a backend: what the core trains, step by step. A batch is cut into parts; backends
 * that share a training compute some of them each, and the one that leads adds all of them up in their
 * order, so that the bits do not depend on how many they are.
 */
import { SinkscopeError } from '../abi/errors.js';
import { QUIET } from '../engine/job.js';
import { Helper, Parts, help } from './share.js';

/**
 * `own` are the parts of a batch that this backend computes.
 * @typedef {{ address: number, config: string, text: number, parts: Parts, own: readonly number[],
 *   helpers: readonly Helper[], leave?: () => void, busy?: Promise<unknown>, failure?: unknown }} OpenTraining
 */
/** @typedef {{ config: string, recipe: string, text: Int32Array, begin?: Uint8Array,
 *   state?: Uint8Array }} Wanted */

const utf8 = new TextEncoder();

export class Trainer {
  #module;
  #parts;
  #backend;
  #last = 0;
  /** @type {Map<number, OpenTraining>} */
  #trainings = new Map();

  /**
   * @param {import('../abi/module.js').Module} module
   * @param {number} parts of a batch
   * @param {Pick<import('../engine/backend.js').Backend, 'open' | 'run' | 'read' | 'closeModel'>} backend where
   *   models run
   */
  constructor(module, parts, backend) {
    this.#module = module;
    this.#parts = parts;
    this.#backend = backend;
  }

  /** @param {Wanted} wanted */
  begin({ config, recipe, text, begin, state }) {
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
      if (state)
        try {
          module.lend(state, (data) => module.check('train_resume', address, data, state.length));
        } catch (error) {
          module.call('train_end', address);
          throw error;
        }
      const parts = new Parts(module, address);
      const own = Array.from({ length: this.#parts }, (_, part) => part);
      this.#trainings.set(++this.#last, { address, config, text: at, parts, own, helpers: [] });
      return this.#last;
    } catch (error) {
      if (at) module.release(at);
      throw error;
    }
  }

  /**
   * From here on others compute parts of each batch, and this backend those of `own`.
   * @param {number} id
   * @param {readonly MessagePort[]} ports to the backends that help
   * @param {readonly number[]} own
   */
  lead(id, ports, own) {
    const training = this.#training(id);
    training.own = own;
    training.helpers = ports.map((port) => new Helper(port));
  }

  /**
   * Computes those parts of each batch for the backend behind the port, until the training ends.
   * @param {number} id
   * @param {MessagePort} port
   * @param {readonly number[]} own
   * @returns {Promise<void>}
   */
  help(id, port, own) {
    const training = this.#training(id);
    help(training.parts, own, port);
    return new Promise((resolve) => {
      training.leave = () => {
        port.close();
        resolve();
      };
    });
  }

  /**
   * At most so many steps, and no new one once the time is over: the log's columns of each. What
   * ends a training is thrown when the entries before it have been handed out, and ever after.
   * @param {number} id
   * @param {number} most
   * @param {number} milliseconds
   */
  steps(id, most, milliseconds) {
    return this.#alone(id, async (training) => {
      const end = performance.now() + milliseconds;
      /** @type {Float32Array[]} */
      const entries = [];
      if (training.failure) throw training.failure;
      for (let goesOn = true; goesOn;) {
        try {
          await this.#sum(training);
          goesOn = entries.length + 1 < most && performance.now() < end;
          for (const helper of training.helpers) helper.finish(training.parts.sum(), goesOn);
          entries.push(training.parts.finish(true));
        } catch (error) {
          training.failure = error;
          if (entries.length === 0) throw error;
          break;
        }
      }
      return entries;
    });
  }

  /**
   * All parts of a step, those of other backends behind this one's.
   * @param {OpenTraining} training
   */
  async #sum({ parts, own, helpers }) {
    const coming = helpers.map((helper) => helper.parts());
    for (const part of own) {
      parts.compute(part, true);
      parts.add(part === 0);
    }
    for (const made of coming) for (const part of await made) parts.add(false, part);
  }

  /**
   * What the next step would begin with.
   * @param {number} id
   */
  look(id) {
    return this.#alone(id, async ({ parts }) => {
      for (let part = 0; part < this.#parts; part++) {
        parts.compute(part, false);
        parts.add(part === 0);
      }
      return parts.finish(false);
    });
  }

  /**
   * One after the other: what a backend waits for of others is not to be disturbed.
   * @template T
   * @param {number} id
   * @param {(training: OpenTraining) => Promise<T>} use
   * @returns {Promise<T>}
   */
  async #alone(id, use) {
    const training = this.#training(id);
    const before = training.busy;
    const turn = Promise.resolve(before).then(() => use(this.#training(id)));
    training.busy = turn.catch(() => {});
    return turn;
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

  /**
   * What the weights as they are do with these tokens: they are opened for this once.
   * @param {number} id
   * @param {Int32Array} tokens
   * @param {readonly string[]} fields that these read
   * @param {readonly import('../engine/backend.js').ReadMessage[]} reads
   */
  async read(id, tokens, fields, reads) {
    const { config } = this.#training(id);
    const { model } = await this.#backend.open(QUIET, { config, weights: [this.weights(id)] });
    try {
      const wanted = { fields, capacity: tokens.length };
      const run = await this.#backend.run(QUIET, model, tokens, wanted);
      return await this.#backend.read(run, reads);
    } finally {
      await this.#backend.closeModel(model);
    }
  }

  /**
   * All that its next step depends on, once no step is under way.
   * @param {number} id
   */
  state(id) {
    return this.#alone(id, async ({ address }) => this.#module.file('train_state', address));
  }

  /** @param {number} id */
  async end(id) {
    const { address, text, helpers, leave, busy } = this.#training(id);
    this.#trainings.delete(id);
    for (const helper of helpers) helper.end();
    leave?.();
    await busy;
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
