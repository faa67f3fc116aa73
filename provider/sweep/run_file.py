# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writing a run: one process at a time, a row with one write, and what is there already is kept."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from ...graph_api.errors import FormatError, Problem, SettingError
from ...graph_api.files import open_regular
from .row import Header, Row, RunReader, encode

__all__ = ["RunFile"]


class RunFile:
    """A run that rows are appended to; a context manager.

    Parameters
    ----------
    path : Path
    header : Header
        The conditions of the rows to come.
    resume : bool
        Whether to go on with a file that is there.
    same_ir : bool
        Whether rows that are right hold under other versions and on another machine, as long as
        the IR stays the same.

    Attributes
    ----------
    known : mapping of str to str
        Keys of the rows that were made under these conditions, with the digest of each graph.
    irs : mapping of str to str
        Keys of the rows that hold if their IR is still this one.
    said : tuple of str
        What was found on the way that a user should know, a line each.

    Raises
    ------
    SettingError
        If another process writes the run, or if it is there and ``resume`` is not set (RUN-03).
    FormatError
        If the file is no run, or damaged before its last line (RUN-01, RUN-02).
    OSError
        If the file cannot be opened.
    """

    def __init__(
        self, path: Path, header: Header, *, resume: bool = False, same_ir: bool = False
    ) -> None:
        self.path = path
        self.irs: dict[str, str] = {}
        self._same_ir = same_ir
        self.said: tuple[str, ...] = ()
        self._known: dict[str, str] = {}
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        self._fd = open_regular(path, flags, links=True)
        try:
            self._lock()
            self._begin(header, resume)
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> RunFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def known(self) -> Mapping[str, str]:
        """Keys of the rows that hold under these conditions, and the digests of their graphs."""
        return self._known

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)

    def append(self, *rows: Row) -> None:
        """Write rows, all at once; from then on they survive the end of this process.

        Raises
        ------
        OSError
            If the disk is full; the next resumption drops the part of the line.
        """
        self._write(*rows)
        self._known |= {row.key: row.digest for row in rows}

    def _lock(self) -> None:
        try:
            # Of the file itself: it goes with the last process that has it open, however it ends.
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._taken("another process that writes it", "wait for its end") from None

    def _taken(self, got: str, hint: str) -> SettingError:
        hint = f"{hint}, or give this sweep another file with -o"
        wanted = "a new file"
        return SettingError(
            str(Problem(rule="RUN-03", port=str(self.path), got=got, wanted=wanted, hint=hint))
        )

    def _begin(self, header: Header, resume: bool) -> None:
        if not os.fstat(self._fd).st_size:
            self._write(header)
            return
        if not resume:
            raise self._taken("a file that is there", "--resume goes on with it")
        before = self._read(header)
        if before is None:
            self._write(header)

    def _read(self, header: Header) -> Header | None:
        """Take in the rows that hold; return the last header if it says the same as ours."""
        reader, last = RunReader(self.path), None
        other: set[str] = set()
        differences, why = list[str](), list[str]()
        for entry in reader:
            if isinstance(entry, Header):
                last, differences = entry, header.differences(entry)
                why = differences or why
            elif differences:
                other.add(entry.key)
                self._known.pop(entry.key, None)
                self._hold_by_ir(entry, differences)
            else:
                self._known[entry.key] = entry.digest
                self.irs.pop(entry.key, None)
        self._mend(reader)
        anew = other - self._known.keys()
        if anew:
            unless = ", but for those of the same IR" if self.irs else ""
            self._say(
                f"{len(anew)} rows were made under other conditions and are done anew{unless}: "
                f"{'; '.join(why)}"
            )
        return None if differences else last

    def _hold_by_ir(self, row: Row, differences: list[str]) -> None:
        self.irs.pop(row.key, None)
        options = any(one.startswith("options.") for one in differences)
        if self._same_ir and not options and row.status == "ok" and row.code and row.code.ir:
            self.irs[row.key] = row.code.ir

    def _mend(self, reader: RunReader) -> None:
        """Drop the part of a line at the end; what is wrong otherwise is left to its owner."""
        if reader.cut is None:
            return
        if not reader.partial:
            found = Problem(
                rule="RUN-02",
                got=reader.cut,
                wanted="a header or a row",
                hint="remove the line, or give this sweep another file with -o",
            )
            raise FormatError(f"{self.path} is damaged before its end", [found])
        os.ftruncate(self._fd, reader.end)
        self._say(f"{reader.cut}: dropped, its case is done again")

    def _say(self, text: str) -> None:
        self.said = (*self.said, text)

    def _write(self, *entries: Header | Row) -> None:
        lines = b"".join(map(encode, entries))
        if os.write(self._fd, lines) < len(lines):
            raise OSError(f"{self.path}: the disk is full, a line was written in part")
