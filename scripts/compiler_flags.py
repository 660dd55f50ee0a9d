"""Print the compiler flags that llama.cpp needs on this machine beside its own; nothing where it needs none.

    CFLAGS="$(python scripts/compiler_flags.py)" CXXFLAGS="$CFLAGS" pip install llama-cpp-python

Where the CPU has AMX, ggml loads the configuration of its tile registers from a struct on the stack. GCC 12 takes most of the stores into
that struct for dead and leaves them out, so the first decode ends the process (ggml-org/llama.cpp#20824). Which compilers do so is not
guessed from versions: a program that does the same is compiled and run.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

KEEP_STORES = ("-fno-tree-dse", "-fno-dse")
WITHOUT_AMX = ("-mno-amx-tile", "-mno-amx-int8", "-mno-amx-bf16")
PROGRAM = r"""
#include <immintrin.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>
struct config { uint8_t palette = 0, start = 0, reserved[14] = {0}; uint16_t columns[16] = {0}; uint8_t rows[16] = {0}; };
int main() {
    if (syscall(SYS_arch_prctl, 0x1023, 18)) return 0;  // ARCH_REQ_XCOMP_PERM, XTILEDATA: without it AMX is not used
    alignas(64) config set = {}, found;
    set.palette = 1;
    for (int i = 0; i < 8; i++) { set.rows[i] = 16; set.columns[i] = 64; }
    _tile_loadconfig(&set);
    _tile_storeconfig(&found);
    return !(found.rows[7] == 16 && found.columns[7] == 64);
}
"""


def has_amx(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    try:
        return " amx_tile" in cpuinfo.read_text(errors="replace")
    except OSError:
        return False


def works(compiler: list[str], flags: tuple[str, ...]) -> bool:
    """Whether the program keeps its tile configuration when compiled as llama.cpp is."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "tiles.cpp", Path(folder) / "tiles"
        source.write_text(PROGRAM)
        made = subprocess.run([*compiler, "-O3", "-march=native", *flags, source, "-o", program], check=False, capture_output=True)
        # A compiler that cannot compile it has no AMX, so llama.cpp is built without.
        return (
            made.returncode != 0
            or not program.exists()
            or subprocess.run([program], check=False, timeout=60, capture_output=True).returncode == 0
        )


def needed_flags() -> tuple[str, ...]:
    """The flags that llama.cpp needs here; what they are for goes to stderr."""
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    if not has_amx() or not shutil.which(compiler[0]) or works(compiler, ()):
        return ()
    if works(compiler, KEEP_STORES):
        sys.stderr.write(f"{compiler[0]} drops AMX's tile configuration: llama.cpp is compiled with {' '.join(KEEP_STORES)}.\n")
        return KEEP_STORES
    sys.stderr.write(f"{compiler[0]} drops AMX's tile configuration: llama.cpp is compiled without AMX.\n")
    return WITHOUT_AMX


def main() -> None:
    flags = needed_flags()
    if flags:
        print(*flags)


if __name__ == "__main__":
    main()
