"""NVIDIA's cards as its tools describe them: card, driver, CUDA toolkit, processes on the card; and what is wrong, with the remedy.

Only the standard library and other programs are used, so that it also works where nothing is installed yet.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from localrag.records import CheckLine
from localrag.system.installation import pip_install

CARD_FIELDS = "index,name,memory.total,memory.free,compute_cap,driver_version"
PROCESS_FIELDS = "pid,process_name,used_memory"
MIB = 1 << 20
TOOL_TIMEOUT_S = 30  # a driver that was lost lets nvidia-smi wait for a long time
MIN_CAPABILITY = {13: (7, 5), 12: (5, 0), 11: (3, 5)}  # major version of a CUDA toolkit → oldest compute capability it compiles for
DRIVER_REMEDY = "Install NVIDIA's driver, for example with sudo apt-get install nvidia-driver, and restart."
LOST_REMEDY = "Restart the machine; sudo dmesg | grep -i xid names the cause."
BUILD_FOR_CUDA = f'CMAKE_ARGS="-DGGML_CUDA=on" {pip_install("--force-reinstall", "--no-deps", "--no-cache-dir", "llama-cpp-python")}'
_DRIVER_FAILURES = (  # part of nvidia-smi's message in lower case → what it means, remedy
    ("couldn't communicate with the nvidia driver", "NVIDIA's driver is not loaded", DRIVER_REMEDY),
    ("driver/library version mismatch", "NVIDIA's driver was updated while it was in use", "Restart the machine."),
    ("is lost", "The driver lost the card", LOST_REMEDY),
    ("unable to determine the device handle", "The driver lost the card", LOST_REMEDY),
    ("no devices were found", "The driver finds no card", "Check that the card is plugged in, or passed into this container or machine."),
)

Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Card:
    """A card as nvidia-smi describes it; memory in bytes, `capability` is its compute capability."""

    index: int
    name: str
    total: int
    free: int
    capability: Version
    driver: str

    @property
    def architecture(self) -> str:
        """The architecture as CMake and nvcc name it, for example 90."""
        return f"{self.capability[0]}{self.capability[1]}"


@dataclass(frozen=True, slots=True)
class CardProcess:
    """A process that computes on a card; `used` bytes are 0 where the driver does not tell."""

    pid: int
    name: str
    used: int


@dataclass(frozen=True, slots=True)
class GraphicsMachine:
    """What NVIDIA's tools tell: `failure` says why there are no cards; `driver_cuda` is the newest CUDA that the driver runs."""

    cards: tuple[Card, ...] = ()
    driver_cuda: Version | None = None
    toolkit_cuda: Version | None = None
    processes: tuple[CardProcess, ...] = ()
    failure: CheckLine | None = None


def parse_cards(text: str) -> tuple[Card, ...]:
    """The cards in nvidia-smi's CSV of CARD_FIELDS, without units; lines that it could not fill are left out."""
    cards = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 6 and parts[0].isdigit() and parts[2].isdigit() and parts[3].isdigit() and (found := _version(parts[4])):
            cards.append(Card(int(parts[0]), parts[1], int(parts[2]) * MIB, int(parts[3]) * MIB, found, parts[5]))
    return tuple(cards)


def parse_driver_cuda(text: str) -> Version | None:
    """The newest CUDA version that the driver runs, from the heading of nvidia-smi's table."""
    found = re.search(r"CUDA (?:UMD )?Version\s*:\s*(\d+\.\d+)", text)
    return _version(found[1]) if found else None


def parse_toolkit(text: str) -> Version | None:
    """The version of the CUDA toolkit that `nvcc --version` prints."""
    found = re.search(r"\brelease (\d+\.\d+)", text)
    return _version(found[1]) if found else None


def parse_processes(text: str) -> tuple[CardProcess, ...]:
    """The processes in nvidia-smi's CSV of PROCESS_FIELDS, without units."""
    processes = []
    for line in text.splitlines():
        pid, _, rest = line.partition(",")
        name, _, used = rest.rpartition(",")
        if pid.strip().isdigit():
            processes.append(CardProcess(int(pid), name.strip(), int(used) * MIB if used.strip().isdigit() else 0))
    return tuple(processes)


def driver_failure(text: str) -> CheckLine:
    """What a message of nvidia-smi means, with its remedy."""
    for part, meaning, remedy in _DRIVER_FAILURES:
        if part in text.lower():
            return CheckLine("driver", "fail", meaning, remedy)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "nvidia-smi gave no reason")
    return CheckLine("driver", "fail", f"NVIDIA's driver does not answer: {first[:200]}", DRIVER_REMEDY)


def read_machine() -> GraphicsMachine:
    """Ask nvidia-smi and nvcc. Never raises: what is missing is in the result."""
    toolkit = parse_toolkit(_output_of([find_nvcc(), "--version"])[1])
    if not shutil.which("nvidia-smi"):
        text = "There is no NVIDIA driver here: nvidia-smi was not found"
        return GraphicsMachine(toolkit_cuda=toolkit, failure=CheckLine("driver", "fail", text, DRIVER_REMEDY))
    code, text = _output_of(["nvidia-smi", f"--query-gpu={CARD_FIELDS}", "--format=csv,noheader,nounits"])
    cards = parse_cards(text)
    if code or not cards:
        return GraphicsMachine(toolkit_cuda=toolkit, failure=driver_failure(text))
    _, processes = _output_of(["nvidia-smi", f"--query-compute-apps={PROCESS_FIELDS}", "--format=csv,noheader,nounits"])
    return GraphicsMachine(cards, parse_driver_cuda(_output_of(["nvidia-smi"])[1]), toolkit, parse_processes(processes))


def find_nvcc() -> str:
    """The path of CUDA's compiler; its usual place is tried as well. Just `nvcc` if there is none."""
    usual = "/usr/local/cuda/bin/nvcc"
    return shutil.which("nvcc") or (usual if Path(usual).exists() else "nvcc")


def check_toolkit(machine: GraphicsMachine) -> CheckLine:
    """Whether programs that the CUDA toolkit here compiles run with this driver and card."""
    toolkit, driver = machine.toolkit_cuda, machine.driver_cuda
    if toolkit is None:
        remedy = "Install the CUDA toolkit, for example with sudo apt-get install nvidia-cuda-toolkit."
        return CheckLine("CUDA toolkit", "fail", "There is no CUDA compiler: nvcc was not found", remedy)
    text = f"CUDA {version_text(toolkit)}; the driver runs up to {version_text(driver)}"
    if driver and toolkit[0] > driver[0]:
        remedy = f"Update the driver, or install the CUDA toolkit {driver[0]}.x."
        return CheckLine("CUDA toolkit", "fail", f"The CUDA toolkit is newer than the driver supports: {text}", remedy)
    oldest = MIN_CAPABILITY.get(toolkit[0], (0, 0))
    if too_old := [card for card in machine.cards if card.capability < oldest]:
        card = f"{too_old[0].name} (compute capability {version_text(too_old[0].capability)})"
        text = f"CUDA {version_text(toolkit)} does not compile for {card}"
        return CheckLine("CUDA toolkit", "fail", text, f"Install an older CUDA toolkit: {toolkit[0] - 1}.x.")
    return CheckLine("CUDA toolkit", "ok", text)


def check_size(card: Card, needed: int) -> CheckLine:
    """Whether a card has the memory needed, in bytes."""
    text = f"{card.name}: {_gib(card.free)} of {_gib(card.total)} GiB free"
    wanted = f"{text}, {_gib(needed)} are needed"
    if card.total < needed:
        return CheckLine("card", "fail", f"The card is too small: {wanted}", "Use a smaller model, or another card.")
    if card.free < needed:
        return CheckLine("card", "fail", f"The card is taken: {wanted}", "See which programs use it, and end them: nvidia-smi")
    return CheckLine("card", "ok", f"{text}, compute capability {version_text(card.capability)}, driver {card.driver}")


def check_processes(processes: tuple[CardProcess, ...]) -> CheckLine:
    """Whether other processes use the card: what is measured beside them is not the card's speed."""
    if not processes:
        return CheckLine("other processes", "ok", "none on the card")
    named = ", ".join(f"{p.name} ({p.pid}{f', {_gib(p.used)} GiB' if p.used else ''})" for p in processes)
    remedy = f"End those that you do not need: kill {' '.join(str(p.pid) for p in processes)}"
    return CheckLine("other processes", "warn", f"The card is in use by {named}", remedy)


def _output_of(command: list[str]) -> tuple[int, str]:
    """Exit code and output of a tool; 127 if it is missing, 124 if it does not answer."""
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, errors="replace")
    except subprocess.TimeoutExpired:
        return 124, f"{command[0]} did not answer within {TOOL_TIMEOUT_S} s"
    except OSError as error:
        return 127, str(error)
    return done.returncode, done.stdout + done.stderr


def _version(text: str) -> Version | None:
    found = re.fullmatch(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def version_text(version: Version | None) -> str:
    """A version as people write it: 12.4; "an unknown version" for None."""
    return f"{version[0]}.{version[1]}" if version else "an unknown version"


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f}"
