# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Options are sections of the settings: the same fields, the same defaults, one key."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
from hipdnn_iree.jit.options import (
    BuildOptions,
    CacheOptions,
    CompileOptions,
    WorkerOptions,
    setting_of,
)
from hipdnn_iree.jit.settings import KNOBS, scope, settings
from hipdnn_iree.jit.settings_table import ENGINE_KNOBS


def test_what_is_in_the_key_is_what_compile_options_hold() -> None:
    # `copies` is no setting: an attempt asks for it, and it is in the key by the code plan.
    named = {setting_of(CompileOptions, f.name) for f in fields(CompileOptions)}
    named -= {"compiler_copies"}
    assert named == {knob.field for knob in KNOBS if knob.in_cache_key}
    in_key = {name.replace(".", "_") for name in CompileOptions().key_ingredients()}
    assert in_key == named


@pytest.mark.parametrize("section", [CompileOptions, WorkerOptions, CacheOptions])
def test_a_section_has_the_defaults_of_the_settings(section) -> None:
    computed = {"dir", "reproducers_dir"}  # by the environment
    folder = {"dir": Path("/x")} if section is CacheOptions else {}
    usual, found = section(**folder), section.of(settings())
    for one in fields(section):
        if one.name not in computed:
            assert getattr(found, one.name) == getattr(usual, one.name), one.name


def test_options_follow_the_settings_and_may_be_changed() -> None:
    with scope(compiler_opt_level="O1", compiler_jobs=3, cache_mode="off") as now:
        options = BuildOptions.of(now)
    assert (options.code.opt_level, options.workers.workers) == ("O1", 3)
    assert options.cache.mode == "off"
    assert WorkerOptions.of(now, jobs=5).jobs == 5
    assert replace(options.code, opt_level="O3") == CompileOptions()
    with pytest.raises(AttributeError):
        options.code.opt_level = "O2"  # type: ignore[misc]


def test_one_row_gives_the_option_the_engine_knob_and_the_plugin_knob() -> None:
    from hipdnn_iree.hipdnn_plugin import messages
    from hipdnn_iree.provider.cli import options

    assert len({k.option for k in KNOBS if k.option}) == sum(bool(k.option) for k in KNOBS)
    assert {*options.COMPILING, *options.RUNNING} <= {knob.option for knob in KNOBS}
    for name, knob in ENGINE_KNOBS.items():
        assert knob.name.endswith(f".{name}")
        offered = messages.KNOBS[f"hipdnn_iree.{knob.name}"]
        assert offered.default == knob.default
        assert offered.range is not None
        assert offered.range.values == knob.choices
