/** The lab's buttons and the fields of its settings. */
import { html, nothing, type TemplateResult } from 'lit';
import { copyCommandButton } from '../page/command';
import { choiceField, numberInput, segmented } from '../page/controls';
import type { Context } from '../page/context';
import { ownText } from './fine_tune';
import { saveText } from './store';
import type { Pair, Side } from './pair';
import { fromScratch, fineTune } from './presets';
import {
  commandOf,
  isFineTune,
  refusal,
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

export class Controls {
  readonly #context;
  readonly #pair;
  readonly #reset;

  constructor(context: Context, pair: Pair, reset: () => void) {
    this.#context = context;
    this.#pair = pair;
    this.#reset = reset;
  }

  bar(): TemplateResult {
    const pair = this.#pair;
    const { isRunning, canTrain, step, steps, isOver, labs } = pair;
    const [{ settings }] = labs;
    const seconds = Math.max(...labs.map((lab) => lab.seconds));
    const remaining = durationWords(pair.secondsLeft);
    const label = isRunning ? 'Pause' : isOver ? `${pair.moreSteps} more steps` : 'Train';
    const isLoading = labs.some(({ stage }) => stage === 'loading');
    const progressNote = isLoading
      ? ' · loading …'
      : remaining && !isOver
        ? ` · about ${remaining} to go`
        : '';
    const speedRow = this.#rows(settings).find(({ name }) => name === 'speed');
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
      <button type="button" aria-keyshortcuts="R" @click=${this.#reset}>Reset</button>
      ${speedRow ? this.#field('both', speedRow, settings) : nothing}
      <span class="lab-step"
        >step <strong>${step}</strong> of ${steps} · ${seconds.toFixed(1)} s${progressNote}</span
      >`;
  }

  trainingChoice(): TemplateResult {
    const isFineTuning = isFineTune(this.#context.state.value.leftRun);
    return html`${this.#kindChoice(isFineTuning)}
    ${isFineTuning ? this.#text(this.#pair.requestedSettings()[0]!.settings) : nothing}`;
  }

  #kindChoice(isFineTuning: boolean): TemplateResult {
    return segmented(
      'Training',
      [
        ['fromScratch', 'New models'],
        ['fineTune', 'Fine-tune'],
      ],
      isFineTuning ? 'fineTune' : 'fromScratch',
      (kind) => {
        const { leftRun, rightRun } = { fromScratch, fineTune }[kind][0]!;
        this.#context.set({ leftRun, rightRun });
      },
    );
  }

  settingsForms(names: readonly string[]): TemplateResult {
    const requested = this.#pair.requestedSettings();
    const { settings } = requested[0]!;
    return html`${requested.map((one, i) => this.#settingsForm(i as Side, names[i]!, one.settings))}
      <section class="lab-set" aria-label="Experiment">
        <div class="numbers">${this.#experiment(settings)} ${this.#shared(settings)}</div>
      </section>`;
  }

  #rows(settings: Settings): readonly Setting[] {
    return settingsOf(settings, this.#pair.tables);
  }

  #experiment(settings: Settings): TemplateResult {
    const { leftRun, rightRun } = this.#context.state.value;
    const table = isFineTune(settings) ? fineTune : fromScratch;
    const at = table.findIndex((one) => one.leftRun === leftRun && one.rightRun === rightRun);
    return choiceField(
      'experiment',
      String(at),
      [
        ...(at < 0 ? ([['-1', 'custom']] as const) : []),
        ...table.map(({ title }, i) => [String(i), title] as const),
      ],
      (i) => {
        const preset = table[Number(i)];
        if (preset) this.#context.set({ leftRun: preset.leftRun, rightRun: preset.rightRun });
      },
    );
  }

  #shared(settings: Settings): TemplateResult[] {
    return this.#rows(settings)
      .filter(({ isShared, hasOwnControl }) => isShared && !hasOwnControl)
      .map((row) => this.#field('both', row, settings));
  }

  /** Renders the choice of the text for fine-tuning: the passages of this page, or a file, which resets the labs. */
  #text(settings: Settings): TemplateResult {
    const useChosenFile = async (event: Event) => {
      const input = event.target as HTMLInputElement;
      const [chosen] = input.files ?? [];
      if (!chosen) return;
      ownText.value = { name: chosen.name, text: await chosen.text() };
      await saveText(ownText.value);
      input.value = '';
      if (settings.text === 'own') void this.#pair.reset();
      else this.#pair.change('both', { text: 'own' });
    };
    return html`<label class="file"
        >Choose a text file<input
          type="file"
          @change=${(event: Event) => void useChosenFile(event).catch(this.#context.fail)}
      /></label>
      ${
        settings.text === 'own'
          ? html`<button
              type="button"
              @click=${() => this.#pair.change('both', { text: 'passages' })}
            >
              Use the passages of this page
            </button>`
          : nothing
      }`;
  }

  #settingsForm(side: Side, name: string, settings: Settings): TemplateResult {
    const rows = this.#rows(settings);
    const visible = isFineTune(settings) ? VISIBLE_FINE_TUNE_SETTINGS : VISIBLE_SETTINGS;
    const findRow = (wanted: string) => rows.find((row) => row.name === wanted)!;
    const command = commandOf(settings, this.#pair.tables);
    const hiddenRows = rows.filter(
      ({ name: own, isShared, hasOwnControl }) =>
        !visible.includes(own) && !isShared && !hasOwnControl,
    );
    return html`<section
      class="lab-set ${isFineTune(settings) ? 'fine-tune' : ''}"
      aria-label="Lab ${side + 1}: ${name}"
    >
      <div class="numbers">
        ${visible.map((wanted) => this.#field(side, findRow(wanted), settings))}
        <details class="more lab-more">
          <summary>More settings</summary>
          <div class="lab-fields">
            ${hiddenRows.map((row) => this.#field(side, row, settings))}
            <p class="hint">
              Changing a setting resets both models. The same run on the command line:
              <code>${command}</code> ${copyCommandButton(command)}
            </p>
          </div>
        </details>
      </div>
    </section>`;
  }

  #field(side: Side | 'both', row: Setting, settings: Settings): TemplateResult {
    const { name, label, values, step, low, high } = row;
    const set = (value: number | string) => this.#pair.change(side, { [name]: value });
    if (values)
      return choiceField(
        label,
        String(settings[name]),
        values.map(([value, text]) => [String(value), text] as const),
        (text) => set(values.find(([value]) => String(value) === text)![0]),
      );
    const limit = high! < 1e9 ? high : undefined;
    return numberInput(label, settings[name], [low, limit, step ?? 'any'], (value) => {
      const reason = refusal(row, value);
      if (reason) this.#context.notify(reason);
      else set(value);
      return reason ? settings[name] : value;
    });
  }
}
