/**
 * Compare's list of models, which is also their picker: one row a model, with what it is in a few words, how many of its heads
 * have a sink on the reader's text, as a bar and a number, the same of its trained runs as dots, and how well it predicts. A
 * press shows the model's map beside the baseline's.
 */
import { html, nothing, type TemplateResult } from 'lit';
import { eps, heads, model, sinks } from '../../lessons/pictures/forgotten.json';
import { mean, type Frame } from '../frame';
import { seedsOf, type Card } from '../ask/zoo';
import { SMALL_CHANGE, worseWords } from '../views/settings';
import { extraKeyHeads, formatPercent, verdictOf } from '../words';
import { countFigures, obstacleOf } from './compared';

const AS_GOOD = 'equally';

/**
 * Says how much worse than the first model of its chapter a model predicts the passages, by the mean loss of its
 * trainings. Empty for the first, and if the losses are means over other tokens.
 */
export function lossBeside(card: Card | undefined, first: Card | undefined): string {
  if (!card || !first || card === first) return '';
  const [loss, baseline] = [card, first].map((one) =>
    mean(seedsOf(one).all.map((run) => run.loss)),
  );
  if (!Number.isFinite(loss!) || String(card.training?.front) !== String(first.training?.front))
    return '';
  const rise = loss! - baseline!;
  if (Math.abs(rise) < SMALL_CHANGE) return AS_GOOD;
  // Among more than twice as many tokens it guesses.
  return rise > Math.LN2 ? 'far worse' : worseWords(rise);
}

/** Returns the share of heads with a sink of each trained run over the passages of the zoo; none of a single run. */
export function runShares(card: Card | undefined): readonly number[] {
  const { all } = card ? seedsOf(card) : { all: [] };
  return all.length > 1 ? all.map(({ sink_1 }) => sink_1 / 100) : [];
}

export interface ModelRow {
  readonly subject: string;
  readonly name: string;
  /** What the model is, in a few words. */
  readonly what: string;
  /** How well it predicts, beside the first of its chapter. */
  readonly loss: string;
  /** The share of heads with a sink of each trained run. */
  readonly runs: readonly number[];
  readonly frame: Frame | undefined;
  readonly isStale: boolean;
  /** Whether the model is measured only if the reader presses its row. */
  readonly waits: boolean;
  /** The name of the CSS variable with the color of the model's map; undefined if none is shown. */
  readonly color: string | undefined;
  /** Shows the model beside the baseline; undefined for models that are no choice. */
  readonly press: (() => void) | undefined;
}

export interface ModelGroup {
  readonly title: string;
  readonly rows: readonly ModelRow[];
}

const isCounted = ({ frame, isStale }: ModelRow): boolean =>
  frame !== undefined && !isStale && !obstacleOf([frame]);

const bar = (share: number, kind = '', words = '') =>
  html`<i class="amount ${kind}" style="--share: ${share}">${words}</i>`;

/** Draws how many heads have a sink, or give an extra key as much, and the trained runs on the same axis. */
function barTemplate(row: ModelRow): TemplateResult {
  const { frame, runs, waits } = row;
  const counted = isCounted(row) ? frame : undefined;
  const extra = counted ? (counted.tensors.sink_ratio_bias?.data[0] ?? NaN) : NaN;
  const count = extra > 0 && extraKeyHeads(counted!).replace(/ of .*/, '');
  return html`<span class="bar">
    ${counted ? bar(verdictOf(counted).sink) : nothing}
    ${count ? bar(extra, 'extra', `${count} on the extra key`) : nothing}
    ${waits && !frame ? html`<i class="hint">press to measure</i>` : nothing}
    ${runs.map((share) => html`<i class="run" style="--share: ${share}"></i>`)}
  </span>`;
}

/** @param heads how many heads each model has; undefined if they differ in that */
function rowTemplate(row: ModelRow, heads: number | undefined): TemplateResult {
  const { subject, name, what, loss, runs, frame, isStale, color, press } = row;
  const count = isCounted(row) ? countFigures(frame!) : '';
  const words = html`<b>${name}</b> ${what}`;
  const runWords = runs.map((share) => formatPercent(share, 0)).join(', ');
  return html`<div
    class="model ${color ? 'shown' : ''} ${isStale ? 'stale' : ''}"
    data-subject=${subject}
    style="--own: var(${color ?? '--ink-3'})"
    title=${runWords ? `Heads with a sink in each trained run: ${runWords}` : nothing}
  >
    ${
      press
        ? html`<button
            type="button"
            class="name"
            aria-pressed=${color ? 'true' : 'false'}
            @click=${press}
          >
            ${words}
          </button>`
        : html`<span class="name">${words}</span>`
    }
    ${barTemplate(row)}
    <b class="count">${heads ? count.replace(` of ${heads}`, '') : count}</b>
    <span class="loss">${loss}</span>
  </div>`;
}

/** Draws how many heads of a published model have a sink, if the page counts by the same threshold. */
const publishedModel = (threshold: number): TemplateResult | typeof nothing =>
  threshold === eps
    ? html`<h2>A published model, on another text</h2>
        <div class="model" style="--own: var(--ink-3)">
          <span class="name"><b>${model}</b></span>
          <span class="bar">${bar(sinks / heads)}</span>
          <b class="count">${sinks} of ${heads}</b>
        </div>`
    : nothing;

/** Draws the list. @param hasPublished whether a published model follows the last group */
export function modelList(groups: readonly ModelGroup[], hasPublished = false): TemplateResult {
  const rows = groups.flatMap((group) => group.rows);
  const frames = rows.flatMap(({ frame }) => frame ?? []);
  const totals = new Set(frames.map(({ architecture: { L, H } }) => L * H));
  const heads = totals.size === 1 && !hasPublished ? [...totals][0] : undefined;
  const runCount = Math.max(...rows.map(({ runs }) => runs.length));
  return html`<div class="models" role="group" aria-label="Models">
    <p class="columns">
      <span>heads with a sink</span>
      ${rows.some(({ loss }) => loss) ? html`<span>predicts, beside ${rows[0]!.name}</span>` : nothing}
    </p>
    ${groups.map(({ title, rows: members }) => html`${title ? html`<h2>${title}</h2>` : nothing} ${members.map((row) => rowTemplate(row, heads))}`)}
    ${hasPublished && frames[0] ? publishedModel(frames[0].eps) : nothing}
    ${
      runCount > 1
        ? html`<p class="hint">
            bar: this text <i class="run"></i> ${runCount} trained runs, 100 texts
          </p>`
        : nothing
    }
  </div>`;
}
