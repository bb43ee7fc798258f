/**
 * Draws a rose: two histograms of directions on half a circle, with 0 degrees on the right and 180 on the left. The
 * area of a petal is the share of its directions.
 */

interface RoseSet {
  /** The angles in radians, from 0 to pi. */
  readonly angles: readonly number[];
  /** A CSS class for the color. */
  readonly name: string;
}

const BINS = 36;
const SVG = 'http://www.w3.org/2000/svg';

export function shares(angles: readonly number[]): Float64Array {
  const counts = new Float64Array(BINS);
  for (const angle of angles)
    counts[Math.max(0, Math.min(BINS - 1, Math.floor((angle / Math.PI) * BINS)))]! += 1;
  return counts.map((count) => count / Math.max(1, angles.length));
}

function addShape(
  parent: Element,
  name: string,
  attributes: Record<string, string | number>,
): Element {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  parent.append(node);
  return node;
}

function pointAt(angle: number, radius: number): string {
  return `${(radius * Math.cos(angle)).toFixed(2)},${(-radius * Math.sin(angle)).toFixed(2)}`;
}

function petals(set: RoseSet, largestShare: number): string {
  return Array.from(shares(set.angles), (share, i) => {
    const [from, to] = [(i * Math.PI) / BINS, ((i + 1) * Math.PI) / BINS];
    // Makes the area, not the radius, proportional to the share, since the eye compares areas.
    const radius = 100 * Math.sqrt(share / largestShare);
    return `M0,0L${pointAt(from, radius)}A${radius},${radius} 0 0 0 ${pointAt(to, radius)}Z`;
  }).join('');
}

export function drawRose(root: Element, sets: readonly RoseSet[], label: string): void {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '-122 -116 244 134');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', label);
  const largest = Math.max(1e-9, ...sets.flatMap((set) => [...shares(set.angles)]));
  addShape(svg, 'path', { d: 'M-100,0A100,100 0 0 1 100,0Z', class: 'rose-ground' });
  for (const degrees of [0, 45, 90, 135, 180]) {
    const angle = (degrees * Math.PI) / 180;
    addShape(svg, 'path', { d: `M0,0L${pointAt(angle, 100)}`, class: 'rose-ray' });
    const text = addShape(svg, 'text', {
      x: 110 * Math.cos(angle),
      y: -108 * Math.sin(angle) + (degrees % 180 ? 0 : 12),
      'text-anchor': 'middle',
    });
    text.textContent = `${degrees}°`;
  }
  for (const set of sets) {
    addShape(svg, 'path', { d: petals(set, largest), class: `rose-set ${set.name}` });
    const mean = set.angles.reduce((a, b) => a + b, 0) / set.angles.length;
    if (Number.isFinite(mean))
      addShape(svg, 'path', { d: `M0,0L${pointAt(mean, 100)}`, class: `rose-mean ${set.name}` });
  }
  root.replaceChildren(svg);
}
