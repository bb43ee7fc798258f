/** Draws how the loss, or another quantity, depends on an edit's budget of keys or bits. */
import { modelName } from '../words';
import { render } from 'lit';
import { segmentedControl } from '../page/controls';
import { deviation, mean, sinkName, type Frame } from '../frame';
import { drawChart, type Series } from '../plot/chart';
import { quantity } from '../save/numbers';
import {
  blindRise,
  costOf,
  editFields,
  isUnedited,
  policyName,
  settingName,
  type Cost,
  WORSE_DOMAIN,
  WORSE_LABEL,
} from './settings';
import { addElement, setText, type View } from '../page/view';

/** The colors of lines without a map. */
const OTHER_RUNS = [2, 4, 5, 6];

const AXES = [
  { kind: 'evict', parameter: 'budget', label: 'tokens kept', range: [8, 64] as const },
  { kind: 'quantize', parameter: 'bits', label: 'bits', range: [2, 8] as const },
] as const;

interface Measure {
  readonly name: string;
  readonly short: string;
  readonly label: string;
  readonly percent?: boolean;
  readonly read: (frame: Frame, baseline: Frame | undefined) => Cost | undefined;
}

/** Returns a function that reads a metric with one number, and its deviation over prompts if a frame has it. */
function readMetric(name: string) {
  return (frame: Frame): Cost | undefined => {
    const tensor = frame.tensors[name];
    if (!tensor) return undefined;
    const promptValues = frame.perPrompt[name] ?? [];
    return { mean: tensor.data[0]!, deviation: frame.spread[name]?.[0] ?? deviation(promptValues) };
  };
}

/** Returns the relative rounding error |x' − x| / |x|, averaged over the layers that have one. */
export function roundingErrorOf({ tensors: { quantize_error, weight_error } }: Frame): number {
  const errors = Array.from((quantize_error ?? weight_error)?.data ?? []).filter(Number.isFinite);
  return errors.length ? mean(errors) : NaN;
}

const costWithoutDeviation = (value: number): Cost | undefined =>
  Number.isFinite(value) ? { mean: value, deviation: NaN } : undefined;

export const MEASURES: readonly Measure[] = [
  {
    name: 'loss',
    short: 'Loss',
    label: 'loss above baseline, nats',
    read: (frame, baseline) => baseline && costOf(frame, baseline),
  },
  {
    name: 'kl',
    short: 'Predictions',
    label: 'KL to the baseline, nats',
    read: readMetric('kl_mean'),
  },
  {
    name: 'sink',
    short: 'Sinks',
    label: 'heads with a sink (Sink₁)',
    percent: true,
    read: (frame) => readMetric(sinkName(frame))(frame),
  },
  {
    name: 'kept',
    short: 'First token kept',
    label: 'heads that keep the first token',
    percent: true,
    read: ({ tensors }) => costWithoutDeviation(mean(tensors.keeps_first?.data ?? [])),
  },
  {
    name: 'error',
    short: 'Rounding error',
    label: 'rounding error',
    percent: true,
    read: (frame) => costWithoutDeviation(roundingErrorOf(frame)),
  },
  {
    name: 'change',
    short: 'Hidden states',
    label: 'relative change of the hidden states',
    percent: true,
    read: ({ tensors }) => costWithoutDeviation(mean(tensors.hidden_change?.data ?? [])),
  },
];

/** Returns the axis along which a frame's setting varies, and its place there; undefined if it has none. */
function pointOf(frame: Frame) {
  for (const axis of AXES) {
    const at = Number(editFields(frame, axis.kind)?.[axis.parameter]);
    if (Number.isFinite(at)) return { frame, at, axis };
  }
  return undefined;
}

/** Returns how a line looks: two have the colors of both maps, and a rule keeps its color whichever is chosen. */
function lookOf(i: number, { frame, axis }: NonNullable<ReturnType<typeof pointOf>>) {
  const isSecond = axis.kind === 'evict' ? editFields(frame, 'evict')!.policy === 'h2o' : i === 1;
  const color = `--run-${OTHER_RUNS[i % OTHER_RUNS.length]!}`;
  const dash = i <= OTHER_RUNS.length ? undefined : '4,3';
  return { color: i === 0 ? '--sink' : isSecond ? '--query' : color, dash };
}

function lineName({ frame, at, axis }: NonNullable<ReturnType<typeof pointOf>>): string {
  if (axis.kind === 'evict') return policyName(frame);
  return settingName(frame).replace(new RegExp(`^${at} bits,? ?`), '');
}

const METRICS = [
  'loss_mean',
  'kl_mean',
  'sink_ratio',
  'sink_ratio_raw',
  'keeps_first',
  'quantize_error',
  'weight_error',
  'hidden_change',
];

export const sweep: View = {
  name: 'sweep',
  title: 'Loss by setting',
  question: 'What does each setting change?',
  how:
    'Each point is a setting, averaged over prompts; bars are standard deviations over prompts. 0 is the baseline ' +
    'on the same prompts. KL measures how much all predictions change, for better or worse.',
  source:
    'Xiao et al. 2024; Zhang et al. 2023 (H2O); Oren et al. 2024 (TOVA); Liu et al. 2024 (IntactKV)',
  reads: ['loss_mean'],
  drawsAllSettings: true,
  needsSeveralSettings: true,
  numbers: ({ tensors }) =>
    METRICS.filter((name) => tensors[name]).map((name) => {
      const axes = tensors[name]!.shape.map((_, i) => `axis ${i + 1}`);
      return quantity(name, axes, tensors[name]!);
    }),
  says: (frame) =>
    `Loss of ${modelName(frame)}: ${frame.tensors.loss_mean!.data[0]!.toFixed(3)} nats.`,
  draw(root, { set }) {
    const measureChoice = addElement(root, '');
    const chart = addElement(root, 'chart');
    const captionElement = addElement(root, 'caption', 'p');
    return (frame, { group, frames, state, height, isPlain }) => {
      const baseline = group.find(isUnedited);
      const points = group.flatMap((setting) => pointOf(setting) ?? []);
      const availableMeasures = MEASURES.filter(({ read }) =>
        points.some(({ frame: setting }) => read(setting, baseline)),
      );
      const measure =
        availableMeasures.find(({ name }) => name === state.measure) ??
        availableMeasures[0] ??
        MEASURES[0]!;
      render(
        segmentedControl(
          'Quantity',
          availableMeasures.map(({ name, short, label }) => [name, short, label] as const),
          measure.name,
          (name) => set({ measure: name }),
          true,
        ),
        measureChoice,
      );
      const lines = new Map<string, typeof points>();
      for (const point of points) {
        const name = lineName(point);
        lines.set(name, [...(lines.get(name) ?? []), point]);
      }
      const scales = new Set(points.map((point) => editFields(point.frame, 'quantize')?.by));
      const nameOf = (name: string) =>
        scales.size > 1 ? name : name.replace(/^per \w+(, )?/, '') || 'all rounded';
      const series = [...lines].map(([name, linePoints], i): Series => {
        const sortedPoints = [...linePoints].sort((a, b) => a.at - b.at);
        const values = sortedPoints.map(({ frame: setting }) => measure.read(setting, baseline));
        return {
          name: nameOf(name),
          ...lookOf(i, linePoints[0]!),
          places: sortedPoints.map(({ at }) => at),
          values: values.map((value) => value?.mean ?? NaN),
          spread: values.map((value) => value?.deviation ?? NaN),
        };
      });
      // All charts of the figure share the scale of the quantity.
      const means = frames.flatMap((setting) => {
        const baseline = frames.find(
          (other) => other.model.id === setting.model.id && isUnedited(other),
        );
        const value = pointOf(setting) && measure.read(setting, baseline)?.mean;
        return Number.isFinite(value) ? [value!] : [];
      });
      const worse = isPlain && measure.name === 'loss';
      if (worse) means.push(...WORSE_DOMAIN);
      const blind = measure.name === 'loss' && baseline ? blindRise(baseline) : NaN;
      const ends = series.flatMap(({ places }) => Array.from(places ?? []));
      if (blind < Math.max(...means))
        series.push({
          ...{ name: 'blind guess', color: '--ink-3', dash: '3,3', values: [blind, blind] },
          places: [Math.min(...ends), Math.max(...ends)],
        });
      const lastValues = series.map(({ name, values }) => `${name} ${formatLast(values)}`);
      const axisLabel = points[0]?.axis.label ?? '';
      const caption = `${measure.label}: at most ${axisLabel}, ${lastValues.join(', ')}.`;
      setText(captionElement, series.length ? '' : 'Measuring the first setting …');
      drawChart(chart, {
        kind: 'lines',
        height,
        doubling: true,
        named: true,
        worse,
        xLabel: axisLabel,
        yLabel: `${worse ? WORSE_LABEL : measure.label}${barsNote(series)}`,
        ...(isPlain && points[0] ? { xDomain: points[0].axis.range } : {}),
        label: `${frame.model.title}. ${caption}`,
        percent: measure.percent,
        ...(means.length ? { domain: [Math.min(0, ...means), Math.max(0, ...means)] } : {}),
        series,
      });
    };
  },
};

/** Says what the bars are, where a chart has any. */
const barsNote = (series: readonly Series[]): string =>
  series.some(({ spread = [] }) => Array.from(spread).some((x) => x > 0))
    ? '; bars: ± over prompts'
    : '';

function formatLast(values: ArrayLike<number>): string {
  const value = values[values.length - 1] ?? NaN;
  return Number.isFinite(value) ? value.toFixed(3) : '–';
}
