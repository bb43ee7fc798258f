/** Shows the remedies of production models for their sinks (src/remedies.ts) as a table of a lesson. */
import {
  COMPARE_LABEL,
  COLUMN_TITLES,
  hubAddress,
  RECORDER_WORDS,
  OPEN_LABEL,
  REMEDIES,
  twinWords,
} from '../src/remedies.ts';
import { modelsOfZoo } from './facts.ts';
import { make, table, text, type Node } from './nodes.ts';

const link = (href: string, label: string) => make('a', { href }, [text(label)]);

export function remedyTable(hrefOf: (state: string) => string): Node[] {
  const zoo = modelsOfZoo();
  return [
    ...REMEDIES.map((remedy) => {
      const { title, formula, twin, families } = remedy;
      const compareHref = hrefOf(`room=compare&shown=softmax,${twin}&input=heldout&n=20`);
      const names = families.map(({ name }) => name).join(', ');
      return make('details', { className: ['folded', 'remedy'] }, [
        make('summary', {}, [text(`${title}: ${names}`)]),
        make('p', {}, [
          make('code', {}, [text(formula)]),
          text('. '),
          link(compareHref, COMPARE_LABEL),
          text(`. ${twinWords(remedy, zoo)}`),
        ]),
        table(
          COLUMN_TITLES,
          families.map(({ name, where, checkpoint, opens, source }) => [
            `${name}, ${where}`,
            typeof checkpoint === 'string'
              ? make('span', {}, [
                  link(hubAddress(checkpoint), checkpoint),
                  ...(opens
                    ? [
                        text(' ('),
                        link(hrefOf(`room=explore&shown=hub:${checkpoint}`), OPEN_LABEL),
                        text(')'),
                      ]
                    : []),
                ])
              : `– (${checkpoint.none})`,
            link(source.url, source.title),
          ]),
        ),
      ]);
    }),
    make('p', {}, [
      text(RECORDER_WORDS.before),
      make('code', {}, [text(RECORDER_WORDS.command)]),
      text(RECORDER_WORDS.after),
    ]),
  ];
}
