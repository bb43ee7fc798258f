/**
 * Draws the experiments, as a room and as a figure. An experiment measures the shown models in several settings, most
 * of which remove or disturb the sink, and states the result in a sentence. Its row in index.ts defines the settings
 * and the sentence.
 */
import { computed } from '@preact/signals-core';
import { html, nothing, render, type TemplateResult } from 'lit';
import { experiments } from './index';
import type { ExperimentRequest, Group } from './experiment';
import { modelsTable, settingsTable } from './parts';
import {
  choiceField,
  fileField,
  startTokenField,
  numberField,
  roomHeading,
  subjectList,
  textField,
  troubleNotes,
} from '../page/controls';
import {
  hideUntilDrawn,
  requestFrames,
  framesOf,
  entriesOf,
  type Context,
  type Engine,
  type Scope,
  type SubjectEntry,
} from '../page/context';
import { Figure, type FigureLook } from '../page/figure';
import { claimOf } from '../claims';
import { firstKey, predictsNext, selectedHead, type Frame } from '../frame';
import type { Study } from '../run/request';
import { INPUTS, questionOf } from '../ask/question';
import { LONG_TEXT } from '../run/reading';
import type { State } from '../ask/state';
import { MAX_SUBJECTS, parseSubject, printSubject, withoutEdits } from '../ask/subject';
import { hasNumbersOf, addElement, addFold, type View } from '../page/view';
import { drawScale } from '../plot/legend';
import { attention, weightScale } from '../views/attention';
import { EXPERIMENT } from '../views/index';
import { queryWithoutFirst } from '../views/loss';
import { settingName } from '../views/settings';
import { firstName, wholePercent } from '../words';

const SOURCES = ['heldout', 'text', 'random', 'file'] as const satisfies readonly State['source'][];

/** Returns the state for the experiment's figures, whose prompts are the experiment's own. */
function experimentState(state: State): State {
  return { ...state, input: state.source, T: state.length, n: state.runs };
}

/** Returns the shown models without edits, since the experiment adds its own. */
function basesOf({ shown }: State): string[] {
  const bases = shown.flatMap((text) => {
    const parsedSubject = parseSubject(text);
    return parsedSubject ? [printSubject({ ...parsedSubject, edits: [] })] : [];
  });
  return [...new Set(bases)].slice(0, MAX_SUBJECTS);
}

/** The longest prompt whose map is shown, in tokens: a larger map has cells too small to see, and fills the memory. */
const MAX_MAP_TOKENS = 256;

/** How many settings of one model are measured before the next model's, after those that the sentences need. */
const SETTINGS_PER_TURN = 8;

/**
 * Orders the studies: first those that the sentence needs, then a few of each model in turn, so that no model waits
 * for another to be complete.
 */
function interleave(lists: readonly (readonly Study[])[], leadCount: number): Study[] {
  const turnOf = (i: number) =>
    i < leadCount ? 0 : 1 + Math.floor((i - leadCount) / SETTINGS_PER_TURN);
  const studies = lists.flatMap((list) => list.map((study, i) => ({ ...study, turn: turnOf(i) })));
  return studies.sort((a, b) => a.turn - b.turn);
}

/** Returns the fields of the prompts, and says what ran of them. */
function questionTemplate(context: Context, frames: readonly Frame[]): TemplateResult {
  const { source, length } = context.state.value;
  const framesOfSource = frames.filter(({ question }) => question.input === source);
  const lengths = [...new Set(framesOfSource.map(({ T }) => T))];
  const shorterLengths = lengths.filter((T) => T < length);
  const exceptionNote = shorterLengths.length < lengths.length ? ' without eviction' : '';
  const promptCountText = [...new Set(frames.map(({ sequences }) => sequences))].join(', ');
  return html`<div class="question-controls">
    ${choiceField(
      'prompts from',
      source,
      SOURCES.map((name) => [name, INPUTS[name]] as const),
      (value) => context.set({ source: value as State['source'] }),
    )}
    ${source === 'text' ? textField(context, 3, 'source') : source === 'file' ? fileField(context) : nothing}
    <div class="numbers">
      ${numberField('tokens ≤', 'length', context)} ${numberField('prompts ≤', 'runs', context)}
      ${startTokenField(context, frames)}
    </div>
    <p class="hint">
      ${shorterLengths.length ? `Only ${shorterLengths.join(', ')} tokens ran${exceptionNote}: the texts or the context are no longer. ` : ''}${promptCountText === '1' ? '1 prompt.' : promptCountText ? `${promptCountText} prompts; means ± standard deviation.` : ''}
    </p>
  </div>`;
}

/** What a chosen experiment shows first: all its numbers are losses, and both its maps are of one model. */
const FIRST_LOOK = { measure: 'loss', sweep: 'some', perturbation: 'channel' } as const;

function experimentButtons({ state, set }: Context): TemplateResult[] {
  return experiments.map(
    ({ name, title }) =>
      html`<button
        type="button"
        aria-pressed=${name === state.value.experiment}
        @click=${() => set({ experiment: name, ...FIRST_LOOK })}
      >
        ${title}
      </button>`,
  );
}

/** States the mean attention on the first token, and from which token on the cache lacks it. */
function remarkWords(frame: Frame, share: number): string {
  const query = queryWithoutFirst(frame);
  const goneNote = Number.isFinite(query) ? `; gone from ${query} on` : '';
  return `◀ ${firstName(frame)}: ${wholePercent(share)}${goneNote}`;
}

/** Returns how the maps of a broken and a repaired case are drawn: the same head, its first column framed, with its number. */
function pairLook(frames: () => readonly Frame[]): FigureLook {
  const isPair = () => new Set(frames().map(({ model }) => model.id)).size < 2;
  const headOf = (frame: Frame) =>
    selectedHead((isPair() && frames().at(-1)) || frame, { layer: -1, head: -1 });
  const isBroken = (frame: Frame) => frames().length > 1 && frame === frames()[0];
  return {
    headOf,
    about: (frame) => ({
      text: html`<strong class="setting">${settingName(frame)}</strong>
        <span class="hint">${isPair() ? '' : frame.model.title}</span>`,
      color: isBroken(frame) ? '--sink' : '--query',
    }),
    extra: (frame) => {
      const { attention: share } = claimOf(frame, headOf(frame));
      return {
        isPlain: true,
        outlined: [{ row: -1, col: firstKey(frame) }],
        remark: {
          kind: share > frame.eps ? 'sink' : 'weak',
          text: remarkWords(frame, share),
        },
      };
    },
  };
}

/**
 * Builds the room.
 * @param isEmbed whether to build only the figure of an embed: sentence, chart and controls
 */
export function build(
  root: HTMLElement,
  roomContext: Context,
  scope: Scope,
  isEmbed = false,
): void {
  // An embed has no places for models and prompts, which its host chooses: their elements stay outside the page.
  const sideRoot = isEmbed ? document.createElement('div') : root;
  const rail = addElement(sideRoot, 'rail');
  const middle = addElement(root, 'middle');
  const side = addElement(sideRoot, 'inspector');
  const experimentList = addElement(rail, 'experiments', 'nav');
  experimentList.setAttribute('aria-label', 'Experiments');
  const modelList = addElement(rail, 'subjects');
  const questionPart = addElement(addFold(rail, 'Passages'), 'question');
  const heading = addElement(middle, 'room-head');
  const chartPart = addElement(middle, 'experiment-picture');
  const notes = addElement(middle, 'experiment-notes');
  const settings = isEmbed ? middle : addFold(middle, 'Settings');
  const controls = addElement(settings, 'experiment-controls');
  const tablePart = addElement(middle, 'experiment-table');
  const detailPart = addElement(side, 'experiment-detail');
  const footer = isEmbed ? addElement(root, 'figure-foot') : addElement(settings, '');

  const experiment = () =>
    experiments.find(({ name }) => name === roomContext.state.value.experiment)!;
  const requestOf = ({ models: { describe }, fileVersion }: Engine): ExperimentRequest => {
    const state = experimentState(roomContext.state.value);
    return { state, describe, question: questionOf(state, fileVersion.value) };
  };
  const chosenBase = (): string => {
    const bases = basesOf(roomContext.state.value);
    return bases[Math.min(roomContext.state.value.at, bases.length - 1)]!;
  };

  /** Returns the subjects of the maps, the broken case first; an embed has no maps. */
  const mapSubjects = (engine: Engine): string[] => {
    const base = chosenBase();
    const { isApplicable, frame } = planOf(engine, base);
    const pair = isApplicable ? experiment().pairOf(requestOf(engine), frame) : [''];
    const subjects = [...new Set(pair.map((edits) => `${base}${edits}`))];
    // Without a pair, the second map is another model's.
    const others = basesOf(roomContext.state.value).filter((other) => other !== base);
    return isEmbed ? [] : subjects.length > 1 ? subjects : [...subjects, ...others].slice(0, 2);
  };

  /** Returns the subjects whose first prompt is run: those of the maps, and all models if the plan needs their frames. */
  const runSubjects = (engine: Engine): string[] => [
    ...new Set([
      ...mapSubjects(engine),
      ...(experiment().planView ? basesOf(roomContext.state.value) : []),
    ]),
  ];

  /**
   * Returns the studies of a model, one for each setting of its plan. Once a model is known to predict no next token,
   * only the first one, which is without edits.
   */
  const planOf = (engine: Engine, base: string) => {
    const request = requestOf(engine);
    const { planView } = experiment();
    const [entry] = planView ? entriesOf(roomContext, [base]) : [];
    // The frame may have been read for another room, so it may lack the numbers that the plan needs.
    const isUsable =
      entry?.frame && !entry.isStale && hasNumbersOf(planView!, entry.frame, request.describe);
    const frame = isUsable ? entry.frame : undefined;
    const settings = experiment().plan(request, frame);
    const studies = settings.map(({ edits, question, measures }): Study => {
      return { subject: `${base}${edits}`, question, measures };
    });
    const firstFrame = studies[0] && engine.queue.studyEntry(studies[0])?.frame;
    const isApplicable = !firstFrame || predictsNext(firstFrame);
    return { base, frame, isApplicable, studies: isApplicable ? studies : studies.slice(0, 1) };
  };

  const plansOf = (engine: Engine) =>
    basesOf(roomContext.state.value).map((base) => planOf(engine, base));

  /**
   * Returns a context for figures of these subjects. Saved files and embeds then name the subjects and the experiment's
   * prompts.
   */
  const contextOf = (
    subjects: (engine: Engine) => readonly string[],
    change: (state: State) => Partial<State>,
  ): Context => ({
    ...roomContext,
    facts: (more) => {
      const { source, length } = roomContext.state.peek();
      return roomContext.facts({ input: source, T: length, ...more });
    },
    state: computed(() => {
      const engine = roomContext.engine.value;
      const shownSubjects = [...new Set(engine ? subjects(engine) : [])].slice(0, MAX_SUBJECTS);
      const state = experimentState(roomContext.state.value);
      return {
        ...state,
        ...change(state),
        ...(shownSubjects.length ? { shown: shownSubjects } : {}),
      };
    }),
  });
  const context = contextOf(
    (engine) => plansOf(engine).flatMap(({ studies }) => studies.map(({ subject }) => subject)),
    // An embed's run keeps all fields. Those of a long text need too much memory, so its figure has no embed link.
    (state) => ({
      ...experiment().embedStateOf?.(state),
      ...(state.T > LONG_TEXT ? { hide: [...state.hide, 'links'] } : {}),
    }),
  );
  const detailContext = contextOf(mapSubjects, ({ T }) => ({
    n: 1,
    at: 0,
    T: Math.min(T, MAX_MAP_TOKENS),
  }));

  requestFrames(roomContext, scope, (_, engine) => {
    const request = requestOf(engine);
    const question = experiment().mapQuestionOf?.(request) ?? request.question;
    const { planView } = experiment();
    const maps = mapSubjects(engine);
    // Both maps show the head that is strongest in the repaired case.
    const isPair = maps.every((subject) => withoutEdits(subject) === withoutEdits(maps[0]!));
    const { frame } = entriesOf(roomContext, maps.slice(-1))[0] ?? {};
    const at = isPair && frame && selectedHead(frame, { layer: -1, head: -1 });
    return {
      heads: at ? Object.fromEntries(maps.map((subject) => [subject, at])) : {},
      views: [attention, ...(planView ? [planView] : [])],
      subjects: runSubjects(engine),
      question: { ...question, n: 1, T: Math.min(question.T, MAX_MAP_TOKENS) },
      studies: interleave(
        plansOf(engine).map(({ studies }) => studies),
        experiment().leadCount,
      ),
    };
  });

  let chart: { readonly view: View; readonly figure: Figure } | undefined;
  /** The frames of the maps, the broken case first. */
  let shownFrames: readonly Frame[] = [];
  const maps = new Figure(detailPart, attention, detailContext, scope, {
    ...pairLook(() => shownFrames),
    isUnstamped: true,
  });
  const legend = addElement(detailPart, 'map-legend');
  const scalePlace = addElement(legend, 'scale-place', 'span');
  addElement(legend, '', 'span').textContent = 'rows attend to columns';
  /** The last complete frames, by experiment, perturbation and base model. */
  const cachedFrames = new Map<string, readonly Frame[]>();

  const groupsOf = (engine: Engine) =>
    plansOf(engine).map(({ base, isApplicable, studies }) => {
      const entries = studies.map((study) => engine.queue.studyEntry(study));
      const frames = entries.flatMap((entry) => entry?.frame ?? []);
      const errors = [...new Set(entries.flatMap((entry) => entry?.error ?? []))];
      const isComplete = studies.length > 0 && frames.length === studies.length;
      const key = `${experiment().name} ${roomContext.state.value.perturbation} ${base}`;
      // The single run of a model that no experiment applies to is no result.
      if (isComplete && isApplicable) cachedFrames.set(key, frames);
      // Shows the cached frames until the new ones are complete, or are at least three and as many as the cached ones.
      const lastFrames = cachedFrames.get(key);
      const usesCached =
        !isComplete && lastFrames !== undefined && frames.length < Math.max(3, lastFrames.length);
      const requiredCount = Math.min(experiment().leadCount, studies.length);
      return {
        ...{ base, isApplicable },
        frames: usesCached ? lastFrames : frames,
        isStale: usesCached,
        errors,
        isComplete,
        requiredCount,
      };
    });

  // Shows the sentence and the detail's pictures together, as soon as the chosen model is measured.
  hideUntilDrawn(root, scope, () => {
    const engine = roomContext.engine.value;
    if (!engine) return [{ subject: '', isStale: true }];
    const chosenGroups = groupsOf(engine).filter(({ base }) => isEmbed || base === chosenBase());
    const leadEntries = chosenGroups.map(
      ({ base, frames, errors, requiredCount }): SubjectEntry => {
        const frame = frames.length >= requiredCount ? frames[0] : undefined;
        return { subject: base, isStale: false, frame, error: errors[0] };
      },
    );
    return [...entriesOf(roomContext, mapSubjects(engine)), ...leadEntries];
  });

  const embedLink = () =>
    html`<a href=${roomContext.link({ room: 'purpose' })} target="_blank" rel="noopener" part="link"
      >Open in Sinkscope</a
    >`;

  function sideNotes(): TemplateResult {
    const bases = basesOf(roomContext.state.value);
    return html`<p>
      <button
        type="button"
        @click=${() => roomContext.embed(EXPERIMENT, roomContext, { shown: bases })}
      >
        Embed this experiment
      </button>
    </p>`;
  }

  let reportedText = '';
  /** Dispatches the event `ended`, with the sentence and the numbers of all settings, once for each answer. */
  function report(says: string, groups: readonly Group[]): void {
    if (says === reportedText) return;
    reportedText = says;
    const results = groups.flatMap(({ frames }) =>
      frames.map(({ subject, title, sequences, tensors }) => {
        const numbers = Object.entries(tensors).filter(([, { data }]) => data.length === 1);
        const values = Object.fromEntries(numbers.map(([name, { data }]) => [name, data[0]!]));
        return { subject, title, sequences, measured: values };
      }),
    );
    const detail = { view: EXPERIMENT, says, results };
    root.dispatchEvent(new CustomEvent('ended', { detail, bubbles: true }));
  }

  scope.effect(() => {
    const engine = roomContext.engine.value;
    const state = roomContext.state.value;
    const theme = roomContext.theme.value;
    const view = experiment().viewOf?.(state) ?? experiment().view;
    if (chart?.view !== view) {
      chart?.figure.end();
      const look = { isEmbed, isUnstamped: !isEmbed };
      chart = { view, figure: new Figure(chartPart, view, context, scope, look) };
    }
    render(experimentButtons(roomContext), experimentList);
    const allGroups = engine ? groupsOf(engine) : [];
    const groups = allGroups.filter(({ isApplicable }) => isApplicable);
    const subjects = engine ? entriesOf(roomContext, runSubjects(engine)) : [];
    drawModels(state);
    const allFrames = allGroups.flatMap(({ frames }) => frames);
    render(questionTemplate(roomContext, allFrames), questionPart);
    const shownGroups: Group[] = groups
      .filter(({ frames }) => frames.length)
      .map(({ base, frames }) => ({ base, title: frames[0]!.model.title, frames }));
    const finding = experiment().says(shownGroups, experimentState(state));
    const exceptions = allGroups.flatMap(({ isApplicable, frames: [frame] }) =>
      isApplicable
        ? []
        : `${frame!.model.title} predicts no next token, so this experiment, which compares losses of the next token, does not apply to it.`,
    );
    const text = [finding.text, ...exceptions].filter(Boolean).join(' ');
    const failures = groups.flatMap(({ base, frames, errors }) =>
      errors.map((error): SubjectEntry => ({
        subject: base,
        frame: frames[0],
        isStale: true,
        error,
      })),
    );
    const messages = new Set(failures.map(({ error }) => error));
    render(
      html`${roomHeading(finding.heading, text || (failures.length ? '' : 'Measuring …'), roomContext, nothing, isEmbed)}
      ${troubleNotes([...failures, ...subjects.filter(({ error }) => error && !messages.has(error))], roomContext)}`,
      heading,
    );
    render(experiment().controls(roomContext), controls);
    render(
      shownGroups.length && !isEmbed
        ? settingsTable(experiment(), shownGroups, roomContext.file.value)
        : nothing,
      tablePart,
    );
    render(isEmbed ? embedLink() : sideNotes(), footer);
    render(
      html`${finding.lines ? modelsTable(finding, shownGroups) : nothing}
      ${isEmbed ? nothing : experiment().footer()}`,
      notes,
    );
    chart.figure.update(
      groups
        .filter(({ base }) => isEmbed || base === chosenBase())
        .flatMap(({ frames, isStale }) =>
          frames.map((frame): SubjectEntry => ({ subject: frame.subject, frame, isStale })),
        ),
    );
    const mapEntries = engine ? entriesOf(roomContext, mapSubjects(engine)) : [];
    shownFrames = framesOf(mapEntries);
    maps.update(mapEntries);
    drawScale(scalePlace, weightScale({ frames: shownFrames, state, theme }));
    if (isEmbed && allGroups.length && allGroups.every(({ isComplete }) => isComplete))
      report(text, shownGroups);
  });

  function drawModels(state: State): void {
    const bases = basesOf(state);
    render(
      subjectList(
        'Models',
        bases.map((subject) => ({ subject })),
        roomContext,
        (shown) => roomContext.set({ shown, at: 0 }),
        (name, i) =>
          html`<button
            type="button"
            class="chosen"
            aria-pressed=${bases[i] === chosenBase()}
            @click=${() => roomContext.set({ shown: bases, at: i, layer: -1, head: -1 })}
          >
            ${name}
          </button>`,
      ),
      modelList,
    );
  }
}
