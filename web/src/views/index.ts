/**
 * The table of views, ordered by the six questions that a reader may ask. A new view is a file in this folder and an
 * entry in a tab of this table, which rooms, links, exports and embeds read.
 */
import type { Frame } from '../frame';
import { arrows } from './arrows';
import { attention } from './attention';
import { bias } from './bias';
import { change } from './change';
import { channels } from './channels';
import { context } from './context';
import { length, threshold } from './curves';
import { domains } from './domains';
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
import { perturbations } from './perturbations';
import { ratios } from './ratios';
import { reach } from './reach';
import { router } from './router';
import { scores } from './scores';
import { secondary } from './secondary';
import { sinks } from './sinks';
import { suffix } from './suffix';
import { sweep } from './sweep';
import { sinkTag } from './sink_tag';
import { tasks } from './tasks';
import { training } from './training';
import { maskedLoss } from './masked_loss';
import { unmasking } from './unmasking';
import { compression } from './compression';
import type { View } from '../page/view';

/** A tab of a question, whose first view is on the stage and the others below, unless a link names another view. */
export interface Tab {
  readonly title: string;
  readonly views: readonly View[];
  /** Explains a research view, in a sentence that a newcomer understands or skips. */
  readonly what?: string;
  /** Whether the tab is offered for a frame, besides the conditions of its views; a link opens it in any case. */
  readonly isOffered?: (frame: Frame) => boolean;
}

export interface Question {
  readonly name: 'where' | 'why' | 'write' | 'if' | 'when' | 'matter' | 'research';
  readonly title: string;
  /** Describes the question's pictures in a few words. */
  readonly hint: string;
  readonly tabs: readonly Tab[];
}

const tab = (title: string, ...of: readonly View[]): Tab => ({ title, views: of });

export const QUESTIONS: readonly Question[] = [
  {
    name: 'where',
    title: 'Where does attention go?',
    hint: 'the attention map',
    tabs: [
      tab('This head', attention),
      tab('All heads', sinks, heads, threshold, length, domains),
      tab('Other tokens', scores, secondary, likeness),
      { ...tab('Row sums', mass), isOffered: ({ operation }) => !operation.normalizes },
    ],
  },
  {
    name: 'why',
    title: 'Why does the first key win?',
    hint: 'what tokens search for and offer',
    tabs: [tab('Query and key', arrows, geometry), tab('Bias key', bias)],
  },
  {
    name: 'write',
    title: 'What does the head write?',
    hint: 'what attention brings along',
    tabs: [
      tab('Output', outputs, contribution),
      tab('Norms', norms, ratios, channels),
      tab('Next token', next),
    ],
  },
  {
    name: 'if',
    title: 'What if …?',
    hint: 'hide a token, ablate a head',
    tabs: [tab('Intervene', change, attention), tab('Replace a token', reach), tab('Cache', cache)],
  },
  {
    name: 'when',
    title: 'When did it appear?',
    hint: 'the course of training',
    tabs: [tab('Training', training)],
  },
  {
    name: 'matter',
    title: 'Does the sink matter?',
    hint: 'what the model loses without it',
    tabs: [
      tab('Each head', effects),
      tab('Each token', loss),
      tab('Tasks', tasks),
      tab('Masked tokens', maskedLoss),
    ],
  },
];

const research = (view: View, what: string): Tab => ({ title: view.title, views: [view], what });

export const RESEARCH: Question = {
  name: 'research',
  title: 'Research views',
  hint: '',
  tabs: [
    research(
      logitParts,
      'Which layers make the first key attractive: each layer’s part of the score.',
    ),
    research(sinkTag, 'Whether the sink adds one and the same vector to every token.'),
    research(
      context,
      'Whether the sink depends on the length of the text, up to the model’s context.',
    ),
    research(compression, 'In which layers all hidden states point in nearly the same directions.'),
    research(suffix, 'A search for a few tokens that move the sink or spoil what follows.'),
    research(gate, 'A factor by which each head scales what it writes.'),
    research(router, 'Which experts of a mixture each token is sent to.'),
    research(unmasking, 'Where attention goes while a model fills in hidden words.'),
  ],
};

export const ALL = [...QUESTIONS, RESEARCH];

/** All views, each once, with those that only experiments use, which are in no tab. */
export const views: readonly View[] = [
  ...new Set([
    ...ALL.flatMap(({ tabs }) => tabs.flatMap((one) => one.views)),
    sweep,
    perturbations,
  ]),
];

/** What a room shows: a tab of a question and the tab's views; the first view is on the stage. */
export interface Choice {
  readonly question: Question;
  readonly tab: Tab;
  readonly views: readonly View[];
}

/** Returns the views that apply to one of the frames. */
export function fitting(all: readonly View[], frames: readonly Frame[]): readonly View[] {
  return all.filter(({ fits }) => !fits || !frames.length || frames.some(fits));
}

/**
 * Returns the tabs of a question that apply to one of the frames.
 * @param name the name of a view whose tab is listed in any case
 */
export function tabsOf({ tabs }: Question, frames: readonly Frame[], name = ''): readonly Tab[] {
  return tabs.filter(
    ({ views: own, isOffered }) =>
      fitting(own, frames).length &&
      (!isOffered || frames.some(isOffered) || own.some((view) => view.name === name)),
  );
}

/**
 * Returns the tab of a view, with this view first. If the models lack the view's quantity, returns another tab of the
 * same question.
 */
export function choiceOf(name: string, frames: readonly Frame[]): Choice {
  const has = (one: Tab) => one.views.some((view) => view.name === name);
  const all = ALL.flatMap((question) =>
    tabsOf(question, frames, name).map((one) => ({ question, tab: one })),
  );
  const choice =
    all.find((one) => has(one.tab)) ??
    all.find(({ question }) => question.tabs.some(has)) ??
    all[0]!;
  const applicable = fitting(choice.tab.views, frames);
  const first = applicable.filter((view) => view.name === name);
  return { ...choice, views: [...new Set([...first, ...applicable])] };
}

/** The names of the lab and of the experiments, which are figures without frames. */
export const LAB = 'lab';
export const EXPERIMENT = 'experiment';
const WHOLE: Readonly<Record<string, string>> = { [LAB]: 'Lab', [EXPERIMENT]: 'Experiment' };
export const isWholeRoom = (name: string): boolean => Object.hasOwn(WHOLE, name);
/** Returns the title of a view, of the lab or of the experiments. */
export const titleOf = (name: string): string => WHOLE[name] ?? viewNamed(name).title;

export function viewNamed(name: string, among: readonly View[] = views): View {
  return among.find((view) => view.name === name) ?? among[0]!;
}
