/** @typedef {{ id: number, reports: boolean }} Job a call that can be stopped; `reports`: whether it reports progress */

/** A job that is never stopped and reports nothing. */
export const QUIET = { id: 0, reports: false };
