/**
 * Measures the deviations of each family from Hugging Face transformers, on the goldens in tests/golden/hf-*
 * (safetensors) and gguf-*, and names the tokenizer's golden in tests/golden/tokenizers whose split pattern the family's
 * published models have.
 *
 *     cmake --build .build/native --target test_golden && node tests/bench/families.mjs
 *
 * Prints the largest absolute deviation of attention weights and of logits over the goldens of a family, as Markdown.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));
const program = join(root, '.build/native/test_golden');
if (!existsSync(program))
  throw new Error(`${program}: expected the test; the head of this file has the command`);

/** For each tokenizer of tests/golden/tokenizers, the families whose published models split texts in the same way. */
const TOKENIZERS = {
  gpt2: 'gpt2 gpt_neo gptj codegen phi exaone4',
  smollm2: 'gpt_bigcode starcoder2 granite granitemoe granite_swa cohere cohere2',
  opt: 'opt',
  gptneox: 'gpt_neox mpt olmo olmoe',
  bert: 'bert',
  bloom: 'bloom',
  falcon: 'falcon',
  sentencepiece: 'llama mistral mixtral phi3 phimoe ernie4_5 helium nemotron',
  gemma: 'gemma2 gemma3 gemma3_text gemma4_text',
  llama3: 'smollm3 lfm2 falcon_h1',
  dbrx: 'olmo2 olmo3 glm4 glm',
  qwen2: 'qwen2 qwen2_moe qwen3 qwen3_moe qwen3_next dots1 mimo_v2_flash hunyuan_v1_moe stablelm',
  qwen35: 'qwen3_5 qwen3_5_text',
  tekken: 'apertus',
  'gpt-4o': 'gpt_oss',
  'deepseek-v3': 'deepseek_v2 deepseek_v3 hunyuan_v1_dense',
  'seed-coder': 'seed_oss',
};
const tokenizerOf = (family) =>
  Object.entries(TOKENIZERS).find(([, list]) => list.split(' ').includes(family))?.[0] ?? '';

const { stdout, status } = spawnSync(program, { encoding: 'utf8', maxBuffer: 1 << 28 });
if (status) throw new Error(`test_golden: expected status 0, got ${status}`);

/** By family and format: the number of goldens and the largest deviations. */
const rows = new Map();
for (const [, name, text] of stdout.matchAll(/^- ((?:hf|gguf)-\S+)\n((?: {2}.*\n)*)/gm)) {
  const { family } = JSON.parse(
    readFileSync(join(root, 'tests/golden', name, 'golden.json'), 'utf8'),
  );
  const row = rows.get(family) ?? {};
  rows.set(family, row);
  const format = name.startsWith('gguf') ? 'gguf' : 'safetensors';
  const cell = (row[format] ??= { count: 0, att: 0, logits: 0 });
  cell.count++;
  for (const [, field, difference] of text.matchAll(/^ {2}(att|logits) +off by (\S+)/gm))
    cell[field] = Math.max(cell[field], Number(difference));
}

const words = (cell) =>
  cell ? [cell.count, cell.att.toExponential(1), cell.logits.toExponential(1)] : ['', '', ''];
console.log('| family | safetensors | maps | logits | GGUF | maps | logits | tokenizer |');
console.log('|---|---|---|---|---|---|---|---|');
for (const [family, { safetensors, gguf }] of [...rows].sort(([a], [b]) => (a < b ? -1 : 1)))
  console.log(
    `| ${[family, ...words(safetensors), ...words(gguf), tokenizerOf(family)].join(' | ')} |`,
  );
