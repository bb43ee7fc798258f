/** Stores recordings by number in the memory of the module. */
import { closedError, parseJson } from '../abi/errors.ts';
import { utf8, type Module } from '../abi/module.ts';
import { readConditions } from './conditions.ts';
import { checkImageTensors } from './images.ts';

/** `prompts` maps the index of a prompt to the number of the run that reads it. */
type OpenRecording = {
  address: number;
  prompts: Map<number, number>;
  lengths: number[];
  sizes: { L: number; H: number };
};
type TensorEntry = { dtype: string; shape: readonly number[] };

export class OpenRecordings {
  #module;
  #recordings: Map<number, OpenRecording> = new Map();

  constructor(module: Module) {
    this.#module = module;
  }

  /** Opens and describes a recording in memory, whose `block` it owns from here on. */
  add(id: number, block: { address: number; bytes: number }) {
    const module = this.#module;
    let address;
    try {
      address = module.handle('recording_open', block.address, block.bytes);
    } catch (error) {
      module.release(block.address);
      throw error;
    }
    try {
      const { conditions, tensors } = readHeader(module, block);
      const { L, H } = conditions.model;
      const lengths = conditions.tokens.map((strings) => strings.length);
      const names = new Set(tensors.map(([name]) => name));
      const ids = lengths.map((_, i) =>
        names.has(`${i}.tokens`) ? [...this.#read(address, `${i}.tokens`, -1, -1).data] : [],
      );
      this.#recordings.set(id, { address, prompts: new Map(), lengths, sizes: { L, H } });
      return { recording: id, conditions, tensors, ids, bytes: block.bytes };
    } catch (error) {
      module.call('recording_close', address);
      throw error;
    }
  }

  get(id: number) {
    const recording = this.#recordings.get(id);
    if (recording) return recording;
    throw closedError('recording');
  }

  /**
   * Reads a tensor by name.
   * @param first index along the first dimension, which is then dropped; -1 keeps all
   * @param second index along the second dimension, which is then dropped; -1 keeps all
   */
  tensor(id: number, name: string, first: number = -1, second: number = -1) {
    return this.#read(this.get(id).address, name, first, second);
  }

  #read(address: number, name: string, first: number, second: number) {
    const nameBytes = new TextEncoder().encode(`${name}\0`);
    return this.#module.lend(nameBytes, (nameAddress) =>
      this.#module.tensor('recording_tensor', address, nameAddress, first, second),
    );
  }

  trace(id: number, prompt: number) {
    return this.#module.handle('recording_prompt', this.get(id).address, prompt);
  }

  remove(id: number) {
    const { address } = this.get(id);
    this.#recordings.delete(id);
    this.#module.call('recording_close', address);
  }
}

function readHeader(module: Module, { address, bytes }: { address: number; bytes: number }) {
  const file = module.bytes(address, bytes);
  const length = Number(new DataView(file.buffer, address, 8).getBigUint64(0, true));
  const text = utf8.decode(file.slice(8, 8 + length));
  const header: Record<string, TensorEntry & Record<string, string>> = parseJson(
    text,
    'bad_file',
    'safetensors header',
  );
  const { __metadata__: metadata, ...entries } = header;
  const conditions = readConditions(String(metadata?.sinkscope));
  checkImageTensors(conditions, entries);
  const tensors = Object.entries(entries).map(
    ([name, { dtype, shape }]) => [name, { dtype, shape }] as [string, TensorEntry],
  );
  return { conditions, tensors };
}
