/** Exports a model to Explore or to the disk, and the log and the picture as files. */
import type { Context } from '../page/context';
import type { Theme } from '../plot/color';
import { addKinds, downloadFile, KINDS, drawOnPaper, type Kind } from '../save/menu';
import { logCsv, logJson, modelFiles, modelZip, type LabLog } from './files';
import { allRowsWords, verdictWords, type NamedLab } from './words';

/** Opens the model in Explore, with the sample as its text, and says how the number there differs. */
export async function openInExplore(namedLab: NamedLab, context: Context): Promise<void> {
  const { name, lab } = namedLab;
  const { setup, words, settings, step } = lab;
  const isFixed = setup!.firstText !== undefined;
  const title = `${name} after ${step} steps`.replaceAll('/', ' ');
  context.set({
    input: 'text',
    prompt: words.slice(isFixed ? 1 : 0).join(''),
    first: isFixed ? '' : 'none',
    T: Number(settings.length),
    n: 1,
  });
  context.openFiles(await modelFiles(title, await lab.exportTrained()));
  context.notify(`Explore averages over ${allRowsWords(namedLab)}.`);
}

export async function saveModel({ name, lab }: NamedLab): Promise<void> {
  const title = `${name} after ${lab.step} steps`.toLowerCase();
  const folder = `sinkscope-lab-${title.replace(/[^\p{L}\p{N}.]+/gu, '-')}`.slice(0, 100);
  downloadFile(await modelZip(folder, await lab.exportTrained()), `${folder}.zip`);
}

interface SavedView {
  readonly pair: readonly NamedLab[];
  readonly columns: readonly string[];
  readonly grid: HTMLElement;
  readonly context: Context;
  readonly draw: (theme?: Theme) => void;
}

async function fileOf(
  kind: Kind,
  { pair, columns, grid, context, draw }: SavedView,
): Promise<Blob> {
  // Fetched first, so that log and picture are of one step.
  const { figureOf, metadataOf, pngOf, svgText } = await import('../save/file');
  const logs = pair.map(({ name, lab, command }): LabLog => {
    return { name, settings: lab.settings, log: lab.log, command };
  });
  const facts = context.facts();
  if (kind === 'CSV') return new Blob([logCsv(logs, columns, facts)], { type: 'text/csv' });
  if (kind === 'JSON') return new Blob([logJson(logs, facts)], { type: 'application/json' });
  const metadata = metadataOf({ name: 'lab', title: 'Lab', says: [], numbers: [], facts });
  const titles = pair.map(({ name, lab }) => `${name} after ${lab.step} steps`);
  const commands = pair.map(({ command }) => command);
  const labMetadata = {
    ...metadata,
    title: `Lab: ${titles.join(' | ')}`,
    description: [verdictWords([pair[0]!, pair[1]!]), ...commands].join('\n'),
    facts: { ...metadata.facts, corpus: undefined, subjects: commands },
  };
  const picture = drawOnPaper(grid, draw, () => figureOf(grid, labMetadata));
  return kind === 'PNG' ? pngOf(picture) : new Blob([svgText(picture)], { type: 'image/svg+xml' });
}

/** Adds a menu that saves the lab's picture and numbers; `savedView` returns what to save, at the reader's click. */
export function addSaveMenu(
  place: HTMLElement,
  context: Context,
  savedView: () => Omit<SavedView, 'context'>,
): HTMLElement {
  return addKinds(
    place,
    'the lab',
    KINDS,
    (kind) =>
      void fileOf(kind, { ...savedView(), context }).then(
        (file) => downloadFile(file, `sinkscope-lab.${kind.toLowerCase()}`),
        context.fail,
      ),
  );
}
