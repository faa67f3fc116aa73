"""The forms of a mixture of experts' products, and what they cost.

Costs are counted in multiply-adds.  What is moved counts as the multiply-adds that IREE 3.13 does
meanwhile, in float32 on two threads of a Zen 5 EPYC with 2 MiB of L2 cache: ``docs/forms.md`` has
the measurements.
"""

from __future__ import annotations

from .form import Form, Site

__all__ = [
    "BLOCKS",
    "MOE",
    "MOE_BWD",
    "block_count",
    "block_rows",
    "moe_bwd_rule",
    "moe_rule",
]

BLOCKS, PLAIN = "blocks", "plain"

_SIZES = (16, 32, 64, 128, 256)
_MATRIX = 100  # gathering a weight for a block and packing it, or adding a part of a gradient
_PACKED = 50  # packing a weight that is read where it lies
_ROW = 40  # gathering, packing or scattering an element of a row
_CHOSEN = 30  # writing an element of one expert's result, and choosing among those of all
_TABLES = 5e7  # the dispatches that compute tables
# Blocks are chosen where the estimate is that much lower: products gain more from many threads
# than copies do.
_MARGIN = 0.85


def block_count(rows: int, groups: int, size: int) -> int:
    """Return how many blocks there are at most, however rows are shared out among groups."""
    begun = min(rows, groups)
    return (rows + begun * (size - 1)) // size


def block_rows(rows: int, groups: int, k: int, n: int) -> int:
    """Return the rows of a block that cost least, with matrices of (k, n)."""
    return min(_SIZES, key=lambda size: _blocks_cost(rows, groups, k, n, size))


def _blocks_cost(rows: int, groups: int, k: int, n: int, size: int) -> float:
    each = k * n * (size + _MATRIX) + _ROW * size * (k + n)
    return _TABLES + block_count(rows, groups, size) * each


def _experts_cost(rows: int, experts: int, k: int, n: int) -> float:
    return experts * (k * n * (rows + _PACKED) + _CHOSEN * rows * n)


def _fits_blocks(site: Site) -> bool:
    # On gfx9 it has more dispatches for less arithmetic (docs/design/0002-gfx9-forms.md).
    return site.target.is_cpu and not site.dynamic


def _pays(site: Site, rows: int, weight: str) -> bool:
    """Whether blocks cost clearly less."""
    experts, k, n = site.dims(weight)
    groups = site.dims("first_token_offset")[0]
    size = block_rows(rows, groups, k, n)
    blocks = _blocks_cost(rows, groups, k, n, size)
    return blocks < _MARGIN * _experts_cost(rows, experts, k, n)


def moe_rule(site: Site) -> str:
    """Return the default form of the products of a mixture of experts."""
    pays = _fits_blocks(site) and _pays(site, site.dims("output")[1], "weight")
    return BLOCKS if pays else PLAIN


def moe_bwd_rule(site: Site) -> str:
    """Return the default form of the gradient of a mixture of experts' weights."""
    pays = _fits_blocks(site) and _pays(site, site.dims("token")[1], "dweight")
    return BLOCKS if pays else PLAIN


MOE = (
    Form(
        name=PLAIN,
        help="a product of all rows with the weights of each expert, of which each row takes one",
        fits=lambda site: True,
    ),
    Form(
        name=BLOCKS,
        help="rows gathered into blocks of one expert, each with a copy of its weights, and one "
        "batch of products: less arithmetic, more copies",
        fits=_fits_blocks,
        why="fixed dims, on the CPU",
    ),
)

MOE_BWD = (
    Form(
        name=PLAIN,
        help="a product of all rows for each expert, those of others as zeros",
        fits=lambda site: True,
    ),
    Form(
        name=BLOCKS,
        help="rows gathered into blocks of one expert, one batch of products, each added to its "
        "expert's",
        fits=_fits_blocks,
        why="fixed dims, on the CPU",
    ),
)
