"""The command line, `python -m sinkscope record`, `measure` or `study`; `--help` lists the options of each, as in
`python -m sinkscope record MODEL --texts FILE --out R.safetensors`."""

import argparse
import errno
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from . import __version__

if TYPE_CHECKING:
    from .recording import Recording
    from .summary import Table


def _parse_eps(text: str) -> tuple[float, ...]:
    from .settings import check_eps

    try:
        return check_eps([float(part) for part in text.split(",")])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("sinkscope", description="Records what attention does in a model.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="one model, into one file")
    record.add_argument("model", metavar="MODEL", help="a folder, owner/name on the hub, or a .gguf file")
    record.add_argument("--out", required=True, metavar="R.safetensors", type=Path)
    record.add_argument("--batch", type=int, default=1, help="prompts of one forward pass (%(default)s)")
    record.add_argument("--id", dest="model_id", help="what to call the model (its name)")
    measure = commands.add_parser("measure", help="print the numbers of a recording")
    measure.add_argument("recording", metavar="R.safetensors", type=Path)
    for command in (record, measure):
        format_group = command.add_mutually_exclusive_group()
        format_group.add_argument("--json", action="store_true", help="print the table as JSON")
        format_group.add_argument("--csv", action="store_true", help="print the table as CSV")
    rows = measure.add_mutually_exclusive_group()
    rows.add_argument("--heads", action="store_true", help="a row for each head, by the model's own layer numbers")
    rows.add_argument("--long", action="store_true", help="a row for each number, as Recording.to_pandas has them")
    record.add_argument(
        "--revisions",
        metavar="A,B,C",
        help="a series of checkpoints in one file: revisions on the hub, or folders in MODEL; all for "
        "every folder with a number",
    )
    record.add_argument("--images", nargs="+", metavar="FILE", help="images for a vision model, or one for each text")
    record.add_argument("--picture", action="store_true", help="keep the images in the file, at most 256 pixels a side")
    study = commands.add_parser("study", help="several models, one row for each prompt of each")
    study.add_argument("models", metavar="MODEL", nargs="+", help="as for record; NAME@REVISION on the hub")
    study.add_argument(
        "--out",
        default="study",
        metavar="FOLDER",
        help="a folder, or an address that pyarrow or fsspec writes to (s3://, gs://, hf://)",
    )
    study.add_argument("--batch", type=int, default=8, help="prompts of one forward pass (%(default)s)")
    study.add_argument("--block", type=int, help="prompts of one Parquet part (default: enough for at most 16 parts)")
    study.add_argument("--plan", action="store_true", help="print what would run, its files and bytes")
    study.add_argument("--ray", action="store_true", help="spread the prompts over workers on Ray")
    study.add_argument("--concurrency", type=int, default=1, help="workers on Ray (%(default)s)")
    study.add_argument("--num-gpus", type=float, default=0, help="GPUs of each worker (%(default)s)")
    for command in (record, study):
        command.add_argument(
            "--generate", type=int, default=0, metavar="N", help="tokens that the model appends to each prompt"
        )
        command.add_argument(
            "--part", help="the part that is recorded: a tower such as vision_model; encoder, decoder or cross"
        )
    for command, keep in ((record, 2), (study, 1)):
        command.add_argument(
            "--texts",
            "--dataset",
            required=command is study,
            metavar="FILE",
            type=Path,
            help="a .json list, .jsonl, .csv or .parquet with a column of texts, or text with blank lines between",
        )
        command.add_argument("--column", default="text", help="the column of texts (%(default)s)")
        command.add_argument("--take", "--prompts", type=int, metavar="N", help="use the first N texts")
        command.add_argument("--by", metavar="COLUMN", help="a column of labels: each has its share of the N texts")
        command.add_argument("--tokens", type=int, default=64, help="T (%(default)s)")
        command.add_argument(
            "--eps", type=_parse_eps, default=[0.1, 0.2, 0.3], metavar="E,E", help="thresholds of Sink_k (0.1,0.2,0.3)"
        )
        command.add_argument("--keep", type=int, default=keep, help="prompts with maps (%(default)s)")
        command.add_argument("--maps", default="auto", choices=("auto", "full", "pooled", "none"))
        command.add_argument("--first", type=int, default=0, help="position of the first token")
        command.add_argument(
            "--mask",
            choices=("causal", "prefix", "bidirectional"),
            help="which queries see a key (looked up in the model)",
        )
        command.add_argument("--dtype", default="auto", help="of the weights (auto)")
        command.add_argument("--device", help="cpu, cuda ... (a GPU where there is one)")
        command.add_argument("--revision", help="a branch, tag or commit on the hub")
        command.add_argument("--attention", help="attention implementation (the model's)")
        command.add_argument("--license", help="who may redistribute the recording")
        command.add_argument("--source", help="what the texts are (the name of their file)")
    return parser


class _OutputError(Exception):
    """Standard output takes nothing more; the cause is an OSError."""


def main(arguments: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if arguments is None else list(arguments)
    try:
        return _run(argv)
    except _OutputError as error:
        # A reader that closes the pipe, as `head` does, has what it wants.
        if isinstance(error.__cause__, BrokenPipeError):
            return 0
        _print(f"sinkscope: {error}", file=sys.stderr)
        return 1
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        _print(f"sinkscope: {error}", file=sys.stderr)
        return 1


def _run(argv: list[str]) -> int:
    try:
        options = vars(_make_parser().parse_args(argv))
    except SystemExit:
        _write("")
        raise
    command = options.pop("command")
    if command == "measure":
        return _measure(options)
    return _record(options, argv) if command == "record" else _study(options)


def _print(text: object, file: TextIO | None = None, end: str = "\n") -> None:
    """Prints a text with its control characters as escapes: strangers' names must not control the terminal."""
    from .summary import escape_controls

    line = escape_controls(str(text), lines=True) + end
    if file:
        file.write(line)
    else:
        _write(line)


def _write(text: str) -> None:
    """Writes to standard output at once. Raises _OutputError if that fails."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Python would try to write the rest once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        found = errno.errorcode.get(error.errno or 0, str(error))
        raise _OutputError(f"standard output: expected a place that can be written to, found {found}") from error


def _print_table(table: "Table", as_json: bool, as_csv: bool) -> None:
    if as_json:
        _print(json.dumps(table.to_json_rows(), allow_nan=False))
    else:
        _print(table.to_csv(), end="") if as_csv else _print(table)


def _table_of(recording: "Recording", options: dict[str, Any]) -> "Table":
    from .frames import long_rows
    from .summary import Table

    if options["long"]:
        return long_rows(recording)
    if not options["heads"]:
        return recording.table()
    table = Table(recording.heads())
    table.title = recording.title
    return table


def _measure(options: dict[str, Any]) -> int:
    from .checkpoints import Series, is_series
    from .recording import Recording
    from .summary import Table

    path = options["recording"]
    if not is_series(path):
        table = _table_of(Recording.open(path), options)
    else:
        series = Series.open(path)
        if options["long"] or options["heads"]:
            checkpoints = zip(series.steps, series.recordings, strict=True)
            table = Table({"step": step} | row for step, part in checkpoints for row in _table_of(part, options))
            table.title = series.title
        else:
            table = series.table()
    _print_table(table, options["json"], options["csv"])
    return 0


def _read_texts(arguments: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    from .texts import read_texts

    path, images = arguments.pop("texts"), arguments.get("images")
    if not path and not images:
        raise ValueError("--texts: expected a file of texts, or --images, found neither")
    columns = {name: arguments.pop(name) for name in ("column", "take", "by")}
    attention, revision = arguments.pop("attention"), arguments.pop("revision")
    options = {"dtype": arguments.pop("dtype"), "device": arguments.pop("device")}
    if attention:
        options["attn_implementation"] = attention
    if revision:
        options["revision"] = revision
    arguments["source"] = arguments["source"] or (path.name if path else f"{len(images)} images")
    return read_texts(path, **columns) if path else [], options


def _record(options: dict[str, Any], argv: Sequence[str]) -> int:
    from .files import check_target
    from .settings import FIELDS, Settings

    # Refuses wrong settings before a model loads.
    Settings.from_arguments(
        options["tokens"], options["eps"], options["keep"], FIELDS, options["maps"], options["first"], options["mask"]
    )
    check_target(options["out"])
    texts, load_options = _read_texts(options)
    from .loading import load
    from .recordings import record

    out, as_json, as_csv = options.pop("out"), options.pop("json"), options.pop("csv")
    if options["revisions"] is not None:
        return _series(options, texts, load_options, out, as_json, as_csv)
    del options["revisions"]
    images, keeps_picture = options.pop("images"), options.pop("picture")
    loaded = load(options.pop("model"), images=bool(images), **load_options)
    if images:
        from .images import read_images

        texts = read_images(loaded.tokenizer, images, texts)
        options["fields"] = (*FIELDS, "picture") if keeps_picture else FIELDS
    options["model_id"] = options["model_id"] or loaded.id
    options["revision"] = load_options.get("revision")
    recording = record(
        loaded.model,
        loaded.tokenizer,
        texts,
        file_sha256=loaded.sha256,
        command=f"python -m sinkscope {shlex.join(argv)}",
        **options,
    )
    size = recording.save(out)
    _print_table(recording.table(), as_json, as_csv)
    _print(f"{out}: {size} bytes", file=sys.stderr)
    return 0


def _series(
    options: dict[str, Any], texts: list[str], load_options: dict[str, Any], out: Path, as_json: bool, as_csv: bool
) -> int:
    from .checkpoints import series

    names = options.pop("revisions")
    revisions = None if names == "all" else names.split(",")
    for name in ("model_id", "images", "picture"):
        if options.pop(name):
            raise ValueError(f"--{name.removeprefix('model_')}: expected none beside --revisions, found one")
    result = series(options.pop("model"), texts, revisions, out, load_options=load_options, **options)
    _print_table(result.table(), as_json, as_csv)
    _print(f"{out}: {out.stat().st_size} bytes", file=sys.stderr)
    return 0


def _study(options: dict[str, Any]) -> int:
    from . import studies
    from .recording import open_recording

    texts, load_options = _read_texts(options)
    models = options.pop("models")
    if options.pop("plan"):
        run_options = ("ray", "concurrency", "num_gpus", "source", "license", "part", "generate")
        plan_options = {name: x for name, x in options.items() if name not in run_options}
        _print(studies.plan(models, texts, load_options=load_options, **plan_options))
        return 0
    addresses = studies.study(models, texts, load_options=load_options, **options)
    for address in addresses.values():
        _print(open_recording(address).table())
        _print(address, file=sys.stderr)
    missing = [name for name in models if name not in addresses]
    if missing:
        _print(f"sinkscope: no recording of {', '.join(missing)}: the folder's errors/ say why", file=sys.stderr)
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
