/** Parses the index.json of a timeline, which is untrusted. */
import { SinkscopeError, parseJson } from '../abi/errors.ts';
import type { Checkpoint, LogLine } from './types.ts';

type TimelineTensor = { name: string; shape: number[]; size: number; coded: boolean };
export type PackedCheckpoint = Checkpoint & {
  file: string;
  sha256: string;
  scale: number[];
  from_previous: boolean[];
  weights_sha256: string;
};
export interface Index {
  recipe: string;
  seed: number;
  config: string;
  tensors: TimelineTensor[];
  checkpoints: PackedCheckpoint[];
  log: LogLine[];
  parameters: number;
  /** Size of an unpacked file. */
  bytes: number;
}

/** Limit on the number of weights: models that were trained for a page have fewer. */
const PARAMETERS_MAX = 2 ** 28;
const STEP_MAX = 1e9;

export function parseIndex(text: string, where: string): Index {
  const root = new ObjectReader(where, '', parseJson(text, 'bad_file', where));
  const tensors = root.list('tensors', 'a tensor').map(readTensor);
  const names = new Set(tensors.map(({ name }) => name));
  root.expect(names.size === tensors.length, 'tensors', 'different names', 'a name twice');
  const parameters = tensors.reduce((sum, { size }) => sum + size, 0);
  const limit = `at most ${PARAMETERS_MAX} numbers`;
  root.expect(parameters <= PARAMETERS_MAX, 'tensors', limit, parameters);
  const codedTensors = tensors.filter((tensor) => tensor.coded);
  const steps = codedTensors.reduce((sum, { size }) => sum + size, 0);
  const checkpoints = root
    .list('checkpoints', 'a checkpoint')
    .map((entry, i) => readCheckpoint(entry, codedTensors.length, i === 0));
  root.expectRising('checkpoints', checkpoints);
  const log = root
    .list('log', 'a line')
    .map((entry) => ({ ...entry.numbers(), step: entry.step() }));
  root.expectRising('log', log);
  return {
    recipe: root.text('recipe', /^[\w.-]{1,64}$/),
    seed: root.integer('seed', 0, 2 ** 32 - 1),
    config: root.text('config', /^[\w./-]{1,200}$/),
    tensors,
    checkpoints,
    log,
    parameters,
    bytes: steps + 4 * (parameters - steps),
  };
}

function readTensor(tensor: ObjectReader) {
  const name = tensor.text('name', /^[^\p{Cc}]{1,200}$/u);
  const shape = tensor.array('shape').map(Number);
  const isShape = shape.length > 0 && shape.every((n) => Number.isInteger(n) && n > 0);
  tensor.expect(isShape, 'shape', 'whole numbers from 1 on', JSON.stringify(tensor.get('shape')));
  const size = shape.reduce((a, b) => a * b, 1);
  return { name, shape, size, coded: tensor.flag('coded') };
}

/** @param matrixCount number of coded tensors */
function readCheckpoint(
  entry: ObjectReader,
  matrixCount: number,
  isFirst: boolean,
): PackedCheckpoint {
  const scales = entry.array('scale').map((value) => entry.finite('scale', value));
  const from_previous = entry.array('from_previous').map((value) => value === true);
  for (const [name, entries] of Object.entries({ scale: scales, from_previous }))
    entry.expect(entries.length === matrixCount, name, `${matrixCount} entries`, entries.length);
  const refersBack = isFirst && from_previous.includes(true);
  entry.expect(!refersBack, 'from_previous', 'false in the first checkpoint', 'true');
  const hashPattern = /^[0-9a-f]{64}$/;
  return {
    step: entry.step(),
    file: entry.text('file', /^\w[\w.-]{0,99}$/),
    bytes: entry.integer('bytes', 1, 2 ** 31),
    sha256: entry.text('sha256', hashPattern),
    weights_sha256: entry.text('weights_sha256', hashPattern),
    // JSON holds F64 numbers, which become F32 again.
    scale: scales.map(Math.fround),
    from_previous,
    measured: entry.child('measured').numbers(),
    stored: entry.child('stored').numbers(),
  };
}

/** Reads an object of the JSON; its errors name the place of the object in the file. */
class ObjectReader {
  #where;
  #key;
  #value;

  constructor(where: string, key: string, value: unknown) {
    this.#where = where;
    this.#key = key;
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    this.expect(isObject, '', 'an object', JSON.stringify(value));
    this.#value = value as Record<string, unknown>;
  }

  expect(holds: boolean, name: string, expected: string, actual: unknown) {
    if (holds) return;
    const place = [this.#where, this.#key, name].filter(Boolean).join(': ');
    const text = String(actual).slice(0, 80);
    throw new SinkscopeError('bad_file', place, `expected ${expected}, found ${text}`);
  }

  get(name: string) {
    return Object.hasOwn(this.#value, name) ? this.#value[name] : undefined;
  }

  child(name: string) {
    return new ObjectReader(
      this.#where,
      [this.#key, name].filter(Boolean).join('.'),
      this.get(name),
    );
  }

  array(name: string): unknown[] {
    const value = this.get(name);
    this.expect(Array.isArray(value), name, 'a list', JSON.stringify(value));
    return value as unknown[];
  }

  list(name: string, elementName: string) {
    const values = this.array(name);
    this.expect(values.length > 0, name, `${elementName} at least`, 'none');
    return values.map((value, i) => new ObjectReader(this.#where, `${name}[${i}]`, value));
  }

  text(name: string, pattern: RegExp) {
    const value = this.get(name);
    const isValid = typeof value === 'string' && pattern.test(value);
    this.expect(isValid, name, `a text like ${pattern.source}`, JSON.stringify(value));
    return value as string;
  }

  flag(name: string) {
    const value = this.get(name);
    this.expect(typeof value === 'boolean', name, 'true or false', JSON.stringify(value));
    return value === true;
  }

  /** @param high inclusive */
  integer(name: string, low: number, high: number) {
    const value = Number(this.get(name) ?? NaN);
    const isValid = Number.isInteger(value) && value >= low && value <= high;
    this.expect(
      isValid,
      name,
      `a whole number from ${low} to ${high}`,
      JSON.stringify(this.get(name)),
    );
    return value;
  }

  step() {
    return this.integer('step', 0, STEP_MAX);
  }

  finite(name: string, value: unknown) {
    this.expect(Number.isFinite(value), name, 'numbers', JSON.stringify(value));
    return Number(value);
  }

  /** Returns the fields that are numbers; undefined measurements are left out. */
  numbers() {
    const entries = Object.entries(this.#value).filter(([, value]) => Number.isFinite(value));
    return Object.fromEntries(entries) as Record<string, number>;
  }

  expectRising(name: string, lines: readonly { step: number }[]) {
    lines.forEach(({ step }, i) => {
      const previousStep = lines[i - 1]?.step ?? -1;
      this.expect(step > previousStep, `${name}[${i}]: step`, `more than ${previousStep}`, step);
    });
  }
}
