/** @typedef {{ id: number, reports: boolean }} Job what can be stopped; whether it reports its progress */

/** A job that nobody stops and nobody watches. */
export const QUIET = { id: 0, reports: false };
