/**
 * The room Compare: what makes a sink? Chapters ask what one change does. Two to six models answer the same question on
 * shared scales, a card each; a line for each model and the verdict of a claim follow, and panels with all numbers.
 */
import { signal } from '@preact/signals-core';
import { html, nothing, render, type TemplateResult } from 'lit';
import { askBar, generateControls, nameOf, troubleNotes, valueOf } from '../page/controls';
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
import { claimOf } from '../claims';
import { firstKey, isBidirectional, isCommonToken, selectedHead, type Frame } from '../frame';
import { defaults, type State } from '../ask/state';
import { MAX_SUBJECTS } from '../ask/subject';
import type { Card } from '../ask/zoo';
import { drawScale } from '../plot/legend';
import { field } from '../page/terms';
import { attention, weightScale } from '../views/attention';
import { sinks } from '../views/sinks';
import { QUESTIONS, RESEARCH, tabsOf, type Choice } from '../views/index';
import { addElement, setText } from '../page/view';
import { colorsOf } from '../timeline/course';
import { firstName, firstTokenName, headName, rowsWords, verdictOf, wholePercent } from '../words';
import { addNumbers, differencesBetween } from './all_numbers';
import { CHAPTERS, chapterOf, claimAbout, effectWords, phraseOf, verdictWords } from './chapters';
import { countWords, differsSentence, headingOf, obstacleOf, sinkWords } from './compared';
import { readsOf, tableOf } from './metrics';
import { runsTable } from './runs_table';
import { addScatter, panelOf, RAW_ALPHA, SCATTER_READS } from './scatter';
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
  ${chapter('Your models', !current, pickModels)}`;
}

/** Returns a button for each shown model and each further one of the chapter: a press adds or removes it. */
function modelChips(entries: readonly SubjectEntry[], context: Context): TemplateResult {
  const { shown } = context.state.value;
  const chapter = chapterOf(shown);
  const cards = context.engine.value?.models.zoo.cards ?? [];
  const others = (chapter?.members ?? []).map(([id]) => id).filter((id) => !shown.includes(id));
  const isFull = shown.length >= MAX_SUBJECTS;
  const chip = (subject: string, name: string) => {
    const isShown = shown.includes(subject);
    const what = cards.find(({ id }) => id === subject)?.what;
    return html`<button
      type="button"
      class="model-chip"
      aria-pressed=${isShown}
      title=${what ?? nothing}
      ?disabled=${isShown ? shown.length < 2 : isFull}
      @click=${() =>
        context.set({
          shown: isShown ? shown.filter((other) => other !== subject) : [...shown, subject],
        })}
    >
      ${name}
    </button>`;
  };
  return html`<div class="model-chips" role="group" aria-label="Models compared">
    ${entries.map((entry) => chip(entry.subject, phraseOf(chapter, entry.subject) ?? nameOf(entry, context)))}
    ${others.map((id) => chip(id, phraseOf(chapter, id)!))}
  </div>`;
}

const cardOf = ({ subject }: Frame, context: Context): Card | undefined =>
  context.engine.peek()!.models.zoo.cards.find(({ id }) => id === subject);

/** Questions about the compared models, each with the panel that answers it. */
const PANELS = [
  ['numbers', 'All numbers'],
  ['seeds', 'In other runs?'],
  ['reported', 'In papers?'],
  ['scatter', 'Is it size, loss, norm?'],
  ['remedies', 'In large models?'],
] as const;

function panelButtons({ state, set }: Context): TemplateResult {
  const open = panelOf(state.value);
  return html`<details class="more panels" ?open=${open !== 'none'}>
    <summary>More numbers</summary>
    <div class="numbers" role="group" aria-label="More numbers">
      ${PANELS.map(
        ([name, title]) =>
          html`<button
            type="button"
            aria-expanded=${name === open}
            @click=${() =>
              set({
                ...{ xAxis: defaults.xAxis, checkpoints: defaults.checkpoints, columns: [] },
                panel: name === open ? 'none' : name,
              })}
          >
            ${title}
          </button>`,
      )}
    </div>
  </details>`;
}

/** Returns how the map of a card is drawn: plainly, with the number of its first column. */
function cardOptions(frame: Frame, state: State) {
  const claim = claimOf(frame, selectedHead(frame, state), state);
  if (!claim.column || !isCommonToken(frame, firstKey(frame))) return { isPlain: true };
  const kind = claim.attention > frame.eps ? 'sink' : 'weak';
  const text = `◀ ${firstName(frame)}: ${wholePercent(claim.attention)}`;
  return { isPlain: true, remark: { kind, text } };
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
  const pictures = addElement(answers, 'pictures');
  const currentEntries = (): SubjectEntry[] => entriesOf(context, context.state.value.shown);
  const nameIn = (frame: Frame) =>
    phraseOf(chapterOf(context.state.peek().shown), frame.subject) ?? frame.title;
  const colorOf = (frame: Frame) => {
    const frames = framesOf(currentEntries());
    return (
      colorsOf(frames)[frames.findIndex(({ subject }) => subject === frame.subject)] ?? '--ink'
    );
  };
  const about = (frame: Frame) => ({ text: aboutCard(frame), color: colorOf(frame) });

  /** Returns a card's number and what its map shows. */
  function aboutCard(frame: Frame): TemplateResult {
    const claim = claimOf(frame, selectedHead(frame, context.state.peek()), context.state.peek());
    const { L, H } = frame.architecture;
    const isCounted = verdictOf(frame).conclusive;
    const strongest = claim.isStrongest ? ', strongest' : '';
    return html`${
        isCounted
          ? html`<span class="count"
              ><strong>${countWords(frame).replace('none', `0 of ${L * H}`)}</strong> heads have a
              sink</span
            >`
          : nothing
      }
      <span class="hint">${`${headName(claim.at, frame)}${strongest}; ${rowsWords(claim)}`}</span>`;
  }

  const stage = createStage(addElement(pictures, 'stage'), context, scope, {
    isUnstamped: true,
    about,
    extra: (frame) => cardOptions(frame, context.state.peek()),
  });
  const sinkMap = new Figure(pictures, sinks, context, scope, {
    isBare: true,
    extra: () => ({ isPlain: true }),
  });
  const legend = addElement(answers, 'map-legend');
  const scalePlace = addElement(legend, 'scale-place', 'span');
  const laterWords = addElement(legend, '', 'span');
  laterWords.textContent = 'gray: later';
  const strongestNote = addElement(legend, '', 'span');
  const runsPlace = addElement(answers, 'runs-place');
  const panelsPlace = addElement(answers, 'panels-place');
  addNumbers(answers, context, scope, currentEntries);
  addScatter(answers, context, scope, currentEntries);
  const panelPlace = addElement(answers, 'below');
  const remedies = signal<typeof import('./remedies') | undefined>(undefined);

  requestFrames(context, scope, (state, { models }) => {
    const panel = panelOf(state);
    const more = [
      ...(panel === 'numbers' || panel === 'reported' ? readsOf(tableOf(models.describe)) : []),
      ...(panel === 'scatter' ? SCATTER_READS : []),
    ];
    return {
      views: [sinks, ...stage.choiceFor(framesOf(currentEntries())).views],
      more: [...more, 'loss_mean', 'row_mass_summary', RAW_ALPHA],
    };
  });
  hideUntilDrawn(root, scope, currentEntries);

  function leadOf(frames: readonly Frame[]): string {
    const [frame] = frames;
    if (!frame) return '';
    const { letters } = context.engine.peek()!.models.describe;
    const differs =
      frames.length > 1
        ? differsSentence(differencesBetween(frames, context), letters)
        : 'Add another model to compare.';
    return `${differs} ${obstacleOf(frames) || sinkWords(frames, firstTokenName(frame))}`;
  }

  scope.effect(() => {
    const state = context.state.value;
    const theme = context.theme.value;
    const entries = currentEntries();
    const frames = framesOf(entries);
    const freshFrames = framesOf(entries.filter(({ isStale }) => !isStale));
    const isWhole = freshFrames.length === entries.length;
    const choice = stage.choiceFor(frames);
    const chapter = chapterOf(state.shown);
    const phrases = entries.map(({ subject }) => phraseOf(chapter, subject));
    const claim = isWhole ? claimAbout(state.shown) : undefined;
    const isFailed = entries.some(({ error }) => error);
    render(chapterList(context), chaptersPlace);
    render(
      html`<h1>${isWhole ? headingOf(freshFrames, phrases) : 'What makes a sink?'}</h1>
        <p class="lead" data-finding role="status" ?hidden=${state.hide.includes('finding')}>
          ${isWhole ? leadOf(freshFrames) : isFailed ? '' : 'Measuring …'}
        </p>
        ${claim ? html`<p class="verdict hint" title=${claim.claim}>${verdictWords(claim)}</p>` : nothing}
        ${troubleNotes(entries, context)}`,
      headingPlace,
    );
    render(state.hide.includes('subjects') ? nothing : modelChips(entries, context), chipsPlace);
    const [view] = choice.views;
    pictures.classList.toggle('cards', view === attention);
    pictures.dataset.count = String(entries.length);
    stage.update(entries);
    sinkMap.root.hidden = view !== attention;
    sinkMap.update(sinkMap.root.hidden ? [] : entries);
    setText(strongestNote, frames[0] ? `strongest: gives ${firstName(frames[0])} most` : '');
    legend.hidden = view !== attention || frames.some(({ pooled }) => pooled);
    laterWords.hidden = frames.every(isBidirectional);
    drawScale(scalePlace, weightScale({ frames, state, theme }));
    const colors = colorsOf(freshFrames);
    const lines = freshFrames.map((frame, i) => ({
      ...{ frame, color: colors[i]!, name: nameIn(frame), card: cardOf(frame, context) },
    }));
    render(lines.length ? runsTable(lines) : nothing, runsPlace);
    render(
      frames.length
        ? html`${panelButtons(context)}
            <a href=${context.link({ room: 'purpose' })}>Are sinks bad?</a>`
        : nothing,
      panelsPlace,
    );
    render(
      askBar(
        context,
        frames,
        nothing,
        html`${pictureField(choice, frames, stage.select)} ${generateControls(context, frames)}`,
        false,
      ),
      askPlace,
    );
    const panel = panelOf(state);
    if (panel === 'remedies' && !remedies.value)
      import('./remedies').then((module) => (remedies.value = module), context.fail);
    const cards = [...new Set(lines.flatMap(({ card }) => card ?? []))];
    render(
      panel === 'reported' && claim
        ? html`<p>${effectWords(claim)}</p>`
        : panel === 'seeds' && cards.length
          ? seedsTable(cards, false)
          : panel === 'remedies'
            ? remedies.value?.remediesTable(context.engine.peek()!.models.zoo.cards, context.link)
            : nothing,
      panelPlace,
    );
  });
}
