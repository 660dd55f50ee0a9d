"""What nvidia-smi prints, as it prints it, and what is said where it prints no card."""

import pytest

from localrag.system.graphics_cards import parse_cards, read_cards

MIB = 1 << 20
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed "
    "and running.\n"
)
H100 = "0, NVIDIA H100 80GB HBM3, 81559, 81004, 9.0, 580.159.04\n"


def tools(folder, monkeypatch, *, smi=None, code=0):
    """A program nvidia-smi, alone on the PATH, that prints what the real one does; none for None."""
    folder.mkdir(exist_ok=True)
    if smi is not None:
        (folder / "cards").write_text(smi)
        (folder / "nvidia-smi").write_text(f'#!/bin/sh\ncat "{folder}/cards"\nexit {code}\n')
        (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_cards_are_read_from_the_drivers_list():
    """Two cards with memory in bytes and their architecture; a line that the driver could not fill is left out."""
    cards = parse_cards(f"{H100}1, NVIDIA GeForce RTX 3060, 12288, 11900, 8.6, 580.159.04\n2, NVIDIA X, [N/A], [N/A], [N/A], 580.159.04\n")

    assert [(c.index, c.name, c.architecture) for c in cards] == [(0, "NVIDIA H100 80GB HBM3", "90"), (1, "NVIDIA GeForce RTX 3060", "86")]
    assert (cards[0].total, cards[0].free, cards[0].driver) == (81559 * MIB, 81004 * MIB, "580.159.04")


@pytest.mark.parametrize(
    ("smi", "code", "said"),
    [
        (None, 0, "nvidia-smi was not found"),
        (NO_DRIVER, 9, "couldn't communicate with the NVIDIA driver"),
        ("Unable to determine the device handle for GPU 0000:04:00.0: GPU is lost.", 15, "GPU is lost"),
        ("", 0, "gave no reason"),
    ],
)
def test_a_machine_without_a_card_is_told_in_one_line(tmp_path, monkeypatch, smi, code, said):
    """Without nvidia-smi, and with one that reaches no driver, there is a reason with its remedy, and no card."""
    tools(tmp_path / "bin", monkeypatch, smi=smi, code=code)
    cards, failure = read_cards()

    assert cards == ()
    assert (failure.state, said in failure.text, "\n" in failure.text, bool(failure.remedy)) == ("fail", True, False, True)


def test_a_machine_is_read_from_its_tool(tmp_path, monkeypatch):
    """The card as the program on the PATH prints it."""
    tools(tmp_path / "bin", monkeypatch, smi=H100)
    cards, failure = read_cards()

    assert (cards[0].name, failure) == ("NVIDIA H100 80GB HBM3", None)
