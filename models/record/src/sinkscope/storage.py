"""A folder at any address that pyarrow or fsspec writes to: a path, s3://, gs://, hf:// and others."""

import posixpath
import uuid
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .files import write_bytes

if TYPE_CHECKING:
    import pyarrow as pa

# In these object stores, a file appears only once it is complete.
OBJECT_STORES = ("s3", "s3a", "gcs", "gs", "abfs", "abfss", "az", "hf", "memory")


class Folder:
    """A folder at an address. File names are relative to it, with slashes."""

    def __init__(self, address: str | PathLike[str]) -> None:
        self.address = str(address).rstrip("/") or "/"
        if "://" not in self.address:
            from pyarrow.fs import LocalFileSystem

            self.filesystem, self._root = LocalFileSystem(), str(Path(self.address).absolute())
        else:
            self.filesystem, self._root = _open_filesystem(self.address)
        self._is_local = self.filesystem.type_name == "local"

    def address_of(self, name: str) -> str:
        return f"{self.address}/{name}"

    def _path(self, name: str) -> str:
        return posixpath.join(self._root, name) if name else self._root

    def list_names(self, folder: str = "") -> list[str]:
        """Returns the files and folders in `folder`, a folder inside this one; none if it does not exist."""
        from pyarrow.fs import FileSelector

        entries = self.filesystem.get_file_info(FileSelector(self._path(folder), allow_not_found=True))
        return sorted(entry.base_name for entry in entries if not entry.base_name.startswith("."))

    def has(self, name: str) -> bool:
        from pyarrow.fs import FileType

        return self.filesystem.get_file_info(self._path(name)).type == FileType.File

    def read(self, name: str) -> bytes:
        with self.filesystem.open_input_stream(self._path(name)) as file:
            return file.read()

    def read_table(self, name: str, columns: list[str] | None = None) -> "pa.Table":
        """Reads a part. Columns that it lacks, since an earlier release wrote it, are left out."""
        import pyarrow.parquet as pq

        with self.filesystem.open_input_file(self._path(name)) as file:
            part = pq.ParquetFile(file)
            return part.read(columns and [name for name in columns if name in part.schema_arrow.names])

    def write(self, name: str, data: bytes) -> None:
        """Writes a file so that readers see all of it or none."""
        path = self._path(name)
        if self._is_local:
            write_bytes(path, data)
            return
        kinds = self.filesystem.type_name, *_protocols(self.filesystem)
        if any(kind in OBJECT_STORES for kind in kinds):
            self._put(path, data)
            return
        self.filesystem.create_dir(posixpath.dirname(path), recursive=True)
        part = posixpath.join(posixpath.dirname(path), f".{uuid.uuid4().hex}.part")
        try:
            self._put(part, data)
            self.filesystem.move(part, path)
        except BaseException:
            self.remove(part)
            raise

    def _put(self, path: str, data: bytes) -> None:
        with self.filesystem.open_output_stream(path) as file:
            file.write(data)

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self.filesystem.delete_file(self._path(name))


def _open_filesystem(address: str) -> tuple[Any, str]:
    import pyarrow as pa
    from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem

    try:
        return FileSystem.from_uri(address)
    except (pa.ArrowInvalid, ImportError):  # pyarrow has no filesystem of that scheme
        pass
    try:
        from fsspec.core import url_to_fs

        filesystem, path = url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise OSError(f"{address}: expected an address that pyarrow or fsspec writes to, found {error}") from error
    return PyFileSystem(FSSpecHandler(filesystem)), path


def _protocols(filesystem: Any) -> tuple[str, ...]:
    protocols = getattr(getattr(getattr(filesystem, "handler", None), "fs", None), "protocol", ())
    return (protocols,) if isinstance(protocols, str) else tuple(protocols)
