/** The controls of the comparison: state in, templates out. */
import { html, nothing, type TemplateResult } from 'lit';
import type { Operation } from 'sinkscope';
import type { Choice } from '../models';
import { hubName, isOfHub } from '../open/words';
import type { State } from '../state';
import { CORPORA, type PromptFile, type Splitting } from '../study/corpus';
import type { Work } from '../study/runner';
import { FEWEST, MOST, printPick, titleOf, toggled, type Pick } from './picks';

export interface PickParts {
  readonly picks: ReadonlyMap<string, Pick>;
  readonly choices: readonly Choice[];
  /** What of a model's recipe is not the baseline's; empty where nobody knows. */
  readonly factorOf: (id: string) => string;
  readonly operations: readonly Operation[];
  readonly pick: (texts: readonly string[]) => void;
  readonly open: () => void;
  /** The operation that the form of what-ifs has chosen. */
  readonly whatIf: string;
  readonly choose: (operation: string) => void;
}

const valueOf = (event: Event) => (event.target as HTMLInputElement).value;

/** What a pick is called before it is opened. */
export function nameOf(
  pick: Pick,
  choices: readonly Choice[],
  operations: readonly Operation[],
): string {
  const { id } = pick;
  const known = choices.find((one) => one.id === id)?.title;
  return titleOf(pick, known ?? (isOfHub(id) ? hubName(id) : id), operations);
}

function chip(text: string, name: string, parts: PickParts): TemplateResult {
  const { picks, pick } = parts;
  const isPicked = picks.has(text);
  const isOnly = isPicked && picks.size === 1;
  const isFull = !isPicked && picks.size >= MOST;
  return html`<label class="pick ${isPicked ? 'picked' : ''}"
    ><input
      type="checkbox"
      .checked=${isPicked}
      ?disabled=${isOnly || isFull}
      @change=${() => pick(toggled([...picks.keys()], text))}
    />${name}</label
  >`;
}

/** The value of the first parameter, of operations that have one. */
function parameterField({ operations, whatIf }: PickParts): TemplateResult | typeof nothing {
  const parameter = operations.find(({ name }) => name === whatIf)?.parameters[0];
  if (!parameter) return nothing;
  const { name, meaning, min, max } = parameter;
  return html`<label class="field number-field" title=${meaning}
    ><span>${name}</span
    ><input
      name="parameter"
      type="number"
      step="any"
      min=${Math.max(min, -9999)}
      max=${Math.min(max, 9999)}
      .value=${String(parameter.default)}
  /></label>`;
}

/** Reads the form of what-ifs; the parameter's default is not written down. */
function pickOfForm(form: HTMLFormElement, { operations }: PickParts): Pick {
  const data = new FormData(form);
  const [id, operation] = ['model', 'operation'].map((name) => String(data.get(name)));
  const parameter = operations.find(({ name }) => name === operation)?.parameters[0];
  const value = Number(Number(data.get('parameter') ?? NaN).toFixed(6));
  const isOwn = parameter && Number.isFinite(value) && value !== parameter.default;
  return { kind: 'edit', id, operation, ...(isOwn ? { parameter: value } : {}) };
}

/** Adds a model with another operation than it was trained with. */
export function editForm(parts: PickParts): TemplateResult {
  const { picks, choices, operations, pick, whatIf, choose } = parts;
  const ids = [...new Set([...picks.values(), ...choices].map(({ id }) => id))];
  const submit = (event: Event) => {
    event.preventDefault();
    const text = printPick(pickOfForm(event.target as HTMLFormElement, parts));
    if (!picks.has(text)) pick(toggled([...picks.keys()], text));
  };
  const nameOfId = (id: string) => nameOf({ kind: 'model', id }, choices, operations);
  return html`<form class="pick-edit" @submit=${submit}>
    <label class="field"
      ><span>What if</span>
      <select name="model">
        ${ids.map((id) => html`<option value=${id}>${nameOfId(id)}</option>`)}
      </select></label
    >
    <label class="field"
      ><span>ran with</span>
      <select name="operation" @change=${(event: Event) => choose(valueOf(event))}>
        ${operations.map(
          ({ name, label }) =>
            html`<option value=${name} ?selected=${name === whatIf}>${label}</option>`,
        )}
      </select></label
    >
    ${parameterField(parts)}
    <button type="submit" ?disabled=${picks.size >= MOST}>Add what-if</button>
  </form>`;
}

/** The models by what their recipes change; where there is but one kind, it needs no name. */
function pickGroups(parts: PickParts): [string, (readonly [string, string])[]][] {
  const { picks, choices, operations, factorOf } = parts;
  const groups = new Map<string, (readonly [string, string])[]>();
  const add = (group: string, text: string, name: string) =>
    groups.set(group, [...(groups.get(group) ?? []), [text, name]]);
  for (const { id, title } of choices) add(factorOf(id), printPick({ kind: 'model', id }), title);
  const offered = new Set(choices.map(({ id }) => id));
  for (const [text, pick] of picks)
    if (!offered.has(text)) add('', text, nameOf(pick, choices, operations));
  return [...groups].sort(([a], [b]) => Number(!a) - Number(!b));
}

export function pickControls(parts: PickParts): TemplateResult {
  const { picks, open } = parts;
  const groups = pickGroups(parts);
  const isNamed = groups.filter(([name]) => name).length > 1;
  const hint =
    picks.size < FEWEST ? 'Pick one more to compare.' : picks.size < MOST ? '' : `${MOST} at most.`;
  return html`<fieldset class="picks">
    <legend>Models, ${FEWEST} to ${MOST}</legend>
    <div class="pick-list">
      ${groups.map(
        ([group, offered]) =>
          html`<div class="pick-set">
            ${isNamed ? html`<span class="pick-group">${group || 'others'}</span>` : nothing}
            ${offered.map(([text, name]) => chip(text, name, parts))}
          </div>`,
      )}
      <button type="button" @click=${open}>Open another …</button>
    </div>
    <p class="hint" role="status">${hint}</p>
  </fieldset>`;
}

export interface SettingParts {
  readonly state: State;
  readonly file: PromptFile | undefined;
  /** Prompts in the file. */
  readonly count: number;
  readonly set: (change: Partial<State>) => void;
  readonly choose: (file: File) => void;
  readonly split: (splitting: Splitting) => void;
}

function number(
  label: string,
  name: 'T' | 'eps' | 'prompts' | 'seed',
  [min, max, step]: readonly [number, number, number],
  { state, set }: SettingParts,
): TemplateResult {
  const change = (event: Event) => {
    const input = event.target as HTMLInputElement;
    const value = input.value.trim() === '' ? NaN : Number(input.value);
    const bounded = Math.min(max, Math.max(min, Number.isFinite(value) ? value : state[name]));
    const kept = step < 1 ? bounded : Math.round(bounded);
    input.value = String(kept);
    set({ [name]: kept });
  };
  return html`<label class="field number-field"
    ><span>${label}</span
    ><input
      type="number"
      min=${min}
      max=${max}
      step=${step}
      .value=${String(state[name])}
      @change=${change}
  /></label>`;
}

function fileControls({ file, count, choose, split }: SettingParts): TemplateResult {
  const change = (event: Event) => {
    const input = event.target as HTMLInputElement;
    const [chosen] = input.files ?? [];
    if (chosen) choose(chosen);
    // The same file may be chosen again after a change.
    input.value = '';
  };
  const ways: readonly (readonly [Splitting, string])[] = [
    ['lines', 'each line is a prompt'],
    ['blocks', 'blank lines separate prompts'],
  ];
  return html`<div class="prompt-file">
    <label class="file">Choose a text file<input type="file" @change=${change} /></label>
    ${
      file
        ? html`<span>${file.name}: ${count.toLocaleString('en')} prompts</span>
            <label class="field"
              ><span class="unseen">How the file is split</span>
              <select @change=${(event: Event) => split(valueOf(event) as Splitting)}>
                ${ways.map(
                  ([value, name]) =>
                    html`<option value=${value} ?selected=${value === file.splitting}>
                      ${name}
                    </option>`,
                )}
              </select></label
            >`
        : html`<span class="hint"
            >UTF-8, a prompt a line, or prompts with blank lines between them. It stays on this
            machine.</span
          >`
    }
  </div>`;
}

function textControls({ state, set }: SettingParts): TemplateResult {
  return html`<label class="compare-text"
    ><span class="unseen">Text</span
    ><textarea
      rows="3"
      spellcheck="false"
      .value=${state.prompt}
      @input=${(event: Event) => set({ prompt: valueOf(event) })}
    ></textarea>
  </label>`;
}

export function settingControls(parts: SettingParts): TemplateResult {
  const { state, set } = parts;
  const { corpus } = state;
  const isDrawn = corpus === 'random' || corpus === 'repeat';
  const pick = (event: Event) => set({ corpus: valueOf(event) as State['corpus'] });
  const bos = (event: Event) => set({ bos: (event.target as HTMLInputElement).checked });
  return html`<div class="settings">
      <label class="field"
        ><span>prompts from</span>
        <select @change=${pick}>
          ${Object.entries(CORPORA).map(
            ([value, name]) =>
              html`<option value=${value} ?selected=${value === corpus}>${name}</option>`,
          )}
        </select></label
      >
      ${number('tokens T', 'T', [1, 4096, 1], parts)}
      ${number('threshold ε', 'eps', [0, 1, 0.05], parts)}
      ${isDrawn ? number('seed', 'seed', [0, 4294967295, 1], parts) : nothing}
      <label class="check"
        ><input type="checkbox" .checked=${state.bos} @change=${bos} />BOS first</label
      >
    </div>
    ${corpus === 'file' ? fileControls(parts) : corpus === 'text' ? textControls(parts) : nothing}`;
}

export interface StudyParts extends SettingParts {
  readonly work: Work | undefined;
  /** Whether there is something to measure. */
  readonly isReady: boolean;
  readonly run: () => void;
  readonly stop: () => void;
  readonly save: (kind: SaveKind) => void;
  readonly hasResults: boolean;
}

export const SAVE_KINDS = ['CSV', 'CSV by prompt', 'JSON'] as const;
export type SaveKind = (typeof SAVE_KINDS)[number];

function workWords({ title, done, total, index, of, loading }: Work): string {
  const where = `model ${index} of ${of}`;
  if (!(done >= 0)) return `${where}: opening ${title}${loading ? `: ${loading}` : ''}`;
  return `${where}: ${title}, ${done} of ${total} prompts`;
}

function progress(work: Work, stop: () => void): TemplateResult {
  const done = (work.index - 1 + (work.done >= 0 ? work.done / work.total : 0)) / work.of;
  return html`<progress aria-label="Progress of the study" max="1" .value=${done}></progress>
    <span class="work">${workWords(work)}</span>
    <button type="button" @click=${stop}>Cancel</button>`;
}

export function studyControls(parts: StudyParts): TemplateResult {
  const { work, isReady, run, stop, save, hasResults } = parts;
  return html`<div class="study">
    ${number('prompts n', 'prompts', [1, 1000, 1], parts)}
    <button type="button" class="primary" ?disabled=${!isReady} @click=${run}>Run the study</button>
    ${work ? progress(work, stop) : nothing}
    ${
      hasResults && !work
        ? html`<span class="study-saves" role="group" aria-label="Save the study"
            >${SAVE_KINDS.map(
              (kind) => html`<button type="button" @click=${() => save(kind)}>${kind}</button>`,
            )}</span
          >`
        : nothing
    }
  </div>`;
}
