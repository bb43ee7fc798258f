/** Imports between the files and folders of the page have one direction. */
import { describe, expect, it } from 'vitest';

const texts = import.meta.glob<string>('../src/**/*.ts', {
  eager: true,
  query: '?raw',
  import: 'default',
});

/** Returns the page's files that a file imports, also for types only, by their names in `texts`. */
function importsOf(path: string): string[] {
  const matches = texts[path]!.matchAll(/\b(?:from|import)\s*\(?\s*'(\.[^']*)'/g);
  return [...matches].flatMap(([, name]) => {
    const address = new URL(name!, `file:///web/test/${path}`).pathname;
    // Files that web/ship also reads are imported with their extension.
    const stem = address.replace('/web/', '../').replace(/\.ts$/, '');
    return [`${stem}.ts`, `${stem}/index.ts`].filter((path) => path in texts).slice(0, 1);
  });
}

type Graph = ReadonlyMap<string, ReadonlySet<string>>;

function circleIn(graph: Graph): readonly string[] | undefined {
  const visited = new Set<string>();
  const visit = (node: string, path: readonly string[]): readonly string[] | undefined => {
    if (path.includes(node)) return [...path.slice(path.indexOf(node)), node];
    if (visited.has(node)) return undefined;
    for (const neighbor of graph.get(node) ?? []) {
      const circle = visit(neighbor, [...path, node]);
      if (circle) return circle;
    }
    visited.add(node);
    return undefined;
  };
  for (const node of graph.keys()) {
    const circle = visit(node, []);
    if (circle) return circle;
  }
  return undefined;
}

/** Returns the import graph of the groups that `groupOf` assigns, without imports inside a group. */
function graphOf(groupOf: (path: string) => string): Graph {
  const graph = new Map<string, Set<string>>();
  for (const path of Object.keys(texts)) {
    const group = groupOf(path);
    const imported = graph.get(group) ?? new Set();
    graph.set(group, imported);
    for (const target of importsOf(path).map(groupOf)) if (target !== group) imported.add(target);
  }
  return graph;
}

describe('imports of the page', () => {
  it('are found in all their forms', () => {
    expect(importsOf('../src/index.ts')).toContain('../src/rooms/index.ts');
    expect(importsOf('../src/run/without_first.ts')).toContain('../src/run/writing.ts');
    expect(importsOf('../src/embed/element.ts')).toContain('../src/embed/live.ts');
  });

  it('form no cycle of files', () => {
    expect(circleIn(graphOf((path) => path))).toBeUndefined();
  });

  it('form no cycle of folders; a file at the top counts as a folder', () => {
    expect(circleIn(graphOf((path) => path.split('/')[2]!))).toBeUndefined();
  });

  it('are reported as a cycle if they form one', () => {
    const graph = new Map([
      ['a', new Set(['b'])],
      ['b', new Set(['c'])],
      ['c', new Set(['b'])],
    ]);
    expect(circleIn(graph)).toEqual(['b', 'c', 'b']);
  });
});
