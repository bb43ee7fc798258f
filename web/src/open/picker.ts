/** The dialog in which the reader chooses the shown subjects: models, steps of their training, what-ifs. */
import type { Describe } from 'sinkscope';
import { html, nothing, render, type TemplateResult } from 'lit';
import { nameOf, valueOf } from '../page/controls';
import type { Context } from '../page/context';
import type { Choice } from '../run/opened';
import { field } from '../page/terms';
import {
  editChoices,
  MAX_SUBJECTS,
  parseSubject,
  printSubject,
  toggleSubject,
  type Subject,
} from '../ask/subject';
import '../page/dialog.css';
import './open.css';

const SOURCES = {
  zoo: 'trained for this page',
  hub: 'from Hugging Face',
  disk: 'from your disk',
  recording: 'recordings',
} as const;

/** The groups that the reader has opened. */
const OWN: readonly string[] = [SOURCES.hub, SOURCES.disk, SOURCES.recording];
/** The models that contrast most, which come first, each with what its training changed. */
const CONTRASTS: Readonly<Record<string, string>> = {
  softmax: 'rows sum to 100%',
  sigmoid: 'each token is weighed by its own score',
  'key-bias': 'an extra key that is no token',
  gated: 'a gate on what each head writes',
  'no-bos': 'texts without a start token',
};

export class Picker {
  readonly #dialog = document.createElement('dialog');
  readonly #context: Context;
  #model = 'softmax';
  #edit = 'sigmoid';
  #steps: readonly number[] = [];
  /** The engine's tables with the texts of the edits; undefined until fetched. */
  #texts: Describe | undefined;

  constructor(context: Context) {
    this.#context = context;
    this.#dialog.id = 'pick';
    this.#dialog.setAttribute('aria-labelledby', 'pick-title');
    document.body.append(this.#dialog);
  }

  show(): void {
    void this.#loadSteps();
    void this.#loadTexts();
    this.#dialog.showModal();
  }

  get #shownSubjects(): readonly string[] {
    return this.#context.state.peek().shown;
  }

  get #isFull(): boolean {
    return this.#shownSubjects.length >= MAX_SUBJECTS;
  }

  #set(shown: readonly string[]): void {
    this.#context.set({ shown });
    this.draw();
  }

  #add(text: string): void {
    if (!this.#shownSubjects.includes(text)) this.#set(toggleSubject(this.#shownSubjects, text));
  }

  async #loadSteps(): Promise<void> {
    const { models } = this.#context.engine.peek()!;
    const model = this.#model;
    this.#steps = [];
    this.draw();
    if (!models.zoo.cards.some(({ id, timeline }) => timeline && id === model)) return;
    const steps = await (await models.timelines()).steps(model).catch(() => []);
    // Meanwhile the reader may have chosen another model.
    if (model !== this.#model) return;
    this.#steps = steps;
    this.draw();
  }

  async #loadTexts(): Promise<void> {
    this.#texts = await this.#context.engine.peek()!.models.explain();
    this.draw();
  }

  /** Groups the models by the settings that their recipes change. */
  #groups(): [string, Choice[]][] {
    const { models } = this.#context.engine.peek()!;
    const groups = new Map<string, Choice[]>();
    for (const choice of models.choices) {
      const factor = models.zoo.cards.find(({ id }) => id === choice.id)?.factor;
      const name = factor ?? SOURCES[choice.source];
      groups.set(name, [...(groups.get(name) ?? []), choice]);
    }
    return [...groups];
  }

  #chip(text: string, name: string, what = ''): TemplateResult {
    const shownSubjects = this.#shownSubjects;
    const isPicked = shownSubjects.includes(text);
    const isStuck = isPicked ? shownSubjects.length === 1 : this.#isFull;
    return html`<label class="pick ${isPicked ? 'picked' : ''}"
      ><input
        type="checkbox"
        .checked=${isPicked}
        ?disabled=${isStuck}
        @change=${() => this.#set(toggleSubject(shownSubjects, text))}
      />${name}${what ? html`<span class="hint">: ${what}</span>` : nothing}</label
    >`;
  }

  /** Renders a form that adds a variant of the chosen model, which `variantOf` reads from the form's data. */
  #form(
    fields: TemplateResult,
    button: string,
    variantOf: (data: FormData) => Partial<Subject>,
  ): TemplateResult {
    const submit = (event: Event) => {
      event.preventDefault();
      const variant = variantOf(new FormData(event.target as HTMLFormElement));
      const subject = printSubject({ id: this.#model, edits: [], ...variant });
      if (parseSubject(subject)) this.#add(subject);
    };
    return html`<form class="numbers" @submit=${submit}>
      ${fields}
      <button type="submit" ?disabled=${this.#isFull}>${button}</button>
    </form>`;
  }

  #stepForm(): TemplateResult | typeof nothing {
    if (!this.#steps.length) return nothing;
    const fields = html`<label class="field"
      ><span>checkpoint at step</span>
      <select name="step">
        ${this.#steps.map((step) => html`<option value=${step}>${step.toLocaleString('en')}</option>`)}
      </select></label
    >`;
    return this.#form(fields, 'Add checkpoint', (data) => ({ step: Number(data.get('step')) }));
  }

  #editForm(): TemplateResult {
    const { models } = this.#context.engine.peek()!;
    const trainedOperation = models.zoo.cards.find(({ id }) => id === this.#model)?.operation;
    // The model's own operation is not a counterfactual.
    const offeredEdits = editChoices(this.#texts ?? models.describe).filter(
      ({ name }) => name !== trainedOperation,
    );
    const edit = offeredEdits.find(({ name }) => name === this.#edit) ?? offeredEdits[0]!;
    const variantOf = (data: FormData) => {
      const values = edit.parameters.map(({ name }) => String(data.get(name) || ''));
      // Values that are empty at the end take their defaults.
      while (values.length && !values.at(-1)) values.pop();
      const isStandard = values.every((value, i) => value === String(edit.parameters[i]!.default));
      return { edits: [{ name: edit.name, values: isStandard ? [] : values }] };
    };
    const fields = html`<label class="field"
        ><span>counterfactual</span>
        <select
          name="edit"
          @change=${(event: Event) => {
            this.#edit = valueOf(event);
            this.draw();
          }}
        >
          ${offeredEdits.map(
            ({ name, label }) =>
              html`<option value=${name} ?selected=${name === edit.name}>${label}</option>`,
          )}
        </select></label
      >
      ${edit.parameters.map(
        ({ name, meaning, min, max, required = true, choices, default: standard }) =>
          choices
            ? field(
                name,
                html`<select name=${name} aria-label=${name} title=${meaning ?? nothing}>
                  ${choices.map(([value, text]) => html`<option value=${value} ?selected=${value === standard}>${text}</option>`)}
                </select>`,
              )
            : field(
                name,
                html`<input
                  name=${name}
                  aria-label=${name}
                  title=${meaning ?? nothing}
                  type="number"
                  step="any"
                  min=${Math.max(min, -9999)}
                  max=${Math.min(max, 9999)}
                  .value=${required ? String(standard) : ''}
                />`,
              ),
      )}`;
    return this.#form(fields, 'Add counterfactual', variantOf);
  }

  #variantForms(groups: readonly [string, Choice[]][]): TemplateResult {
    const choose = (event: Event) => {
      this.#model = valueOf(event);
      void this.#loadSteps();
    };
    return html`<fieldset class="pick-set">
      <legend>add a checkpoint or a counterfactual of a model</legend>
      <label class="field"
        ><span class="unseen">model</span>
        <select @change=${choose}>
          ${groups
            .filter(([name]) => name !== SOURCES.recording)
            .map(
              ([name, choices]) =>
                html`<optgroup label=${name}>
                  ${choices.map(
                    ({ id, title }) =>
                      html`<option value=${id} ?selected=${id === this.#model}>${title}</option>`,
                  )}
                </optgroup>`,
            )}
        </select></label
      >
      ${this.#stepForm()} ${this.#editForm()}
    </fieldset>`;
  }

  draw(): void {
    const context = this.#context;
    const shownSubjects = this.#shownSubjects;
    const groups = this.#groups();
    const own = groups.filter(([name]) => OWN.includes(name));
    const first = groups
      .flatMap(([, choices]) => choices)
      .filter(({ id }) => id in CONTRASTS)
      .sort((a, b) => Object.keys(CONTRASTS).indexOf(a.id) - Object.keys(CONTRASTS).indexOf(b.id));
    const listedIds = new Set(
      [...first, ...own.flatMap(([, choices]) => choices)].map(({ id }) => id),
    );
    const unlistedSubjects = shownSubjects.filter((subject) => !listedIds.has(subject));
    const set = (name: string, choices: readonly Choice[]) =>
      html`<fieldset class="pick-set">
        <legend>${name}</legend>
        ${choices.map(({ id, title }) => this.#chip(id, title, CONTRASTS[id]))}
      </fieldset>`;
    const countWords = this.#isFull
      ? `At most ${MAX_SUBJECTS}.`
      : `${shownSubjects.length} of ${MAX_SUBJECTS}`;
    render(
      html`<div class="open-head">
          <h2 id="pick-title">Choose models</h2>
          <span class="hint" role="status">${countWords}</span>
          <button type="button" aria-label="Close" @click=${() => this.#dialog.close()}>✕</button>
        </div>
        <div class="open-body">
          ${first.length ? set('models that contrast', first) : nothing}
          ${own.map(([name, choices]) => set(name, choices))}
          ${
            unlistedSubjects.length
              ? html`<fieldset class="pick-set">
                  <legend>also shown</legend>
                  ${unlistedSubjects.map((subject) => this.#chip(subject, nameOf({ subject }, context)))}
                </fieldset>`
              : nothing
          }
          <details class="more">
            <summary>More models, checkpoints and counterfactuals</summary>
            ${groups
              .filter((group) => !own.includes(group))
              .map(([name, choices]) =>
                set(
                  name,
                  choices.filter(({ id }) => !listedIds.has(id)),
                ),
              )}
            ${this.#variantForms(groups)}
          </details>
          <p class="links">
            <button type="button" @click=${() => context.open()}>Open another model …</button>
            <button type="button" class="primary" @click=${() => this.#dialog.close()}>Done</button>
          </p>
        </div>`,
      this.#dialog,
    );
  }
}
