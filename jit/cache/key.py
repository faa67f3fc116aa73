# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a cache entry is found by: a digest over named ingredients.

Every thing that can change the compiled bytes is one ingredient with a name of its own, so that
a miss can be explained ("the flags differ") and a stored entry can be compared with what is
wanted.  A wrong hit is worse than a hundred misses: nothing is left out of the digest, and the
encoding is a prefix code, so no two different sets of ingredients give the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn

__all__ = ["SCHEMA", "CacheKey", "Difference", "Ingredient", "Readable", "explain_difference"]

# Raise it when the meaning of an ingredient or the form of an entry on disk changes: it is part
# of every digest and of the folder name, so old entries are never looked at again.
SCHEMA = 2

Ingredient = str | bytes | tuple[str, ...]
Readable = str | tuple[str, ...]

_LONG = 200  # characters of a text, elements of a list: beyond it only the digest is shown
_BY_DIGEST = "sha256:"


class CacheKey:
    """A digest and the named ingredients it was made from.

    The order of the ingredients does not matter, the order inside a tuple does.  Text, bytes
    and tuples are distinct: ``"a"``, ``b"a"`` and ``("a",)`` give three different keys.

    Parameters
    ----------
    ingredients : mapping of str to str, bytes or tuple of str
        Name and value of everything that decides the compiled bytes.

    Attributes
    ----------
    digest : str
        SHA-256 in hex, over the schema number and each label, kind, length and value.
    ingredients : mapping of str to str or tuple of str
        The readable form, which is stored with the entry.  Bytes and long texts or lists stand
        there as ``"sha256:<hex> (<kind>, <size>)"``; it is as exact as the digest.

    Raises
    ------
    TypeError
        If a label is not text or a value has another type.
    ValueError
        If there is no ingredient, or a label is empty.
    """

    __slots__ = ("digest", "ingredients")

    digest: str
    ingredients: Mapping[str, Readable]

    def __init__(self, ingredients: Mapping[str, Ingredient]) -> None:
        if not ingredients:
            raise ValueError("a cache key needs at least one ingredient")
        readable: dict[str, Readable] = {}
        encoded: dict[bytes, bytes] = {}
        for label, value in ingredients.items():
            if not isinstance(label, str):
                raise TypeError(f"ingredient label {label!r} is {type(label).__name__}, not str")
            if not label:
                raise ValueError("an ingredient label is empty")
            encoded[_text(label)] = _encode(label, value)
            readable[label] = _readable(value)
        whole = hashlib.sha256(b"hipdnn-iree cache key\0" + _number(SCHEMA))
        whole.update(_number(len(encoded)))
        for name in sorted(encoded):
            whole.update(_sized(name))
            whole.update(encoded[name])
        self._set(whole.hexdigest(), readable)

    def _set(self, digest: str, ingredients: dict[str, Readable]) -> None:
        object.__setattr__(self, "digest", digest)
        object.__setattr__(self, "ingredients", MappingProxyType(ingredients))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a cache key cannot be changed ({name})")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CacheKey) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"CacheKey({self.digest[:16]}…: {', '.join(self.ingredients)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (CacheKey.restored, (self.digest, dict(self.ingredients)))

    @classmethod
    def restored(cls, digest: str, ingredients: Mapping[str, Readable]) -> CacheKey:
        """Return a key from what was kept of it; nothing can check that both belong together."""
        key = cls.__new__(cls)
        key._set(digest, dict(ingredients))
        return key


def _number(value: int) -> bytes:
    return value.to_bytes(8, "little")


def _sized(data: bytes) -> bytes:
    return _number(len(data)) + data


def _text(value: str) -> bytes:
    # Lone surrogates come with file names and flags that are not valid UTF-8.
    return value.encode("utf-8", "surrogatepass")


def _encode(label: str, value: Ingredient) -> bytes:
    """Return kind, length and value; no encoding is the beginning of another one."""
    if isinstance(value, str):
        return b"s" + _sized(_text(value))
    if isinstance(value, bytes):
        return b"b" + _sized(value)
    if isinstance(value, tuple) and all(isinstance(part, str) for part in value):
        return b"t" + _number(len(value)) + b"".join(_sized(_text(part)) for part in value)
    raise TypeError(
        f"ingredient {label!r} is {type(value).__name__}; wanted str, bytes or a tuple of str"
    )


def _readable(value: Ingredient) -> Readable:
    if isinstance(value, bytes):
        return f"{_BY_DIGEST}{hashlib.sha256(value).hexdigest()} (bytes, {len(value)})"
    if isinstance(value, str):
        return _short(value)
    if len(value) > _LONG:
        digest = hashlib.sha256(_encode("", value)).hexdigest()
        return f"{_BY_DIGEST}{digest} (list, {len(value)})"
    return tuple(_short(part) for part in value)


def _short(value: str) -> str:
    # A short text that looks like a digest is replaced too: otherwise it could pass for the
    # long text that has this digest.
    if len(value) <= _LONG and not value.startswith(_BY_DIGEST):
        return value
    return f"{_BY_DIGEST}{hashlib.sha256(_text(value)).hexdigest()} (text, {len(value)})"


@dataclass(frozen=True, slots=True)
class Difference:
    """One ingredient that two keys do not share; None stands for "is not there"."""

    label: str
    a: Readable | None
    b: Readable | None

    def __str__(self) -> str:
        if self.a is None:
            return f"{self.label}: only in the second, {_show(self.b)}"
        if self.b is None:
            return f"{self.label}: only in the first, {_show(self.a)}"
        a, b = (_parts(value) for value in (self.a, self.b))
        if a is not None and b is not None:
            return f"{self.label}: {'; '.join(_list_changes(a, b))}"
        return f"{self.label}: {_show(self.a)} -> {_show(self.b)}"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"label": self.label, "a": plain(self.a), "b": plain(self.b)}


def explain_difference(
    key_a: CacheKey | Mapping[str, Readable], key_b: CacheKey | Mapping[str, Readable]
) -> tuple[Difference, ...]:
    """Return the ingredients in which two keys, or their readable forms, differ.

    They come in the order of the first key, then those that only the second one has.
    """
    a = key_a.ingredients if isinstance(key_a, CacheKey) else key_a
    b = key_b.ingredients if isinstance(key_b, CacheKey) else key_b
    labels = [*a, *(label for label in b if label not in a)]
    pairs = ((label, a.get(label), b.get(label)) for label in labels)
    return tuple(Difference(label, x, y) for label, x, y in pairs if x != y)


def plain(value: Readable | None) -> str | list[str] | None:
    """Return the JSON form of a readable ingredient: tuples become lists."""
    return list(value) if isinstance(value, tuple) else value


def _parts(value: Readable) -> tuple[str, ...] | None:
    """Return the parts of a list, or the lines of a text that has several."""
    if isinstance(value, tuple):
        return value
    return tuple(value.splitlines()) if "\n" in value else None


def _show(value: Readable | None) -> str:
    return repr(value) if isinstance(value, str) else "[" + ", ".join(map(repr, value or ())) + "]"


def _list_changes(a: tuple[str, ...], b: tuple[str, ...]) -> Iterator[str]:
    gone = [part for part in a if part not in b]
    new = [part for part in b if part not in a]
    if gone:
        yield f"without {_show(tuple(gone))}"
    if new:
        yield f"with {_show(tuple(new))}"
    if not gone and not new:
        yield f"other order or count, {_show(a)} -> {_show(b)}"
