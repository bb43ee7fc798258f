/**
 * Start's story below the first screen: six steps of one sentence and one act each, on the reader's own text. A step
 * is built when the reader has scrolled to it, and what it needs is asked for only then.
 */
import { computed, signal, type ReadonlySignal } from '@preact/signals-core';
import { html, nothing, render, type TemplateResult } from 'lit';
import { defaults, type State } from '../ask/state';
import { stepWords } from '../ask/steps';
import { claimOf } from '../claims';
import { isBidirectional, layerNumber, selectedHead, type Frame, type Head } from '../frame';
import { fromScratch } from '../lab/presets';
import { framesOf, shownOf, type Context, type Scope, type Shown } from '../page/context';
import { Figure } from '../page/figure';
import { lessonLink } from '../page/lessons';
import { explained } from '../page/terms';
import { lackWords, part, type View } from '../page/view';
import type { Study } from '../run/request';
import { arrows } from '../views/arrows';
import { attention } from '../views/attention';
import { heads as allHeads } from '../views/heads';
import { outputs } from '../views/outputs';
import {
  capital,
  firstName,
  givenWords,
  headName,
  headsWords,
  isBelow,
  judged,
  percent,
  shareWords,
  shortWords,
  show,
} from '../words';
import { cardOf } from './about';
import { ablation, isChangeable, lossChangeOf, lossStudies } from './loss_change';
import { ROOMS } from './names';
import { seedWords, isTwin, remarkOf } from './start_words';
import { trained, Walk } from './walk';
import { Recorded, WithoutFirst } from './without_first';
import './story.css';

/** The recording of the real model of step 2. */
const REAL = 'smollm2-135m-instruct.safetensors';
/** Losses so near each other are called about the same, in nats per token. */
const NEAR = 0.1;

/** What the steps that the reader has reached ask of the queue, beside the first screen. */
export interface Wants {
  readonly views: readonly View[];
  readonly more: readonly string[];
  readonly subjects: readonly string[];
  readonly heads: Readonly<Record<string, Head>>;
  readonly studies: readonly Study[];
}

export interface Given {
  readonly context: Context;
  readonly scope: Scope;
  /** What the first screen shows; the first one is that of the story. */
  readonly shown: () => readonly Shown[];
}

/** A step in its place. */
interface Step {
  readonly wants?: (frame: Frame | undefined, state: State) => Partial<Wants>;
  readonly draw: (shown: readonly Shown[]) => void;
}

type Build = (place: HTMLElement, given: Given) => Step;

/** The words at the left, the picture at the right. */
function columns(place: HTMLElement): readonly [HTMLElement, HTMLElement] {
  return [part(place, 'step-words'), part(place, 'step-picture')];
}

/** The first sentence answers the question; what introduces the numbers, and these, follow it. */
function answer(said: string, intro: TemplateResult | typeof nothing = nothing): TemplateResult {
  const end = said.indexOf('. ') + 1 || said.length;
  return html`<p class="answer">${said.slice(0, end)}</p>
    ${intro}
    <p>${explained(said.slice(end).trim())}</p>`;
}

/** How many heads do what the first picture shows. */
function countWords(frame: Frame): string {
  const verdict = judged(frame);
  const { L, H } = frame.architecture;
  const grid = `The model has ${L} layers (rows) of ${H} heads, and each head has a map of its own.`;
  if (!verdict.conclusive) return `${grid} ${shortWords(verdict, frame.T, frame.eps)}`;
  const share = verdict.sink;
  const lead =
    share > 0.5
      ? 'Most of the model does it.'
      : share > 1.5 / (L * H)
        ? 'Several heads do it, most do not.'
        : share > 0
          ? 'Only one head does it.'
          : 'No head does it on this text.';
  return `${lead} ${grid} ${capital(headsWords(frame, share))} give the first token more than ${percent(frame.eps, 0)}: such a head has an attention sink.`;
}

/** 1: all heads; the selected one is drawn beside them. */
const everyHead: Build = (place, { context, scope }) => {
  const [words, picture] = columns(place);
  const said = part(words, '');
  const map = new Figure(words, attention, context, scope, {
    isBare: true,
    extra: (frame) => {
      const state = context.state.peek();
      const at = selectedHead(frame, state);
      return { isPlain: true, remark: remarkOf(claimOf(frame, at, state)) };
    },
  });
  map.root.ariaLabel = 'Attention map of the selected head';
  const thumbs = new Figure(picture, allHeads, context, scope, { isBare: true });
  return {
    wants: () => ({ views: [allHeads] }),
    draw: (shown) => {
      const [first] = framesOf(shown);
      if (first) {
        const state = context.state.peek();
        const claim = claimOf(first, selectedHead(first, state), state);
        const { layer, head } = claim.at;
        render(
          html`${answer(countWords(first))}
            <p>
              Select one. Shown: ${headName(claim.at, first)} (layer ${layerNumber(first, layer)},
              head ${head}, counted from 0),
              ${isBelow(claim) ? 'at most ' : ''}${givenWords(claim)}.
            </p>`,
          said,
        );
      }
      map.update(shown.slice(0, 1));
      thumbs.update(shown.slice(0, 1));
    },
  };
};

/** 2: a real model's recorded text without its first token; below it, the small model on the reader's text. */
const withoutToken: Build = (place, { context, scope, shown }) => {
  new Recorded(part(place, ''), scope);
  const own = part(place, 'links');
  const without = new WithoutFirst(part(place, 'start-without'), context, scope);
  // The maps of what is shown are on the first screen.
  const toTop = () => scrollTo({ top: 0 });
  const start = (frame: Frame) => without.start(frame).catch(context.fail);
  // The texts are of one model and one prompt.
  let written: unknown;
  scope.effect(() => {
    const { subject, question } = shown()[0]?.frame ?? {};
    const now = subject && `${subject} ${JSON.stringify(question)}`;
    if (now !== written) without.stop();
    written = now;
  });
  return {
    draw: ([first]) => {
      const { frame, isStale } = first ?? {};
      const isRecorded = Boolean(frame?.recording);
      const real = { shown: [`recording:${REAL}`], at: 0, layer: -1, head: -1, why: 0 };
      render(
        html`${
          frame && (isRecorded || isBidirectional(frame))
            ? nothing
            : html`<button
                type="button"
                ?disabled=${!frame || isStale}
                @click=${() => frame && void start(frame)}
              >
                Try it with the small model on your text
              </button>`
        }
        ${
          isRecorded
            ? html`<a href=${context.link({ ...real, shown: defaults.shown })} @click=${toTop}
                >Back to the two small models</a
              >`
            : SHIPPED.includes(REAL)
              ? html`<a href=${context.link(real)} @click=${toTop}
                  >See the real model’s attention maps</a
                >`
              : nothing
        }`,
        own,
      );
    },
  };
};

/** A step that is one view of the first model, its sentence at the left. */
function ofView(
  view: View,
  intro: TemplateResult,
  more: (shown: readonly Shown[], context: Context) => unknown = () => nothing,
): Build {
  return (place, { context, scope }) => {
    const [words, picture] = columns(place);
    const below = part(place, 'step-more');
    const figure = new Figure(picture, view, context, scope, {
      isBare: true,
      extra: () => ({ isPlain: true }),
    });
    return {
      wants: () => ({ views: [view] }),
      draw: (shown) => {
        const [first] = framesOf(shown);
        const state = context.state.peek();
        const at = first && selectedHead(first, state);
        const lack = first && lackWords(view, first);
        const isRead = first && view.reads.every((name) => name in first.tensors);
        const said =
          first && first.T < 2
            ? 'A single token has no other to compare with: type more.'
            : first && isRead && !lack
              ? view.says(first, at!, state)
              : '';
        render(said ? answer(said, intro) : nothing, words);
        render(said ? more(shown, context) : nothing, below);
        figure.update(shown.slice(0, 1));
      },
    };
  };
}

/** 3: why the first key wins. */
const keys = ofView(
  arrows,
  html`<p>
      A token’s score is how far its key reaches along the query. Softmax turns the scores of a row
      into shares that sum to 100%, so each token must attend somewhere. Sigmoid turns each score
      into a weight of its own, so a row may sum to little and needs no place to put the rest. In a
      model that reads from left to right, the first token is the only one that every row can see.
    </p>
    <p>Choose a token: its query points to the right.</p>`,
);

/** Two significant digits and a sign; a change below 0.01 keeps its order of magnitude. */
function signed(change: number): string {
  const size = Math.abs(change);
  const digits = size >= 0.01 || size === 0 ? 3 : Math.min(7, 1 - Math.floor(Math.log10(size)));
  return `${change < 0 ? '−' : '+'}${size.toFixed(digits)}`;
}

/** What the model's prediction loses without the head. */
function ablatedWords(frame: Frame, at: Head, context: Context): string {
  if (!isChangeable(frame)) return '';
  const change = lossChangeOf(frame, [ablation(at)], context);
  if (change === undefined) return 'Does the model use it? Ablating the head …';
  if (!Number.isFinite(change)) return '';
  const uses = Math.abs(change) < 0.01 ? 'barely uses' : 'uses';
  return (
    `Does the model use it? With the output of this head set to 0, the loss changes by ${signed(change)} nats per token: on this ` +
    `text the model ${uses} what the head writes.`
  );
}

/** What attention on a small value is good for, true of heads that have both. */
function purposeWords(frame: Frame, at: Head): string {
  const { H, G } = frame.architecture;
  const ratio = frame.tensors.value_ratio?.data[at.layer * G + Math.floor(at.head / (H / G))];
  const claim = claimOf(frame, at);
  if (frame.operation.name !== 'softmax' || !(ratio! < 0.5) || claim.given < 2 * claim.even)
    return '';
  return (
    `What is it for? With softmax every row must sum to 100%, even where a token needs nothing from this head. The value of ` +
    `${firstName(frame)} is short (${show(ratio!)}× the mean), so attention on it adds little. Taking the token away is another matter, as step 2 shows: ` +
    `the rows must still sum to 100%, so this attention moves to other tokens, whose values are longer.`
  );
}

/** Whether a model works as well without, by its twin. */
function twinWords(shown: readonly Shown[], context: Context): string {
  const [first, second] = framesOf(shown);
  if (!first || !second || !isTwin(first, second)) return '';
  const [own, other] = [first, second].map((frame) =>
    Number(cardOf(frame, context)?.measured.loss ?? NaN),
  ) as [number, number];
  if (!Number.isFinite(own + other)) return '';
  const near = Math.abs(own - other) < NEAR ? 'about as well' : 'otherwise';
  return (
    `Does a model need it? The same model trained with sigmoid, whose rows need not sum to 100%, has no such column and predicts ${near}: over 100 other passages ` +
    `its loss is ${show(other)} nats per token, with softmax ${show(own)} (lower is better).`
  );
}

/** 4: what such a head writes, beside the other heads. */
const output: Build = (place, given) => {
  const step = ofView(
    outputs,
    html`<p>
      A bar is the mean length of the vector that a head adds for a token, red for heads with a sink
      at the first token. Select one.
    </p>`,
    (shown, context) => {
      const [first] = framesOf(shown);
      if (!first) return nothing;
      const at = selectedHead(first, context.state.peek());
      return html`<p>${explained(purposeWords(first, at))}</p>
        <p class="late">${explained(ablatedWords(first, at, context))}</p>
        <p>${explained(twinWords(shown, context))}</p>`;
    },
  )(place, given);
  return {
    ...step,
    wants: (frame, state) => ({
      views: [outputs],
      more: ['value_ratio'],
      studies: isChangeable(frame)
        ? lossStudies(frame, [ablation(selectedHead(frame, state))])
        : [],
    }),
  };
};

/** 5: one head through training. The slider is the story's own: the first screen keeps the trained model. */
const training: Build = (place, { context, scope }) => {
  const [words, picture] = columns(place);
  const said = part(words, '');
  const slider = part(words, 'step-walk');
  const seeds = part(words, '');
  const walked = signal<readonly string[] | undefined>(undefined);
  const [first] = context.state.peek().shown;
  let from = first;
  const own = computed(() => {
    const state = context.state.value;
    const base = trained(state.shown.slice(0, 1));
    return { ...state, shown: walked.value ?? base };
  });
  // Another model has other checkpoints.
  scope.effect(() => {
    const [now] = context.state.value.shown;
    if (now !== from) walked.value = undefined;
    from = now;
  });
  const inner: Context = {
    ...context,
    state: own,
    set: (change) => {
      if (change.shown?.length === 1) walked.value = change.shown;
      else context.set(change);
    },
  };
  /** The head that gives the first token most after training, or the selected one. */
  const pinned = (): Head | undefined => {
    const [last] = shownOf(context, trained(own.value.shown));
    return last?.frame && !last.isStale ? selectedHead(last.frame, context.state.value) : undefined;
  };
  const figure = new Figure(picture, attention, inner, scope, {
    isBare: true,
    extra: (frame) => ({ at: pinned() ?? selectedHead(frame, own.peek()), isPlain: true }),
  });
  figure.root.ariaLabel = 'Attention map through training';
  new Walk(slider, inner, scope, () => pinned() !== undefined);
  return {
    wants: () => {
      const at = pinned();
      const { shown } = own.value;
      return { views: [], subjects: shown, heads: at ? { [shown[0]!]: at } : {} };
    },
    draw: () => {
      const walking = shownOf(context, own.value.shown);
      const [frame] = framesOf(walking);
      const at = pinned();
      // Between two steps nothing is drawn again.
      if (!frame || !at || walking[0]?.isStale) return;
      const claim = claimOf(frame, at, own.peek());
      const card = cardOf(frame, context);
      const { step } = frame.model;
      const when = step ? stepWords(step.step, step.of) : 'After training';
      const even = claim.isShare
        ? `; spread evenly it would be ${percent(claim.even, 0)}`
        : ` on average`;
      render(
        html`<p class="answer">
            ${
              card?.id === 'softmax'
                ? 'This model began without a sink and learned it.'
                : 'Where a head attends is learned in training.'
            }
          </p>
          <p role="status">
            ${capital(when)}: head ${headName(at, frame)} gives the first token
            ${claim.isShare ? `${givenWords(claim)} ${shareWords(frame)}` : `a weight of ${percent(claim.given)}`}${even}.
          </p>`,
        said,
      );
      const all = framesOf(shownOf(context, context.state.value.shown));
      render(html`<p class="hint">${seedWords(all, context)}</p>`, seeds);
      figure.update(walking);
    },
  };
};

/** The preset of the lab that trains in seconds. */
const QUICK = fromScratch[1]!;

/** 6: the lab, in little. */
const lab: Build = (place, { context, scope }) => {
  part(place, 'answer', 'p').textContent = 'Train two small models here; it takes seconds.';
  const picture = part(place, 'step-lab');
  const link = part(place, 'links', 'p');
  const state = computed(() => ({
    ...context.state.value,
    ...{ left: QUICK.left, right: QUICK.right, controls: [] as readonly string[] },
  }));
  const inner: Context = { ...context, state };
  import('../lab/embedded').then(({ build }) => build(picture, inner, scope), context.fail);
  return {
    draw: () =>
      render(
        html`<a href=${context.link({ room: 'lab', left: QUICK.left, right: QUICK.right })}
          >Change what they learn in the Lab</a
        >`,
        link,
      ),
  };
};

const STEPS: readonly Build[] = [everyHead, withoutToken, keys, output, training, lab];

/** What comes after the story. */
function deeper(place: HTMLElement, context: Context): void {
  const shown = trained(context.state.value.shown);
  render(
    html`<a class="button primary" href=${lessonLink(LESSONS[0]!.slug)}
        >Lesson 1: ${LESSONS[0]!.title}</a
      >
      <ul>
        ${ROOMS.filter(({ name }) => name !== 'start').map(
          ({ name, title, description }) =>
            html`<li>
              <a href=${context.link({ room: name, why: 0, shown })}>${title}</a> ${description}
            </li>`,
        )}
      </ul>`,
    place,
  );
}

export class Story {
  readonly #steps = signal<ReadonlyMap<number, Step>>(new Map());

  /** @param places of the steps, and of what comes after them @param reached counts steps from 0 */
  constructor(
    places: readonly HTMLElement[],
    end: HTMLElement,
    reached: ReadonlySignal<ReadonlySet<number>>,
    given: Given,
  ) {
    const { context, scope } = given;
    scope.effect(() => {
      const built = this.#steps.peek();
      const missing = [...reached.value].filter((i) => !built.has(i));
      if (!missing.length) return;
      const made = missing.map((i): [number, Step] => [i, STEPS[i]!(places[i]!, given)]);
      // A step sets signals of its own, which must not happen inside this effect.
      queueMicrotask(() => (this.#steps.value = new Map([...this.#steps.peek(), ...made])));
    });
    scope.effect(() => {
      const shown = given.shown();
      void [context.state.value, context.theme.value];
      for (const step of this.#steps.value.values()) step.draw(shown);
    });
    scope.effect(() => deeper(end, context));
  }

  /** What the queue is to be asked for. */
  wants(frame: Frame | undefined, state: State): Wants {
    const all = [...this.#steps.value.values()].map((step) => step.wants?.(frame, state) ?? {});
    return {
      views: all.flatMap(({ views = [] }) => views),
      more: all.flatMap(({ more = [] }) => more),
      subjects: all.flatMap(({ subjects = [] }) => subjects),
      heads: Object.assign({}, ...all.map(({ heads = {} }) => heads)) as Wants['heads'],
      studies: all.flatMap(({ studies = [] }) => studies),
    };
  }
}
