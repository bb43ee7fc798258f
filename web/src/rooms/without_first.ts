/**
 * Start's "Delete the first token": draws the texts that the shown model generates with the first key, without this
 * key, and with it restored halfway, and the recorded texts of a published model (web/lessons/without_first.mjs).
 */
import { signal } from '@preact/signals-core';
import { html, nothing, render, type TemplateResult } from 'lit';
import recorded from '../../lessons/pictures/without_first.json';
import { errorSentence } from '../ask/errors';
import { modelIdOf, parseSubject } from '../ask/subject';
import type { Frame } from '../frame';
import type { Context, Scope } from '../page/context';
import { segmented, tableRegion } from '../page/controls';
import {
  CONDITIONS,
  CONDITION_NAMES,
  runTrial,
  type Measures,
  type Name,
  type Trial,
} from '../run/without_first';
import { formatNumber, halfInterval } from '../timeline/seeds';
import { firstName, percent } from '../words';
import './without_first.css';

/** The number of seeds over which texts are compared; the page shows the texts of the first seed. */
const SEEDS = 8;
/** The number of tokens of each text, and the fewest on which a verdict rests. */
const [COUNT, LEAST_COUNT] = [64, 16];
/** The share of repeated tokens, and the rise of the loss in nats, from which the page calls a text broken. */
const [REPEATED, RISE] = [0.5, 1];

type Numbers = Readonly<Record<Name, Measures>>;

const ANY = [-Infinity, Infinity] as const;
const mean = (all: readonly number[]) => all.reduce((a, b) => a + b, 0) / all.length;

/** Returns the mean difference of two conditions over the seeds, and whether its 95% interval is above 0. */
function difference(
  trials: readonly Numbers[],
  [more, less]: readonly [Name, Name],
  measure: keyof Measures,
): { readonly mean: number; readonly isAbove: boolean } {
  const differences = trials.map((one) => one[more][measure] - one[less][measure]);
  return {
    mean: mean(differences),
    isAbove: mean(differences) - halfInterval(differences, ANY) > 0,
  };
}

export interface Verdict {
  readonly kind: 'apart' | 'worse' | 'same';
  readonly heading: string;
  readonly text: string;
}

const HEADINGS = {
  apart: 'Without the first token the text falls apart',
  repeats: 'Without the first token the model repeats itself',
  worse: 'Without the first token the text gets worse',
  same: 'Deleting the first token changes little here',
} as const;

/** Returns the verdict that four or more seeds support; undefined for fewer. */
export function verdictOf(trials: readonly Numbers[], count: number): Verdict | undefined {
  const repeats = difference(trials, ['deleted', 'kept'], 'repeated');
  const rise = difference(trials, ['deleted', 'kept'], 'loss');
  const of = (name: Name, measure: keyof Measures) => mean(trials.map((one) => one[name][measure]));
  if (trials.length < 4) return undefined;
  const isStuck = repeats.isAbove && of('deleted', 'repeated') >= REPEATED;
  const isApart = isStuck || (rise.isAbove && rise.mean >= RISE);
  const kind = isApart ? 'apart' : repeats.isAbove || rise.isAbove ? 'worse' : 'same';
  const share = (name: Name, measure: keyof Measures) => percent(of(name, measure), 0);
  const nats = (name: Name) => of(name, 'loss').toFixed(2);
  const measured =
    `Over ${trials.length} seeds, ${share('deleted', 'repeated')} of the text written without it repeats three earlier ` +
    `tokens, against ${share('kept', 'repeated')} with it and ${share('control', 'repeated')} without the second token instead; its loss under the unedited model is ${nats('deleted')} nats ` +
    `per token, against ${nats('kept')}${rise.mean < 0 && repeats.isAbove ? ': repetition is easy to predict' : ''}.`;
  if (kind === 'same')
    return {
      kind,
      heading: HEADINGS.same,
      text: `${measured} Both 95% intervals of the difference reach 0.`,
    };
  const late = difference(trials, ['deleted', 'restored'], 'late');
  const isBack = late.isAbove && of('restored', 'late') - of('kept', 'late') < late.mean;
  const half = Math.floor(count / 2);
  const restored =
    `Put back after ${half} tokens, the second half of the text ` +
    `${isBack ? 'recovers' : 'does not clearly recover'}: ${share('restored', 'late')} of it repeats, against ${share('deleted', 'late')} without ` +
    `the first token and ${share('kept', 'late')} with it.`;
  return { kind, heading: HEADINGS[isStuck ? 'repeats' : kind], text: `${measured} ${restored}` };
}

function table(
  prompt: string,
  texts: Readonly<Record<Name, string>>,
  trials: readonly Numbers[],
  caption: string,
): TemplateResult {
  const of = (name: Name, measure: keyof Measures) => mean(trials.map((one) => one[name][measure]));
  return tableRegion(
    caption,
    html`<table class="without">
      <caption>
        ${caption}
      </caption>
      <thead>
        <tr>
          <th scope="col">First token</th>
          <th scope="col">The model writes</th>
          <th scope="col">Repeated</th>
          <th scope="col">Loss</th>
        </tr>
      </thead>
      <tbody>
        ${CONDITION_NAMES.map(
          (name) =>
            html`<tr>
              <th scope="row">${CONDITIONS[name].title}</th>
              <td class="written"><span class="hint">${prompt}</span>${texts[name]}</td>
              <td>${percent(of(name, 'repeated'), 0)}</td>
              <td>${formatNumber(of(name, 'loss'), 2)}</td>
            </tr>`,
        )}
      </tbody>
    </table>`,
  );
}

const conditions = (count: number, seeds: number, texts = 'texts of seed 1') =>
  `${count} tokens; ${texts}, numbers are means over ${seeds} ${seeds === 1 ? 'seed' : 'seeds'} at temperature 0.6 from the 40 likeliest. ` +
  'Repeated: tokens that end a sequence of three that the text already had. Loss: nats per token under the unedited model.';

type Act = Exclude<Name, 'kept'>;
/** The actions on the first token, in the order of the buttons. */
const ACTS: Readonly<Record<Act, string>> = {
  ...{ deleted: 'Hide it', restored: 'Show it again', control: 'Hide the second instead' },
};

/**
 * Draws the recorded texts of a published model: the text with the first token, next to the text without this token or
 * with the token restored halfway.
 */
export class Recorded {
  readonly #place: HTMLElement;
  readonly #shown = signal<Act>('deleted');

  constructor(place: HTMLElement, scope: Scope) {
    this.#place = place;
    this.#place.dataset.recordedTexts = '';
    scope.effect(() => this.#draw(this.#shown.value));
  }

  #draw(name: Act): void {
    const { model, file, prompt, count, first, texts, back, trials } = recorded;
    const { heading, text } = verdictOf(trials, count)!;
    const repeated = (one: Name) => percent(mean(trials.map((trial) => trial[one].repeated)), 0);
    const [before, after] = [texts.restored.slice(0, back), texts.restored.slice(back)];
    const written =
      name !== 'restored'
        ? texts[name]
        : html`${before}<strong class="back">[first token shown again]</strong>${after}`;
    const opening = html`<span class="hint">${prompt}</span>`;
    // Writes no spaces between the tags of the template, which would be part of the texts.
    render(
      html`<p class="answer">${heading}.</p>
        <p>
          Another model, the larger ${model}, continues the gray text. It has no start token: its
          sink is whatever token stands first, here “${first}”. At the right, the tokens that it
          writes cannot attend to it: ${repeated('deleted')} of them then repeat phrases of three
          tokens, over eight texts; with all tokens visible ${repeated('kept')} do, and with the
          second one hidden instead ${repeated('control')}.
        </p>
        <div class="recorded-texts">
          <div>
            <p class="which">With the first token</p>
            <p class="recorded" data-text="kept">
              <span class="written">${opening}${texts.kept}</span>
            </p>
          </div>
          <div>
            ${segmented(
              'First token',
              (Object.keys(ACTS) as Act[]).map((one) => [one, ACTS[one]] as const),
              name,
              (to) => (this.#shown.value = to),
            )}
            <p class="recorded" role="status" data-text=${name}>
              <span class="written">${opening}${written}</span>
            </p>
          </div>
        </div>
        <details class="more">
          <summary>How sure is that?</summary>
          <p>${text}</p>
          ${table(prompt, texts, trials, `Recorded of ${file}. ${conditions(count, trials.length, 'texts of the likeliest token each time')}`)}
        </details>`,
      this.#place,
    );
  }
}

const textsOf = (trial: Trial) =>
  Object.fromEntries(CONDITION_NAMES.map((name) => [name, trial[name].text])) as Record<
    Name,
    string
  >;

interface Trying {
  readonly frame: Frame;
  readonly count: number;
  readonly texts?: Readonly<Record<Name, string>>;
  readonly trials: readonly Numbers[];
  readonly problem?: string;
  readonly isDone: boolean;
}

/** The part of Start that deletes the first token; `start` generates the texts, and `stop` removes them. */
export class WithoutFirst {
  readonly #context: Context;
  readonly #shown = signal<Trying | undefined>(undefined);
  #job: AbortController | undefined;

  constructor(place: HTMLElement, context: Context, scope: Scope) {
    this.#context = context;
    scope.effect(() => this.#draw(place));
    scope.onEnd(() => this.stop());
  }

  stop(): void {
    this.#job?.abort();
    this.#shown.value = undefined;
  }

  async start(frame: Frame): Promise<void> {
    this.stop();
    const job = new AbortController();
    this.#job = job;
    const { signal: abort } = job;
    const room = frame.architecture.context - frame.T;
    const count = Math.min(COUNT, room);
    const show = (change: Partial<Trying>) => {
      if (!abort.aborted) this.#shown.value = { ...this.#shown.peek()!, ...change };
    };
    this.#shown.value = { frame, count, trials: [], isDone: false };
    if (count < LEAST_COUNT)
      return show({
        isDone: true,
        problem: `This text leaves the model room for ${Math.max(0, room)} more tokens; it writes at least ${LEAST_COUNT}. Shorten the text.`,
      });
    try {
      const { models } = this.#context.engine.peek()!;
      const id = modelIdOf(parseSubject(frame.subject)!);
      const opened = await models.get(id, { signal: abort, onProgress: () => {} });
      const writer = { ...opened, edits: frame.edits };
      const prompt = frame.tokens.map((token) => token.id);
      for (let seed = 1; seed <= SEEDS; seed++) {
        const trial = await runTrial(writer, { prompt, count, seed, signal: abort });
        const { texts, trials } = this.#shown.peek()!;
        show({
          texts: texts ?? textsOf(trial),
          trials: [...trials, trial],
          isDone: seed === SEEDS,
        });
      }
    } catch (error) {
      show({ problem: errorSentence(error), isDone: true });
    }
  }

  #draw(place: HTMLElement): void {
    const shown = this.#shown.value;
    place.hidden = !shown;
    if (!shown) return void render(nothing, place);
    const { frame, count, texts, trials, problem, isDone } = shown;
    const verdict = isDone ? verdictOf(trials, count) : undefined;
    render(
      html`<h2>${verdict?.heading ?? 'What does the model write without its first token?'}</h2>
        <p role="status">
          ${problem ?? verdict?.text ?? `${frame.title} has read your text and writes on without ${firstName(frame)}: seed ${trials.length + 1} of ${SEEDS}.`}
        </p>
        ${
          texts
            ? table(
                frame.tokens
                  .filter(({ special }) => !special)
                  .map(({ text }) => text)
                  .join(''),
                texts,
                trials,
                `${frame.title}. ${conditions(count, trials.length)}`,
              )
            : nothing
        }
        <button type="button" @click=${() => this.stop()}>
          ${isDone ? 'Put it back' : 'Stop'}
        </button>`,
      place,
    );
  }
}
