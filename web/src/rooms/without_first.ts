/**
 * Start's "Delete the first token": draws the texts that the shown model generates with the first key, without it, and
 * with it restored halfway, and the recorded texts of a published model (web/lessons/without_first.mjs).
 */
import { signal } from '@preact/signals-core';
import { html, nothing, render, type TemplateResult } from 'lit';
import recordedTrials from '../../lessons/pictures/without_first.json';
import { errorSentence } from '../ask/errors';
import { modelIdOf, parseSubject } from '../ask/subject';
import { joinTokens } from '../parts';
import { mean, type Frame } from '../frame';
import type { Context, Scope } from '../page/context';
import { segmentedControl } from '../page/controls';
import { tableRegion } from '../page/room_controls';
import {
  CONDITIONS,
  CONDITION_NAMES,
  readRecorded,
  repeats,
  runTrial,
  type Measures,
  type ConditionName,
  type Trial,
} from '../run/without_first';
import { formatNumber, halfInterval } from '../timeline/seeds';
import { compare, compareLosses, decapitalize, firstTokenName, formatPercent } from '../words';
import { barsTable, linesTable } from '../page/tables';
import './without_first.css';

/** Verdicts compare texts of this many seeds; the page shows the texts of the first one. */
const SEED_COUNT = 8;
/** The length of a text in tokens. A text is shorter where the model's context ends, but not than LEAST_LENGTH. */
const [TEXT_LENGTH, LEAST_LENGTH] = [64, 16];
/** Of a text that repeats at least this share of its tokens, sentences say that it repeats itself. */
const REPETITIVE = 0.5;
/** A text whose loss is this much higher, in nats, is far less likely. */
const FAR = 1;

type Numbers = Readonly<Record<ConditionName, Measures>>;

const meanOf = (trials: readonly Numbers[], name: ConditionName, measure: keyof Measures) =>
  mean(trials.map((trial) => trial[name][measure]));

/**
 * Returns 1 or -1 if a measure is larger or smaller without the first token than under another condition: its 95% interval
 * over the seeds does not reach 0, and a reader would call the means different. Else 0.
 */
function changeFrom(
  name: ConditionName,
  measure: keyof Measures,
  trials: readonly Numbers[],
): number {
  const rises = trials.map((trial) => trial.deleted[measure] - trial[name][measure]);
  if (Math.abs(mean(rises)) <= halfInterval(rises, [-Infinity, Infinity])) return 0;
  const compareMeans = measure === 'loss' ? compareLosses : compare;
  return compareMeans(meanOf(trials, 'deleted', measure), meanOf(trials, name, measure));
}

/** Says what differs in the texts without the first token; its number is in the text below the heading. */
function headingOf(trials: readonly Numbers[], repeated: number, loss: number): string {
  const isRepetitive = repeated > 0 && meanOf(trials, 'deleted', 'repeated') >= REPETITIVE;
  const rise = meanOf(trials, 'deleted', 'loss') - meanOf(trials, 'kept', 'loss');
  const lossWords = `writes ${loss < 0 ? 'likelier' : rise < FAR ? 'less likely' : 'far less likely'} text`;
  const changes = isRepetitive
    ? ['repeats itself']
    : [
        ...(repeated ? [`repeats itself ${repeated > 0 ? 'more' : 'less'}`] : []),
        ...(loss ? [lossWords] : []),
      ];
  return changes.length
    ? `Without the first token the model ${changes.join(' and ')}`
    : 'Hiding the first token changes little in how likely and how repetitive the written text is';
}

/** Says whether the second half recovers with the first token put back; empty where nothing was lost. */
function recoveryText(trials: readonly Numbers[], count: number): string {
  if (changeFrom('kept', 'late', trials) <= 0) return '';
  const [kept, deleted, restored] = (['kept', 'deleted', 'restored'] as const).map((name) =>
    meanOf(trials, name, 'late'),
  ) as [number, number, number];
  const recovery =
    changeFrom('restored', 'late', trials) <= 0 || restored - kept >= deleted - restored
      ? 'does not clearly recover'
      : compare(restored, kept) > 0
        ? 'recovers in part'
        : 'recovers';
  const [keptText, deletedText, restoredText] = [kept, deleted, restored].map((share) =>
    formatPercent(share, 0),
  );
  return (
    ` Put back after ${Math.floor(count / 2)} tokens, the second half of the text ${recovery}: ${restoredText} of it repeats, against ` +
    `${deletedText} without the first token and ${keptText} with it.`
  );
}

/** Returns undefined for fewer than four seeds. */
export function verdictOf(trials: readonly Numbers[], count: number) {
  if (trials.length < 4) return undefined;
  const shareText = (name: ConditionName) => formatPercent(meanOf(trials, name, 'repeated'), 0);
  const lossText = (name: ConditionName) => meanOf(trials, name, 'loss').toFixed(2);
  const [repeated, loss] = [
    changeFrom('kept', 'repeated', trials),
    changeFrom('kept', 'loss', trials),
  ];
  const note =
    repeated > 0 && loss < 0
      ? ': repetition is easy to predict'
      : repeated || loss
        ? ''
        : '; these differences are within the spread of the seeds, or too small to count';
  const text =
    `Over ${trials.length} seeds, ${shareText('deleted')} of the text written without it repeats three earlier ` +
    `tokens, against ${shareText('kept')} with it and ${shareText('control')} without the second token instead; the loss of the written text under the unedited model is ${lossText('deleted')} nats ` +
    `per token, against ${lossText('kept')}${note}.`;
  const recovery = repeated > 0 ? recoveryText(trials, count) : '';
  return { heading: headingOf(trials, repeated, loss), text: `${text}${recovery}` };
}

/** @param which which texts are shown beside the means over the seeds, and the caption */
function textsTable(
  prompt: string,
  textOf: (name: ConditionName) => string,
  trials: readonly Numbers[],
  [which, caption]: readonly [string, string],
): TemplateResult {
  const lines = CONDITION_NAMES.map((name) => ({
    title: CONDITIONS[name].title,
    cells: [
      html`<div class="written"><span class="hint">${prompt}</span>${textOf(name)}</div>`,
      formatPercent(meanOf(trials, name, 'repeated'), 0),
      formatNumber(meanOf(trials, name, 'loss'), 2),
    ],
  }));
  const seeds = `mean of ${trials.length}`;
  const columns = ['First token', `One text (${which})`, `Repeated, ${seeds}`, `Loss, ${seeds}`];
  return tableRegion(caption, linesTable('without', caption, columns, lines));
}

const conditionsWords = (count: number) =>
  `Texts of ${count} tokens; means over seeds at temperature 0.6 from the 40 likeliest. ` +
  'Repeated: tokens that end a sequence of three that the text already had. Loss: nats per token under the unedited model.';

type Action = Exclude<ConditionName, 'kept'>;
/** Explains the sign for bytes that are no character, which a small model may write. */
const brokenNote = (trial: Trial): string =>
  CONDITION_NAMES.some((name) => trial[name].text.includes('\ufffd'))
    ? ' “\ufffd” stands for bytes that are no character.'
    : '';

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

const { prompt: PROMPT, back: BACK } = recordedTrials;
/** Splits a text into words, each with the white space after it. */
const wordsOf = (text: string): string[] => text.split(/(?<=\s)(?=\S)/);
const PROMPT_WORDS = wordsOf(PROMPT).length;

/** Returns the words that the model wrote after the prompt, and whether each repeats; capitals make no other word. */
export function markedWords(written: string): (readonly [word: string, isRepeated: boolean])[] {
  const words = wordsOf(`${PROMPT}${written}`);
  const areRepeated = repeats(words.map((word) => word.trim().toLowerCase()));
  return words.map((word, i) => [word, areRepeated[i]!] as const).slice(PROMPT_WORDS);
}

const markedShare = (written: string): number => {
  const words = markedWords(written);
  return words.filter(([, isRepeated]) => isRepeated).length / words.length;
};

/** Draws what the model wrote: repeated words are marked, and a note stands where the first token was shown again. */
function writtenTemplate(written: string, back = Infinity): unknown[] {
  let end = 0;
  return [
    ' ',
    ...markedWords(written).map(([word, isRepeated]) => {
      const isBack = end < back && back <= (end += word.length);
      const text = isRepeated ? html`<mark>${word}</mark>` : word;
      return isBack ? [text, html`<strong class="back">[first token shown again]</strong> `] : text;
    }),
  ];
}

/**
 * Draws two recorded texts of a published model side by side: one with nothing hidden, the other, as the reader
 * chooses, with the first or the second token hidden, or with the first one restored halfway.
 */
export function addRecordedTexts(place: HTMLElement, scope: Scope): void {
  const { model, file, count, first, second } = recordedTrials;
  const { texts, trials } = readRecorded(recordedTrials);
  const { heading, text } = verdictOf(trials, count)!;
  const chosenAction = signal<Action>('deleted');
  place.dataset.recordedTexts = '';
  scope.effect(() => {
    const name = chosenAction.value;
    const [before, hidden] = name === 'control' ? [first, second] : ['', first];
    // Spaces between the tags would become part of the texts.
    render(
      html`<p class="answer">In a real model: ${decapitalize(heading)}.</p>
        <div class="recorded-intro">
          <p>
            ${model} continues the gray text. It has no start token: its sink is whatever token
            comes first, here “${first}”. While it is hidden, no written token can attend to it: the
            attention that it took goes to other tokens.
          </p>
          ${barsTable(
            html`In one text each, hidden throughout: words that end three words which came before`,
            BARS.map(([one, title]) => {
              const share = markedShare(texts[one]);
              return { title, share, text: formatPercent(share, 0) };
            }),
          )}
        </div>
        <div class="recorded-texts">
          <div>
            <p class="which">Nothing hidden</p>
            <p class="recorded" data-text="kept">
              <span class="written"
                ><span class="hint">${PROMPT}</span>${writtenTemplate(texts.kept)}</span
              >
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
                  >${before}<s>${hidden}</s>${PROMPT.slice(before.length + hidden.length)}</span
                >${writtenTemplate(texts[name], name === 'restored' ? BACK : undefined)}</span
              >
            </p>
          </div>
        </div>
        <details class="more">
          <summary>How sure is that?</summary>
          <p>
            The bars count the words of one text each. The means here count the tokens of
            ${trials.length} other texts, drawn at random. ${text}
          </p>
          ${textsTable(PROMPT, (condition) => texts[condition], trials, ['likeliest tokens', `Recorded of ${file}. ${conditionsWords(count)}`])}
        </details>`,
      place,
    );
  });
}

/** The text that the model read; its tokens may be bytes of characters. */
const promptText = ({ tokens, question, dropped }: Frame): string =>
  question.input === 'text' && !dropped
    ? question.prompt
    : joinTokens(tokens.flatMap(({ text, special }) => (special ? [] : text)));

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
            ? textsTable(promptText(frame), (name) => firstTrial[name].text, trials, [
                'seed 1',
                `${frame.title}. ${conditionsWords(count)}${brokenNote(firstTrial)}`,
              ])
            : nothing
        }
        <button type="button" @click=${() => this.stop()}>
          ${isDone ? 'Put it back' : 'Stop'}
        </button>`,
      place,
    );
  }
}
