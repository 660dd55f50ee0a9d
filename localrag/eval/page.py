"""The report of a study as one HTML file that needs nothing else: no script, no font, no picture from elsewhere."""

from pathlib import Path
from typing import Any

from localrag.eval.judge import CRITERIA
from localrag.eval.plots import matrix, mean_rates, save_plots
from localrag.eval.results import per_question
from localrag.system.files import replace_file

TEMPLATE = Path(__file__).parent / "page.html"


def write_page(folder: Path, found: dict[str, Any]) -> Path:
    """Write `report.html`, and the plots beside it; returns the page's path. `found`: what `results` gives."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    names = [c["name"] for c in found["conditions"] if not c["same_as"]]
    plots = {name: Markup(svg) for name, svg in save_plots(folder / "plots", found).items()}
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        found,
        names=names,
        criteria=CRITERIA,
        rates=mean_rates(found["wins"], names),
        matrices={c: [[_cell(v) for v in row] for row in matrix(found["wins"], names, c)] for c in CRITERIA},
        plots=plots,
        asked=per_question(folder),
        figure=_figure,
    )
    replace_file(folder / "report.html", page.encode())
    return folder / "report.html"


def _cell(rate: float) -> tuple[str, str]:
    """The text and the colour of a win rate: blue above half, red below."""
    if rate != rate:  # NaN: not measured  # noqa: PLR0124
        return "–", "transparent"
    strength = abs(rate - 50) / 50
    return f"{rate:.0f}", f"rgba({'43,108,176' if rate > 50 else '197,48,48'},{0.85 * strength:.2f})"


def _figure(value: float | None, unit: str = "") -> str:
    return "–" if value is None else f"{value:,}{unit}"
