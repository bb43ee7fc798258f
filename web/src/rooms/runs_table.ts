/**
 * Compare's line for each model: how many of its heads have a sink over other passages in each training run, and
 * its loss.
 */
import { html, nothing, type TemplateResult } from 'lit';
import { mean, type Frame } from '../frame';
import { tableRegion } from '../page/room_controls';
import { seedsOf, type Card } from '../ask/zoo';
import { MEASURING_CONDITIONS } from '../ask/steps';
import { formatValue, lossNote } from '../words';

/** Differences of the loss below these numbers of nats per token have these words; a larger one is much. */
const LOSS_WORDS = [
  [0.05, 'nearly equal'],
  [0.2, 'slightly'],
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
export function lossesWords(losses: readonly [number, number], { architecture: { V } }: Frame) {
  const isBlind = losses.every((loss) => loss > Math.log(V ?? Infinity));
  return isBlind ? 'both worse than a blind guess' : lossWords(losses[0] - losses[1]);
}

/** Returns the lowest and the highest of some losses, or the only one. */
function spanWords(losses: readonly number[]): string {
  const ends = [Math.min(...losses), Math.max(...losses)].map((loss) => formatValue(loss));
  return [...new Set(ends)].join('–');
}

/** Dots that are nearer than this, as a share of the axis, share a label. */
const LABEL_ROOM = 0.13;

/** Draws a dot for each training of a model, with its number beside it. */
function runsCell(card: Card | undefined, color: string): TemplateResult | string {
  if (!card) return 'not measured';
  const { shippedSeed, all } = seedsOf(card);
  // Of the shown run the count by weight is known, of other seeds only that by shares.
  const shareOf = ({ seed, sink_1 }: (typeof all)[number]) =>
    seed === shippedSeed ? Number(card.measured.sink_1_raw ?? sink_1) : sink_1;
  const runs = all
    .map((run) => ({ share: shareOf(run), isShown: run.seed === shippedSeed }))
    .sort((a, b) => a.share - b.share);
  const groups: (typeof runs)[] = [];
  for (const run of runs) {
    const group = groups.at(-1);
    if (group && run.share - group.at(-1)!.share < 100 * LABEL_ROOM) group.push(run);
    else groups.push([run]);
  }
  return html`<span class="run-dots" style="--own: var(${color})">
    ${runs.map(({ share, isShown }) => html`<i class=${isShown ? 'shown' : ''} style="left: ${share}%"></i>`)}
    ${groups.map(
      (group) =>
        html`<span style="left: ${group.at(-1)!.share}%"
          >${group.map(({ share }) => `${share.toFixed(0)}%`).join(', ')}</span
        > `,
    )}
  </span>`;
}

export interface ModelLine {
  readonly frame: Frame;
  readonly color: string;
  readonly name: string;
  /** The model's card, unless its weights are edited or of another step. */
  readonly card: Card | undefined;
}

/** Draws a line for each model: heads with a sink on other passages, in each training, and the loss there. */
export function runsTable(lines: readonly ModelLine[]): TemplateResult {
  const note = lossNote(lines.map(({ frame }) => frame));
  const areCards = lines.every(({ card }) => card);
  // In a longer text each key gets less, so fewer heads have a sink.
  const isShort = lines.some(({ frame }) => frame.T < MEASURING_CONDITIONS.T);
  const runLosses = lines.map(({ frame, card }) =>
    areCards ? seedsOf(card!).all.map(({ loss }) => loss) : [lossOf(frame)],
  );
  const losses = runLosses.map((own) => mean(own));
  const row = ({ frame, color, name, card }: ModelLine, i: number) => {
    const difference = i && !note ? lossesWords([losses[i]!, losses[0]!], frame) : '';
    return html`<tr class=${frame.class}>
      <th scope="row" style="color: var(${color})">${name}</th>
      <td>${runsCell(card, color)}</td>
      <td>
        ${spanWords(runLosses[i]!)}
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
          <th scope="col">
            heads with a sink in 100 ${isShort ? 'longer' : 'other'} passages ○ this ● retrained
            <span class="run-axis"><span>0%</span><span>100%</span></span>
          </th>
          <th scope="col">${areCards ? 'Loss' : 'Loss on this text'} (lower: better)</th>
        </tr>
      </thead>
      <tbody>
        ${lines.map(row)}
      </tbody>
    </table>`,
  );
}
