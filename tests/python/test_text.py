"""Checks which documents are held out, and the passages that are measured."""

import json
import os
from pathlib import Path

import pytest
from sentences import check_sentence, refused

from models.train import text

ROOT = Path(__file__).resolve().parents[2]


def make_document(name: str, words: int = 40) -> str:
    """Returns a document that shares no sequence of words with another name's."""
    return " ".join(f"{name}{i}" for i in range(words))


def make_documents(count: int, name: str = "doc") -> list[str]:
    return [make_document(f"{name}{i}x") for i in range(count)]


def test_every_twelfth_document_of_each_file_is_held_out() -> None:
    a, b = make_documents(25, "a"), make_documents(13, "b")
    train, held_out = text.split_documents({"a": a, "b": b})
    assert held_out == {"a": [a[11], a[23]], "b": [b[11]]}
    assert train == [t for t in a + b if t not in (a[11], a[23], b[11])]


def test_a_repeated_document_is_dropped_only_from_the_held_out_side() -> None:
    a, b = make_documents(24, "a"), make_documents(12, "b")
    b[11] = a[3].upper().replace(" ", ",\n")  # the same words in another case and spacing
    train, held_out = text.split_documents({"a": a, "b": b})
    assert held_out == {"a": [a[11], a[23]], "b": []}
    assert train == [t for t in a + b[:11] if t not in held_out["a"]]


@pytest.mark.parametrize(("shared_count", "kept_count"), [(13, 0), (12, 1)])
def test_a_held_out_document_that_shares_13_words_is_dropped(shared_count: int, kept_count: int) -> None:
    a = make_documents(12)
    a[11] += " " + " ".join(a[0].split()[5 : 5 + shared_count]) + " the end"
    train, held_out = text.split_documents({"a": a})
    assert (len(train), len(held_out["a"])) == (11, kept_count)


def test_a_missing_file_is_named_with_the_command_that_builds_it(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as end:
        text.read_documents(tmp_path)
    check_sentence(str(end.value), Path(__file__))


def test_a_file_with_another_hash_is_rejected(tmp_path: Path) -> None:
    for name in text.SHA256:
        (tmp_path / name).write_text("another text")
    with refused(ValueError):
        text.documents(tmp_path)


def test_passages_consist_of_whole_words_and_are_spread_evenly_over_the_texts() -> None:
    texts = ["\n".join([make_document(f"p{i}d{d}w", 30) for i in range(10)] + ["short"]) for d in range(4)]
    result = text.passages(texts, 8, 50)
    assert len(result) == len(set(result)) == 8
    paragraphs = [line for t in texts for line in t.split("\n") if line != "short"]
    assert [next(i for i, line in enumerate(paragraphs) if line.startswith(p)) for p in result] == [
        2,
        7,
        12,
        17,
        22,
        27,
        32,
        37,
    ]
    assert all(len(p) <= 50 and p + " " in paragraphs[5 * i + 2] for i, p in enumerate(result))


def test_a_passage_includes_a_word_that_just_fits() -> None:
    assert text.passages(["one three five"], 1, 9) == ["one three"]
    assert text.passages(["one three five"], 1, 8) == ["one"]
    assert len(text.passages(["one three", "one two"], 1, 9)) == 1  # the first text is exactly as long as a passage


def test_the_corpora_are_split_into_the_stated_numbers_of_documents() -> None:
    folder = os.environ.get("SINKSCOPE_CORPORA")
    if folder is None:
        pytest.skip("$SINKSCOPE_CORPORA is not set")
    files = text.read_documents(Path(folder))
    assert {name: len(texts) for name, texts in files.items()} == {"children_lit.txt": 71, "storybooks_ccby.txt": 683}
    train, held_out = text.split_documents(files)
    assert len(train) == 754 - 61
    # The training part repeats five stories, completely or partly, and no book.
    assert {name: len(texts) for name, texts in held_out.items()} == {"children_lit.txt": 5, "storybooks_ccby.txt": 51}
    shipped_passages = json.loads((ROOT / "models/zoo/heldout.json").read_text())
    assert text.passages(held_out["children_lit.txt"], len(shipped_passages)) == shipped_passages
