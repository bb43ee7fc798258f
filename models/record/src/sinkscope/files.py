"""Files that are complete or absent: a finished file replaces its target atomically."""

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path


def check_target(path: str | PathLike[str]) -> Path:
    """Prepares a target: makes its folder, and tries to write there before the work begins. Raises OSError if the
    name belongs to something other than a regular file, since renaming would replace the device or the link itself,
    and if the folder is not writable."""
    target = Path(path)
    if target.is_symlink() or (target.exists() and not target.is_file()):
        kind = (
            "a link" if target.is_symlink() else "a folder" if target.is_dir() else "a device or a pipe"
        )
        raise OSError(f"{path}: expected a regular file or none, found {kind}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, part = _temporary(target)
        os.close(descriptor)
        os.unlink(part)
    except OSError as error:
        raise OSError(
            f"{path}: expected a folder that takes files, found {error.strerror or error}"
        ) from error
    return target


def _temporary(target: Path) -> tuple[int, str]:
    """Creates a new file (O_EXCL) next to the target, for this process alone."""
    return tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".part", dir=target.parent)


@contextmanager
def replacing(path: str | PathLike[str]) -> Iterator[Path]:
    """Yields a temporary file in the same folder, which replaces `path` at the end, and is removed after a failure."""
    target = check_target(path)
    descriptor, name = _temporary(target)
    part = Path(name)
    try:
        os.close(descriptor)
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.chmod(part, _mode(target))
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _mode(target: Path) -> int:
    """Returns the mode of the replaced file; for a new one, the process's default mode."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def write_bytes(path: str | PathLike[str], data: bytes) -> int:
    with replacing(path) as part:
        part.write_bytes(data)
    return len(data)


def check_source(path: str | PathLike[str], error: Callable[[str], Exception]) -> None:
    """A regular file: a pipe or a device would be waited for."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a device or a pipe"
        raise error(f"{path}: expected a regular file, found {kind}")
