# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Artifacts: one file with a graph, its plans for several targets, and their code."""

from __future__ import annotations
