/**
 * Conditions under which a lesson prints a sentence, such as `alpha > 2 uniform and share > 0%`. They compare the
 * numbers that the lesson states about a figure's run, as they are printed, since the reader sees these.
 */
const TERM = /^(?:(\d+(?:\.\d+)?)%?|(?:(\d+(?:\.\d+)?) )?([a-z]\w*))$/;
const COMPARISON = /^(.+?) (<|>) (.+)$/;

/** Without a name the term is `factor` itself, otherwise `factor` times the run's value of this name. */
type Term = { readonly factor: number; readonly name?: string };

function parseTerm(text: string): Term {
  const [, number, factor = '1', name] = TERM.exec(text.trim()) ?? [];
  if (number !== undefined) return { factor: Number(number) };
  if (name === undefined) throw new Error(`“${text}”: expected a number or the name of a value.`);
  return { factor: Number(factor), name };
}

function parseCondition(condition: string) {
  return condition.split(' and ').map((part) => {
    const [, left, sign, right] = COMPARISON.exec(part.trim()) ?? [];
    if (left === undefined || right === undefined)
      throw new Error(`“${part}”: expected two values with < or > between them.`);
    return { left: parseTerm(left), right: parseTerm(right), isLess: sign === '<' };
  });
}

/** Evaluates a condition on values as a lesson prints them; with an unknown one, a dash, comparisons are false. */
export function isTrue(condition: string, read: (name: string) => string): boolean {
  const numberOf = ({ factor, name }: Term) =>
    name === undefined ? factor : factor * parseFloat(read(name).replace('−', '-'));
  return parseCondition(condition).every(({ left, right, isLess }) =>
    isLess ? numberOf(left) < numberOf(right) : numberOf(left) > numberOf(right),
  );
}
