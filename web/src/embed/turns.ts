/**
 * The figures of a document share one engine. They take turns in its order, so that what a reader comes to first is
 * there first.
 */
const waiting = new Map<Element, () => void>();
let isTaken = false;

/** Waits for the figure's turn; what it resolves to gives the turn back. */
export async function takeTurn(host: Element): Promise<() => void> {
  const turn = new Promise<void>((resolve) => waiting.set(host, resolve));
  // Figures that ask in the same task are all there before one of them is chosen.
  if (!isTaken) setTimeout(pass);
  await turn;
  // A figure that goes on at once asks again before another one is chosen.
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
