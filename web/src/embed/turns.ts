/** Orders figures, which share one engine, by their place, so that the one that a reader sees first is ready first. */
const waitingFigures = new Map<Element, () => void>();
let isTaken = false;

/** Waits for the figure's turn; the returned function ends the turn. */
export async function takeTurn(host: Element): Promise<() => void> {
  const turn = new Promise<void>((resolve) => waitingFigures.set(host, resolve));
  // Chooses the next figure in a later task, so that the queue has all figures that ask in this task.
  if (!isTaken) setTimeout(passTurn);
  await turn;
  // Chooses the next figure in a later task, so that a figure that continues at once can ask again first.
  return () => {
    isTaken = false;
    setTimeout(passTurn);
  };
}

function passTurn(): void {
  const isBefore = (one: Node, other: Node) =>
    one.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1;
  const [nextFigure] = [...waitingFigures].sort(([one], [other]) => isBefore(one, other));
  if (isTaken || !nextFigure) return;
  isTaken = true;
  const [host, start] = nextFigure;
  waitingFigures.delete(host);
  start();
}
