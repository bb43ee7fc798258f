/** What the page says about itself: messages, progress and the line at its foot. */
import { html, render } from 'lit';
import type { Describe } from 'sinkscope';
import { need, say } from './panels';

/** Work shorter than this shows no progress. */
export const PATIENCE_MS = 200;

export interface Work {
  readonly text: string;
  /** When it began, by performance.now(). */
  readonly since: number;
}

/** Last text of #messages: a screen reader is to hear each message once. */
let said = '';

export function drawMessages(errors: readonly string[], notices: readonly string[]): void {
  const text = [...new Set([...errors, ...notices])].join('\n');
  if (text === said) return;
  said = text;
  const messages = need('messages');
  messages.textContent = text;
  messages.hidden = !text;
  messages.classList.toggle('error', errors.length > 0);
}

export function drawProgress(work: Work | undefined, stop: () => void): void {
  const late = work && performance.now() - work.since > PATIENCE_MS;
  const progress = need('progress');
  progress.hidden = !late;
  if (late)
    render(html`${work.text} … <button type="button" @click=${stop}>Stop</button>`, progress);
}

export function drawFooter(describe: Describe, firstSink: number, lastRun?: number): void {
  const time = firstSink ? ` · first sink after ${Math.round(firstSink)} ms` : '';
  const run = lastRun === undefined ? '' : ` · last run ${Math.round(lastRun)} ms`;
  say(
    need('version'),
    `Sinkscope ${describe.version} · ${describe.kernels} kernels${time}${run} · ` +
      `nothing leaves this machine`,
  );
}
