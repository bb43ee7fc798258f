/** Every head's map as a thumbnail: layers down, heads across. */
import { mapOf, type Frame } from '../frame';
import { quantity } from '../save/numbers';
import { show } from '../words';
import { weightScale } from './attention';
import { part, type Context, type ViewKind } from './view';
import { paint } from '../plot/heatmap';

function button(grid: HTMLElement, layer: number, head: number): HTMLButtonElement {
  const made = document.createElement('button');
  made.type = 'button';
  made.className = 'thumb';
  made.dataset.layer = String(layer);
  made.dataset.head = String(head);
  made.append(document.createElement('canvas'));
  grid.append(made);
  return made;
}

export const heads: ViewKind = {
  name: 'heads',
  title: 'All heads',
  how: 'The maps of all heads, a row for each layer. Choose one to open it above.',
  numbers: (frame) => {
    const { L, H } = frame.architecture;
    const { T } = frame;
    const data = new Float32Array(L * H * T * T);
    for (let i = 0; i < L * H; i++) data.set(mapOf(frame, Math.floor(i / H), i % H), i * T * T);
    return [quantity('weight', ['layer', 'head', 'query', 'key'], { shape: [L, H, T, T], data })];
  },
  create(root, { set, point }) {
    const grid = part(root, 'thumbs');
    let shape = '';
    let drawn: { frame?: Frame; scale?: string } = {};
    const of = (event: Event) => {
      const found = (event.target as Element).closest<HTMLElement>('.thumb');
      return found && { layer: Number(found.dataset.layer), head: Number(found.dataset.head) };
    };
    grid.addEventListener('click', (event) => {
      const found = of(event);
      if (found) set(found);
    });
    grid.addEventListener('pointerover', (event) => point(of(event) ?? {}));
    grid.addEventListener('pointerleave', () => point({}));
    return {
      update(frame: Frame, context: Context) {
        const { L, H } = frame.architecture;
        if (shape !== `${L}x${H}`) {
          grid.replaceChildren();
          grid.style.setProperty('--heads', String(H));
          for (let l = 0; l < L; l++) for (let h = 0; h < H; h++) button(grid, l, h);
          shape = `${L}x${H}`;
          drawn = {};
        }
        const { scale, high } = weightScale(context);
        const key = [context.theme, context.state.scale, high].join();
        const again = drawn.frame !== frame || drawn.scale !== key;
        drawn = { frame, scale: key };
        const { layer, head, pointed } = context;
        [...grid.children].forEach((child, i) => {
          const [l, h] = [Math.floor(i / H), i % H];
          const alpha = frame.tensors.alpha.data[i * frame.tensors.alpha.shape[2]];
          child.classList.toggle('chosen', l === layer && h === head);
          child.classList.toggle('lit', l === pointed.layer && h === pointed.head);
          child.setAttribute('aria-pressed', String(l === layer && h === head));
          const name = `layer ${l + 1}, head ${h + 1}, α₁ = ${show(alpha, 3)}`;
          child.setAttribute('aria-label', name);
          child.setAttribute('title', name);
          if (again)
            paint(child.firstElementChild as HTMLCanvasElement, {
              rows: frame.T,
              cols: frame.T,
              data: mapOf(frame, l, h),
              scale,
            });
        });
      },
    };
  },
};
