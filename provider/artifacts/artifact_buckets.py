# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A plan with buckets whose code comes from an artifact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..bucket_plan import BucketPlan
from ..plan import Plan

__all__ = ["ArtifactBucketPlan"]


@dataclass(kw_only=True, repr=False)
class ArtifactBucketPlan(BucketPlan):
    """Sizes are rounded up to the buckets that the artifact has code for.

    Attributes
    ----------
    build : callable
        Gives the plan of a bucket.
    """

    build: Callable[[Mapping[str, int]], Plan]

    def _built(self, bucket: Mapping[str, int]) -> Plan:
        return self.build(bucket)
