/**
 * Conditions of a lesson's sentences: `alpha > 2 uniform and share > 0%`, over the numbers that the lesson states about
 * a figure's run. A condition uses the numbers as they are printed, since the reader sees these.
 */
const TERM = /^(?:(\d+(?:\.\d+)?)%?|(?:(\d+(?:\.\d+)?) )?([a-z]\w*))$/;
const COMPARISON = /^(.+?) (<|>) (.+)$/;

interface Term {
  readonly factor: number;
  /** The name of the value of the run that the factor multiplies; a term without a name is the factor itself. */
  readonly name?: string;
}

interface Comparison {
  readonly left: Term;
  readonly right: Term;
  readonly isLess: boolean;
}

function parseTerm(text: string): Term {
  const [, number, factor = '1', name] = TERM.exec(text.trim()) ?? [];
  if (number !== undefined) return { factor: Number(number) };
  if (name === undefined) throw new Error(`“${text}”: expected a number or the name of a value.`);
  return { factor: Number(factor), name };
}

function parseCondition(condition: string): readonly Comparison[] {
  return condition.split(' and ').map((part) => {
    const [, left, sign, right] = COMPARISON.exec(part.trim()) ?? [];
    if (left === undefined || right === undefined)
      throw new Error(`“${part}”: expected two values with < or > between them.`);
    return { left: parseTerm(left), right: parseTerm(right), isLess: sign === '<' };
  });
}

/** Returns the names of the values that a condition compares. */
export const namesIn = (condition: string): string[] =>
  parseCondition(condition).flatMap(({ left, right }) =>
    [left.name, right.name].filter((name) => name !== undefined),
  );

/**
 * Whether a condition holds.
 * @param read returns a value of the run as a lesson prints it; a dash for an unknown value, which makes
 * every comparison with it false
 */
export function isTrue(condition: string, read: (name: string) => string): boolean {
  const numberOf = ({ factor, name }: Term) =>
    name === undefined ? factor : factor * parseFloat(read(name).replace('−', '-'));
  return parseCondition(condition).every(({ left, right, isLess }) =>
    isLess ? numberOf(left) < numberOf(right) : numberOf(left) > numberOf(right),
  );
}
