/**
 * The experiment Fragility: a repeated token, one channel, one weight, or the directions of the sink's tag, which it
 * adds to every token (arXiv 2502.00919). It shows how small a change moves a sink, and which architectures resist.
 */
import { html } from 'lit';
import { choiceField } from '../page/controls';
import { mean, sinkShare, superWeightOf, type Frame } from '../frame';
import { randomGenerator } from '../ask/question';
import type { State } from '../ask/state';
import { channels, peakOf } from '../views/channels';
import { likeness } from '../views/likeness';
import { perturbations } from '../views/perturbations';
import { costOf, editFields, isUnedited, worseWords, type Cost } from '../views/settings';
import { capitalize, firstName, formatPercent, modelName } from '../words';
import type { ExperimentRequest, Experiment, Finding, Group, Line, Setting } from './experiment';
import {
  baselineOf,
  bridgeWords,
  scaleWords,
  costLine,
  SINK_COLUMN,
  SINK_MEASURES,
  slider,
  startWords,
} from './parts';

const CONTROL_COUNT = 5;
const MEASURES = ['loss_mean', ...SINK_MEASURES, 'hidden_ratio', 'hidden_norm'];

/** Draws distinct indices below n, except `excluded`; the same seed draws the same indices. */
function drawControls(n: number, excluded: number, seed: number): number[] {
  const draw = randomGenerator(seed);
  const indices = new Set<number>();
  for (let tries = 0; tries < 1000 && indices.size < Math.min(CONTROL_COUNT, n - 1); tries++) {
    const index = Math.floor(draw() * n);
    if (index !== excluded) indices.add(index);
  }
  return [...indices];
}

/** Whether each head adds W_O times its output to the residual stream, without a norm or a gate in between. */
const addsHeadOutputs = ({ architecture: { norm_place, branch_norms, gate } }: Frame) =>
  norm_place !== 'post' && !branch_norms && gate !== 'output_element';

function planPerturbation({ state, question }: ExperimentRequest, detailFrame: Frame): Setting[] {
  const { D, F } = detailFrame.architecture;
  const settingsOf = (edits: readonly string[]) =>
    ['', ...edits].map((edit): Setting => ({ edits: edit, question, measures: MEASURES }));
  if (state.perturbation === 'channel') {
    const { channel, layer, token, value } = peakOf(detailFrame);
    // The first token is the same in all prompts, so its channel can be set to 0 or to its value in the first prompt.
    const firstTokenEdit = `~clamp_channel(${channel},${layer},${token}`;
    const fixedEdit = `${firstTokenEdit},to=value,value=${value.toFixed(2)})`;
    // With one prompt, setting the channel to its own value would change nothing.
    const firstTokenEdits = [`${firstTokenEdit})`, ...(question.n > 1 ? [fixedEdit] : [])];
    return settingsOf([
      `~clamp_channel(${channel})`,
      ...(token === 0 ? firstTokenEdits : []),
      ...drawControls(D!, channel, state.seed).map((control) => `~clamp_channel(${control})`),
    ]);
  }
  if (state.perturbation === 'tag') {
    const controls = Array.from(
      { length: CONTROL_COUNT },
      (_, i) => `~project(random,seed=${state.seed + i})`,
    );
    const { channel, token } = peakOf(detailFrame);
    // What the recorded texts erase.
    const erased = token === 0 ? [`~clamp_channel(${channel},token=0)`] : [];
    return settingsOf(addsHeadOutputs(detailFrame) ? ['~project', ...controls, ...erased] : []);
  }
  const candidate = superWeightOf(detailFrame);
  if (!candidate) return settingsOf([]);
  const { layer, row, column } = candidate;
  const editAt = (r: number, c: number) => `~scale_weight(down,${layer},${r},${c},0)`;
  const rows = drawControls(D!, row, state.seed);
  const columns = drawControls(F, column, state.seed + 1);
  // A narrow feed-forward layer may have fewer columns to draw than rows.
  const controls = rows.slice(0, columns.length).map((r, i) => editAt(r, columns[i]!));
  return settingsOf([editAt(row, column), ...controls]);
}

const isRepeated = ({ question }: Frame) => question.input === 'repeat';

/** States how many heads keep a sink where a word repeats, and where the start token does. */
function repeatFinding(groups: readonly Group[]): Finding {
  const [main] = groups.flatMap(({ frames }) => {
    const textFrame = frames.find((frame) => !isRepeated(frame));
    // A model without a start token can repeat only a word.
    const copies = frames.filter(
      (frame) => isRepeated(frame) && (!frame.question.repeatedToken || frame.first.length),
    );
    return textFrame && copies.length ? [{ textFrame, copies }] : [];
  });
  if (!main) return { heading: 'What if one token repeats?', text: '' };
  const { textFrame, copies } = main;
  const nameOf = ({ question }: Frame) =>
    question.repeatedToken ? firstName(textFrame) : 'a word';
  const shareWords = (frame: Frame) => formatPercent(sinkShare(frame), 0);
  const lossWords = ({ perPrompt }: Frame) => mean(perPrompt.loss_mean!).toFixed(1);
  const [word, last] = [copies[0]!, copies.at(-1)!];
  const lineOf = (title: string, isMatch: (frame: Frame) => boolean): Line => ({
    title,
    cellOf: (frames) => {
      const frame = frames.find(isMatch);
      return frame && formatPercent(sinkShare(frame));
    },
  });
  return {
    heading:
      `${last.T - 1} copies of ${nameOf(last)}: heads with a sink ${sinkShare(last) < sinkShare(textFrame) / 2 ? 'fall' : 'go'} ` +
      `from ${shareWords(textFrame)} to ${shareWords(last)}`,
    text:
      `${capitalize(`${startWords(textFrame)}with copies of a word`)}: ${shareWords(word)}. ` +
      `Loss: ${[...copies]
        .reverse()
        .map((frame) => `${lossWords(frame)} nats on copies of ${nameOf(frame)}, `)
        .join('')}` +
      `${lossWords(textFrame)} on text; a blind guess has ${Math.log(textFrame.architecture.V!).toFixed(1)}.`,
    lines: [
      lineOf('on text', (frame) => !isRepeated(frame)),
      ...copies.map((copy) =>
        lineOf(`on copies of ${nameOf(copy)}`, (frame) =>
          Boolean(
            isRepeated(frame) && frame.question.repeatedToken === copy.question.repeatedToken,
          ),
        ),
      ),
    ],
    linesCaption: 'heads with a sink',
  };
}

/**
 * States how many sinks removing the tag's directions from the stream leaves where random ones leave more; else whether it
 * raises the loss more than removing random ones.
 */
function tagWords({ baseline, isSpecial, sinkShares }: Effects) {
  const [before, own, random] = sinkShares;
  if (own! < before! / 2 && random! > before! / 2)
    return `Remove what heads write of ${firstName(baseline)} into later tokens, its tag: heads with a sink fall from ${formatPercent(before!, 0)} to ${formatPercent(own!, 0)}`;
  return isSpecial
    ? 'Later tokens use the directions of the tag'
    : 'The sink’s tag does not stand out from random directions';
}

/** Returns the rises of the loss by a perturbation and by its variants; undefined before they are measured. */
function effectsOf(frames: readonly Frame[], perturbation: Perturbation) {
  const baseline = baselineOf(frames);
  const perturbedFrames = frames.flatMap((frame) => {
    const fields = editFields(frame, PERTURBATIONS[perturbation].kind);
    return fields ? [{ frame, fields }] : [];
  });
  const [own, ...others] = perturbedFrames;
  if (!baseline || !own) return undefined;
  const costsOf = (some: typeof others) =>
    some.map(({ frame }) => costOf(frame, baseline)).sort((a, b) => b.mean - a.mean);
  const costsWhere = (isMatch: (fields: (typeof others)[number]['fields']) => boolean) =>
    costsOf(others.filter(({ fields }) => isMatch(fields)));
  const controlFrames = others.filter(({ fields: { token, direction } }) =>
    perturbation === 'tag' ? direction === 'random' : token === undefined,
  );
  const controls = costsOf(controlFrames);
  const [highestControl] = controls;
  if (!highestControl) return undefined;
  const ownCost = costOf(own.frame, baseline);
  return {
    ...{ baseline, ownCost, highestControl, controlCount: controls.length },
    atFirst: costsWhere(({ token, to }) => token !== undefined && to !== 'value')[0],
    erased: frames.find((frame) => {
      const fields = editFields(frame, 'clamp_channel');
      return fields?.token === 0 && fields.layer === undefined;
    }),
    fixed: costsWhere(({ to }) => to === 'value')[0],
    isSpecial: ownCost.mean > 0.02 && ownCost.mean > 3 * highestControl.mean,
    /** The shares of heads with a sink: unedited, perturbed, and the smallest of the random ones. */
    sinkShares: [
      ...[baseline, own.frame].map(sinkShare),
      Math.min(...controlFrames.map(({ frame }) => sinkShare(frame))),
    ],
  };
}

type Effects = NonNullable<ReturnType<typeof effectsOf>>;

/** Says whether erasing the first token's largest number breaks the sink, as in the recorded texts; '' if not measured. */
function erasedWords({ title, baseline, erased }: Effects & { readonly title: string }): string {
  if (!erased) return '';
  const [before, after] = [baseline, erased].map(sinkShare) as [number, number];
  const isSame = after < before / 2;
  return (
    `${bridgeWords(baseline, title, isSame)} Erase its largest number: ` +
    `${formatPercent(after, 0)} of heads have a sink, before ${formatPercent(before, 0)}.`
  );
}

function perturbationFinding(groups: readonly Group[], perturbation: Perturbation): Finding {
  const { clause, controlClause, noResultReason, heading } = PERTURBATIONS[perturbation];
  const results = groups.flatMap(({ title, frames }) => {
    const effects = effectsOf(frames, perturbation);
    return effects ? [{ title, ...effects }] : [];
  });
  const [main] = results;
  const isUnperturbed = groups.length > 0 && groups.every(({ frames }) => frames.every(isUnedited));
  if (!main)
    return {
      heading: `What does one ${perturbation} carry?`,
      text: isUnperturbed ? noResultReason : '',
    };
  const lineOf = (title: string, costIn: (effects: Effects) => Cost | undefined): Line[] =>
    results.some(costIn)
      ? [
          costLine(title, (frames) => {
            const effects = effectsOf(frames, perturbation);
            return effects && costIn(effects);
          }),
        ]
      : [];
  return {
    heading:
      perturbation === 'tag'
        ? tagWords(main)
        : main.isSpecial
          ? `One ${perturbation} does much more than random ones`
          : `One ${perturbation}: ${worseWords(main.ownCost.mean)}; random ones: at most ${worseWords(main.highestControl.mean)}`,
    bridge: erasedWords(main),
    text:
      `${capitalize(clause)}: ${modelName(main)} predicts ${worseWords(main.ownCost.mean)}; ` +
      `${controlClause(main.controlCount)}: at most ${worseWords(main.highestControl.mean)}. ${scaleWords(main.baseline)}`,
    lines: [
      ...lineOf(heading, ({ ownCost }) => ownCost),
      ...lineOf('the same at the first token alone', ({ atFirst }) => atFirst),
      ...lineOf('fixed to its value in the first prompt', ({ fixed }) => fixed),
      ...lineOf('random ones, at most', ({ highestControl }) => highestControl),
    ],
  };
}

type Perturbation = Exclude<State['perturbation'], 'repeat'>;

const zeroedWords = (count: number) => `zeroing one of ${count} random ones`;

/** The kind of edit of each perturbation, and the parts of its sentences. */
const PERTURBATIONS = {
  channel: {
    kind: 'clamp_channel',
    heading: 'the largest channel zeroed',
    clause: 'zeroing the channel with the largest activation',
    controlClause: zeroedWords,
    noResultReason: '',
  },
  weight: {
    kind: 'scale_weight',
    heading: 'the weight that writes it zeroed',
    clause: 'zeroing the weight that writes the largest activation',
    controlClause: zeroedWords,
    noResultReason: 'None of these models sends all tokens through the same feed-forward layer.',
  },
  tag: {
    kind: 'project',
    heading: 'without the tag',
    clause: 'without the tag',
    controlClause: (count: number) => `random directions, drawn ${count} times`,
    noResultReason:
      'None of these models adds the output of its heads to the stream as W_O makes it.',
  },
} as const satisfies Record<Perturbation, unknown>;

const CHOICES = [
  ['repeat', 'repeat a token'],
  ['tag', 'remove what heads write of the first token'],
  ['weight', 'zero one weight'],
  ['channel', 'zero one number of each token (channel)'],
] as const;

const repeatOf = ({ repeats }: State) => ({ input: 'repeat' as const, T: repeats + 1 });

export const fragility: Experiment = {
  name: 'fragility',
  title: 'Break the sink?',
  view: likeness,
  viewOf: ({ perturbation }) => (perturbation === 'repeat' ? likeness : perturbations),
  planView: channels,
  pairOf: (request, frame) => {
    const [, perturbed] =
      frame && request.state.perturbation !== 'repeat' ? planPerturbation(request, frame) : [];
    return [perturbed?.edits ?? '', ''];
  },
  mapQuestionOf: ({ state, question }) =>
    state.perturbation === 'repeat' && question.first !== 'none'
      ? { ...question, ...repeatOf(state), repeatedToken: 'first' }
      : question,
  embedStateOf: (state) => (state.perturbation === 'repeat' ? repeatOf(state) : {}),
  plan: (request, frame) => {
    const { state, question } = request;
    if (state.perturbation !== 'repeat') return frame ? planPerturbation(request, frame) : [];
    const repeatedQuestion = { ...question, ...repeatOf(state) };
    const hasStartToken = question.first !== 'none';
    const questions = [
      question,
      repeatedQuestion,
      ...(hasStartToken ? [{ ...repeatedQuestion, repeatedToken: 'first' as const }] : []),
    ];
    return questions.map((question) => ({ edits: '', question, measures: MEASURES }));
  },
  leadCount: 9,
  says: (groups, state) =>
    state.perturbation === 'repeat'
      ? repeatFinding(groups)
      : perturbationFinding(groups, state.perturbation),
  caption: 'Loss and sink by perturbation',
  columnsOf: () => [
    SINK_COLUMN,
    {
      name: 'max ‖h₁‖ / ‖h‖',
      valueOfFrame: ({ tensors }) =>
        tensors.hidden_ratio && Math.max(...tensors.hidden_ratio.data).toFixed(1),
    },
  ],
  controls: (context) => {
    const { state, set } = context;
    const { perturbation, length } = state.value;
    return [
      html`${perturbation === 'repeat' ? slider('repetitions', 'repeats', [2, Math.max(127, length)], context) : ''}`,
      choiceField('break it', perturbation, CHOICES, (value) =>
        set({ perturbation: value as State['perturbation'] }),
      ),
    ];
  },
  reported: ({ perturbation }) =>
    perturbation === 'channel'
      ? 'Gates and a sink logit protect: the worst of 128 channels zeroed costs +0.91 nats with a key bias, whose sink is ' +
        'the bias key, +0.40 with softmax, +0.22 with sigmoid, +0.13 with gates, +0.10 with a sink logit (24 passages, T = 64)'
      : perturbation === 'repeat'
        ? 'In large models long repetitions of any word disrupt the sink, and they drift into unrelated text (Yona et al. 2025)'
        : '',
};
