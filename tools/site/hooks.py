# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What mkdocs does not do by itself: pages from outside of docs/, API pages, links out of the site.

The sources stay readable on a code host: links there are between files of the repository.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]

OUTSIDE = {
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "changelog.md": "CHANGELOG.md",
}
"""Pages of the site that are files at the root of the repository."""

_LINK = re.compile(r"\[([^]\[]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def ops() -> list[str]:
    """Return the names of the operations, read from their list without importing it."""
    text = (ROOT / "graph_api" / "op_methods.py").read_text(encoding="utf-8")
    return re.findall(r"^        (\w+) = \1$", text, re.MULTILINE)


def api_pages() -> dict[str, str]:
    """Return the pages that mkdocstrings fills."""
    package = "hipdnn_iree"

    def entry(path: str, **options: object) -> str:
        lines = [f"::: {package}.{path}", "    options:"]
        lines += [f"      {name}: {value}" for name, value in options.items()]
        return "\n".join(lines) if options else lines[0]

    def page(title: str, text: str, *entries: str) -> str:
        return "\n\n".join([f"# {title}", text, *entries, ""])

    each = [entry(f"graph_api.ops.{op}.{op}") for op in ops()]
    return {
        "api/graph.md": page(
            "Graph",
            "Tensors, building, files. [Operations](operations.md) are methods of it too.",
            entry("provider.graph.Graph", inherited_members="false"),
            entry("graph_api.graph.Graph", show_root_heading="true"),
            entry("graph_api.building.GraphBuilder"),
            entry("graph_api.compositions.Compositions"),
            entry("graph_api.tensor.Tensor"),
            entry("graph_api.dynamic_dim.DynamicDim"),
            entry("graph_api.dtypes.DataType"),
        ),
        "api/operations.md": page(
            "Operations",
            "Each function here is a method of `Graph`, without the parameter `graph`.",
            *each,
            entry("graph_api.ops.pointwise_methods.PointwiseMethods"),
        ),
        "api/plans.md": page(
            "Plans and results",
            "What `Graph.build` and `Graph.plans` return.",
            entry("provider.plan.Plan"),
            entry("provider.results.Results"),
            entry("provider.verify.Report"),
            entry("provider.selection.candidate.Candidate"),
            entry("provider.precompile.precompile"),
            entry("provider.graph_files.load"),
            entry("provider.artifacts.save.save_artifact"),
            entry("provider.artifacts.artifact.load_artifact"),
            entry("jit.target.Target"),
        ),
        "api/errors.md": page(
            "Errors",
            "All of them are in `hipdnn_iree` and `hipdnn_iree.errors`.",
            entry("graph_api.errors"),
        ),
    }


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the repository's address from where it stands."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    config.repo_url = tomllib.loads(text)["project"]["urls"]["Source"]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    from mkdocs.structure.files import File

    pages = api_pages()
    for name, source in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        pages[name] = relinked(text, lambda path: posixpath.relpath(path, "docs"))
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files outside of the site lead to the code host; without one, be text."""
    folder = posixpath.dirname(page.file.src_uri)
    inside = {source: name for name, source in OUTSIDE.items()}

    def to(path: str) -> str:
        whole = posixpath.normpath(posixpath.join("docs", folder, path))
        if whole in inside:
            return posixpath.relpath(inside[whole], folder or ".")
        if whole.startswith("docs/") and not (ROOT / whole).is_dir():
            return path
        return f"{config.repo_url.rstrip('/')}/blob/main/{whole}" if config.repo_url else ""

    return relinked(markdown, to)


def relinked(text: str, to: Callable[[str], str]) -> str:
    """Apply a function to the path of each relative link outside of code; "" makes it text."""

    def link(found: re.Match[str]) -> str:
        path = to(found[2])
        return f"[{found[1]}]({path}{found[3] or ''})" if path else found[1]

    parts = _FENCE.split(text)
    parts[::2] = [_LINK.sub(link, part) for part in parts[::2]]
    return "".join(parts)
