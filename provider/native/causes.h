// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* Why a host cannot use a library, or only in part: CAUSE(name, id, what is wrong, what to do).
 *
 * The one home of these texts.  python_host.h includes it, deployment.py reads it with a regular
 * expression (so each text is one literal, but for INSTALL), and docs/reference/deployments.md is
 * made from it.  An id stays what it is; a new cause gets the next one.  DIR stands for the folder.
 */
CAUSE(NO_COPY, "DEPLOY-01", "hipDNN finds no copy of the plugin", "run '" INSTALL " DIR', or set HIPDNN_PLUGIN_DIR to the folder that holds it")
CAUSE(NOT_LOADED, "DEPLOY-02", "hipDNN does not load a file of this name", "it takes regular files, not links to others, whose name ends in .so: run '" INSTALL " DIR'")
CAUSE(NO_LIBRARY, "DEPLOY-03", "the library cannot be loaded", "run '" INSTALL " DIR' on this machine, as a user whose files the host may read")
CAUSE(UNSAFE_LIBRARY, "DEPLOY-04", "others may exchange the library, and what is in it runs in every host", "change the owner and the mode, or install it in another folder")
CAUSE(TWO_COPIES, "DEPLOY-05", "there are two copies of the plugin, and hipDNN uses only the first", "remove one of them")
CAUSE(NO_BACKEND, "DEPLOY-06", "hipDNN is not found", "install hipDNN, or name its folder in LD_LIBRARY_PATH or ROCM_PATH")
CAUSE(NOT_BUILT, "DEPLOY-07", "the package holds no plugin library, and none can be built", "install a wheel, or a C compiler (looked for $CC, cc, gcc, clang)")
CAUSE(NO_RECORD, "DEPLOY-08", "the library does not know its Python", "do not copy the file: run '" INSTALL " DIR', or set HIPDNN_IREE_PYTHON")
CAUSE(UNSAFE_RECORD, "DEPLOY-09", "the record of the library's Python is not trusted", "run '" INSTALL " DIR' as root, as the owner of the library or as the user of the host")
CAUSE(DAMAGED_RECORD, "DEPLOY-10", "the record of the library's Python is damaged", "run '" INSTALL " DIR'")
CAUSE(NO_PYTHON, "DEPLOY-11", "the Python of the library is gone", "run '" INSTALL " DIR' from the environment that is to serve, or set HIPDNN_IREE_PYTHON")
CAUSE(PYTHON_VARIABLE, "DEPLOY-12", "HIPDNN_IREE_PYTHON names no Python that serves", "set it to the executable of CPython 3.11 to 3.13 or of a virtual environment, such as .../bin/python3.11, or unset it")
CAUSE(NOT_PYTHON, "DEPLOY-13", "what the library is to start is no Python that serves", "run '" INSTALL " DIR' from the environment that is to serve, whose executable has a name as in .../bin/python3.11")
CAUSE(LIBPYTHON_VARIABLE, "DEPLOY-14", "HIPDNN_IREE_LIBPYTHON names no libpython that fits", "set it to the libpython of the interpreter that is started, or unset it")
CAUSE(NO_LIBPYTHON, "DEPLOY-15", "a program without Python cannot start the interpreter, as its shared libpython is missing", "install it (Debian: the package libpython3.X), use an environment of another Python, or set HIPDNN_IREE_LIBPYTHON")
CAUSE(PROCESS_PYTHON, "DEPLOY-16", "the plugin cannot use the Python that runs in this process", "run the program with CPython 3.11 to 3.13")
CAUSE(NO_PACKAGE, "DEPLOY-17", "the Python that is used cannot import hipdnn_iree", "install hipdnn-iree for this Python, or install the plugin from the environment that has it: '" INSTALL " DIR'")
CAUSE(MISSING, "DEPLOY-18", "packages that hipdnn-iree needs are missing in the Python that is used", "install hipdnn-iree with its dependencies for this Python (pip install hipdnn-iree)")
CAUSE(OTHER_VERSION, "DEPLOY-19", "packages that hipdnn-iree needs are there, but for another version of Python", "install hipdnn-iree for the Python that is used, or run the program with the one that has it")
CAUSE(OTHER_LIBRARY, "DEPLOY-20", "the library and the package do not go together", "run '" INSTALL " DIR' again")
CAUSE(STALE, "DEPLOY-21", "the library is of another version than the package", "run '" INSTALL " DIR' again")
CAUSE(NOT_STARTED, "DEPLOY-22", "the package does not start in the Python that is used", "install hipdnn-iree again for this Python; if that does not help, report it with this text")
CAUSE(NO_COMPILER, "DEPLOY-23", "the compiler is missing, so only graphs whose code is in the cache are served", "install hipdnn-iree with its dependencies (pip install hipdnn-iree), or set HIPDNN_IREE_REQUIRE_PRECOMPILED=on if that is meant")
CAUSE(NOT_PRECOMPILED, "DEPLOY-24", "HIPDNN_IREE_REQUIRE_PRECOMPILED is on, but the cache holds no code, so no graph is served", "fill the cache (hipdnn-iree compile GRAPH), name the folder that holds the code in HIPDNN_IREE_CACHE_DIR, or unset the variable")
CAUSE(CACHE, "DEPLOY-25", "the cache folder cannot be used, so every process compiles its graphs again", "make room or correct the owner and the mode, or name another folder in HIPDNN_IREE_CACHE_DIR")
CAUSE(NO_HIP, "DEPLOY-26", "HIP cannot be used, so no graph is served", "put the folder of ROCm's libamdhip64.so into LD_LIBRARY_PATH, or set HIPDNN_IREE_PLUGIN_DEVICE=cpu for host pointers")
CAUSE(NO_DEVICE, "DEPLOY-27", "HIPDNN_IREE_PLUGIN_DEVICE is hip, but HIP has no device, so no graph is served", "give the process access to the GPU (/dev/kfd and /dev/dri), or unset the variable")
CAUSE(OTHER_DEVICE, "DEPLOY-28", "no code can be compiled for the GPU, so no graph is served", "use a GPU that is listed in docs/plugin.md, or set HIPDNN_IREE_PLUGIN_DEVICE=cpu for host pointers")
CAUSE(SETTING, "DEPLOY-29", "a setting has a value that is not allowed, so no graph is served", "correct or unset the variable")
