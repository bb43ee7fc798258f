// @vitest-environment happy-dom
/**
 * The page says one thing about a head: on 300 texts and nine models, each sentence, label and headline is a claim that
 * is true of the drawn numbers, and no two claims on one screen contradict each other.
 */
import { existsSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { defaults } from '../src/ask/state';
import { answerOf } from '../src/answers';
import { canCount, claimOf, hasSink, rowToRead } from '../src/claims';
import { selectedHead, type Frame } from '../src/frame';
import { chapterCounts, chapterHeading, headingOf } from '../src/rooms/compared';
import { headSentence, leadSentence } from '../src/rooms/start';
import { rowWords as readingWords } from '../src/rooms/start_words';
import { sinkCountWords } from '../src/rooms/story';
import { row, rowAnswer, rowTitle, workOutRow } from '../src/rooms/worked_row';
import { numbersSentence } from '../src/rooms/training';
import { labelOf } from '../src/views/attention';
import { viewNamed } from '../src/views/index';
import { groupWords, outputNormsOf } from '../src/views/outputs';
import { findingWords, modelName, quote, verdictOf } from '../src/words';
import {
  CLAIMS,
  MODEL_CLAIMS,
  sinksOf,
  truthFrom,
  uniformOf,
  falseModelClaims,
  falseAnswer,
  type Truth,
} from './claim_table';
import { openPage, stubScreen } from './engine';
import { isBuilt, PATIENCE, UNBUILT } from './fixture';
import { texts } from './many_texts';

vi.mock('../src/plot/heatmap', async () => (await import('./drawn')).plots.heatmap);
vi.mock('../src/plot/chart', async () => (await import('./drawn')).plots.chart);

/** Models that differ in their operation or their heads; each reads every sixth text. */
const OTHERS = ['softmax1', 'sink-logit', 'softpick', 'elu1', 'relu', 'gated'];
const VIEWS = [
  ...['attention', 'sinks', 'heads', 'outputs', 'scores'].map((name) => viewNamed(name)),
  row,
];
const TEXTS_PER_TEST = 50;
/** A real model, which tests read if it is there. */
const REAL_MODEL = 'models/.fetched/SmolLM2-135M-Instruct.Q4_1.gguf';

let page: Awaited<ReturnType<typeof openPage>>;
beforeAll(async () => {
  stubScreen();
  if (isBuilt) page = await openPage();
}, PATIENCE.timeout);
afterAll(() => page?.close());

/** Whether two numbers are apart by a twentieth of the larger one, and by `least`. */
const areApart = (a: number, b: number, least = 0): boolean =>
  Math.abs(a - b) > least && Math.abs(a - b) > 0.05 * Math.max(a, b);

/** Returns 1 if the first token wins the last row, −1 if another does, 0 if two are alike. */
function firstAgainstOthers(frame: Frame): number {
  const { T } = frame;
  const row = Array.from(frame.head!.tensors.att!.data.subarray((T - 1) * T, T * T), Math.abs);
  const [most, second] = row.toSorted((a, b) => b - a) as [number, number];
  return areApart(most, second, 0.01) ? (row[0] === most ? 1 : -1) : 0;
}

/** Returns the lengths of what the shown head writes in the last row: with the first token, and with its weight shared. */
function lastOutputs({ head, tensors, T, architecture: { G, H } }: Frame): [number, number] {
  const { data, shape } = tensors.v!;
  const K = shape.at(-1)!;
  const group = (head!.layer * G + Math.floor((head!.head * G) / H)) * T * K;
  const weights = head!.tensors.att!.data.subarray((T - 1) * T, T * T);
  const lengthOf = (shares: readonly number[]) =>
    Math.hypot(
      ...Array.from({ length: K }, (_, k) =>
        shares.reduce((sum, share, t) => sum + share * data[group + t * K + k]!, 0),
      ),
    );
  const all = Array.from(weights);
  const rest = all.slice(1).reduce((a, b) => a + b, 0);
  return [all, all.map((weight, t) => (t ? weight / rest : 0))].map(lengthOf) as [number, number];
}

const indexOf = ({ head, architecture: { H } }: Frame): number => head!.layer * H + head!.head;

/** Returns the later token that gets most from a head, if it is a sink in eight rows and the first token is none. */
function laterOf({ raw, eps }: Truth, { tensors, T }: Frame, i: number) {
  const alphas = Array.from(tensors.alpha_raw!.data.subarray(i * T, (i + 1) * T));
  const later = alphas.slice(1, Math.max(1, T - 7));
  const most = Math.max(...later);
  if (uniformOf(T) > eps || raw[i]! > eps || !(most > eps)) return undefined;
  return {
    key: 1 + later.indexOf(most),
    most,
    isOnly: later.filter((alpha) => alpha > eps).length === 1,
  };
}

/** Returns what the shown head writes, divided by the mean of the other heads. */
function writtenRatio(frame: Frame): number {
  const { selectedNorm, othersMean } = outputNormsOf(frame, frame.head!);
  return selectedNorm / othersMean;
}

/** Claims of words, beside the claims with numbers: whether each is true of the drawn numbers. */
const WORDS: Readonly<
  Record<string, readonly [RegExp, (truth: Truth, frame: Frame, said?: string) => boolean]>
> = {
  'most heads': [
    /^(?:Most of the heads have|Most heads have a sink)/,
    (t) => sinksOf(t) > t.raw.length / 2,
  ],
  'some heads': [
    /^(?:Some of the heads have|Several heads have a sink|Half of the heads have)/,
    (t) => sinksOf(t) > 0 && sinksOf(t) <= t.raw.length / 2,
  ],
  'only one head': [/^Only one head has a sink/, (t) => sinksOf(t) === 1],
  'no head': [
    /^(?:None of the heads has a sink|No head has a sink)|so none has an attention sink/,
    (t) => !sinksOf(t),
  ],
  'a short text': [/^On so short a text an even spread/, ({ T, eps }) => uniformOf(T) > 0.9 * eps],
  'a sink at a later token': [
    /^\S+ of the \d+ heads (?:have|has) a sink only at a later token(?:, most in|:)/,
    (t, frame) => t.raw.some((_, i) => laterOf(t, frame, i)),
  ],
  'the sink of this head is later': [
    /^Its (?:strongest )?sink is at a later token: |; its (?:strongest )?sink is later: /,
    (t, frame) => Boolean(laterOf(t, frame, indexOf(frame))),
  ],
  'a strong remark': [/^◀ .* on average: a sink/, ({ shown, eps }) => shown.given > eps],
  'a weak remark': [
    /^◀ .*, not over/,
    ({ shown, eps }) => shown.given <= eps && shown.after > 0.05,
  ],
  'no strong first column': [
    /^◀ .*: no sink$/,
    ({ shown, eps }) => shown.strong < 0.4 * shown.rows && shown.given <= eps,
  ],
  'rows of exactly 100%': [
    /^Softmax makes each token spend exactly 100%/,
    ({ shown }) => shown.rowSums.every((sum) => Math.abs(sum - 1) < 1e-3),
  ],
  'raw weights': [/times 100%(?: on average|$|;)/, ({ shown }) => shown.rowSum > 1.5],
  'an empty remark': [/^almost empty/, ({ shown }) => shown.rowSum < 0.05],
  'heads with a sink write no less': [
    /^Here the red heads? writes? (?:more|about as much)/,
    (_, frame) => {
      const { sinkMean, noSinkMean } = outputNormsOf(frame, frame.head!);
      return sinkMean > noSinkMean || !areApart(sinkMean, noSinkMean);
    },
  ],
  'another token is a sink': [/another token is a sink/, (_, frame) => frame.T > 8],
  'the first token wins': [
    /^Why does the first token win\?|^This row must give all its attention away|gets the most attention/,
    (_, frame) => firstAgainstOthers(frame) > 0,
  ],
  'most of the row goes to the first token': [
    /most goes to/,
    ({ normalizes }, frame) =>
      normalizes && frame.head!.tensors.att!.data[(frame.T - 1) * frame.T]! > 0.5,
  ],
  'the head writes less with the first token': [
    /keeps what the head writes small|writes less than it would without it/,
    (_, frame) => {
      const [withFirst, without] = lastOutputs(frame);
      return withFirst < without && areApart(withFirst, without);
    },
  ],
  'the head writes less than half with the first token': [
    /keeps what the head writes small/,
    (_, frame) => {
      const [withFirst, without] = lastOutputs(frame);
      return withFirst < without / 2;
    },
  ],
  'another token wins': [
    /^Which token wins|gets more attention than/,
    (_, frame) => firstAgainstOthers(frame) < 0,
  ],
  'no token wins': [/ no token wins: /, (_, frame) => firstAgainstOthers(frame) === 0],
  'so many tokens are alike': [
    / no token wins: (?:(\d+) tokens|.* and )/,
    (_, { T, head }, count = '2') => {
      const row = Array.from(head!.tensors.att!.data.subarray((T - 1) * T, T * T), Math.abs);
      const most = Math.max(...row);
      return row.filter((weight) => !areApart(most, weight, 0.01)).length === Number(count);
    },
  ],
  'writes less than half': [
    /^This head writes less than half as much/,
    (_, frame) => writtenRatio(frame) < 0.5,
  ],
  'writes less': [
    /^This head writes less than the average/,
    (_, frame) => writtenRatio(frame) >= 0.5 && areApart(writtenRatio(frame), 1),
  ],
  'writes more': [
    /^This head writes more than the average/,
    (_, frame) => writtenRatio(frame) > 1 && areApart(writtenRatio(frame), 1),
  ],
  'writes as much': [
    /^This head writes about as much/,
    (_, frame) => !areApart(writtenRatio(frame), 1),
  ],
  'no token is a sink': [/^No token is a sink/, (t) => !sinksOf(t)],
  'no token but the first': [/^No token but/, (t) => sinksOf(t) > 0],
};

/** Pairs of claims that one screen must never make together. */
const CONTRADICTIONS: readonly (readonly [string, string])[] = [
  ...[
    'almost every token',
    'many tokens',
    'more than an even share',
    'a strong remark',
    'a weak remark',
    'most heads',
    'some heads',
    'how many heads',
  ].map((claim) => [claim, 'a text too short to tell'] as const),
  ...['most heads', 'some heads', 'only one head', 'how many heads'].map(
    (claim) => [claim, 'a text too short'] as const,
  ),
  ...['almost every token', 'many tokens', 'more than an even share'].flatMap((claim) => [
    [claim, 'no token singled out'] as const,
    [claim, 'an almost empty head'] as const,
    [claim, 'no strong first column'] as const,
    [claim, 'an empty remark'] as const,
  ]),
  ['almost every token', 'a weak remark'],
  ['no token singled out', 'a strong remark'],
  ['no token singled out', 'a weak remark'],
  ['no head', 'a strong remark'],
  ['the sink of this head is later', 'a strong remark'],
  ['the sink of this head is later', 'almost every token'],
  ['no head', 'most heads'],
  ['no head', 'some heads'],
  ['most heads', 'some heads'],
  ['the first token wins', 'another token wins'],
  ['the first token wins', 'no token wins'],
  ['another token wins', 'no token wins'],
  ['what goes to the token of its rows', 'no strong first column'],
  ['no token is a sink', 'most heads'],
  ['no token but the first', 'no head'],
];

/** Claims whose number is one number wherever a screen states it. */
const ONE_NUMBER = [
  ['the share of a head', 'a share in a label', 'the number inside a map'],
  ['the weight of a head', 'a weight in a label'],
  ['how many heads'],
  ['how many heads by shares'],
  ['the mean over heads'],
];

/** Sentences that define or explain, and claim nothing about this text. */
const DEFINITIONS = [
  /^A model has many heads, each with a map of its own/,
  /^A head that needs no other token must still spend it/,
  /^Attention weights of (?:a )?head/,
  /^This text has a single token/,
  /^It is the only head/,
  /^In a sigmoid model trained alike, (?:they|it) do(?:es)?(?: not|, too)/,
  /^The output of head/,
  /^The \d+ heads that give|^The head that gives/,
  /^(?:Red heads write|The red head writes)/,
  /^This text is too short to (?:tell|count)/,
  /^Sinks: k = |^No key has a sink|^Which keys/,
  /^Head L\d+H\d+ gives/,
  /^How do scores become attention\?/,
];

const sentencesOf = (text: string) =>
  text
    .split(/(?<=[.…])\s+(?=[A-Z◀])/)
    .map((one) => one.trim())
    .filter(Boolean);

/** Returns what Start, Explore and an embed say about one model: headline, caption, label, remark and notes. */
function screenOf(frame: Frame, state: { layer: number; head: number }): string[] {
  const at = selectedHead(frame, state);
  const claim = claimOf(frame, at);
  // The row that Start reads, and one that the reader may choose.
  const readings = [-1, frame.T >> 1].flatMap(
    (query) => rowToRead(frame, { normalize: 'no', query }) ?? [],
  );
  const choice = (name: string, question = 'where') =>
    ({ question: { name: question }, views: [viewNamed(name)] }) as never;
  const answers = ['attention', 'sinks', 'scores'].map((name) => {
    const answer = answerOf(choice(name), frame, at, {} as never);
    return answer === viewNamed(name).question ? '' : answer;
  });
  return [
    leadSentence([frame], [claim]),
    frame.T > 1 ? headSentence(claim, frame) : '',
    ...readings.map((row) => readingWords(frame, row).join(' ')),
    findingWords(frame, at),
    sinkCountWords(frame),
    labelOf(frame, at, defaults)?.text ?? '',
    viewNamed('attention').says(frame, at),
    viewNamed('sinks').says(frame, at),
    viewNamed('scores').says(frame, at),
    ...(frame.T > 1
      ? [viewNamed('outputs').says(frame, at), groupWords(outputNormsOf(frame, at))]
      : []),
    ...answers,
    ...rowWords(frame),
  ].flatMap(sentencesOf);
}

/** Returns the title and the answer of Start's worked row; none for a single token. */
function rowWords(frame: Frame): string[] {
  const workedRow = frame.T > 1 ? workOutRow(frame, frame.T - 1) : undefined;
  return workedRow ? [rowTitle(workedRow), rowAnswer(workedRow, frame)] : [];
}

/** Returns the cells of the picture: no query attends to a later token. */
function drawnCells({ head, T }: Frame): Float32Array {
  return Float32Array.from(head!.tensors.att!.data.subarray(0, T * T), (weight, i) =>
    i % T > i / T ? NaN : weight,
  );
}

/** Returns what is wrong on one screen: claims that are untrue, sentences that are no claims, and contradictions. */
function problemsOf(frame: Frame, state: { layer: number; head: number }): string[] {
  const at = selectedHead(frame, state);
  const truth = truthFrom(frame, at, drawnCells(frame));
  const sentences = [...new Set(screenOf(frame, state))];
  const made = new Map<string, Set<string>>();
  const problems = sentences.flatMap((sentence) => {
    const found = [
      ...Object.entries(CLAIMS).flatMap(([name, [pattern, holds]]) =>
        [...sentence.matchAll(pattern)].map(([, ...numbers]) => ({
          name,
          numbers,
          isTrue: holds(truth, ...numbers),
        })),
      ),
      ...Object.entries(WORDS).flatMap(([name, [pattern, holds]]) =>
        pattern.test(sentence)
          ? [{ name, numbers: [], isTrue: holds(truth, frame, pattern.exec(sentence)![1]) }]
          : [],
      ),
    ];
    for (const { name, numbers } of found)
      made.set(
        name,
        (made.get(name) ?? new Set()).add(String(numbers[0] ?? '').replace('None', 'none')),
      );
    const isKnown = found.length || DEFINITIONS.some((pattern) => pattern.test(sentence));
    return [
      ...(isKnown ? [] : [`no claim: ${sentence}`]),
      ...found.filter(({ isTrue }) => !isTrue).map(({ name }) => `untrue, ${name}: ${sentence}`),
    ];
  });
  for (const [a, b] of CONTRADICTIONS)
    if (made.has(a) && made.has(b)) problems.push(`“${a}” and “${b}” on one screen`);
  for (const names of ONE_NUMBER) {
    const numbers = new Set(names.flatMap((name) => [...(made.get(name) ?? [])]));
    if (numbers.size > 1) problems.push(`${names.join(', ')}: ${[...numbers].join(' and ')}`);
  }
  // One predicate for short texts: sentences, counts and the red bars.
  const { conclusive } = verdictOf(frame);
  if (canCount(frame) !== conclusive) problems.push('two predicates for short texts');
  // Where the shown head's sink is at a later token, the lead, Explore and the label say so.
  const later = laterOf(truth, frame, indexOf(frame));
  const place = later && `% on ${quote(frame, later.key)} at position ${later.key}`;
  const saysLater = sentences.filter((sentence) =>
    /sink is (?:later|at a later token)/.test(sentence),
  );
  // Only the label of rows that sum to 100% has always room for it.
  const sink = later?.isOnly ? 'sink' : 'strongest sink';
  const wanted = [
    `Its ${sink} is at a later token: `,
    ...(truth.normalizes ? [`; its ${sink} is later: `] : []),
  ];
  const isSaid = wanted.every((words) => saysLater.some((one) => one.includes(words)));
  if (place ? !isSaid || !saysLater.every((one) => one.includes(place)) : saysLater.length)
    problems.push(`a sink at ${place}: ${saysLater.join(' | ')}`);
  const bars = truth.raw.filter((weight) => hasSink(frame, weight)).length;
  if (bars !== (conclusive ? sinksOf(truth) : 0)) problems.push(`${bars} red bars`);
  return problems;
}

describe.skipIf(!isBuilt)(`one measure, one number (${UNBUILT})`, () => {
  const all = texts();
  const seen = new Set<string>();
  it('has 300 texts, all different', () => expect(new Set(all).size).toBe(300));

  it.each(Array.from({ length: all.length / TEXTS_PER_TEST }, (_, i) => i * TEXTS_PER_TEST))(
    'texts from %d on: every claim is true, and none contradicts another',
    // Fifty texts are read by three models: a busy machine takes a while.
    { timeout: 300_000 },
    async (from) => {
      const problems: string[] = [];
      for (const [i, prompt] of all.slice(from, from + TEXTS_PER_TEST).entries()) {
        // Every second text shows a head that the reader has selected.
        const state = i % 2 ? { layer: i % 6, head: i % 4 } : { layer: -1, head: -1 };
        const ids = ['softmax', 'sigmoid', OTHERS[i % OTHERS.length]!];
        const frames = await page.framesOf(ids, { prompt, ...state }, VIEWS);
        for (const frame of frames)
          problems.push(
            ...problemsOf(frame, state).map((what) => `${frame.subject} “${prompt}”: ${what}`),
          );
        const pair = frames.slice(0, 2);
        const truths = new Map(
          pair.map((frame) => [
            modelName(frame),
            truthFrom(frame, selectedHead(frame, state), drawnCells(frame)),
          ]),
        );
        // The softmax model is on one side, the two others on the other.
        const sides = [frames.slice(0, 1), frames.slice(1)].map((items, side) => {
          const all = items.map((frame) =>
            truthFrom(frame, selectedHead(frame, state), drawnCells(frame)),
          );
          const hasSlot = (i: number) =>
            ['softmax1', 'sink_logit'].includes(items[i]!.operation.name);
          return {
            ...{ where: `side ${side}`, items },
            counts: all.map(sinksOf),
            slots: all.map(({ sumsOfHeads, eps }, i) =>
              hasSlot(i) ? sumsOfHeads.filter((sum) => 1 - sum > eps).length : NaN,
            ),
          };
        });
        const places = ['at a', 'at b'] as const;
        if (verdictOf(frames[0]!).conclusive) {
          const answer = chapterHeading(sides, places);
          problems.push(
            ...falseAnswer(answer, chapterCounts(sides, places), sides, 24).map(
              (what) => `“${prompt}”: ${what}`,
            ),
          );
        }
        const heading = headingOf(pair, ['softmax', 'sigmoid']);
        for (const words of [heading, numbersSentence(pair)])
          problems.push(
            ...falseModelClaims(words, truths, seen).map((what) => `“${prompt}”: ${what}`),
          );
        if ((heading === 'What makes a sink?') !== !/ha(?:s|ve) a sink/.test(numbersSentence(pair)))
          problems.push(
            `“${prompt}”: Compare counts and Training does not, or the other way round`,
          );
      }
      expect(problems.slice(0, 40)).toEqual([]);
    },
  );

  it.skipIf(!existsSync(`${import.meta.dirname}/../../${REAL_MODEL}`))(
    'a real model of 270 heads: every claim is true (models/fetch/smollm2 fetches it)',
    { timeout: 10 * PATIENCE.timeout },
    async () => {
      const id = await page.openFile('SmolLM2-135M-Instruct.gguf', REAL_MODEL);
      const problems: string[] = [];
      for (const prompt of all.filter((_, i) => i % TEXTS_PER_TEST === 7)) {
        const [frame] = await page.framesOf([id], { prompt }, VIEWS);
        problems.push(
          ...problemsOf(frame!, { layer: -1, head: -1 }).map((what) => `“${prompt}”: ${what}`),
        );
      }
      expect(problems).toEqual([]);
    },
  );

  it('names only claims that exist, in the pairs that can contradict', () => {
    const names = Object.keys({ ...CLAIMS, ...MODEL_CLAIMS, ...WORDS });
    expect(CONTRADICTIONS.flat().filter((name) => !names.includes(name))).toEqual([]);
    expect(ONE_NUMBER.flat().filter((name) => !names.includes(name))).toEqual([]);
  });
});
