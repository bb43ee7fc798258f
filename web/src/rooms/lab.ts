/**
 * The room Lab: two small models train side by side, on the same task from the same seed, to show which settings create
 * a sink. Each lab has a worker of its own and keeps its state while the reader is in another room.
 */
import { html, nothing, render, type TemplateResult } from 'lit';
import { addEmbedButton, allows } from '../page/controls';
import type { Context, Scope } from '../page/context';
import { createCharts } from '../lab/charts';
import {
  guessTemplate,
  moreTrainBar,
  nextExperiment,
  presetChoice,
  settingsForms,
  trainBar,
} from '../lab/controls';
import { openInExplore, saveModel } from '../lab/export';
import { modelActions, type Actions } from '../lab/map';
import { Pair } from '../lab/pair';
import { createPictures, redrawAfterChanges } from '../lab/pictures';
import { guessOf, keepGuess } from '../lab/guess';
import { isFineTune } from '../lab/settings';
import { taskTemplate } from '../lab/task';
import {
  claimWords,
  explanationWords,
  leadWords,
  ruleWords,
  titleWords,
  verdictWords,
  type Outcome,
} from '../lab/words';
import { explainTerms } from '../page/terms';
import { addElement, addFold, setText } from '../page/view';
import { makeMenu } from '../save/menu';
import { LAB } from '../views/index';
import '../plot/chart.css';
import './panes.css';
import './lab.css';

/** Whether the task of a run has a picture: only copying has. */
const hasPicture = (run: string): boolean => !isFineTune(run) && !/(^|,)task:conditional/.test(run);

/** Adds the fold with everything but the next step. Returns its places, which have headings but for the first. */
function addMore(root: HTMLElement) {
  const fold = addFold(root, 'More experiments and settings');
  fold.classList.add('lab-more');
  fold.addEventListener('toggle', () => {
    if (fold.open) fold.scrollIntoView({ block: 'nearest' });
  });
  const add = (name: string, title = '') => {
    const section = addElement(fold, '', 'section');
    if (title) addElement(section, '', 'h2').textContent = title;
    return addElement(section, name);
  };
  return {
    bar: add('lab-bar'),
    models: add('lab-models'),
    experiments: add('lab-choice', 'Experiments'),
    settings: add('lab-controls', 'Settings'),
    charts: add('lab-charts', 'More curves'),
    numbers: add('lab-numbers', 'Numbers'),
  };
}

/** Adds the menu that explains the lab and has its embed code. Returns the place of the words. */
function addHow(bar: HTMLElement, context: Context): HTMLElement {
  const how = addElement(bar, 'how', 'details') as HTMLDetailsElement;
  makeMenu(how);
  const summary = addElement(how, '', 'summary');
  summary.textContent = '…';
  summary.setAttribute('aria-label', 'How to read the lab');
  const place = addElement(how, '');
  const words = addElement(place, '', 'p');
  addEmbedButton(place, 'the lab', () => context.embed(LAB, context, {}));
  return words;
}

function problemsTemplate(pair: Pair) {
  const problems = pair
    .requestedSettings()
    .flatMap(({ problems: labProblems }, i) =>
      labProblems.map((problem) => `Lab ${i + 1}: ${problem}.`),
    );
  return problems.length
    ? html`<div class="trouble" role="alert">
        ${problems.map((problem) => html`<p>${problem} The default is used.</p>`)}
      </div>`
    : nothing;
}

function headTemplate({ state }: Context, pair: Pair): TemplateResult {
  const labs = pair.namedLabs();
  const isShown = allows(state.value, 'finding');
  const lead = isShown ? leadWords(labs, state.value) : claimWords(state.value);
  return html`<h1>${titleWords(isShown ? labs : [], state.value)}</h1>
    <p class="lead">
      <span data-finding role="status" ?hidden=${!isShown}>${explainTerms(lead)}</span>
    </p>`;
}

/** Marks a room before the first step. A task without a picture leaves its place to the maps. */
function markStage(place: HTMLElement, isUntrained: boolean, { state }: Context): void {
  place.classList.toggle('lab-new', isUntrained);
  place.classList.toggle('lab-asks', isUntrained && hasPicture(state.value.leftRun));
}

/** Trains, steps and resets by keys, while the focus is in the lab but in no field. */
function addShortcuts(place: HTMLElement, pair: Pair, reset: () => void): void {
  const shortcuts: Readonly<Record<string, () => void>> = {
    ...{ t: () => pair.toggle(), s: () => pair.trainOneStep(), r: reset },
  };
  place.addEventListener('keydown', (event) => {
    const isTyping = (event.target as Element).closest('input, select, textarea, summary');
    const act = shortcuts[event.key];
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !act) return;
    event.preventDefault();
    act();
  });
}

function actionsOf(context: Context, pair: Pair): Actions {
  return {
    explore: (namedLab) =>
      void pair
        .pause()
        .then(() => openInExplore(namedLab, context))
        .catch(context.fail),
    saveModel: (namedLab) => void saveModel(namedLab).catch(context.fail),
    change: (side, more) => pair.change(side, more),
  };
}

/** Adds the room's elements from top to bottom: the task and the question give way to the chart and the next step. */
function addPlaces(root: HTMLElement, context: Context, pair: Pair, reset: () => void) {
  const heading = addElement(root, 'room-head');
  const place = addElement(root, 'lab-pair');
  const trouble = addElement(place, 'lab-trouble');
  const pictures = createPictures(place, context, pair, 1, reset);
  const { grid, side } = pictures;
  grid.prepend(side);
  const task = addElement(side, 'lab-task', 'section');
  const rule = addElement(side, 'lab-rule', 'p');
  side.prepend(rule);
  const controls = addElement(side, 'lab-steer unsaved');
  const guess = addElement(controls, 'lab-guess', 'section');
  const buttons = addElement(controls, 'lab-buttons');
  const next = addElement(controls, '');
  const more = addMore(place);
  const moreButtons = addElement(more.bar, 'lab-buttons');
  const saveMenu = pictures.addSave(more.bar);
  const how = addHow(more.bar, context);
  return {
    ...{ heading, place, trouble, pictures, task, rule, controls, guess, buttons, next },
    ...{ more, moreButtons, saveMenu, how },
  };
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const pair = new Pair(context, scope);
  // If the engine's download failed, the button opens the labs instead of resetting them.
  const reset = () => (pair.isReady ? void pair.reset() : open());
  const places = addPlaces(root, context, pair, reset);
  const { place, pictures, controls, more } = places;
  const actions = actionsOf(context, pair);
  const drawMoreCharts = createCharts(more.charts, 1);
  addShortcuts(place, pair, reset);

  let hasFailed = false;
  const drawHead = () => {
    // Reset opens the labs again after a failure.
    const isUntrained = pair.isUntrained && !hasFailed;
    if (isUntrained && pair.canTrain) keepGuess(context.state.value, undefined);
    markStage(place, isUntrained, context);
    render(trainBar(pair), places.buttons);
    render(moreTrainBar(context, pair, reset), places.moreButtons);
    render(headTemplate(context, pair), places.heading);
  };
  const answer = (outcome: Outcome) => {
    keepGuess(context.state.value, outcome);
    pair.toggle();
  };
  const draw = () => {
    const hadFocus = controls.contains(document.activeElement);
    places.saveMenu.hidden = !allows(context.state.value, 'save');
    drawHead();
    const labs = pair.namedLabs();
    render(taskTemplate(labs, context.theme.peek()), places.task);
    setText(places.rule, ruleWords(labs[0].lab).join(' '));
    render(guessTemplate(pair, labs, guessOf(context.state.value), answer), places.guess);
    render(nextExperiment(context, pair), places.next);
    // The button that was pressed may be gone; keys still belong to the room.
    if (hadFocus && !controls.contains(document.activeElement))
      controls.querySelector<HTMLElement>('.train, .lab-next')?.focus({ preventScroll: true });
    pictures.draw();
    drawMoreCharts(labs);
    const hasModels = labs.some(({ lab }) => lab.step);
    render(
      hasModels ? labs.map((one, i) => modelActions(one, i as 0 | 1, actions)) : nothing,
      more.models,
    );
    setText(places.how, explanationWords(labs));
    setText(more.numbers, verdictWords(labs));
    more.numbers.parentElement!.hidden = !more.numbers.textContent;
    render(presetChoice(context, pair), more.experiments);
  };

  let isOpen = false;
  const ended = new AbortController();
  scope.onEnd(() => ended.abort());
  const follow = () => {
    if (ended.signal.aborted || isOpen) return;
    isOpen = true;
    hasFailed = false;
    scope.effect(() => {
      void [context.state.value.leftRun, context.state.value.rightRun];
      render(problemsTemplate(pair), places.trouble);
      render(settingsForms(context, pair), more.settings);
      pair.applyState();
    });
    redrawAfterChanges(context, pair, scope, draw);
  };
  const open = () => {
    const { models } = context.engine.peek() ?? {};
    if (!models) return;
    void pair.openEngine(models).then(follow, (error: unknown) => {
      hasFailed = true;
      drawHead();
      context.fail(error);
    });
  };
  scope.effect(() => {
    if (context.engine.value && !isOpen) open();
  });
  drawHead();
}
