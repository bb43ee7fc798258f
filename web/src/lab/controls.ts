/** The lab's buttons and the fields of its settings. */
import { html, nothing, type TemplateResult } from 'lit';
import { copyCommandButton } from '../page/command';
import { elapsed } from '../page/elapsed';
import { choiceField } from '../page/controls';
import { numberInput } from '../page/room_controls';
import type { Context } from '../page/context';
import { COLORS } from './charts';
import { ownText } from './fine_tune';
import { saveText } from './store';
import type { Pair, Side } from './pair';
import {
  guessWords,
  OUTCOMES,
  outcomeName,
  questionWords,
  seenWords,
  type NamedLab,
  type Outcome,
} from './words';
import { presetOf, PRESETS, type Preset } from './presets';
import {
  changesWords,
  commandOf,
  isFineTune,
  namesOf,
  refusalReason,
  settingsOf,
  type Setting,
  type Settings,
} from './settings';

const durationWords = (seconds: number): string =>
  seconds < 60 ? `${Math.max(1, Math.round(seconds))} s` : `${Math.round(seconds / 60)} min`;

/** Asks which models will have a sink; each answer starts the training, and then gives way to what came of it. */
export function guessTemplate(
  pair: Pair,
  labs: readonly [NamedLab, NamedLab],
  guess: Outcome | undefined,
  answer: (guess: Outcome) => void,
): TemplateResult {
  if (!pair.isUntrained) {
    const [heading, sentence] = guessWords(labs, guess);
    return html`<h2>${heading}</h2>
      <p class="hint">${sentence}</p>`;
  }
  const question = questionWords(labs);
  return html`<h2>${question}</h2>
    <div class="numbers" role="group" aria-label=${question}>
      ${OUTCOMES.map(
        (outcome) =>
          html`<button
            type="button"
            class=${outcome}
            ?disabled=${!pair.canTrain}
            @click=${() => answer(outcome)}
          >
            ${outcomeName(labs, outcome)}
          </button>`,
      )}
    </div>
    <p class="hint">${seenWords(labs)}Your guess starts the training.</p>`;
}

function trainButton(pair: Pair, word: string): TemplateResult {
  const { isRunning, canTrain, step, isOver } = pair;
  return html`<button
    type="button"
    class="train ${isRunning || (step > 0 && !isOver) ? 'primary' : 'quiet'}"
    aria-keyshortcuts="T"
    ?disabled=${!canTrain && !isRunning}
    @click=${() => pair.toggle()}
  >
    ${word}
  </button>`;
}

/** Renders the button that trains until the last step, and how far both labs are. */
export function trainBar(pair: Pair): TemplateResult {
  const { step, steps, isOver, isUntrained, labs } = pair;
  const [{ settings }] = labs;
  // Before the first step this is a guess from a forward pass, which only the minutes of fine-tuning are worth.
  const progressNote = labs.some(({ stage }) => stage === 'loading')
    ? html` · loading …${elapsed('')}`
    : Number.isFinite(pair.secondsLeft) && !isOver && (step > 0 || isFineTune(settings))
      ? ` · about ${durationWords(pair.secondsLeft)} to go`
      : '';
  const seconds = step ? ` · ${Math.max(...labs.map((lab) => lab.seconds)).toFixed(1)} s` : '';
  return html`${isOver ? nothing : trainButton(pair, isUntrained ? 'Skip the guess' : pair.trainWord)}
    <span class="lab-step" ?hidden=${(isUntrained || isOver) && !progressNote}
      >step <strong>${step}</strong> of ${steps}${seconds}${progressNote}</span
    >`;
}

/** Renders the other buttons that train: on after the last step, for one step, and from the first. */
export function moreTrainBar(context: Context, pair: Pair, reset: () => void): TemplateResult {
  const { isRunning, isOver, labs } = pair;
  const [{ settings }] = labs;
  const speed = settingsOf(settings, pair.tables).filter(({ name }) => name === 'speed');
  return html`${isOver ? trainButton(pair, 'Train more') : nothing}
    <button
      type="button"
      aria-keyshortcuts="S"
      ?disabled=${isRunning}
      @click=${() => pair.trainOneStep()}
    >
      One step
    </button>
    <button type="button" aria-keyshortcuts="R" @click=${reset}>Reset</button>
    ${speed.map(fieldsOf(context, pair, 'both', settings))}`;
}

function choosePreset({ set, notify }: Context, pair: Pair, { leftRun, rightRun }: Preset): void {
  const earlier = pair.requestedSettings();
  set({ leftRun, rightRun });
  const [left, right] = pair
    .requestedSettings()
    .map(({ settings }, i) => changesWords(settings, earlier[i]!.settings, pair.tables));
  // How the right model differs from the left one is said in the room.
  if (left) notify(`Changed settings, left: ${left}${right && `; right: ${right}`}.`);
}

/** Offers the experiment after the chosen one, once that is over. */
export function nextExperiment(context: Context, pair: Pair): TemplateResult | typeof nothing {
  const chosen = presetOf(context.state.value);
  const later = PRESETS.slice(PRESETS.indexOf(chosen!) + 1);
  const next = later.find(({ action }) => action);
  if (!pair.isOver || !next) return nothing;
  return html`<button
    type="button"
    class="primary lab-next"
    @click=${() => choosePreset(context, pair, next)}
  >
    Next: ${next.action} →
  </button>`;
}

/** Renders a button for each preset, and, for fine-tuning, the choice of the text. */
export function presetChoice(context: Context, pair: Pair): TemplateResult {
  const chosen = presetOf(context.state.value);
  return html`<div class="lab-questions" role="group" aria-label="Experiments">
      ${PRESETS.map(
        (preset) =>
          html`<button
            type="button"
            aria-pressed=${preset === chosen}
            @click=${() => choosePreset(context, pair, preset)}
          >
            ${preset.title}
          </button>`,
      )}
    </div>
    ${isFineTune(context.state.value.leftRun) ? textChoice(context, pair) : nothing}`;
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
    <section class="lab-set" aria-label="Both">
      <strong>both</strong>
      ${sharedRows.map(fieldsOf(context, pair, 'both', left!))}
      <p class="hint">Changing a setting resets both models.</p>
    </section>`;
}

function settingsForm(
  context: Context,
  pair: Pair,
  side: Side,
  name: string,
  settings: Settings,
): TemplateResult {
  const rows = settingsOf(settings, pair.tables).filter(
    ({ isShared, hasOwnControl }) => !isShared && !hasOwnControl,
  );
  const command = commandOf(settings, pair.tables);
  return html`<section class="lab-set" aria-label="Lab ${side + 1}: ${name}">
    <strong style="color: var(${COLORS[side]})">${name}</strong>
    ${rows.map(fieldsOf(context, pair, side, settings))}
    <p class="hint">
      The same run on the command line: <code>${command}</code> ${copyCommandButton(command)}
    </p>
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
