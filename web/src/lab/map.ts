/** Draws a lab's attention map, its sentence, and the actions on its model. */
import { html, nothing, render, svg } from 'lit';
import { headAt } from '../frame';
import { choiceField } from '../page/controls';
import { diverging, sequential, type Theme } from '../plot/color';
import { createHeatmap, type Heatmap } from '../plot/heatmap';
import { drawScale } from '../plot/legend';
import { addElement } from '../page/view';
import { modelHeadName, formatPercent, formatValue } from '../words';
import { COLORS } from './charts';
import type { Settings } from './settings';
import {
  captionWords,
  EXTRA_KEY,
  labelsOf,
  mapNumber,
  rowNotes,
  rowWeights,
  shownHead,
  type NamedLab,
} from './words';

/** The pixels of a word along a map; a map that has fewer for each token shows no words. */
const WORD_WIDTH = 10;

/** The pixels of the box of both rows' weights, of a line in it, and of a bar of 100%. */
const [BOX_WIDTH, LINE, BAR] = [160, 13, 86];
const BOX_HEIGHT = 10 * LINE + 16;

export interface Actions {
  readonly explore: (namedLab: NamedLab) => void;
  readonly saveModel: (namedLab: NamedLab) => void;
  readonly reset: () => void;
  readonly change: (side: 0 | 1, more: Settings) => void;
}

/**
 * Adds a lab's map to the grid.
 * @param actions what the buttons under the map do; absent: no buttons
 */
export function createMap(
  grid: HTMLElement,
  side: 0 | 1,
  actions?: Actions,
): (namedLab: NamedLab, theme: Theme) => void {
  const place = addElement(grid, 'lab-map', 'section');
  place.dataset.side = ['left', 'right'][side];
  place.dataset.view = 'attention';
  const title = addElement(place, 'caption', 'p');
  const plot = addElement(place, 'plot');
  const map = createHeatmap(plot);
  const rows = addElement(plot, 'lab-rows');
  const footer = addElement(place, 'lab-under');
  return (namedLab, theme) => {
    place.setAttribute('aria-label', `Attention of lab ${side + 1}: ${namedLab.name}`);
    const number = mapNumber(namedLab);
    render(
      html`<strong style="color: var(${COLORS[side]})">${namedLab.name}</strong>
        <span class="lab-number" style="color: var(${COLORS[side]})">${number?.[0]}</span>
        <span class="hint">${number?.[1]}</span>`,
      title,
    );
    // While a model loads, its name does not stand above the map of the last one.
    plot.style.visibility = number ? '' : 'hidden';
    drawMap(map, namedLab, theme, place.clientWidth, captionWords(namedLab, number));
    render(number ? rowsTemplate(namedLab, COLORS[side]) : nothing, rows);
    render(
      html`${troubleNote(namedLab, actions)}
      ${
        actions && namedLab.lab.step
          ? html`<p class="numbers">
              ${exportButtons(namedLab, actions)}
              ${headChoice(namedLab, (head) => actions.change(side, { head }))}
            </p>`
          : nothing
      }`,
      footer,
    );
  };
}

/** Draws the weights of the two rows that are marked in the map, where no token attends. */
function rowsTemplate(namedLab: NamedLab, color: string) {
  const notes = rowNotes(namedLab).map((note) => ({
    ...note,
    ...rowWeights(namedLab.lab, note.row),
  }));
  if (!notes.length) return nothing;
  const label = notes.map(
    ({ token, what, bars, sum }) =>
      `${token}: ${what}: ${bars.map(({ token, words }) => `${token} ${words}`).join(', ')}; ${sum}`,
  );
  return html`<svg
    role="img"
    aria-label=${label.join('. ')}
    viewBox="0 0 ${BOX_WIDTH} ${BOX_HEIGHT}"
  >
    <rect class="box" x="0.5" y="0.5" width=${BOX_WIDTH - 1} height=${BOX_HEIGHT - 1} rx="8" />
    ${notes.map(({ token, what, bars, sum }, i) => {
      const y = 15 + i * (5 * LINE + 7);
      return svg`<text class="title" x="7" y=${y}><tspan>${token}:</tspan> ${what}</text>
        ${bars.map(({ token, weight, words }, j) => {
          const [line, width] = [y + (j + 1) * LINE, BAR * Math.min(1, Math.abs(weight))];
          return svg`<text class=${j ? 'token' : 'token first'} x="30" y=${line}>${token}</text>
            <rect x="34" y=${line - 9} width=${width} height="10" style="fill: var(${color})" />
            <text x=${38 + width} y=${line}>${words}</text>`;
        })}
        <text class="sum" x="34" y=${y + 4 * LINE}>${sum}</text>`;
    })}
  </svg>`;
}

const scaleOf = (labs: readonly NamedLab[], theme: Theme) =>
  labs.some(({ operation }) => operation?.proxy === 'share_abs')
    ? diverging(theme, 1)
    : sequential(theme, 1, true);

/** Adds the color scale of both maps. */
export function createLegend(grid: HTMLElement): (labs: readonly NamedLab[], theme: Theme) => void {
  const place = addElement(grid, 'map-legend');
  addElement(place, '', 'span').textContent = 'weight';
  const scale = addElement(place, 'scale-place', 'span');
  addElement(place, '', 'span').textContent = 'gray: later; early rows see few tokens';
  return (labs, theme) => drawScale(scale, scaleOf(labs, theme));
}

function drawMap(
  map: Heatmap,
  namedLab: NamedLab,
  theme: Theme,
  width: number,
  caption: string,
): void {
  const { lab, name, operation } = namedLab;
  const headShown = shownHead(lab);
  if (!headShown) return;
  const labels = labelsOf(lab);
  const T = labels.length;
  const { extraKey, weights, shares } = headShown;
  // The column of the extra key is before that of the first token; its map is a square, too.
  const [shift, cols] = extraKey ? [1, T + 1] : [0, T];
  map.draw({
    rows: T,
    cols,
    cellShape: T / cols,
    data: extraKey
      ? Array.from(extraKey).flatMap((weight, t) => [
          weight,
          ...weights.subarray(t * T, (t + 1) * T),
        ])
      : weights,
    scale: scaleOf([namedLab], theme),
    outlined: [{ row: -1, col: shift + headShown.framed.key }],
    // The box of the rows' weights covers the ends of these rows.
    rowMarks: rowNotes(namedLab)
      .filter(({ row }) => row < 0.42 * T - 1.5 || row > 0.48 * T)
      .map(({ row, token }) => [row, `◀ ${token}`] as const),
    wordPx: (WORD_WIDTH * T) / cols,
    rowTitle: 'attending token',
    colTitle: 'attended to',
    label: `Attention map of ${name} after ${lab.step} steps: ${caption}`,
    ...(width >= T * WORD_WIDTH
      ? { rowWords: labels, colWords: extraKey ? [`${EXTRA_KEY} extra key`, ...labels] : labels }
      : {}),
    describe: ({ row, col }) => {
      if (row < 0 || col < 0) return '';
      const key = col - shift;
      if (key > row) return `“${labels[row]}” cannot attend to later tokens`;
      const query = `query ${row} “${labels[row]}”`;
      if (key < 0) return `${query} → the extra key: weight ${formatValue(extraKey![row]!, 3)}`;
      const share = `${formatPercent(shares[row * T + key]!, 1)} of the row`;
      const weight = `, weight ${formatValue(weights[row * T + key]!, 3)}`;
      return `${query} → key ${key} “${labels[key]}”: ${share}${operation?.normalizes ? '' : weight}`;
    },
  });
}

function exportButtons(namedLab: NamedLab, { explore, saveModel }: Actions) {
  const isDisabled = !namedLab.lab.picture || !namedLab.lab.hasModel;
  return html`<button type="button" ?disabled=${isDisabled} @click=${() => explore(namedLab)}>
      Open in Explore
    </button>
    <button type="button" ?disabled=${isDisabled} @click=${() => saveModel(namedLab)}>
      Save model
    </button>`;
}

function headChoice({ lab }: NamedLab, choose: (head: number) => void) {
  const [L = 0, H = 0] = lab.picture?.shape ?? [];
  if (L * H < 2) return nothing;
  return choiceField(
    'head',
    String(lab.settings.head),
    [
      ['-1', 'strongest head'],
      ...Array.from({ length: L * H }, (_, i) => [String(i), modelHeadName(headAt(i, H))] as const),
    ],
    (value) => choose(Number(value)),
  );
}

function troubleNote({ lab }: NamedLab, actions?: Actions) {
  const { stage, error, savedTraining } = lab;
  if (!error) return nothing;
  const continueButton =
    stage === 'lost' && savedTraining
      ? html`<button type="button" @click=${() => void lab.resume()}>
          Continue from step ${savedTraining.step}
        </button>`
      : nothing;
  return html`<p class="trouble" role="alert">
    ${error} ${continueButton}
    ${actions && stage === 'lost' ? html`<button type="button" @click=${actions.reset}>Reset</button>` : nothing}
  </p>`;
}
