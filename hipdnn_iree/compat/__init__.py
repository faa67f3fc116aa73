# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scripts of other graph frontends, run by changing their import.

``hipdnn_iree.compat.cudnn`` has the Python names of NVIDIA's ``cudnn`` (nvidia-cudnn-frontend),
``hipdnn_iree.compat.hipdnn_frontend`` those of AMD's ``hipdnn_frontend``.  Each name is an alias: a
row of a table says which method of `Graph` it calls and how its parameters are called there.
``docs/migration.md`` shows the tables.
"""
