/**
 * Connects the workers of tokenizers and of threads to the thread that started them; inside_node.ts
 * is the twin. These workers import no module that starts a worker: a bundler that follows both
 * would never end.
 */

export function listen<Message>(hear: (message: Message) => void) {
  globalThis.onmessage = ({ data }) => hear(data);
}

export function reply(answer: unknown) {
  globalThis.postMessage(answer);
}
