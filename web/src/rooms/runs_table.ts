/**
 * Compare's line for each model: how many of its heads have a sink over other passages in each training run, and
 * its loss.
 */
import { html, nothing, type TemplateResult } from 'lit';
import type { Frame } from '../frame';
import { tableRegion } from '../page/room_controls';
import { seedsOf, type Card } from '../ask/zoo';
import { formatValue, lossNote } from '../words';

/** Differences of the loss below these numbers of nats per token have these words; a larger one is much. */
const LOSS_WORDS = [
  [0.05, 'nearly equal'],
  [0.2, 'a little'],
  [Infinity, 'much'],
] as const;

/** States a difference of the loss and how large it is: "+0.03: nearly equal". */
export function lossWords(difference: number): string {
  if (!Number.isFinite(difference)) return '';
  if (Math.abs(difference) < 0.005) return 'equal';
  const [, word] = LOSS_WORDS.find(([limit]) => Math.abs(difference) < limit)!;
  const size = /equal/.test(word) ? word : `${word} ${difference > 0 ? 'worse' : 'better'}`;
  return `${difference > 0 ? '+' : '−'}${Math.abs(difference).toFixed(2)}: ${size}`;
}

const lossOf = (frame: Frame) => frame.tensors.loss_mean?.data[0] ?? NaN;

/** Compares two losses; where both are above that of a blind guess among all tokens, says so in place of a size. */
export function lossesWords(frame: Frame, baseline: Frame): string {
  const isBlind = [frame, baseline].every(
    (each) => lossOf(each) > Math.log(each.architecture.V ?? Infinity),
  );
  return isBlind ? 'both worse than a blind guess' : lossWords(lossOf(frame) - lossOf(baseline));
}

function runsCell(card: Card | undefined, color: string): TemplateResult | string {
  if (!card) return '–';
  const { shippedSeed, all: runs } = seedsOf(card);
  // Of the shown run the count by weight is known, of other seeds only that by shares.
  const { sink_1_raw } = card.measured;
  const all = runs.map((run) =>
    run.seed === shippedSeed && sink_1_raw !== undefined
      ? { ...run, sink_1: Number(sink_1_raw) }
      : run,
  );
  const numbers = all.map(({ sink_1 }) => `${sink_1.toFixed(0)}%`);
  const dot = ({ seed, sink_1 }: (typeof all)[number]) =>
    html`<i class=${seed === shippedSeed ? 'shown' : ''} style="left: ${sink_1}%"></i>`;
  return html`<span class="run-dots" style="--own: var(${color})" aria-hidden="true"
      >${all.map(dot)}</span
    >
    ${numbers.join(', ')}`;
}

export interface ModelLine {
  readonly frame: Frame;
  readonly color: string;
  readonly name: string;
  /** The model's card, unless its weights are edited or of another step. */
  readonly card: Card | undefined;
}

export function runsTable(lines: readonly ModelLine[]): TemplateResult {
  const frames = lines.map(({ frame }) => frame);
  const note = lossNote(frames);
  const row = ({ frame, color, name, card }: ModelLine, i: number) => {
    const difference = i && !note ? lossesWords(frame, frames[0]!) : '';
    return html`<tr class=${frame.class}>
      <th scope="row" style="color: var(${color})">${name}</th>
      <td>${runsCell(card, color)}</td>
      <td>
        ${formatValue(lossOf(frame))}
        ${difference ? html`<span class="spread">${difference}</span>` : nothing}
      </td>
    </tr>`;
  };
  return tableRegion(
    'The models, a table',
    html`<table class="runs">
      <thead>
        <tr>
          <td></td>
          <th scope="col">Sink heads in 100 other passages, by random seed</th>
          <th scope="col">Loss (lower: better)</th>
        </tr>
      </thead>
      <tbody>
        ${lines.map(row)}
      </tbody>
    </table>`,
  );
}
