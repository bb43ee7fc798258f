// @vitest-environment happy-dom
/** A matrix as a picture: its pixels, marks and words, and what pointer and keyboard do. */
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { diverging, sequential } from '../src/plot/color';
import { createHeatmap, distinctLabels, paint, type Cell } from '../src/plot/heatmap';
import { drawLegend, drawScale } from '../src/plot/legend';
import { namePart } from '../src/parts';

const scale = sequential('light');
let images: Uint32Array[] = [];
beforeEach(() => {
  images = [];
  vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue({
    createImageData: (width: number, height: number) => ({
      data: new Uint8ClampedArray(4 * width * height),
    }),
    putImageData: ({ data }: { data: Uint8ClampedArray }, x: number, y: number) => {
      expect([x, y]).toEqual([0, 0]);
      images.push(new Uint32Array(data.buffer));
    },
  } as never);
});

const base = {
  rows: 2,
  cols: 4,
  data: Float32Array.of(0, 0.5, 1, NaN, 1, 0, 0, 0),
  scale,
  label: 'A map.',
  describe: ({ row, col }: Cell) => `${row},${col}`,
};

function mapOf(change: object = {}) {
  const root = document.createElement('div');
  document.body.replaceChildren(root);
  const [onPoint, onChoose, onExtend, onBeyond] = [vi.fn(), vi.fn(), vi.fn(), vi.fn()];
  const map = createHeatmap(root, { onPoint, onChoose, onExtend, onBeyond });
  map.draw({ ...base, ...change });
  const element = (selector: string) => root.querySelector<HTMLElement>(selector)!;
  const plot = element('.heatmap');
  // 80 by 20 pixels, 10 from the left and 100 from the top.
  plot.getBoundingClientRect = () => new DOMRect(10, 100, 80, 20);
  const pointer = (name: string, clientX: number, clientY: number, shiftKey = false) =>
    plot.dispatchEvent(new MouseEvent(name, { clientX, clientY, shiftKey }));
  return {
    map,
    root,
    one: element,
    plot,
    onPoint,
    onChoose,
    onExtend,
    onBeyond,
    pointer,
    said: () => element('.readout').textContent,
    key: (key: string, shiftKey = false) => {
      const event = new KeyboardEvent('keydown', { key, shiftKey, cancelable: true });
      plot.dispatchEvent(event);
      return event.defaultPrevented;
    },
    /** Returns the place of a mark, in percent; undefined if it is hidden. */
    mark: (selector: string) => {
      const { hidden, style } = element(selector);
      if (hidden) return undefined;
      return [style.left, style.top, style.width, style.height].join(' ');
    },
    words: (selector: string) =>
      [...element(selector).children].map((word) => [
        word.textContent,
        (word as HTMLElement).title,
      ]),
  };
}

describe('a heatmap', () => {
  it('has a pixel for each cell, and the color of hidden cells for missing numbers', () => {
    const { colors, hidden } = scale;
    const { plot } = mapOf();
    expect(plot.firstElementChild!.tagName).toBe('CANVAS');
    expect(plot.style.aspectRatio.replace(/\s/g, '')).toBe('4/2');
    expect([...images[0]!]).toEqual(
      [0, 128, 256, -1, 256, 0, 0, 0].map((step) => (step < 0 ? hidden : colors[step])),
    );
  });

  it('extends the choice with Shift, and marks all chosen columns', () => {
    const { pointer, key, onChoose, onExtend, mark, map } = mapOf();
    // Without a choice, a click with Shift makes one.
    pointer('click', 35, 105, true);
    expect(onChoose).toHaveBeenLastCalledWith({ row: 0, col: 1 });
    map.draw({ ...base, chosen: { row: 0, col: 1 } } as never);
    pointer('click', 75, 115, true);
    expect(onExtend).toHaveBeenLastCalledWith({ row: 0, col: 1 }, { row: 1, col: 3 });
    expect(key('ArrowLeft', true)).toBe(true);
    expect(onExtend).toHaveBeenLastCalledWith({ row: 1, col: 3 }, { row: 1, col: 2 });
    key('ArrowLeft');
    expect([onChoose.mock.calls.length, onExtend.mock.calls.length]).toEqual([1, 2]);
    map.draw({ ...base, chosen: { row: -1, col: 1 }, chosenCols: 3 } as never);
    expect(mark('.chosen')).toBe('25% 0% 75% 100%');
  });

  it('is repainted only if its numbers or its scale change', () => {
    const { map } = mapOf();
    map.draw({ ...base, label: 'Other.' });
    expect(images).toHaveLength(1);
    map.draw({ ...base, data: base.data.slice() });
    map.draw({ ...base, scale: sequential('dark') });
    expect(images).toHaveLength(3);
    vi.mocked(HTMLCanvasElement.prototype.getContext).mockReturnValue(null);
    const canvas = document.createElement('canvas');
    paint(canvas, base);
    expect([canvas.width, canvas.height]).toEqual([4, 2]);
  });

  it('hatches masked cells below the diagonal, whose keys were evicted, and no others', () => {
    const data = new Float32Array(16).fill(NaN);
    data[0] = 1;
    mapOf({ rows: 4, data, isHatched: true });
    mapOf({ rows: 4, data });
    const linesIn = (image: Uint32Array) =>
      [...image.keys()].filter((i) => image[i] === scale.hatch);
    // Of rows and columns whose sum is a multiple of 4: (2, 2) and (3, 1), but not (1, 3), and not (0, 0), which is seen.
    expect(images.map(linesIn)).toEqual([[10, 13], []]);
  });

  it('names its rows, columns and axes while there is room', () => {
    const rowWords = ['a', 'bcd'];
    const colWords = ['v', 'wxyz', 'y', 'z'];
    const { map, one, words, plot } = mapOf({
      rowWords,
      colWords,
      rowTitle: 'query',
      cellShape: 2,
    });
    expect(words('.row-words')).toMatchSnapshot();
    expect(words('.col-words').map(([word]) => word)).toEqual(colWords);
    const { style, dataset } = one('.map-inner');
    const styleOf = (name: string) => style.getPropertyValue(name);
    expect(['--cols', '--rows', '--longest'].map(styleOf)).toEqual(['4', '2', '4']);
    expect([dataset.row, dataset.col]).toEqual(['query', '']);
    expect([
      plot.style.aspectRatio.replace(/\s/g, ''),
      plot.getAttribute('aria-label'),
    ]).toMatchSnapshot();
    expect(one('.map-place').classList.contains('bare')).toBe(false);
    map.draw({ ...base, rowWords: ['a', 'e'], colWords: ['v', 'w', 'y', 'z'] });
    expect(words('.row-words')[1]).toEqual(['e', 'e']);
    map.draw(base);
    expect([words('.row-words'), one('.map-place').classList.contains('bare')]).toEqual([[], true]);
    expect(styleOf('--longest')).toBe('0');
    for (const [side, step] of [
      [44, 1],
      [45, 2],
      [128, 5],
    ] as const)
      for (const rows of [side, 1]) {
        const cols = rows === 1 ? side : 1;
        const names = Array.from({ length: side }, String);
        const data = new Float32Array(side);
        map.draw({ ...base, rows, cols, data, rowWords: names, colWords: names });
        expect(styleOf('--every')).toBe(String(step));
        for (const place of ['.row-words', '.col-words']) {
          const labels = words(place).flatMap(([word]) => word || []);
          expect(labels.length, `${rows} ${cols}`).toBeLessThanOrEqual(44);
          expect(labels).toEqual(names.filter((_, i) => i % step === 0));
        }
      }
    // Where not all words fit, a label is never the later byte of a character.
    const bytes = Array.from({ length: 90 }, (_, i) => namePart('字', 1 + ((i + 2) % 3), 3));
    const column = { ...base, rows: 90, cols: 1, data: new Float32Array(90) };
    map.draw({ ...column, rowWords: bytes, colWords: ['w0'] });
    expect(words('.row-words').flatMap(([word]) => word || [])).toEqual(Array(30).fill('字'));
    // The word of the read row is there, in bold; its neighbors leave it room.
    const names = Array.from({ length: 90 }, (_, i) => `w${i}`);
    map.draw({ ...column, rowWords: names, colWords: ['w0'], boldRow: 31 });
    const labels = words('.row-words').flatMap(([word]) => word || []);
    expect([labels.length, labels.slice(9, 12)]).toEqual([30, ['w28', 'w31', 'w34']]);
    expect(one('.row-words .bold').textContent).toBe('w31');
    map.draw({
      ...base,
      rows: 3,
      cols: 1,
      rowWords: ['é', namePart('字', 2, 3), 'a'],
      colWords: ['é'],
    });
    expect(words('.row-words').map(([word]) => word)).toEqual(['é', namePart('字', 2, 3), 'a']);
    const hiddenClasses = [...document.querySelectorAll('[aria-hidden=true]')].map(
      (side) => side.className,
    );
    expect(hiddenClasses).toEqual(['row-words', 'col-words']);
  });

  it('cuts labels with a common prefix to where they differ', () => {
    expect(
      distinctLabels(['thousand', 'thousands', 'the', 'thought', 'through', '']),
    ).toMatchSnapshot();
    expect(
      distinctLabels(['layer.10.attention', 'layer.11.attention', 'layer.10.attention']),
    ).toEqual([...['…0.attention', '…1.attention', '…0.attention']]);
    expect(distinctLabels(['international'])).toEqual(['international']);
    const words = ['electricity', 'electrical'];
    const { one } = mapOf({ rows: 2, cols: 2, rowWords: words, colWords: words });
    const spans = [...one('.row-words').children] as HTMLElement[];
    expect(spans.map(({ textContent, title }) => [textContent, title])).toMatchSnapshot();
  });

  it('shows a remark below, if given', () => {
    const remark = { text: '◀ here', kind: 'sink' };
    const { map, one } = mapOf({ remark });
    const said = () => [
      one('.remark').textContent,
      one('.remark').className,
      one('.remark').hidden,
    ];
    expect(said()).toEqual(['◀ here', 'remark sink', false]);
    map.draw(base);
    expect(said()).toEqual(['', 'remark', true]);
    // On a map without a gray corner the remark is on cells.
    map.draw({ ...base, data: Float32Array.of(0, 0, 0, 0, 1, 0, 0, 0), remark });
    expect(said()).toEqual(['◀ here', 'remark sink covering', false]);
  });

  it('marks the chosen cell, row or column, and outlines others', () => {
    const chosenAt = (row: number, col: number) => mapOf({ chosen: { row, col } }).mark('.chosen');
    expect(chosenAt(1, 3)).toBe('75% 50% 25% 50%');
    expect(chosenAt(1, -1)).toBe('0% 50% 100% 50%');
    expect(chosenAt(-1, 3)).toBe('75% 0% 25% 100%');
    expect([chosenAt(0, -1), chosenAt(-1, 0)]).toEqual(['0% 0% 100% 50%', '0% 0% 25% 100%']);
    expect(chosenAt(0, 0)).toBe('0% 0% 25% 50%');
    expect([chosenAt(-1, -1), chosenAt(2, 0), chosenAt(0, 4)]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    const { map, root } = mapOf({
      outlined: [
        { row: 0, col: 1 },
        { row: 1, col: 2 },
      ],
    });
    const outlines = () =>
      [...root.querySelectorAll<HTMLElement>('.outlined')].map(({ style }) => style.left);
    expect(outlines()).toEqual(['25%', '50%']);
    map.draw({ ...base, outlined: [{ row: 1, col: 3 }] });
    expect(outlines()).toEqual(['75%']);
    map.draw(base);
    expect(outlines()).toEqual([]);
  });
});

describe('a reader of a heatmap', () => {
  it('points at a cell, which is marked and named until the pointer leaves', () => {
    const { pointer, onPoint, mark, said } = mapOf({ chosen: { row: 0, col: 2 } });
    expect([said(), mark('.lit')]).toEqual(['0,2', undefined]);
    pointer('pointermove', 31, 111);
    pointer('pointermove', 49, 119);
    expect([onPoint.mock.calls, said(), mark('.lit')]).toEqual([
      [[{ row: 1, col: 1 }]],
      '1,1',
      '25% 50% 25% 50%',
    ]);
    for (const [x, y] of [
      [9, 105],
      [91, 105],
      [50, 99],
      [50, 121],
    ] as const) {
      pointer('pointermove', 31, 111);
      pointer('pointermove', x, y);
      expect(onPoint).toHaveBeenLastCalledWith(undefined);
    }
    pointer('pointermove', 10, 100);
    expect(onPoint).toHaveBeenLastCalledWith({ row: 0, col: 0 });
    pointer('pointerleave', 0, 0);
    expect([said(), mark('.lit')]).toEqual(['0,2', undefined]);
  });

  it('selects and hovers a cell by a click inside the map', () => {
    const { pointer, onPoint, onChoose } = mapOf();
    pointer('click', 85, 105);
    expect([onChoose.mock.lastCall, onPoint.mock.lastCall]).toEqual([
      [{ row: 0, col: 3 }],
      [{ row: 0, col: 3 }],
    ]);
    pointer('click', 5, 105);
    expect(onChoose).toHaveBeenCalledTimes(1);
  });

  it('moves by the arrow keys from the selected cell, and selects by Enter or space', () => {
    const { key, onPoint, onChoose, onBeyond, plot, said } = mapOf({ chosen: { row: -1, col: 2 } });
    const lastCell = () => Object.values(onPoint.mock.lastCall![0]);
    expect([key('ArrowRight'), lastCell()]).toEqual([true, [0, 3]]);
    expect(onBeyond).not.toHaveBeenCalled();
    key('ArrowRight');
    expect(onPoint).toHaveBeenCalledTimes(1);
    expect(onBeyond.mock.calls).toEqual([[[0, 1]]]);
    expect([key('ArrowDown'), lastCell(), key('ArrowLeft'), lastCell()]).toEqual([
      true,
      [1, 3],
      true,
      [1, 2],
    ]);
    key('ArrowDown');
    expect([key('ArrowUp'), lastCell(), said()]).toEqual([true, [0, 2], '0,2']);
    expect([key('Enter'), key(' '), key('Tab')]).toEqual([true, true, false]);
    expect(onChoose.mock.calls).toEqual([[{ row: 0, col: 2 }], [{ row: 0, col: 2 }]]);
    plot.dispatchEvent(new Event('blur'));
    expect(onPoint).toHaveBeenLastCalledWith(undefined);
    for (const [name, cell] of [
      ['ArrowLeft', { row: 0, col: 0 }],
      ['ArrowRight', { row: 0, col: 1 }],
      ['ArrowDown', { row: 1, col: 0 }],
    ] as const) {
      const { key: press, onPoint: points } = mapOf();
      press(name);
      expect(points).toHaveBeenLastCalledWith(cell);
    }
    const unchosenMap = mapOf();
    expect([
      plot.tabIndex,
      plot.getAttribute('role'),
      plot.getAttribute('aria-roledescription'),
    ]).toEqual([0, 'application', 'matrix']);
    const live = () => unchosenMap.one('.readout').getAttribute('aria-live');
    const liveAfter = (event: string) => {
      unchosenMap.one('.heatmap').dispatchEvent(new Event(event));
      return live();
    };
    expect([live(), liveAfter('focus'), liveAfter('blur')]).toEqual([null, 'polite', null]);
  });

  it('sees the cell that is hovered in another view, unless this map is hovered', () => {
    const { map, mark, said, pointer } = mapOf();
    map.highlight({ row: 1, col: -1 });
    expect([said(), mark('.lit')]).toEqual(['1,-1', '0% 50% 100% 50%']);
    pointer('pointermove', 31, 101);
    map.highlight({ row: 0, col: 0 });
    expect(said()).toBe('0,1');
    pointer('pointerleave', 0, 0);
    expect([said(), mark('.lit')]).toEqual(['0,0', '0% 0% 25% 50%']);
    map.draw(base);
    expect(mark('.lit')).toBe('0% 0% 25% 50%');
    map.draw({ ...base, rows: 4, cols: 2 });
    expect(mark('.lit')).toBe('0% 0% 50% 25%');
    map.draw(base);
    map.highlight(undefined);
    expect([said(), mark('.lit')]).toEqual(['-1,-1', undefined]);
    const root = document.createElement('div');
    const onPoint = vi.fn();
    createHeatmap(root, { onPoint }).highlight({ row: 0, col: 0 });
    root.querySelector('.heatmap')!.dispatchEvent(new MouseEvent('pointermove'));
    root.querySelector('.heatmap')!.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
    expect(onPoint).not.toHaveBeenCalled();
    expect(root.querySelectorAll('.mark[hidden]')).toHaveLength(2);
  });
});

describe('the legend of a scale', () => {
  it('shows the colors between its ends, and is redrawn when an end changes', () => {
    const root = document.createElement('div');
    drawLegend(root, diverging('light', 2), ['-2', '2']);
    const [bar] = root.querySelectorAll<HTMLElement>('.legend-bar');
    expect(root.textContent).toBe('-22');
    const colors = bar!.style.background.match(/rgb\([^)]*\)/g)!;
    expect([colors.length, colors[0], colors[23]]).toEqual([24, 'rgb(18 63 115)', 'rgb(124 46 7)']);
    drawLegend(root, diverging('light', 2), ['-2', '2']);
    expect(root.querySelector('.legend-bar')).toBe(bar);
    drawLegend(root, diverging('light', 2), ['-2', '+2']);
    expect([root.textContent, root.className]).toEqual(['-2+2', 'legend']);
    const oldBar = root.querySelector('.legend-bar');
    drawLegend(root, diverging('dark', 2), ['-2', '+2']);
    expect(root.querySelector('.legend-bar')).not.toBe(oldBar);
  });

  it('shows numbers on a diverging or sequential bar, in whole percent', () => {
    const root = document.createElement('div');
    const words = () => [...root.querySelectorAll('.tick')].map((tick) => tick.textContent);
    drawLegend(root, diverging('light', 0.29), ['-29%', '+29%']);
    drawScale(root, diverging('light', 0.29));
    // 100 × 0.29 is a little less than 29.
    expect([words(), root.className]).toEqual([['−29%', '0', '29%'], 'scale']);
    drawScale(root, sequential('light'));
    expect(words()).toEqual(['0', '25%', '50%', '75%', '100%']);
    drawLegend(root, diverging('light', 0.29), ['-29%', '+29%']);
    expect([words(), root.className]).toEqual([[], 'legend']);
  });
});
