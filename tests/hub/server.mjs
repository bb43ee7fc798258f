/**
 * Runs a hub on this machine: its list of files, its resolve addresses, a second origin from which large
 * files are fetched, and faults that tests set.
 *
 *     tests/node tests/hub/server.mjs [port]      to try a page by hand
 */
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { gzipSync } from 'node:zlib';
import { pathToFileURL } from 'node:url';
import { TOKENS, repositories } from './repositories.mjs';

const EXPOSED = [
  'X-Repo-Commit,X-Request-Id,X-Error-Code,X-Error-Message,X-Total-Count,ETag,Link',
  'Accept-Ranges,Content-Range,X-Linked-Size,X-Linked-ETag',
].join();

/** The only header that CORS allows, as on a strict hub. */
const ALLOWED = new Set(['authorization']);

const isLarge = (file) => /\.(safetensors|bin|gguf)$/.test(file);
const etagOf = (bytes) => `"${createHash('sha256').update(bytes).digest('hex')}"`;

/**
 * A fault changes the first `times` answers whose host and path match. Its keys:
 *   status, headers   another answer is sent
 *   cut               the connection ends after this number of bytes of the body
 *   slow              number of bytes per second
 *   length            a false Content-Length is sent
 *   gzip              the body is compressed, whatever the request accepts
 *   etag              another ETag is sent, or none if it is null
 *   garbage           the body has other bytes of the same length
 *   noRange           a requested range is ignored
 *   hang              no byte of the body comes
 *   silent            no answer comes
 *   reset             the connection ends before an answer comes
 * @typedef {{ host?: 'hub' | 'cdn', path: RegExp, method?: string, times?: number, status?: number,
 *   headers?: Record<string, string>, cut?: number, slow?: number, length?: number, gzip?: boolean,
 *   etag?: string | null, garbage?: boolean, noRange?: boolean, hang?: boolean, silent?: boolean,
 *   reset?: boolean }} Fault
 */

class Hub {
  #repositories = repositories();
  /** @type {Fault[]} */
  #faults = [];
  #blobs = new Map();
  /** @type {import('node:http').Server[]} */
  #servers = [];
  /** Every request: { host, method, path, headers }, and once its answer has ended { status, isWhole }. */
  log = [];
  endpoint = '';
  cdn = '';

  async open(port = 0) {
    const listen = async (host, at) => {
      const server = createServer((request, response) => {
        // A reader may disconnect at any time.
        response.on('error', () => {});
        this.#answer(host, request, response);
      });
      this.#servers.push(server);
      await new Promise((done) => server.listen(at, '127.0.0.1', done));
      return `http://127.0.0.1:${server.address().port}`;
    };
    this.endpoint = await listen('hub', port);
    this.cdn = await listen('cdn', 0);
    return this;
  }

  /** @param {Fault} fault */
  fault(fault) {
    this.#faults.push({ times: Infinity, ...fault });
  }

  reset() {
    this.#faults = [];
    this.log.length = 0;
  }

  seen(path, host) {
    return this.log.filter((one) => path.test(one.path) && (!host || one.host === host));
  }

  /** @param {string} id */
  repository(id) {
    return this.#repositories.get(id);
  }

  async close() {
    for (const server of this.#servers) {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    }
  }

  #answer(host, request, response) {
    const url = new URL(request.url, 'http://hub');
    const path = decodeURIComponent(url.pathname);
    const { method, headers } = request;
    const entry = { host, method, path, headers };
    this.log.push(entry);
    response.on('close', () =>
      Object.assign(entry, { status: response.statusCode, isWhole: response.writableFinished }),
    );
    share(headers, response);
    if (method === 'OPTIONS') return allow(host, headers, response);
    const fault = this.#take(host, method, path);
    if (fault.silent) return;
    if (fault.reset) return request.socket.destroy();
    if (fault.status) return refuse(response, fault.status, fault.headers);
    if (host === 'cdn') return this.#blob(path, request, response, fault);
    if (path.startsWith('/api/resolve-cache/')) {
      return this.#cached(path, request, response, fault);
    }
    const listed = /^\/api\/models\/(.+)\/revision\/(.+)$/.exec(path);
    if (listed) return this.#list(listed[1], listed[2], request, response);
    const [, id, rest] = /^\/(.+?)\/resolve\/(.+)$/.exec(path) ?? [];
    if (id) return this.#resolve(id, rest, request, response);
    refuse(response, 404);
  }

  #take(host, method, path) {
    const fits = (fault) =>
      fault.times > 0 &&
      (fault.host ?? host) === host &&
      (fault.method ?? method) === method &&
      fault.path.test(path);
    const fault = this.#faults.find(fits);
    if (fault) fault.times--;
    return fault ?? {};
  }

  #list(id, revision, request, response) {
    const found = this.#find(id, revision, request, response);
    if (!found) return;
    const { commit, files, sizes = {} } = found.revision;
    const siblings = [...new Set([...Object.keys(files), ...Object.keys(sizes)])].map((name) => {
      const size = sizes[name] || files[name].length;
      return {
        rfilename: name,
        size,
        ...(isLarge(name) ? { lfs: { size, ...hashOf(files[name]) } } : {}),
      };
    });
    const { license, gated = false } = found.repository;
    const body = {
      id,
      sha: commit,
      gated,
      siblings,
      ...(license ? { cardData: { license } } : {}),
    };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  }

  #find(id, revision, request, response) {
    const repository = this.#repositories.get(id);
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
    const known = Object.values(TOKENS).includes(token);
    if (token !== undefined && !known) return refuse(response, 401, code('InvalidToken'));
    if (!repository || (repository.hidden && !known)) {
      // The hub does not reveal whether a private repository exists.
      return refuse(response, known ? 404 : 401, code('RepoNotFound'));
    }
    const { revisions } = repository;
    const at =
      revisions[revision] ?? Object.values(revisions).find((one) => one.commit === revision);
    if (!at) return refuse(response, 404, code('RevisionNotFound'));
    return { repository, revision: at, token };
  }

  #resolve(id, rest, request, response) {
    const revisions = Object.keys(this.#repositories.get(id)?.revisions ?? {});
    const name = revisions.find((one) => rest.startsWith(`${one}/`)) ?? rest.split('/')[0];
    const found = this.#find(id, name, request, response);
    if (!found) return;
    if (found.repository.gated && found.token !== TOKENS.member) {
      return refuse(response, found.token ? 403 : 401, code('GatedRepo'));
    }
    const file = rest.slice(name.length + 1);
    const bytes = found.revision.files[file];
    response.setHeader('x-repo-commit', found.revision.commit);
    if (!bytes) return refuse(response, 404, code('EntryNotFound'));
    if (!isLarge(file)) return this.#small(id, found.revision.commit, file, response);
    const etag = etagOf(bytes);
    const blob = `/${etag.slice(1, -1)}/${file}`;
    this.#blobs.set(blob, bytes);
    response.writeHead(302, {
      location: `${this.cdn}${blob}?signature=secret`,
      'x-linked-size': bytes.length,
      'x-linked-etag': etag,
    });
    response.end();
  }

  #small(id, commit, file, response) {
    const path = `${id}/${commit}/${file}`.split('/').map(encodeURIComponent).join('/');
    response.writeHead(307, { location: `/api/resolve-cache/models/${path}` }).end();
  }

  #cached(path, request, response, fault) {
    const [, id, commit, file] = /^\/api\/resolve-cache\/models\/(.+)\/([0-9a-f]{40})\/(.+)$/.exec(
      path,
    );
    const { revisions } = this.#repositories.get(id);
    const { files } = Object.values(revisions).find((one) => one.commit === commit);
    response.setHeader('x-repo-commit', commit);
    send(files[file], request, response, fault);
  }

  #blob(path, request, response, fault) {
    // Like the hub's stores, refuses a request that has both a signed address and a token.
    if (request.headers.authorization) return refuse(response, 400);
    const bytes = this.#blobs.get(path);
    return bytes ? send(bytes, request, response, fault) : refuse(response, 403);
  }
}

const code = (name) => ({ 'x-error-code': name });

function refuse(response, status, headers = {}) {
  response.writeHead(status, headers).end(JSON.stringify({ error: `status ${status}` }));
}

const hashOf = (bytes) =>
  bytes ? { sha256: createHash('sha256').update(bytes).digest('hex') } : {};

function share({ origin }, response) {
  if (!origin) return;
  response.setHeader('access-control-allow-origin', origin);
  response.setHeader('access-control-expose-headers', EXPOSED);
  response.setHeader('vary', 'Origin');
}

/** Answers a preflight at the hub, and refuses one at the second origin. */
function allow(host, headers, response) {
  const asked = (headers['access-control-request-headers'] ?? '').split(/,\s*/).filter(Boolean);
  if (host === 'cdn' || !asked.every((name) => ALLOWED.has(name))) return refuse(response, 403);
  response.writeHead(204, {
    'access-control-allow-methods': 'GET,HEAD',
    'access-control-allow-headers': [...ALLOWED].join(),
  });
  response.end();
}

function send(bytes, request, response, fault) {
  const { headers } = request;
  if (fault.garbage) bytes = Buffer.alloc(bytes.length, 'garbage ');
  const etag = fault.etag === undefined ? etagOf(bytes) : fault.etag;
  if (fault.gzip) {
    const packed = gzipSync(bytes);
    const sent = { 'content-encoding': 'gzip', 'content-length': packed.length, etag: `W/${etag}` };
    return response.writeHead(200, sent).end(packed);
  }
  if (etag) response.setHeader('etag', etag);
  const mayRange = !fault.noRange && (headers['if-range'] ?? etag) === etag;
  const range = mayRange ? /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '') : null;
  if (!fault.noRange) response.setHeader('accept-ranges', 'bytes');
  const from = range ? Number(range[1]) : 0;
  if (range && from >= bytes.length) {
    return refuse(response, 416, { 'content-range': `bytes */${bytes.length}` });
  }
  const to = range?.[2] ? Math.min(Number(range[2]) + 1, bytes.length) : bytes.length;
  const sent = { 'content-length': fault.length ?? to - from };
  if (range) sent['content-range'] = `bytes ${from}-${to - 1}/${fault.length ?? bytes.length}`;
  response.writeHead(range ? 206 : 200, sent);
  if (request.method === 'HEAD') return response.end();
  void write(bytes.subarray(from, to), response, fault);
}

async function write(body, response, { cut, slow, length, hang }) {
  const end = cut ?? body.length;
  const step = slow ? Math.max(1, Math.round(slow / 20)) : 65_536;
  response.flushHeaders();
  if (hang) return;
  for (let at = 0; at < end && !response.destroyed; at += step) {
    const hasRoom = response.write(body.subarray(at, Math.min(at + step, end)));
    if (slow) await new Promise((done) => setTimeout(done, 50));
    else if (!hasRoom) await waitForDrain(response);
  }
  const isFalse = end < body.length || (length ?? body.length) !== body.length;
  if (!isFalse) return response.end();
  // A client discards unread bytes when the connection breaks, so the hub gives it time to read them.
  setTimeout(() => response.destroy(), 100);
}

function waitForDrain(response) {
  return new Promise((done) => {
    const settle = () => {
      response.off('drain', settle).off('close', settle);
      done();
    };
    response.on('drain', settle).on('close', settle);
  });
}

/**
 * Starts a hub and its second origin.
 * @param {number} [port] port of the hub; the second origin takes any free one
 */
export function openHub(port) {
  return new Hub().open(port);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const hub = await openHub(Number(process.argv[2] ?? 8090));
  console.log(`${hub.endpoint} serves sinkscope/softmax and others; ${hub.cdn} their large files`);
}
