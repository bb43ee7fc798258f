/** Measures how much each head contributes: the rise of the loss without it. */
import { check, checkList, checkOptions, JOB_OPTIONS } from '../abi/arguments.ts';
import { commonLength, meansOf, addUp, type Sums } from './measure.ts';
import { spread } from './spread.ts';
import { expectHead } from '../abi/head.ts';
import { layerNumber } from '../abi/layers.ts';
import type { Describe, Options } from '../abi/types.ts';
import type { Replica, Edit } from '../engine/types.ts';
import type { StudyModel, MeasureOptions, MetricMean } from './types.ts';

/**
 * Measures the contribution of each head, [L, H]: the rise of the mean loss over sequences with the
 * head silenced. Each sequence runs once; for each head only its layer and those above are computed
 * again.
 * @example const { mean } = await headEffects(model, sequences); // mean[layer * H + head]
 */
export async function headEffects(
  model: StudyModel,
  sequences: readonly (readonly number[])[],
  options: Options & Pick<MeasureOptions, 'edits'> = {},
): Promise<MetricMean> {
  check(model, 'model', 'model');
  checkList(sequences, 'list', 'sequences');
  checkOptions(options, JOB_OPTIONS);
  const { edits = [], signal, onProgress } = options;
  checkList(edits, 'object', 'edits');
  expectHead(model.architecture);
  const { L, H } = model.architecture;
  const T = commonLength(sequences);
  const total = sequences.length * L * H;
  let count = 0;
  const sums: Sums = new Map();
  // With few sequences, several workers take some heads each of the same sequence. Every worker
  // gets low and high layers, because low layers cost most.
  const workersPerSequence = Math.ceil((model.replicas ?? [model]).length / sequences.length);
  const items = sequences.flatMap((ids) =>
    Array.from({ length: workersPerSequence }, (_, offset) => ({ ids, offset })),
  );
  const measureHeads = async (replica: Replica, { ids, offset }: (typeof items)[number]) => {
    const sharedOptions = { capacity: T, signal };
    const fields = baseFields(model, edits);
    const base = await replica.run(ids, { ...sharedOptions, edits, fields });
    const data = new Float32Array(L * H);
    try {
      for (let i = offset; i < L * H; i += workersPerSequence) {
        const [layer, head] = [layerNumber(model.architecture, Math.floor(i / H)), i % H];
        const run = await replica.run(ids, {
          ...sharedOptions,
          edits: [...edits, { kind: 'silence', layer, head }],
          fields: ['loss'],
          from: { run: base, layer },
        });
        const change = run.metric('loss_change', { base }).finally(() => run.close());
        data[i] = (await change).data[0];
        onProgress?.({ stage: 'measure', done: ++count, total });
      }
    } finally {
      await base.close();
    }
    return { shape: [L, H], data };
  };
  // In the tensor of one worker, the heads of the other workers are 0 and add nothing.
  for await (const effect of spread(model, items, measureHeads, { signal }))
    addUp(sums, 'effect', effect);
  return meansOf(sums, sequences.length).effect;
}

function baseFields({ describe }: { describe: Describe }, edits: readonly Edit[]) {
  const rows = describe.edits.filter(({ name }) => edits.some(({ kind }) => kind === name));
  return ['hidden', 'loss', ...rows.flatMap(({ fields }) => fields)];
}
