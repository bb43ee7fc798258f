/**
 * All that a view or a part of the page shows, as lines of text for a snapshot: elements, maps with the readout of each
 * cell, charts, numbers, and what the reader's actions request. A test that draws views mocks the plots by `plots()`.
 */
import { expect } from 'vitest';
import { selectedHead, type Frame, type Head } from '../src/frame';
import { defaults } from '../src/ask/state';
import type { View } from '../src/page/view';
import { chartsIn, drawView, mapsIn, type Options } from './drawn';

type Drawn = ReturnType<typeof drawView>;

/** A longer list is shown by its ends and its sum. */
const LONGEST = 32;
/** Readouts that do not end in the cell's number: of a share, a block, a key in a cache, a step to come. */
const ENDS_OTHERWISE = /of row sum|, largest|evicted at|stays|forgotten|NaN, “”$/;
/** The palette, which `plot.test` compares. */
const PALETTE = new Set(['colors', 'hidden', 'hatch']);

const isList = (value: unknown): value is ArrayLike<number> =>
  Array.isArray(value) || ArrayBuffer.isView(value);

function textOf(value: unknown): string {
  if (typeof value === 'number') return String(Number(value.toPrecision(5)));
  if (typeof value === 'string') return value;
  if (isList(value)) {
    const list = Array.from(value, textOf);
    if (list.length <= LONGEST) return `[${list.join(' ')}]`;
    const sum = Array.from(value).reduce((total, x) => total + (Number.isNaN(x) ? 0 : x), 0);
    const ends = [...list.slice(0, 4), '...', ...list.slice(-4)].join(' ');
    return `[${ends}] n = ${list.length}, sum ${textOf(sum)}`;
  }
  if (!value || typeof value !== 'object') return String(value);
  const fields = Object.entries(value).filter(
    ([name, field]) => field !== undefined && typeof field !== 'function' && !PALETTE.has(name),
  );
  return `{${fields.map(([name, field]) => `${name}: ${textOf(field)}`).join(', ')}}`;
}

/** What a reader, a pointer or a screen reader can tell of an element. */
const ATTRIBUTES = [
  ...['role', 'aria-label', 'aria-pressed', 'aria-selected', 'aria-valuetext', 'tabindex', 'title'],
  ...['href', 'min', 'max', 'disabled', 'data-busy'],
];

/** The elements and their own texts. */
function pageOf(element: Element, indent = ''): string[] {
  const { className, hidden, style } = element as HTMLElement;
  const attributes = ATTRIBUTES.filter((name) => element.hasAttribute(name)).map(
    (name) => `${name}="${element.getAttribute(name)}"`,
  );
  const own = [...element.childNodes]
    .filter(({ nodeType }) => nodeType === Node.TEXT_NODE)
    .map(({ textContent }) => textContent!.replace(/\s+/g, ' ').trim())
    .filter(Boolean)
    .join(' ');
  const shownStyle = style?.cssText?.replace(/background: .*?;/, '');
  const { value, checked, open } = element as HTMLInputElement & HTMLDetailsElement;
  const state = [
    element.matches('input, select') && `value="${value}"`,
    checked && 'checked',
    element.localName === 'details' && open && 'open',
    hidden && 'hidden',
  ];
  const parts = [element.localName, className, ...attributes, shownStyle, ...state, own];
  return [
    indent + parts.filter(Boolean).join(' '),
    ...[...element.children].flatMap((child) => pageOf(child, `${indent}  `)),
  ];
}

/** The page, maps and charts of a drawn view, as they are. */
export function pictureOf(drawn: Drawn): string {
  const lines = [...pageOf(drawn.root)];
  for (const { data } of mapsIn(drawn.root)) {
    const { data: values, rows, cols, describe, ...more } = data;
    lines.push(`map ${rows} x ${cols} ${textOf(more)}`);
    if (rows * cols <= LONGEST)
      for (let row = -1; row < rows; row++) {
        const cells = Array.from({ length: cols + 1 }, (_, col) => ({ row, col: col - 1 }));
        const numbers = textOf(values.slice(row * cols, (row + 1) * cols));
        lines.push(`  ${row < 0 ? '' : numbers} ${cells.map(describe).join(' | ')}`);
      }
    else lines.push(`  ${textOf(values)} ${describe({ row: 0, col: 1 })}`);
  }
  for (const { series, ...more } of chartsIn(drawn.root))
    lines.push(`chart ${textOf(more)}`, ...series.map((one) => `  line ${textOf(one)}`));
  expect(drawn.wrong().filter((readout) => !ENDS_OTHERWISE.test(readout))).toEqual([]);
  return lines.join('\n');
}

/** What the view requests when the reader points at its maps, clicks them, its charts and its buttons. */
function requestsOf({ root, set, point, pointed, all }: Drawn): string[] {
  const lines: string[] = [];
  const requests = (name: string, act: () => void) => {
    set.mockClear();
    point.mockClear();
    act();
    const made = [...set.mock.calls, ...point.mock.calls].flat();
    if (made.length) lines.push(`${name} -> ${made.map(textOf).join(' ')}`);
  };
  for (const map of mapsIn(root)) {
    const { onPoint, onChoose, onExtend, onBeyond } = map.events;
    const [low, high] = [
      { row: map.data.rows - 1, col: 0 },
      { row: 0, col: map.data.cols - 1 },
    ];
    requests('pointer', () => [low, undefined].forEach((cell) => onPoint?.(cell)));
    for (const cell of [low, high]) requests('cell', () => onChoose?.(cell));
    requests('extension', () => onExtend?.(high, low));
    for (const step of [
      [1, 0],
      [-1, 1],
    ] as const)
      requests('arrow', () => onBeyond?.(step));
    const targets = [
      { query: 0 },
      { key: 0 },
      { query: 1, key: 0 },
      { layer: 0 },
      { head: 1, layer: 1 },
      {},
    ];
    const lit = targets.map((target) => {
      pointed.value = target;
      return textOf(map.lit);
    });
    lines.push(`lit ${lit.join(' ')}`);
  }
  for (const { onChoose } of chartsIn(root)) requests('chart', () => onChoose?.(1.9));
  for (const button of all('button'))
    requests(`button ${button.textContent!.trim()}`, () => button.click());
  return lines;
}

const numbersText = (view: View, frame: Frame, at: Head) =>
  view
    .numbers(frame, at)
    .map(
      ({ name, axes, data, ...more }) =>
        `number ${name} (${axes.join(', ')}) ${textOf(more)}: ${textOf(data)}`,
    );

/** Compares all that a view shows of a frame, and requests, with the snapshot. */
export function shows(view: View, frame: Frame, options: Options = {}): void {
  const drawn = drawView(view, frame, options);
  const at = selectedHead(frame, { ...defaults, ...options });
  const lines = [
    ...[pictureOf(drawn), ...requestsOf(drawn), ...numbersText(view, frame, at)],
    ...[`says ${view.says(frame, at)}`, ...(view.fits ? [`fits ${view.fits(frame)}`] : [])],
  ];
  expect(lines.join('\n')).toMatchSnapshot();
}

/** Compares what a drawn view shows now with the snapshot, and its numbers for a frame. */
export const showsNow = (drawn: Drawn, ...measured: [] | [View, Frame]) => {
  const [view, frame] = measured;
  const numbers = view && frame ? numbersText(view, frame, selectedHead(frame, defaults)) : [];
  expect([pictureOf(drawn), ...numbers].join('\n')).toMatchSnapshot();
};

/** Compares the elements and texts of a part of a page with the snapshot. */
export const showsPage = (...roots: Element[]) =>
  expect(roots.flatMap((root) => pageOf(root)).join('\n')).toMatchSnapshot();
