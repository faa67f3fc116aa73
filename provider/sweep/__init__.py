# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Suites of problems as data, and engines side by side on them.

``suite`` reads a file, ``schema`` says what may stand in it, ``graphs`` makes the graphs,
``samples`` are the sample problems of the ops.  ``bench_case`` measures a case: ``contestants``
builds the plans, ``measure`` times them in turn, ``statistics`` says what the numbers mean.
"""
