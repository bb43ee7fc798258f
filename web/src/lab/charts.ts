/** Draws the lab's charts: a table says which columns of a log each chart shows, with a line for each lab. */
import { defaults } from '../ask/state';
import { drawChart, type Series } from '../plot/chart';
import { addElement } from '../page/view';
import { formatPercent, formatValue } from '../words';
import { tokenTexts } from './from_scratch';
import { isFineTune } from './settings';
import type { Lab } from './lab';
import {
  elsewhere,
  recentMean,
  sharedFirst,
  triggerName,
  uniformShare,
  type NamedLab,
} from './words';

export const COLORS = ['--run-1', '--run-2'] as const;
/** The most points of a line; each is the mean of the steps before it, as the numbers are, since a batch is noisy. */
const MAX_POINTS = 120;
const HEIGHT = 170;

interface Line {
  readonly column: string;
  readonly dash?: string;
}

interface Chart {
  readonly title: string;
  /** Explain the lines of a text with a planted trigger, and of one with held-out text. */
  readonly plantedKey?: string;
  readonly heldOutKey?: string;
  readonly lines: readonly Line[];
  /** Levels to compare with, by name, which are known before training; NaN where the settings have none. */
  readonly levels?: Readonly<Record<string, (lab: Lab) => number>>;
  readonly domain?: readonly [number, number];
  readonly percent?: boolean;
  /** The only kind of training that has the numbers. */
  readonly task?: 'fromScratch' | 'fineTune';
}

/** The loss of a model that finds all tokens equally likely; the task `conditional` has no next token. */
const blindLoss = ({ settings }: Lab) =>
  settings.task === 'conditional' ? NaN : Math.log(tokenTexts(settings).length);

const CHARTS: readonly Chart[] = [
  {
    title: 'Attention on the first token, elsewhere (training texts)',
    lines: [{ column: 'first_most' }],
    levels: {
      'if spread evenly': ({ settings }) => uniformShare(settings),
      [`sink: over ${formatPercent(defaults.eps, 0)}`]: () => defaults.eps,
    },
    domain: [0, 1],
    percent: true,
  },
  {
    title: 'Error at “copy” (loss, nats)',
    lines: [{ column: 'loss_triggers' }],
    levels: { 'blind guess': blindLoss, 'best possible': () => 0 },
    domain: [0, 4],
    task: 'fromScratch',
  },
  {
    title: 'Error (nats)',
    plantedKey: 'dotted after the trigger',
    heldOutKey: 'dashed on the old kind of text',
    lines: [
      { column: 'loss_elsewhere' },
      { column: 'loss_triggers', dash: '3,3' },
      { column: 'loss_held', dash: '6,2' },
    ],
    task: 'fineTune',
  },
  { title: 'value norm, first token : others', lines: [{ column: 'value_ratio' }], domain: [0, 1] },
];

/** @param end the step at which the line ends */
function lineOf(
  { lab, name }: NamedLab,
  { column, dash }: Line,
  color: string,
  end: number,
): Series {
  const log = lab.log.length || !lab.current ? lab.log.slice(0, end) : [lab.current];
  const stepsPerPoint = Math.max(1, Math.ceil(log.length / MAX_POINTS));
  const values: number[] = [];
  const steps: number[] = [];
  for (let i = 0; i < log.length; i += stepsPerPoint) {
    const done = log.slice(0, i + stepsPerPoint);
    const value = recentMean({ log: done, current: undefined }, column);
    // Only some steps measure the loss on held-out text.
    if (!Number.isFinite(value)) continue;
    values.push(value);
    steps.push(done.at(-1)!.step);
  }
  // Before training both lines are a point at nearly the same height, where one name would hide the other.
  return { name: values.length > 1 ? name : '', color, values, places: steps, dash };
}

/** Returns a level's line over the whole length, so that a chart is never empty; none without a value. */
const levelOf = (name: string, value: number, end: number): Series[] =>
  Number.isFinite(value)
    ? [{ name, color: '--ink-3', dash: '3,3', values: [value, value], places: [0, end] }]
    : [];

/**
 * Adds some of the charts to the page, over the whole planned length of the training.
 * @param height the height of a chart in pixels
 * @returns a function that draws both labs into the charts
 */
export function createCharts(
  root: HTMLElement,
  from = 0,
  to = CHARTS.length,
  height = HEIGHT,
): (pair: readonly NamedLab[]) => void {
  const charts = CHARTS.slice(from, to);
  const places = charts.map(() => addElement(root, 'plot'));
  return (pair) => {
    const [settings] = pair.map(({ lab }) => lab.settings);
    const task = isFineTune(settings!) ? 'fineTune' : 'fromScratch';
    const isPlanted = pair.some(({ lab }) => Number(lab.settings.planted) > 0);
    // Each model trains at its own speed; both lines end at the same step.
    const end = Math.min(...pair.map(({ lab }) => lab.log.length));
    const plannedEnd = Math.max(...pair.map(({ lab }) => Number(lab.settings.steps) || 0));
    charts.forEach((chart, i) => {
      const { title, plantedKey, heldOutKey, lines, levels = {}, domain, percent } = chart;
      const hasNumbers = ({ column }: Line) =>
        pair.some(({ lab }) => Number.isFinite(recentMean(lab, column)));
      places[i]!.hidden = (chart.task ?? task) !== task || (end > 0 && !hasNumbers(lines[0]!));
      if (places[i]!.hidden) return;
      // Leaves out lines without numbers, such as the loss after a trigger in a text without triggers.
      const shownLines = lines.filter((line, at) => at === 0 || hasNumbers(line));
      const lineSeries = pair.flatMap((namedLab, side) =>
        shownLines.map((line) => lineOf(namedLab, line, COLORS[side]!, end)),
      );
      const levelSeries = Object.entries(levels).flatMap(([name, valueOf]) =>
        levelOf(name, valueOf(pair[0]!.lab), plannedEnd),
      );
      const lastValues = pair.map(({ lab, name }) => {
        const value = recentMean(lab, lines[0]!.column);
        return `${name} ${percent ? formatPercent(value, 0) : formatValue(value)}`;
      });
      const hasHeldOut = shownLines.some(({ column }) => column === 'loss_held');
      const keys = [isPlanted && plantedKey, hasHeldOut && heldOutKey];
      const ownTitle = title
        .replace('the first token', sharedFirst(pair))
        .replace('elsewhere', elsewhere(pair[0]!.lab))
        .replace('copy', triggerName(pair[0]!.lab));
      const caption = [ownTitle, ...(shownLines.length > 1 ? keys : [])].filter(Boolean).join('; ');
      drawChart(places[i]!, {
        kind: 'lines',
        series: [...lineSeries, ...levelSeries],
        xLabel: 'training step',
        yLabel: caption,
        label: `${caption}; by step: ${lastValues.join(', ')}`,
        height,
        dots: false,
        named: true,
        xDomain: [0, plannedEnd],
        ...(domain && { domain }),
        ...(percent && { percent }),
      });
    });
  };
}
