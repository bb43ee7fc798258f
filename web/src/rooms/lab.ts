/**
 * The room Lab: two small models train side by side, on the same task from the same seed, to show which settings create
 * a sink. Each lab has a worker of its own and keeps its state while the reader is in another room. This room draws
 * both labs at most ten times a second.
 */
import { html, nothing, render, type TemplateResult } from 'lit';
import { addEmbedButton, allows } from '../page/controls';
import type { Context, Scope } from '../page/context';
import { createCharts, MAIN_CHARTS } from '../lab/charts';
import { createControls } from '../lab/controls';
import { tokenTexts } from '../lab/from_scratch';
import { addSaveMenu, openInExplore, saveModel } from '../lab/export';
import { createLegend, createMap, type Actions } from '../lab/map';
import { Pair } from '../lab/pair';
import { isFineTune, namesOf, type Settings } from '../lab/settings';
import { claimWords, rowNotes, shortVerdictWords, verdictWords } from '../lab/words';
import { addElement, addFold, setText } from '../page/view';
import { makeMenu } from '../save/menu';
import { LAB } from '../views/index';
import '../plot/chart.css';
import './panes.css';
import './lab.css';

const FRAME_MS = 100;

/** Adds the folded sections: the settings, further curves, and the numbers in words. Returns their places. */
function addFoot(root: HTMLElement): readonly [HTMLElement, HTMLElement, HTMLElement] {
  const foot = addElement(root, 'lab-foot');
  const add = (name: string, title: string) => addElement(addFold(foot, title), name);
  return [
    add('lab-controls', 'Settings'),
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

function problemsTemplate(settings: ReturnType<Pair['requestedSettings']>) {
  const problems = settings.flatMap(({ problems: labProblems }, i) =>
    labProblems.map((problem) => `Lab ${i + 1}: ${problem}.`),
  );
  return problems.length
    ? html`<div class="trouble" role="alert">
        ${problems.map((problem) => html`<p>${problem} The default is used.</p>`)}
      </div>`
    : nothing;
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const headingPlace = addElement(root, 'room-head');
  const labPlace = addElement(root, 'lab-pair');
  const bar = addElement(labPlace, 'lab-bar');
  const troublePlace = addElement(labPlace, 'lab-trouble');
  const questions = addElement(labPlace, 'lab-choice');
  const grid = addElement(labPlace, 'lab-grid');
  const [settingsPlace, moreCharts, numbersPlace] = addFoot(labPlace);
  const pair = new Pair(context, scope);
  // If the engine's download failed, the button opens the labs instead of resetting them.
  const resetOrOpen = () => (pair.isReady ? void pair.reset() : openLabs());
  const controls = createControls(context, pair, resetOrOpen);
  const actions: Actions = {
    explore: (namedLab) =>
      void pair
        .pause()
        .then(() => openInExplore(namedLab, context))
        .catch(context.fail),
    saveModel: (namedLab) => void saveModel(namedLab).catch(context.fail),
    reset: resetOrOpen,
    change: (side, more) => pair.change(side, more),
  };
  const maps = ([0, 1] as const).map((side) => createMap(grid, side, actions));
  const legend = createLegend(grid);
  const side = addElement(grid, 'lab-side');
  const taskPlace = addElement(side, 'lab-task', 'section');
  taskPlace.setAttribute('aria-label', 'The task');
  const drawCharts = createCharts(addElement(side, 'lab-charts'), 0, MAIN_CHARTS);
  const drawMoreCharts = createCharts(moreCharts, MAIN_CHARTS);
  const buttons = addElement(bar, 'lab-buttons');
  const saveMenu = addSaveMenu(bar, context, () => {
    return { pair: pair.namedLabs(), columns: pair.columns, grid, draw: drawMaps };
  });

  const howWords = addHow(bar, context);

  labPlace.addEventListener('keydown', (event) => {
    const isTyping = (event.target as Element).closest('input, select, textarea, summary');
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const shortcutAction = { t: () => pair.toggle(), s: () => pair.trainOneStep(), r: resetOrOpen }[
      event.key
    ];
    if (!shortcutAction) return;
    event.preventDefault();
    shortcutAction();
  });

  function drawSettings(): void {
    const requestedSettings = pair.requestedSettings();
    render(problemsTemplate(requestedSettings), troublePlace);
    const names = namesOf(
      [requestedSettings[0]!.settings, requestedSettings[1]!.settings],
      pair.tables,
    );
    render(controls.settingsForms(names), settingsPlace);
  }

  function drawHeading(): void {
    render(
      html`<h1>Train two models and see who grows a sink</h1>
        <p
          class="lead"
          data-finding
          role="status"
          ?hidden=${!allows(context.state.value, 'finding')}
        >
          ${shortVerdictWords(pair.namedLabs()) || claimWords(context.state.value, pair.isRunning)}
        </p>`,
      headingPlace,
    );
  }

  const drawMaps = (theme = context.theme.peek()) => {
    const labs = pair.namedLabs();
    labs.forEach((lab, i) => maps[i]!(lab, theme));
    legend(labs, theme);
    drawCharts(labs);
    drawMoreCharts(labs);
  };
  let lastDrawTime = 0;
  let drawTimer = 0;
  const draw = () => {
    drawTimer = 0;
    lastDrawTime = performance.now();
    saveMenu.hidden = !allows(context.state.value, 'save');
    render(controls.bar(), buttons);
    drawHeading();
    drawMaps();
    setText(howWords, explanation(pair));
    setText(numbersPlace, verdictWords(pair.namedLabs()));
    numbersPlace.parentElement!.hidden = !numbersPlace.textContent;
    render(pair.isReady ? controls.questionChoice() : nothing, questions);
    render(taskTemplate(pair), taskPlace);
  };

  let hasEnded = false;
  let isOpen = false;
  scope.onEnd(() => {
    hasEnded = true;
    clearTimeout(drawTimer);
  });
  const onReady = () => {
    if (hasEnded || isOpen) return;
    isOpen = true;
    scope.effect(() => {
      void [context.state.value.leftRun, context.state.value.rightRun];
      drawSettings();
      pair.applyState();
    });
    scope.effect(() => {
      void [
        context.theme.value,
        context.state.value.hide,
        ...pair.labs.map(({ changes }) => changes.value),
      ];
      drawTimer ||= window.setTimeout(
        draw,
        Math.max(0, lastDrawTime + FRAME_MS - performance.now()),
      );
    });
  };
  const openLabs = () => {
    const { models } = context.engine.peek() ?? {};
    if (models) void pair.openEngine(models).then(onReady, context.fail);
  };
  scope.effect(() => {
    if (context.engine.value && !isOpen) openLabs();
  });
  render(controls.bar(), buttons);
  drawHeading();
}

function taskTemplate(pair: Pair): TemplateResult {
  const isText = isFineTune(pair.labs[0].settings);
  return html`<h2>The task</h2>
    ${isText ? html`<p>Guess the next token of the text.</p>` : nothing}
    ${rowNotes(pair.namedLabs()).map(
      ([example, note]) => html`<p><strong class="lab-example">${example}</strong> ${note}</p>`,
    )}`;
}

function explanation(pair: Pair): string {
  const [{ settings, setup }] = pair.labs;
  return (
    `${isFineTune(settings) ? textWords(settings, setup?.text) : taskWords(settings)} The color of a cell is its weight, on a ` +
    'square-root scale; pointing at it also gives its share of the row. Before training attention is even, so the first ' +
    'rows, which see few tokens, are dark. The curves are means over the batches of training. ' +
    'Keyboard, while the focus is in the lab: T starts and pauses training, S trains one step, R resets.'
  );
}

function taskWords(settings: Settings): string {
  return (
    `The Bigram-Backcopy task (Guo et al. 2024): sequences over ${tokenTexts(settings).length} tokens that begin with a ` +
    'start token. After a trigger (a ringed number) the token before it repeats; after any other token ' +
    'the next is drawn from a bigram table, so the best possible loss is known. Attention is needed ' +
    'only at triggers: what does it do elsewhere? Both models have the same seed and read the same ' +
    'batches, unless task, length, batch or triggers differ. The maps show a sequence that is in no batch.'
  );
}

function textWords(
  { steps, batch, length }: Settings,
  text: { readonly tokens: number; readonly name: string } | undefined,
): string {
  const tokenCount = text?.tokens ?? NaN;
  const readsPerToken = (Number(steps) * Number(batch) * Number(length)) / tokenCount;
  const description =
    text?.name === undefined || text.name === 'the passages'
      ? 'passages of children’s books in the public domain that ship with this page; no model of this page ' +
        'was trained on them'
      : `your text ${text.name}`;
  return (
    `Fine-tuning starts from the trained weights with a new AdamW state, on ${description}: ` +
    `${tokenCount.toLocaleString('en')} tokens. ${steps} steps read each token about ` +
    `${readsPerToken.toFixed(1)} times, so the model memorizes the text: the training loss falls below what it ` +
    'would be on new text. Both models read the same batches. The maps show one piece of the text.'
  );
}
