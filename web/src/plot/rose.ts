/**
 * Draws a rose: two histograms of directions on half a circle, with 0 degrees on the right and 180 on the left. The
 * area of a petal is the share of its directions.
 */
import { html, nothing, render, svg } from 'lit';

interface RoseSet {
  /** The angles in radians, from 0 to pi. */
  readonly angles: readonly number[];
  /** A CSS class for the color. */
  readonly name: string;
}

const BINS = 36;

export function sharesOf(angles: readonly number[]): Float64Array {
  const counts = new Float64Array(BINS);
  for (const angle of angles)
    counts[Math.max(0, Math.min(BINS - 1, Math.floor((angle / Math.PI) * BINS)))]! += 1;
  return counts.map((count) => count / Math.max(1, angles.length));
}

function pointAt(angle: number, radius: number): string {
  return `${(radius * Math.cos(angle)).toFixed(2)},${(-radius * Math.sin(angle)).toFixed(2)}`;
}

function petalsPath(angles: readonly number[], largestShare: number): string {
  return Array.from(sharesOf(angles), (share, i) => {
    const [from, to] = [(i * Math.PI) / BINS, ((i + 1) * Math.PI) / BINS];
    // Makes the area, not the radius, proportional to the share, since the eye compares areas.
    const radius = 100 * Math.sqrt(share / largestShare);
    return `M0,0L${pointAt(from, radius)}A${radius},${radius} 0 0 0 ${pointAt(to, radius)}Z`;
  }).join('');
}

export function drawRose(root: HTMLElement, sets: readonly RoseSet[], label: string): void {
  const largestShare = Math.max(1e-9, ...sets.flatMap(({ angles }) => [...sharesOf(angles)]));
  render(
    html`<svg viewBox="-122 -116 244 134" role="img" aria-label=${label}>
      <path class="rose-ground" d="M-100,0A100,100 0 0 1 100,0Z"></path>
      ${[0, 45, 90, 135, 180].map((degrees) => {
        const angle = (degrees * Math.PI) / 180;
        return svg`<path class="rose-ray" d=${`M0,0L${pointAt(angle, 100)}`}></path>
          <text x=${110 * Math.cos(angle)} y=${-108 * Math.sin(angle) + (degrees % 180 ? 0 : 12)}
            text-anchor="middle">${degrees}°</text>`;
      })}
      ${sets.map(({ angles, name }) => {
        const meanAngle = angles.reduce((a, b) => a + b, 0) / angles.length;
        return svg`<path class=${`rose-set ${name}`} d=${petalsPath(angles, largestShare)}></path>
          ${
            Number.isFinite(meanAngle)
              ? svg`<path class=${`rose-mean ${name}`} d=${`M0,0L${pointAt(meanAngle, 100)}`}></path>`
              : nothing
          }`;
      })}
    </svg>`,
    root,
  );
}
