/**
 * The chapters of Compare: answers to "What makes a sink?", each with a baseline and the models that change one thing.
 * Beside them the claims of papers about these models, with the verdicts of our runs.
 */
import { parseSubject } from '../ask/subject';

/**
 * A model of the zoo, what it has in its chapter ("with softmax", "with no start token"), and that in a few plain words: of
 * an attention rule what its formula lets a row sum to, of others what changes.
 */
type Member = readonly [id: string, phrase: string, what: string];

export interface Chapter {
  readonly title: string;
  /** What the models of each side share, in words that follow "where". */
  readonly sides: readonly [string, string];
  /** The first `count` members, the baseline before all, are on the first side. */
  readonly count: number;
  readonly members: readonly Member[];
}

export const CHAPTERS: readonly Chapter[] = [
  {
    title: 'Attention rule',
    sides: ['rows must sum to 100%', 'rows may sum to anything'],
    count: 2,
    members: [
      ['softmax', 'softmax', 'scores share 100%'],
      ['sigmoid-norm', 'normalized sigmoid', 'scores scaled to 100%'],
      ['sigmoid', 'sigmoid', 'each score alone'],
      ['softpick', 'softpick', 'may be empty'],
      ['elu1', 'ELU+1', 'no limit'],
      ['relu', 'ReLU', 'no negative scores'],
    ],
  },
  {
    title: 'Extra key, gate',
    sides: ['heads must read tokens', 'heads may read nothing'],
    count: 1,
    members: [
      ['softmax', 'softmax', 'tokens get all attention'],
      ['key-bias', 'a key bias', 'an extra key, no token'],
      ['sink-logit', 'a sink logit', 'a learned share goes nowhere'],
      ['softmax1', 'softmax1', 'a share may go nowhere'],
      ['gated', 'gates', 'gates on what heads write'],
    ],
  },
  {
    title: 'Positions',
    sides: ['positions are rotary', 'positions are told otherwise'],
    count: 1,
    members: [
      ['softmax', 'softmax (rotary)', 'rotates queries and keys'],
      ['no-positions', 'no positions', 'only later tokens are hidden'],
      ['learned-positions', 'learned positions', 'a learned vector per position'],
      ['alibi', 'ALiBi', 'distance lowers the score'],
    ],
  },
  {
    title: 'First token',
    sides: ['the first token is always the same', 'the first token varies'],
    count: 2,
    members: [
      ['short', 'a start token', 'texts begin with <s>'],
      ['fixed-first', 'a fixed first token', 'texts begin with <|endoftext|>'],
      ['no-bos', 'no start token', 'texts begin with any token'],
      ['random-first', 'a random first token', 'a token drawn at random'],
    ],
  },
  {
    title: 'Training recipe',
    sides: ['training is as usual', 'one setting is changed'],
    count: 1,
    members: [
      ['softmax', 'softmax', 'the usual recipe'],
      ['decay-0', 'no weight decay', 'nothing pulls weights to 0'],
      ['lr-1e-3', 'a third of the learning rate', 'smaller steps'],
      ['lr-3e-4', 'a tenth of the learning rate', 'tiny steps'],
      ['little-text', 'little text', '100,000 tokens again and again'],
    ],
  },
  {
    title: 'Size',
    sides: ['layers have 4 heads', 'layers have 8 heads, or experts'],
    count: 1,
    members: [
      ['short', '4 heads a layer', 'heads of width 32'],
      ['heads-8', '8 heads a layer', 'heads of width 16'],
      ['experts', 'four experts', 'each token uses two experts'],
    ],
  },
];

/** Things of the models on one side of a chapter, and what these models share. */
export interface Side<Item> {
  readonly where: string;
  readonly items: readonly Item[];
}

/** Splits things of a chapter's members into those of its two sides. */
export const sidesOf = <Item>({ sides, count }: Chapter, items: readonly Item[]): Side<Item>[] =>
  sides.map((where, i) => ({ where, items: i ? items.slice(count) : items.slice(0, count) }));

/** Returns the baseline of a chapter, and the contrast that a press shows. */
export const pairOf = ({ members, count }: Chapter): string[] => [
  members[0]![0],
  members[count]![0],
];

/** Returns the first chapter that has all these models, unedited and fully trained; undefined for the reader's own choice. */
export function chapterOf(shown: readonly string[]): Chapter | undefined {
  return CHAPTERS.find(({ members }) =>
    shown.every((subject) => members.some(([id]) => id === subject)),
  );
}

/** Returns what a model has in a chapter: "softmax"; undefined for a model outside it. */
export const phraseOf = (chapter: Chapter | undefined, subject: string): string | undefined =>
  chapter?.members.find(([id]) => id === subject)?.[1];

/** Returns what a recipe has in the first chapter about it; a recipe outside of all chapters has its id in quotes. */
const nameOf = (id: string): string =>
  CHAPTERS.map((chapter) => phraseOf(chapter, id)).find(Boolean) ?? `“${id}”`;

/** A claim of a paper with the measured effect of one of its models; the build takes it from models/claims.json. */
export interface TestedClaim {
  readonly claim: string;
  readonly source: string;
  readonly verdict: string;
  readonly recipe: string;
  /** The model that the recipe is compared with; null if its own level is judged. */
  readonly against: string | null;
  readonly runs: number;
  /** The mean of attention on the first token above uniform attention, or of its change, and the ends of its interval. */
  readonly effect: readonly [mean: number, low: number, high: number];
  /** The models of the link that shows the claim. */
  readonly seen: readonly string[];
}

/** Returns the claim about these models: the one whose link shows them, or else the first about any of the contrasts. */
export function claimAbout(
  shown: readonly string[],
  claims: readonly TestedClaim[] = CLAIMS,
): TestedClaim | undefined {
  const ids = shown.flatMap((text) => {
    const subject = parseSubject(text);
    return subject && !subject.edits.length && subject.step === undefined ? subject.id : [];
  });
  if (ids.length < shown.length || ids.length < 2) return undefined;
  return (
    claims.find(({ seen }) => seen.join() === ids.join()) ??
    claims.find(({ recipe }) => ids.slice(1).includes(recipe))
  );
}

const VERDICTS: Readonly<Record<string, string>> = {
  agrees: 'agree with',
  differs: 'disagree with',
  undecided: 'cannot confirm',
};

const runsOf = ({ runs, recipe }: TestedClaim) => `${runs} training runs with ${nameOf(recipe)}`;

/** Says in plain words whether our runs agree with a claim. */
export const verdictWords = (tested: TestedClaim): string =>
  `${runsOf(tested)} ${VERDICTS[tested.verdict] ?? 'agree in part with'} ${/project/.test(tested.source) ? 'this claim' : 'a paper'}.`;

/** Quotes a claim with which our runs disagree, or agree if its link shows exactly these models; otherwise empty. */
export function quoteOf(tested: TestedClaim, shown: readonly string[]): string {
  const { claim, source, verdict, seen } = tested;
  const isQuoted = verdict === 'differs' || (verdict === 'agrees' && seen.join() === shown.join());
  return isQuoted ? `${runsOf(tested)} ${VERDICTS[verdict]} ${source}: “${claim}”` : '';
}

/** Says whether our runs agree with a claim, quotes it, and states the interval of the measured effect in percentage points. */
export function effectWords(tested: TestedClaim): string {
  const { claim, source, against, effect } = tested;
  const [, low, high] = effect.map((share) => Math.round(100 * share)) as [number, number, number];
  const points = (number: number) => `percentage point${number === 1 ? '' : 's'}`;
  const range =
    high <= 0
      ? `${-high} to ${-low} ${points(-low)} less`
      : low < 0
        ? `from ${-low} ${points(-low)} less to ${high} more`
        : `${low} to ${high} ${points(high)} more`;
  const baseline = against ? `with ${nameOf(against)}` : 'if each row were spread evenly';
  return `${verdictWords(tested)} ${source}: “${claim}” In our runs the first token gets ${range} than ${baseline}.`;
}
