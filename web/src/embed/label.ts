/** Removes repeated lines from the labels of a figure's models: each line stays only in the first label that has it. */
export function removeRepeats(says: readonly string[]): string[] {
  const lines = new Set<string>();
  return says.map((one) =>
    one
      .split('\n')
      .filter((line, i) => {
        const isKnown = lines.has(line);
        lines.add(line);
        return i === 0 || !isKnown;
      })
      .join('\n'),
  );
}
