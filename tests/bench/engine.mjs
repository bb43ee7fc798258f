/** Measurements of the engine in Node.js, in one thread where none is named. */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { createEngine, labConfig, measure } from '../../wasm/index.ts';

const baseOf = (folder) => pathToFileURL(`${resolve(folder)}/`);

/** @param {string} name a folder with config.json and model.safetensors, or a GGUF file */
const filesOf = (name) =>
  name.endsWith('.gguf')
    ? { weights: readFileSync(name) }
    : {
        config: readFileSync(join(name, 'config.json')),
        weights: readFileSync(join(name, 'model.safetensors')),
      };

const textOf = (T, V, seed = 0) =>
  Array.from({ length: T }, (_, i) => (i ? (seed * 7919 + i * i * 31 + i * 17) % V : 0));

/** What a frame of the page reads after each run. */
const READS = ['alpha', 'alpha_uniform', 'sink_ratio', 'sink_ratio_raw', 'row_mass_summary'];

/** Acts of a reader: each prepares runs, which are not timed, and then acts on them. */
function actsOf(model, T) {
  const { L, V } = model.architecture;
  const text = textOf(T, V);
  const [upper, half, capacity] = [Math.floor((3 * L) / 4), Math.floor(L / 2), T + 2];
  const otherId = (text[T - 1] + 1) % V;
  const plain = (ids) => model.run(ids, { capacity });
  const update = (before, after) => [() => plain(before), (run) => run.update(after)];
  const edited = (edit) => [
    () => plain(text),
    (base) => model.run(text, { capacity, edits: [edit], from: { run: base } }),
  ];
  const generate = async (run) => {
    for await (const _ of run.generate({ count: 1 }));
  };
  const clamp = { kind: 'clamp_channel', channel: 1, layer: half, to: 'value', value: 3 };
  return {
    'whole run': [async () => undefined, () => plain(text)],
    'key at the end': update(text.slice(0, -1), text),
    'key taken away': update([...text, otherId], text),
    'key in the middle': update(text, [...text.slice(0, T / 2), otherId, ...text.slice(T / 2, -1)]),
    'next token': [() => plain(text.slice(0, -1)), generate],
    'hide key 1': edited({ kind: 'hide_key', key: 0 }),
    [`ablate a head of layer ${upper}`]: edited({ kind: 'silence', layer: upper, head: 0 }),
    [`another operation in layer ${upper}`]: edited({
      ...{ kind: 'operation', operation: 'sigmoid', layer: upper },
    }),
    [`clamp a channel after ${half} layers`]: edited(clamp),
    'evict to half of the keys': edited({ kind: 'evict', policy: 'h2o', budget: T / 2 }),
  };
}

export async function* acts({ model: name, binaries }) {
  const T = 64;
  for (const folder of binaries) {
    const engine = await createEngine({ base: baseOf(folder), worker: false });
    const model = await engine.open(filesOf(name));
    const open = [];
    const closeOpen = () => Promise.all(open.splice(0).map((run) => run.close()));
    const subjects = Object.entries(actsOf(model, T)).map(([act, [prepare, work]]) => ({
      name: act,
      async prepare() {
        await closeOpen();
        const run = await prepare();
        if (run) open.push(run);
        return run;
      },
      async work(before) {
        const after = await work(before);
        if (after?.close && after !== before) open.push(after);
      },
    }));
    yield { title: `${folder}, ${name}, T = ${T}`, subjects };
    await closeOpen();
    const run = await model.run(textOf(T, model.architecture.V));
    const read = () => run.read(READS.map((metric) => ({ metric }))).then(() => undefined);
    yield { title: 'reading a frame', subjects: [{ name: 'reads', work: read }] };
    await engine.close();
  }
}

export async function* study({ model: name, binaries }) {
  const pools = [];
  for (const folder of binaries)
    for (const workers of [1, 2]) {
      const engine = await createEngine({ base: baseOf(folder), workers });
      const title = `${folder}, ${workers} worker${workers > 1 ? 's' : ''}`;
      pools.push({ name: title, engine, model: await engine.open(filesOf(name)) });
    }
  const { V } = pools[0].model.architecture;
  const sequences = Array.from({ length: 100 }, (_, s) => textOf(64, V, s));
  const subjectsWith = (metrics) =>
    pools.map(({ name: pool, model }) => ({
      name: pool,
      async work() {
        const start = performance.now();
        await measure(model, sequences, { metrics });
        return (performance.now() - start) / sequences.length;
      },
    }));
  yield { title: `${name}, the summary`, subjects: subjectsWith(undefined) };
  const three = ['sink_ratio', 'entropy_mean', 'loss_mean'];
  yield { title: `${name}, three metrics`, subjects: subjectsWith(three) };
  await Promise.all(pools.map(({ engine }) => engine.close()));
}

const ZOO = {
  ...{ layers: 6, heads: 4, width: 128, inner: 344, vocabulary: 1024, context: 128 },
  ...{ positions: 'rotary', norm: 'rms', feed_forward: 'gated', activation: 'silu' },
};

export async function* training({ binaries }) {
  const text = Int32Array.from({ length: 5000 }, (_, i) => (i * 7919) % 1000);
  const engine = await createEngine({ base: baseOf(binaries[0]), lab: true, worker: false });
  const subjects = [];
  for (const [name, choices, recipe] of [
    ['the lab, one layer of 64, 32 x 32 tokens', {}, { batch: 32, length: 32 }],
    ['the zoo, six of 128, 16 x 128 tokens', ZOO, { batch: 16, length: 128, task: 'text' }],
  ]) {
    const run = await engine.train({ config: labConfig(choices), recipe, text });
    subjects.push({ name, work: async () => void (await run.step(1)) });
  }
  yield { title: 'a step of training', subjects };
  await engine.close();
}
