/** Building blocks of the experiments' sentences, tables and controls. */
import { html, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import { commandOf, copyCommand } from '../page/command';
import { tablePlace, valueOf } from '../page/controls';
import type { Context } from '../page/context';
import type { Frame } from '../frame';
import type { PromptFile } from '../ask/question';
import type { State } from '../ask/state';
import { choicesOf } from '../ask/subject';
import { costOf, isUnedited, settingName, signed, type Cost } from '../views/settings';

type Sliding = {
  [Name in keyof State]: State[Name] extends number ? Name : never;
}[keyof State];

/** A slider for a number of the state. */
export function slider(
  label: string,
  name: Sliding,
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

export function check(label: string, isOn: boolean, turn: (isOn: boolean) => void): TemplateResult {
  return html`<label class="check"
    ><input
      type="checkbox"
      .checked=${live(isOn)}
      @change=${(event: Event) => turn((event.target as HTMLInputElement).checked)}
    />
    ${label}</label
  >`;
}

/** The choices of an edit's parameter; only the current one before the engine runs. */
export function choicesIn(
  { engine }: Context,
  edit: string,
  parameter: string,
  current: string,
): readonly (readonly [string, string])[] {
  const describe = engine.value?.models.describe;
  return describe ? choicesOf(describe, edit, parameter) : [[current, current]];
}

function costWords({ mean, deviation }: Cost): string {
  const spread = Number.isFinite(deviation) ? ` ± ${deviation.toFixed(3)}` : '';
  return `${signed(mean)}${spread}`;
}

export function wholeOf(frames: readonly Frame[]): Frame | undefined {
  return frames.find(isUnedited);
}

/** Returns how much a setting raises the loss; undefined while it or the unedited run is missing. */
export function cost(frames: readonly Frame[], of: (frame: Frame) => boolean): Cost | undefined {
  const baseline = wholeOf(frames);
  const match = frames.find((frame) => frame !== baseline && of(frame));
  return baseline && match && costOf(match, baseline);
}

export interface Column {
  readonly name: string;
  readonly of: (frame: Frame, whole: Frame | undefined) => string | undefined;
}

/** A table with more rows than this is folded. */
const MOST_OPEN = 12;

/** A row for each setting of each model. */
export function settingsTable(
  groups: readonly { readonly title: string; readonly frames: readonly Frame[] }[],
  columns: readonly Column[],
  caption: string,
  file: PromptFile | undefined,
): TemplateResult {
  const count = groups.reduce((sum, { frames }) => sum + frames.length, 0);
  return html`<details class="more" ?open=${count <= MOST_OPEN}>
    <summary>All numbers: ${count} settings</summary>
    ${tablePlace(
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
            const baseline = wholeOf(frames);
            return frames.map(
              (frame, i) =>
                html`<tr>
                  ${i ? html`<td></td>` : html`<th scope="row">${title}</th>`}
                  <td>${settingName(frame)}</td>
                  ${columns.map(({ of }) => html`<td>${of(frame, baseline) ?? '–'}</td>`)}
                  <td>${copyCommand(commandOf(frame, file))}</td>
                </tr>`,
            );
          })}
        </tbody>
      </table>`,
    )}
  </details>`;
}

export const lossColumns: readonly Column[] = [
  {
    name: 'loss, nats',
    of: ({ tensors, perPrompt }) => {
      const value = tensors.loss_mean?.data[0];
      const all = perPrompt.loss_mean?.length ?? 0;
      return value === undefined ? undefined : `${value.toFixed(3)} (${all})`;
    },
  },
  {
    name: 'change from baseline',
    of: (frame, whole) =>
      whole && frame !== whole && frame.question.input === whole.question.input
        ? costWords(costOf(frame, whole))
        : undefined,
  },
];

export const reportedBadge = html`<span class="badge">REPORTED</span>`;
