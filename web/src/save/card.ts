/** Draws a picture to share: the sentence, its measured number, the map and the link. */
import { claimOf } from '../claims';
import { drawnMap, type Frame, type Head } from '../frame';
import { sequential, stepOf } from '../plot/color';
import type { Facts } from './numbers';
import { findingWords, attentionWords, headName, stampWords } from '../words';

/** The picture has the size of a link's preview. */
const [WIDTH, HEIGHT] = [1200, 630];
const MARGIN = 48;
const MAP_SIZE = 420;
const FONT = 'system-ui, Helvetica, Arial, sans-serif';
const [INK, LIGHT_INK, SINK] = ['#1d1b22', '#55525e', '#b0305a'];

/** Breaks a text into at most `maxLines` lines that `isWithin` accepts; a longer text ends in an ellipsis. */
export function linesOf(
  text: string,
  maxLines: number,
  isWithin: (line: string) => boolean,
): readonly string[] {
  const lines: string[] = [];
  let line = '';
  // A text without spaces, such as Chinese, may break anywhere.
  for (const part of text
    .replace(/\s+/g, ' ')
    .trim()
    .match(/\S{1,12}\s?/g) ?? []) {
    if (line && !isWithin((line + part).trimEnd())) {
      lines.push(line.trimEnd());
      line = '';
    }
    line += part;
  }
  if (line) lines.push(line.trimEnd());
  if (lines.length <= maxLines) return lines;
  return [...lines.slice(0, maxLines - 1), `${lines[maxLines - 1]}…`];
}

function drawMap(frame: Frame): HTMLCanvasElement | undefined {
  const cells = drawnMap(frame, { normalize: 'no' });
  if (!cells) return undefined;
  const { T } = frame;
  const map = document.createElement('canvas');
  Object.assign(map, { width: T, height: T });
  const scale = sequential('light', 1, true);
  const pixels = new Uint32Array(T * T);
  for (let i = 0; i < T * T; i++) {
    const step = stepOf(scale, cells[i]!);
    pixels[i] = step < 0 ? scale.hidden : scale.colors[step]!;
  }
  const image = new ImageData(new Uint8ClampedArray(pixels.buffer), T, T);
  map.getContext('2d')!.putImageData(image, 0, 0);
  return map;
}

type Origin = Pick<Facts, 'version' | 'link'>;

/** @param at the head; the strongest one if the frame lacks its map */
export function cardOf(frame: Frame, at: Head, { version, link }: Origin): HTMLCanvasElement {
  const card = document.createElement('canvas');
  Object.assign(card, { width: WIDTH, height: HEIGHT });
  const context = card.getContext('2d')!;
  context.fillStyle = '#fbfaf7';
  context.fillRect(0, 0, WIDTH, HEIGHT);
  context.textBaseline = 'top';
  const textWidth = WIDTH - MAP_SIZE - 3 * MARGIN;
  let y = MARGIN;
  const writeText = (text: string, size: number, color: string, maxLines: number, weight = 400) => {
    context.font = `${weight} ${size}px ${FONT}`;
    context.fillStyle = color;
    const isWithin = (line: string) => context.measureText(line).width <= textWidth;
    for (const line of linesOf(text, maxLines, isWithin)) {
      context.fillText(line, MARGIN, y, textWidth);
      y += 1.3 * size;
    }
    y += 0.4 * size;
  };
  writeText(`“${frame.question.prompt}”`, 30, INK, 5, 600);
  writeText(attentionWords(claimOf(frame, at)), 92, SINK, 1, 700);
  writeText(findingWords(frame, at), 20, INK, 5);
  writeText(stampWords(frame), 15, LIGHT_INK, 2);
  context.imageSmoothingEnabled = false;
  const map = drawMap(frame);
  const mapLeft = WIDTH - MARGIN - MAP_SIZE;
  if (map) context.drawImage(map, mapLeft, MARGIN, MAP_SIZE, MAP_SIZE);
  context.font = `400 17px ${FONT}`;
  context.fillStyle = LIGHT_INK;
  context.fillText(
    `${frame.title}, head ${headName(at, frame)}: rows attend to columns`,
    mapLeft,
    MARGIN + MAP_SIZE + 10,
    MAP_SIZE,
  );
  // A link with a long state would not fit into the picture, which then names only the page.
  const [page, hash = ''] = link.split('#');
  const shownLink = hash.length > 70 ? page! : link;
  context.font = `600 20px ${FONT}`;
  context.fillText(
    `Sinkscope ${version} · ${shownLink}`,
    MARGIN,
    HEIGHT - MARGIN - 4,
    WIDTH - 2 * MARGIN,
  );
  return card;
}

export async function pictureOf(frame: Frame, at: Head, origin: Origin): Promise<File> {
  const card = cardOf(frame, at, origin);
  const blob = await new Promise<Blob>((done, fail) =>
    card.toBlob((png) => (png ? done(png) : fail(new Error('The picture was not made.')))),
  );
  return new File([blob], 'sinkscope.png', { type: 'image/png' });
}
