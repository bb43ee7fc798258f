/** How a browser starts the worker of text/guard.js, and speaks inside of it; text_node.js is the twin. */

/** Bundlers recognise this very expression. */
export function startWorker() {
  return new Worker(new URL('../text/worker.js', import.meta.url), { type: 'module' });
}

/**
 * Inside of it: what is asked.
 * @param {(question: import('../text/worker.js').Question) => void} hear
 */
export function listen(hear) {
  globalThis.onmessage = ({ data }) => hear(data);
}

/** @param {unknown} answer */
export function reply(answer) {
  globalThis.postMessage(answer);
}
