/** A study as files: the table, the numbers of each prompt, everything. No date: the same again. */
import type { Reported } from '../zoo';
import { field, plain } from '../save/numbers';
import { CLASS_WORDS, settingWords } from '../words';
import { printPick } from '../compare/picks';
import { PER_PROMPT, type Column } from './study';
import { tableMetrics } from './table';

/** What holds for all of a study. */
export interface StudyFacts {
  /** What the prompts are, and of which file. */
  readonly corpus: Readonly<Record<string, unknown>>;
  readonly version: string;
  readonly link: string;
  /** What papers say of their own models. */
  readonly reported: readonly (Reported & { readonly title: string })[];
}

/** What is needed to measure a column again. */
export function columnFacts(column: Column) {
  const { pick, title, model, architecture, operation, edits, tokens } = column;
  return {
    pick: printPick(pick),
    title,
    class: CLASS_WORDS[column.class],
    model: model.id,
    source: model.source,
    ...(model.commit ? { commit: model.commit } : {}),
    ...(model.sha256 ? { sha256: model.sha256 } : {}),
    ...(model.step ? { checkpoint: model.step } : {}),
    family: architecture.family,
    parameters: architecture.parameters,
    trained_with: architecture.attention.operation,
    operation: operation.name,
    edits,
    eps: column.eps,
    T: column.T,
    first_tokens: column.first,
    sequences: column.sequences,
    tokens_of_first_prompt: tokens.map(({ id }) => id),
  };
}

function notes(columns: readonly Column[], { corpus, version, link }: StudyFacts): string[] {
  const facts = { corpus, indices: 'counted from 1', measured_by: `Sinkscope ${version}`, link };
  return [
    ...Object.entries(facts).map(([name, value]) => `# ${name}: ${JSON.stringify(value)}`),
    ...columns.map((one) => `# ${one.title}: ${CLASS_WORDS[one.class]} · ${settingWords(one)}`),
    ...columns.map((one) => `# column: ${JSON.stringify(columnFacts(one))}`),
  ].map((line) => line.replace(/[\r\n]+/g, ' '));
}

/** What is undefined is an empty field. */
function value(x: number | undefined): string {
  return x === undefined || !Number.isFinite(x) ? '' : String(x);
}

/** Means and deviations, one number a line. */
export function tableCsv(columns: readonly Column[], facts: StudyFacts): string {
  const lines = columns.flatMap((column) =>
    tableMetrics.map(({ name, of }) => {
      const { mean, deviation, where } = of(column);
      const place = [value(where?.layer), value(where?.head), value(where?.key)];
      const whose = [field(printPick(column.pick)), CLASS_WORDS[column.class]];
      const n = column.sequences;
      return [...whose, name, value(mean), value(deviation), ...place, n].join();
    }),
  );
  const head = 'model,class,metric,mean,deviation,layer,head,key,sequences';
  return `${[...notes(columns, facts), head, ...lines].join('\n')}\n`;
}

/** The numbers of each prompt, a prompt a line. */
export function promptsCsv(columns: readonly Column[], facts: StudyFacts): string {
  const lines = columns.flatMap(({ pick, class: kind, perPrompt, sequences }) =>
    Array.from({ length: sequences }, (_, i) =>
      [
        field(printPick(pick)),
        CLASS_WORDS[kind],
        i + 1,
        ...PER_PROMPT.map((name) => value(perPrompt[name][i])),
      ].join(),
    ),
  );
  const head = ['model', 'class', 'prompt', ...PER_PROMPT].join();
  return `${[...notes(columns, facts), head, ...lines].join('\n')}\n`;
}

/** All that was measured. What others report stands apart, and says so. */
export function studyJson(columns: readonly Column[], facts: StudyFacts): string {
  const { corpus, version, link, reported } = facts;
  const made = columns.map((column) => ({
    ...columnFacts(column),
    table: Object.fromEntries(
      tableMetrics.map(({ name, of }) => {
        const { mean, deviation, where } = of(column);
        const [first, second] = plain([mean, deviation]);
        return [name, { mean: first, deviation: second, ...where }];
      }),
    ),
    prompts: Object.fromEntries(PER_PROMPT.map((name) => [name, plain(column.perPrompt[name])])),
    metrics: column.measurement.metrics,
  }));
  const whole = {
    corpus,
    indices: 'counted from 1',
    measured_by: `Sinkscope ${version}`,
    link,
    models: made,
    ...(reported.length ? { reported } : {}),
  };
  return `${JSON.stringify(whole, null, 1)}\n`;
}
