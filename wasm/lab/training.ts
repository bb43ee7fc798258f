/** Implements `Training` of types.ts: one training run, shared among the engine's backends. */
import { JOB_OPTIONS, check, checkList, checkOptions } from '../abi/arguments.ts';
import { SinkscopeError, expect, expectInteger } from '../abi/errors.ts';
import { transfer, type ReadMessage } from '../engine/messages.ts';
import { fieldsFor } from '../study/measure.ts';
import type { Describe, Tensor, Options } from '../abi/types.ts';
import type { Link, BackendApi } from '../engine/link.ts';
import type { RunRead } from '../engine/types.ts';
import type { Training as TrainingShape, TrainOptions, LogEntry } from './types.ts';

type TrainingDescribe = Describe & { training: NonNullable<Describe['training']> };
type BackendTraining = { link: Link; backend: BackendApi; id: number };

/** Milliseconds after which the backend answers, so that the page draws ten frames a second. */
const SLICE_MS = 100;

/** The links of each engine in the order of their use by trainings, the longest ago first. */
const queues: WeakMap<readonly Link[], Link[]> = new WeakMap();

/** Selects links, the leader first; two trainings get different workers if possible. */
function takeLinks(links: readonly Link[], n: number) {
  const queue = queues.get(links) ?? [...links];
  queues.set(links, queue);
  return Array.from({ length: n }, () => {
    const link = queue.shift() as Link;
    queue.push(link);
    return link;
  });
}

function checkLab(describe: Describe): asserts describe is TrainingDescribe {
  if (describe.training) return;
  const requirement = 'only an engine made by createEngine({ lab: true }) trains models';
  throw new SinkscopeError('unsupported', 'train', requirement);
}

export async function beginTraining(
  engineLinks: readonly Link[],
  describe: Describe,
  options: TrainOptions,
) {
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
  const links = takeLinks(engineLinks, Math.min(workers, engineLinks.length));
  const trainings = await Promise.all(
    links.map((link) =>
      link.ask(async (backend) => {
        const request = {
          config: JSON.stringify(config),
          recipe: JSON.stringify(recipe),
          text: Int32Array.from(text),
          begin,
          state,
        };
        const id = await backend.training('begin', transfer(request, [request.text.buffer]));
        return { link, backend, id };
      }),
    ),
  );
  const failures = await shareParts(trainings, parts);
  return new Training(trainings, failures, describe, config, recipe);
}

/** Assigns parts in order and connects helpers; the promises reject if a helper ends too early. */
async function shareParts(
  [leader, ...helpers]: readonly BackendTraining[],
  parts: number,
): Promise<Promise<never>[]> {
  if (!helpers.length) return [];
  const partsOf = (backendIndex: number) =>
    Array.from({ length: parts }, (_, part) => part).filter(
      (part) => Math.floor((part * (helpers.length + 1)) / parts) === backendIndex,
    );
  const channels = helpers.map(() => new MessageChannel());
  const failures = helpers.map(({ link, id }, i) => {
    const { port2 } = channels[i];
    const helpPromise = link.ask((backend) =>
      backend.training('help', id, transfer(port2, [port2]), partsOf(i + 1)),
    );
    const failure = helpPromise.then(() => new Promise(() => {}) as Promise<never>);
    failure.catch(() => {});
    return failure;
  });
  const ports = channels.map(({ port1 }) => port1);
  await leader.backend.training('lead', leader.id, transfer(ports, ports), partsOf(0));
  return failures;
}

class Training implements TrainingShape {
  #trainings;
  #helperFailures;
  #describe;

  readonly config;
  readonly recipe;
  constructor(
    trainings: readonly BackendTraining[],
    helperFailures: readonly Promise<never>[],
    describe: TrainingDescribe,
    config: object,
    recipe: Readonly<Record<string, number | string>>,
  ) {
    this.#trainings = trainings;
    this.#helperFailures = helperFailures;
    this.#describe = describe;
    this.config = config;
    this.recipe = recipe;
  }

  async step(count: number = 1) {
    expectInteger(count, 1, 2 ** 31 - 1, 'count');
    const entries = [];
    while (entries.length < count) entries.push(...(await this.#takeSlice(count - entries.length)));
    return entries;
  }

  async *run(steps: number, options: Options = {}) {
    checkOptions(options, JOB_OPTIONS);
    expectInteger(steps, 0, 2 ** 31 - 1, 'steps');
    for (let done = 0; done < steps;) {
      options.signal?.throwIfAborted();
      for (const entry of await this.#takeSlice(steps - done)) {
        done++;
        yield entry;
      }
      options.onProgress?.({ stage: 'train', done, total: steps });
    }
  }

  async look() {
    return this.#toEntry(await this.#askLeader((backend, id) => backend.training('look', id)));
  }

  async sample(number: number = 0) {
    expectInteger(number, 0, 2 ** 31 - 1, 'number');
    return Array.from(
      await this.#askLeader((backend, id) => backend.training('sample', id, number)),
    );
  }

  async weights(): Promise<Uint8Array> {
    return this.#askLeader((backend, id) => backend.training('weights', id));
  }

  async state(): Promise<Uint8Array> {
    return this.#askLeader((backend, id) => backend.training('state', id));
  }

  async read(tokens: ArrayLike<number>, reads: readonly RunRead[]): Promise<Tensor[]> {
    check(tokens, 'list', 'tokens');
    checkList(reads, 'object', 'reads');
    for (const read of reads) {
      const readsOneRun = !('base' in read) || read.base === undefined;
      if (!readsOneRun) expect(false, 'base', 'a read of one run alone', read.base);
    }
    const ids = Int32Array.from(tokens);
    const fields = fieldsFor(this.#describe, reads);
    const messages = reads as readonly ReadMessage[];
    return this.#askLeader((backend, id) => backend.training('read', id, ids, fields, messages));
  }

  async close() {
    const openTrainings = this.#trainings.filter(({ link }) => link.isOpen);
    await Promise.all(
      openTrainings.map((training) =>
        this.#callBackend(training, (backend, id) => backend.training('end', id)),
      ),
    );
  }

  async #takeSlice(maxSteps: number) {
    const entries = await this.#askLeader((backend, id) =>
      backend.training('takeSteps', id, maxSteps, SLICE_MS),
    );
    return entries.map((numbers) => this.#toEntry(numbers));
  }

  #toEntry(numbers: Float32Array) {
    const entry: Record<string, number | null> = {};
    // A float has seven significant digits; numbers that are not finite become null.
    this.#describe.training.log.forEach(({ name }, i) => {
      entry[name] = Number.isFinite(numbers[i]) ? Number(numbers[i].toPrecision(7)) : null;
    });
    return entry as LogEntry;
  }

  #askLeader<T>(use: (backend: BackendApi, id: number) => Promise<T>): Promise<T> {
    return Promise.race([this.#callBackend(this.#trainings[0], use), ...this.#helperFailures]);
  }

  /** Calls the training's backend. One that replaced it is refused: it has no weights. */
  #callBackend<T>(
    { link, backend, id }: BackendTraining,
    use: (backend: BackendApi, id: number) => Promise<T>,
  ): Promise<T> {
    return link.ask((currentBackend) => {
      if (currentBackend !== backend)
        throw new SinkscopeError('closed', 'training', 'its worker has ended, and it with it');
      return use(currentBackend, id);
    });
  }
}
