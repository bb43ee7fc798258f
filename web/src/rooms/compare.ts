/**
 * The room Compare: what makes a sink? Chapters ask what one change does: a row of small maps has the models that answer
 * it, and the title is what the row shows. One of them, or up to six, are shown large beside the first, on shared scales;
 * the verdict of a claim follows, and panels with all numbers.
 */
import { signal } from '@preact/signals-core';
import { html, nothing, render, type TemplateResult } from 'lit';
import { savesData } from '../base';
import { allows, troubleNotes, valueOf } from '../page/controls';
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
import { Figure, type FigureLook } from '../page/figure';
import { headAt, indexOfMax, isHeadNamed, selectedHead, type Frame, type Head } from '../frame';
import type { State } from '../ask/state';
import { modelIdOf, parseSubject } from '../ask/subject';
import { explainTerms, field } from '../page/terms';
import { attention, labelOf } from '../views/attention';
import { sinks } from '../views/sinks';
import { QUESTIONS, RESEARCH, tabsOf, type Choice } from '../views/index';
import { addElement } from '../page/view';
import { colorsOf } from '../timeline/course';
import { sinkWords, verdictOf } from '../words';
import { addNumbers, differencesBetween, panelOf } from './all_numbers';
import { addCardLegend, cardLooks, nameHeads } from './cards';
import { agreedWords, CHAPTERS, chapterOf, claimAbout, effectWords, phraseOf } from './chapters';
import {
  besidesWords,
  differsSentence,
  extraKeyWords,
  headingOf,
  nearWords,
  obstacleOf,
  rawWords,
  rowHeading,
  spendWords,
  topicsOf,
} from './compared';
import { readsOf, tableOf } from './metrics';
import { drawModels, lossBeside, type ModelRow } from './model_list';
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

/** The models of the chapter; none where the reader chose others, or where the row is hidden. */
const membersOf = (state: State): readonly string[] =>
  allows(state, 'subjects') ? (chapterOf(state.shown)?.members.map(([id]) => id) ?? []) : [];

const isFresh = ({ frame, isStale }: SubjectEntry): boolean => frame !== undefined && !isStale;

/**
 * Returns the models of the chapter that are to be measured beside the shown ones: those that were requested before, and
 * the next one when all before it are drawn. Where data are saved, or one failed to load, the others wait for a press.
 */
function othersToMeasure(context: Context, state: State) {
  const subjects = membersOf(state).filter((subject) => !state.shown.includes(subject));
  const entries = entriesOf(context, subjects);
  const areWaiting = savesData() || entries.some(({ error }) => error);
  const known = entries.filter(({ frame, error }) => frame ?? error);
  const isNextDue = [...entriesOf(context, state.shown), ...known].every(isFresh) && !areWaiting;
  const next = isNextDue ? entries.find((entry) => !known.includes(entry)) : undefined;
  const requested = entries.filter((entry) => entry === next || known.includes(entry));
  return { areWaiting, requested: requested.map(({ subject }) => subject) };
}

/** Returns the cards of the row. Models that are shown large have the colors of their large cards. */
function modelRows(context: Context, state: State): ModelRow[] {
  const { shown } = state;
  const members = membersOf(state);
  const chapter = chapterOf(shown)!;
  const { zoo, describe } = context.engine.value!.models;
  const { areWaiting } = othersToMeasure(context, state);
  const cardOf = (id: string) => zoo.cards.find((card) => card.id === id);
  const colors = colorsOfSubjects(shown);
  return entriesOf(context, members).map(({ subject, frame, isStale }, i) => {
    const [, name, what] = chapter.members[i]!;
    const besides = besidesWords(chapter, subject, zoo.cards, describe.letters);
    const loss = lossBeside(cardOf(subject), cardOf(members[0]!));
    return {
      ...{ subject, name, what, frame, isStale },
      note: besides || (loss && `predicts ${loss}`),
      waits: areWaiting && !shown.includes(subject),
      color: colors[shown.indexOf(subject)],
    };
  });
}

const colorsOfSubjects = (subjects: readonly string[]): string[] =>
  colorsOf(subjects.map((text) => ({ model: { id: modelIdOf(parseSubject(text)!) } })));

/** Questions about the compared models, each with the panel that answers it. */
const PANELS = [
  ['numbers', 'All numbers'],
  ['seeds', 'In other runs?'],
  ['reported', 'In papers?'],
  ['remedies', 'In large models?'],
] as const;

function panelButtons({ state, set, link }: Context): TemplateResult {
  const open = panelOf(state.value);
  const claim = claimAbout(state.value.shown);
  return html`<details class="more panels" ?open=${open !== 'none'}>
      <summary>How sure?</summary>
      <p class=${claim ? 'verdict' : 'hint'}>
        ${claim ? effectWords(claim) : 'No paper’s claim that we test is about these models.'}
      </p>
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
    </details>
    <p class="next">→ <a href=${link({ room: 'purpose' })}>Are sinks bad?</a></p>`;
}

/** What a model with an extra key has besides the others. */
const EXTRA_KEY = ['alpha_bias', 'sink_ratio_bias', 'att_bias'];

const hasExtraKey = (frame: Frame): boolean =>
  Boolean(frame.architecture.bias_key && frame.tensors.alpha_bias);

/** Returns the head of a card: the chosen one, or else the one that gives the extra key most, or else the first token. */
function headOnCard(frame: Frame, requested: Head): Head {
  if (!hasExtraKey(frame) || isHeadNamed(requested)) return selectedHead(frame, requested);
  return headAt(indexOfMax(frame.tensors.alpha_bias!.data), frame.architecture.H);
}

/** Draws a card for each model: the map of its strongest head, and all its heads with the number of those with a sink. */
function addCards(place: HTMLElement, context: Context, scope: Scope) {
  const pictures = addElement(place, 'pictures');
  const updateLegend = addCardLegend(place, context);
  const headOf = (frame: Frame) => headOnCard(frame, context.state.peek());
  const headWords = nameHeads(context);
  const wordsOf = (frame: Frame, i: number) => {
    const { shown } = context.state.peek();
    const title = phraseOf(chapterOf(shown), frame.subject) ?? frame.title;
    const color = colorsOfSubjects(shown)[shown.indexOf(frame.subject)] ?? '--ink';
    // The first card says which of its heads it shows.
    const words = headWords(frame, headOf(frame), hasExtraKey(frame) ? '∗' : '');
    return { title, hint: i ? words.replace(/^strongest head: /, '') : words, color };
  };
  const looks = cardLooks(wordsOf, headOf, (frame) =>
    labelOf(frame, headOf(frame), context.state.peek()),
  );
  // The row has the numbers of heads with a sink.
  const about: FigureLook['about'] = (frame, i) => {
    const words = looks.heads.about!(frame, i);
    return membersOf(context.state.peek()).length ? { ...words, title: ' ' } : words;
  };
  const stage = createStage(addElement(pictures, 'stage'), context, scope, looks.map);
  const sinkMap = new Figure(pictures, sinks, context, scope, { ...looks.heads, about });
  const update = (entries: readonly SubjectEntry[]): void => {
    const frames = framesOf(entries);
    const isMap = stage.choiceFor(frames).views[0] === attention;
    pictures.classList.toggle('cards', isMap);
    stage.update(entries);
    sinkMap.root.hidden = !isMap;
    sinkMap.update(isMap ? entries : []);
    updateLegend(isMap ? frames : []);
  };
  return { stage, update };
}

/**
 * Returns the frames that the title is about: those of the chapter once all of them are drawn, or else the shown ones;
 * none while one of these is measured.
 */
function titleFrames(entries: readonly SubjectEntry[], context: Context): readonly Frame[] {
  const state = context.state.value;
  const members = entriesOf(context, membersOf(state));
  const { areWaiting } = othersToMeasure(context, state);
  if (!entries.every(isFresh)) return [];
  const drawn = members.filter(isFresh);
  const isRow = drawn.length > 2 && (areWaiting || drawn.length === members.length);
  return framesOf(isRow ? drawn : entries);
}

/** Returns the heading, and the sentences on what differs, why softmax makes a sink, and what counts as one. */
function headingTemplate(entries: readonly SubjectEntry[], context: Context): TemplateResult {
  const state = context.state.value;
  const chapter = chapterOf(state.shown);
  const frames = titleFrames(entries, context);
  const phrases = frames.map(({ subject }) => phraseOf(chapter, subject));
  const isRow = frames.length > 2 && membersOf(state).length > 0;
  const isFailed = entries.some(({ error }) => error);
  return html`<h1>
      ${isRow ? rowHeading(frames, phrases as string[]) : headingOf(frames, phrases)}
    </h1>
    ${troubleNotes(entries, context)}
    <p class="lead" data-finding role="status" ?hidden=${state.hide.includes('finding')}>
      ${frames.length ? explainTerms(leadOf(frames, context), true) : isFailed ? nothing : 'Measuring …'}
    </p>`;
}

function leadOf(frames: readonly Frame[], context: Context): string {
  const { letters } = context.engine.peek()!.models.describe;
  const differs =
    frames.length > 1
      ? differsSentence(topicsOf(differencesBetween(frames, context).differences, letters))
      : 'Add another model to compare.';
  const sinky = frames.find((frame) => verdictOf(frame).sink > 0);
  const sink = sinky ? sinkWords(sinky, verdictOf(sinky).sink) : '';
  const { shown } = context.state.peek();
  const tested = claimAbout(shown);
  const raw = frames.length > 2 ? '' : rawWords(frames);
  const reason =
    `${spendWords(frames)}${extraKeyWords(frames.filter(({ subject }) => shown.includes(subject)))}${raw}` ||
    (tested ? agreedWords(tested, shown) : '');
  const rest = obstacleOf(frames) || reason;
  // The cards say what differs.
  const isSaid = frames.length > 2 && reason && membersOf(context.state.peek()).length;
  return `${sink}${nearWords(frames)}${isSaid ? '' : differs} ${rest}`.replace(/ +/g, ' ').trim();
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const chaptersPlace = addElement(root, 'chapters');
  chaptersPlace.setAttribute('role', 'group');
  chaptersPlace.setAttribute('aria-label', 'What makes a sink?');
  const headingPlace = addElement(root, 'room-head');
  const askPlace = addElement(root, 'bar');
  const rowPlace = addElement(root, 'model-row');
  const answers = addElement(root, 'middle');
  const currentEntries = (): SubjectEntry[] => entriesOf(context, context.state.value.shown);
  const { stage, update } = addCards(answers, context, scope);
  const panelsPlace = addElement(root, 'panels-place');
  const evidence = addElement(root, 'evidence');
  addNumbers(evidence, context, scope, currentEntries);
  const panelPlace = addElement(evidence, 'below');
  const remedies = signal<typeof import('./remedies') | undefined>(undefined);

  requestFrames(context, scope, (state, { models }) => {
    const panel = panelOf(state);
    const more =
      panel === 'numbers' || panel === 'reported' ? readsOf(tableOf(models.describe)) : [];
    const { requested } = othersToMeasure(context, state);
    const frames = framesOf(currentEntries());
    const extraHeads = [...frames, ...framesOf(entriesOf(context, requested))]
      .filter(({ architecture }) => architecture.bias_key)
      .map((frame) => [frame.subject, headOnCard(frame, state)] as const);
    return {
      subjects: [...state.shown, ...requested],
      ahead: requested,
      // The small maps are there whatever is shown large.
      views: [sinks, attention, ...stage.choiceFor(frames).views],
      heads: Object.fromEntries(extraHeads),
      more: [...more, 'loss_mean', 'row_mass_summary', 'alpha_raw', ...EXTRA_KEY],
    };
  });
  hideUntilDrawn(root, scope, currentEntries);
  let hasDrawn = false;

  scope.effect(() => {
    const state = context.state.value;
    void context.theme.value;
    const entries = currentEntries();
    const frames = framesOf(entries);
    render(chapterList(context), chaptersPlace);
    render(headingTemplate(entries, context), headingPlace);
    const press = (subject: string) => {
      const first = membersOf(state)[0]!;
      const second = subject === first ? state.shown.find((one) => one !== first) : subject;
      // Loads what has failed once more.
      context.engine.peek()!.queue.retry();
      context.set({ shown: second ? [first, second] : [first] });
    };
    if (context.engine.value && membersOf(state).length)
      drawModels(rowPlace, modelRows(context, state), press, {
        state,
        theme: context.theme.value,
      });
    else render(nothing, rowPlace);
    update(entries);
    // Once drawn it stays, open or not as the reader left it.
    hasDrawn ||= frames.length > 0;
    render(hasDrawn ? panelButtons(context) : nothing, panelsPlace);
    const picture = pictureField(stage.choiceFor(frames), frames, stage.select);
    const more = html`${picture} ${generateControls(context, frames)}`;
    render(askBar(context, frames, nothing, more, false), askPlace);
    const panel = panelOf(state);
    if (panel === 'remedies' && !remedies.value)
      import('./remedies').then((module) => (remedies.value = module), context.fail);
    const zooCards = context.engine.peek()?.models.zoo.cards ?? [];
    const cards = zooCards.filter(({ id }) => state.shown.includes(id));
    render(
      panel === 'seeds' && cards.length
        ? seedsTable(cards, false)
        : panel === 'remedies'
          ? remedies.value?.remediesTable(zooCards, context.link)
          : nothing,
      panelPlace,
    );
  });
}
