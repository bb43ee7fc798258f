/** Texts that readers type, and the parsing of written numbers, for tests that read claims from the page's sentences. */

const LONG = 'The old man sat at the door and looked over the water. ';
export const TEXTS: readonly (readonly [text: string, change?: object])[] = [
  ['The quick brown fox jumps over the lazy dog.'],
  ['Attention is all you need.'],
  ['To be, or not to be, that is the question.'],
  ['a'],
  ['.'],
  ['I', { first: 'none' }],
  ['The old man sat at the door.', { first: 'none' }],
  ['She opened the door, and the cold wind came in.', { first: 'none' }],
  ['<s>'],
  ['<s> The old man sat <s> at the door.'],
  ['The <s><s><s> man'],
  ['the the the the the the the the the the the the the the the the'],
  ['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'],
  ['👩‍👩‍👧‍👦 👨🏽‍🚀 🏳️‍🌈 went home.'],
  ['🙂🙂🙂🙂'],
  ['שלום עולם, הזקן ישב ליד הדלת'],
  ['السلام عليكم يا صديقي القديم'],
  ['def f(x):\n    return x ** 2  # {"a": [1, 2]}\n'],
  ['for (let i = 0; i < 10; i++) { console.log(`${i}%`); }'],
  [LONG.repeat(12), { T: 128 }],
  [LONG.repeat(12), { T: 64 }],
  [LONG.repeat(3), { T: 25 }],
  [LONG.repeat(3), { T: 26 }],
  ['The dog is here. Der Hund ist hier. Le chien est ici.'],
  ['昔々あるところにおじいさんとおばあさんがいました。'],
  ['从前有一位老人坐在门口。'],
  ['Жил-был старик у самого синего моря.'],
  ['The sink takes 93% of 100% and -5% of 1e-4.'],
  ['NaN undefined null Infinity 0.0 “quoted” L1H3'],
  ['A\tB\r\nC\u0000D\u200bE'],
  ['ẞ ﬁ ǆ é e\u0301 ￼'],
  ['“Yes,” said he, “no.”'],
  ['. . . . . . . .'],
  ['1 2 3 4 5 6 7 8 9 10 11 12'],
  ['THE OLD MAN SAT AT THE DOOR'],
  ['theoldmansatatthedoor'],
  [`${'x '.repeat(40)}y`],
  ['The king said to the queen that the king said to the queen that', { eps: 0.1 }],
  ['The king said to the queen that the king said to the queen that', { eps: 0.9 }],
  ['The old man sat at the door.', { normalize: 'yes' }],
];

export const mean = (values: readonly number[]) =>
  values.reduce((a, b) => a + b, 0) / values.length;

/** Returns whether a written number matches the value: rounded to its digits, or as a bound. */
export function isWritten(written: string, value: number, scale = 100): boolean {
  const [, bound, digits, fraction = '', power = 0] =
    /^(<?)([−+-]?\d+(?:\.(\d+))?)(?:e(-?\d+))?$/.exec(written)!;
  const unit = 10 ** Number(power) / scale;
  const number = Number(digits!.replace('−', '-')) * unit;
  if (bound) return value > 0 && value < number;
  return Math.abs(number - value) <= 0.5001 * 10 ** -fraction.length * unit + 1e-6;
}
