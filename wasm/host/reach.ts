/**
 * Calls `start`, which constructs a worker, so that the worker may come from another site. A page
 * may not start such a worker, but it may start its own worker that imports the other, unless its
 * policy forbids that. Only the bundler knows the address, so it is read from the argument of the
 * constructor `Worker`, which is replaced during the call.
 */
export function startFromAnyOrigin(start: () => Worker) {
  const { Worker } = globalThis;
  globalThis.Worker = class extends Worker {
    constructor(url: string | URL, options?: WorkerOptions) {
      const address = new URL(url, location.href);
      const code = `import ${JSON.stringify(address.href)};`;
      const isSameOrigin = address.origin === location.origin;
      super(
        isSameOrigin ? url : URL.createObjectURL(new Blob([code], { type: 'text/javascript' })),
        options,
      );
    }
  };
  try {
    return start();
  } finally {
    globalThis.Worker = Worker;
  }
}
