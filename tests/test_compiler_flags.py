"""The flags that llama.cpp is compiled with where a compiler gets AMX wrong."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "compiler_flags.py"


def flags(tmp_path, faulty_unless, *, amx=True):
    """What the script prints where a compiled program fails unless it was compiled with one of these flags."""
    compiler = tmp_path / "compiler"
    good = " | ".join(f"*{flag}*" for flag in faulty_unless) or "*"
    # A real program, which fails as one does whose tile configuration was not stored.
    compiler.write_text(
        f'#!/bin/sh\nfor last; do :; done\ncase "$*" in {good}) code=0;; *) code=1;; esac\n'
        'echo "int main() { return $code; }" | c++ -x c++ - -o "$last"\n'
    )
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "cpuinfo").write_text("flags : fpu amx_bf16 amx_tile amx_int8\n" if amx else "flags : fpu\n")
    code = f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); import compiler_flags as c; from pathlib import Path; "
    code += f"has = c.has_amx; c.has_amx = lambda: has(Path({str(tmp_path / 'cpuinfo')!r})); c.main()"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=os.environ | {"CXX": str(compiler)})
    return done.stdout.split(), done.stderr


@pytest.mark.parametrize(
    ("faulty_unless", "expected", "said"),
    [
        ([], [], ""),
        (["-fno-dse"], ["-fno-tree-dse", "-fno-dse"], "compiled with -fno-tree-dse"),
        (["-never"], ["-mno-amx-tile", "-mno-amx-int8", "-mno-amx-bf16"], "without AMX"),
    ],
)
def test_a_compiler_that_drops_the_tile_configuration_gets_flags(tmp_path, faulty_unless, expected, said):
    """A sound compiler gets none, one that drops stores is told to keep them, one that cannot is told to leave AMX out; it is said."""
    found, told = flags(tmp_path, faulty_unless)

    assert found == expected
    assert said in told


def test_a_cpu_without_amx_needs_no_flags(tmp_path):
    """Where the CPU has no AMX nothing is compiled differently, whatever the compiler does."""
    assert flags(tmp_path, ["-fno-dse"], amx=False) == ([], "")
