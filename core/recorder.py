"""Recordings written: the events of a run as JSON Lines on disk, redacted, gzipped where the name ends in ".gz"."""

import contextlib
import gzip
import os
import stat
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from .events import End, Error, Event, PhaseEnd
from .redaction import Redactor
from .settings import RunSettings

FLUSH_S = 2.0
"""At most this much of a run is lost when it is killed."""

COPY_CHUNK = 1 << 18

_GZIP_WBITS = 31


class RecordingError(Exception):
    """A recording that cannot be written or read; the message is for the person who asked for it."""


class RecordingWriter:
    """Writes events to `path` so that a kill at any time leaves a readable file. An existing file is overwritten.

    Raises `RecordingError` where the file cannot be opened, and once, from whichever method, where it cannot be
    written (disk full) or was removed; after that the writer does nothing. A pipe is no file: with nobody at its other
    end it would stop whoever writes.
    """

    def __init__(
        self,
        path: Path | None,
        settings: RunSettings | None = None,
        *,
        redactor: Redactor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`path` null: a temporary file without a name, gzipped, for `copy_to`."""
        self.path = path
        self._redactor = redactor or Redactor(settings)
        self._clock = clock
        self._lines: list[bytes] = []
        self._flushed_at = clock()
        self._compressor = None if path and path.suffix != ".gz" else zlib.compressobj(9, wbits=_GZIP_WBITS)
        try:
            self._file: BinaryIO | None = _opened(path) if path else _nameless_file()
            self._named = os.fstat(self._file.fileno()).st_nlink > 0
        except OSError as error:
            raise RecordingError(f"cannot record to {path or 'a temporary file'}: {_reason(error)}") from error

    def write(self, event: Event) -> None:
        """Add an event; it is on disk after `FLUSH_S` seconds, or at once where it ends something."""
        if self._file is None:
            return
        self._lines.append(self._redactor.line(event))
        if isinstance(event, PhaseEnd | Error | End):
            self.flush()
        else:
            self.flush_if_due()

    def flush_if_due(self) -> None:
        """Write what waits for longer than `FLUSH_S`; call it now and then while no event comes."""
        if self._clock() - self._flushed_at >= FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        self._flushed_at = self._clock()
        if self._lines:
            self._lines.append(b"")
            data, self._lines = b"\n".join(self._lines), []
            if self._compressor is not None:
                data = self._compressor.compress(data) + self._compressor.flush(zlib.Z_SYNC_FLUSH)
            self._write(data)

    def copy_to(self, path: Path) -> None:
        """Save everything so far as a complete recording of its own; this one goes on.

        Raises `RecordingError` where there is nothing to copy any more or the copy cannot be written.
        """
        self.flush()
        if self._file is None:
            raise RecordingError("there is no recording to copy: it was closed, or could not be written")
        position = self._file.tell()
        try:
            with gzip.open(path, "wb") if path.suffix == ".gz" else path.open("wb") as copy:
                self._file.seek(0)
                for data in self._written():
                    copy.write(data)
        except OSError as error:
            raise RecordingError(f"cannot save to {path}: {_reason(error)}") from error
        finally:
            self._file.seek(position)

    def close(self) -> None:
        """Write what waits and close the file."""
        if self._file is not None:
            self.flush()
        if self._file is not None:
            if self._compressor is not None:
                self._write(self._compressor.flush())
            self._close_file()

    def _write(self, data: bytes) -> None:
        if self._file is None:
            return
        view = memoryview(data)
        try:
            if self._named and not os.fstat(self._file.fileno()).st_nlink:
                raise OSError("the file was removed")
            while view:
                view = view[self._file.write(view) or 0 :]
        except OSError as error:
            self._close_file()
            raise RecordingError(f"recording to {self.path or 'a temporary file'} stopped: {_reason(error)}") from error

    def _written(self) -> Iterator[bytes]:
        """The JSON Lines that are in the file, from where it stands."""
        decompressor = zlib.decompressobj(wbits=_GZIP_WBITS) if self._compressor is not None else None
        while self._file is not None and (data := self._file.read(COPY_CHUNK)):
            yield data if decompressor is None else decompressor.decompress(data)

    def _close_file(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


def _opened(path: Path) -> BinaryIO:
    if path.exists() and not _may_be_written(path.stat().st_mode):
        raise OSError("it is no file")
    file = path.open("w+b", buffering=0)
    if file.isatty():
        file.close()
        raise OSError("it is a terminal")
    return file


def _may_be_written(mode: int) -> bool:
    """Folders too, of which the system says it better."""
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISCHR(mode)


def _nameless_file() -> BinaryIO:
    """Gone with the process, however that ends."""
    return tempfile.TemporaryFile(buffering=0)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
