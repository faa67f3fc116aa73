# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Problems as data, and what becomes of them: right or wrong, fast or slow, a row for each.

``sources`` finds cases: ``suite`` reads a file, ``schema`` says what may stand in it, ``drivers``
and ``fuzz`` make others.  ``runner`` gives them to processes (``process_pool``), in which
``case_worker`` builds, checks and times what ``contestants`` names.  ``row`` and ``run_file`` are
the results; ``side_by_side`` and ``report`` tell them.
"""
