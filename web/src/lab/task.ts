/** Draws the task: the first tokens of a lab's text, and where two of them look. */
import { html, svg } from 'lit';
import { labelsOf, rowNotes, START, taskTitle, type NamedLab } from './words';

const [WIDTH, HEIGHT, LINE] = [620, 204, 136];
/** The most pixels from a token to the next, and the height of the arc to the first token. */
const [MAX_STEP, RISE] = [84, 64];

/** Draws an arc above two tokens, with an arrow at its end. */
function arc(from: number, to: number, rise: number, dash: string) {
  const [start, top] = [LINE - 34, LINE - 34 - rise / 0.75];
  return svg`<path
      d="M${from},${start}C${from},${top} ${to},${top} ${to},${start}"
      stroke-dasharray=${dash}
    /><path d="M${to - 6},${start - 9}L${to},${start}l6,-9" />`;
}

/**
 * Renders the task's title, and its picture: a circled digit looks back at the token before it, an ordinary letter has a
 * question mark over its arc to the first token. A task without such rows has its title alone.
 */
export function taskTemplate(namedLab: NamedLab) {
  const title = html`<h2>${taskTitle(namedLab.lab)}</h2>`;
  const [trigger, ordinary] = rowNotes(namedLab);
  if (!trigger || !ordinary) return title;
  const tokens = labelsOf(namedLab.lab).slice(0, 1 + Math.max(trigger.row, ordinary.row));
  const step = Math.min(MAX_STEP, WIDTH / tokens.length);
  const x = (t: number) => step * (t + 0.5);
  const text = (words: string, at: number, y: number, anchor = 'middle', size = 19, weight = 400) =>
    svg`<text x=${at} y=${y} text-anchor=${anchor} font-size=${size} font-weight=${weight}>${words}</text>`;
  const middle = (x(ordinary.row) + x(0)) / 2;
  const says = `a circled digit says: ${trigger.what} it`;
  const asks = `an ordinary letter: ${ordinary.what}`;
  return html`${title}
    <svg role="img" aria-label="${says}; ${asks}" viewBox="0 0 ${WIDTH} ${HEIGHT}">
      ${tokens.map((token, t) => {
        const isNoted = t === trigger.row || t === ordinary.row;
        return text(token, x(t), LINE, 'middle', Math.min(36, step * 0.6), isNoted ? 700 : 400);
      })}
      <g fill="none" stroke="currentColor">
        ${arc(x(trigger.row), x(trigger.row - 1), 28, '')}
        ${arc(x(ordinary.row), x(0), RISE, '5 5')}
        <path d="M${x(trigger.row)},${LINE + 12}v14" />
      </g>
      ${text('?', middle, LINE - 4 - RISE, 'middle', 28, 700)}
      ${text(asks, x(ordinary.row) + 24, 18, middle * 2 < WIDTH * 0.6 ? 'start' : 'end')}
      ${text(says, Math.max(0, x(trigger.row - 1) - 12), LINE + 48, 'start')}
      ${tokens[0] === START ? text('start token', 0, LINE + 26, 'start') : ''}
    </svg>`;
}
