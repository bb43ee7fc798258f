"""Puts the schema of recordings into the Python package, and the page's <sink-scope> element, if the page is built
(.build/page).

A notebook loads the element into a frame without any server. One JSON file therefore stores the modules under addresses
of a host that does not exist, and an import map in the frame resolves each address to its module.
Without a built page the package lacks the file, and `sinkscope.show` draws a still picture.
"""

import gzip
import json
import os
import posixpath
import re
from base64 import b64encode
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

SITE = "https://sinkscope.invalid/"
IMPORT = re.compile(r"""(\bfrom\s*|\bimport\s*\(?\s*)(["'`])(\.{1,2}/[\w./-]+\.js)\2""")
PRELOADS = re.compile(r"__vite__mapDeps\(\[[\d,]*\]\)")


class AddressHook(MetadataHookInterface):
    """Adds the addresses of the repository to the package's metadata. GitHub's runners name the repository in their
    environment; elsewhere there are no addresses."""

    def update(self, metadata: dict[str, Any]) -> None:
        host, name = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
        source = f"{host}/{name}" if host and name else None
        metadata["urls"] = {"Source": source, "Issues": f"{source}/issues"} if source else {}


class ElementHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        schema = root.parents[1] / "core" / "report" / "recording.schema.json"
        page, static = root.parents[1] / ".build" / "page", root / "src" / "sinkscope" / "static"
        static.mkdir(exist_ok=True)
        if schema.is_file():  # otherwise this is a source distribution, which has its copy
            (static / schema.name).write_bytes(schema.read_bytes())
        if (page / "sink-scope.js").is_file():
            (static / "element.json").write_text(json.dumps(bundle_element(page)))
        build_data["artifacts"] += [f"src/sinkscope/static/{name}" for name in ("element.json", schema.name)]


def bundle_element(page: Path) -> dict[str, dict[str, str]]:
    """Returns `modules`, the source of each of the element's modules by its address, and `files`, the element's other
    files by their addresses, compressed with gzip before base64: base64 itself compresses badly in the wheel."""
    modules: dict[str, str] = {}
    pending = ["sink-scope.js"]
    while pending:
        name = pending.pop()
        if SITE + name in modules:
            continue
        folder = Path(name).parent

        def resolve_import(match: "re.Match[str]", folder: Path = folder) -> str:
            target = posixpath.normpath(posixpath.join(folder.as_posix(), match[3]))
            pending.append(target)
            return f"{match[1]}{match[2]}{SITE}{target}{match[2]}"

        text = IMPORT.sub(resolve_import, (page / name).read_text("utf-8"))
        text = PRELOADS.sub("[]", text).replace("import.meta.url", json.dumps(SITE + name))
        # The widget loads modules from blobs, which cannot resolve addresses.
        modules[SITE + name] = text.replace("import.meta.resolve", "undefined").replace("import.meta", "({})")
    resources = [*page.glob("engine/*/sinkscope.lab.wasm"), *page.glob("zoo/*/index.json")]
    return {
        "modules": modules,
        "files": {
            SITE + path.relative_to(page).as_posix(): b64encode(gzip.compress(path.read_bytes(), mtime=0)).decode()
            for path in resources
        },
    }
