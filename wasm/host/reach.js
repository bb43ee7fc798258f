/**
 * A page may not start the worker of another site, but one of its own that imports it, unless its policy
 * forbids that. Only the bundler knows the address: it is learnt from what the expression asks for.
 * @param {() => Worker} start
 */
export function reaching(start) {
  const { Worker } = globalThis;
  globalThis.Worker = class extends Worker {
    /**
     * @param {string | URL} url
     * @param {WorkerOptions} [options]
     */
    constructor(url, options) {
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
