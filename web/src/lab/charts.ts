/** Draws the lab's charts: a table says which columns of a log each chart shows, with a line for each lab. */
import { drawChart, type Series } from '../plot/chart';
import { addElement } from '../page/view';
import { formatPercent, formatValue } from '../words';
import type { Lab } from './lab';
import { recentMean, type NamedLab } from './words';

export const COLORS = ['--run-1', '--run-2'] as const;
/** The most points of a line; each is the mean of adjacent steps, since a batch is noisy. */
const MAX_POINTS = 120;
const [FULL_HEIGHT, HALF_HEIGHT] = [142, 96];

interface Line {
  readonly column: string;
  readonly dash?: string;
  readonly faint?: boolean;
}

interface Chart {
  readonly title: string;
  /**
   * Explains the lines. If the text has a planted trigger or there is held-out text, `plantedKey` and `heldOutKey`
   * explain them instead.
   */
  readonly key?: string;
  readonly plantedKey?: string;
  readonly heldOutKey?: string;
  readonly lines: readonly Line[];
  readonly domain?: readonly [number, number];
  readonly percent?: boolean;
  readonly isHalf?: boolean;
}

function halfChart(title: string, column: string, domain?: Chart['domain']): Chart {
  return { title, lines: [{ column }], domain, isHalf: true };
}

const CHARTS: readonly Chart[] = [
  {
    title: 'attention on the first token',
    key: 'dashed at triggers',
    plantedKey: 'dotted after the planted trigger',
    lines: [{ column: 'first_elsewhere' }, { column: 'first_triggers', dash: '3,3' }],
    domain: [0, 0.5],
    percent: true,
  },
  {
    title: 'loss',
    key: 'dashed at triggers, dotted the best possible',
    plantedKey: 'dotted after the trigger',
    heldOutKey: 'dashed on the old kind of text',
    lines: [
      { column: 'loss_elsewhere' },
      { column: 'loss_triggers', dash: '3,3' },
      { column: 'optimum_elsewhere', dash: '1,2', faint: true },
      { column: 'loss_held', dash: '6,2' },
    ],
  },
  halfChart('value norm, first : others', 'value_ratio', [0, 1]),
  halfChart('hidden norm, first : others', 'hidden_ratio', [0, 1]),
  halfChart('gradient of first key : others', 'key_gradient'),
  halfChart('gradient of first value : others', 'value_gradient'),
  halfChart('gradient of first input : others', 'input_gradient'),
  halfChart('the same before the norm', 'stream_gradient'),
];

function lineOf({ log }: Lab, { column, dash, faint }: Line, color: string, name: string): Series {
  const stepsPerPoint = Math.max(1, Math.ceil(log.length / MAX_POINTS));
  const values: number[] = [];
  const steps: number[] = [];
  for (let i = 0; i < log.length; i += stepsPerPoint) {
    const chunk = log.slice(i, i + stepsPerPoint);
    const value = recentMean({ log: chunk }, column);
    // Only some steps measure the loss on held-out text.
    if (!Number.isFinite(value)) continue;
    values.push(value);
    steps.push(chunk[chunk.length >> 1]!.step);
  }
  return { name, color, values, places: steps, dash, faint };
}

/**
 * Adds the first `count` charts to the page.
 * @returns a function that draws both labs into the charts
 */
export function createCharts(
  root: HTMLElement,
  count = CHARTS.length,
): (pair: readonly NamedLab[]) => void {
  const charts = CHARTS.slice(0, count);
  const places = charts.map(({ isHalf }) => addElement(root, isHalf ? 'plot half' : 'plot'));
  return (pair) => {
    const hasBegun = pair.some(({ lab }) => lab.log.length);
    for (const place of places) place.hidden = !hasBegun;
    if (!hasBegun) return;
    const isPlanted = pair.some(({ lab }) => Number(lab.settings.planted) > 0);
    charts.forEach((chart, i) => {
      const { title, key, plantedKey, heldOutKey, lines, domain, percent: isShare, isHalf } = chart;
      // Leaves out lines without numbers, such as that of the attention on triggers in a task that has none.
      const isShown = ({ column }: Line, at: number) =>
        at === 0 || pair.some(({ lab }) => Number.isFinite(recentMean(lab, column)));
      const shownLines = lines.filter(isShown);
      const series = pair.flatMap(({ lab, name }, side) =>
        shownLines.map((line) => lineOf(lab, line, COLORS[side]!, name)),
      );
      const lastValues = pair.map(({ lab, name }) => {
        const value = recentMean(lab, lines[0]!.column);
        return `${name} ${isShare ? formatPercent(value, 0) : formatValue(value)}`;
      });
      const hasHeldOut = shownLines.some(({ column }) => column === 'loss_held');
      const keys = [isPlanted ? plantedKey : !hasHeldOut && key, hasHeldOut && heldOutKey];
      const caption = [title, ...(shownLines.length > 1 ? keys : [])].filter(Boolean).join('; ');
      drawChart(places[i]!, {
        kind: 'lines',
        series,
        xLabel: '',
        yLabel: caption,
        label: `${caption}; by step: ${lastValues.join(', ')}`,
        height: isHalf ? HALF_HEIGHT : FULL_HEIGHT,
        dots: false,
        ...(domain ? { domain } : {}),
        ...(isShare ? { percent: true } : {}),
      });
    });
  };
}
