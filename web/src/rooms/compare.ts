/**
 * The room Compare: what makes a sink? Each chapter is a question with its answer, a list of the models that answer it, in two
 * groups, and the maps of two of them on shared scales. A press in the list shows another model beside the baseline; a link
 * may name up to six models, of the zoo or the reader's own. The verdict of a claim follows, and panels with all numbers.
 */
import { signal } from '@preact/signals-core';
import { html, nothing, render, type TemplateResult } from 'lit';
import { savesData } from '../base';
import { allows, nameOf, troubleNotes, valueOf } from '../page/controls';
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
import {
  firstTokenWeights,
  headAt,
  isHeadNamed,
  selectedHead,
  slotShares,
  type Frame,
  type Head,
} from '../frame';
import { claimOf } from '../claims';
import { defaults, type State } from '../ask/state';
import { modelIdOf, parseSubject } from '../ask/subject';
import { explainTerms, explainWord, field } from '../page/terms';
import { attention, labelOf } from '../views/attention';
import { sinks } from '../views/sinks';
import { QUESTIONS, RESEARCH, tabsOf, type Choice } from '../views/index';
import { addElement } from '../page/view';
import { colorsOf } from '../timeline/course';
import { addNumbers, differencesBetween, panelOf } from './all_numbers';
import { addCardLegend, cardLook } from './cards';
import {
  CHAPTERS,
  chapterOf,
  claimAbout,
  effectWords,
  memberOf,
  pairOf,
  phraseOf,
  quoteOf,
  sidesOf,
  type Chapter,
} from './chapters';
import {
  cardSumWords,
  chapterCounts,
  chapterHeading,
  differsSentence,
  firstNameOfAll,
  headingOf,
  nearWords,
  obstacleOf,
  premiseWords,
  QUESTION,
  rawWords,
  topicsOf,
  wayOf,
} from './compared';
import { readsOf, tableOf } from './metrics';
import { capitalize, formatPercent, headName, listWords, modelName } from '../words';
import { lossWords, modelList, runsWords, type ModelGroup, type ModelRow } from './model_list';
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

/** Returns the tabs: the chapters, and the way to any other models. */
function chapterList({ state, set, pickModels }: Context): TemplateResult {
  const current = chapterOf(state.value.shown);
  const button = (title: string, isCurrent: boolean, open: () => void) =>
    html`<button type="button" aria-current=${isCurrent ? 'true' : nothing} @click=${open}>
      ${title}
    </button>`;
  const openChapter = (chapter: Chapter) =>
    set({ shown: pairOf(chapter), view: defaults.view, layer: -1, head: -1 }, true);
  return html`<b>${QUESTION}</b>
    <div>
      ${CHAPTERS.map((one) => button(one.title, one === current, () => openChapter(one)))}
      ${button('Other models', !current, pickModels)}
    </div>`;
}

const isFresh = ({ frame, isStale }: SubjectEntry): boolean => frame !== undefined && !isStale;

/**
 * Returns the models of the chapter that are to be measured beside the shown ones: those that were requested before, and the
 * next one when all before it are drawn. Where data are saved, or one failed to load, the others wait for a press.
 */
function othersToMeasure(context: Context, state: State) {
  const chapter = allows(state, 'subjects') ? chapterOf(state.shown) : undefined;
  const subjects = chapter ? membersIds(chapter).filter((id) => !state.shown.includes(id)) : [];
  const entries = entriesOf(context, subjects);
  const areWaiting = savesData() || entries.some(({ error }) => error);
  const known = entries.filter(({ frame, error }) => frame ?? error);
  const isNextDue = [...entriesOf(context, state.shown), ...known].every(isFresh) && !areWaiting;
  const next = isNextDue ? entries.find((entry) => !known.includes(entry)) : undefined;
  const requested = entries.filter((entry) => entry === next || known.includes(entry));
  return { areWaiting, requested: requested.map(({ subject }) => subject) };
}

/** Returns the rows of the list: the models of the chapter in its two groups, or else the shown ones. */
function modelGroups(context: Context, state: State): ModelGroup[] {
  const { shown } = state;
  const chapter = chapterOf(shown);
  const { areWaiting } = othersToMeasure(context, state);
  const colors = colorsOfSubjects(shown);
  const [first] = chapter ? pairOf(chapter) : shown;
  const rowOf = (entry: SubjectEntry): ModelRow => {
    const { subject, frame, isStale } = entry;
    const [, name = nameOf(entry, context), what = ''] = memberOf(chapter, subject) ?? [];
    const press = () => {
      // Loads what has failed once more.
      context.engine.peek()!.queue.retry();
      context.set({ shown: [first!, subject] });
    };
    return {
      ...{ subject, name, what, frame, isStale },
      waits: areWaiting && !shown.includes(subject),
      color: colors[shown.indexOf(subject)],
      press: chapter && subject !== first ? press : undefined,
    };
  };
  const rowsOf = (subjects: readonly string[]) => entriesOf(context, subjects).map(rowOf);
  const { apart } = chapter ?? {};
  return chapter
    ? sidesOf(chapter, membersIds(chapter)).flatMap(({ where, items }, side) => {
        const isSplit = side > 0 && apart;
        const group = { title: where, rows: rowsOf(isSplit ? items.slice(0, -1) : items) };
        return isSplit ? [group, { title: apart, rows: rowsOf(items.slice(-1)) }] : [group];
      })
    : [{ title: '', rows: rowsOf(shown) }];
}

/** Returns the list of models, unless a link hides it. */
function listTemplate(context: Context, state: State): TemplateResult | typeof nothing {
  const isSize = chapterOf(state.shown)?.title === 'Size';
  const groups = allows(state, 'subjects') ? modelGroups(context, state) : [];
  return groups.length
    ? modelList(groups, isSize ? context.link({ room: 'purpose' }) : '')
    : nothing;
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

/** Says of the shown models how well they predict, what their other trained runs have, and what shares of rows would count. */
function runLines({ state, engine }: Context, frames: readonly Frame[]): readonly string[] {
  const chapter = chapterOf(state.value.shown);
  const cardOf = (subject: string | undefined) =>
    engine.peek()?.models.zoo.cards.find(({ id }) => id === subject);
  const [first] = chapter?.members ?? [];
  const firstCard = cardOf(first?.[0]);
  return frames.flatMap((frame) => {
    const card = cardOf(frame.subject);
    const name = phraseOf(chapter, frame.subject) ?? frame.title;
    const loss = lossWords(card, firstCard);
    const { L, H } = frame.architecture;
    return [
      loss ? `${capitalize(name)} predicts the next token ${loss} ${first![1]}.` : '',
      runsWords(card, name, L * H),
      rawWords([frame]),
    ].filter(Boolean);
  });
}

function panelButtons(context: Context, frames: readonly Frame[]): TemplateResult {
  const { state, set } = context;
  const open = panelOf(state.value);
  const claim = claimAbout(state.value.shown);
  return html`<details class="more panels" ?open=${open !== 'none'}>
      <summary>How sure?</summary>
      <p class=${claim ? 'verdict' : 'hint'}>
        ${claim ? effectWords(claim) : 'No paper’s claim that we test is about these models.'}
      </p>
      ${runLines(context, frames).map((line) => html`<p class="hint">${line}</p>`)}
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
    <a href=${context.link({ room: 'purpose' })}>Are sinks bad?</a>`;
}

/** What a model with a key bias has besides the others. */
const EXTRA_KEY = ['alpha_bias', 'sink_ratio_bias', 'att_bias'];

/** A head that gives one place more leaves the rest of its map empty. */
const MOST = 0.9;

/** Whether a model of the chapter, or else a shown one, has an extra slot: then all cards choose their heads alike. */
function haveSlots(context: Context): boolean {
  const { shown } = context.state.peek();
  const chapter = chapterOf(shown);
  const subjects = chapter ? membersIds(chapter) : shown;
  return framesOf(entriesOf(context, subjects)).some((frame) => slotShares(frame));
}

/** Returns what each head gives the first token, or an extra slot if that is more. */
function placeShares(frame: Frame): readonly number[] {
  const slots = slotShares(frame);
  return Array.from(firstTokenWeights(frame), (share, i) => Math.max(share, slots?.[i] ?? 0));
}

/**
 * Returns the head of a card: the chosen one; or else the one that gives the first token most. Among models with extra slots
 * it is, of the heads that leave something to other tokens, the one that gives the first token or the slot most.
 */
function headOnCard(frame: Frame, context: Context): Head {
  const state = context.state.peek();
  if (isHeadNamed(state) || !frame.tensors.alpha || !haveSlots(context))
    return selectedHead(frame, state);
  const shares = placeShares(frame);
  const isMixed = (i: number) => shares[i]! <= MOST;
  const heads = [...shares.keys()].sort((a, b) => shares[b]! - shares[a]!);
  return headAt(heads.find(isMixed) ?? heads.at(-1)!, frame.architecture.H);
}

/** Says which heads the cards show, in words that explain it. */
function headWords(frames: readonly Frame[], context: Context): TemplateResult {
  const nameOn = (frame: Frame) => headName(headOnCard(frame, context), frame);
  if (isHeadNamed(context.state.peek()))
    return explainTerms(capitalize(listWords([...new Set(frames.map(nameOn))])), true);
  const isMixed = haveSlots(context);
  const limit = isMixed ? ` up to ${formatPercent(MOST, 0)}` : '';
  const place = `${firstNameOfAll(frames)}${isMixed ? ' or ∗' : ''}`;
  const list = listWords(frames.map((frame) => `${nameOn(frame)} in ${modelName(frame)}`));
  const rest = isMixed ? ' The map of a head that gives more shows hardly anything else.' : '';
  return explainWord(
    `strongest heads${limit}`,
    `Most on ${place}${limit && `,${limit}`}: ${list}.${rest}`,
  );
}

const labelOnCard = (frame: Frame, context: Context) =>
  labelOf(frame, headOnCard(frame, context), context.state.peek(), true);

/** Says what the rows of a card's map sum to, if the shown models differ in that and the map's label does not say it. */
function sumOnCard(frame: Frame, context: Context): string {
  const state = context.state.peek();
  if (wayOf(framesOf(entriesOf(context, state.shown))) !== 'sum') return '';
  const sum = cardSumWords(frame, claimOf(frame, headOnCard(frame, context), state).rowSum);
  return /^rows sum/.test(labelOnCard(frame, context)?.text ?? '') ? '' : sum;
}

/** Draws a card for each shown model: the map of its strongest head, or another picture. */
function addCards(place: HTMLElement, context: Context, scope: Scope) {
  const pictures = addElement(place, 'pictures');
  const headOf = (frame: Frame) => headOnCard(frame, context);
  const wordsOf = (frame: Frame) => {
    const state = context.state.peek();
    const { shown } = state;
    const title = phraseOf(chapterOf(shown), frame.subject) ?? frame.title;
    const color = colorsOfSubjects(shown)[shown.indexOf(frame.subject)] ?? '--ink';
    return { title, hint: sumOnCard(frame, context), color };
  };
  const look = cardLook(wordsOf, headOf, (frame) => labelOnCard(frame, context));
  const stage = createStage(addElement(pictures, 'stage'), context, scope, look);
  /** Returns the frames whose maps are drawn. */
  const update = (entries: readonly SubjectEntry[]): readonly Frame[] => {
    const frames = framesOf(entries);
    const isMap = stage.choiceFor(frames).views[0] === attention;
    pictures.classList.toggle('cards', isMap);
    stage.update(entries);
    return isMap ? frames : [];
  };
  return { stage, update };
}

/** Returns the heading, which answers the chapter's question, and the sentences on how many heads have a sink and why. */
function headingTemplate(entries: readonly SubjectEntry[], context: Context): TemplateResult {
  const state = context.state.value;
  const chapter = chapterOf(state.shown);
  const frames = entries.every(isFresh) ? framesOf(entries) : [];
  const { heading, lead } = chapter
    ? chapterWords(chapter, frames, context)
    : { heading: '', lead: ownLead(frames, context) };
  const isFailed = entries.some(({ error }) => error);
  const isSaid = allows(state, 'finding');
  const premise = chapter && premiseWords(chapter.premise, frames);
  return html`<h1>${(isSaid && heading) || (chapter?.question ?? QUESTION)}</h1>
    ${troubleNotes(entries, context)}
    <div class="lead">
      <p data-finding role="status" ?hidden=${!isSaid}>
        ${frames.length && lead ? explainTerms(lead, true) : isFailed ? nothing : 'Measuring …'}
      </p>
      ${premise ? html`<p><b>${chapter.ask}</b> ${explainTerms(premise, true)}</p>` : nothing}
    </div>`;
}

const countsOf = (frames: readonly Frame[], context: Context): string => {
  const chapter = chapterOf(context.state.peek().shown);
  return headingOf(
    frames,
    frames.map(({ subject }) => phraseOf(chapter, subject)),
  );
};

/**
 * Answers the chapter's question once all its models are measured; empty until then, so that one result is announced once.
 * Where the others wait for a press, it counts the heads of the shown models.
 */
function chapterWords(chapter: Chapter, shownFrames: readonly Frame[], context: Context) {
  const state = context.state.peek();
  const entries = entriesOf(context, membersIds(chapter));
  const isComplete = entries.every(isFresh);
  const frames = isComplete ? framesOf(entries) : shownFrames;
  const obstacle = obstacleOf(frames);
  if (isComplete && !obstacle) {
    const sides = sidesOf(chapter, frames);
    const heading = chapterHeading(sides, chapter.places);
    return { heading, lead: chapterCounts(sides, chapter.shortPlaces ?? chapter.places) };
  }
  const isAlone = othersToMeasure(context, state).areWaiting || !allows(state, 'subjects');
  return { heading: '', lead: obstacle || (isAlone ? countsOf(frames, context) : '') };
}

/** Counts the heads of models outside of all chapters, and says in what they differ. */
function ownLead(frames: readonly Frame[], context: Context): string {
  if (frames.length < 2) return 'Add another model to compare.';
  const words = obstacleOf(frames) || `${countsOf(frames, context)} ${nearWords(frames)}`.trim();
  return `${words} ${differsWords(frames, context)}`;
}

function differsWords(frames: readonly Frame[], context: Context): string {
  const { letters } = context.engine.peek()!.models.describe;
  return differsSentence(topicsOf(differencesBetween(frames, context).differences, letters));
}

/** Returns the line below the maps, where their heads do not say it: what a paper claims of the models, or else in what they differ. */
function reasonOf(entries: readonly SubjectEntry[], context: Context): string {
  const frames = framesOf(entries);
  if (frames.length < 2 || !entries.every(isFresh) || obstacleOf(frames)) return '';
  const { shown } = context.state.peek();
  const chapter = chapterOf(shown);
  const tested = claimAbout(shown);
  const near = chapter ? nearWords(frames) : '';
  if (wayOf(frames)) return near.trim();
  const reason = tested ? quoteOf(tested, shown) : '';
  return `${near}${reason || (chapter ? differsWords(frames, context) : '')}`.trim();
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const chaptersPlace = addElement(root, 'chapters');
  chaptersPlace.setAttribute('role', 'group');
  chaptersPlace.setAttribute('aria-label', QUESTION);
  const headingPlace = addElement(root, 'room-head');
  const askPlace = addElement(root, 'bar');
  const listPlace = addElement(root, 'aside');
  const answers = addElement(root, 'middle');
  const updateLegend = addCardLegend(answers, context, (frames) => headWords(frames, context));
  const currentEntries = (): SubjectEntry[] => entriesOf(context, context.state.value.shown);
  const { stage, update } = addCards(answers, context, scope);
  const reasonPlace = addElement(root, 'reason', 'p');
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
    const chosenFrames = haveSlots(context)
      ? [...frames, ...framesOf(entriesOf(context, requested))]
      : [];
    const chosenHeads = chosenFrames.map((frame) => [frame.subject, headOnCard(frame, context)]);
    return {
      subjects: [...state.shown, ...requested],
      ahead: requested,
      views: [sinks, ...stage.choiceFor(frames).views],
      heads: Object.fromEntries(chosenHeads) as Record<string, Head>,
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
    render(listTemplate(context, state), listPlace);
    updateLegend(update(entries));
    render(explainTerms(reasonOf(entries, context), true), reasonPlace);
    // Once drawn it stays, open or not as the reader left it.
    hasDrawn ||= frames.length > 0;
    render(hasDrawn ? panelButtons(context, frames) : nothing, panelsPlace);
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
        ? seedsTable(cards)
        : panel === 'remedies'
          ? remedies.value?.remediesTable(zooCards, context.link)
          : nothing,
      panelPlace,
    );
  });
}
