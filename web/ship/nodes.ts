/** Nodes of a lesson's Markdown that become HTML elements. */
import type { RootContent } from 'mdast';

export type Node = RootContent & {
  name?: string;
  attributes?: Record<string, string>;
  children?: Node[];
  data?: { hName?: string; hProperties?: Record<string, unknown>; directiveLabel?: boolean };
};

export const make = (
  name: string,
  properties: Record<string, unknown>,
  children: readonly Node[] = [],
) =>
  ({
    type: 'paragraph',
    data: { hName: name, hProperties: properties },
    children: [...children],
  }) as unknown as Node;
export const text = (value: string) => ({ type: 'text', value }) as Node;

export function table(
  heads: readonly string[],
  rows: readonly (readonly (string | Node)[])[],
): Node {
  const cell = (name: string, scope?: string) => (content: string | Node) =>
    make(name, scope ? { scope } : {}, [typeof content === 'string' ? text(content) : content]);
  const head = make('tr', {}, heads.map(cell('th', 'col')));
  const body = rows.map(([first = '', ...rest]) =>
    make('tr', {}, [cell('th', 'row')(first), ...rest.map(cell('td'))]),
  );
  return make(
    'div',
    { className: ['wide-table'], tabIndex: 0, role: 'region', ariaLabel: heads.join(', ') },
    [make('table', {}, [make('thead', {}, [head]), make('tbody', {}, body)])],
  );
}

export const formatFixed = (value: number, decimals: number) =>
  (Math.abs(value) < 0.5 / 10 ** decimals ? 0 : value).toFixed(decimals).replace('-', '−');

export const formatSigned = (value: number, decimals: number) =>
  `${value < 0 ? '−' : value > 0 ? '+' : ''}${Math.abs(value).toFixed(decimals)}`;
