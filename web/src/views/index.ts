/** The table of views, by question, for rooms, links, exports and embeds. A new view is a file and an entry in a tab. */
import type { Frame } from '../frame';
import { arrows } from './arrows';
import { attention } from './attention';
import { bias } from './bias';
import { change } from './change';
import { channels } from './channels';
import { length, threshold } from './curves';
import { diagonal } from './diagonal';
import { effects } from './effects';
import { likeness } from './likeness';
import { gate } from './gate';
import { geometry } from './geometry';
import { contribution } from './contribution';
import { heads } from './heads';
import { cache } from './cache';
import { loss } from './loss';
import { mass } from './mass';
import { next } from './next';
import { norms } from './norms';
import { outputs } from './outputs';
import { logitParts } from './logit_parts';
import { patches } from './patches';
import { perturbations } from './perturbations';
import { ratios } from './ratios';
import { router } from './router';
import { scores } from './scores';
import { sinks } from './sinks';
import { suffix } from './suffix';
import { sweep } from './sweep';
import { tasks } from './tasks';
import { training } from './training';
import { maskedLoss } from './masked_loss';
import { unmasking } from './unmasking';
import { compression } from './compression';
import type { View } from '../page/view';

/** A tab of a question. The first view is on the stage and the others below, unless a link names another view. */
export interface Tab {
  readonly title: string;
  readonly views: readonly View[];
  readonly explanation?: string;
  /** Whether to list the tab for a frame that one of its views fits, by default always; links to its views list it. */
  readonly isOffered?: (frame: Frame) => boolean;
}

export interface Question {
  readonly name: 'where' | 'why' | 'write' | 'if' | 'when' | 'matter' | 'research';
  readonly title: string;
  readonly hint: string;
  readonly tabs: readonly Tab[];
}

const createTab = (title: string, ...views: readonly View[]): Tab => ({ title, views });

export const QUESTIONS: readonly Question[] = [
  {
    name: 'where',
    title: 'Where does attention go?',
    hint: 'the attention map',
    tabs: [
      createTab('This head', attention),
      {
        ...createTab('Image', patches),
        isOffered: ({ image }) => Boolean(image?.rows),
      },
      createTab('All heads', sinks, heads, threshold, length),
      createTab('Other tokens', scores, likeness),
      { ...createTab('Row sums', mass), isOffered: ({ operation }) => !operation.normalizes },
    ],
  },
  {
    name: 'why',
    title: 'Why does the first key win?',
    hint: 'what tokens search for and offer',
    tabs: [createTab('Query and key', arrows, geometry), createTab('Bias key', bias)],
  },
  {
    name: 'write',
    title: 'What does the head write?',
    hint: 'what attention brings along',
    tabs: [
      createTab('Output', outputs, contribution),
      createTab('Norms', norms, ratios, channels),
      createTab('Next token', next),
    ],
  },
  {
    name: 'if',
    title: 'What if …?',
    hint: 'hide a token, ablate a head',
    tabs: [createTab('Intervene', change, attention), createTab('Cache', cache)],
  },
  {
    name: 'when',
    title: 'When did it appear?',
    hint: 'the course of training',
    tabs: [createTab('Training', training)],
  },
  {
    name: 'matter',
    title: 'Does the sink matter?',
    hint: 'what the model loses without it',
    tabs: [
      createTab('Each head', effects),
      createTab('Each token', loss),
      createTab('Tasks', tasks),
      createTab('Masked tokens', maskedLoss),
    ],
  },
];

const RESEARCH_VIEWS: readonly (readonly [View, string])[] = [
  [logitParts, 'Which layers make the first key attractive: each layer’s part of the score.'],
  [
    diagonal,
    'Which heads are sinks, which attend to themselves, and in how many directions they write.',
  ],
  [compression, 'In which layers all hidden states point in nearly the same directions.'],
  [suffix, 'A search for a few tokens that move the sink or spoil what follows.'],
  [gate, 'A factor by which each head scales what it writes.'],
  [router, 'Which experts of a mixture each token is sent to.'],
  [unmasking, 'Where attention goes while a model fills in hidden words.'],
];

export const RESEARCH: Question = {
  name: 'research',
  title: 'Research views',
  hint: '',
  tabs: RESEARCH_VIEWS.map(([view, explanation]) => ({
    ...createTab(view.title, view),
    explanation,
  })),
};

export const ALL_QUESTIONS = [...QUESTIONS, RESEARCH];

/** All views, each once, including those that are in no tab because only experiments use them. */
export const views: readonly View[] = [
  ...new Set([
    ...ALL_QUESTIONS.flatMap(({ tabs }) => tabs.flatMap((tab) => tab.views)),
    sweep,
    perturbations,
  ]),
];

/** Returns the views that apply to at least one of the frames; all of them if there are no frames. */
const fittingViews = (list: readonly View[], frames: readonly Frame[]): readonly View[] =>
  list.filter(({ fits }) => !fits || !frames.length || frames.some(fits));

/**
 * Returns the tabs of a question that apply to at least one of the frames.
 * @param name the name of a view whose tab is listed in any case
 */
export function tabsOf({ tabs }: Question, frames: readonly Frame[], name = ''): readonly Tab[] {
  return tabs.filter(
    ({ views: tabViews, isOffered }) =>
      fittingViews(tabViews, frames).length &&
      (!isOffered || frames.some(isOffered) || tabViews.some((view) => view.name === name)),
  );
}

/** Returns a view's tab, with this view first, or another tab of the question if no frame has its numbers. */
export function choiceOf(name: string, frames: readonly Frame[]) {
  const hasView = (tab: Tab) => tab.views.some((view) => view.name === name);
  const candidates = ALL_QUESTIONS.flatMap((question) =>
    tabsOf(question, frames, name).map((tab) => ({ question, tab })),
  );
  const choice =
    candidates.find((candidate) => hasView(candidate.tab)) ??
    candidates.find(({ question }) => question.tabs.some(hasView)) ??
    candidates[0]!;
  const applicableViews = fittingViews(choice.tab.views, frames);
  const namedViews = applicableViews.filter((view) => view.name === name);
  return { ...choice, views: [...new Set([...namedViews, ...applicableViews])] };
}

export type Choice = ReturnType<typeof choiceOf>;

/** The names, in links and embeds, of the two figures that draw a whole room. */
export const LAB = 'lab';
export const EXPERIMENT = 'experiment';
const ROOM_TITLES: Readonly<Record<string, string>> = { [LAB]: 'Lab', [EXPERIMENT]: 'Experiment' };
export const isWholeRoom = (name: string): boolean => Object.hasOwn(ROOM_TITLES, name);
export const titleOf = (name: string): string => ROOM_TITLES[name] ?? viewNamed(name).title;

export function viewNamed(name: string, list: readonly View[] = views): View {
  return list.find((view) => view.name === name) ?? list[0]!;
}
