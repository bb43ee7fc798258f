/** Makes the repositories of the hub that the tests use: the zoo, and variants that are made from the zoo on the fly. */
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { fileOf, tensorsOf } from '../safetensors.mjs';

const zoo = new URL('../../models/zoo/', import.meta.url);

export const TOKENS = { member: 'hf_member', stranger: 'hf_stranger' };

const bytesOf = (value) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));

/**
 * Reads the files of a model of the zoo, by name.
 * @returns {Record<string, Buffer>}
 */
function folder(name) {
  const at = new URL(`${name}/`, zoo);
  const files = readdirSync(at, { withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(files.map(({ name: file }) => [file, readFileSync(new URL(file, at))]));
}

/** Splits the model into several files with an index, which names the last one first. */
function sharded(files, n) {
  const { 'model.safetensors': whole, ...rest } = files;
  const tensors = tensorsOf(whole);
  const map = {};
  for (let i = n; i-- > 0;) {
    const mine = tensors.filter((_, j) => j % n === i);
    const name = `model-${String(i + 1).padStart(5, '0')}-of-${String(n).padStart(5, '0')}.safetensors`;
    rest[name] = fileOf(mine);
    for (const [tensor] of mine) map[tensor] = name;
  }
  rest['model.safetensors.index.json'] = bytesOf({ metadata: {}, weight_map: map });
  return rest;
}

const commitOf = (id, revision) => createHash('sha1').update(`${id}@${revision}`).digest('hex');

/** Sizes of files that exist only in the list of the hub: no test may fetch them. */
const HUGE = { 'config.json': 0, 'model.safetensors': 5 * 2 ** 30 };

/**
 * Makes the repositories by name.
 * @returns {Map<string, { gated?: string, hidden?: boolean, license?: string,
 *   revisions: Record<string, { commit: string, files: Record<string, Buffer>, sizes?: Record<string, number> }> }>}
 */
export function repositories() {
  const softmax = folder('softmax');
  const sigmoid = folder('sigmoid');
  const small = { 'config.json': softmax['config.json'] };
  const ggufs = Object.fromEntries(
    ['Q4_0', 'Q8_0'].map((kind) => [`tiny-${kind}.gguf`, bytesOf(`GGUF ${kind}`)]),
  );
  const repository = (id, main, more = {}, revisions = {}) => {
    const made = Object.entries({ main, ...revisions }).map(([revision, files]) => [
      revision,
      { commit: commitOf(id, revision), files, sizes: more.sizes },
    ]);
    return [id, { license: 'apache-2.0', ...more, revisions: Object.fromEntries(made) }];
  };
  return new Map([
    repository('sinkscope/softmax', softmax, {}, { v0: sigmoid, 'refs/pr/1': sigmoid }),
    repository('sinkscope/sigmoid', sigmoid),
    repository('sinkscope/softmax1', folder('softmax1')),
    repository('legacy', softmax, { license: undefined }),
    repository('sinkscope/sharded', sharded(softmax, 3)),
    repository('sinkscope/gated', softmax, { gated: 'manual' }),
    repository('sinkscope/private', softmax, { hidden: true }),
    repository('sinkscope/quantized', { ...ggufs, 'README.md': bytesOf('---\n---\n') }),
    repository('sinkscope/huge', small, { sizes: HUGE }),
    repository('sinkscope/adapter', { 'adapter_config.json': bytesOf({}) }),
    // The twins stand in for the checkpoints of a real training and have the names of checkpoints.
    repository(
      'EleutherAI/pythia-14m',
      softmax,
      {},
      { step0: sigmoid, step1: sigmoid, step143000: softmax },
    ),
    repository('sinkscope/bare', { 'model.safetensors': softmax['model.safetensors'] }),
  ]);
}
