/** What each head is good for: how much worse the tokens are predicted without it. */
import { check, checkList, checkOptions, JOB } from '../border/arguments.js';
import { lengthOf, meansOf, addUp } from './measure.js';
import { spread } from './spread.js';

/** @typedef {import('../sinkscope.js').Lane} Lane */

/** @type {typeof import('../sinkscope.js').headEffects} */
export async function headEffects(model, sequences, options = {}) {
  check(model, 'model', 'model');
  checkList(sequences, 'list', 'sequences');
  checkOptions(options, JOB);
  const { edits = [], signal, onProgress } = options;
  checkList(edits, 'object', 'edits');
  const { L, H } = model.architecture;
  const T = lengthOf(sequences);
  const total = sequences.length * L * H;
  let done = 0;
  /** @type {import('./measure.js').Sums} */
  const sums = new Map();
  const look = async (/** @type {Lane} */ lane, /** @type {readonly number[]} */ ids) => {
    const shared = { capacity: T, signal };
    const base = await lane.run(ids, { ...shared, edits, fields: kept(model, edits) });
    const data = new Float32Array(L * H);
    try {
      for (let i = 0; i < L * H; i++) {
        const [layer, head] = [Math.floor(i / H), i % H];
        const silent = [...edits, { kind: 'silence', layer, head }];
        const from = { run: base, layer };
        const run = await lane.run(ids, { ...shared, edits: silent, fields: ['loss'], from });
        const change = run.metric('loss_change', { base }).finally(() => run.close());
        data[i] = (await change).data[0];
        onProgress?.({ stage: 'measure', done: ++done, total });
      }
    } finally {
      await base.close();
    }
    return { shape: [L, H], data };
  };
  for await (const effect of spread(model, sequences, look, { signal })) {
    addUp(sums, 'effect', effect);
  }
  return meansOf(sums, sequences.length).effect;
}

/**
 * What a run must record that others begin from: the stream, and what the edits themselves record.
 * @param {{ describe: import('../sinkscope.js').Describe }} model
 * @param {readonly import('../sinkscope.js').Edit[]} edits
 */
function kept({ describe }, edits) {
  const rows = describe.edits.filter(({ name }) => edits.some(({ kind }) => kind === name));
  return ['hidden', 'loss', ...rows.flatMap(({ fields }) => fields)];
}
