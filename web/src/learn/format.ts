/** Formats the numbers of the lessons; a number that a run did not give is a dash. */

export const formatPercent = (share = NaN): string =>
  Number.isFinite(share) ? `${(100 * share).toFixed(0).replace('-', '−')}%` : '–';

export const formatFixed = (value = NaN): string =>
  Number.isFinite(value) ? value.toFixed(2).replace('-', '−') : '–';

export const formatRatio = (value = NaN): string =>
  Number.isFinite(value) ? `${value.toFixed(value < 0.995 ? 2 : 1)}×` : '–';
