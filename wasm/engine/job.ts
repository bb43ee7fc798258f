/** A call that can be stopped; `reports` is true if it reports progress. */
export type Job = { id: number; reports: boolean };

export const QUIET = { id: 0, reports: false };
