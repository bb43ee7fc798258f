/** The room Explore, in one screen: a bar with the subject and the text, all heads, the stage, and six questions. */
import { html, nothing, render, type TemplateResult } from 'lit';
import { allows, nameOf, troubleNotes } from '../page/controls';
import { addModelButton, askBar, generateControls, roomHeading } from '../page/room_controls';
import {
  hideUntilDrawn,
  requestFrames,
  framesOf,
  entriesOf,
  type Context,
  type Scope,
  type SubjectEntry,
} from '../page/context';
import { Figure } from '../page/figure';
import { lossOf, headShown, layerNumber, type Frame, type Head } from '../frame';
import { interventionControls } from '../page/hand';
import { attention } from '../views/attention';
import { dormantHeads, effects, sinkCount } from '../views/effects';
import { heads, weightsOf } from '../views/heads';
import { sinks } from '../views/sinks';
import { QUESTIONS, RESEARCH, tabsOf, type Choice, type Tab } from '../views/index';
import { addElement, type View } from '../page/view';
import { answerOf, emergenceWords, firstTokenClause, dormantWords } from '../answers';
import { isOutsideZoo } from '../ask/ids';
import type { State } from '../ask/state';
import { parseSubject, type SubjectEdit } from '../ask/subject';
import {
  findingWords,
  claimSentence,
  firstName,
  headName,
  purposeWords,
  formatValue,
  SOFTMAX_AND_SIGMOID,
  stampWords,
} from '../words';
import { claimOf } from '../claims';
import { formatLossChange } from '../views/settings';
import { aboutModel } from './about';
import {
  ablation,
  canMeasureLossChange,
  lossChangeOf,
  lossStudies,
  WITHOUT_FIRST,
} from './loss_change';
import { createStage } from './stage';
import './panes.css';
import './tables.css';
import './explore.css';

/** With more heads, thumbnails beside the stage would be too small. */
const FEW_HEADS = 48;

/** Returns an edit for each dormant head, if the answer states their joint effect. */
function ablationsOf({ views: [view] }: Choice, frame: Frame | undefined): SubjectEdit[] {
  if (view !== effects || !canMeasureLossChange(frame) || !frame.tensors.effect) return [];
  const dormant = dormantHeads(frame);
  return dormant.length > 1 ? dormant.map(ablation) : [];
}

const needsHiddenRise = ({ question, views: [view] }: Choice, frame: Frame | undefined): boolean =>
  (view === effects || (question.name === 'if' && view === attention)) &&
  canMeasureLossChange(frame) &&
  !frame.edits.length;

/** Returns the view of all heads: their maps if there are few. Before the model is loaded its source decides. */
function navigatorOf(subject: string, frame: Frame | undefined): View {
  if (frame) {
    const { L, H } = frame.architecture;
    return L * H <= FEW_HEADS && !frame.lacks?.att ? heads : sinks;
  }
  const id = parseSubject(subject)?.id ?? '';
  return isOutsideZoo(id) ? sinks : heads;
}

const selectedSubject = ({ shown, at }: State): string => shown[Math.min(at, shown.length - 1)]!;

/** Keeps the tab order that of reading: from left to right, on a phone the picture first. */
function orderForReading(middle: Element, rail: Element, questions: Element, scope: Scope): void {
  const wideScreen = matchMedia('(width >= 820px)');
  const arrange = () => (wideScreen.matches ? middle.before(rail) : questions.after(rail));
  arrange();
  wideScreen.addEventListener('change', arrange);
  scope.onEnd(() => wideScreen.removeEventListener('change', arrange));
}

/** Returns what the room asks of the queue for the chosen question. */
function requestFor(choice: Choice, frame: Frame | undefined, state: State) {
  const ablations = ablationsOf(choice, frame);
  const comparingViews = frame?.edits.length
    ? choice.tab.views.filter((view) => view.needsBaseline)
    : [];
  const subject = selectedSubject(state);
  return {
    subjects: [subject],
    views: [navigatorOf(subject, frame), ...choice.views, ...comparingViews],
    more: [
      ...[...sinks.reads, 'massive', 'massive_at', 'value_ratio'],
      ...(choice.question.name === 'if' ? ['loss_mean'] : []),
    ],
    studies: [
      ...(ablations.length ? lossStudies(frame!, ablations) : []),
      ...(needsHiddenRise(choice, frame) ? lossStudies(frame!, [WITHOUT_FIRST]) : []),
    ],
  };
}

function subjectButtons(context: Context): TemplateResult | typeof nothing {
  const state = context.state.value;
  if (!allows(state, 'subjects')) return nothing;
  return html`<div class="subject-list" role="group" aria-label="Model">
    ${state.shown.map(
      (subject, i) =>
        html`<button
          type="button"
          aria-pressed=${subject === selectedSubject(state)}
          @click=${() => context.set({ at: i, layer: -1, head: -1 })}
        >
          ${nameOf(entriesOf(context, [subject])[0]!, context)}
        </button>`,
    )}
    ${addModelButton(false, context)}
  </div>`;
}

/** Returns the plain answer to the chosen question, the head that it is about, and the details. */
function answerTemplate(
  choice: Choice,
  entries: readonly SubjectEntry[],
  headOf: (frame: Frame) => Head,
  context: Context,
): TemplateResult {
  const [frame] = framesOf(entries);
  const trouble = troubleNotes(entries, context);
  if (!frame) {
    const waiting = entries[0]!.error ? '' : `Loading ${nameOf(entries[0]!, context)} …`;
    return html`${roomHeading('Explore', waiting, context, nothing)} ${trouble}`;
  }
  const at = headOf(frame);
  const ablations = ablationsOf(choice, frame);
  const needsRise = needsHiddenRise(choice, frame);
  const hiddenRise = needsRise ? lossChangeOf(frame, [WITHOUT_FIRST], context) : undefined;
  const details = ablations.length
    ? ablatedWords(frame, ablations, hiddenRise, context)
    : choice.question.name === 'if' && needsRise
      ? withoutFirstWords(frame, hiddenRise)
      : detailWords(choice, frame, at);
  const headNote =
    choice.question.name === 'when'
      ? nothing
      : html`<p class="hint">
          In layer ${layerNumber(frame, at.layer)}, head ${at.head} (${headName(at, frame)});
          ${firstTokenClause(frame)}
        </p>`;
  const answer = answerOf(choice, frame, at, context.state.value, hiddenRise);
  return html`${roomHeading(answer || 'Explore', details, context, headNote)} ${trouble}`;
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const bar = addElement(root, 'bar');
  const rail = addElement(root, 'rail');
  const middle = addElement(root, 'middle');
  const questionsPlace = addElement(root, 'inspector');
  orderForReading(middle, rail, questionsPlace, scope);
  const railTitle = addElement(rail, 'hint', 'p');
  const headingPlace = addElement(middle, 'room-head');
  const interventionsPlace = addElement(middle, '');
  // The stage's picture states all conditions, other pictures only those that differ.
  let statedConditions: readonly string[] = [];
  const headOf = (frame: Frame): Head =>
    headShown(frame, stage.choiceFor([frame]).tab.views, context.state.peek());
  const figureLook = { headOf, roomConditions: () => statedConditions };
  const mainLook = { headOf, extra: () => ({ isAnswered: true }) };
  const stage = createStage(addElement(middle, 'stage'), context, scope, mainLook, figureLook);
  let navigator: { readonly figure: Figure; readonly view: View } | undefined;
  const currentEntries = (): SubjectEntry[] =>
    entriesOf(context, [selectedSubject(context.state.value)]);

  requestFrames(context, scope, (state) => {
    const frames = framesOf(currentEntries());
    return requestFor(stage.choiceFor(frames), frames[0], state);
  });
  hideUntilDrawn(root, scope, currentEntries);

  scope.effect(() => {
    const state = context.state.value;
    void context.theme.value;
    const entries = currentEntries();
    const frames = framesOf(entries);
    const [frame] = frames;
    const choice = stage.choiceFor(frames);
    const facts = frame && allows(state, 'subjects') ? aboutModel(frame, context) : nothing;
    const more = html`${generateControls(context, frames)} ${facts}`;
    render(askBar(context, frames, subjectButtons(context), more), bar);
    render(answerTemplate(choice, entries, headOf, context), headingPlace);
    statedConditions = frame ? stampWords(frame).split(' · ') : [];
    const view = navigatorOf(selectedSubject(state), frame);
    if (navigator?.view !== view) {
      navigator?.figure.end();
      navigator = { view, figure: new Figure(rail, view, context, scope, figureLook) };
    }
    render(frame ? railWords(frame) : nothing, railTitle);
    navigator.figure.update(entries);
    stage.update(entries, [view]);
    const hasInterventions = choice.question.name === 'if' && frame && !frame.recording;
    render(
      hasInterventions ? interventionControls(context, frame, headOf(frame)) : nothing,
      interventionsPlace,
    );
    render(questions(choice, frames, stage.select), questionsPlace);
  });
}

function railWords(frame: Frame): string {
  const { L, H } = frame.architecture;
  return `${L * H} ${L * H > 1 ? 'heads' : 'head'}: how much each gives ${firstName(frame)}${weightsOf(frame).promptWords}. A row is a layer.`;
}

const ABLATION_TEXT = 'To ablate a head is to set its output to 0; the first token stays visible.';

/** Says what the heads do instead if the first token is hidden. */
const hiddenFirstReason = ({ operation, architecture }: Frame): string =>
  !operation.normalizes
    ? 'heads that attended to it now write something else'
    : architecture.bias_key
      ? 'this attention goes to other tokens and to the bias key'
      : 'later rows still sum to 100%, so this attention is forced onto other tokens';

function ablatedWords(
  frame: Frame,
  ablations: readonly SubjectEdit[],
  hiddenRise: number | undefined,
  context: Context,
): string {
  const withoutFirstSentence = Number.isFinite(hiddenRise)
    ? `Without ${firstName(frame)} to attend to, the loss changes by ${formatLossChange(hiddenRise!)} nats per token: ${hiddenFirstReason(frame)}.`
    : '';
  const rise = lossChangeOf(frame, ablations, context);
  return `${withoutFirstSentence} ${dormantWords({ dormant: ablations.length, sinks: sinkCount(frame) }, rise)}`.trim();
}

function withoutFirstWords(frame: Frame, rise: number | undefined): string {
  if (!Number.isFinite(rise)) return `Taking ${firstName(frame)} away …`;
  const loss = lossOf(frame);
  const change = Number.isFinite(loss)
    ? `goes from ${formatValue(loss)} to ${formatValue(loss + rise!)}`
    : `changes by ${formatLossChange(rise!)}`;
  return `With ${firstName(frame)} hidden from every token, itself included, in all heads, the loss ${change} nats per token: ${hiddenFirstReason(frame)}. The button draws the map without it.`;
}

/** Returns the sentences below the plain answer; empty if the view itself states the numbers. */
function detailWords({ question }: Choice, frame: Frame, at: Head): string {
  switch (question.name) {
    case 'where':
      return findingWords(frame, at);
    case 'why':
      return SOFTMAX_AND_SIGMOID;
    case 'when':
      return emergenceWords(frame);
    case 'matter':
      return ABLATION_TEXT;
    case 'research':
      return '';
    default:
      return `${claimSentence(claimOf(frame, at), frame)} ${question.name === 'write' ? purposeWords(frame, at) : ''}`.trim();
  }
}

/** Renders the questions, and the tabs of the selected one. Research questions are in a folded section. */
function questions(
  { question, tab, views: [view] }: Choice,
  frames: readonly Frame[],
  select: (view: string) => void,
): TemplateResult {
  const choose = ({ views: [first] }: Tab) => {
    select(first!.name);
    // The last views of the list are below the fold, where a choice would change nothing that one sees.
    const { top = 0 } = document.querySelector('.room-explore .stage')?.getBoundingClientRect() ?? {}; // prettier-ignore
    if (top < 0) scrollTo(0, 0);
  };
  const tabButton = (option: Tab) =>
    html`<button type="button" aria-pressed=${option === tab} @click=${() => choose(option)}>
      ${option.title}
    </button>`;
  const researchTabs = tabsOf(RESEARCH, frames);
  return html`<nav class="questions" aria-label="Questions">
    ${QUESTIONS.map((item) => {
      const questionTabs = tabsOf(item, frames, view!.name);
      if (!questionTabs.length) return nothing;
      const isSelected = item === question;
      return html`<div class=${isSelected ? 'asks selected' : 'asks'}>
        <button
          type="button"
          class="ask"
          aria-current=${isSelected ? 'true' : 'false'}
          @click=${() => select(questionTabs[0]!.views[0]!.name)}
        >
          ${item.title}<small>${item.hint}</small>
        </button>
        ${
          isSelected && questionTabs.length > 1
            ? html`<div class="tabs" role="group" aria-label=${question.title}>
                ${questionTabs.map(tabButton)}
              </div>`
            : nothing
        }
      </div>`;
    })}
    ${
      researchTabs.length
        ? html`<details class="more research" ?open=${question === RESEARCH}>
            <summary>${RESEARCH.title}</summary>
            ${researchTabs.map((researchTab) => html`<p>${tabButton(researchTab)} ${researchTab.explanation}</p>`)}
          </details>`
        : nothing
    }
  </nav>`;
}
