/** Compare's panel of all numbers: the table with its columns and files, what differs, and what papers report. */
import { signal } from '@preact/signals-core';
import type { Describe } from 'sinkscope';
import { html, nothing, render, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import { allows } from '../page/controls';
import { tableRegion } from '../page/room_controls';
import { framesOf, type Context, type Scope, type SubjectEntry } from '../page/context';
import type { Frame } from '../frame';
import { INPUTS } from '../ask/question';
import type { State } from '../ask/state';
import { addKinds, downloadFile } from '../save/menu';
import { parseSubject } from '../ask/subject';
import { addElement } from '../page/view';
import { startTokenWords } from '../words';
import { corpusName, trainingOf, type OpenModels } from '../ask/zoo';
import { differencesOf, pathWords } from './differs';
import {
  metricsOf,
  MAX_COLUMNS,
  promptsCsv,
  readsOf,
  shownColumns,
  tableCsv,
  tableJson,
  tableOf,
  type ReportedRow,
  type Sorting,
  type TableMetric,
} from './metrics';
import { metricsTable } from './metrics_table';

/** Returns the open panel: a link that sets the table's columns opens it. */
export const panelOf = ({ panel, columns }: State): State['panel'] =>
  panel === 'none' && columns.length ? 'numbers' : panel;

const SAVE_KINDS = ['CSV', 'CSV by prompt', 'JSON'] as const;

/** Returns numbers that papers report of models like the shown ones, and of open models. */
function reportsOf(
  frames: readonly Frame[],
  context: Context,
  openModels?: OpenModels,
): ReportedRow[] {
  const cards = context.engine.peek()!.models.zoo.cards;
  const rows = frames.flatMap((frame) => {
    // A recording has no card, but names its model and the edits of its runs.
    const { recording, subject } = frame;
    const name = recording?.edits.length ? '' : (recording?.model.id ?? subject);
    const card = cards.find(({ id, title }) => id === name || (recording && title === name));
    return card?.paper ? [{ ...card.paper, title: `${card.title}’s counterpart` }] : [];
  });
  return [
    ...new Map(rows.map((row) => [JSON.stringify(row), row])).values(),
    ...(openModels ? openModelRows(openModels, context.state.peek().input) : []),
  ];
}

/** Returns a paper's rows of open models for the state's kind of prompts. */
function openModelRows(
  { models, kinds, source, measure }: OpenModels,
  input: string,
): ReportedRow[] {
  const kind = input in kinds ? input : 'natural';
  return models.map(({ model, [kind]: sink }) => ({
    title: String(model),
    sink_1: sink!,
    where: `${source}: ${kinds[kind]}; ${measure}`,
  }));
}

/**
 * Returns a recording's architecture. Sizes that the file does not state are left out, since they are no differences.
 */
function recordedArchitecture({ architecture }: Frame): object {
  const { context: _, parameters: __, F, E, ...knownSizes } = architecture;
  return { ...knownSizes, ...(F ? { F } : {}), ...(E ? { E } : {}) };
}

/** Returns the keys in which the models' architectures and trainings differ. */
export function differencesBetween(
  frames: readonly Frame[],
  context: Context,
): ReturnType<typeof differencesOf> {
  const { zoo } = context.engine.peek()!.models;
  const trainings = frames.map(({ subject }) => {
    const { id, step } = parseSubject(subject)!;
    const card = zoo.cards.find((one) => one.id === id);
    const training = card && trainingOf(card, zoo.cards);
    return training && step !== undefined ? { ...training, steps: step } : training;
  });
  const areTrainingsKnown = !trainings.includes(undefined);
  return differencesOf(
    frames.map((frame, i) => ({
      ...(frame.recording ? recordedArchitecture(frame) : frame.architecture),
      ...(areTrainingsKnown ? { training: trainings[i] } : {}),
      ...(frame.edits.length
        ? { put_in_at_inference: frame.title.split(' + ').slice(1).join(' + ') }
        : {}),
    })),
  );
}

function differencesNote(
  frames: readonly Frame[],
  context: Context,
): TemplateResult | typeof nothing {
  if (frames.length < 2) return nothing;
  const { letters } = context.engine.peek()!.models.describe;
  const result = differencesBetween(frames, context);
  if (!result.differences.length) return nothing;
  return html`<h3>What differs</h3>
    ${tableRegion(
      'What differs, a table',
      html`<table class="differs">
        <thead>
          <tr>
            <td></td>
            ${frames.map(({ title }) => html`<th scope="col">${title}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${result.differences.map(
            ({ path, values }) =>
              html`<tr>
                <th scope="row">${pathWords(path, letters)}</th>
                ${values.map((value) => html`<td>${value ?? '–'}</td>`)}
              </tr>`,
          )}
        </tbody>
      </table>`,
    )}
    <p class="hint">${result.equalCount} other settings identical.</p>`;
}

function columnsField(
  columns: readonly TableMetric[],
  shownMetrics: readonly TableMetric[],
  { set }: Context,
): TemplateResult {
  const names = shownMetrics.map(({ name }) => name);
  const toggle = (name: string) =>
    set({
      columns: names.includes(name)
        ? names.filter((shownName) => shownName !== name)
        : [...names, name],
    });
  return html`<details class="more columns">
    <summary>Columns</summary>
    <div class="numbers">
      ${columns.map(({ name, title }) => {
        const isShown = names.includes(name);
        return html`<label class="check"
          ><input
            type="checkbox"
            .checked=${live(isShown)}
            ?disabled=${isShown ? names.length < 2 : names.length >= MAX_COLUMNS}
            @change=${() => toggle(name)}
          />
          ${title}</label
        >`;
      })}
    </div>
  </details>`;
}

function captionOf(frames: readonly Frame[], context: Context, hasStaleRows: boolean): string {
  const staleNote = hasStaleRows ? ' Gray rows still show the previous conditions.' : '';
  const state = context.state.value;
  const joinDistinct = (values: readonly unknown[]) => [...new Set(values)].join(' / ');
  const inputName =
    state.input === 'heldout' ? `held-out text: ${corpusName(state.T)}` : INPUTS[state.input];
  const inputNames = frames.map(({ recording, generated }) =>
    recording
      ? 'recorded texts'
      : generated
        ? `${inputName} and ${generated} tokens that each model generated`
        : inputName,
  );
  return `ε = ${joinDistinct(frames.map(({ eps }) => eps))} · T = ${joinDistinct(frames.map(({ T }) => T))} · ${joinDistinct(frames.map(startTokenWords))} · ${joinDistinct(inputNames)}.${staleNote}`;
}

export function addNumbers(
  root: HTMLElement,
  context: Context,
  scope: Scope,
  currentEntries: () => readonly SubjectEntry[],
): void {
  const numbers = addElement(root, 'figure numbers-of-all', 'section');
  numbers.setAttribute('aria-label', 'All numbers');
  const heading = addElement(numbers, 'figure-head', 'header');
  const columnsPlace = addElement(heading, 'figure-title');
  const openModels = signal<OpenModels | undefined>(undefined);
  const explanations = signal<Describe | undefined>(undefined);
  const sorting = signal<Sorting>({ name: '', descending: true });
  const saveMenu = addKinds(heading, 'the numbers', SAVE_KINDS, (kind) => {
    const frames = framesOf(currentEntries().filter(({ isStale }) => !isStale));
    const facts = context.facts();
    const columns = tableOf(context.engine.peek()!.models.describe);
    const fileText = {
      JSON: () => tableJson(frames, columns, facts, reportsOf(frames, context, openModels.peek())),
      CSV: () => tableCsv(frames, columns, facts),
      'CSV by prompt': () => promptsCsv(frames, facts),
    }[kind]();
    const name = { CSV: 'table.csv', 'CSV by prompt': 'prompts.csv', JSON: 'table.json' }[kind];
    const type = kind === 'JSON' ? 'application/json' : 'text/csv';
    downloadFile(new Blob([fileText], { type }), `sinkscope-compare-${name}`);
  });
  const tablePlace = addElement(numbers, 'table-of-all');

  scope.effect(() => {
    const models = context.engine.value?.models;
    models?.zoo.openModels().then((models) => (openModels.value = models), context.fail);
    void models?.explain().then((texts) => (explanations.value = texts));
  });

  scope.effect(() => {
    const state = context.state.value;
    const panel = panelOf(state);
    // There are no columns before the engine, which describes the metrics, has loaded.
    const engine = context.engine.value;
    const columns = engine ? tableOf(explanations.value ?? engine.models.describe) : [];
    const requiredFields = readsOf(columns.filter(({ isRare }) => !isRare));
    const rows = currentEntries().flatMap(({ frame, isStale }) =>
      frame && requiredFields.every((name) => name in frame.tensors || name in (frame.lacks ?? {}))
        ? [{ frame, isStale }]
        : [],
    );
    numbers.hidden = !rows.length || (panel !== 'numbers' && panel !== 'reported');
    if (numbers.hidden) return;
    const frames = rows.map(({ frame }) => frame);
    const metrics = metricsOf(frames, columns);
    const table = shownColumns(metrics, state.columns);
    saveMenu.hidden = !allows(state, 'save') || rows.every(({ isStale }) => isStale);
    render(columnsField(metrics, table, context), columnsPlace);
    const parts = {
      ...{ measuredRows: rows, table, sorting: sorting.value, file: context.file.value },
      reported: panel === 'reported' ? reportsOf(frames, context, openModels.value) : [],
      sort: (value: Sorting) => (sorting.value = value),
    };
    const hasStaleRows = rows.some(({ isStale }) => isStale);
    render(
      html`${metricsTable(parts, captionOf(frames, context, hasStaleRows))}
      ${frames.some(({ sequences }) => sequences > 1) ? html`<p class="hint">± is the standard deviation over the prompts.</p>` : nothing}
      ${differencesNote(frames, context)}`,
      tablePlace,
    );
  });
}
