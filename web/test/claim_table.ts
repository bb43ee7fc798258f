/**
 * The claims of the page's sentences as data: how each is written, and what must be true of the drawn numbers. Truth is
 * computed here from the cells of the maps, without the page's functions.
 */
import type { Frame, Head } from '../src/frame';
import { isWritten, mean } from './said';

/** Measures a drawn map cell by cell, without the page's functions. */
export function truthOf(cells: ArrayLike<number>, T: number) {
  const rows = Array.from({ length: T }, (_, t) => {
    const row: number[] = [];
    for (let i = t * T; i < (t + 1) * T; i++) if (Number.isFinite(cells[i])) row.push(cells[i]!);
    return row;
  });
  const column = rows.map((row) => Math.abs(row[0]!));
  const sums = rows.map((row) => row.reduce((a, b) => a + Math.abs(b), 0));
  const laterColumn = column.slice(1);
  return {
    given: mean(column),
    // Shares of rows, the paper's proxy attention scores.
    share: mean(column.map((x, t) => x / (sums[t]! + 1e-8))),
    rowSum: mean(sums),
    largest: Math.max(...rows.flat()),
    rowSums: sums,
    column,
    sums: [Math.min(...sums), Math.max(...sums)] as const,
    strong: laterColumn.filter((x) => x > 0.5).length,
    rows: T - 1,
    after: mean(laterColumn),
    even: mean(rows.map((row, t) => (t ? sums[t]! / row.length : NaN)).slice(1)),
  };
}

export const uniformOf = (T: number) => mean(Array.from({ length: T }, (_, t) => 1 / (t + 1)));

export interface Truth {
  readonly T: number;
  readonly eps: number;
  /** The measurements of the drawn map, with weights and not shares. */
  readonly map: ReturnType<typeof truthOf>;
  /** The picture's rows: weights, or shares. */
  readonly shown: ReturnType<typeof truthOf>;
  /** alpha_1 of each head as shares and as raw weights, and the mean row sum of all heads. */
  readonly alphas: readonly number[];
  readonly raw: readonly number[];
  readonly sums: number;
  readonly sumsOfHeads: readonly number[];
  readonly normalizes: boolean;
  /** The texts of the tokens; '' of those that the page writes with signs. */
  readonly texts: readonly string[];
}

/** The names of the first token in sentences. */
export const TOKEN = '(?:<\\S+>|the (?:start|first) token(?: <\\S+>| “.*?”)?)';

export const CLAIMS: Readonly<
  Record<string, readonly [RegExp, (truth: Truth, ...said: string[]) => boolean]>
> = {
  'the share of a head': [
    new RegExp(
      `gives ${TOKEN} (?:most: )?(?:about )?(<?[\\d.]+)% of its (?:attention|row sums)`,
      'g',
    ),
    ({ shown }, n) => isWritten(n!, shown.given),
  ],
  'the weight of a head': [
    new RegExp(`gives ${TOKEN} a mean weight of (<?[\\d.]+)%`, 'g'),
    ({ map }, n) => isWritten(n!, map.given),
  ],
  'the highest head': [
    new RegExp(
      `Of (\\d+) heads, L\\d+H\\d+ \\(.*?\\) gives (?:${TOKEN}|“.*?”) most: (<?[\\d.]+)% (of its|on average)`,
      'g',
    ),
    ({ map, shown, raw, alphas }, count, n, measure) =>
      raw.length === Number(count) &&
      isWritten(n!, shown.given) &&
      (measure === 'of its'
        ? map.share >= Math.max(...alphas) - 1e-6
        : map.given >= Math.max(...raw) - 1e-6),
  ],
  'a row that is read': [
    /(?:“(.*?)”|<\S+>) spends (<?[\d.]+)% on (?:itself|the first token(?: “.*?”)?|“.*?”|<[^\s,]+>)(?:, (<?[\d.]+)% in all)?/g,
    ({ shown, texts }, name, n, sum) =>
      texts.some(
        (text, t) =>
          (!name || !text || name === text) &&
          isWritten(n!, shown.column[t]!) &&
          isWritten(sum ?? '100', shown.rowSums[t]!),
      ),
  ],
  'a bound on all heads': [
    new RegExp(`No head gives ${TOKEN} more than ([\\d.]+)%`, 'g'),
    ({ raw, normalizes }, n) => !normalizes && Math.max(...raw) <= Number(n) / 100 + 1e-6,
  ],
  'a weight in a label': [
    /receives a (?:mean weight of|weight of) (<?[\d.]+)%( at most)?/g,
    ({ map, raw }, n, most) =>
      most
        ? map.given <= Number(n) / 100 + 1e-6 && Math.max(...raw) <= Number(n) / 100 + 1e-6
        : isWritten(n!, map.given),
  ],
  'a share in a label': [
    /receives (<?[\d.]+)% (?:on average|of what its rows carry, on average)/g,
    ({ shown }, n) => isWritten(n!, shown.given),
  ],
  'the number inside a map': [
    /^(?:◀ )?(<?[\d.]+)% on /g,
    ({ shown }, n) => isWritten(n!, shown.given),
  ],
  'a sink inside a map': [
    /^◀ \S+ on .+?: a sink(?: \(over (\d+)%\))?$/g,
    ({ map, eps }, threshold) => map.given > eps && (!threshold || isWritten(threshold, eps)),
  ],
  'no sink inside a map': [
    /^◀ \S+ on (?:\S+(?: \(|$)|.+?: no sink$)/g,
    // The heads of a short text are not counted.
    ({ T, map, eps }) => map.given <= eps || uniformOf(T) > eps,
  ],
  'a share inside a map, and the weight that counts': [
    /^(<?[\d.]+)% on \S.*? as a share; by weight (<?[\d.]+)%: (a|no) sink/g,
    ({ map, shown, eps }, n, weight, has) =>
      isWritten(n!, shown.given) &&
      isWritten(weight!, map.given) &&
      (has === 'a') === map.given > eps &&
      shown.given > eps !== map.given > eps,
  ],
  'the sum of the rows inside a map': [
    /; rows sum to (<?[\d.]+)%(?: on average)?$/g,
    ({ shown }, n) => isWritten(n!, shown.rowSum),
  ],
  'what the rows of a card’s map sum to': [
    /mean row sum: (<?[\d.]+)%$/g,
    ({ shown }, n) => isWritten(n!, shown.rowSum),
  ],
  'rows beyond 100% inside a map': [
    /(?:^|; )rows sum to ([\d.]+) times 100% on average(?:; own scale: 0 to (\d+)%)?/g,
    ({ map, shown }, times, end) =>
      Number(times) === Number(map.rowSum.toFixed(map.rowSum < 9.5 ? 1 : 0)) &&
      map.rowSum > 1.5 &&
      (end ? isWritten(end, shown.largest) : shown.largest <= 1),
  ],
  'few rows beyond 100% inside a map': [
    /(?:^|; )half the rows sum to <(\d+)%, the largest to ([\d.]+) times 100%/g,
    ({ map, shown: { rowSums } }, bound, times) => {
      const largest = Math.max(...rowSums);
      const few = rowSums.filter((sum) => sum < Number(bound) / 100);
      return (
        2 * few.length >= rowSums.length &&
        map.rowSum > 1.5 &&
        Number(bound) <= 100 &&
        Number(times) === Number(largest.toFixed(largest < 9.5 ? 1 : 0))
      );
    },
  ],
  'an even share inside a map': [
    /on average, (more than|about|less than) an even share; /g,
    ({ shown: { after, even } }, said) => {
      const areAlike = Math.abs(after - even) <= Math.max(0.01, 0.05 * Math.max(after, even));
      return said === (areAlike ? 'about' : after > even ? 'more than' : 'less than');
    },
  ],
  'the sum of each row': [
    /each row sums to (<?[\d.]+)%/g,
    ({ shown: { sums } }, n) => sums.every((sum) => isWritten(n!, sum)),
  ],
  'the sums of the rows': [
    /^rows sum to (<?[\d.]+)-([\d.]+)%/g,
    ({ shown: { sums } }, low, high) => isWritten(low!, sums[0]) && isWritten(high!, sums[1]),
  ],
  'the mean over heads': [
    /he mean over all (\d+) heads is (<?[\d.]+)%/g,
    ({ raw }, count, n) => raw.length === Number(count) && isWritten(n!, mean(raw)),
  ],
  'uniform attention': [
    new RegExp(
      `(?:uniform attention(?: would give(?: it)?|:| alone gives ${TOKEN})|\\(uniform:) ([\\d.]+)%`,
      'g',
    ),
    ({ T }, n) => isWritten(n!, uniformOf(T)),
  ],
  'how many heads': [
    new RegExp(`(\\d+|[Nn]one) of the (\\d+) heads gives? ${TOKEN} more than (\\d+)%`, 'g'),
    (truth, n, count, threshold) =>
      (Number(n) || 0) === sinksOf(truth) &&
      truth.raw.length === Number(count) &&
      isWritten(threshold!, truth.eps),
  ],
  'how many heads by shares': [
    /By the paper’s measure, which looks at shares of the row, (\d+|none) of the (\d+) heads/g,
    (truth, n, count) =>
      (Number(n) || 0) === truth.alphas.filter((share) => share > truth.eps).length &&
      (Number(n) || 0) !== sinksOf(truth) &&
      truth.alphas.length === Number(count),
  ],
  'the heads that only shares count': [
    /(\d+|one) of them gives? little \((?:their|its) rows sum to (<?[\d.]+)% on average\), but as a share of each row \S.*? gets (<?[\d.]+)%/g,
    ({ alphas, raw, sumsOfHeads, eps }, n, sum, share) => {
      const heads = alphas.flatMap((one, i) => (one > eps && raw[i]! <= eps ? [i] : []));
      return (
        heads.length === (Number(n) || 1) &&
        isWritten(sum!, mean(heads.map((i) => sumsOfHeads[i]!))) &&
        isWritten(share!, mean(heads.map((i) => alphas[i]!)))
      );
    },
  ],
  'the rows of this head': [
    /those of this head sum to (<?[\d.]+)% on average/g,
    ({ map }, n) => isWritten(n!, map.rowSum),
  ],
  'what goes to the token of its rows': [
    /(?:; as a share of each row, \S.*? gets (<?[\d.]+)% on average|; the mean share of a row is (<?[\d.]+)%, the mean sum (<?[\d.]+)%)/g,
    ({ map, eps }, n, m, sum) =>
      isWritten((n ?? m)!, map.share) &&
      (!sum || isWritten(sum, map.rowSum)) &&
      map.share > eps !== map.given > eps,
  ],
  'an almost empty head': [
    /gives the tokens almost no attention/g,
    ({ shown }) => shown.rowSum < 0.05,
  ],
  'a text too short to tell': [
    /too short to count heads|^short text/g,
    ({ T, eps }) => uniformOf(T) > eps,
  ],
  'a text too short': [/Heads are not counted/g, ({ T, eps }) => uniformOf(T) > eps],
  'almost every token': [
    /[Aa]lmost every token attends/g,
    ({ shown }) => shown.strong >= 0.75 * shown.rows,
  ],
  'many tokens': [/[Mm]any tokens attend/g, ({ shown }) => shown.strong >= 0.4 * shown.rows],
  'an even spread': [
    /spread evenly over the tokens that each row sees, would give ([\d.]+)%/g,
    ({ T }, n) => isWritten(n!, uniformOf(T)),
  ],
  'more than an even share': [
    /[Mm]ore attention than an even share goes/g,
    ({ shown }) => shown.after > shown.even,
  ],
  'no token singled out': [
    /does not single out|on average, not singled out/g,
    ({ shown }) =>
      shown.strong < 0.4 * shown.rows && shown.after <= Math.max(0.05, 2 * shown.even) + 1e-6,
  ],
};

/** Returns the names of untrue claims. @param seenClaims collects the names of all claims found */
export function falseClaims(text: string, truth: Truth, seenClaims: Set<string>): string[] {
  return Object.entries(CLAIMS).flatMap(([name, [pattern, holds]]) =>
    [...text.matchAll(pattern)].flatMap(([whole, ...numbers]) => {
      seenClaims.add(name);
      return holds(truth, ...numbers) ? [] : [`${name}: ${whole}`];
    }),
  );
}

export function truthFrom(frame: Frame, at: Head, shown: ArrayLike<number>): Truth {
  const { T, eps, tensors, operation } = frame;
  const { L, H } = frame.architecture;
  // The weights of all heads, with later tokens cut off.
  const maps = Array.from({ length: L * H }, (_, i) => {
    const map = Float32Array.from(tensors.att!.data.subarray(i * T * T, (i + 1) * T * T));
    for (let t = 0; t < T; t++) map.fill(NaN, t * T + t + 1, (t + 1) * T);
    return map;
  });
  const measuredMaps = maps.map((map) => truthOf(map, T));
  return {
    ...{ T, eps, normalizes: operation.normalizes },
    alphas: measuredMaps.map(({ share }) => share),
    map: measuredMaps[at.layer * H + at.head]!,
    shown: truthOf(shown, T),
    raw: measuredMaps.map(({ given }) => given),
    sums: mean(measuredMaps.map(({ rowSum }) => rowSum)),
    sumsOfHeads: measuredMaps.map(({ rowSum }) => rowSum),
    texts: frame.tokens.map(({ text }) =>
      /^ ?[\p{L}\p{N}\p{P}]+$/u.test(text) ? text.trim() : '',
    ),
  };
}

export const sinksOf = ({ raw, eps }: Truth): number => raw.filter((weight) => weight > eps).length;

export const MODEL_CLAIMS: Readonly<
  Record<
    string,
    readonly [string, (truths: ReadonlyMap<string, Truth>, ...said: string[]) => boolean]
  >
> = {
  'no sink in any': [
    'None of these models has a sink',
    (truths) => [...truths.values()].every((truth) => !sinksOf(truth)),
  ],
  'the heads with an operation': [
    `[Ww]ith (softmax|sigmoid) (?:(\\d+) of (\\d+)|none|no head)`,
    (truths, operation, count = '0', all) => {
      const truth = truths.get(`the ${operation} model`)!;
      return sinksOf(truth) === Number(count) && (!all || truth.raw.length === Number(all));
    },
  ],
  'the heads with an operation in training': [
    `(?:(\\d+) of (\\d+)|none|no)(?: heads have a sink)? with (softmax|sigmoid)`,
    (truths, count = '0', all, operation) => {
      const truth = truths.get(`the ${operation} model`)!;
      return sinksOf(truth) === Number(count) && (!all || truth.raw.length === Number(all));
    },
  ],
};

export function falseModelClaims(
  text: string,
  truths: ReadonlyMap<string, Truth>,
  seenClaims: Set<string>,
): string[] {
  return Object.entries(MODEL_CLAIMS).flatMap(([name, [pattern, holds]]) =>
    [...text.matchAll(new RegExp(pattern, 'g'))].flatMap(([whole, ...numbers]) => {
      seenClaims.add(name);
      return holds(truths, ...numbers) ? [] : [`${name}: ${whole}`];
    }),
  );
}

/** The numbers of heads of the models on one side of a chapter: with a sink, and that give an extra slot as much, NaN without one. */
export interface CountedSide {
  readonly counts: readonly number[];
  readonly slots?: readonly number[];
}

/**
 * Returns what is untrue of the answer of a chapter, whose models have `heads` heads each and whose sides form sinks "at a"
 * and "at b".
 */
export function falseAnswer(
  heading: string,
  lead: string,
  sides: readonly CountedSide[],
  heads: number,
): string[] {
  const [first, second] = sides.map(({ counts }) => counts) as [
    readonly number[],
    readonly number[],
  ];
  const slots = (sides[1]!.slots ?? []).flatMap((count, i) => (count >= 0 ? [[count, i]] : []));
  const areMoved =
    slots.length > 0 && slots.every(([count, i]) => count! > 0 && count! >= 2 * second[i!]!);
  const [most, rest] = [Math.max(...first), Math.max(...second)];
  const [, how, where] = /^Sinks form (only|mostly) at (a|b)$/.exec(heading) ?? [];
  const [own, other] = where === 'a' ? [first, rest] : [second, most];
  const isMostly = (most > 0 && Math.min(...first) >= 2 * rest) || Math.min(...second) >= 2 * most;
  const isTrue = how
    ? Math.min(...own) > 0 &&
      (how === 'only' ? other === 0 : other > 0 && Math.min(...own) >= 2 * other)
    : {
        'Sinks form at a and at b': most > 0 && rest > 0 && !isMostly,
        'Give heads an extra slot and the sink moves there': areMoved && Math.min(...first) > 0,
        'On this text, only some models form sinks':
          Math.min(most, rest) === 0 &&
          most + rest > 0 &&
          Math.min(...first, ...second) === 0 &&
          ![first, second].some((counts) => Math.min(...counts) > 0),
        'No head of these models has a sink on this text': most === 0 && rest === 0,
        'No head of these models has a sink on these texts': most === 0 && rest === 0,
      }[heading];
  const isCounted = (words: string, counts: readonly number[]) => {
    const said = words.replace('none', '0').split(' to ').map(Number);
    return said.join() === [...new Set([Math.min(...counts), Math.max(...counts)])].join();
  };
  const [, numbers, of, others, onTokens, onSlot] =
    /^At a, (.+) of (\d+) heads ha(?:s|ve) a sink \(over 30% on (?:<s>, the start token|the first token)\); (?:at b, (.+)|with an extra slot ∗, (.+): (.+) give over 30% to ∗ instead)\.$/.exec(
      lead,
    ) ?? [];
  const areCounted =
    Number(of) === heads &&
    isCounted(numbers!, first) &&
    (others
      ? isCounted(others, second) && !areMoved
      : areMoved &&
        isCounted(
          onTokens!,
          slots.map(([, i]) => second[i!]!),
        ) &&
        isCounted(
          onSlot!,
          slots.map(([count]) => count!),
        ));
  return isTrue && areCounted
    ? []
    : [`${heading}: ${lead} ${JSON.stringify(sides.map((side) => [side.counts, side.slots]))}`];
}
