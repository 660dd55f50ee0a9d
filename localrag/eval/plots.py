"""Figures of a study as SVG and PNG files, drawn without a display."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from localrag.eval.judge import CRITERIA


def heat_maps(wins: Sequence[dict[str, Any]], names: Sequence[str]) -> Figure:
    """A map for each criterion: how often the condition of a row beat that of a column, in percent."""
    side = 1.2 + 0.55 * len(names)
    figure = Figure(figsize=(2 * side, 2 * side), layout="constrained")
    for axes, criterion in zip(figure.subplots(2, 2).flat, CRITERIA, strict=True):
        shown = matrix(wins, names, criterion)
        axes.imshow(shown, cmap="RdBu", vmin=0, vmax=100)
        axes.set_xticks(range(len(names)), names, fontsize=8)
        axes.set_yticks(range(len(names)), names, fontsize=8)
        axes.set_title(criterion, fontsize=10)
        for (i, j), rate in np.ndenumerate(shown):
            if i != j:
                text = "–" if np.isnan(rate) else f"{rate:.0f}"
                axes.text(j, i, text, ha="center", va="center", fontsize=8, color="white" if abs(rate - 50) > 30 else "black")
    return figure


def matrix(wins: Sequence[dict[str, Any]], names: Sequence[str], criterion: str) -> np.ndarray:
    """Win rates of rows against columns, NaN where there are none."""
    shown = np.full((len(names), len(names)), np.nan)
    for w in wins:
        if w["criterion"] == criterion and w["rate"] is not None:
            i, j = names.index(w["a"]), names.index(w["b"])
            shown[i, j], shown[j, i] = w["rate"], 100 - w["rate"]
    return shown


def mean_rates(wins: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, dict[str, float | None]]:
    """For each condition and criterion the mean of its win rates against the others; None without any."""
    found: dict[str, dict[str, float | None]] = {n: {} for n in names}
    for criterion in CRITERIA:
        for name, row in zip(names, matrix(wins, names, criterion), strict=True):
            found[name][criterion] = None if np.isnan(row).all() else round(float(np.nanmean(row)), 1)
    return found


def tokens_against_quality(conditions: Sequence[dict[str, Any]], wins: Sequence[dict[str, Any]]) -> Figure:
    """What conditions read against what they reach: the mean win rate for comprehensiveness, and the statements of an answer."""
    shown = [c for c in conditions if not c["same_as"]]
    rates = mean_rates(wins, [c["name"] for c in shown])
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    drawn = (
        ("mean win rate, comprehensiveness (%)", [rates[c["name"]]["comprehensiveness"] for c in shown]),
        ("statements of an answer", [c["statements"] for c in shown]),
    )
    for axes, (label, values) in zip(figure.subplots(1, 2), drawn, strict=True):
        for c, value in zip(shown, values, strict=True):
            if value is not None:
                x = max(1, c["context_tokens"])
                axes.scatter(x, value, color="#2b6cb0")
                axes.annotate(c["name"], (x, value), xytext=(4, 4), textcoords="offset points", fontsize=8)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("tokens read for a question", fontsize=9)
        axes.set_ylabel(label, fontsize=9)
    return figure


def save_plots(folder: Path, found: dict[str, Any]) -> dict[str, str]:
    """Draw every figure as PNG and SVG into `folder`; returns the SVG texts by name."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [c["name"] for c in found["conditions"] if not c["same_as"]]
    figures = {
        "win-rates": heat_maps(found["wins"], names),
        "tokens-against-quality": tokens_against_quality(found["conditions"], found["wins"]),
    }
    texts = {}
    for name, figure in figures.items():
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "localrag"}):
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        figure.savefig(folder / f"{name}.png", dpi=150)
        svg = (folder / f"{name}.svg").read_text(encoding="utf-8")
        texts[name] = svg[svg.index("<svg") :]
    return texts
