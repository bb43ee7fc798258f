/** Draws how much a perturbation raises the loss, next to random controls of the same kind. */
import { largestMagnitude, type Frame } from '../frame';
import { quantity } from '../save/numbers';
import {
  costOf,
  editFields,
  isUnedited,
  settingName,
  formatLossChange,
  SMALLEST_WORSE,
  WORSE_LABEL,
} from './settings';
import { capitalize } from '../words';
import type { View } from '../page/view';
import { createChartDraw } from './chart_draw';

/** Whether a setting is the perturbation itself, at all tokens, or a random one; its variants are in the table alone. */
const isBar = (setting: Frame): boolean =>
  !isUnedited(setting) && editFields(setting, 'clamp_channel')?.token === undefined;

/** Names the bars: the perturbation, and in their middle the random ones. */
function barNames([first, ...random]: readonly Frame[]): string[] {
  const middle = Math.floor((random.length - 1) / 2);
  return [
    first && editFields(first, 'project') ? 'tag' : 'largest',
    ...random.map((_, i) => (i === middle ? `${random.length} random` : '')),
  ];
}

function costsOf(settings: readonly Frame[]) {
  const baseline = settings.find(isUnedited);
  return settings.flatMap((setting) =>
    baseline && isBar(setting)
      ? [{ name: settingName(setting), ...costOf(setting, baseline) }]
      : [],
  );
}

export const perturbations: View = {
  name: 'perturbations',
  title: 'Loss by perturbation',
  question: 'Worse than random ones?',
  how:
    'The first bar is the perturbed channel, weight or tag; the last ones are random ones of the same kind (set by the seed). ' +
    'Height: loss above the baseline, mean over prompts.',
  source: 'Sun et al. 2024, table 3; Yu et al. 2024 (super weights)',
  reads: ['loss_mean'],
  drawsAllSettings: true,
  needsSeveralSettings: true,
  numbers: ({ tensors }) => [quantity('loss_mean', [], { ...tensors.loss_mean!, shape: [] })],
  says: (frame) =>
    `${capitalize(settingName(frame))}: ${frame.tensors.loss_mean!.data[0]!.toFixed(3)} nats.`,
  draw: createChartDraw(
    (_, { group }) =>
      costsOf(group)
        .map(({ name, mean }, i) => `${i + 1}, ${name}: ${formatLossChange(mean)}`)
        .join('; '),
    (frame, { group, frames, height, isPlain }, caption) => {
      const modelIds = new Set(frames.map(({ model }) => model.id));
      const costsByModel = [...modelIds].map((id) =>
        costsOf(frames.filter(({ model }) => model.id === id)).map((cost) => cost.mean),
      );
      return {
        from: 1,
        kind: 'bars',
        height,
        xLabel: '',
        xNames: ['', ...barNames(group.filter(isBar))],
        worse: isPlain,
        yLabel: isPlain ? WORSE_LABEL : 'loss above baseline, nats',
        domain: [
          Math.min(0, ...costsByModel.flat()),
          Math.max(SMALLEST_WORSE, largestMagnitude(costsByModel)),
        ],
        label: `${frame.model.title}. ${caption}.`,
        series: [
          {
            name: 'loss above baseline',
            color: '--sink',
            values: costsOf(group).map(({ mean }) => mean),
          },
        ],
      };
    },
  ),
};
