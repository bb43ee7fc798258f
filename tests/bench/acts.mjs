/**
 * Measures the cost of a reader's act relative to a whole run, and of reading a frame afterwards: processor time in one
 * thread.
 *
 *     node tests/bench/acts.mjs [MODEL FOLDER OR GGUF ...] [--tokens 64] [--rounds 9]
 *
 * Each round does every act once, and whole runs between them; a ratio is of medians. Without models: the softmax
 * model, and SmolLM2-135M where models/fetch/smollm2 has fetched it.
 */
import { existsSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { createEngine } from '../../wasm/index.ts';
import { median } from './peers/table.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    tokens: { type: 'string', default: '64' },
    rounds: { type: 'string', default: '9' },
  },
});
const root = new URL('../../', import.meta.url);
const smollm2 = 'models/.fetched/SmolLM2-135M-Instruct.Q4_1.gguf';
const defaultModels = [
  'models/zoo/softmax',
  ...(existsSync(new URL(smollm2, root)) ? [smollm2] : []),
];
const [T, rounds] = [Number(values.tokens), Number(values.rounds)];
const READS = ['alpha', 'alpha_uniform', 'sink_ratio', 'sink_ratio_raw', 'row_mass_summary'];
const reads = READS.map((metric) => ({ metric }));

function filesOf(name) {
  const url = new URL(name, root);
  if (name.endsWith('.gguf')) return { weights: readFileSync(url) };
  const file = (fileName) => readFileSync(new URL(`${fileName}`, new URL(`${name}/`, root)));
  return { config: file('config.json'), weights: file('model.safetensors') };
}

async function timeOf(act) {
  const startUsage = process.cpuUsage();
  const result = await act();
  const { user, system } = process.cpuUsage(startUsage);
  return { result, ms: (user + system) / 1000 };
}

/** Lists the acts of a reader. Each act prepares a run, which is not timed, and then acts on it. */
function actionsOf(model, text) {
  const { L } = model.architecture;
  const upper = Math.floor((3 * L) / 4);
  const middleLayer = Math.floor(L / 2);
  const otherId = (text[T - 1] + 1) % model.architecture.V;
  const capacity = T + 2;
  const runPlain = (ids) => model.run(ids, { capacity });
  const update = (before, after) => ({
    prepare: () => runPlain(before),
    act: async (run) => (await run.update(after), run),
  });
  const whatIf = (edit) => ({
    prepare: () => runPlain(text),
    act: (base) => model.run(text, { capacity, edits: [edit], from: { run: base } }),
  });
  const middle = [...text.slice(0, T / 2), otherId, ...text.slice(T / 2, T - 1)];
  const clamp = (value) => ({
    kind: 'clamp_channel',
    channel: 1,
    layer: middleLayer,
    to: 'value',
    value,
  });
  return {
    'whole run': { prepare: async () => undefined, act: () => runPlain(text) },
    'key at the end': update(text.slice(0, -1), text),
    'key taken away': update([...text, otherId], text),
    'key in the middle': update(text.slice(0, -1), middle),
    'next token': {
      prepare: () => runPlain(text.slice(0, -1)),
      act: async (run) => {
        for await (const _ of run.generate({ count: 1 }));
        return run;
      },
    },
    'hide key 1': whatIf({ kind: 'hide_key', key: 0 }),
    [`hide key 1 from layer ${middleLayer}`]: whatIf({
      kind: 'hide_key',
      key: 0,
      layer: middleLayer,
    }),
    [`ablate a head of layer ${upper}`]: whatIf({ kind: 'silence', layer: upper, head: 0 }),
    [`another operation in layer ${upper}`]: whatIf({
      kind: 'operation',
      operation: 'sigmoid',
      layer: upper,
    }),
    [`a step of the slider, behind ${middleLayer} layers`]: whatIf(clamp(3)),
    'evict to half of the keys': whatIf({ kind: 'evict', policy: 'h2o', budget: T / 2 }),
  };
}

const engine = await createEngine({ base: new URL('.build/wasm/', root), worker: false });
for (const name of positionals.length ? positionals : defaultModels) {
  const model = await engine.open(filesOf(name));
  const { V } = model.architecture;
  const text = Array.from({ length: T }, (_, i) => (i ? (i * i * 31 + i * 17) % V : 0));
  const actions = actionsOf(model, text);
  const times = new Map(Object.keys(actions).map((name) => [name, { run: [], read: [] }]));
  for (let round = 0; round <= rounds; round++)
    for (const [actionName, { prepare, act: perform }] of Object.entries(actions)) {
      const before = await prepare();
      const { result, ms } = await timeOf(() => perform(before));
      const { ms: readMs } = await timeOf(() => result.read(reads));
      for (const run of new Set([result, before])) await run?.close();
      // The first round is not counted: V8 still compiles and optimizes the functions.
      if (!round) continue;
      times.get(actionName).run.push(ms);
      times.get(actionName).read.push(readMs);
    }
  const wholeMs = median(times.get('whole run').run);
  console.log(`\n${name}, T = ${T}: ms of processor time; over a whole run; and reading a frame`);
  for (const [actionName, { run, read }] of times) {
    const [ms, ratio] = [median(run), median(run) / wholeMs];
    const cells = [ms.toFixed(1), ratio.toFixed(2), median(read).toFixed(1)];
    console.log(`${actionName.padEnd(44)}${cells.map((cell) => cell.padStart(9)).join('')}`);
  }
  await model.close();
}
await engine.close();
