/** What the reader takes along: a model into Explore or onto the disk, the log, the picture. */
import type { Desk } from '../desk';
import { figureOf, pngOf, svgText } from '../save/figure';
import { hand, type Kind } from '../save/menu';
import { logCsv, logJson, modelFiles, type Logged } from './files';
import type { Told } from './words';

/** The model as Explore opens it, with the sample as its text. */
export async function openInside({ name, lab }: Told, desk: Desk): Promise<void> {
  const { setup, words, settings, step } = lab;
  const isFixed = setup!.first !== undefined;
  const title = `${name} after ${step} steps`.replaceAll('/', ' ');
  const weights = await lab.weights();
  desk.set({
    input: 'text',
    prompt: words.slice(isFixed ? 1 : 0).join(''),
    first: isFixed ? '' : 'none',
    T: Number(settings.length),
    n: 1,
  });
  desk.inside(modelFiles(title, setup!, weights));
}

export async function saveModel({ lab }: Told): Promise<void> {
  const files = modelFiles('', lab.setup!, await lab.weights());
  for (const { path, file } of files) hand(file, path.slice(1));
}

interface Shown {
  readonly told: readonly Told[];
  readonly columns: readonly string[];
  readonly grid: HTMLElement;
  readonly desk: Desk;
}

async function fileOf(kind: Kind, { told, columns, grid, desk }: Shown): Promise<Blob> {
  const logged = told.map(({ name, lab }): Logged => {
    return { name, settings: lab.settings, log: lab.log };
  });
  const { version, link } = desk.facts();
  const origin = { version, link };
  if (kind === 'CSV') return new Blob([logCsv(logged, columns, origin)], { type: 'text/csv' });
  if (kind === 'JSON') return new Blob([logJson(logged, origin)], { type: 'application/json' });
  const title = told.map(({ name }) => name).join(' | ');
  const picture = figureOf(grid, title, link.slice(0, 120));
  return kind === 'PNG' ? pngOf(picture) : new Blob([svgText(picture)], { type: 'image/svg+xml' });
}

export async function save(kind: Kind, shown: Shown): Promise<void> {
  hand(await fileOf(kind, shown), `sinkscope-lab.${kind.toLowerCase()}`);
}
