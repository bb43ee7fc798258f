/** The legend of the charts, with the numbers at the step: a row for each run. */
import * as plot from '@observablehq/plot';
import { html, nothing, type TemplateResult } from 'lit';
import { QUANTITIES, valueWords, type Course, type Quantity, type Style } from './course';
import { nearestStep } from './steps';

/** A short piece of a run's line. */
function sample({ color, dash, symbol }: Style): Element {
  const stroke = `var(${color})`;
  const drawn = plot.plot({
    width: 46,
    height: 14,
    margin: 0,
    axis: null,
    style: { background: 'none' },
    x: { domain: [0, 1] },
    y: { domain: [-1, 1] },
    marks: [
      plot.ruleY([0], { stroke, strokeWidth: 2.2, strokeDasharray: dash || undefined }),
      plot.dot([0.5], { x: (x: number) => x, y: () => 0, symbol, r: 3.6, fill: stroke }),
    ],
  });
  drawn.setAttribute('aria-hidden', 'true');
  return drawn;
}

const samples = new Map<Style, Element>();

function sampleOf(style: Style): Element {
  const known = samples.get(style) ?? sample(style);
  samples.set(style, known);
  return known;
}

function row(course: Course, step: number, isShown: boolean): TemplateResult {
  const { checkpoints } = course.timeline;
  const near = nearestStep(
    checkpoints.map((one) => one.step),
    step,
  );
  const { measured, stored } = checkpoints.find((one) => one.step === near)!;
  const cell = (quantity: Quantity) =>
    html`<td>
      ${valueWords(measured[quantity.inCheckpoint], quantity)}
      <small>${valueWords(stored[quantity.inCheckpoint], quantity)}</small>
    </td>`;
  return html`<tr class=${isShown ? 'shown' : ''}>
    <th scope="row">
      ${sampleOf(course.style)}
      <span>${course.title}</span>
      ${near === step ? nothing : html`<small>at step ${near.toLocaleString('en')}</small>`}
    </th>
    ${QUANTITIES.map(cell)}
  </tr>`;
}

/** @param shown ids of the models that the sides show */
export function table(
  courses: readonly Course[],
  step: number,
  shown: ReadonlySet<string>,
): TemplateResult {
  const at = `step ${step.toLocaleString('en')}`;
  const words = `At ${at}, of the run’s exact weights; in small print of the stored ones`;
  return html`<p class="walk-at">${words}</p>
    <div class="walk-table" tabindex="0" role="region" aria-label=${`Numbers at ${at}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">run</th>
            ${QUANTITIES.map(({ title }) => html`<th scope="col">${title}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${courses.map((course) => row(course, step, shown.has(course.id)))}
        </tbody>
      </table>
    </div>`;
}
