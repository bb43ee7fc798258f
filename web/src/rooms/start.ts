/**
 * Sixty seconds: one sentence, the picture with its stripe, the twin without it, the text, and one
 * question, which leads through four steps on the same picture. No word is used before it is explained.
 */
import { html, nothing, render, type TemplateResult } from 'lit';
import { chips, lightsChips, segmented, textField, troubles } from '../controls';
import { asks, framesOf, shownOf, type Desk, type Scope, type Shown } from '../desk';
import { Figure } from '../figure';
import { isBidirectional, ofHead, selectedHead, type Frame, type Head } from '../frame';
import { attention, mapsOf } from '../views/attention';
import { part, type Context } from '../views/view';
import { explained } from '../terms';
import {
  alphaOf,
  capital,
  firstName,
  headWords,
  judged,
  massOf,
  percent,
  show,
  stampWords,
} from '../words';
import { seedsOf, type Card } from '../zoo';
import { arithmeticOf } from '../subject';
import { stepOf } from '../timeline/steps';
import { Walk } from './walk';

/** As many as stand beside each other here. */
const SIDES = 2;

/** Words, the first one apart, that give the first more than half of what they give. */
function lookers(frame: Frame): { count: number; of: number } {
  const shares = mapsOf(frame)?.shares ?? new Float32Array();
  const { T } = frame;
  const count = Array.from({ length: T - 1 }, (_, t) => shares[(t + 1) * T]!).filter(
    (x) => x > 0.5,
  ).length;
  return { count, of: T - 1 };
}

/** What is said on the picture; it is true of the numbers that are drawn. */
function remarkOf(frame: Frame, at: Head): Context['remark'] {
  const verdict = judged(frame);
  if (!verdict.tells) return undefined;
  const { count, of } = lookers(frame);
  if (count >= 0.75 * of) return { text: '◀ almost every word looks here', kind: 'sink' };
  if (count >= 0.4 * of)
    return { text: `◀ ${count} of ${of} words look mostly here`, kind: 'sink' };
  const alpha = alphaOf(frame, at);
  // The same measure as everywhere: a sink gives the first word more than twice its even share.
  if (alpha <= 2 * verdict.even)
    return { text: `no such column: ${count} of ${of} look mostly there`, kind: 'none' };
  return { text: `◀ a weaker column: ${percent(alpha, 0)}`, kind: 'weak' };
}

/** The sentence over the pictures. */
function sentence([first]: readonly Frame[], at: Head | undefined): TemplateResult {
  const reads = html`A small language model reads the text below, here on your machine. Each row is
  a word; the stronger a cell, the more that word looks back at the word under its column.`;
  if (!first || !at) return reads;
  const verdict = judged(first);
  if (!verdict.tells)
    return html`${reads} <strong>This text is too short to tell</strong>: with ${first.T} pieces, a
      model that looks everywhere alike already gives the first one ${percent(verdict.even, 0)}.
      Write at least ${verdict.least}.`;
  const share = percent(alphaOf(first, at), 0);
  const { count, of } = lookers(first);
  const rows =
    count >= 0.75 * of
      ? 'Nearly every row points to the far left'
      : `${count} of ${of} rows point to the far left`;
  const empty = first.tokens[0]?.special ? ', which tells it nothing' : '';
  return html`${reads} ${rows}:
    <strong>it gives ${share} of its attention to ${firstName(first)}</strong>${empty}. Looking at
    all words alike would give it ${percent(verdict.even, 0)}.`;
}

const TITLES = [
  '',
  'The stripe',
  'A row must add up',
  'Parking is free',
  'Watch it appear',
] as const;

/** How far it is chance: what other runs of the same recipe came to. */
function chance([first, second]: readonly Frame[], desk: Desk): string {
  const [own, other] = [first, second].map((frame) => {
    const card = frame && cardOf(frame, desk);
    return card ? seedsOf(card).all.map(({ sink_1 }) => sink_1) : [];
  });
  if (!own || own.length < 2) return '';
  const shares = own.map((share) => `${share.toFixed(0)} %`);
  const twin =
    other && other.length > 1 ? `, of its twin’s ${Math.max(...other).toFixed(1)} % at most` : '';
  return (
    ` How strong it gets is partly chance: in ${own.length} trainings that differ in drawn numbers alone, ` +
    `${shares.slice(0, -1).join(', ')} and ${shares.at(-1)} of the heads came to give it more than ` +
    `30 %${twin}. The first is shown.`
  );
}

function cardOf({ model }: Frame, desk: Desk): Card | undefined {
  const { weights } = arithmeticOf(model.id);
  const id = stepOf(weights)?.id ?? weights;
  return desk.engine.peek()?.models.zoo.cards.find((card) => card.id === id);
}

/** Why a row's sum decides, in words that are true of these models. */
function rowWords(
  [first, second]: readonly Frame[],
  start: string,
  isSink: boolean,
): TemplateResult {
  const made = (frame: Frame) => percent(massOf(frame), 0);
  const isFree = (frame: Frame | undefined) => frame && !frame.operation.normalises;
  const bars = 'The bars at the right add up each row.';
  if (isFree(first))
    return html`${bars} In this model a row may make any sum: here ${made(first!)} on
    average.${second && !isFree(second) ? ' In the other every row must make 100 %, even where a word needs nothing.' : ''}`;
  const which =
    first!.operation.name === 'softmax' ? html`a <dfn>softmax</dfn> model` : html`this model`;
  return html`${bars} In ${which} every row must make 100 %, even where a word needs nothing: what
  is left over has to go
  somewhere${isSink ? `, and goes to ${start}` : ''}.${isFree(second) ? ` Its twin may keep it: there a row makes ${made(second!)} on average.` : ''}`;
}

function explanation(
  why: number,
  frames: readonly Frame[],
  at: Head,
  desk: Desk,
): TemplateResult | typeof nothing {
  const [first, second] = frames;
  if (!first) return nothing;
  const verdict = judged(first);
  const even = percent(verdict.even, 0);
  const alpha = alphaOf(first, at);
  const isSink = alpha > 2 * verdict.even;
  const start = firstName(first);
  const { H, G } = first.architecture;
  const group = Math.floor(at.head / (H / G));
  const ratio = first.tensors.value_ratio?.data[at.layer * G + group];
  if (why === 1)
    return html`Look at the first column: it belongs to
      ${start}${first.tokens[0]?.special ? ', a sign that stands before every text and means nothing' : ''}.
      If a word looked everywhere alike it would get ${even}. It gets ${percent(alpha, 0)}.
      ${isSink ? 'This is called' : 'Where it gets far more, that is called'} an
      <dfn>attention sink</dfn>. Point at a word to see where it looks.`;
  if (why === 2) return rowWords(frames, start, isSink);
  if (why === 3)
    return html`What a word brings along when it is looked at is its <dfn>value</dfn>; the bars
      under the picture show how long each is. That of ${start} is
      ${ratio === undefined ? 'short' : html`${show(ratio)} times as long as the others on average`}:
      attention that is parked there moves
      ${ratio !== undefined && ratio < 0.7 ? 'little' : 'something'}.`;
  const [one, twin] = [first, second].map((frame) => frame && cardOf(frame, desk)?.id);
  const isTwin = twin === 'sigmoid' ? ', and in the twin it does not' : '';
  const comes =
    one === 'softmax'
      ? `Nobody built it in. Move the slider: at first every row is even, after about a thousand steps of training the stripe comes${isTwin}.`
      : 'Nobody built in where it looks: that comes with training. Move the slider to see how.';
  return html`${comes}${chance(frames, desk)}`;
}

/** Bars at the sides of the picture, as the step asks for them. */
function barsOf(why: number, frame: Frame, at: Head): Partial<Context> {
  if (why === 2 && frame.tensors.row_mass) return { rowBars: ofHead(frame.tensors.row_mass, at) };
  if (why !== 3 || !frame.tensors.value_norm) return {};
  const { H, G } = frame.architecture;
  const group = Math.floor(at.head / (H / G));
  const norms = ofHead(frame.tensors.value_norm, { layer: at.layer, head: group });
  const most = Math.max(...norms);
  return { colBars: norms.map((norm) => norm / most) };
}

/** What the first picture owes to being early. */
function roundingWords({ subject, model: { bits } }: Frame, desk: Desk): string {
  const card = desk.engine.peek()!.models.zoo.cards.find(({ id }) => id === subject);
  if (!bits || !card?.quick) return '';
  return (
    `, until the exact weights are here. Over 100 passages that makes Sink₁ ` +
    `${card.quick.measured.sink_1} % instead of ${card.measured.sink_1} %.`
  );
}

function twinWords({ operation }: Frame): string {
  return operation.normalises
    ? 'each row must add up to 100 %'
    : 'its rows need not; drawn as shares';
}

export function build(root: HTMLElement, desk: Desk, scope: Scope): void {
  const head = part(root, 'start-head');
  const words = part(root, 'start-words');
  const stage = part(root, 'start-stage');
  const aside = part(root, 'start-aside');
  const told = part(aside, 'why');
  const walk = part(aside, 'why-walk');
  const foot = part(aside, 'start-foot');
  const pictures = part(stage, 'start-pictures');
  const tabs = part(pictures, 'start-tabs');
  const captions = part(pictures, 'start-captions');
  const shown = (): Shown[] => shownOf(desk, desk.state.value.shown.slice(0, SIDES));
  /** The head of the first one: the others show the same place. */
  const headOf = (frames: readonly Frame[]) =>
    frames[0] && selectedHead(frames[0], desk.state.value);
  const figure = new Figure(pictures, attention, desk, scope, {
    isBare: true,
    extra: (frame) => {
      const at = headOf(framesOf(shown())) ?? selectedHead(frame, { layer: -1, head: -1 });
      const { why } = desk.state.peek();
      return {
        at,
        isPlain: true,
        remark: why < 2 ? remarkOf(frame, at) : undefined,
        ...barsOf(why, frame, at),
      };
    },
  });
  figure.root.dataset.view = 'attention';
  let walker: Walk | undefined;
  let walkScope: { end(): void } | undefined;

  asks(desk, scope, (state, { queue }) => {
    const [first, ...rest] = state.shown.slice(0, SIDES);
    const frame = queue.entries.value.get(first!)?.frame;
    return {
      // The first picture does not wait for the second, nor for more bits than can be seen.
      isHasty: true,
      subjects: frame ? [first!, ...rest] : [first!],
      views: [attention],
      more: ['row_mass', 'value_norm', 'value_ratio'],
      isLed: true,
    };
  });

  scope.effect(() => {
    const state = desk.state.value;
    void desk.theme.value;
    const all = shown();
    const frames = framesOf(all);
    const at = headOf(frames);
    const { why } = state;
    stage.dataset.at = String(Math.min(state.at, SIDES - 1));
    // Above the diagonal is room for the other map, on a phone.
    stage.classList.toggle('nesting', !why && !frames.some(isBidirectional));
    root.classList.toggle('explaining', why > 0);
    const isFailed = all.some(({ error }) => error);
    root.classList.toggle('coming', !frames.length && !isFailed);
    render(
      html`<h1>Why does it keep looking at the first word?</h1>
        <p class="lead" data-finding role="status">${sentence(frames, at)}</p>
        ${troubles(all, desk)}`,
      head,
    );
    render(frames[0] ? chips(frames[0], desk, true) : nothing, words);
    const names = all.map(
      ({ frame, subject }, i) => [i, frame?.operation.label ?? subject] as const,
    );
    render(
      all.length > 1
        ? segmented('Model', names, Math.min(state.at, SIDES - 1), (i) => desk.set({ at: i }))
        : nothing,
      tabs,
    );
    render(
      all.map(
        ({ frame }, i) =>
          html`<p class="twin twin-${i}">
            ${frame ? html`<strong>${frame.title}</strong> <span>${twinWords(frame)}</span>` : isFailed ? nothing : html`<span class="hint">The twin is coming …</span>`}
          </p>`,
      ),
      captions,
    );
    figure.update(all);
    render(
      why && at
        ? html`<h2>${why}. ${TITLES[why]}</h2>
            <p>${explanation(why, frames, at, desk)}</p>`
        : nothing,
      told,
    );
    const goes = (to: number) => desk.link({ why: to });
    const next =
      why < 4
        ? html`<a class="button primary" href=${goes(why + 1)}>${why ? 'Next' : 'Why?'}</a>`
        : html`<a class="button primary" href=${desk.link({ room: 'explore', why: 0 })}
            >Look around yourself</a
          >`;
    const steps = html`<nav class="why-steps" aria-label="Why, in four steps">
      ${TITLES.slice(1).map(
        (title, i) =>
          html`<a href=${goes(i + 1)} aria-current=${why === i + 1 ? 'step' : 'false'}
            ><span>${i + 1}</span><span class=${why ? '' : 'unseen'}>${title}</span></a
          >`,
      )}
      ${why ? html`<a href=${goes(0)}>Back to the picture</a>` : nothing}
    </nav>`;
    render(
      html`<div class="start-ask">${next} ${why ? steps : nothing}</div>
        <div class="start-text">${textField(desk, 4)}</div>
        ${
          frames[0] && at
            ? html`<details class="more facts">
                <summary>The numbers</summary>
                <p>
                  <span class="lines"
                    >${explained(
                      [
                        `${capital(headWords(at))}: the head that gives token 1 most, and its place in the twin.`,
                        ...frames.map((frame) => stampWords(frame) + roundingWords(frame, desk)),
                      ].join('\n'),
                    )}</span
                  >
                </p>
                <p>
                  <a href=${desk.link({ room: 'explore', why: 0 })}
                    >Change what is read and measured in Explore</a
                  >
                </p>
              </details>`
            : nothing
        }`,
      foot,
    );
    walk.hidden = why !== 4;
  });

  scope.effect(() => {
    const isWalking = desk.state.value.why === 4;
    if (isWalking && !walker) {
      const own = scope.child();
      walkScope = own;
      walker = new Walk(walk, desk, own);
    } else if (!isWalking && walker) {
      walkScope!.end();
      walker = undefined;
    }
  });

  lightsChips(words, desk, scope, shown);

  // Where one map stands in the corner of the other, a tap brings it to the front.
  const bringsForth = (event: MouseEvent) => {
    const cell = (event.target as Element).closest('.cell');
    if (!cell || getComputedStyle(cell).position !== 'absolute') return;
    event.stopPropagation();
    desk.set({ at: [...cell.parentElement!.children].indexOf(cell) });
  };
  stage.addEventListener('click', bringsForth, { capture: true });
}
