"""What NVIDIA's tools print, as they print it, and what is wrong with a machine."""

import pytest

from localrag.system.graphics_cards import (
    Card,
    CardProcess,
    GraphicsMachine,
    check_processes,
    check_size,
    check_toolkit,
    driver_failure,
    parse_cards,
    parse_driver_cuda,
    parse_processes,
    parse_toolkit,
    read_machine,
)

GIB, MIB = 1 << 30, 1 << 20
TABLE = """Fri Nov 13 10:12:01 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.159.04             Driver Version: 580.159.04     CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:04:00.0 Off |                    0 |
+-----------------------------------------+------------------------+----------------------+
"""
NVCC = """nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Built on Wed_Aug_20_01:58:59_PM_PDT_2025
Cuda compilation tools, release 13.0, V13.0.88
Build cuda_13.0.r13.0/compiler.36424714_0
"""
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed "
    "and running.\n"
)
H100 = "0, NVIDIA H100 80GB HBM3, 81559, 81004, 9.0, 580.159.04\n"


def card(total=24 * GIB, free=23 * GIB, capability=(8, 9)):
    return Card(0, "NVIDIA GeForce RTX 4090", total, free, capability, "570.86.10")


def tools(folder, monkeypatch, *, smi=None, code=0, nvcc=None):
    """Programs of these names, alone on the PATH, that print what the real ones do."""
    folder.mkdir(exist_ok=True)
    if smi is not None:
        (folder / "cards").write_text(smi)
        (folder / "table").write_text(TABLE)
        write_program(folder / "nvidia-smi", 'case "$*" in *query-gpu*) F=cards;; *query-compute*) exit 0;; *) F=table;; esac\n', code)
    if nvcc is not None:
        (folder / "nvcc.txt").write_text(nvcc)
        write_program(folder / "nvcc", "F=nvcc.txt\n", 0)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def write_program(path, choice, code):
    path.write_text(f'#!/bin/sh\n{choice}cat "{path.parent}/$F"\nexit {code}\n')
    path.chmod(0o755)


def test_cards_are_read_from_the_drivers_list():
    """Two cards with memory in bytes and their architecture; a line that the driver could not fill is left out."""
    cards = parse_cards(f"{H100}1, NVIDIA GeForce RTX 3060, 12288, 11900, 8.6, 580.159.04\n2, NVIDIA X, [N/A], [N/A], [N/A], 580.159.04\n")

    assert [(c.index, c.name, c.architecture) for c in cards] == [(0, "NVIDIA H100 80GB HBM3", "90"), (1, "NVIDIA GeForce RTX 3060", "86")]
    assert (cards[0].total, cards[0].free) == (81559 * MIB, 81004 * MIB)


@pytest.mark.parametrize(
    ("text", "expected"),
    [(TABLE, (13, 0)), ("| NVIDIA-SMI 595.58  KMD Version: 595.58  CUDA UMD Version: 13.2 |", (13, 2)), ("| CUDA Version: N/A |", None)],
)
def test_the_drivers_cuda_version_stands_in_the_heading(text, expected):
    """Also where newer drivers call it the user mode driver's; None where the driver does not tell."""
    assert parse_driver_cuda(text) == expected


def test_the_toolkits_version_is_its_release():
    """Neither the year nor the build of the compiler."""
    assert parse_toolkit(NVCC) == (13, 0)
    assert parse_toolkit("sh: nvcc: not found") is None


def test_processes_on_a_card_are_read():
    """A path with a comma stays whole, and memory that the driver does not tell is 0."""
    processes = parse_processes("1234, /opt/a,b/python3, 20480\n77, [Not Found], [N/A]\n\n")

    assert processes == (CardProcess(1234, "/opt/a,b/python3", 20480 * MIB), CardProcess(77, "[Not Found]", 0))
    checked = check_processes(processes)
    assert (checked.state, "/opt/a,b/python3 (1234, 20.0 GiB)" in checked.text, "kill 1234 77" in checked.remedy) == ("warn", True, True)
    assert check_processes(()).state == "ok"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (NO_DRIVER, "not loaded"),
        ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95", "updated while it was in use"),
        ("Unable to determine the device handle for GPU 0000:04:00.0: GPU is lost. Reboot the system to recover this GPU", "lost the card"),
        ("No devices were found", "finds no card"),
        ("\nsomething new\n", "does not answer: something new"),
    ],
)
def test_each_failure_of_the_driver_is_one_line_with_its_remedy(said, text):
    """The messages of nvidia-smi are told apart."""
    failure = driver_failure(said)

    assert (failure.state, text in failure.text, "\n" in failure.text, bool(failure.remedy)) == ("fail", True, False, True)


def test_a_toolkit_newer_than_the_driver_is_refused():
    """A newer major version does not run; a newer minor one does; the remedy names the version that fits."""
    refused = check_toolkit(GraphicsMachine((card(),), (12, 4), (13, 0)))

    assert (refused.state, "newer than the driver" in refused.text, "12.x" in refused.remedy) == ("fail", True, True)
    assert check_toolkit(GraphicsMachine((card(),), (12, 4), (12, 8))).state == "ok"
    assert check_toolkit(GraphicsMachine((card(),), (13, 0), (12, 8))).state == "ok"
    assert "nvcc was not found" in check_toolkit(GraphicsMachine((card(),), (12, 4))).text


def test_a_card_that_the_toolkit_no_longer_knows_is_refused():
    """CUDA 13 compiles for 7.5 and newer, so a Pascal card needs CUDA 12."""
    refused = check_toolkit(GraphicsMachine((card(capability=(6, 1)),), (13, 0), (13, 0)))

    assert (refused.state, "6.1" in refused.text, "12.x" in refused.remedy) == ("fail", True, True)
    assert check_toolkit(GraphicsMachine((card(capability=(6, 1)),), (13, 0), (12, 8))).state == "ok"


def test_a_small_card_and_a_taken_card_are_told_apart():
    """By its memory in total and its free memory."""
    assert check_size(card(), 4 * GIB).state == "ok"
    assert "too small" in check_size(card(total=2 * GIB, free=2 * GIB), 4 * GIB).text
    assert "taken" in check_size(card(free=GIB), 4 * GIB).text


def test_a_machine_is_read_from_its_tools(tmp_path, monkeypatch):
    """Card, driver and toolkit as the programs on the PATH print them."""
    tools(tmp_path / "bin", monkeypatch, smi=H100, nvcc=NVCC)
    machine = read_machine()

    assert (machine.cards[0].name, machine.driver_cuda, machine.toolkit_cuda) == ("NVIDIA H100 80GB HBM3", (13, 0), (13, 0))
    assert machine.failure is None


def test_a_machine_without_a_driver_is_told(tmp_path, monkeypatch):
    """Without nvidia-smi, and with one that reaches no driver, there is a reason and no card."""
    tools(tmp_path / "none", monkeypatch)
    missing = read_machine()
    tools(tmp_path / "bin", monkeypatch, smi=NO_DRIVER, code=9)
    unloaded = read_machine()

    assert ("was not found" in missing.failure.text, missing.cards) == (True, ())
    assert ("not loaded" in unloaded.failure.text, unloaded.cards) == (True, ())
