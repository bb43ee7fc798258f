/** Why the first key wins: q.k = |q||k| cos, as three maps and as angles (figure 2 of the paper). */
import { type Frame, type HeadFrame } from '../frame';
import { diverging, sequential, type Scale } from '../plot/color';
import { createHeatmap } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { drawRose } from '../plot/rose';
import { mean } from '../frame';
import { quantity } from '../save/numbers';
import { show } from '../words';
import { largest, part, type Context, type ViewKind } from './view';

const MAPS = [
  { name: 'dot', title: 'q·k', signed: true },
  { name: 'cos', title: 'cosine', signed: true },
  { name: 'norm', title: '|q| |k|', signed: false },
] as const;

function scaleOf(kind: (typeof MAPS)[number], head: HeadFrame, context: Context): [Scale, number] {
  const size = kind.name === 'cos' ? 1 : largest([head[kind.name].data]);
  return [kind.signed ? diverging(context.theme, size) : sequential(context.theme, size), size];
}

/** Angles of every visible pair: with the first key, and with the others. */
export function angles(cos: ArrayLike<number>, T: number): { first: number[]; others: number[] } {
  const first: number[] = [];
  const others: number[] = [];
  for (let t = 0; t < T; t++)
    for (let j = 0; j <= t; j++) {
      const angle = Math.acos(Math.max(-1, Math.min(1, cos[t * T + j])));
      if (Number.isFinite(angle)) (j ? others : first).push(angle);
    }
  return { first, others };
}

function degrees(radians: number): string {
  return Number.isFinite(radians) ? `${((radians * 180) / Math.PI).toFixed(0)}°` : '–';
}

function sayGap(frame: Frame, { layer, head }: HeadFrame): string {
  const { H, G } = frame.architecture;
  const group = Math.floor(head / (H / G));
  const gap = frame.tensors.cos_gap.data[layer * H + head];
  const ratio = frame.tensors.key_ratio.data[layer * G + group];
  return `cosine gap ${show(gap)} · ‖k₁‖ is ${show(ratio)} × the mean of the other keys`;
}

export const geometry: ViewKind = {
  name: 'geometry',
  title: 'Key and query geometry',
  how:
    'q·k = ‖q‖‖k‖ cos: a sink is won by direction, not by length. Left to right: product, cosine, ' +
    'norms (after positions, before scaling). Below: the angle between every query and key 1 ' +
    '(coloured) against all other keys (grey).',
  numbers: ({ selected }) =>
    selected ? MAPS.map(({ name }) => quantity(name, ['query', 'key'], selected[name])) : [],
  create(root, { point }) {
    const subtitle = part(root, 'subtitle', 'p');
    const row = part(root, 'trio');
    const maps = MAPS.map((kind) => {
      const cell = part(row, 'plot');
      part(cell, 'map-title', 'p').textContent = kind.title;
      const legend = part(cell, 'legend-place');
      const map = createHeatmap(cell, {
        onPoint: (at) => point(at ? { query: at.row, key: at.col } : {}),
      });
      return { kind, legend, map, scale: undefined as [Scale, number] | undefined };
    });
    const rose = part(root, 'rose');
    const key = part(root, 'chart-key', 'p');
    let drawn: { head?: HeadFrame; theme?: string } = {};
    return {
      update(frame, context) {
        const head = frame.selected;
        root.classList.toggle('waiting', !head);
        if (!head) return;
        const { pointed, theme } = context;
        const again = drawn.head !== head || drawn.theme !== theme;
        drawn = { head, theme };
        subtitle.textContent = `layer ${head.layer + 1}, head ${head.head + 1} · ${sayGap(frame, head)}`;
        for (const one of maps) {
          if (again || !one.scale) one.scale = scaleOf(one.kind, head, context);
          const [scale, size] = one.scale;
          const { data, shape } = head[one.kind.name];
          const low = one.kind.signed ? -size : 0;
          drawLegend(one.legend, scale, low, size, [show(low, 1), show(size, 1)]);
          const lit = pointed.query !== undefined || pointed.key !== undefined;
          one.map.draw({
            rows: shape[0],
            cols: shape[1],
            data,
            scale,
            label: `${one.kind.title} of every query and key, ${frame.model.title}`,
            lit: lit ? { row: pointed.query ?? -1, col: pointed.key ?? -1 } : undefined,
            describe: ({ row: t, col: j }) =>
              t < 0 || j < 0 ? '' : `q ${t + 1}, k ${j + 1}: ${show(data[t * shape[1] + j])}`,
          });
        }
        if (!again) return;
        const { first, others } = angles(head.cos.data, head.cos.shape[0]);
        drawRose(
          rose,
          [
            { angles: others, name: 'others' },
            { angles: first, name: 'sink' },
          ],
          `Angles between queries and keys: ${degrees(mean(first))} on average with key 1, ` +
            `${degrees(mean(others))} with the others.`,
        );
        key.innerHTML =
          `<span style="--swatch: var(--sink)">key 1, mean ${degrees(mean(first))}</span>` +
          `<span style="--swatch: var(--ink-3)">other keys, mean ${degrees(mean(others))}</span>`;
      },
    };
  },
};
