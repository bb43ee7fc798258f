/**
 * Two small models are trained side by side, on the same task from the same seed: what does a sink come
 * of, and what makes it go? Each lab trains in a worker of its own; this room draws them ten times a
 * second at most, and the labs stand as they are while the reader is elsewhere.
 */
import { html, nothing, render, type TemplateResult } from 'lit';
import type { Describe } from 'sinkscope';
import { allows, choices } from '../controls';
import type { Desk, Scope } from '../desk';
import { letters, logCsv, logJson, modelFiles, type Logged } from '../lab/files';
import { Lab } from '../lab/lab';
import { presets } from '../lab/presets';
import {
  commandOf,
  namesOf,
  optionsOf,
  printSettings,
  readSettings,
  refusal,
  settingsOf,
  type Setting,
  type Settings,
} from '../lab/settings';
import { caption, recent, strongest, verdict, type Told } from '../lab/words';
import { drawChart, type Series } from '../plot/chart';
import { diverging, sequential } from '../plot/color';
import { createHeatmap, type Heatmap } from '../plot/heatmap';
import { addKinds, hand, KINDS } from '../save/menu';
import { figureOf, pngOf, svgText } from '../save/figure';
import { part } from '../views/view';
import { percent, show } from '../words';

const SIDES = ['left', 'right'] as const;
const COLORS = ['--run-1', '--run-2'] as const;
const FRAME_MS = 100;
/** Points of a line; a step's batch is noisy, and its neighbours are averaged. */
const POINTS = 120;
const MORE_STEPS = 500;
/** Words stand at a map that is as wide as this. */
const WORDS_WIDTH = 330;

interface Line {
  readonly column: string;
  readonly dash?: string;
  readonly isFaint?: boolean;
}

interface Chart {
  readonly title: string;
  readonly what: string;
  readonly lines: readonly Line[];
  readonly reach?: readonly [number, number];
  readonly percent?: boolean;
  readonly isHalf?: boolean;
}

const CHARTS: readonly Chart[] = [
  {
    title: 'attention on the first token, by step',
    what: 'where there is nothing to copy; dashed: at triggers',
    lines: [{ column: 'first_elsewhere' }, { column: 'first_triggers', dash: '3,3' }],
    reach: [0, 0.5],
    percent: true,
  },
  {
    title: 'loss',
    what: 'where there is nothing to copy; dashed: at triggers; faint: the best possible',
    lines: [
      { column: 'loss_elsewhere' },
      { column: 'loss_triggers', dash: '3,3' },
      { column: 'optimum_elsewhere', dash: '1,2', isFaint: true },
    ],
  },
  {
    title: 'value norm, first : others',
    what: '',
    lines: [{ column: 'value_ratio' }],
    reach: [0, 1],
    isHalf: true,
  },
  {
    title: 'hidden norm, first : others',
    what: '',
    lines: [{ column: 'hidden_ratio' }],
    reach: [0, 1],
    isHalf: true,
  },
  {
    title: 'gradient of first key : others',
    what: '',
    lines: [{ column: 'key_gradient' }],
    isHalf: true,
  },
  {
    title: 'gradient of first value : others',
    what: '',
    lines: [{ column: 'value_gradient' }],
    isHalf: true,
  },
];

/** The labs of this visit. */
let labs: readonly [Lab, Lab] | undefined;

/** A line of the log in at most POINTS places, each a mean. */
function lineOf(
  { log }: Lab,
  { column, dash, isFaint }: Line,
  color: string,
  name: string,
): Series {
  const size = Math.max(1, Math.ceil(log.length / POINTS));
  const values: number[] = [];
  const places: number[] = [];
  for (let i = 0; i < log.length; i += size) {
    const piece = log.slice(i, i + size);
    values.push(recent({ log: piece }, column));
    places.push(piece[piece.length >> 1]!.step);
  }
  return {
    name,
    color,
    values,
    places,
    ...(dash ? { dash } : {}),
    ...(isFaint ? { faint: true } : {}),
  };
}

export function build(root: HTMLElement, desk: Desk, scope: Scope): void {
  const head = part(root, 'room-head');
  const bench = part(root, 'lab-bench');
  const bar = part(bench, 'lab-bar');
  const trouble = part(bench, 'lab-trouble');
  const controls = part(bench, 'lab-controls');
  const grid = part(bench, 'lab-grid');
  const maps = SIDES.map((side) => createMap(grid, side));
  const charts = part(grid, 'lab-charts');
  const places = CHARTS.map(({ isHalf }) => part(charts, isHalf ? 'plot half' : 'plot'));
  const foot = part(root, 'lab-foot');
  let describe: Describe | undefined;
  let rows: readonly Setting[] = [];
  let pace = Infinity;
  /** Paused by the tab that nobody sees. */
  let isHidden = false;

  const pair = (labs ??= [new Lab({}), new Lab({})]);
  const told = (): readonly [Told, Told] => {
    const names = namesOf([pair[0].settings, pair[1].settings], rows);
    const one = (i: 0 | 1): Told => ({
      name: names[i],
      lab: pair[i],
      operation: describe?.operations.find(({ name }) => name === pair[i].settings.operation),
    });
    return [one(0), one(1)];
  };

  /* What is to be trained. */

  const given = () => SIDES.map((side) => readSettings(desk.state.value[side], rows));

  function change(side: number | 'both', more: Settings): void {
    const texts = given().map(({ settings }, i) =>
      printSettings(side === 'both' || side === i ? { ...settings, ...more } : settings),
    );
    desk.set({ left: texts[0]!, right: texts[1]! });
  }

  function again(): void {
    // What could not be fetched may be there now.
    if (!describe) return void open();
    const wanted = given();
    pair.forEach((lab, i) => void lab.begin(wanted[i]!.settings));
  }

  /** Follows the state: other settings are another training, of both, so that they are at one step. */
  function follow(): void {
    const wanted = given().map(({ settings }) => settings);
    const without = (settings: Settings) => printSettings({ ...settings, steps: 0 });
    const isOther = pair.some(
      (lab, i) => !('operation' in lab.settings) || without(lab.settings) !== without(wanted[i]!),
    );
    if (isOther) return again();
    pair.forEach((lab, i) => lab.reachTo(Number(wanted[i]!.steps)));
  }

  /* What is done. */

  const isRunning = () => pair.some((lab) => lab.isRunning);
  const pause = () => Promise.all(pair.map((lab) => lab.pause()));
  const train = () => pair.forEach((lab) => void lab.run(Number(lab.settings.steps), pace));
  const oneStep = () => pair.forEach((lab) => void lab.run(lab.step + 1));
  function toggle(): void {
    if (isRunning()) void pause();
    else if (pair.some(({ stage }) => stage === 'ready')) train();
    else if (pair.some(({ stage }) => stage === 'ended')) {
      const steps = Math.max(...pair.map((lab) => Number(lab.settings.steps))) + MORE_STEPS;
      change('both', { steps });
      queueMicrotask(train);
    }
  }

  async function inside({ name, lab }: Told): Promise<void> {
    await pause();
    const { settings } = lab;
    const words = letters(settings);
    const isFixed = settings.first === 'fixed';
    const text = lab.sample.slice(isFixed ? 1 : 0).map((id) => words[id]);
    const title = `${name} after ${lab.step} steps`.replaceAll('/', ' ');
    const { config } = optionsOf(settings);
    const weights = await lab.weights();
    desk.set({
      input: 'text',
      prompt: text.join(''),
      first: isFixed ? '' : 'none',
      T: Number(settings.length),
      n: 1,
    });
    desk.inside(modelFiles(title, settings, config, weights));
  }

  async function saveModel({ lab }: Told): Promise<void> {
    const { config } = optionsOf(lab.settings);
    const files = modelFiles('', lab.settings, config, await lab.weights());
    for (const { path, file } of files) hand(file, path.slice(1));
  }

  async function save(kind: (typeof KINDS)[number]): Promise<void> {
    const logged = told().map(({ name, lab }): Logged => ({
      name,
      settings: lab.settings,
      log: lab.log,
    }));
    const { version, link } = desk.facts();
    const origin = { version, link };
    const name = `sinkscope-lab.${kind.toLowerCase()}`;
    const columns = describe?.training?.log.map((column) => column.name) ?? [];
    if (kind === 'CSV')
      return hand(new Blob([logCsv(logged, columns, origin)], { type: 'text/csv' }), name);
    if (kind === 'JSON')
      return hand(new Blob([logJson(logged, origin)], { type: 'application/json' }), name);
    const picture = figureOf(
      grid,
      told()
        .map((one) => one.name)
        .join(' | '),
      link.slice(0, 120),
    );
    hand(
      kind === 'PNG'
        ? await pngOf(picture)
        : new Blob([svgText(picture)], { type: 'image/svg+xml' }),
      name,
    );
  }

  bench.addEventListener('keydown', (event) => {
    const isTyped = (event.target as Element).closest('input, select, textarea, summary');
    if (isTyped || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = { t: toggle, s: oneStep, r: again }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  const seen = () => {
    if (document.hidden && isRunning()) {
      isHidden = true;
      void pause();
    } else if (!document.hidden && isHidden) {
      isHidden = false;
      desk.tell('The labs stood still while this tab was hidden.');
      train();
    }
  };
  document.addEventListener('visibilitychange', seen);
  scope.onEnd(() => document.removeEventListener('visibilitychange', seen));
  scope.onEnd(() => void pause());

  /* What is seen. */

  const field = (side: number | 'both', row: Setting, settings: Settings): TemplateResult => {
    const set = (value: number | string) => change(side, { [row.name]: value });
    const { name, label, values, step, low, high } = row;
    if (values)
      return choices(
        label,
        String(settings[name]),
        values.map(([value, text]) => [String(value), text] as const),
        (text) => set(values.find(([value]) => String(value) === text)![0]),
      );
    const changed = (event: Event) => {
      const input = event.target as HTMLInputElement;
      const value = input.value.trim() === '' ? NaN : Number(input.value);
      const why = refusal(row, value);
      if (why) {
        input.value = String(settings[name]);
        desk.tell(why);
      } else set(value);
    };
    return html`<label class="field"
      ><span>${label}</span
      ><input
        type="number"
        title=${label}
        .value=${String(settings[name])}
        min=${low ?? nothing}
        max=${high! < 1e9 ? high : nothing}
        step=${step ?? 'any'}
        @change=${changed}
    /></label>`;
  };

  const labControls = (side: 0 | 1, name: string, settings: Settings): TemplateResult => {
    const named = (wanted: string) => rows.find((row) => row.name === wanted)!;
    const FIRST_SEEN = ['operation', 'optimiser', 'learning_rate'];
    const others = rows.filter((row) => !FIRST_SEEN.includes(row.name) && !row.isShared);
    return html`<section class="lab-set" aria-label="Lab ${side + 1}: ${name}">
      <div class="numbers">
        ${FIRST_SEEN.map((wanted) => field(side, named(wanted), settings))}
        <details class="more lab-more">
          <summary>more</summary>
          <div class="lab-fields">
            ${others.map((row) => field(side, row, settings))}
            <p class="hint">
              Another setting begins both again. The same run on the command line:
              <code>${commandOf(settings)}</code>
            </p>
          </div>
        </details>
      </div>
    </section>`;
  };

  const shared = (settings: Settings) =>
    rows.filter(({ isShared }) => isShared).map((row) => field('both', row, settings));

  function drawControls(): void {
    const state = desk.state.value;
    const wanted = given();
    const names = namesOf([wanted[0]!.settings, wanted[1]!.settings], rows);
    const at = presets.findIndex(({ left, right }) => left === state.left && right === state.right);
    const pick = (i: string) => {
      const preset = presets[Number(i)];
      if (preset) desk.set({ left: preset.left, right: preset.right });
    };
    const problems = wanted.flatMap(({ problems: own }, i) =>
      own.map((why) => `Lab ${i + 1}: ${why}.`),
    );
    render(
      problems.length
        ? html`<div class="trouble" role="alert">
            ${problems.map((why) => html`<p>${why} The default is taken.</p>`)}
          </div>`
        : nothing,
      trouble,
    );
    render(
      html`${wanted.map(({ settings }, i) => labControls(i as 0 | 1, names[i]!, settings))}
        <section class="lab-set" aria-label="Experiment">
          <div class="numbers">
            ${choices(
              'experiment',
              String(at),
              [
                ...(at < 0 ? ([['-1', 'your own']] as const) : []),
                ...presets.map(({ title }, i) => [String(i), title] as const),
              ],
              pick,
            )}
            ${shared(wanted[0]!.settings)}
          </div>
        </section>`,
      controls,
    );
    render(
      html`<details class="more">
        <summary>What they learn, and how to read this</summary>
        <p>
          Sequences over ${letters(wanted[0]!.settings).length} tokens, begun by a start mark. After
          a ringed number, a trigger, the token before it comes again; after any other token the
          next is drawn from a table of pairs, so that the best possible loss is known
          (Bigram-Backcopy, Guo et al. 2024). Attention is needed at triggers only: what does it do
          elsewhere? Both labs have the same seed and read the same batches, unless task, length,
          batch or triggers differ. The maps are of one sequence that is in no batch; a cell's
          colour is its share of the row. Keys, where the focus is in the lab: T trains and pauses,
          S takes one step, R begins again.
        </p>
      </details>`,
      foot,
    );
  }

  const label = () => {
    if (isRunning()) return 'Pause';
    const isOver = pair.every(({ stage }) => stage === 'ended' || stage === 'diverged');
    return isOver && pair.some(({ stage }) => stage === 'ended')
      ? `${MORE_STEPS} more steps`
      : 'Train';
  };
  const bare = part(bar, 'lab-buttons');
  const menu = addKinds(bar, 'the lab', KINDS, (kind) => void save(kind).catch(desk.fail));

  function drawBar(): void {
    const isReady = pair.some(({ stage }) => stage === 'ready' || stage === 'ended');
    const steps = Math.min(...pair.map((lab) => lab.step));
    const seconds = Math.max(...pair.map((lab) => lab.seconds));
    const most = Math.max(...pair.map((lab) => Number(lab.settings.steps ?? 0)));
    menu.hidden = !allows(desk.state.value, 'save');
    render(
      html`<button
          type="button"
          class="primary train"
          aria-keyshortcuts="T"
          ?disabled=${!isReady && !isRunning()}
          @click=${toggle}
        >
          ${label()}
        </button>
        <button type="button" aria-keyshortcuts="S" ?disabled=${isRunning()} @click=${oneStep}>
          One step
        </button>
        <button type="button" aria-keyshortcuts="R" @click=${again}>From the start</button>
        ${choices(
          'speed',
          String(pace),
          [
            ['Infinity', 'as fast as it goes'],
            ['10', '10 steps a second'],
            ['2', '2 steps a second'],
          ],
          (value) => {
            pace = Number(value);
            if (isRunning()) void pause().then(train);
          },
        )}
        <span class="lab-step"
          >step <strong>${steps}</strong> of ${most} · ${seconds.toFixed(1)} s</span
        >`,
      bare,
    );
  }

  function drawHead(): void {
    const { left, right } = desk.state.value;
    const preset = presets.find((one) => one.left === left && one.right === right);
    const said = isRunning() ? '' : verdict(told());
    const begin =
      preset?.claim ??
      'Two models, the same task from the same seed. Press Train: does a column come on the left of their maps?';
    render(
      html`<h1>Lab</h1>
        <p class="lead" data-finding role="status" ?hidden=${!allows(desk.state.value, 'finding')}>
          ${said || begin}
        </p>`,
      head,
    );
  }

  const acts: Acts = {
    inside: (one) => void inside(one).catch(desk.fail),
    saveModel: (one) => void saveModel(one).catch(desk.fail),
    again: () => again(),
  };

  function drawNumbers(): void {
    const names = told();
    const theme = desk.theme.value;
    const wide = grid.firstElementChild!.clientWidth >= WORDS_WIDTH;
    names.forEach((one, i) => maps[i]!(one, theme, wide, acts));
    CHARTS.forEach(({ title, what, lines, reach, percent: isShare }, i) => {
      const series = names.flatMap(({ lab, name }, side) =>
        lines.map((line) => lineOf(lab, line, COLORS[side]!, name)),
      );
      const last = names.map(({ lab, name }) => {
        const value = recent(lab, lines[0]!.column);
        return `${name} ${isShare ? percent(value, 0) : show(value)}`;
      });
      drawChart(places[i]!, {
        kind: 'lines',
        series,
        xLabel: '',
        yLabel: title,
        label: `${title}${what ? `, ${what}` : ''}: ${last.join(', ')}`,
        height: i < 2 ? 142 : 96,
        dots: false,
        ...(reach ? { reach } : {}),
        ...(isShare ? { percent: true } : {}),
      });
    });
  }

  let drawn = 0;
  let due = 0;
  const draw = () => {
    clearTimeout(due);
    due = 0;
    drawn = performance.now();
    drawBar();
    drawHead();
    drawNumbers();
  };
  scope.onEnd(() => clearTimeout(due));

  let isOver = false;
  scope.onEnd(() => (isOver = true));
  const ready = (known: Describe) => {
    if (isOver || describe) return;
    describe = known;
    rows = settingsOf(describe);
    scope.effect(() => {
      void [desk.state.value.left, desk.state.value.right];
      drawControls();
      follow();
    });
    scope.effect(() => {
      void [desk.theme.value, desk.state.value.hide, ...pair.map(({ changed }) => changed.value)];
      due ||= window.setTimeout(draw, Math.max(0, drawn + FRAME_MS - performance.now()));
    });
  };
  const open = () => pair[0].engine().then((engine) => ready(engine.describe), desk.fail);
  void open();
  drawBar();
  drawHead();
}

interface Acts {
  readonly inside: (told: Told) => void;
  readonly saveModel: (told: Told) => void;
  readonly again: () => void;
}

/** A lab's map, and what is said and done under it. */
function createMap(grid: HTMLElement, side: (typeof SIDES)[number]) {
  const place = part(grid, 'lab-map', 'section');
  place.dataset.side = side;
  const title = part(place, 'caption', 'p');
  const map: Heatmap = createHeatmap(part(place, 'plot'));
  const under = part(place, 'lab-under');
  return (
    told: Told,
    theme: 'light' | 'dark',
    isWide: boolean,
    { inside, saveModel, again }: Acts,
  ): void => {
    const { lab, name, operation } = told;
    const seen = strongest(lab);
    place.setAttribute('aria-label', `Attention of lab ${SIDES.indexOf(side) + 1}: ${name}`);
    const many = Number(lab.settings.layers) * Number(lab.settings.heads) > 1;
    const which = seen && many ? ` · layer ${seen.layer + 1}, head ${seen.head + 1}` : '';
    render(
      html`<strong style="color: var(${COLORS[SIDES.indexOf(side)]})">${name}</strong>
        <span>${caption(told)}${which}</span>`,
      title,
    );
    if (seen) {
      const T = lab.sample.length;
      const all = letters(lab.settings);
      const words = lab.sample
        .map((id) => all[id] ?? '')
        .map((text) => (text === '<s>' ? 'start' : text));
      map.draw({
        rows: T,
        cols: T,
        data: seen.shares,
        scale: operation?.proxy === 'share_abs' ? diverging(theme, 1) : sequential(theme, 1, true),
        label: `Attention map of ${name} after ${lab.step} steps: ${caption(told)}`,
        ...(isWide ? { rowWords: words, colWords: words } : {}),
        describe: ({ row, col }) => {
          if (row < 0 || col < 0) return '';
          if (col > row) return `“${words[row]}” cannot see what comes later`;
          const share = percent(seen.shares[row * T + col]!, 1);
          const weight = show(seen.weights[row * T + col]!, 3);
          return `${row + 1} “${words[row]}” → ${col + 1} “${words[col]}”: ${share} of its row, weight ${weight}`;
        },
      });
    }
    const { stage, trouble, kept } = lab;
    render(
      html`${
          trouble
            ? html`<p class="trouble" role="alert">
                ${trouble}
                ${
                  stage === 'lost' && kept
                    ? html`<button type="button" @click=${() => void lab.begin(lab.settings, kept)}>
                          Go on from step ${kept.step}
                        </button>
                        The optimiser begins anew then, and the digits are others.`
                    : nothing
                }
                ${stage === 'lost' ? html`<button type="button" @click=${again}>From the start</button>` : nothing}
              </p>`
            : nothing
        }
        <p class="numbers">
          <button type="button" ?disabled=${!seen || !lab.isThere} @click=${() => inside(told)}>
            Look inside
          </button>
          <button type="button" ?disabled=${!seen || !lab.isThere} @click=${() => saveModel(told)}>
            Save the model
          </button>
        </p>`,
      under,
    );
  };
}
