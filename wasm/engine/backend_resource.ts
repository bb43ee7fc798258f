import { closedError } from '../abi/errors.ts';
import { QUIET_JOB, type Job } from './job.ts';
import type { BackendApi, JobOptions, Link } from './link.ts';

/** A model or a recording at one backend, opened at first use and again at a new backend. */
export class BackendResource<Handle> {
  #backend: BackendApi | undefined;
  #handle: Promise<Handle> | undefined;
  #kind;
  #open;
  #closed = false;

  readonly link;
  constructor(
    link: Link,
    kind: 'model' | 'recording',
    open: (backend: BackendApi, job: Job) => Promise<Handle>,
  ) {
    this.link = link;
    this.#kind = kind;
    this.#open = open;
  }

  open(options: JobOptions) {
    return this.link.job(options, (backend, job) => this.openAt(backend, job));
  }

  openAt(backend: BackendApi, job: Job = QUIET_JOB) {
    this.checkOpen();
    if (this.#handle && this.#backend === backend) return this.#handle;
    const handle = this.#open(backend, job);
    this.#backend = backend;
    this.#handle = handle;
    handle.catch(() => {
      if (this.#handle === handle) this.#handle = undefined;
    });
    return handle;
  }

  ask<T>(use: (backend: BackendApi, handle: Handle) => Promise<T>) {
    return this.link.ask(async (backend) => use(backend, await this.openAt(backend)));
  }

  checkOpen() {
    if (this.#closed) throw closedError(this.#kind);
  }

  async close(release: (backend: BackendApi, handle: Handle) => Promise<void>) {
    this.checkOpen();
    this.#closed = true;
    const handle = this.#handle;
    if (!handle || !this.link.isOpen) return;
    await this.link.ask(async (backend) => {
      if (backend === this.#backend) await release(backend, await handle);
    });
  }
}
