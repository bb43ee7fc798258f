/**
 * Compares how much the loss at masked positions rises without the strongest key in a masked model and in a causal
 * model.
 */
import { nothing } from 'lit';
import type { TaskScore, UnmaskConditions } from 'sinkscope';
import { isMasked, type Frame } from '../frame';
import { addElement, type DrawOptions, type View } from '../page/view';
import { drawChart } from '../plot/chart';
import type { MaskedLoss } from '../run/started';
import { labeled } from '../save/numbers';
import { fixed } from '../timeline/seeds';
import { percent } from '../words';
import { createJob, jobParts, type Job } from './job';

/** The result, once complete, and the finished share of the work. */
interface Measured {
  readonly share: number;
  readonly whole?: MaskedLoss;
}

/** The last measurement of a frame's model and prompts. */
const results = new WeakMap<Frame['tokens'], Measured>();

const CONDITIONS = [
  ['baseline', 'every key'],
  ['strongest', 'without the strongest key'],
  ['random', 'without a random key'],
] as const satisfies readonly (readonly [keyof UnmaskConditions, string])[];

const withError = ({ mean, error }: TaskScore['change'], digits: number) =>
  fixed(mean, digits) + (error === null ? '' : ` ± ${fixed(error, digits)}`);

/** States the change of a loss, and whether it exceeds twice its standard error, if there are several prompts. */
function changeWords({ change }: TaskScore): string {
  const { mean, error } = change;
  if (error === null) return `changes by ${fixed(mean, 3)} on this prompt`;
  if (Math.abs(mean) > 2 * error)
    return `${mean < 0 ? 'falls' : 'rises'} by ${withError({ mean: Math.abs(mean), error }, 3)}`;
  return `does not change clearly (${withError(change, 3)})`;
}

function changes({ strongest, random, alpha }: UnmaskConditions): string {
  return (
    `Without its strongest key, which receives ${percent(alpha.mean)} of all attention, the loss ` +
    `${changeWords(strongest.loss)}; without a random other key it ${changeWords(random.loss)}.`
  );
}

function sentence(title: string, { found, causal }: MaskedLoss): string {
  const { predicted, prompts, steps, baseline } = found;
  const texts = `${prompts} prompt${prompts === 1 ? '' : 's'}`;
  const maskedRows =
    `${title}, ${predicted} masked tokens of ${texts}, filled in over ${steps} steps: loss ` +
    `${withError(baseline.loss, 2)} nats. ${changes(found)}`;
  if (!found.causal || !causal) return maskedRows;
  const theirs = `${causal} predicts the same tokens from all tokens before each: loss`;
  return `${maskedRows} ${theirs} ${withError(found.causal.baseline.loss, 2)} nats. ${changes(found.causal)}`;
}

/** Returns a row for each model and condition. */
function rowsOf(title: string, { found, causal }: MaskedLoss) {
  const model = { title, of: found as UnmaskConditions };
  return found.causal && causal ? [model, { title: causal, of: found.causal }] : [model];
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
    const result = results.get(frame.tokens)?.whole;
    if (!result) return [];
    return rowsOf('masked', result).flatMap(({ of }, i) => {
      const row = (
        name: string,
        value: (of: UnmaskConditions[(typeof CONDITIONS)[number][0]]) => number,
      ) =>
        labeled(
          `${i ? 'causal' : 'masked'}_${name}`,
          'condition',
          CONDITIONS.map(([key, label]) => [label, value(of[key])]),
        );
      return [
        row('loss', ({ loss }) => loss.mean),
        row('change', ({ loss }) => loss.change.mean),
        row('error_of_change', ({ loss }) => loss.change.error ?? NaN),
        row('accuracy', ({ accuracy }) => accuracy.mean),
      ];
    });
  },
  says: (frame) => {
    const result = results.get(frame.tokens)?.whole;
    return result ? sentence(frame.model.title, result) : '';
  },
  draw(root, api) {
    const { showJob } = jobParts(root);
    const picture = addElement(root, 'plot');
    const draw = (frame: Frame, options: DrawOptions, job: Job) => {
      const result = results.get(frame.tokens);
      showJob(job, 'Measure', maskedLoss.says(frame, options.at), {
        progress: result ? percent(result.share, 0) : nothing,
      });
      picture.hidden = !result?.whole;
      if (!result?.whole) return;
      const rows = rowsOf(frame.model.title, result.whole);
      const shown = CONDITIONS.slice(1);
      const ends = rows.flatMap(({ of }) =>
        shown.map(([key]) => of[key].loss.change.mean - (of[key].loss.change.error ?? 0)),
      );
      drawChart(picture, {
        kind: 'points',
        xLabel: '',
        xNames: shown.map(([, name]) => name),
        yLabel: 'loss rises by, nats',
        domain: [Math.min(0, ...ends), 0.05],
        label: maskedLoss.says(frame, options.at),
        series: rows.map(({ title, of }, i) => ({
          name: title,
          color: i ? '--query' : '--sink',
          values: shown.map(([key]) => of[key].loss.change.mean),
          spread: shown.map(([key]) => of[key].loss.change.error ?? NaN),
        })),
      });
    };
    return createJob(root, api, {
      made: results,
      settings: [],
      run: async (frame, _, signal, onMade) => {
        onMade({ share: 0 });
        const onShare = (share: number) => onMade({ share });
        const result = await api.measure('maskedLoss', { frame, signal }, { onShare });
        onMade({ share: 1, whole: result });
      },
      draw,
    });
  },
};
