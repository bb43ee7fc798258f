/**
 * Connects the workers of tokenizers and of threads to the thread that started them; inside_node.js
 * is the twin. These workers import no module that starts a worker: a bundler that follows both
 * would never end.
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
