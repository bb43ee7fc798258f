/** The lab's buttons and the fields of its settings. */
import { html, nothing, type TemplateResult } from 'lit';
import { copyCommandButton } from '../page/command';
import { elapsed } from '../page/elapsed';
import { choiceField, numberInput } from '../page/controls';
import type { Context } from '../page/context';
import { ownText } from './fine_tune';
import { saveText } from './store';
import type { Pair, Side } from './pair';
import { fromScratch, fineTune } from './presets';
import {
  commandOf,
  isFineTune,
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

/** Offers the presets that have a question. */
function questionButtons({ state, set }: Context): TemplateResult {
  const { leftRun, rightRun } = state.value;
  return html`<div class="lab-questions" role="group" aria-label="Experiments">
    ${[...fromScratch, ...fineTune].map((preset) =>
      preset.question
        ? html`<button
            type="button"
            aria-pressed=${preset.leftRun === leftRun && preset.rightRun === rightRun}
            @click=${() => set({ leftRun: preset.leftRun, rightRun: preset.rightRun })}
          >
            ${preset.question}
          </button>`
        : nothing,
    )}
  </div>`;
}

export function createControls(context: Context, pair: Pair, reset: () => void) {
  function bar(): TemplateResult {
    const { isRunning, canTrain, step, steps, isOver, labs } = pair;
    const [{ settings }] = labs;
    const seconds = Math.max(...labs.map((lab) => lab.seconds));
    const remainingTime = durationWords(pair.secondsLeft);
    const label = isOver ? `${pair.moreSteps} more steps` : pair.trainWord;
    const isLoading = labs.some(({ stage }) => stage === 'loading');
    const progressNote = isLoading
      ? html` · loading …${elapsed('')}`
      : remainingTime && !isOver
        ? ` · about ${remainingTime} to go`
        : '';
    const timeWords = html`${seconds.toFixed(1)} s${progressNote}`;
    const speedRow = settingsOf(settings, pair.tables).find(({ name }) => name === 'speed');
    return html`<button
        type="button"
        class="primary train"
        aria-keyshortcuts="T"
        ?disabled=${!canTrain && !isRunning}
        @click=${() => pair.toggle()}
      >
        ${label}
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
      ${speedRow ? field('both', speedRow, settings) : nothing}
      <span class="lab-step"
        >step <strong>${step}</strong> of ${steps}${pair.leadWords} · ${timeWords}</span
      >`;
  }

  function questionChoice(): TemplateResult {
    return html`${questionButtons(context)}
    ${isFineTune(context.state.value.leftRun) ? textChoice(pair.requestedSettings()[0]!.settings) : nothing}`;
  }

  function settingsForms(names: readonly string[]): TemplateResult {
    const requestedRuns = pair.requestedSettings();
    const { settings } = requestedRuns[0]!;
    const sharedRows = settingsOf(settings, pair.tables).filter(
      ({ isShared, hasOwnControl }) => isShared && !hasOwnControl,
    );
    return html`${requestedRuns.map((run, i) => settingsForm(i as Side, names[i]!, run.settings))}
      <section class="lab-set" aria-label="Experiment">
        <div class="numbers">
          ${experimentChoice(settings)} ${sharedRows.map((row) => field('both', row, settings))}
        </div>
      </section>`;
  }

  function experimentChoice(settings: Settings): TemplateResult {
    const { leftRun, rightRun } = context.state.value;
    const table = isFineTune(settings) ? fineTune : fromScratch;
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
        if (preset) context.set({ leftRun: preset.leftRun, rightRun: preset.rightRun });
      },
    );
  }

  /** Renders the choice of the text for fine-tuning: the passages of this page, or a file, which resets the labs. */
  function textChoice(settings: Settings): TemplateResult {
    const useChosenFile = async (event: Event) => {
      const input = event.target as HTMLInputElement;
      const [file] = input.files ?? [];
      if (!file) return;
      ownText.value = { name: file.name, text: await file.text() };
      await saveText(ownText.value);
      input.value = '';
      if (settings.text === 'own') void pair.reset();
      else pair.change('both', { text: 'own' });
    };
    return html`<label class="file"
        >Choose a text file<input
          type="file"
          @change=${(event: Event) => void useChosenFile(event).catch(context.fail)}
      /></label>
      ${
        settings.text === 'own'
          ? html`<button type="button" @click=${() => pair.change('both', { text: 'passages' })}>
              Use the passages of this page
            </button>`
          : nothing
      }`;
  }

  function settingsForm(side: Side, name: string, settings: Settings): TemplateResult {
    const rows = settingsOf(settings, pair.tables);
    const visibleNames = isFineTune(settings) ? VISIBLE_FINE_TUNE_SETTINGS : VISIBLE_SETTINGS;
    const findRow = (rowName: string) => rows.find((row) => row.name === rowName)!;
    const command = commandOf(settings, pair.tables);
    const hiddenRows = rows.filter(
      ({ name: rowName, isShared, hasOwnControl }) =>
        !visibleNames.includes(rowName) && !isShared && !hasOwnControl,
    );
    return html`<section
      class="lab-set ${isFineTune(settings) ? 'fine-tune' : ''}"
      aria-label="Lab ${side + 1}: ${name}"
    >
      <div class="numbers">
        ${visibleNames.map((rowName) => field(side, findRow(rowName), settings))}
        <details class="more lab-more">
          <summary>More settings</summary>
          <div class="lab-fields">
            ${hiddenRows.map((row) => field(side, row, settings))}
            <p class="hint">
              Changing a setting resets both models. The same run on the command line:
              <code>${command}</code> ${copyCommandButton(command)}
            </p>
          </div>
        </details>
      </div>
    </section>`;
  }

  function field(side: Side | 'both', row: Setting, settings: Settings): TemplateResult {
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
      if (reason) context.notify(reason);
      else set(value);
      return reason ? settings[name] : value;
    });
  }

  return { bar, questionChoice, settingsForms };
}
