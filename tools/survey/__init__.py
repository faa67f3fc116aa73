# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of sweeps of the sample problems as data of pages: what is served, compiled and emulated.

``table`` and ``heat_map`` are of the page on support, ``coverage`` is of that on instructions.
"""
