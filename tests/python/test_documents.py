"""Checks every command in a document: runs cheap commands, and checks that program and options of the others exist.

Commands are those in the shell blocks of every Markdown file (fenced as sh, bash, console, or indented) and in its
`code`. A word in capitals (FILE), owner/name and <this> are placeholders.
"""

import ast
import atexit
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLI = ["wasm/cli"]
OLD_NODE = "the path's node may be too old"
# Programs of the shell or of the system, whose arguments this test does not check.
SYSTEM_PROGRAMS = {"export", "echo", ".", "cc", "git", "docker", "sudo", "apt-get", "curl", "tar"}


def tracked_files(*patterns: str) -> list[str]:
    output = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE)
    return [name for name in output.stdout.splitlines() if (ROOT / name).exists()]


FILES = set(tracked_files())
SHELL = {"sh", "bash", "shell", "console"}


def program_of(line: str) -> str | None:
    """Returns the first word of a line after environment settings if this word is a program, else None."""
    words = line.removeprefix("$ ").split()
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    if not words:
        return None
    first = words[0].removeprefix("./")
    is_ours = first in FILES and os.access(ROOT / first, os.X_OK) and not first.endswith((".py", ".js"))
    return first if is_ours or first in CHECKS or first in SYSTEM_PROGRAMS | {"cd"} else None


def shell_lines(block: str) -> list[str]:
    """Returns the commands of a block, with continued lines joined and explanations removed."""
    lines = re.sub(r"\s*\\\n\s*", " ", block).splitlines()
    commands = (re.sub(r"\s#.*| {2,}.*", "", line.strip()) for line in lines)
    return [line.removeprefix("$ ") for line in commands if line and not line.startswith("#")]


def commands_of(text: str) -> list[str]:
    """Returns the commands of a document: every line of a shell block, and other code that begins with a program."""
    result: list[str] = []
    fence = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.M | re.S)
    for language, block in fence.findall(text):
        lines = shell_lines(block)
        if language in SHELL or (not language and lines and program_of(lines[0])):
            result += lines
    rest = fence.sub("", text)
    for block in re.findall(r"(?:^ {4}.*\n)+", rest, re.M):
        lines = shell_lines(block)
        if lines and program_of(lines[0]):
            result += lines
    prose = re.sub(r"(?:^ {4}.*\n)+", "", rest, flags=re.M)
    for code in re.findall(r"`([^`\n]+)`", prose):
        program = program_of(code)
        if program and (" " in code or program in FILES):
            result.append(code.replace("\\|", "|"))
    return result


def is_placeholder(word: str) -> bool:
    return bool(re.fullmatch(r"[A-Z][A-Z_]*(@[A-Z]+)?(\.\.\.)?|owner/name.*|<.*>|\.\.\.|\[.*\]", word))


def options_in(words: list[str]) -> list[str]:
    return [word.split("=")[0].strip("[]") for word in words if word.strip("[").startswith("--")]


def assert_exists(word: str) -> None:
    """Checks that a path exists in the tree, from the command's folder. Fetched and built files are exempt."""
    if not is_placeholder(word) and not word.startswith(("models/.", ".build", ".venv", "/", "http")):
        assert Path(word.split("@")[0]).exists(), f"there is no {word}"


def check_paths(words: list[str]) -> None:
    for word in words:
        if "/" in word and word.split("/")[0] in {name.split("/")[0] for name in FILES}:
            assert_exists(word)


def check_mentions(words: list[str], file: str) -> None:
    text = Path(file).read_text()
    for option in options_in(words):
        name = option.removeprefix("--")
        mention = rf"--{name}\b|\b{name}['\"]?:|['\"]{name}['\"]"
        assert re.search(mention, text), f"{file} has no {option}"


def arguments_of(file: Path) -> tuple[set[str], list[set[str]], bool]:
    """Returns the options that a Python script adds to its parser, the choices of its positional arguments, and whether
    a positional argument takes other values. The script is parsed but not run, since packages that it imports may be
    missing here."""
    options, choices, takes_any = set(), [], False
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            names = [n.value for n in node.args if isinstance(n, ast.Constant)]
            options.update(name for name in names if name.startswith("-"))
            arguments = [keyword for keyword in node.keywords if keyword.arg == "choices"]
            choices += [
                {ast.literal_eval(item) for item in keyword.value.elts}
                for keyword in arguments
                if isinstance(keyword.value, (ast.List, ast.Tuple))
            ]
            is_path = any(k.arg == "type" and getattr(k.value, "id", "") == "Path" for k in node.keywords)
            takes_any |= is_path and not arguments and not names[0].startswith("-")
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_parser":
            choices.append({n.value for n in node.args if isinstance(n, ast.Constant)})
    return options, choices, takes_any


def check_python(words: list[str]) -> None:
    if words[:1] != ["-m"]:
        return assert_exists(words[0])
    module = words[1]
    if module in ("venv", "pip", "http.server"):
        return check_pip(words[3:]) if module == "pip" else None
    if module == "pytest":
        return check_paths(words)
    path = module.replace(".", "/")
    places = [ROOT / base / path for base in ("", "models/record/src", "models/record")]
    files = [f for place in places for f in (place.with_suffix(".py"), place / "__main__.py")]
    file = next((f for f in files if f.exists()), None)
    assert file, f"there is no module {module}"
    options, choices, takes_any = arguments_of(file)
    # A package may have its parser in another file, and the commands of training share two options.
    others = list(file.parent.glob("*.py")) if file.name == "__main__.py" else []
    others += [file.with_name("corpus.py")] * ("add_folders(parser)" in file.read_text())
    for script in others:
        script_options, script_choices, script_takes_any = arguments_of(script)
        options, choices = options | script_options, choices + script_choices
        takes_any = takes_any or script_takes_any
    has_cases = "write_cases" in file.read_text()
    for option in options_in(words):
        assert option in options, f"{module} has no option {option}"
    values = [
        w
        for previous_word, w in zip(words[1:], words[2:])
        if not w.startswith("-") and not previous_word.startswith("-") and not is_placeholder(w)
    ]
    if values and not has_cases:
        choice_values = set().union(*choices) if choices else set()
        recipes = {Path(name).stem for name in FILES if name.startswith("models/train/recipes/")}
        for word in values:
            is_path = takes_any and re.search(r"[/.]", word)
            assert is_path or word in choice_values | recipes or word.split("-", 1)[-1] in recipes, (
                f"{module} does not know {word}"
            )
    return check_paths(words)


def check_pip(words: list[str]) -> None:
    for word in words[words.index("install") + 1 :]:
        if "/" in word:
            assert_exists(word.split("[")[0])


@functools.cache
def old_node_environment() -> dict[str, str]:
    """Returns an environment whose path begins with a Node.js that fails as versions without TypeScript do."""
    folder = Path(tempfile.mkdtemp(prefix="old-node-"))
    atexit.register(shutil.rmtree, folder)
    (folder / "node").write_text("#!/bin/sh\necho 'ERR_UNKNOWN_FILE_EXTENSION' >&2\nexit 90\n")
    (folder / "node").chmod(0o755)
    return os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}


def refuse_node(words: list[str]) -> None:
    raise AssertionError(f"{OLD_NODE} for {words}: a document names wasm/cli or tests/node")


def check_node(words: list[str]) -> None:
    files = [word for word in words if word.endswith((".mjs", ".js", ".ts"))]
    assert files, "node runs no file"
    for file in files:
        assert_exists(file)
    if words[0] != "--test":
        check_mentions(words[1:], files[0])
    return None


def check_cli(words: list[str]) -> None:
    """Runs a command if it has no placeholders; otherwise checks its options. For this, `measure` parses all options
    before it prints its help, and `train` parses all before it refuses the last one."""
    check_paths([word for word in words if "*" not in word])
    alternatives = " ".join(words).split(" | ")
    is_whole = (
        words[0] != "train"
        and len(alternatives) == 1
        and not any(map(is_placeholder, words))
        and "models/.fetched" not in " ".join(words)
    )
    if not is_whole and any("[" in word for word in words):
        words = [word.strip("[]") for word in words]
    if len(alternatives) > 1:
        words = alternatives[0].split()
    if words[0] == "COMMAND":
        words = ["measure", *words[1:]]
    if not list((ROOT / "wasm").glob("*.wasm")):
        pytest.skip("the wasm binaries are not built")
    is_refused = words[0] == "train" and "--help" not in words
    if is_refused and words[-1].startswith("--"):
        words = [*words, "VALUE"]  # sentences about an option omit its value
    more_words = [] if is_whole else ["--every", "0"] if is_refused else ["--help"]
    # A few sequences suffice to run a command.
    words = [
        "3" if previous_word == "--sequences" and int(word) > 3 else word
        for previous_word, word in zip(["", *words], words)
    ]
    process = subprocess.run(
        [*CLI, *words, *more_words], cwd=ROOT, text=True, capture_output=True, timeout=1800, env=old_node_environment()
    )
    if is_refused:
        assert "--every: expected a whole number" in process.stderr, process.stderr
    else:
        assert process.returncode == 0 and process.stdout.strip(), process.stderr


def check_npm(words: list[str]) -> None:
    folder = words[words.index("--prefix") + 1] if "--prefix" in words else "."
    if "run" in words or "test" in words:
        script = words[words.index("run") + 1] if "run" in words else "test"
        package = Path(folder) / "package.json"
        scripts = json.loads(package.read_text())["scripts"]
        assert script in scripts, f"{package} has no {script}"
        for command in scripts[script].split(" && "):
            finds_node = command.startswith(("../tests/node ", "npm "))
            assert finds_node, f"{package}, {script}: {OLD_NODE}"
    for word in words[1:]:
        if word.startswith("./"):
            assert_exists(word)


def check_npx(words: list[str]) -> None:
    assert words[0] == "sinkscope", f"{OLD_NODE} for {words}: a document names npm's scripts"


def check_cmake(words: list[str]) -> None:
    if "--target" in words:
        target = words[words.index("--target") + 1]
        assert re.search(
            rf"add_(custom_target|executable|library)\({target}\b", (ROOT / "CMakeLists.txt").read_text()
        ), f"there is no target {target}"
    for option in re.findall(r"-D(SINKSCOPE_\w+)", " ".join(words)):
        assert option in (ROOT / "CMakeLists.txt").read_text(), option


def check_ctest(words: list[str]) -> None:
    if "-R" in words:
        expected = re.compile(words[words.index("-R") + 1])
        assert any(expected.search(Path(name).stem) for name in tracked_files("tests/native")), expected.pattern


def check_script(file: str, words: list[str]) -> None:
    if file == "tests/run":
        lists = re.findall(r"^(?:stages|nightly)='(.*)'$", (ROOT / "tests/stages").read_text(), re.M)
        assert set(words) <= {*" ".join(lists).split(), "STAGE", "STAGE..."}, words
    check_mentions(words, file)


CHECKS: dict[str, Callable[[list[str]], None]] = {
    "python": check_python,
    "python3": check_python,
    "pip": check_pip,
    "node": refuse_node,
    "sinkscope": check_cli,
    "npm": check_npm,
    "npx": check_npx,
    "cmake": check_cmake,
    "ctest": check_ctest,
}


def check_program(words: list[str]) -> None:
    program = words[0].removeprefix("./")
    if program in CHECKS:
        CHECKS[program](words[1:])
    elif program == "wasm/cli":
        check_cli(words[1:])
    elif program == "tests/node":
        check_node(words[1:])
    elif program in FILES:
        assert os.access(ROOT / program, os.X_OK), f"{program} is not executable"
        assert re.match(r"#!/bin/(ba)?sh\n", (ROOT / program).read_text()), f"{OLD_NODE} for {program}"
        check_script(program, words[1:])
    else:
        assert program in SYSTEM_PROGRAMS, f"no check knows the program {program}"


def check(line: str, change_folder: Callable[[Path], None]) -> None:
    change_folder(ROOT)
    for command in line.split(" && "):
        words = shlex.split(command)
        while words and re.match(r"[A-Z_]+=", words[0]):
            words = words[1:]
        if words[:1] == ["cd"]:
            assert_exists(words[1])
            change_folder(ROOT / words[1])
        elif words:
            check_program(words)


DOCUMENT_COMMANDS = sorted(
    {
        (file, command)
        for file in tracked_files("*.md")
        for command in commands_of((ROOT / file).read_text())
        # All cards name the same commands with different recipes; test_pages checks them.
        if not file.startswith("models/zoo/") or file == "models/zoo/softmax/card.md"
    }
)


@pytest.mark.parametrize(("file", "command"), DOCUMENT_COMMANDS)
def test_a_command_of_a_document_works(file: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(command, monkeypatch.chdir)


def test_programs_say_how_they_run_without_the_node_of_the_path() -> None:
    usage = re.compile(r"^(?: \*|//|#)  +\S.*$", re.M)
    lines = [
        line for file in tracked_files("*.mjs", "*.js", "*.ts") for line in usage.findall((ROOT / file).read_text())
    ]
    assert sum("tests/node " in line for line in lines) > 15
    assert not [line for line in lines if re.search(r"(?:^\W+|&& )(?:node|npx) [\w/.]+\.(?:mjs|js|ts)\b", line)]


def test_commands_are_found() -> None:
    """Checks that commands are found in documents, without which the other tests would check nothing."""
    text = (
        "# A\n\nRun `tests/run native`, or `wasm/cli describe`; see `core/`, `web`.\n\n"
        "    python -m models.train.pages   tables\n    npm --prefix web run build # the page\n\n"
        "    zoo/   the models\n\n```sh\n$ nothing --like this \\\n  here && pip install x\n```\n\n"
        "```js\nnode(1);\n```\n"
    )
    assert commands_of(text) == [
        "nothing --like this here && pip install x",
        "python -m models.train.pages",
        "npm --prefix web run build",
        "tests/run native",
        "wasm/cli describe",
    ]
    assert len(DOCUMENT_COMMANDS) > 30


@pytest.mark.parametrize(
    "command",
    [
        "nothing --like",
        "tests/run nativ",
        "python -m models.train.page",
        "python -m models.train.all --job 2",
        "python -m models.train.train softmx",
        "tests/node tests/bench/lab.mjs --step 3",
        "tests/node tests/none.mjs",
        "node wasm/cli.js describe",
        "cd web && npx vitest run",
        "npm --prefix web run nothing",
        "cmake --build x --target wsm",
        "pip install -r models/none.txt",
        "ctest -R nothing_here",
        "web/serve --only-build",
        "cd wasm && npm run nothing",
        "cd none && tests/run",
    ],
)
def test_a_command_that_is_wrong_is_noticed(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError):
        check(command, monkeypatch.chdir)


@pytest.mark.parametrize(
    "wrong",
    [
        "measure models/zoo/softmax --txt FILE",
        "measure models/zoo/none --text x",
        "train --operations relu",
        "train [--form FOLDER]",
    ],
)
def test_a_wrong_command_line_is_noticed(wrong: str) -> None:
    with pytest.raises(AssertionError):
        check_cli(wrong.split())
