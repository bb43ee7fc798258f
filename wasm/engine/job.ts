/** A call that can be stopped; `reports` is true if it reports progress. */
export type Job = { id: number; reports: boolean };

/** A job that is never stopped and reports nothing. */
export const QUIET = { id: 0, reports: false };
