/**
 * Connects the workers of tokenizers and of threads to the thread that started them; inside_node.ts
 * is the counterpart. This module and its importers must not import a module that starts a worker:
 * a bundler would follow both without end.
 */

export function listen<Message>(onMessage: (message: Message) => unknown) {
  globalThis.onmessage = ({ data }) => onMessage(data);
}

export function reply(answer: unknown) {
  globalThis.postMessage(answer);
}
