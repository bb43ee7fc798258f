/**
 * How the workers of tokenizers and of threads speak to who started them; inside_node.js is the twin. They import
 * nobody who starts a worker: a bundler that follows both would never end.
 */

/**
 * @template Message
 * @param {(message: Message) => void} hear
 */
export function listen(hear) {
  globalThis.onmessage = ({ data }) => hear(data);
}

/** @param {unknown} answer */
export function reply(answer) {
  globalThis.postMessage(answer);
}
