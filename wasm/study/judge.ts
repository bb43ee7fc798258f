/**
 * Decides when Sink_1 can be interpreted. It is defined at any length (Gu et al., ICLR 2025,
 * section 3.2), but in a short text it counts heads that attend uniformly.
 *
 * Under uniform attention the first token of a causal text receives the mean of 1/t over queries t:
 * (1 + 1/2 + ... + 1/T) / T. If this exceeds eps, every head without a preference counts as a sink:
 * at eps = 0.3 in texts of fewer than 10 tokens. Where every query sees every token it is 1/T, which
 * needs 4 of them. Attention is the weight that the model uses, so heads are counted by raw
 * weights. If rows need not sum to 1, the authors count shares of the row, which say nothing of how
 * much a head attends: that count is a second number. Weights with signs cancel in a mean: of these
 * the shares |w| / sum |w| count, as in the authors' code (section 7.4).
 */
import { check } from '../abi/arguments.ts';
import { expect, expectInteger, rowNamed } from '../abi/errors.ts';
import type { Architecture, Describe, Operation } from '../abi/types.ts';
import type { OperationEdit } from '../engine/types.ts';
import type { SinkMeasures, Judgment, KnownHead, HeadLabel, SeenKeys } from './types.ts';

/** A head is dormant on a text if silencing it changes the loss by less than this, in nats. */
const DORMANT_EFFECT_MAX = 0.01;

/** Texts are not longer than this. */
const TOKENS_MAX = 2 ** 20;

/**
 * Returns alpha of each key under uniform attention, [T], as the metric `alpha_uniform` does: the sum
 * over the queries that see the key of 1 over the number of keys that they see, a bias key included,
 * divided by T-k+1, or by T if every query sees every key.
 * @param seen what queries see; default: a causal mask. Windows count as no limit.
 * @example uniformAlphas(2)[0]; // 0.75
 */
export function uniformAlphas(T: number, seen: SeenKeys = {}): Float64Array {
  expectInteger(T, 0, TOKENS_MAX, 'T');
  const { firstQuery, shareAt, queryCount } = uniformShares(T, seen);
  // The sum of the shares over the queries from k on.
  const tails = new Float64Array(T + 1);
  for (let k = T - 1; k >= 0; k--) tails[k] = tails[k + 1]! + shareAt(k);
  return Float64Array.from({ length: T }, (_, k) => tails[firstQuery(k)]! / queryCount(k));
}

function uniformShares(T: number, { mask, bias_key }: SeenKeys) {
  const seesAll = mask?.kind === 'bidirectional';
  const sharedEnd = seesAll ? T : Math.min(mask?.prefix ?? 1, T);
  const biasCount = bias_key ? 1 : 0;
  return {
    /** The first query that sees a key. */
    firstQuery: (k: number) => (k < sharedEnd ? 0 : k),
    /** 1 over the number of keys that a query sees. */
    shareAt: (t: number) => 1 / (Math.max(t + 1, sharedEnd) + biasCount),
    /** The divisor of alpha_k. */
    queryCount: (k: number) => (seesAll ? T : T - k),
  };
}

/** Returns one of `uniformAlphas`, without the others: the search for a length needs it often. */
function uniformAlpha(T: number, seen: SeenKeys, k: number): number {
  const { firstQuery, shareAt, queryCount } = uniformShares(T, seen);
  let sum = 0;
  for (let t = firstQuery(k); t < T; t++) sum += shareAt(t);
  return sum / queryCount(k);
}

/** Returns the operation of a run's heads: the last one that an edit sets, or else the model's own. */
export function operationOf(
  { operations }: Pick<Describe, 'operations'>,
  { attention }: Pick<Architecture, 'attention'>,
  edits: readonly object[],
): Operation {
  const edit = edits.findLast((one) => 'kind' in one && one.kind === 'operation');
  const { operation } = (edit as OperationEdit | undefined) ?? attention;
  return rowNamed(operations, operation, 'operation');
}

/** Whether attention and its share of the row differ: rows need not sum to 1, without signs. */
export const hasShares = ({ proxy }: Pick<Operation, 'proxy'>): boolean => proxy === 'share';

export function leastTokens(eps: number, seen: SeenKeys = {}): number {
  expect(typeof eps === 'number', 'eps', 'a number', eps);
  if (!(eps > 0)) return Infinity;
  const { first = 0 } = seen;
  expectInteger(first, 0, TOKENS_MAX - 1, 'first');
  // The share falls with T, so the search doubles T and then halves the interval.
  let low = first;
  let high = low + 1;
  for (; uniformAlpha(high, seen, first) > eps; high *= 2) {
    if (2 * high > TOKENS_MAX) return Infinity;
    low = high;
  }
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (uniformAlpha(middle, seen, first) > eps) low = middle;
    else high = middle;
  }
  return high;
}

/**
 * Returns whether Sink_1 can be interpreted at this length, and its value.
 * @example judge({ eps: 0.3, even: 0.46, normalizes: true, sink: 1, sinkRaw: 1 }).conclusive; //
 * false: 5 tokens
 */
export function judge(measures: SinkMeasures): Judgment {
  check(measures, 'object', 'measures');
  for (const key of ['eps', 'even', 'sink', 'sinkRaw'] as const)
    expect(typeof measures[key] === 'number', key, 'a number', measures[key]);
  const { eps, even, normalizes, signed, sink, sinkRaw } = measures;
  const verdict =
    normalizes || !signed
      ? { sink: normalizes ? sink : sinkRaw, of: 'weights' as const }
      : { sink, of: 'shares' as const };
  const conclusive = even <= eps;
  return { ...verdict, sinkByShares: sink, even, conclusive, least: leastTokens(eps, measures) };
}

/**
 * Labels what a head does on this text.
 * @example labelHead({ eps: 0.3, share: 0.9, contribution: 0.05, effect: 0 }); // { label: 'no-op', dormant: true }
 */
export function labelHead(head: KnownHead): HeadLabel {
  check(head, 'object', 'head');
  for (const key of ['eps', 'share', 'contribution'] as const)
    expect(typeof head[key] === 'number', key, 'a number', head[key]);
  const { eps, share, contribution, effect } = head;
  if (effect !== undefined) expect(typeof effect === 'number', 'effect', 'a number', effect);
  const attendsFirst = share > eps;
  const kind = contribution >= 0.5 ? 'broadcast' : 'no-op';
  return {
    label: attendsFirst ? kind : 'active',
    dormant:
      effect === undefined ? undefined : attendsFirst && Math.abs(effect) < DORMANT_EFFECT_MAX,
  };
}
