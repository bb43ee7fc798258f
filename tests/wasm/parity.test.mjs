// Checks that native code, wasm and wasm with SIMD compute the same bits, by comparing memory.
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { createEngine } from '../../wasm/index.ts';
import { readEdit, uniformAlphas } from '../../wasm/internal.ts';
import { fileOf } from '../safetensors.mjs';
import {
  binaries,
  files,
  goldenModels,
  near,
  randomBelow,
  readSafetensors,
  root,
  softmax,
} from './helper.mjs';

const dump = fileURLToPath(new URL('.build/native/dump', root));

/**
 * Returns the bits of floats, with one pattern for every NaN: its sign and payload depend on the machine.
 * @param {ArrayBufferLike} buffer
 */
function bits(buffer) {
  const floats = new Float32Array(buffer);
  const words = new Uint32Array(buffer).slice();
  // Token ids are unchanged: they are far below the bits of a NaN.
  floats.forEach((x, i) => Number.isNaN(x) && (words[i] = 0x7fc00000));
  return Buffer.from(words.buffer);
}

const engine = await createEngine({ base: binaries, worker: false });
after(() => engine.close());

async function readAll(folder, tokens, edit) {
  const parts = {};
  const model = await engine.open(files(folder));
  const names = engine.describe.fields
    .filter(({ needs }) => !needs || model.architecture[needs])
    .map(({ name }) => name);
  const edits = edit ? [readEdit(edit, engine.describe)] : [];
  const run = await model.run(tokens, { fields: names, edits });
  for (const name of names) parts[`field ${name}`] = bits((await run.field(name)).data.buffer);
  const base = await model.run(tokens, { fields: names });
  const last = { layer: model.architecture.L - 1, head: model.architecture.H - 1, base };
  for (const { name } of engine.describe.metrics)
    parts[`metric ${name}`] = bits((await run.metric(name, last)).data.buffer);
  await model.close();
  return parts;
}

function dumpAll(folder, tokens, edit) {
  const out = mkdtempSync(join(tmpdir(), 'sinkscope-'));
  try {
    const file = join(out, 'dump.bin');
    const options = edit ? ['-e', edit] : [];
    const args = [fileURLToPath(folder), file, ...options, ...tokens.map(String)];
    const index = execFileSync(dump, args, { encoding: 'utf8' }).trim().split('\n');
    const bytes = readFileSync(file);
    const parts = {};
    let offset = 0;
    for (const line of index) {
      const [kind, name, count] = line.split(' ');
      const part = Uint8Array.from(bytes.subarray(offset, offset + 4 * Number(count)));
      parts[`${kind} ${name}`] = bits(part.buffer);
      offset += part.length;
    }
    assert.equal(offset, bytes.length);
    return parts;
  } finally {
    rmSync(out, { recursive: true });
  }
}

function assertSame(actual, expected, label) {
  assert.deepEqual(Object.keys(actual), Object.keys(expected), label);
  for (const [name, part] of Object.entries(actual)) {
    assert.ok(part.equals(expected[name]), `${label}: ${name} has other bits`);
  }
}

const prompt = Array.from({ length: 70 }, (_, i) => (i * i * 31) % 1024);
const cases = goldenModels().map((folder) => {
  const { tokens } = readSafetensors(new URL('golden.safetensors', folder));
  return { folder, tokens: [...tokens.data], edit: undefined };
});
for (const edit of [
  undefined,
  ...['sigmoid', 'softmax1', 'relu', 'sink_logit'].map((name) => `operation(operation=${name})`),
  'hide_key(key=0,layer=1)',
  'clamp_channel(channel=7,to=mean)',
  'swap_positions(a=0,b=9)',
  'evict(policy=vatp,budget=24)',
  'evict(policy=first,first=1,budget=24,positions=cache)',
  'quantize(what=hidden,bits=4,by=group,first=1)',
  'quantize(what=weights,bits=4,by=group)',
  'scale_weight(matrix=down,layer=0,row=1,column=2,factor=9)',
]) {
  cases.push({ folder: softmax, tokens: prompt, edit });
}

for (const { folder, tokens, edit } of cases) {
  const name = folder.pathname.split('/').at(-2) + (edit ? ` under ${edit}` : '');
  test(`${name}: wasm with SIMD and native without give the same bits`, async (context) => {
    if (!existsSync(dump)) return context.skip('no native dump');
    assertSame(dumpAll(folder, tokens, edit), await readAll(folder, tokens, edit), 'native');
  });
}

/** The bits of floats in a type of a file. Each number is 0 or a normal half. */
const stored = {
  F32: (words) => words,
  BF16: (words) => Uint16Array.from(words, (word) => word >>> 16),
  F16: (words) =>
    Uint16Array.from(
      words,
      (word) => word && ((word >>> 16) & 0x8000) | (((word & 0x7fffffff) - 0x38000000) >>> 13),
    ),
};

/**
 * Writes a GPT-2 in the format of the hub, with matrices as [in][out], and too large to be kept as panels.
 */
function writeLargeGpt2(folder, dtype) {
  const [L, D, V, context] = [2, 512, 64, 16];
  const shapes = { 'wte.weight': [V, D], 'wpe.weight': [context, D] };
  const linear = (name, K, N) => {
    shapes[`${name}.weight`] = [K, N];
    shapes[`${name}.bias`] = [N];
  };
  for (const l of Array(L).keys()) {
    for (const name of ['ln_1', 'ln_2'])
      for (const part of ['weight', 'bias']) shapes[`h.${l}.${name}.${part}`] = [D];
    linear(`h.${l}.attn.c_attn`, D, 3 * D);
    linear(`h.${l}.attn.c_proj`, D, D);
    linear(`h.${l}.mlp.c_fc`, D, 4 * D);
    linear(`h.${l}.mlp.c_proj`, 4 * D, D);
  }
  for (const part of ['weight', 'bias']) shapes[`ln_f.${part}`] = [D];
  const random = randomBelow(1);
  const tensors = Object.entries(shapes).map(([name, shape]) => {
    const n = shape.reduce((a, b) => a * b);
    // Numbers have seven bits of a fraction, so that every type holds them.
    const numbers = Float32Array.from({ length: n }, () => (random(128) - 63) / 1024);
    const words = stored[dtype](new Uint32Array(numbers.buffer));
    return [name, { dtype, shape }, Buffer.from(words.buffer)];
  });
  const config = { model_type: 'gpt2', n_layer: L, n_head: 8, n_embd: D };
  const sizes = { vocab_size: V, n_positions: context };
  writeFileSync(new URL('config.json', folder), JSON.stringify({ ...config, ...sizes }));
  writeFileSync(new URL('model.safetensors', folder), fileOf(tensors));
}

for (const dtype of Object.keys(stored))
  test(`GPT-2 in ${dtype} has the bits of native, although wasm reorders its weights`, async (context) => {
    const path = mkdtempSync(join(tmpdir(), 'sinkscope-'));
    const folder = pathToFileURL(`${path}/`);
    const tokens = [0, 9, 63, 1, 1, 30, 62, 7, 5, 8, 11];
    if (!existsSync(dump)) return context.skip('no native dump');
    try {
      writeLargeGpt2(folder, dtype);
      assertSame(dumpAll(folder, tokens), await readAll(folder, tokens), 'native');
    } finally {
      rmSync(path, { recursive: true });
    }
  });

test('uniform attention without a run is that of the reference, under each mask and with a bias key', async () => {
  const masks = new Set();
  for (const folder of goldenModels()) {
    const tensors = readSafetensors(new URL('golden.safetensors', folder));
    const expected = tensors['metric.alpha_uniform'];
    if (!expected) continue;
    const model = await engine.open(files(folder));
    const { mask, bias_key } = model.architecture;
    const actual = uniformAlphas(expected.data.length, model.architecture);
    expected.data.forEach((alpha, k) => near(actual[k], alpha, `${folder.pathname}, key ${k}`));
    masks.add(`${mask.kind}${bias_key ? ', bias key' : ''}`);
    await model.close();
  }
  const kinds = ['bidirectional', 'causal', 'prefix', 'window'];
  assert.deepEqual(
    [...masks].sort(),
    kinds.flatMap((kind) => [kind, `${kind}, bias key`]),
  );
});
