// @vitest-environment happy-dom
/**
 * The sentences of the room “Why it matters” agree with their measurements: on texts of all kinds, each experiment runs on the
 * real engine, and the claims of its heading and sentence are compared with the losses of its settings.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
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
  const otherRises = others.filter((one) => !one.includes('heads')).map((one) => model.rise(one));
  return { rise: model.rise(ownEdits!), highestOther: Math.max(...otherRises) };
};
const standsOut = (model: Model) => {
  const { rise, highestOther } = effectsOf(model);
  return rise > 0.02 && rise > 3 * highestOther;
};

const NATS = '([+−]?\\d+\\.\\d+)';
/** A number of tokens to choose among, and whether it is that of a loss. */
const CHOICES = '(\\d+(?:\\.\\d)?)';
const isChoice = (n: string, loss: number) =>
  Math.abs(Number(n) - Math.exp(loss)) <= (n.includes('.') ? 0.0501 : 0.501);
/** A model's name at the beginning of a sentence, or as a noun in it. */
const TITLE = '(?:[Tt]he )?((?:[Ss]oftmax|[Ss]igmoid) model)';
const titleOf = (name: string) => name.replace(/^s(?=\w+ model$)/, 'S');

type Holds = (models: Models, ...said: string[]) => boolean;
const CLAIMS: Readonly<Record<string, readonly [string, Holds]>> = {
  'the loss rises': [
    '^A model can forget old words, but not the first token',
    (all) =>
      windowRise(firstModel(all)) > 0.05 &&
      firstKeysRise(firstModel(all)) < windowRise(firstModel(all)) / 2,
  ],
  'it costs little': [
    '^This model can forget even the first token',
    (all) => windowRise(firstModel(all)) <= 0.05,
  ],
  'it recovers part': [
    '^Forgetting old words costs less if the first token stays',
    (all) => windowRise(firstModel(all)) - firstKeysRise(firstModel(all)) > 0.05,
  ],
  'it helps little': [
    '^Keeping the first token helps little',
    (all) => windowRise(firstModel(all)) - firstKeysRise(firstModel(all)) <= 0.05,
  ],
  'a choice among more tokens': [
    `as if it guessed among ${CHOICES} tokens, not ${CHOICES}`,
    (all, after, before) => {
      // All sentences with it are about the first model.
      const model = firstModel(all);
      const rises = [...model.frames.keys()].map((edits) => model.rise(edits));
      return (
        isChoice(before!, model.loss('')) &&
        rises.some((rise) => isChoice(after!, model.loss('') + rise))
      );
    },
  ],
  'the numbers of each model': [
    `(?:T|Without a sink, t)he sigmoid model loses (less|more|about as much): last 8 \\(no first\\) ${NATS}(?:, not| and) ${NATS}`,
    (all, rank, cost, mainCost) => {
      const [main, other] = [...all.values()].map(windowRise) as [number, number];
      const isRanked = {
        less: other < main / 2,
        more: other > 2 * main,
        'about as much': other >= main / 2 && other <= 2 * main,
      }[rank!];
      return isRanked! && isWritten(cost!, other, 1) && isWritten(mainCost!, main, 1);
    },
  ],
  'what is recovered': [
    '[Ww]ithout .* predictions get worse, .* \\(red\\); with \\w+, (nearly as good|less worse)',
    (all, words) =>
      windowRise(firstModel(all)) > 0.05 &&
      firstKeysRise(firstModel(all)) < 0.05 === words!.startsWith('nearly'),
  ],
  'a change': [
    `(?:the loss of )?${TITLE}(?:: by| changes by) ${NATS}(?: nats per token)?, with the first token kept by ${NATS}`,
    (all, title, a, b) =>
      isWritten(a!, windowRise(all.get(title!)!), 1) &&
      isWritten(b!, firstKeysRise(all.get(title!)!), 1),
  ],
  'nothing is evicted': [
    'fits into the cache of (\\d+) keys',
    (all, n) => firstModel(all).frames.get('')!.T <= Number(n),
  ],
  'the lowest and the highest': [
    `Most is lost with .*?: ${NATS} nats.*?; least with .*?: ${NATS}`,
    (all, high, low) => {
      const model = firstModel(all);
      const rises = model.editsLike(/,8[,)]|,8$/).map((edits) => model.rise(edits));
      return isWritten(low!, Math.min(...rises), 1) && isWritten(high!, Math.max(...rises), 1);
    },
  ],
  'those that keep it': [
    `first token in most heads (?:loses|lose at most) ${NATS} nats, the (?:other|others) ${NATS}`,
    (all, most, least) => {
      const model = firstModel(all);
      const shareOf = (edits: string) => keptShare(model.frames.get(edits)!);
      const edits = model.editsLike(/,8[,)]|,8$/);
      const [kept, dropped] = [true, false].map((isKept) =>
        edits.filter((one) => shareOf(one) >= 0.5 === isKept),
      ) as [string[], string[]];
      return (
        isWritten(most!, Math.max(...kept.map((one) => model.rise(one))), 1) &&
        isWritten(least!, Math.min(...dropped.map((one) => model.rise(one))), 1)
      );
    },
  ],
  'those that drop it lose most': [
    '^The first token must stay: rules that drop it lose most',
    (all) => {
      const model = firstModel(all);
      const edits = model.editsLike(/,8[,)]/);
      const risesOf = (isKept: boolean) =>
        edits
          .filter((one) => keptShare(model.frames.get(one)!) >= 0.5 === isKept)
          .map((one) => model.rise(one));
      return Math.max(...risesOf(true)) <= Math.min(...risesOf(false));
    },
  ],
  'few bits': [
    `the loss of ${TITLE} changes by ${NATS} nats.*?; with the first token kept exact, by ${NATS}\\.( Its numbers are the largest)?`,
    (all, title, a, b, largest) => {
      const model = all.get(title!)!;
      const [rounded, exact] = ['6,tensor)', '6,tensor,first=1)'].map((end) =>
        [...model.frames.keys()].find((one) => one.endsWith(end)),
      ) as [string, string];
      return (
        isWritten(a!, model.rise(rounded), 1) &&
        isWritten(b!, model.rise(exact), 1) &&
        (!largest || errorOf(model.frames.get(exact)!) < errorOf(model.frames.get(rounded)!) / 2)
      );
    },
  ],
  'it sets the scale': [
    '^Numbers can be rounded to 6 bits, but not those of the first token',
    (all) => {
      const model = firstModel(all);
      const [rounded, exact] = [/6,tensor\)/, /6,tensor,first/].map((one) =>
        model.rise(model.editsLike(one)[0]!),
      );
      return rounded! > 0.02 && exact! < rounded! / 2;
    },
  ],
  'one and random ones': [
    `(?:Zeroing|Projecting) .*? changes the loss of ${TITLE} by ${NATS} nats.*?; .*? by at most ${NATS}`,
    (all, title, a, b) => {
      const { rise, highestOther } = effectsOf(all.get(title!)!);
      return isWritten(a!, rise, 1) && isWritten(b!, highestOther, 1);
    },
  ],
  'one that matters more': [
    '^One \\w+ does much more than random ones',
    (all) => standsOut(firstModel(all)),
  ],
  'none that stands out': [
    '^This \\w+ does not do much more',
    (all) => !standsOut(firstModel(all)),
  ],
  'a broken sink': [
    '^Repeat the first token, and the sink breaks',
    (all) =>
      sinkShare(firstModel(all).frames.get('repeat')!) <
      sinkShare(firstModel(all).frames.get('')!) / 2,
  ],
  'a tag that does not stand out': [
    '^The sink’s tag does not',
    (all) => !standsOut(firstModel(all)),
  ],
  'a tag that is used': [
    '^Later tokens use the (?:tag|directions)',
    (all) => standsOut(firstModel(all)),
  ],
  'heads with a sink, and without': [
    'On ordinary text (\\d+)% of the heads have a sink; when the text repeats the first token (\\d+) times, (\\d+)%',
    (all, before, count, after) => {
      const { frames } = firstModel(all);
      const repeated = frames.get('repeat')!;
      return (
        isWritten(before!, sinkShare(frames.get('')!)) &&
        isWritten(after!, sinkShare(repeated)) &&
        Number(count) === repeated.T - 1
      );
    },
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

/** Returns the headings and the sentence of an experiment on a text, and the measured frames. */
async function runOn(prompt: string, change: Partial<State>) {
  const ask = vi.spyOn(page.queue, 'ask');
  const state = { prompt, source: 'text', length: 64, runs: 1, ...change } as Partial<State>;
  const runPage = page.pageOf({ ...state, shown: ['softmax', 'sigmoid'] }, []);
  const pageEngine = runPage.engine.peek() as object;
  forgetPlots();
  runPage.engine.value = { ...pageEngine, queue: page.queue };
  const room = roomOf(build, runPage);
  const studies = () => ask.mock.lastCall?.[0].studies ?? [];
  await vi.waitFor(
    () => {
      expect(page.queue.work.value).toBeUndefined();
      expect(studies().length).toBeGreaterThan(0);
      expect(studies().every((one: Study) => page.queue.studyEntry(one))).toBe(true);
    },
    { timeout: 60_000, interval: 5 },
  );
  const models = new Map<string, Model>();
  for (const one of studies()) {
    const { frame } = page.queue.studyEntry(one)!;
    if (!frame) continue;
    const [, , edits = ''] = /^(\w+)(.*)$/.exec(one.subject)!;
    const key = one.question.input === 'repeat' ? 'repeat' : edits;
    const { title } = frame.model;
    const frames = new Map([...(models.get(title)?.frames ?? []), [key, frame] as const]);
    models.set(title, new Model(frames));
  }
  const sentences = ['h1', '.lead', '.experiment-notes'].map((place) => room.text(place));
  room.scope.end();
  ask.mockRestore();
  return { sentences, models };
}

describe.skipIf(!isBuilt)(`Why it matters (${UNBUILT})`, () => {
  const seenClaims = new Set<string>();
  // The texts cycle through the experiments; every second text also has the fastest one.
  const cases = EXPERIMENTS.map((change, i) => ({
    change,
    name: Object.values(change).join(' '),
    texts: TEXTS.filter((_, n) => n % (i ? EXPERIMENTS.length : 2) === i),
  }));

  it.each(cases)('$name states what it measured', async ({ change, texts }) => {
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
  });

  it('the texts lead to most kinds of claims', () => {
    // No short text makes these claims true for the two models.
    const rare = [
      ...['it recovers part', 'it helps little', 'a tag that is used', 'one that matters more'],
    ];
    expect(
      Object.keys(CLAIMS).filter((name) => !seenClaims.has(name) && !rare.includes(name)),
    ).toEqual([]);
  });
});
