/**
 * Sends a request to a server: retries where that may help, and turns every failure into a
 * sentence.
 */
import { request } from '#host';
import { SinkscopeError } from '../abi/errors.ts';

export interface Patience {
  signal?: AbortSignal;
  /** Sent to this server alone: fetch drops it when another origin takes over. */
  token?: string;
  /** Number of tries for one request; default 5. */
  tries?: number;
  /** Milliseconds before the second try; each further wait is twice as long. */
  wait?: number;
  /** Bypasses the browser's own cache, which would store a second copy of what the caller keeps. */
  unstored?: boolean;
  /** Milliseconds of silence after which a connection counts as cut. */
  stall?: number;
  onRetry?: (retry: { reason: string; wait: number }) => void;
}

/** Statuses after which the same request may succeed. */
const PASSING = new Set([408, 425, 429, 500, 502, 503, 504]);
/** Longest wait in milliseconds: readers leave a page that waits longer. */
const LONGEST_WAIT = 30_000;
const TRIES = 5;
const FIRST_WAIT = 500;
/** Milliseconds of silence after which a connection counts as cut. */
export const STALL = 60_000;

/** Kinds of the options that every download shares. */
export const PATIENCE = {
  signal: 'signal',
  token: 'text',
  tries: 'count',
  wait: 'count',
  stall: 'count',
  onRetry: 'call',
};

/** Meanings of the hub's X-Error-Code. */
const MEANINGS = {
  RepoNotFound: 'expected a model of this name on the hub, found none',
  RevisionNotFound: 'expected a branch, tag or commit of this name, found none',
  EntryNotFound: 'expected this file in the repository, found none',
  DisabledRepo: 'the hub has disabled this repository',
} as Record<string, string>;

/**
 * Returns the response if its status is 2xx or 416; the caller handles a 416, which concerns
 * ranges.
 * @throws {SinkscopeError} 'access' (401, 403), 'not_found' (the hub has no such thing), 'busy'
 * (429), 'offline' or 'read' (anything else); with a `cause` if no response came at all
 */
export async function ask(
  address: URL,
  options: Patience & { method?: string; headers?: Record<string, string> } = {},
): Promise<Response> {
  const { method = 'GET', token, signal, tries = TRIES } = options;
  checkToken(token);
  const headers = { ...options.headers, ...(token ? { authorization: `Bearer ${token}` } : {}) };
  for (let attempts = 1; ; attempts++) {
    signal?.throwIfAborted();
    const init: RequestInit = { method, headers, cache: options.unstored ? 'no-store' : 'default' };
    const response = await attempt(address, init, options);
    if (response instanceof Response && (response.ok || response.status === 416)) return response;
    const wait = waitBefore(response, attempts, options);
    if (!mayPass(address, response) || attempts >= tries || wait > LONGEST_WAIT) {
      throw refusal(address, response, token !== undefined);
    }
    await retryAfter(wait, sentence(response), options);
  }
}

/** Checks the token before fetch does: fetch quotes it in its error. */
function checkToken(token: string | undefined) {
  const at = (token ?? '').search(/[^\x21-\x7e]/);
  if (at < 0) return;
  const text = `expected letters, digits and signs, found something else at place ${at + 1}`;
  throw new SinkscopeError('argument', 'token', `${text}: a space or a line break, perhaps`);
}

/**
 * Reports why, and waits.
 * @param wait in milliseconds
 */
export function retryAfter(wait: number, reason: string, { signal, onRetry }: Patience) {
  onRetry?.({ reason, wait });
  return sleep(wait, signal);
}

/** Returns a wait that doubles with each failure. */
export function backOff(failures: number, { wait = FIRST_WAIT }: Patience) {
  return Math.min(wait * 2 ** (failures - 1), LONGEST_WAIT);
}

/** Returns the response, or the error without one. Silence counts as an error. */
async function attempt(
  address: URL,
  init: RequestInit,
  { signal, stall = STALL }: Patience,
): Promise<Response | Error> {
  const stop = new AbortController();
  const silence = new Error(`no answer came for ${stall} ms`);
  const timer = setTimeout(() => stop.abort(silence), stall);
  // The signal also covers the body, so the timer does not replace it.
  const combined = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
  try {
    const response = await request(address, { ...init, signal: combined });
    // An unread body of a refusal would hold the connection.
    if (!response.ok) void response.body?.cancel().catch(() => {});
    return response;
  } catch (error) {
    signal?.throwIfAborted();
    return error instanceof Error ? error : new Error(String(error));
  } finally {
    clearTimeout(timer);
  }
}

function mayPass(address: URL, answer: Response | Error) {
  if (answer instanceof Response) return PASSING.has(answer.status);
  return address.protocol !== 'file:' && !isOffline();
}

function isOffline() {
  return globalThis.navigator?.onLine === false;
}

function waitBefore(answer: Response | Error, tried: number, options: Patience) {
  const header = answer instanceof Response ? givenWait(answer) : undefined;
  if (header === undefined) return backOff(tried, options);
  const wait = /^\d+$/.test(header) ? 1000 * Number(header) : Date.parse(header) - Date.now();
  return Number.isNaN(wait) ? backOff(tried, options) : Math.max(wait, 0);
}

/**
 * Reads how long the server asks to wait, in seconds or as a date; the hub counts requests in
 * windows and says when the next one begins.
 */
function givenWait({ headers }: Response) {
  const window = /;\s*t=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1];
  const value = headers.get('retry-after') ?? window;
  // A valid value is a number of seconds or a date, which begins with a weekday.
  return value !== undefined && /^(\d{1,9}$|[A-Z][a-z]{2,8}, )/.test(value) ? value : undefined;
}

function sentence(answer: Response | Error) {
  return answer instanceof Response ? `the server answered ${answer.status}` : reasonOf(answer);
}

/**
 * Says why no answer came, or why it broke off. Node.js says "fetch failed" and puts the reason
 * into `cause`; browsers give no reason, each in its own words.
 */
export function reasonOf(error: unknown) {
  const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (reason instanceof TypeError) return 'the connection was refused or cut';
  return reason instanceof Error ? reason.message : String(reason);
}

function refusal(address: URL, answer: Response | Error, hasToken: boolean) {
  const place = placeOf(address);
  if (!(answer instanceof Response)) {
    const error = isOffline()
      ? new SinkscopeError('offline', place, 'expected a network, this machine is offline')
      : new SinkscopeError('read', place, `${noAnswer(address)}: ${sentence(answer)}`);
    return Object.assign(error, { cause: answer });
  }
  const { status } = answer;
  const answered = sentence(answer);
  if (status === 401 || status === 403) {
    return new SinkscopeError('access', place, `${noAccess(status, hasToken)}; ${answered}`);
  }
  if (status === 429) {
    const delay = givenWait(answer);
    const isDate = delay !== undefined && !/^\d+$/.test(delay);
    const waitWords = delay ? `; try again ${isDate ? `after ${delay}` : `in ${delay} s`}` : '';
    return new SinkscopeError(
      'busy',
      place,
      `too many requests from here; ${answered}${waitWords}`,
    );
  }
  const reported = answer.headers.get('x-error-code') ?? '';
  const meaning = Object.hasOwn(MEANINGS, reported) && MEANINGS[reported];
  return meaning
    ? new SinkscopeError('not_found', place, `${meaning}; ${answered}`)
    : new SinkscopeError('read', place, answered);
}

/** Suggests what to check when no answer came. */
function noAnswer({ protocol, host, origin }: URL) {
  if (protocol === 'file:') return 'expected a file that can be read, found none';
  const pageOrigin = globalThis.location?.origin;
  const isFar = pageOrigin !== undefined && pageOrigin !== origin;
  const shares = isFar ? `, and whether it lets pages of ${pageOrigin} read its files` : '';
  return `no answer came; see whether ${host} can be reached from here${shares}`;
}

/** @param status 401 or 403 */
function noAccess(status: number, hasToken: boolean) {
  if (!hasToken) {
    return 'needs an access token: the model is gated or private, or there is none of this name';
  }
  return status === 401
    ? 'expected a valid access token, this one was not accepted'
    : 'expected a token whose account has access; a gated model asks for it on its own page';
}

/** Returns an address that may be shown: a signed one carries a secret in its query. */
export function placeOf(address: URL) {
  return address.origin === 'null'
    ? address.href.replace(/[?#].*/, '')
    : address.origin + address.pathname;
}

export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
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
