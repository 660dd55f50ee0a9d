"""Feeds the loaders broken files of a format and says which of them hang or crash the process that reads.

    python -m scripts.measure.fuzz_loaders pdf --seeds DOCS --minutes 2 --seed 1 --keep FOLDER

Seeds are the files of the format below DOCS, of at most 300 kB, and those of the tests. They are broken by flipped bits, bytes put in,
cuts, repeats, and pieces of other seeds; of formats that are archives, also the files inside. A zip archive is attached to a mail, because
only there it is read; of a picture or page without text the drawing for OCR is tried, not the OCR. What hangs, crashes or needs too much
memory is kept in FOLDER.
"""

import argparse
import io
import random
import sys
import tempfile
import time
import zipfile
from collections import Counter
from email.message import EmailMessage
from pathlib import Path

from localrag.loaders.content import LoadOptions
from localrag.loaders.reader import Limits, load_files
from localrag.records import SkippedFile
from tests.indexing.files import zipped
from tests.loaders.test_load import SOURCES

LARGEST = 300_000
GRAVE = ("took longer", "needed more", "damaged: it crashed")


def seeds_of(kind, folder):
    found = [p.read_bytes() for p in sorted(folder.rglob(f"*.{kind}")) if p.is_file() and p.stat().st_size <= LARGEST] if folder else []
    found += [data for name, data in SOURCES.items() if name.endswith(f".{kind}")]
    return found or [b"Name: Ruth Sand\nPort: Vardby\n\nText.\n" * 20]


def broken(data, others, rng):
    """The data after one to eight accidents."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(7):
            case 0 if out:
                out[at % len(out)] ^= 1 << rng.randrange(8)
            case 1:
                out[at:at] = rng.randbytes(rng.randrange(1, 16))
            case 2:
                del out[at : at + rng.randrange(1, 200)]
            case 3:
                out = out[: max(at, 1)]
            case 4:
                other = rng.choice(others)
                start = rng.randrange(len(other) + 1)
                out[at:at] = other[start : start + rng.randrange(1, 2000)]
            case 5:
                out[at:at] = out[at : at + rng.randrange(1, 100)] * rng.randrange(1, 200)
            case _:
                number = rng.choice((b"0", b"-1", b"65536", b"2147483648", b"99999999999", b"1e999", b"\xff\xff\xff\xff"))
                out[at : at + len(number)] = number
    return bytes(out[: 4 * LARGEST])


def broken_inside(data, others, rng):
    """An archive one or more of whose files are broken; the data itself if it is none."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = {n: archive.read(n) for n in archive.namelist()}
    except (zipfile.BadZipFile, NotImplementedError, OSError):
        return broken(data, others, rng)
    texts = [n for n in entries if n.endswith((".xml", ".rels", ".opf", ".xhtml", ".html"))] or list(entries)
    inner = [entries[n] for n in texts]
    for name in rng.sample(texts, min(len(texts), rng.choice((1, 1, 2)))):
        entries[name] = broken(entries[name], inner, rng)
    return zipped(entries)


def as_file(kind, data):
    """The name and bytes of the file to read: the data, or a mail with them for what is read within another file only."""
    if kind != "zip":
        return f"x.{kind}", data
    mail = EmailMessage()
    mail["Subject"] = "Papers"
    mail.set_content("See the papers.")
    mail.add_attachment(data, maintype="application", subtype="zip", filename="papers.zip")
    return "x.eml", mail.as_bytes()


def draw_all(_file, _content_hash, pages, draw):
    """Blank pages in place of what OCR reads, once they have been drawn."""
    return {n: draw(n) and {"blank": True} for n in pages}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", help="a suffix, such as pdf")
    parser.add_argument("--seeds", type=Path)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    seeds = seeds_of(args.format, args.seeds)
    until = time.monotonic() + args.minutes * 60
    outcomes, grave = Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / as_file(args.format, b"")[0]

        def cases():
            while time.monotonic() < until:
                data = (broken_inside if rng.random() < 0.6 else broken)(rng.choice(seeds), seeds, rng)
                file.write_bytes(as_file(args.format, data)[1])
                yield file

        found_in = load_files(cases(), Path(folder), LoadOptions(ocr="eng"), Limits(seconds=10), draw_all)
        for n, found in enumerate(found_in, 1):
            if isinstance(found, SkippedFile):
                outcomes[found.reason[:60] if found.reason.startswith(GRAVE) else " ".join(found.reason.split()[:2])] += 1
                if found.reason.startswith(GRAVE):
                    grave += 1
                    if args.keep:
                        args.keep.mkdir(parents=True, exist_ok=True)
                        (args.keep / f"{args.seed}-{n}{file.suffix}").write_bytes(file.read_bytes())
            else:
                outcomes["read"] += 1
                found.text.encode("utf-8")
                assert all(0 <= p.start < p.end <= len(found.text) for p in found.parts)
    counts = dict(outcomes.most_common(8))
    print(f"{args.format}: {len(seeds)} seeds, {outcomes.total()} files, {grave} hung, crashed or too large: {counts}")
    return int(grave > 0)


if __name__ == "__main__":
    sys.exit(main())
