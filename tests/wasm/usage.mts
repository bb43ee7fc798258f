// Uses every promise of the package once. The program is not run, but the type check reads it.
import {
  createEngine,
  filesOfDrop,
  findPlan,
  load,
  modelFiles,
  openTimeline,
  openTokenizer,
  planFiles,
  compareRecordings,
  measure,
  recordMaps,
  recordStudy,
  resolveHub,
  SinkscopeError,
  unmask,
  type Engine,
  type Model,
  type Plan,
  type Tensor,
} from '../../wasm/index.ts';
import { cacheBytes, cacheClear, cacheList, filesOfList, planText } from '../../wasm/internal.ts';

export async function explore(files: URL, text: string): Promise<Tensor> {
  const tokenizer = openTokenizer(await (await fetch(new URL('tokenizer.json', files))).text());
  const engine = await createEngine({ worker: true, base: '/wasm/' });
  const model = await engine.open(
    { config: new URL('config.json', files), weights: new URL('model.safetensors', files) },
    {
      onProgress: ({ stage, done, total }) => console.log(stage, done / total),
    },
  );
  const ids = tokenizer.encode(text, { special: ['<s>'] }).map(({ id }) => id);
  const run = await model.run(ids, {
    fields: ['att', 'hidden'],
    edits: [
      { kind: 'operation', operation: 'sink_logit', layer: 0 },
      { kind: 'mask', first: 1, recent: 8 },
    ],
    capacity: ids.length + 8,
    signal: AbortSignal.timeout(10_000),
  });
  try {
    for await (const step of run.generate({ count: 8, temperature: 0.8, topK: 40, seed: 7 })) {
      console.log(tokenizer.piece(step.token), step.att.shape);
    }
    const [map, sink] = await run.read([
      { field: 'att', layer: 0, head: 0 },
      { metric: 'sink_ratio', eps: 0.3, tokens: ids.length },
    ]);
    console.log(map.data[0], engine.describe.metrics.length, model.architecture.L);
    return sink;
  } catch (error) {
    if (error instanceof SinkscopeError) console.error(error.code, error.where, error.text);
    throw error;
  } finally {
    await engine.close();
  }
}

export async function fetchModel(engine: Engine, id: string, token: string): Promise<void> {
  const signal = AbortSignal.timeout(60_000);
  const found = await resolveHub(id, {
    endpoint: 'https://example.org',
    token,
    cache: true,
    signal,
  });
  const plan = found.choices[0]?.id ? await resolveHub(found.choices[0].id) : found;
  console.log(plan.bytes, plan.memory, plan.license ?? 'none stated', plan.refusal, plan.commit);
  const { tokenizer } = plan.files;
  if (tokenizer) openTokenizer(await planText(plan, tokenizer, { token, signal }));
  await engine.open(modelFiles(plan, { token, cache: true }), {
    signal,
    onProgress: ({ done, total, rate = NaN, remaining = NaN, note = '' }) =>
      console.log(done / total, rate, remaining, note),
  });
  console.log(await cacheBytes());
  for (const { id, bytes, total, complete } of await cacheList())
    console.log(id, bytes, total, complete);
  await cacheClear(plan.id);
}

export async function openDropped(drop: DataTransfer, input: HTMLInputElement): Promise<Plan[]> {
  return [
    ...(await planFiles(await filesOfDrop(drop))),
    ...(await planFiles(filesOfList(input.files ?? []))),
  ];
}

export async function walkTraining(engine: Engine, index: URL): Promise<number[]> {
  const signal = AbortSignal.timeout(60_000);
  const timeline = await openTimeline(index, { signal });
  const sinks = [];
  for (const { step, stored, bytes } of timeline.checkpoints) {
    await timeline.preload(step, { signal });
    const model = await engine.open(await timeline.open(step, { signal }));
    console.log(step, bytes, model.architecture.L, timeline.log[0]?.loss ?? NaN);
    sinks.push(stored.sink_1 ?? NaN);
    await model.close();
  }
  timeline.forget();
  return sinks;
}

export async function fillIn(model: Model, ids: number[], bos: number): Promise<number[]> {
  const { mask, mask_token } = model.architecture;
  if (mask.kind !== 'bidirectional' || mask_token === null) return ids;
  const steps = await unmask(model, [...ids, mask_token, mask_token], {
    steps: 2,
    never: [bos],
    edits: [],
    signal: AbortSignal.timeout(10_000),
    onStep: ({ filled, sink, alpha }, index) =>
      console.log(index, filled[0]?.probability, sink.place, alpha.shape),
  });
  return [...steps[steps.length - 1].tokens];
}

export async function keepAndCompare(
  engine: Engine,
  model: Model,
  ids: number[][],
): Promise<number> {
  const bytes = await recordStudy(model, ids, {
    keep: 1,
    eps: [0.1, 0.3],
    fields: ['att', 'v'],
    strings: (list) => list.map(String),
    model: { id: 'mine', revision: null },
    onProgress: ({ done }) => console.log(done),
  });
  const recording = await engine.openRecording(bytes, { signal: AbortSignal.timeout(10_000) });
  const { conditions, architecture, tensors } = recording;
  console.log(conditions.model.id, architecture.mask.kind, tensors.get('0.att')?.dtype);
  const mean = await recording.mean('sink_ratio', { eps: 0.1 });
  const map: Tensor = await recording.field('att', { layer: 0, head: 0, prompt: 0 });
  const run = await model.run(ids[0]);
  const other = await engine.openRecording(await run.record({ fields: ['att'] }));
  const { differences } = await compareRecordings(recording, other, { tolerance: 1e-3 });
  const own = recordMaps([{ att: { dims: [1, 1, 1, 1], data: [1] }, tokens: ['a'] }]);
  const { metrics } = await measure(await engine.openRecording(own));
  return mean.data[0] + map.data[0] + differences.length + (metrics.sink_ratio.mean[0] ?? NaN);
}

export async function readText(files: FileList, text: string): Promise<number | null> {
  const plan = await findPlan(files);
  const model = await load(plan, { cache: false });
  const { sink, map, layer, head } = await model.measure(text, {
    eps: 0.2,
    edits: ['hide_key(key=0)'],
  });
  console.log(sink, map.data[0], (await model.map(text, { layer, head })).tokens[0]);
  console.log(await model.generate(text, { count: 8, onText: (written) => console.log(written) }));
  const { change } = await model.ablate(text, { layer });
  await model.close();
  return change;
}
