/** Draws how much an edit raises the loss, as a function of its budget or its bits. */
import { render } from 'lit';
import { segmented } from '../page/controls';
import { deviation, mean, type Frame } from '../frame';
import { drawChart, type Series } from '../plot/chart';
import { quantity } from '../save/numbers';
import { costOf, givenOf, isUnedited, labelsIn, settingName, type Cost } from './settings';
import { addElement, setText, type View } from '../page/view';

/** The edits with a sweep, each with the parameter that varies. */
const AXES = [
  { kind: 'evict', parameter: 'budget', label: 'keys kept' },
  { kind: 'quantize', parameter: 'bits', label: 'bits' },
] as const;

interface Measure {
  readonly name: string;
  readonly short: string;
  readonly label: string;
  readonly percent?: boolean;
  readonly of: (frame: Frame, whole: Frame | undefined) => Cost | undefined;
}

/** Returns the quantity of a metric with one number, by prompt if available. */
function plain(name: string) {
  return (frame: Frame): Cost | undefined => {
    const tensor = frame.tensors[name];
    if (!tensor) return undefined;
    const promptValues = frame.perPrompt[name] ?? [];
    return { mean: tensor.data[0]!, deviation: frame.spread[name]?.[0] ?? deviation(promptValues) };
  };
}

/** Returns the mean of |x' − x| / |x| of the rounded numbers x' over the layers with such numbers. */
export function errorOf({ tensors: { quantize_error, weight_error } }: Frame): number {
  const errors = Array.from((quantize_error ?? weight_error)?.data ?? []).filter(Number.isFinite);
  return errors.length ? mean(errors) : NaN;
}

/** The quantities that can be drawn. */
export const MEASURES: readonly Measure[] = [
  {
    name: 'loss',
    short: 'Loss',
    label: 'loss above baseline, nats',
    of: (frame, whole) => whole && costOf(frame, whole),
  },
  { name: 'kl', short: 'KL', label: 'KL to the baseline, nats', of: plain('kl_mean') },
  { name: 'sink', short: 'Sink₁', label: 'Sink₁', percent: true, of: plain('sink_ratio') },
  {
    name: 'kept',
    short: 'First token',
    label: 'heads that keep the first token',
    percent: true,
    of: ({ tensors }) =>
      tensors.keeps_first && { mean: mean(tensors.keeps_first.data), deviation: NaN },
  },
  {
    name: 'error',
    short: 'Error',
    label: 'rounding error',
    percent: true,
    of: (frame) => {
      const error = errorOf(frame);
      return Number.isFinite(error) ? { mean: error, deviation: NaN } : undefined;
    },
  },
  {
    name: 'change',
    short: 'Change of h',
    label: 'relative change of h',
    percent: true,
    of: ({ tensors }) =>
      tensors.hidden_change && { mean: mean(tensors.hidden_change.data), deviation: NaN },
  },
];

function axisOf(frame: Frame): { at: number; axis: (typeof AXES)[number] } | undefined {
  for (const axis of AXES) {
    const at = Number(givenOf(frame, axis.kind)?.[axis.parameter]);
    if (Number.isFinite(at)) return { at, axis };
  }
  return undefined;
}

/** Returns the words that all settings of a line share. */
function lineName(frame: Frame): string {
  const { at, axis } = axisOf(frame)!;
  if (axis.kind === 'evict') return labelsIn(frame, 'evict').policy!;
  return settingName(frame).replace(`${at} bits `, '');
}

const NUMBERS = [
  'loss_mean',
  'kl_mean',
  'sink_ratio',
  'keeps_first',
  'quantize_error',
  'weight_error',
  'hidden_change',
];

export const sweep: View = {
  name: 'sweep',
  title: 'Loss by setting',
  question: 'How much does each setting change the loss?',
  how:
    'Each point is a setting, averaged over prompts; bars are standard deviations over prompts. 0 is the baseline ' +
    'on the same prompts. KL measures how much all predictions change, for better or worse.',
  source:
    'Xiao et al. 2024; Zhang et al. 2023 (H2O); Oren et al. 2024 (TOVA); Liu et al. 2024 (IntactKV)',
  reads: ['loss_mean'],
  drawsAllSettings: true,
  needsSeveralSettings: true,
  numbers: (frame) =>
    NUMBERS.flatMap((name) => {
      const tensor = frame.tensors[name];
      return tensor
        ? [
            quantity(
              name,
              tensor.shape.map((_, i) => `axis ${i + 1}`),
              tensor,
            ),
          ]
        : [];
    }),
  says: (frame) => `Loss of ${frame.title}: ${frame.tensors.loss_mean!.data[0]!.toFixed(3)} nats.`,
  draw(root, { set }) {
    const kinds = addElement(root, '');
    const place = addElement(root, 'chart');
    const words = addElement(root, 'caption', 'p');
    return (frame, { group, frames, state }) => {
      const baseline = group.find(isUnedited);
      const points = group.flatMap((one) => {
        const axis = axisOf(one);
        return axis ? [{ one, ...axis }] : [];
      });
      const available = MEASURES.filter(({ of }) => points.some(({ one }) => of(one, baseline)));
      const measure =
        available.find(({ name }) => name === state.measure) ?? available[0] ?? MEASURES[0]!;
      render(
        segmented(
          'Quantity',
          available.map(({ name, short, label }) => [name, short, label] as const),
          measure.name,
          (name) => set({ measure: name }),
          true,
        ),
        kinds,
      );
      const lines = new Map<string, typeof points>();
      for (const point of points) {
        const name = lineName(point.one);
        lines.set(name, [...(lines.get(name) ?? []), point]);
      }
      const series = [...lines].map(([name, own], i): Series => {
        const sorted = [...own].sort((a, b) => a.at - b.at);
        const values = sorted.map(({ one }) => measure.of(one, baseline));
        return {
          name,
          color: `--run-${(i % 6) + 1}`,
          ...(i >= 6 ? { dash: '4,3' } : {}),
          places: sorted.map(({ at }) => at),
          values: values.map((value) => value?.mean ?? NaN),
          spread: values.map((value) => value?.deviation ?? NaN),
        };
      });
      // All charts of the figure share the scale of the quantity.
      const ends = frames.flatMap((one) => {
        const baseline = frames.find(
          (other) => other.model.id === one.model.id && isUnedited(other),
        );
        const value = axisOf(one) && measure.of(one, baseline)?.mean;
        return Number.isFinite(value) ? [value!] : [];
      });
      const best = series.map(({ name, values }) => `${name} ${last(values)}`).join(', ');
      const label = points[0]?.axis.label ?? '';
      const text = `${measure.label}: at most ${label}, ${best}.`;
      setText(words, series.length ? '' : 'Measuring the first setting …');
      drawChart(place, {
        kind: 'lines',
        doubling: true,
        xLabel: label,
        yLabel: measure.label,
        label: `${frame.model.title}. ${text}`,
        ...(measure.percent ? { percent: true } : {}),
        ...(ends.length ? { domain: [Math.min(0, ...ends), Math.max(0, ...ends)] } : {}),
        series,
      });
    };
  },
};

function last(values: ArrayLike<number>): string {
  const value = values[values.length - 1] ?? NaN;
  return Number.isFinite(value) ? value.toFixed(3) : '–';
}
