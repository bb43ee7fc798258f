/**
 * The figures of a document share one engine. They take turns in document order, so that the figure that a reader sees
 * first is ready first.
 */
const waiting = new Map<Element, () => void>();
let isTaken = false;

/** Waits for the figure's turn; the returned function ends the turn. */
export async function takeTurn(host: Element): Promise<() => void> {
  const turn = new Promise<void>((resolve) => waiting.set(host, resolve));
  // Waits a task, so that all figures that ask in the same task are in the queue.
  if (!isTaken) setTimeout(pass);
  await turn;
  // A figure that continues at once asks again before another one is chosen.
  return () => {
    isTaken = false;
    setTimeout(pass);
  };
}

function pass(): void {
  const isBefore = (one: Node, other: Node) =>
    one.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1;
  const [next] = [...waiting].sort(([one], [other]) => isBefore(one, other));
  if (isTaken || !next) return;
  isTaken = true;
  const [host, go] = next;
  waiting.delete(host);
  go();
}
