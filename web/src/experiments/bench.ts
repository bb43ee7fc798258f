/**
 * Draws an experiment as a room and as a figure. An experiment measures settings of the shown models, most of which
 * remove or disturb the sink, and states the result in a sentence. A row in the table of experiments (index.ts) defines
 * settings and sentence.
 */
import { computed } from '@preact/signals-core';
import { html, nothing, render, type TemplateResult } from 'lit';
import { experiments } from './index';
import type { ExperimentRequest, Group, Setting } from './experiment';
import {
  choiceField,
  fileField,
  firstField,
  numberField,
  roomHeading,
  subjectList,
  textField,
  troubleNotes,
} from '../page/controls';
import {
  hideUntilDrawn,
  requestFrames,
  shownOf,
  type Context,
  type Engine,
  type Scope,
  type Shown,
} from '../page/context';
import { Figure } from '../page/figure';
import type { Frame } from '../frame';
import type { Study } from '../run/request';
import { INPUTS, questionOf } from '../ask/question';
import { LONG_TEXT } from '../run/reading';
import type { State } from '../ask/state';
import { MAX_SUBJECTS, parseSubject, printSubject } from '../ask/subject';
import { explainTerms } from '../page/terms';
import { isRead, addElement, type View } from '../page/view';
import { EXPERIMENT } from '../views/index';
import { sharedConditions } from '../words';

const SOURCES = ['heldout', 'text', 'random', 'file'] as const satisfies readonly State['source'][];

/** Returns the state for the experiment's figures, whose prompts are the experiment's own. */
function experimentState(state: State): State {
  return { ...state, input: state.source, T: state.length, n: state.runs };
}

/** Returns the shown models without edits, since the experiment adds its own. */
function basesOf({ shown }: State): string[] {
  const bare = shown.flatMap((text) => {
    const parsed = parseSubject(text);
    return parsed ? [printSubject({ ...parsed, edits: [] })] : [];
  });
  return [...new Set(bare)].slice(0, MAX_SUBJECTS);
}

/** The longest prompt whose map is shown, in tokens: a larger map has no visible cells and fills the memory. */
const MAP_TOKENS = 256;

/** The number of settings of a model that are measured in a row, after the sentence has its numbers. */
const SETTINGS_A_TURN = 8;

/**
 * Interleaves the studies of the models: first those that the sentence needs, then the others, so that no model waits
 * for another.
 */
function interleave(lists: readonly (readonly Study[])[], lead: number): Study[] {
  const turn = (i: number) => (i < lead ? 0 : 1 + Math.floor((i - lead) / SETTINGS_A_TURN));
  const all = lists.flatMap((list) => list.map((one, i) => ({ ...one, turn: turn(i) })));
  return all.sort((a, b) => a.turn - b.turn);
}

/** The detail of `ended`, the event of a figure whose settings are all measured. */
interface Ended {
  readonly view: 'experiment';
  readonly says: string;
  /** The settings of each model, with their names in its table. */
  readonly results: readonly {
    readonly subject: string;
    readonly title: string;
    readonly sequences: number;
    readonly measured: Readonly<Record<string, number>>;
  }[];
}

/**
 * Builds the room.
 * @param isEmbed whether to build only the figure of an embed: sentence, chart and controls
 */
export function build(root: HTMLElement, outer: Context, scope: Scope, isEmbed = false): void {
  // In a figure, whose host chooses models and prompts, these parts of the room are not added to the page.
  const sides = isEmbed ? document.createElement('div') : root;
  const rail = addElement(sides, 'rail');
  const middle = addElement(root, 'middle');
  const side = addElement(sides, 'inspector');
  const list = addElement(rail, 'experiments', 'nav');
  list.setAttribute('aria-label', 'Experiments');
  const models = addElement(rail, 'subjects');
  const asking = addElement(rail, 'question');
  const head = addElement(middle, 'room-head');
  const pictures = addElement(middle, 'experiment-picture');
  const conditions = addElement(middle, 'stamp', 'p');
  const controls = addElement(middle, 'experiment-controls');
  const table = addElement(middle, 'experiment-table');
  const details = addElement(side, 'experiment-detail');
  const foot = addElement(isEmbed ? root : side, isEmbed ? 'figure-foot' : 'experiment-foot');

  // In the room, conditions that all models share appear once, under the charts; an embed's figure states all.
  let stated: readonly string[] = [];
  const look = isEmbed ? {} : { stated: () => stated };

  const experiment = () => experiments.find(({ name }) => name === outer.state.value.experiment)!;
  const requestOf = ({ models: { describe }, file }: Engine): ExperimentRequest => {
    const state = experimentState(outer.state.value);
    return { state, describe, question: questionOf(state, file.value) };
  };
  const chosen = (): string => {
    const bases = basesOf(outer.state.value);
    return bases[Math.min(outer.state.value.at, bases.length - 1)]!;
  };

  /** Returns the subjects whose first prompt is shown: the chosen model, or all if the plan needs their runs. */
  const shownSubjects = (engine: Engine): string[] => {
    if (isEmbed && !experiment().isLed) return [];
    const edits = experiment().look(requestOf(engine));
    const bases = experiment().isLed ? basesOf(outer.state.value) : [chosen()];
    return bases.map((base) => `${base}${edits}`);
  };

  /** Returns the settings of each model. */
  const planned = (engine: Engine): { base: string; settings: readonly Setting[] }[] =>
    basesOf(outer.state.value).map((base) => {
      const request = requestOf(engine);
      const subject = `${base}${experiment().look(request)}`;
      const [lead] = experiment().isLed ? shownOf(outer, [subject]) : [];
      // A frame that another room asked for may lack the numbers that the plan needs.
      const isWhole =
        lead?.frame && !lead.isStale && isRead(experiment().detail, lead.frame, request.describe);
      const frame = isWhole ? lead.frame : undefined;
      return { base, settings: experiment().plan(request, frame) };
    });

  const studyOf = (base: string, { edits, question, measures }: Setting): Study => ({
    subject: `${base}${edits}`,
    question,
    measures,
  });

  /**
   * Returns the context of figures of these subjects, so that saved files and embeds name these and the experiment's
   * prompts.
   */
  const contextOf = (
    subjects: (engine: Engine) => readonly string[],
    change: (state: State) => Partial<State>,
  ): Context => ({
    ...outer,
    facts: (more) => {
      const { source, length } = outer.state.peek();
      return outer.facts({ input: source, T: length, ...more });
    },
    state: computed(() => {
      const engine = outer.engine.value;
      const shown = [...new Set(engine ? subjects(engine) : [])].slice(0, MAX_SUBJECTS);
      const state = experimentState(outer.state.value);
      return { ...state, ...change(state), ...(shown.length ? { shown } : {}) };
    }),
  });
  const context = contextOf(
    (engine) =>
      planned(engine).flatMap(({ base, settings }) =>
        settings.map((setting) => studyOf(base, setting).subject),
      ),
    // A long text has no link to its embed: there, a run keeps all fields that it reads, which the memory cannot hold.
    (state) => ({
      ...experiment().embeds?.(state),
      ...(state.T > LONG_TEXT ? { hide: [...state.hide, 'links'] } : {}),
    }),
  );
  /** The context of the detail's figure, which shows the chosen model. */
  const single = contextOf(
    (engine) => [`${chosen()}${experiment().look(requestOf(engine))}`],
    ({ T }) => ({ n: 1, at: 0, T: Math.min(T, MAP_TOKENS) }),
  );

  /** Whether the shown edits evict keys, so that the run records which. */
  const isEvicting = (engine: Engine) => experiment().look(requestOf(engine)).includes('~evict');

  requestFrames(outer, scope, (_, engine) => {
    const { question } = requestOf(engine);
    return {
      views: [experiment().detail],
      more: isEvicting(engine) ? ['evicted'] : [],
      subjects: shownSubjects(engine),
      question: { ...question, n: 1, T: Math.min(question.T, MAP_TOKENS) },
      studies: interleave(
        planned(engine).map(({ base, settings }) =>
          settings.map((setting) => studyOf(base, setting)),
        ),
        experiment().lead,
      ),
    };
  });

  let figures:
    { readonly view: View; readonly detail: View; readonly both: readonly Figure[] } | undefined;
  /** The last complete frames, by experiment, perturbation and base model. */
  const cachedFrames = new Map<string, readonly Frame[]>();

  const groupsOf = (engine: Engine) =>
    planned(engine).map(({ base, settings }) => {
      const entries = settings.map((setting) => engine.queue.studyEntry(studyOf(base, setting)));
      const frames = entries.flatMap((entry) => entry?.frame ?? []);
      const errors = [...new Set(entries.flatMap((entry) => entry?.error ?? []))];
      const isWhole = settings.length > 0 && frames.length === settings.length;
      const key = `${experiment().name} ${outer.state.value.perturbation} ${base}`;
      if (isWhole) cachedFrames.set(key, frames);
      // The old frames stay until the new ones are complete, unless the new ones already show more.
      const cached = cachedFrames.get(key);
      const isOld = !isWhole && cached !== undefined && frames.length < Math.max(3, cached.length);
      const least = Math.min(experiment().lead, settings.length);
      return { base, frames: isOld ? cached : frames, isStale: isOld, errors, isWhole, least };
    });

  // The sentence and the detail's picture appear together.
  hideUntilDrawn(root, scope, () => {
    const engine = outer.engine.value;
    if (!engine) return [{ subject: '', isStale: true }];
    const leads = groupsOf(engine).map(({ base, frames, errors, least }): Shown => {
      const [error] = errors;
      const [frame] = frames.length >= least ? frames : [];
      return {
        subject: base,
        isStale: false,
        ...(frame ? { frame } : {}),
        ...(error ? { error } : {}),
      };
    });
    return [...shownOf(outer, shownSubjects(engine)), ...leads];
  });

  const linkOut = () =>
    html`<a href=${outer.link({ room: 'purpose' })} target="_blank" rel="noopener" part="link"
      >Open in Sinkscope</a
    >`;

  /** Renders the notes at the side: reports about large models, and the code to embed the experiment. */
  function sideNotes(): TemplateResult {
    const shown = basesOf(outer.state.value);
    return html`${experiment().foot?.() ?? nothing}
      <p>
        <button type="button" @click=${() => outer.embed(EXPERIMENT, outer, { shown })}>
          Embed this experiment
        </button>
      </p>`;
  }

  let reported = '';
  /** Dispatches the event `ended` once for each answer. */
  function report(says: string, groups: readonly Group[]): void {
    if (says === reported) return;
    reported = says;
    const results = groups.flatMap(({ frames }) =>
      frames.map(({ subject, title, sequences, tensors }) => {
        const numbers = Object.entries(tensors).filter(([, { data }]) => data.length === 1);
        const measured = Object.fromEntries(numbers.map(([name, { data }]) => [name, data[0]!]));
        return { subject, title, sequences, measured };
      }),
    );
    const detail: Ended = { view: EXPERIMENT, says, results };
    root.dispatchEvent(new CustomEvent('ended', { detail, bubbles: true }));
  }

  scope.effect(() => {
    const engine = outer.engine.value;
    const state = outer.state.value;
    void outer.theme.value;
    const { name: own, detail, viewOf } = experiment();
    const view = viewOf?.(state) ?? experiment().view;
    if (figures?.view !== view || figures.detail !== detail) {
      figures?.both.forEach((figure) => figure.end());
      const chart = new Figure(pictures, view, context, scope, { isEmbed, ...look });
      const both = isEmbed ? [chart] : [chart, new Figure(details, detail, single, scope, look)];
      figures = { view, detail, both };
    }
    render(
      experiments.map(
        ({ name, title, hint }) =>
          html`<button
            type="button"
            aria-pressed=${name === own}
            @click=${() => outer.set({ experiment: name, measure: 'loss', sweep: 'some' })}
          >
            ${title}<small>${hint}</small>
          </button>`,
      ),
      list,
    );
    const groups = engine ? groupsOf(engine) : [];
    const subjects = engine ? shownOf(outer, shownSubjects(engine)) : [];
    drawModels(state);
    drawQuestion(
      state,
      groups.flatMap(({ frames }) => frames),
    );
    const shownGroups: Group[] = groups
      .filter(({ frames }) => frames.length)
      .map(({ base, frames }) => ({ base, title: frames[0]!.model.title, frames }));
    const finding = experiment().says(shownGroups, experimentState(state));
    const failed = groups.flatMap(({ base, frames, errors }) =>
      errors.map((error): Shown => ({ subject: base, frame: frames[0], isStale: true, error })),
    );
    const messages = new Set(failed.map(({ error }) => error));
    render(
      html`${roomHeading(finding.heading, finding.text || (failed.length ? '' : 'Measuring …'), outer, nothing, isEmbed)}
      ${troubleNotes([...failed, ...subjects.filter(({ error }) => error && !messages.has(error))], outer)}`,
      head,
    );
    render(experiment().controls(outer), controls);
    render(
      shownGroups.length && !isEmbed ? experiment().table(shownGroups, outer.file.value) : nothing,
      table,
    );
    render(isEmbed ? linkOut() : sideNotes(), foot);
    if (!isEmbed) {
      const leads = shownGroups.map(({ title, frames: [lead] }) => ({ ...lead!, title }));
      const common = sharedConditions(leads);
      stated = [...common, ...leads.map(({ title }) => title)];
      render(explainTerms(common.join(' · '), true), conditions);
    }
    figures.both[0]!.update(
      groups.flatMap(({ frames, isStale }) =>
        frames.map((frame): Shown => ({ subject: frame.subject, frame, isStale })),
      ),
    );
    const [first] = single.state.value.shown;
    figures.both[1]?.update(subjects.filter(({ subject }) => subject === first));
    if (isEmbed && groups.length && groups.every(({ isWhole }) => isWhole))
      report(finding.text, shownGroups);
  });

  function drawModels(state: State): void {
    const bases = basesOf(state);
    render(
      subjectList(
        'Models',
        bases.map((subject) => ({ subject })),
        outer,
        (shown) => outer.set({ shown, at: 0 }),
        (name, i) =>
          html`<button
            type="button"
            class="chosen"
            aria-pressed=${bases[i] === chosen()}
            @click=${() => outer.set({ shown: bases, at: i, layer: -1, head: -1 })}
          >
            ${name}
          </button>`,
      ),
      models,
    );
  }

  function drawQuestion(state: State, frames: readonly Frame[]): void {
    const { source, length } = state;
    const sameInput = frames.filter(({ question }) => question.input === source);
    const all = [...new Set(sameInput.map(({ T }) => T))];
    const ran = all.filter((T) => T < length);
    const exception = ran.length < all.length ? ' without eviction' : '';
    const prompts = [...new Set(frames.map(({ sequences }) => sequences))].join(', ');
    render(
      html`<div class="question-controls">
        ${choiceField(
          'prompts from',
          source,
          SOURCES.map((name) => [name, INPUTS[name]] as const),
          (value) => outer.set({ source: value as State['source'] }),
        )}
        ${source === 'text' ? textField(outer, 3, 'source') : source === 'file' ? fileField(outer) : nothing}
        <div class="numbers">
          ${numberField('tokens ≤', 'length', outer)} ${numberField('prompts ≤', 'runs', outer)}
          ${firstField(outer, frames)}
        </div>
        <p class="hint">
          ${ran.length ? `Only ${ran.join(', ')} tokens ran${exception}: the texts or the context are no longer. ` : ''}${prompts === '1' ? '1 prompt.' : prompts ? `${prompts} prompts; means ± standard deviation.` : ''}
        </p>
      </div>`,
      asking,
    );
  }
}
