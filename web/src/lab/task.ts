/** Draws the task: the first tokens of a lab's text, and where two kinds of them look. */
import { html, nothing, svg } from 'lit';
import { isFineTune } from './settings';
import { isTrigger, labelsOf, rowNotes, START, taskTitle, type NamedLab } from './words';

const [WIDTH, HEIGHT, LINE] = [620, 158, 104];
/** The most pixels from a token to the next. */
const MAX_STEP = 84;

/** Draws an arc above two tokens, with an arrow at its end. */
function arc(from: number, to: number) {
  const [start, top] = [LINE - 34, LINE - 70];
  return svg`<path
      d="M${from},${start}C${from},${top} ${to},${top} ${to},${start}"
    /><path d="M${to - 6},${start - 9}L${to},${start}l6,-9" />`;
}

/**
 * Renders the task's title, and its picture: circled digits look back at the token before them, an ordinary letter has a
 * question mark. A task without such rows has its title alone.
 */
export function taskTemplate([namedLab, other]: readonly [NamedLab, NamedLab]) {
  const { lab } = namedLab;
  const title = html`<h2>${taskTitle(lab)}</h2>`;
  const [trigger, ordinary] = rowNotes(namedLab);
  if (isFineTune(lab.settings) && lab.words.length)
    return html`${title}
      <p class="lab-text">
        “${lab.words.slice(lab.setup?.firstText === undefined ? 0 : 1).join('')} …”
      </p>`;
  if (!trigger || !ordinary) return title;
  const isShared = other.lab.settings.first === lab.settings.first;
  const tokens = labelsOf(lab).slice(0, 1 + Math.max(trigger.row, ordinary.row));
  const looksBack = (t: number) => t > 1 && isTrigger(lab, t);
  const step = Math.min(MAX_STEP, WIDTH / tokens.length);
  const x = (t: number) => step * (t + 0.5);
  const text = (words: string, at: number, y: number, anchor = 'middle', size = 16, weight = 400) =>
    svg`<text x=${at} y=${y} text-anchor=${anchor} font-size=${size} font-weight=${weight}>${words}</text>`;
  const says = `a circled digit says: ${trigger.what} it`;
  const asks = `an ordinary letter: ${ordinary.what}`;
  return html`${title}
    <svg role="img" aria-label="${says}; ${asks}" viewBox="0 0 ${WIDTH} ${HEIGHT}">
      ${tokens.map((token, t) => {
        const isNoted = looksBack(t) || t === ordinary.row;
        return text(token, x(t), LINE, 'middle', Math.min(36, step * 0.6), isNoted ? 700 : 400);
      })}
      <g fill="none" stroke="currentColor">
        ${tokens.map((_, t) => (looksBack(t) ? arc(x(t), x(t - 1)) : nothing))}
        <path d="M${x(trigger.row)},${LINE + 12}v14" />
      </g>
      ${text('?', x(ordinary.row), LINE - 40, 'middle', 36, 700)}
      ${text(asks, x(ordinary.row) + 24, 18, x(ordinary.row) < WIDTH * 0.4 ? 'start' : 'end')}
      ${text(says, Math.max(0, x(trigger.row - 1) - 12), LINE + 45, 'start')}
      ${tokens[0] === START ? text(`start token${isShared ? '' : ' (left only)'}`, 0, LINE + 26, 'start') : ''}
    </svg>`;
}
