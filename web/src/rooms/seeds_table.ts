/**
 * Draws the spread over seeds: a dot for each seed, and the 95% interval of the mean if there are enough seeds and the
 * interval fits the scale. The rows are the recipe with the shown weights, and the recipe's long runs.
 */
import { scaleLinear } from 'd3-scale';
import { html, nothing, svg, type TemplateResult } from 'lit';
import { until } from 'lit/directives/until.js';
import { mean } from '../frame';
import { explainTerms } from '../page/terms';
import {
  formatNumber,
  halfInterval,
  halfIntervalWords,
  OTHER_RUNS,
  OUTCOMES,
  seedRuns,
  spreadOf,
  seedCountWords,
  type Outcome,
  type Spread,
} from '../timeline/seeds';
import { MEASURING_CONDITIONS } from '../ask/steps';
import { seedsOf, type Card } from '../ask/zoo';

interface Strip {
  readonly dots: readonly number[];
  readonly mean: number;
  readonly low: number;
  readonly high: number;
  /** The index of the dot for the shown weights. */
  readonly shownIndex?: number;
}

interface Line {
  readonly title: string;
  readonly note: string;
  readonly strips: readonly (Strip | undefined)[];
}

const [WIDTH, HEIGHT, EDGE] = [112, 16, 4];

function drawStrip(strip: Strip, domain: readonly [number, number]) {
  const x = scaleLinear()
    .domain(domain)
    .range([EDGE, WIDTH - EDGE])
    .clamp(true);
  const middleY = HEIGHT / 2;
  const verticalLine = (at: number, name: string, halfHeight: number) =>
    svg`<line class=${name} x1=${x(at)} x2=${x(at)} y1=${middleY - halfHeight} y2=${middleY + halfHeight}></line>`;
  return html`<svg class="strip" viewBox="0 0 ${WIDTH} ${HEIGHT}" aria-hidden="true">
    <line class="axis" x1="0" x2=${WIDTH} y1=${middleY} y2=${middleY}></line>
    ${
      Number.isFinite(strip.low)
        ? svg`<line class="interval" x1=${x(strip.low)} x2=${x(strip.high)} y1=${middleY} y2=${middleY}></line>`
        : nothing
    }
    ${strip.dots.length === 1 ? nothing : verticalLine(strip.mean, 'mean', 5)}
    ${strip.dots.map((value, i) => {
      const isShown = i === strip.shownIndex;
      return svg`<circle class=${isShown ? 'shown' : nothing} r=${isShown ? 3.2 : 2.6} cx=${x(value)} cy=${middleY}></circle>`;
    })}
  </svg>`;
}

function domainsOf(lines: readonly Line[]): (readonly [number, number])[] {
  return OUTCOMES.map(({ possibleRange }, i): readonly [number, number] => {
    const values = lines.flatMap(({ strips }) => {
      const strip = strips[i];
      return strip ? [...strip.dots, strip.mean, strip.low, strip.high] : [];
    });
    const finiteValues = values.filter(Number.isFinite);
    return [
      Math.max(Math.min(...finiteValues), possibleRange[0]),
      Math.min(Math.max(...finiteValues), possibleRange[1]),
    ];
  });
}

function cellsOf(lines: readonly Line[]): (TemplateResult | undefined)[][] {
  const domains = domainsOf(lines);
  return lines.map(({ strips }) =>
    strips.map((strip, i) => {
      const { digits, unit } = OUTCOMES[i]!;
      return strip && html`${drawStrip(strip, domains[i]!)}${spreadWords(strip, digits, unit)}`;
    }),
  );
}

function stripOf(
  dots: readonly number[],
  within: Outcome['possibleRange'],
  shownIndex?: number,
): Strip | undefined {
  const [center, half] = [mean(dots), halfInterval(dots, within)];
  if (!dots.length) return undefined;
  return {
    dots,
    mean: center,
    low: center - half,
    high: center + half,
    ...(shownIndex === undefined ? {} : { shownIndex }),
  };
}

/** Returns the row of the recipe with the shown weights. Of its other seeds only three outcomes are known. */
function shownLine(card: Card): Line {
  const { shippedSeed, all } = seedsOf(card);
  const shownIndex = all.findIndex(({ seed }) => seed === shippedSeed);
  const steps = Number(card.training?.steps);
  const stepsNote = steps ? `${steps.toLocaleString('en')} steps, as shown: ` : '';
  const seeds = all.map(({ seed }) => seed);
  /** The names of three outcomes in the zoo's cards. */
  const cardKeys: Readonly<Record<string, 'sink_1' | 'value_ratio' | 'loss'>> = {
    'sink_0.3': 'sink_1',
    value_ratio: 'value_ratio',
    loss: 'loss',
  };
  return {
    title: card.title,
    note:
      stepsNote +
      (all.length > 1
        ? `${all.length} seeds (${seeds.join(', ')}); the weights here are seed ${shippedSeed}’s`
        : `one seed (${shippedSeed}): how far another would differ is not known`),
    strips: OUTCOMES.map(({ name, possibleRange }) => {
      const key = cardKeys[name];
      return (
        key &&
        stripOf(all.map((run) => run[key]).filter(Number.isFinite), possibleRange, shownIndex)
      );
    }),
  };
}

const formatRange = (low: number, high: number, digits: number) =>
  `${formatNumber(low, digits)} to ${formatNumber(high, digits)}`;

function spreadWords({ dots, mean: center, low }: Strip, digits: number, unit: string): unknown {
  if (dots.length === 1) return html`${formatNumber(center, digits)}${unit}`;
  const rangeWords = formatRange(Math.min(...dots), Math.max(...dots), digits);
  return Number.isFinite(low)
    ? html`${formatNumber(center, digits)} ± ${halfIntervalWords(center - low, digits)}${unit}
        <span class="spread">${rangeWords}</span>`
    : html`${rangeWords}${unit}`;
}

/** Returns the rows of the shown runs and, if there are any, of long runs. */
function linesOf(cards: readonly Card[], spreads: readonly (Spread | undefined)[]): Line[][] {
  const longRuns = cards.flatMap(({ title }, i): Line[] => {
    const spread = spreads[i];
    if (!spread) return [];
    const strips = OUTCOMES.map(({ name, possibleRange }) =>
      stripOf(spread.values[name]!, possibleRange),
    );
    return [{ title: `${title}, long runs`, note: seedCountWords(spread), strips }];
  });
  return [cards.map(shownLine), longRuns].filter(({ length }) => length);
}

function pictureNote(lineGroups: readonly (readonly Line[])[]): TemplateResult {
  const lines = lineGroups.flat();
  const hasLongRuns = lineGroups.length > 1;
  const hasSeeds = (count: number) =>
    lines.some(({ strips }) => strips.some((strip) => strip && strip.dots.length >= count));
  const { sequences, T, eps } = MEASURING_CONDITIONS;
  return html`<p class="hint">
    Over ${sequences} held-out sequences, T = ${T}, ε =
    ${eps}.${hasSeeds(2) ? ' A dot for each seed, a ring for the one whose weights are shown; the range is min-max.' : ''}
    ${hasSeeds(4) || hasLongRuns ? 'Bars and ± are 95% intervals of the mean, by Student’s t; they are left out for three seeds or fewer, and where they leave the scale.' : ''}
    ${hasLongRuns ? `${OTHER_RUNS} Nats lost: over 40 sequences of 120 tokens, with the last 24 keys.` : ''}
  </p>`;
}

function tablesOf(lines: readonly Line[]): TemplateResult[] {
  return cellsOf(lines).map((cells, i) => {
    const { title, note } = lines[i]!;
    const row = (cell: TemplateResult, at: number) =>
      html`<tr>
        <th scope="row">${explainTerms(OUTCOMES[at]!.title, true)}</th>
        <td>${cell}</td>
      </tr>`;
    return html`<table class="seeds">
      <caption>
        <strong>${title}</strong
        ><span class="row-class">${note}</span>
      </caption>
      <tbody>
        ${cells.map((cell, at) => (cell ? row(cell, at) : nothing))}
      </tbody>
    </table>`;
  });
}

const tableCache = new Map<string, Promise<TemplateResult | typeof nothing>>();

/** Renders a table for each recipe, and one for its long runs, once the logs have loaded. */
export function seedsTable(cards: readonly Card[]): unknown {
  const key = cards.map(({ id }) => id).join(' ');
  const loadingTable =
    tableCache.get(key) ??
    Promise.all(cards.map(({ id }) => seedRuns(id))).then(
      (runs) => {
        // Compares models at the last step that all of them have reached.
        const step = Math.min(...runs.map((seeds) => spreadOf(seeds)?.step ?? Infinity));
        const spreads = runs.map((seeds) => spreadOf(seeds, OUTCOMES, step));
        const lineGroups = linesOf(cards, spreads);
        if (!lineGroups.length) return nothing;
        return html`<div class="seed-tables">${tablesOf(lineGroups.flat())}</div>
          ${pictureNote(lineGroups)}`;
      },
      // Without a network, for example, there is no table.
      () => nothing,
    );
  tableCache.set(key, loadingTable);
  return until(loadingTable, nothing);
}
