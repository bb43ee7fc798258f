/**
 * When Sink_1 can be interpreted. Its definition is the paper's (Gu et al., ICLR 2025, section 3.2) at any
 * length, but in a short text it counts heads that attend uniformly.
 *
 * Uniform attention gives the first token the mean of 1/t over the queries t: (1 + 1/2 + ... + 1/T) / T of
 * a causal text. Where that exceeds eps, every head without any preference counts as a sink: at eps = 0.3
 * in a text of fewer than 10 tokens. Where rows need not sum to 1, a large share of a row that sums to
 * nearly 0 is no sink, and neither is a large weight that all keys receive: both, the share and the raw
 * weight, must exceed eps.
 */
import { check } from '../abi/arguments.js';
import { expect } from '../abi/errors.js';

/** A head that changes the loss by less on a text is dormant on it, in nats. */
const DORMANT = 0.01;

/** @type {typeof import('../sinkscope.js').leastTokens} */
export function leastTokens(eps) {
  expect(typeof eps === 'number', 'eps', 'a number', eps);
  if (!(eps > 0)) return Infinity;
  let sum = 0;
  for (let T = 1; T <= 4096; T++) {
    sum += 1 / T;
    if (sum / T <= eps) return T;
  }
  return Infinity;
}

/** @type {typeof import('../sinkscope.js').judge} */
export function judge(known) {
  check(known, 'object', 'known');
  for (const key of /** @type {const} */ (['eps', 'even', 'sink', 'sinkRaw'])) {
    expect(typeof known[key] === 'number', key, 'a number', known[key]);
  }
  const { eps, even, normalises, sink, sinkRaw } = known;
  const conclusive = even <= eps;
  const judged = normalises
    ? { sink, of: /** @type {const} */ ('weights') }
    : { sink: Math.min(sink, sinkRaw), of: /** @type {const} */ ('shares and raw weights') };
  return { ...judged, even, conclusive, least: leastTokens(eps) };
}

/** @type {typeof import('../sinkscope.js').labelHead} */
export function labelHead(known) {
  check(known, 'object', 'known');
  for (const key of /** @type {const} */ (['eps', 'share', 'contribution'])) {
    expect(typeof known[key] === 'number', key, 'a number', known[key]);
  }
  const { eps, share, contribution, effect } = known;
  if (effect !== undefined) expect(typeof effect === 'number', 'effect', 'a number', effect);
  const isParked = share > eps;
  const parked = contribution >= 0.5 ? 'broadcast' : 'no-op';
  return {
    label: isParked ? parked : 'active',
    dormant: effect === undefined ? undefined : isParked && Math.abs(effect) < DORMANT,
  };
}
