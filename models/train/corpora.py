"""Builds the two text files of the recipes from their public sources, byte for byte.

    python -m models.train.corpora FOLDER

The command fetches three repositories at the commits below into FOLDER/sources, unless they exist there: as a bare
clone OWNER-NAME, or as the files of one folder, OWNER-NAME/ChiLit or OWNER-NAME/en. It writes FOLDER/children_lit.txt
and FOLDER/storybooks_ccby.txt, and refuses a text whose SHA-256 differs from the one in text.py. It needs only git and
Python, and neither where FOLDER has both texts.
"""

import argparse
import io
import random
import re
import subprocess
import tarfile
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .text import END, SHA256, check_digest

Files = list[tuple[str, str]]  # name and text, in the byte order of the names


@dataclass(frozen=True)
class Source:
    repository: str
    commit: str
    folder: str
    names: str  # regular expression of the files to read


BOOK_SOURCE = Source("birmingham-ccr/corpora", "ae1e53df4df9a20cccda548a6fd655188e89da21", "ChiLit", r".*\.txt")
STORY_SOURCES = (
    Source("global-asp/asp-source", "99e022369a980bd52bce8c6f86d5f24e9a4ada9d", "en", r"\d{4}_.*\.md"),
    Source("global-asp/pb-source", "9ea530dfb0011dd1cbaf42e6ffe74aa3ef5733ed", "en", r"\d{4}_.*\.md"),
)
ASCII_SUBSTITUTES = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2013": "-",
        "\u2014": "--",
        "\u2015": "--",
        "\u00a3": "L",
        "\u00e6": "ae",
        "\u00c6": "AE",
        "\u0153": "oe",
    }
)
NOTE_MARKS = ("[Illustration", "etext", "produced by")
MIN_CHARACTERS = 200
SHUFFLE_SEED = 0


def fold_to_ascii(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text.translate(ASCII_SUBSTITUTES))
    return "".join(character for character in decomposed if not unicodedata.category(character).startswith("M"))


def collapse_spaces(text: str) -> str:
    return re.sub("[ \n]+", " ", text).strip(" ")


def join_document(paragraphs: Iterable[str]) -> str:
    return "\n".join([*paragraphs, END, ""])


def is_prose(paragraph: str) -> bool:
    letters = len(re.findall("[A-Za-z]", paragraph))
    return (
        paragraph != "" and not any(words in paragraph for words in NOTE_MARKS) and 20 * letters >= 11 * len(paragraph)
    )


def book_paragraphs(text: str) -> list[str]:
    paragraphs = [re.sub("_([^_]+)_", r"\1", collapse_spaces(paragraph)) for paragraph in re.split("\n{2,}", text)]
    ascii_paragraphs = (re.sub("[^ -~]", "", fold_to_ascii(paragraph)) for paragraph in paragraphs)
    return [paragraph for paragraph in ascii_paragraphs if is_prose(paragraph)]


def children_lit_text(files: Files) -> str:
    return "".join(join_document(book_paragraphs(text)) for _, text in files)


def story_paragraphs(text: str) -> list[str]:
    """Returns a story's paragraphs that ASCII can write, without the title in the first line and the lines from the
    license on; none if the license forbids commercial use."""
    license = re.search(r"^\* License: *(.*)$", text, re.MULTILINE)
    if license is None:
        raise ValueError(f"expected a line '* License:' in the story {text[:40]!r}")
    if "NC" in license[1]:
        return []
    body = text[: license.start()].partition("\n")[2]
    pieces = (fold_to_ascii(piece) for piece in re.split(r"\n{2,}|^##$", body, flags=re.MULTILINE))
    ascii_paragraphs = (collapse_spaces(piece).lstrip("#* ") for piece in pieces if not re.search("[^ -~\n]", piece))
    return [paragraph for paragraph in ascii_paragraphs if paragraph]


def storybooks_text(files: Files) -> str:
    stories = [paragraphs for _, text in files if len("\n".join(paragraphs := story_paragraphs(text))) > MIN_CHARACTERS]
    random.Random(SHUFFLE_SEED).shuffle(stories)
    return "".join(map(join_document, stories))


def run_git(folder: Path, *arguments: str) -> bytes:
    return subprocess.run(
        ["git", "-C", str(folder), "-c", "core.autocrlf=false", *arguments], check=True, stdout=subprocess.PIPE
    ).stdout


def fetch_archive(source: Source, clone: Path, site: str) -> dict[str, bytes]:
    """Returns the files of a source's folder at its commit, which `site` has unless the clone does."""
    if not clone.exists():
        clone.mkdir(parents=True)
        run_git(clone, "init", "--quiet", "--bare")
    if subprocess.run(
        ["git", "-C", str(clone), "cat-file", "-e", f"{source.commit}^{{tree}}"], check=False, stderr=subprocess.DEVNULL
    ).returncode:
        try:
            run_git(clone, "fetch", "--quiet", "--depth", "1", f"{site}/{source.repository}", source.commit)
        except subprocess.CalledProcessError:
            raise SystemExit(
                f"{site}/{source.repository}: cannot be fetched. Replace {clone} by a bare clone from any mirror that "
                f"has commit {source.commit}, or put any copy of its folder there, as {clone / source.folder}; or put "
                f"the text files of another machine into {clone.parents[1]}. A text is taken by its SHA-256."
            ) from None
    archive = io.BytesIO(run_git(clone, "archive", "--format=tar", source.commit, source.folder))
    with tarfile.open(fileobj=archive) as tar:
        members = [m for m in tar if m.isfile() and Path(m.name).parent == Path(source.folder)]
        return {Path(m.name).name: file.read() for m in members if (file := tar.extractfile(m)) is not None}


def read_files(source: Source, sources: Path, site: str) -> Files:
    clone = sources / source.repository.replace("/", "-")
    copy = clone / source.folder
    files = (
        {file.name: file.read_bytes() for file in copy.iterdir() if file.is_file()}
        if copy.is_dir()
        else fetch_archive(source, clone, site)
    )
    return [(name, data.decode()) for name, data in sorted(files.items()) if re.fullmatch(source.names, name)]


def build_corpora(folder: Path, site: str) -> None:
    if all((folder / name).exists() for name in SHA256):
        for name in SHA256:
            check_digest(name, (folder / name).read_bytes())
        print(f"{folder}: has the texts, their SHA-256 is as expected")
        return
    sources = folder / "sources"
    books = read_files(BOOK_SOURCE, sources, site)
    stories = [file for source in STORY_SOURCES for file in read_files(source, sources, site)]
    for name, text in (
        ("children_lit.txt", children_lit_text(books)),
        ("storybooks_ccby.txt", storybooks_text(stories)),
    ):
        data = text.encode("ascii")
        check_digest(name, data)
        (folder / name).write_bytes(data)
        print(f"{folder / name}: {len(text):,} bytes, {text.count(END)} documents", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--site", default="https://github.com", help="where the repositories are")
    arguments = parser.parse_args()
    build_corpora(arguments.folder, arguments.site)


if __name__ == "__main__":
    main()
