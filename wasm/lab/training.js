/** Implements the trainings of lab.d.ts over a link to a backend. */
import { JOB, check, checkList, checkOptions } from '../abi/arguments.js';
import { SinkscopeError, expect, expectInteger } from '../abi/errors.js';
import { transfer } from '../engine/messages.js';
import { fieldsFor } from '../study/measure.js';

/** @typedef {import('../sinkscope.js').Training} TrainingShape */
/** @typedef {import('../sinkscope.js').TrainOptions} TrainOptions */
/** @typedef {import('../sinkscope.js').Describe} Describe */
/** @typedef {Describe & { training: NonNullable<Describe['training']> }} Described */
/** @typedef {import('../engine/link.js').Link} Link */
/** @typedef {import('../engine/link.js').BackendApi} BackendApi */
/** A training at one backend. @typedef {{ link: Link, backend: BackendApi, id: number }} Seat */

/** Milliseconds of steps until the backend answers: the page draws ten frames a second. */
const SLICE_MS = 100;

/**
 * The links of an engine; those come first that trainings took the longest ago.
 * @type {WeakMap<readonly Link[], Link[]>}
 */
const queues = new WeakMap();

/**
 * Selects links for a training, of which the first leads. Two trainings get different workers if
 * possible.
 * @param {readonly Link[]} links
 * @param {number} n
 */
function seatsAt(links, n) {
  const queue = queues.get(links) ?? [...links];
  queues.set(links, queue);
  return Array.from({ length: n }, () => {
    const link = /** @type {Link} */ (queue.shift());
    queue.push(link);
    return link;
  });
}

/**
 * @param {Describe} describe
 * @returns {asserts describe is Described}
 */
function checkLab(describe) {
  if (describe.training) return;
  const how = 'only an engine made by createEngine({ lab: true }) trains models';
  throw new SinkscopeError('unsupported', 'train', how);
}

/**
 * @param {readonly Link[]} all links of the engine
 * @param {Describe} describe
 * @param {TrainOptions} options
 */
export async function beginTraining(all, describe, options) {
  check(options, 'object', 'options');
  checkLab(describe);
  const { parts } = describe.training;
  const { workers = 1 } = options;
  expectInteger(workers, 1, parts, 'workers');
  checkOptions(options, { config: 'object', recipe: 'object', text: 'list' });
  const { config, recipe = {}, text = [], begin, state } = options;
  check(config, 'object', 'config');
  expect(begin === undefined || begin instanceof Uint8Array, 'begin', 'a Uint8Array', begin);
  expect(state === undefined || state instanceof Uint8Array, 'state', 'a Uint8Array', state);
  const makeRequest = () => ({
    config: JSON.stringify(config),
    recipe: JSON.stringify(recipe),
    text: Int32Array.from(text),
    begin,
    state,
  });
  const links = seatsAt(all, Math.min(workers, all.length));
  const seats = await Promise.all(
    links.map((link) =>
      link.ask(async (backend) => {
        const request = makeRequest();
        const id = await backend.training('begin', transfer(request, [request.text.buffer]));
        return { link, backend, id };
      }),
    ),
  );
  const failures = await share(seats, parts);
  return new Training(seats, failures, describe, config, recipe);
}

/**
 * Assigns each seat its parts of a batch, in order, and connects the leader to the helpers.
 * @param {readonly Seat[]} seats
 * @param {number} parts
 * @returns {Promise<Promise<never>[]>} reject if a helper ends too early
 */
async function share([leader, ...helpers], parts) {
  if (!helpers.length) return [];
  const partsOf = (/** @type {number} */ seat) =>
    Array.from({ length: parts }, (_, part) => part).filter(
      (part) => Math.floor((part * (helpers.length + 1)) / parts) === seat,
    );
  const channels = helpers.map(() => new MessageChannel());
  const failures = helpers.map(({ link, id }, i) => {
    const { port2 } = channels[i];
    const helping = link.ask((backend) =>
      backend.training('help', id, transfer(port2, [port2]), partsOf(i + 1)),
    );
    const failure = helping.then(() => /** @type {Promise<never>} */ (new Promise(() => {})));
    failure.catch(() => {});
    return failure;
  });
  const ports = channels.map(({ port1 }) => port1);
  await leader.backend.training('lead', leader.id, transfer(ports, ports), partsOf(0));
  return failures;
}

/** @implements {TrainingShape} */
class Training {
  #seats;
  #lost;
  #columns;
  #describe;

  /**
   * @param {readonly Seat[]} seats
   * @param {readonly Promise<never>[]} lost
   * @param {Described} describe
   * @param {object} config
   * @param {Readonly<Record<string, number | string>>} recipe
   */
  constructor(seats, lost, describe, config, recipe) {
    this.#seats = seats;
    this.#lost = lost;
    this.#columns = describe.training.log.map(({ name }) => name);
    this.#describe = describe;
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
    return this.#entry(await this.#ask((backend, id) => backend.training('look', id)));
  }

  /** @param {number} [number] */
  async sample(number = 0) {
    expectInteger(number, 0, 2 ** 31 - 1, 'number');
    return Array.from(await this.#ask((backend, id) => backend.training('sample', id, number)));
  }

  /** @returns {Promise<Uint8Array>} */
  async weights() {
    return this.#ask((backend, id) => backend.training('weights', id));
  }

  /** @returns {Promise<Uint8Array>} */
  async state() {
    return this.#ask((backend, id) => backend.training('state', id));
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
      const readsOneRun = !('base' in read) || read.base === undefined;
      if (!readsOneRun) expect(false, 'base', 'a read of one run alone', read.base);
    }
    const ids = Int32Array.from(tokens);
    const fields = fieldsFor(this.#describe, reads);
    const messages = /** @type {readonly import('../engine/backend.js').ReadMessage[]} */ (reads);
    return this.#ask((backend, id) => backend.training('read', id, ids, fields, messages));
  }

  async close() {
    const open = this.#seats.filter(({ link }) => link.isOpen);
    await Promise.all(
      open.map((seat) => this.#at(seat, (backend, id) => backend.training('end', id))),
    );
  }

  /** @param {number} most */
  async #slice(most) {
    const entries = await this.#ask((backend, id) => backend.training('steps', id, most, SLICE_MS));
    return entries.map((numbers) => this.#entry(numbers));
  }

  /** @param {Float32Array} numbers */
  #entry(numbers) {
    /** @type {Record<string, number | null>} */
    const entry = {};
    // A float has seven significant digits; numbers that are not finite become null.
    this.#columns.forEach((name, i) => {
      entry[name] = Number.isFinite(numbers[i]) ? Number(numbers[i].toPrecision(7)) : null;
    });
    return /** @type {import('../sinkscope.js').LogEntry} */ (entry);
  }

  /**
   * Asks the leader, as long as all backends are alive.
   * @template T
   * @param {(backend: BackendApi, id: number) => Promise<T>} use
   * @returns {Promise<T>}
   */
  #ask(use) {
    return Promise.race([this.#at(this.#seats[0], use), ...this.#lost]);
  }

  /**
   * Calls the training's own backend, because no other one can rebuild it: after a loss only the
   * weights that the caller last requested remain.
   * @template T
   * @param {Seat} seat
   * @param {(backend: BackendApi, id: number) => Promise<T>} use
   * @returns {Promise<T>}
   */
  #at({ link, backend, id }, use) {
    return link.ask((current) => {
      if (current !== backend)
        throw new SinkscopeError('closed', 'training', 'its worker has ended, and it with it');
      return use(current, id);
    });
  }
}
