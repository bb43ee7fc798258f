/** Makes the files of a figure's picture and numbers. The page fetches this module when the reader saves the first one. */
import { stampWords } from '../words';
import { figureOf, pngOf, svgText, type FigureMetadata } from './figure';
import type { Kind } from './menu';
import type { Facts, Numbers } from './numbers';
import { factsOf, toCsv, toJson } from './number_files';

export { figureOf, pngOf, svgText };

export interface Figure {
  readonly name: string;
  readonly title: string;
  readonly place: HTMLElement;
  readonly says: readonly string[];
  readonly numbers: readonly Numbers[];
  readonly facts: Facts;
  /** Draws in the light theme, returns what `take` returns, and then draws in the reader's theme again. */
  readonly drawOnPaper: <T>(take: () => T) => T;
}

/** Whether others can open an address: it must be neither on this machine nor on a local network. */
function isPublic(link: string): boolean {
  const { protocol, hostname } = new URL(link);
  const isLocal =
    !hostname.includes('.') ||
    /^(127|10|192\.168|169\.254|172\.(1[6-9]|2\d|3[01]))\.|\.(local|internal|test|home\.arpa)$/.test(
      hostname,
    ) ||
    hostname.startsWith('[');
  return protocol.startsWith('http') && !isLocal;
}

/** Returns a picture's description, its metadata for programs, and the line below the picture. */
export function metadataOf({
  name,
  title,
  says,
  numbers,
  facts,
}: Omit<Figure, 'place' | 'drawOnPaper'>): FigureMetadata {
  const { corpus, version, link } = facts;
  const frames = numbers.map(({ frame }) => frame);
  const models = [...new Set(frames.map((frame) => frame.title))].join(', ');
  const publicAddress = isPublic(link) ? new URL(link) : undefined;
  return {
    title: models ? `${title}: ${models}` : title,
    description: [...says, ...frames.map(stampWords)].join('\n'),
    facts: {
      figure: name,
      measured_by: `Sinkscope ${version}`,
      ...(publicAddress ? { link } : {}),
      corpus,
      subjects: numbers.map(({ frame, sequences }) => factsOf(frame, sequences)),
    },
    // A link's long text would not fit below the picture, so this names only the page.
    note:
      `Sinkscope ${version}` +
      (publicAddress ? ` ${publicAddress.origin}${publicAddress.pathname}` : ''),
  };
}

const pictureOf = (figure: Figure): SVGSVGElement =>
  figure.drawOnPaper(() => figureOf(figure.place, metadataOf(figure)));

export async function fileOf(kind: Kind, figure: Figure): Promise<Blob> {
  const { name, numbers, facts } = figure;
  if (kind === 'PNG') return pngOf(pictureOf(figure));
  if (kind === 'SVG') return new Blob([svgText(pictureOf(figure))], { type: 'image/svg+xml' });
  if (kind === 'CSV') return new Blob([toCsv(numbers, facts)], { type: 'text/csv' });
  return new Blob([toJson(name, numbers, facts)], { type: 'application/json' });
}
