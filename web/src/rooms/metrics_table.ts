/** Renders the comparison's table: a row for each model, sortable by each column, and reported numbers below. */
import { html, nothing, type TemplateResult } from 'lit';
import { commandOf, copyCommandButton } from '../page/command';
import { tableRegion } from '../page/room_controls';
import type { Frame } from '../frame';
import type { PromptFile } from '../ask/question';
import {
  CLASS_WORDS,
  lossNote,
  modelHeadName,
  verdictOf,
  formatPercent,
  quote,
  formatValue,
} from '../words';
import {
  metricsOf,
  sortRows,
  type Cell,
  type ReportedRow,
  type Sorting,
  type TableMetric,
} from './metrics';

interface MeasuredRow {
  readonly frame: Frame;
  readonly isStale: boolean;
}

interface TableParts {
  readonly measuredRows: readonly MeasuredRow[];
  readonly reported: readonly ReportedRow[];
  readonly table: readonly TableMetric[];
  readonly sorting: Sorting;
  readonly sort: (sorting: Sorting) => void;
  readonly file: PromptFile | undefined;
}

const MODEL_COLUMN = 'model';

function columnHeading(
  name: string,
  title: string,
  meaning: string | undefined,
  { sorting, sort }: TableParts,
): TemplateResult {
  const isSorted = sorting.name === name;
  const direction = sorting.descending ? 'descending' : 'ascending';
  // The first click on a column of numbers puts the largest first.
  const descending = isSorted ? !sorting.descending : name !== MODEL_COLUMN;
  return html`<th scope="col" aria-sort=${isSorted ? direction : 'none'}>
    <button type="button" title=${meaning ?? nothing} @click=${() => sort({ name, descending })}>
      ${title}<span aria-hidden="true">${isSorted ? (sorting.descending ? '▾' : '▴') : ''}</span>
    </button>
  </th>`;
}

/** Formats a deviation; “± <0.01” if rounding would hide it. */
function spreadWords(deviation: number, resolution: number, format: (x: number) => string): string {
  if (!Number.isFinite(deviation)) return '';
  if (deviation === 0) return '± 0';
  return deviation < resolution ? `± <${format(resolution)}` : `± ${format(deviation)}`;
}

function placeWords({ layer, head, key }: NonNullable<Cell['where']>, frame: Frame): string {
  if (key !== undefined)
    return `position\u00a0${key}${frame.sequences === 1 ? ` ${quote(frame, key)}` : ''}`;
  return head === undefined ? `after layer\u00a0${layer}` : modelHeadName({ layer: layer!, head });
}

function cellTemplate(
  frame: Frame,
  { name, digits, isPercent: isShare, cellOf }: TableMetric,
): TemplateResult {
  const { mean, deviation, where } = cellOf(frame);
  const format = (x: number) => (isShare ? formatPercent(x, digits) : formatValue(x, digits));
  const resolution = 10 ** -digits / (isShare ? 100 : 1);
  return html`<td data-metric=${name}>
    <span class="value">${format(mean)}</span>
    <span class="spread">${spreadWords(deviation, resolution, format)}</span>
    ${where ? html`<span class="place">${placeWords(where, frame)}</span>` : nothing}
  </td>`;
}

function rowOf(
  { frame, isStale }: MeasuredRow,
  metrics: readonly TableMetric[],
  file: PromptFile | undefined,
): TemplateResult {
  const { sequences, model } = frame;
  const prompts = sequences === 1 ? '1 prompt' : `${sequences} prompts`;
  const storedNote = model.bits ? `, stored at ${model.bits.toFixed(1)} bits per weight` : '';
  const shortNote = verdictOf(frame).conclusive ? '' : ', text too short to count heads';
  const note = `${prompts}${storedNote}${shortNote}`;
  return html`<tr data-subject=${frame.subject} class="${frame.class} ${isStale ? 'stale' : ''}">
    <th scope="row">
      ${frame.title}
      <span class="row-class"
        ><span class="badge">${CLASS_WORDS[frame.class]}</span> ${note}
        ${copyCommandButton(commandOf(frame, file))}</span
      >
    </th>
    ${metrics.map((metric) => cellTemplate(frame, metric))}
  </tr>`;
}

function reportedValue({ sink_1, loss, title }: ReportedRow, name: string): number | string {
  if (name === MODEL_COLUMN) return title;
  if (name === 'sink_1') return (sink_1 ?? NaN) / 100;
  return name === 'loss' ? (loss ?? NaN) : NaN;
}

const hasValue = (row: ReportedRow, name: string) =>
  Number.isFinite(Number(reportedValue(row, name)));

function reportedRow(row: ReportedRow, metrics: readonly TableMetric[]): TemplateResult {
  const valueWords = (metric: TableMetric) => {
    const x = Number(reportedValue(row, metric.name));
    return metric.isPercent ? formatPercent(x, 2) : formatValue(x, 2);
  };
  return html`<tr class="reported">
    <th scope="row">
      ${row.title}
      <span class="row-class"><span class="badge">REPORTED</span></span>
    </th>
    ${metrics.map((metric) => html`<td data-metric=${metric.name}>${valueWords(metric)}</td>`)}
  </tr>`;
}

function reportedRows(
  { reported, sorting }: TableParts,
  metrics: readonly TableMetric[],
): TemplateResult | typeof nothing {
  if (!reported.length) return nothing;
  const { name, descending } = sorting;
  const rows = sortRows(reported, (row) => reportedValue(row, name), descending);
  return html`<tbody class="reported-rows">
    <tr>
      <th class="where" scope="rowgroup" colspan=${metrics.length + 1}>
        <span
          >Reported in papers, of their own models and data, not measured here. Gu et al.: ε = 0.3,
          T = 64, 100 sequences, and of the models that they trained, no start token</span
        >
      </th>
    </tr>
    ${[...new Set(rows.map(({ where }) => where))].map(
      (where) =>
        html`<tr class="reported">
            <td class="where" colspan=${metrics.length + 1}><span>${where}</span></td>
          </tr>
          ${rows
            .filter((row) => row.where === where && metrics.some(({ name }) => hasValue(row, name)))
            .map((row) => reportedRow(row, metrics))}`,
    )}
  </tbody>`;
}

export function metricsTable(parts: TableParts, caption: string): TemplateResult {
  const { measuredRows, sorting, table } = parts;
  const metrics = metricsOf(
    measuredRows.map(({ frame }) => frame),
    table,
  );
  const sortMetric = table.find(({ name }) => name === sorting.name);
  const sortKey = ({ frame }: MeasuredRow) =>
    sortMetric ? sortMetric.cellOf(frame).mean : frame.title.toLowerCase();
  const note = lossNote(measuredRows.filter(({ isStale }) => !isStale).map(({ frame }) => frame));
  const rows = sorting.name ? sortRows(measuredRows, sortKey, sorting.descending) : measuredRows;
  return tableRegion(
    'Metrics of the models, a table',
    html`<table class="metrics">
      <caption>
        ${caption}${note ? html` <span data-vocabularies>${note}</span>` : nothing}
      </caption>
      <thead>
        <tr>
          ${columnHeading(MODEL_COLUMN, 'model', 'The name of the model', parts)}
          ${metrics.map(({ name, title, meaning }) => columnHeading(name, title, meaning, parts))}
        </tr>
      </thead>
      <tbody>
        ${rows.map((row) => rowOf(row, metrics, parts.file))}
      </tbody>
      ${reportedRows(parts, metrics)}
    </table>`,
  );
}
