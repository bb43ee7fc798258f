/** Draws every head's map as a thumbnail: layers down, heads across. */
import { firstWeights, layerNumber, maskHidden, modelHead, sharesOf, type Frame } from '../frame';
import { paint } from '../plot/heatmap';
import { quantity } from '../save/numbers';
import { headName, wholePercent } from '../words';
import { isPreview } from '../claims';
import { axesOf, weightScale } from './attention';
import { cacheLast, addElement, setText, type View } from '../page/view';

/** Returns the side of each map, which is smaller than the selected head's in a long text. */
const sideOf = ({ tensors }: Frame): number => tensors.att!.shape.at(-1)!;

/** Returns the map of a head; for a long text, means over blocks, followed by the blocks' maxima. */
function mapOf(frame: Frame, i: number): Float32Array {
  const { shape, data } = frame.tensors.att!;
  const side = sideOf(frame);
  const offset = i * side * side * (shape.length > 4 ? 2 : 1);
  const pooled = frame.pooled && side;
  return maskHidden(
    { ...frame, ...(pooled ? { pooled } : {}) },
    data.subarray(offset, offset + side ** 2),
  );
}

export const heads: View = {
  name: 'heads',
  title: 'All heads',
  question: 'What does every head attend to?',
  how: 'The maps of all heads, one row per layer. Select one to open it.',
  reads: ['att'],
  numbers: (frame) => {
    const { L, H } = frame.architecture;
    const side = sideOf(frame);
    const data = new Float32Array(L * H * side * side);
    for (let i = 0; i < L * H; i++) data.set(mapOf(frame, i), i * side * side);
    const [name, ...axes] = axesOf(frame);
    return [quantity(name, ['layer', 'head', ...axes], { shape: [L, H, side, side], data })];
  },
  says: ({ title, architecture: { L, H, blocks = L } }) =>
    `Attention maps of ${L} layers by ${H} heads of ${title}${blocks > L ? `; the other ${blocks - L} of its ${blocks} layers have no attention` : ''}.`,
  draw(root, { set, point, pointed, effect }) {
    const grid = addElement(root, 'thumbs');
    // Makes the heads one tab stop, within which the arrow keys move from head to head.
    grid.setAttribute('role', 'listbox');
    grid.setAttribute('aria-label', 'Heads');
    grid.addEventListener('keydown', (event) => {
      const heads = Number(grid.style.getPropertyValue('--heads'));
      const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -heads, ArrowDown: heads };
      const thumbnails = [...grid.children] as HTMLElement[];
      const at = thumbnails.indexOf(event.target as HTMLElement);
      const step = steps[event.key as keyof typeof steps];
      if (event.key === 'Enter' || event.key === ' ') thumbnails[at]?.click();
      else if (step) thumbnails[at + step]?.focus();
      else return;
      event.preventDefault();
    });
    let drawn: unknown[] = [];
    let shown: Frame | undefined;
    const mapsOf = cacheLast((frame: Frame) => {
      const { L, H } = frame.architecture;
      return Array.from({ length: L * H }, (_, i) => mapOf(frame, i));
    });
    const of = (event: Event) => {
      const thumb = (event.target as Element).closest<HTMLElement>('.thumb');
      return thumb && { layer: Number(thumb.dataset.layer), head: Number(thumb.dataset.head) };
    };
    grid.addEventListener('click', (event) => {
      const head = of(event);
      if (head && shown) set(modelHead(shown, head));
    });
    grid.addEventListener('pointerover', (event) => point(of(event) ?? {}));
    grid.addEventListener('pointerleave', () => point({}));
    effect(() => {
      const { layer, head } = pointed.value;
      for (const thumb of grid.children as HTMLCollectionOf<HTMLElement>) {
        const isLit = thumb.dataset.layer === String(layer) && thumb.dataset.head === String(head);
        thumb.classList.toggle('lit', isLit);
      }
    });
    return (frame, options) => {
      shown = frame;
      const { L, H } = frame.architecture;
      const maps = mapsOf(frame);
      const scale = weightScale(options, frame.pooled ? maps : undefined);
      const side = sideOf(frame);
      if (
        grid.childElementCount !== L * H ||
        grid.style.getPropertyValue('--heads') !== String(H)
      ) {
        grid.replaceChildren();
        grid.style.setProperty('--heads', String(H));
        for (let i = 0; i < L * H; i++) {
          const button = addElement(grid, 'thumb');
          button.setAttribute('role', 'option');
          button.dataset.layer = String(Math.floor(i / H));
          button.dataset.head = String(i % H);
          addElement(button, '', 'canvas');
          // The first button of each row and column shows its name; the button's own label has both.
          if (i < H) button.dataset.column = `H${i}`;
          if (i % H === 0) button.dataset.row = `L${layerNumber(frame, i / H)}`;
          addElement(button, 'thumb-number', 'span');
        }
        drawn = [];
      }
      const isNormalized = options.state.normalize === 'yes';
      const inputs = [frame.tensors.att, scale, isNormalized];
      const isChanged = inputs.some((one, i) => one !== drawn[i]);
      drawn = inputs;
      const firsts = firstWeights(frame);
      [...grid.children].forEach((child, i) => {
        const [l, h] = [Math.floor(i / H), i % H];
        const percentage = wholePercent(firsts[i]!);
        const about = isPreview(frame);
        const name = `${headName({ layer: l, head: h }, frame)} gives the first token ${about ? 'about ' : ''}${percentage}`;
        setText(child.lastElementChild as HTMLElement, `${about ? '≈' : ''}${percentage}`);
        const isSelected = l === options.at.layer && h === options.at.head;
        child.setAttribute('aria-selected', String(isSelected));
        (child as HTMLElement).tabIndex = isSelected ? 0 : -1;
        child.setAttribute('aria-label', name);
        child.setAttribute('title', name);
        if (!isChanged) return;
        const map = maps[i]!;
        paint(child.firstElementChild as HTMLCanvasElement, {
          rows: side,
          cols: side,
          data: frame.operation.normalizes || !isNormalized ? map : sharesOf(map, side),
          scale,
        });
      });
    };
  },
};
