/** Draws a lab's attention map, its sentence, and the actions on its model. */
import { html, nothing, render } from 'lit';
import { headAt } from '../frame';
import { choiceField } from '../page/controls';
import { diverging, sequential, type Theme } from '../plot/color';
import { createHeatmap, type Heatmap } from '../plot/heatmap';
import { drawScale } from '../plot/legend';
import { explainTerms } from '../page/terms';
import { addElement, setText } from '../page/view';
import { modelHeadName, formatPercent, formatValue } from '../words';
import { COLORS } from './charts';
import { isFineTune, type Settings } from './settings';
import {
  allRowsWords,
  captionWords,
  framedKey,
  labelsOf,
  mapNumber,
  readingWords,
  remarkWords,
  rowMarks,
  shownHead,
  type NamedLab,
} from './words';

/** The width in pixels below which a map's cells are twice as high as wide, so that each row has its word; and the room's. */
const [NARROW, ROOM_SHAPE] = [240, 0.8];

/** What the buttons of the room do with a lab. */
export interface Actions {
  readonly explore: (namedLab: NamedLab) => void;
  readonly saveModel: (namedLab: NamedLab) => void;
  readonly change: (side: 0 | 1, more: Settings) => void;
}

/**
 * Adds a lab's map to the grid.
 * @param reset what Reset does under the map of a lost model; absent: it is offered elsewhere, and the map is square
 */
export function createMap(
  grid: HTMLElement,
  side: 0 | 1,
  reset?: () => void,
): (namedLab: NamedLab, theme: Theme) => void {
  const place = addElement(grid, 'lab-map', 'section');
  place.dataset.side = ['left', 'right'][side];
  place.dataset.view = 'attention';
  const title = addElement(place, 'caption', 'p');
  const plot = addElement(place, 'plot');
  plot.style.visibility = 'hidden';
  const map = createHeatmap(plot);
  const footer = addElement(place, 'lab-under');
  return (namedLab, theme) => {
    place.setAttribute('aria-label', `Attention of lab ${side + 1}: ${namedLab.name}`);
    const number = mapNumber(namedLab);
    render(
      html`<strong style="color: var(${COLORS[side]})"
          >${reset ? explainTerms(namedLab.name) : namedLab.name}</strong
        >
        <span class="lab-number" style="color: var(${COLORS[side]})">${number?.[0]}</span>
        <span class="hint">${number?.[1]}</span>`,
      title,
    );
    // While a model loads, its name does not stand above the map of the last one.
    plot.style.visibility = number ? '' : 'hidden';
    const shape = place.clientWidth < NARROW ? 0.5 : reset ? ROOM_SHAPE : 1;
    drawMap(map, namedLab, theme, shape, captionWords(namedLab, number));
    render(troubleNote(namedLab, reset), footer);
  };
}

const scaleOf = (labs: readonly NamedLab[], theme: Theme) =>
  labs.some(({ operation }) => operation?.proxy === 'share_abs')
    ? diverging(theme, 1)
    : sequential(theme, 1, true);

/** Adds how to read both maps, with their color scale. */
export function createLegend(grid: HTMLElement): (labs: readonly NamedLab[], theme: Theme) => void {
  const place = addElement(grid, 'map-legend');
  const reading = addElement(place, '', 'span');
  const scale = addElement(place, 'scale-place', 'span');
  addElement(place, '', 'span').textContent = 'gray: later tokens';
  return (labs, theme) => {
    setText(reading, readingWords(labs));
    drawScale(scale, scaleOf(labs, theme));
  };
}

function drawMap(
  map: Heatmap,
  namedLab: NamedLab,
  theme: Theme,
  shape: number,
  caption: string,
): void {
  const { lab, name, operation } = namedLab;
  const headShown = shownHead(lab);
  if (!headShown) return;
  const labels = labelsOf(lab);
  const remark = remarkWords(namedLab);
  const T = labels.length;
  const length = Number(lab.settings.length);
  const { extraKey, weights, shares } = headShown;
  // The column of the extra key is before that of the first token.
  const [shift, cols] = extraKey ? [1, T + 1] : [0, T];
  map.draw({
    rows: T,
    cols,
    cellShape: (T / cols) * shape,
    data: extraKey
      ? Array.from(extraKey).flatMap((weight, t) => [
          weight,
          ...weights.subarray(t * T, (t + 1) * T),
        ])
      : weights,
    scale: scaleOf([namedLab], theme),
    // Before training no column stands out, and nothing names a frame.
    outlined:
      lab.log.length || isFineTune(lab.settings) ? [{ row: -1, col: framedKey(lab) + shift }] : [],
    rowMarks: rowMarks(namedLab),
    ...(remark && { remark: { ...remark, col: (remark.col ?? 0) + shift } }),
    wordPx: 1,
    colTitle: `where it looks${length > T ? ` (first ${T} of ${length} tokens${extraKey ? ', and the slot' : ''})` : ''}`,
    label: `Attention map of ${name} after ${lab.step} steps${caption && `: ${caption}`}`,
    rowWords: labels,
    colWords: extraKey ? ['slot', ...labels] : labels,
    describe: ({ row, col }) => {
      if (row < 0 || col < 0) return '';
      const key = col - shift;
      if (key > row) return `“${labels[row]}” cannot attend to later tokens`;
      const query = `query ${row} “${labels[row]}”`;
      if (key < 0) return `${query} → the extra slot: weight ${formatValue(extraKey![row]!, 3)}`;
      const share = `${formatPercent(shares[row * T + key]!, 1)} of the row`;
      const weight = `, weight ${formatValue(weights[row * T + key]!, 3)}`;
      return `${query} → key ${key} “${labels[key]}”: ${share}${operation?.normalizes ? '' : weight}`;
    },
  });
}

/** Renders what can be done with a model after its first step. */
export function modelActions(
  namedLab: NamedLab,
  side: 0 | 1,
  { explore, saveModel, change }: Actions,
) {
  const { name } = namedLab;
  const { picture, hasModel, settings } = namedLab.lab;
  const isDisabled = !picture || !hasModel;
  const [L = 0, H = 0] = picture?.shape ?? [];
  const heads = Array.from({ length: L * H }, (_, i) => modelHeadName(headAt(i, H)));
  const choices = ['strongest head', ...heads].map((head, i) => [String(i - 1), head] as const);
  return html`<p class="numbers" role="group" aria-label=${name}>
    <strong style="color: var(${COLORS[side]})">${name}</strong>
    <button type="button" ?disabled=${isDisabled} @click=${() => explore(namedLab)}>
      Open in Explore
    </button>
    <button type="button" ?disabled=${isDisabled} @click=${() => saveModel(namedLab)}>
      Save model
    </button>
    ${
      heads.length > 1
        ? choiceField('head', String(settings.head), choices, (head) =>
            change(side, { head: Number(head) }),
          )
        : nothing
    }
    ${isFineTune(settings) ? nothing : html`<span class="hint">${allRowsWords(namedLab)}</span>`}
  </p>`;
}

function troubleNote({ lab }: NamedLab, reset?: () => void) {
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
    ${reset && stage === 'lost' ? html`<button type="button" @click=${reset}>Reset</button>` : nothing}
  </p>`;
}
