/** Links the first use of each glossary term in a lesson to its meaning, which src/learn/cards.ts shows as a card. */
import type { Root } from 'mdast';
import { TERMS } from '../src/page/glossary.ts';
import { make, text, type Node } from './nodes.ts';

export const anchorOf = (term: string) =>
  `term-${term
    .replace('α', 'alpha')
    .replace('ε', 'epsilon')
    .replace('₁', '1')
    .replace(/[^\w]+/g, '-')
    .replace(/-$/, '')}`;

const PATTERNS = TERMS.map((term) => ({
  ...term,
  wholeWord: RegExp(`(?<![\\w“])(?:${term.pattern.source})(?![\\w”₁])`, 'u'),
}));

/** Elements whose words are not prose, so that terms in them get no link. */
const NO_PROSE = [
  ...['a', 'table', 'svg', 'summary', 'h2', 'math'],
  ...['sink-scope', 'sink-row', 'sink-write'],
];

/** Returns a remark plugin that links terms; it must run after the directives. */
export const linkTerms = () => (tree: Root) => {
  const linkedTerms = new Set<string>();
  const nodesOf = (prose: string): Node[] => {
    const firstMatch = PATTERNS.filter(({ term }) => !linkedTerms.has(term))
      .flatMap((pattern) => {
        const match = pattern.wholeWord.exec(prose);
        return match ? [{ ...pattern, at: match.index, word: match[0] }] : [];
      })
      // Of two terms that begin at the same place, the longer one contains the other.
      .sort((a, b) => a.at - b.at || b.word.length - a.word.length)[0];
    if (!firstMatch) return prose ? [text(prose)] : [];
    const { term, meaning, word, at } = firstMatch;
    linkedTerms.add(term);
    const properties = {
      className: ['term'],
      href: `../glossary/index.html#${anchorOf(term)}`,
      dataMeaning: meaning,
    };
    return [
      ...(at ? [text(prose.slice(0, at))] : []),
      make('a', properties, [text(word)]),
      ...nodesOf(prose.slice(at + word.length)),
    ];
  };
  const visit = (node: Node): void => {
    if (!node.children) return;
    node.children = node.children.flatMap((child) => {
      const isProse =
        !['link', 'heading', 'inlineCode', 'inlineMath', 'math', 'code'].includes(child.type) &&
        !NO_PROSE.includes(child.data?.hName ?? '');
      if (child.type === 'text') return nodesOf(child.value);
      if (isProse) visit(child);
      return [child];
    });
  };
  visit(tree as unknown as Node);
};
