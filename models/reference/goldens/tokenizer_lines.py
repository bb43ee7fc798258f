# ruff: noqa: E501
"""The thousand lines on which tokenizers are compared: text in many scripts, and edge cases that break tokenizers.

All characters are in Unicode 14. Libraries with older tables do not know whether later characters are letters, and
would give other tokens without being wrong.
"""

import random
import unicodedata
from pathlib import Path

LINE_COUNT = 1000

# Article 1 of the Universal Declaration of Human Rights, and plain sentences; public domain.
NATURAL_TEXT = """\
All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and should act towards one another in a spirit of brotherhood.
Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison et de conscience et doivent agir les uns envers les autres dans un esprit de fraternité.
Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen.
Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados como están de razón y conciencia, deben comportarse fraternalmente los unos con los otros.
Todos os seres humanos nascem livres e iguais em dignidade e em direitos. Dotados de razão e de consciência, devem agir uns para com os outros em espírito de fraternidade.
Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti. L'uno, l'altro: perché no?
Wszyscy ludzie rodzą się wolni i równi pod względem swojej godności i swych praw.
Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv. Příliš žluťoučký kůň úpěl ďábelské ódy.
Minden emberi lény szabadon születik és egyenlő méltósága és joga van. Árvíztűrő tükörfúrógép.
Toate ființele umane se nasc libere și egale în demnitate și în drepturi.
Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. İstanbul'da ılık bir akşam.
Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan.
Alla människor är födda fria och lika i värde och rättigheter. Blåbärsgröt på öar i åarna.
Allir menn eru bornir frjálsir og jafnir öðrum að virðingu og réttindum. Þetta er æði.
Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi.
Semua orang dilahirkan merdeka dan mempunyai martabat dan hak-hak yang sama.
Watu wote wamezaliwa huru, hadhi na haki zao ni sawa.
Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью.
Всі люди народжуються вільними і рівними у своїй гідності та правах. Ґанок, їжак, є.
Сите човечки суштества се раѓаат слободни и еднакви по достоинство и права.
Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.
Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ ու իրավունքներով։
ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით.
כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. שָׁלוֹם עֲלֵיכֶם
يولد جميع الناس أحراراً متساوين في الكرامة والحقوق. وقد وهبوا عقلاً وضميراً.
تمام افراد بشر آزاد به دنیا می‌آیند و از لحاظ حیثیت و حقوق با هم برابرند.
تمام انسان آزاد اور حقوق و عزت کے اعتبار سے برابر پیدا ہوئے ہیں۔
सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।
সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে।
ਸਾਰਾ ਮਨੁੱਖੀ ਪਰਿਵਾਰ ਆਪਣੀ ਮਹਿਮਾ, ਸ਼ਾਨ ਅਤੇ ਹੱਕਾਂ ਦੇ ਪੱਖੋਂ ਆਜ਼ਾਦ ਹੈ।
પ્રતિષ્ઠા અને અધિકારોની દૃષ્ટિએ સર્વ માનવો જન્મથી સ્વતંત્ર અને સમાન હોય છે.
மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.
ప్రతిపత్తిస్వత్వముల విషయమున మానవులెల్లరును జన్మతః స్వతంత్రులును సమానులును నగుదురు.
ಎಲ್ಲಾ ಮಾನವರೂ ಸ್ವತಂತ್ರರಾಗಿಯೇ ಜನಿಸಿದ್ದಾರೆ.
മനുഷ്യരെല്ലാവരും തുല്യാവകാശങ്ങളോടും അന്തസ്സോടും സ്വാതന്ത്ര്യത്തോടുംകൂടി ജനിച്ചിട്ടുള്ളവരാണ്.
සියලු මනුෂ්‍යයෝ නිදහස්ව උපත ලබා ඇත.
มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ
ມະນຸດທຸກຄົນເກີດມາມີສິດເສລີພາບ ແລະ ສະເໝີໜ້າກັນ
មនុស្សទាំងអស់កើតមកមានសេរីភាព និងសមភាព
လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် မွေးဖွားလာသူများ ဖြစ်သည်။
འགྲོ་བ་མིའི་རིགས་རྒྱུད་ཡོངས་ལ་སྐྱེས་ཙམ་ཉིད་ནས་ཆེ་མཐོངས།
የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።
人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。
人人生而自由，在尊嚴和權利上一律平等。他們賦有理性和良心，並應以兄弟關係的精神互相對待。
すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。カタカナもｶﾀｶﾅも。
모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.
ᏂᎦᏓ ᎠᏂᏴᏫ ᏂᎨᎫᏓᎸᎾ ᎠᎴ ᎤᏂᏠᏱ ᎤᎾᏕᎿ ᏚᏳᎧᏛ ᎨᏒᎢ.
ᐃᓅᔪᓕᒫᑦ ᐊᓂᖅᑎᕆᔪᓕᒫᑦ ᐃᓅᓕᕋᑎᒃ ᐊᔪᖕᖏᖢᑎᒃ.
𐌰𐌻𐌻𐌰𐌹 𐌼𐌰𐌽𐌽𐌰𐌽𐍃 𐍆𐍂𐌴𐌹𐌷𐌰𐌻𐍃. 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙𝟚 𓀀𓂀 𠀀𠮷
"""

CODE_LINES = r"""
for (let i = 0; i < n; ++i) sum += a[i] * b[i]; // dot
	if (x != NULL && *x->next == '\0') { return -1; }
def f(x: int = 0x1F) -> float:    return x ** 2 / 3.0e-5  # square
        self._weights["layer.0"].copy_(torch.zeros(768, 3072))
SELECT name, COUNT(*) FROM t WHERE id IN (1,22,333,4444) GROUP BY 1;
<div class="a-b_c" style='x:y'>&nbsp;&lt;tag/&gt;</div><!-- c -->
$ grep -rn "\bfoo\b" ./src | sed -E 's/(a+)b/\1/g' > /dev/null 2>&1
#include <stdio.h>
#define MAX(a,b) ((a)>(b)?(a):(b))
{"key": [1, 2.5, -3e10, null, true], "nested": {"a": {}}}
https://example.org/path/to?q=1&r=%20#frag user@example.com 192.168.0.1
it's I'm you're we've they'd he'll don't IT'S I'M YOU'RE O'Neil 'tis ''''s
'ſ 'S 's' 'LL 'll 'Ve 'RE 're'd
x=1;y=22;z=333;1234567890 1,234,567.89 12:34:56 2024-02-29 3.14159265358979
C:\Users\name\file.txt ~/.config/* [a-z]{2,3}? ^$ \\n \t
snake_case camelCase PascalCase kebab-case SCREAMING_CASE v1.2.3-rc.4+build
""".strip("\n").split("\n")

EDGE_CASES = [
    "a",
    " ",
    "  ",
    "   ",
    "\t",
    "\n",
    "\r\n",
    "\n\n\n",
    " \n ",
    "a ",
    " a",
    "  a  b   c    d",
    "\u2581",
    "\u2581a \u2581\u2581b",
    "a\u2581b",
    "\u0120a \u010a",
    "<0x0A>",
    "<0xE2><0x96>",
    "<s>",
    "</s>",
    "<unk>",
    "<s> a </s>",
    "a<s>b",
    "<|endoftext|>",
    "end.<|endoftext|>\nStart",
    "<|im_start|>user\nhi<|im_end|>",
    "<|end",
    "<pad>",
    "<mask> x",
    "[CLS] [SEP]",
    "__proto__",
    "constructor toString",
    "\ufeffbom",
    "a\ufeffb \ufeff c",
    "\x85next\x85 line",
    "a\u2028b\u2029c",
    "\u00a0nbsp\u2003em\u3000wide\u202fnarrow",
    "zero\u200bwidth\u2060joiner",
    "soft\u00adhyphen",
    "a\u180eb",
    "\x00\x01\x02",
    "a\x00b",
    "\x7f\x80\x9f",
    "\x1b[31mred\x1b[0m",
    "\x0b\x0c\x1c\x1f",
    " \x1d! a\x1db \x16the",
    "\ufffd\ufffd",
    "\ufffe\uffff",
    "\U0010ffff\U000f0000\ue000",
    "\u202eright\u202c to left",
    "\u00b2\u00bd\u2163\u2460",
    "\u0661\u0662\u0663 \u0967\u0968 \uff11\uff12 \U0001d7d8",
    "\ufb01ne \ufb03 \u01c4 \u1e9e",
    "K\u212a \u00c5\u212b \u03a9\u2126",
    "\u0130i\u0131I",
    "cafe\u0301 caf\u00e9",
    "e\u0301\u0323 e\u0323\u0301",
    "\u1112\u1161\u11ab \ud55c",
    "a\u0300\u0301\u0302\u0303\u0304\u0305",
    " \u0301 \u0301",
    "\u0344\u0958\u2adc",
    "\U0001f600",
    "\U0001f44d\U0001f3fd ok",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1eb\U0001f1f7\U0001f1e9\U0001f1ea",
    "1\ufe0f\u20e3 \u2764\ufe0f\u200d\U0001f525",
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "a" * 300,
    " " * 100,
    "ab" * 150,
    "\u6f22" * 40,
    "=" * 80,
    "!?" * 30,
    "\n" * 20,
    "\t \t  \t",
    "   x\n   y",
]

RANGES = {
    "latin": (0x00A1, 0x024F),
    "ipa": (0x0250, 0x02FF),
    "greek": (0x0370, 0x03FF),
    "cyrillic": (0x0400, 0x052F),
    "hebrew": (0x0590, 0x05F4),
    "arabic": (0x0600, 0x06FF),
    "devanagari": (0x0900, 0x097F),
    "bengali": (0x0980, 0x09FE),
    "tamil": (0x0B82, 0x0BFA),
    "thai": (0x0E01, 0x0E5B),
    "tibetan": (0x0F00, 0x0FDA),
    "myanmar": (0x1000, 0x109F),
    "georgian": (0x10A0, 0x10FF),
    "jamo": (0x1100, 0x11FF),
    "ethiopic": (0x1200, 0x137C),
    "khmer": (0x1780, 0x17F9),
    "mongolian": (0x1800, 0x18AA),
    "greek extended": (0x1F00, 0x1FFE),
    "punctuation": (0x2000, 0x206F),
    "symbols": (0x20A0, 0x23FF),
    "dingbats": (0x2600, 0x27BF),
    "kana": (0x3001, 0x30FF),
    "han": (0x4E00, 0x9FFF),
    "hangul": (0xAC00, 0xD7A3),
    "compatibility": (0xF900, 0xFAD9),
    "forms": (0xFB00, 0xFDFF),
    "wide": (0xFF01, 0xFFEE),
    "gothic": (0x10330, 0x1034A),
    "mathematical": (0x1D400, 0x1D7FF),
    "emoji": (0x1F300, 0x1F64F),
    "han b": (0x20000, 0x2A6DF),
    "control": (0x0000, 0x00A0),
}
SPACES = [" ", " ", " ", "  ", "    ", "\t", "\n", "\n\n", "\r\n", "\u00a0", "\u3000", "\x85", ""]
FACE_EMOJI = [chr(c) for c in range(0x1F600, 0x1F640)]
PERSON_EMOJI = ["\U0001f468", "\U0001f469", "\U0001f467", "\U0001f466", "\U0001f9d1"]
SKIN_TONES = [chr(c) for c in range(0x1F3FB, 0x1F400)]
COMBINING_MARKS = [chr(c) for c in range(0x0300, 0x0363)]


def assigned_characters(low: int, high: int) -> list[str]:
    characters = map(chr, range(low, high + 1))
    return [c for c in characters if unicodedata.category(c) not in ("Cn", "Cs")]


def make_lines(corpus: Path) -> list[str]:
    """Returns LINE_COUNT lines. Draws the English prose from `corpus`, a plain text file in the public domain."""
    rng = random.Random(7)
    natural_lines = NATURAL_TEXT.splitlines()
    scripts = [assigned_characters(*bounds) for bounds in RANGES.values()]
    words = [word for line in natural_lines for word in line.split()]
    prose = [line for line in corpus.read_text().splitlines()[100:6000] if len(line) > 40]

    def draw_mixed_words() -> str:
        return "".join(rng.choice(words) + rng.choice(SPACES) for _ in range(rng.randint(2, 7)))

    def draw_one_script() -> str:
        return "".join(rng.choices([*rng.choice(scripts), " "], k=rng.randint(3, 20)))

    def draw_any_script() -> str:
        return "".join(rng.choice(rng.choice(scripts)) for _ in range(rng.randint(2, 14)))

    def draw_emoji() -> str:
        family = "\u200d".join(rng.choices(PERSON_EMOJI, k=rng.randint(2, 4)))
        toned_person = rng.choice(PERSON_EMOJI) + rng.choice(SKIN_TONES)
        return "".join(rng.choices([family, toned_person, rng.choice(FACE_EMOJI), " ", "a"], k=5))

    def draw_marks() -> str:
        letters = "aeiouxE \u0915\u05d0"
        return "".join(
            rng.choice(letters) + "".join(rng.choices(COMBINING_MARKS, k=rng.randint(0, 3)))
            for _ in range(rng.randint(2, 9))
        )

    def draw_digits() -> str:
        digits = "0123456789" * 3 + "\u0660\u0967\uff19\u00b2\u2167\u3007.,:-+/% "
        return "".join(rng.choices(digits, k=rng.randint(2, 18)))

    def draw_ascii() -> str:
        printable = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ \nab1"
        return "".join(rng.choices(printable, k=rng.randint(2, 24)))

    texts = [*EDGE_CASES, *natural_lines, *CODE_LINES]
    texts += [rng.choice(prose)[:90] for _ in range(150)]
    makers = [
        (draw_mixed_words, 5),
        (draw_one_script, 5),
        (draw_any_script, 3),
        (draw_emoji, 2),
        (draw_marks, 2),
        (draw_digits, 2),
        (draw_ascii, 2),
    ]
    weighted_makers = [make for make, weight in makers for _ in range(weight)]
    while len(texts) < LINE_COUNT:
        texts.append(rng.choice(weighted_makers)())
    return texts
