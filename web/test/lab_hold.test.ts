/**
 * The lab's sentences agree with its pictures: for labs with random numbers, the claims of captions and of the verdict
 * are compared with the cells of the maps and the lines of the charts.
 */
import { describe, expect, it } from 'vitest';
import type { LogEntry, Operation } from 'sinkscope';
import { randomGenerator } from '../src/ask/question';
import type { Lab } from '../src/lab/lab';
import {
  allRowsWords,
  captionWords,
  guessWords,
  explanationWords,
  remarkWords,
  rowNotes,
  titleWords,
  OUTCOMES,
  questionWords,
  shortVerdictWords,
  verdictWords,
  type NamedLab,
} from '../src/lab/words';
import { isWritten, mean } from './said';

const TRIGGERS = 3;
const NO_QUESTION = { leftRun: 'seed:1', rightRun: 'seed:2' };
const draw = randomGenerator(7);
const below = (n: number) => Math.floor(draw() * n);

/** Returns a lab after some steps: a log, and the maps of a sample whose first token is no trigger. */
function drawnLab(i: number, steps: number, planned: number): NamedLab {
  const normalizes = i % 2 === 0;
  const [L, H, T] = [1 + below(2), 1 + below(3), [4, 8, 24][below(3)]!];
  const data = new Float32Array(L * H * T * T);
  for (let n = 0; n < L * H; n++) {
    const level = draw();
    for (let t = 0; t < T; t++) {
      const row = Array.from({ length: t + 1 }, (_, s) =>
        s ? (1 - level) * draw() : level * (t + 1) * draw(),
      );
      const sum = row.reduce((a, b) => a + b, 0);
      row.forEach((x, s) => (data[(n * T + t) * T + s] = normalizes ? x / sum : x / (4 * T)));
    }
  }
  const level = draw();
  const log = Array.from({ length: steps }, (_, step) => ({
    ...{
      step,
      first_most: Math.max(0, Math.min(1, level + 0.4 * (draw() - 0.5) * (1 - step / 60))),
    },
    ...{ value_ratio: 2 * draw(), loss_elsewhere: 3 * draw(), loss_triggers: 3 * draw() },
    ...{ optimum_elsewhere: draw(), optimum_triggers: draw() },
  }));
  const lab = {
    log: log as unknown as LogEntry[],
    picture: { data, shape: [L, H, T, T] },
    sample: Array.from({ length: T }, (_, t) => (t ? 1 + below(2 * TRIGGERS) : 0)),
    words: Array.from({ length: T }, (_, t) => `w${t}`),
    settings: {
      triggers: TRIGGERS,
      length: T,
      steps: planned,
      ...(i % 5 ? {} : { head: below(L * H) }),
    },
  } as unknown as Lab;
  const name = normalizes ? 'softmax' : 'sigmoid';
  return { name, lab, operation: { normalizes } as Operation, command: '' };
}

const lastOf = ({ lab }: NamedLab, name: string) =>
  mean(lab.log.slice(-20).map((entry) => entry[name] as number));

/**
 * Returns each head's attention on the first token at positions without copying, as a weight and as a share of the row.
 */
function headsOf({ lab: { picture, sample } }: NamedLab) {
  const [L, H, T] = picture!.shape as [number, number, number];
  const places = sample.flatMap((id, t) => (t && id > TRIGGERS ? [t] : []));
  return Array.from({ length: L * H }, (_, n) => {
    const row = (t: number) => picture!.data.subarray((n * T + t) * T, (n * T + t) * T + t + 1);
    return {
      name: `L${Math.floor(n / H)}H${n % H}`,
      weight: mean(places.map((t) => row(t)[0]!)),
      meanOf: (s: number) => mean(places.filter((t) => t > s).map((t) => row(t)[s]!)),
      share: mean(places.map((t) => row(t)[0]! / row(t).reduce((a, b) => a + b, 0))),
      ofAllRows: mean(sample.map((_, t) => row(t)[0]!)),
      sumOf: mean(places.map((t) => row(t).reduce((a, b) => a + b, 0))),
    };
  });
}

function shownHeadOf(namedLab: NamedLab) {
  const heads = headsOf(namedLab);
  const { head } = namedLab.lab.settings;
  return head === undefined
    ? heads.reduce((best, head) => (head.weight > best.weight ? head : best))
    : heads[Number(head)]!;
}

const uniform = (T: number) => mean(Array.from({ length: T - 1 }, (_, t) => 1 / (t + 2)));

type Holds = (pair: readonly NamedLab[], at: number, ...said: string[]) => boolean;
const NAME = '(?:S|s)(?:oftmax|igmoid)';
const CLAIMS: Readonly<Record<string, readonly [RegExp, Holds]>> = {
  'a share': [
    /gives the first token (<?[\d.]+)% of its attention/,
    (pair, i, n) => isWritten(n!, lastOf(pair[i]!, 'first_most')),
  ],
  'a weight': [
    /gives the first token a weight of (<?[\d.]+)%/,
    (pair, i, weight) => isWritten(weight!, lastOf(pair[i]!, 'first_most')),
  ],
  'an even share': [
    /\(an even share: ([\d.]+)%\)/,
    (pair, i, n) => isWritten(n!, uniform(Number(pair[i]!.lab.settings.length))),
  ],
  'a small value': [
    /its value norm is ([\d.]+)× that of the others/,
    (pair, i, n) => isWritten(n!, lastOf(pair[i]!, 'value_ratio'), 1),
  ],
  'the remark on a map': [
    /^(◀ column of the first token: attention sink|the first token gets only <?[\d.]+% of its row|◀ token \d+ \(\S+\) takes <?[\d.]+%|◀ column of the first token: no sink(?: in this map)?)$/,
    (pair, i, column) => {
      const { weight, share, meanOf } = shownHeadOf(pair[i]!);
      const isShare = pair[i]!.operation!.normalizes || share > 0.3;
      const recent = lastOf(pair[i]!, 'first_most');
      const isSink = isShare && recent > 0.3;
      const [, key, n] = /^◀ token (\d+) \(\S+\) takes (\S+)%/.exec(column!) ?? [];
      const own = meanOf(Number(key) - 1);
      const [, only] = /only (\S+)%/.exec(column!) ?? [];
      const isWeight = !isSink && recent > 0.3;
      const absence = /: no sink( in this map)?$/.exec(column!);
      return (
        (isSink && weight > 0.3) === column!.endsWith('attention sink') &&
        isWeight === (only !== undefined) &&
        (!absence || Boolean(absence[1]) === isSink) &&
        (!isWeight || (isWritten(only!, share) && share <= 0.3)) &&
        (key === undefined || (isWritten(n!, own) && own > Math.max(0.3, weight)))
      );
    },
  ],
  'what Explore averages over': [
    /^all rows, as in Explore: (<?[\d.]+)%$/,
    (pair, i, n) => isWritten(n!, shownHeadOf(pair[i]!).ofAllRows),
  ],
  'the map of a head': [/head (L\dH\d)/, (pair, i, name) => name === shownHeadOf(pair[i]!).name],
  'the number of a map, of its rows': [
    /^(<?[\d.]+)% on (the first token|token \d+), in this text; tokens with nothing to copy spend (<?[\d.]+)% in total(; strongest head)?/,
    (pair, i, n, column, sum, isStrongest) => {
      const { weight: first, meanOf, sumOf } = shownHeadOf(pair[i]!);
      const [, key] = /^token (\d+)/.exec(column!) ?? [];
      const weight = key ? meanOf(Number(key) - 1) : first;
      if (key && !(first <= 0.3 && weight > 0.3)) return false;
      const [L, H] = pair[i]!.lab.picture!.shape as [number, number];
      const isChosen = pair[i]!.lab.settings.head !== undefined;
      return (
        isWritten(n!, weight) &&
        isWritten(sum!, sumOf) &&
        Boolean(isStrongest) === (L * H > 1 && !isChosen)
      );
    },
  ],
  'the number of the curve, where the map is on the other side of the threshold': [
    /over the last batches: (<?[\d.]+)%$/,
    (pair, i, n) => {
      const recent = lastOf(pair[i]!, 'first_most');
      return isWritten(n!, recent) && recent > 0.3 !== shownHeadOf(pair[i]!).weight > 0.3;
    },
  ],
};

function falseClaims(
  text: string,
  pair: readonly NamedLab[],
  i: number,
  seenClaims: Set<string>,
): string[] {
  return Object.entries(CLAIMS).flatMap(([name, [pattern, holds]]) => {
    const [whole, ...numbers] = pattern.exec(text) ?? [];
    if (whole === undefined) return [];
    seenClaims.add(name);
    return holds(pair, i, ...numbers) ? [] : [`${name}: ${text}`];
  });
}

describe('the lab', () => {
  it('claims what the maps and charts of two hundred pairs show', () => {
    const seenClaims = new Set<string>();
    const seenVerdicts = new Set<string>();
    const errors: string[] = [];
    for (let n = 0; n < 200; n++) {
      const steps = 1 + below(60);
      // A third of the pairs are paused before their last step.
      const planned = n % 3 ? steps : 1 + steps;
      const isOver = planned === steps;
      const pair = [
        drawnLab(n, steps, planned),
        drawnLab(n + 1 + below(2), steps, planned),
      ] as const;
      const text = verdictWords(pair);
      const sentences = text.match(new RegExp(`${NAME} gives .*?\\.(?= |$)`, 'g')) ?? [];
      expect(sentences).toHaveLength(2);
      sentences.forEach((sentence, i) =>
        errors.push(...falseClaims(sentence, pair, i, seenClaims)),
      );
      pair.forEach((namedLab, i) =>
        errors.push(
          ...falseClaims(captionWords(namedLab), pair, i, seenClaims),
          ...falseClaims(remarkWords(namedLab)?.text ?? '', pair, i, seenClaims),
          ...falseClaims(allRowsWords(namedLab), pair, i, seenClaims),
        ),
      );
      const short = shortVerdictWords(pair, NO_QUESTION);
      const [, learns, ...chances] =
        /(Both|Only|Neither) [^:.]* (?:learns? to copy|learned to copy|copies yet): the right token gets a probability of (\S+)% \(\S+\) and (\S+)% \(\S+\); a blind guess gives it 2%\.$/.exec(
          short,
        )!;
      pair.forEach((namedLab, i) => {
        const chance = Math.exp(-lastOf(namedLab, 'loss_triggers'));
        // The number decides who has a sink, and is that of the map and of the curve.
        const attention = lastOf(namedLab, 'first_most');
        if (!isWritten(chances[i]!, chance)) errors.push(short);
        const isSaid = new RegExp(`Both models have a sink|${namedLab.name} has a sink`, 'i').test(
          short,
        );
        if (pair[0].name !== pair[1].name && isSaid && !(attention > 0.3)) errors.push(short);
      });
      const losses =
        /possible: (\S+) and (\S+) nats with nothing to copy, (\S+) and (\S+) at “copy”/
          .exec(text)!
          .slice(1);
      losses.forEach((number, at) => {
        const place = at < 2 ? 'elsewhere' : 'triggers';
        const namedLab = pair[at % 2]!;
        const excess = lastOf(namedLab, `loss_${place}`) - lastOf(namedLab, `optimum_${place}`);
        if (!isWritten(number, excess, 1))
          errors.push(`loss above the best: ${number}, not ${excess}`);
      });
      const haveSinks = pair.map((namedLab) => {
        const share = namedLab.operation!.normalizes ? 1 : shownHeadOf(namedLab).share;
        return lastOf(namedLab, 'first_most') > 0.3 && share > 0.3;
      });
      for (const [, place, key, n] of short.matchAll(
        /In the (left|right) map token (\d+) \(\S+\) takes (\S+)%, more/g,
      )) {
        const at = place === 'left' ? 0 : 1;
        const own = shownHeadOf(pair[at]).meanOf(Number(key) - 1);
        if (haveSinks[at] || !isWritten(n!, own) || !(own > 0.3)) errors.push(short);
        seenVerdicts.add('a later token');
      }
      const learners = pair.filter(
        (one) => Math.exp(-lastOf(one, 'loss_triggers')) > 10 / 64,
      ).length;
      if (learns !== ['Neither', 'Only', 'Both'][learners]) errors.push(short);
      const isHalf = pair.some((one) => Math.exp(-lastOf(one, 'loss_triggers')) <= 0.8);
      if (learners === 2 && /have partly learned/.test(short) !== isHalf) errors.push(short);
      // A model has none at the first token alone where another column of its map has over 30%.
      const isElsewhere = pair.some(
        (one, i) => !haveSinks[i] && /^◀ token/.test(remarkWords(one)?.text ?? ''),
      );
      const title = titleWords(pair);
      const expectedTitle = haveSinks.every(Boolean)
        ? 'both models have a sink: they look'
        : haveSinks.some(Boolean)
          ? `only ${pair[haveSinks.indexOf(true)]!.name} has ${isElsewhere ? 'its sink at the first token' : 'a sink: it looks'}`
          : 'neither model has a sink';
      if (
        !title
          .toLowerCase()
          .replace(/^so far /, '')
          .startsWith(expectedTitle)
      )
        errors.push(title);
      if (/^So far/.test(title) === isOver) errors.push(`a title too early: ${title}`);
      for (const { lab } of pair)
        for (const { row, token, what } of rowNotes({ ...pair[0], lab })) {
          const isCopy = lab.sample[row]! <= TRIGGERS && lab.sample[row - 1]! > TRIGGERS;
          const expected = isCopy ? ['copy', `repeat w${row - 1}`] : [`w${row}`, 'nothing to copy'];
          if (`${[token, what]}` !== `${expected}`) errors.push(`row ${row}: ${token}, ${what}`);
        }
      const [countText] =
        /both models have|neither model has|has a sink(?: at the first token)?; \S+ has none/i.exec(
          text,
        ) ?? [];
      if (/^(Short .*?\. )?So far/.test(text) === isOver)
        errors.push(`a verdict too early: ${text}`);
      seenVerdicts.add(countText!.split(' ')[0]!);
      const expected = haveSinks.every(Boolean)
        ? /^both/i
        : haveSinks.some(Boolean)
          ? /^has/
          : /^neither/i;
      if (!expected.test(countText!)) errors.push(`which models have a sink: ${text}`);
      for (const guess of OUTCOMES) {
        const [own] = guessWords(pair, guess);
        const [left, right] = haveSinks;
        const cameTrue = { left: left && !right, right: right && !left, both: left && right }[
          guess as string
        ];
        const isRight = cameTrue ?? !(left || right);
        const isTooShort = pair.some(({ lab }) => uniform(Number(lab.settings.length)) > 0.3);
        const isTold = !isOver
          ? /^Your guess: \S+$/
          : steps < 20
            ? new RegExp(`: ${steps} steps are too few to tell\\.$`)
            : isTooShort
              ? /: these texts are too short to tell, since an even share is 36%\.$/
              : new RegExp(
                  `is ${isRight ? 'right' : 'wrong'}${left || right ? '' : ' so far'}\\.$`,
                );
        if (!isTold.test(own)) errors.push(`${own} of ${haveSinks}`);
        if (isOver) seenVerdicts.add(own.replace(/^.*?\)/, '').replace(/\d+/g, ''));
      }
      const sinkNames = /(\S+) has a sink(?: at the first token)?; (\S+) has none/
        .exec(text)
        ?.slice(1);
      const names = pair.map(({ name }) => name.toLowerCase());
      if (sinkNames && sinkNames[0]!.toLowerCase() !== names[haveSinks.indexOf(true)])
        errors.push(`the model with the sink: ${text}`);
      const shortMatch = /Short sequences \((\d+) tokens\)/.exec(text);
      const isShort = pair.some(({ lab }) => uniform(Number(lab.settings.length)) > 0.15);
      if (Boolean(shortMatch) !== isShort) errors.push(`short: ${text}`);
    }
    expect(errors).toEqual([]);
    expect([...seenVerdicts].sort()).toMatchSnapshot();
    expect([...seenClaims].sort()).toEqual(Object.keys(CLAIMS).sort());
  });

  it('speaks of copies only where both models copy', () => {
    for (const [task, from] of [[], ['conditional'], [undefined, 'softmax']]) {
      const namedLab = drawnLab(0, 30, 30);
      const settings = { ...namedLab.lab.settings, task, ...(from && { from }) };
      const one = { ...namedLab, lab: { ...namedLab.lab, settings } as unknown as Lab };
      const pair = [one, one] as const;
      const said = [
        titleWords(pair),
        questionWords(pair),
        captionWords(one),
        remarkWords(one)?.text,
      ];
      const all = [...said, verdictWords(pair), explanationWords(pair)].join(' ');
      expect(/cop(y|ies)/i.test(all)).toBe(!task && !from);
    }
  });

  it('says that a model memorizes its text only if it reads that more than once, and whose text it is', () => {
    for (const [name, steps] of [
      ['the Apache license', 1],
      ['the passages', 2],
      ['own.txt', 3],
    ] as const) {
      const setup = { text: { name, tokens: 100 } };
      const settings = { from: 'softmax', steps, batch: 4, length: 20 };
      const lab = { settings, setup, words: [] } as unknown as Lab;
      const namedLab = { name: '', lab, operation: undefined, command: '' };
      const text = explanationWords([namedLab, namedLab]);
      expect(text).toContain(`about ${(steps * 0.8).toFixed(1)} times`);
      expect(/memorizes/.test(text)).toBe(steps > 1);
      expect(/your text own\.txt/.test(text)).toBe(name === 'own.txt');
      expect(/ on the Apache license:/.test(text)).toBe(steps === 1);
    }
  });
});
