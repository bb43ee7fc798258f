/**
 * Draws models as points: mean attention on the first token against size, loss, or the norm of the first token's hidden
 * state. The shown models are points, and on request so is every checkpoint of the zoo's long runs (models/README.md,
 * "Seeds"). The plot shows whether a sink comes with a large norm.
 */
import { scaleLinear, scaleLog } from 'd3-scale';
import { signal } from '@preact/signals-core';
import { html, nothing, render, svg, type TemplateResult } from 'lit';
import { defaults, type State } from '../ask/state';
import { firstKey, mean, numbersOfKey, visibleKeyEnd, type Frame } from '../frame';
import { segmentedControl } from '../page/controls';
import { framesOf, type Context, type Scope, type SubjectEntry } from '../page/context';
import { addElement, setText } from '../page/view';
import { colorsOf } from '../timeline/course';
import { seedRuns, type SeedRun } from '../timeline/seeds';
import { lossNote, formatValue } from '../words';

type XAxis = State['xAxis'];

export interface Point {
  readonly title: string;
  /** Mean weight on the first token over all heads, minus uniform attention. */
  readonly alpha: number;
  /** ‖h₁‖ divided by the mean of the other norms, at the layer where this is largest. */
  readonly ratio: number;
  readonly loss: number;
  readonly size: number;
  /** Only for shown models. */
  readonly color?: string;
}

const AXES = {
  ratio: {
    title: 'hidden ratio',
    question: 'Do models with a large hidden norm have a sink, and the other way round?',
    label: 'largest ‖h₁‖ / mean ‖h‖ of a layer',
    isLog: true,
  },
  loss: {
    title: 'loss',
    question: 'Do models that predict better have a stronger sink?',
    label: 'loss (nats per token)',
    isLog: false,
  },
  size: {
    title: 'size',
    question: 'Do larger models have a stronger sink?',
    label: 'parameters',
    isLog: true,
  },
} as const satisfies Record<XAxis, object>;

/** The metric of α from raw weights, which the plot uses for frames that have it. */
export const RAW_ALPHA = 'alpha_raw';

export const SCATTER_READS = ['alpha', 'row_mass', 'hidden_ratio', 'loss_mean'];

/**
 * Returns the mean weight above uniform attention, defined as in the logs of the long runs (models/README.md, "Seeds").
 */
function alphaAboveUniform(frame: Frame): number {
  const { data } = frame.tensors.row_mass!;
  const uniform = Array.from(data, (sum, i) => sum / visibleKeyEnd(frame, i % frame.T));
  return (
    mean(numbersOfKey(frame.tensors[RAW_ALPHA] ?? frame.tensors.alpha!, firstKey(frame))) -
    mean(uniform)
  );
}

export function pointOf(frame: Frame): Point {
  const { tensors, architecture, title } = frame;
  return {
    title,
    alpha: alphaAboveUniform(frame),
    // The first hidden state is the embedding, before all layers.
    ratio: Math.max(...(tensors.hidden_ratio?.data.subarray(1) ?? [NaN])),
    loss: tensors.loss_mean?.data[0] ?? NaN,
    size: architecture.parameters ?? NaN,
  };
}

/** The long runs of a recipe; `size` is the number of the model's parameters. */
type RecipeRuns = readonly [title: string, size: number, all: readonly SeedRun[]];

export function pointsOfRuns(runs: readonly RecipeRuns[]): Point[] {
  return runs.flatMap(([name, size, all]) =>
    all.flatMap(({ seed, points }) =>
      points.map(({ step, alpha, hidden_ratio: ratio, loss }) => ({
        title: `${name}, seed ${seed}, step ${step!.toLocaleString('en')}`,
        ...{ alpha: alpha ?? NaN, ratio: ratio ?? NaN, loss: loss ?? NaN, size },
      })),
    ),
  );
}

/** Returns the points that have both numbers, which must be positive for a logarithmic axis. */
export const drawablePoints = (points: readonly Point[], xAxis: XAxis): Point[] =>
  points.filter(
    (point) =>
      Number.isFinite(point.alpha) &&
      Number.isFinite(point[xAxis]) &&
      (!AXES[xAxis].isLog || point[xAxis] > 0),
  );

function ranksOf(values: readonly number[]): number[] {
  const order = values.map((_, i) => i).sort((a, b) => values[a]! - values[b]!);
  const ranks = values.map(() => 0);
  for (let from = 0; from < order.length;) {
    let to = from;
    while (values[order[to + 1]!] === values[order[from]!]) to++;
    for (let i = from; i <= to; i++) ranks[order[i]!] = (from + to) / 2 + 1;
    from = to + 1;
  }
  return ranks;
}

export function rankCorrelation(xs: readonly number[], ys: readonly number[]): number {
  const [a, b] = [ranksOf(xs), ranksOf(ys)];
  const meanRank = (xs.length + 1) / 2;
  const productSum = (p: readonly number[], q: readonly number[]) =>
    p.reduce((sum, value, i) => sum + (value - meanRank) * (q[i]! - meanRank), 0);
  return productSum(a, b) / Math.sqrt(productSum(a, a) * productSum(b, b));
}

/** A model has a sink if its α₁ is at least this far above uniform attention, as in protocol A (models/README.md). */
const SINK_ALPHA = 0.1;
/** A first token whose norm ratio is below the first number is like others; from the second on it is massive. */
const [EVEN_RATIO, SPIKE_RATIO] = [2, 5];
/** The fewest points for which the page states a correlation. */
const MIN_POINTS = 4;

/** Says how many points these are, names them if they are few, and ends with “have” or “has”. */
function pointCountWords(points: readonly Point[]): string {
  const titles =
    points.length && points.length < MIN_POINTS ? points.map(({ title }) => title) : [];
  const names = titles.length ? ` (${titles.join(', ')})` : '';
  return `${points.length || 'none'}${names} ${points.length > 1 ? 'have' : 'has'}`;
}

const formatFixed = (value: number, digits = 2) => value.toFixed(digits).replace('-', '−');

/**
 * States the correlation of the points and, if the x axis is the hidden ratio, how many sinks have a small ratio.
 * @param lossesNote why the points' losses cannot be compared; empty if they can
 */
export function scatterWords(points: readonly Point[], xAxis: XAxis, lossesNote = ''): string {
  const drawnPoints = drawablePoints(points, xAxis);
  if (!drawnPoints.length) return '';
  const sentences: string[] = [];
  const hasOtherLosses = xAxis === 'loss' && lossesNote !== '';
  if (hasOtherLosses) sentences.push(lossesNote);
  if (drawnPoints.length >= MIN_POINTS && !hasOtherLosses) {
    const rho = rankCorrelation(
      drawnPoints.map((point) => point[xAxis]),
      drawnPoints.map(({ alpha }) => alpha),
    );
    if (Number.isFinite(rho))
      sentences.push(
        `Over ${drawnPoints.length} points, the rank correlation of α₁ and ${AXES[xAxis].title} is ${formatFixed(rho)}.`,
      );
  }
  if (xAxis === 'ratio' && drawnPoints.length >= MIN_POINTS) {
    const sinks = drawnPoints.filter(({ alpha }) => alpha >= SINK_ALPHA);
    const smallNorms = sinks.filter(({ ratio }) => ratio < EVEN_RATIO);
    const spikes = drawnPoints.filter(({ ratio }) => ratio >= SPIKE_RATIO);
    const spikesWithoutSink = spikes.filter(({ alpha }) => alpha < SINK_ALPHA);
    const threshold = `(α₁ at least ${SINK_ALPHA} above uniform attention)`;
    const sinksClause = `Of ${sinks.length} with a sink ${threshold}, ${pointCountWords(smallNorms)} a hidden ratio below ${EVEN_RATIO}`;
    const spikesEnd = spikesWithoutSink.length
      ? `${pointCountWords(spikesWithoutSink)} no sink`
      : 'each has a sink';
    const spikesClause = `of ${spikes.length} with a hidden ratio of ${SPIKE_RATIO} or more, ${spikesEnd}`;
    sentences.push(
      `${sinks.length ? sinksClause : `None has a sink ${threshold}`}; ` +
        `${spikes.length ? spikesClause : `none has a hidden ratio of ${SPIKE_RATIO} or more`}.`,
    );
  }
  if (drawnPoints.length < MIN_POINTS)
    sentences.push(
      `${drawnPoints.map((point) => `${point.title}: α₁ ${formatFixed(point.alpha)} above uniform attention at ${AXES[xAxis].title} ${formatValue(point[xAxis])}`).join('; ')}.`,
    );
  return sentences.join(' ');
}

const colorAt = ({ color }: Point, i: number) => color ?? `--run-${i + 1}`;

const [HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [300, 48, 12, 24, 36];
/** In pixels; the letters have a fixed size. */
const MAX_WIDTH = 720;

/**
 * Draws the shown models in the colors of their maps, and checkpoints as small dots below them.
 * @param words what the caption states of the points
 */
export function drawScatter(
  root: HTMLElement,
  shown: readonly Point[],
  checkpoints: readonly Point[],
  xAxis: XAxis,
  width: number,
  words: string,
): void {
  const axis = AXES[xAxis];
  const [drawnModels, drawnCheckpoints] = [
    drawablePoints(shown, xAxis),
    drawablePoints(checkpoints, xAxis),
  ];
  const points = [...drawnModels, ...drawnCheckpoints];
  if (!points.length) return void render(nothing, root);
  const xs = points.map((point) => point[xAxis]);
  const [low, high] = [Math.min(...xs), Math.max(...xs)];
  const isSingleValue = low === high;
  const domain = isSingleValue ? [low / 2, low * 2] : [low, high];
  const x = (axis.isLog ? scaleLog() : scaleLinear())
    .domain(domain)
    .range([LEFT + 8, width - RIGHT - 8]);
  const alphas = points.map(({ alpha }) => alpha);
  const y = scaleLinear()
    .domain([Math.min(0, ...alphas), Math.max(SINK_ALPHA, ...alphas)])
    .range([HEIGHT - BOTTOM, TOP])
    .nice(5);
  const formatTick = (value: number) =>
    value >= 1e6
      ? `${formatValue(value / 1e6)} M`
      : value >= 1e3
        ? `${formatValue(value / 1e3)} k`
        : formatValue(value);
  const dot = (point: Point, radius: number, color: string, name: string): TemplateResult =>
    svg`<circle class=${name} r=${radius} cx=${x(point[xAxis]).toFixed(1)} cy=${y(point.alpha).toFixed(1)}
      style=${`fill: var(${color})`}><title>${point.title}: α₁ ${formatFixed(point.alpha)}, ${axis.title} ${formatTick(point[xAxis])}</title></circle>`;
  const labeledTicks = x
    .ticks(6)
    .filter((tick) => !axis.isLog || /^[125]/.test(tick.toExponential()));
  render(
    html`<svg
        class="chart-picture scatter-picture"
        style="max-width: ${MAX_WIDTH}px"
        viewBox="0 0 ${width} ${HEIGHT}"
        role="img"
        aria-label="α₁ above uniform attention against ${axis.title}. ${words}"
      >
        ${y.ticks(5).map(
          (tick) =>
            svg`<line class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${y(tick)} y2=${y(tick)}></line>
              <text x=${LEFT - 5} y=${y(tick) + 3.5} text-anchor="end">${formatFixed(tick, 1)}</text>`,
        )}
        ${labeledTicks.map(
          (tick) =>
            svg`<text x=${x(tick)} y=${HEIGHT - BOTTOM + 15} text-anchor="middle">${xAxis === 'ratio' ? tick : formatTick(tick)}</text>`,
        )}
        ${drawnCheckpoints.map((point) => dot(point, 2, '--ink-3', 'checkpoint'))}
        ${shown.flatMap((point, i) => (drawnModels.includes(point) ? dot(point, 5, colorAt(point, i), 'shown') : []))}
        <text class="axis" x="6" y="12">α₁ above uniform attention</text>
        <text class="axis" x=${width - RIGHT} y=${HEIGHT - 3} text-anchor="end">${axis.label}</text>
      </svg>
      <p class="chart-key">
        ${shown.map((point, i) => html`<span style="--swatch: var(${colorAt(point, i)})">${point.title}</span>`)}
        ${drawnCheckpoints.length ? html`<span style="--swatch: var(--ink-3)">checkpoints of long runs</span>` : nothing}
      </p>`,
    root,
  );
}

async function runsOf(context: Context): Promise<RecipeRuns[]> {
  const { cards } = context.engine.peek()!.models.zoo;
  const cardsWithRuns = cards.filter(({ id }) => SEEDS[id]);
  return Promise.all(
    cardsWithRuns.map(
      async ({ id, title, parameters }) => [title, parameters, await seedRuns(id)] as const,
    ),
  );
}

/** Returns the open panel: a link that sets a key of the scatter plot or of the table's columns opens that panel. */
export function panelOf({ panel, xAxis, checkpoints, columns }: State): State['panel'] {
  if (panel !== 'none') return panel;
  const hasScatterKey = xAxis !== defaults.xAxis || checkpoints !== defaults.checkpoints;
  return hasScatterKey ? 'scatter' : columns.length ? 'numbers' : 'none';
}

export function addScatter(
  root: HTMLElement,
  context: Context,
  scope: Scope,
  currentEntries: () => readonly SubjectEntry[],
): void {
  const place = addElement(root, 'figure scatter', 'section');
  place.dataset.view = 'scatter';
  const headingPlace = addElement(place, 'figure-title');
  const controls = addElement(place, 'numbers');
  const chart = addElement(place, 'chart');
  const caption = addElement(place, 'caption', 'p');
  const hint = addElement(place, 'hint', 'p');
  const runs = signal<readonly RecipeRuns[] | undefined>(undefined);
  const width = signal(640);
  const watcher = new ResizeObserver(([entry]) => {
    const { width: newWidth } = entry!.contentRect;
    if (newWidth) width.value = Math.min(MAX_WIDTH, Math.max(280, newWidth));
  });
  watcher.observe(chart);
  scope.onEnd(() => watcher.disconnect());
  scope.effect(() => {
    const { checkpoints } = context.state.value;
    if (checkpoints === 'none' || runs.value || !context.engine.value) return;
    runsOf(context).then((loaded) => (runs.value = loaded), context.fail);
  });
  scope.effect(() => {
    const { xAxis, checkpoints } = context.state.value;
    if ((place.hidden = panelOf(context.state.value) !== 'scatter')) return;
    const frames = framesOf(currentEntries().filter(({ isStale }) => !isStale)).filter(
      ({ tensors }) => SCATTER_READS.every((name) => name in tensors),
    );
    const colors = colorsOf(frames);
    const points = frames.map((frame, i) => ({ ...pointOf(frame), color: colors[i]! }));
    const checkpointPoints = checkpoints === 'all' ? pointsOfRuns(runs.value ?? []) : [];
    place.hidden = !points.length;
    render(
      html`<h2>Sink and size, loss, norm</h2>
        <p class="question">${AXES[xAxis].question}</p>`,
      headingPlace,
    );
    render(
      html`${segmentedControl(
        'Against',
        Object.entries(AXES).map(([name, { title }]) => [name, title] as const),
        xAxis,
        (value) => context.set({ xAxis: value as XAxis }),
      )}
      ${segmentedControl(
        'Checkpoints',
        [
          ['none', 'models shown'],
          ['all', 'and all long runs'],
        ],
        checkpoints,
        (value) => context.set({ checkpoints: value as State['checkpoints'] }),
      )}`,
      controls,
    );
    const allPoints = [...points, ...checkpointPoints];
    const words = scatterWords(allPoints, xAxis, lossNote(frames));
    drawScatter(chart, points, checkpointPoints, xAxis, width.value, words);
    setText(caption, words);
    const runCount = (runs.value ?? []).flatMap(([, , recipeRuns]) => recipeRuns).length;
    setText(
      hint,
      checkpointPoints.length
        ? `Small dots: ${checkpointPoints.length} checkpoints of ${runCount} runs, over 100 held-out sequences, T = 64; those of one run are not independent. Large dots: the models above, on the text above.`
        : '',
    );
  });
}
