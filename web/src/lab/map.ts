/** A lab's attention map, its sentence, and the actions on its model. */
import { html, nothing, render } from 'lit';
import { headAt } from '../frame';
import { choices } from '../page/controls';
import { diverging, sequential, type Theme } from '../plot/color';
import { createHeatmap, type Heatmap } from '../plot/heatmap';
import { part } from '../page/view';
import { headName, percent, show } from '../words';
import { COLORS } from './charts';
import type { Settings } from './settings';
import { caption, headSeen, type NamedLab } from './words';

/** A map shows its words if each has this many pixels. */
const WORD_WIDTH = 10;

export interface Acts {
  readonly inside: (named: NamedLab) => void;
  readonly saveModel: (named: NamedLab) => void;
  readonly again: () => void;
  readonly change: (side: 0 | 1, more: Settings) => void;
}

/** @param acts what can be done with the model; absent: nothing */
export function createMap(
  grid: HTMLElement,
  side: 0 | 1,
  acts?: Acts,
): (named: NamedLab, theme: Theme) => void {
  const place = part(grid, 'lab-map', 'section');
  place.dataset.side = ['left', 'right'][side];
  place.dataset.view = 'attention';
  const title = part(place, 'caption', 'p');
  const map = createHeatmap(part(place, 'plot'));
  const under = part(place, 'lab-under');
  return (named, theme) => {
    place.setAttribute('aria-label', `Attention of lab ${side + 1}: ${named.name}`);
    render(
      html`<strong style="color: var(${COLORS[side]})">${named.name}</strong>
        <span>${caption(named)}</span>`,
      title,
    );
    drawMap(map, named, theme, place.clientWidth);
    render(
      html`${trouble(named, acts)}
      ${
        acts
          ? html`<p class="numbers">
              ${actions(named, acts)} ${heads(named, (head) => acts.change(side, { head }))}
            </p>`
          : nothing
      }`,
      under,
    );
  };
}

function drawMap(map: Heatmap, named: NamedLab, theme: Theme, width: number): void {
  const { lab, operation, name } = named;
  const headShown = headSeen(lab);
  if (!headShown) return;
  const { words, setup } = lab;
  const T = words.length;
  const read = words.map((text) => (text === setup?.first ? '<s>' : text));
  map.draw({
    rows: T,
    cols: T,
    data: headShown.shares,
    scale: operation?.proxy === 'share_abs' ? diverging(theme, 1) : sequential(theme, 1, true),
    label: `Attention map of ${name} after ${lab.step} steps: ${caption(named)}`,
    ...(width >= T * WORD_WIDTH ? { rowWords: read, colWords: read } : {}),
    describe: ({ row, col }) => {
      if (row < 0 || col < 0) return '';
      if (col > row) return `“${read[row]}” cannot attend to later tokens`;
      const share = percent(headShown.shares[row * T + col]!, 1);
      const weight = show(headShown.weights[row * T + col]!, 3);
      return `query ${row} “${read[row]}” → key ${col} “${read[col]}”: ${share} of the row, weight ${weight}`;
    },
  });
}

function actions(named: NamedLab, { inside, saveModel }: Acts) {
  const isDisabled = !named.lab.picture || !named.lab.isThere;
  return html`<button type="button" ?disabled=${isDisabled} @click=${() => inside(named)}>
      Open in Explore
    </button>
    <button type="button" ?disabled=${isDisabled} @click=${() => saveModel(named)}>
      Save model
    </button>`;
}

/** Lets the reader choose the head, if there are several. */
function heads({ lab }: NamedLab, choose: (head: number) => void) {
  const headShown = headSeen(lab);
  const [L = 0, H = 0] = lab.picture?.shape ?? [];
  if (!headShown || L * H < 2) return nothing;
  return choices(
    'head',
    String(lab.settings.head),
    [
      ['-1', 'strongest head'],
      ...Array.from({ length: L * H }, (_, i) => {
        return [String(i), headName(headAt(i, H))] as const;
      }),
    ],
    (value) => choose(Number(value)),
  );
}

function trouble({ lab }: NamedLab, acts?: Acts) {
  const { stage, trouble: why, kept, settings } = lab;
  if (!why) return nothing;
  const goOn =
    stage === 'lost' && kept
      ? html`<button type="button" @click=${() => void lab.begin(settings, kept)}>
          Continue from step ${kept.step}
        </button>`
      : nothing;
  return html`<p class="trouble" role="alert">
    ${why} ${goOn}
    ${acts && stage === 'lost' ? html`<button type="button" @click=${acts.again}>Reset</button>` : nothing}
  </p>`;
}
