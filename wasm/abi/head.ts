/** Says why a model has no loss, in one sentence for every place that shows none. */
import { SinkscopeError } from './errors.ts';
import type { Architecture } from './types.ts';

/** Returns null for a model that predicts tokens; recordings do not say whether there is a head. */
export function whyNoLoss({ mask, head }: Pick<Architecture, 'mask' | 'head'>) {
  if (mask.kind === 'bidirectional')
    return 'every query sees every token, so that none is predicted';
  return head === false
    ? 'the file has no output head (lm_head), so that there are no logits'
    : null;
}

/** @throws SinkscopeError 'unsupported' for a model without logits */
export function expectHead({ head }: Pick<Architecture, 'head'>) {
  if (head !== false) return;
  const text = 'expected an output head that predicts tokens, the file has none (no lm_head)';
  throw new SinkscopeError('unsupported', 'model', text);
}
