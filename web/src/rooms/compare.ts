/**
 * The room Compare: up to six subjects on shared scales with the same question, as pictures, differences and a table.
 */
import { signal } from '@preact/signals-core';
import type { Describe } from 'sinkscope';
import { html, nothing, render, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import {
  allows,
  askBar,
  generateControls,
  roomHeading,
  segmentedControl,
  subjectList,
  tableRegion,
  troubleNotes,
  valueOf,
} from '../page/controls';
import {
  hideUntilDrawn,
  requestFrames,
  framesOf,
  entriesOf,
  type Context,
  type Scope,
  type SubjectEntry,
} from '../page/context';
import { Figure } from '../page/figure';
import type { Frame } from '../frame';
import { INPUTS } from '../ask/question';
import { addKinds, downloadFile } from '../save/menu';
import { defaults } from '../ask/state';
import { parseSubject } from '../ask/subject';
import { field } from '../page/terms';
import { sinks } from '../views/sinks';
import { QUESTIONS, RESEARCH, tabsOf, type Choice } from '../views/index';
import { addElement } from '../page/view';
import { comparisonAnswer } from '../answers';
import { comparisonWords, startTokenWords, sharedConditions } from '../words';
import { corpusName, type Card, type OpenModels } from '../ask/zoo';
import { differenceLine, differencesOf, pathWords } from './differs';
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
import { addScatter, panelOf, RAW_ALPHA, SCATTER_READS } from './scatter';
import { seedsTable } from './seeds_table';
import { createStage } from './stage';
import './panes.css';
import './tables.css';
import './compare.css';

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

function cardsOf(frames: readonly Frame[], context: Context): Card[] {
  const ids = new Set(frames.filter(({ edits }) => !edits.length).map(({ model }) => model.id));
  return context.engine.peek()!.models.zoo.cards.filter(({ id }) => ids.has(id));
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

function differencesNote(
  frames: readonly Frame[],
  context: Context,
): TemplateResult | typeof nothing {
  if (frames.length < 2) return nothing;
  const { zoo, describe } = context.engine.peek()!.models;
  const trainings = frames.map(({ subject }) => {
    const { id, step } = parseSubject(subject)!;
    const training = zoo.cards.find((card) => card.id === id)?.training;
    return training && step !== undefined ? { ...training, steps: step } : training;
  });
  const areTrainingsKnown = !trainings.includes(undefined);
  const result = differencesOf(
    frames.map((frame, i) => ({
      ...(frame.recording ? recordedArchitecture(frame) : frame.architecture),
      ...(areTrainingsKnown ? { training: trainings[i] } : {}),
      ...(frame.edits.length
        ? { put_in_at_inference: frame.title.split(' + ').slice(1).join(' + ') }
        : {}),
    })),
  );
  // The differences of two subjects fit on a line; those of more need columns.
  const isLine = frames.length === 2 || !result.differences.length;
  return html`<div class="differs">
    <h2>What differs</h2>
    ${
      isLine
        ? html`<p>${differenceLine(result, describe.letters)}</p>`
        : html`${tableRegion(
              'What differs, a table',
              html`<table>
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
                        <th scope="row">${pathWords(path, describe.letters)}</th>
                        ${values.map((value) => html`<td>${value ?? '–'}</td>`)}
                      </tr>`,
                  )}
                </tbody>
              </table>`,
            )}
            <p class="hint">${result.equalCount} other settings identical.</p>`
    }
  </div>`;
}

function pictureField(
  { tab }: Choice,
  frames: readonly Frame[],
  select: (view: string) => void,
): TemplateResult {
  const groups = [...QUESTIONS, RESEARCH]
    .map((question) => ({ question, tabs: tabsOf(question, frames) }))
    .filter(({ tabs }) => tabs.length);
  return field(
    'picture',
    html`<select aria-label="picture" @change=${(event: Event) => select(valueOf(event))}>
      ${groups.map(
        ({ question, tabs }) =>
          html`<optgroup label=${question.title}>
            ${tabs.map(
              (option) =>
                html`<option value=${option.views[0]!.name} ?selected=${option === tab}>
                  ${option.title}
                </option>`,
            )}
          </optgroup>`,
      )}
    </select>`,
  );
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

const PANELS = [
  ['reported', 'Reported in papers'],
  ['seeds', 'Across seeds'],
  ['scatter', 'Sink and size, loss, norm'],
  ['remedies', 'Production models'],
] as const;

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const bar = addElement(root, 'bar');
  const headingPlace = addElement(root, 'room-head');
  const pictures = addElement(root, 'pictures');
  let statedConditions: readonly string[] = [];
  const figureLook = { roomConditions: () => statedConditions };
  const stage = createStage(addElement(pictures, 'stage'), context, scope, figureLook);
  const sinkMap = new Figure(pictures, sinks, context, scope, figureLook);
  const numbers = addElement(root, 'figure numbers-of-all', 'section');
  const numbersHeading = addElement(numbers, 'figure-head', 'header');
  const columnsPlace = addElement(numbersHeading, 'figure-title');
  const saveMenu = addKinds(numbersHeading, 'the numbers', SAVE_KINDS, (kind) => {
    const frames = framesOf(currentEntries().filter(({ isStale }) => !isStale));
    const facts = context.facts();
    const columns = tableOf(context.engine.peek()!.models.describe);
    const fileText =
      kind === 'JSON'
        ? tableJson(frames, columns, facts, reportsOf(frames, context, openModels.peek()))
        : kind === 'CSV'
          ? tableCsv(frames, columns, facts)
          : promptsCsv(frames, facts);
    const name = { CSV: 'table.csv', 'CSV by prompt': 'prompts.csv', JSON: 'table.json' }[kind];
    const type = kind === 'JSON' ? 'application/json' : 'text/csv';
    downloadFile(new Blob([fileText], { type }), `sinkscope-compare-${name}`);
  });
  const tablePlace = addElement(numbers, 'table-of-all');
  const differencesPlace = addElement(root, 'different');
  const tabsPlace = addElement(root, 'below-tabs');
  const panelPlace = addElement(root, 'below');
  const openModels = signal<OpenModels | undefined>(undefined);
  const explanations = signal<Describe | undefined>(undefined);
  const remedies = signal<typeof import('./remedies') | undefined>(undefined);
  const sorting = signal<Sorting>({ name: '', descending: true });
  const currentEntries = (): SubjectEntry[] => entriesOf(context, context.state.value.shown);
  addScatter(root, context, scope, currentEntries);

  scope.effect(() => {
    const models = context.engine.value?.models;
    models?.zoo.openModels().then((models) => (openModels.value = models), context.fail);
    void models?.explain().then((texts) => (explanations.value = texts));
  });

  requestFrames(context, scope, (_, { models }) => ({
    views: [sinks, ...stage.choiceFor(framesOf(currentEntries())).views],
    more: [...readsOf(tableOf(models.describe)), ...SCATTER_READS, RAW_ALPHA],
  }));
  hideUntilDrawn(root, scope, currentEntries);

  scope.effect(() => {
    const state = context.state.value;
    void context.theme.value;
    const entries = currentEntries();
    const frames = framesOf(entries);
    const freshFrames = framesOf(entries.filter(({ isStale }) => !isStale));
    const hasError = entries.some(({ error }) => error);
    const choice = stage.choiceFor(frames);
    const panel = panelOf(state);
    const areAllFresh = freshFrames.length === entries.length;
    render(
      askBar(
        context,
        frames,
        subjectList('Models compared', entries, context, (shown) => context.set({ shown })),
        html`${generateControls(context, frames)}`,
      ),
      bar,
    );
    const answer = areAllFresh ? comparisonAnswer(freshFrames) : '';
    render(
      html`${roomHeading(
        answer || 'Compare',
        comparisonWords(freshFrames) ||
          (entries.length < 2 ? 'Add another model to compare.' : hasError ? '' : 'Measuring …'),
        context,
        pictureField(choice, frames, stage.select),
      )}
      ${troubleNotes(entries, context)}`,
      headingPlace,
    );
    // Adds the titles, which are above the pictures, so that the stamps can leave them out too.
    statedConditions = [...sharedConditions(frames), ...frames.map(({ title }) => title)];
    const [view] = choice.views;
    pictures.dataset.count = view === sinks ? '6' : String(entries.length);
    stage.update(entries);
    sinkMap.root.hidden = choice.views.includes(sinks);
    sinkMap.update(sinkMap.root.hidden ? [] : entries);
    render(differencesNote(frames, context), differencesPlace);
    saveMenu.hidden = !allows(state, 'save') || !freshFrames.length;
    // There are no columns before the engine, which describes the metrics, has loaded.
    const engine = context.engine.value;
    const columns = engine ? tableOf(explanations.value ?? engine.models.describe) : [];
    const requiredFields = readsOf(columns.filter(({ isRare }) => !isRare));
    const rows = entries.flatMap(({ frame, isStale }) =>
      frame && requiredFields.every((name) => name in frame.tensors || name in (frame.lacks ?? {}))
        ? [{ frame, isStale }]
        : [],
    );
    const metrics = metricsOf(
      rows.map(({ frame }) => frame),
      columns,
    );
    const shownMetrics = shownColumns(metrics, state.columns);
    render(rows.length ? columnsField(metrics, shownMetrics, context) : nothing, columnsPlace);
    const staleNote = rows.some(({ isStale }) => isStale)
      ? ' Gray rows still show the previous conditions.'
      : '';
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
    const caption = `ε = ${joinDistinct(frames.map(({ eps }) => eps))} · T = ${joinDistinct(frames.map(({ T }) => T))} · ${joinDistinct(frames.map(startTokenWords))} · ${joinDistinct(inputNames)}.${staleNote}`;
    const reportedRows =
      rows.length && panel === 'reported' ? reportsOf(frames, context, openModels.value) : [];
    const hasSpread = frames.some(({ sequences }) => sequences > 1);
    render(
      rows.length
        ? html`${metricsTable({ measuredRows: rows, table: shownMetrics, reported: reportedRows, sorting: sorting.value, sort: (value) => (sorting.value = value), file: context.file.value }, caption)}
            <p class="hint">${hasSpread ? '± is the standard deviation over the prompts.' : ''}</p>`
        : nothing,
      tablePlace,
    );
    render(
      rows.length
        ? segmentedControl('Below the table', PANELS, panel, (name) =>
            context.set({
              ...{ xAxis: defaults.xAxis, checkpoints: defaults.checkpoints },
              panel: name === panel ? 'none' : name,
            }),
          )
        : nothing,
      tabsPlace,
    );
    if (panel === 'remedies' && !remedies.value)
      import('./remedies').then((module) => (remedies.value = module), context.fail);
    render(
      !rows.length
        ? nothing
        : panel === 'seeds'
          ? seedsTable(cardsOf(frames, context), false)
          : panel === 'remedies'
            ? remedies.value?.remediesTable(engine!.models.zoo.cards, context.link)
            : nothing,
      panelPlace,
    );
  });
}
