/**
 * The definition of an experiment, which is a row of the table in index.ts. A row lists the settings to measure of each
 * model, and explains the measured numbers in a sentence and a table; bench.ts measures and draws.
 */
import type { TemplateResult } from 'lit';
import type { Describe } from 'sinkscope';
import type { Context } from '../page/context';
import type { Frame } from '../frame';
import type { Question } from '../ask/question';
import type { State } from '../ask/state';
import type { View } from '../page/view';
import type { Cost } from '../views/settings';

export interface ExperimentRequest {
  readonly state: State;
  readonly describe: Describe;
  readonly question: Question;
}

export interface Setting {
  /** The edits as a link writes them after the model's name, such as `~evict(window,64)`; '' for none. */
  readonly edits: string;
  readonly question: Question;
  readonly measures: readonly string[];
}

/** The measured frames of one model. */
export interface Group {
  /** The subject without edits, as a link writes it. */
  readonly base: string;
  readonly title: string;
  /** The frames in the order of the plan; those that are not measured yet are absent. */
  readonly frames: readonly Frame[];
}

export interface Experiment {
  readonly name: State['experiment'];
  /** The question that the experiment answers, in few words. */
  readonly title: string;
  /** The question of the chart, if it is not its view's. */
  readonly chartQuestion?: string;
  readonly view: View;
  /** Returns the chart, for experiments whose chart depends on the state. */
  readonly viewOf?: (state: State) => View;
  /** Returns the fields of the state in which an embed differs from the page. */
  readonly embedStateOf?: (state: State) => Partial<State>;
  /** The view whose numbers of the model's unedited run of one prompt `plan` and `pairOf` read. */
  readonly planView?: View;
  /** Returns the settings to measure; `frame` is this model's unedited run, if it is needed and read. */
  readonly plan: (request: ExperimentRequest, frame: Frame | undefined) => readonly Setting[];
  /** Returns the edits of the two maps: of the broken case and of the repaired one; the same for a single map. */
  readonly pairOf: (
    request: ExperimentRequest,
    frame: Frame | undefined,
  ) => readonly [broken: string, repaired: string];
  /** Returns the question of the maps if it is not that of the room. */
  readonly mapQuestionOf?: (request: ExperimentRequest) => Question;
  /** The sentence needs this many settings at the start of the plan, so they are measured first. */
  readonly leadCount: number;
  readonly says: (groups: readonly Group[], state: State) => Finding;
  /** The caption of the table of all settings, and the columns after those of the loss. */
  readonly caption: string;
  readonly columnsOf: (groups: readonly Group[]) => readonly Column[];
  /** Returns the menu of the cases with recorded texts, above them; the first one is shown for those without. */
  readonly menu?: (context: Context, recorded: readonly string[]) => TemplateResult;
  /** Returns the controls above the chart, and those among the settings. */
  readonly controls: (context: Context) => readonly [TemplateResult, TemplateResult?];
  /** What a paper reports of large models, or what this page has of other models. */
  readonly reported: (state: State) => string;
}

export interface Column {
  readonly name: string;
  readonly valueOfFrame: (frame: Frame, baseline: Frame | undefined) => string | undefined;
}

/** A number that the page states of each model. */
export interface Line {
  readonly title: string;
  /** The rise of the loss that the cell states. */
  readonly costIn?: (frames: readonly Frame[]) => Cost | undefined;
  readonly cellOf: (frames: readonly Frame[]) => string | undefined;
}

export interface Finding {
  readonly heading: string;
  /** Says whether the model shows what the recorded texts above it do; an embed has none. */
  readonly bridge?: string;
  readonly text: string;
  /** The numbers that the page states of the other models; with a caption of all, without one they are rises of the loss. */
  readonly lines?: readonly Line[];
  readonly linesCaption?: string;
}
