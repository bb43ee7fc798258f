/** Building blocks of the experiments' sentences, tables and controls. */
import { html, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import { commandOf, copyCommandButton } from '../page/command';
import { valueOf } from '../page/controls';
import { explainTerms } from '../page/terms';
import { tableRegion } from '../page/room_controls';
import type { Context } from '../page/context';
import { lossOf, drawnMap, firstKey, mean, sinkShare, type Frame } from '../frame';
import { queryWithoutFirst } from '../views/loss';
import type { PromptFile } from '../ask/question';
import { defaults, type NumberName } from '../ask/state';
import { choicesOf } from '../ask/subject';
import { capitalize, firstName, formatPercent, modelName } from '../words';
import type { Column, Experiment, Finding, Group, Line } from './experiment';
import {
  blindRise,
  costOf,
  costWords,
  percentWorse,
  isUnedited,
  settingName,
  SMALL_CHANGE,
  worseWords,
  type Cost,
} from '../views/settings';

export function slider(
  label: string,
  name: NumberName,
  [min, max]: readonly [number, number],
  { state, set }: Context,
): TemplateResult {
  const value = state.value[name];
  return html`<label class="range"
    ><span>${label} <strong>${value}</strong></span>
    <input
      type="range"
      min=${min}
      max=${Math.max(max, value)}
      .value=${live(String(value))}
      aria-label=${label}
      @input=${(event: Event) => set({ [name]: Number(valueOf(event)) })}
  /></label>`;
}

export function checkbox(
  label: string,
  isOn: boolean,
  setOn: (isOn: boolean) => void,
): TemplateResult {
  return html`<label class="check"
    ><input
      type="checkbox"
      .checked=${live(isOn)}
      @change=${(event: Event) => setOn((event.target as HTMLInputElement).checked)}
    />
    ${label}</label
  >`;
}

/** Returns the choices of an edit's parameter with their labels; before the engine runs, only the current choice. */
export function choicesIn(
  { engine }: Context,
  edit: string,
  parameter: string,
  current: string,
): readonly (readonly [string, string])[] {
  const describe = engine.value?.models.describe;
  return describe ? choicesOf(describe, edit, parameter) : [[current, current]];
}

/** The question of a chart of losses. */
export const HOW_MUCH_WORSE = 'How much worse?';

/** The share of heads with a sink, by shares of rows and by weights. */
export const SINK_MEASURES = ['sink_ratio', 'sink_ratio_raw'] as const;

/** Says what a start token is, at the beginning of a sentence; '' for another first token. */
export const startWords = (frame: Frame): string =>
  /^the /.test(firstName(frame)) ? '' : `${firstName(frame)} marks the start of a text; `;

/** Names the first tokens: one by its own name. */
export const firstTokensWords = (count: number, frame?: Frame): string =>
  count > 1 ? `the first ${count} tokens` : frame ? firstName(frame) : 'the first token';

export function baselineOf(frames: readonly Frame[]): Frame | undefined {
  return frames.find(isUnedited);
}

/** Returns how much a setting raises the loss; undefined until both the setting and the unedited run are measured. */
export function costOfMatch(
  frames: readonly Frame[],
  isMatch: (frame: Frame) => boolean,
): Cost | undefined {
  const baseline = baselineOf(frames);
  const match = frames.find((frame) => frame !== baseline && isMatch(frame));
  return baseline && match && costOf(match, baseline);
}

/** Returns a line of rises of the loss. */
export const costLine = (
  title: string,
  costIn: (frames: readonly Frame[]) => Cost | undefined,
): Line => ({
  ...{ title, costIn },
  cellOf: (frames) => {
    const cost = costIn(frames);
    return cost && costWords(cost);
  },
});

/** Returns the line of a setting. @param isMatch whether a frame has the setting */
export const settingLine = (title: string, isMatch: (frame: Frame) => boolean): Line =>
  costLine(title, (frames) => costOfMatch(frames, isMatch));

/**
 * Compares each other model with that of the sentences, in the setting that costs that one most, and begins with the
 * result. Lines with a caption state the numbers of each.
 */
export function othersNote({ lines = [], linesCaption }: Finding, groups: readonly Group[]) {
  if (linesCaption)
    return groups.slice(1).map(({ title, frames }) => {
      const numbers = lines.map((line) => `${line.title} ${line.cellOf(frames) ?? '–'}`);
      return html`<p><strong>${title}, ${linesCaption}:</strong> ${numbers.join('; ')}.</p>`;
    });
  const [main, ...others] = groups;
  const costIn = (line: Line, group?: Group) => (group && line.costIn?.(group.frames)?.mean) ?? NaN;
  const [worst] = lines
    .filter((line) => Number.isFinite(costIn(line, main)))
    .sort((a, b) => costIn(b, main) - costIn(a, main));
  return others.map((group) => {
    if (!worst?.cellOf(group.frames)) return '';
    const [mainCost, cost] = [costIn(worst, main), costIn(worst, group)];
    const isSmall = Math.max(Math.abs(cost), Math.abs(mainCost)) < SMALL_CHANGE;
    const rank =
      !isSmall && Math.expm1(cost) < 0.8 * Math.expm1(mainCost)
        ? 'less'
        : !isSmall && Math.expm1(cost) > 1.25 * Math.expm1(mainCost)
          ? 'more'
          : 'about as much';
    const [baseline, mainBaseline] = [group, main!].map(({ frames }) => baselineOf(frames));
    const sinkNote = baseline && sinkShare(baseline) === 0 ? 'without a sink, ' : '';
    const [loss, mainLoss] = [baseline, mainBaseline].map(lossOf);
    const isComparable = baseline?.architecture.V === mainBaseline?.architecture.V;
    const unharmed =
      sinkNote && isComparable && Number.isFinite(loss! - mainLoss!)
        ? ` With nothing changed it predicts ${worseWords(loss! - mainLoss!)} than ${modelName(main!)}.`
        : '';
    const both = [cost, mainCost].map(worseWords);
    const words = new Set(both).size < 2 ? `both ${both[0]}` : both.join(' and ');
    const numbers = `${worst.title} ${isSmall || /about/.test(rank) ? words : changeWords(cost, mainCost)}.`;
    // A model without a sink pays less for the damage, and predicts worse without it.
    const isBoth = unharmed && rank === 'less' && loss! - mainLoss! > SMALL_CHANGE;
    const answer = isBoth ? 'Good or bad? Here both. ' : '';
    const lead = `${answer}${capitalize(`${sinkNote}${modelName(group)} loses ${rank}:`)}`;
    const limit =
      sinkNote && rank !== 'less'
        ? ' The cost is that of the damage: a model without a sink pays it, too.'
        : '';
    const rest = `${numbers}${limit}${unharmed}`;
    return html`<p><strong>${explainTerms(lead)}</strong> ${rest}</p>`;
  });
}

/**
 * Returns what the first token and all others get on average in a map, from the token on where one of the maps lacks
 * the first one.
 */
export function splitOf(frame: Frame, frames: readonly Frame[]): readonly [number, number] {
  const first = firstKey(frame);
  const from = frames.map(queryWithoutFirst).find(Number.isFinite) ?? first + 1;
  const cells: ArrayLike<number> = drawnMap(frame, defaults) ?? [];
  const rows = Array.from({ length: frame.T - from }, (_, r) => (from + r) * frame.T);
  const sumOf = (row: number) =>
    Array.from({ length: frame.T }, (_, k) => cells[row + k] || 0).reduce((a, b) => a + b, 0);
  const got = mean(rows.map((row) => cells[row + first] || 0));
  return [got, mean(rows.map(sumOf)) - got];
}

/** Says one rise after another: “1.6% worse, not 16%”. */
export const changeWords = (rise: number, other: number): string =>
  [rise, other]
    .map(worseWords)
    .join(', not ')
    .replace(/(worse|better)(.*) \1$/, '$1$2');

/** Says whether a model shows what the recorded texts above it do, and what its first token is. */
export function bridgeWords(baseline: Frame, title: string, isSame: boolean): string {
  const shows = isSame ? 'shows the same' : 'does not show the same here';
  const name = firstName(baseline);
  const first = /^the /.test(name) ? '' : `; its first token is ${name}, the start token`;
  return `${capitalize(modelName({ title }))} ${shows}${first}.`;
}

/** Says what “worse” means, and how much worse a blind guess is, if it is worse at all. */
export function scaleWords(baseline: Frame): string {
  const blind = blindRise(baseline);
  const end = blind > 0 ? `; a blind guess is ${percentWorse(blind)} worse than unchanged` : '';
  return `Worse: perplexity rises, over the whole text${end}.`;
}

const LOSS_COLUMNS: readonly Column[] = [
  {
    name: 'loss, nats',
    valueOfFrame: ({ tensors, perPrompt }) => {
      const value = tensors.loss_mean?.data[0];
      const promptCount = perPrompt.loss_mean?.length ?? 0;
      return value === undefined ? undefined : `${value.toFixed(3)} (${promptCount})`;
    },
  },
  {
    name: 'change from baseline',
    valueOfFrame: (frame, baseline) =>
      baseline && frame !== baseline && frame.question.input === baseline.question.input
        ? costWords(costOf(frame, baseline))
        : undefined,
  },
];

export const SINK_COLUMN: Column = {
  name: 'Sink₁',
  valueOfFrame: (frame) => formatPercent(sinkShare(frame)),
};

/**
 * Returns the table of an experiment's settings.
 * @param file the reader's file of prompts, which the commands name
 */
export function settingsTable(
  experiment: Pick<Experiment, 'caption' | 'columnsOf'>,
  groups: readonly Group[],
  file: PromptFile | undefined,
): TemplateResult {
  const caption = `${experiment.caption} (number of prompts in brackets)`;
  const columns = [...LOSS_COLUMNS, ...experiment.columnsOf(groups)];
  const count = groups.reduce((sum, { frames }) => sum + frames.length, 0);
  return html`<details class="more">
    <summary>All numbers (${count})</summary>
    ${tableRegion(
      caption,
      html`<table class="metrics settings">
        <caption>
          ${caption}
        </caption>
        <thead>
          <tr>
            <th scope="col">model</th>
            <th scope="col">setting</th>
            ${columns.map(({ name }) => html`<th scope="col">${name}</th>`)}
            <th scope="col">command</th>
          </tr>
        </thead>
        <tbody>
          ${groups.map(({ title, frames }) => {
            const baseline = baselineOf(frames);
            return frames.map(
              (frame, i) =>
                html`<tr>
                  ${i ? html`<td></td>` : html`<th scope="row">${title}</th>`}
                  <td>${settingName(frame)}</td>
                  ${columns.map(({ valueOfFrame }) => html`<td>${valueOfFrame(frame, baseline) ?? '–'}</td>`)}
                  <td>${copyCommandButton(commandOf(frame, file))}</td>
                </tr>`,
            );
          })}
        </tbody>
      </table>`,
    )}
  </details>`;
}
