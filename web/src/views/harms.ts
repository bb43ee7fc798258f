/** What each of a few small changes costs: one that is meant, beside others of its kind. */
import { largest } from '../frame';
import { drawChart } from '../plot/chart';
import { quantity } from '../save/numbers';
import { costOf, isUnedited, settingName, signed } from './settings';
import { capital } from '../words';
import { part, say, type View } from './view';

export const harms: View = {
  name: 'harms',
  title: 'What each costs',
  question: 'Is it that one, or would any do as much?',
  how:
    'The first bar is the one that is meant; beside it stand others of its kind, drawn by the seed. ' +
    'Height: loss above the unedited run, mean over the prompts.',
  source: 'Sun et al. 2024, table 3; Yu et al. 2024 (super weights)',
  reads: ['loss_mean'],
  isGroup: true,
  isOfMany: true,
  numbers: ({ tensors }) => [quantity('loss_mean', [], { ...tensors.loss_mean!, shape: [] })],
  says: (frame) =>
    `${capital(settingName(frame))}: ${frame.tensors.loss_mean!.data[0]!.toFixed(3)} nats.`,
  draw(root) {
    const place = part(root, 'chart');
    const words = part(root, 'caption', 'p');
    return (frame, { group, frames }) => {
      const costs = (all: typeof frames) => {
        const whole = all.find(isUnedited);
        return all.flatMap((one) =>
          whole && one !== whole ? [{ name: settingName(one), ...costOf(one, whole) }] : [],
        );
      };
      const own = costs(group);
      const models = new Set(frames.map(({ model }) => model.id));
      const each = [...models].map((id) =>
        costs(frames.filter(({ model }) => model.id === id)).map((one) => one.mean),
      );
      const text = own.map(({ name, mean }, i) => `${i + 1}, ${name}: ${signed(mean)}`).join('; ');
      say(words, text);
      drawChart(place, {
        from: 1,
        kind: 'bars',
        xLabel: 'change',
        yLabel: 'loss above the unedited run, nats',
        reach: [Math.min(0, ...each.flat()), largest(each)],
        label: `${frame.model.title}. ${text}.`,
        series: [
          {
            name: 'the one that is meant, then others',
            color: '--sink',
            values: own.map(({ mean }) => mean),
          },
        ],
      });
    };
  },
};
