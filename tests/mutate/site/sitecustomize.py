"""Python imports this file first if its folder is on PYTHONPATH: it replaces the text of one module of models/ by that
of another file, also in the processes that a test starts.

    MUTANT=models/train/outcomes.py MUTANT_TEXT=FILE PYTHONPATH=tests/mutate/site pytest
"""

import importlib.abc
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any

# An installed package is imported by its name below src/.
FILE = os.environ["MUTANT"].removesuffix(".py").removesuffix("/__init__")
NAME = FILE.split("/src/")[-1].replace("/", ".")


class MutantLoader(SourceFileLoader):
    def get_data(self, path: str) -> bytes:
        return Path(os.environ["MUTANT_TEXT"]).read_bytes()

    def path_stats(self, path: str) -> Any:
        raise OSError("the edited text has no cache")


class MutantFinder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != NAME:
            return None
        file = str(Path(os.environ["MUTANT"]).resolve())
        return importlib.util.spec_from_file_location(name, file, loader=MutantLoader(name, file))


sys.meta_path.insert(0, MutantFinder())
