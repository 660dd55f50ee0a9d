"""RapidOCR, which carries its models: reads the words of one page image, as a process under the limits of the parser process (`sandbox`).

    python -m localrag.loaders.rapid_ocr MEMORY SECONDS < PAGE.pgm > PAGE.json

RapidOCR finds boxes of text and reads each; here they are put into reading order, column by column, and divided into words.
"""

import json
import math
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any, NamedTuple

from PIL import Image

from localrag.loaders.parser_process import restrict_process
from localrag.text.sentences import CJK

_CJK_LETTERS = rf"{CJK}\u3000-\u303f\uff00-\uffef"
_WORD_OR_CJK = re.compile(rf"[{_CJK_LETTERS}]|[^\s{_CJK_LETTERS}]+")
_SETTINGS = {f"EngineConfig.onnxruntime.{which}_op_num_threads": 1 for which in ("intra", "inter")} | {
    "Global.log_level": "critical",
    "Global.text_score": 0.0,
    "Global.use_cls": False,  # it takes upright lines for turned ones; whole pages are turned instead
}
_SURE = 0.85  # mean confidence of a page that is upright: 0.97 of printed pages, 0.7 of turned ones
_MIN_COLUMN_LINES = 4
_MIN_COLUMN_WIDTH = 8  # heights of a line; cells of a table are narrower
_MAX_CROSSING_SHARE = 0.25  # of the boxes, which are over both columns


class TextBox(NamedTuple):
    """A line of text, or a part of one: corners in pixels from the upper left clockwise, text, confidence 0 to 1."""

    corners: tuple[tuple[float, float], ...]
    text: str
    confidence: float


class _Upright(NamedTuple):
    """A box on a page that is turned until its lines are level."""

    left: float
    top: float
    right: float
    bottom: float
    box: TextBox


def page_words(boxes: Sequence[TextBox]) -> list[list[Any]]:
    """The words of boxes in reading order: [text, left, top, right, bottom, confidence 0 to 100, line]."""
    return [
        [*word, round(100 * part.box.confidence), number]
        for number, line in enumerate(line for column in _columns(_leveled(boxes)) for line in _lines(column))
        for part in line
        for word in _divided(part.box)
    ]


def _leveled(boxes: Sequence[TextBox]) -> list[_Upright]:
    slopes = [math.atan2(b[1] - a[1], b[0] - a[0]) for box in boxes for a, b in [box.corners[:2]]]
    angle = statistics.median_low(slopes) if slopes else 0.0  # no mean of two: of a page upside down they are near π and -π
    cos, sin = math.cos(angle), math.sin(angle)
    turned = [([x * cos + y * sin for x, y in box.corners], [y * cos - x * sin for x, y in box.corners], box) for box in boxes]
    return [_Upright(min(xs), min(ys), max(xs), max(ys), box) for xs, ys, box in turned]


def _columns(boxes: list[_Upright]) -> Iterator[list[_Upright]]:
    """Groups of boxes in reading order: the left one of two columns first; a headline over both divides what is above and below."""
    gap = _column_gap(boxes)
    if gap is None:
        yield boxes
        return
    band: list[_Upright] = []
    for box in [*sorted(boxes, key=lambda b: b.top), None]:
        if box is not None and not box.left < gap < box.right:
            band.append(box)
            continue
        for side in ([b for b in band if b.right <= gap], [b for b in band if b.left >= gap]):
            yield from _columns(side) if side else ()
        band = []
        if box is not None:
            yield [box]


def _column_gap(boxes: list[_Upright]) -> float | None:
    """The middle of the gap between two columns, the widest of those that the fewest boxes are over; None if there is none."""
    height = statistics.median([b.bottom - b.top for b in boxes]) if boxes else 0.0
    found: list[tuple[int, float, float]] = []
    for at in {b.right for b in boxes}:
        left, right = [b for b in boxes if b.right <= at], [b for b in boxes if b.left > at]
        n_over = len(boxes) - len(left) - len(right)
        if min(len(left), len(right)) < _MIN_COLUMN_LINES or n_over > _MAX_CROSSING_SHARE * len(boxes):
            continue
        edge = min(b.left for b in right)
        is_text = all(statistics.median([b.right - b.left for b in side]) >= _MIN_COLUMN_WIDTH * height for side in (left, right))
        if is_text and edge - at >= height / 2:
            found.append((-n_over, edge - at, (at + edge) / 2))
    return max(found)[2] if found else None


def _lines(boxes: list[_Upright]) -> Iterator[list[_Upright]]:
    """The boxes line by line from the top, each line from the left: boxes that overlap by half of their height are of one line."""
    line: list[_Upright] = []
    for box in sorted(boxes, key=lambda b: b.top + b.bottom):
        if line and min(line[0].bottom, box.bottom) - max(line[0].top, box.top) < (box.bottom - box.top) / 2:
            yield sorted(line, key=lambda b: b.left)
            line = []
        line.append(box)
    if line:
        yield sorted(line, key=lambda b: b.left)


def _divided(box: TextBox) -> Iterator[tuple[str, int, int, int, int]]:
    """The words of a box, and each Chinese or Japanese character, with left, top, right and bottom, as if all letters were equally wide."""
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = box.corners
    for word in _WORD_OR_CJK.finditer(box.text):
        shares = word.start() / len(box.text), word.end() / len(box.text)
        xs = [x for share in shares for x in (ax + share * (bx - ax), dx + share * (cx - dx))]
        ys = [y for share in shares for y in (ay + share * (by - ay), dy + share * (cy - dy))]
        yield word.group(), round(min(xs)), round(min(ys)), round(max(xs)), round(max(ys))


def _upright_boxes(engine: Any, image: Any) -> list[TextBox]:
    """The boxes of a page; one that reads badly is turned, and what reads best is kept, with its corners on the page as it was."""
    boxes = _read_rotated(engine, image, 0)
    if _evidence(boxes) >= _SURE * sum(len(box.text) for box in boxes):
        return boxes
    n_wide = sum(math.dist(*box.corners[:2]) >= math.dist(*box.corners[1:3]) for box in boxes)
    turns = (2,) if 2 * n_wide > len(boxes) else (1, 3)
    return max([boxes, *(_read_rotated(engine, image, turn) for turn in turns)], key=_evidence)


def _read_rotated(engine: Any, image: Any, turn: int) -> list[TextBox]:
    import numpy as np

    found = engine(np.rot90(image, turn))
    rows = zip(found.boxes if found.boxes is not None else (), found.txts or (), found.scores or (), strict=True)
    height, width = image.shape[:2]

    def back(x: float, y: float) -> tuple[float, float]:
        return [(x, y), (width - y, x), (width - x, height - y), (y, height - x)][turn]

    return [TextBox(tuple(back(float(x), float(y)) for x, y in corners), text, float(score)) for corners, text, score in rows]


def _evidence(boxes: Sequence[TextBox]) -> float:
    return sum(len(box.text) * box.confidence for box in boxes)


def main(memory: int, seconds: int) -> None:
    """Read the page on stdin, and write its size and words to stdout. `memory`: bytes of address space; `seconds`: of CPU time."""
    import resource

    import numpy as np
    from rapidocr import RapidOCR

    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    restrict_process(memory)
    image = np.asarray(Image.open(BytesIO(sys.stdin.buffer.read())).convert("RGB"))
    words = page_words(_upright_boxes(RapidOCR(params=_SETTINGS), image))
    sys.stdout.write(json.dumps({"width": image.shape[1], "height": image.shape[0], "words": words}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
