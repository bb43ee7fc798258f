// @vitest-environment happy-dom
/** Marks of charts: a chart without a layout is 340 pixels wide, its axes from 46 to 330 and from 144 up to 22. */
import { describe, expect, it, vi } from 'vitest';

const resizeObserver = vi.hoisted(() => {
  const observed = { places: [] as Element[], resize: (_: object[]) => {} };
  vi.stubGlobal(
    'ResizeObserver',
    class {
      constructor(resize: (entries: object[]) => void) {
        observed.resize = resize;
      }
      observe(place: Element) {
        observed.places.push(place);
      }
    },
  );
  return observed;
});
import { drawChart, type ChartData, type Series } from '../src/plot/chart';

const line = (values: number[], more: Partial<Series> = {}): Series => ({
  name: 'a',
  color: '--sink',
  values,
  ...more,
});

function chartOf(series: Series[], more: Partial<ChartData> = {}) {
  const root = document.createElement('div');
  const base = { kind: 'lines', xLabel: 'x', yLabel: 'y', label: 'A chart.' } as const;
  drawChart(root, { ...base, series, ...more });
  const all = (selector: string) => [...root.querySelectorAll(selector)];
  const texts = (anchor: string) =>
    all(`text[text-anchor="${anchor}"]:not(.axis)`).map((element) => element.textContent!.trim());
  return {
    root,
    paths: all('path.line').map((path) => path.getAttribute('d')),
    marks: (selector: string, ...names: string[]) =>
      all(selector).map((element) => names.map((name) => Number(element.getAttribute(name)))),
    yTicks: texts('end'),
    xTicks: texts('middle'),
    texts: all('text'),
  };
}

it('lines can have their names beside them instead of in the legend, which keeps faint ones', () => {
  const series = [
    line([0, 60], { name: 'softmax' }),
    line([0, 0], { name: 'sigmoid', color: '--query' }),
    line([0, 30], { name: 'other', faint: true }),
  ];
  const { root, marks } = chartOf(series, { named: true });
  const names = [...root.querySelectorAll('.name')];
  expect(names.map(({ textContent }) => textContent!.trim())).toEqual(['sigmoid', 'softmax']);
  expect(root.querySelector('.chart-key')!.textContent!.trim()).toBe('other');
  // Names are above their lines and do not overlap.
  const [[low], [high]] = marks('.name', 'y') as [[number], [number]];
  expect(low - high).toBeGreaterThan(14);
  expect(chartOf(series).root.querySelectorAll('.name')).toHaveLength(0);
  // Of lines that have just begun, in the planned range, the names are at the right, in the order of the lines.
  const early = chartOf([line([0, 0.4], { name: 'a' }), line([0, 0.2], { name: 'b' })], {
    ...{ named: true, domain: [0, 1], xDomain: [0, 100] },
  });
  const [[x, y], [x2, y2]] = early.marks('.name', 'x', 'y') as [number[], number[]];
  expect([x! < 100, x2 === x, y! - y2!]).toEqual([true, true, expect.closeTo(24.4, 0)]);
});

it('the legend has the names of lines that have no room beside them', () => {
  const levels = Array.from({ length: 12 }, (_, i) =>
    line([i, i + 0.5], { name: `a line with a long name ${i}` }),
  );
  const { root, marks } = chartOf(levels, { named: true });
  const besideLines = [...root.querySelectorAll('.name')].map(({ textContent }) => textContent);
  const inLegend = [...root.querySelectorAll('.chart-key span')].map((one) => one.textContent);
  expect(inLegend.length).toBeGreaterThan(0);
  expect([...besideLines, ...inLegend].map((one) => one!.trim()).sort()).toEqual(
    levels.map(({ name }) => name).sort(),
  );
  const heights = marks('.name', 'y')
    .flat()
    .sort((a, b) => a! - b!);
  heights.slice(1).forEach((y, i) => expect(y! - heights[i]!).toBeGreaterThan(5));
});

it('a level keeps its name where lines are everywhere around it', () => {
  const level = line([0.5, 0.5], { name: 'a level', dash: '3,3' });
  const others = Array.from({ length: 40 }, (_, i) => line([i / 40, i / 40], { name: '' }));
  const { root } = chartOf([...others, level], { named: true });
  expect([...root.querySelectorAll('.name')].map(({ textContent }) => textContent)).toContain(
    'a level',
  );
});

it('a name is next to its line, also where there is more room farther away', () => {
  const levels = [4, 0].map((y) => line([y, y], { name: `level ${y}`, places: [0, 9] }));
  const curve = line([4, 2, 1.5, 1.2, 1, 1, 1, 1, 1, 1], { name: 'curve' });
  const { marks, paths } = chartOf([levels[0]!, curve, levels[1]!], { named: true });
  const lineAt = (i: number) => Number(/^M[^,]+,([\d.]+)/.exec(paths[i]!)![1]);
  const [[lowest], , [highest]] = marks('.name', 'y') as [[number], [number], [number]];
  expect(Math.abs(lowest - 4 - lineAt(2))).toBeLessThan(12);
  expect(Math.abs(highest - 4 - lineAt(0))).toBeLessThan(12);
});

it('names stand on no line and on no other name', () => {
  const steep = line([0, 0, 0, 9, 9, 9], { name: 'steep' });
  const falling = line([9, 8, 6, 5, 4, 3], { name: 'falling', color: '--query' });
  const near = line([9, 8, 6, 5, 4, 4], { name: 'near', color: '--key' });
  const { marks, paths } = chartOf([steep, falling, near], { named: true });
  const boxes = marks('.name', 'x', 'y').map(([x, y]) => ({ x: x! + 20, y: y! - 4 }));
  const apart = (dx: number, dy: number) => Math.abs(dx) > 20 || Math.abs(dy) > 7;
  expect(boxes).toHaveLength(3);
  boxes.forEach(({ x, y }, i) =>
    expect(boxes.every((other, j) => i === j || apart(other.x - x, other.y - y))).toBe(true),
  );
  for (const path of paths as string[]) {
    const points = path
      .split(/[ML]/)
      .slice(1)
      .map((point) => point.split(',').map(Number));
    points.slice(1).forEach(([x1, y1], i) => {
      const [x0, y0] = points[i] as [number, number];
      for (let t = 0; t <= 1; t += 1 / 64)
        for (const { x, y } of boxes)
          expect(apart(x0 + t * (x1! - x0) - x, y0 + t * (y1! - y0) - y)).toBe(true);
    });
  }
});

describe('points', () => {
  it('are drawn side by side above their label, one shape per series, without lines', () => {
    const twoSeries = [line([1, 2], { spread: [0.5, NaN] }), line([4, 3], { color: '--query' })];
    const { root, paths, marks, xTicks } = chartOf(twoSeries, {
      kind: 'points',
      xNames: ['first', 'other'],
    });
    const points = [...root.querySelectorAll('.chart-picture .point')];
    expect(paths).toEqual([]);
    expect(points.map((element) => element.getAttribute('style'))).toMatchSnapshot();
    // The two points at an x are 0.08 units apart, and the margins are 0.4 units, so that 284 pixels hold 1.88
    // places. A unit is 30.5 pixels high.
    const xOf = (at: number) => 46 + (284 * (0.44 + at)) / 1.88;
    const positions = points.map((one) =>
      one
        .getAttribute('transform')!
        .match(/[\d.]+/g)!
        .map(Number),
    );
    [
      [-0.04, 1],
      [0.96, 2],
      [0.04, 4],
      [1.04, 3],
    ].forEach(([at, value], i) => {
      expect(positions[i]![0]).toBeCloseTo(xOf(at!), 0);
      expect(positions[i]![1]).toBeCloseTo(144 - 30.5 * value!, 1);
    });
    expect(marks('.spread', 'y1', 'y2')).toHaveLength(1);
    expect(xTicks).toEqual(['first', 'other']);
    const names = marks('text[text-anchor="middle"]', 'x').flat();
    names.forEach((x, at) => expect(x).toBeCloseTo(xOf(at), 1));
    expect(names).toHaveLength(2);
    const threeSeries = ['--sink', '--query', '--key'].map((color) => line([1, 2], { color }));
    const pointsOfThree = chartOf(threeSeries, { kind: 'points' }).root.querySelectorAll(
      '.chart-picture .point',
    );
    const [first, second, third] = [0, 2, 4].map((i) =>
      Number(/[\d.]+/.exec(pointsOfThree[i]!.getAttribute('transform')!)![0]),
    );
    // The three points of a place span 0.16 places, so that 284 pixels hold 1.96 places.
    expect(second! - first!).toBeCloseTo((284 * 0.08) / 1.96, 0);
    expect(third! - first!).toBeCloseTo((284 * 0.16) / 1.96, 0);
    const shapes = (selector: string) =>
      [...root.querySelectorAll(selector)].map((element) => element.getAttribute('d'));
    expect(new Set(shapes('.chart-picture .point')).size).toBe(2);
    expect(shapes('.chart-key .point')).toEqual([...new Set(shapes('.chart-picture .point'))]);
  });
});

describe('lines', () => {
  it('go through their values, each with a dot, over ticks and a grid', () => {
    // The axis ends at 4: a unit is 122 / 4 = 30.5 pixels.
    const { paths, marks, yTicks, xTicks, texts } = chartOf([line([0, 1, 4])]);
    expect(paths).toEqual(['M46.0,144.0L188.0,113.5L330.0,22.0']);
    expect(marks('circle', 'cx', 'cy', 'r')).toEqual([
      [46, 144, 2.4],
      [188, 113.5, 2.4],
      [330, 22, 2.4],
    ]);
    expect(yTicks).toEqual(['0', '1', '2', '3', '4']);
    expect(xTicks).toEqual(['0', '1', '2']);
    expect(marks('.grid', 'x1', 'x2', 'y1', 'y2')).toEqual(
      [144, 113.5, 83, 52.5, 22].map((y) => [42, 330, y, y]),
    );
    expect([texts[1]!.getAttribute('x'), texts[1]!.getAttribute('y')]).toEqual(['37', '117']);
    expect(texts[5]!.getAttribute('y')).toBe('158');
    const [yAxis, xAxis] = texts.slice(-2);
    expect([yAxis!.textContent, yAxis!.getAttribute('x')]).toEqual(['y', '4']);
    expect([xAxis!.textContent!.trim(), xAxis!.getAttribute('x')]).toEqual(['x', '330']);
    expect(xAxis!.getAttribute('y')).toBe('173');
  });

  it('have error bars where there is a spread, and the axis has room for them', () => {
    const { marks, yTicks } = chartOf([line([0, 3, 2, 1], { spread: [0, 1, NaN, 2] })]);
    expect(yTicks.at(-1)).toBe('4');
    expect(marks('.spread', 'x1', 'x2', 'y1', 'y2')).toEqual([
      [46, 46, 144, 144],
      [46 + 284 / 3, 46 + 284 / 3, 83, 22],
      [330, 330, 144, 52.5],
    ]);
  });

  it('break where a value is missing, or not positive on a logarithmic axis', () => {
    expect(chartOf([line([0, 4, NaN, 4, 0])]).paths).toMatchSnapshot();
    const log = chartOf([line([1, 10, 0, 100])], { log: true });
    expect(log.paths).toEqual(['M46.0,144.0L140.7,83.0M330.0,22.0']);
    expect(log.yTicks).toEqual(['1', '10', '100', '2', '5', '20', '50']);
    expect(chartOf([line([NaN, 2])]).paths).toEqual(['M188.0,22.0']);
    expect(chartOf([line([NaN])]).paths).toEqual(['M0,0']);
  });

  it('have error bars on a logarithmic axis, cut at its end where they reach 0', () => {
    const { marks } = chartOf([line([1, 10, 50], { spread: [0, 10, 50] })], { log: true });
    const [low, middle, high] = marks('.spread', 'y1', 'y2');
    expect(low).toEqual([144, 144]);
    expect(middle![0]).toBe(144);
    expect(middle![1]).toBeCloseTo(144 - 61 * Math.log10(20));
    expect(high).toEqual([144, 22]);
    const [firstBar] = chartOf([line([10, 100], { spread: [9, 0] })], { log: true }).marks(
      '.spread',
      'y1',
      'y2',
    );
    expect(firstBar![0]).toBe(144);
    expect(firstBar![1]).toBeCloseTo(144 - 122 * Math.log10(1.9));
  });

  it('start at the given x, or have x values of their own', () => {
    expect(chartOf([line([0, 4])], { from: 5 }).xTicks[0]).toBe('5');
    const { paths, xTicks } = chartOf([line([0, 4, 2], { places: [0, 1, 4] })]);
    expect(paths).toEqual(['M46.0,144.0L117.0,22.0L330.0,83.0']);
    expect(xTicks).toEqual(['0', '1', '2', '3', '4']);
  });

  it('have no dots from forty values on, or if the caller turns dots off', () => {
    const dotCount = (count: number, more?: Partial<ChartData>) =>
      chartOf([line(Array.from({ length: count }, (_, i) => i))], more).marks('circle').length;
    expect([
      dotCount(39),
      dotCount(40),
      dotCount(3, { dots: false }),
      dotCount(3, { dots: true }),
    ]).toEqual([39, 0, 0, 3]);
    const manySeries = Array.from({ length: 16 }, () => line(Array.from({ length: 25 }, () => 1)));
    expect(chartOf(manySeries.slice(1)).marks('circle')).toHaveLength(375);
    expect(chartOf(manySeries).marks('circle')).toHaveLength(0);
  });

  it('are thinner and last in the legend if faint, and the legend shows dashes if lines differ in them', () => {
    const faintChart = chartOf([line([1, 2], { name: 'weak', faint: true }), line([2, 1])]);
    expect(faintChart.marks('circle.faint', 'r')).toEqual([[1.6], [1.6]]);
    expect(faintChart.root.querySelectorAll('path.line.faint')).toHaveLength(1);
    const names = (one: typeof faintChart) =>
      [...one.root.querySelectorAll('.chart-key span')].map((name) => name.textContent!.trim());
    expect(names(faintChart)).toEqual(['a', 'weak']);
    const orderedChart = chartOf([
      line([1], { name: 'x' }),
      line([1], { faint: true }),
      line([1], { name: 'y' }),
    ]);
    expect(names(orderedChart)).toEqual(['x', 'y', 'a']);
    expect(faintChart.root.querySelector('.sample')).toBeNull();
    const faintDashes = { dash: '3,3', faint: true, name: 'b' };
    const dashed = chartOf([line([1, 2]), line([2, 1], faintDashes)]);
    expect(dashed.root.querySelectorAll('.sample')).toHaveLength(2);
    expect(dashed.root.querySelectorAll('.sample path.faint')).toHaveLength(1);
    expect(dashed.root.querySelector('.chart-picture [stroke-dasharray]')).toBeTruthy();
    // Two lines of one model have one name; two models with the same name differ in their colors.
    expect(names(chartOf([line([1]), line([2], { dash: '3,3' })]))).toEqual(['a']);
    expect(names(chartOf([line([1]), line([2], { color: '--other' })]))).toEqual(['a', 'a']);
  });

  it('have a band over the range of other values, which the axis includes', () => {
    const band = { low: [1, 1, NaN], high: [2, 4, 3] };
    const { root, yTicks, marks } = chartOf([line([1, 2, 3], { band })]);
    expect(root.querySelector('path.band')!.getAttribute('d')).toMatchSnapshot();
    expect(yTicks.at(-1)).toBe('4');
    expect(marks('circle')).toHaveLength(0);
    // A band needs adjacent values.
    const gap = chartOf([line([NaN, 2, 4], { band: { low: [0, 1, 2], high: [3, 4, 4] } })]);
    expect(gap.root.querySelector('path.band')!.getAttribute('d')).toMatch(/^M46.0,22.0L330.0,22/);
    const log = chartOf([line([1, 10], { band: { low: [0, 10], high: [10, 100] } })], {
      log: true,
    });
    expect(log.root.querySelector('path.band')!.getAttribute('d')).toMatchSnapshot();
    const shifted = chartOf([line([0, 4], { band: { low: [0, 2], high: [2, 4] } })], { from: 3 });
    expect(shifted.root.querySelector('path.band')!.getAttribute('d')).toMatchSnapshot();
    const placed = line([0, 4], { places: [2, 9], band: { low: [0, 2], high: [2, 4] } });
    expect(chartOf([placed]).root.querySelector('path.band')!.getAttribute('d')).toMatchSnapshot();
  });
});

describe('bars', () => {
  it('stand side by side on 0 and take three quarters of their width', () => {
    // With a margin of 0.6 places on both sides, 284 pixels hold 3.2 places of 88.75.
    const { marks } = chartOf([line([2, 4, -4])], { kind: 'bars' });
    expect(marks('rect', 'x', 'width', 'y', 'height')).toEqual([
      [65.5, 67.5, 52.5, 30.5],
      [154.3, 67.5, 22, 61],
      [243, 67.5, 83, 61],
    ]);
    expect(marks('circle')).toEqual([]);
  });

  it('are at least a pixel wide, and have lines over them', () => {
    const { marks, paths } = chartOf([line(Array.from({ length: 500 }, () => 1)), line([1, 1])], {
      kind: 'bars',
    });
    expect(new Set(marks('rect', 'width').flat())).toEqual(new Set([1]));
    expect(paths).toHaveLength(1);
  });

  it('have legend entries without dashes', () => {
    const { root } = chartOf([line([1]), line([1], { dash: '2,2' })], { kind: 'bars' });
    expect(root.querySelector('.sample')).toBeNull();
  });
});

describe('axes', () => {
  it('begin at 0, below it for negative values, and near the values on request', () => {
    expect(chartOf([line([2, 4])]).yTicks[0]).toBe('0');
    expect(chartOf([line([-2, 4])]).yTicks[0]).toBe('−2');
    const slightlyNegative = chartOf([line([-0.1, 4])]);
    expect(slightlyNegative.yTicks[0]).toBe('0');
    expect(slightlyNegative.paths[0]).toMatch(/^M46.0,147.[01]L/);
    expect(chartOf([line([-0.12, 4])]).yTicks[0]).not.toBe('0');
    expect(chartOf([line([2, 4])], { tight: true }).yTicks).toEqual(['2', '2.5', '3', '3.5', '4']);
    expect(chartOf([line([-0.01, 4])], { tight: true }).paths[0]).not.toMatch(/,144.[1-9]/);
    expect(chartOf([line([0, 0])]).yTicks.at(-1)).toBe('1');
  });

  it('begin or end at 0 for a single value', () => {
    expect(chartOf([line([-0.1407191])]).yTicks).toEqual(['−0.15', '−0.1', '−0.05', '0']);
    expect(chartOf([line([0.14], { places: [-1] })], { tight: true }).yTicks[0]).toBe('0');
  });

  it('give near values different labels, and hide the rounding of sums', () => {
    for (const [values, more] of [
      [[1.001, 1.004], {}],
      [[0.5001, 0.5004], { percent: true }],
      [[2000.5, 2001], {}],
      [[0.1, 0.3], {}],
    ] as const) {
      const { yTicks } = chartOf([line([...values])], { tight: true, ...more });
      expect(yTicks.length).toBeGreaterThan(2);
      expect(new Set(yTicks).size).toBe(yTicks.length);
      for (const tick of yTicks) expect(tick.length, tick).toBeLessThan(10);
    }
  });

  it('draw rounding errors as a flat line between labels that differ', () => {
    for (const more of [{ log: true }, { tight: true }, {}]) {
      const sign = 'log' in more || 'tight' in more ? 1 : -1;
      const noise = [3.999999, 4.000001, 4, 4.0000005].map((value) => sign * value);
      const { yTicks, marks } = chartOf([line(noise)], more);
      const heights = marks('circle', 'cy').flat();
      expect(Math.max(...heights) - Math.min(...heights)).toBeLessThan(0.2);
      expect(Math.abs(heights[0]! - 83)).toBeLessThan(31);
      expect([yTicks.length > 1, new Set(yTicks).size]).toEqual([true, yTicks.length]);
      for (const tick of yTicks) expect(tick.length, tick).toBeLessThan(8);
    }
    // A difference of more than a thousandth fills the height.
    const heights = chartOf([line([4, 4.01])], { log: true })
      .marks('circle', 'cy')
      .flat();
    expect(heights).toEqual([144, 22]);
  });

  it('have labels that equal their ticks, also from ten thousand on', () => {
    expect(chartOf([line([0, 15_000])]).yTicks).toEqual(['0', '5k', '1e+4', '1.5e+4']);
    const { yTicks } = chartOf([line([12_000, 12_500])], { log: true });
    expect([yTicks.length > 2, new Set(yTicks).size]).toEqual([true, yTicks.length]);
  });

  it('include the range that the caller requests', () => {
    expect(chartOf([line([1, 2])], { domain: [0, 8] }).yTicks.at(-1)).toBe('8');
    expect(chartOf([line([1, 12])], { domain: [0, 8] }).yTicks.at(-1)).toBe('12');
  });

  it('are drawn even without values', () => {
    expect(chartOf([line([])]).yTicks).toEqual(['0', '0.2', '0.4', '0.6', '0.8', '1']);
    expect(chartOf([line([])], { log: true }).yTicks).toContain('0.1');
    expect(chartOf([line([])]).xTicks).toEqual(['0', '1']);
  });

  it('of training are linear up to step 100 and logarithmic above', () => {
    const places = [0, 100, 400, 4000];
    const { xTicks, marks } = chartOf([line([0, 1, 1, 1], { places })], { steps: true });
    expect(xTicks).toEqual(['0', '100', '400', '1,000', '2,000', '4,000']);
    // A step x is at log(1 + x / 100), and the last one, 4000, at log(41).
    const xOf = (x: number) => 46 + (284 * Math.log(1 + x / 100)) / Math.log(41);
    marks('circle', 'cx').forEach(([cx], i) => expect(cx).toBeCloseTo(xOf(places[i]!), 1));
    expect(
      chartOf([line([1], { places: [100_000] })], { steps: true }).xTicks.at(-1),
    ).toMatchSnapshot();
  });

  it('have a tick at each length if lengths double, evenly spaced', () => {
    const { xTicks, marks } = chartOf([line([1, 2, 3], { places: [16, 64, 1024] })], {
      doubling: true,
    });
    expect(xTicks).toEqual(['16', '64', '1.024k']);
    expect(marks('circle', 'cx').flat()).toEqual([46, 140.7, 330]);
  });

  it('have a tick at each integer place, or at every tenth of many', () => {
    expect(chartOf([line([1, 2])]).xTicks).toEqual(['0', '1']);
    const { xTicks } = chartOf([line(Array.from({ length: 100 }, (_, i) => i))]);
    expect(xTicks).toEqual(['0', '10', '20', '30', '40', '50', '60', '70', '80', '90']);
    // A tick for each 48 pixels: seven in 340, which are 2 apart up to 22 and 5 apart from there on.
    const firstTicks = (n: number) =>
      chartOf([line(Array.from({ length: n + 1 }, (_, i) => i))]).xTicks.slice(0, 2);
    expect([firstTicks(22), firstTicks(24)]).toMatchSnapshot();
  });

  it('write numbers in their shortest form', () => {
    expect(chartOf([line([0, 0.4])], { percent: true }).yTicks).toContain('20%');
    expect(chartOf([line([0, 4000])]).yTicks).toEqual(['0', '1k', '2k', '3k', '4k']);
    expect(chartOf([line([0, 40_000])]).yTicks.at(-1)).toBe('4e+4');
    expect(
      chartOf([line([0, 1]), line([0, 1], { places: [1000, 1500] })], { doubling: true }).xTicks.at(
        -1,
      ),
    ).toBe('1.5k');
    expect(chartOf([line([0.1234, 0.1236])], { tight: true }).yTicks[0]).toBe('0.1234');
    expect(chartOf([line([0, 10_000])]).yTicks.at(-1)).toBe('1e+4');
  });

  it('are lower, with fewer ticks, in a small chart, and longer without a label below', () => {
    const small = chartOf([line([0, 4])], { height: 100 });
    expect(small.yTicks).toEqual(['0', '2', '4']);
    expect(chartOf([line([0, 7])], { height: 100 }).yTicks).toEqual(['0', '5', '10']);
    expect(small.paths).toEqual(['M46.0,68.0L330.0,22.0']);
    expect(chartOf([line([0, 4])], { height: 110 }).yTicks).toHaveLength(5);
    expect(chartOf([line([0, 7])], { height: 110 }).yTicks).toEqual(['0', '2', '4', '6', '8']);
    expect(chartOf([line([0, 4])], { xLabel: '' }).paths).toEqual(['M46.0,157.0L330.0,22.0']);
  });
});

it('keeps its elements when its values change', () => {
  const { root } = chartOf([line([0, 1, 4]), line([2, 2, 2])]);
  const elements = [...root.querySelectorAll('svg, path')];
  drawChart(root, {
    ...{ kind: 'lines', xLabel: 'x', yLabel: 'y', label: 'A chart.' },
    series: [line([4, 1, 0]), line([1, 2, 3])],
  });
  expect([...root.querySelectorAll('svg, path')]).toEqual(elements);
  expect(elements.map((element) => root.contains(element))).not.toContain(false);
});

describe('a chart whose width changes', () => {
  it('is redrawn once per width, and never narrower than is readable', () => {
    const { root } = chartOf([line([0, 1, 4])]);
    let drawings = 0;
    drawChart(root, {
      ...{ kind: 'lines', xLabel: '', yLabel: '', label: '' },
      get series() {
        drawings++;
        return [line([0, 1, 4])];
      },
    });
    expect(resizeObserver.places.filter((place) => place === root)).toHaveLength(1);
    const resize = (width: number) => {
      drawings = 0;
      resizeObserver.resize([{ target: root, contentRect: { width } }]);
      return [drawings > 0, root.querySelector('svg')!.getAttribute('viewBox')];
    };
    // A hidden chart is measured with width 0, and keeps its last width.
    expect([499.6, 500.4, 0, 100, 700, 700].map(resize)).toMatchSnapshot();
    resizeObserver.resize([{ target: document.createElement('p'), contentRect: { width: 300 } }]);
  });
});

it('marks points with words at the left above them, or where these keep away from the lines', () => {
  const mark = (x: number, y: number, text = 'here') => ({ x, y, text, color: '--sink' });
  const { root, marks } = chartOf([line([0, 2, 4])], {
    marks: [mark(1, 2), mark(2, 4), mark(0, 0)],
  });
  expect(marks('.ring', 'cx', 'cy')).toEqual([
    [188, 83],
    [330, 22],
    [46, 144],
  ]);
  expect(marks('.ring-words', 'x', 'y')).toEqual([
    [178, 75],
    [320, 14],
    [56, 114],
  ]);
  const anchors = [...root.querySelectorAll('.ring-words')].map((words) =>
    words.getAttribute('text-anchor'),
  );
  expect(anchors).toEqual(['end', 'end', 'start']);
  // Words without room at the left of a point from which the line falls.
  const long = mark(1, 3, 'a sink by step 1,000');
  const fallen = chartOf([line([0, 3, 2, 4])], { marks: [long] });
  expect(fallen.marks('.ring-words', 'x', 'y')).toEqual([[150.7, 44.5]]);
  expect(chartOf([line([0, 1])]).root.querySelectorAll('.ring')).toHaveLength(0);
  // Two words that have room in one place alone: the second mark is a ring.
  const wide = 'w'.repeat(40);
  const both = chartOf([line([0, 2, 4])], { marks: [mark(1, 2, wide), mark(1, 2.2, wide)] });
  expect(both.marks('.ring', 'cx')).toHaveLength(2);
  expect(both.marks('.ring-words', 'x')).toHaveLength(1);
});

describe('a cursor', () => {
  it('is drawn at its place, with its label on the side that has room', () => {
    const cursorOf = (cursor: number) => {
      const { root, marks } = chartOf([line([0, 1, 4])], { cursor, cursorWords: 'here' });
      const text = [...root.querySelectorAll('text')].find(
        (element) => element.textContent === 'here',
      );
      const at = marks('.cursor', 'x1', 'x2', 'y1', 'y2');
      return {
        at,
        x: text?.getAttribute('x'),
        y: text?.getAttribute('y'),
        anchor: text?.getAttribute('text-anchor'),
      };
    };
    expect(cursorOf(0)).toEqual({ at: [[46, 46, 18, 144]], x: '51', y: '26', anchor: 'start' });
    expect(cursorOf(2)).toEqual({ at: [[330, 330, 18, 144]], x: '325', y: '26', anchor: 'end' });
    expect([cursorOf(0.8).anchor, cursorOf(0.9).anchor]).toEqual(['start', 'end']);
    expect(cursorOf(NaN).at).toEqual([]);
  });
});

describe('a reader of a chart', () => {
  it('selects a point by a click', () => {
    const onChoose = vi.fn();
    const { root } = chartOf([line([0, 1, 4])], { onChoose });
    const picture = root.querySelector('svg')!;
    expect(picture.classList).toContain('choosable');
    picture.getBoundingClientRect = () => new DOMRect(10, 0, 170, 88);
    // The picture is shown at half its size: 94 pixels from its left edge are 188 of 340.
    picture.dispatchEvent(new MouseEvent('click', { clientX: 104 }));
    expect(onChoose).toHaveBeenCalledExactlyOnceWith(1);
    expect(chartOf([line([1])]).root.querySelector('.choosable')).toBeNull();
  });

  it('gets a description of the chart for screen readers', () => {
    const picture = chartOf([line([1])]).root.querySelector('svg')!;
    expect([picture.getAttribute('role'), picture.getAttribute('aria-label')]).toMatchSnapshot();
  });
});
