"""Compares the sentences of errors with sentences.json beside the tests, which a review reads in the diff.

SINKSCOPE_SENTENCES=write python3 -m pytest FILE    writes those of a file's tests again
"""

import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FOLDER = re.compile(re.escape(tempfile.gettempdir()) + r"/pytest-of-[^/]+/[^/]+/[^/\s:,']+")
counts: Counter[str] = Counter()


def check_sentence(text: str, source: Path) -> None:
    """Checks the next sentence of the running test; temporary folders are called <folder>."""
    path, text = source.with_name("sentences.json"), FOLDER.sub("<folder>", text)
    test = f"{source.stem} {os.environ['PYTEST_CURRENT_TEST'].partition('::')[2].rpartition(' ')[0]}"
    known = json.loads(path.read_text()) if path.exists() else {}
    place, counts[test] = counts[test], counts[test] + 1
    if os.environ.get("SINKSCOPE_SENTENCES") == "write":
        known[test] = [*known.get(test, [])[:place], text]
        path.write_text(json.dumps(dict(sorted(known.items())), indent=1, ensure_ascii=False) + "\n")
    expected = known.get(test, [])[place : place + 1]
    assert [text] == expected, f"{test}: expected {expected}, found {[text]}"


@contextmanager
def refused(kind: type[Exception]) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expects an error of this kind, with the sentence that the file has."""
    with pytest.raises(kind) as error:
        yield error
    check_sentence(str(error.value), Path(error.traceback[1].path))
