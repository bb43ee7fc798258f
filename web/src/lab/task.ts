/** Draws the task: the first tokens of a lab's text, and where two kinds of them look. */
import { html, nothing, svg } from 'lit';
import { cssColor, sequential, type Theme } from '../plot/color';
import { isFineTune } from './settings';
import { isTrigger, labelsOf, rowNotes, ruleWords, START, type NamedLab } from './words';

/** The top and the height of the tokens. */
const [WIDTH, HEIGHT, TOP, TOKEN] = [430, 232, 72, 36];
/** The most pixels from a token to the next. */
const MAX_STEP = 53;
/** The weights whose colors in a map the arrows have. */
const [FOUND, SOUGHT] = [0.4, 0.12];

/** Draws an arc between two tokens, below them if it falls, with an arrow at its end. */
const arrow = (from: number, to: number, y: number, fall: number, color: string) => svg`<path
  stroke=${color} stroke-dasharray=${fall > 0 ? '4 3' : 'none'}
  d="M${from},${y}C${from},${y + fall} ${to},${y + fall} ${to},${y}"
/><path stroke=${color} d="M${to - 5},${y + 8 * Math.sign(fall)}L${to},${y}l5,${8 * Math.sign(fall)}" />`;

const text = (
  words: string,
  x: number,
  y: number,
  size = 16,
  weight = 700,
  fill = 'currentColor',
) => svg`<text x=${x} y=${y} font-size=${size} font-weight=${weight} fill=${fill}>${words}</text>`;

/**
 * Renders the task's rule and its picture: copies look back at the token before them, and a token with nothing to copy
 * may look anywhere. A task without such rows has its rule alone.
 */
export function taskTemplate([namedLab, other]: readonly [NamedLab, NamedLab], theme: Theme) {
  const { lab } = namedLab;
  const [trigger, ordinary] = rowNotes(namedLab);
  if (!trigger || !ordinary)
    return html`<h2>${ruleWords(lab).join(' ')}</h2>
      ${isFineTune(lab.settings) ? html`<p class="lab-text">“${lab.words.join('')} …”</p>` : nothing}`;
  const tokens = labelsOf(lab).slice(0, 2 + Math.max(trigger.row, ordinary.row));
  const step = Math.min(MAX_STEP, WIDTH / tokens.length);
  const x = (t: number) => step * (t + 0.5);
  const scale = sequential(theme, 1, true);
  const [found, sought] = [cssColor(scale, FOUND), cssColor(scale, SOUGHT)];
  const colorOf = (t: number) =>
    t > 1 && isTrigger(lab, t) ? found : t === ordinary.row ? 'currentColor' : 'none';
  const [says = '', asks = ''] = ruleWords(lab);
  const [rule, reason] = asks.split(': ');
  const where = `Where does “${ordinary.token}” look?`;
  const isShared = other.lab.settings.first === lab.settings.first;
  const start = tokens[0] === START ? (isShared ? ['start', 'token'] : ['left', 'only']) : [];
  return html`<svg
    role="img"
    aria-label="${says} ${asks} ${where}"
    viewBox="0 0 ${WIDTH} ${HEIGHT}"
  >
    ${tokens.map((token, t) => {
      const isFound = colorOf(t) === found;
      const size = Math.min(token.length > 2 ? 15 : 20, step * 0.4);
      return svg`<rect x=${x(t) - step / 2 + 3} y=${TOP} width=${step - 6} height=${TOKEN} rx="5" stroke=${colorOf(t)} />
        ${text(token, x(t), TOP + 24, size, colorOf(t) === 'none' ? 400 : 700)}
        ${isFound ? arrow(x(t), x(t - 1), TOP - 3, -36, found) : nothing}
        ${t < ordinary.row ? arrow(x(ordinary.row), x(t), TOP + TOKEN + 3, 24 + 11 * (ordinary.row - t), sought) : nothing}`;
    })}
    ${text(says, WIDTH / 2, 16, 15, 700, found)} ${text(`${rule}:`, WIDTH / 2, HEIGHT - 30, 15)}
    ${text(`${reason} ${where}`, WIDTH / 2, HEIGHT - 9, 15)}
    ${start.map((word, i) => text(word, x(0), TOP - 22 + 15 * i, 13, 400))}
  </svg>`;
}
