"""Writes tests/golden/tokenizers: the results of tokenizers on a thousand lines, computed by Hugging Face transformers
and tokenizers, and by SentencePiece.

    python -m models.reference.goldens.write_tokenizers --source FOLDER   reduced tokenizers and their ids
    python -m models.reference.goldens.write_tokenizers --only gemma      one reduced tokenizer

FOLDER has the published files gpt2_vocab.json, gpt2_merges.txt, gptneox_tokenizer.json and smollm2.gguf, which are too
large for this repository. A reduced tokenizer has only the first merges of a published one, and all of its other
settings.
"""

import argparse
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import gguf
import sentencepiece
import tokenizers
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, GPT2Tokenizer

from ..files import write_json
from . import GOLDEN, ZOO

FOLDER = GOLDEN / "tokenizers"
MERGE_COUNT = 1000
VOCABULARY_SIZE = 1200
NO_HASH = "-" * 8
KEY_PREFIX = "tokenizer.ggml."  # prefix of the tokenizer's metadata in GGUF files

Metadata = dict[str, Any]


def read_lines() -> list[str]:
    return json.loads((FOLDER / "lines.json").read_text())


def hash_of(numbers: Iterable[int]) -> str:
    h = 0x811C9DC5
    for n in numbers:
        h = (h ^ n) * 0x01000193 & 0xFFFFFFFF
    return f"{h:08x}"


def utf16_offsets(text: str, offsets: list[tuple[int, int]]) -> list[int]:
    """Converts spans in characters to a list of starts and ends in UTF-16 code units."""
    unit_offsets = [0]
    for character in text:
        unit_offsets.append(unit_offsets[-1] + (2 if ord(character) > 0xFFFF else 1))
    return [unit_offsets[place] for span in offsets for place in span]


def without_post_processor(tokenizer: Tokenizer) -> Tokenizer:
    """Returns a tokenizer whose spans are untrimmed: a post-processor may trim spaces."""
    bare_tokenizer = Tokenizer.from_str(tokenizer.to_str())
    bare_tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="$A", special_tokens=[])
    return bare_tokenizer


def write_case(
    name: str, tokenizer: Tokenizer, keeps_all: bool = True, skipped_characters: str = "", **more: Any
) -> None:
    """Writes hashes for each line: of its ids with special tokens, of the spans of the tokens without special tokens,
    in UTF-16 code units, and of the characters that the ids without special tokens decode to. If a tokenizer keeps all
    characters (`keeps_all`) but a line does not decode to itself, its spans are omitted, because the library shifts
    them in such lines. Lines with a character of `skipped_characters` are omitted."""
    texts = [None if set(text) & set(skipped_characters) else text for text in read_lines()]
    bare_tokenizer = without_post_processor(tokenizer)

    def hash_spans(text: str) -> str:
        encoding = bare_tokenizer.encode(text)
        is_exact = tokenizer.decode(encoding.ids, skip_special_tokens=False) == text
        return hash_of(utf16_offsets(text, encoding.offsets)) if is_exact or not keeps_all else NO_HASH

    def hash_lines(hash_line: Callable[[str], str]) -> str:
        return "".join(NO_HASH if text is None else hash_line(text) for text in texts)

    def decode(text: str) -> str:
        return tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids)

    write_json(
        FOLDER / f"{name}.json",
        more
        | {
            "tokens": sum(len(tokenizer.encode(text).ids) for text in texts if text is not None),
            "ids": hash_lines(lambda text: hash_of(tokenizer.encode(text).ids)),
            "spans": hash_lines(hash_spans),
            "decoded": hash_lines(lambda text: hash_of(map(ord, decode(text)))),
        },
    )
    print(f"{name}: {(FOLDER / f'{name}.json').stat().st_size} bytes")


def reduce_vocabulary(vocab: dict[str, int], merges: list[str], more_tokens: Iterable[str] = ()) -> dict[str, int]:
    """Keeps only single letters, the results of the merges, and `more_tokens`, and renumbers the ids in order."""
    kept_tokens = {merge.replace(" ", "") for merge in merges} | set(more_tokens)
    tokens = sorted((t for t in vocab if len(t) == 1 or t in kept_tokens), key=vocab.__getitem__)
    return {token: i for i, token in enumerate(tokens)}


def read_gpt2(source: Path) -> tuple[dict[str, int], list[str]]:
    vocab = json.loads((source / "gpt2_vocab.json").read_text())
    merges = (source / "gpt2_merges.txt").read_text().split("\n")
    return vocab, [line for line in merges if line and not line.startswith("#version")]


def write_vocabulary(folder: Path, vocab: dict[str, int], merges: list[str], config: Metadata) -> Tokenizer:
    folder.mkdir(parents=True, exist_ok=True)
    write_compact(folder / "vocab.json", vocab)
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    write_json(folder / "tokenizer_config.json", config)
    return GPT2Tokenizer.from_pretrained(folder).backend_tokenizer


def write_compact(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


GPT2_CONFIG = {"tokenizer_class": "GPT2Tokenizer"}
OPT_CONFIG = {
    "tokenizer_class": "GPT2Tokenizer",
    "add_bos_token": True,
    "add_prefix_space": False,
    "bos_token": {
        "__type": "AddedToken",
        "content": "</s>",
        "lstrip": False,
        "normalized": True,
        "rstrip": False,
        "single_word": False,
    },
    "eos_token": "</s>",
    "unk_token": "</s>",
    "pad_token": "<pad>",
    "errors": "replace",
}


def gpt2(source: Path) -> None:
    vocab, merges = read_gpt2(source)
    merges = merges[:MERGE_COUNT]
    vocab = reduce_vocabulary(vocab, merges, ["<|endoftext|>"])
    tokenizer = write_vocabulary(FOLDER / "gpt2", vocab, merges, GPT2_CONFIG)
    write_case("gpt2", tokenizer, files="gpt2")


def opt(source: Path) -> None:
    """Writes a tokenizer like OPT's: GPT-2's merges, four special tokens before all others, </s> before each text."""
    vocab, merges = read_gpt2(source)
    merges = merges[: MERGE_COUNT // 4]
    reduced_vocab = reduce_vocabulary(vocab, merges)
    vocab = dict(zip(["<s>", "<pad>", "</s>", "<unk>", *reduced_vocab], range(len(reduced_vocab) + 4)))
    tokenizer = write_vocabulary(FOLDER / "opt", vocab, merges, OPT_CONFIG)
    write_case("opt", tokenizer, files="opt")


def gptneox(source: Path) -> None:
    file = json.loads((source / "gptneox_tokenizer.json").read_text())
    model, added = file["model"], file["added_tokens"]
    model["merges"] = model["merges"][:MERGE_COUNT]
    names = {token["content"]: token["id"] for token in added}
    model["vocab"] = reduce_vocabulary(model["vocab"] | names, model["merges"], names)
    for token in added:
        token["id"] = model["vocab"][token["content"]]
    (FOLDER / "gptneox").mkdir(exist_ok=True)
    path = FOLDER / "gptneox" / "tokenizer.json"
    write_compact(path, file)
    write_case("gptneox", Tokenizer.from_file(str(path)), files="gptneox")


BERT_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def make_word_pieces() -> dict[str, int]:
    """Makes a WordPiece vocabulary: the letters, and the most frequent prefixes and suffixes of words in the lines. The
    library's trainer chooses other pieces in each run."""
    counts: Counter[str] = Counter()
    for line in read_lines():
        if max(map(ord, line)) < 0x3000:
            for word in re.findall(r"\w+|[^\w\s]", f"{line} {line.lower()}"):
                counts.update(word[:n] for n in range(1, len(word) + 1))
                counts.update(f"##{word[n:]}" for n in range(1, len(word)))
                counts.update(f"##{letter}" for letter in word)
    ranked = sorted(counts, key=lambda piece: (len(piece.removeprefix("##")) > 1, -counts[piece] * len(piece), piece))
    return {piece: i for i, piece in enumerate([*BERT_TOKENS, *ranked[: 2 * VOCABULARY_SIZE]])}


def bert(_: Path) -> None:
    """Writes uncased and cased tokenizers with a WordPiece vocabulary and the stages of BERT's published files. Leaves
    out lines with newer characters, since the library's Unicode tables are older than JavaScript's."""
    cased_options = {"lowercase": False, "strip_accents": False}
    tokenizer = Tokenizer(models.WordPiece(make_word_pieces(), unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(list(BERT_TOKENS))
    ids = {name: BERT_TOKENS.index(name) for name in ("[CLS]", "[SEP]")}
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=list(ids.items())
    )
    (FOLDER / "bert").mkdir(exist_ok=True)
    write_compact(FOLDER / "bert" / "tokenizer.json", json.loads(tokenizer.to_str()))
    options = {"keeps_all": False, "skipped_characters": "\u09fd\u1885"}
    write_case("bert", tokenizer, files="bert", **options)
    tokenizer.normalizer = normalizers.BertNormalizer(**cased_options)
    write_case("bert-cased", tokenizer, files="bert", change=cased_options, **options)


def zoo(_: Path) -> None:
    write_case("zoo", Tokenizer.from_file(str(ZOO / "softmax" / "tokenizer.json")))


def read_gguf(path: Path) -> Metadata:
    fields = gguf.GGUFReader(path).fields
    keys = [key for key in fields if key.startswith(KEY_PREFIX)]
    return {key: fields[key].contents() for key in ["general.architecture", *keys]}


def gguf_tokenizer(metadata: Metadata) -> Tokenizer:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        writer = gguf.GGUFWriter(path, metadata["general.architecture"])
        for key, value in metadata.items():
            if isinstance(value, list):
                writer.add_array(key, value)
            elif isinstance(value, bool):
                writer.add_bool(key, value)
            elif isinstance(value, int):
                writer.add_uint32(key, value)
            elif key != "general.architecture":
                writer.add_string(key, value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return AutoTokenizer.from_pretrained(folder, gguf_file=path.name).backend_tokenizer


def set_smollm_stages(tokenizer: Tokenizer) -> Tokenizer:
    """Gives a tokenizer the stages of SmolLM2's own tokenizer.json. transformers does not split digits when it builds
    the tokenizer from a GGUF file."""
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
        ]
    )
    return tokenizer


def smollm2(source: Path) -> None:
    """Writes the reduced vocabulary of SmolLM2 with the pre-tokenizers of three models. GGUF lacks two settings, which
    are as in the models' own tokenizer.json: qwen2 has NFC, and llama-bpe does not merge within a word that is a token.
    """
    metadata = read_gguf(source / "smollm2.gguf")
    tokens, types = metadata[f"{KEY_PREFIX}tokens"], metadata[f"{KEY_PREFIX}token_type"]
    merges = metadata[f"{KEY_PREFIX}merges"][:MERGE_COUNT]
    control_tokens = [token for token, kind in zip(tokens, types) if kind != 1]
    reduced_vocab = reduce_vocabulary({token: i for i, token in enumerate(tokens)}, merges, control_tokens)
    metadata |= {
        f"{KEY_PREFIX}tokens": list(reduced_vocab),
        f"{KEY_PREFIX}merges": merges,
        f"{KEY_PREFIX}token_type": [types[tokens.index(token)] for token in reduced_vocab],
    }
    write_compact(FOLDER / "smollm2.gguf.json", metadata)
    write_case("smollm2", set_smollm_stages(gguf_tokenizer(metadata)), files="smollm2.gguf.json")
    change = {f"{KEY_PREFIX}pre": "qwen2"}
    tokenizer = gguf_tokenizer(metadata | change)
    tokenizer.normalizer = normalizers.NFC()
    write_case("qwen2", tokenizer, files="smollm2.gguf.json", change=change)
    change = {f"{KEY_PREFIX}pre": "llama-bpe", f"{KEY_PREFIX}add_bos_token": True}
    tokenizer = gguf_tokenizer(metadata | change)
    tokenizer.model.ignore_merges = True
    write_case("llama3", tokenizer, files="smollm2.gguf.json", change=change)


CL100K_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


# The patterns of Qwen 3.5, GPT-4o, Mistral's Tekken, Seed and DeepSeek V3, as in the models' own tokenizer.json.
QWEN35_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def cased_pattern(ending: str, digits: str) -> str:
    """Returns a pattern that begins a new word at a capital letter after a small one."""
    return (
        rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ending}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ending}|{digits}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


SEED_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK_PATTERN = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


TEXTS = [
    "HTTPServer isn'T it? DON'LL we'Ve ÉCOLEs ΑΒγ",
    "x/\n\n//y !!!\n\n\r\n  z \n ",
    "1234567 12 ３４５６ ½x 1,234.5",
    "नमस्ते e\u0301te\u0301 ก็ำ",
    "#include<x> $USD (foo)bar _name",
    "漢字かなカナ漢字abc、。",
    "a\u00a0 b\u2003\tc   d",
]


def splits(_: Path) -> None:
    """Writes the reduced vocabulary of SmolLM2 with the pre-tokenizers of other models. A pre-tokenizer cuts a text
    into pieces, but few merges of this vocabulary could cross the cuts, so that ids hardly show them. Therefore
    pieces.json has a hash of the sizes of the pieces, for TEXTS and every fifth line."""
    pieces = {}
    metadata = json.loads((FOLDER / "smollm2.gguf.json").read_text())
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)

    def isolate(pattern: str) -> pre_tokenizers.PreTokenizer:
        return pre_tokenizers.Split(Regex(pattern), "isolated")

    for pre, stages in {
        "dbrx": [isolate(CL100K_PATTERN), letters],
        "falcon": [
            pre_tokenizers.Punctuation("contiguous"),
            words,
            pre_tokenizers.Digits(False),
            isolate("[0-9][0-9][0-9]"),
        ],
        "bloom": [isolate(r" ?[^(\s|[.,!?…。，、।۔،])]+"), letters],
        "qwen35": [isolate(QWEN35_PATTERN), letters],
        "gpt-4o": [isolate(cased_pattern("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"\p{N}{1,3}")), letters],
        "tekken": [isolate(cased_pattern("", r"\p{N}")), letters],
        "seed-coder": [isolate(SEED_PATTERN), letters],
        "deepseek-v3": [isolate(r"\p{N}{1,3}"), isolate("[一-龥぀-ゟ゠-ヿ]+"), isolate(DEEPSEEK_PATTERN), letters],
    }.items():
        change = {f"{KEY_PREFIX}pre": pre, f"{KEY_PREFIX}add_bos_token": False}
        tokenizer = gguf_tokenizer(metadata | change)
        tokenizer.normalizer = normalizers.NFC() if pre == "qwen35" else None
        tokenizer.model.ignore_merges = pre == "tekken"
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(stages)
        pieces[pre] = "".join(
            hash_of(len(piece) for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text))
            for text in TEXTS + read_lines()[::5]
        )
        # The library's table of punctuation is older than JavaScript's.
        skipped_characters = "\u09fd" if pre == "falcon" else ""
        write_case(pre, tokenizer, skipped_characters=skipped_characters, files="smollm2.gguf.json", change=change)
    write_json(FOLDER / "pieces.json", {"texts": TEXTS, "pieces": pieces})


def train_sentencepiece(folder: Path, symbols: list[str], **more: Any) -> sentencepiece.SentencePieceProcessor:
    text = folder / "text.txt"
    # Trains on natural sentences alone, so that characters of other lines must fall back to byte tokens.
    natural_lines = [line for line in read_lines() if "\n" not in line and max(map(ord, line)) < 0x3000]
    text.write_text("\n".join(natural_lines[60:260]))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(folder / "spm"),
        model_type="bpe",
        vocab_size=VOCABULARY_SIZE,
        byte_fallback=True,
        character_coverage=0.98,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        user_defined_symbols=symbols,
        num_threads=1,
        minloglevel=2,
        **more,
    )
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model"))


def metadata_of(processor: sentencepiece.SentencePieceProcessor, symbols: list[str]) -> Metadata:
    """Returns the metadata that llama.cpp's converter writes for a SentencePiece model. The architecture is phi3: for
    it, transformers always puts a space before a text, as SentencePiece does."""
    ids = range(processor.get_piece_size())

    def token_type(i: int) -> int:
        if processor.is_unknown(i):
            return 2
        if processor.is_control(i):
            return 3
        if processor.id_to_piece(i) in symbols:
            return 4
        return 6 if processor.is_byte(i) else 1

    return {
        "general.architecture": "phi3",
        f"{KEY_PREFIX}model": "llama",
        f"{KEY_PREFIX}pre": "default",
        f"{KEY_PREFIX}tokens": [processor.id_to_piece(i) for i in ids],
        f"{KEY_PREFIX}scores": [processor.get_score(i) for i in ids],
        f"{KEY_PREFIX}token_type": [token_type(i) for i in ids],
        f"{KEY_PREFIX}bos_token_id": processor.bos_id(),
        f"{KEY_PREFIX}eos_token_id": processor.eos_id(),
        f"{KEY_PREFIX}unknown_token_id": processor.unk_id(),
        f"{KEY_PREFIX}add_bos_token": True,
        f"{KEY_PREFIX}add_space_prefix": True,
    }


def sentence_piece(_: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        processor = train_sentencepiece(Path(folder), ["<think>"])
    metadata = metadata_of(processor, ["<think>"])
    write_compact(FOLDER / "sentencepiece.gguf.json", metadata)
    tokenizer = gguf_tokenizer(metadata)
    # The results differ in lines with <s>, which SentencePiece does not recognize in a text.
    differing_lines = [
        i
        for i, text in enumerate(read_lines())
        if processor.encode(text) != tokenizer.encode(text, add_special_tokens=False).ids
    ]
    write_case(
        "sentencepiece", tokenizer, files="sentencepiece.gguf.json", lines_sentencepiece_reads_otherwise=differing_lines
    )


def gemma(_: Path) -> None:
    """Writes a tokenizer with Gemma's settings: no space before a text; runs of 2 to 31 spaces, of newlines and of tabs
    are symbols, which never merge; the converter writes spaces for the block signs in symbols; all scores are equal.
    SentencePiece itself computes the results, since transformers merges spaces like letters, and splits runs of 32 to
    79 spaces differently."""
    blocks = ["\u2581" * n for n in range(2, 32)]
    symbols = ["<think>", *blocks, *("\n" * n for n in range(2, 6)), "\t\t", "\ufeff"]
    with tempfile.TemporaryDirectory() as folder:
        processor = train_sentencepiece(Path(folder), symbols, add_dummy_prefix=False)
    metadata = metadata_of(processor, symbols)
    pieces = [
        token.replace("\u2581", " ") if kind == 4 else token
        for token, kind in zip(metadata[f"{KEY_PREFIX}tokens"], metadata[f"{KEY_PREFIX}token_type"])
    ]
    write_compact(
        FOLDER / "gemma.gguf.json",
        metadata
        | {
            "general.architecture": "gemma3",
            f"{KEY_PREFIX}tokens": pieces,
            f"{KEY_PREFIX}scores": [-1000.0] * len(pieces),
            f"{KEY_PREFIX}add_space_prefix": False,
        },
    )
    write_symbols_case("gemma", processor)


def write_symbols_case(name: str, processor: sentencepiece.SentencePieceProcessor) -> None:
    """Writes hashes for each line as write_case does, from SentencePiece's ids and spans. Omits lines with the text of
    a control symbol, which SentencePiece does not recognize. Adds the ids of 0 to 99 spaces before a letter."""
    control_tokens = [
        processor.id_to_piece(i)
        for i in range(processor.get_piece_size())
        if processor.is_control(i) or processor.is_unknown(i)
    ]
    texts = [None if any(c in text for c in control_tokens) else text for text in read_lines()]
    ids = [text and processor.encode(text) or [] for text in texts]

    def hash_lines(numbers_of: Callable[[str, list[int]], Iterable[int]]) -> str:
        return "".join(
            NO_HASH if text is None else hash_of(numbers_of(text, line_ids)) for text, line_ids in zip(texts, ids)
        )

    write_json(
        FOLDER / f"{name}.json",
        {
            "files": f"{name}.gguf.json",
            "tokens": sum(len(line_ids) + 1 for text, line_ids in zip(texts, ids) if text is not None),
            "ids": hash_lines(lambda _, line_ids: [processor.bos_id(), *line_ids]),
            "spans": hash_lines(lambda text, _: utf16_offsets(text, spans_of(processor, text))),
            "decoded": hash_lines(lambda _, line_ids: map(ord, processor.decode(line_ids))),
            "spaces": [processor.encode(" " * n + "x") for n in range(100)],
        },
    )


def spans_of(processor: sentencepiece.SentencePieceProcessor, text: str) -> list[tuple[int, int]]:
    """Returns the span of each token. If a character is split into byte tokens, SentencePiece gives the span to its
    last byte only; here every byte has it."""
    mapping = processor.encode_as_offset_mapping(text)
    spans = [tuple(span) for span in mapping["offsets"]]
    for i in reversed(range(len(spans))):
        start, end = spans[i]
        if start == end and processor.is_byte(mapping["ids"][i]):
            spans[i] = spans[i + 1]
    return spans


REDUCED: tuple[Callable[[Path], None], ...] = (gpt2, opt, gptneox, bert, zoo, smollm2, splits, sentence_piece, gemma)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write tests/golden/tokenizers")
    parser.add_argument("--source", type=Path, help="the folder of the published tokenizers")
    parser.add_argument("--only", help="one of the reduced ones, such as gemma")
    args = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for case in REDUCED:
        if args.only in (None, case.__name__):
            case(args.source)
    write_json(
        FOLDER / "golden.json",
        {
            "written_by": {
                "script": "models/reference/goldens/write_tokenizers.py",
                "tokenizers": tokenizers.__version__,
                "transformers": transformers.__version__,
                "sentencepiece": sentencepiece.__version__,
            },
            "notes": "Per line of lines.json, 8 hexadecimal digits: hash_of, see write_tokenizers.py.",
        },
    )


if __name__ == "__main__":
    main()
