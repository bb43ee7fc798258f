/**
 * The room Lab: two small models train side by side, on the same task from the same seed, to show which settings create
 * a sink. Each lab has a worker of its own and keeps its state while the reader is in another room.
 */
import { html, nothing, render, type TemplateResult } from 'lit';
import { addEmbedButton, allows } from '../page/controls';
import type { Context, Scope } from '../page/context';
import { createCharts } from '../lab/charts';
import { guessTemplate, questionChoice, settingsForms, trainBar } from '../lab/controls';
import { openInExplore, saveModel } from '../lab/export';
import type { Actions } from '../lab/map';
import { Pair } from '../lab/pair';
import { createPictures, redrawAfterChanges } from '../lab/pictures';
import { guessOf, keepGuess } from '../lab/guess';
import { taskTemplate } from '../lab/task';
import {
  claimWords,
  explanationWords,
  findingWords,
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

/** Adds the folded sections: the settings, further curves, and the numbers in words. Returns their places. */
function addFoot(root: HTMLElement): readonly [HTMLElement, HTMLElement, HTMLElement] {
  const foot = addElement(root, 'lab-foot');
  const add = (name: string, title: string) => addElement(addFold(foot, title), name);
  return [
    add('lab-controls', 'Experiments and settings'),
    add('lab-charts', 'More curves'),
    add('lab-numbers', 'Numbers'),
  ];
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
  const finding = findingWords(labs, state.value);
  const isShown = allows(state.value, 'finding');
  return html`<h1>${titleWords(isShown ? labs : [])}</h1>
    <p class="lead">
      <span class=${finding ? 'verdict' : ''} data-finding role="status" ?hidden=${!isShown}
        >${explainTerms(finding || claimWords(state.value))}</span
      >
    </p>`;
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

function actionsOf(context: Context, pair: Pair, reset: () => void): Actions {
  return {
    explore: (namedLab) =>
      void pair
        .pause()
        .then(() => openInExplore(namedLab, context))
        .catch(context.fail),
    saveModel: (namedLab) => void saveModel(namedLab).catch(context.fail),
    reset,
    change: (side, more) => pair.change(side, more),
  };
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const heading = addElement(root, 'room-head');
  const place = addElement(root, 'lab-pair');
  const trouble = addElement(place, 'lab-trouble');
  const pair = new Pair(context, scope);
  // If the engine's download failed, the button opens the labs instead of resetting them.
  const reset = () => (pair.isReady ? void pair.reset() : open());
  const pictures = createPictures(place, context, pair, 1, actionsOf(context, pair, reset));
  // The task and the question are before the maps; the chart and the buttons take their places.
  const { grid, side } = pictures;
  grid.prepend(side);
  const task = addElement(side, 'lab-task', 'section');
  const controls = addElement(side, 'lab-steer unsaved');
  const guessPlace = addElement(controls, 'lab-guess', 'section');
  const bar = addElement(controls, 'lab-bar');
  const buttons = addElement(bar, 'lab-buttons');
  const questions = addElement(controls, 'lab-choice');
  const [settings, moreCharts, numbers] = addFoot(place);
  const drawMoreCharts = createCharts(moreCharts, 1);
  const saveMenu = pictures.addSave(bar);
  const how = addHow(bar, context);
  addShortcuts(place, pair, reset);

  let hasFailed = false;
  const drawHead = () => {
    // Reset opens the labs again after a failure.
    const isUntrained = pair.isUntrained && !hasFailed;
    if (isUntrained && pair.canTrain) keepGuess(context.state.value, undefined);
    place.classList.toggle('lab-new', isUntrained);
    place.classList.toggle('lab-begun', !isUntrained || place.matches('.lab-begun'));
    render(trainBar(context, pair, reset), buttons);
    render(headTemplate(context, pair), heading);
  };
  const answer = (outcome: Outcome) => {
    keepGuess(context.state.value, outcome);
    pair.toggle();
  };
  const draw = () => {
    saveMenu.hidden = !allows(context.state.value, 'save');
    drawHead();
    const labs = pair.namedLabs();
    render(taskTemplate(labs, context.theme.peek()), task);
    render(guessTemplate(pair, labs, guessOf(context.state.value), answer), guessPlace);
    pictures.draw();
    drawMoreCharts(labs);
    setText(how, explanationWords(labs));
    setText(numbers, verdictWords(labs));
    numbers.parentElement!.hidden = !numbers.textContent;
    render(questionChoice(context, pair), questions);
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
      render(problemsTemplate(pair), trouble);
      render(settingsForms(context, pair), settings);
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
