/** Counts the seconds of a wait, so that no second of a long act passes without a moving number. */
import { AsyncDirective, directive } from 'lit/async-directive.js';
import { html, nothing } from 'lit';

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
    this.#timer ??= window.setInterval(() => this.setValue(this.#seconds()), 1000);
  }

  /** Screen readers, which read the words, would read the seconds again and again. */
  #seconds(): unknown {
    const seconds = Math.floor((performance.now() - this.#since) / 1000);
    return seconds > 0 ? html`<span aria-hidden="true"> ${seconds} s</span>` : nothing;
  }
}

/** Draws for how many seconds these words, which say what the page does, have not changed; nothing in the first second. */
export const elapsed = directive(Elapsed);
