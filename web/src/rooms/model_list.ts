/**
 * Compare's cards: one for each model of a chapter, under the side to which it belongs, with what the model changes, the map
 * of one head on the reader's text, how many of its heads have a sink there, and how well it predicts. A press shows it large.
 */
import { html, nothing, render, type TemplateResult } from 'lit';
import {
  extraKeyWeights,
  cellsOf,
  firstKey,
  isCommonToken,
  mapsOf,
  mean,
  ofHead,
  usesRawWeights,
  type Frame,
} from '../frame';
import { seedsOf, type Card } from '../ask/zoo';
import { markFirstSink } from '../page/figure';
import type { DrawOptions } from '../page/view';
import { cellAt, paint } from '../plot/heatmap';
import { cellWords, columnOf, labelOf, ownEnd, weightScale } from '../views/attention';
import { SMALL_CHANGE, worseWords } from '../views/settings';
import { capitalize, extraKeyHeads } from '../words';
import type { Side } from './chapters';
import { countFigures, obstacleOf, sideWords } from './compared';

export const AS_GOOD = 'as good';

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

/** Says how many heads of each trained run have a sink over the passages of the zoo; empty for one run. */
export function runsWords(card: Card | undefined): string {
  const { all } = card ? seedsOf(card) : { all: [] };
  if (all.length < 2) return '';
  const sinks = all.map(({ sink_1 }) => Math.round(sink_1));
  const range = [...new Set([Math.min(...sinks), Math.max(...sinks)])].join('-');
  return `${all.length} runs: ${range}%`;
}

export interface ModelCard {
  readonly subject: string;
  readonly name: string;
  /** What the model is, in a few words. */
  readonly what: string;
  /** Which head the map shows. */
  readonly head: string;
  /** What its trained runs have, and how well it predicts. */
  readonly notes: readonly string[];
  readonly frame: Frame | undefined;
  readonly isStale: boolean;
  /** Whether the model is measured only if the reader presses its card. */
  readonly waits: boolean;
}

const isCounted = ({ frame, isStale }: ModelCard): boolean =>
  frame !== undefined && !isStale && !obstacleOf([frame]);

/** Says how many heads have a sink on the text; empty where heads are not counted. */
function countTemplate(
  card: ModelCard,
  { normalize }: DrawOptions['state'],
): TemplateResult | typeof nothing {
  const { frame } = card;
  if (!frame || !isCounted(card)) return nothing;
  const extra = extraKeyHeads(frame).replace(/ of .*/, '');
  return html`<b>${countFigures(frame)}</b>
    ${normalize === 'yes' && usesRawWeights(frame) ? 'by weight' : nothing}
    ${Number(extra) ? `${extra} on ∗` : nothing}`;
}

function modelCard(
  card: ModelCard,
  press: () => void,
  options: Pick<DrawOptions, 'state' | 'theme'>,
): TemplateResult {
  const { subject, name, what, head, notes, frame, isStale, waits } = card;
  const maps = frame && mapsOf(frame);
  const point = (event: PointerEvent) => {
    const canvas = (event.currentTarget as Element).querySelector('canvas');
    const cell = maps && canvas && cellAt(canvas, event, { rows: maps.rows, cols: maps.side });
    const target = event.currentTarget as HTMLElement;
    target.title = cell ? cellWords(frame!, maps, cell, { ...options, frames: [frame!] }) : '';
  };
  const isFirstKnown = frame && isCommonToken(frame, firstKey(frame));
  const label = maps && isFirstKnown && labelOf(frame, frame.head!, options.state, true);
  const extra = frame && extraKeyWeights(frame);
  return html`<button
    type="button"
    class="model ${isStale ? 'stale' : ''}"
    @click=${press}
    @pointermove=${point}
  >
    <span class="name"><b>${what}</b> <strong>${name}</strong></span>
    <span class="small-map"
      >${maps ? html`<canvas data-subject=${subject}></canvas><i class="head">${head}</i>` : html`<i class="hint">${waits ? 'press to load' : 'loading …'}</i>`}${label ? html`<em class=${label.kind}>${label.text}</em>` : nothing}${extra ? html`<span class="extra-key">${columnOf(ofHead(extra, frame.head!), weightScale({ ...options, frames: [frame] }))}</span>` : nothing}</span
    >
    <span class="sinks"
      >${countTemplate(card, options.state)} <small>${notes.join(' · ')}</small></span
    >
  </button>`;
}

/** Draws the cards. @param press is called with the model of a pressed card */
export function drawModels(
  place: HTMLElement,
  sides: readonly Side<ModelCard>[],
  press: (subject: string) => void,
  options: Pick<DrawOptions, 'state' | 'theme'>,
): void {
  // Cards are in one row, or in two if a side has more than three.
  const rows = sides.some(({ items }) => items.length > 3) ? 2 : 1;
  const framesIn = (items: readonly ModelCard[]) => items.map(({ frame }) => frame!);
  const sideTemplate = ({ where, items }: Side<ModelCard>, i: number) =>
    html`<section class="side" style="--columns: ${Math.ceil(items.length / rows)}">
      <h2>
        ${capitalize(where)}
        <small>${items.every(isCounted) ? sideWords(framesIn(items), !i) : nothing}</small>
      </h2>
      ${items.map((card) => modelCard(card, () => press(card.subject), options))}
    </section>`;
  render(
    html`<div class="models" role="group" aria-label="Models" data-rows=${rows}>
      ${sides.map(sideTemplate)}
    </div>`,
    place,
  );
  const cards = sides.flatMap(({ items }) => items);
  for (const canvas of place.querySelectorAll('canvas')) {
    const { frame } = cards.find(({ subject }) => subject === canvas.dataset.subject)!;
    const maps = mapsOf(frame!)!;
    const data = cellsOf(maps, options.state);
    const means = frame!.pooled ? [data] : undefined;
    const end = ownEnd(data, maps.rows);
    const scale = weightScale({ ...options, frames: [frame!] }, means, end);
    paint(canvas, { rows: maps.rows, cols: maps.side, data, scale });
    markFirstSink();
  }
}
