/**
 * Runs trainings by number at a backend. A batch consists of parts; backends that share a training
 * compute some parts each, and the leader adds them all in a fixed order, so that the bits do not
 * depend on the number of backends.
 */
import { SinkscopeError } from '../abi/errors.ts';
import { QUIET_JOB, type Job } from './job.ts';
import { Helper, BatchParts, help } from './share.ts';
import type { Module } from '../abi/module.ts';
import type { Tensor } from '../abi/types.ts';
import type { ReadMessage } from './messages.ts';

/** `ownParts` of a batch are computed here; `lastCall` settles when the last call has ended. */
type OpenTraining = {
  address: number;
  config: string;
  textAddress: number;
  parts: BatchParts;
  ownParts: readonly number[];
  helpers: readonly Helper[];
  stopHelping?: () => void;
  lastCall?: Promise<unknown>;
  failure?: unknown;
};
type BeginRequest = {
  config: string;
  recipe: string;
  text: Int32Array;
  begin?: Uint8Array;
  state?: Uint8Array;
};

/** The part of a backend that reads what a training's model does. */
interface Reader {
  open(
    job: Job,
    files: { config: string; weights: readonly Uint8Array[] },
  ): Promise<{ model: number }>;
  run(
    job: Job,
    model: number,
    tokens: Int32Array,
    options: { capacity: number; fields: readonly string[] },
  ): Promise<number>;
  read(run: number, reads: readonly ReadMessage[]): Promise<Tensor[]>;
  closeModel(model: number): Promise<void>;
}

const utf8 = new TextEncoder();

export class Trainer {
  #module;
  #parts;
  #backend;
  #lastId = 0;
  #trainings: Map<number, OpenTraining> = new Map();

  constructor(module: Module, parts: number, backend: Reader) {
    this.#module = module;
    this.#parts = parts;
    this.#backend = backend;
  }

  begin({ config, recipe, text, begin, state }: BeginRequest) {
    const module = this.#module;
    const configBytes = utf8.encode(config);
    const recipeBytes = utf8.encode(recipe);
    // Every step reads the text, so the memory is released only with the training.
    const textAddress = text.length ? module.reserve(text.byteLength) : 0;
    if (textAddress)
      module
        .bytes(textAddress, text.byteLength)
        .set(new Uint8Array(text.buffer, text.byteOffset, text.byteLength));
    const start = (file: number) =>
      module.lend(configBytes, (configAddress) =>
        module.lend(recipeBytes, (recipeAddress) =>
          module.handle(
            'train',
            configAddress,
            configBytes.length,
            recipeAddress,
            recipeBytes.length,
            textAddress,
            text.length,
            file,
          ),
        ),
      );
    try {
      const address = begin
        ? module.lend(begin, (data) => module.lend(Uint32Array.of(data, begin.length), start))
        : start(0);
      if (state)
        try {
          module.lend(state, (data) => module.check('train_resume', address, data, state.length));
        } catch (error) {
          module.call('train_end', address);
          throw error;
        }
      const allParts = Array.from({ length: this.#parts }, (_, part) => part);
      this.#trainings.set(++this.#lastId, {
        address,
        config,
        textAddress,
        parts: new BatchParts(module, address),
        ownParts: allParts,
        helpers: [],
      });
      return this.#lastId;
    } catch (error) {
      if (textAddress) module.release(textAddress);
      throw error;
    }
  }

  /** Computes `ownParts` of each batch and gets the others from helpers by `ports`. */
  lead(id: number, ports: readonly MessagePort[], ownParts: readonly number[]) {
    const training = this.#training(id);
    training.ownParts = ownParts;
    training.helpers = ports.map((port) => new Helper(port));
  }

  /** Computes its parts of each batch for the leader at the port until the training ends. */
  help(id: number, port: MessagePort, ownParts: readonly number[]): Promise<void> {
    const training = this.#training(id);
    help(training.parts, ownParts, port);
    return new Promise((resolve) => {
      training.stopHelping = () => {
        port.close();
        resolve();
      };
    });
  }

  /**
   * Takes at most `maxSteps` steps, and begins none after the time limit; returns the log's columns of
   * each. An error that ends a training is thrown once the earlier entries were returned, and on
   * every later call.
   */
  takeSteps(id: number, maxSteps: number, milliseconds: number) {
    return this.#inSequence(id, async (training) => {
      const end = performance.now() + milliseconds;
      const entries: Float32Array[] = [];
      if (training.failure) throw training.failure;
      for (let continues = true; continues;) {
        try {
          await this.#addParts(training);
          continues = entries.length + 1 < maxSteps && performance.now() < end;
          for (const helper of training.helpers) helper.finish(training.parts.copySum(), continues);
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

  /** Adds all parts of a step, in order: this backend's first, then those of the helpers. */
  async #addParts({ parts, ownParts, helpers }: OpenTraining) {
    const requests = helpers.map((helper) => helper.requestParts());
    for (const part of ownParts) {
      parts.compute(part, true);
      parts.add(part === 0);
    }
    for (const request of requests) for (const part of await request) parts.add(false, part);
  }

  look(id: number) {
    return this.#inSequence(id, async ({ parts }) => {
      for (let part = 0; part < this.#parts; part++) {
        parts.compute(part, false);
        parts.add(part === 0);
      }
      return parts.finish(false);
    });
  }

  /** Runs calls one after the other: a backend that waits for helpers must not be interrupted. */
  async #inSequence<T>(id: number, use: (training: OpenTraining) => Promise<T>): Promise<T> {
    const training = this.#training(id);
    const call = Promise.resolve(training.lastCall).then(() => use(this.#training(id)));
    training.lastCall = call.catch(() => {});
    return call;
  }

  sample(id: number, number: number) {
    return this.#module.tensor('train_sample', this.#training(id).address, number).data;
  }

  weights(id: number) {
    return this.#module.file('train_weights', this.#training(id).address);
  }

  /** Runs the tokens through the current weights, and reads the run. */
  async read(
    id: number,
    tokens: Int32Array,
    fields: readonly string[],
    reads: readonly ReadMessage[],
  ) {
    const { config } = this.#training(id);
    const { model } = await this.#backend.open(QUIET_JOB, { config, weights: [this.weights(id)] });
    try {
      const request = { fields, capacity: tokens.length };
      const run = await this.#backend.run(QUIET_JOB, model, tokens, request);
      return await this.#backend.read(run, reads);
    } finally {
      await this.#backend.closeModel(model);
    }
  }

  state(id: number) {
    return this.#inSequence(id, async ({ address }) => this.#module.file('train_state', address));
  }

  async end(id: number) {
    const { address, textAddress, helpers, stopHelping, lastCall } = this.#training(id);
    this.#trainings.delete(id);
    for (const helper of helpers) helper.end();
    stopHelping?.();
    await lastCall;
    this.#module.call('train_end', address);
    if (textAddress) this.#module.release(textAddress);
  }

  #training(id: number) {
    const training = this.#trainings.get(id);
    if (!training) throw new SinkscopeError('closed', 'training', 'this training has ended');
    return training;
  }
}
