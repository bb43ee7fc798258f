/** Says which engines are right. */
export const TOLERANCE = {
  exact: { logp: 1e-3, att: 1e-5 },
  /** llama.cpp looks GELU and SiLU up in a table of 16-bit numbers, which allows larger errors. */
  tabled: { logp: 5e-3, att: 1e-3 },
  rounded: { logp: 0.1, att: 0.01 },
};

/**
 * Returns the reason why the answer of an engine is wrong; undefined if it is right.
 * @param {{ tokens: { token: number, p: number }[], att?: ArrayLike<number> }} answer the most likely next tokens and,
 * if the engine shows maps, the first weights of the last row of the last head
 * @param {{ likeliest: [number, number][], att: number[] }} expected the answer of PyTorch: tokens with log p
 */
export function refusal(answer, expected, { logp, att }) {
  if (!expected) return 'PyTorch was not asked';
  for (const [token, expectedLogp] of expected.likeliest) {
    const actualLogp = Math.log(
      answer.tokens.find((answerToken) => answerToken.token === token)?.p ?? 0,
    );
    if (!(Math.abs(actualLogp - expectedLogp) <= logp))
      return `log p of token ${token} is ${actualLogp.toFixed(4)}, by PyTorch ${expectedLogp.toFixed(4)}`;
  }
  for (const [i, expectedRow] of answer.att?.length ? expected.att.entries() : [])
    if (!(Math.abs(answer.att[i] - expectedRow) <= att))
      return `a map gives key ${i} ${answer.att[i]}, by PyTorch ${expectedRow}`;
  return undefined;
}
