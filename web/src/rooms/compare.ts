/**
 * The room Compare: what makes a sink? Chapters ask what one change does, and list the models that answer it. Two to six
 * of them are shown on shared scales, a card each; the verdict of a claim follows, and panels with all numbers.
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
import { MAX_SUBJECTS, modelIdOf, parseSubject } from '../ask/subject';
import { explainTerms, field } from '../page/terms';
import { attention } from '../views/attention';
import { sinks } from '../views/sinks';
import { QUESTIONS, RESEARCH, tabsOf, type Choice } from '../views/index';
import { addElement } from '../page/view';
import { colorsOf } from '../timeline/course';
import { capitalize, firstName, listWords, sinkWords, verdictOf } from '../words';
import { addNumbers, differencesBetween, panelOf } from './all_numbers';
import { addCardLegend, cardLooks, nameHeads } from './cards';
import { CHAPTERS, chapterOf, claimAbout, effectWords, phraseOf } from './chapters';
import {
  ARE_SINKS_BAD,
  besidesWords,
  differsSentence,
  extraKeyWords,
  headingOf,
  labelOf,
  MAX_TOPICS,
  nearWords,
  obstacleOf,
  rawWords,
  spendWords,
  topicsOf,
} from './compared';
import { readsOf, tableOf } from './metrics';
import { modelList } from './model_list';
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

/** Lists the models of the chapter, or else the shown ones. Those that are shown are pressed, in the colors of their cards. */
function listTemplate(entries: readonly SubjectEntry[], context: Context): TemplateResult {
  const { shown } = context.state.value;
  const chapter = chapterOf(shown);
  const { zoo, describe } = context.engine.value!.models;
  const colors = colorsOfSubjects(shown);
  const subjects = chapter?.members.map(([id]) => id) ?? shown;
  const rows = subjects.map((subject) => {
    const at = shown.indexOf(subject);
    const entry = entries[at];
    return {
      subject,
      name: phraseOf(chapter, subject) ?? nameOf(entry!, context),
      card: zoo.cards.find(({ id }) => id === subject),
      frame: entry?.isStale ? undefined : entry?.frame,
      color: colors[at],
      besides: chapter && besidesWords(chapter, subject, zoo.cards, describe.letters),
    };
  });
  const show = (subject: string, others: readonly string[]) => {
    const isBaseline = subject === subjects[0];
    context.set({ shown: isBaseline ? [subject, ...others] : [...others, subject] });
  };
  const press = (subject: string) => {
    if (!shown.includes(subject))
      return show(subject, shown.slice(0, Math.max(1, shown.length - 1)));
    // Two models are left, since one alone answers nothing.
    if (shown.length > 2) context.set({ shown: shown.filter((other) => other !== subject) });
  };
  const stepsOf = (id: string) => Number(zoo.cards.find((card) => card.id === id)?.training?.steps);
  const [steps, usualSteps] = [stepsOf(subjects[0]!), stepsOf('softmax')];
  const note =
    chapter && steps < usualSteps
      ? `All trained for ${steps.toLocaleString('en')} steps, softmax elsewhere for ${usualSteps.toLocaleString('en')}.`
      : '';
  const add = shown.length < MAX_SUBJECTS ? (subject: string) => show(subject, shown) : undefined;
  return modelList(rows, press, add, note);
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

function panelButtons({ state, set }: Context): TemplateResult {
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
  </details>`;
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
    // The first card says of what its head is the strongest.
    const on = hasExtraKey(frame) ? '∗' : i ? '' : firstName(frame);
    return { title, hint: headWords(frame, headOf(frame), on), color };
  };
  const looks = cardLooks(wordsOf, headOf, (frame) =>
    labelOf(frame, headOf(frame), context.state.peek()),
  );
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
  const { sentence, topics } = isWhole ? leadOf(frames, context) : { sentence: '', topics: [] };
  const fold = (title: string, text: unknown) =>
    html`<details class="aside">
      <summary>${title}</summary>
      <p>${text}</p>
    </details>`;
  return html`<h1>${isWhole ? headingOf(frames, phrases) : 'What makes a sink?'}</h1>
    <p class="lead" data-finding role="status" ?hidden=${hide.includes('finding')}>
      ${isWhole ? explainTerms(sentence, true) : isFailed ? nothing : 'Measuring …'}
    </p>
    ${topics.length > MAX_TOPICS ? fold(`What are the ${topics.length} differences?`, `${capitalize(listWords(topics))}.`) : nothing}
    ${
      frames.some((frame) => verdictOf(frame).sink > 0)
        ? fold(
            'Are sinks bad?',
            html`${ARE_SINKS_BAD} <a href=${context.link({ room: 'purpose' })}>Why it matters</a>`,
          )
        : nothing
    }
    ${troubleNotes(entries, context)}`;
}

function leadOf(frames: readonly Frame[], context: Context) {
  const { letters } = context.engine.peek()!.models.describe;
  const topics =
    frames.length > 1 ? topicsOf(differencesBetween(frames, context).differences, letters) : [];
  const differs = frames.length > 1 ? differsSentence(topics) : 'Add another model to compare.';
  const sinky = frames.find((frame) => verdictOf(frame).sink > 0);
  const sink = sinky ? sinkWords(sinky, verdictOf(sinky).sink) : '';
  const reason =
    obstacleOf(frames) || `${spendWords(frames)}${extraKeyWords(frames)}${rawWords(frames)}`;
  return { sentence: `${sink}${nearWords(frames)}${differs} ${reason}`.trim(), topics };
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const chaptersPlace = addElement(root, 'chapters');
  chaptersPlace.setAttribute('role', 'group');
  chaptersPlace.setAttribute('aria-label', 'What makes a sink?');
  const headingPlace = addElement(root, 'room-head');
  const side = addElement(root, 'rail');
  const listPlace = addElement(side, 'list-place');
  const askPlace = addElement(side, 'bar');
  const answers = addElement(root, 'middle');
  const currentEntries = (): SubjectEntry[] => entriesOf(context, context.state.value.shown);
  const { stage, update } = addCards(answers, context, scope);
  const panelsPlace = addElement(side, 'panels-place');
  const evidence = addElement(root, 'evidence');
  addNumbers(evidence, context, scope, currentEntries);
  const panelPlace = addElement(evidence, 'below');
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
  let hasDrawn = false;

  scope.effect(() => {
    const state = context.state.value;
    void context.theme.value;
    const entries = currentEntries();
    const frames = framesOf(entries);
    render(chapterList(context), chaptersPlace);
    render(headingTemplate(entries, context), headingPlace);
    const isListed = context.engine.value && !state.hide.includes('subjects');
    render(isListed ? listTemplate(entries, context) : nothing, listPlace);
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
