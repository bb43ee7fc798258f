/**
 * The room Compare: what makes a sink? Chapters ask what one change does: the cards of the models that answer it are in two
 * groups, and the title is what the groups show. A press on a card shows its model large beside the first, on shared scales, as a
 * link does that names up to six models. The verdict of a claim follows, and panels with all numbers.
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
import { Figure } from '../page/figure';
import { headAt, indexOfMax, isHeadNamed, selectedHead, type Frame, type Head } from '../frame';
import { defaults, type State } from '../ask/state';
import { modelIdOf, parseSubject } from '../ask/subject';
import { explainTerms, field } from '../page/terms';
import { attention, labelOf } from '../views/attention';
import { sinks } from '../views/sinks';
import { QUESTIONS, RESEARCH, tabsOf, type Choice } from '../views/index';
import { addElement } from '../page/view';
import { colorsOf } from '../timeline/course';
import { addNumbers, differencesBetween, panelOf } from './all_numbers';
import { addCardLegend, cardLooks, nameHeads } from './cards';
import {
  CHAPTERS,
  chapterOf,
  claimAbout,
  effectWords,
  pairOf,
  phraseOf,
  quoteOf,
  sidesOf,
  type Chapter,
  type Side,
} from './chapters';
import {
  differsSentence,
  extraKeyWords,
  headingOf,
  modelsWords,
  nearWords,
  obstacleOf,
  QUESTION,
  rawWords,
  sidesHeading,
  sinkWords,
  spendWords,
  topicsOf,
} from './compared';
import { readsOf, tableOf } from './metrics';
import { AS_GOOD, drawModels, lossBeside, runsWords, type ModelCard } from './model_list';
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

const membersIds = (chapter: Chapter): string[] => chapter.members.map(([id]) => id);

/** Whether all models of the chapter are shown, a card for each; otherwise the shown ones are large. */
function showsCards(state: State): boolean {
  const { shown, large, view } = state;
  const chapter = chapterOf(shown);
  const isPair = chapter && shown.join() === pairOf(chapter).join();
  const isRequested =
    large === 'no' || (large === 'auto' && shown.join() === defaults.shown.join());
  return Boolean(isPair) && isRequested && view === defaults.view && allows(state, 'subjects');
}

const COUNTS = ['', '', '', 'three', 'four', 'five', 'six'];

/** Returns the chapters; while a model of one is large, the way back and the other models of the chapter. */
function chapterList({ state, set, pickModels }: Context): TemplateResult {
  const current = chapterOf(state.value.shown);
  const button = (title: string, isCurrent: boolean, open: () => void) =>
    html`<button type="button" aria-current=${isCurrent ? 'true' : nothing} @click=${open}>
      ${title}
    </button>`;
  const openChapter = (chapter: Chapter) =>
    set({
      ...{ shown: pairOf(chapter), large: 'no', view: defaults.view },
      ...{ layer: -1, head: -1 },
    });
  if (current && !showsCards(state.value) && allows(state.value, 'subjects')) {
    const [[first] = [], ...others] = current.members;
    return html`${button(`← All ${COUNTS[current.members.length]}`, false, () => openChapter(current))}
    ${others.map(([id, name]) =>
      button(name, state.value.shown.includes(id), () =>
        set({ shown: [first!, id], large: 'yes' }),
      ),
    )}`;
  }
  return html`${CHAPTERS.map((one) => button(one.title, one === current, () => openChapter(one)))}
  ${button('Other models', !current, pickModels)}`;
}

const isFresh = ({ frame, isStale }: SubjectEntry): boolean => frame !== undefined && !isStale;

/**
 * Returns the models of the chapter that are to be measured beside the shown ones: those that were requested before and,
 * for their cards, the next one when all before it are drawn. Where data are saved, or one failed to load, the others wait
 * for a press.
 */
function othersToMeasure(context: Context, state: State) {
  const chapter = allows(state, 'subjects') ? chapterOf(state.shown) : undefined;
  const subjects = chapter ? membersIds(chapter).filter((id) => !state.shown.includes(id)) : [];
  const entries = entriesOf(context, subjects);
  const areWaiting = savesData() || entries.some(({ error }) => error);
  const known = entries.filter(({ frame, error }) => frame ?? error);
  const isNextDue =
    showsCards(state) &&
    [...entriesOf(context, state.shown), ...known].every(isFresh) &&
    !areWaiting;
  const next = isNextDue ? entries.find((entry) => !known.includes(entry)) : undefined;
  const requested = entries.filter((entry) => entry === next || known.includes(entry));
  return { areWaiting, requested: requested.map(({ subject }) => subject) };
}

/** Returns the cards of the chapter, side by side. @param headWords says which head a card shows */
function modelCards(
  context: Context,
  state: State,
  headWords: ReturnType<typeof nameHeads>,
): Side<ModelCard>[] {
  const chapter = chapterOf(state.shown)!;
  const { zoo } = context.engine.value!.models;
  const { areWaiting } = othersToMeasure(context, state);
  const cardOf = (id: string) => zoo.cards.find((card) => card.id === id);
  const [first] = membersIds(chapter);
  const cardFor = ([id, name, what]: Chapter['members'][number]): ModelCard => {
    const [{ subject, frame, isStale }] = entriesOf(context, [id]) as [SubjectEntry];
    const loss = lossBeside(cardOf(id), cardOf(first!));
    const notes = [runsWords(cardOf(id)), loss && `guesses ${loss}`];
    return {
      ...{ subject, name, what, frame, isStale, notes: notes.filter(Boolean) },
      head: frame?.head ? headWords(frame, frame.head, hasExtraKey(frame) ? '∗' : '') : '',
      waits: areWaiting && !state.shown.includes(subject),
    };
  };
  return sidesOf(chapter, chapter.members.map(cardFor));
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
function addCards(
  place: HTMLElement,
  context: Context,
  scope: Scope,
  headWords: ReturnType<typeof nameHeads>,
) {
  const pictures = addElement(place, 'pictures');
  const headOf = (frame: Frame) => headOnCard(frame, context.state.peek());
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
  const stage = createStage(addElement(pictures, 'stage'), context, scope, looks.map);
  const sinkMap = new Figure(pictures, sinks, context, scope, looks.heads);
  /** Returns the frames whose maps are drawn. */
  const update = (entries: readonly SubjectEntry[]): readonly Frame[] => {
    const frames = framesOf(entries);
    const isMap = stage.choiceFor(frames).views[0] === attention;
    pictures.classList.toggle('cards', isMap);
    stage.update(entries);
    sinkMap.root.hidden = !isMap;
    sinkMap.update(isMap ? entries : []);
    // The cells of both figures are in one grid.
    for (const figure of pictures.querySelectorAll('.figure'))
      [...figure.querySelectorAll<HTMLElement>('.cell')].forEach((cell, i) =>
        cell.style.setProperty('--n', String(i)),
      );
    return isMap ? frames : [];
  };
  const select = (view: string) => {
    // Models that are large stay so.
    context.set({ large: 'yes' });
    stage.select(view);
  };
  return { stage, select, update };
}

/** Returns the entries that are drawn: those of the chapter's cards, or the large ones. */
function drawnEntries(context: Context): SubjectEntry[] {
  const state = context.state.value;
  const { shown } = state;
  return entriesOf(context, showsCards(state) ? membersIds(chapterOf(shown)!) : shown);
}

/** Returns the heading, and the sentences on what the models are, what differs, and what counts as a sink. */
function headingTemplate(entries: readonly SubjectEntry[], context: Context): TemplateResult {
  const state = context.state.value;
  const chapter = chapterOf(state.shown);
  const areCards = showsCards(state);
  const all = drawnEntries(context);
  // Until all cards are drawn, the sentences are about the first two.
  const about = all.every(isFresh) ? all : entries;
  const frames = about.every(isFresh) ? framesOf(about) : [];
  const phrases = frames.map(({ subject }) => phraseOf(chapter, subject));
  const isFailed = entries.some(({ error }) => error);
  const lead = areCards ? cardsLead : largeLead;
  return html`<h1>
      ${areCards ? (about === all ? sidesHeading(sidesOf(chapter!, frames)) : QUESTION) : headingOf(frames, phrases)}
    </h1>
    ${troubleNotes(entries, context)}
    <p class="lead" data-finding role="status" ?hidden=${state.hide.includes('finding')}>
      ${frames.length ? explainTerms(lead(frames, context), true) : isFailed ? nothing : 'Measuring …'}
    </p>`;
}

/** Says what the models of a chapter are, and how large models do. */
function cardsLead(frames: readonly Frame[], context: Context): string {
  const { letters } = context.engine.peek()!.models.describe;
  const { differences } = differencesBetween(frames, context);
  const obstacle = obstacleOf(frames);
  return `${modelsWords(topicsOf(differences, letters))}${obstacle ? `. ${obstacle}` : `; ${sinkWords(frames[0]!)}`}`;
}

/** Says how well the second of two models of a chapter predicts; empty for others. */
function lossSentence(frames: readonly Frame[], context: Context): string {
  const { cards } = context.engine.peek()!.models.zoo;
  const chapter = chapterOf(context.state.peek().shown);
  const [first, second] = frames.map(({ subject }) => phraseOf(chapter, subject));
  const [baseline, card] = frames.map(({ subject }) => cards.find(({ id }) => id === subject));
  const loss = lossBeside(card, baseline);
  return first && loss
    ? `With ${second}, guesses of the next token are ${loss} ${loss === AS_GOOD ? 'as' : 'than'} with ${first}.`
    : '';
}

function largeLead(frames: readonly Frame[], context: Context): string {
  const { letters } = context.engine.peek()!.models.describe;
  const differs =
    frames.length > 1
      ? differsSentence(topicsOf(differencesBetween(frames, context).differences, letters))
      : 'Add another model to compare.';
  const { shown } = context.state.peek();
  const tested = claimAbout(shown);
  const raw = frames.length > 2 ? '' : rawWords(frames);
  const loss = frames.length === 2 ? lossSentence(frames, context) : '';
  const reason =
    `${spendWords(frames)}${extraKeyWords(frames)}${raw}` || (tested ? quoteOf(tested, shown) : '');
  return `${nearWords(frames)}${differs} ${obstacleOf(frames) || reason} ${loss}`
    .replace(/ +/g, ' ')
    .trim();
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const chaptersPlace = addElement(root, 'chapters');
  chaptersPlace.setAttribute('role', 'group');
  chaptersPlace.setAttribute('aria-label', 'What makes a sink?');
  const headingPlace = addElement(root, 'room-head');
  const askPlace = addElement(root, 'bar');
  const cardsPlace = addElement(root, 'model-cards');
  const answers = addElement(root, 'middle');
  const currentEntries = (): SubjectEntry[] => entriesOf(context, context.state.value.shown);
  const headWords = nameHeads(context);
  const { stage, select, update } = addCards(answers, context, scope, headWords);
  const updateLegend = addCardLegend(root, context);
  const panelsPlace = addElement(root, 'panels-place');
  const evidence = addElement(root, 'evidence');
  addNumbers(evidence, context, scope, () => drawnEntries(context));
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
      const [first, contrast] = state.shown;
      // Loads what has failed once more.
      context.engine.peek()!.queue.retry();
      context.set({ shown: [first!, subject === first ? contrast! : subject], large: 'yes' });
    };
    const areCards = showsCards(state);
    answers.hidden = areCards;
    const options = { state, theme: context.theme.value };
    if (context.engine.value && areCards)
      drawModels(cardsPlace, modelCards(context, state, headWords), press, options);
    else render(nothing, cardsPlace);
    updateLegend(areCards ? framesOf(drawnEntries(context)) : update(entries));
    // Once drawn it stays, open or not as the reader left it.
    hasDrawn ||= frames.length > 0;
    render(hasDrawn ? panelButtons(context) : nothing, panelsPlace);
    const picture = pictureField(stage.choiceFor(frames), frames, select);
    const more = html`${picture} ${generateControls(context, frames)}`;
    render(askBar(context, frames, nothing, more, false), askPlace);
    const panel = panelOf(state);
    if (panel === 'remedies' && !remedies.value)
      import('./remedies').then((module) => (remedies.value = module), context.fail);
    const zooCards = context.engine.peek()?.models.zoo.cards ?? [];
    const cards = zooCards.filter(({ id }) => state.shown.includes(id));
    render(
      panel === 'seeds' && cards.length
        ? seedsTable(cards)
        : panel === 'remedies'
          ? remedies.value?.remediesTable(zooCards, context.link)
          : nothing,
      panelPlace,
    );
  });
}
