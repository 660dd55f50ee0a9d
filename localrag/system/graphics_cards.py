"""NVIDIA's cards as nvidia-smi describes them, and what is wrong where it describes none, with the remedy.

Only the standard library and other programs are used, so that it also works where nothing is installed yet.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass

from localrag.records import CheckLine
from localrag.system.installation import pip_install

CARD_FIELDS = "index,name,memory.total,memory.free,compute_cap,driver_version"
MIB = 1 << 20
TOOL_TIMEOUT_S = 30  # a driver that was lost lets nvidia-smi wait for a long time
DRIVER_REMEDY = "Install NVIDIA's driver, for example with sudo apt-get install nvidia-driver, and restart."
BUILD_FOR_CUDA = f'CMAKE_ARGS="-DGGML_CUDA=on" {pip_install("--force-reinstall", "--no-deps", "--no-cache-dir", "llama-cpp-python")}'


@dataclass(frozen=True, slots=True)
class Card:
    """A card as nvidia-smi describes it; memory in bytes, `capability` is its compute capability, such as 9.0."""

    index: int
    name: str
    total: int
    free: int
    capability: str
    driver: str

    @property
    def architecture(self) -> str:
        """The architecture as CMake and nvcc name it, for example 90."""
        return self.capability.replace(".", "")


def parse_cards(text: str) -> tuple[Card, ...]:
    """The cards in nvidia-smi's CSV of CARD_FIELDS, without units; lines that it could not fill are left out."""
    found = re.findall(r"(?m)^(\d+), ([^,\n]+), (\d+), (\d+), (\d+\.\d+), ([^,\n]+)$", text)
    return tuple(
        Card(int(n), name, int(total) * MIB, int(free) * MIB, capability, driver) for n, name, total, free, capability, driver in found
    )


def read_cards() -> tuple[tuple[Card, ...], CheckLine | None]:
    """Ask nvidia-smi for the cards; without any, the second value says why. Never raises."""
    if not shutil.which("nvidia-smi"):
        return (), CheckLine("driver", "fail", "There is no NVIDIA driver here: nvidia-smi was not found", DRIVER_REMEDY)
    command = ["nvidia-smi", f"--query-gpu={CARD_FIELDS}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, errors="replace")
        text = done.stdout + done.stderr
    except (subprocess.TimeoutExpired, OSError) as error:
        text = str(error)
    if cards := parse_cards(text):
        return cards, None
    first = next((line.strip() for line in text.splitlines() if line.strip()), "nvidia-smi gave no reason")
    return (), CheckLine("driver", "fail", f"NVIDIA's driver does not answer: {first[:200]}", f"Restart the machine. {DRIVER_REMEDY}")
