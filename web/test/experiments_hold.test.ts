// @vitest-environment happy-dom
/**
 * The sentences of the room “Why it matters” agree with their measurements: on texts of all kinds, each experiment runs on the
 * real engine, and the claims of its heading and sentence are compared with the losses of its settings.
 */
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { State } from '../src/ask/state';
import { sinkShare, type Frame } from '../src/frame';
import { build } from '../src/rooms/purpose';
import type { Study } from '../src/run/request';
import { forgetPlots } from './drawn';
import { openPage, stubScreen } from './engine';
import { isBuilt, UNBUILT } from './fixture';
import { roomOf } from './page';
import { isWritten, mean, TEXTS } from './said';

vi.mock('../src/plot/heatmap', async () => (await import('./drawn')).plots.heatmap);
vi.mock('../src/plot/chart', async () => (await import('./drawn')).plots.chart);

let page: Awaited<ReturnType<typeof openPage>>;
beforeAll(async () => {
  stubScreen();
  if (isBuilt) page = await openPage();
}, 60_000);
afterAll(() => page?.close());

/** The settings of a model, by edit, and their losses minus the unedited run's. */
class Model {
  readonly frames: ReadonlyMap<string, Frame>;

  constructor(frames: ReadonlyMap<string, Frame>) {
    this.frames = frames;
  }

  loss(edits: string): number {
    return mean(this.frames.get(edits)!.perPrompt.loss_mean!);
  }

  rise(edits: string): number {
    return this.loss(edits) - this.loss('');
  }

  editsLike(pattern: RegExp): string[] {
    return [...this.frames.keys()].filter((edits) => pattern.test(edits));
  }
}
type Models = ReadonlyMap<string, Model>;

const keptShare = (frame: Frame) => mean(Array.from(frame.tensors.keeps_first!.data));
const errorOf = ({ tensors }: Frame) =>
  mean(Array.from((tensors.quantize_error ?? tensors.weight_error)!.data).filter(Number.isFinite));
const firstModel = (models: Models) => [...models.values()][0]!;
const windowRise = (model: Model) => model.rise(model.editsLike(/window/)[0]!);
const firstKeysRise = (model: Model) => model.rise(model.editsLike(/\(first/)[0]!);
const effectsOf = (model: Model) => {
  const [ownEdits, ...others] = model.editsLike(/~(?:clamp_channel\(\d+\)|scale_weight|project)/);
  return {
    rise: model.rise(ownEdits!),
    highestOther: Math.max(...others.map((one) => model.rise(one))),
  };
};
/** The edits that round to 6 bits, without and with an exact first token. */
const roundings = (model: Model) =>
  [/6,tensor\)/, /6,tensor,first=1\)/].map((edits) => model.editsLike(edits)[0]!) as [
    string,
    string,
  ];
const standsOut = (model: Model) => {
  const { rise, highestOther } = effectsOf(model);
  return rise > 0.02 && rise > 3 * highestOther;
};

/** By how many percent a setting is worse or better. */
const WORSE = '([\\d,.]+)% (worse|better)';
const isWorse = (percent: string, word: string | undefined, rise: number) => {
  const [, fraction = ''] = percent.split('.');
  const value = 100 * Math.expm1(rise) * (word === 'better' ? -1 : 1);
  return Math.abs(Number(percent.replaceAll(',', '')) - value) <= 0.51 * 10 ** -fraction.length;
};
/** A model's name at the beginning of a sentence, or as a noun in it. */
const TITLE = '(?:[Tt]he )?((?:[Ss]oftmax|[Ss]igmoid) model)';
const titleOf = (name: string) => name.replace(/^s(?=\w+ model$)/, 'S');

/** Whether a model does what its experiment's recorded texts do: the first token counts for most of the loss, or for the sink. */
function showsRecorded(model: Model): boolean {
  const [erased] = model.editsLike(/clamp_channel\(\d+,token=0\)/);
  const shareOf = (edits: string) => sinkShare(model.frames.get(edits)!);
  if (erased) return shareOf(erased) < shareOf('') / 2;
  if (model.editsLike(/quantize/).length) {
    const [rounded, exact] = roundings(model).map((edits) => model.rise(edits));
    return rounded! > 0.02 && exact! < rounded! / 2;
  }
  if (!model.editsLike(/h2o/).length)
    return windowRise(model) > 0.02 && firstKeysRise(model) < windowRise(model) / 2;
  const edits = model.editsLike(/,8[,)]|,8$/);
  const [kept, dropped] = [true, false].map((isKept) =>
    edits
      .filter((one) => keptShare(model.frames.get(one)!) >= 0.5 === isKept)
      .map((one) => model.rise(one)),
  ) as [number[], number[]];
  const least = Math.min(...dropped);
  return kept.length > 0 && dropped.length > 0 && Math.max(...kept) <= least && least > 0.02;
}

type Holds = (models: Models, ...said: string[]) => boolean;
const CLAIMS: Readonly<Record<string, readonly [string, Holds]>> = {
  'without and with the first token': [
    `^Forget old words, but keep <s>: ${WORSE}, not ([\\d,.]+)%( worse| better)?`,
    (all, kept, keptWord, gone, goneWord) =>
      firstKeysRise(firstModel(all)) < windowRise(firstModel(all)) &&
      isWorse(kept!, keptWord, firstKeysRise(firstModel(all))) &&
      isWorse(gone!, goneWord?.trim() ?? keptWord, windowRise(firstModel(all))),
  ],
  'a cost that shows no sink': [
    'Without a sink, the sigmoid model loses .* The cost is that of the damage',
    (all) => sinkShare([...all.values()][1]!.frames.get('')!) === 0,
  ],
  'the scale': [
    `; a blind guess is ([\\d,.]+)% worse than unchanged`,
    (all, blind) => {
      const model = firstModel(all);
      const { V } = model.frames.get('')!.architecture;
      return isWorse(blind!, 'worse', Math.log(V!) - model.loss(''));
    },
  ],
  'what the recorded texts show': [
    `^${TITLE} (shows|does not show) the same`,
    (all, title, shows) => showsRecorded(all.get(titleOf(title!))!) === (shows === 'shows'),
  ],
  'an erased number': [
    '(shows|does not show) the same.*Erase its largest number: (\\d+)% of heads have a sink, before (\\d+)%',
    (all, shows, after, before) => {
      const model = firstModel(all);
      const [whole, erased] = ['', model.editsLike(/clamp_channel\(\d+,token=0\)/)[0]!].map(
        (edits) => sinkShare(model.frames.get(edits)!),
      ) as [number, number];
      return (
        (shows === 'shows') === erased < whole / 2 &&
        isWritten(before!, whole) &&
        isWritten(after!, erased)
      );
    },
  ],
  'good and bad': [
    'Here both\\. Without a sink, the sigmoid model loses less',
    (all) => {
      const [main, other] = [...all.values()] as [Model, Model];
      return other.loss('') > main.loss('');
    },
  ],
  'the numbers of each model': [
    `(?:T|Without a sink, t)he sigmoid model loses (less|more|about as much): last 8 tokens ${WORSE}(?:, not| and) ([\\d,.]+)%( better)?`,
    (all, rank, cost, word, mainCost, mainWord) => {
      const [main, other] = [...all.values()].map(windowRise) as [number, number];
      const isRanked = {
        less: other < 0.8 * main,
        more: other > 1.25 * main,
        'about as much': true,
      }[rank!];
      return (
        isRanked! &&
        isWorse(cost!, word, other) &&
        isWorse(mainCost!, mainWord ? 'better' : 'worse', main)
      );
    },
  ],
  'nothing is evicted': [
    'fits into the cache of (\\d+) tokens',
    (all, n) => firstModel(all).frames.get('')!.T <= Number(n),
  ],
  'the lowest and the highest': [
    `^The best rule: ${WORSE}; the worst: ${WORSE}`,
    (all, low, lowWord, high, highWord) => {
      const model = firstModel(all);
      const rises = model.editsLike(/,8[,)]|,8$/).map((edits) => model.rise(edits));
      return (
        isWorse(low!, lowWord, Math.min(...rises)) && isWorse(high!, highWord, Math.max(...rises))
      );
    },
  ],
  'those that keep it': [
    `^Rules that keep <s>: at most ${WORSE}; the other(?:s at least)? ([\\d,.]+)%`,
    (all, most, word, least) => {
      const model = firstModel(all);
      const shareOf = (edits: string) => keptShare(model.frames.get(edits)!);
      const edits = model.editsLike(/,8[,)]|,8$/);
      const [kept, dropped] = [true, false].map((isKept) =>
        edits.filter((one) => shareOf(one) >= 0.5 === isKept).map((one) => model.rise(one)),
      ) as [number[], number[]];
      return (
        Math.max(...kept) <= Math.min(...dropped) &&
        isWorse(most!, word, Math.max(...kept)) &&
        isWorse(least!, 'worse', Math.min(...dropped))
      );
    },
  ],
  'few bits': [
    `^Rounded to 6 bits: ${WORSE}; with <s> exact, ${WORSE}`,
    (all, a, aWord, b, bWord) => {
      const [rounded, exact] = roundings(firstModel(all));
      const model = firstModel(all);
      return isWorse(a!, aWord, model.rise(rounded)) && isWorse(b!, bWord, model.rise(exact));
    },
  ],
  'it sets the scale': [
    '<s> holds the largest numbers',
    (all) => {
      const model = firstModel(all);
      const [rounded, exact] = roundings(model).map((edits) => errorOf(model.frames.get(edits)!));
      return exact! < rounded! / 2;
    },
  ],
  'one and random ones': [
    `(?:Zeroing|Without the tag).*?: ${TITLE} predicts ${WORSE}.*?: at most ${WORSE}`,
    (all, title, a, aWord, b, bWord) => {
      const { rise, highestOther } = effectsOf(all.get(title!)!);
      return isWorse(a!, aWord, rise) && isWorse(b!, bWord, highestOther);
    },
  ],
  'one that matters more': [
    '^One \\w+ does much more than random ones',
    (all) => standsOut(firstModel(all)),
  ],
  'none that stands out': [
    `^One \\w+: ${WORSE}; random ones: at most ${WORSE}`,
    (all, a, aWord, b, bWord) => {
      const { rise, highestOther } = effectsOf(firstModel(all));
      return (
        !standsOut(firstModel(all)) && isWorse(a!, aWord, rise) && isWorse(b!, bWord, highestOther)
      );
    },
  ],
  'a broken sink': [
    '^(\\d+) copies of <s>: heads with a sink fall from (\\d+)% to (\\d+)%',
    (all, count, before, after) => {
      const { frames } = firstModel(all);
      const [whole, repeated] = ['', 'repeat'].map((key) => frames.get(key)!) as [Frame, Frame];
      return (
        sinkShare(repeated) < sinkShare(whole) / 2 &&
        isWritten(before!, sinkShare(whole)) &&
        isWritten(after!, sinkShare(repeated)) &&
        Number(count) === repeated.T - 1
      );
    },
  ],
  'copies of a word': [
    '[Ww]ith copies of a word: (\\d+)%',
    (all, share) => isWritten(share!, sinkShare(firstModel(all).frames.get('word')!)),
  ],
  'the loss of copies': [
    'Loss: (\\d+\\.\\d) nats on copies of <s>, (\\d+\\.\\d) nats on copies of a word, (\\d+\\.\\d) on text; a blind guess has (\\d+\\.\\d)',
    (all, ...words) => {
      const { frames } = firstModel(all);
      const losses = ['repeat', 'word', ''].map((key) =>
        mean(frames.get(key)!.perPrompt.loss_mean!),
      );
      const blind = Math.log(frames.get('')!.architecture.V!);
      return [...losses, blind].every((loss, i) => Math.abs(Number(words[i]) - loss) <= 0.051);
    },
  ],
  'a tag that carries the sink': [
    '^Remove what heads write of <s> into later tokens, its tag: heads with a sink fall from (\\d+)% to (\\d+)%',
    (all, before, after) => {
      const model = firstModel(all);
      const shareOf = (edits: string) => sinkShare(model.frames.get(edits)!);
      const randomShares = model.editsLike(/random/).map(shareOf);
      return (
        shareOf('~project') < shareOf('') / 2 &&
        Math.min(...randomShares) > shareOf('') / 2 &&
        isWritten(before!, shareOf('')) &&
        isWritten(after!, shareOf('~project'))
      );
    },
  ],
  'a tag that does not stand out': [
    '^The sink’s tag does not',
    (all) => !standsOut(firstModel(all)),
  ],
  'a tag that is used': [
    '^Later tokens use the (?:tag|directions)',
    (all) => standsOut(firstModel(all)),
  ],
};

/** Changes of the state that lead to each experiment, with caches that the short texts do not fit. */
const EXPERIMENTS: readonly Partial<State>[] = [
  { experiment: 'streaming', firstKeys: 1, recentKeys: 7 },
  { experiment: 'cache', budget: 8 },
  { experiment: 'quantization', bits: 6, granularity: 'tensor' },
  ...(['channel', 'tag', 'weight', 'repeat'] as const).map((perturbation): Partial<State> => ({
    experiment: 'fragility',
    perturbation,
  })),
];

const FAST = new Set(['streaming', 'quantization']);

/** A test of 4 s took over a minute on a machine with ten times as much to do. */
const LIMIT_MS = 300_000;

/** Returns the headings and the sentence of an experiment on a text, and the measured frames. */
async function runOn(prompt: string, change: Partial<State>) {
  const ask = vi.spyOn(page.queue, 'ask');
  const state = { prompt, source: 'text', length: 64, runs: 1, ...change } as Partial<State>;
  const runPage = page.pageOf({ ...state, shown: ['softmax', 'sigmoid'] }, []);
  const pageEngine = runPage.engine.peek() as object;
  forgetPlots();
  runPage.engine.value = { ...pageEngine, queue: page.queue };
  const room = roomOf(build, runPage);
  const end = () => {
    room.scope.end();
    ask.mockRestore();
  };
  // A room that a failed test leaves would ask for its own studies beside the next one.
  onTestFinished(end);
  const studies = () => ask.mock.lastCall?.[0].studies ?? [];
  await vi.waitFor(
    () => {
      expect(page.queue.work.value).toBeUndefined();
      expect(studies().length).toBeGreaterThan(0);
      expect(studies().every((one: Study) => page.queue.studyEntry(one))).toBe(true);
    },
    { timeout: LIMIT_MS, interval: 5 },
  );
  const models = new Map<string, Model>();
  for (const one of studies()) {
    const { frame } = page.queue.studyEntry(one)!;
    if (!frame) continue;
    const [, , edits = ''] = /^(\w+)(.*)$/.exec(one.subject)!;
    const repeated = one.question.repeatedToken ? 'repeat' : 'word';
    const key = one.question.input === 'repeat' ? repeated : edits;
    const { title } = frame.model;
    const frames = new Map([...(models.get(title)?.frames ?? []), [key, frame] as const]);
    models.set(title, new Model(frames));
  }
  const places = ['.room-head > :first-child', '.lead', '.experiment-notes'];
  const sentences = places.map((place) => room.text(place));
  end();
  return { sentences, models };
}

describe.skipIf(!isBuilt)(`Why it matters (${UNBUILT})`, () => {
  const seenClaims = new Set<string>();
  // The texts cycle through the experiments; every second text also has the fastest ones.
  const cases = EXPERIMENTS.map((change, i) => ({
    change,
    name: Object.values(change).join(' '),
    texts: TEXTS.filter((_, n) =>
      FAST.has(change.experiment!) ? n % 2 === 0 : n % EXPERIMENTS.length === i,
    ),
  }));

  it.each(cases)(
    '$name states what it measured',
    async ({ change, texts }) => {
      const falseClaims: string[] = [];
      for (const [prompt, own] of texts) {
        const { sentences, models } = await runOn(prompt, { ...change, ...own });
        for (const words of sentences)
          for (const [name, [pattern, holds]] of Object.entries(CLAIMS))
            for (const [whole, ...said] of words.matchAll(new RegExp(pattern, 'g'))) {
              const numbers = said.map((one) => one && titleOf(one));
              seenClaims.add(name);
              if (!holds(models, ...numbers)) falseClaims.push(`“${prompt}”: ${name}: ${whole}`);
            }
      }
      expect(falseClaims).toEqual([]);
    },
    LIMIT_MS,
  );

  it('the texts lead to most kinds of claims', () => {
    // No short text makes these claims true for the two models.
    const rare = [...['a tag that is used', 'one that matters more']];
    expect(
      Object.keys(CLAIMS).filter((name) => !seenClaims.has(name) && !rare.includes(name)),
    ).toEqual([]);
  });
});
