/** Sends requests, again where that may help, and turns every failure into a SinkscopeError. */
import { request } from '#host';
import { SinkscopeError, readError } from '../abi/errors.ts';

export interface RequestOptions {
  signal?: AbortSignal;
  /** Access token, sent to this server alone: fetch drops it when redirected to another origin. */
  token?: string;
  tries?: number;
  /** Milliseconds before the second try; each further wait is twice as long. */
  wait?: number;
  /**
   * Use of the browser's HTTP cache: 'no-store' where the caller caches, since it would hold a
   * second copy; 'reload' to replace a damaged answer.
   */
  httpCache?: 'no-store' | 'reload';
  stall?: number;
  onRetry?: (retry: { reason: string; wait: number }) => void;
}

const RETRY_STATUSES = new Set([408, 425, 429, 500, 502, 503, 504]);
/** Longest wait in milliseconds: a reader would leave the page during a longer one. */
const LONGEST_WAIT_MS = 30_000;
const DEFAULT_TRIES = 5;
const FIRST_WAIT_MS = 500;
/** Milliseconds of silence after which a connection counts as cut. */
export const STALL_MS = 60_000;

export const REQUEST_OPTIONS = {
  signal: 'signal',
  token: 'text',
  tries: 'count',
  wait: 'count',
  stall: 'count',
  onRetry: 'call',
};

/** What Node.js says of more than twenty redirects, which repeating the request would only repeat. */
const ENDLESS_REDIRECT = 'redirect count exceeded';

const HUB_ERRORS = {
  RepoNotFound: 'expected a model of this name on the hub, found none',
  RevisionNotFound: 'expected a branch, tag or commit of this name, found none',
  EntryNotFound: 'expected this file in the repository, found none',
  DisabledRepo: 'the hub has disabled this repository',
} as Record<string, string>;

/**
 * Sends a request, with retries, and returns the response if its status is 2xx, or 416: the caller
 * handles a range that the server refuses.
 * @throws {SinkscopeError} 'access' (401, 403), 'not_found' (the hub has no such thing), 'busy'
 * (429), 'offline' or 'read' (anything else); with a `cause` if no response came at all
 */
export async function ask(
  address: URL,
  options: RequestOptions & { method?: string; headers?: Record<string, string> } = {},
): Promise<Response> {
  const { method = 'GET', token, signal, tries = DEFAULT_TRIES } = options;
  checkToken(token);
  const headers = { ...options.headers, ...(token ? { authorization: `Bearer ${token}` } : {}) };
  for (let tryCount = 1; ; tryCount++) {
    signal?.throwIfAborted();
    const init: RequestInit = { method, headers, cache: options.httpCache ?? 'default' };
    const response = await sendOnce(address, init, options);
    if (response instanceof Response && (response.ok || response.status === 416)) return response;
    const wait = retryWait(response, tryCount, options);
    if (!mayRetry(address, response) || tryCount >= tries || wait > LONGEST_WAIT_MS)
      throw refusalError(address, response, token !== undefined);
    await reportAndWait(wait, failureText(response), options);
  }
}

/** Checks the token before fetch does, which would quote it in its error. */
function checkToken(token: string | undefined) {
  const index = (token ?? '').search(/[^\x21-\x7e]/);
  if (index < 0) return;
  const text = `expected letters, digits and signs, found something else at place ${index + 1}`;
  throw new SinkscopeError('argument', 'token', `${text}: a space or a line break, perhaps`);
}

export function reportAndWait(wait: number, reason: string, { signal, onRetry }: RequestOptions) {
  onRetry?.({ reason, wait });
  return sleep(wait, signal);
}

export const backoffWait = (failures: number, { wait = FIRST_WAIT_MS }: RequestOptions) =>
  Math.min(wait * 2 ** (failures - 1), LONGEST_WAIT_MS);

async function sendOnce(
  address: URL,
  init: RequestInit,
  { signal, stall = STALL_MS }: RequestOptions,
): Promise<Response | Error> {
  const timeout = new AbortController();
  const silenceError = new Error(`no answer came for ${stall} ms`);
  const timer = setTimeout(() => timeout.abort(silenceError), stall);
  // The caller's signal stays connected, because it must also stop the reading of the body.
  const anySignal = signal ? AbortSignal.any([signal, timeout.signal]) : timeout.signal;
  try {
    const response = await request(address, { ...init, signal: anySignal });
    // An unread body would hold the connection.
    if (!response.ok) void response.body?.cancel().catch(() => {});
    return response;
  } catch (error) {
    signal?.throwIfAborted();
    return error instanceof Error ? error : new Error(String(error));
  } finally {
    clearTimeout(timer);
  }
}

function mayRetry(address: URL, answer: Response | Error) {
  if (answer instanceof Response) return RETRY_STATUSES.has(answer.status);
  return address.protocol !== 'file:' && !isOffline() && reasonOf(answer) !== ENDLESS_REDIRECT;
}

const isOffline = () => globalThis.navigator?.onLine === false;

function retryWait(answer: Response | Error, failures: number, options: RequestOptions) {
  const header = answer instanceof Response ? requestedWait(answer) : undefined;
  if (header === undefined) return backoffWait(failures, options);
  const wait = /^\d+$/.test(header) ? 1000 * Number(header) : Date.parse(header) - Date.now();
  return Number.isNaN(wait) ? backoffWait(failures, options) : Math.max(wait, 0);
}

/** Returns how long the server asks to wait, in seconds or as a date, such as the hub's windows. */
function requestedWait({ headers }: Response) {
  const secondsToReset = /;\s*t=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1];
  const value = headers.get('retry-after') ?? secondsToReset;
  // A valid value is a number of seconds or a date, which begins with a weekday.
  return value !== undefined && /^(\d{1,9}$|[A-Z][a-z]{2,8}, )/.test(value) ? value : undefined;
}

const failureText = (answer: Response | Error) =>
  answer instanceof Response ? `the server answered ${answer.status}` : reasonOf(answer);

/** Describes why an answer broke off or did not come: Node.js has the reason in `cause`. */
export function reasonOf(error: unknown) {
  const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (reason instanceof TypeError) return 'the connection was refused or cut';
  return reason instanceof Error ? reason.message : String(reason);
}

function refusalError(address: URL, answer: Response | Error, hasToken: boolean) {
  const place = placeOf(address);
  if (!(answer instanceof Response)) {
    const error = isOffline()
      ? new SinkscopeError('offline', place, 'expected a network, this machine is offline')
      : readError(place, `${noAnswerHint(address)}: ${failureText(answer)}`);
    return Object.assign(error, { cause: answer });
  }
  const { status } = answer;
  const failure = failureText(answer);
  if (status === 401 || status === 403) {
    return new SinkscopeError('access', place, `${noAccessHint(status, hasToken)}; ${failure}`);
  }
  if (status === 429) {
    const delay = requestedWait(answer);
    const isDate = delay !== undefined && !/^\d+$/.test(delay);
    const waitHint = delay ? `; try again ${isDate ? `after ${delay}` : `in ${delay} s`}` : '';
    return new SinkscopeError('busy', place, `too many requests from here; ${failure}${waitHint}`);
  }
  const hubError = answer.headers.get('x-error-code') ?? '';
  const sentence = Object.hasOwn(HUB_ERRORS, hubError) && HUB_ERRORS[hubError];
  return sentence
    ? new SinkscopeError('not_found', place, `${sentence}; ${failure}`)
    : Object.assign(readError(place, failure), { status });
}

/** Returns whether the server has no such file, which a cut connection does not say. */
export function isMissing(error: unknown) {
  if (!(error instanceof SinkscopeError)) return false;
  const { status } = error as SinkscopeError & { status?: number };
  return error.code === 'not_found' || status === 404 || status === 410;
}

function noAnswerHint({ protocol, host, origin }: URL) {
  if (protocol === 'file:') return 'expected a file that can be read, found none';
  const pageOrigin = globalThis.location?.origin;
  const isForeign = pageOrigin !== undefined && pageOrigin !== origin;
  const corsHint = isForeign ? `, and whether it lets pages of ${pageOrigin} read its files` : '';
  return `no answer came; see whether ${host} can be reached from here${corsHint}`;
}

function noAccessHint(status: number, hasToken: boolean) {
  if (!hasToken)
    return 'needs an access token: the model is gated or private, or there is none of this name';
  return status === 401
    ? 'expected a valid access token, this one was not accepted'
    : 'expected a token whose account has access; a gated model asks for it on its own page';
}

/** Returns an address without its query, which may hold a secret and must not be shown. */
export function placeOf(address: URL) {
  return address.origin === 'null'
    ? address.href.replace(/[?#].*/, '')
    : address.origin + address.pathname;
}

export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const cancel = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', cancel);
      resolve();
    }, milliseconds);
    signal?.addEventListener('abort', cancel);
  });
}
