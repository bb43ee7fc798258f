/** The lab's buttons and the fields of its settings. */
import { html, nothing, type TemplateResult } from 'lit';
import { copyCommandButton } from '../page/command';
import { elapsed } from '../page/elapsed';
import { choiceField } from '../page/controls';
import { numberInput } from '../page/room_controls';
import type { Context } from '../page/context';
import { ownText } from './fine_tune';
import { saveText } from './store';
import type { Pair, Side } from './pair';
import { fromScratch, fineTune, presetOf } from './presets';
import {
  commandOf,
  isFineTune,
  namesOf,
  refusalReason,
  settingsOf,
  type Setting,
  type Settings,
} from './settings';

/** Settings that are visible before the reader opens the others. */
const VISIBLE_SETTINGS = ['operation', 'optimizer', 'learning_rate'];
const VISIBLE_FINE_TUNE_SETTINGS = ['from', 'operation', 'learning_rate'];
const MINUTE = 60;

function durationWords(seconds: number): string {
  if (!Number.isFinite(seconds)) return '';
  if (seconds < MINUTE) return `${Math.max(1, Math.round(seconds))} s`;
  return `${Math.round(seconds / MINUTE)} min`;
}

/** Renders the buttons that train, and how far both labs are. */
export function trainBar(context: Context, pair: Pair, reset: () => void): TemplateResult {
  const { isRunning, canTrain, step, steps, isOver, labs } = pair;
  const [{ settings }] = labs;
  const remainingTime = durationWords(pair.secondsLeft);
  // Before the first step this is a guess from a forward pass, which only the minutes of fine-tuning are worth.
  const progressNote = labs.some(({ stage }) => stage === 'loading')
    ? html` · loading …${elapsed('')}`
    : remainingTime && !isOver && (step > 0 || isFineTune(settings))
      ? ` · about ${remainingTime} to go`
      : '';
  const seconds = Math.max(...labs.map((lab) => lab.seconds)).toFixed(1);
  const speed = settingsOf(settings, pair.tables).filter(({ name }) => name === 'speed');
  return html`<button
      type="button"
      class="primary train"
      aria-keyshortcuts="T"
      ?disabled=${!canTrain && !isRunning}
      @click=${() => pair.toggle()}
    >
      ${isOver ? `${pair.moreSteps} more steps` : pair.trainWord}
    </button>
    <button
      type="button"
      aria-keyshortcuts="S"
      ?disabled=${isRunning}
      @click=${() => pair.trainOneStep()}
    >
      One step
    </button>
    <button type="button" aria-keyshortcuts="R" @click=${reset}>Reset</button>
    ${speed.map(fieldsOf(context, pair, 'both', settings))}
    <span class="lab-step"
      >step <strong>${step}</strong> of ${steps}${pair.leadWords} · ${seconds}
      s${progressNote}</span
    >`;
}

/** Offers the presets that have a question, and, for fine-tuning, the choice of the text. */
export function questionChoice(context: Context, pair: Pair): TemplateResult {
  const { leftRun, rightRun } = context.state.value;
  return html`<div class="lab-questions" role="group" aria-label="Experiments">
      ${[...fromScratch, ...fineTune].map((preset) =>
        preset.question
          ? html`<button
              type="button"
              title=${preset.claim}
              aria-pressed=${preset === presetOf({ leftRun, rightRun })}
              @click=${() => context.set({ leftRun: preset.leftRun, rightRun: preset.rightRun })}
            >
              ${preset.question}
            </button>`
          : nothing,
      )}
    </div>
    ${isFineTune(leftRun) ? textChoice(context, pair) : nothing}`;
}

/** Renders the choice of the text for fine-tuning: the passages of this page, or a file, which resets the labs. */
function textChoice(context: Context, pair: Pair): TemplateResult {
  const isOwn = pair.requestedSettings()[0]!.settings.text === 'own';
  const useChosenFile = async (event: Event) => {
    const input = event.target as HTMLInputElement;
    const [file] = input.files ?? [];
    if (!file) return;
    ownText.value = { name: file.name, text: await file.text() };
    await saveText(ownText.value);
    input.value = '';
    if (isOwn) void pair.reset();
    else pair.change('both', { text: 'own' });
  };
  return html`<label class="file"
      >Choose a text file<input
        type="file"
        @change=${(event: Event) => void useChosenFile(event).catch(context.fail)}
    /></label>
    ${
      isOwn
        ? html`<button type="button" @click=${() => pair.change('both', { text: 'passages' })}>
            Use the passages of this page
          </button>`
        : nothing
    }`;
}

/** Renders the settings of each lab, and those that both share. */
export function settingsForms(context: Context, pair: Pair): TemplateResult {
  const [left, right] = pair.requestedSettings().map(({ settings }) => settings);
  const names = namesOf([left!, right!], pair.tables);
  const form = (settings: Settings, i: number) =>
    settingsForm(context, pair, i as Side, names[i]!, settings);
  const sharedRows = settingsOf(left!, pair.tables).filter(
    ({ isShared, hasOwnControl }) => isShared && !hasOwnControl,
  );
  return html`${[left!, right!].map(form)}
    <section class="lab-set" aria-label="Experiment">
      <div class="numbers">
        ${experimentChoice(context)} ${sharedRows.map(fieldsOf(context, pair, 'both', left!))}
      </div>
    </section>`;
}

function experimentChoice({ state, set }: Context): TemplateResult {
  const { leftRun, rightRun } = state.value;
  const table = isFineTune(leftRun) ? fineTune : fromScratch;
  const presetIndex = table.findIndex(
    (preset) => preset.leftRun === leftRun && preset.rightRun === rightRun,
  );
  return choiceField(
    'experiment',
    String(presetIndex),
    [
      ...(presetIndex < 0 ? ([['-1', 'custom']] as const) : []),
      ...table.map(({ title }, i) => [String(i), title] as const),
    ],
    (i) => {
      const preset = table[Number(i)];
      if (preset) set({ leftRun: preset.leftRun, rightRun: preset.rightRun });
    },
  );
}

function settingsForm(
  context: Context,
  pair: Pair,
  side: Side,
  name: string,
  settings: Settings,
): TemplateResult {
  const field = fieldsOf(context, pair, side, settings);
  const rows = settingsOf(settings, pair.tables);
  const visibleNames = isFineTune(settings) ? VISIBLE_FINE_TUNE_SETTINGS : VISIBLE_SETTINGS;
  const command = commandOf(settings, pair.tables);
  const visibleRows = visibleNames.map((visible) => rows.find((row) => row.name === visible)!);
  const hiddenRows = rows.filter(
    (row) => !visibleRows.includes(row) && !row.isShared && !row.hasOwnControl,
  );
  return html`<section
    class="lab-set ${isFineTune(settings) ? 'fine-tune' : ''}"
    aria-label="Lab ${side + 1}: ${name}"
  >
    <div class="numbers">
      ${visibleRows.map(field)}
      <details class="more lab-more">
        <summary>More settings</summary>
        <div class="lab-fields">
          ${hiddenRows.map(field)}
          <p class="hint">
            Changing a setting resets both models. The same run on the command line:
            <code>${command}</code> ${copyCommandButton(command)}
          </p>
        </div>
      </details>
    </div>
  </section>`;
}

/** Returns a function that renders the control of a setting of one lab or of both. */
function fieldsOf({ notify }: Context, pair: Pair, side: Side | 'both', settings: Settings) {
  return (row: Setting): TemplateResult => {
    const { name, label, values, step = 'any', low, high } = row;
    const set = (value: number | string) => pair.change(side, { [name]: value });
    if (values)
      return choiceField(
        label,
        String(settings[name]),
        values.map(([value, text]) => [String(value), text] as const),
        (text) => set(values.find(([value]) => String(value) === text)![0]),
      );
    const limit = high! < 1e9 ? high : undefined;
    return numberInput(label, settings[name], [low, limit, step], (value) => {
      const reason = refusalReason(row, value);
      if (reason) notify(reason);
      else set(value);
      return reason ? settings[name] : value;
    });
  };
}
