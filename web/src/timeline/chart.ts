/** One chart of the training: a line for each run, dots at its checkpoints, a cursor at the step. */
import * as plot from '@observablehq/plot';
import { dotsOf, lineOf, stepsOf, type Course, type Point, type Quantity } from './course';
import { nearestStep } from './steps';

export interface ChartDesk {
  /** The reader pointed at a step that is stored. */
  readonly choose: (step: number) => void;
}

export interface Drawn {
  /** Moves the cursor; NaN takes it away. */
  readonly move: (step: number) => void;
}

const SVG = 'http://www.w3.org/2000/svg';
const [TOP, HEIGHT, BOTTOM] = [24, 172, 30];

/** Below this many steps the axis is even, so that it has a place for 0; above it is logarithmic. */
const EVEN_STEPS = 100;

function stepAxis(last: number): plot.ScaleOptions {
  const powers = Array.from({ length: 8 }, (_, i) => EVEN_STEPS * 10 ** i);
  const ticks = [0, ...powers.flatMap((power) => [power, 3 * power])];
  return {
    label: `training step (log above ${EVEN_STEPS})`,
    type: 'symlog',
    constant: EVEN_STEPS,
    domain: [0, last],
    ticks: ticks.filter((tick) => tick <= last),
    tickFormat: (x: number) => (x >= 1000 ? `${x / 1000}k` : String(x)),
    inset: 6,
  };
}

/** Both ends of the axis: what it is to show at least, and all there is. */
function reachOf(courses: readonly Course[], quantity: Quantity): [number, number] {
  const all = courses.flatMap((one) => [...lineOf(one, quantity), ...dotsOf(one, quantity)]);
  const values = all.map(({ value }) => value).filter((value) => !quantity.log || value > 0);
  const wanted = [...values, ...(quantity.reach ?? [])];
  return [Math.min(...wanted), Math.max(...wanted)];
}

/** What the sides show is drawn over the others, and stronger. */
function marks(course: Course, quantity: Quantity, isShown: boolean): plot.Markish[] {
  const { color, dash, symbol } = course.style;
  const fits = ({ value }: Point) => !quantity.log || value > 0;
  const at = { x: 'step', y: 'value' };
  const strength = isShown ? { strokeWidth: 2.2, r: 3.2 } : { strokeWidth: 1.2, r: 2.2 };
  return [
    plot.lineY(lineOf(course, quantity).filter(fits), {
      ...at,
      stroke: `var(${color})`,
      strokeWidth: strength.strokeWidth,
      strokeDasharray: dash || undefined,
      strokeOpacity: isShown ? 1 : 0.75,
    }),
    plot.dot(dotsOf(course, quantity).filter(fits), {
      ...at,
      symbol,
      r: strength.r,
      fill: `var(${color})`,
      fillOpacity: isShown ? 1 : 0.75,
    }),
  ];
}

/**
 * @param shown ids of the models that the sides show
 * @param label one sentence that stands for the picture
 */
export function drawChart(
  root: HTMLElement,
  quantity: Quantity,
  courses: readonly Course[],
  shown: ReadonlySet<string>,
  label: string,
  desk: ChartDesk,
): Drawn {
  const steps = stepsOf(courses);
  const sorted = courses.toSorted((a, b) => Number(shown.has(a.id)) - Number(shown.has(b.id)));
  const drawn = plot.plot({
    width: Math.max(220, root.clientWidth),
    height: HEIGHT,
    marginLeft: 40,
    marginRight: 10,
    marginTop: TOP,
    marginBottom: BOTTOM,
    style: { background: 'none', fontSize: '11px' },
    ariaLabel: label,
    x: stepAxis(steps[steps.length - 1]),
    y: {
      label: [quantity.title, quantity.unit === '×' ? '' : quantity.unit]
        .filter(Boolean)
        .join(', '),
      grid: true,
      ticks: 4,
      type: quantity.log ? 'log' : 'linear',
      domain: reachOf(courses, quantity),
      tickFormat: quantity.log ? '~g' : undefined,
    },
    marks: sorted.flatMap((one) => marks(one, quantity, shown.has(one.id))),
  }) as SVGSVGElement & plot.Plot;
  drawn.setAttribute('role', 'img');
  for (const group of drawn.querySelectorAll('g[aria-label]')) group.removeAttribute('aria-label');
  const cursor = addCursor(drawn);
  const scale = drawn.scale('x')!;
  drawn.addEventListener('click', (event) => {
    const x = ((event.offsetX || 0) * drawn.viewBox.baseVal.width) / drawn.clientWidth;
    desk.choose(nearestStep(steps, Math.max(0, Number(scale.invert!(x)))));
  });
  root.replaceChildren(drawn);
  return {
    move(step) {
      cursor.setAttribute('visibility', Number.isFinite(step) ? 'visible' : 'hidden');
      if (Number.isFinite(step))
        cursor.setAttribute('transform', `translate(${scale.apply(step)} 0)`);
    },
  };
}

function addCursor(svg: SVGSVGElement): SVGElement {
  const line = document.createElementNS(SVG, 'line');
  const ends = { y1: TOP - 4, y2: HEIGHT - BOTTOM };
  for (const [key, value] of Object.entries(ends)) line.setAttribute(key, String(value));
  line.classList.add('walk-cursor');
  line.setAttribute('visibility', 'hidden');
  svg.append(line);
  return line;
}
