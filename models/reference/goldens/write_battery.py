"""Writes tests/golden/tokenizers/battery.json: tokenizer.json files of every kind that the tokenizers library can
write, and the library's ids and offsets on texts that break tokenizers.

    python -m models.reference.goldens.write_battery
"""

import itertools
import json
import struct
from collections import Counter
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from . import GOLDEN
from .write_tokenizers import CL100K_PATTERN, NO_HASH, cased_pattern, hash_of, utf16_offsets, without_post_processor

PATH = GOLDEN / "tokenizers" / "battery.json"

# Replaces the hash of a text on which the library itself fails.
LIBRARY_FAILED = "refused!"

# Number of texts per case whose ids and spans are stored in full, besides the hashes.
STORED_TEXTS = 3

# The file holds its own texts, and long texts as a piece and how often it is repeated. Texts to add go there.
BATTERY: dict[str, Any] = json.loads(PATH.read_text())
TEXTS: list[str] = BATTERY["texts"]
LONG_TEXTS: list[tuple[str, int]] = BATTERY["long"]


def all_texts() -> list[str]:
    return [*TEXTS, *(text * times for text, times in LONG_TEXTS)]


WORDS = sorted({word.strip(".,!?") for text in TEXTS for word in text.split() if word.isprintable()} - {""})
LETTERS = sorted({c for text in TEXTS for c in text if c.isprintable()} - {"𓀀", "㍿", "ẞ", "猫", "᠎"})
SAMPLE = " ".join(text for text in TEXTS if text.isascii() and text.isprintable())


def learn_merges(words: list[list[str]], count: int) -> list[tuple[str, str]]:
    """Learns merges of the most frequent pairs, ties by alphabet; the library orders ties at random."""
    merges: list[tuple[str, str]] = []
    while len(merges) < count:
        pairs = Counter(pair for word in words for pair in itertools.pairwise(word))
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for word in words:
            for i in range(len(word) - 1, 0, -1):
                if i < len(word) and (word[i - 1], word[i]) == best:
                    word[i - 1 : i + 1] = ["".join(best)]
    return merges


def number_tokens(tokens: list[str]) -> dict[str, int]:
    return {token: i for i, token in enumerate(dict.fromkeys(tokens))}


def bpe(
    more_tokens: list[str] | None = None, letters: list[str] | None = None, text: str = SAMPLE, **options: Any
) -> models.BPE:
    merges = learn_merges([list(word) for word in text.split()], 120)
    alphabet = LETTERS if letters is None else letters
    vocab = number_tokens(
        ["<unk>", *(more_tokens or []), *alphabet, *"".join(map("".join, merges)), *map("".join, merges)]
    )
    return models.BPE(vocab, merges, **options)


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())


def byte_bpe(missing_letters: str = "", **options: Any) -> models.BPE:
    byte_words = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(SAMPLE + " 日本語 😀 привет é")
    merges = learn_merges([list(word) for word, _ in byte_words], 150)
    alphabet = [letter for letter in ALPHABET if letter not in missing_letters]
    merges = [merge for merge in merges if not set("".join(merge)) & set(missing_letters)]
    return models.BPE(number_tokens(["<unk>", *alphabet, *map("".join, merges)]), merges, **options)


def affixed_bpe() -> models.BPE:
    words = [[c if i == 0 else f"##{c}" for i, c in enumerate(word)] for word in SAMPLE.split()]
    for word in words:
        word[-1] += "</w>"
    merges = [pair for pair in itertools.chain(*(itertools.pairwise(word) for word in words))]
    merges = list(dict.fromkeys(merges))[:100]
    joined_tokens = [left + right[2:] for left, right in merges]
    letters = [f"{pre}{c}{post}" for c in LETTERS for pre in ("", "##") for post in ("", "</w>")]
    vocab = number_tokens(["<unk>", *letters, *joined_tokens])
    return models.BPE(vocab, merges, unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>")


SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def word_piece(prefix: str = "##", **options: Any) -> models.WordPiece:
    counts: Counter[str] = Counter()
    for word in WORDS:
        for form in (word, word.lower()):
            counts.update(form[:n] for n in range(1, min(len(form), 6) + 1))
            counts.update(prefix + form[n:] for n in range(1, len(form)) if len(form) - n < 6)
    pieces = sorted(counts, key=lambda piece: (-counts[piece], piece))[:700]
    options = {"unk_token": "[UNK]", "continuing_subword_prefix": prefix} | options
    return models.WordPiece(number_tokens([*SPECIAL_TOKENS, *pieces]), **options)


def word_level(unk_token: str = "<unk>") -> models.WordLevel:
    vocab = number_tokens(["<unk>", "<s>", *WORDS[::2], *"abc123,. ", "cat", "the", "old", "日本語"])
    return models.WordLevel(vocab, unk_token=unk_token)


def unigram(more_tokens: list[str] | None = None, **options: Any) -> models.Unigram:
    counts: Counter[str] = Counter()
    for word in WORDS:
        for piece in (word, f"▁{word}"):
            counts.update(piece[i:j] for i in range(len(piece)) for j in range(i + 1, min(len(piece), i + 7) + 1))
    pieces = sorted(counts, key=lambda piece: (-counts[piece] * len(piece), piece))[:600]
    scored_pieces = [(piece, -0.25 * i**0.5 - 1) for i, piece in enumerate(["▁", *pieces])]
    special_pieces = [("<unk>", 0.0), ("<s>", 0.0), *((piece, -9.0) for piece in more_tokens or [])]
    return models.Unigram([*special_pieces, *scored_pieces], **({"unk_id": 0} | options))


Cases = dict[str, Tokenizer]


def build_tokenizer(
    model: Any,
    normalizer: Any = None,
    split: Any = None,
    post: Any = None,
    decoder: Any = None,
    added_tokens: list[AddedToken] | None = None,
) -> Tokenizer:
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if split:
        tokenizer.pre_tokenizer = split
    if post:
        tokenizer.post_processor = post
    if decoder:
        tokenizer.decoder = decoder
    for token in added_tokens or []:
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    return tokenizer


def flagged_tokens(**flags: bool) -> list[AddedToken]:
    return [
        AddedToken("<mask>", special=True, normalized=False, **flags),
        AddedToken("cat", special=False, normalized=False, **flags),
        AddedToken("The", special=False, normalized=True, **flags),
    ]


def byte_level(**options: Any) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(**({"add_prefix_space": False} | options))


O200K_PATTERN = cased_pattern("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"\p{N}{1,3}")
LLAMA_DECODER = decoders.Sequence(
    [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
)
SPACES_TO_BLOCKS = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])


def template(tokens: str) -> processors.TemplateProcessing:
    return processors.TemplateProcessing(single=tokens, special_tokens=[("<s>", 1), ("<unk>", 0)])


def bpe_cases() -> Cases:
    space = pre_tokenizers.Whitespace()
    partial_bytes = [byte for byte in BYTES if byte not in ("<0xF0>", "<0x80>")]
    return {
        "bpe": build_tokenizer(bpe(unk_token="<unk>"), split=space),
        "bpe fuse_unk": build_tokenizer(bpe(unk_token="<unk>", fuse_unk=True), split=space),
        "bpe without unk_token": build_tokenizer(bpe(), split=space),
        "bpe unk_token not in the vocabulary": build_tokenizer(bpe(letters=list("abcdehimnorst ")), split=space),
        "bpe prefix and suffix": build_tokenizer(affixed_bpe(), split=space, decoder=decoders.BPEDecoder("</w>")),
        "bpe byte_fallback": build_tokenizer(
            bpe(BYTES, list("abcdehimnorst▁"), unk_token="<unk>", fuse_unk=True, byte_fallback=True),
            SPACES_TO_BLOCKS,
            decoder=LLAMA_DECODER,
            post=template("<s> $A"),
            added_tokens=[AddedToken("<s>", special=True), AddedToken("<mask>", special=True)],
        ),
        "bpe byte_fallback, bytes missing": build_tokenizer(
            bpe(partial_bytes, list("abcdehimnorst▁"), unk_token="<unk>", byte_fallback=True), SPACES_TO_BLOCKS
        ),
        "bpe metaspace first": build_tokenizer(
            bpe(unk_token="<unk>"),
            split=pre_tokenizers.Metaspace(prepend_scheme="first"),
            decoder=decoders.Metaspace(prepend_scheme="first"),
            added_tokens=flagged_tokens(),
        ),
        "bpe metaspace never, no split": build_tokenizer(
            bpe(unk_token="<unk>", fuse_unk=True),
            split=pre_tokenizers.Metaspace("_", prepend_scheme="never", split=False),
            decoder=decoders.Metaspace("_", prepend_scheme="never"),
        ),
        "bpe dropout": build_tokenizer(bpe(unk_token="<unk>", dropout=0.5), split=space),
        **byte_level_cases(),
    }


def byte_level_cases() -> Cases:
    return {
        "byte-level": build_tokenizer(
            byte_bpe(), split=byte_level(), decoder=decoders.ByteLevel(), post=processors.ByteLevel(trim_offsets=True)
        ),
        "byte-level prefix space": build_tokenizer(
            byte_bpe(),
            split=byte_level(add_prefix_space=True),
            decoder=decoders.ByteLevel(),
            post=processors.RobertaProcessing(("<unk>", 0), ("!", 1)),
            added_tokens=flagged_tokens(lstrip=True),
        ),
        "byte-level, bytes missing": build_tokenizer(byte_bpe("Ā!ð"), split=byte_level(), decoder=decoders.ByteLevel()),
        "byte-level ignore_merges, GPT-4": build_tokenizer(
            byte_bpe(ignore_merges=True),
            decoder=decoders.ByteLevel(),
            split=pre_tokenizers.Sequence(
                [pre_tokenizers.Split(Regex(CL100K_PATTERN), "isolated"), byte_level(use_regex=False)]
            ),
        ),
        "byte-level, o200k": build_tokenizer(
            byte_bpe(),
            decoder=decoders.ByteLevel(),
            split=pre_tokenizers.Sequence(
                [pre_tokenizers.Split(Regex(O200K_PATTERN), "removed", True), byte_level(use_regex=False)]
            ),
        ),
        "byte-level digits, NFC": build_tokenizer(
            byte_bpe(),
            normalizers.NFC(),
            pre_tokenizers.Sequence([pre_tokenizers.Digits(True), byte_level()]),
            decoder=decoders.ByteLevel(),
            added_tokens=flagged_tokens(rstrip=True),
        ),
        **space_run_cases(),
    }


def space_run_cases() -> Cases:
    return {
        # Tokens for runs of spaces and tabs, as in codegen and phi, and, with NFC, in mpt and gpt_neox.
        "byte-level, runs of spaces": build_tokenizer(
            byte_bpe(), split=byte_level(), decoder=decoders.ByteLevel(), added_tokens=space_run_tokens()
        ),
        "byte-level, runs of spaces, NFC": build_tokenizer(
            byte_bpe(), normalizers.NFC(), byte_level(), decoder=decoders.ByteLevel(), added_tokens=space_run_tokens()
        ),
        "byte-level normalizer": build_tokenizer(
            byte_bpe(),
            normalizers.Sequence([normalizers.NFKC(), normalizers.ByteLevel()]),
            decoder=decoders.ByteLevel(),
            added_tokens=flagged_tokens(),
        ),
        "byte-level truncation and padding": enable_truncation(
            build_tokenizer(
                byte_bpe(), split=byte_level(), post=processors.Sequence([processors.ByteLevel(), template("$A <unk>")])
            )
        ),
    }


def space_run_tokens() -> list[AddedToken]:
    return [
        *(AddedToken(" " * n, normalized=True, special=False) for n in range(31, 1, -1)),
        *(AddedToken("\t" * n, normalized=True, special=False) for n in range(9, 1, -1)),
    ]


def enable_truncation(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=16)
    return tokenizer


def bert(normalizer: normalizers.Normalizer, **options: Any) -> Tokenizer:
    return build_tokenizer(
        word_piece(**options),
        normalizer,
        pre_tokenizers.BertPreTokenizer(),
        processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)),
        decoders.WordPiece(),
        [AddedToken(name, special=True) for name in SPECIAL_TOKENS],
    )


def word_cases() -> Cases:
    split = pre_tokenizers.Split
    behaviors = ("removed", "isolated", "contiguous", "merged_with_previous", "merged_with_next")
    splits = {
        "Whitespace": pre_tokenizers.Whitespace(),
        "WhitespaceSplit": pre_tokenizers.WhitespaceSplit(),
        "BertPreTokenizer": pre_tokenizers.BertPreTokenizer(),
        "Digits": pre_tokenizers.Digits(False),
        "Digits individual": pre_tokenizers.Digits(True),
        "FixedLength": pre_tokenizers.FixedLength(3),
        "CharDelimiterSplit": pre_tokenizers.CharDelimiterSplit(","),
        "UnicodeScripts": pre_tokenizers.UnicodeScripts(),
        "no pre-tokenizer": None,
        "Sequence": pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(), pre_tokenizers.Digits(True)]
        ),
        **{f"Punctuation {behavior}": pre_tokenizers.Punctuation(behavior) for behavior in behaviors},
        **{f"Split text {behavior}": split("a", behavior) for behavior in behaviors},
        **{f"Split pattern {behavior} inverted": split(Regex(r"\w+|\s"), behavior, True) for behavior in behaviors},
        "Split what may be empty": split(Regex(r"x*(?=[aeiou])|\b"), "merged_with_next"),
    }
    return {
        "wordpiece uncased": bert(normalizers.BertNormalizer()),
        "wordpiece cased": bert(normalizers.BertNormalizer(lowercase=False, handle_chinese_chars=False)),
        "wordpiece cased, no accents": bert(
            normalizers.BertNormalizer(lowercase=False, clean_text=False, strip_accents=True),
            max_input_chars_per_word=8,
        ),
        "wordpiece without prefix": build_tokenizer(
            word_piece(""), split=pre_tokenizers.Whitespace(), decoder=decoders.WordPiece("", cleanup=False)
        ),
        "wordpiece without unk_token": build_tokenizer(
            word_piece(unk_token="<none>"), split=pre_tokenizers.Whitespace()
        ),
        "wordlevel without unk_token": build_tokenizer(word_level("<none>"), split=pre_tokenizers.WhitespaceSplit()),
        **{f"wordlevel {name}": build_tokenizer(word_level(), split=stage) for name, stage in splits.items()},
    }


def unigram_cases() -> Cases:
    space = pre_tokenizers.Metaspace()
    return {
        "unigram": build_tokenizer(unigram(), split=space, decoder=decoders.Metaspace(), post=template("$A <s>")),
        "unigram without unk_id": build_tokenizer(unigram(unk_id=None), split=space),
        "unigram byte_fallback": build_tokenizer(unigram(BYTES, byte_fallback=True), split=space),
        "unigram byte_fallback, bytes missing": build_tokenizer(unigram(BYTES[:200], byte_fallback=True), split=space),
        "unigram of the whole text": build_tokenizer(
            unigram(),
            normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]),
        ),
        "unigram CTC": build_tokenizer(unigram(), normalizers.Nmt(), space, decoder=decoders.CTC("<s>", "▁")),
        "unigram Precompiled": build_tokenizer(unigram(), normalizers.Precompiled(empty_charsmap()), space),
    }


def normalizer_cases() -> Cases:
    normalizers_by_name = {
        "NFC": normalizers.NFC(),
        "NFD": normalizers.NFD(),
        "NFKC": normalizers.NFKC(),
        "NFKD": normalizers.NFKD(),
        "Lowercase": normalizers.Lowercase(),
        "Nmt": normalizers.Nmt(),
        "Strip": normalizers.Strip(),
        "Strip left": normalizers.Strip(right=False),
        "Strip right": normalizers.Strip(left=False),
        "StripAccents": normalizers.StripAccents(),
        "NFKD, StripAccents, Lowercase": normalizers.Sequence(
            [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
        ),
        "Replace": normalizers.Replace("ab", "!"),
        "Replace by nothing": normalizers.Replace(Regex(r"[aeiou]"), ""),
        "Replace by more": normalizers.Replace(Regex(r"\s+"), " _ "),
        "Prepend": normalizers.Sequence([normalizers.NFC(), normalizers.Prepend(">> ")]),
    }
    letters = [*LETTERS, ">", "!", *(chr(c) for c in range(0x300, 0x330)), *"\u1112\u1161\u11ab\u1100"]
    split = pre_tokenizers.WhitespaceSplit()
    return {
        f"normalizer {name}": build_tokenizer(
            bpe(letters=letters, unk_token="<unk>"), normalizer, split, added_tokens=flagged_tokens()
        )
        for name, normalizer in normalizers_by_name.items()
    }


def added_token_cases() -> Cases:
    flags = ("single_word", "lstrip", "rstrip")
    combinations = [chosen_flags for n in range(4) for chosen_flags in itertools.combinations(flags, n)]
    lowercase = normalizers.Lowercase()
    overlapping_tokens = [
        AddedToken("<x>", normalized=False),
        AddedToken("<xx>", normalized=False),
        AddedToken("<xxx>"),
        AddedToken("xx"),
        AddedToken("▁▁"),
        AddedToken(" ", lstrip=True),
        AddedToken("é"),
        AddedToken("😀"),
    ]
    return {
        **{
            f"added {' '.join(chosen_flags) or 'tokens'}": build_tokenizer(
                word_level(),
                lowercase,
                pre_tokenizers.WhitespaceSplit(),
                added_tokens=flagged_tokens(**dict.fromkeys(chosen_flags, True)),
            )
            for chosen_flags in combinations
        },
        "added, one within another": build_tokenizer(
            bpe(unk_token="<unk>"), normalizers.NFC(), added_tokens=overlapping_tokens
        ),
        "added, with a prefix": build_tokenizer(
            bpe(unk_token="<unk>"),
            SPACES_TO_BLOCKS,
            added_tokens=[
                AddedToken("the", normalized=True),
                AddedToken("old", normalized=False),
                AddedToken("<mask>"),
            ],
        ),
    }


def empty_charsmap() -> bytes:
    return struct.pack("<I", 1024) + bytes(1024)


def does_library_shift_offsets(tokenizer: Tokenizer, text: str) -> bool:
    """Whether the library's offsets are wrong. Its BPE adds up the lengths of tokens: a character that it drops because
    there is no unknown token has no length, and an unknown character comes after the bytes that follow it."""
    file = json.loads(tokenizer.to_str())
    model = file["model"]
    if model["type"] != "BPE" or not (model["unk_token"] is None or model["byte_fallback"]):
        return False
    model["unk_token"] = "<unk>"
    tokenizer_with_unknown = Tokenizer.from_str(json.dumps(file))
    return model["vocab"]["<unk>"] in tokenizer_with_unknown.encode(text, add_special_tokens=False).ids


def hash_results(tokenizer: Tokenizer, texts: list[str]) -> dict[str, Any]:
    """Returns hashes of ids, offsets and decoded texts; nothing for a BPE with dropout, whose encodings are random."""
    if getattr(tokenizer.model, "dropout", None):
        return {}
    tokenizer.no_truncation()
    tokenizer.no_padding()
    bare_tokenizer = without_post_processor(tokenizer)
    hashes: dict[str, list[str]] = {"ids": [], "spans": [], "decoded": []}
    stored_texts = {}
    for i, text in enumerate(texts):
        try:
            ids, bare_encoding = tokenizer.encode(text).ids, bare_tokenizer.encode(text)
        except BaseException:  # noqa: BLE001  The library raises its own errors, and may panic.
            for column in hashes.values():
                column.append(LIBRARY_FAILED)
            continue
        spans = utf16_offsets(text, bare_encoding.offsets)
        hashes["ids"].append(hash_of(ids))
        hashes["spans"].append(NO_HASH if does_library_shift_offsets(tokenizer, text) else hash_of(spans))
        hashes["decoded"].append(hash_of(map(ord, tokenizer.decode(bare_encoding.ids))))
        if 4 <= i < 4 + STORED_TEXTS or i == TEXTS.index("a<mask>b"):
            stored_texts[str(i)] = {"ids": ids, "spans": spans}
    return {name: "".join(column) for name, column in hashes.items()} | {"whole": stored_texts}


def main() -> None:
    texts = all_texts()
    all_cases = bpe_cases() | word_cases() | unigram_cases() | normalizer_cases() | added_token_cases()
    cases = []
    for name, tokenizer in all_cases.items():
        file = tokenizer.to_str()
        cases.append({"name": name, "file": json.loads(file), **hash_results(Tokenizer.from_str(file), texts)})
    header = {
        "written_by": {"script": "models/reference/goldens/write_battery.py", "tokenizers": tokenizers.__version__},
        "texts": TEXTS,
        "long": LONG_TEXTS,
    }
    lines = ",\n".join(json.dumps(case, ensure_ascii=True, separators=(",", ":")) for case in cases)
    PATH.write_text(json.dumps(header, indent=0)[:-2] + f',\n"cases": [\n{lines}\n]\n}}\n')
    print(f"{len(cases)} tokenizers, {len(texts)} texts, {PATH.stat().st_size} bytes")


if __name__ == "__main__":
    main()
