/**
 * Compare's row of models: a card for each model of a chapter, with the map of one head on the reader's text, how many of
 * its heads have a sink there, what the model changes, and how well it predicts. A press shows the model large.
 */
import { html, nothing, render, type TemplateResult } from 'lit';
import {
  cellsOf,
  firstKey,
  isCommonToken,
  mapsOf,
  mean,
  usesRawWeights,
  type Frame,
} from '../frame';
import { seedsOf, type Card } from '../ask/zoo';
import type { DrawOptions } from '../page/view';
import { claimOf } from '../claims';
import { cellAt, paint } from '../plot/heatmap';
import { cellWords, weightScale } from '../views/attention';
import { firstName, verdictOf, wholePercent } from '../words';
import { countFigures } from './compared';

/** Differences of the loss below these numbers, in nats per token, have these words; a larger one is much. */
const LOSS_WORDS = [
  [0.05, 'alike'],
  [0.2, ''],
  [Infinity, 'much '],
] as const;

/** Says how a model with so much more loss predicts: "alike", "worse", "much worse". */
export function lossWords(difference: number): string {
  if (!Number.isFinite(difference)) return '';
  const [, word] = LOSS_WORDS.find(([limit]) => Math.abs(difference) < limit)!;
  return word === 'alike' ? word : `${word}${difference > 0 ? 'worse' : 'better'}`;
}

/** Compares the mean loss of a model's trainings over the passages with that of the first model; empty if they are means over other tokens. */
export function lossBeside(card: Card | undefined, first: Card | undefined): string {
  if (!card || !first || card === first) return '';
  const haveOneStart = String(card.training?.front) === String(first.training?.front);
  const [loss, baseline] = [card, first].map((one) =>
    mean(seedsOf(one).all.map((run) => run.loss)),
  );
  return haveOneStart ? lossWords(loss! - baseline!) : '';
}

export interface ModelRow {
  readonly subject: string;
  readonly name: string;
  /** What the model is, in a few words. */
  readonly what: string;
  /** How its loss compares with the first model's, or what else differs. */
  readonly note: string;
  readonly frame: Frame | undefined;
  readonly isStale: boolean;
  /** Whether the model is measured only if the reader presses its card. */
  readonly waits: boolean;
  /** The name of a CSS variable; absent for a model that is not shown large. */
  readonly color: string | undefined;
}

/** Says how many heads have a sink on the text, in the first card in whole words; empty where heads are not counted. */
function sinkWords(
  frame: Frame,
  isFirst: boolean,
  { normalize }: DrawOptions['state'],
): TemplateResult | typeof nothing {
  const { conclusive, sink } = verdictOf(frame);
  if (!conclusive || !Number.isFinite(sink)) return nothing;
  const count = countFigures(frame);
  return html`<b>${count}</b>
    ${isFirst ? `heads ${/^1 /.test(count) ? 'has' : 'have'} a sink` : nothing}
    ${normalize === 'yes' && usesRawWeights(frame) ? 'by weight' : nothing}`;
}

function modelCard(
  { subject, name, what, note, frame, isStale, waits, color }: ModelRow,
  isFirst: boolean,
  press: () => void,
  options: Pick<DrawOptions, 'state' | 'theme'>,
): TemplateResult {
  const maps = frame && mapsOf(frame);
  const point = (event: PointerEvent) => {
    const canvas = (event.currentTarget as Element).querySelector('canvas');
    const cell = maps && canvas && cellAt(canvas, event, { rows: maps.rows, cols: maps.side });
    const card = event.currentTarget as HTMLElement;
    card.title = cell ? cellWords(frame!, maps, cell, { ...options, frames: [frame!] }) : '';
  };
  const state = waits ? 'press to load' : 'loading …';
  const isFirstKnown = frame && isCommonToken(frame, firstKey(frame));
  const amount = maps && isFirstKnown && claimOf(frame, frame.head!, options.state).attention;
  return html`<button
    type="button"
    class="model ${isStale ? 'stale' : ''}"
    style="--own: var(${color ?? '--ink'})"
    aria-pressed=${Boolean(color)}
    @click=${press}
    @pointermove=${point}
  >
    <strong>${name}</strong>
    <span class="small-map" data-first=${isFirstKnown ? firstName(frame) : ''}
      >${maps ? html`<canvas data-subject=${subject}></canvas>` : html`<i class="hint">${state}</i>`}${amount === undefined || amount === false ? nothing : html`<em>◀ ${wholePercent(amount)}</em>`}</span
    >
    <span class="sinks"
      >${frame && !isStale ? sinkWords(frame, isFirst, options.state) : nothing}</span
    >
    <span class="what">${what}</span>
    <small>${note}</small>
  </button>`;
}

/** Draws the row. @param press is called with the model of a pressed card */
export function drawModels(
  place: HTMLElement,
  rows: readonly ModelRow[],
  press: (subject: string) => void,
  options: Pick<DrawOptions, 'state' | 'theme'>,
): void {
  render(
    html`<div class="models" role="group" aria-label="Models" data-count=${rows.length}>
      ${rows.map((row, i) => modelCard(row, !i, () => press(row.subject), options))}
    </div>`,
    place,
  );
  for (const canvas of place.querySelectorAll('canvas')) {
    const { frame } = rows.find(({ subject }) => subject === canvas.dataset.subject)!;
    const maps = mapsOf(frame!)!;
    const data = cellsOf(maps, options.state);
    const means = frame!.pooled ? [data] : undefined;
    const scale = weightScale({ ...options, frames: [frame!] }, means);
    paint(canvas, { rows: maps.rows, cols: maps.side, data, scale });
  }
}
