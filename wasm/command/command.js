/** The command line: what the page shows, for a script. */
import { openAsBlob } from 'node:fs';
import { readFile, readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { createEngine } from '../engine/client.js';
import { planFiles } from '../supply/disk.js';
import { SinkscopeError, expect } from '../border/errors.js';
import { resolveHub } from '../supply/hub.js';
import { cutText, measure } from '../study/measure.js';
import { modelFiles } from '../supply/plan.js';
import { planTokenizer } from '../text/plan_tokenizer.js';

const USAGE = `sinkscope measure MODEL --text-file FILE

Measures attention sinks (Gu et al., ICLR 2025) of a model over a text.

MODEL        a folder with config.json and weights, a .gguf file, or owner/name[@revision] on the hub
  --text-file FILE   UTF-8 text; cut into sequences one after the other
  --lines            each line is a text of its own, and its first tokens one sequence
  --tokens T         tokens of a sequence, special ones included (64)
  --sequences N      at most so many (100)
  --eps E            threshold of Sink_k (0.3)
  --special S        special tokens in front: auto (the tokenizer's own), none, or a token (auto)
  --json             everything measured, as JSON
  --kernels K        auto, simd or base (auto)
  --workers N        among how many the sequences are spread (the cores, at most 4)
  --endpoint URL     of the hub
  --cache            keep what is downloaded

An access token for the hub is read from the environment variable HF_TOKEN.
`;

const OPTIONS = /** @type {const} */ ({
  'text-file': { type: 'string' },
  lines: { type: 'boolean', default: false },
  tokens: { type: 'string', default: '64' },
  sequences: { type: 'string', default: '100' },
  eps: { type: 'string', default: '0.3' },
  special: { type: 'string', default: 'auto' },
  json: { type: 'boolean', default: false },
  kernels: { type: 'string', default: 'auto' },
  workers: { type: 'string' },
  endpoint: { type: 'string' },
  cache: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
});

/**
 * @param {string[]} args
 * @param {(text: string) => void} print
 */
async function main(args, print) {
  const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true });
  if (values.help || positionals.length === 0) return print(USAGE);
  const [command, name] = positionals;
  expect(command === 'measure', 'command', '"measure"', command);
  expect(positionals.length === 2, 'MODEL', 'one model', positionals.length - 1);
  expect(values['text-file'] !== undefined, '--text-file', 'a file', undefined);
  const wanted = {
    tokens: whole(values.tokens, '--tokens'),
    sequences: whole(values.sequences, '--sequences'),
    special: /** @type {any} */ (
      ['auto', 'none'].includes(values.special) ? values.special : [values.special]
    ),
    lines: values.lines,
  };
  const eps = Number(values.eps);
  expect(eps >= 0 && eps <= 1, '--eps', 'a number from 0 to 1', values.eps);
  const text = await readFile(/** @type {string} */ (values['text-file']), 'utf8');
  const hub = {
    token: process.env.HF_TOKEN || undefined,
    endpoint: values.endpoint,
    cache: values.cache,
  };
  const plan = await findModel(name, hub);
  const engine = await createEngine({
    kernels: /** @type {any} */ (values.kernels),
    ...(values.workers === undefined ? {} : { workers: whole(values.workers, '--workers') }),
  });
  try {
    const model = await engine.open(modelFiles(plan, hub));
    const tokenizer = await planTokenizer(plan, model, hub);
    const sequences = await cutText(tokenizer, text, wanted);
    tokenizer.close();
    const result = await measure(model, sequences, { eps });
    const first = sequences[0].slice(0, 1).map((id) => tokenizer.piece(id));
    const { architecture } = model;
    const whole = {
      model: name,
      class: 'measured',
      special: values.special,
      architecture,
      ...result,
    };
    print(values.json ? `${JSON.stringify(whole)}\n` : summary(whole, first[0]));
  } finally {
    await engine.close();
  }
}

/**
 * @param {string} text
 * @param {string} name
 */
function whole(text, name) {
  expect(/^[1-9]\d{0,8}$/.test(text), name, 'a whole number above 0', text);
  return Number(text);
}

/**
 * A path that is there is taken from the disk; all else is a name on the hub.
 * @param {string} name
 * @param {{ token?: string, endpoint?: string, cache: boolean }} hub
 */
async function findModel(name, hub) {
  const there = await stat(name).catch(() => undefined);
  if (!there) return resolveHub(name, hub);
  const paths = there.isDirectory()
    ? (await readdir(name, { withFileTypes: true }))
        .filter((entry) => entry.isFile())
        .map((entry) => entry.name)
    : [''];
  const files = await Promise.all(
    paths.map(async (path) => ({
      path: path || basename(name),
      file: await openAsBlob(join(name, path)),
    })),
  );
  const [plan, ...others] = await planFiles(files);
  if (others.length === 0) return plan;
  const ids = [plan, ...others].map(({ id }) => id).join(', ');
  throw new SinkscopeError('argument', name, `expected one model, found ${ids}; name a file`);
}

/**
 * @param {any} result
 * @param {string} first token of the sequences
 */
function summary({ model, architecture, eps, T, sequences, special, metrics }, first) {
  const { L, H, family } = architecture;
  const percent = (/** @type {any} */ x) => (x === null ? '-' : `${(100 * x).toFixed(2)} %`);
  const fixed = (/** @type {any} */ x) => (x === null ? '-' : x.toFixed(3));
  const { sink_ratio: sink, sink_ratio_raw: raw, alpha } = metrics;
  const firsts = Array.from({ length: L * H }, (_, i) => alpha.mean[i * T]);
  const strongest = firsts.indexOf(Math.max(...firsts));
  const where = `layer ${Math.floor(strongest / H) + 1}, head ${(strongest % H) + 1}`;
  const k = sink.mean.indexOf(Math.max(...sink.mean));
  const spread = sink.deviation[0] === null ? '' : ` (deviation ${percent(sink.deviation[0])})`;
  return `${model}: ${family}, ${L} layers, ${H} heads
measured over ${sequences} sequences of ${T} tokens, eps ${eps}, special tokens ${special}, first token ${JSON.stringify(first)}
Sink_1            ${percent(sink.mean[0])}${spread}
Sink_1, raw       ${percent(raw.mean[0])}
largest Sink_k    ${percent(sink.mean[k])} at k = ${k + 1}
largest alpha_1   ${fixed(firsts[strongest])} (${where})
hidden norm of token 1 over the others', by layer   ${metrics.hidden_ratio.mean.map(fixed).join(' ')}
loss              ${fixed(metrics.loss_mean.mean[0])} nats per token
`;
}

/**
 * Runs the command line; what goes wrong is printed, and tells in the exit code.
 * @param {string[]} args
 */
export async function runCommand(args) {
  try {
    await main(args, (text) => process.stdout.write(text));
  } catch (error) {
    const known =
      error instanceof SinkscopeError ||
      /** @type {any} */ (error)?.code?.startsWith?.('ERR_PARSE');
    process.stderr.write(
      `sinkscope: ${known ? /** @type {Error} */ (error).message : String(error)}\n`,
    );
    process.exitCode = 1;
  }
}
