/**
 * The definition of an experiment, a row of the table in index.ts. A row lists the settings of each model, in words
 * that the queue understands, and explains their numbers; the room asks and draws.
 */
import type { TemplateResult } from 'lit';
import type { Describe } from 'sinkscope';
import type { Context } from '../page/context';
import type { Frame } from '../frame';
import type { PromptFile, Question } from '../ask/question';
import type { State } from '../ask/state';
import type { View } from '../page/view';

export interface Asked {
  readonly state: State;
  readonly describe: Describe;
  readonly question: Question;
}

/** A setting of a model: its edits and its question. */
export interface Setting {
  /** The edits that follow the model in the text of a subject. */
  readonly edits: string;
  readonly question: Question;
  readonly measures: readonly string[];
}

/** The results of one model. */
export interface Group {
  /** The text of the subject without edits. */
  readonly base: string;
  readonly title: string;
  /** The measured frames, in the order of the plan. */
  readonly frames: readonly Frame[];
}

export interface Experiment {
  readonly name: State['experiment'];
  readonly title: string;
  readonly hint: string;
  /** The chart of all models; the chosen model's picture of one prompt is beside it. */
  readonly view: View;
  readonly detail: View;
  /** Returns the view, if it depends on the state. */
  readonly viewOf?: (state: State) => View;
  /** The state of the embed, for experiments that are no setting of a model. */
  readonly embeds?: (state: State) => Partial<State>;
  /** Returns the edit that the detail shows; '' for none. */
  readonly look: (asked: Asked) => string;
  /** Whether the detail of every model is needed before its settings are known. */
  readonly isLed?: boolean;
  /** @param lead the detail's frame of this model, if any */
  readonly plan: (asked: Asked, lead: Frame | undefined) => readonly Setting[];
  /** The number of first settings of the plan that the sentence needs: they are measured before all others. */
  readonly lead: number;
  /** Returns a heading and a sentence about the available numbers. */
  readonly says: (groups: readonly Group[], state: State) => Finding;
  /** @param file the reader's prompts, if a command names them */
  readonly table: (groups: readonly Group[], file: PromptFile | undefined) => TemplateResult;
  readonly controls: (context: Context) => TemplateResult;
  readonly foot?: () => TemplateResult;
}

export interface Finding {
  readonly heading: string;
  readonly text: string;
}
