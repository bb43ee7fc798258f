/**
 * The hand: what is selected on the figures of Explore is taken hold of. A key is hidden, its value
 * dropped, a head silenced, a channel of a token put to 0 or its mean, each as an edit of the subject. Every move is a link, so
 * that the way back is the link before.
 */
import { html, nothing, type TemplateResult } from 'lit';
import { choices } from './controls';
import type { Desk } from './desk';
import {
  hiddenLayer,
  massiveOf,
  selectedHead,
  superWeightOf,
  type Frame,
  type Head,
} from './frame';
import { isOfDisk, type State } from './state';
import { parseSubject, printSubject, type SubjectEdit } from './subject';
import { headWords, quote } from './words';

/** Where the hand reaches: every head, those of the chosen layer, the chosen one. */
export type Grip = State['grip'];

interface Move {
  readonly says: string;
  readonly edit: SubjectEdit;
}

function edit(name: string, ...values: readonly (number | string)[]): SubjectEdit {
  return { name, values: values.map(String) };
}

/** What [layer, head] stand for in an edit: those that are left out mean all. */
function places(grip: Grip, { layer, head }: Head): number[] {
  return { all: [], layer: [layer], head: [layer, head] }[grip];
}

/** The number of the residual stream that is taken hold of: the chosen one, else the largest. */
function heldNumber(frame: Frame, state: State) {
  const at = ({ layer, channel, token }: { layer: number; channel: number; token: number }) => ({
    place: [channel, layer, token],
    where: `behind layer ${layer}, token ${token + 1}`,
  });
  const { channel, query } = state;
  const most = massiveOf(frame);
  if (channel < 0 || query < 0 || query >= frame.T || channel >= frame.architecture.D)
    return most && { ...at(most), name: `${most.channel + 1} (the largest)` };
  const layer = most && hiddenLayer(frame, state.layer);
  return layer === undefined
    ? undefined
    : { ...at({ layer, channel, token: query }), name: String(channel + 1) };
}

/** What can be done with what is selected. */
export function movesOf(frame: Frame, state: State): Move[] {
  const at = selectedHead(frame, state);
  const { H, G } = frame.architecture;
  const where = places(state.grip, at);
  const moves: Move[] = [];
  const key = state.key >= 0 ? state.key : state.query;
  if (key >= 0 && key < frame.T) {
    const name = `${key + 1} ${quote(frame, key)}`;
    const [layer, head] = where;
    const group = head === undefined ? [] : [Math.floor(head / (H / G))];
    const values = layer === undefined ? [] : [layer, ...group];
    moves.push(
      { says: `Hide key ${name}`, edit: edit('hide_key', key, ...where) },
      { says: `Drop value ${name}`, edit: edit('scale_value', key, 0, ...values) },
    );
  }
  moves.push({
    says: `Silence ${headWords(at)}`,
    edit: edit('silence', at.layer, at.head),
  });
  const held = heldNumber(frame, state);
  if (held) {
    const { place, name, where } = held;
    moves.push(
      { says: `Zero channel ${name} ${where}`, edit: edit('clamp_channel', ...place) },
      {
        says: `Channel ${place[0]! + 1} there to its mean`,
        edit: edit('clamp_channel', ...place, 'to=mean'),
      },
    );
  }
  const heavy = superWeightOf(frame);
  if (heavy) {
    const { layer, row, column } = heavy;
    moves.push({
      says: `Zero weight (${row + 1}, ${column + 1}) of layer ${layer + 1}, which writes the largest`,
      edit: edit('scale_weight', 'down', layer, row, column, 0),
    });
  }
  return moves;
}

const isSame = (a: SubjectEdit, b: SubjectEdit) =>
  a.name === b.name && a.values.join() === b.values.join();

/** The subject with the edit, or without it where it has it. */
export function moved(subject: string, wanted: SubjectEdit): string {
  const parsed = parseSubject(subject)!;
  const others = parsed.edits.filter((one) => !isSame(one, wanted));
  const edits = others.length < parsed.edits.length ? others : [...others, wanted];
  return printSubject({ ...parsed, edits });
}

export function handControls(desk: Desk, frame: Frame): TemplateResult | typeof nothing {
  const state = desk.state.value;
  if (state.hide.includes('hand')) return nothing;
  const { layer, head } = selectedHead(frame, state);
  const { edits } = parseSubject(frame.subject)!;
  /** A link to the state after a move; what no link can name is gone to by hand. */
  const link = (wanted: SubjectEdit, says: string, isDone: boolean) => {
    const next = moved(frame.subject, wanted);
    const list = state.shown.map((one) => (one === frame.subject ? next : one));
    const shown = [...new Set(list)];
    const change = { shown, at: shown.indexOf(next), layer, head };
    const go = (event: Event) => {
      if (!isOfDisk(frame.subject)) return;
      event.preventDefault();
      desk.set(change);
    };
    return html`<a
      class="move"
      href=${desk.link(change)}
      aria-label=${isDone ? `Undo ${says}` : says}
      @click=${go}
      >${says}${isDone ? ' ×' : ''}</a
    >`;
  };
  const moves = movesOf(frame, state).filter((one) => !edits.some((own) => isSame(own, one.edit)));
  return html`<div class="hand" role="group" aria-label="What if">
    <strong>What if</strong>
    ${moves.map((one) => link(one.edit, one.says, false))}
    ${choices(
      'keys and values of',
      state.grip,
      [
        ['all', 'all heads'],
        ['layer', `layer ${layer + 1}`],
        ['head', headWords({ layer, head })],
      ],
      (grip) => desk.set({ grip: grip as Grip }),
    )}
    ${edits.length ? html`<span class="done">${edits.map((one) => link(one, editWords(one), true))}</span>` : nothing}
  </div>`;
}

function editWords({ name, values }: SubjectEdit): string {
  return `${name}${values.length ? `(${values.join(', ')})` : ''}`;
}
