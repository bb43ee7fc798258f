/** The names of inexact arithmetic in links, the model picker and figures. */
import type { Arithmetic } from 'sinkscope';

export type Inexact = Exclude<Arithmetic, 'exact'>;

/**
 * Words for each inexact arithmetic; `title` follows the model's name. A link writes the key after "~", as it writes an
 * edit; no edit has such a name.
 */
export const INEXACT = {
  relaxed: {
    class: 'relaxed',
    title: 'with relaxed floats',
    button: 'Add with relaxed floats',
    hint: 'Fused multiply-add: faster; the last digits may differ.',
    clause: 'Matrix products use fused multiply-add where this machine has it',
    consequence:
      'faster. For the twins, attention weights differ by at most 10⁻⁶ and logits by at most 2·10⁻⁵; the last digits depend on the machine.',
    footer: 'relaxed floats',
  },
  int8: {
    class: 'approximate',
    title: 'in 8 bits (int8)',
    button: 'Add in 8 bits',
    hint: '8-bit integer matrix products: faster, and approximate.',
    clause: 'Matrix products use 8-bit integers (int8)',
    consequence: 'faster, and approximate.',
    footer: 'approximate in 8 bits',
  },
} as const satisfies Readonly<Record<Inexact, object>>;

export const inexactNames = Object.keys(INEXACT) as Inexact[];
