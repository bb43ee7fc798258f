/**
 * Tests what people have: files of other tools are named, with the command that makes them readable; nanoGPT's
 * checkpoint opens, with its characters; a path to a file of weights means the model of its folder.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { findPlan, load, planFiles } from '../../wasm/index.ts';
import { characterTokenizer, readCharacters } from '../../wasm/text/characters.ts';
import { golden as goldenFolder, readSafetensors } from './helper.mjs';

const list = (entries) =>
  Object.entries(entries).map(([path, content]) => ({ path, file: new Blob([content]) }));
const golden = (name) => fileURLToPath(new URL(name, goldenFolder));
const folder = mkdtempSync(join(tmpdir(), 'sinkscope-foreign-'));
after(() => rmSync(folder, { recursive: true }));

const torchFile = (...texts) => `PK\x03\x04 ckpt/data.pkl ${texts.join(' ')}`;
const words = (...numbers) => new Uint8Array(Int32Array.from(numbers).buffer);
const quantized = (config) => ({
  'm/config.json': JSON.stringify({ model_type: 'llama', ...config }),
  'm/model.safetensors': 'x',
});
const packed = { ...quantized({}), 'm/model.safetensors': '{"model.layers.0.q_proj.qweight":' };
const byMethod = (quantization_config) => quantized({ quantization_config });

const CASES = [
  [{ 'm/a.ckpt': torchFile('pytorch-lightning_version') }, /Lightning.*torch\.load\('m\/a\.ckpt'/],
  [
    { 'm/lit_model.pth': torchFile('transformer.h.0.attn.qkv.weight') },
    /LitGPT.*convert_from_litgpt m OUT/,
  ],
  [
    { 'm/ckpt.pt': torchFile('model_args', 'tok_embeddings.weight') },
    /llama2\.c.*export\.py.*m\/ckpt\.pt/,
  ],
  [{ 'm/consolidated.00.pth': 'x', 'm/tokenizer.model': 'x' }, /Meta.*--input_dir m/],
  [{ 'm/consolidated.safetensors': 'x', 'm/params.json': '{}' }, /Meta/],
  [
    { 'm/s.bin': words(288, 768, 6, 6, 6, 32000, 256, 0) },
    /llama2\.c.*convert-llama2c-to-ggml.*m\/s\.bin/,
  ],
  [{ 'm/s.bin': words(288, 768, 6, 6, 6, -32000, 256, 0) }, /llama2\.c/],
  [{ 'm/s.bin': words(0x616b3432, 1, 288, 768) }, /llama2\.c/],
  [{ 'm/model.onnx': 'x', 'm/config.json': '{}' }, /ONNX.*hf download/],
  ...[
    ['openvino_model.bin', /OpenVINO/],
    ['rank0.engine', /TensorRT/],
    ['gemma.litertlm', /TensorFlow Lite/],
    ['model.tflite', /TensorFlow Lite/],
    ['llama.pte', /ExecuTorch/],
    ['model.pt2', /torch\.export/],
    ['Manifest.json', /Core ML/],
    ['coremldata.bin', /Core ML/],
    ['params_shard_0.bin', /MLC/],
    ['shared_vocabulary.json', /CTranslate2/],
    ['net.ncnn.bin', /ncnn/],
    ['model.keras', /Keras/],
    ['model.weights.h5', /Keras/],
    ['saved_model.pb', /a model of TensorFlow/],
    ['bert_model.ckpt.data-00000-of-00001', /a model of TensorFlow/],
    ['_METADATA', /JAX/],
    ['gemma.npz', /JAX/],
    ['weights.npz', /MLX/],
    ['weights.00.npz', /MLX/],
  ].map(([name, is]) => [{ [`m/${name}`]: 'x' }, RegExp(`${is.source}.*hf download.*made from`)]),
  [
    { 'm/model.pt': `PK${' '.repeat(3 << 20)}model/code/__torch__.py` },
    /TorchScript.*torch\.jit\.load\('m\/model\.pt'/,
  ],
  [{ 'm/zero_to_fp32.py': 'x', 'm/config.json': '{}' }, /DeepSpeed.*zero_to_fp32\.py \. OUT/],
  [{ 'm/zero_pp_rank_0_mp_rank_00_optim_states.pt': 'x' }, /DeepSpeed/],
  [{ 'm/__0_0.distcp': 'x' }, /distributed checkpoint.*dcp_to_torch m pytorch_model\.bin/],
  [{ 'm/model_optim_rng.pt': 'x' }, /Megatron.*export_ckpt\('m'/],
  [{ 'm/a.llamafile': 'x' }, /llamafile.*unzip m\/a\.llamafile/],
  [{ 'm/a.zip': 'x' }, /packed.*unzip m\/a\.zip -d OUT/],
  [{ 'm/a.tar.gz': 'x' }, /packed.*tar -xf m\/a\.tar\.gz/],
  ...['incomplete', 'part', 'crdownload'].map((ending) => [
    { [`m/model.safetensors.${ending}`]: 'x', 'm/config.json': '{}' },
    /did not end.*hf download/,
  ]),
  [
    { 'm/model.safetensors': '\n<!DOCTYPE html><html>', 'm/config.json': '{}' },
    /web page.*hf download/,
  ],
  [{ 'm/adapters.safetensors': 'x', 'm/adapter_config.json': '{}' }, /MLX.*mlx_lm\.fuse/],
  [{ 'm/tf_model.h5': 'x', 'm/config.json': '{}' }, /TensorFlow.*'m', from_tf=True/],
  [{ 'm/flax_model.msgpack': 'x', 'm/config.json': '{}' }, /Flax.*'m', from_flax=True/],
  [{ 'm/ggml-model-q4_0.bin': 'tjgg' }, /before GGUF.*--input m\/ggml-model-q4_0\.bin/],
  ...['model.safetensors', 'pytorch_model.bin'].map((name) => [
    { [`m/${name}`]: 'version https://git-lfs.github.com/spec/v1', 'm/config.json': '{}' },
    /Git LFS.*git -C m lfs pull/,
  ]),
  [{ 'm/tokenizer.json': '{}', 'm/config.json': '{}' }, /tokenizer without a model.*hf download/],
  [{ 'm/tokenizer.model': 'x' }, /tokenizer without a model.*hf download/],
  [{ 'm/adapter_model.safetensors': 'x', 'm/adapter_config.json': '{}' }, /LoRA.*merge_and_unload/],
  [quantized({ quantization: { group_size: 64, bits: 4 } }), /MLX.*mlx_lm\.convert --hf-path m/],
  [byMethod({ quant_method: 'fp8' }), /FP8;.*FineGrainedFP8Config.*save_original_format=False/],
  [
    byMethod({ quant_method: 'compressed-tensors', format: 'float-quantized' }),
    /FP8, as.*CompressedTensorsConfig/,
  ],
  [
    byMethod({ quant_method: 'compressed-tensors', format: 'nvfp4-pack-quantized' }),
    /NVFP4;.*CompressedTensors/,
  ],
  [byMethod({ quant_method: 'modelopt', quant_algo: 'NVFP4' }), /ModelOpt.*NVFP4/],
  [byMethod({ quant_method: 'mxfp4' }), /MXFP4;.*Mxfp4Config/],
  [byMethod({ quant_method: 'bitsandbytes', load_in_4bit: true }), /bitsandbytes.*dequantize\(\)/],
  [byMethod({ quant_method: 'gptq', bits: 4 }), /GPTQ quantized;.* d\('m', 'OUT'/],
  [byMethod({ quant_method: 'awq', bits: 4 }), /AWQ quantized;.*hf download.*made from/],
  [
    { ...packed, 'm/quantize_config.json': '{"bits": 4}' },
    /quantize_config\.json, the settings of GPTQ.*open\('m\/quantize_config\.json'\).* d\('m', 'OUT'/,
  ],
  [{ ...packed, 'm/quant_config.json': '{"w_bit": 4}' }, /quant_config\.json, the settings of AWQ/],
  [
    quantized({ model_type: 'mamba2' }),
    /found mamba2, which has none: there is nothing to measure/,
  ],
];

test('files of other tools are named, with the command that makes them readable', async () => {
  for (const [entries, text] of CASES)
    await assert.rejects(planFiles(list(entries)), { code: 'unsupported', where: 'm', text });
});

test('what merely looks like them is not taken for them', async () => {
  const eight = byMethod({ quant_method: 'compressed-tensors', format: 'int-quantized' });
  assert.equal((await planFiles(list(eight))).length, 1);
  const beside = {
    ...quantized({}),
    'm/model.onnx': 'x',
    'm/tokenizer.model': 'x',
    'm/a.bin': 'x',
  };
  assert.equal((await planFiles(list(beside)))[0].format, 'safetensors');
  const dequantized = { ...quantized({}), 'm/quantize_config.json': '{}' };
  assert.equal((await planFiles(list(dequantized)))[0].format, 'safetensors');
  await assert.rejects(planFiles(list({ 'm/a.bin': words(1, 2, 3, 4, -1, 6, 7) })), {
    code: 'read',
  });
});

test('a folder above the folders of models names them, as the checkpoints of a Trainer', async () => {
  const out = join(folder, 'out');
  mkdirSync(join(out, 'runs'), { recursive: true });
  writeFileSync(join(out, 'README.md'), 'x');
  await assert.rejects(load(out), { code: 'read', text: /found README\.md$/ });
  for (const [step, expected] of [
    [200, [200]],
    [1000, [200, 1000]],
  ]) {
    mkdirSync(join(out, `checkpoint-${step}`));
    writeFileSync(join(out, `checkpoint-${step}`, 'model.safetensors'), 'x');
    const folders = expected.map((number) => join(out, `checkpoint-${number}`));
    const text = RegExp(`: (these have one: )?${folders.join(', ')}( has one)?$`);
    await assert.rejects(load(out), { code: 'read', where: out, text });
  }
});

test("a folder of the hub's cache names its snapshots, and a file of Ollama opens by its hash", async () => {
  const cache = join(folder, 'models--owner--name');
  cpSync(golden('hf-llama-tied'), join(cache, 'snapshots', 'abc'), { recursive: true });
  const text = RegExp(`: ${join(cache, 'snapshots', 'abc')} has one$`);
  await assert.rejects(load(cache), { code: 'read', where: cache, text });
  const blobs = join(folder, 'models', 'blobs');
  mkdirSync(blobs, { recursive: true });
  const [license, name] = ['a', 'b'].map((letter) => `sha256-${letter.repeat(64)}`);
  writeFileSync(join(blobs, license), 'MIT');
  cpSync(join(golden('gguf-llama-gqa-f32'), 'model.gguf'), join(blobs, name));
  for (const path of [join(blobs, name), blobs])
    assert.equal((await findPlan(path)).format, 'gguf', path);
  await assert.rejects(findPlan(join(folder, 'models')), { text: RegExp(`${blobs} has one$`) });
  await assert.rejects(findPlan(join(blobs, license)), { code: 'read', text: /found sha256-a/ });
});

test('a name that a shell would read is not part of a command', async () => {
  const error = await planFiles(
    list({ "m/$(x)'.ckpt": torchFile('pytorch-lightning_version') }),
  ).catch((e) => e);
  assert.match(error.text, /torch\.load\('FILE'/);
});

test("nanoGPT's ckpt.pt opens with its numbers, by its folder and by its path", async () => {
  for (const name of ['torch-nanogpt', 'torch-nanogpt-bias']) {
    cpSync(join(golden(name), 'ckpt.pt'), join(folder, name, 'ckpt.pt'));
    const { tokens, att } = readSafetensors(new URL(`${name}/golden.safetensors`, goldenFolder));
    const T = tokens.data.length;
    for (const path of [join(folder, name), join(folder, name, 'ckpt.pt')]) {
      const model = await load(path);
      const { family, head, L, V } = model.model.architecture;
      assert.deepEqual({ family, head, L, V }, { family: 'nanogpt', head: true, L: 3, V: 61 });
      const { map } = await model.map(tokens.data.join(', '), { layer: 1, head: 1 });
      const expected = att.data.slice(3 * T * T, 4 * T * T);
      assert.ok(map.data.every((weight, i) => Math.abs(weight - expected[i]) < 1e-5));
      await assert.rejects(model.map('a text', { layer: 0, head: 0 }), {
        text: /meta\.pkl.*tokenizer\.json/,
      });
      await model.close();
    }
  }
});

test("nanoGPT's ckpt.pt with a key that its GPTConfig does not have is refused by that key", async () => {
  const bytes = readFileSync(join(golden('torch-nanogpt'), 'ckpt.pt'));
  bytes.write('softmax', bytes.indexOf('dropout'));
  mkdirSync(join(folder, 'changed'));
  writeFileSync(join(folder, 'changed/ckpt.pt'), bytes);
  await assert.rejects(load(join(folder, 'changed')), {
    where: 'softmax',
    text: /^model_args: expected a model without it; record such a model/,
  });
});

/** Pickles meta.pkl as Python's pickle.dump(..., protocol=4) does. */
function pickleOf(characters) {
  const bytes = [0x80, 4, 0x95, 0, 0, 0, 0, 0, 0, 0, 0, 0x7d, 0x94, 0x28];
  const putText = (text) => {
    const utf8 = new TextEncoder().encode(text);
    bytes.push(0x8c, utf8.length, ...utf8, 0x94);
  };
  putText('itos');
  bytes.push(0x7d, 0x94, 0x28);
  characters.forEach((text, id) => {
    bytes.push(0x4b, id);
    putText(text);
  });
  bytes.push(0x75, 0x75, 0x2e);
  return Uint8Array.from(bytes);
}

test('meta.pkl gives the characters, and nothing else does', async () => {
  const characters = ['\n', ' ', 'a', 'é', '😀'];
  const pickle = pickleOf(characters);
  assert.deepEqual(readCharacters(pickle), characters);
  const tokenizer = characterTokenizer(characters);
  const tokens = await tokenizer.encode('a 😀é');
  assert.deepEqual(
    tokens.map(({ id, start, end }) => [id, start, end]),
    [
      [2, 0, 1],
      [1, 1, 2],
      [4, 2, 4],
      [3, 4, 5],
    ],
  );
  assert.equal(await tokenizer.decode([4, 2, 99]), '😀a');
  await assert.rejects(tokenizer.encode('b'), {
    text: /one of the 5 characters of meta\.pkl, got "b"/,
  });
  for (let length = 0; length < pickle.length; length++)
    assert.throws(() => readCharacters(pickle.subarray(0, length)), { code: 'bad_tokenizer' });
  for (let i = 0; i < pickle.length; i++) {
    const broken = pickle.slice();
    broken[i] ^= 0x11;
    try {
      readCharacters(broken);
    } catch (error) {
      assert.equal(error.code, 'bad_tokenizer', String(error));
    }
  }
});

test('a path to weights, an index or a shard means the model of its folder', async () => {
  const source = golden('hf-llama-tied');
  const target = join(folder, 'llama');
  cpSync(source, target, { recursive: true });
  const expected = await findPlan(target);
  const plan = await findPlan(join(target, 'model.safetensors'));
  assert.deepEqual([plan.id, plan.files.weights[0].name], [expected.id, 'model.safetensors']);
  assert.ok(plan.files.config && plan.format === 'safetensors');
  const sharded = join(folder, 'sharded');
  cpSync(join(source, 'config.json'), join(sharded, 'config.json'));
  const names = [1, 2].map((n) => `model-0000${n}-of-00002.safetensors`);
  for (const name of names) cpSync(join(source, 'model.safetensors'), join(sharded, name));
  const index = { weight_map: { a: names[0], b: names[1] } };
  writeFileSync(join(sharded, 'model.safetensors.index.json'), JSON.stringify(index));
  for (const name of ['model.safetensors.index.json', names[1]]) {
    const { files } = await findPlan(join(sharded, name));
    assert.deepEqual(
      files.weights.map((file) => file.name),
      names,
      name,
    );
  }
  const torch = await findPlan(join(golden('torch-llama-tied'), 'pytorch_model.bin'));
  assert.deepEqual([torch.id, torch.format], ['torch-llama-tied', 'pytorch']);
});

test('a base model says that it has no head wherever a loss or a next token would be', async () => {
  const model = await load(golden('hf-llama-base'));
  const { loss, noLoss, sink } = await model.measure('1, 2, 3, 4, 5');
  assert.deepEqual([loss, typeof sink], [null, 'number']);
  assert.match(noLoss, /no output head/);
  const unsupported = { code: 'unsupported', text: /output head/ };
  await assert.rejects(model.generate('1, 2, 3', { count: 1 }), unsupported);
  await model.close();
  const tied = await load(golden('hf-qwen3-base'));
  assert.equal((await tied.measure('1, 2, 3')).noLoss, null);
  await tied.close();
});
