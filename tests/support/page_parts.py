# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pages and pictures as what a browser would make of them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html.parser import HTMLParser

# What ends an element, begins a script, turns the line round, or is no text at all.
NASTY = "a</title></script><script>alert(1)</script><!-- \u2028 'q' \"q\" & \x1b[31m \u202e 日本"

EMPTY = {"meta", "br", "img", "input", "link"}


class Parsed(HTMLParser):
    """The elements of a page in order, each with its attributes and its own text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open: list[int] = []
        self.feed(text)
        self.close()
        assert not self._open, [self.elements[i][0] for i in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))
        if tag not in EMPTY:
            self._open.append(len(self.elements) - 1)

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self._open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        if self._open:
            self.elements[self._open[-1]][2].append(data)

    def of(self, tag: str, class_: str = "") -> list[dict[str, str | None]]:
        """Return the attributes of the elements of a kind."""
        return [
            attributes
            for name, attributes, _ in self.elements
            if name == tag and class_ in [*(attributes.get("class") or "").split(), ""]
        ]

    def texts(self, tag: str) -> list[str]:
        """Return the own text of each element of a kind."""
        return ["".join(text) for name, _, text in self.elements if name == tag]

    @property
    def text(self) -> str:
        """All that is shown."""
        return " ".join(
            "".join(text) for tag, _, text in self.elements if tag not in ("style", "script")
        )


def needs_nothing(page: str) -> None:
    """Check that a page asks for nothing from elsewhere and runs no script but its own."""
    found = Parsed(page)
    for tag, attributes, _ in found.elements:
        assert tag not in ("link", "img", "iframe", "object", "base")
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
        for name in ("src", "href", "action"):
            assert (attributes.get(name) or "#").startswith("#"), (tag, attributes)
    (policy,) = [a["content"] for a in found.of("meta") if "content" in a and "default" in str(a)]
    assert str(policy).startswith("default-src 'none'")


def drawn(svg: str) -> tuple[list[ET.Element], list[ET.Element], list[ET.Element]]:
    """Return the nodes, the buffers and the arrows of a picture that stands alone."""
    root = ET.fromstring(svg)
    groups = [e for e in root.iter() if e.tag.endswith("}g")]
    kinds = ("node", "buffer", "arrow")
    nodes, buffers, arrows = ([g for g in groups if g.get("class") == kind] for kind in kinds)
    return nodes, buffers, arrows


def title(element: ET.Element) -> str:
    """Return what is shown when the pointer is on an element."""
    found = element.find("{http://www.w3.org/2000/svg}title")
    return "" if found is None else found.text or ""
