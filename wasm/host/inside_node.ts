/** Connects workers to the thread that started them; inside_browser.ts is the counterpart. */
import { parentPort } from 'node:worker_threads';

export function listen<Message>(onMessage: (message: Message) => unknown) {
  parentPort?.on('message', onMessage);
}

export function reply(answer: unknown) {
  parentPort?.postMessage(answer);
}
