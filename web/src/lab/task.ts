/** Draws the task: the first tokens of a lab's text, and where two kinds of them look. */
import { html, nothing, svg } from 'lit';
import { cssColor, sequential, type Theme } from '../plot/color';
import { isFineTune } from './settings';
import { isTrigger, labelsOf, rowNotes, ruleWords, START, type NamedLab } from './words';

/** The top and the height of the tokens. */
const [WIDTH, HEIGHT, TOP, TOKEN] = [430, 276, 84, 36];
/** The most pixels from a token to the next. */
const MAX_STEP = 53;
/** The weights whose colors in a map the arrows have. */
const [FOUND, SOUGHT] = [0.4, 0.12];

/** Draws an arc between two tokens, below them if it falls, with an arrow at its end. */
const arrow = (from: number, to: number, y: number, fall: number, color: string) => svg`<path
  stroke=${color} stroke-dasharray=${fall > 0 ? '4 3' : 'none'}
  d="M${from},${y}C${from},${y + fall} ${to},${y + fall} ${to},${y}"
/><path stroke=${color} d="M${to - 5},${y + 8 * Math.sign(fall)}L${to},${y}l5,${8 * Math.sign(fall)}" />`;

/** Draws a short arrow from a token's frame to the token that comes next. */
const toNext = (x: number, step: number, color: string) => {
  const [y, end] = [TOP + TOKEN / 2, x + step - 10];
  return svg`<path stroke=${color} d="M${x + step / 2 - 2},${y}H${end}m-5,-5l5,5l-5,5" />`;
};

const text = (
  words: string,
  x: number,
  y: number,
  size = 16,
  weight = 700,
  fill = 'currentColor',
) => svg`<text x=${x} y=${y} font-size=${size} font-weight=${weight} fill=${fill}>${words}</text>`;

/** A line of the picture ends without a full stop. */
const withoutStop = (sentence: string) => sentence.replace(/\.$/, '');

/**
 * Renders the task's rule and its picture: copies look back at the token before them, and a token with nothing to copy
 * could look at any. A label names each kind of arrow. A task without such rows has its rule alone.
 */
export function taskTemplate([namedLab, other]: readonly [NamedLab, NamedLab], theme: Theme) {
  const { lab } = namedLab;
  const [trigger, ordinary] = rowNotes(namedLab);
  if (!trigger || !ordinary)
    return html`<h2>${ruleWords(lab).join(' ')}</h2>
      ${isFineTune(lab.settings) ? html`<p class="lab-text">“${lab.words.join('')} …”</p>` : nothing}`;
  const labels = labelsOf(lab).slice(0, Math.max(trigger.row + 2, ordinary.row + 1));
  // What comes after the token with nothing to copy is open.
  const tokens = labels.length > ordinary.row + 1 ? labels : [...labels, '?'];
  const step = Math.min(MAX_STEP, WIDTH / tokens.length);
  const x = (t: number) => step * (t + 0.5);
  const scale = sequential(theme, 1, true);
  const [found, sought] = [cssColor(scale, FOUND), cssColor(scale, SOUGHT)];
  const colorOf = (t: number) =>
    t > 1 && t < labels.length && isTrigger(lab, t)
      ? found
      : t === ordinary.row
        ? 'currentColor'
        : 'none';
  const [says = '', asks = ''] = ruleWords(lab);
  const [rule, reason] = asks.split(': ');
  // No arc is to the right of the last copy, so the label of its arrow has room there.
  const last = labels.findLastIndex((_, t) => colorOf(t) === found);
  const sag = 26 + 14 * ordinary.row;
  const isShared = other.lab.settings.first === lab.settings.first;
  const start = tokens[0] === START ? (isShared ? ['start', 'token'] : ['left', 'only']) : [];
  return html`<svg role="img" aria-label="${says} ${asks}" viewBox="0 0 ${WIDTH} ${HEIGHT}">
    ${tokens.map((token, t) => {
      const isFound = colorOf(t) === found;
      const size = Math.min(token.length > 2 ? 13 : 20, step * 0.4);
      const isCopied = t > 0 && colorOf(t - 1) === found;
      const isFramed = colorOf(t) !== 'none';
      return svg`<rect x=${x(t) - step / 2 + 6} y=${TOP} width=${step - 12} height=${TOKEN} rx="5" stroke=${colorOf(t)} />
        ${text(token, x(t), TOP + 24, size, isFramed || isCopied ? 700 : 400, isCopied && !isFramed ? found : undefined)}
        ${isFramed && t + 1 < tokens.length ? toNext(x(t), step, colorOf(t)) : nothing}
        ${isFound ? arrow(x(t), x(t - 1), TOP - 3, -42, found) : nothing}
        ${t < ordinary.row ? arrow(x(ordinary.row), x(t), TOP + TOKEN + 3, 26 + 14 * (ordinary.row - t), sought) : nothing}`;
    })}
    ${text('looks back', x(trigger.row - 0.5), TOP - 42, 13, 400, found)}
    ${text('predicts', x(last + 0.62), TOP - 7, 13, 400, found)}
    ${text('could look at any', x(ordinary.row / 2), Math.min(TOP + TOKEN + 19 + sag * 0.75, HEIGHT - 50), 13, 400)}
    ${text(withoutStop(says), WIDTH / 2, 16, 15, 700, found)}
    ${text(`${rule}:`, WIDTH / 2, HEIGHT - 30, 15)}
    ${text(withoutStop(reason!), WIDTH / 2, HEIGHT - 9, 15)}
    ${start.map((word, i) => text(word, x(0), TOP - 22 + 15 * i, 13, 400))}
  </svg>`;
}
