/**
 * The chapters of Compare: answers to "What makes a sink?", each with a baseline and the models that change one thing.
 * Beside them the claims of papers about these models, with the verdicts of our runs.
 */
import { parseSubject } from '../ask/subject';

/**
 * A model of the zoo, and what it has in its chapter: "with softmax", "with no start token".
 */
type Member = readonly [id: string, phrase: string];

export interface Chapter {
  readonly title: string;
  /** The baseline, the contrast that a press shows, and the others. */
  readonly members: readonly Member[];
}

export const CHAPTERS: readonly Chapter[] = [
  {
    title: 'Attention rule',
    members: [
      ['softmax', 'softmax'],
      ['sigmoid', 'sigmoid'],
      ['sigmoid-norm', 'normalized sigmoid'],
      ['softpick', 'softpick'],
      ['elu1', 'ELU+1'],
      ['relu', 'ReLU'],
    ],
  },
  {
    title: 'Extra key, gate',
    members: [
      ['softmax', 'softmax'],
      ['key-bias', 'a key bias'],
      ['sink-logit', 'a sink logit'],
      ['softmax1', 'softmax1'],
      ['gated', 'gates'],
      ['gated-head', 'a gate per head'],
    ],
  },
  {
    title: 'Positions',
    members: [
      ['softmax', 'softmax (rotary)'],
      ['no-positions', 'no positions'],
      ['learned-positions', 'learned positions'],
      ['alibi', 'ALiBi'],
    ],
  },
  {
    title: 'First token',
    members: [
      ['short', 'a start token'],
      ['no-bos', 'no start token'],
      ['fixed-first', 'a fixed first token'],
      ['random-first', 'a random first token'],
    ],
  },
  {
    title: 'Training recipe',
    members: [
      ['softmax', 'softmax'],
      ['decay-0', 'no weight decay'],
      ['lr-1e-3', 'a third of the learning rate'],
      ['lr-3e-4', 'a tenth of the learning rate'],
      ['little-text', 'little text'],
      ['short', 'half the steps'],
    ],
  },
  {
    title: 'Size',
    members: [
      ['softmax', 'softmax (4 heads)'],
      ['heads-1', '1 head a layer'],
      ['heads-8', '8 heads a layer'],
      ['experts', 'four experts'],
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

/** Says whether our runs agree with a claim, quotes it, and states the interval of the measured effect in percentage points. */
export function effectWords(tested: TestedClaim): string {
  const { claim, source, against, effect } = tested;
  const [, low, high] = effect.map((share) => Math.round(100 * share)) as [number, number, number];
  const range =
    high <= 0
      ? `${-high} to ${-low} percentage points less`
      : low < 0
        ? `from ${-low} percentage points less to ${high} more`
        : `${low} to ${high} percentage points more`;
  const baseline = against ? `with “${against}”` : 'if each row were spread evenly';
  return `${verdictWords(tested)} ${source}: “${claim}” In our runs the first token gets ${range} than ${baseline}.`;
}
