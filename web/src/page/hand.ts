/**
 * Interventions in Explore, each an edit of the subject: hide the selected key, zero its value, ablate the head, set a
 * channel of a token to 0 or to its mean, zero the weight that writes the largest value. The edited subject is part of
 * the link, so the browser's Back undoes an intervention.
 */
import { html, nothing, type TemplateResult } from 'lit';
import { choiceField } from './controls';
import type { Context } from './context';
import {
  groupOf,
  hiddenLayer,
  layerIndex,
  layerNumber,
  massiveOf,
  modelHead,
  selectedHead,
  superWeightOf,
  type Frame,
  type Head,
} from '../frame';
import type { State } from '../ask/state';
import { isOnDisk } from '../ask/ids';
import { labelsOf, parseSubject, printSubject, type SubjectEdit } from '../ask/subject';
import { commonQuote, headWords, stateWords } from '../words';

type EditScope = State['scope'];

type Intervention = { readonly label: string; readonly edit: SubjectEdit };

function makeEdit(name: string, ...values: readonly (number | string)[]): SubjectEdit {
  return { name, values: values.map(String) };
}

/** Returns the layer and head in an edit's parameters; without them the edit applies to all. */
function scopeValues(scope: EditScope, { layer, head }: Head): number[] {
  return { all: [], layer: [layer], head: [layer, head] }[scope];
}

/** Returns the channel of a token's hidden state to intervene on: the selected one, or that of the largest value. */
function chosenChannel(frame: Frame, state: State) {
  const channelAt = (at: { layer: number; channel: number; token: number }) => ({
    values: [at.channel, at.layer, at.token],
    location: `${stateWords(at.layer)}, token ${at.token}`,
  });
  const { channel, query } = state;
  const largestActivation = massiveOf(frame);
  if (channel < 0 || query < 0 || query >= frame.T || channel >= frame.architecture.D!)
    return (
      largestActivation && {
        ...channelAt(largestActivation),
        name: `${largestActivation.channel} (the largest)`,
      }
    );
  const layer =
    largestActivation && hiddenLayer(frame, state.layer < 0 ? -1 : layerIndex(frame, state.layer));
  return layer === undefined
    ? undefined
    : { ...channelAt({ layer, channel, token: query }), name: String(channel) };
}

export function interventionsOf(
  frame: Frame,
  state: State,
  shownHead = selectedHead(frame, state),
): Intervention[] {
  const at = modelHead(frame, shownHead);
  const scope = scopeValues(state.scope, at);
  const interventions: Intervention[] = [];
  // Without a selection, interventions apply to the first token.
  const key = Math.max(0, state.key >= 0 ? state.key : state.query);
  if (key < frame.T) {
    const name = `${key ? `token ${key}` : 'the first token'}${commonQuote(frame, key)}`;
    const [layer, head] = scope;
    const group = head === undefined ? [] : [groupOf(frame, shownHead)];
    const layerAndGroup = layer === undefined ? [] : [layer, ...group];
    interventions.push(
      { label: `Hide ${name}`, edit: makeEdit('hide_key', key, ...scope) },
      {
        label: `Zero the value of ${name}`,
        edit: makeEdit('scale_value', key, 0, ...layerAndGroup),
      },
    );
  }
  interventions.push({
    label: `Ablate ${headWords(shownHead, frame)}`,
    edit: makeEdit('silence', at.layer, at.head),
  });
  const channel = chosenChannel(frame, state);
  if (channel) {
    const { values, name, location } = channel;
    interventions.push(
      { label: `Zero channel ${name} ${location}`, edit: makeEdit('clamp_channel', ...values) },
      {
        label: `Set channel ${values[0]!} there to its mean`,
        edit: makeEdit('clamp_channel', ...values, 'to=mean'),
      },
    );
  }
  const superWeight = superWeightOf(frame);
  if (superWeight) {
    const { row, column } = superWeight;
    const layer = layerNumber(frame, superWeight.layer);
    interventions.push({
      label: `Zero weight (${row}, ${column}) of down in layer ${layer}, which writes the largest value`,
      edit: makeEdit('scale_weight', 'down', layer, row, column, 0),
    });
  }
  return interventions;
}

const areSameEdits = (a: SubjectEdit, b: SubjectEdit) =>
  a.name === b.name && a.values.join() === b.values.join();

export function toggleEdit(subject: string, edit: SubjectEdit): string {
  const parsed = parseSubject(subject)!;
  const otherEdits = parsed.edits.filter((other) => !areSameEdits(other, edit));
  const edits = otherEdits.length < parsed.edits.length ? otherEdits : [...otherEdits, edit];
  return printSubject({ ...parsed, edits });
}

export function interventionControls(
  context: Context,
  frame: Frame,
  shownHead = selectedHead(frame, context.state.value),
): TemplateResult | typeof nothing {
  const state = context.state.value;
  if (state.hide.includes('hand')) return nothing;
  const { layer, head } = modelHead(frame, shownHead);
  const subject = parseSubject(frame.subject)!;
  const { edits } = subject;
  const labels = labelsOf(subject, context.engine.peek()!.models.describe);
  /** Links to the state after an intervention; of a model on the disk, which no link can name, a click sets it. */
  const link = (edit: SubjectEdit, label: string, isDone: boolean) => {
    const newSubject = toggleEdit(frame.subject, edit);
    const subjects = state.shown.map((text) => (text === frame.subject ? newSubject : text));
    const shown = [...new Set(subjects)];
    const change = { shown, at: shown.indexOf(newSubject), layer, head };
    const setLocally = (event: Event) => {
      if (!isOnDisk(frame.subject)) return;
      event.preventDefault();
      context.set(change, true);
    };
    return html`<a
      class="move"
      href=${context.link(change)}
      aria-label=${isDone ? `Undo ${label}` : label}
      @click=${setLocally}
      >${label}${isDone ? ' ×' : ''}</a
    >`;
  };
  const [first, ...more] = interventionsOf(frame, state, shownHead).filter(
    ({ edit }) => !edits.some((present) => areSameEdits(present, edit)),
  );
  return html`<div class="hand" role="group" aria-label="Intervene">
    ${first ? link(first.edit, first.label, false) : nothing}
    <details class="more" ?open=${state.channel >= 0 || edits.length > 0}>
      <summary>More</summary>
      <p class="hint">Select a cell of the map to act on its token.</p>
      ${more.map(({ edit, label }) => link(edit, label, false))}
      ${choiceField(
        'keys and values in',
        state.scope,
        [
          ['all', 'all heads'],
          ['layer', `layer ${layer}`],
          ['head', headWords(shownHead, frame)],
        ],
        (scope) => context.set({ scope: scope as EditScope }),
      )}
    </details>
    ${edits.length ? html`<span class="done">${edits.map((edit, i) => link(edit, labels[i]!, true))}</span>` : nothing}
  </div>`;
}
