/** Three hundred texts that readers may type: sixteen scripts, code, repeats, single tokens, emoji, and mixtures. */

const SCRIPTS = [
  'The child sat down by the fire and looked at the old woman.',
  '注意力机制为什么总是看第一个词？',
  'なぜ言語モデルは最初のトークンを見つめるのか。',
  '왜 언어 모델은 첫 번째 토큰을 바라볼까?',
  'لماذا تنظر النماذج إلى الكلمة الأولى؟',
  'למה מודלים מסתכלים על המילה הראשונה?',
  'Почему модели смотрят на первое слово?',
  'Γιατί τα μοντέλα κοιτούν την πρώτη λέξη;',
  'मॉडल पहले शब्द को क्यों देखते हैं?',
  'மாதிரிகள் ஏன் முதல் சொல்லைப் பார்க்கின்றன?',
  'ทำไมแบบจำลองจึงมองคำแรก',
  'რატომ უყურებენ მოდელები პირველ სიტყვას?',
  'Ինչո՞ւ են մոդելները նայում առաջին բառին։',
  'ሞዴሎች ለምን የመጀመሪያውን ቃል ይመለከታሉ?',
  'মডেলগুলো কেন প্রথম শব্দের দিকে তাকায়?',
  'ಮಾದರಿಗಳು ಮೊದಲ ಪದವನ್ನು ಏಕೆ ನೋಡುತ್ತವೆ?',
];
const CODE = [
  'def f(x):\n    return x ** 2',
  'for (let i = 0; i < 10; i++) console.log(i);',
  '<html><body class="a">Hi</body></html>',
  'SELECT name FROM users WHERE age > 30;',
  '{"a": [1, 2, {"b": null}]}',
  '#include <stdio.h>\nint main(void) { return 0; }',
  'x = [i for i in range(10) if i % 2]',
  '$ ls -la | grep "txt" > out.log',
];
const WORDS = ['the', 'king', 'a', 'water', 'Hello', 'and', '7', '!', '猫', '🙂'];
const EMOJI = ['🙂', '🏳️‍🌈', '👩‍👩‍👧‍👦', '👨🏽‍🚀', '🇩🇪', '❤️', '🔥🔥', '🧠📚'];
const SENTENCES = [
  'My cat sleeps on the warm stones by the sea all day.',
  'Once upon a time there was a king who had three sons',
  'She opened the door, and the cold wind came in.',
  'To be, or not to be, that is the question.',
  'NaN undefined null Infinity 0.0 L1H3 100%',
  'Yes. No. Yes. No. Yes. No.',
  '“Who is there?” he asked.',
  'THE OLD MAN SAT AT THE DOOR',
  'theoldmansatatthedoor',
  '1 2 3 4 5 6 7 8 9 10 11 12 13',
];

/** Returns 300 different texts, the same in every run. */
export function texts(): string[] {
  const cut = (text: string, part: number) =>
    [...text].slice(0, Math.ceil(text.length * part)).join('');
  const all = [
    ...SCRIPTS.flatMap((one, i) => [
      one,
      cut(one, 0.5),
      cut(one, 0.2),
      `${one} ${one}`,
      `${SENTENCES[i % 10]} ${one}`,
    ]),
    ...CODE.flatMap((one) => [one, cut(one, 0.4), `${one}\n${one}`]),
    ...WORDS.flatMap((one) => [1, 2, 5, 9, 12, 40].map((n) => Array(n).fill(one).join(' '))),
    ...EMOJI.flatMap((one) => [one, one.repeat(5), `${one} went home with the king ${one}`]),
    ...SENTENCES.flatMap((one) => [
      one,
      cut(one, 0.5),
      `${one} ${one} ${one}`,
      one.toUpperCase(),
      [...one].reverse().join(''),
    ]),
    ...SENTENCES.flatMap((one, i) => SENTENCES.slice(i + 1).map((other) => `${one} ${other}`)),
    ...SENTENCES.flatMap((one, i) => CODE.map((code) => `${one}\n${code}${i}`)),
  ];
  return [...new Set(all)].slice(0, 300);
}
