# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a session may be told: ``ep.NAME.OPTION`` of the session, or options of the provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ...graph_api.errors import SettingError
from ...jit.settings_table import Settings
from ...jit.target import Target

__all__ = ["OPTIONS", "SessionOptions"]


def _boolean(text: str) -> bool:
    known = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}
    if text.lower() not in known:
        raise ValueError("wanted 0 or 1")
    return known[text.lower()]


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError("wanted 0 or more")
    return number


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("wanted 1 or more")
    return number


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(sorted({int(word) for word in text.replace(",", " ").split()}))
    if not sizes or sizes[0] < 1:
        raise ValueError("wanted sizes of at least 1, such as 1,4,16")
    return sizes


def _option(read: Callable[[str], Any], default: Any, about: str) -> Any:
    return field(default=default, metadata={"read": read, "about": about})


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionOptions:
    """The options of one session, checked.

    Attributes
    ----------
    context : Path or None
        File of the model with compiled code that is written; of ONNX Runtime's own entries.
    embed : bool
        Whether that model holds the code itself.
    """

    target: str = _option(str, "", "what code is made for; by default the device's own")
    device_id: int | None = _option(_count, None, "HIP's number of the GPU")
    engine: str = _option(str, "", "the engine of every graph; by default policies choose")
    policy: str = _option(str, "", "the policy that ranks engines")
    cache_dir: str = _option(str, "", "where compiled code is kept")
    require_precompiled: bool = _option(_boolean, False, "compile nothing: code is in the cache")
    min_nodes: int = _option(_at_least_one, 1, "smaller groups of nodes stay with others")
    log_declined: bool = _option(_boolean, False, "log why nodes are declined, as warnings")
    buckets: tuple[int, ...] = _option(
        _sizes, (), "sizes that dims known at execution are rounded up to"
    )
    context: Path | None = None
    embed: bool = False

    @classmethod
    def read(cls, entries: Mapping[str, str], name: str) -> SessionOptions:
        """Return the options among a session's entries.

        Parameters
        ----------
        entries : mapping
            All of the session.
        name : str
            The provider's, whose prefix is in lower case.

        Raises
        ------
        SettingError
            For an option that does not exist, or a value that is not allowed.
        """
        prefix = f"ep.{name.lower()}."
        given: dict[str, Any] = {}
        for key, text in entries.items():
            option = key.removeprefix(prefix)
            if option == key:
                continue
            if option not in OPTIONS:
                near = get_close_matches(option, OPTIONS, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise SettingError(
                    f"unknown option {option!r} of {name}; there are {', '.join(OPTIONS)}{hint}"
                )
            try:
                given[option] = OPTIONS[option].metadata["read"](text)
            except ValueError as error:
                raise SettingError(f"option {option!r} of {name}: {text!r}: {error}") from None
        if entries.get("ep.context_enable") == "1":
            given["context"] = Path(entries.get("ep.context_file_path", ""))
            given["embed"] = entries.get("ep.context_embed_mode", "0") == "1"
        found = cls(**given)
        if found.target:
            Target.parse(found.target)
        return found

    def settings(self, base: Settings) -> Settings:
        """Return the settings of the process with what the session overrides."""
        changes: dict[str, Any] = {}
        if self.cache_dir:
            changes["cache_dir"] = Path(self.cache_dir).absolute()
        if self.require_precompiled:
            changes["cache_require_precompiled"] = True
        return replace(base, **changes) if changes else base


OPTIONS = {f.name: f for f in fields(SessionOptions) if f.metadata}
"""By name."""
