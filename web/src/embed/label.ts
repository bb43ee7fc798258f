/** What a figure says of its models, one after another: a line below the first that several share is said once. */
export function once(says: readonly string[]): string[] {
  const known = new Set<string>();
  return says.map((one) =>
    one
      .split('\n')
      .filter((line, i) => {
        const isKnown = known.has(line);
        known.add(line);
        return i === 0 || !isKnown;
      })
      .join('\n'),
  );
}
