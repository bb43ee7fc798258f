// @vitest-environment happy-dom
/** The layout of a figure in a box: which parts are hidden, in which order, and that the picture never is. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createFitter } from '../src/embed/fit';

/** The heights in pixels of the parts next to the map; some are at its side in a side layout. */
const HEIGHTS = { conditions: 20, captions: 60, controls: 80, axes: 40, head: 26 };
const GUTTER = 50;
let box: DOMRect;
let room: HTMLElement;
let queued: (() => void)[] = [];

const cells = () => [...room.querySelectorAll<HTMLElement>('.cell')];
const zoom = () => Number(room.style.getPropertyValue('--zoom') || 1);
const visibleCells = () =>
  room.classList.contains('single') ? cells().filter((one) => one.matches('.current')) : cells();
/** Returns the width of all cells, in pixels of the screen. */
function cellsWidth(): number {
  const fitWidth = room.style.getPropertyValue('--fit') || '100%';
  const full = room.classList.contains('side') ? 0.7 * box.width : box.width;
  return fitWidth.endsWith('%') ? full : Math.min(full, parseFloat(fitWidth) * zoom());
}
const mapSide = () => cellsWidth() / visibleCells().length - GUTTER * zoom();
function neededHeight(): number {
  const hidden = (room.dataset.without ?? '').split(' ');
  const parts = Object.entries(HEIGHTS).filter(([name]) => !hidden.includes(name));
  const isBeside = (name: string) =>
    room.classList.contains('side') && ['captions', 'controls'].includes(name);
  const pixels = parts.map(([name, height]) => (isBeside(name) ? 0 : height));
  return zoom() * pixels.reduce((a, b) => a + b, 0) + mapSide();
}
const rectOf = (wide: number, high = wide) => new DOMRect(0, 0, wide, high);

function build(count: number, what = '<div class="heatmap"></div>'): void {
  document.body.innerHTML = `<div class="room-figure"><div class="figure"><header class="figure-head"></header>
    <div class="cells">${`<div class="cell"><p class="cell-head"><strong>A model</strong></p><div>${what}</div></div>`.repeat(count)}</div>
    </div><p class="figure-foot"><button class="info">i</button></p></div>`;
  room = document.querySelector('.room-figure')!;
}

const settle = () => {
  for (let i = 0; queued.length && i < 50; i++) queued.shift()!();
};
const fitInto = (wide: number, high: number) => {
  box = rectOf(wide, high);
  const fit = createFitter(
    () => room,
    () => box,
  );
  fit.look();
  settle();
  return fit;
};
const hiddenParts = () => room.dataset.without!.split(' ').filter(Boolean);

beforeEach(() => {
  queued = [];
  vi.stubGlobal('requestAnimationFrame', (run: () => void) => queued.push(run));
  vi.stubGlobal('setTimeout', (run: () => void) => queued.push(run));
  Element.prototype.checkVisibility = function (this: Element) {
    const cell = this.closest('.cell');
    return !cell || visibleCells().includes(cell as HTMLElement);
  };
  vi.spyOn(Element.prototype, 'getBoundingClientRect').mockImplementation(function (this: Element) {
    return this.matches('.heatmap')
      ? rectOf(mapSide())
      : rectOf(this.matches('.cells') ? cellsWidth() : 10);
  });
  for (const name of ['clientHeight', 'clientWidth', 'scrollWidth'])
    Object.defineProperty(HTMLElement.prototype, name, { get: () => 100, configurable: true });
  Object.defineProperty(HTMLElement.prototype, 'scrollHeight', {
    configurable: true,
    get(this: HTMLElement) {
      const isScrolled = room.classList.contains('scrolls');
      return this === room && !isScrolled ? 100 + Math.ceil(neededHeight() - box.height) : 100;
    },
  });
});
afterEach(() => vi.restoreAllMocks());

describe('a figure in a box', () => {
  it('shows everything if there is room, with the largest possible picture', () => {
    build(1);
    fitInto(600, 650);
    expect([hiddenParts(), zoom()]).toEqual([[], 1]);
    expect(neededHeight()).toBeLessThanOrEqual(650);
    expect(neededHeight()).toBeGreaterThan(620);
  });

  it('hides conditions first, then captions, controls and axis labels', () => {
    const hiddenSets = new Set<string>();
    for (let high = 700; high > 150; high -= 10) {
      build(1);
      fitInto(high, high);
      hiddenSets.add(hiddenParts().join(' '));
      expect(mapSide()).toBeGreaterThanOrEqual(0.65 * high);
    }
    expect([...hiddenSets]).toMatchSnapshot();
  });

  it('has a picture of at least 65% of the smaller side in any box', () => {
    for (const [wide, high] of [
      ...[
        [280, 240],
        [300, 300],
        [360, 300],
        [240, 500],
        [480, 360],
      ],
      ...[
        [640, 360],
        [852, 520],
        [1024, 576],
        [1280, 800],
        [1920, 1080],
      ],
    ] as const)
      for (const count of [1, 2, 3]) {
        build(count);
        fitInto(wide, high);
        const share = mapSide() / Math.min(wide, high);
        expect(share, `${count} in ${wide} × ${high}`).toBeGreaterThanOrEqual(0.65);
        expect(neededHeight(), `${count} in ${wide} × ${high}`).toBeLessThanOrEqual(high + 1);
      }
  });

  it('shows one subject at a time if they do not fit side by side, with buttons to switch', () => {
    build(2);
    fitInto(360, 300);
    expect(visibleCells()).toEqual([cells()[0]]);
    const [first, second] = room.querySelectorAll<HTMLElement>('.cell-switch button');
    expect(first!.getAttribute('aria-pressed')).toBe('true');
    second!.click();
    settle();
    expect(visibleCells()).toEqual([cells()[1]]);
    build(2);
    fitInto(1280, 800);
    expect(visibleCells()).toHaveLength(2);
  });

  it('has larger letters in a box larger than a screen', () => {
    build(1);
    fitInto(2800, 2000);
    expect(zoom()).toBe(2);
    build(1);
    fitInto(1280, 690);
    expect(zoom()).toBe(1);
  });

  it('hides all optional parts and scrolls if even the smallest layout does not fit', () => {
    build(1);
    fitInto(60, 60);
    expect([hiddenParts().length, room.classList.contains('scrolls')]).toEqual([4, true]);
  });

  it('shows omitted parts on request, and hides them again', () => {
    build(1);
    fitInto(280, 240);
    const button = room.querySelector<HTMLElement>('.info')!;
    const oldHidden = room.dataset.without;
    expect(oldHidden).not.toBe('');
    button.click();
    settle();
    expect([room.dataset.without, button.getAttribute('aria-expanded')]).toEqual(['', 'true']);
    expect(room.classList.contains('open')).toBe(true);
    button.click();
    settle();
    expect([room.dataset.without, room.classList.contains('open')]).toEqual([oldHidden, false]);
  });

  it('changes to the next layout as its text grows, and not back while the reader uses it', () => {
    build(1);
    const { look } = fitInto(560, 560);
    const oldCount = hiddenParts().length;
    HEIGHTS.head = 150;
    look();
    settle();
    const newCount = hiddenParts().length;
    expect(newCount).toBeGreaterThan(oldCount);
    HEIGHTS.head = 26;
    look();
    settle();
    expect(hiddenParts().length).toBe(newCount);
    box = rectOf(900, 900);
    look();
    settle();
    expect(hiddenParts().length).toBeLessThan(newCount);
  });

  it('has its full height if the host follows it, and so has the lab in any box', () => {
    build(1);
    const { end, look } = fitInto(280, 240);
    expect(room.classList.contains('fit')).toBe(true);
    end();
    look();
    settle();
    expect([room.classList.contains('fit'), room.dataset.without]).toEqual([false, '']);
    room.innerHTML = '<div class="lab-embedded"></div>';
    fitInto(280, 240);
    expect(room.classList.contains('fit')).toBe(false);
  });
});
