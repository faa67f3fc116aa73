"""Which folder may hold cached code: loading an entry runs what is in it.

Whoever can write into the cache folder can run code in every process that reads it.  So the
folder must belong to the user of the process or to root, and nobody else may write into it.  A
folder shared by a team for writing is therefore refused: everybody in it would run everybody
else's code.  Only the folder itself is looked at; its parents must be just as safe.
"""

from __future__ import annotations

import os
import stat

__all__ = ["unsafe_reason"]


def unsafe_reason(root: str) -> str:
    """Return why ``root`` must not be used as a cache, with a hint; ``""`` when it may.

    A group-writable folder is let through, as that is what ``mkdir`` makes where each user has
    a group of his own.

    Raises
    ------
    OSError
        If there is no such folder (FileNotFoundError), or it cannot be looked at.
    """
    mine = (os.geteuid(), 0)
    link = os.lstat(root)
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in mine:
        return (
            f"it is a symbolic link that belongs to user {link.st_uid}, not to "
            f"{mine[0]}; name the folder itself or choose another one"
        )
    found = os.stat(root)
    if not stat.S_ISDIR(found.st_mode):
        return "it is not a folder; choose another path"
    if found.st_uid not in mine:
        return (
            f"it belongs to user {found.st_uid}, not to {mine[0]}, and cached code would run "
            "with your rights; choose a folder of your own"
        )
    if found.st_mode & stat.S_IWOTH:
        return (
            f"everybody may write into it (mode {stat.S_IMODE(found.st_mode):o}), and cached "
            "code would run with your rights; `chmod 700` it or name a subfolder"
        )
    return ""
