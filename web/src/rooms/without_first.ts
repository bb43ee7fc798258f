/**
 * Start's "Delete the first token": draws the texts that the shown model generates with the first key, without it, and
 * with it restored halfway, and the recorded texts of a published model (web/lessons/without_first.mjs).
 */
import { signal } from '@preact/signals-core';
import { html, nothing, render, type TemplateResult } from 'lit';
import recordedTrials from '../../lessons/pictures/without_first.json';
import { errorSentence } from '../ask/errors';
import { modelIdOf, parseSubject } from '../ask/subject';
import { mean, type Frame } from '../frame';
import type { Context, Scope } from '../page/context';
import { segmentedControl } from '../page/controls';
import { tableRegion } from '../page/room_controls';
import {
  CONDITIONS,
  CONDITION_NAMES,
  readRecorded,
  runTrial,
  type Measures,
  type ConditionName,
  type Trial,
} from '../run/without_first';
import { formatNumber, halfInterval } from '../timeline/seeds';
import { firstTokenName, formatPercent } from '../words';
import { barsTable, linesTable } from '../page/tables';
import './without_first.css';

/** Verdicts compare texts of this many seeds; the page shows the texts of the first one. */
const SEED_COUNT = 8;
/** The length of a text in tokens. A text is shorter where the model's context ends, but not than LEAST_LENGTH. */
const [TEXT_LENGTH, LEAST_LENGTH] = [64, 16];
/** At least this share of repeated tokens, or this rise of the loss in nats, means that the text falls apart. */
const [BROKEN_REPEATED, BROKEN_RISE] = [0.5, 1];

/** A text has recovered wholly where it repeats at most this much more than with the first token. */
const WHOLLY = 0.05;

type Numbers = Readonly<Record<ConditionName, Measures>>;

const meanOf = (trials: readonly Numbers[], name: ConditionName, measure: keyof Measures) =>
  mean(trials.map((trial) => trial[name][measure]));

/**
 * Returns how much a measure is larger without the first token than under another condition, as the mean over the seeds,
 * and whether its 95% interval is above 0.
 */
function riseFrom(name: ConditionName, measure: keyof Measures, trials: readonly Numbers[]) {
  const rises = trials.map((trial) => trial.deleted[measure] - trial[name][measure]);
  const meanRise = mean(rises);
  return {
    mean: meanRise,
    isSignificant: meanRise - halfInterval(rises, [-Infinity, Infinity]) > 0,
  };
}

const HEADINGS = {
  apart: 'Without the first token the text falls apart',
  repeats: 'Without the first token the model repeats itself',
  worse: 'Without the first token the text gets worse',
  same: 'Deleting the first token changes little here',
} as const;

/** Returns undefined for fewer than four seeds. */
export function verdictOf(trials: readonly Numbers[], count: number) {
  if (trials.length < 4) return undefined;
  const repetition = riseFrom('kept', 'repeated', trials);
  const lossRise = riseFrom('kept', 'loss', trials);
  const isRepetitive =
    repetition.isSignificant && meanOf(trials, 'deleted', 'repeated') >= BROKEN_REPEATED;
  const isBroken = isRepetitive || (lossRise.isSignificant && lossRise.mean >= BROKEN_RISE);
  const kind = isBroken
    ? 'apart'
    : repetition.isSignificant || lossRise.isSignificant
      ? 'worse'
      : 'same';
  const shareText = (name: ConditionName, measure: keyof Measures) =>
    formatPercent(meanOf(trials, name, measure), 0);
  const lossWords = (name: ConditionName) => meanOf(trials, name, 'loss').toFixed(2);
  const numbersText =
    `Over ${trials.length} seeds, ${shareText('deleted', 'repeated')} of the text written without it repeats three earlier ` +
    `tokens, against ${shareText('kept', 'repeated')} with it and ${shareText('control', 'repeated')} without the second token instead; its loss under the unedited model is ${lossWords('deleted')} nats ` +
    `per token, against ${lossWords('kept')}${lossRise.mean < 0 && repetition.isSignificant ? ': repetition is easy to predict' : ''}.`;
  if (kind === 'same')
    return {
      kind,
      heading: HEADINGS.same,
      text: `${numbersText} Both 95% intervals of the difference reach 0.`,
    };
  const lateDifference = riseFrom('restored', 'late', trials);
  const remaining = meanOf(trials, 'restored', 'late') - meanOf(trials, 'kept', 'late');
  const hasRecovered = lateDifference.isSignificant && remaining < lateDifference.mean;
  const recovery = !hasRecovered
    ? 'does not clearly recover'
    : remaining < WHOLLY
      ? 'recovers'
      : 'recovers in part';
  const halfLength = Math.floor(count / 2);
  const recoveryText =
    `Put back after ${halfLength} tokens, the second half of the text ` +
    `${recovery}: ${shareText('restored', 'late')} of it repeats, against ${shareText('deleted', 'late')} without ` +
    `the first token and ${shareText('kept', 'late')} with it.`;
  return {
    kind,
    heading: HEADINGS[isRepetitive ? 'repeats' : kind],
    text: `${numbersText} ${recoveryText}`,
  };
}

function textsTable(
  prompt: string,
  textOf: (name: ConditionName) => string,
  trials: readonly Numbers[],
  caption: string,
): TemplateResult {
  const lines = CONDITION_NAMES.map((name) => ({
    title: CONDITIONS[name].title,
    cells: [
      html`<div class="written"><span class="hint">${prompt}</span>${textOf(name)}</div>`,
      formatPercent(meanOf(trials, name, 'repeated'), 0),
      formatNumber(meanOf(trials, name, 'loss'), 2),
    ],
  }));
  const columns = ['First token', 'The model writes', 'Repeated', 'Loss'];
  return tableRegion(caption, linesTable('without', caption, columns, lines));
}

const conditionsWords = (count: number, seeds: number, texts = 'texts of seed 1') =>
  `${count} tokens; ${texts}, numbers are means over ${seeds} ${seeds === 1 ? 'seed' : 'seeds'} at temperature 0.6 from the 40 likeliest. ` +
  'Repeated: tokens that end a sequence of three that the text already had. Loss: nats per token under the unedited model.';

type Action = Exclude<ConditionName, 'kept'>;
/** In the order of the buttons. */
const ACTIONS: Readonly<Record<Action, string>> = {
  ...{ deleted: 'Hide the first token', restored: 'Show it again' },
  control: 'Hide the second instead',
};

const BARS: readonly (readonly [ConditionName, string])[] = [
  ['kept', 'nothing hidden'],
  ['control', 'second token hidden'],
  ['deleted', 'first token hidden'],
];

/**
 * Draws two recorded texts of a published model side by side: one with nothing hidden, the other, as the reader
 * chooses, with the first or the second token hidden, or with the first one restored halfway.
 */
export function addRecordedTexts(place: HTMLElement, scope: Scope): void {
  const { model, file, prompt, count, first, second, back } = recordedTrials;
  const { texts, trials } = readRecorded(recordedTrials);
  const { heading, text } = verdictOf(trials, count)!;
  const [textBefore, textAfter] = [texts.restored.slice(0, back), texts.restored.slice(back)];
  const promptSpan = html`<span class="hint">${prompt}</span>`;
  const chosenAction = signal<Action>('deleted');
  place.dataset.recordedTexts = '';
  scope.effect(() => {
    const name = chosenAction.value;
    const shownText =
      name === 'restored'
        ? html`${textBefore}<strong class="back">[first token shown again]</strong>${textAfter}`
        : texts[name];
    const [before, hidden] = name === 'control' ? [first, second] : ['', first];
    // Spaces between the tags would become part of the texts.
    render(
      html`<p class="answer">
          In a real model: ${heading.charAt(0).toLowerCase()}${heading.slice(1)}.
        </p>
        <div class="recorded-intro">
          <p>
            ${model} continues the gray text. It has no start token: its sink is whatever token
            comes first, here “${first}”. While it is hidden, no written token can attend to it: the
            attention that it took goes to other tokens (step 2).
          </p>
          ${barsTable(
            `How much of what it writes repeats three tokens in a row that came before: the mean of ${trials.length} random continuations`,
            BARS.map(([one, title]) => {
              const share = meanOf(trials, one, 'repeated');
              return { title, share, text: formatPercent(share, 0) };
            }),
          )}
        </div>
        <div class="recorded-texts">
          <div>
            <p class="which">Nothing hidden</p>
            <p class="recorded" data-text="kept">
              <span class="written">${promptSpan}${texts.kept}</span>
            </p>
          </div>
          <div>
            ${segmentedControl(
              'First token',
              (Object.keys(ACTIONS) as Action[]).map(
                (action) => [action, ACTIONS[action]] as const,
              ),
              name,
              (action) => (chosenAction.value = action),
            )}
            <p class="recorded" role="status" data-text=${name}>
              <span class="written"
                ><span class="hint"
                  >${before}<s>${hidden}</s>${prompt.slice(before.length + hidden.length)}</span
                >${shownText}</span
              >
            </p>
          </div>
        </div>
        <details class="more">
          <summary>How sure is that?</summary>
          <p>${text}</p>
          ${textsTable(prompt, (condition) => texts[condition], trials, `Recorded of ${file}. ${conditionsWords(count, trials.length, 'texts of the likeliest token each time')}`)}
        </details>`,
      place,
    );
  });
}

interface TrialState {
  readonly frame: Frame;
  readonly count: number;
  readonly trials: readonly Trial[];
  readonly problem?: string;
  readonly isDone: boolean;
}

/**
 * Deletes the first token of a model's text: `start` generates a text under each condition, and `stop` removes the
 * texts.
 */
export class DeletionTrial {
  readonly #context: Context;
  readonly #state = signal<TrialState | undefined>(undefined);
  #job: AbortController | undefined;

  constructor(place: HTMLElement, context: Context, scope: Scope) {
    this.#context = context;
    scope.effect(() => this.#draw(place));
    scope.onEnd(() => this.stop());
  }

  stop(): void {
    this.#job?.abort();
    this.#state.value = undefined;
  }

  async start(frame: Frame): Promise<void> {
    this.stop();
    const job = new AbortController();
    this.#job = job;
    const { signal: abortSignal } = job;
    const freeLength = frame.architecture.context - frame.T;
    const count = Math.min(TEXT_LENGTH, freeLength);
    const update = (change: Partial<TrialState>) => {
      if (!abortSignal.aborted) this.#state.value = { ...this.#state.peek()!, ...change };
    };
    this.#state.value = { frame, count, trials: [], isDone: false };
    if (count < LEAST_LENGTH)
      return update({
        isDone: true,
        problem: `This text leaves the model room for ${Math.max(0, freeLength)} more tokens; it writes at least ${LEAST_LENGTH}. Shorten the text.`,
      });
    try {
      const { models } = this.#context.engine.peek()!;
      const id = modelIdOf(parseSubject(frame.subject)!);
      const model = await models.get(id, { signal: abortSignal, onProgress: () => {} });
      const writer = { ...model, edits: frame.edits };
      const prompt = frame.tokens.map((token) => token.id);
      for (let seed = 1; seed <= SEED_COUNT; seed++) {
        const trial = await runTrial(writer, { prompt, count, seed, signal: abortSignal });
        const { trials } = this.#state.peek()!;
        update({ trials: [...trials, trial], isDone: seed === SEED_COUNT });
      }
    } catch (error) {
      update({ problem: errorSentence(error), isDone: true });
    }
  }

  #draw(place: HTMLElement): void {
    const state = this.#state.value;
    place.hidden = !state;
    if (!state) return void render(nothing, place);
    const { frame, count, trials, problem, isDone } = state;
    const [firstTrial] = trials;
    const verdict = isDone ? verdictOf(trials, count) : undefined;
    render(
      html`<h2>${verdict?.heading ?? 'What does the model write without its first token?'}</h2>
        <p role="status">
          ${problem ?? verdict?.text ?? `${frame.title} has read your text and writes on without ${firstTokenName(frame)}: seed ${trials.length + 1} of ${SEED_COUNT}.`}
        </p>
        ${
          firstTrial
            ? textsTable(
                frame.tokens
                  .filter(({ special }) => !special)
                  .map(({ text }) => text)
                  .join(''),
                (name) => firstTrial[name].text,
                trials,
                `${frame.title}. ${conditionsWords(count, trials.length)}`,
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
