/**
 * The chapters of Compare: answers to "What makes a sink?", each with a baseline and the models that change one thing.
 * Beside them the claims of papers about these models, with the verdicts of our runs.
 */
import { parseSubject } from '../ask/subject';

/**
 * A model of the zoo, what it has in its chapter ("with softmax", "with no start token"), and that in a few words: of an
 * attention rule what its formula lets a row sum to, of others what changes.
 */
type Member = readonly [id: string, phrase: string, what: string];

export interface Chapter {
  readonly title: string;
  /** The baseline, the contrast that a press shows, and the others. */
  readonly members: readonly Member[];
}

export const CHAPTERS: readonly Chapter[] = [
  {
    title: 'Attention rule',
    members: [
      ['softmax', 'softmax', 'rows sum to 100%'],
      ['sigmoid', 'sigmoid', 'each score alone'],
      ['sigmoid-norm', 'normalized sigmoid', 'rows sum to 100%'],
      ['softpick', 'softpick', 'rows may be empty'],
      ['elu1', 'ELU+1', 'weights without limit'],
      ['relu', 'ReLU', 'no negative scores'],
    ],
  },
  {
    title: 'Extra key, gate',
    members: [
      ['softmax', 'softmax', 'rows sum to 100%'],
      ['key-bias', 'a key bias', 'one more key, no token'],
      ['sink-logit', 'a sink logit', 'a learned share goes nowhere'],
      ['softmax1', 'softmax1', 'a share may go nowhere'],
      ['gated', 'gates', 'gates on what heads write'],
      ['gated-head', 'a gate per head', 'one gate for each head'],
    ],
  },
  {
    title: 'Positions',
    members: [
      ['softmax', 'softmax (rotary)', 'rotates queries and keys'],
      ['no-positions', 'no positions', 'only later tokens are hidden'],
      ['learned-positions', 'learned positions', 'a learned vector per position'],
      ['alibi', 'ALiBi', 'distance lowers the score'],
    ],
  },
  {
    title: 'First token',
    members: [
      ['short', 'a start token', 'each text begins with <s>'],
      ['no-bos', 'no start token', 'texts begin with any token'],
      ['fixed-first', 'a fixed first token', 'texts begin with <|endoftext|>'],
      ['random-first', 'a random first token', 'a token drawn at random'],
    ],
  },
  {
    title: 'Training recipe',
    members: [
      ['softmax', 'softmax', 'this page’s usual recipe'],
      ['decay-0', 'no weight decay', 'nothing pulls weights to 0'],
      ['lr-1e-3', 'a third of the learning rate', 'smaller steps'],
      ['lr-3e-4', 'a tenth of the learning rate', 'tiny steps'],
      ['little-text', 'little text', '100,000 tokens again and again'],
      ['short', 'half the steps', '2,000 steps instead of 4,000'],
    ],
  },
  {
    title: 'Size',
    members: [
      ['softmax', 'softmax (4 heads)', '4 heads of width 32'],
      ['heads-1', '1 head a layer', 'one head of width 128'],
      ['heads-8', '8 heads a layer', '8 heads of width 16'],
      ['experts', 'four experts', 'each token uses two experts'],
    ],
  },
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

/** Says in plain words whether our runs agree with a claim. */
export const verdictWords = ({ source, runs, verdict }: TestedClaim): string =>
  `${runs} runs ${VERDICTS[verdict] ?? 'agree in part with'} ${/project/.test(source) ? 'this claim' : 'a paper'}.`;

const quoted = ({ claim, source, runs }: TestedClaim, verdict: string) =>
  `${runs} training runs ${verdict} ${source}: “${claim}”`;

/** Quotes a claim with which our runs agree, if its link shows exactly these models; otherwise empty. */
export const agreedWords = (tested: TestedClaim, shown: readonly string[]): string =>
  tested.verdict === 'agrees' && tested.seen.join() === shown.join()
    ? quoted(tested, VERDICTS.agrees!)
    : '';

/** Quotes a claim with which our runs disagree; otherwise empty. */
export const disagreedWords = (tested: TestedClaim): string =>
  tested.verdict === 'differs' ? quoted(tested, VERDICTS.differs!) : '';

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
