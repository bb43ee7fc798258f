/**
 * Start's story below the first screen: six steps of one sentence and one act each, on the reader's own text. A step
 * is built when the reader has scrolled to it, and what it needs is asked for only then.
 */
import { computed, signal, type ReadonlySignal } from '@preact/signals-core';
import { html, nothing, render, type TemplateResult } from 'lit';
import { defaults, type State } from '../ask/state';
import { stepWords } from '../ask/steps';
import { claimOf } from '../claims';
import {
  isBidirectional,
  layerNumber,
  modelHead,
  selectedHead,
  type Frame,
  type Head,
} from '../frame';
import { fromScratch } from '../lab/presets';
import { framesOf, shownOf, type Context, type Scope, type Shown } from '../page/context';
import { Figure } from '../page/figure';
import { lessonLink } from '../page/lessons';
import { explainTerms } from '../page/terms';
import { addElement, type View } from '../page/view';
import type { Study } from '../run/request';
import { arrows } from '../views/arrows';
import { attention } from '../views/attention';
import { heads as allHeads } from '../views/heads';
import { queryRange } from '../views/query';
import { groupWords, writesLittle, outputs, outputNormsOf } from '../views/outputs';
import { tableRegion } from '../page/controls';
import { formatLossChange } from '../views/settings';
import {
  capital,
  evenWords,
  givenWords,
  headName,
  headsWords,
  isBelow,
  judged,
  percent,
  shareWords,
  tooShortWords,
  show,
} from '../words';
import { cardOf } from './about';
import {
  ablation,
  isChangeable,
  lossChangeOf,
  lossStudies,
  WITHOUT_FIRST,
  WITHOUT_SECOND,
} from './loss_change';
import { ROOMS } from './names';
import { seedWords, isTwin, remarkOf } from './start_words';
import { trained, Walk } from './walk';
import { answerOf as rowAnswer, contrastQuery, row, workedRow } from './worked_row';
import { Recorded, WithoutFirst } from './without_first';
import './story.css';

/** The recording of the real model of step 2. */
const REAL = 'smollm2-135m-instruct.safetensors';

/** What the steps that the reader has reached ask of the queue, beside the first screen. */
export interface Needs {
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
  readonly needs?: (frame: Frame | undefined, state: State) => Partial<Needs>;
  readonly draw: (shown: readonly Shown[]) => void;
}

type Build = (place: HTMLElement, given: Given) => Step;

/** Adds two columns: words on the left, the picture on the right. */
function columns(place: HTMLElement): readonly [HTMLElement, HTMLElement] {
  return [addElement(place, 'step-words'), addElement(place, 'step-picture')];
}

/** How to read a row, and why the first token wins it. */
const ROW =
  'A score says how well a token’s key fits the query. The head turns scores into weights, and adds up each value times its weight. Values are vectors: the table gives lengths, which do not add up where vectors point different ways.';
const FIRST =
  'Softmax must hand out 100% in every row, even where a head has no use for it. Only the first token is visible to all others, so training often makes it the place where such attention does no harm: its key gets high scores, and its value is small.';

const ALONE = 'A single token has no other to compare with: type more.';

/** Returns a folded section for a sentence that not every reader needs. */
const fold = (title: string, said: string) =>
  said
    ? html`<details class="more">
        <summary>${title}</summary>
        <p>${explainTerms(said)}</p>
      </details>`
    : nothing;

const paragraphs = (...all: readonly string[]) =>
  all.map((one) => html`<p>${explainTerms(one)}</p>`);

/** The first sentence answers the question; where others say what the picture shows, its numbers are folded. */
function answer(said: string, intro?: unknown): TemplateResult {
  const end = said.indexOf('. ') + 1 || said.length;
  const rest = said.slice(end).trim();
  return html`<p class="answer">${said.slice(0, end)}</p>
    ${intro ?? paragraphs(rest)} ${intro ? fold('Numbers', rest) : nothing}`;
}

/** States how many heads do what the first picture shows. */
function countWords(frame: Frame): string {
  const verdict = judged(frame);
  const { L, H } = frame.architecture;
  const grid = `A model has many heads, and each has a map of its own: here ${L} layers (rows) of ${H} heads.`;
  if (!verdict.conclusive) return `${grid} ${tooShortWords(verdict, frame.T, frame.eps)}`;
  const share = verdict.sink;
  const lead =
    share > 0.5
      ? 'Most of the model does it.'
      : share > 1.5 / (L * H)
        ? 'Several heads do it, most do not.'
        : share > 0
          ? 'Only one head does it.'
          : 'No head does it on this text.';
  return `${lead} ${grid} ${capital(headsWords(frame, share))} give the first token more than ${percent(frame.eps, 0)} (evenly spread over the tokens that each row sees, it would be ${percent(verdict.even, 0)}): such a head has an attention sink.`;
}

/** A change of the loss below this, in nats per token, is small. */
const SMALL_CHANGE = 0.01;

/** 1: all heads; the selected one is drawn beside them. */
const everyHead: Build = (place, { context, scope }) => {
  const [words, picture] = columns(place);
  const said = addElement(words, '');
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
    needs: () => ({ views: [allHeads] }),
    draw: (shown) => {
      const [first] = framesOf(shown);
      if (first) {
        const state = context.state.peek();
        const claim = claimOf(first, selectedHead(first, state), state);
        const { layer, head } = claim.at;
        render(
          html`${answer(countWords(first))}
            <p>
              Select a map to enlarge it. Shown: ${headName(claim.at, first)} (layer
              ${layerNumber(first, layer)}, head ${head}, counted from 0),
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

/** Losses of a model in nats per token; undefined until measured. */
interface Costs {
  readonly name: string;
  readonly loss: number;
  /** With the first token hidden, and with the second one: the control. */
  readonly first: number | undefined;
  readonly second: number | undefined;
}

/** Returns the losses of a shown model; undefined where they cannot be measured. */
function costsOf(frame: Frame, context: Context): Costs | undefined {
  const loss = frame.tensors.loss_mean?.data[0] ?? NaN;
  const [first, second] = [WITHOUT_FIRST, WITHOUT_SECOND].map((edit) => {
    const change = lossChangeOf(frame, [edit], context);
    return change === undefined ? undefined : loss + change;
  });
  return first === undefined || Number.isFinite(first)
    ? { name: frame.title, loss, first, second }
    : undefined;
}

const risesOf = ({ loss, first = NaN, second = NaN }: Costs) =>
  [first - loss, second - loss] as const;

/** Compares the costs of the two tokens; empty if the first one does not cost the first model more. */
function contrastWords([own, other]: readonly Costs[]): string {
  if (!own) return '';
  const [first, second] = risesOf(own);
  if (!(first > SMALL_CHANGE && first > 1.5 * second)) return '';
  const [otherFirst, otherSecond] = other ? risesOf(other) : [NaN, NaN];
  const isAlike = Math.abs(otherFirst - otherSecond) < 0.3 * Math.max(otherFirst, otherSecond);
  const otherWords = isAlike ? ` ${other!.name}: about the same.` : '';
  return `${own.name}: hiding the first token costs more than hiding the second, since the attention that must be handed out then goes to other tokens (step 3).${otherWords}`;
}

function lossWords(loss: number | undefined, from: number): string {
  if (loss === undefined) return '…';
  if (!Number.isFinite(loss)) return '–';
  return `${loss.toFixed(3)} (${formatLossChange(loss - from)})`;
}

/** Draws the losses of the shown models on the reader's text. */
const costTable = (costs: readonly Costs[]): TemplateResult =>
  tableRegion(
    'Losses with a token hidden',
    html`<table>
      <caption>
        ${explainTerms('Loss of the two small models on your text at the top, in nats per token; lower is better')}
      </caption>
      <thead>
        <tr>
          <th scope="col">model</th>
          <th scope="col">nothing hidden</th>
          <th scope="col">first token hidden</th>
          <th scope="col">second token hidden</th>
        </tr>
      </thead>
      <tbody>
        ${costs.map(
          ({ name, loss, first, second }) =>
            html`<tr>
              <th scope="row">${name}</th>
              <td>${loss.toFixed(3)}</td>
              <td>${lossWords(first, loss)}</td>
              <td>${lossWords(second, loss)}</td>
            </tr>`,
        )}
      </tbody>
    </table>`,
  );

/** 2: a real model's recorded text without its first token; below it, the small model on the reader's text. */
const withoutToken: Build = (place, { context, scope, shown }) => {
  new Recorded(addElement(place, ''), scope);
  const costs = addElement(place, 'costs');
  const links = addElement(place, 'links');
  const without = new WithoutFirst(addElement(place, 'start-without'), context, scope);
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
    needs: () => ({
      more: ['loss_mean'],
      studies: framesOf(shown())
        .filter(isChangeable)
        .flatMap((frame) => [
          ...lossStudies(frame, [WITHOUT_FIRST]),
          lossStudies(frame, [WITHOUT_SECOND])[1],
        ]),
    }),
    draw: (all) => {
      const [first] = all;
      const { frame, isStale } = first ?? {};
      const isRecorded = Boolean(frame?.recording);
      const measured = framesOf(all)
        .filter(isChangeable)
        .flatMap((one) => costsOf(one, context) ?? []);
      render(
        measured.length
          ? html`${costTable(measured)}
              <p>${contrastWords(measured)}</p>`
          : nothing,
        costs,
      );
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
        links,
      );
    },
  };
};

/** 3: one row, worked out in both models; folded: the source of its scores. */
const oneRow: Build = (place, { context, scope, shown }) => {
  const words = addElement(place, 'step-words');
  // Until the reader selects a row, the one that shows the difference of the models best.
  const state = computed(() => {
    const { query, ...others } = context.state.value;
    return { ...others, query: query < 0 ? contrastQuery(framesOf(shown())) : query };
  });
  const inner: Context = { ...context, state };
  const figure = new Figure(place, row, inner, scope, { isBare: true });
  const scores = addElement(place, 'more', 'details');
  addElement(scores, '', 'summary').textContent = 'Where do the scores come from?';
  const from = addElement(scores, '', 'p');
  const picture = new Figure(scores, arrows, inner, scope, {
    isBare: true,
    extra: () => ({ isPlain: true }),
  });
  return {
    needs: () => ({ views: [row, arrows] }),
    draw: (shown) => {
      const frames = framesOf(shown);
      const [first] = frames;
      const worked = first && workedRow(first, state.peek().query);
      const said = first?.T === 1 ? ALONE : worked && rowAnswer(worked, first);
      render(
        html`<p class="answer">${said}</p>
          ${worked ? html`${paragraphs(...(first.operation.normalizes ? [FIRST] : []), ROW)} ${queryRange(first, state.peek(), context.set, 'Row')}` : nothing}`,
        words,
      );
      scores.hidden = !worked;
      if (worked) render(explainTerms(arrows.says(first, selectedHead(first, state.peek()))), from);
      figure.update(shown);
      picture.update(shown.slice(0, 1));
    },
  };
};

/** States how the loss changes without the head. */
function ablatedWords(frame: Frame, at: Head, context: Context): string {
  if (!isChangeable(frame)) return '';
  const change = lossChangeOf(frame, [ablation(modelHead(frame, at))], context);
  if (change === undefined) return 'Does the model use this head? Ablating it …';
  if (!Number.isFinite(change)) return '';
  const uses =
    Math.abs(change) < SMALL_CHANGE ? 'barely uses' : change > 0 ? 'uses' : 'does better without';
  const hidden = lossChangeOf(frame, [WITHOUT_FIRST], context) ?? NaN;
  const more =
    hidden > SMALL_CHANGE && hidden > 2 * Math.abs(change)
      ? ` Hiding the first token (step 2) changes it by ${formatLossChange(hidden)}: all heads must then give their attention to other tokens, and add the values of these.`
      : '';
  return (
    `Does the model use this head? With its output set to 0 (the token stays visible), the loss changes by ${formatLossChange(change)} nats per token: on this ` +
    `text the model ${uses} what the head writes.${more}`
  );
}

/** Answers for a head that writes little and whose ablation hardly changes the loss; else empty. */
function idleWords(frame: Frame, at: Head, context: Context): string {
  if (!isChangeable(frame)) return '';
  const change = lossChangeOf(frame, [ablation(modelHead(frame, at))], context);
  return writesLittle(outputNormsOf(frame, at)) && Math.abs(change ?? NaN) < SMALL_CHANGE
    ? 'This head writes little, and the model hardly uses it. '
    : '';
}

const BARS =
  'A bar is the mean length of what a head adds for a token, red for heads with a sink at the first token, gray for others. Select one.';
const barsWords = (frame: Frame, at: Head): string =>
  `${BARS} ${groupWords(outputNormsOf(frame, at))}`.trim();

/** 4: what such a head writes, beside the other heads. */
const output: Build = (place, { context, scope }) => {
  const [words, picture] = columns(place);
  const figure = new Figure(picture, outputs, context, scope, {
    isBare: true,
    extra: () => ({ isPlain: true }),
  });
  return {
    needs: (frame, state) => ({
      views: [outputs],
      studies: isChangeable(frame)
        ? lossStudies(frame, [ablation(modelHead(frame, selectedHead(frame, state)))])
        : [],
    }),
    draw: (shown) => {
      const [first] = framesOf(shown);
      const at = first && selectedHead(first, context.state.peek());
      const more = (frame: Frame, head: Head) =>
        html`${paragraphs(barsWords(frame, head))}
          <p class="late">${explainTerms(ablatedWords(frame, head, context))}</p>`;
      render(
        first?.T === 1
          ? answer(ALONE)
          : first?.tensors.head_out
            ? answer(
                `${idleWords(first, at!, context)}${outputs.says(first, at!)}`,
                more(first, at!),
              )
            : nothing,
        words,
      );
      figure.update(shown.slice(0, 1));
    },
  };
};

/** 5: one head through training. The slider is the story's own: the first screen keeps the trained model. */
const training: Build = (place, { context, scope }) => {
  const said = addElement(place, 'step-words');
  const slider = addElement(place, 'step-walk');
  const maps = addElement(place, 'step-maps');
  const [now, after] = [addElement(maps, ''), addElement(maps, '')];
  const nowTitle = addElement(now, 'which', 'p');
  addElement(after, 'which', 'p').textContent = 'After training';
  const seeds = addElement(place, '');
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
  const ended = (): Frame | undefined => {
    const [last] = shownOf(context, trained(own.value.shown));
    return last?.isStale ? undefined : last?.frame;
  };
  /** The head that gives the first token most after training, or the selected one. */
  const pinned = (): Head | undefined => {
    const last = ended();
    return last && selectedHead(last, context.state.value);
  };
  const figure = new Figure(now, attention, inner, scope, {
    isBare: true,
    extra: (frame) => ({ at: pinned() ?? selectedHead(frame, own.peek()), isPlain: true }),
  });
  figure.root.ariaLabel = 'Attention map through training';
  const trainedMap = new Figure(after, attention, inner, scope, {
    isBare: true,
    extra: (frame) => ({ at: pinned() ?? selectedHead(frame, own.peek()), isPlain: true }),
  });
  trainedMap.root.ariaLabel = 'Attention map after training';
  new Walk(slider, inner, scope, () => pinned() !== undefined);
  return {
    needs: () => {
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
      const even = claim.isShare ? `, ${evenWords(claim.given, claim.even)}` : ` on average`;
      const end =
        step && claim.isShare
          ? `; after training it gives ${givenWords(claimOf(ended()!, at))}`
          : '';
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
            ${claim.isShare ? `${givenWords(claim)} ${shareWords(frame)}` : `a weight of ${percent(claim.given)}`}${even}${end}.
          </p>
          <p>
            Training only asks for a better guess of the next token. At step 0 only the first rows
            are dark: they have few tokens to attend to. Press Play.
          </p>`,
        said,
      );
      nowTitle.textContent = capital(when);
      const all = framesOf(shownOf(context, context.state.value.shown));
      render(fold('How sure is that?', seedWords(all, context)), seeds);
      figure.update(walking);
      trainedMap.update(shownOf(context, trained(own.value.shown)));
    },
  };
};

/** The preset of the lab that trains in seconds. */
const QUICK = fromScratch[1]!;

/** 6: the lab, in little. */
const lab: Build = (place, { context, scope }) => {
  addElement(place, 'answer', 'p').textContent = 'Train two small models here; it takes seconds.';
  const picture = addElement(place, 'step-lab');
  const link = addElement(place, 'links', 'p');
  const state = computed(() => ({
    ...context.state.value,
    ...{ leftRun: QUICK.leftRun, rightRun: QUICK.rightRun, controls: [] as readonly string[] },
  }));
  const inner: Context = { ...context, state };
  import('../lab/embedded').then(({ build }) => build(picture, inner, scope), context.fail);
  return {
    draw: () =>
      render(
        html`<a
          href=${context.link({ room: 'lab', leftRun: QUICK.leftRun, rightRun: QUICK.rightRun })}
          >Change what they learn in the Lab</a
        >`,
        link,
      ),
  };
};

const STEPS: readonly Build[] = [everyHead, withoutToken, oneRow, output, training, lab];

/** States what a model does without a sink, by twins that differ only in the attention operation. */
function twinWords([first, second]: readonly Frame[], context: Context): string {
  if (!first || !second || !isTwin(first, second)) return '';
  const of = (frame: Frame, name: string) => Number(cardOf(frame, context)?.measured[name] ?? NaN);
  const [own, other] = [of(first, 'loss'), of(second, 'loss')];
  const [sinks, none] = [of(first, 'sink_1') / 100, of(second, 'sink_1') / 100];
  if (!Number.isFinite(own + other + sinks + none)) return '';
  const size = 100 * Math.expm1(other - own);
  return (
    `Yes${size > 0 ? ', at a price' : ''}. On average over 100 other passages ${percent(none)} of the heads of the sigmoid model have a sink, of the softmax model (same ` +
    `size, same data) ${percent(sinks, 0)}. The loss of the sigmoid model is ${show(other)} nats per token against ${show(own)}: its perplexity is ` +
    `${Math.abs(size).toFixed(0)}% ${size > 0 ? 'higher' : 'lower'}.${size > 0 ? ' From two models alone we cannot tell whether that is the price of sigmoid or of having no sink.' : ''}`
  );
}

const ANSWER = 'An attention sink is where heads put the attention that they must give away.';
const REMEMBER = {
  'Why is it there?':
    'Softmax must hand out 100% in every row, even where a head has no use for it. The first token is visible to all, and its value adds little.',
  'Is it harmful?':
    'Not by itself, but it gets in the way. Where old tokens are dropped to save memory, the first one must stay, or what the model writes gets much worse. ' +
    'And the hidden state of a sink’s token has a few very large numbers, which are hard to store in few bits. (“Why it matters” measures both.)',
} as const;

/** Draws what to remember, and links to lessons and rooms. */
function deeper(place: HTMLElement, context: Context, frames: readonly Frame[]): void {
  const shown = trained(context.state.value.shown);
  const all = { ...REMEMBER, 'Can a model do without?': twinWords(frames, context) };
  render(
    html`<p class="answer">${ANSWER}</p>
      <dl>
        ${Object.entries(all).map(
          ([title, said]) =>
            said &&
            html`<dt>${title}</dt>
              <dd>${explainTerms(said)}</dd>`,
        )}
      </dl>
      <h3>Go deeper</h3>
      <a class="button primary" href=${lessonLink(LESSONS[0]!.slug)}
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

  /**
   * Builds each step when the reader reaches it.
   * @param places the places of the steps
   * @param end the place after the last step
   * @param reached the indices of the steps that the reader has reached
   */
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
    scope.effect(() => deeper(end, context, framesOf(given.shown())));
  }

  /** What the queue is to be asked for. */
  needs(frame: Frame | undefined, state: State): Needs {
    const all = [...this.#steps.value.values()].map((step) => step.needs?.(frame, state) ?? {});
    return {
      views: all.flatMap(({ views = [] }) => views),
      more: all.flatMap(({ more = [] }) => more),
      subjects: all.flatMap(({ subjects = [] }) => subjects),
      heads: Object.assign({}, ...all.map(({ heads = {} }) => heads)) as Needs['heads'],
      studies: all.flatMap(({ studies = [] }) => studies),
    };
  }
}
