import { closedError } from '../abi/errors.ts';
import { QUIET } from './job.ts';
import type { Job } from './job.ts';
import type { BackendApi, Link } from './link.ts';
import type { Options } from './types.ts';

/**
 * A model or a recording at one backend. It opens at first use, and again after its backend was
 * replaced.
 */
export class Opening<Opened> {
  #backend: BackendApi | undefined;
  #opened: Promise<Opened> | undefined;
  #kind;
  #open;
  #closed = false;

  readonly link;
  constructor(
    link: Link,
    kind: 'model' | 'recording',
    open: (backend: BackendApi, job: Job) => Promise<Opened>,
  ) {
    this.link = link;
    this.#kind = kind;
    this.#open = open;
  }

  open(options: Options) {
    return this.link.job(options, (backend, job) => this.openAt(backend, job));
  }

  openAt(backend: BackendApi, job: Job = QUIET) {
    this.checkOpen();
    if (this.#opened && this.#backend === backend) return this.#opened;
    const opened = this.#open(backend, job);
    this.#backend = backend;
    this.#opened = opened;
    opened.catch(() => {
      if (this.#opened === opened) this.#opened = undefined;
    });
    return opened;
  }

  ask<T>(use: (backend: BackendApi, opened: Opened) => Promise<T>) {
    return this.link.ask(async (backend) => use(backend, await this.openAt(backend)));
  }

  checkOpen() {
    if (this.#closed) throw closedError(this.#kind);
  }

  async close(release: (backend: BackendApi, opened: Opened) => Promise<void>) {
    this.checkOpen();
    this.#closed = true;
    const opened = this.#opened;
    if (!opened || !this.link.isOpen) return;
    await this.link.ask(async (backend) => {
      if (backend === this.#backend) await release(backend, await opened);
    });
  }
}
