# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A graph, from its description to an immutable one, a file or a drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from .building import GraphBuilder
from .errors import GraphError, Problem
from .tensor import take_over

if TYPE_CHECKING:
    from pathlib import Path

    from .frozen import FrozenGraph

__all__ = ["Graph"]


class Graph(GraphBuilder):
    """An operation graph in hipDNN's terms.

    Parameters
    ----------
    name : str
        A label; any text.
    io_data_type : DataType or str
        Default type of tensors that have a buffer.
    intermediate_data_type : DataType or str
        Default type of virtual tensors.  When unset: ``compute_data_type``, else the I/O type;
        where that is an integer type and the node has a float compute type of its own, the latter.
    compute_data_type : DataType or str
        Type to compute and accumulate in; when unset, float32 for floats up to 32 bits, else
        the type of the inputs.

    Examples
    --------
    >>> g = Graph(io_data_type="half", compute_data_type="float")
    >>> x = g.tensor(dims=(1, 8, 4, 4), name="x")
    >>> y = g.relu(x).set_output()
    >>> g.freeze().tensors[y.uid].dims
    (1, 8, 4, 4)
    """

    def problems(self) -> list[Problem]:
        """Return every broken rule, without raising and without freezing."""
        from .validate import resolve

        return resolve(self).problems

    def validate(self) -> None:
        """Check every rule.

        Raises
        ------
        GraphError
            With all problems at once, in node order.
        """
        problems = self.problems()
        if problems:
            raise GraphError(f"graph {self.name!r} breaks {len(problems)} rule(s)", problems)

    def freeze(self) -> FrozenGraph:
        """Check every rule, infer what is missing, and return the immutable graph.

        The handles then show what was inferred, and can no longer be changed.

        Raises
        ------
        GraphError
            With all problems at once, in node order.
        """
        if self._frozen is None:
            frozen = self._freeze()
            self.inference = None  # the handles show what is frozen
            for tensor in self.tensors:
                spec = frozen.tensors.get(tensor.uid)
                if spec is not None:
                    take_over(tensor, spec)
            self._frozen = frozen
        return self._frozen

    def _freeze(self) -> FrozenGraph:
        from .frozen import freeze

        frozen = freeze(self)
        given = {tensor.uid: tensor.dynamic for tensor in self.tensors if tensor.dynamic}
        if not given:
            return frozen
        from .dynamic import mark_dynamic

        return mark_dynamic(frozen, self.symbols, given)

    @property
    def digest(self) -> str:
        """Digest of what the graph computes, independent of names and uids (freezes it)."""
        return self.freeze().digest

    def to_json(self) -> str:
        """Return hipDNN's graph JSON (freezes the graph)."""
        from .formats.json.json_form import dumps

        return dumps(self.freeze())

    def save(self, path: str | Path) -> None:
        """Write hipDNN's graph JSON to a file."""
        from .files import write_file

        write_file(path, f"{self.to_json()}\n".encode())

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read hipDNN's graph JSON, of any era.

        Raises
        ------
        FormatError
            If the text is not such a graph; with all problems found.
        """
        from .formats.json.json_form import loads

        return loads(text, cls)

    def to_dot(self) -> str:
        """Return the graph as Graphviz source (freezes it)."""
        from .draw import to_dot

        return to_dot(self.freeze())

    def to_mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart (freezes it)."""
        from .draw import to_mermaid

        return to_mermaid(self.freeze())

    def __repr__(self) -> str:
        from .draw import describe_unfrozen

        return describe_unfrozen(self)
