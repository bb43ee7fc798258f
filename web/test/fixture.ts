/** A frame with known numbers: two layers of two heads over three tokens. */
import { existsSync } from 'node:fs';
import type { Tensor } from 'sinkscope';
import type { Frame } from '../src/frame';
import { questionOf } from '../src/ask/question';
import { defaults } from '../src/ask/state';

/** Options of a wait, in milliseconds: long, because a machine may be busy. */
export const PATIENCE = { timeout: 30_000 };

/** Waits until all pending tasks have run. */
export const turn = () => new Promise((done) => setTimeout(done));

/** Runs something, then all that does not wait for the scheduler. */
export async function andAll(run: () => unknown): Promise<void> {
  await run();
  await new Promise((done) => setImmediate(done));
}

/**
 * Returns what idb-keyval exports, over a map.
 * @param act runs each transaction, at the moment that the test chooses
 */
export function fakeKeyval(
  stored: Map<string, unknown>,
  act: <T>(run: () => T | PromiseLike<T>) => Promise<T> = async (run) => run(),
) {
  const objects = {
    get: (key: string) => stored.get(key),
    put: (value: unknown, key: string) => void stored.set(key, value),
    delete: (key: string) => void stored.delete(key),
  };
  return {
    get: (key: string) => act(() => stored.get(key)),
    set: (key: string, value: unknown) => act(() => objects.put(value, key)),
    delMany: (keys: readonly string[]) => act(() => keys.forEach(objects.delete)),
    createStore: () => (_mode: string, run: (store: object) => unknown) => act(() => run(objects)),
    promisifyRequest: (result: unknown) => result,
  };
}

export const tensor = (shape: number[], values: ArrayLike<number>): Tensor => ({
  shape,
  data: Float32Array.from(values),
});

/** Returns the frame. Head (1, 0) has the strongest sink, and half of the heads have one. */
export function frameOf(change: Partial<Frame> = {}, tensors: Frame['tensors'] = {}): Frame {
  return {
    subject: 'softmax',
    title: 'Softmax model',
    model: { id: 'softmax', title: 'Softmax model', source: 'zoo' },
    class: 'measured',
    architecture: {
      family: 'llama',
      L: 2,
      H: 2,
      G: 2,
      D: 8,
      parameters: 1.5e6,
      bias_key: null,
      gate: null,
      mask: { kind: 'causal' },
      attention: { operation: 'softmax', parameters: {} },
    },
    operation: { name: 'softmax', label: 'softmax', normalizes: true, proxy: 'weights' },
    edits: [],
    labels: [],
    choices: [],
    question: questionOf(defaults),
    tokens: [
      { id: 0, text: '<s>', start: 0, end: 0, special: true },
      { id: 5, text: ' a', start: 0, end: 2, special: false },
      { id: 6, text: '=1,"x"\n', start: 2, end: 9, special: false },
    ],
    T: 3,
    ids: [[0, 5, 6]],
    eps: 0.3,
    dropped: 0,
    generated: 0,
    first: ['<s>'],
    special: { automatic: [], bos: '<s>', choices: ['<s>'] },
    sequences: 1,
    tensors: {
      alpha: tensor([2, 2, 3], [0.1, 0, 0, 0.4, 0, 0, 0.9, 0, 0, 0.3, 0, 0]),
      alpha_uniform: tensor([3], [0.1, 0.2, 0.3]),
      sink_ratio: tensor([3], [0.5, 0, 0.25]),
      sink_ratio_raw: tensor([3], [0.25, 0, 0]),
      row_mass_summary: tensor([2, 2, 3], new Float32Array(12).fill(0.5)),
      loss_mean: tensor([1], [2]),
      ...tensors,
    },
    spread: {},
    perPrompt: {
      sink_ratio: [0.5],
      sink_ratio_raw: [0.25],
      row_mass_summary: [0.5],
      loss_mean: [2],
    },
    next: [],
    milliseconds: 1,
    ...change,
  } as unknown as Frame;
}

const labBinary = `${import.meta.dirname}/../../.build/wasm/sinkscope.lab.wasm`;
/** Whether the engine can run. If not, tests that need it skip themselves with the reason UNBUILT. */
export const isBuilt = existsSync(labBinary);
export const UNBUILT = 'needs the binaries: cmake --build .build/native --target wasm';
