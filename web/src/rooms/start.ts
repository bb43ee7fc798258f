/**
 * The first minute: one question, the reader's text, the sentence that its maps support, the maps of two models with
 * one number each, and "Why?", which leads through four steps on the same picture. Below: all heads, and the text
 * that a model writes without its first token.
 */
import { signal } from '@preact/signals-core';
import { html, nothing, render, type TemplateResult } from 'lit';
import { claimOf, type Claim, type Kind } from '../claims';
import {
  examples,
  normalizeField,
  segmented,
  startToken,
  textField,
  troubles,
} from '../page/controls';
import { asks, framesOf, shownOf, type Context, type Scope, type Shown } from '../page/context';
import { Figure } from '../page/figure';
import {
  firstKey,
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
import { parseSubject, printSubject } from '../ask/subject';
import { explained } from '../page/terms';
import { stepOf, stepWords } from '../ask/steps';
import { drawScale, scaleName } from '../plot/legend';
import { attention, weightScale } from '../views/attention';
import { heads as allHeads } from '../views/heads';
import { part, type DrawOptions } from '../page/view';
import {
  alphaOf,
  capital,
  firstName,
  givenWords,
  headName,
  headsWords,
  isBelow,
  judged,
  massOf,
  meanAlpha,
  percent,
  quote,
  shareWords,
  show,
  stampWords,
  sumWords,
} from '../words';
import { seedsOf } from '../ask/zoo';
import { sources } from '../page/sources';
import { cardOf } from './about';
import { trained, Walk } from './walk';
import type { WithoutFirst } from './without_first';

/** The recording that is Start's second example. */
const REAL = 'smollm2-135m-instruct.safetensors';

/** Models side by side. */
const SIDES = 2;

/** The labels on the picture, by what its first column shows. */
const REMARKS: Readonly<
  Record<Kind, { readonly kind: string; readonly text: (claim: Claim) => string }>
> = {
  all: { kind: 'sink', text: () => '◀ almost every token attends here' },
  many: {
    kind: 'sink',
    text: ({ column }) => `◀ ${column!.strong} of ${column!.rows} tokens attend mostly here`,
  },
  weak: { kind: 'weak', text: () => '◀ a weaker column' },
  none: { kind: 'none', text: () => 'no strong column' },
};

/** The label on the picture. */
export function remarkOf(claim: Claim): DrawOptions['remark'] {
  if (!claim.kind) return undefined;
  const { kind, text } = REMARKS[claim.kind];
  return { kind, text: text(claim) };
}

const WAITING = 'A small language model reads your text on this machine.';

/** Who read the text, of a model elsewhere that is shown by its recording. */
function recordedBy({ recording, sequences, pooled, ...frame }: Frame): string {
  const cells = pooled
    ? ` Each row is a block of ${gridOf({ pooled, T: frame.T }).block} tokens, and each cell the mean of its weights; the strongest cell has the darkest color.`
    : '';
  const means = sequences > 1 ? ` The shares below are means over ${sequences} such texts.` : '';
  return `${recording!.model.id} read this text, and the page shows what was recorded.${means}${cells}`;
}

/** The first token, in quotation marks unless it is a special token. */
function firstBare(frame: Frame): string {
  const key = firstKey(frame);
  const name = quote(frame, key);
  return frame.tokens[key]?.special ? name.replace(/[“”]/g, '') : name;
}

/** What the first token is, said in full once. */
function firstInFull(frame: Frame): string {
  const name = firstBare(frame);
  return frame.tokens[firstKey(frame)]?.special
    ? `${name}, a marker that begins every text and carries no meaning`
    : name;
}

/** The answer that the first map gives, in words without a number. */
const ANSWERS: Readonly<Record<Kind, (first: string) => string>> = {
  all: (first) => `Almost every token attends to the first one: ${first}.`,
  many: (first) => `Many tokens attend mostly to the first one: ${first}.`,
  weak: (first) => `The first token gets more attention than an even share: ${first}.`,
  none: () => 'On this text, this head does not single out the first token.',
};

/** Whether the second model does what the first one does. */
function otherWords(frames: readonly Frame[], [first, second]: readonly Claim[]): string {
  const [own, other] = frames;
  if (!own || !other || !first?.kind || !second?.kind || first.kind === 'none') return '';
  const where = isTwin(own, other)
    ? 'the same model trained with sigmoid instead of softmax'
    : nameOf(other);
  const who = first.kind === 'weak' ? 'it' : 'they';
  const does = first.kind === 'weak' ? 'does' : 'do';
  if (second.kind === 'none') return ` In ${where}, ${who} ${does} not.`;
  return second.kind === first.kind ? ` In ${where}, ${who} ${does}, too.` : '';
}

/** The sentence over the pictures. @param claims about the drawn heads of the frames, in their order */
export function lead(frames: readonly Frame[], claims: readonly Claim[]): string {
  const [first] = frames;
  if (!first) return WAITING;
  const who = first.recording ? `${recordedBy(first)} ` : '';
  if (first.T < 2)
    return `${who}This text has a single token, which can only attend to itself: type more.`;
  const kind = claims[0]?.kind;
  const answer = kind ? ANSWERS[kind](firstInFull(first)) : '';
  return `${who}${answer}${otherWords(frames, claims)}`.trim();
}

/** The one number of a side, in its sentence. */
function sideWords(claim: Claim, frame: Frame): TemplateResult {
  const first = firstBare(frame);
  const number = html`<strong>${givenWords(claim)}</strong>`;
  if (isBelow(claim))
    return html`No head gives ${first} more than ${number}; this head gives it the most.`;
  if (!claim.isShare) return html`This head gives ${first} a mean weight of ${number}.`;
  return html`${explained('This head')} gives ${first} ${number} ${shareWords(frame)}; spread evenly
  over the tokens that each row can see, it would be ${percent(claim.even, 0)}.`;
}

/** The same while training is walked through: of one length at every step, so that nothing moves. */
function walkLead(frames: readonly Frame[], claims: readonly Claim[]): TemplateResult {
  return html`${frames.map((frame, i) => {
    const { step } = frame.model;
    const when = step ? stepWords(step.step, step.of) : 'after training';
    const claim = claims[i]!;
    return html`<span class="walk-line"
      ><strong>${capitalName(frame)}, ${when}:</strong> head ${headName(claim.at)} gives the first
      token
      ${
        claim.isShare
          ? `${givenWords(claim)} ${shareWords(frame)}; uniform attention would give ${percent(claim.even, 0)}`
          : `a weight of ${percent(claim.given)} on average; its rows sum to ${sumWords(claim.rowSum)}`
      }.</span
    >`;
  })}`;
}

/** Everything else that is known of a side. */
function moreWords(frame: Frame, claim: Claim): string {
  const { L, H } = frame.architecture;
  const { layer, head } = claim.at;
  const share = frame.operation.normalises
    ? ''
    : ` As a share of its row sums the first token gets ${percent(alphaOf(frame, claim.at), 0)} in this head, ${percent(meanAlpha(frame), 0)} on average.`;
  const mean = frame.operation.normalises
    ? ` The mean over all ${L * H} heads is ${percent(meanAlpha(frame), 0)}.`
    : '';
  return (
    `${capitalName(frame)}: head ${headName(claim.at)} (layer ${layer}, head ${head}, counted from 0) ` +
    `${claim.isMost ? `of ${L * H}, the one that gives the first token most` : 'is selected'}. ` +
    `Its rows sum to ${sumWords(claim.rowSum)}${frame.operation.normalises ? '' : ' on average'}.${mean}${share}`
  );
}

/** Whether two models differ in nothing but the attention operation. */
function isTwin(first: Frame, second: Frame): boolean {
  const ids = [first, second].map(({ model: { id } }) => stepOf(id)?.id ?? id);
  return ids.join() === 'softmax,sigmoid';
}

/** The model without the step that it is shown at. */
function nameOf(frame: Frame | undefined): string {
  return (frame?.title ?? '').replace(/ at step [\d,]+(?: of [\d,]+)?$/, '');
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

const isFree = (frame: Frame | undefined) => frame !== undefined && !frame.operation.normalises;

/** What the constraint on a row's sum does, true of the models that are shown. */
function rowWords(
  [first, second]: readonly Frame[],
  claims: readonly Claim[],
  isSink: boolean,
): TemplateResult {
  const bars = 'The bars at the right are row sums.';
  const sumOf = (i: number) => sumWords(claims[i]?.rowSum ?? massOf([first, second][i]!));
  if (isFree(first))
    return html`${bars} In this model a row may have any sum: here ${sumOf(0)} on
    average.${second && !isFree(second) ? ' In the other model every row must sum to 100%, even where a token needs nothing.' : ''}`;
  const which =
    first!.operation.name === 'softmax' ? html`a <dfn>softmax</dfn> model` : html`this model`;
  return html`${bars} In ${which} every row must sum to 100%, even where a token needs nothing. The
  rest has to go
  somewhere${isSink ? `, and it goes to ${firstName(first!)}` : ''}.${isFree(second) ? ` In its twin a row may have any sum: here ${sumOf(1)} on average.` : ''}`;
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
  claims: readonly Claim[],
  context: Context,
): TemplateResult | typeof nothing {
  const [first] = frames;
  const [claim] = claims;
  if (!first || !claim) return nothing;
  const even = percent(claim.even, 0);
  const isSink = claim.given > 2 * claim.even;
  if (why === 1)
    return html`The first column belongs to
      ${firstName(first)}${first.tokens[0]?.special ? ', which precedes every text and carries no meaning' : ''}.
      Uniform attention would give it ${even}; head ${headName(claim.at)} gives it
      ${givenWords(claim)}.
      ${isSink ? 'This is called' : 'Where it gets far more than that, it is called'} an
      <dfn>attention sink</dfn>. Point at a row to see what its token attends to.`;
  if (why === 2) return rowWords(frames, claims, isSink);
  if (why === 3) return writeWords(first, claim.at, context);
  const isSoftmax = cardOf(first, context)?.id === 'softmax';
  const comes = isSoftmax
    ? 'The sink is not built in: at step 0 attention is nearly uniform, and the sink appears during training.'
    : 'Where a head attends is learned in training.';
  return html`${comes} The shown heads stay the same: those that give the first token most after
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

/** The same picture of a real model, whose recording is fetched when a reader asks for it; and the way back. */
function realModel(context: Context, isRecorded: boolean): TemplateResult | typeof nothing {
  if (isRecorded)
    return html`<a href=${context.link({ shown: defaults.shown, at: 0, layer: -1, head: -1 })}
      >Back to the two small models</a
    >`;
  if (!SHIPPED.includes(REAL)) return nothing;
  const shown = [`recording:${REAL}`];
  return html`<a href=${context.link({ shown, at: 0, layer: -1, head: -1 })}
    >The maps of a model of 135 million parameters</a
  >`;
}

/** Of a causal model with weights: what it writes without its first token. */
function deleteButton(
  first: Shown | undefined,
  deletes: (frame: Frame) => void,
): TemplateResult | typeof nothing {
  const { frame, isStale } = first ?? {};
  if (frame && (frame.recording || isBidirectional(frame))) return nothing;
  // Its place is kept until there is a frame.
  return html`<button
    type="button"
    ?disabled=${!frame || isStale}
    @click=${() => frame && deletes(frame)}
  >
    Delete the first token
  </button>`;
}

/** How many heads do what the first picture shows. */
function countWords(frame: Frame): string {
  const verdict = judged(frame);
  const { L, H } = frame.architecture;
  const counted = verdict.conclusive
    ? ` ${capital(headsWords(frame, verdict.sink))} give the first token more than ${percent(frame.eps, 0)}.`
    : '';
  return `Every layer of the model has several attention heads, and each has a map of its own: ${L} layers (rows) of ${H} heads.${counted} Select one to see it above.`;
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const head = part(root, 'start-head');
  const stage = part(root, 'start-stage');
  const legend = part(root, 'start-legend');
  const aside = part(root, 'start-aside');
  const facts = part(root, 'start-facts');
  const why = part(aside, 'why');
  const walk = part(aside, 'why-walk');
  const foot = part(aside, 'start-ask');
  const heads = part(root, 'start-heads', 'section');
  const headsWordsPlace = part(heads, 'start-section');
  const deleting = part(root, 'start-deleting', 'section');
  const deletingWords = part(deleting, 'start-section');
  const without = part(deleting, 'start-without');
  const based = part(root, 'start-based sources');
  const pictures = part(stage, 'start-pictures');
  const tabs = part(pictures, 'start-tabs');
  const captions = part(pictures, 'start-captions');
  const what = part(legend, 'scale-name', 'span');
  const bar = part(legend, 'scale-place', 'span');
  const key = part(legend, 'map-key', 'span');
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
      const state = context.state.peek();
      return {
        at,
        isPlain: true,
        remark: state.why < 2 ? remarkOf(claimOf(frame, at, state)) : undefined,
        ...barsOf(state.why, frame, at),
      };
    },
  });
  figure.root.dataset.view = 'attention';
  const thumbs = new Figure(heads, allHeads, context, scope, { isBare: true });
  let walker: Walk | undefined;
  let walkScope: Scope | undefined;

  /** Whether the reader has scrolled to the maps of all heads, which are read only then. */
  const isReached = signal(false);
  const watcher = new IntersectionObserver(
    ([entry]) => {
      if (entry!.isIntersecting) isReached.value = true;
    },
    { rootMargin: '0px 0px -60px' },
  );
  watcher.observe(heads);
  scope.onEnd(() => watcher.disconnect());

  asks(context, scope, (state, { queue }) => {
    const entries = queue.entries.value;
    const pins = pinnedHeads(state);
    const [first, ...rest] = pins ? sides(state) : trained(sides(state));
    const frame = entries.get(first!)?.frame;
    // The first picture does not wait for the second. An explanation has exact numbers.
    const subjects = frame || state.why === 4 ? [first!, ...rest] : [first!];
    const isWritten = state.why === 3 && frame && !frame.recording && !entries.get(first!)?.isStale;
    return {
      isPreview: !state.why && !isExact.value,
      subjects,
      ...(pins ? { heads: pins } : {}),
      views: isReached.value && !state.why ? [attention, allHeads] : [attention],
      more: [
        'row_mass',
        'value_norm',
        'value_ratio',
        ...(state.why === 3 ? ['contribution_out_at'] : []),
      ],
      studies: isWritten ? ablation(frame, headOf(frame)) : [],
    };
  });

  // The heads of the trained models that give the first token most, as soon as these have been run.
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
    const theme = context.theme.value;
    const all = shown();
    const isWhole = all.every(({ frame, error, isStale }) => (frame && !isStale) || error);
    walk.hidden = state.why !== 4;
    // Between two steps of a walk nothing is drawn again.
    if (state.why === 4 && isDrawn && !isWhole) return;
    isDrawn = isWhole;
    const frames = framesOf(all);
    const claims = frames.map((frame) => claimOf(frame, headOf(frame), state));
    const { why: step } = state;
    stage.dataset.at = String(Math.min(state.at, SIDES - 1));
    // On a phone, the second map fits above the diagonal of the first.
    stage.classList.toggle('nesting', !step && !frames.some(isBidirectional));
    root.classList.toggle('explaining', step > 0);
    root.classList.toggle('walking', step === 4);
    const isFailed = all.some(({ error }) => error);
    root.classList.toggle('coming', !frames.length && !isFailed);
    const isRecorded = frames.some(({ recording }) => recording);
    render(
      html`<h1>Why do language models stare at the first token?</h1>
        <div class="start-text">
          ${
            isRecorded
              ? html`<div>
                  <p class="recorded-text" tabindex="0">
                    ${frames[0]!.tokens.map(({ text }) => text).join('')}
                  </p>
                  <p class="hint" data-recorded>${NO_WEIGHTS}</p>
                </div>`
              : html`${textField(context, 2)}
                  <p class="on-paper">${frames[0]?.question.prompt}</p>
                  <div class="text-tools">${startToken(context, frames)} ${examples(context)}</div>`
          }
        </div>
        <p class="lead" data-finding role="status">
          ${step === 4 && frames.length ? walkLead(frames, claims) : lead(frames, claims)}
        </p>
        ${troubles(all, context)}`,
      head,
    );
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
      all.map(({ frame, subject }, i) => {
        const claim = frame && claims[frames.findIndex((one) => one.subject === subject)]!;
        return html`<p class="twin twin-${i}">
          ${frame ? html`<strong>${capitalName(frame)}</strong> <span>${frame.T < 2 || step === 4 ? `head ${headName(claim!.at)}` : sideWords(claim!, frame)}</span>` : isFailed ? nothing : html`<span class="hint">Loading the second model …</span>`}
        </p>`;
      }),
      captions,
    );
    figure.update(all);
    const scale = weightScale({ frames, state, theme });
    what.textContent = scaleName(scale, 'attention');
    legend.hidden = frames.some(({ pooled }) => pooled);
    drawScale(bar, scale);
    render(
      html`row: the attending token · column: attended to
      ${frames.every(isBidirectional) ? nothing : html`· <span class="later"></span> later tokens: not visible`}`,
      key,
    );
    render(
      step && claims.length
        ? html`<h2>${step}. ${TITLES[step]}</h2>
            <p>${explanation(step, frames, claims, context)}</p>`
        : nothing,
      why,
    );
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
            ><span>${i + 1}</span><span>${title}</span></a
          >`,
      )}
      <a href=${goes(0)}>Back to the picture</a>
    </nav>`;
    render(html`${next} ${step ? steps : nothing}`, foot);
    render(
      claims.length
        ? html`<details class="more facts" @toggle=${askExact}>
            <summary>More</summary>
            ${frames.map((frame, i) => html`<p>${explained(moreWords(frame, claims[i]!))}</p>`)}
            <div class="numbers">${normalizeField(context, frames)}</div>
            <p>
              <span class="lines"
                >${explained(
                  frames
                    .map((frame) => stampWords(frame) + previewWords(frame, context))
                    .join('\n'),
                )}</span
              >
            </p>
            ${previewMark(frames, context, askExact)}
            <p>
              <a href=${context.link({ room: 'explore', why: 0 })}
                >Change the conditions in Explore</a
              >
            </p>
          </details>`
        : nothing,
      facts,
    );
    const [first] = frames;
    heads.hidden = deleting.hidden = step > 0;
    heads.classList.toggle('unread', !isReached.value);
    thumbs.root.hidden = !isReached.value;
    render(
      step
        ? nothing
        : html`<h2>It is not one head</h2>
            <p>${first ? countWords(first) : nothing}</p>`,
      headsWordsPlace,
    );
    if (!step) thumbs.update(all.slice(0, 1));
    render(
      step
        ? nothing
        : html`<h2>Take the first token away</h2>
            <p>
              What does a model write when its first key is deleted? The small model shows it on
              your text; beside it are recorded texts of a model of 135 million parameters.
            </p>
            <p class="links">
              ${deleteButton(all[0], deletes)} ${realModel(context, isRecorded)}
            </p>`,
      deletingWords,
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

  // Where one map is drawn in the corner of the other, a tap brings it to the front.
  const bringsForth = (event: MouseEvent) => {
    const cell = (event.target as Element).closest('.cell');
    if (!cell || getComputedStyle(cell).position !== 'absolute') return;
    event.stopPropagation();
    context.set({ at: [...cell.parentElement!.children].indexOf(cell) });
  };
  stage.addEventListener('click', bringsForth, { capture: true });
}
