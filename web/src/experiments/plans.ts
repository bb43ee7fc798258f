/** What an experiment measures of each shown model, and the frames that it has so far. */
import { computed } from '@preact/signals-core';
import { experiments } from './index';
import type { Experiment, ExperimentRequest } from './experiment';
import { entriesOf, type Context, type Engine, type SubjectEntry } from '../page/context';
import { hasNumbersOf } from '../page/view';
import { predictsNext, type Frame } from '../frame';
import type { Study } from '../run/request';
import { questionOf } from '../ask/question';
import type { State } from '../ask/state';
import { MAX_SUBJECTS, parseSubject, printSubject, withoutEdits } from '../ask/subject';

/** Returns the state for the experiment's figures, whose prompts are the experiment's own. */
export function experimentState(state: State): State {
  return { ...state, input: state.source, T: state.length, n: state.runs };
}

/** Returns the shown models without edits, since the experiment adds its own. */
export function basesOf({ shown }: State): string[] {
  const bases = shown.flatMap((text) => {
    const parsedSubject = parseSubject(text);
    return parsedSubject ? [printSubject({ ...parsedSubject, edits: [] })] : [];
  });
  return [...new Set(bases)].slice(0, MAX_SUBJECTS);
}

/** The longest prompt whose map is shown, in tokens: a larger map has cells too small to see, and fills the memory. */
export const MAX_MAP_TOKENS = 256;

/** How many settings of one model are measured before the next model's, after those that the sentences need. */
const SETTINGS_PER_TURN = 8;

/**
 * Orders the studies: first those that the sentence needs, then a few of each model in turn, so that no model waits
 * for another to be complete.
 */
export function interleave(lists: readonly (readonly Study[])[], leadCount: number): Study[] {
  const turnOf = (i: number) =>
    i < leadCount ? 0 : 1 + Math.floor((i - leadCount) / SETTINGS_PER_TURN);
  const studies = lists.flatMap((list) => list.map((study, i) => ({ ...study, turn: turnOf(i) })));
  return studies.sort((a, b) => a.turn - b.turn);
}

/** The settings of one model, and what is measured of them. */
export type Measured = ReturnType<Plans['measured']>[number];

export class Plans {
  readonly #context: Context;
  readonly isEmbed: boolean;
  /** The last complete frames and the state that they answer, by experiment, perturbation and base model. */
  readonly #lastAnswers = new Map<
    string,
    { readonly frames: readonly Frame[]; readonly state: State }
  >();

  constructor(context: Context, isEmbed: boolean) {
    this.#context = context;
    this.isEmbed = isEmbed;
  }

  get experiment(): Experiment {
    return experiments.find(({ name }) => name === this.#context.state.value.experiment)!;
  }

  get bases(): string[] {
    return basesOf(this.#context.state.value);
  }

  get chosenBase(): string {
    return this.bases[Math.min(this.#context.state.value.at, this.bases.length - 1)]!;
  }

  requestOf({ models: { describe }, fileVersion }: Engine): ExperimentRequest {
    const state = experimentState(this.#context.state.value);
    return { state, describe, question: questionOf(state, fileVersion.value) };
  }

  /** Returns the subjects of the maps, the broken case first; an embed has no maps. */
  mapSubjects(engine: Engine): string[] {
    const base = this.chosenBase;
    const { isApplicable, frame } = this.#planOf(engine, base);
    const pair = isApplicable ? this.experiment.pairOf(this.requestOf(engine), frame) : [''];
    const subjects = [...new Set(pair.map((edits) => `${base}${edits}`))];
    // Without a pair, the second map is another model's.
    const others = this.bases.filter((other) => other !== base);
    if (this.isEmbed) return [];
    return subjects.length > 1 ? subjects : [...subjects, ...others].slice(0, 2);
  }

  /**
   * Returns the subjects whose first prompt is run: those of the maps, the unedited model, whose strongest head they show, and
   * all models if the plan needs their frames.
   */
  runSubjects(engine: Engine): string[] {
    const maps = this.mapSubjects(engine);
    const planned = this.experiment.planView ? this.bases : maps.map(withoutEdits);
    return [...new Set([...planned, ...maps])];
  }

  /**
   * Returns the studies of a model, one for each setting of its plan. Once a model is known to predict no next token,
   * only the first one, which is without edits.
   */
  #planOf(engine: Engine, base: string) {
    const request = this.requestOf(engine);
    const { planView, plan } = this.experiment;
    const [entry] = planView ? entriesOf(this.#context, [base]) : [];
    // The frame may have been read for another room, so it may lack the numbers that the plan needs.
    const isUsable =
      entry?.frame && !entry.isStale && hasNumbersOf(planView!, entry.frame, request.describe);
    const frame = isUsable ? entry.frame : undefined;
    const studies = plan(request, frame).map(({ edits, ...setting }): Study => ({
      subject: `${base}${edits}`,
      ...setting,
    }));
    const firstFrame = studies[0] && engine.queue.studyEntry(studies[0])?.frame;
    const isApplicable = !firstFrame || predictsNext(firstFrame);
    return { frame, isApplicable, studies: isApplicable ? studies : studies.slice(0, 1) };
  }

  /** Returns the studies of each model. */
  studiesOf(engine: Engine): (readonly Study[])[] {
    return this.bases.map((base) => this.#planOf(engine, base).studies);
  }

  measured(engine: Engine) {
    const { name, leadCount } = this.experiment;
    const state = experimentState(this.#context.state.value);
    return this.bases.map((base) => {
      const { isApplicable, studies } = this.#planOf(engine, base);
      const entries = studies.map((study) => engine.queue.studyEntry(study));
      const frames = entries.flatMap((entry) => entry?.frame ?? []);
      const isComplete = studies.length > 0 && frames.length === studies.length;
      const key = `${name} ${state.perturbation} ${base}`;
      // The single run of a model that no experiment applies to is no result.
      if (isComplete && isApplicable) this.#lastAnswers.set(key, { frames, state });
      // Shows the last answer until the new frames are complete, or are at least three and as many as its frames.
      const last = this.#lastAnswers.get(key);
      const isStale =
        !isComplete && last !== undefined && frames.length < Math.max(3, last.frames.length);
      return {
        ...{ base, isApplicable, isStale, isComplete },
        ...(isStale ? last : { frames, state }),
        errors: [...new Set(entries.flatMap((entry) => entry?.error ?? []))],
        /** How many frames the sentence needs. */
        requiredCount: Math.min(leadCount, studies.length),
      };
    });
  }

  /** Returns what the sentence of each model needs as entries of subjects: its first frame once all of them are there. */
  leadEntries(engine: Engine): SubjectEntry[] {
    return this.chosen(this.measured(engine)).map(
      ({ base, frames, isStale, errors, requiredCount }): SubjectEntry => {
        const frame = frames.length >= requiredCount ? frames[0] : undefined;
        return { subject: base, isStale, frame, error: errors[0] };
      },
    );
  }

  /** Returns the models that the chart shows: the chosen one, or all in an embed. */
  chosen(all: readonly Measured[]): readonly Measured[] {
    return this.isEmbed ? all : all.filter(({ base }) => base === this.chosenBase);
  }

  /**
   * Returns a context for figures of these subjects. Saved files and embeds then name the subjects and the experiment's
   * prompts.
   */
  contextOf(
    subjects: (engine: Engine) => readonly string[],
    change: (state: State) => Partial<State>,
  ): Context {
    const context = this.#context;
    return {
      ...context,
      facts: (more) => {
        const { source, length } = context.state.peek();
        return context.facts({ input: source, T: length, ...more });
      },
      state: computed(() => {
        const engine = context.engine.value;
        const shownSubjects = [...new Set(engine ? subjects(engine) : [])].slice(0, MAX_SUBJECTS);
        const state = experimentState(context.state.value);
        const shown = shownSubjects.length ? { shown: shownSubjects } : {};
        return { ...state, ...change(state), ...shown };
      }),
    };
  }
}
