# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files of ours: written as a whole, and read only if they are files.

A reader sees the old content or the new one, never a part.  All of the project that replaces files
does so here; entries of the code cache have their own way (``jit.cache.store``).  What somebody
puts in the place of a file (a pipe, a device, a folder) is an error of the file system, and never
makes a process wait.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["open_regular", "read_file", "replace_file", "write_file"]


def open_regular(
    path: str | Path,
    flags: int = os.O_RDONLY,
    *,
    dir_fd: int | None = None,
    links: bool = False,
) -> int:
    """Open a regular file and return its descriptor; a new one has mode 0600.

    Parameters
    ----------
    path : str or Path
    flags : int
        As for ``os.open``.
    dir_fd : int, optional
        Folder that ``path`` is relative to.
    links : bool
        Whether a symbolic link at ``path`` is followed, as is right where the user named it.

    Raises
    ------
    OSError
        Also if it is a link (ELOOP), a folder (EISDIR), or a pipe, a device or a socket (ENXIO).
    """
    # Without O_NONBLOCK the open itself waits for the other end of a pipe.
    flags |= os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if links else os.O_NOFOLLOW)
    fd = os.open(path, flags, 0o600, dir_fd=dir_fd)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.ENXIO, "it is no regular file", str(path))


def read_file(path: str | Path, *, dir_fd: int | None = None) -> bytes:
    """Return the bytes of a file; of one in a folder of ours (``dir_fd``) not through a link.

    Raises
    ------
    OSError
        As for `open_regular`.
    """
    fd = open_regular(path, dir_fd=dir_fd, links=dir_fd is None)
    with open(fd, "rb", buffering=0) as file:
        return file.readall()


def replace_file(
    path: str | Path, data: bytes, *, mode: int | None = None, sync: bool = True
) -> None:
    """Replace ``path`` by a new file; on failure the old one stays.

    The new file is made in the same folder, which has to exist, and is renamed.  A link at
    ``path`` is replaced, not followed.  Threads and processes may write the same file at once:
    one of them is the last.

    Parameters
    ----------
    path : str or Path
    data : bytes
    mode : int, optional
        Permission bits of the file; by default those that the umask leaves of 0666.
    sync : bool
        Bring the bytes to the disk before the rename (some 4 ms), so that not even a power
        failure leaves an empty or partial file.  To be left out for what is easily made again.

    Raises
    ------
    OSError
        If the folder is missing or cannot be written, or the disk is full.
    """
    path = Path(path)
    # 40 characters are at most 160 bytes, and a name may have 255.  The random part keeps the
    # name from ending as the file's does: nothing takes it for a plugin or a graph meanwhile.
    made = path.with_name(f".{path.name[:40]}.{os.urandom(8).hex()}")
    try:
        with open(made, "xb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(made, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(made)
        raise


def write_file(path: str | Path, data: bytes, *, sync: bool = True, devices: bool = True) -> None:
    """Write to a user's path: `replace_file`, but through links, and straight into a device.

    Parameters
    ----------
    path : str or Path
    data : bytes
    sync : bool
        As for `replace_file`.
    devices : bool
        Whether ``path`` may be a device or a pipe, which may make the process wait.

    Raises
    ------
    OSError
        As for `replace_file`, if ``path`` is a folder, or a device that it may not be.
    """
    path = Path(path)
    if not os.path.exists(path) or os.path.isfile(path):
        replace_file(os.path.realpath(path), data, sync=sync)
    elif devices or os.path.isdir(path):
        path.write_bytes(data)
    else:
        raise OSError(errno.ENXIO, "it is no regular file", str(path))
