"""Checks that corpora.py builds the recipes' text files, on small samples of their sources."""

import dataclasses
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest
from sentences import check_sentence, refused

from models.train import corpora, text
from models.train.text import END, SHA256


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("\u2018a\u2019 \u201cb\u201d 1\u20132 c\u2014d\u2015e", "'a' \"b\" 1-2 c--d--e"),
        ("\u00a35 C\u00e6sar \u00c6sop c\u0153ur", "L5 Caesar AEsop coeur"),
        # The text has compatibility forms, accents as one character and as two, and an enclosing mark.
        ("\ufb01n \u00e9t\u00e9 e\u0301 a\u20dd \u2026", "fin ete e a ..."),
        ("\u4e2d \u0152", "\u4e2d \u0152"),
    ],
)
def test_typographic_characters_are_folded(text: str, folded: str) -> None:
    assert corpora.fold_to_ascii(text) == folded


@pytest.mark.parametrize(
    ("text", "paragraphs"),
    [
        ("One  two\nthree\n\n\n\nfour", ["One two three", "four"]),
        ("One\ttwo", ["Onetwo"]),  # a tab is removed, since it counts neither as a space nor as printable
        ("An _em\nphatic_ word, _a__b_ too", ["An em phatic word, ab too"]),
        ("_ab cd_ and __ef_ gh_", ["ab cd and _ef gh_"]),  # pairs of underscores are removed once, from left to right
        ("A \u4e2d b and more words", ["A  b and more words"]),  # spaces are not collapsed again
        ("Text here\n\n\u4e2d\u4e2d\n\nand here", ["Text here", "and here"]),
        (
            "Some words [Illustration: a cat]\n\nA pretext of words\n\nproduced by me\n\nProduced by you",
            ["Produced by you"],
        ),
        ("aaaaaaaaaaa---------", ["aaaaaaaaaaa---------"]),  # 11 of 20 are letters
        ("aaaaaaaaaa----------", []),
    ],
)
def test_a_book_is_split_into_plain_paragraphs_of_prose(text: str, paragraphs: list[str]) -> None:
    assert corpora.book_paragraphs(text) == paragraphs


def story_text(body: str, license: str = "[CC-BY]") -> str:
    return f"# The title\n\n{body}\n\n##\n* License: {license}\n* Text: the author\n"


@pytest.mark.parametrize(
    ("body", "paragraphs"),
    [
        ("##\nOne\n two \n##\nthree\n\nfour", ["One two", "three", "four"]),
        ("###  * Head\n\n## \n\na ## b", ["Head", "a ## b"]),
        ("Good \u2019til now\n\nNot \u4e2d this\n\nnor\u2029 this\n\nnor\tthis", ["Good 'til now"]),
    ],
)
def test_a_story_is_split_into_plain_paragraphs(body: str, paragraphs: list[str]) -> None:
    assert corpora.story_paragraphs(story_text(body)) == paragraphs


def test_a_story_that_forbids_commercial_use_is_left_out() -> None:
    assert corpora.story_paragraphs(story_text("A story.", "[CC-BY-NC]")) == []
    assert corpora.story_paragraphs(story_text("An NC story.", "public domain")) == ["An NC story."]
    with pytest.raises(ValueError, match="expected a line '\\* License:'"):
        corpora.story_paragraphs("# The title\n\nA story.\n")


def test_stories_have_more_than_200_characters_and_their_order_is_drawn() -> None:
    """The expected order is drawn by random.Random(0)."""
    words = [chr(ord("a") + i) * 199 for i in range(5)]
    stories = [(f"{i:04}_x.md", story_text(f"{word}\n\n{i}")) for i, word in enumerate(words)]
    short_story = ("0009_x.md", story_text("z" * 198 + "\n\n9"))
    text = corpora.storybooks_text([*stories, short_story])
    assert text == "".join(f"{words[i]}\n{i}\n{END}\n" for i in (2, 1, 0, 4, 3))


def make_repository(path: Path, files: dict[str, bytes]) -> str:
    """Makes a repository with one commit, and returns the commit's hash."""
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)

    def run_git(*arguments: str) -> str:
        settings = ("user.name=a", "user.email=a@b.c", "core.autocrlf=false", "commit.gpgsign=false")
        options = (word for setting in settings for word in ("-c", setting))
        command = ["git", "-C", str(path), *options, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    run_git("init", "--quiet")
    run_git("add", "--all")
    run_git("commit", "--quiet", "--message", "sample")
    run_git("config", "uploadpack.allowAnySHA1InWant", "true")
    return run_git("rev-parse", "HEAD")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    story = story_text("##\n" + "A lion and a mouse. " * 12).encode()
    files: dict[str, dict[str, bytes]] = {
        "birmingham-ccr/corpora": {
            "ChiLit/b.txt": "Fianc\u00e9 and friend".encode(),
            "ChiLit/B.txt": b"A book\nof two lines",
            "ChiLit/more/c.txt": b"Not this one",
            "ChiLit/notes.md": b"Nor this",
            "AAW/d.txt": b"Nor this",
        },
        "global-asp/asp-source": {
            "en/0002_b.md": story.replace(b"lion", b"bear"),
            "en/0001_a.md": story,
            "en/0003_c.md": story.replace(b"CC-BY", b"CC-BY-NC"),
            "en/README.md": b"Not a story",
            "fr/0001_a.md": story.replace(b"lion", b"ours"),
        },
        "global-asp/pb-source": {"en/0001_a.md": story.replace(b"lion", b"wolf")},
    }
    commits = {name: make_repository(tmp_path / "site" / name, contents) for name, contents in files.items()}

    def with_commit(source: corpora.Source) -> corpora.Source:
        return dataclasses.replace(source, commit=commits[source.repository])

    monkeypatch.setattr(corpora, "BOOK_SOURCE", with_commit(corpora.BOOK_SOURCE))
    monkeypatch.setattr(corpora, "STORY_SOURCES", tuple(map(with_commit, corpora.STORY_SOURCES)))
    return tmp_path / "site"


def expected_files() -> dict[str, bytes]:
    stories = [(f"A {name} and a mouse. " * 12).strip() for name in ("lion", "bear", "wolf")]
    shuffled = [stories[i] for i in (0, 2, 1)]
    return {
        "children_lit.txt": f"A book of two lines\n{END}\nFiance and friend\n{END}\n".encode(),
        "storybooks_ccby.txt": "".join(f"{name}\n{END}\n" for name in shuffled).encode(),
    }


def test_the_files_are_built_from_the_commits_that_the_sources_name(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        text, "SHA256", {name: hashlib.sha256(data).hexdigest() for name, data in expected_files().items()}
    )
    # A later commit changes nothing, because the sources name the earlier one.
    make_repository(site / "birmingham-ccr/corpora", {"ChiLit/a.txt": b"A later book"})
    corpora.build_corpora(tmp_path, site.as_uri())
    assert {name: (tmp_path / name).read_bytes() for name in expected_files()} == expected_files()
    # The second build fetches nothing: this address does not exist.
    (tmp_path / "children_lit.txt").unlink()
    corpora.build_corpora(tmp_path, "file:///nowhere")
    assert {name: (tmp_path / name).read_bytes() for name in expected_files()} == expected_files()
    # With both texts no source is needed, and a text that is not the recipes' is refused.
    shutil.rmtree(tmp_path / "sources")
    corpora.build_corpora(tmp_path, "file:///nowhere")
    (tmp_path / "children_lit.txt").write_text("another text")
    with pytest.raises(ValueError, match="sha256"):
        corpora.build_corpora(tmp_path, "file:///nowhere")
    (tmp_path / "children_lit.txt").write_bytes(expected_files()["children_lit.txt"])
    # Nor does a build from copies of the folders, in place of clones.
    for source in (corpora.BOOK_SOURCE, *corpora.STORY_SOURCES):
        copy = tmp_path / "copy" / "sources" / source.repository.replace("/", "-") / source.folder
        shutil.copytree(site / source.repository / source.folder, copy)
    (tmp_path / "copy/sources/birmingham-ccr-corpora/ChiLit/a.txt").unlink()
    corpora.build_corpora(tmp_path / "copy", "file:///nowhere")
    assert {name: (tmp_path / "copy" / name).read_bytes() for name in expected_files()} == expected_files()


def test_a_source_that_cannot_be_fetched_is_named_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as end:
        corpora.read_files(corpora.BOOK_SOURCE, tmp_path / "sources", str(tmp_path / "nowhere"))
    check_sentence(str(end.value), Path(__file__))


def test_a_text_with_another_hash_is_rejected(site: Path, tmp_path: Path) -> None:
    with refused(ValueError):
        corpora.build_corpora(tmp_path, site.as_uri())
    assert not (tmp_path / "children_lit.txt").exists()


def test_every_file_of_the_recipes_is_built() -> None:
    assert set(SHA256) == set(expected_files())
