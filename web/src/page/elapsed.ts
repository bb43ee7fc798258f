/** Counts the seconds of a wait, so that no second of a long act passes without a moving number. */
import { AsyncDirective, directive } from 'lit/async-directive.js';
import { html, nothing } from 'lit';

/** Half a second, since a busy page is late: with a whole one, a tick would often come after more than a second. */
const TICK_MS = 500;

class Elapsed extends AsyncDirective {
  #words: string | undefined;
  #since = 0;
  #timer: number | undefined;

  override render(words: string): unknown {
    // The seconds begin with the words: a tick of the words before could make the first one last two seconds.
    if (words !== this.#words) {
      this.disconnected();
      this.#since = performance.now();
    }
    this.#words = words;
    this.reconnected();
    return this.#seconds();
  }

  override disconnected(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  override reconnected(): void {
    this.#timer ??= window.setInterval(() => this.setValue(this.#seconds()), TICK_MS);
  }

  /** Screen readers, which read the words, would read the seconds again and again. */
  #seconds(): unknown {
    const ticks = Math.floor((performance.now() - this.#since) / TICK_MS);
    const seconds = ((ticks * TICK_MS) / 1000).toFixed(1);
    return ticks > 0 ? html`<span aria-hidden="true"> ${seconds} s</span>` : nothing;
  }
}

/** Draws for how many seconds these words, which say what the page does, have not changed; nothing before the first tick. */
export const elapsed = directive(Elapsed);
