"""The embedder of a new index: a multilingual one where documents are in other languages than English, told by a sample of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from localrag.indexing.documents import find_sources
from localrag.loaders.ocr import load_options
from localrag.loaders.reader import Limits, load_files
from localrag.records import Document
from localrag.settings import IndexSettings
from localrag.text.language import detect_language

MULTILINGUAL_EMBEDDER = "multilingual-e5-small"
SAMPLED_FILES, MIN_BYTES = 24, 1000
SAMPLE_LIMITS = Limits(seconds=5.0)
MIN_LETTERS, MAX_CHARS = 200, 3000  # of a document whose language is told
MIN_OTHER_SHARE = 0.25  # of the sample in other languages than English


def languages_beside_english(paths: Sequence[Path], root: Path, settings: IndexSettings) -> tuple[str, ...]:
    """The codes of the languages of documents below the paths, most frequent first, if many of them are not in English; else none.

    Read is a sample: the smallest file with some text of each of SAMPLED_FILES equal parts. Raises UsageError for a missing path.
    """
    files = [(size, file) for file in find_sources(paths, root, settings, None).files if (size := _size(file)) >= MIN_BYTES]
    step = max(1, -(-len(files) // SAMPLED_FILES))
    sample = [min(files[start : start + step])[1] for start in range(0, len(files), step)]
    options = load_options(replace(settings, ocr=False))
    texts = [document.text[:MAX_CHARS] for document in load_files(sample, root, options, SAMPLE_LIMITS) if isinstance(document, Document)]
    found = Counter(detect_language(text) for text in texts if sum(map(str.isalpha, text)) >= MIN_LETTERS)
    others = found.total() - found["en"]
    return tuple(code for code, _ in found.most_common()) if others and others >= MIN_OTHER_SHARE * found.total() else ()


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
