// @vitest-environment happy-dom
/**
 * The page's claims agree with its pictures: on forty texts and five kinds of subjects, the test reads claims and
 * numbers from the sentences of rooms and views and compares them with the cells of the pictures.
 */
import { render } from 'lit';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { labConfig, labTokenizer, openTokenizer } from 'sinkscope';
import { selectedHead, type Frame, type Head } from '../src/frame';
import { hasNumbersOf } from '../src/page/view';
import { build as compare } from '../src/rooms/compare';
import { build as explore } from '../src/rooms/explore';
import { build as figure } from '../src/rooms/figure';
import { headSentence, leadSentence } from '../src/rooms/start';
import { rowWords } from '../src/rooms/start_words';
import { drawStrips, row } from '../src/rooms/worked_row';
import { readsOf, tableOf } from '../src/rooms/metrics';
import { build as training } from '../src/rooms/training';
import { findingWords, modelName, rowsWords } from '../src/words';
import { claimOf, rowToRead } from '../src/claims';
import { labelOf } from '../src/views/attention';
import { viewNamed, views } from '../src/views/index';
import { chartsIn, drawView, forgetPlots, mapsIn } from './drawn';
import { bytesOf, openPage, stubScreen } from './engine';
import { isBuilt, UNBUILT } from './fixture';
import { roomOf } from './page';
import {
  CLAIMS,
  falseClaims,
  falseModelClaims,
  MODEL_CLAIMS,
  truthFrom,
  uniformOf,
  type Truth,
} from './claim_table';
import { isWritten, mean, TEXTS } from './said';

vi.mock('../src/plot/heatmap', async () => (await import('./drawn')).plots.heatmap);
vi.mock('../src/plot/chart', async () => (await import('./drawn')).plots.chart);

let page: Awaited<ReturnType<typeof openPage>>;
const subjects: Record<'softmax' | 'sigmoid' | 'gpt2' | 'lab' | 'recording', string> = {
  ...{ softmax: 'softmax', sigmoid: 'sigmoid', gpt2: '', lab: '', recording: '' },
};

/** Opens a GPT-2 of random weights, with a shortened tokenizer of GPT-2. */
async function openGpt2(): Promise<string> {
  const config = labConfig({ layers: 2, heads: 4, width: 32, context: 128, vocabulary: 1257 });
  const training = await page.engine.train({ config, recipe: { seed: 3 } });
  const weights = await training.weights();
  await training.close();
  const text = (name: string) =>
    new TextDecoder().decode(bytesOf(`tests/golden/tokenizers/gpt2/${name}`));
  const model = {
    ...{ type: 'BPE', vocab: JSON.parse(text('vocab.json')) as object },
    merges: text('merges.txt')
      .split('\n')
      .filter((line) => line && !line.startsWith('#')),
  };
  const bytes = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
  const json = { added_tokens: [], pre_tokenizer: bytes, decoder: bytes, model };
  return page.openModel(
    'gpt2',
    training.config,
    weights,
    openTokenizer(JSON.stringify(json), '{}'),
  );
}

async function openTrained(): Promise<string> {
  const config = labConfig({ layers: 1, heads: 4, width: 32, context: 128 });
  const training = await page.engine.train({ config, recipe: { seed: 5, steps: 20, length: 16 } });
  for await (const _ of training.run(20)) void _;
  const weights = await training.weights();
  await training.close();
  const { tokenizer, tokenizerConfig } = labTokenizer();
  return page.openModel('lab', config, weights, openTokenizer(tokenizer, tokenizerConfig));
}

beforeAll(async () => {
  stubScreen();
  if (!isBuilt) return;
  page = await openPage();
  const timelines = { steps: async () => [4000], cards: [] };
  vi.spyOn(page.models, 'timelines').mockResolvedValue(timelines as never);
  subjects.gpt2 = await openGpt2();
  subjects.lab = await openTrained();
  const file = bytesOf('tests/golden/recordings/many.safetensors');
  subjects.recording = await page.openRecording('many', file);
}, 60_000);
afterAll(() => page?.close());

/** Columns of Compare's table, computed from the cells of the maps and the losses of the tokens. */
const COLUMNS: Readonly<Record<string, (truth: Truth, frame: Frame) => number>> = {
  'Sink₁': ({ raw, eps }) => mean(raw.map((weight) => Number(weight > eps))),
  loss: (_, { tensors }) => mean(Array.from(tensors.loss_at!.data).filter(Number.isFinite)),
  'largest α₁': ({ raw }) => Math.max(...raw),
};

function wrongCells(root: Element, truths: readonly Truth[], frames: readonly Frame[]): string[] {
  const [head, ...rows] = [...root.querySelectorAll('.table-of-all tr')].map((row) =>
    [...row.children].map((cell) => cell.textContent!.trim().replace(/\s+/g, ' ')),
  );
  const body = rows.filter(([name]) => frames.some(({ title }) => name!.startsWith(title)));
  expect(body).toHaveLength(frames.length);
  return body.flatMap((row) => {
    const i = frames.findIndex(({ title }) => row[0]!.startsWith(title));
    return Object.entries(COLUMNS).flatMap(([name, valueOf]) => {
      const at = head!.findIndex((one) => one.replace(/[^\w₁α ]/g, '').trim() === name);
      const [cellText = ''] = row[at]?.split(' ') ?? [];
      const [, digits, sign] = /^(<?-?[\d.]+)(%?)/.exec(cellText) ?? [];
      const value = valueOf(truths[i]!, frames[i]!);
      const isRight = digits ? isWritten(digits, value, sign ? 100 : 1) : Number.isNaN(value);
      return isRight ? [] : [`${row[0]}, ${name}: ${cellText}, not ${value}`];
    });
  });
}

/**
 * Returns the numbers and claims of a worked row that differ from those of the drawn map, the scores and the values.
 */
function wrongInRow(frame: Frame, query: number, cells: ArrayLike<number>): string[] {
  const { T, head, tensors, architecture, operation } = frame;
  const { all, text } = drawView(row, frame, { query });
  if (T < 2) return text('table') ? ['a row of a single token'] : [];
  const at = query * T;
  const { H, G } = architecture;
  const K = tensors.v!.shape[3]!;
  const from = (head!.layer * G + Math.floor(head!.head / (H / G))) * T * K;
  const valueOf = (key: number) =>
    Array.from(tensors.v!.data.subarray(from + key * K, from + (key + 1) * K));
  const logitOf = (share: number) => Math.log(share / (1 - share));
  const keys = Array.from({ length: query + 1 }, (_, key) => ({
    key,
    // The number whose sigmoid is the weight.
    score:
      operation.name === 'sigmoid'
        ? logitOf(cells[at + key]!)
        : head!.tensors.scores!.data[at + key]!,
    weight: cells[at + key]!,
    value: valueOf(key),
  }));
  const sumOf = (someKeys: typeof keys, weightOf: (one: (typeof someKeys)[number]) => number) =>
    Math.hypot(
      ...Array.from({ length: K }, (_, i) =>
        someKeys.reduce((sum, one) => sum + weightOf(one) * one.value[i]!, 0),
      ),
    );
  const [first, ...others] = keys;
  others.sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight));
  const lines = [first!, ...others.slice(0, others.length === 4 ? 4 : 3)].map((one) => [
    one.score,
    one.weight,
    Math.hypot(...one.value),
    Math.hypot(...one.value) * Math.abs(one.weight),
  ]);
  const differences: string[] = [];
  const check = (what: string, text: string, value: number, scale = 1) => {
    const number = text.replace(/%$|∞/, '');
    if (!isWritten(number, value, text.endsWith('%') ? 100 : scale))
      differences.push(`${what}: ${text}, not ${value}`);
  };
  lines.forEach((values, i) => {
    const cellTexts = [...all('tbody tr')[i]!.querySelectorAll('td')].map((element) =>
      element.textContent!.trim(),
    );
    values.forEach((value, n) => check(`line ${i}, column ${n}`, cellTexts[n]!, value));
  });
  const footTexts = all('tfoot td').map((element) => element.textContent!.trim());
  const sum = keys.reduce((before, { weight }) => before + weight, 0);
  const output = sumOf(keys, ({ weight }) => weight);
  check('sum', footTexts[1]!, sum);
  check('output', footTexts[3]!, output);
  const strips = document.createElement('div');
  render(drawStrips([frame], query), strips);
  // The second strip is softmax of the same scores, without the first one.
  const expSum = others.reduce((before, { score }) => before + Math.exp(score), 0);
  const shareOf = ({ score }: { score: number }) => Math.exp(score) / expSum;
  const weights = (some: typeof keys) =>
    some.reduce((total, { weight }) => total + Math.abs(weight), 0);
  const truths = [
    [weights([first!]), weights(others), output],
    [0, 1, sumOf(others, shareOf)],
  ] as const;
  // Without the first token the row is drawn only where that has a part which a reader sees.
  const isShared = operation.name === 'softmax' && others.length && weights([first!]) >= 0.05;
  const stripLines = [...strips.querySelectorAll('tr')].slice(1);
  if (stripLines.length !== (isShared ? 2 : 1)) differences.push(`${stripLines.length} strips`);
  stripLines.forEach((line, i) => {
    const [firstShare, otherShare, length] = truths[i]!;
    // The frame is 100% wide: a row that sums to more is cut there.
    const parts = [...line.querySelectorAll<HTMLElement>('i')].map((part) => ({
      isFirst: part.className === 'given',
      share: Number(/[\d.e-]+(?=%)/.exec(part.getAttribute('style')!)![0]) / 100,
    }));
    const drawnFirst = Math.min(1, firstShare);
    for (const [isFirst, share] of [
      [true, drawnFirst],
      [false, Math.min(1 - drawnFirst, otherShare)],
    ] as const) {
      const drawn = parts.filter((part) => part.isFirst === isFirst);
      const total = drawn.reduce((sum, part) => sum + part.share, 0);
      if (Math.abs(total - share) > 1e-5) differences.push(`strip: ${total}, not ${share}`);
    }
    // Every part is named, with its share, in the order of the strip. What is written sums to what the row sums to.
    const words = line.querySelector('.parts')!.textContent!;
    const written = [...words.matchAll(/([<>]?)([\d.]+)% (?:on|unused)/g)].map(
      ([, bound, share]) => ({ bound, share: Number(share), unit: share!.includes('.') ? 0.1 : 1 }),
    );
    if (written.length !== parts.length + Number(words.includes('unused')))
      differences.push(`${words}: ${parts.length} parts`);
    const isWhole = firstShare + otherShare <= 1.0005;
    parts.forEach(({ share }, n) => {
      const { bound, share: number, unit } = written[n]!;
      const isRight = bound
        ? (bound === '<') === 100 * share < number
        : Math.abs(100 * share - number) < unit + 1e-4;
      if (isWhole && !isRight) differences.push(`${words}: ${number}, not ${share}`);
    });
    // A number that is a bound is written as 0 or as all of it.
    const sumWritten = written.reduce(
      (total, { bound, share, unit }) =>
        total + (bound === '<' ? 0 : bound === '>' ? share + unit : share),
      0,
    );
    const all = words.includes('unused') ? 100 : 100 * (firstShare + otherShare);
    if (Math.abs(sumWritten - all) > 0.51 * Math.max(...written.map(({ unit }) => unit)))
      differences.push(`${words}: ${sumWritten} in all, not ${all}`);
    check('writes', line.querySelector('.bar')!.textContent!.trim(), length);
  });
  const answer = row.says(frame, head!, { query } as never);
  const inPicture = strips.textContent!;
  for (const [, token] of answer.matchAll(/“(.*?)”/g))
    if (!inPicture.includes(`on “${token}”`)) differences.push(`${token} is not in the strips`);
  const sentence = row.says(frame, head!, { query } as never);
  const isTop = others.every(({ weight }) => Math.abs(first!.weight) > Math.abs(weight));
  const claims = {
    'gets the most attention': isTop,
    'most goes to': first!.weight > 0.5 && operation.normalizes,
    'gets more attention than': !isTop,
    'small value':
      Math.hypot(...first!.value) < mean(others.map(({ value }) => Math.hypot(...value))) / 2,
  };
  for (const [claim, isTrue] of Object.entries(claims))
    if (sentence.includes(claim) && !isTrue) differences.push(claim);
  return differences;
}

const paragraphs = (root: Element) =>
  [...root.querySelectorAll('p')].map((paragraph) => paragraph.textContent!.replace(/\s+/g, ' '));
const mapsLabeled = (root: Element, start: RegExp) =>
  mapsIn(root).filter(({ data }) => start.test(data.label));
const free = { layer: -1, head: -1 };
const ATTENTION = /^Attention weights of head/;

const READ_VIEWS = [...['attention', 'sinks', 'heads'].map((name) => viewNamed(name)), row];
/** The number of texts in one test, few enough for its time limit on a busy machine. */
const TEXTS_PER_TEST = 8;
const parts = Array.from({ length: TEXTS.length / TEXTS_PER_TEST }, (_, i) =>
  TEXTS.slice(i * TEXTS_PER_TEST, (i + 1) * TEXTS_PER_TEST),
);

describe.skipIf(!isBuilt)(`claims on forty texts (${UNBUILT})`, () => {
  const seenClaims = new Set<string>();

  it.each(parts)(
    'Start, Explore, Compare and Training claim what their maps show: %s ...',
    async (...texts) => {
      const problems: string[] = [];
      const columns = tableOf(page.models.describe).filter(({ isRare }) => !isRare);
      const table = ['loss_at', ...readsOf(columns)];
      for (const [n, [prompt, change]] of texts.entries()) {
        // Alternates between the head that the page shows and another.
        const at = n % 2 ? { layer: n % 6, head: n % 4 } : free;
        const state = { prompt, ...at, ...change };
        const frames = await page.framesOf(
          [subjects.softmax, subjects.sigmoid],
          state,
          READ_VIEWS,
          table,
        );
        for (const [i, frame] of frames.entries()) {
          forgetPlots();
          const room = roomOf(explore, page.pageOf({ ...state, at: i }, frames));
          const [map] = mapsLabeled(room.root, ATTENTION);
          const head = selectedHead(frame, at);
          const truth = truthFrom(frame, head, map!.data.data);
          const claim = claimOf(frame, head, room.state.value);
          const read = rowToRead(frame, { ...room.state.value, query: n - 20 }, frames[0]);
          const sentences = [
            ...paragraphs(room.root),
            map!.data.label,
            findingWords(frame, head),
            leadSentence([frame], [claim]),
            rowsWords(claim),
            headSentence(claim, frame),
            ...(read ? [rowWords(frame, read).join(' ')] : []),
            labelOf(frame, head, room.state.value)?.text ?? '',
          ];
          for (const one of new Set(sentences))
            problems.push(
              ...falseClaims(one, truth, seenClaims).map((what) => `“${prompt}”: ${what}`),
            );
          room.scope.end();
          const query = Math.max(1, (7 * n) % frame.T);
          const { att } = frame.head!.tensors;
          problems.push(
            ...wrongInRow(frame, query, att!.data).map((what) => `row of “${prompt}”: ${what}`),
          );
        }
        const note = (what: string) => problems.push(`“${prompt}”: ${what}`);
        const heads = frames.map((frame) => selectedHead(frame, at));
        for (const build of [compare, training]) {
          // Without its list of models, Compare counts the heads of the shown ones alone.
          const hide = build === compare ? (['subjects'] as const) : [];
          forgetPlots();
          const room = roomOf(build, page.pageOf({ ...state, panel: 'numbers', hide }, frames));
          // Training draws its maps once its steps are listed.
          await vi.waitUntil(() => mapsLabeled(room.root, ATTENTION).length === 2);
          const drawnMaps = mapsLabeled(room.root, ATTENTION);
          const truths = frames.map((frame, i) =>
            truthFrom(frame, heads[i]!, drawnMaps[i]!.data.data),
          );
          const truthByTitle = new Map(frames.map((frame, i) => [modelName(frame), truths[i]!]));
          const headings = [
            ...room.root.querySelectorAll('h1, .lead, .reason, [data-finding]'),
          ].map((element) => element.textContent!);
          headings.flatMap((one) => falseModelClaims(one, truthByTitle, seenClaims)).forEach(note);
          drawnMaps.forEach(({ data: { label, remark } }, i) => {
            const card = room.root.querySelectorAll('.cards .cell-head')[i]?.textContent ?? '';
            for (const one of [label, remark?.text ?? '', card.trim()])
              falseClaims(one, truths[i]!, seenClaims).forEach(note);
          });
          mapsLabeled(room.root, /^α₁ by layer/).forEach(({ data }, i) => {
            const wrongHead = truths[i]!.raw.findIndex(
              (weight, n) => Math.abs(weight - data.data[n]!) > 1e-5,
            );
            if (wrongHead >= 0) note(`sink map of ${frames[i]!.title}: head ${wrongHead}`);
            falseClaims(data.label.replace(/.*: /, ''), truths[i]!, seenClaims).forEach(note);
          });
          if (build === compare) wrongCells(room.root, truths, frames).forEach(note);
          room.scope.end();
        }
      }
      expect(problems).toEqual([]);
    },
  );

  it('the caption of a map describes the shown head while another head is read', async () => {
    const state = { prompt: TEXTS[0]![0], layer: 3, head: 3 };
    const [frame] = await page.framesOf([subjects.softmax], state, READ_VIEWS);
    forgetPlots();
    const room = roomOf(explore, page.pageOf({ ...state, layer: 2, head: 1 }, [frame!]));
    const [map] = mapsLabeled(room.root, ATTENTION);
    expect(map!.data.label).toMatch(/^Attention weights of head L3H3 /);
    const head = { layer: 3, head: 3 };
    const truth = truthFrom(frame!, head, map!.data.data);
    expect(falseClaims(map!.data.label, truth, new Set())).toEqual([]);
    room.scope.end();
  });

  it.each([2, 3])(
    'the label of a map whose rows sum to far more than 100% says how far its scale goes: head %d',
    async (n) => {
      const head = { layer: 0, head: n };
      const state = { prompt: TEXTS[0]![0], ...head };
      const [frame] = await page.framesOf(['elu1'], state, READ_VIEWS);
      const room = roomOf(explore, page.pageOf(state, [frame!]));
      const { data, scale } = mapsLabeled(room.root, ATTENTION)[0]!.data;
      const label = labelOf(frame!, head, room.state.value)!.text;
      expect(falseClaims(label, truthFrom(frame!, head, data), seenClaims)).toEqual([]);
      expect(scale.high).toBe(Math.max(...Array.from(data).filter(Number.isFinite)));
      room.scope.end();
    },
  );

  it('the label of a map few of whose rows sum to far more than 100% says so, and what the first token gets', async () => {
    const state = { prompt: '昨天晚上下了大雨，今天早上路上都是水。', first: 'none' as const };
    const [frame] = await page.framesOf(['sigmoid'], state, READ_VIEWS);
    const room = roomOf(explore, page.pageOf(state, [frame!]));
    const { data } = mapsLabeled(room.root, ATTENTION)[0]!.data;
    const label = labelOf(frame!, frame!.head!, room.state.value)!.text;
    expect(falseClaims(label, truthFrom(frame!, frame!.head!, data), seenClaims)).toEqual([]);
    expect(label).toMatch(/^◀ .* on average, not singled out; half the rows sum to <\d+%, /);
    room.scope.end();
  });

  it('the label of a map of shares says whether the head has a sink by weight, which is what is counted', async () => {
    for (const id of ['relu', 'elu1']) {
      const state = { prompt: TEXTS[0]![0], normalize: 'yes' as const };
      const [frame] = await page.framesOf([id], state, READ_VIEWS);
      const room = roomOf(explore, page.pageOf(state, [frame!]));
      const { head } = frame!;
      const { data } = mapsLabeled(room.root, ATTENTION)[0]!.data;
      const label = labelOf(frame!, head!, room.state.value)!.text;
      expect(falseClaims(label, truthFrom(frame!, head!, data), seenClaims)).toEqual([]);
      expect(label).not.toMatch(/on average: a sink/);
      room.scope.end();
    }
  });

  it('the samples contain every kind of claim', () => {
    expect([...seenClaims].sort()).toEqual(Object.keys({ ...CLAIMS, ...MODEL_CLAIMS }).sort());
  });
});

/**
 * Returns the numbers of a picture that a sentence may state: the first value of the picture, of each row and of each
 * column, and the mean and the extremes with and without this value.
 */
function statableNumbers(data: ArrayLike<number>, width: number): number[] {
  const all = Array.from(data);
  const numbers: number[] = all.length <= 64 ? [...all] : [];
  const note = (values: readonly number[]) => {
    const defined = values.filter(Number.isFinite);
    if (!defined.length) return;
    const others = defined.slice(1);
    numbers.push(mean(defined), Math.min(...defined), Math.max(...defined), defined[0]!);
    if (others.length) numbers.push(mean(others), Math.min(...others), Math.max(...others));
  };
  note(all);
  for (let at = 0; at < all.length; at += width) note(all.slice(at, at + width));
  for (let k = 0; k < width && all.length > width; k++) note(all.filter((_, i) => i % width === k));
  return numbers;
}

/**
 * Returns numbers that a sentence may state besides those of the picture: a threshold of the text, or a relation of two
 * numbers of the picture.
 */
function derivedNumbers(found: readonly number[], { eps, tensors, T }: Frame): number[] {
  const distinct = [...new Set(found.filter(Number.isFinite).map((x) => Number(x.toPrecision(7))))];
  const operands = distinct.length <= 80 ? distinct : [];
  return [
    ...distinct,
    ...operands.flatMap((a) => operands.flatMap((b) => [a - b, a / b])),
    ...[eps, 0.1, 0.2, 0.3, 0.5, 0.002, 0.01, uniformOf(T)],
    ...(tensors.loss_mean
      ? [tensors.loss_mean.data[0]!, Math.exp(tensors.loss_mean.data[0]!)]
      : []),
  ];
}

const NUMBER = /(?<![\w.“])(<?)([-−+]?\d+\.\d+(?:e[-−+]?\d+)?)(%?)/g;

/** Returns the numbers with a decimal point that are not in `known`. */
function unfoundedNumbers(said: string, known: readonly number[]): string[] {
  return [...said.matchAll(NUMBER)].flatMap(([whole, bound, text, sign]) => {
    const number = Number(text!.replaceAll('−', '-').replace('+', ''));
    const [lead] = text!.split('e');
    const digits = lead!.split('.')[1]!.length;
    const power = Number(/e(.*)/.exec(text!)?.[1]?.replace('−', '-') ?? 0);
    const half = 0.5001 * 10 ** (power - digits);
    const scale = sign ? 100 : 1;
    const isFound = bound
      ? known.some((x) => x > 0 && x * scale < number)
      : known.some((x) => Math.abs(Math.abs(x * scale) - Math.abs(number)) <= half + 1e-6);
    return isFound ? [] : [whole!];
  });
}

/** For each view, the numbers that it derives from its picture, computed here a second time. */
const VIEW_NUMBERS: Readonly<Record<string, (frame: Frame, at: Head) => number[]>> = {
  sinks: ({ tensors, architecture: { L, H } }) =>
    [tensors.sink_ratio!, tensors.sink_ratio_raw!].map(({ data }) => data[0]! * L * H),
  // Means over heads with a sink, over the others, and over all, and the uniform share.
  diagonal: ({ T, eps, tensors, architecture: { L, H } }) => {
    const all = Array.from({ length: L * H }, (_, i) => i);
    const isSink = (i: number) => tensors.alpha_raw!.data[i * T]! > Math.fround(eps);
    const groups = [all, all.filter(isSink), all.filter((i) => !isSink(i))];
    return [
      ...groups.map((group) => mean(group.map((i) => tensors.diagonal!.data[3 * i]!))),
      ...groups.map((group) => mean(group.map((i) => tensors.stable_rank!.data[i]!))),
      mean(Array.from({ length: T }, (_, t) => 1 / (t + 1))),
    ];
  },
  // The mean cosine with the first key and that with the others, over the keys that queries after the first one see.
  geometry: ({ T, head }) => {
    const cosines = head!.tensors.qk_cos!.data;
    const all = Array.from({ length: T * T }, (_, i) => i);
    const visible = all.filter((i) => i % T <= i / T);
    const meanOf = (isFirst: boolean) =>
      mean(visible.filter((i) => (i % T === 0) === isFirst).map((i) => cosines[i]!));
    return [meanOf(true), meanOf(false)];
  },
  // The embedding, then attention and feed-forward of each layer, then biases.
  'logit-parts': ({ tensors, architecture: { H } }, { layer, head }) => {
    const { data, shape } = tensors.logit_parts!;
    const n = shape[2]!;
    const all = Array.from(data.subarray((layer * H + head) * n, (layer * H + head + 1) * n));
    const below = Array.from({ length: layer }, (_, l) => l);
    const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);
    const [attention, ffn] = [1, 2].map((place) => sum(below.map((l) => all[place + 2 * l]!)));
    return [...all, attention!, ffn!, all[0]! + attention! + ffn! + all.at(-1)!];
  },
};
/**
 * Views that this test leaves out: courses of training, which are measured on other texts, and Start, which has its own
 * test.
 */
const OMITTED_VIEWS = ['training', 'arrows', 'outputs'];

describe.skipIf(!isBuilt)(`five kinds of subjects (${UNBUILT})`, () => {
  const fewTexts = [TEXTS[0]!, TEXTS[6]!, TEXTS[15]!] as const;
  const cases = Object.keys(subjects).flatMap((name) =>
    (name === 'recording' ? fewTexts.slice(0, 1) : fewTexts).map(
      ([text, change = {}]): [string, string, object] => [name, text, change],
    ),
  );

  it.each(cases)(
    '%s, “%s”: the sentences of every view state numbers of its picture',
    async (name, prompt, change) => {
      const subject = subjects[name as keyof typeof subjects];
      const [frame] = await page.framesOf([subject], { prompt, ...change });
      const at = selectedHead(frame!, free);
      const problems: string[] = [];
      let sentenceCount = 0;
      for (const view of views) {
        const fits = view.fits?.(frame!) ?? true;
        if (
          !fits ||
          OMITTED_VIEWS.includes(view.name) ||
          !hasNumbersOf(view, frame!, page.models.describe)
        )
          continue;
        forgetPlots();
        const room = roomOf(figure, page.pageOf({ view: view.name, prompt, ...change }, [frame!]));
        const numbers = [
          ...mapsIn(room.root).flatMap(({ data }) => statableNumbers(data.data, data.cols)),
          ...chartsIn(room.root).flatMap(({ series }) =>
            series.flatMap(({ values }) => statableNumbers(values, values.length)),
          ),
          ...view
            .numbers(frame!, at)
            .flatMap(({ data, shape }) => statableNumbers(data, shape.at(-1) ?? 1)),
          ...[...view.reads, ...(view.optional ?? [])].flatMap((one) => {
            const { data = [], shape = [] } = frame!.tensors[one] ?? {};
            return statableNumbers(data, shape.at(-1) || 1);
          }),
          ...(view.headReads ?? []).flatMap((one) => {
            const { data = [], shape = [] } = frame!.head?.tensors[one] ?? {};
            return statableNumbers(data, shape.at(-1) || 1);
          }),
          ...(VIEW_NUMBERS[view.name]?.(frame!, at) ?? []),
        ];
        const texts = [view.says(frame!, at), ...mapsIn(room.root).map(({ data }) => data.label)];
        sentenceCount += texts.length;
        problems.push(
          ...unfoundedNumbers(texts.join(' '), derivedNumbers(numbers, frame!)).map(
            (one) => `${view.name}: ${one} in ${texts[0]}`,
          ),
        );
        room.scope.end();
      }
      expect(sentenceCount).toBeGreaterThan(20);
      expect(problems).toEqual([]);
    },
  );
});
