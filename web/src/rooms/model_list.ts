/**
 * Compare's cards: one for each model of a chapter, with what the model changes, the map of one head on the reader's text,
 * how many of its heads have a sink there, and how well it predicts. A press shows the model large.
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
import { markFirstSink } from '../page/figure';
import type { DrawOptions } from '../page/view';
import { cellAt, paint } from '../plot/heatmap';
import { cellWords, weightScale } from '../views/attention';
import { SMALL_CHANGE, worseWords } from '../views/settings';
import { firstName, verdictOf } from '../words';
import { cardLabel, countFigures } from './compared';

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
  return `predicts ${Math.abs(rise) < SMALL_CHANGE ? 'alike' : worseWords(rise)}`;
}

export interface ModelCard {
  readonly subject: string;
  readonly name: string;
  /** What the model is, in a few words. */
  readonly what: string;
  /** How well it predicts, or what else differs. */
  readonly note: string;
  readonly frame: Frame | undefined;
  readonly isStale: boolean;
  /** Whether the model is measured only if the reader presses its card. */
  readonly waits: boolean;
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
  { subject, name, what, note, frame, isStale, waits }: ModelCard,
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
  const isFirstKnown = frame && isCommonToken(frame, firstKey(frame));
  const label = maps && isFirstKnown && cardLabel(frame, frame.head!, options.state);
  return html`<button
    type="button"
    class="model ${isStale ? 'stale' : ''}"
    @click=${press}
    @pointermove=${point}
  >
    <span class="name"><strong>${name}</strong> ${what}</span>
    <span class="small-map" data-first=${isFirstKnown ? firstName(frame) : ''}
      >${maps ? html`<canvas data-subject=${subject}></canvas>` : html`<i class="hint">${waits ? 'press to load' : 'loading …'}</i>`}${label ? html`<em class=${label.kind}>${label.text}</em>` : nothing}</span
    >
    <span class="sinks"
      >${frame && !isStale ? sinkWords(frame, isFirst, options.state) : nothing}
      <small>${note}</small></span
    >
  </button>`;
}

/** Draws the cards. @param press is called with the model of a pressed card */
export function drawModels(
  place: HTMLElement,
  cards: readonly ModelCard[],
  press: (subject: string) => void,
  options: Pick<DrawOptions, 'state' | 'theme'>,
): void {
  render(
    html`<div class="models" role="group" aria-label="Models" data-count=${cards.length}>
      ${cards.map((card, i) => modelCard(card, !i, () => press(card.subject), options))}
    </div>`,
    place,
  );
  for (const canvas of place.querySelectorAll('canvas')) {
    const { frame } = cards.find(({ subject }) => subject === canvas.dataset.subject)!;
    const maps = mapsOf(frame!)!;
    const data = cellsOf(maps, options.state);
    const means = frame!.pooled ? [data] : undefined;
    const scale = weightScale({ ...options, frames: [frame!] }, means);
    paint(canvas, { rows: maps.rows, cols: maps.side, data, scale });
    markFirstSink();
  }
}
