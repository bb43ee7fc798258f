/**
 * Connects workers to the thread that started them, as inside_node.ts. No importer may import what
 * starts a worker: a bundler would follow both without end.
 */

export function listen<Message>(onMessage: (message: Message) => unknown) {
  globalThis.onmessage = ({ data }) => onMessage(data);
}

export function reply(answer: unknown) {
  globalThis.postMessage(answer);
}
