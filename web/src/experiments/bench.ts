/**
 * Draws the experiments, as a room and as a figure. An experiment measures the shown models in several settings, most
 * of which remove or disturb the sink, and states the result in a sentence. Its row in index.ts defines the settings
 * and the sentence.
 */
import { html, nothing, render, type TemplateResult } from 'lit';
import { experiments } from './index';
import type { Finding, Group } from './experiment';
import { othersNote, settingsTable, splitOf } from './parts';
import {
  basesOf,
  experimentState,
  interleave,
  MAX_MAP_TOKENS,
  Plans,
  type Measured,
} from './plans';
import { choiceField, textField, troubleNotes } from '../page/controls';
import {
  fileField,
  startTokenField,
  numberField,
  roomHeading,
  subjectList,
} from '../page/room_controls';
import {
  hideUntilDrawn,
  requestFrames,
  framesOf,
  entriesOf,
  type Context,
  type Scope,
  type SubjectEntry,
} from '../page/context';
import { Figure, type FigureLook } from '../page/figure';
import { claimOf } from '../claims';
import { selectedHead, type Frame } from '../frame';
import { INPUTS } from '../ask/question';
import { LONG_TEXT } from '../run/reading';
import type { State } from '../ask/state';
import { addElement, addFold, type View } from '../page/view';
import { explainTerms } from '../page/terms';
import { drawScale } from '../plot/legend';
import { attention, weightScale } from '../views/attention';
import { EXPERIMENT } from '../views/index';
import { queryWithoutFirst } from '../views/loss';
import { isUnedited, settingName } from '../views/settings';
import { firstName, headWords, modelName, wholePercent } from '../words';

/** The parameters of the model of the recorded texts, in millions. */
const LARGER_SIZE = 135;
const SOURCES = ['heldout', 'text', 'random', 'file'] as const satisfies readonly State['source'][];

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
    ${source === 'file' ? fileField(context) : nothing}
    <div class="numbers">
      ${numberField('tokens ≤', 'length', context)} ${numberField('prompts ≤', 'runs', context)}
      ${startTokenField(context, frames)}
    </div>
    <p class="hint">
      ${shorterLengths.length ? `Only ${shorterLengths.join(', ')} tokens ran${exceptionNote}: the texts or the context are no longer. ` : ''}${promptCountText === '1' ? '1 prompt.' : promptCountText ? `${promptCountText} prompts; means ± standard deviation.` : ''}
    </p>
  </div>`;
}

/** Says which model is measured, and offers a field for the reader's text: empty, other texts are measured. */
function liveTemplate({ state, set }: Context, frame: Frame | undefined): TemplateResult {
  const { source, prompt } = state.value;
  const times = LARGER_SIZE / ((frame?.architecture.parameters ?? Infinity) / 1e6);
  const size = times > 2 ? `, ${Math.round(times)} times smaller` : '';
  const own = {
    state: { value: { prompt: source === 'text' ? prompt : '' } },
    set: ({ prompt: text }: Partial<State>) =>
      set(text ? { prompt: text, source: 'text' } : { source: 'heldout' }),
  };
  return html`<p>
      Live on your own text${size}: ${frame ? modelName(frame.model) : 'a small model'}
    </p>
    ${textField(own, 2, 'Type your own text, of more than 24 words')}`;
}

/** What a chosen experiment shows first: all its numbers are losses, and both its maps are of one model. */
const FIRST_LOOK = { measure: 'loss', sweep: 'some', perturbation: 'tag' } as const;

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

/** Says at the column of the first token what it and all others get, and until when the cache has it. */
function remarkWords(frame: Frame, frames: readonly Frame[]): string {
  const name = `▼ ${firstName(frame)}`;
  if (frame.pooled || frame.queries) return name;
  const [got, others] = splitOf(frame, frames);
  const othersWords = `others ${frame.operation.normalizes ? `${100 - Math.round(100 * got)}%` : wholePercent(others)}`;
  const query = queryWithoutFirst(frame);
  return Number.isFinite(query)
    ? `${name} until ${query}, then ${othersWords}`
    : `${name} gets ${wholePercent(got)}, ${othersWords}`;
}

/** Returns the head of a map: the strongest of the model's unedited run, in all settings. */
const strongestHead = (frame: Frame) => selectedHead(frame.base ?? frame, { layer: -1, head: -1 });

/** Returns how the maps of a broken and a repaired case are drawn: the same head, its first column framed, with its number. */
function pairLook(frames: () => readonly Frame[]): FigureLook {
  const isPair = () => new Set(frames().map(({ model }) => model.id)).size < 2;
  const isBroken = (frame: Frame) => frames().length > 1 && frame === frames()[0];
  return {
    headOf: strongestHead,
    about: (frame) => ({
      text: html`<strong class="setting"
          >${isUnedited(frame) && frame.question.input !== 'repeat' ? 'unchanged' : settingName(frame)}</strong
        >
        <span class="hint"
          >${frame.model.title},
          ${explainTerms(headWords(strongestHead(frame), frame))}${frame.operation.normalizes ? '' : ' (rows need not sum to 100%)'}</span
        >`,
      color: isBroken(frame) ? '--sink' : isPair() ? '--query' : '--ink',
    }),
    extra: (frame) => {
      const { attention: share } = claimOf(frame, strongestHead(frame));
      return {
        ...{ isPlain: true, isTitled: true },
        remark: {
          kind: share > frame.eps ? 'sink' : 'weak',
          text: remarkWords(frame, frames()),
        },
      };
    },
  };
}

/** Returns how the chart is drawn: at once in the room, where the page waits for it although a phone shows it further down. */
const chartLook = (isEmbed: boolean, question: string | undefined): FigureLook => ({
  ...{ isEmbed, isEager: !isEmbed, isUnstamped: !isEmbed, question },
  extra: () => ({ isPlain: true, ...(isEmbed ? {} : { height: 400 }) }),
});

/** Creates the places of the room; an embed has those of the figure alone. */
function createPlaces(root: HTMLElement, isEmbed: boolean) {
  // An embed has no places for models and prompts, which its host chooses: their elements stay outside the page.
  const sideRoot = isEmbed ? document.createElement('div') : root;
  const experimentList = addElement(addElement(sideRoot, 'rail'), 'experiments', 'nav');
  experimentList.setAttribute('aria-label', 'Experiments');
  const middle = addElement(root, 'middle');
  const live = addElement(isEmbed ? sideRoot : middle, 'live');
  const heading = addElement(middle, 'room-head');
  const controls = addElement(middle, 'experiment-controls');
  const chart = addElement(middle, 'experiment-picture');
  const detail = addElement(isEmbed ? sideRoot : middle, 'experiment-detail');
  const legend = addElement(detail, 'map-legend');
  const scale = addElement(legend, 'scale-place', 'span');
  const legendWords = addElement(legend, 'hint', 'span');
  const notes = addElement(middle, 'experiment-notes');
  const settings = isEmbed ? middle : addFold(middle, 'Settings');
  const modelList = addElement(isEmbed ? sideRoot : settings, 'subjects');
  const moreControls = addElement(settings, 'experiment-controls');
  const question = addElement(isEmbed ? sideRoot : settings, 'question');
  const table = addElement(middle, 'experiment-table');
  const footer = isEmbed ? addElement(root, 'figure-foot') : addElement(settings, '');
  return {
    ...{ experimentList, modelList, live, question, heading, chart, notes, controls, moreControls },
    ...{ table, detail, scale, legendWords, footer },
  };
}

/** Requests the runs of the maps and the studies of the plans. */
function requestPlans(context: Context, scope: Scope, plans: Plans): void {
  requestFrames(context, scope, (_, engine) => {
    const { leadCount, mapQuestionOf, planView } = plans.experiment;
    const request = plans.requestOf(engine);
    const question = mapQuestionOf?.(request) ?? request.question;
    const maps = plans.mapSubjects(engine);
    return {
      heads: Object.fromEntries(
        framesOf(entriesOf(context, maps)).map((frame) => [frame.subject, strongestHead(frame)]),
      ),
      views: [attention, ...(planView ? [planView] : [])],
      // Evicted keys are hatched.
      more: maps.some((subject) => subject.includes('~evict')) ? ['evicted'] : [],
      subjects: plans.runSubjects(engine),
      question: { ...question, n: 1, T: Math.min(question.T, MAX_MAP_TOKENS) },
      studies: interleave(plans.studiesOf(engine), leadCount),
    };
  });
}

function footerTemplate(context: Context, isEmbed: boolean): TemplateResult {
  if (isEmbed)
    return html`<a
      href=${context.link({ room: 'purpose' })}
      target="_blank"
      rel="noopener"
      part="link"
      >Open in Sinkscope</a
    >`;
  const shown = basesOf(context.state.value);
  return html`<p>
    <button type="button" @click=${() => context.embed(EXPERIMENT, context, { shown })}>
      Embed this experiment
    </button>
  </p>`;
}

function modelsTemplate(context: Context, { bases, chosenBase }: Plans) {
  return subjectList(
    'Models',
    bases.map((subject) => ({ subject })),
    context,
    (shown) => context.set({ shown, at: 0 }),
    (name, i) =>
      html`<button
        type="button"
        class="chosen"
        aria-pressed=${bases[i] === chosenBase}
        @click=${() => context.set({ shown: bases, at: i, layer: -1, head: -1 })}
      >
        ${name}
      </button>`,
  );
}

/** Returns the detail of the event `ended`: the sentence and the numbers of all settings. */
function endedDetail(says: string, groups: readonly Group[]) {
  const results = groups.flatMap(({ frames }) =>
    frames.map(({ subject, title, sequences, tensors }) => {
      const numbers = Object.entries(tensors).filter(([, { data }]) => data.length === 1);
      const measured = Object.fromEntries(numbers.map(([name, { data }]) => [name, data[0]!]));
      return { subject, title, sequences, measured };
    }),
  );
  return { view: EXPERIMENT, says, results };
}

/** Returns the experiment's sentences, and for each model that it does not apply to a sentence that says so. */
function answerText(finding: Finding, all: readonly Measured[], isEmbed: boolean): string {
  const exceptions = all.flatMap(({ isApplicable, frames: [frame] }) =>
    isApplicable
      ? []
      : `${frame!.model.title} predicts no next token, so this experiment, which compares losses of the next token, does not apply to it.`,
  );
  // An embed has no title and no recorded texts.
  const opening = isEmbed ? finding.heading && `${finding.heading}.` : finding.bridge;
  return [opening, finding.text, ...exceptions].filter(Boolean).join(' ');
}

const entriesOfFrames = (all: readonly Measured[]): SubjectEntry[] =>
  all.flatMap(({ frames, isStale }) =>
    frames.map((frame): SubjectEntry => ({ subject: frame.subject, frame, isStale })),
  );

/** Returns the errors of the studies, and those of the runs that say something else. */
function failuresOf(groups: readonly Measured[], runs: readonly SubjectEntry[]): SubjectEntry[] {
  const failures = groups.flatMap(({ base, frames: [frame], errors }) =>
    errors.map((error): SubjectEntry => ({ subject: base, frame, isStale: true, error })),
  );
  const messages = new Set(failures.map(({ error }) => error));
  return [...failures, ...runs.filter(({ error }) => error && !messages.has(error))];
}

/** Draws the sentence with its tables, and returns it with the models that it is about. */
function drawAnswer(
  { heading, table, notes }: ReturnType<typeof createPlaces>,
  context: Context,
  plans: Plans,
  all: readonly Measured[],
  runs: readonly SubjectEntry[],
) {
  const { experiment, isEmbed } = plans;
  const applicable = all.filter(({ isApplicable }) => isApplicable);
  // The sentences are about the model of the chart.
  const shown = plans.chosen(applicable);
  const groups: Group[] = [...shown, ...applicable.filter((one) => !shown.includes(one))]
    .filter(({ frames }) => frames.length)
    .map(({ base, frames }) => ({ base, title: frames[0]!.model.title, frames }));
  // While new settings are measured, the sentences are about those of the numbers; models of others wait.
  const state = shown[0]?.state ?? experimentState(context.state.value);
  const isTold = ({ base }: Group) =>
    JSON.stringify(applicable.find((one) => one.base === base)!.state) === JSON.stringify(state);
  const told = groups.filter(isTold);
  const finding = experiment.says(told, state);
  const text = answerText(finding, all, isEmbed);
  const waiting = applicable.some(({ errors }) => errors.length) ? '' : 'Measuring …';
  render(
    html`${roomHeading(finding.heading, text || waiting, context, nothing, true)}
    ${troubleNotes(failuresOf(applicable, runs), context)}`,
    heading,
  );
  const hasTable = groups.length && !isEmbed;
  render(hasTable ? settingsTable(experiment, groups, context.file.value) : nothing, table);
  const reported = isEmbed ? '' : experiment.reported(context.state.value);
  render(
    html`${othersNote(finding, told)} ${reported ? html`<p>${reported}.</p>` : nothing}`,
    notes,
  );
  return { text, groups };
}

/**
 * Builds the room.
 * @param isEmbed whether to build only the figure of an embed: sentence, chart and controls
 */
export function build(root: HTMLElement, context: Context, scope: Scope, isEmbed = false): void {
  const places = createPlaces(root, isEmbed);
  const plans = new Plans(context, isEmbed);
  const chartContext = plans.contextOf(
    (engine) => plans.studiesOf(engine).flatMap((list) => list.map(({ subject }) => subject)),
    // An embed's run keeps all fields. Those of a long text need too much memory, so its figure has no embed link.
    (state) => ({
      ...plans.experiment.embedStateOf?.(state),
      ...(state.T > LONG_TEXT ? { hide: [...state.hide, 'links'] } : {}),
    }),
  );
  const detailContext = plans.contextOf(
    (engine) => plans.mapSubjects(engine),
    ({ T }) => ({ n: 1, at: 0, T: Math.min(T, MAX_MAP_TOKENS) }),
  );
  requestPlans(context, scope, plans);
  // Shows the sentence and the detail's pictures together, as soon as the chosen model is measured.
  hideUntilDrawn(root, scope, () => {
    const engine = context.engine.value;
    return engine
      ? [...entriesOf(context, plans.mapSubjects(engine)), ...plans.leadEntries(engine)]
      : [{ subject: '', isStale: true }];
  });

  let chart: { readonly view: View; readonly figure: Figure } | undefined;
  /** The frames of the maps, the broken case first. */
  let shownFrames: readonly Frame[] = [];
  const maps = new Figure(places.detail, attention, detailContext, scope, {
    ...pairLook(() => shownFrames),
    ...{ isEager: true, isUnstamped: true },
    question: 'One head’s attention',
  });
  let reportedText = '';

  scope.effect(() => {
    const engine = context.engine.value;
    const state = context.state.value;
    const theme = context.theme.value;
    const { experiment } = plans;
    const view = experiment.viewOf?.(state) ?? experiment.view;
    if (chart?.view !== view) {
      chart?.figure.end();
      const look = chartLook(isEmbed, experiment.chartQuestion);
      chart = { view, figure: new Figure(places.chart, view, chartContext, scope, look) };
    }
    const all = engine ? plans.measured(engine) : [];
    render(experimentButtons(context), places.experimentList);
    render(modelsTemplate(context, plans), places.modelList);
    const allFrames = all.flatMap(({ frames }) => frames);
    render(questionTemplate(context, allFrames), places.question);
    render(liveTemplate(context, plans.chosen(all)[0]?.frames[0]), places.live);
    const [controls, moreControls] = experiment.controls(context);
    render(controls, places.controls);
    render(moreControls, places.moreControls);
    render(footerTemplate(context, isEmbed), places.footer);
    const runs = engine ? entriesOf(context, plans.runSubjects(engine)) : [];
    const mapEntries = engine ? entriesOf(context, plans.mapSubjects(engine)) : [];
    shownFrames = framesOf(mapEntries);
    const { text, groups } = drawAnswer(places, context, plans, all, runs);
    chart.figure.update(
      entriesOfFrames(plans.chosen(all.filter(({ isApplicable }) => isApplicable))),
    );
    maps.update(mapEntries);
    drawScale(places.scale, weightScale({ frames: shownFrames, state, theme }));
    const hasEvicted = shownFrames.some(({ tensors }) => tensors.evicted);
    render(explainTerms(hasEvicted ? 'hatched: forgotten' : 'gray: later'), places.legendWords);
    // The host of an embed gets each answer once.
    const isAnswered = all.length > 0 && all.every(({ isComplete }) => isComplete);
    if (!isEmbed || !isAnswered || text === reportedText) return;
    reportedText = text;
    const detail = endedDetail(text, groups);
    root.dispatchEvent(new CustomEvent('ended', { detail, bubbles: true }));
  });
}
