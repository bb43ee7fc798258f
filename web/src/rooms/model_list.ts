/**
 * Compare's list of models, which is also their picker: one row a model, with what it is in a few words and how many of its
 * heads have a sink on the reader's text, as a bar and a number. A press shows the model's map beside the baseline's. What
 * its trained runs show, and how well it predicts, is in the fold below the maps.
 */
import { html, nothing, type TemplateResult } from 'lit';
import { eps, heads, model, sinks } from '../../lessons/pictures/forgotten.json';
import { mean, type Frame } from '../frame';
import { seedsOf, type Card } from '../ask/zoo';
import { SMALL_CHANGE, worseWords } from '../views/settings';
import { capitalize, firstName, formatPercent, listWords, slotShare, verdictOf } from '../words';
import { countFigures, countTitle, obstacleOf, slotFigures, unboundedWords } from './compared';

const AS_GOOD = 'as well as';

/**
 * Says how well a model predicts the passages beside the first of its chapter, by the mean loss of its trainings. Empty for
 * the first, and if the losses are means over other tokens.
 */
export function lossWords(card: Card | undefined, first: Card | undefined): string {
  if (!card || !first || card === first) return '';
  const [loss, baseline] = [card, first].map((one) =>
    mean(seedsOf(one).all.map((run) => run.loss)),
  );
  if (!Number.isFinite(loss!) || String(card.training?.front) !== String(first.training?.front))
    return '';
  const rise = loss! - baseline!;
  if (Math.abs(rise) < SMALL_CHANGE) return AS_GOOD;
  // Among more than twice as many tokens it guesses.
  return `${rise > Math.LN2 ? 'far worse' : worseWords(rise)} than`;
}

/** Says in how many heads each of several trained runs has a sink over the passages of the zoo, and which runs have few. */
export function runsWords(card: Card | undefined, name: string, headCount: number): string {
  const shares = card ? seedsOf(card).all.map(({ sink_1 }) => sink_1 / 100) : [];
  if (shares.length < 2) return '';
  const most = Math.max(...shares);
  const few = shares.filter((share) => share < most / 2 && most > eps);
  const list = listWords(shares.map((share) => formatPercent(share, 0)));
  const rest = few.map(
    (share) =>
      ` The run with ${formatPercent(share, 0)} has only about ${Math.round(share * headCount)} of ${headCount} such heads.`,
  );
  return `${capitalize(name)} in ${shares.length} trainings: ${list} of heads have a sink on 100 other texts.${rest.join('')}`;
}

export interface ModelRow {
  readonly subject: string;
  readonly name: string;
  /** What the model is, in a few words. */
  readonly what: string;
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

/**
 * Draws how many heads have a sink, as a bar and a count, and on a second line how many give an extra slot as much.
 * @param hasSlots whether a model of the list has an extra slot: then each bar has the name of its place before it
 */
function countTemplate(row: ModelRow, hasSlots: boolean) {
  const line = (share: number, figures: string, place = '', kind = '') =>
    html`${hasSlots ? html`<span class="place ${kind}">${place}</span>` : nothing}
      <span class="bar ${kind}">
        ${Number.isFinite(share) ? html`<i class="amount" style="--share: ${share}"></i>` : nothing}
        ${row.waits && !row.frame ? html`<i class="hint">press to measure</i>` : nothing}
      </span>
      <b class="count ${kind}">${figures.replace(/^(\d+) of /, '$1/')}</b>`;
  if (!isCounted(row)) return line(NaN, '');
  const frame = row.frame!;
  const slots = slotShare(frame);
  return html`${line(verdictOf(frame).sink, countFigures(frame), firstName(frame))}
  ${Number.isFinite(slots) ? line(slots, slotFigures(frame), '∗', 'slot') : nothing}`;
}

function rowTemplate(row: ModelRow, hasSlots: boolean): TemplateResult {
  const { subject, name, what, isStale, color, press } = row;
  const sum = isCounted(row) ? unboundedWords(row.frame!) : '';
  const words = html`<b>${name}</b> ${sum || what}`;
  return html`<div
    class="model ${color ? 'shown' : ''} ${isStale ? 'stale' : ''}"
    data-subject=${subject}
    style="--own: var(${color ?? '--ink-3'})"
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
    ${countTemplate(row, hasSlots)}
  </div>`;
}

/** Draws how many heads of a published model have a sink, if the page counts by the same threshold, with a link to its text. */
const publishedModel = (threshold: number, href: string): TemplateResult | typeof nothing =>
  threshold === eps
    ? html`<h2>A published model, on another text</h2>
        <div class="model" style="--own: var(--ink-3)">
          <a class="name" href=${href}><b>${model}</b></a>
          <span class="bar"><i class="amount" style="--share: ${sinks / heads}"></i></span>
          <b class="count">${sinks}/${heads}</b>
        </div>`
    : nothing;

/** Draws the list. @param published the link to a published model, which then follows the last group */
export function modelList(groups: readonly ModelGroup[], published = ''): TemplateResult {
  const rows = groups.flatMap((group) => group.rows);
  const frames = rows.flatMap(({ frame }) => frame ?? []);
  const hasSlots = frames.some((frame) => Number.isFinite(slotShare(frame)));
  return html`<div class="models ${hasSlots ? 'slots' : ''}" role="group" aria-label="Models">
    <p class="columns">${countTitle(frames)}</p>
    ${groups.map(({ title, rows: members }) => html`${title ? html`<h2>${title}</h2>` : nothing} ${members.map((row) => rowTemplate(row, hasSlots))}`)}
    ${published && frames[0] ? publishedModel(frames[0].eps, published) : nothing}
  </div>`;
}
