/** Lets a masked diffusion model fill in positions after the text, and draws the attention of each step. */
import { html, nothing, render } from 'lit';
import { live } from 'lit/directives/live.js';
import { segmentedControl } from '../page/controls';
import { numberField } from '../page/room_controls';
import { isBidirectional, isHeadless, isMasked, largestMagnitude, type Frame } from '../frame';
import type { OpenModel } from '../run/opened';
import { sequential, type Theme } from '../plot/color';
import { createHeatmap, type Heatmap } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { makeReadable, formatValue } from '../words';
import {
  alphaMap,
  addMasks,
  positionWords,
  positionStates,
  quantities,
  sentence,
  type Course,
} from './unmasking_course';
import { createJobDraw, createJobParts } from './job';
import { addElement, type View } from '../page/view';

interface UnmaskingRun {
  readonly course: Course;
  readonly data: Float32Array;
  readonly tokenizer: OpenModel['tokenizer'];
}

const HIDDEN_KEY_CHOICES = [
  ['none', 'hide no key'],
  ['strongest', 'strongest'],
  ['random', 'random'],
] as const;

const HIDDEN_KEY_WORDS = {
  strongest: 'the strongest key of each step hidden',
  random: 'a random key of each step hidden',
} as const;

const unmaskingRuns = new WeakMap<Frame['tokens'], UnmaskingRun>();

function stepSlider(step: number, count: number, onSelect: (step: number) => void) {
  const label = `step ${step + 1} of ${count}`;
  return html`<label class="range"
    ><span>${label}</span>
    <input
      type="range"
      min="0"
      max=${count - 1}
      .value=${live(String(step))}
      aria-label="Step of unmasking"
      aria-valuetext=${label}
      @input=${(event: Event) => onSelect(Number((event.target as HTMLInputElement).value))}
  /></label>`;
}

/** Draws what each position receives in each step, on a scale that the legend explains. */
function drawSteps(
  map: Heatmap,
  legend: HTMLElement,
  { course, data, tokenizer }: UnmaskingRun,
  theme: Theme,
  step: number,
): void {
  const T = course.tokens.length;
  const count = course.steps.length;
  const scale = sequential(theme, largestMagnitude([data]));
  drawLegend(legend, scale, ['mean α = 0', formatValue(scale.high, 3)]);
  map.draw({
    rows: course.count,
    cols: T,
    data,
    scale,
    rowTitle: 'step',
    colTitle: 'token',
    cellShape: Math.min((3 * course.count) / T, Math.max(1, course.count / T)),
    label: `Mean attention that ${T} tokens receive in ${count} steps of unmasking.`,
    chosen: { row: step, col: -1 },
    outlined: course.steps.map(({ sink }, row) => ({ row, col: sink.place })),
    describe: ({ row, col }) => {
      if (row < 0 || row >= count) return '';
      const position = col < 0 ? course.steps[row]!.sink.place : col;
      const alpha = formatValue(data[row * T + position]!, 3);
      const positionName = positionWords(course, row, position, tokenizer);
      return `step ${row + 1}, ${positionName}: mean α = ${alpha}${col < 0 ? ', the largest' : ''}`;
    },
  });
}

export const unmasking: View = {
  name: 'unmasking',
  title: 'Unmasking',
  question: 'Where does attention go while masked tokens are filled in?',
  how:
    'Positions after the text are masked. In each step the model fills in those it is ' +
    'most certain of. Row: step; column: token; color: mean attention it receives, ' +
    'outlined at the maximum. A step can hide its most attended key, or a random one, when it fills positions in.',
  source:
    'arXiv 2510.15731 reports that this maximum moves from step to step in large models, and that hiding it costs little',
  reads: ['alpha'],
  fits: (frame) => isBidirectional(frame) && !isHeadless(frame) && !frame.recording,
  conditions: (frame, { masked, hiddenKey }) =>
    isMasked(frame)
      ? {
          T: addMasks(frame, masked).length,
          sequences: 1,
          ...(hiddenKey === 'none'
            ? {}
            : { class: 'counterfactual', title: `${frame.title}, ${HIDDEN_KEY_WORDS[hiddenKey]}` }),
        }
      : {},
  numbers: (frame) => {
    const result = unmaskingRuns.get(frame.tokens);
    return result ? quantities(result.course, result.tokenizer) : [];
  },
  says: (frame) => {
    if (!isMasked(frame))
      return `The tokenizer of ${frame.model.title} names no mask token: nothing can be masked.`;
    const result = unmaskingRuns.get(frame.tokens);
    if (!result) return '';
    const { course, tokenizer } = result;
    const { steps, count } = course;
    return steps.length < count ? `Step ${steps.length} of ${count}.` : sentence(course, tokenizer);
  },
  draw(root, api) {
    const { controls, showJob } = createJobParts(root);
    const legend = addElement(root, 'legend-place');
    const plot = addElement(root, 'plot unmask-map');
    const textElement = addElement(root, 'unmask-text', 'p');
    let step = 0;
    let redraw = () => {};
    const selectStep = (chosenStep: number) => {
      step = chosenStep;
      redraw();
    };
    const map = createHeatmap(plot, { onChoose: ({ row }) => selectStep(row) });
    return createJobDraw(root, api, {
      results: unmaskingRuns,
      settings: ['masked', 'denoise', 'hiddenKey'],
      async run(frame, { masked, denoise, hiddenKey }, signal, onResult) {
        const tokens = addMasks(frame, masked);
        const maskedCount = tokens.filter(({ id }) => id === frame.maskToken).length;
        const count = Math.min(denoise, maskedCount);
        const keySetting = hiddenKey === 'none' ? {} : { without: hiddenKey };
        let course: Course = { frame, tokens, count, steps: [], ...keySetting };
        await api.measure(
          'unmasking',
          { frame, signal },
          {
            ...{ tokens: tokens.map(({ id }) => id), steps: count, ...keySetting },
            onStep: (unmaskStep, { tokenizer }) => {
              step = course.steps.length;
              course = { ...course, steps: [...course.steps, unmaskStep] };
              onResult({ course, data: alphaMap(course), tokenizer });
            },
          },
        );
      },
      draw(frame, options, job) {
        redraw = job.draw;
        const { state, theme } = options;
        const context = { state: { value: state }, set: api.set };
        const result = unmaskingRuns.get(frame.tokens);
        controls.hidden = !isMasked(frame);
        const count = result?.course.steps.length ?? 0;
        step = Math.max(0, Math.min(step, count - 1));
        showJob(job, 'Unmask', unmasking.says(frame, options.at), {
          settings: html`${numberField('masked positions', 'masked', context, frame.architecture.context - 1)}
          ${numberField('steps', 'denoise', context)}
          ${segmentedControl('hidden key', HIDDEN_KEY_CHOICES, state.hiddenKey, (hiddenKey) => api.set({ hiddenKey }))}
          ${count > 1 ? stepSlider(step, count, selectStep) : nothing}`,
        });
        for (const element of [legend, textElement, plot]) element.hidden = !result;
        if (!result) return;
        const { course, tokenizer } = result;
        drawSteps(map, legend, result, theme, step);
        render(
          positionStates(course, step, tokenizer).map(
            ({ text: tokenText, kind, isSink, title }) =>
              html`<span class="${kind} ${isSink ? 'is-sink' : ''}" title=${title}
                >${makeReadable(tokenText)}</span
              >`,
          ),
          textElement,
        );
      },
    });
  },
};
