/** Shows the claims of papers and our tests as a table of a lesson: a row for each section, which a reader unfolds. */
import { chance, claims, type Claim } from './facts.ts';
import { formatSigned, make, table, text, type Node } from './nodes.ts';

const OUTCOMES: Readonly<Record<string, string>> = {
  alpha: 'α₁ above uniform',
  value_ratio: 'value ratio',
  hidden_ratio: 'hidden ratio',
  eviction: 'loss, first token evicted',
};
const NOT_TESTED = 'not tested';

const intervalWords = (mean: number, low: number | null, high: number | null) =>
  formatSigned(mean, 2) +
  (low === null || high === null ? '' : ` (${formatSigned(low, 2)} to ${formatSigned(high, 2)})`);

/** Returns the smallest and the largest Sink_1 in words. They do not affect the verdict. */
function sinkWords(sinks: readonly number[]): string {
  if (!sinks.length) return '';
  const [least, most] = [Math.min(...sinks), Math.max(...sinks)].map((sink) => sink.toFixed(0));
  return `; Sink₁ ${least === most ? least : `${least} to ${most}`}%`;
}

function effectLines({ effects }: Claim): Node {
  const sentences = effects.flatMap(
    ({ recipe, against, outcome, name, protocol, seeds, mean, low, high, by_shares, sinks }) => {
      if (mean === null) return [];
      const outcomeTitle = typeset(name ?? OUTCOMES[outcome] ?? outcome.replaceAll('_', ' '));
      const subtrahend = typeof against === 'number' && against !== 0 ? ` − ${against}` : '';
      const reference = typeof against === 'string' ? ` against ${against}` : '';
      const sharesNote = by_shares ? `, by shares ${intervalWords(...by_shares)}` : '';
      const protocolNote = protocol ? `, protocol ${protocol.toUpperCase()}` : '';
      return (
        `${recipe}${reference}: ${outcomeTitle}${subtrahend} ${intervalWords(mean, low, high)}${sharesNote}, n = ${seeds}${protocolNote}` +
        sinkWords(sinks)
      );
    },
  );
  const lines = (sentences.length ? sentences : ['–']).map((line) => make('div', {}, [text(line)]));
  return make('div', {}, lines);
}

const verdictWords = ({ verdict, survives, two_seeds }: Claim) =>
  `${verdict}${survives ? ' †' : ''}${two_seeds ? ', on two seeds' : ''}`;

function noVerdictReason({ hours, why }: Claim): string {
  const hoursSentence = hours && `Its runs are not trained yet: ${hours.join(' to ')} core hours.`;
  return [hoursSentence, why && typeset(why)].filter(Boolean).join(' ');
}

const typeset = (words: string) =>
  words
    .replace(/(^|[\s(])-(?=\d)/g, '$1−')
    .replaceAll('`', '')
    .replace(/Sink_(\d)/g, (_, digit: string) => `Sink${'₀₁₂₃₄₅₆₇₈₉'[Number(digit)]}`)
    .replaceAll('Sink_*', 'Sink∗')
    .replace(/\balpha\b/g, 'α₁')
    .replace(/\beps\b/g, 'ε');

/** Returns the row that a claim belongs to: a section of a paper, or a whole paper that makes few claims. */
function rowNameOf({ source, section }: Claim): string {
  const paper = source.replace(/ \(.*/, '');
  const [part] = /^(?:section \d+|appendix)/.exec(section) ?? [];
  return paper === 'Gu et al. 2025' ? `${paper}, ${part ?? 'appendix'}` : paper;
}

const DEPENDS = 'depends on the outcome';
const VERDICTS = ['agrees', 'differs', DEPENDS, 'undecided', NOT_TESTED] as const;

/** Returns a table that counts the verdicts of each section; a row unfolds to the section's claims. */
export function claimsTables(hrefOf: (state: string) => string): Node[] {
  const allClaims = claims();
  const linkOrText = ({ claim, seen }: Claim) =>
    seen ? make('a', { href: hrefOf(seen) }, [text(typeset(claim))]) : typeset(claim);
  const testedClaims = allClaims.filter(({ verdict }) => verdict !== NOT_TESTED);
  const countVerdict = (group: readonly Claim[], verdict: string) =>
    group.filter((claim) => claim.verdict === verdict).length;
  const { comparisons, directions, survive, by_chance } = chance();
  const rowNames = [...new Set(allClaims.map(rowNameOf))].sort(
    (a, b) => Number(!a.startsWith('Gu')) - Number(!b.startsWith('Gu')) || a.localeCompare(b, 'en'),
  );
  const span = (words: string, className?: string) =>
    make('span', className ? { className: [className] } : {}, [text(words)]);
  /** Returns a cell with a count. Hidden words add the column's verdict for screen readers. */
  const countCell = (group: readonly Claim[], verdict: string) => {
    const count = countVerdict(group, verdict);
    return make('span', count ? {} : { className: ['none'] }, [
      text(count ? `${count}` : '–'),
      span(` ${verdict},`, 'unseen'),
    ]);
  };
  const row = (rowName: string) => {
    const group = allClaims.filter((claim) => rowNameOf(claim) === rowName);
    const cells = [span(rowName, 'place'), ...VERDICTS.map((verdict) => countCell(group, verdict))];
    return make('details', { className: ['folded'] }, [
      make('summary', { className: ['claims-row'] }, cells),
      table(
        ['Claim', 'Where', 'The source', 'Our test', 'Verdict', 'Before'],
        group.map((claim) => [
          linkOrText(claim),
          claim.section,
          typeset(claim.paper ?? '–'),
          claim.verdict === NOT_TESTED ? noVerdictReason(claim) : effectLines(claim),
          verdictWords(claim),
          [claim.before ?? '–', claim.changed && `changed by the ${claim.changed}`]
            .filter(Boolean)
            .join(', '),
        ]),
      ),
    ]);
  };
  return [
    make('p', {}, [
      text(
        `Of ${allClaims.length} claims, our models agree with ${countVerdict(testedClaims, 'agrees')}, differ from ` +
          `${countVerdict(testedClaims, 'differs')}, leave ${countVerdict(testedClaims, 'undecided')} undecided and ` +
          `${countVerdict(testedClaims, DEPENDS)} ${DEPENDS}; ` +
          `${allClaims.length - testedClaims.length} are ${NOT_TESTED}. Of ${comparisons} comparisons ` +
          `${directions} have a direction; if no factor had any effect, ${by_chance.map((count) => count.toFixed(0)).join(' to ')} would. ` +
          `A † marks the verdicts whose directions survive the procedure of Benjamini and Hochberg at a false ` +
          `discovery rate of 5%: ${survive} of the ${directions} directions do. Open a row to read its claims; ` +
          `the last column there is the verdict by the second version of our rules, and what changed it.`,
      ),
    ]),
    make('div', { className: ['claims-table'] }, [
      make(
        'div',
        { className: ['claims-row', 'claims-heads'], ariaHidden: 'true' },
        ['Source', ...VERDICTS].map((head) => span(head)),
      ),
      ...rowNames.map(row),
    ]),
  ];
}
