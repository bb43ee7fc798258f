/**
 * How far numbers depend on the seed: of each model a dot for each seed and the 95 % interval of their mean,
 * and what its factor does, in pairs with the baseline's seeds.
 */
import { scaleLinear } from 'd3-scale';
import { html, nothing, svg, type TemplateResult } from 'lit';
import { until } from 'lit/directives/until.js';
import { mean } from '../frame';
import { explained } from '../terms';
import {
  fixed,
  halfOf,
  otherRun,
  OUTCOMES,
  seedRuns,
  spreadOf,
  whichWords,
  type Spread,
} from '../timeline/seeds';
import type { Card } from '../zoo';

/** One cell: what has a dot each, and an interval around the mean. */
interface Strip {
  readonly dots: readonly number[];
  readonly mean: number;
  readonly low: number;
  readonly high: number;
}

const [WIDTH, HEIGHT, EDGE] = [112, 16, 4];

function drawStrip(strip: Strip, domain: readonly [number, number], hasZero: boolean) {
  const x = scaleLinear()
    .domain(domain)
    .range([EDGE, WIDTH - EDGE]);
  const middle = HEIGHT / 2;
  const upright = (at: number, name: string, reach: number) =>
    svg`<line class=${name} x1=${x(at)} x2=${x(at)} y1=${middle - reach} y2=${middle + reach}></line>`;
  return html`<svg class="strip" viewBox="0 0 ${WIDTH} ${HEIGHT}" aria-hidden="true">
    <line class="axis" x1="0" x2=${WIDTH} y1=${middle} y2=${middle}></line>
    ${hasZero ? upright(0, 'zero', middle) : nothing}
    ${
      Number.isFinite(strip.low)
        ? svg`<line class="interval" x1=${x(strip.low)} x2=${x(strip.high)} y1=${middle} y2=${middle}></line>`
        : nothing
    }
    ${upright(strip.mean, 'mean', 5)}
    ${strip.dots.map((value) => svg`<circle r="2.6" cx=${x(value)} cy=${middle}></circle>`)}
  </svg>`;
}

/** The rows of a column share their scale. */
function cells(
  rows: readonly (readonly (Strip | undefined)[])[],
  hasZero: boolean,
  words: (strip: Strip, digits: number, unit: string) => unknown,
): TemplateResult[][] {
  const domains = OUTCOMES.map((_, i): readonly [number, number] => {
    const all = rows.flatMap((row) => {
      const strip = row[i];
      return strip ? [...strip.dots, strip.mean, strip.low, strip.high] : [];
    });
    const ends = [...all, ...(hasZero ? [0] : [])].filter(Number.isFinite);
    return [Math.min(...ends), Math.max(...ends)];
  });
  return rows.map((row) =>
    row.map((strip, i) => {
      const { digits, unit } = OUTCOMES[i]!;
      return strip
        ? html`<td>${drawStrip(strip, domains[i]!, hasZero)}${words(strip, digits, unit)}</td>`
        : html`<td>–</td>`;
    }),
  );
}

function stripsOf({ values }: Spread): (Strip | undefined)[] {
  return OUTCOMES.map(({ name }) => {
    const dots = values[name]!;
    const [at, half] = [mean(dots), halfOf(dots)];
    return dots.length ? { dots, mean: at, low: at - half, high: at + half } : undefined;
  });
}

function differencesOf({ differs }: Card): (Strip | undefined)[] {
  return OUTCOMES.map(({ name }) => {
    const [at, low, high] = differs!.outcomes[name] ?? [];
    return high === undefined ? undefined : { dots: [], mean: at!, low: low!, high };
  });
}

const range = (low: number, high: number, digits: number) =>
  `${fixed(low, digits)} to ${fixed(high, digits)}`;

function spreadWords({ dots, mean: at, low }: Strip, digits: number, unit: string): unknown {
  return Number.isFinite(low)
    ? html`${fixed(at, digits)} ± ${fixed(at - low, digits)}${unit}`
    : html`${range(Math.min(...dots), Math.max(...dots), digits)}${unit}`;
}

function differenceWords({ mean: at, low, high }: Strip, digits: number, unit: string): unknown {
  return html`${at > 0 ? '+' : ''}${fixed(at, digits)}${unit && ' points'}
    <span class="spread">(${range(low, high, digits)})</span>`;
}

interface Row {
  readonly card: Card;
  readonly spread: Spread;
}

function table(rows: readonly Row[]): TemplateResult {
  const told = rows.filter(({ card }) => card.differs);
  const levels = cells(
    rows.map(({ spread }) => stripsOf(spread)),
    false,
    spreadWords,
  );
  const differences = cells(
    told.map(({ card }) => differencesOf(card)),
    true,
    differenceWords,
  );
  const name = (title: string, more: string) =>
    html`<th scope="row">${title}<span class="row-class">${more}</span></th>`;
  const steps = [...new Set(rows.map(({ card }) => Number(card.training?.steps)))];
  return html`<div class="table-place" tabindex="0" role="region" aria-label="Over seeds, a table">
      <table class="seeds">
        <caption>
          Over seeds
        </caption>
        <thead>
          <tr>
            <td></td>
            ${OUTCOMES.map(({ title }) => html`<th scope="col">${explained(title, true)}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${rows.map(
            ({ card, spread }, i) =>
              html`<tr>
                ${name(card.title, whichWords(spread))}${levels[i]!}
              </tr>`,
          )}
        </tbody>
        ${
          told.length
            ? html`<tbody>
                ${told.map(
                  ({ card }, i) =>
                    html`<tr>
                      ${name(`${card.title}, what its factor does`, `${card.differs!.seeds} pairs of seeds: ${signs(card.differs!.says)}`)}${differences[i]!}
                    </tr>`,
                )}
              </tbody>`
            : nothing
        }
      </table>
    </div>
    <p class="hint">
      A dot for each seed; bars and ± are 95 % intervals of the mean, by Student’s t.
      ${steps.length === 1 && steps[0] ? otherRun(steps[0]) : 'The weights here are of other runs, whose learning rate falls sooner.'}
    </p>`;
}

/** A sentence with signs as they are set. */
const signs = (says: string) => says.replace(/(?<=[ (])-(?=\d)/g, '−');

const known = new Map<string, Promise<TemplateResult | typeof nothing>>();

/** As soon as the logs are here; nothing where no model has several. */
export function seedsTable(cards: readonly Card[]): unknown {
  const key = cards.map(({ id }) => id).join(' ');
  const coming =
    known.get(key) ??
    Promise.all(cards.map(({ id }) => seedRuns(id))).then(
      (runs) => {
        const rows = cards.flatMap((card, i): Row[] => {
          const spread = spreadOf(runs[i]!);
          return spread ? [{ card, spread }] : [];
        });
        return rows.length ? table(rows) : nothing;
      },
      // Without a network they are not there, and the rest is.
      () => nothing,
    );
  known.set(key, coming);
  return until(coming, nothing);
}
