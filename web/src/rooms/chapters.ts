/**
 * The chapters of Compare: each asks whether sinks need one condition, and has a baseline and the models that
 * change one thing. Beside them the claims of papers about these models, with the verdicts of our runs.
 */
import { parseSubject } from '../ask/subject';

/**
 * A model of the zoo, what it has in its chapter ("with softmax", "with no start token"), and that in a few plain words: of
 * an attention rule how it turns scores into a row, of others what changes.
 */
type Member = readonly [id: string, phrase: string, what: string];

export interface Chapter {
  readonly title: string;
  /** The heading until the models are measured, which answer it. */
  readonly question: string;
  /** A word of question before the premise: why sinks form, or why the chapter asks. */
  readonly ask: 'Why?' | 'Why ask?';
  /** Says what may make or move sinks here, true of any text; `{first}` is its first token. */
  readonly premise: string;
  /** Where the models of each side form sinks, after "Sinks form". */
  readonly places: readonly [string, string];
  /** The same in fewer words, for the counts below that heading. */
  readonly shortPlaces?: readonly [string, string];
  /** What the models of each side share. */
  readonly sides: readonly [string, string];
  /** Titles the last member, which the list shows in a group of its own. */
  readonly apart?: string;
  /** The first `count` members, the baseline before all, are on the first side. */
  readonly count: number;
  readonly members: readonly Member[];
}

const MUST_SPEND = 'Softmax must spend 100%: if a head needs no token,';

export const CHAPTERS: readonly Chapter[] = [
  {
    title: 'Attention rule',
    question: 'Must attention sum to 100% for sinks to form?',
    ask: 'Why?',
    premise: `${MUST_SPEND} {first} can take it. It begins every text and all tokens see it.`,
    places: ['where attention must sum to 100%', 'where attention need not sum to 100%'],
    shortPlaces: ['with a sum of 100%', 'without'],
    sides: ['Rows must sum to 100%', 'Rows need not'],
    count: 2,
    members: [
      ['softmax', 'softmax', 'shares 100%'],
      ['sigmoid-norm', 'normalized sigmoid', 'scaled to 100%'],
      ['sigmoid', 'sigmoid', 'each token alone'],
      ['softpick', 'softpick', 'allows empty rows'],
      ['elu1', 'ELU+1', 'no upper limit'],
      ['relu', 'ReLU', 'negative scores: 0'],
    ],
  },
  {
    title: 'Ways out',
    question: 'What if attention can go elsewhere?',
    ask: 'Why?',
    premise: `${MUST_SPEND} the slot ∗ can take it. It is no token: what goes there is thrown away.`,
    places: ['with softmax alone', 'with a way out'],
    sides: ['Softmax alone', 'With an extra slot ∗'],
    apart: 'No slot: a gate',
    count: 1,
    members: [
      ['softmax', 'softmax', 'shares 100%'],
      ['key-bias', 'a key bias', '∗ scores by a learned key'],
      ['sink-logit', 'a sink logit', '∗ has a learned score'],
      ['softmax1', 'softmax1', '∗ always scores 0'],
      ['gated', 'gates', 'can mute what a head writes'],
    ],
  },
  {
    title: 'Positions',
    question: 'Do sinks need rotary positions?',
    ask: 'Why ask?',
    premise: 'Positions can tell a head which token is first. Here only they differ.',
    places: ['with rotary positions', 'with other positions'],
    sides: ['Rotary positions', 'Other positions, or none'],
    count: 1,
    members: [
      ['softmax', 'softmax (rotary)', 'turns queries and keys'],
      ['no-positions', 'no positions', 'tokens carry no position'],
      ['learned-positions', 'learned positions', 'add a vector per position'],
      ['alibi', 'ALiBi', 'lowers scores with distance'],
    ],
  },
  {
    title: 'First token',
    question: 'Do sinks need texts that begin alike?',
    ask: 'Why?',
    premise: 'A head can recognize a first token that began every text of its training.',
    places: ['where all texts begin alike', 'where texts begin differently'],
    sides: ['Texts begin alike', 'Texts begin differently'],
    count: 2,
    members: [
      ['short', 'a start token', 'always <s>'],
      ['fixed-first', 'a fixed first token', 'always <|endoftext|>'],
      ['no-bos', 'no start token', 'any token comes first'],
      ['random-first', 'a random first token', 'drawn at random'],
    ],
  },
  {
    title: 'Recipe',
    question: 'Do sinks need the usual training?',
    ask: 'Why ask?',
    premise:
      'Sinks could be an accident of one way to train. Here one setting at a time is changed.',
    places: ['with the usual training', 'with one setting changed'],
    sides: ['The usual training', 'One setting changed'],
    count: 1,
    members: [
      ['softmax', 'softmax', 'the usual training'],
      ['decay-0', 'no weight decay', 'weights are not shrunk'],
      ['lr-1e-3', 'a third of the learning rate', 'smaller steps'],
      ['lr-3e-4', 'a tenth of the learning rate', 'tiny steps'],
      ['little-text', 'little text', '100,000 tokens, repeated'],
    ],
  },
  {
    title: 'Size',
    question: 'Do sinks need few, wide heads?',
    ask: 'Why ask?',
    premise: 'Models of one size can split their width among few heads or many.',
    places: ['with few, wide heads', 'with many, narrow heads'],
    sides: ['Few, wide heads', 'Many, narrow heads'],
    count: 2,
    members: [
      ['short', '4 heads a layer', 'each of width 32'],
      ['experts', 'four experts', 'feed-forward parts, two per token'],
      ['heads-8', '8 heads a layer', 'each of width 16'],
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

/** Returns the baseline of a chapter and the contrast with which it opens. */
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

export const memberOf = (chapter: Chapter | undefined, subject: string): Member | undefined =>
  chapter?.members.find(([id]) => id === subject);

/** Returns what a model has in a chapter: "softmax"; undefined for a model outside it. */
export const phraseOf = (chapter: Chapter | undefined, subject: string): string | undefined =>
  memberOf(chapter, subject)?.[1];

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
