/** Removes lines that an earlier label of the figure has; the first line of each label always stays. */
export function removeRepeats(says: readonly string[]): string[] {
  const lines = new Set<string>();
  return says.map((label) =>
    label
      .split('\n')
      .filter((line, i) => {
        const isKnown = lines.has(line);
        lines.add(line);
        return i === 0 || !isKnown;
      })
      .join('\n'),
  );
}
