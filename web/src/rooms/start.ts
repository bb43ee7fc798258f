/**
 * The first minute: one question, the maps of two models, the sentence that the maps support, the text, and
 * "Why?", which leads through four steps on the same picture.
 */
import { signal } from '@preact/signals-core';
import { html, nothing, render, type TemplateResult } from 'lit';
import { columnOf, kindOf, type Column, type Kind } from './claims';
import {
  chips,
  examples,
  lightsChips,
  segmented,
  startToken,
  textField,
  troubles,
} from '../page/controls';
import { asks, framesOf, shownOf, type Context, type Scope, type Shown } from '../page/context';
import { Figure } from '../page/figure';
import {
  drawnMap,
  gridOf,
  isBidirectional,
  ofHead,
  selectedHead,
  type Frame,
  type Head,
} from '../frame';
import { keyOf, questionOf } from '../ask/question';
import { lessonLink } from '../page/lessons';
import type { Study } from '../run/request';
import { defaults, type State } from '../ask/state';
import { size } from '../run/progress';
import { NO_WEIGHTS } from '../run/recordings';
import { arithmeticOf, parseSubject, printSubject } from '../ask/subject';
import { explained } from '../page/terms';
import { stepOf, stepWords } from '../ask/steps';
import { attention } from '../views/attention';
import { part, type DrawOptions } from '../page/view';
import {
  alphaOf,
  firstName,
  headName,
  judged,
  massOf,
  meanAlpha,
  percent,
  shortNote,
  show,
  stampWords,
  sumWords,
} from '../words';
import { seedsOf, type Card } from '../ask/zoo';
import { sources } from '../page/sources';
import { trained, Walk } from './walk';
import type { WithoutFirst } from './without_first';

/** The recording that is Start's second example. */
const REAL = 'smollm2-135m-instruct.safetensors';

/** Models side by side. */
const SIDES = 2;

/** A share that may be below 1%. */
const small = (share: number) => percent(share, share < 0.1 ? 1 : 0);

/** The labels on the picture, by what its first column shows. */
const REMARKS: Readonly<
  Record<Kind, { readonly kind: string; readonly text: (column: Column) => string }>
> = {
  all: { kind: 'sink', text: () => '◀ almost every token attends here' },
  many: {
    kind: 'sink',
    text: ({ strong, rows }) => `◀ ${strong} of ${rows} tokens attend mostly here`,
  },
  weak: { kind: 'weak', text: ({ mean }) => `◀ a weaker column: ${small(mean)} on average` },
  none: {
    kind: 'none',
    text: ({ mean }) => `no strong column: ${small(mean)} on average`,
  },
};

function columnIn(frame: Frame): Column | undefined {
  const cells = drawnMap(frame);
  return cells && frame.T > 1 ? columnOf(cells, frame.T) : undefined;
}

/** The label on the picture. */
export function remarkOf(frame: Frame): DrawOptions['remark'] {
  const column = columnIn(frame);
  if (!column) return undefined;
  const { kind, text } = REMARKS[kindOf(column)];
  return { kind, text: text(column) };
}

/** Parts of class `wide` are left out on a phone. */
const ROWS = html`Each row is a token<span class="wide"> (a word or part of one)</span>; the
  stronger a cell, the more it attends to the token of the column.`;

const INTRODUCTION = html`A small language model reads the text below<span class="wide">
    on your machine</span
  >. ${ROWS}`;

/** Who read the text: a model on this machine, or one elsewhere, by its recording. */
function introduction(frame: Frame): TemplateResult {
  const { recording, sequences, pooled } = frame;
  if (!recording) return INTRODUCTION;
  const rows = pooled
    ? html`Each row is a block of ${gridOf(frame).block} tokens, and each cell the mean of its
      weights; the strongest cell has the darkest color.`
    : ROWS;
  const means = sequences > 1 ? ` The shares below are means over ${sequences} such texts.` : '';
  return html`${recording.model.id} read the text below, and this page shows what was
  recorded.${means} ${rows}`;
}

/** The sentence over the pictures. @param heads of the frames, in their order */
export function lead(frames: readonly Frame[], heads: readonly Head[]): TemplateResult {
  const [first, second] = frames;
  if (!first) return INTRODUCTION;
  const verdict = judged(first);
  const at = heads[0]!;
  const { L, H } = first.architecture;
  if (first.T < 2)
    return html`${INTRODUCTION} This text has a single token, which can only attend to itself: type
    more.`;
  const own = percent(alphaOf(first, at), 0);
  const isStart = first.tokens[0]!.special;
  const of = isFree(first)
    ? `of its row sums, which are ${rowSum(first)} on average,`
    : 'of its attention';
  const other =
    second && isTwin(first, second)
      ? html`the sigmoid twin<span class="wide"> (same data, same seed)</span>`
      : nameOf(second);
  const ofSums = isFree(second) && !isFree(first) ? ' of row sums' : '';
  const mean = html`${percent(meanAlpha(first), 0)}${second ? html`; in ${other}: ${percent(meanAlpha(second), 0)}${ofSums}` : ''}`;
  const uniform = `Uniform attention: ${percent(verdict.even, 0)}.`;
  const note = shortNote(verdict, first.T, first.eps);
  const isStrongest = headName(at) === headName(selectedHead(first, { layer: -1, head: -1 }));
  const which = `The ${isStrongest ? 'strongest' : 'selected'} head, ${headName(at)},`;
  return html`${introduction(first)}
    <strong>${which} gives ${own} ${of} to ${firstName(first)}</strong>${
      isStart ? html` (BOS)<span class="wide">, which carries no meaning</span>` : ''
    }.
    Mean over all ${L * H} heads: ${mean}. ${note || uniform}`;
}

/** The same while training is walked through: of one length at every step, so that nothing moves. */
function walkLead(frames: readonly Frame[], heads: readonly Head[]): TemplateResult {
  return html`${frames.map((frame, i) => {
    const { step } = frame.model;
    const when = step ? stepWords(step.step, step.of) : 'after training';
    return html`<span class="walk-line"
      ><strong>${capitalName(frame)}, ${when}:</strong> head ${headName(heads[i]!)} gives the first
      token
      ${
        isFree(frame)
          ? `a weight of ${small(columnIn(frame)?.mean ?? NaN)} on average; its rows sum to ${rowSum(frame)}`
          : `${percent(alphaOf(frame, heads[i]!), 0)} of its attention; uniform attention would give ${percent(judged(frame).even, 0)}`
      }.</span
    >`;
  })}`;
}

/** Whether two models differ in nothing but the attention operation. */
function isTwin(first: Frame, second: Frame): boolean {
  const ids = [first, second].map(({ model: { id } }) => stepOf(id)?.id ?? id);
  return ids.join() === 'softmax,sigmoid';
}

/** The model without the step that it is shown at. */
function nameOf(frame: Frame | undefined): string {
  const name = (frame?.title ?? '').replace(/ at step [\d,]+(?: of [\d,]+)?$/, '');
  return name.replace(/^(Softmax|Sigmoid)\b/, (word) => word.toLowerCase());
}

function capitalName(frame: Frame): string {
  return nameOf(frame).replace(/^\w/, (letter) => letter.toUpperCase());
}

const TITLES = [
  '',
  'What is an attention sink?',
  'Why does the weight go there?',
  'What does such a head write?',
  'When does the sink appear?',
] as const;

/** The runs of the same recipe with other seeds. */
function seedWords([first, second]: readonly Frame[], context: Context): string {
  const [own, other] = [first, second].map((frame) => {
    const card = frame && cardOf(frame, context);
    return card ? seedsOf(card).all.map(({ sink_1 }) => sink_1) : [];
  });
  if (!own || own.length < 2) return '';
  const shares = own.map((share) => `${share.toFixed(0)}%`);
  const twin =
    other && other.length > 1
      ? `; in its sigmoid twin at most ${Math.max(...other).toFixed(1)}%`
      : '';
  return (
    ` The strength of the sink depends on the seed: with ${own.length} random seeds, ${shares.slice(0, -1).join(', ')} and ` +
    `${shares.at(-1)} of the heads end up giving the first token more than 30%${twin}. The first seed is shown.`
  );
}

function cardOf({ model }: Frame, context: Context): Card | undefined {
  const { weights } = arithmeticOf(model.id);
  const id = stepOf(weights)?.id ?? weights;
  return context.engine.peek()?.models.zoo.cards.find((card) => card.id === id);
}

/** The mean row sum of the drawn map. */
const rowSum = (frame: Frame) => sumWords(columnIn(frame)?.rowSum ?? massOf(frame));
const isFree = (frame: Frame | undefined) => frame !== undefined && !frame.operation.normalises;

/** What the constraint on a row's sum does, true of the models that are shown. */
function rowWords([first, second]: readonly Frame[], isSink: boolean): TemplateResult {
  const bars = 'The bars at the right are row sums.';
  if (isFree(first))
    return html`${bars} In this model a row may have any sum: here ${rowSum(first!)} on
    average.${second && !isFree(second) ? ' In the other model every row must sum to 100%, even where a token needs nothing.' : ''}`;
  const which =
    first!.operation.name === 'softmax' ? html`a <dfn>softmax</dfn> model` : html`this model`;
  return html`${bars} In ${which} every row must sum to 100%, even where a token needs nothing. The
  rest has to go
  somewhere${isSink ? `, and it goes to ${firstName(first!)}` : ''}.${isFree(second) ? ` In its twin a row may have any sum: here ${rowSum(second!)} on average.` : ''}`;
}

/** The ablation of a head: the same subject with and without it, as two studies. */
function ablation({ subject, question }: Frame, { layer, head }: Head): readonly [Study, Study] {
  const parsed = parseSubject(subject)!;
  const silence = { name: 'silence', values: [String(layer), String(head)] };
  const edited = printSubject({ ...parsed, edits: [...parsed.edits, silence] });
  const studyOf = (one: string): Study => ({ subject: one, question, measures: ['loss_mean'] });
  return [studyOf(subject), studyOf(edited)];
}

/** Change of the loss when the head is ablated, in nats per token; undefined until it is measured. */
function ablated(frame: Frame, at: Head, context: Context): number | undefined {
  const [base, without] = ablation(frame, at).map(
    (study) => context.engine.value?.queue.studied(study)?.frame?.tensors.loss_mean?.data[0],
  );
  return base === undefined || without === undefined ? undefined : without - base;
}

/** Head outputs: what the first token gets, what it contributes, and what the head is good for here. */
function writeWords(frame: Frame, at: Head, context: Context): TemplateResult {
  const { H, G } = frame.architecture;
  const group = Math.floor(at.head / (H / G));
  const ratio = frame.tensors.value_ratio?.data[at.layer * G + group];
  const contribution = frame.tensors.contribution_out_at;
  const written = contribution && ofHead(contribution, at)[0];
  const change = ablated(frame, at, context);
  const value =
    ratio === undefined || !Number.isFinite(ratio)
      ? ''
      : ` The value of ${firstName(frame)} has ${show(ratio)}× the mean value norm`;
  const share =
    value && written !== undefined && Number.isFinite(written)
      ? `: it receives ${percent(alphaOf(frame, at), 0)} of the attention but makes up ${percent(written, 0)} of what head ${headName(at)} writes`
      : '';
  return html`A token’s <dfn>value</dfn> is what it contributes when attended to; the bars under the
    picture are value norms.${value}${value ? `${share}.` : ''}
    <span class="late"
      >${
        change === undefined
          ? 'Ablating the head …'
          : Number.isFinite(change)
            ? html`Ablating the head (its output set to 0) changes the loss by ${signed(change)}
              nats per
              token${
                Math.abs(change) < 0.01
                  ? ': on this text the model barely uses what it writes'
                  : ': on this text the model uses what it writes'
              }.`
            : ''
      }</span
    >`;
}

/** Two significant digits and a sign; a change below 0.01 keeps its order of magnitude. */
function signed(change: number): string {
  const size = Math.abs(change);
  const digits = size >= 0.01 || size === 0 ? 3 : Math.min(7, 1 - Math.floor(Math.log10(size)));
  return `${change < 0 ? '−' : '+'}${size.toFixed(digits)}`;
}

function explanation(
  why: number,
  frames: readonly Frame[],
  heads: readonly Head[],
  context: Context,
): TemplateResult | typeof nothing {
  const [first] = frames;
  const [at] = heads;
  if (!first || !at) return nothing;
  const verdict = judged(first);
  const even = percent(verdict.even, 0);
  const alpha = alphaOf(first, at);
  const isSink = alpha > 2 * verdict.even;
  if (why === 1)
    return html`The first column belongs to
      ${firstName(first)}${first.tokens[0]?.special ? ', which precedes every text and carries no meaning' : ''}.
      Uniform attention would give it ${even}; head ${headName(at)} gives it ${percent(alpha, 0)}.
      ${isSink ? 'This is called' : 'Where it gets far more than that, it is called'} an
      <dfn>attention sink</dfn>. Point at a token to see what it attends to.`;
  if (why === 2) return rowWords(frames, isSink);
  if (why === 3) return writeWords(first, at, context);
  const isSoftmax = cardOf(first, context)?.id === 'softmax';
  const comes = isSoftmax
    ? 'The sink is not built in: at step 0 attention is nearly uniform, and the sink appears during training.'
    : 'Where a head attends is learned in training.';
  return html`${comes} The shown heads stay the same: the strongest ones after
  training.${seedWords(frames, context)}`;
}

/** Bars at the sides of the picture, for the step that needs them. */
function barsOf(why: number, frame: Frame, at: Head): Partial<DrawOptions> {
  if (why === 2 && frame.tensors.row_mass) return { rowBars: ofHead(frame.tensors.row_mass, at) };
  if (why !== 3 || !frame.tensors.value_norm) return {};
  const { H, G } = frame.architecture;
  const group = Math.floor(at.head / (H / G));
  const norms = ofHead(frame.tensors.value_norm, { layer: at.layer, head: group });
  const most = Math.max(...norms);
  return { colBars: norms.map((norm) => norm / most) };
}

/** What the quantized preview changes, until the exact weights are loaded. */
function previewWords({ subject, model: { bits } }: Frame, context: Context): string {
  const card = context.engine.peek()!.models.zoo.cards.find(({ id }) => id === subject);
  if (!bits || !card?.preview) return '';
  return (
    ` (a quantized preview until the exact weights are loaded; over 100 passages its Sink₁ is ` +
    `${card.preview.measured.sink_1}%, of the exact weights ${card.measured.sink_1}%)`
  );
}

/** Marks the numbers of a quantized preview, and offers those of the exact weights. */
function previewMark(
  frames: readonly Frame[],
  context: Context,
  askExact: () => void,
): TemplateResult | typeof nothing {
  const cards = frames
    .filter(({ model }) => model.bits)
    .flatMap((frame) =>
      context.engine.peek()!.models.zoo.cards.filter(({ id }) => id === frame.subject),
    );
  const bytes = cards.reduce((sum, { preview }) => sum + (preview?.refinement.bytes ?? 0), 0);
  if (!bytes) return nothing;
  const bits = Math.max(...frames.map(({ model }) => model.bits ?? 0)).toFixed(1);
  return html`<p class="hint preview">
    Preview: weights rounded to ${bits} bits each.
    <button type="button" @click=${askExact}>Use exact weights (${size(bytes)})</button>
  </p>`;
}

/** The caption of a map, computed from the map. */
function captionOf(frame: Frame, at: Head, isStrongest: boolean): TemplateResult {
  const which = isStrongest ? 'strongest head' : 'head';
  const sums = isFree(frame) ? `rows sum to ${rowSum(frame)}` : 'rows sum to 100%';
  return html`<span class="wide">${which} </span>${headName(at)} · ${sums}`;
}

/** The same picture of a real model, whose recording is fetched when a reader asks for it; and the way back. */
function realModel(context: Context, isRecorded: boolean): TemplateResult | typeof nothing {
  if (isRecorded)
    return html`<p class="links">
      <a href=${context.link({ shown: defaults.shown, at: 0, layer: -1, head: -1 })}
        >Back to the two small models</a
      >
    </p>`;
  if (!SHIPPED.includes(REAL)) return nothing;
  const shown = [`recording:${REAL}`];
  return html`<p class="links">
    <a href=${context.link({ shown, at: 0, layer: -1, head: -1 })}
      >The same in a model of 135 million parameters</a
    >
  </p>`;
}

/** Of a causal model with weights: what it writes without its first token. */
function deleteButton(
  first: Shown | undefined,
  deletes: (frame: Frame) => void,
): TemplateResult | typeof nothing {
  const { frame, isStale } = first ?? {};
  if (frame && (frame.recording || isBidirectional(frame))) return nothing;
  // Its place is kept until there is a frame.
  return html`<p>
    <button type="button" ?disabled=${!frame || isStale} @click=${() => frame && deletes(frame)}>
      Delete the first token
    </button>
  </p>`;
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const head = part(root, 'start-head');
  const words = part(root, 'start-words');
  const stage = part(root, 'start-stage');
  const aside = part(root, 'start-aside');
  const why = part(aside, 'why');
  const walk = part(aside, 'why-walk');
  const foot = part(aside, 'start-foot');
  const without = part(root, 'start-without');
  const based = part(root, 'start-based sources');
  const pictures = part(stage, 'start-pictures');
  const tabs = part(pictures, 'start-tabs');
  const captions = part(pictures, 'start-captions');
  const sides = (state: State) => state.shown.slice(0, SIDES);
  const shown = (): Shown[] => shownOf(context, sides(context.state.value));

  /** The heads that stay selected while training is played, by model, for one question. */
  const pinned = signal<{ readonly key: string; readonly heads: Readonly<Record<string, Head>> }>({
    key: '',
    heads: {},
  });
  const keyFor = (state: State) =>
    `${keyOf(questionOf(state, context.engine.value?.file.value))} ${trained(sides(state)).join()}`;
  /** The heads to pin; undefined while the trained models have not been run. */
  const pinnedHeads = (state: State): Readonly<Record<string, Head>> | undefined => {
    if (state.why !== 4 || state.layer >= 0) return {};
    if (pinned.value.key !== keyFor(state)) return undefined;
    const last = trained(sides(state));
    const all = sides(state).map((one, i) => [one, pinned.value.heads[last[i]!]!] as const);
    return Object.fromEntries(all);
  };
  const headOf = (frame: Frame): Head =>
    pinnedHeads(context.state.value)?.[frame.subject] ?? selectedHead(frame, context.state.value);

  /** Whether the reader asked for numbers of the exact weights. */
  const isExact = signal(false);
  const askExact = () => void (isExact.value = true);

  const figure = new Figure(pictures, attention, context, scope, {
    isBare: true,
    extra: (frame) => {
      const at = headOf(frame);
      const { why: step } = context.state.peek();
      return {
        at,
        isPlain: true,
        remark: step < 2 ? remarkOf(frame) : undefined,
        ...barsOf(step, frame, at),
      };
    },
  });
  figure.root.dataset.view = 'attention';
  let walker: Walk | undefined;
  let walkScope: Scope | undefined;

  asks(context, scope, (state, { queue }) => {
    const entries = queue.entries.value;
    const heads = pinnedHeads(state);
    const [first, ...rest] = heads ? sides(state) : trained(sides(state));
    const frame = entries.get(first!)?.frame;
    // The first picture does not wait for the second. An explanation has exact numbers.
    const subjects = frame || state.why === 4 ? [first!, ...rest] : [first!];
    const isWritten = state.why === 3 && frame && !frame.recording && !entries.get(first!)?.isStale;
    return {
      isPreview: !state.why && !isExact.value,
      subjects,
      ...(heads ? { heads } : {}),
      views: [attention],
      more: [
        'row_mass',
        'value_norm',
        'value_ratio',
        ...(state.why === 3 ? ['contribution_out_at'] : []),
      ],
      studies: isWritten ? ablation(frame, headOf(frame)) : [],
    };
  });

  // The strongest heads of the trained models, as soon as these have been run.
  scope.effect(() => {
    const state = context.state.value;
    const entries = context.engine.value?.queue.entries.value;
    if (state.why !== 4 || pinned.peek().key === keyFor(state)) return;
    const last = trained(sides(state));
    const all = last.map((subject) => entries?.get(subject));
    if (!all.every((entry) => entry?.frame && !entry.isStale)) return;
    pinned.value = {
      key: keyFor(state),
      heads: Object.fromEntries(
        all.map((entry, i) => [last[i]!, selectedHead(entry!.frame!, { layer: -1, head: -1 })]),
      ),
    };
  });

  let deletion: Promise<WithoutFirst> | undefined;
  const deletes = (frame: Frame) => {
    deletion ??= import('./without_first').then(
      (one) => new one.WithoutFirst(without, context, scope),
    );
    deletion.then((one) => one.start(frame)).catch(context.fail);
  };
  // The texts are of one model and one prompt.
  let written = '';
  scope.effect(() => {
    const state = context.state.value;
    const now = `${sides(state)[0]} ${keyOf(questionOf(state))} ${state.why}`;
    if (now !== written) void deletion?.then((one) => one.stop());
    written = now;
  });

  let isDrawn = false;
  scope.effect(() => {
    const state = context.state.value;
    void context.theme.value;
    const all = shown();
    const isWhole = all.every(({ frame, error, isStale }) => (frame && !isStale) || error);
    walk.hidden = state.why !== 4;
    // Between two steps of a walk nothing is drawn again.
    if (state.why === 4 && isDrawn && !isWhole) return;
    isDrawn = isWhole;
    const frames = framesOf(all);
    const heads = frames.map(headOf);
    const [at] = heads;
    const { why: step } = state;
    stage.dataset.at = String(Math.min(state.at, SIDES - 1));
    // On a phone, the second map fits above the diagonal of the first.
    stage.classList.toggle('nesting', !step && !frames.some(isBidirectional));
    root.classList.toggle('explaining', step > 0);
    root.classList.toggle('walking', step === 4);
    const isFailed = all.some(({ error }) => error);
    root.classList.toggle('coming', !frames.length && !isFailed);
    render(
      html`<h1>Why do language models stare at the first token?</h1>
        <p class="lead" data-finding role="status">
          ${step === 4 && frames.length ? walkLead(frames, heads) : lead(frames, heads)}
        </p>
        ${troubles(all, context)}`,
      head,
    );
    render(frames[0] ? chips(frames[0], context, true) : nothing, words);
    const names = all.map(
      ({ frame, subject }, i) => [i, frame?.operation.label ?? subject] as const,
    );
    render(
      all.length > 1
        ? segmented('Model', names, Math.min(state.at, SIDES - 1), (i) => context.set({ at: i }))
        : nothing,
      tabs,
    );
    render(
      all.map(({ frame }, i) => {
        const free = { layer: -1, head: -1 };
        const own = frame && headOf(frame);
        const isStrongest =
          frame && step < 4 && headName(own!) === headName(selectedHead(frame, free));
        return html`<p class="twin twin-${i}">
          ${frame ? html`<strong>${capitalName(frame)}</strong> <span>${captionOf(frame, own!, Boolean(isStrongest))}</span>` : isFailed ? nothing : html`<span class="hint">Loading the second model …</span>`}
        </p>`;
      }),
      captions,
    );
    figure.update(all);
    render(
      step && at
        ? html`<h2>${step}. ${TITLES[step]}</h2>
            <p>${explanation(step, frames, heads, context)}</p>`
        : nothing,
      why,
    );
    const isRecorded = frames.some(({ recording }) => recording);
    // What is not step 4 is about the trained models.
    const goes = (to: number) => context.link({ why: to, shown: trained(state.shown) });
    const next =
      step < 4 && !isRecorded
        ? html`<a class="button primary" href=${goes(step + 1)}>${step ? 'Next' : 'Why?'}</a>`
        : html`<a class="button primary" href=${lessonLink(LESSONS[0]!.slug)}
              >Lesson 1: ${LESSONS[0]!.title}</a
            >
            <a
              class="button"
              href=${context.link({ room: 'explore', why: 0, shown: trained(state.shown) })}
              >Explore it yourself</a
            >`;
    const steps = html`<nav class="why-steps" aria-label="Why, in four steps">
      ${TITLES.slice(1).map(
        (title, i) =>
          html`<a href=${goes(i + 1)} aria-current=${step === i + 1 ? 'step' : 'false'}
            ><span>${i + 1}</span><span class=${step ? '' : 'unseen'}>${title}</span></a
          >`,
      )}
      ${step ? html`<a href=${goes(0)}>Back to the picture</a>` : nothing}
    </nav>`;
    render(
      html`<div class="start-ask">${next} ${step ? steps : nothing}</div>
        <div class="start-text">
          ${isRecorded ? html`<p class="hint" data-recorded>${NO_WEIGHTS}</p>` : html`${textField(context, 4)} ${startToken(context, frames)} ${step ? nothing : examples(context)}`}
          ${step ? nothing : deleteButton(all[0], deletes)}
          ${step && !isRecorded ? nothing : realModel(context, isRecorded)}
        </div>
        ${previewMark(frames, context, askExact)}
        ${
          frames[0] && at
            ? html`<details class="more facts" @toggle=${askExact}>
                <summary>Conditions</summary>
                <p>
                  <span class="lines"
                    >${explained(
                      frames
                        .map((frame) => stampWords(frame) + previewWords(frame, context))
                        .join('\n'),
                    )}</span
                  >
                </p>
                <p>
                  <a href=${context.link({ room: 'explore', why: 0 })}>Change them in Explore</a>
                </p>
              </details>`
            : nothing
        }`,
      foot,
    );
    render(sources(context.engine.value?.models.describe.version ?? ''), based);
  });

  scope.effect(() => {
    const isWalking = context.state.value.why === 4;
    if (isWalking && !walker) {
      walkScope = scope.child();
      const isReady = () => pinnedHeads(context.state.value) !== undefined;
      walker = new Walk(walk, context, walkScope, { isReady });
    } else if (!isWalking && walker) {
      walkScope!.end();
      walker = undefined;
    }
  });

  lightsChips(words, context, scope, shown);

  // Where one map is drawn in the corner of the other, a tap brings it to the front.
  const bringsForth = (event: MouseEvent) => {
    const cell = (event.target as Element).closest('.cell');
    if (!cell || getComputedStyle(cell).position !== 'absolute') return;
    event.stopPropagation();
    context.set({ at: [...cell.parentElement!.children].indexOf(cell) });
  };
  stage.addEventListener('click', bringsForth, { capture: true });
}
