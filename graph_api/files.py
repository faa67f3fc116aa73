"""Files written as a whole: a reader sees the old content or the new one, never a part.

All of the project that replaces files does so here; entries of the code cache, which are folders,
have their own way (``jit.cache.store``).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["replace_file", "write_file"]


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


def write_file(path: str | Path, data: bytes, *, sync: bool = True) -> None:
    """Write to a user's path: `replace_file`, but through links, and straight into a device.

    Raises
    ------
    OSError
        As for `replace_file`, or if ``path`` is a folder.
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # /dev/null, a pipe
        path.write_bytes(data)
    else:
        replace_file(path.resolve(), data, sync=sync)
