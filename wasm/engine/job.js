/** @typedef {{ id: number, told: boolean }} Job what can be stopped; whether anybody hears how far it is */

/** A job that nobody stops and nobody watches. */
export const QUIET = { id: 0, told: false };
