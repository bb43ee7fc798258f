/**
 * Names the files of other tools that the engine does not read, each with the command that makes it
 * readable. A row matches by the names of files, by texts in the beginning of a file, or by the config.
 * The commands for Lightning, LitGPT, LoRA, MLX, FP8, NVFP4, MXFP4, bitsandbytes and GPTQ were run on small checkpoints
 * (transformers 5.23, lightning 2.6, litgpt 0.5.13, mlx-lm 0.32, compressed-tensors 0.20, bitsandbytes 0.50, gptqmodel 7.7), and
 * what they wrote was opened;
 * those of the hub, of Meta's script (it needs transformers 4), of TensorFlow, Flax, llama2.c, llama.cpp, mlx_lm.fuse, DeepSpeed
 * and Megatron were not.
 */
import { SinkscopeError } from '../abi/errors.ts';
import type { PlanFile } from './types.ts';

type Config = Record<string, unknown>;
type Row = {
  is: string;
  /** FOLDER and FILE are replaced by the names of what was found. */
  command: string;
  name?: RegExp;
  /** All must be in the first or the last megabyte of the file; bytes are read as Latin-1. */
  signs?: readonly RegExp[];
  config?: (config: Config) => boolean;
};

/** A checkpoint's table of tensors lies at the beginning of its file, a zip file's list of names at the end. */
const SIGN_BYTES = 2 ** 20;

const TORCH_FILE = /\.(pt|pth|ckpt|bin)$/i;

/** The id of files that are in no folder. */
export const FILES = 'files';

export const NANOGPT_SIGNS = [/model_args/, /transformer\.wte\.weight/];

// Without save_original_format=False transformers 5 writes FP8 weights as FP8 again, and fails for bitsandbytes.
const dequantize = (config: string) =>
  `python -c "from transformers import AutoModelForCausalLM as M, ${config} as Q; M.from_pretrained('FOLDER', dtype='bfloat16', quantization_config=Q(dequantize=True)).save_pretrained('OUT', save_original_format=False)"`;
// GPTQModel 7.7 unpacks AWQ's columns in another order than AWQ packs them, so that AWQ has no such command.
const dequantizeGptq = (before = '') =>
  `python -c "${before}import torch; from gptqmodel.utils.model_dequant import dequantize_model as d; d('FOLDER', 'OUT', target_dtype=torch.float16)"`;
const stripModel =
  "torch.save({k.removeprefix('model.'): v for k, v in s.items()}, 'pytorch_model.bin')";

const DOWNLOAD = 'hf download OWNER/NAME --local-dir FOLDER';
const WEIGHTS_FILE = /\.(safetensors|gguf|bin|pt|pth|ckpt)$/i;

/** A clone without Git LFS has a text in place of the weights, and a page that asks for a login has been saved as them. */
const PLACEHOLDERS: readonly Row[] = [
  {
    is: 'a pointer of Git LFS in place of the weights',
    name: WEIGHTS_FILE,
    signs: [/^version https:\/\/git-lfs/],
    command: 'git -C FOLDER lfs pull',
  },
  {
    is: 'a web page in place of the weights',
    name: WEIGHTS_FILE,
    signs: [/^\s*<(!doctype|html)/i],
    command: DOWNLOAD,
  },
];

const ORIGINAL = 'hf download OWNER/NAME --local-dir OUT, of the model that it was made from';
const BESIDE = "with the model's config.json beside the new file";

/** Settings that quantizers wrote beside the weights before config.json had a quantization_config. */
const SETTINGS: readonly Row[] = [
  {
    is: 'the settings of GPTQ, which quantized the weights beside it',
    name: /^quantize_config\.json$/,
    command: dequantizeGptq(
      "import json; c = json.load(open('FOLDER/config.json')); c['quantization_config'] = {'quant_method': 'gptq', **json.load(open('FOLDER/quantize_config.json'))}; json.dump(c, open('FOLDER/config.json', 'w')); ",
    ),
  },
  {
    is: 'the settings of AWQ, which quantized the weights beside it',
    name: /^quant_config\.json$/,
    command: ORIGINAL,
  },
];

/** What a name says. Other runtimes have no names of layers, or others: without a command the original is named. */
const NAMES: readonly (readonly [is: string, name: RegExp, command?: string])[] = [
  [
    'an ONNX graph, which has no names of layers',
    /\.onnx(_data)?$/i,
    "hf download OWNER/NAME --exclude 'onnx/*' --local-dir OUT, of the model that it was exported from",
  ],
  ['an OpenVINO graph', /^openvino_.*\.(xml|bin)$/i],
  ['a TensorRT engine', /\.engine$/i],
  ['a TensorFlow Lite graph', /\.(tflite|litertlm|task)$/i],
  ['an ExecuTorch program', /\.pte$/i],
  ['a graph of torch.export', /\.pt2$/i],
  ['a Core ML model', /\.mlmodel$|^(Manifest\.json|coremldata\.bin)$/],
  ['a model that MLC compiled', /^(params_shard_\d+\.bin|mlc-chat-config\.json)$/i],
  ['a model of CTranslate2', /^shared_vocabulary\.(json|txt)$/i],
  ['a model of ncnn, MNN, RKNN or Qualcomm', /\.(ncnn\.(bin|param)|mnn|rknn|dlc)$/i],
  ['weights of TensorFlow', /^tf_model.*\.h5$/i, fromFramework('tf')],
  ['weights of Flax', /^flax_model.*\.msgpack$/i, fromFramework('flax')],
  ['a model of Keras', /\.(keras|h5)$/i],
  ['a model of TensorFlow', /^saved_model\.pb$|\.ckpt\.(index|meta|data-\d+-of-\d+)$/i],
  [
    'an adapter of MLX without the weights that it changes',
    /^adapters\.(safetensors|npz)$/i,
    'mlx_lm.fuse --model OWNER/NAME --adapter-path FOLDER --save-path OUT',
  ],
  [
    'a LoRA adapter without the weights that it changes',
    /^adapter_model\.(safetensors|bin)$/i,
    "python -c \"from peft import AutoPeftModelForCausalLM as M; M.from_pretrained('FOLDER').merge_and_unload().save_pretrained('OUT')\"",
  ],
  ['a checkpoint of MLX from before it wrote safetensors', /^weights(\.\d+)?\.npz$/i],
  ['a checkpoint of JAX', /^(_METADATA|_CHECKPOINT_METADATA|manifest\.ocdbt)$|\.npz$/],
  [
    'a checkpoint of DeepSpeed',
    /^(zero_to_fp32\.py|.*mp_rank_\d+_(model|optim)_states\.pt)$/i,
    'python zero_to_fp32.py . OUT --safe_serialization, in the folder of zero_to_fp32.py',
  ],
  [
    'a distributed checkpoint of PyTorch',
    /\.distcp$/i,
    `python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER pytorch_model.bin, ${BESIDE}`,
  ],
  [
    'a checkpoint of Megatron or NeMo',
    /^model_optim_rng\.pt$|\.nemo$/i,
    "python -c \"from megatron.bridge import AutoBridge as B; B.from_hf_pretrained('OWNER/NAME').export_ckpt('FOLDER', 'OUT')\"",
  ],
  ['a llamafile, which holds a GGUF file', /\.llamafile$/i, "unzip FILE '*.gguf' -d OUT"],
  ['a packed folder', /\.zip$/i, 'unzip FILE -d OUT'],
  ['a packed folder', /\.(tar|tgz|tar\.[gx]z)$/i, 'tar -xf FILE'],
  ['a download that did not end', /\.(incomplete|part|crdownload|aria2|download)$/i, DOWNLOAD],
  [
    'a tokenizer without a model',
    /^(tokenizer\.(model|json)|spiece\.model)$/i,
    `${DOWNLOAD}, of the model that it belongs to`,
  ],
];

/** What a config says, mostly of a quantization. */
const CONFIGS: readonly (readonly [
  is: string,
  test: (config: Config) => boolean,
  command: string,
])[] = [
  [
    'a model that MLX quantized',
    ({ quantization: mlx, quantization_config: other }) =>
      isRecord(mlx) && 'bits' in mlx && !(isRecord(other) && 'quant_method' in other),
    'mlx_lm.convert --hf-path FOLDER --mlx-path OUT --dequantize',
  ],
  ['a model that ModelOpt quantized, to NVFP4 or FP8', quantizedAs(/^modelopt/), ORIGINAL],
  ['a model in NVFP4', quantizedAs(/nvfp4/i), dequantize('CompressedTensorsConfig')],
  [
    'a model in FP8, as compressed-tensors stores it',
    (config) => quantizedAs(/^compressed-tensors$/)(config) && quantizedAs(/^float-/)(config),
    dequantize('CompressedTensorsConfig'),
  ],
  ['a model in FP8', quantizedAs(/fp8/i), dequantize('FineGrainedFP8Config')],
  ['a model in MXFP4', quantizedAs(/^mxfp4$/i), dequantize('Mxfp4Config')],
  ['a model that GPTQ quantized', quantizedAs(/^gptq/), dequantizeGptq()],
  ['a model that AWQ quantized', quantizedAs(/^awq$/), ORIGINAL],
  [
    'a model that bitsandbytes quantized',
    quantizedAs(/^bitsandbytes/),
    "python -c \"from transformers import AutoModelForCausalLM as M; M.from_pretrained('FOLDER').dequantize().save_pretrained('OUT', save_original_format=False)\"",
  ],
];

const ROWS: readonly Row[] = [
  ...PLACEHOLDERS,
  {
    is: 'a checkpoint of PyTorch Lightning, whose names have the prefix of its module',
    name: TORCH_FILE,
    signs: [/pytorch-lightning_version/],
    command: `python -c "import torch; s = torch.load('FILE', 'cpu', weights_only=False)['state_dict']; ${stripModel}", ${BESIDE}`,
  },
  {
    is: 'a checkpoint of LitGPT',
    name: TORCH_FILE,
    signs: [/transformer\.h\.\d+\.(norm_1|attn\.(qkv|attn))\.weight/],
    command:
      'litgpt convert_from_litgpt FOLDER OUT && mv OUT/model.pth OUT/pytorch_model.bin && cp FOLDER/*.json OUT',
  },
  {
    is: 'a checkpoint of llama2.c',
    name: TORCH_FILE,
    signs: [/model_args/, /tok_embeddings\.weight/],
    command: 'python export.py OUT --version -1 --checkpoint FILE, in the folder of llama2.c',
  },
  {
    is: "weights in Meta's own format",
    name: /^consolidated.*\.(pth|safetensors)$/i,
    command:
      'python -m transformers.models.llama.convert_llama_weights_to_hf --input_dir FOLDER --output_dir OUT --num_shards 1 --llama_version 2, with transformers 4.47; a shard is a consolidated file',
  },
  {
    is: 'a model of llama2.c',
    name: /\.bin$/i,
    // Version 1 and 2 begin with "ak42"; version 0 with seven integers below 2^24: width, feed-forward, layers, heads ...
    signs: [/^(24ka[\x01\x02]\0{3}|([^]{3}\0){2}([^\0]\0{3}){3}[^]{4}[^]{3}\0)/],
    command:
      'llama-convert-llama2c-to-ggml --llama2c-model FILE --copy-vocab-from-model tokenizer.bin --llama2c-output-model OUT.gguf',
  },
  {
    is: 'a program of TorchScript, without the classes of its model',
    name: TORCH_FILE,
    signs: [/\/code\/__torch__/],
    command: `python -c "import torch; torch.save(torch.jit.load('FILE', 'cpu').state_dict(), 'pytorch_model.bin')", ${BESIDE}`,
  },
  {
    is: 'a file of llama.cpp from before GGUF',
    name: /\.bin$/i,
    // The words ggml, ggmf, ggjt and ggla, in little-endian order.
    signs: [/^(lmgg|fmgg|tjgg|algg)/],
    command:
      'python convert_llama_ggml_to_gguf.py --input FILE --output OUT.gguf, in the folder of llama.cpp',
  },
  ...NAMES.map(([is, name, command = ORIGINAL]) => ({ is, name, command })),
  ...CONFIGS.map(([is, config, command]) => ({ is, config, command })),
];

function fromFramework(name: string) {
  return `python -c "from transformers import AutoModelForCausalLM as M; M.from_pretrained('FOLDER', from_${name}=True).save_pretrained('OUT')", with transformers 4`;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;

/** Returns a test for a method, an algorithm or a format of quantization in a config. */
function quantizedAs(pattern: RegExp) {
  return ({ quantization_config: method }: Config) =>
    isRecord(method) &&
    ['quant_method', 'quant_algo', 'format'].some((key) => pattern.test(String(method[key] ?? '')));
}

/** Returns whether all texts are in the beginning of a file; false for a file that is not here. */
export async function hasSigns({ blob }: PlanFile, signs: readonly RegExp[]) {
  if (!blob) return false;
  const ends = [
    blob.slice(0, SIGN_BYTES),
    blob.slice(Math.max(blob.size - SIGN_BYTES, SIGN_BYTES)),
  ];
  const bytes = await new Blob(ends).arrayBuffer();
  const text = new TextDecoder('latin1').decode(bytes);
  return signs.every((sign) => sign.test(text));
}

function foreignError(id: string, { is, command }: Row, file?: string) {
  const actual = file === undefined ? is : `${file}, ${is}`;
  // A drop of files has no folder, and a shell would read other letters.
  const quote = (path: string | undefined, word: string) =>
    path && id !== FILES && /^[\w./~-]+$/.test(path) ? path : word;
  const readable = command
    .replaceAll('FILE', quote(file && `${id}/${file}`, 'FILE'))
    .replaceAll('FOLDER', quote(id, 'FOLDER'));
  const text = `expected a model that can be read, found ${actual}; this makes it readable: ${readable}`;
  return new SinkscopeError('unsupported', id, text);
}

/** @throws SinkscopeError 'unsupported' for weights that were not downloaded */
export const refusePointers = (id: string, files: readonly PlanFile[]) =>
  refuseForeignFiles(id, files, PLACEHOLDERS);

/** @throws SinkscopeError 'unsupported' for packed weights whose config does not say so, beside the settings that do */
export async function refuseSettings(
  id: string,
  files: readonly PlanFile[],
  [first]: readonly PlanFile[],
) {
  // Of a remote model only the names are known; a folder that was dequantized keeps the settings.
  if (!first?.blob || (await hasSigns(first, [/\.qweight/])))
    await refuseForeignFiles(id, files, SETTINGS);
}

/** Whether the name of a file alone may say what it is. */
export const isForeign = (name: string) => ROWS.some((row) => row.name?.test(name));

/** @throws SinkscopeError 'unsupported' for a file of another tool */
export async function refuseForeignFiles(id: string, files: readonly PlanFile[], rows = ROWS) {
  for (const row of rows)
    for (const file of files)
      if (row.name?.test(file.name) && (!row.signs || (await hasSigns(file, row.signs))))
        throw foreignError(id, row, file.name);
}

/** Families of transformers whose layers never attend. */
const WITHOUT_ATTENTION = /^(falcon_mamba|fnet|mamba2?|rwkv|xlstm)$/;

/** @throws SinkscopeError 'unsupported' for a model that another tool quantized, or that has no attention */
export function refuseForeignConfig(id: string, config: Config) {
  const type = String(config.model_type);
  if (WITHOUT_ATTENTION.test(type)) {
    const text = `expected a model with attention, found ${type}, which has none: there is nothing to measure or record`;
    throw new SinkscopeError('unsupported', id, text);
  }
  const row = ROWS.find((row) => row.config?.(config));
  if (row) throw foreignError(id, row);
}
