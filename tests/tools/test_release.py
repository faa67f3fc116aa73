# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The steps of a release that need no network; the others are the script's own checks."""

from __future__ import annotations

import re
import tomllib
import zipfile
from pathlib import Path

import hipdnn_iree
import pytest

from tools import release
from tools.release import (
    ReleaseError,
    absolute_links,
    changes,
    first_script,
    inspect,
    relative_links,
    source_url,
    version,
)

ROOT = release.ROOT
PACKAGED = ("hipdnn_plugin", "provider", "emulation")
BASE = "https://host/o/n/blob/v1.0.0"


def test_the_version_is_semantic() -> None:
    assert version() == hipdnn_iree.__version__


@pytest.mark.parametrize("text", ["1.0", "1.0.0.dev1", "v1.0.0", ""])
def test_another_version_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "hipdnn_iree").mkdir()
    (tmp_path / "hipdnn_iree" / "__init__.py").write_text(f'__version__ = "{text}"\n')
    with pytest.raises(ReleaseError, match=r"wanted X\.Y\.Z"):
        version(tmp_path)


def test_the_links_of_the_readme_work_on_a_package_index() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(relative_links(text)) > 10
    found = absolute_links(text, f"{source_url()}/blob/v{version()}")
    assert relative_links(found) == []
    for path in relative_links(text):
        assert f"/v{version()}/{path}" in found


def test_links_become_absolute_and_nothing_else_does(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").touch()
    text = "[a](docs/a.md#b) [c](https://x/y) [d](#e) [f](docs/)\n```sh\n[a](docs/a.md)\n```\n"
    assert absolute_links(text, BASE, tmp_path) == (
        f"[a]({BASE}/docs/a.md#b) [c](https://x/y) [d](#e) "
        "[f](https://host/o/n/tree/v1.0.0/docs/)\n```sh\n[a](docs/a.md)\n```\n"
    )
    with pytest.raises(ReleaseError, match=r"lead nowhere: docs/b\.md"):
        absolute_links("[b](docs/b.md)", BASE, tmp_path)


def test_the_first_script_of_the_readme_is_that_of_the_graph() -> None:
    script = first_script((ROOT / "README.md").read_text(encoding="utf-8"))
    assert "from hipdnn_iree import Graph" in script
    compile(script, "README.md", "exec")
    with pytest.raises(ReleaseError, match="no block of Python"):
        first_script("```sh\nls\n```\n")


def test_changes_of_a_version() -> None:
    text = "# Changes\n\n## Unreleased\n\n## [1.0.0] 2026-01-01\n\n- one\n\n## 0.9.0\n\n- two\n"
    assert changes(text, "1.0.0") == "- one"
    assert changes(text, "0.9.0") == "- two"
    for number in ("Unreleased", "2.0.0", "1.0"):
        with pytest.raises(ReleaseError, match="says nothing of"):
            changes(text, number)


def wheel_of(folder: Path, readme: str, libraries: int = 4, more: str = "") -> Path:
    path = folder / "x-1.0.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("x-1.0.0.dist-info/METADATA", f"Name: x\n{more}\n{readme}")
        for k in range(libraries):
            made.writestr(f"x/{k}.so", "")
    return path


@pytest.mark.parametrize(
    ("readme", "libraries", "more", "text"),
    [
        (f"[a]({BASE}/a) [b](docs/b.md)", 4, "Project-URL: S, x\n", "in the repository only"),
        ("[a](https://x)", 4, "Project-URL: S, x\n", "no link to"),
        (f"[a]({BASE}/a)", 1, "Project-URL: S, x\n", "was there a compiler"),
        (f"[a]({BASE}/a)", 4, "", "no addresses"),
    ],
)
def test_a_wheel_that_is_not_to_be_published(
    tmp_path: Path, readme: str, libraries: int, more: str, text: str
) -> None:
    inspect(wheel_of(tmp_path, f"[a]({BASE}/a)", more="Project-URL: S, x\n"), BASE)
    with pytest.raises(ReleaseError, match=text):
        inspect(wheel_of(tmp_path, readme, libraries, more), BASE)


def test_the_metadata_has_addresses() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    urls = tomllib.loads(text)["project"]["urls"]
    assert {"Source", "Documentation", "Changelog", "Issues"} <= set(urls)
    assert all(url.startswith(source_url()) for url in urls.values())


def test_what_fails_is_said_in_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "_call", lambda *words, **more: " M file\n")
    assert release.main(["tag"]) == 1
    assert capsys.readouterr().err.startswith("error: the checkout has changes that are in no")


# Functions that glibc has had for less long than `release.GLIBC`, by the version that brought them.
NEWER = {
    **dict.fromkeys(("getcpu", "posix_spawn_file_actions_addchdir_np"), "2.29"),
    **dict.fromkeys(("gettid", "tgkill", "pthread_cond_clockwait", "sem_clockwait"), "2.30"),
    **dict.fromkeys(("pthread_clockjoin_np", "pthread_tryjoin_np64"), "2.31"),
    **dict.fromkeys(("close_range", "closefrom", "timespec_getres"), "2.34"),
    **dict.fromkeys(("arc4random", "pidfd_open", "process_madvise"), "2.36"),
    **dict.fromkeys(("strlcpy", "strlcat", "wcslcpy"), "2.38"),
}


@pytest.mark.parametrize("name", ["plugin.c", "host.c", "ep.c", "hip.c", "python_host.h"])
def test_the_libraries_need_no_newer_glibc(name: str) -> None:
    """Else they do not load where IREE's own do; zig's compiler would refuse them at a release."""
    (path,) = (p for folder in PACKAGED for p in (ROOT / folder).rglob(f"native/{name}"))
    called = set(re.findall(r"\b(\w+)\s*\(", path.read_text(encoding="utf-8")))
    assert {f: NEWER[f] for f in called & set(NEWER)} == {}
