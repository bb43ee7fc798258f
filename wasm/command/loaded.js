/** The commands that read one text whole: `map`, `generate` and `ablate`, in the words of `load`. */
import { SinkscopeError } from '../abi/errors.js';
import { oneLine } from './output.js';
import { csvOf } from './sheet.js';
import { percent } from './tasks.js';

/** @typedef {import('../sinkscope.js').LoadedModel} LoadedModel */
/** @typedef {import('../sinkscope.js').TextOptions} TextOptions */
/** @typedef {import('../sinkscope.js').TextMeasures} TextMeasures */
/**
 * What the three commands take; each reads some of it.
 * @typedef {TextOptions & { layer?: number, head?: number, eps?: number, count?: number, temperature?: number,
 *   topK?: number, seed?: number }} OneText
 */

/** What a line says of a run. @param {TextMeasures} found */
const brief = ({ T, eps, sink, uniform, conclusive, loss }) => ({
  ...{ T, eps, sink, uniform, conclusive, loss },
});
const nats = (/** @type {number | null} */ loss) =>
  loss === null ? 'no token is predicted' : `${loss.toFixed(4)} nats`;

/**
 * The head that is named, or the one that gives the first token most.
 * @param {LoadedModel} model
 * @param {string} text
 * @param {OneText} options
 */
export async function mapOf(model, text, options) {
  const { tokens, layer, head, map } = await model.measure(text, options);
  return { model: model.id, text, tokens, layer, head, shape: map.shape, map: rowsOf(map) };
}

/** @param {Awaited<ReturnType<typeof mapOf>>} found */
export function mapText({ model, tokens, layer, head, map }) {
  const rows = map.map((row, t) => {
    const key = row.indexOf(Math.max(...row));
    const first = row[0].toFixed(3).padStart(9);
    return `${String(t).padStart(5)}  ${oneLine(tokens[t]).padEnd(16)}${first}  ${row[key].toFixed(3)} on ${key} ${oneLine(tokens[key])}`;
  });
  const title = `${oneLine(model)}, L${layer}H${head}: the weight that each query gives the first key, and its largest`;
  return `${[title, 'query  token              first  largest', ...rows].join('\n')}\n`;
}

/**
 * @param {Awaited<ReturnType<typeof mapOf>>} found
 * @param {import('../sinkscope.js').Describe} describe
 */
export function mapCsv({ model, tokens, layer, head, map }, { version }) {
  const records = map.flatMap((row, t) =>
    row.map((weight, key) => [t, tokens[t], key, tokens[key], weight]),
  );
  /** @type {[string, string][]} */
  const facts = [
    ['measured_by', `Sinkscope ${version}`],
    ['model', model],
    ['head', `L${layer}H${head}`],
  ];
  return csvOf(facts, ['query', 'query_text', 'key', 'key_text', 'weight'], records);
}

/**
 * @param {LoadedModel} model
 * @param {string} text
 * @param {OneText} options
 */
export async function written(model, text, options) {
  return { model: model.id, text, written: await model.generate(text, options) };
}

/**
 * The effect of what is taken away: of a head, a layer, or whatever edits name.
 * @param {LoadedModel} model
 * @param {string} text
 * @param {OneText} options
 */
export async function ablation(model, text, options) {
  const { layer, head, edits } = options;
  if (layer === undefined && !edits?.length)
    throw new SinkscopeError(
      'argument',
      '--layer',
      'expected a layer, or an --edit, found neither',
    );
  const { before, after, change } = await model.ablate(text, options);
  return { model: model.id, text, layer, head, change, before: brief(before), after: brief(after) };
}

/** @param {Awaited<ReturnType<typeof ablation>>} found */
export function ablationText({ model, layer, head, change, before, after }) {
  const what =
    layer === undefined
      ? 'with the edits'
      : `without ${head === undefined ? `layer ${layer}` : `L${layer}H${head}`}`;
  const line = (/** @type {string} */ name, /** @type {typeof before} */ { loss, sink }) =>
    `  ${name.padEnd(16)}loss ${nats(loss)}, Sink_1 ${percent(sink)}\n`;
  const note = before.conclusive
    ? ''
    : `  Sink_1 says nothing here: uniform attention alone gives the first of ${before.T} tokens ${percent(before.uniform)}.\n`;
  const sign = change !== null && change >= 0 ? '+' : '';
  const end = change === null ? '' : `  change          ${sign}${change.toFixed(4)} nats\n`;
  return `${oneLine(model)} on one text\n${line('as it is', before)}${line(what, after)}${end}${note}`;
}

/** @param {import('../sinkscope.js').Tensor} map [T, T] */
function rowsOf({ shape: [T], data }) {
  return Array.from({ length: T }, (_, t) => [...data.slice(t * T, (t + 1) * T)]);
}
