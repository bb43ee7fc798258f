/**
 * Models of other kinds, made of the softmax twin: what a page does with them needs no training.
 */
import { readFile } from 'node:fs/promises';
import { root, settled } from './stage.mjs';

const twin = (name) => readFile(`${root}models/zoo/softmax/${name}`);

/** The twin's end of a text stands for hidden places. */
export const MASK = 1;

/** Every token sees every other, and one of them hides places. */
export async function maskedTwin() {
  const config = JSON.parse(await twin('config.json'));
  const sinkscope = { mask: { kind: 'bidirectional' }, mask_token: MASK };
  return { config: { ...config, sinkscope }, weights: await twin('model.safetensors') };
}

const E = 4;
const WIDE = [
  ['w1', 'gate_proj'],
  ['w2', 'down_proj'],
  ['w3', 'up_proj'],
];

/** Numbers between -1 and 1 that are the same every time, as F32. */
function numbers(count, seed) {
  const values = Float32Array.from({ length: count }, (_, i) => Math.sin(12.9898 * (i + seed)));
  return Buffer.from(values.buffer);
}

function readTensors(bytes) {
  const start = 8 + Number(bytes.readBigUInt64LE(0));
  const { __metadata__, ...header } = JSON.parse(bytes.subarray(8, start).toString());
  return Object.entries(header).map(
    ([
      name,
      {
        dtype,
        shape,
        data_offsets: [from, to],
      },
    ]) => {
      return { name, dtype, shape, bytes: bytes.subarray(start + from, start + to) };
    },
  );
}

function writeTensors(tensors) {
  let end = 0;
  const entries = tensors.map(({ name, dtype, shape, bytes }) => {
    const begin = end;
    end += bytes.length;
    return [name, { dtype, shape, data_offsets: [begin, end] }];
  });
  const header = Buffer.from(JSON.stringify(Object.fromEntries(entries)));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, header, ...tensors.map(({ bytes }) => bytes)]);
}

/** The feed-forward of each layer as four experts, two of which a drawn router takes for a token. */
export async function expertsTwin() {
  const config = JSON.parse(await twin('config.json'));
  const experts = { num_local_experts: E, num_experts_per_tok: 2 };
  const names = { architectures: ['MixtralForCausalLM'], model_type: 'mixtral' };
  const [L, D] = [config.num_hidden_layers, config.hidden_size];
  const tensors = readTensors(await twin('model.safetensors')).flatMap((tensor) => {
    const [, at, part] = /^(model\.layers\.\d+\.)mlp\.(\w+)\.weight$/.exec(tensor.name) ?? [];
    if (!at) return [tensor];
    const [name] = WIDE.find(([, own]) => own === part);
    return Array.from({ length: E }, (_, e) => {
      return { ...tensor, name: `${at}block_sparse_moe.experts.${e}.${name}.weight` };
    });
  });
  for (let l = 0; l < L; l++) {
    const name = `model.layers.${l}.block_sparse_moe.gate.weight`;
    tensors.push({ name, dtype: 'F32', shape: [E, D], bytes: numbers(E * D, l) });
  }
  return { config: { ...config, ...names, ...experts }, weights: writeTensors(tensors) };
}

/** Opens it on side A, as files of the reader's disk. */
export async function openFiles(page, { config, weights }) {
  const files = [
    { name: 'config.json', buffer: Buffer.from(JSON.stringify(config)) },
    { name: 'model.safetensors', buffer: weights },
    { name: 'tokenizer.json', buffer: await twin('tokenizer.json') },
  ];
  await page.setInputFiles(
    '#open .file:not(.folder) input',
    files.map((file) => ({ ...file, mimeType: 'application/octet-stream' })),
  );
  await page.waitForFunction(() =>
    /model\.safetensors/.test(document.querySelector('#sinks .side-a .conditions').textContent),
  );
  await settled(page);
}
