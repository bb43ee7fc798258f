/**
 * The room Compare: what makes a sink? Chapters ask what one change does. Two to six models answer the same question on
 * shared scales, a card each; a line for each model and the verdict of a claim follow, and panels with all numbers.
 */
import { signal } from '@preact/signals-core';
import { html, nothing, render, type TemplateResult } from 'lit';
import { nameOf, troubleNotes, valueOf } from '../page/controls';
import { askBar, generateControls } from '../page/room_controls';
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
import { headAt, indexOfMax, isHeadNamed, selectedHead, type Frame, type Head } from '../frame';
import type { State } from '../ask/state';
import { MAX_SUBJECTS } from '../ask/subject';
import type { Card } from '../ask/zoo';
import { explainTerms, field } from '../page/terms';
import { attention } from '../views/attention';
import { sinks } from '../views/sinks';
import { QUESTIONS, RESEARCH, tabsOf, type Choice } from '../views/index';
import { addElement } from '../page/view';
import { colorsOf } from '../timeline/course';
import { sinkWords, verdictOf } from '../words';
import { addNumbers, differencesBetween, panelOf } from './all_numbers';
import { addCardLegend, cardLooks, harmLink, nameHeads } from './cards';
import { CHAPTERS, chapterOf, claimAbout, effectWords, phraseOf } from './chapters';
import { differsSentence, extraKeyWords, headingOf, obstacleOf, spendWords } from './compared';
import { readsOf, tableOf } from './metrics';
import { runsTable } from './runs_table';
import { seedsTable } from './seeds_table';
import { createStage } from './stage';
import './panes.css';
import './tables.css';
import './compare.css';

function pictureField(
  { tab }: Choice,
  frames: readonly Frame[],
  select: (view: string) => void,
): TemplateResult {
  const groups = [...QUESTIONS, RESEARCH]
    .map((question) => ({ question, tabs: tabsOf(question, frames) }))
    .filter(({ tabs }) => tabs.length);
  return field(
    'picture',
    html`<select aria-label="picture" @change=${(event: Event) => select(valueOf(event))}>
      ${groups.map(
        ({ question, tabs }) =>
          html`<optgroup label=${question.title}>
            ${tabs.map(
              (option) =>
                html`<option value=${option.views[0]!.name} ?selected=${option === tab}>
                  ${option.title}
                </option>`,
            )}
          </optgroup>`,
      )}
    </select>`,
  );
}

function chapterList({ state, set, pickModels }: Context): TemplateResult {
  const current = chapterOf(state.value.shown);
  const chapter = (title: string, isCurrent: boolean, open: () => void) =>
    html`<button type="button" aria-current=${isCurrent ? 'true' : nothing} @click=${open}>
      ${title}
    </button>`;
  return html`${CHAPTERS.map((one) =>
    chapter(one.title, one === current, () =>
      set({ shown: one.members.slice(0, 2).map(([id]) => id), layer: -1, head: -1 }),
    ),
  )}
  ${chapter('Other models', !current, pickModels)}`;
}

/** Returns a button for each model of the chapter and each further shown one, in one order: a press adds or removes it. */
function modelChips(entries: readonly SubjectEntry[], context: Context): TemplateResult {
  const { shown } = context.state.value;
  const chapter = chapterOf(shown);
  const cards = context.engine.value?.models.zoo.cards ?? [];
  const members = (chapter?.members ?? []).map(([id]) => id);
  const isFull = shown.length >= MAX_SUBJECTS;
  const chip = (subject: string, name: string) => {
    const isShown = shown.includes(subject);
    const rest = shown.filter((other) => other !== subject);
    // Without it the models could be those of another question.
    const isLast = !rest.length || (chapter && chapterOf(rest) !== chapter);
    const what = cards.find(({ id }) => id === subject)?.what;
    return html`<button
      type="button"
      class="model-chip"
      aria-pressed=${isShown}
      title=${what ?? nothing}
      ?disabled=${isShown ? isLast : isFull}
      @click=${() => context.set({ shown: isShown ? rest : [...shown, subject] })}
    >
      ${name}
    </button>`;
  };
  return html`<div class="model-chips" role="group" aria-label="Models compared">
    ${members.map((id) => chip(id, phraseOf(chapter, id)!))}
    ${entries.filter(({ subject }) => !members.includes(subject)).map((entry) => chip(entry.subject, nameOf(entry, context)))}
  </div>`;
}

const cardOf = ({ subject }: Frame, context: Context): Card | undefined =>
  context.engine.peek()!.models.zoo.cards.find(({ id }) => id === subject);

/** Questions about the compared models, each with the panel that answers it. */
const PANELS = [
  ['numbers', 'All numbers'],
  ['seeds', 'In other runs?'],
  ['reported', 'In papers?'],
  ['remedies', 'In large models?'],
] as const;

function panelButtons({ state, set }: Context): TemplateResult {
  const open = panelOf(state.value);
  const claim = claimAbout(state.value.shown);
  return html`<details class="more panels" ?open=${open !== 'none'}>
    <summary>How sure?</summary>
    ${claim ? html`<p class="verdict">${effectWords(claim)}</p>` : nothing}
    <div class="numbers" role="group" aria-label="Evidence">
      ${PANELS.map(
        ([name, title]) =>
          html`<button
            type="button"
            aria-expanded=${name === open}
            @click=${() => set({ columns: [], panel: name === open ? 'none' : name })}
          >
            ${title}
          </button>`,
      )}
    </div>
  </details>`;
}

/** Returns what a model has in its chapter, or else its title. */
const nameIn = (frame: Frame, { shown }: State): string =>
  phraseOf(chapterOf(shown), frame.subject) ?? frame.title;

/** What a model with an extra key has besides the others. */
const EXTRA_KEY = ['alpha_bias', 'sink_ratio_bias', 'att_bias'];

/** Returns the head of a card: the chosen one, or else the one that gives the extra key most, or else the first token. */
function headOnCard(frame: Frame, requested: Head): Head {
  const extra = frame.architecture.bias_key && frame.tensors.alpha_bias;
  if (!extra || isHeadNamed(requested)) return selectedHead(frame, requested);
  return headAt(indexOfMax(extra.data), frame.architecture.H);
}

/** Draws a card for each model: the map of its strongest head, and all its heads with the number of those with a sink. */
function addCards(
  place: HTMLElement,
  context: Context,
  scope: Scope,
  currentEntries: () => SubjectEntry[],
) {
  const updateLegend = addCardLegend(place, context);
  const pictures = addElement(place, 'pictures');
  const headOf = (frame: Frame) => headOnCard(frame, context.state.peek());
  const headWords = nameHeads(context);
  const wordsOf = (frame: Frame) => {
    const state = context.state.peek();
    const frames = framesOf(currentEntries());
    const color = colorsOf(frames)[frames.findIndex(({ subject }) => subject === frame.subject)];
    return {
      title: nameIn(frame, state),
      hint: headWords(frame, headOf(frame)),
      color: color ?? '--ink',
    };
  };
  const looks = cardLooks(context, wordsOf, headOf);
  const stage = createStage(addElement(pictures, 'stage'), context, scope, looks.map);
  const sinkMap = new Figure(pictures, sinks, context, scope, looks.heads);
  const update = (entries: readonly SubjectEntry[]): void => {
    const frames = framesOf(entries);
    const isMap = stage.choiceFor(frames).views[0] === attention;
    pictures.classList.toggle('cards', isMap);
    pictures.dataset.count = String(entries.length);
    stage.update(entries);
    sinkMap.root.hidden = !isMap;
    sinkMap.update(isMap ? entries : []);
    updateLegend(isMap ? frames : []);
  };
  return { stage, update };
}

/** Returns the heading, and the sentences on what differs, why softmax makes a sink, and what counts as one. */
function headingTemplate(entries: readonly SubjectEntry[], context: Context): TemplateResult {
  const { shown, hide } = context.state.value;
  const frames = framesOf(entries.filter(({ isStale }) => !isStale));
  const isWhole = frames.length === entries.length;
  const phrases = entries.map(({ subject }) => phraseOf(chapterOf(shown), subject));
  const isFailed = entries.some(({ error }) => error);
  return html`<h1>${isWhole ? headingOf(frames, phrases) : 'What makes a sink?'}</h1>
    <p class="lead" data-finding role="status" ?hidden=${hide.includes('finding')}>
      ${
        isWhole
          ? html`${explainTerms(leadOf(frames, context), true)}
            ${frames.some((frame) => verdictOf(frame).sink > 0) ? harmLink(context.link) : nothing}`
          : isFailed
            ? nothing
            : 'Measuring …'
      }
    </p>
    ${troubleNotes(entries, context)}`;
}

function leadOf(frames: readonly Frame[], context: Context): string {
  const { letters } = context.engine.peek()!.models.describe;
  const differs =
    frames.length > 1
      ? differsSentence(differencesBetween(frames, context), letters)
      : 'Add another model to compare.';
  const sinky = frames.find((frame) => verdictOf(frame).sink > 0);
  const sink = sinky ? sinkWords(sinky, verdictOf(sinky).sink) : '';
  const reason = obstacleOf(frames) || `${spendWords(frames)}${extraKeyWords(frames)}`;
  return `${sink}${differs} ${reason}`.trim();
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const side = addElement(root, 'rail');
  const chaptersPlace = addElement(side, 'chapters');
  chaptersPlace.setAttribute('role', 'group');
  chaptersPlace.setAttribute('aria-label', 'What makes a sink?');
  const askPlace = addElement(side, 'bar');
  const answers = addElement(root, 'middle');
  const headingPlace = addElement(answers, 'room-head');
  const chipsPlace = addElement(answers, 'chips-place');
  const currentEntries = (): SubjectEntry[] => entriesOf(context, context.state.value.shown);
  const { stage, update } = addCards(answers, context, scope, currentEntries);
  const runsPlace = addElement(answers, 'runs-place');
  const panelsPlace = addElement(answers, 'panels-place');
  addNumbers(answers, context, scope, currentEntries);
  const panelPlace = addElement(answers, 'below');
  const remedies = signal<typeof import('./remedies') | undefined>(undefined);

  requestFrames(context, scope, (state, { models }) => {
    const panel = panelOf(state);
    const more =
      panel === 'numbers' || panel === 'reported' ? readsOf(tableOf(models.describe)) : [];
    const frames = framesOf(currentEntries());
    const extraHeads = frames
      .filter(({ architecture }) => architecture.bias_key)
      .map((frame) => [frame.subject, headOnCard(frame, state)] as const);
    return {
      views: [sinks, ...stage.choiceFor(frames).views],
      heads: Object.fromEntries(extraHeads),
      more: [...more, 'loss_mean', 'row_mass_summary', 'alpha_raw', ...EXTRA_KEY],
    };
  });
  hideUntilDrawn(root, scope, currentEntries);

  scope.effect(() => {
    const state = context.state.value;
    void context.theme.value;
    const entries = currentEntries();
    const frames = framesOf(entries);
    const freshFrames = framesOf(entries.filter(({ isStale }) => !isStale));
    render(chapterList(context), chaptersPlace);
    render(headingTemplate(entries, context), headingPlace);
    render(state.hide.includes('subjects') ? nothing : modelChips(entries, context), chipsPlace);
    update(entries);
    const colors = colorsOf(freshFrames);
    const lines = freshFrames.map((frame, i) => ({
      ...{ frame, color: colors[i]!, name: nameIn(frame, state), card: cardOf(frame, context) },
    }));
    // The last runs stay, as stale, while another text is measured, so that nothing below moves.
    runsPlace.classList.toggle('stale', !lines.length);
    if (lines.length || !frames.length)
      render(lines.length ? runsTable(lines) : nothing, runsPlace);
    render(frames.length ? panelButtons(context) : nothing, panelsPlace);
    const picture = pictureField(stage.choiceFor(frames), frames, stage.select);
    const more = html`${picture} ${generateControls(context, frames)}`;
    render(askBar(context, frames, nothing, more, false), askPlace);
    const panel = panelOf(state);
    if (panel === 'remedies' && !remedies.value)
      import('./remedies').then((module) => (remedies.value = module), context.fail);
    const cards = [...new Set(lines.flatMap(({ card }) => card ?? []))];
    render(
      panel === 'seeds' && cards.length
        ? seedsTable(cards, false)
        : panel === 'remedies'
          ? remedies.value?.remediesTable(context.engine.peek()!.models.zoo.cards, context.link)
          : nothing,
      panelPlace,
    );
  });
}
