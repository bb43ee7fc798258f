/** A call that can be stopped; `reports` is true if it reports progress. */
export type Job = { id: number; reports: boolean };

export const QUIET_JOB = { id: 0, reports: false };
