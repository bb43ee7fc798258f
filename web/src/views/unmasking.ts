/**
 * Lets a masked diffusion model generate text: positions after the text are masked, and the model fills them in step by
 * step. The map shows the column with the most attention in each step.
 */
import { html, nothing, render } from 'lit';
import { live } from 'lit/directives/live.js';
import { numberField, segmented } from '../page/controls';
import { isBidirectional, isMasked, largest, type Frame } from '../frame';
import type { OpenModel } from '../run/opened';
import { sequential } from '../plot/color';
import { createHeatmap } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import type { State } from '../ask/state';
import { readable, show } from '../words';
import {
  alphas,
  withMasks,
  positionWords,
  placesAt,
  quantities,
  sentence,
  type Course,
} from './unmasking_course';
import { createJob, jobParts, type Job } from './job';
import { addElement, type DrawOptions, type ViewApi, type View } from '../page/view';

/** A course of unmasking, the numbers of its map, and the tokenizer for its words. */
interface Made {
  readonly course: Course;
  readonly data: Float32Array;
  readonly tokenizer: OpenModel['tokenizer'];
}

const HIDES = [
  ['none', 'hide no key'],
  ['strongest', 'strongest'],
  ['random', 'random'],
] as const;

const HIDDEN_KEYS = {
  strongest: 'the strongest key of each step hidden',
  random: 'a random key of each step hidden',
} as const;

/** The last course for each frame, by the frame's tokens, which the sentence and files describe. */
const courses = new WeakMap<Frame['tokens'], Made>();

/** Runs a course of unmasking and reports each step. */
async function run(
  frame: Frame,
  state: State,
  api: ViewApi,
  signal: AbortSignal,
  onMade: (one: Made) => void,
): Promise<void> {
  const tokens = withMasks(frame, state.masked);
  const hidden = tokens.filter(({ id }) => id === frame.maskToken).length;
  const count = Math.min(state.denoise, hidden);
  const hides = state.hiddenKey === 'none' ? {} : { without: state.hiddenKey };
  let course: Course = { frame, tokens, count, steps: [], ...hides };
  const ids = tokens.map(({ id }) => id);
  await api.measure(
    'unmasking',
    { frame, signal },
    {
      ...{ tokens: ids, steps: count, ...hides },
      onStep: (step, { tokenizer }) => {
        course = { ...course, steps: [...course.steps, step] };
        onMade({ course, data: alphas(course), tokenizer });
      },
    },
  );
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
  fits: (frame) => isBidirectional(frame) && !frame.recording,
  conditions: (frame, { masked, hiddenKey }) =>
    isMasked(frame)
      ? {
          T: withMasks(frame, masked).length,
          ...(hiddenKey === 'none'
            ? {}
            : { class: 'counterfactual', title: `${frame.title}, ${HIDDEN_KEYS[hiddenKey]}` }),
        }
      : {},
  numbers: (frame) => {
    const current = courses.get(frame.tokens);
    return current ? quantities(current.course, current.tokenizer) : [];
  },
  says: (frame) => {
    if (!isMasked(frame))
      return `The tokenizer of ${frame.model.title} names no mask token: nothing can be masked.`;
    const current = courses.get(frame.tokens);
    if (!current) return '';
    const { course } = current;
    const isWhole = course.steps.length === course.count;
    return isWhole
      ? sentence(course, current.tokenizer)
      : `Step ${course.steps.length} of ${course.count}.`;
  },
  draw(root, api) {
    const { controls, showJob } = jobParts(root);
    const legend = addElement(root, 'legend-place');
    const picture = addElement(root, 'plot unmask-map');
    const text = addElement(root, 'unmask-text', 'p');
    let step = 0;
    let redraw = () => {};
    const go = (wanted: number) => {
      step = wanted;
      redraw();
    };
    const map = createHeatmap(picture, { onChoose: ({ row }) => go(row) });
    const slider = (count: number) => {
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
          @input=${(event: Event) => go(Number((event.target as HTMLInputElement).value))}
      /></label>`;
    };
    const draw = (frame: Frame, options: DrawOptions, job: Job) => {
      redraw = job.draw;
      const { state, theme } = options;
      const context = { state: { value: state }, set: api.set };
      const current = courses.get(frame.tokens);
      controls.hidden = !isMasked(frame);
      const count = current?.course.steps.length ?? 0;
      step = Math.max(0, Math.min(step, count - 1));
      showJob(job, 'Unmask', unmasking.says(frame, options.at), {
        settings: html`${numberField('masked positions', 'masked', context, frame.architecture.context - 1)}
        ${numberField('steps', 'denoise', context)}
        ${segmented('hidden key', HIDES, state.hiddenKey, (hiddenKey) => api.set({ hiddenKey }))}
        ${count > 1 ? slider(count) : nothing}`,
      });
      for (const place of [legend, text, picture]) place.hidden = !current;
      if (!current) return;
      const { course, data, tokenizer } = current;
      const T = course.tokens.length;
      const scale = sequential(theme, largest([data]));
      drawLegend(legend, scale, ['mean α = 0', show(scale.high, 3)]);
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
          const place = col < 0 ? course.steps[row]!.sink.place : col;
          const alpha = show(data[row * T + place]!, 3);
          const words = positionWords(course, row, place, tokenizer);
          return `step ${row + 1}, ${words}: mean α = ${alpha}${col < 0 ? ', the largest' : ''}`;
        },
      });
      render(
        placesAt(course, step, tokenizer).map(
          ({ text: own, kind, isSink, title }) =>
            html`<span class="${kind} ${isSink ? 'is-sink' : ''}" title=${title}
              >${readable(own)}</span
            >`,
        ),
        text,
      );
    };
    return createJob(root, api, {
      made: courses,
      settings: ['masked', 'denoise', 'hiddenKey'],
      run: (frame, state, signal, onMade) =>
        run(frame, state, api, signal, (one) => {
          step = one.course.steps.length - 1;
          onMade(one);
        }),
      draw,
    });
  },
};
