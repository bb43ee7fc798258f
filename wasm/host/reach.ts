/**
 * A page may not start a worker of another site, but it may start its own worker that imports the
 * other, unless its policy forbids that. Only the bundler knows the address, so the code reads it
 * from the constructor's argument.
 */
export function reaching(start: () => Worker) {
  const { Worker } = globalThis;
  globalThis.Worker = class extends Worker {
    constructor(url: string | URL, options?: WorkerOptions) {
      const address = new URL(url, location.href);
      const code = `import ${JSON.stringify(address.href)};`;
      const isOurs = address.origin === location.origin;
      super(
        isOurs ? url : URL.createObjectURL(new Blob([code], { type: 'text/javascript' })),
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
