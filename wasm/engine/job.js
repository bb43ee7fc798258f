/** @typedef {{ id: number, reports: boolean }} Job what can be stopped; whether it reports its progress */

/** A job that is never stopped and reports nothing. */
export const QUIET = { id: 0, reports: false };
