"""Writes files atomically: a reader finds the complete new file or the previous one, never a part. A killed writer
leaves its part, which the next writer in the folder removes."""

import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, which refuses to remove a file that is open
    fcntl = None  # type: ignore[assignment]

PART = re.compile(r"\..+\.[a-z0-9_]{8}\.part")


def check_target(path: str | PathLike[str]) -> Path:
    """Checks before the work begins that a file can be written: makes its folder, and writes and removes a temporary
    file there. Raises OSError if that fails, or if the name is that of a link or a device, which a rename would
    replace."""
    target = Path(path)
    if target.is_symlink() or (target.exists() and not target.is_file()):
        kind = "a link" if target.is_symlink() else "a folder" if target.is_dir() else "a device or a pipe"
        raise OSError(f"{path}: expected a regular file or none, found {kind}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned_parts(target.parent)
        descriptor, part = _make_temporary(target)
        os.close(descriptor)
        os.unlink(part)
    except OSError as error:
        raise OSError(f"{path}: expected a folder that takes files, found {error.strerror or error}") from error
    return target


def _make_temporary(target: Path) -> tuple[int, str]:
    """Makes a file that is locked while its descriptor is open."""
    descriptor, part = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".part", dir=target.parent)
    _lock(descriptor)
    return descriptor, part


def _lock(descriptor: int) -> bool:
    """Returns whether the lock was free. The system frees the locks of a process that ends in any way."""
    try:
        if fcntl:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks, where nobody's part is removed
        return False


def _remove_abandoned_parts(folder: Path) -> None:
    for part in [path for path in folder.iterdir() if PART.fullmatch(path.name)]:
        with suppress(OSError):
            descriptor = os.open(part, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            is_abandoned = _lock(descriptor)
            os.close(descriptor)
            if is_abandoned:
                part.unlink()


@contextmanager
def atomic_replacement(path: str | PathLike[str]) -> Iterator[Path]:
    """Yields a temporary file in the same folder. At the end it replaces `path`; after a failure it is removed."""
    target = check_target(path)
    descriptor, name = _make_temporary(target)
    part = Path(name)
    try:
        with os.fdopen(descriptor) as lock:
            yield part
            os.fsync(descriptor)
            os.chmod(part, _file_mode(target))
            if not fcntl:
                lock.close()  # Windows replaces no file that is open
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
