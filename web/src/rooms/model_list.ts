/**
 * Compare's list of models: a row for each model of the chapter, with the share of its heads that have a sink over other
 * passages in each training run, and its loss. These numbers are stored; a press shows the model's maps.
 */
import { html, nothing, type TemplateResult } from 'lit';
import { mean, type Frame } from '../frame';
import { seedsOf, type Card } from '../ask/zoo';
import { capitalize, formatPercent, formatValue, listWords, lossNote, verdictOf } from '../words';

/** Losses that differ by less nats per token are similar. */
const SIMILAR = 0.05;
/** Differences of the loss below these numbers have these words; a larger one is much. */
const LOSS_WORDS = [
  [SIMILAR, 'similar'],
  [0.2, ''],
  [Infinity, 'much '],
] as const;

/** Says how large a difference of the loss is: "similar", "worse", "much worse". */
export function lossWords(difference: number): string {
  if (!Number.isFinite(difference)) return '';
  const [, word] = LOSS_WORDS.find(([limit]) => Math.abs(difference) < limit)!;
  return word === 'similar' ? word : `${word}${difference > 0 ? 'worse' : 'better'}`;
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

export interface ModelRow {
  readonly subject: string;
  readonly name: string;
  /** The model's card, unless its weights are edited or of another step. */
  readonly card: Card | undefined;
  /** The run of a shown model, once it is measured. */
  readonly frame?: Frame | undefined;
  /** The name of a CSS variable; absent for a model that is not shown. */
  readonly color?: string | undefined;
  /** What differs from the first model besides what the chapter changes. */
  readonly besides?: string;
}

/**
 * Returns the share of heads with a sink in the shown training, in percent. Of that run the count by weight is known, of
 * other seeds only that by shares.
 */
const percentOf = ({ measured }: Card): number => Number(measured.sink_1_raw ?? measured.sink_1);

/** A count on the text is said to be larger than that of the passages from this difference on. */
const MUCH_MORE = 0.15;

/** Names the models of which far fewer heads have a sink over the longer passages than on the text. */
export function fewerWords(rows: readonly ModelRow[]): string {
  const fewer = rows.filter(
    ({ frame, card }) =>
      frame &&
      card &&
      isLonger(frame, card) &&
      verdictOf(frame).sink - percentOf(card) / 100 > MUCH_MORE,
  );
  return fewer.length
    ? `${capitalize(listWords(fewer.map(({ name }) => name)))}: in the longer passages, fewer heads give the first token over ${formatPercent(fewer[0]!.frame!.eps, 0)} than on this text.`
    : '';
}

/** Whether the passages are longer than the text, and judged by the same threshold. */
const isLonger = ({ T, eps, sequences }: Frame, { measured }: Card): boolean =>
  sequences === 1 && T < Number(measured.T) && eps === measured.eps;

/** Draws the share of heads with a sink in the shown training as a bar, and a dot for each further training. */
function runsCell(card: Card | undefined): TemplateResult | string {
  if (!card) return 'not measured';
  const [shown, ...others] = seedsOf(card).all;
  const share = percentOf(card);
  const words = (percent: number) => `${percent.toFixed(0)}%`;
  const seeds = others.map(({ sink_1 }) => sink_1).sort((a, b) => a - b);
  // By weight, more heads count than by shares only where rows sum to more than 100%.
  const note = seeds.length
    ? `retrained ${seeds.map(words).join(', ')}`
    : share > shown!.sink_1 && 'by weight';
  return html`<span class="run-bar" aria-hidden="true"
      ><b style="width: ${share}%"></b
      >${seeds.map((percent) => html`<i style="left: ${percent}%"></i>`)}</span
    ><span class="run-share">${words(share)}</span> ${
      note
        ? html`<small title=${seeds.length ? 'only the random start differs' : nothing}
            >${note}</small
          >`
        : nothing
    }`;
}

/** Whether the losses of two models are means over the same tokens of the passages. */
const haveOneStart = (a: Card, b: Card) => String(a.training?.front) === String(b.training?.front);

/** Draws each model's loss, of all trainings, and compares their mean with that of the first model. */
function lossCells(rows: readonly ModelRow[]): { cells: TemplateResult[]; note: string } {
  const areCards = rows.every(({ card }) => card);
  const note = lossNote(rows.flatMap(({ frame }) => frame ?? []));
  const losses = rows.map(({ frame, card }) =>
    areCards ? seedsOf(card!).all.map(({ loss }) => loss) : [frame ? lossOf(frame) : NaN],
  );
  const [first = NaN, ...others] = losses.map((own) => mean(own));
  const words = others.map((loss, i) => {
    const { frame, card, besides } = rows[i + 1]!;
    if (areCards)
      return haveOneStart(card!, rows[0]!.card!) && !besides ? lossWords(loss - first) : '';
    return frame && !note ? lossesWords([loss, first], frame) : '';
  });
  return {
    cells: losses.map(
      (own, i) =>
        html`${spanWords(own)} ${i && words[i - 1] ? html`<small>${words[i - 1]}</small>` : nothing}`,
    ),
    note: words.includes('similar') ? `Similar: less than ${SIMILAR} apart.` : '',
  };
}

/**
 * Draws the list.
 * @param press is called with a model whose row is pressed
 * @param add is called with a model that is to be shown beside the others; absent if they are as many as can be
 * @param note follows the list
 */
export function modelList(
  rows: readonly ModelRow[],
  press: (subject: string) => void,
  add?: (subject: string) => void,
  note = '',
): TemplateResult {
  const losses = lossCells(rows);
  const areCards = rows.every(({ card }) => card);
  const areLonger = rows.some(({ frame, card }) => frame && card && isLonger(frame, card));
  const otherStarts = areCards && rows.some(({ card }) => !haveOneStart(card!, rows[0]!.card!));
  const notes = [
    losses.note,
    fewerWords(rows),
    otherStarts ? 'Losses over different tokens have no words.' : '',
    note,
  ];
  const row = ({ subject, name, card, frame, color, besides }: ModelRow, i: number) =>
    html`<tr class=${frame?.class ?? ''} style="--own: var(${color ?? '--ink-3'})">
      <th scope="row">
        <button
          type="button"
          class="model-row"
          aria-pressed=${Boolean(color)}
          title=${card?.what ?? nothing}
          @click=${() => press(subject)}
        >
          ${name}</button
        >${
          color || !add
            ? nothing
            : html`<button
                type="button"
                class="beside"
                aria-label="Show ${name}, too"
                title="Show this model, too"
                @click=${() => add(subject)}
              >
                +
              </button>`
        }
        ${besides ? html`<small>${besides}</small>` : nothing}
      </th>
      <td>${runsCell(card)}</td>
      <td>${losses.cells[i]}</td>
    </tr>`;
  return html`<table class="runs">
      <thead>
        <tr>
          <td></td>
          <th scope="col">heads with a sink, ${areLonger ? '100 longer' : 'in 100'} passages</th>
          <th scope="col">${areCards ? 'loss' : 'loss, this text'}<small>(low: good)</small></th>
        </tr>
      </thead>
      <tbody>
        ${rows.map(row)}
      </tbody>
    </table>
    <p class="hint">${notes.filter(Boolean).join(' ')}</p>`;
}
