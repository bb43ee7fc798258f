/** The dialog in which the reader opens a model. It only draws the opener's stage; the opener decides what happens. */
import { html, nothing, render, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import type { Plan } from 'sinkscope';
import { filesOfList } from 'sinkscope/internal';
import { suggestions } from './catalog';
import { ENDPOINT, type Opener, type Candidate, type Stage } from './opener';
import { isDownload, planRows } from './words';
import { loadWords, sizeWords, stageWords, type LoadProgress } from '../run/progress';
import { fingerprintOf, nameOfId, isOnDisk } from '../ask/ids';
import { addressOfRecording, isRecordingId } from '../ask/recordings';
import { valueOf } from '../page/controls';
import { elapsed } from '../page/elapsed';
import '../page/dialog.css';
import './open.css';

function hubForm(opener: Opener): TemplateResult {
  const { name } = opener.fields;
  const submit = (event: Event) => {
    event.preventDefault();
    // Reads the field itself, since the state may lack the last letter.
    const typedName = opener.fields.name.trim();
    if (typedName) void opener.lookUp(typedName);
  };
  return html`<form class="open-name" @submit=${submit}>
      <label for="open-name">Model on Hugging Face</label>
      <input
        id="open-name"
        list="open-names"
        autocomplete="off"
        autocapitalize="off"
        spellcheck="false"
        placeholder="owner/name, owner/name@revision, or the address of a recording"
        .value=${live(name)}
        @input=${(event: Event) => opener.edit({ name: valueOf(event) })}
      />
      <button type="submit" class="primary">Look up</button>
      <datalist id="open-names">
        ${suggestions.map(({ id }) => html`<option value=${id}></option>`)}
      </datalist>
    </form>
    ${moreFields(opener)} ${suggestionList(opener)}`;
}

function moreFields(opener: Opener): TemplateResult {
  const { token, endpoint } = opener.fields;
  return html`<details class="open-more">
    <summary>Token and endpoint</summary>
    <label
      >Access token, for models that ask for one
      <input
        type="password"
        autocomplete="off"
        .value=${live(token)}
        @input=${(event: Event) => opener.edit({ token: valueOf(event) })}
    /></label>
    <p class="hint">
      Kept in memory only, sent only to the endpoint, and forgotten when you leave.
    </p>
    <label
      >Endpoint
      <input
        type="url"
        placeholder=${ENDPOINT}
        .value=${endpoint}
        @change=${(event: Event) => opener.edit({ endpoint: valueOf(event).trim() })}
    /></label>
  </details>`;
}

function suggestionList(opener: Opener): TemplateResult {
  return html`<ul class="open-list">
    ${suggestions.map(
      ({ id, megabytes, bos, note }) =>
        html`<li>
          <button type="button" @click=${() => pick(opener, id)}>
            <strong>${id}</strong>
            <span
              >about ${megabytes} MB · ${bos ? `starts with ${bos}` : 'adds no start token'}</span
            >
            <span class="open-see">${note}</span>
          </button>
        </li>`,
    )}
  </ul>`;
}

function pick(opener: Opener, name: string): void {
  opener.edit({ name });
  void opener.lookUp(name);
}

function diskForm(opener: Opener): TemplateResult {
  const choose = (event: Event) => {
    const input = event.target as HTMLInputElement;
    if (input.files?.length) void opener.openFiles(filesOfList([...input.files]));
    // Empties the field, so that the same files can be chosen again.
    input.value = '';
  };
  return html`<div class="open-drop">
    <p>
      <strong>Your own files</strong>: a folder with config.json, weights and a tokenizer, one GGUF
      file, or a recording (.safetensors). Drop them anywhere on the page, or choose them. They stay
      on this machine.
    </p>
    <div class="links">
      <label class="file">Choose files<input type="file" multiple @change=${choose} /></label>
      <label class="file folder"
        >Choose a folder<input type="file" webkitdirectory @change=${choose}
      /></label>
    </div>
  </div>`;
}

function cacheLine(opener: Opener): TemplateResult | typeof nothing {
  if (!(opener.totalCachedBytes > 0)) return nothing;
  return html`<p class="open-kept">
    <span>Cached models: ${sizeWords(opener.totalCachedBytes)}</span>
    <button type="button" @click=${() => void opener.clear()}>Clear</button>
  </p>`;
}

function renderLookup(opener: Opener, what: string): TemplateResult {
  return html`<p role="status">${what} …${elapsed(what)}</p>
    <p class="links"><button type="button" @click=${() => opener.goBack()}>Cancel</button></p>`;
}

function renderModelChoice(opener: Opener, models: readonly Candidate[]): TemplateResult {
  return html`<p>These files hold ${models.length} models. Which one?</p>
    <ul class="open-list">
      ${models.map(
        (candidate) =>
          html`<li>
            <button type="button" @click=${() => void opener.chooseCandidate(candidate)}>
              <strong>${candidate.title}</strong><span>${sizeWords(candidate.bytes)}</span>
            </button>
          </li>`,
      )}
    </ul>
    <p class="links"><button type="button" @click=${() => opener.goBack()}>Back</button></p>`;
}

function placeChoice(opener: Opener): TemplateResult {
  const placeOption = (isBeside: boolean, text: string) =>
    html`<label class="check"
      ><input
        type="radio"
        name="open-place"
        .checked=${live(opener.fields.isBeside === isBeside)}
        @change=${() => opener.edit({ isBeside })}
      />${text}</label
    >`;
  return html`<fieldset class="open-sides">
    <legend>Show the model</legend>
    ${placeOption(false, 'alone')} ${placeOption(true, 'next to the current one')}
  </fieldset>`;
}

/** Renders the question for a link's model or recording: whether to contact its host, or which files to choose. */
function renderQuestion(opener: Opener, id: string): TemplateResult {
  const name = nameOfId(id);
  const declineButton = html`<button type="button" @click=${() => opener.hide()}>Not now</button>`;
  if (isOnDisk(id))
    return html`<p>
        This page shows <strong>${name}</strong>, which is not open: its files are on your disk, or
        on that of whoever shared the link. The page knows their name and fingerprint
        (${fingerprintOf(id)}). Choose the same files to open it.
      </p>
      ${diskForm(opener)}
      <p class="links">${declineButton}</p>`;
  const recording = isRecordingId(id) ? addressOfRecording(id)! : undefined;
  const { host } = recording ?? new URL(opener.fields.endpoint || ENDPOINT);
  const title = html`<strong>${name}</strong>`;
  return html`<p>
      This link shows ${recording ? html`a recording, ${title},` : title} from ${host}. This page
      contacts ${host} only if you agree, and shows the size before it downloads anything.
      ${recording ? 'A recording holds numbers and words, no program.' : nothing}
    </p>
    <p class="links">
      <button
        type="button"
        class="primary"
        @click=${() => void opener.lookUp(recording?.href ?? name)}
      >
        Look it up
      </button>
      ${declineButton}
    </p>`;
}

/** Renders what loading a model or a recording takes, and a button to load it unless there is a problem. */
function renderCost(
  opener: Opener,
  title: string,
  rows: ReturnType<typeof planRows>,
  [label, load]: readonly [string, () => Promise<void>],
  problem = '',
): TemplateResult {
  const loadButton = html`<button type="button" class="primary" @click=${() => void load()}>
    ${label}
  </button>`;
  return html`<h3>${title}</h3>
    <dl class="open-plan">
      ${rows.map(
        ([name, value]) =>
          html`<dt>${name}</dt>
            <dd>${value}</dd>`,
      )}
    </dl>
    ${problem ? html`<p class="open-problem">${problem}</p>` : placeChoice(opener)}
    <p class="links">
      ${problem ? nothing : loadButton}
      <button type="button" @click=${() => opener.goBack()}>Back</button>
    </p>`;
}

function renderFoundRecording(
  opener: Opener,
  { id, bytes }: Stage & { readonly name: 'recording' },
): TemplateResult {
  const rows = [
    ['recording from', addressOfRecording(id)!.host],
    ['to download', bytes === undefined ? 'size unknown' : sizeWords(bytes)],
  ] as const;
  const action = ['Load the recording', () => opener.loadRecording(id)] as const;
  return renderCost(opener, nameOfId(id), rows, action);
}

function obstacleWords(plan: Plan, mayRead: boolean): string {
  if (plan.refusal) return `${plan.id} ${plan.refusal}.`;
  if (plan.gated && !mayRead)
    return 'Only accounts that accepted its license can download it: go back and enter an access token.';
  return '';
}

function renderPlan(
  opener: Opener,
  { plan, cachedBytes, isSlow }: Stage & { readonly name: 'plan' },
): TemplateResult {
  const isKept = cachedBytes >= plan.bytes && plan.bytes > 0;
  const problem = obstacleWords(plan, isKept || Boolean(opener.fields.token));
  const label = isSlow ? 'Wait longer' : isKept ? 'Load from this machine' : 'Download and run';
  const action = [label, () => opener.load(plan)] as const;
  return renderCost(opener, plan.id, planRows(plan, cachedBytes), action, problem);
}

function renderLoading(opener: Opener, plan: Plan, loaded: LoadProgress): TemplateResult {
  const { done, total } = loaded;
  const share = total > 0 ? Math.min(1, done / total) : 0;
  const words = loadWords(loaded);
  // A bar without a value moves.
  const bar = stageWords(loaded)
    ? html`<progress aria-label="Loaded"></progress>`
    : html`<progress max="1" .value=${share} aria-label="Loaded"></progress>`;
  return html`<h3>${plan.id}</h3>
    ${bar}
    <p class="open-loaded">${words}${elapsed(words)}</p>
    <p class="links"><button type="button" @click=${() => opener.goBack()}>Cancel</button></p>
    ${isDownload(plan) ? html`<p class="hint">Downloaded bytes are kept: an interrupted download resumes.</p>` : nothing}`;
}

function renderStage(opener: Opener): TemplateResult {
  const { stage } = opener;
  if (stage.name === 'ask') return renderQuestion(opener, stage.id);
  if (stage.name === 'looking') return renderLookup(opener, stage.text);
  if (stage.name === 'several') return renderModelChoice(opener, stage.models);
  if (stage.name === 'plan') return renderPlan(opener, stage);
  if (stage.name === 'recording') return renderFoundRecording(opener, stage);
  if (stage.name === 'loading') return renderLoading(opener, stage.plan, stage.progress);
  return html`${hubForm(opener)} ${diskForm(opener)} ${cacheLine(opener)}`;
}

export function createDialog(opener: Opener): { draw(): void } {
  const dialog = document.createElement('dialog');
  dialog.id = 'open';
  dialog.setAttribute('aria-labelledby', 'open-title');
  // Also follows the Escape key.
  dialog.addEventListener('close', () => opener.hide());
  document.body.append(dialog);
  return {
    draw() {
      const head = html`<div class="open-head">
        <h2 id="open-title">Open a model</h2>
        <button type="button" aria-label="Close" @click=${() => dialog.close()}>✕</button>
      </div>`;
      const error = html`<p class="open-error" role="alert" ?hidden=${!opener.error}>
        ${opener.error}
      </p>`;
      render(
        html`${head}${error}
          <div class="open-body">${renderStage(opener)}</div>`,
        dialog,
      );
      if (opener.isShown && !dialog.open) dialog.showModal();
      if (!opener.isShown && dialog.open) dialog.close();
    },
  };
}
