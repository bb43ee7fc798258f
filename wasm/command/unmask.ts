/** Measures how a masked model's loss changes without its sink, compared with a causal model. */
import { measureUnmasking } from '../study/unmasking.ts';
import { expect } from '../abi/errors.ts';
import { percentText } from './tasks.ts';
import { openModel } from './open.ts';
import { parseCount, parseNumber, parsePositive, type CommandInput } from './values.ts';
import type { UnmaskScores, UnmaskConditions } from '../study/types.ts';
import type { AnyTokenizer } from '../text/types.ts';
import type { Engine } from '../load/types.ts';

export async function unmaskModel(engine: Engine, { names: [name], values }: CommandInput) {
  const options = {
    masked: parseNumber(values.masked, 0, 1, '--masked'),
    steps: parsePositive(values.steps, '--steps'),
    seed: parseCount(values.seed, '--seed'),
  };
  const { id, model, tokenizer, sequences, edits, cut } = await openModel(engine, name, values);
  const causal =
    values.causal === undefined ? undefined : await openModel(engine, values.causal, values);
  if (causal) checkVocabulary(sequences, tokenizer, causal.tokenizer);
  const mask = tokenizer.specials.find(({ kind }) => kind === 'mask')?.id;
  return {
    model: id,
    causal_model: causal?.id ?? null,
    edits,
    cut,
    T: sequences[0]!.length,
    ...options,
    ...(await measureUnmasking(model, sequences, {
      ...options,
      never: tokenizer.special,
      edits,
      mask: model.architecture.mask_token === null ? mask : undefined,
      causal: causal?.model,
    })),
  };
}

/** Checks that both tokenizers have the same text for each id of the sequences. */
function checkVocabulary(
  sequences: readonly (readonly number[])[],
  masked: AnyTokenizer,
  causal: AnyTokenizer,
) {
  for (const id of new Set(sequences.flat())) {
    const expected = JSON.stringify(masked.piece(id));
    const actual = id < causal.size ? JSON.stringify(causal.piece(id)) : 'no such token';
    expect(actual === expected, '--causal', `token ${id} to be ${expected}`, actual);
  }
}

export function unmaskText(result: Awaited<ReturnType<typeof unmaskModel>>) {
  const { model, causal_model, prompts, predicted, steps, alpha, moves, causal } = result;
  const plusMinus = (error: number | null) => (error === null ? '' : ` \u00b1 ${error.toFixed(3)}`);
  const formatRow = (name: string, { loss, accuracy }: UnmaskScores) =>
    `  ${name.padEnd(26)}${loss.mean.toFixed(3).padEnd(8)}` +
    `${`${loss.change.mean.toFixed(3)}${plusMinus(loss.change.error)}`.padEnd(18)}${percentText(accuracy.mean)}`;
  const formatRows = (conditions: UnmaskConditions) => [
    formatRow('every key', conditions.baseline),
    formatRow('without the strongest key', conditions.strongest),
    formatRow('without a random key', conditions.random),
  ];
  return `${[
    `${model}: ${predicted} hidden places of ${prompts} texts, uncovered in ${steps} steps; \u00b1 standard error over texts`,
    `  ${''.padEnd(26)}${'loss'.padEnd(8)}${'change, nats'.padEnd(18)}accuracy`,
    ...formatRows(result),
    `the strongest key receives ${percentText(alpha.mean)} of all attention, and is another one in ${percentText(moves.mean)} of the steps`,
    ...(causal
      ? [
          `${causal_model}: the next token at the same places, from the whole text before each`,
          ...formatRows(causal),
          `the strongest key receives ${percentText(causal.alpha.mean)} of all attention`,
        ]
      : []),
  ].join('\n')}\n`;
}
