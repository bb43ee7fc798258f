/** Draws the attention maps of all heads as thumbnails, layers down and heads across. */
import {
  firstPromptWeights,
  firstTokenWeights,
  headAt,
  layerNumber,
  maskHidden,
  modelHead,
  sharesOf,
  type Frame,
} from '../frame';
import { paint } from '../plot/heatmap';
import { quantity } from '../save/numbers';
import {
  averageWords,
  firstName,
  firstPromptWords,
  headName,
  modelName,
  timesUniform,
  percentBeside,
} from '../words';
import { axesOf, ownEnd, weightScale } from './attention';
import { cacheLast, addElement, setText, type View } from '../page/view';

/** Returns the numbers of columns and rows, which for a long text are smaller than in the selected head's map. */
const sizesOf = ({ tensors }: Frame) => {
  const [rows, side] = tensors.att!.shape.slice(-2) as [number, number];
  return { rows, side };
};

/** Returns the map of head i. For a long text these are the means over blocks, which `att` stores before the maxima. */
function mapOf(frame: Frame, i: number): Float32Array {
  const { shape, data } = frame.tensors.att!;
  const { rows, side } = sizesOf(frame);
  const offset = i * rows * side * (shape.length > 4 ? 2 : 1);
  const weights = data.subarray(offset, offset + rows * side);
  return maskHidden({ ...frame, pooled: frame.pooled && side }, weights);
}

/** Returns the numbers on the maps and names their prompts: the first one, whose maps these are, if it is known. */
export function weightsOf(frame: Frame): { weights: Float32Array; promptWords: string } {
  const weights = firstPromptWeights(frame);
  return weights
    ? { weights, promptWords: firstPromptWords(frame) }
    : { weights: firstTokenWeights(frame), promptWords: averageWords(frame) };
}

/** Puts an empty thumbnail for each head of a model into the grid. */
function fillGrid(grid: HTMLElement, frame: Frame): void {
  const { L, H } = frame.architecture;
  grid.replaceChildren();
  grid.style.setProperty('--heads', String(H));
  for (let i = 0; i < L * H; i++) {
    const thumb = addElement(grid, 'thumb');
    thumb.setAttribute('role', 'option');
    const { layer, head } = headAt(i, H);
    thumb.dataset.layer = String(layer);
    thumb.dataset.head = String(head);
    addElement(thumb, '', 'canvas');
    if (i < H) thumb.dataset.column = `H${i}`;
    if (i % H === 0) thumb.dataset.row = `L${layerNumber(frame, i / H)}`;
    addElement(thumb, 'thumb-number', 'span');
  }
}

/** Moves the focus in the grid by arrow keys, and chooses the focused head by Enter or Space. */
function moveByKeys(grid: HTMLElement, event: KeyboardEvent): void {
  const heads = Number(grid.style.getPropertyValue('--heads'));
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -heads, ArrowDown: heads };
  const thumbnails = [...grid.children] as HTMLElement[];
  const index = thumbnails.indexOf(event.target as HTMLElement);
  const step = steps[event.key as keyof typeof steps];
  if (event.key === 'Enter' || event.key === ' ') thumbnails[index]?.click();
  else if (step) thumbnails[index + step]?.focus();
  else return;
  event.preventDefault();
}

export const heads: View = {
  name: 'heads',
  title: 'All heads',
  question: 'What does every head attend to?',
  how: 'The maps of all heads, one row per layer. Select one to open it.',
  reads: ['att'],
  numbers: (frame) => {
    const { L, H } = frame.architecture;
    const { rows, side } = sizesOf(frame);
    const data = new Float32Array(L * H * rows * side);
    for (let i = 0; i < L * H; i++) data.set(mapOf(frame, i), i * rows * side);
    const [name, ...axes] = axesOf(frame);
    return [quantity(name, ['layer', 'head', ...axes], { shape: [L, H, rows, side], data })];
  },
  says: ({ title, architecture: { L, H, blocks = L } }) =>
    `Attention maps of ${L} layers by ${H} heads of ${modelName({ title })}${blocks > L ? `; the other ${blocks - L} of its ${blocks} layers have no attention` : ''}.`,
  draw(root, { set, point, pointed, effect }) {
    const grid = addElement(root, 'thumbs');
    // Makes the heads one tab stop, within which the arrow keys move from head to head.
    grid.setAttribute('role', 'listbox');
    grid.setAttribute('aria-label', 'Heads');
    grid.addEventListener('keydown', (event) => moveByKeys(grid, event));
    let lastInputs: unknown[] = [];
    let shownFrame: Frame | undefined;
    const headMaps = cacheLast((frame: Frame) => {
      const { L, H } = frame.architecture;
      return Array.from({ length: L * H }, (_, i) => mapOf(frame, i));
    });
    const headAtEvent = (event: Event) => {
      const thumb = (event.target as Element).closest<HTMLElement>('.thumb');
      return thumb && { layer: Number(thumb.dataset.layer), head: Number(thumb.dataset.head) };
    };
    grid.addEventListener('click', (event) => {
      const head = headAtEvent(event);
      if (head && shownFrame) set(modelHead(shownFrame, head));
    });
    grid.addEventListener('pointerover', (event) => point(headAtEvent(event) ?? {}));
    grid.addEventListener('pointerleave', () => point({}));
    effect(() => {
      const { layer, head } = pointed.value;
      for (const thumb of grid.children as HTMLCollectionOf<HTMLElement>) {
        const isPointed =
          thumb.dataset.layer === String(layer) && thumb.dataset.head === String(head);
        thumb.classList.toggle('lit', isPointed);
      }
    });
    return (frame, options) => {
      shownFrame = frame;
      const { L, H } = frame.architecture;
      const maps = headMaps(frame);
      const { rows, side } = sizesOf(frame);
      const isNormalized = options.state.normalize === 'yes';
      const end = isNormalized ? 1 : Math.max(1, ...maps.map((map) => ownEnd(map, rows) ?? 1));
      const scale = weightScale(options, frame.pooled ? maps : undefined, end);
      if (
        grid.childElementCount !== L * H ||
        grid.style.getPropertyValue('--heads') !== String(H)
      ) {
        fillGrid(grid, frame);
        lastInputs = [];
      }
      const inputs = [frame.tensors.att, scale, isNormalized];
      const isChanged = inputs.some((input, i) => input !== lastInputs[i]);
      lastInputs = inputs;
      const { weights, promptWords } = weightsOf(frame);
      [...grid.children].forEach((child, i) => {
        const { layer, head } = headAt(i, H);
        const percentage = percentBeside(weights[i]!, frame.eps);
        const label = `${headName({ layer, head }, frame)} gives ${firstName(frame)} ${percentage}${promptWords}${timesUniform(frame, weights[i]!)}`;
        setText(child.lastElementChild as HTMLElement, percentage);
        const isSelected = layer === options.at.layer && head === options.at.head;
        child.setAttribute('aria-selected', String(isSelected));
        (child as HTMLElement).tabIndex = isSelected ? 0 : -1;
        child.setAttribute('aria-label', label);
        child.setAttribute('title', label);
        if (!isChanged) return;
        const map = maps[i]!;
        paint(child.firstElementChild as HTMLCanvasElement, {
          rows,
          cols: side,
          data: frame.operation.normalizes || !isNormalized ? map : sharesOf(map, side),
          scale,
        });
      });
    };
  },
};
