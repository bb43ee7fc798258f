/** What the reader takes along: a model into Explore or onto the disk, the log, the picture. */
import type { Desk } from '../page/context';
import type { Theme } from '../plot/color';
import { figureOf, pngOf, svgText } from '../save/figure';
import { aboutOf, hand, onPaper, type Kind } from '../save/menu';
import { logCsv, logJson, modelFiles, modelZip, type Logged } from './files';
import { commandOf } from './settings';
import { verdict, type Told } from './words';

/** The model as Explore opens it, with the sample as its text. */
export async function openInside({ name, lab }: Told, desk: Desk): Promise<void> {
  const { setup, words, settings, step } = lab;
  const isFixed = setup!.first !== undefined;
  const title = `${name} after ${step} steps`.replaceAll('/', ' ');
  desk.set({
    input: 'text',
    prompt: words.slice(isFixed ? 1 : 0).join(''),
    first: isFixed ? '' : 'none',
    T: Number(settings.length),
    n: 1,
  });
  desk.inside(await modelFiles(title, await lab.trained()));
}

/** The whole folder as one ZIP archive. */
export async function saveModel({ name, lab }: Told): Promise<void> {
  const words = `${name} after ${lab.step} steps`.toLowerCase();
  const folder = `sinkscope-lab-${words.replace(/[^\p{L}\p{N}.]+/gu, '-')}`.slice(0, 100);
  hand(await modelZip(folder, await lab.trained()), `${folder}.zip`);
}

interface Shown {
  readonly told: readonly Told[];
  readonly columns: readonly string[];
  readonly grid: HTMLElement;
  readonly desk: Desk;
  /** Draws the room in the theme of the document. */
  readonly draw: (theme?: Theme) => void;
}

async function fileOf(kind: Kind, { told, columns, grid, desk, draw }: Shown): Promise<Blob> {
  const logged = told.map(({ name, lab }): Logged => {
    return { name, settings: lab.settings, log: lab.log };
  });
  const { version, link } = desk.facts();
  const origin = { version, link };
  if (kind === 'CSV') return new Blob([logCsv(logged, columns, origin)], { type: 'text/csv' });
  if (kind === 'JSON') return new Blob([logJson(logged, origin)], { type: 'application/json' });
  const about = aboutOf({ name: 'lab', title: 'Lab', says: [], numbers: [], facts: desk.facts() });
  const titles = told.map(({ name, lab }) => `${name} after ${lab.step} steps`);
  const commands = logged.map(({ settings }) => commandOf(settings));
  const own = {
    ...about,
    title: `Lab: ${titles.join(' | ')}`,
    description: [verdict([told[0]!, told[1]!]), ...commands].join('\n'),
    facts: { ...about.facts, corpus: undefined, subjects: commands },
  };
  const picture = onPaper(grid, draw, () => figureOf(grid, own));
  return kind === 'PNG' ? pngOf(picture) : new Blob([svgText(picture)], { type: 'image/svg+xml' });
}

export async function save(kind: Kind, shown: Shown): Promise<void> {
  hand(await fileOf(kind, shown), `sinkscope-lab.${kind.toLowerCase()}`);
}
