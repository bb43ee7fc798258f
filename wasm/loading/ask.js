/** A question to a server: asked again where that may help, and refused in words where it cannot. */
import { request } from '#host';
import { SinkscopeError } from '../abi/errors.js';

/**
 * @typedef {object} Patience
 * @property {AbortSignal} [signal]
 * @property {string} [token] sent to this server alone: fetch drops it when another origin takes over
 * @property {number} [tries] how often one thing is asked for; default 5
 * @property {number} [wait] milliseconds before the second try; each further wait is twice as long
 * @property {boolean} [unstored] the browser's own cache is left out: who keeps it elsewhere, would twice
 * @property {number} [stall] milliseconds of silence after which a connection counts as cut
 * @property {(retry: { reason: string, wait: number }) => void} [onRetry]
 */

/** Answers after which the same question may get another answer. */
const PASSING = new Set([408, 425, 429, 500, 502, 503, 504]);
/** Readers leave a page that waits longer than this, in milliseconds. */
const LONGEST_WAIT = 30_000;
const TRIES = 5;
const FIRST_WAIT = 500;
/** Milliseconds of silence after which a connection counts as cut. */
export const STALL = 60_000;

/** Kinds of the options of whatever asks. */
export const PATIENCE = {
  signal: 'signal',
  token: 'text',
  tries: 'count',
  wait: 'count',
  stall: 'count',
  onRetry: 'call',
};

/** What the hub's X-Error-Code means. */
const MEANINGS = /** @type {Record<string, string>} */ ({
  RepoNotFound: 'expected a model of this name on the hub, found none',
  RevisionNotFound: 'expected a branch, tag or commit of this name, found none',
  EntryNotFound: 'expected this file in the repository, found none',
  DisabledRepo: 'the hub has disabled this repository',
});

/**
 * The answer, if it is 2xx or 416; a 416 is one about ranges that the caller has to read.
 * @param {URL} address
 * @param {Patience & { method?: string, headers?: Record<string, string> }} [options]
 * @returns {Promise<Response>}
 * @throws {SinkscopeError} with a cause where there was no answer at all: 'access' (401, 403), 'not_found' (the hub knows no such thing),
 *   'busy' (429), 'offline', 'read' (all else)
 */
export async function ask(address, options = {}) {
  const { method = 'GET', token, signal, tries = TRIES } = options;
  checkToken(token);
  const headers = { ...options.headers, ...(token ? { authorization: `Bearer ${token}` } : {}) };
  for (let tried = 1; ; tried++) {
    signal?.throwIfAborted();
    /** @type {RequestInit} */
    const init = { method, headers, cache: options.unstored ? 'no-store' : 'default' };
    const answer = await attempt(address, init, options);
    if (answer instanceof Response && (answer.ok || answer.status === 416)) return answer;
    const wait = waitBefore(answer, tried, options);
    if (!mayPass(address, answer) || tried >= tries || wait > LONGEST_WAIT) {
      throw refusal(address, answer, token !== undefined);
    }
    await retryAfter(wait, sentence(answer), options);
  }
}

/**
 * Refuses what fetch would refuse: its error has the token in it.
 * @param {string | undefined} token
 */
function checkToken(token) {
  const at = (token ?? '').search(/[^\x21-\x7e]/);
  if (at < 0) return;
  const text = `expected letters, digits and signs, found something else at place ${at + 1}`;
  throw new SinkscopeError('argument', 'token', `${text}: a space or a line break, perhaps`);
}

/**
 * Says why, and waits.
 * @param {number} wait in milliseconds
 * @param {string} reason
 * @param {Patience} options
 */
export function retryAfter(wait, reason, { signal, onRetry }) {
  onRetry?.({ reason, wait });
  return sleep(wait, signal);
}

/**
 * Twice as long after each failure.
 * @param {number} failures
 * @param {Patience} options
 */
export function backOff(failures, { wait = FIRST_WAIT }) {
  return Math.min(wait * 2 ** (failures - 1), LONGEST_WAIT);
}

/**
 * The answer or, where there is none, why. Silence is none.
 * @param {URL} address
 * @param {RequestInit} init
 * @param {Patience} options
 * @returns {Promise<Response | Error>}
 */
async function attempt(address, init, { signal, stall = STALL }) {
  const stop = new AbortController();
  const silence = new Error(`no answer came for ${stall} ms`);
  const timer = setTimeout(() => stop.abort(silence), stall);
  // The signal holds for the body too, so it stays tied to the request.
  const both = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
  try {
    const answer = await request(address, { ...init, signal: both });
    // The body of a refusal is not wanted, and holds the connection until it is dropped.
    if (!answer.ok) void answer.body?.cancel().catch(() => {});
    return answer;
  } catch (error) {
    signal?.throwIfAborted();
    return error instanceof Error ? error : new Error(String(error));
  } finally {
    clearTimeout(timer);
  }
}

/**
 * @param {URL} address
 * @param {Response | Error} answer
 */
function mayPass(address, answer) {
  if (answer instanceof Response) return PASSING.has(answer.status);
  return address.protocol !== 'file:' && !isOffline();
}

function isOffline() {
  return globalThis.navigator?.onLine === false;
}

/**
 * @param {Response | Error} answer
 * @param {number} tried
 * @param {Patience} options
 */
function waitBefore(answer, tried, options) {
  const given = answer instanceof Response ? givenWait(answer) : undefined;
  if (given === undefined) return backOff(tried, options);
  const wait = /^\d+$/.test(given) ? 1000 * Number(given) : Date.parse(given) - Date.now();
  return Number.isNaN(wait) ? backOff(tried, options) : Math.max(wait, 0);
}

/**
 * Seconds or a date; the hub counts requests in windows and says when the next one begins.
 * @param {Response} answer
 */
function givenWait({ headers }) {
  const window = /;\s*t=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1];
  const said = headers.get('retry-after') ?? window;
  // A number of seconds, or a date, which begins with a day; all else says nothing.
  return said !== undefined && /^(\d{1,9}$|[A-Z][a-z]{2,8}, )/.test(said) ? said : undefined;
}

/** @param {Response | Error} answer */
function sentence(answer) {
  return answer instanceof Response ? `the server answered ${answer.status}` : reasonOf(answer);
}

/**
 * Why there was no answer, or no more of it. Node.js says "fetch failed" and keeps the reason below;
 * browsers give no reason, each in its own words.
 * @param {unknown} error
 */
export function reasonOf(error) {
  const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (reason instanceof TypeError) return 'the connection was refused or cut';
  return reason instanceof Error ? reason.message : String(reason);
}

/**
 * @param {URL} address
 * @param {Response | Error} answer
 * @param {boolean} hasToken
 */
function refusal(address, answer, hasToken) {
  const where = placeOf(address);
  if (!(answer instanceof Response)) {
    const error = isOffline()
      ? new SinkscopeError('offline', where, 'expected a network, this machine is offline')
      : new SinkscopeError('read', where, `${noAnswer(address)}: ${sentence(answer)}`);
    return Object.assign(error, { cause: answer });
  }
  const { status } = answer;
  const answered = sentence(answer);
  if (status === 401 || status === 403) {
    return new SinkscopeError('access', where, `${noAccess(status, hasToken)}; ${answered}`);
  }
  if (status === 429) {
    const again = givenWait(answer);
    const isDate = again !== undefined && !/^\d+$/.test(again);
    const when = again ? `; try again ${isDate ? `after ${again}` : `in ${again} s`}` : '';
    return new SinkscopeError('busy', where, `too many requests from here; ${answered}${when}`);
  }
  const reported = answer.headers.get('x-error-code') ?? '';
  const meaning = Object.hasOwn(MEANINGS, reported) && MEANINGS[reported];
  return meaning
    ? new SinkscopeError('not_found', where, `${meaning}; ${answered}`)
    : new SinkscopeError('read', where, answered);
}

/**
 * What can be looked at where nothing came.
 * @param {URL} address
 */
function noAnswer({ protocol, host, origin }) {
  if (protocol === 'file:') return 'expected a file that can be read, found none';
  const here = globalThis.location?.origin;
  const isFar = here !== undefined && here !== origin;
  const shares = isFar ? `, and whether it lets pages of ${here} read its files` : '';
  return `no answer came; see whether ${host} can be reached from here${shares}`;
}

/**
 * @param {number} status 401 or 403
 * @param {boolean} hasToken
 */
function noAccess(status, hasToken) {
  if (!hasToken) {
    return 'needs an access token: the model is gated or private, or there is none of this name';
  }
  return status === 401
    ? 'expected a valid access token, this one was not accepted'
    : 'expected a token whose account has access; a gated model asks for it on its own page';
}

/**
 * An address as it may be shown: a signed one carries a secret behind the question mark.
 * @param {URL} address
 */
export function placeOf(address) {
  return address.origin === 'null'
    ? address.href.replace(/[?#].*/, '')
    : address.origin + address.pathname;
}

/**
 * @param {number} milliseconds
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, milliseconds);
    signal?.addEventListener('abort', stop);
  });
}
