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
  /** The question that the experiment answers. */
  readonly title: string;
  readonly view: View;
  /** The chosen model's picture of one prompt, at the side. */
  readonly detail: View;
  /** Returns the chart, for experiments whose chart depends on the state. */
  readonly viewOf?: (state: State) => View;
  /** Returns the fields of the state in which an embed differs from the page. */
  readonly embedStateOf?: (state: State) => Partial<State>;
  /** Returns the edit that the detail shows; '' for none. */
  readonly editsOf: (request: ExperimentRequest) => string;
  /** Returns the edit that the detail shows before the other one, which repairs what this one breaks. */
  readonly brokenEditsOf?: (request: ExperimentRequest) => string;
  /** Whether `plan` needs the frame that the detail's picture shows for the same model. */
  readonly needsDetailFrame?: boolean;
  /** Returns the settings to measure; `detailFrame` is this model's frame of the detail, if it is needed and read. */
  readonly plan: (request: ExperimentRequest, detailFrame: Frame | undefined) => readonly Setting[];
  /** The sentence needs this many settings at the start of the plan, so they are measured first. */
  readonly leadCount: number;
  readonly says: (groups: readonly Group[], state: State) => Finding;
  /** The caption of the table of all settings, and the columns after those of the loss. */
  readonly caption: string;
  readonly columnsOf: (groups: readonly Group[]) => readonly Column[];
  readonly controls: (context: Context) => TemplateResult;
  readonly footer?: () => TemplateResult;
}

export interface Column {
  readonly name: string;
  readonly valueOfFrame: (frame: Frame, baseline: Frame | undefined) => string | undefined;
}

export interface Finding {
  readonly heading: string;
  readonly text: string;
  /** The same numbers of all models, with their spread. */
  readonly comparison?: string;
}
