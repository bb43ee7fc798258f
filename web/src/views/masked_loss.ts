/** Draws how much masked positions lose without the strongest key, in a masked model and a causal one. */
import { nothing } from 'lit';
import type { TaskScore, UnmaskConditions } from 'sinkscope';
import { isMasked, type Frame } from '../frame';
import { addElement, type View } from '../page/view';
import { drawChart } from '../plot/chart';
import type { MaskedLoss } from '../run/started';
import { labeledQuantity } from '../save/numbers';
import { formatNumber } from '../timeline/seeds';
import { formatPercent } from '../words';
import { createJobDraw, createJobParts } from './job';

/** The finished share of the work, and the result once the work is complete. */
type Measurement = { readonly share: number; readonly result?: MaskedLoss };

const results = new WeakMap<Frame['tokens'], Measurement>();

const CONDITIONS = [
  ['baseline', 'every key'],
  ['strongest', 'without the strongest key'],
  ['random', 'without a random key'],
] as const satisfies readonly (readonly [keyof UnmaskConditions, string])[];

const formatWithError = ({ mean, error }: TaskScore['change'], digits: number) =>
  formatNumber(mean, digits) + (error === null ? '' : ` ± ${formatNumber(error, digits)}`);

/** States the change of a loss, as unclear within twice its standard error, which one prompt does not have. */
function changeWords({ change }: TaskScore): string {
  const { mean, error } = change;
  if (error === null) return `changes by ${formatNumber(mean, 3)} on this prompt`;
  if (Math.abs(mean) > 2 * error)
    return `${mean < 0 ? 'falls' : 'rises'} by ${formatWithError({ mean: Math.abs(mean), error }, 3)}`;
  return `does not change clearly (${formatWithError(change, 3)})`;
}

function conditionWords({ strongest, random, alpha }: UnmaskConditions): string {
  return (
    `Without its strongest key, which receives ${formatPercent(alpha.mean)} of all attention, the loss ` +
    `${changeWords(strongest.loss)}; without a random other key it ${changeWords(random.loss)}.`
  );
}

function sentence(title: string, { result, causal }: MaskedLoss): string {
  const { predicted, prompts, steps, baseline } = result;
  const promptWords = `${prompts} prompt${prompts === 1 ? '' : 's'}`;
  const maskedWords =
    `${title}, ${predicted} masked tokens of ${promptWords}, filled in over ${steps} steps: loss ` +
    `${formatWithError(baseline.loss, 2)} nats. ${conditionWords(result)}`;
  if (!result.causal || !causal) return maskedWords;
  const causalWords = `${causal} predicts the same tokens from all tokens before each: loss`;
  return `${maskedWords} ${causalWords} ${formatWithError(result.causal.baseline.loss, 2)} nats. ${conditionWords(result.causal)}`;
}

function rowsOf(title: string, { result, causal }: MaskedLoss) {
  const model = { title, conditions: result as UnmaskConditions };
  return result.causal && causal ? [model, { title: causal, conditions: result.causal }] : [model];
}

export const maskedLoss: View = {
  name: 'masked',
  title: 'Loss at masked tokens',
  question: 'Does a masked model need its strongest key?',
  how:
    'Half of the tokens of each prompt are masked and filled in with those of the text, in the order of the model’s ' +
    'certainty. Height: how much the loss rises when every run hides its most attended key, or a random other one. ' +
    'Bars: standard error over prompts. A causal model trained on the same text, where there is one, predicts the same ' +
    'tokens from those before.',
  source: 'arXiv 2510.15731 reports that hiding this key costs diffusion models little',
  reads: ['alpha'],
  fits: isMasked,
  conditions: ({ title }) => ({
    class: 'counterfactual',
    title: `${title}, with and without a key`,
  }),
  numbers: (frame) => {
    const result = results.get(frame.tokens)?.result;
    if (!result) return [];
    return rowsOf('masked', result).flatMap(({ conditions }, i) => {
      const quantityOf = (name: string, value: (losses: UnmaskConditions['baseline']) => number) =>
        labeledQuantity(
          `${i ? 'causal' : 'masked'}_${name}`,
          'condition',
          CONDITIONS.map(([key, label]) => [label, value(conditions[key])]),
        );
      return [
        quantityOf('loss', ({ loss }) => loss.mean),
        quantityOf('change', ({ loss }) => loss.change.mean),
        quantityOf('error_of_change', ({ loss }) => loss.change.error ?? NaN),
        quantityOf('accuracy', ({ accuracy }) => accuracy.mean),
      ];
    });
  },
  says: (frame) => {
    const result = results.get(frame.tokens)?.result;
    return result ? sentence(frame.model.title, result) : '';
  },
  draw(root, api) {
    const { showJob } = createJobParts(root);
    const chart = addElement(root, 'plot');
    return createJobDraw(root, api, {
      results,
      settings: [],
      run: async (frame, _, signal, onResult) => {
        onResult({ share: 0 });
        const onShare = (share: number) => onResult({ share });
        const result = await api.measure('maskedLoss', { frame, signal }, { onShare });
        onResult({ share: 1, result });
      },
      draw(frame, options, job) {
        const measurement = results.get(frame.tokens);
        showJob(job, 'Measure', maskedLoss.says(frame, options.at), {
          progress: measurement ? formatPercent(measurement.share, 0) : nothing,
        });
        chart.hidden = !measurement?.result;
        if (!measurement?.result) return;
        const hiddenConditions = CONDITIONS.slice(1);
        const rows = rowsOf(frame.model.title, measurement.result).map(({ title, conditions }) => ({
          title,
          changes: hiddenConditions.map(([key]) => conditions[key].loss.change),
        }));
        const lowerEnds = rows.flatMap(({ changes }) =>
          changes.map(({ mean, error }) => mean - (error ?? 0)),
        );
        drawChart(chart, {
          kind: 'points',
          xLabel: '',
          xNames: hiddenConditions.map(([, name]) => name),
          yLabel: 'loss rises by, nats',
          domain: [Math.min(0, ...lowerEnds), 0.05],
          label: maskedLoss.says(frame, options.at),
          series: rows.map(({ title, changes }, i) => ({
            name: title,
            color: i ? '--query' : '--sink',
            values: changes.map(({ mean }) => mean),
            spread: changes.map(({ error }) => error ?? NaN),
          })),
        });
      },
    });
  },
};
