/** Implements `map`, `generate` and `ablate`, which read one whole text with a LoadedModel. */
import { SinkscopeError, expect } from '../abi/errors.ts';
import { oneLine } from './output.ts';
import { csvOf } from '../study/csv.ts';
import { percentText } from './tasks.ts';
import { missingError } from './options.ts';
import { openNamedModel, specialOf } from './open.ts';
import { parseCount, parseNumber, parseOptional, type CommandInput } from './values.ts';
import { LoadedModel } from '../load/loaded_model.ts';
import { readText } from './text_file.ts';
import type { Describe, Tensor } from '../abi/types.ts';
import type { TextMeasures, Engine } from '../load/types.ts';

type OneTextOptions = NonNullable<
  Parameters<LoadedModel['measure']>[1] & Parameters<LoadedModel['generate']>[1]
>;

const summaryOf = ({
  T,
  eps,
  sink,
  sinkByShares,
  uniform,
  conclusive,
  loss,
  noLoss,
}: TextMeasures) => ({
  ...{ T, eps, sink, sinkByShares, uniform, conclusive, loss, noLoss },
});

/** Returns the attention map of the given head, or of the head with the largest alpha_1. */
export async function measureMap(model: LoadedModel, text: string, options: OneTextOptions) {
  const { tokens, notes, generated, layer, head, map } = await model.measure(text, options);
  const place = { model: model.id, text, tokens, notes, generated, layer, head };
  return { ...place, shape: map.shape, map: rowsOf(map) };
}

type MapResult = Awaited<ReturnType<typeof measureMap>>;

export function mapText({ model, tokens, notes, generated, layer, head, map }: MapResult) {
  const rows = map.map((row, t) => {
    const key = row.indexOf(Math.max(...row));
    const firstWeight = row[0].toFixed(3).padStart(9);
    return `${String(t).padStart(5)}  ${oneLine(tokens[t]).padEnd(16)}${firstWeight}  ${row[key].toFixed(3)} on ${key} ${oneLine(tokens[key])}`;
  });
  const prompt = tokens.length - generated;
  const writer = generated ? `; the model wrote tokens ${prompt} to ${tokens.length - 1}` : '';
  const title = `${oneLine(model)}, L${layer}H${head}: the weight that each query gives the first key, and its largest${writer}`;
  const noteLines = notes.map((note) => `note: ${oneLine(note)}`);
  return `${[title, ...noteLines, 'query  token              first  largest', ...rows].join('\n')}\n`;
}

export function mapCsv(
  { model, tokens, generated, layer, head, map }: MapResult,
  { version }: Describe,
) {
  const records = map.flatMap((row, t) =>
    row.map((weight, key) => [t, tokens[t], key, tokens[key], weight]),
  );
  const facts: [string, string][] = [
    ['measured_by', `Sinkscope ${version}`],
    ['model', model],
    ['head', `L${layer}H${head}`],
    ...(generated ? [['generated', String(generated)] as [string, string]] : []),
  ];
  return csvOf(facts, ['query', 'query_text', 'key', 'key_text', 'weight'], records);
}

export async function generateText(model: LoadedModel, text: string, options: OneTextOptions) {
  return { model: model.id, text, written: await model.generate(text, options) };
}

export async function measureAblation(model: LoadedModel, text: string, options: OneTextOptions) {
  const { layer, head, edits } = options;
  if (layer === undefined && !edits?.length)
    throw new SinkscopeError(
      'argument',
      '--layer',
      'expected a layer, or an --edit, found neither',
    );
  const { before, after, change } = await model.ablate(text, options);
  return {
    model: model.id,
    text,
    layer,
    head,
    change,
    before: summaryOf(before),
    after: summaryOf(after),
  };
}

export function ablationText(result: Awaited<ReturnType<typeof measureAblation>>) {
  const { model, layer, head, change, before, after } = result;
  const condition =
    layer === undefined
      ? 'with the edits'
      : `without ${head === undefined ? `layer ${layer}` : `L${layer}H${head}`}`;
  const formatLine = (name: string, { loss, noLoss, sink }: typeof before) => {
    const lossText =
      loss === null ? (noLoss ?? 'no token is predicted') : `${loss.toFixed(4)} nats`;
    return `  ${name.padEnd(16)}loss ${lossText}, Sink_1 ${percentText(sink)}\n`;
  };
  const note = before.conclusive
    ? ''
    : `  Sink_1 says nothing here: uniform attention alone gives the first of ${before.T} tokens ${percentText(before.uniform)}.\n`;
  const sign = change !== null && change >= 0 ? '+' : '';
  const changeLine = change === null ? '' : `  change          ${sign}${change.toFixed(4)} nats\n`;
  return `${oneLine(model)} on one text\n${formatLine('baseline', before)}${formatLine(condition, after)}${changeLine}${note}`;
}

const rowsOf = ({ shape: [T], data }: Tensor) =>
  Array.from({ length: T }, (_, t) => [...data.slice(t * T, (t + 1) * T)]);

export const withText =
  <Result>(use: (model: LoadedModel, text: string, options: OneTextOptions) => Promise<Result>) =>
  async (engine: Engine, { names: [name], values, givenOptions }: CommandInput) => {
    const texts = [givenOptions.text, givenOptions['text-file']].filter(
      (value) => value !== undefined,
    );
    const expected = 'one of --text and --text-file';
    if (texts.length === 0) throw missingError('text', expected);
    expect(texts.length === 1, 'text', expected, texts.length);
    const text = values.text ?? (await readText(String(values['text-file']), '--text-file'));
    const { edits, ...parts } = await openNamedModel(engine, name, values);
    const model = new LoadedModel({ ...parts, engine, isOwner: false });
    try {
      return await use(model, text, {
        edits,
        special: specialOf(model.tokenizer, values.special),
        layer: parseOptional(parseCount, values.layer, '--layer'),
        head: parseOptional(parseCount, values.head, '--head'),
        eps: values.eps === undefined ? undefined : parseNumber(values.eps, 0, 1, '--eps'),
        ...(values.count !== undefined && { count: parseCount(values.count, '--count') }),
        ...(values.generate !== undefined && {
          generate: parseCount(values.generate, '--generate'),
        }),
        ...(values.temperature !== undefined && {
          temperature: parseNumber(values.temperature, 0, 1e6, '--temperature'),
          topK: parseCount(values['top-k'], '--top-k'),
          seed: parseCount(values.seed, '--seed'),
        }),
      });
    } catch (error) {
      // These also limit what a caller of the package asks for; here they are options.
      if (!(error instanceof SinkscopeError) || !/^(count|generate)$/.test(error.where))
        throw error;
      throw new SinkscopeError(error.code, `--${error.where}`, error.text);
    } finally {
      await model.close();
    }
  };
