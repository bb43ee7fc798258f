/**
 * Counts the seeds in which a sink emerges: trains each recipe from the seeds 1 to 10 and prints the
 * means over the last 20 steps as a table.
 *
 *     tests/node tests/bench/lab.mjs [--seeds N] [--steps N] RECIPE...
 *
 * A recipe is what a link to the lab writes: operation:softmax,learning_rate:0.005; `-` is the default.
 */
import { parseArgs } from 'node:util';
import { createEngine, labConfig } from '../../wasm/index.ts';
import { LAB_MODEL } from '../../wasm/internal.ts';

const { values, positionals } = parseArgs({
  options: { seeds: { type: 'string' }, steps: { type: 'string' } },
  allowPositionals: true,
});
const seeds = Number(values.seeds ?? 10);
const steps = Number(values.steps ?? 350);
const LAST_ENTRIES = 20;
const COLUMNS = ['first_elsewhere', 'first_triggers', 'value_ratio', 'hidden_ratio'];

function read(text) {
  const settings = Object.fromEntries(
    text
      .split(',')
      .filter((word) => word.includes(':'))
      .map((word) => word.split(':'))
      .map(([name, value]) => [name, Number.isNaN(Number(value)) ? value : Number(value)]),
  );
  const { first, width = LAB_MODEL.width, length = LAB_MODEL.context } = settings;
  const choices = { ...settings, width, inner: 4 * width, context: length };
  const isModel = ([name]) => name in LAB_MODEL;
  const recipe = Object.entries(settings).filter(
    (entry) => !isModel(entry) && entry[0] !== 'first',
  );
  return {
    config: labConfig(Object.fromEntries(Object.entries(choices).filter(isModel))),
    recipe: { ...Object.fromEntries(recipe), ...(first === 'any' ? { first: -1 } : {}) },
  };
}

/** Returns the step from which on a running mean of first_elsewhere stays above 0.3; NaN if there is none. */
function emergenceStep(log) {
  let since = NaN;
  log.forEach(({ step }, i) => {
    const piece = log.slice(Math.max(0, i + 1 - LAST_ENTRIES), i + 1);
    const mean = piece.reduce((sum, entry) => sum + entry.first_elsewhere, 0) / piece.length;
    since = mean > 0.3 ? (Number.isNaN(since) ? step : since) : NaN;
  });
  return since;
}

async function train(engine, { config, recipe }, seed) {
  const training = await engine.train({ config, recipe: { ...recipe, seed } });
  const log = await training.step(steps);
  const last = log.slice(-LAST_ENTRIES);
  await training.close();
  const mean = (pick) => last.reduce((sum, entry) => sum + pick(entry), 0) / last.length;
  const excessLoss = (place) =>
    mean((entry) => entry[`loss_${place}`] - (entry[`optimum_${place}`] ?? NaN));
  return [
    ...COLUMNS.map((name) => mean((entry) => entry[name])),
    excessLoss('triggers'),
    excessLoss('elsewhere'),
    emergenceStep(log),
  ];
}

const engine = await createEngine({ lab: true, worker: false });
const fixed = (x) => x.toFixed(3).padStart(7);
for (const text of positionals) {
  const rows = [];
  console.log(`\n${text}: means of the last ${LAST_ENTRIES} of ${steps} steps`);
  console.log(
    ['seed', ...COLUMNS, 'above optimum: triggers', 'elsewhere', 'over .3 since'].join('  '),
  );
  for (let seed = 1; seed <= seeds; seed++) {
    const row = await train(engine, read(text), seed);
    rows.push(row);
    console.log([String(seed).padStart(4), ...row.map(fixed)].join('  '));
  }
  const mean = rows[0].map((_, i) => rows.reduce((sum, row) => sum + row[i], 0) / seeds);
  console.log(['mean', ...mean.map(fixed)].join('  '));
  const parkedHeads = rows.filter(([first, , value]) => first > 0.3 && value < 0.4).length;
  const sinkHeads = rows.filter(([first]) => first > 0.3).length;
  console.log(
    `above .3: ${sinkHeads} of ${seeds}, and value ratio below .4: ${parkedHeads} of ${seeds}`,
  );
}
await engine.close();
