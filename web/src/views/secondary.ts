/** Draws secondary sinks: keys after the first that receive far more than uniform attention, and in which layers. */
import { alphaOfKey, firstKey, isBidirectional, layerNumber, mean, type Frame } from '../frame';
import { drawChart } from '../plot/chart';
import { addElement, setText, type View } from '../page/view';
import { percent, quote, show } from '../words';

/** The multiple of uniform attention that a secondary sink exceeds. */
const TIMES = 5;
/** The number of drawn lines. */
const DRAWN = 4;
const DASHES = ['', '5,3', '2,3', '6,2,2,2'];

/** The attention on a key other than the first. */
export interface Key {
  readonly key: number;
  /** For each layer, the mean of alpha_k over heads as a multiple of uniform attention. */
  readonly times: readonly number[];
  /** The first layer where the key receives more than `TIMES` uniform attention; -1: none. */
  readonly birth: number;
  /** The number of layers where the key receives more than `TIMES` uniform attention. */
  readonly lifetime: number;
  /** The norm of the key's hidden state before its first such layer, relative to the mean of all except the first. */
  readonly norm: number;
}

/**
 * Returns keys 2 to T / 2, the strongest first; attention on later keys is a mean over few queries. If all queries see
 * all keys, returns keys 2 to T.
 */
export function keysByAttention(frame: Frame): Key[] {
  const { tensors, architecture, T } = frame;
  const { L, H } = architecture;
  const [alpha, uniform, norms] = ['alpha', 'alpha_uniform', 'hidden_norm'].map(
    (name) => tensors[name]!.data,
  ) as [Float32Array, Float32Array, Float32Array];
  const last = isBidirectional(frame) ? T : Math.floor(T / 2);
  const first = firstKey(frame);
  const keys = Array.from({ length: Math.max(0, last - 1 - first) }, (_, i) => first + 1 + i).map(
    (key): Key => {
      const times = Array.from({ length: L }, (_, l) => {
        const heads = Array.from({ length: H }, (_, h) => alpha[(l * H + h) * T + key]!);
        return mean(heads) / uniform[key]!;
      });
      const layersAbove = times.flatMap((x, l) => (x > TIMES ? [l] : []));
      const birth = layersAbove[0] ?? -1;
      const firstLayer = birth < 0 ? 0 : layerNumber(frame, birth);
      const entering = norms.subarray(firstLayer * T, (firstLayer + 1) * T);
      const norm = entering[key]! / mean(entering.filter((_, t) => t !== first));
      return { key, times, birth, lifetime: layersAbove.length, norm };
    },
  );
  return keys.sort((a, b) => Math.max(...b.times) - Math.max(...a.times));
}

function sentence(frame: Frame): string {
  const keys = keysByAttention(frame);
  const [most] = keys;
  if (!most) return '';
  const name = ({ key }: Key) => `token ${key} ${quote(frame, key)}`;
  const sinks = keys.filter(({ lifetime }) => lifetime > 0);
  const first = mean(alphaOfKey(frame, firstKey(frame)));
  if (!Number.isFinite(first)) return 'What each key receives is not recorded.';
  const comparison = `The first key receives ${percent(first)} on average over all heads.`;
  if (!sinks.length)
    return (
      `No secondary sink: after the first, ${name(most)} receives most, at most ${show(Math.max(...most.times), 1)} times ` +
      `uniform attention in a layer. ${comparison}`
    );
  const described = sinks
    .slice(0, DRAWN)
    .map(
      (one) =>
        `${name(one)} from layer ${layerNumber(frame, one.birth)} on in ${one.lifetime} layer${one.lifetime > 1 ? 's' : ''} (up to ` +
        `${show(Math.max(...one.times), 1)} times, its norm ${show(one.norm)} of the mean)`,
    );
  return `${sinks.length} secondary sink${sinks.length > 1 ? 's' : ''}: ${described.join('; ')}. ${comparison}`;
}

export const secondary: View = {
  name: 'secondary',
  title: 'Secondary sinks',
  question: 'Do tokens after the first become sinks, and from which layer on?',
  how:
    `A secondary sink is a key after the first that receives more than ${TIMES} times uniform attention, averaged over the ` +
    'heads of a layer. Lines: the keys that receive most, by layer. Where queries see only keys before them, only keys of ' +
    'the first half are counted: few queries see later ones.',
  formula: 'mean over heads of α_k / α_k under uniform attention',
  source: 'after arXiv 2512.22213; threshold of this project',
  reads: ['alpha', 'alpha_uniform', 'hidden_norm'],
  fits: ({ T }) => T >= 4,
  numbers: (frame) => {
    const keys = keysByAttention(frame).sort((a, b) => a.key - b.key);
    const { L } = frame.architecture;
    return [
      {
        name: 'times_uniform',
        axes: ['key', 'layer'],
        shape: [keys.length, L],
        data: keys.flatMap(({ times }) => times),
        from: [1 + firstKey(frame), 0],
      },
      ...(['birth', 'lifetime', 'norm'] as const).map((name) => ({
        name,
        axes: ['key'],
        shape: [keys.length],
        data: keys.map((one) => one[name]),
        from: [1 + firstKey(frame)],
      })),
    ];
  },
  says: sentence,
  draw(root) {
    const place = addElement(root, 'chart');
    const words = addElement(root, 'caption', 'p');
    return (frame) => {
      const caption = sentence(frame);
      setText(words, caption);
      drawChart(place, {
        kind: 'lines',
        xLabel: 'layer',
        yLabel: 'times uniform attention',
        domain: [0, TIMES],
        label: `Attention on keys after the first, by layer. ${caption}`,
        series: keysByAttention(frame)
          .slice(0, DRAWN)
          .map(({ key, times }, i) => ({
            name: `${key} ${quote(frame, key)}`,
            color: `--run-${i + 1}`,
            values: times,
            places: times.map((_, l) => layerNumber(frame, l)),
            ...(DASHES[i] ? { dash: DASHES[i]! } : {}),
          })),
      });
    };
  },
};
