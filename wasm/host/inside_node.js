/**
 * Connects the workers of tokenizers and of threads to the thread that started them;
 * inside_browser.js is the twin.
 */
import { parentPort } from 'node:worker_threads';

/**
 * @template Message
 * @param {(message: Message) => void} hear
 */
export function listen(hear) {
  parentPort?.on('message', hear);
}

/** @param {unknown} answer */
export function reply(answer) {
  parentPort?.postMessage(answer);
}
