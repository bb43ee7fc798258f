/** How matrices may be multiplied other than exactly: what a link, a picker and a figure say of it. */
import type { Arithmetic } from 'sinkscope';

export type Other = Exclude<Arithmetic, 'exact'>;

interface Words {
  /** What its numbers are worth. */
  readonly class: 'relaxed' | 'approximate';
  /** Behind the name of a model. */
  readonly title: string;
  readonly button: string;
  readonly hint: string;
  /** What is done, and what that means. */
  readonly does: string;
  readonly means: string;
  readonly footer: string;
}

/** No edit, nor a revision, has such a name. */
export const OTHERS: Readonly<Record<Other, Words>> = {
  relaxed: {
    class: 'relaxed',
    title: 'in relaxed floats',
    button: 'Add in relaxed floats',
    hint: 'Sums of products rounded once, not twice: faster, with other last digits.',
    does: 'Products of matrices are rounded once and not twice, where this machine can',
    means:
      'faster. Of the twins no weight of a map is off by more than 10⁻⁶ so, no logit by 2·10⁻⁵; last digits may be others on another machine.',
    footer: 'relaxed floats',
  },
  int8: {
    class: 'approximate',
    title: 'in 8 bits (int8)',
    button: 'Add in 8 bits',
    hint: 'Matrices multiplied in whole numbers of eight bits: faster, and approximate.',
    does: 'Matrices are multiplied in eight bits (int8)',
    means: 'faster, and not the exact numbers. Without it they are.',
    footer: 'approximate in 8 bits',
  },
};

export const others = Object.keys(OTHERS) as Other[];
