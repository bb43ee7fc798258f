/**
 * What a caption may claim of an attention map. A claim is computed from the cells that are drawn and from
 * nothing else, so it is true of the picture on any text, at any step, with rows normalized or not.
 */

/** The first column of a drawn map, over the rows after the first. */
export interface Column {
  readonly rows: number;
  /** Rows whose first cell has more than half of the full scale. */
  readonly strong: number;
  /** Mean of the column's cells. */
  readonly mean: number;
  /** Mean that the column would have if each row gave all of its cells the same. */
  readonly uniform: number;
  /** Mean sum of all rows, the first one included. */
  readonly rowSum: number;
}

/** @param cells [T, T] as drawn, signed weights included; NaN where nothing is drawn */
export function columnOf(cells: ArrayLike<number>, T: number): Column {
  let [strong, first, uniform, sums] = [0, 0, 0, 0];
  for (let t = 0; t < T; t++) {
    const row = Array.from({ length: T }, (_, k) => cells[t * T + k]!).filter(Number.isFinite);
    const sum = row.reduce((a, b) => a + Math.abs(b), 0);
    const own = Math.abs(cells[t * T]!);
    sums += sum;
    if (t === 0 || Number.isNaN(own)) continue;
    if (own > 0.5) strong++;
    first += own;
    uniform += sum / row.length;
  }
  const rows = T - 1;
  return { rows, strong, mean: first / rows, uniform: uniform / rows, rowSum: sums / T };
}

/** `all` and `many`: of the rows; `weak`: above twice uniform, and large enough to be seen; else `none`. */
export type Kind = 'all' | 'many' | 'weak' | 'none';

/** A column below it is hardly darker than paper. */
const SEEN = 0.05;

export function kindOf({ rows, strong, mean, uniform }: Column): Kind {
  if (rows > 0 && strong >= 0.75 * rows) return 'all';
  if (rows > 0 && strong >= 0.4 * rows) return 'many';
  return mean > Math.max(SEEN, 2 * uniform) ? 'weak' : 'none';
}
