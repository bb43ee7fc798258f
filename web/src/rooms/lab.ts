/**
 * The room Lab: two small models train side by side, on the same task from the same seed, to show which settings create
 * a sink. Each lab has a worker of its own and keeps its state while the reader is in another room. This room draws
 * both labs at most ten times a second.
 */
import { html, nothing, render, type TemplateResult } from 'lit';
import { addEmbedButton, allows } from '../page/controls';
import type { Context, Scope } from '../page/context';
import { createCharts } from '../lab/charts';
import { createControls } from '../lab/controls';
import { tokenTexts } from '../lab/from_scratch';
import { addSaveMenu, openInExplore, saveModel } from '../lab/export';
import { createMap, type Actions } from '../lab/map';
import { Pair } from '../lab/pair';
import { isFineTune, namesOf, type Settings } from '../lab/settings';
import { claimWords, verdictWords } from '../lab/words';
import { addElement } from '../page/view';
import { LAB } from '../views/index';
import '../plot/chart.css';
import './lab.css';

const FRAME_MS = 100;

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const headingPlace = addElement(root, 'room-head');
  const labPlace = addElement(root, 'lab-pair');
  const bar = addElement(labPlace, 'lab-bar');
  const troublePlace = addElement(labPlace, 'lab-trouble');
  const settingsPlace = addElement(labPlace, 'lab-controls');
  const grid = addElement(labPlace, 'lab-grid');
  const foot = addElement(root, 'lab-foot');
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
  const drawCharts = createCharts(addElement(grid, 'lab-charts'));
  const buttons = addElement(bar, 'lab-buttons');
  const saveMenu = addSaveMenu(bar, context, () => {
    return { pair: pair.namedLabs(), columns: pair.columns, grid, draw: drawMaps };
  });

  addEmbedButton(bar, 'the lab', () => context.embed(LAB, context, {}));

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
    const problems = requestedSettings.flatMap(({ problems: labProblems }, i) =>
      labProblems.map((problem) => `Lab ${i + 1}: ${problem}.`),
    );
    render(
      problems.length
        ? html`<div class="trouble" role="alert">
            ${problems.map((problem) => html`<p>${problem} The default is used.</p>`)}
          </div>`
        : nothing,
      troublePlace,
    );
    const names = namesOf(
      [requestedSettings[0]!.settings, requestedSettings[1]!.settings],
      pair.tables,
    );
    render(controls.settingsForms(names), settingsPlace);
  }

  function drawHeading(): void {
    const sentence = pair.isRunning ? '' : verdictWords(pair.namedLabs());
    render(
      html`<div class="lab-title">
          <h1>Lab</h1>
          ${pair.isReady ? controls.trainingChoice() : nothing}
        </div>
        <p
          class="lead"
          data-finding
          role="status"
          ?hidden=${!allows(context.state.value, 'finding')}
        >
          ${sentence || claimWords(context.state.value, pair.isRunning)}
        </p>`,
      headingPlace,
    );
  }

  const drawMaps = (theme = context.theme.peek()) => {
    const labs = pair.namedLabs();
    labs.forEach((lab, i) => maps[i]!(lab, theme));
    drawCharts(labs);
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
    render(explanation(pair), foot);
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

function explanation(pair: Pair): TemplateResult {
  const [{ settings, setup }] = pair.labs;
  return html`<details class="more">
    <summary>What do they learn, and how do I read the maps?</summary>
    <p>
      ${isFineTune(settings) ? textWords(settings, setup?.text) : taskWords(settings)} The color of
      a cell is its weight, on a square-root scale; pointing at it also gives its share of the row.
      Keyboard, while the focus is in the lab: T starts and pauses training, S trains one step, R
      resets.
    </p>
  </details>`;
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
