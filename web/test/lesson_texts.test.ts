// @vitest-environment happy-dom
/**
 * Lessons say what their figures show: on 100 texts, with and without a start token, exactly one case of each
 * conditional sentence is shown, and each sentence with a number or a condition is a claim that is true of the run.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lessons } from '../ship/lessons';
import { parseHash } from '../src/ask/state';
import { selectedHead, type Frame } from '../src/frame';
import { isTrue } from '../src/learn/conditions';
import { showRun } from '../src/learn/live';
import { followsText } from '../src/learn/one_text';
import { views } from '../src/views/index';
import { truthFrom, uniformOf, type Truth } from './claim_table';
import { openPage } from './engine';
import { isBuilt, PATIENCE, UNBUILT } from './fixture';
import { isWritten, mean } from './said';
import { texts } from './many_texts';

/** A figure's run: its subjects' frames, what is true of their maps, and the numbers that the figure draws. */
interface Shown {
  readonly frames: readonly Frame[];
  readonly truths: readonly Truth[];
  readonly numbers: (name: string) => readonly number[];
}
type Claim = readonly [
  figure: string,
  sentence: RegExp,
  holds: (shown: Shown, ...numbers: string[]) => boolean,
];

const first = ({ truths }: Shown) => truths[0]!;
const countOver = (eps: number, { raw }: Truth) => raw.filter((weight) => weight > eps).length;
const isShare = (written: string, eps: number, truth: Truth) =>
  isWritten(written, countOver(eps, truth) / truth.raw.length);

/** Returns the norms of the first token, and the means of the others, of each row of norms [rows, T]. */
const normsOf = ({ numbers, frames: [frame] }: Shown, name: string) => {
  const { T } = frame!;
  const all = numbers(name);
  return Array.from({ length: all.length / T }, (_, i) => {
    const [firstNorm, ...others] = all.slice(i * T, (i + 1) * T);
    return firstNorm! / mean(others);
  });
};

/** Returns the norm of what the head that gives the first token most writes, over the mean of the others. */
function outputsOf(shown: Shown) {
  const norms = shown.numbers('output_norm');
  const { raw } = first(shown);
  const head = raw.indexOf(Math.max(...raw));
  return { head: norms[head]!, others: mean(norms.filter((_, i) => i !== head)) };
}

/** Returns the means over rows of the cells of the first column, and of the other visible cells. */
function cellsOf({ numbers, frames: [frame] }: Shown, name: string) {
  const { T } = frame!;
  const all = numbers(name);
  const rows = Array.from({ length: T }, (_, t) => all.slice(t * T, t * T + t + 1));
  return {
    first: mean(rows.map((row) => row[0]!)),
    others: mean(rows.flatMap((row) => row.slice(1))),
    lastRow: rows.at(-1)!,
  };
}

/** By how much a head gives the first token more than twice uniform attention. Lessons compare rounded percentages. */
const overTwice = (shown: Shown) => first(shown).map.given - 2 * uniformOf(first(shown).T);
function keyRatio(shown: Shown): number {
  const { lastRow } = cellsOf(shown, 'norm');
  return lastRow[0]! / mean(lastRow.slice(1));
}
const isShort = ({ T, eps }: Truth) => uniformOf(T) > eps;

/** Each live sentence of the lessons, by its figure, and what must be true of the figure's run. */
const CLAIMS: readonly Claim[] = [
  [
    'map',
    /On this text of (\d+) tokens, the head gives the first token (\S+)% of its attention on average/,
    (shown, T, n) => first(shown).T === Number(T) && isWritten(n!, first(shown).map.given),
  ],
  [
    'map',
    /attended equally .* the first one would get (\S+)% on this text/,
    (shown, n) => isWritten(n!, uniformOf(first(shown).T)),
  ],
  ['map', /^That is more than half of its attention/, (shown) => first(shown).map.given > 0.5],
  ['map', /about twice as much as uniform attention or more/, (shown) => overTwice(shown) > -0.016],
  ['map', /at most about twice as much as uniform/, (shown) => overTwice(shown) < 0.016],
  ['map', /yet at most half of its attention/, (shown) => first(shown).map.given < 0.505],
  ['map', /^The text is short: uniform attention alone exceeds/, (shown) => isShort(first(shown))],
  [
    'heads',
    /(\d+) of (\d+) heads do, which is (\S+)%/,
    (shown, count, all, n) =>
      countOver(0.3, first(shown)) === Number(count) &&
      first(shown).raw.length === Number(all) &&
      isShare(n!, 0.3, first(shown)),
  ],
  ['heads', /^On so short a text uniform attention alone/, (shown) => isShort(first(shown))],
  [
    'sums',
    /the mean of the row sums is (\S+)% on this text/,
    ({ truths }, n) => isWritten(n!, truths[1]!.map.rowSum),
  ],
  [
    'written',
    /gives the first token most gives it (\S+)% .* norm of (\S+); the mean of the other heads is (\d+\.\d+)/,
    (shown, given, norm, others) =>
      isWritten(given!, Math.max(...first(shown).raw)) &&
      isWritten(norm!, outputsOf(shown).head, 1) &&
      isWritten(others!, outputsOf(shown).others, 1),
  ],
  [
    'written',
    /^So this head writes little: less than half/,
    (shown) => outputsOf(shown).head < 0.505 * outputsOf(shown).others + 0.01,
  ],
  [
    'written',
    /^So this head does not write little: at least half/,
    (shown) => outputsOf(shown).head > 0.495 * outputsOf(shown).others - 0.01,
  ],
  [
    'long',
    /is (\S+)× as long as the others before the first layer, and up to (\S+)× as long after/,
    (shown, before, after) =>
      isWritten(before!, normsOf(shown, 'hidden_norm')[0]!, 1) &&
      isWritten(after!, Math.max(...normsOf(shown, 'hidden_norm')), 1),
  ],
  [
    'long',
    /^So the first layers mark the token: they write a long vector that no other token has/,
    (shown) => {
      const { T } = shown.frames[0]!;
      const half = shown.numbers('hidden_norm').slice(3 * T, 4 * T);
      return half[0]! > 2 * Math.max(...half.slice(1));
    },
  ],
  [
    'long',
    /^So its hidden state hardly stands out/,
    (shown) => Math.max(...normsOf(shown, 'hidden_norm')) < 2,
  ],
  [
    'long',
    /^So the token is marked, though less/,
    (shown) => Math.abs(Math.max(...normsOf(shown, 'hidden_norm')) - 3.5) < 1.6,
  ],
  [
    'long',
    /^Its shortest value is (\S+)× as long/,
    (shown, n) => isWritten(n!, Math.min(...normsOf(shown, 'value_norm')), 1),
  ],
  [
    'arrows',
    /the cosine in this head is (\S+) on average with the first key, and (\S+) with/,
    (shown, one, others) =>
      isWritten(one!, cellsOf(shown, 'cos').first, 1) &&
      isWritten(others!, cellsOf(shown, 'cos').others, 1),
  ],
  [
    'arrows',
    /^So the queries of all tokens point to one side and the first key lies there/,
    (shown) => cellsOf(shown, 'cos').first > 0.2 && cellsOf(shown, 'cos').others < 0.01,
  ],
  [
    'arrows',
    /^So the queries point towards the first key, and not away/,
    (shown) => cellsOf(shown, 'cos').first > 0.2 && cellsOf(shown, 'cos').others >= 0,
  ],
  ['arrows', /^So the first key does not lie where/, (shown) => cellsOf(shown, 'cos').first < 0.21],
  [
    'product',
    /^In this head, the first key is (\S+)× as long/,
    (shown, n) => isWritten(n!, keyRatio(shown), 1),
  ],
  ['product', /^So this key is short/, (shown) => keyRatio(shown) < 0.5],
  ['product', /^Here its length is nothing/, (shown) => Math.abs(keyRatio(shown) - 1.25) < 0.8],
  ['product', /^Here the first key is the longer one/, (shown) => keyRatio(shown) > 1.9],
  [
    'walk',
    /attention on the first token is (\S+)%; uniform attention would give it (\S+)% on this text/,
    (shown, n, uniform) =>
      isWritten(n!, first(shown).map.given) && isWritten(uniform!, uniformOf(first(shown).T)),
  ],
  [
    'pair',
    /the first token (\S+)% of its attention, and that of the gated model (\S+)%/,
    ({ truths }, ...written) =>
      truths.every(({ raw }, i) => isWritten(written[i]!, Math.max(...raw))),
  ],
  [
    'gate',
    /the mean gate on this text is (\d+\.\d+)/,
    ({ numbers }, n) => isWritten(n!, mean(numbers('gate')), 1),
  ],
  ['threshold', /^(\S+)% of the heads on this text/, (shown, n) => isShare(n!, 0.5, first(shown))],
  [
    'threshold',
    /of 30% the share is (\S+)% on this text, and at 10% it is (\d+)%/,
    (shown, most, least) => isShare(most!, 0.3, first(shown)) && isShare(least!, 0.1, first(shown)),
  ],
  [
    'threshold',
    /^Uniform attention is (\S+)% on this text/,
    (shown, n) => isWritten(n!, uniformOf(first(shown).T)),
  ],
  ['threshold', /one of 10% lies below it/, (shown) => uniformOf(first(shown).T) > 0.095],
  ['threshold', /threshold of 30% lies below it/, (shown) => uniformOf(first(shown).T) > 0.295],
  ['threshold', /threshold of 50% lies below it/, (shown) => uniformOf(first(shown).T) > 0.495],
  ['threshold', /^All three thresholds lie above/, (shown) => uniformOf(first(shown).T) < 0.1],
  [
    'mass',
    /^The mean row sum is (\S+)% in this head/,
    (shown, n) => isWritten(n!, first(shown).map.rowSum),
  ],
  ['mass', /^A share of half such a row is a small/, (shown) => first(shown).map.rowSum < 0.5],
];

// The claims of one measure hold on all 300 texts (one_measure.test.ts); every third one makes each claim of a lesson.
const allTexts = texts().filter((_, i) => i % 3 === 0);
const TEXTS_PER_TEST = 50;
let page: Awaited<ReturnType<typeof openPage>>;
beforeAll(async () => {
  if (isBuilt) page = await openPage();
}, PATIENCE.timeout);
afterAll(() => page?.close());

type FigureState = Readonly<Record<string, string>>;

/** Returns the state of a figure, as its element has it. */
const stateOf = (element: Element): FigureState =>
  Object.fromEntries(
    [...element.attributes]
      .filter(({ name }) => !['controls', 'id', 'style'].includes(name))
      .map(({ name, value }) => [name, value]),
  );

/** Measures figures with one question and one choice of heads in one run; returns each figure's run, and what is true. */
async function runsOf(states: readonly FigureState[], text: FigureState) {
  const parsed = states.map((state) => {
    const { state: linkState, problems } = parseHash(
      new URLSearchParams({ ...state, ...text }).toString(),
    );
    expect(problems).toEqual([]);
    return linkState;
  });
  const shownViews = parsed.map((state) => views.find(({ name }) => name === state.view)!);
  const subjects = [...new Set(parsed.flatMap(({ shown }) => shown))];
  const frames = await page.framesOf(subjects, parsed[0], shownViews, ['att']);
  const truths = frames.map((frame) => {
    const at = selectedHead(frame, parsed[0]!);
    const { T } = frame;
    const map = (at.layer * frame.architecture.H + at.head) * T * T;
    return truthFrom(frame, at, frame.tensors.att!.data.slice(map, map + T * T));
  });
  return parsed.map((state, i) => {
    const indices = state.shown.map((subject) => subjects.indexOf(subject));
    const results = indices.map((index) => {
      const frame = frames[index]!;
      return {
        ...{ subject: frame.subject, T: frame.T, eps: frame.eps },
        tokens: frame.tokens.map((token) => token.text),
        numbers: shownViews[i]!.numbers(frame, selectedHead(frame, state)),
      };
    });
    const numbers = (name: string) =>
      Array.from(results[0]!.numbers.find((one) => one.name === name)?.data ?? []);
    const shown: Shown = {
      frames: indices.map((index) => frames[index]!),
      truths: indices.map((index) => truths[index]!),
      numbers,
    };
    return { run: { results }, shown };
  });
}

/** Returns the sentences of a lesson that depend on a figure, as the reader sees them. */
function liveSentences(figure: string): string[] {
  const mark = '\u2063';
  const isLive = (element: Element) => element.getAttribute('data-figure') === figure;
  return [...document.querySelectorAll('p, li')].flatMap((paragraph) => {
    if (![...paragraph.querySelectorAll('output, .when')].some(isLive)) return [];
    const copy = paragraph.cloneNode(true) as Element;
    for (const when of copy.querySelectorAll<HTMLElement>('.when')) if (when.hidden) when.remove();
    for (const place of copy.querySelectorAll('output, .when'))
      if (isLive(place)) place.prepend(mark);
    return copy
      .textContent!.split(/(?<=[.:])\s+(?=\u2063?[A-Z])/)
      .filter((sentence) => sentence.includes(mark))
      .map((sentence) => sentence.replaceAll(mark, '').replace(/\s+/g, ' ').trim());
  });
}

/** Returns what is wrong with a lesson's sentences about one figure, which shows a text. */
function problemsOf(figure: string, shown: Shown, seen: Set<Claim>): string[] {
  const groups = new Map<Element, HTMLElement[]>();
  for (const when of document.querySelectorAll<HTMLElement>(`.when[data-figure="${figure}"]`)) {
    const before = when.previousElementSibling;
    const start = before?.matches('.when')
      ? [...groups].find(([, all]) => all.includes(before as HTMLElement))?.[0]
      : undefined;
    groups.set(start ?? when, [...(groups.get(start ?? when) ?? []), when]);
  }
  const sentences = liveSentences(figure);
  // A dash stands for a number that a single token does not have.
  const isUndefined = sentences.some((sentence) => /–/.test(sentence));
  return [
    ...[...groups.values()].flatMap((cases) => {
      const count = cases.filter(({ hidden }) => !hidden).length;
      const isRight = count === 1 || (count === 0 && (cases.length === 1 || isUndefined));
      return isRight ? [] : [`${count} cases of “${cases[0]!.textContent}”`];
    }),
    ...sentences.flatMap((sentence) => {
      if (/–/.test(sentence)) return [];
      const made = CLAIMS.filter(([of, pattern]) => of === figure && pattern.test(sentence));
      if (!made.length) return [`no claim: ${sentence}`];
      return made.flatMap((claim) => {
        seen.add(claim);
        const [, pattern, holds] = claim;
        return holds(shown, ...pattern.exec(sentence)!.slice(1)) ? [] : [`untrue: ${sentence}`];
      });
    }),
  ];
}

describe.skipIf(!isBuilt)(`the lessons’ sentences on 100 texts (${UNBUILT})`, () => {
  const seen = new Set<Claim>();
  it.each([0, TEXTS_PER_TEST])(
    'texts from %d on: one case of each condition is shown, and every claim is true',
    { timeout: 10 * PATIENCE.timeout },
    async (from) => {
      const problems: string[] = [];
      document.body.innerHTML = lessons()
        .map(({ html }) => html)
        .join('');
      const figures = [...document.querySelectorAll('sink-scope')].filter(
        (figure) =>
          followsText(figure) &&
          document.querySelector(`[data-figure="${figure.id}"]:is(output, .when)`),
      );
      // One run answers all figures but those of another head, or of what only their model has.
      // A document of the live paragraphs alone is searched faster.
      document.body.replaceChildren(
        ...[...document.querySelectorAll('p, li')].filter((one) =>
          one.querySelector('output, .when'),
        ),
      );
      const keyOf = ({ layer, head, view }: FigureState) => [layer, head, view === 'gate'].join();
      const states = figures.map((figure): FigureState => ({ ...stateOf(figure), id: figure.id }));
      const groups = [...new Set(states.map(keyOf))].map((key) =>
        states.filter((state) => keyOf(state) === key),
      );
      for (const [i, prompt] of allTexts.slice(from, from + TEXTS_PER_TEST).entries()) {
        // Every third text begins without a start token.
        const text = { prompt, ...(i % 3 === 2 ? { first: 'none' } : {}) };
        for (const group of groups) {
          const runs = await runsOf(
            group.map(({ id: _, ...state }) => state),
            text,
          );
          for (const [j, { run, shown }] of runs.entries()) {
            const id = group[j]!.id!;
            showRun(id, run);
            problems.push(
              ...problemsOf(id, shown, seen).map(
                (what) => `${id} ${JSON.stringify(text)}: ${what}`,
              ),
            );
          }
        }
      }
      expect(problems.slice(0, 40)).toEqual([]);
    },
  );
  it('has made every claim', () => {
    const unmade = CLAIMS.filter((claim) => !seen.has(claim));
    expect(unmade.map(([figure, pattern]) => `${figure}: ${pattern.source}`)).toEqual([]);
  });
});

describe('a condition', () => {
  const read = (name: string) =>
    ({ alpha: '93%', uniform: '15%', rise: '−0.20', none: '–' })[name]!;
  it('compares numbers as they are printed', () => {
    expect(isTrue('alpha > 6 uniform', read)).toBe(true);
    expect(isTrue('alpha > 6.2 uniform', read)).toBe(false);
    expect(isTrue('alpha > 50% and rise < 0', read)).toBe(true);
    expect(isTrue('alpha > 50% and rise > 0', read)).toBe(false);
    expect(isTrue('none > 0', read) || isTrue('none < 1', read)).toBe(false);
  });
  it('is rejected if it cannot be read', () => {
    expect(() => isTrue('alpha', read)).toThrow(/two values with < or >/);
    expect(() => isTrue('alpha = 3', read)).toThrow(/two values with < or >/);
    expect(() => isTrue('alpha > -3', read)).toThrow(/expected a number or the name/);
  });
});
