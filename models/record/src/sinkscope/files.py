"""Writes files atomically: a reader finds the complete new file or the previous one, never a part."""

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path


def check_target(path: str | PathLike[str]) -> Path:
    """Checks before the work begins that a file can be written: makes its folder, and writes and removes a temporary
    file there. Raises OSError if that fails, or if the name is that of a link or a device, which a rename would
    replace."""
    target = Path(path)
    if target.is_symlink() or (target.exists() and not target.is_file()):
        kind = (
            "a link" if target.is_symlink() else "a folder" if target.is_dir() else "a device or a pipe"
        )
        raise OSError(f"{path}: expected a regular file or none, found {kind}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, part = _make_temporary(target)
        os.close(descriptor)
        os.unlink(part)
    except OSError as error:
        raise OSError(
            f"{path}: expected a folder that takes files, found {error.strerror or error}"
        ) from error
    return target


def _make_temporary(target: Path) -> tuple[int, str]:
    return tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".part", dir=target.parent)


@contextmanager
def atomic_replacement(path: str | PathLike[str]) -> Iterator[Path]:
    """Yields a temporary file in the same folder. At the end it replaces `path`; after a failure it is removed."""
    target = check_target(path)
    descriptor, name = _make_temporary(target)
    part = Path(name)
    try:
        os.close(descriptor)
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.chmod(part, _file_mode(target))
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _file_mode(target: Path) -> int:
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def write_bytes(path: str | PathLike[str], data: bytes) -> int:
    with atomic_replacement(path) as part:
        part.write_bytes(data)
    return len(data)


def check_source(path: str | PathLike[str], error: Callable[[str], Exception]) -> None:
    """Raises the error unless the path is a regular file: to read a pipe or a device could block."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a device or a pipe"
        raise error(f"{path}: expected a regular file, found {kind}")
