"""Many work on one index for a long time, and none of them fails.

`LOCALRAG_TEST_SOAK=600 pytest tests/indexing/test_soak.py` soaks ten minutes.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from itertools import count

import pytest

from localrag.errors import IndexBusy
from localrag.store.check import check_index, problems
from localrag.store.opening import open_index
from tests.conftest import run_localrag
from tests.indexing.runs import put
from tests.indexing.test_generations import OLD

SECONDS = float(os.environ.get("LOCALRAG_TEST_SOAK", "60"))
ASKERS = 4
ASKER = """
import asyncio, json, sys
from pathlib import Path
from localrag.project import open_for_query
from localrag.asking import answer_question
from localrag.query.modes import MODE_FUNCTIONS
from localrag.query.question import QueryOptions

folder, n, notes = Path(sys.argv[1]), int(sys.argv[2]), set()
while not (folder / "stop").exists():
    with open_for_query(folder / ".localrag") as project:
        for mode in MODE_FUNCTIONS:
            n += 1
            about = ["Who is Lars Holm?", "What are the main themes?", "What is wrong with the Skua?"][n % 3]
            given = asyncio.run(answer_question(about, project, QueryOptions(mode, style="extractive")))
            assert given.unsupported_sentences == 0, given
            assert "could not be stored" not in given.note, given.note
print(n - int(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.timeout(SECONDS * 3 + 600)
def test_a_writer_a_watcher_removals_and_four_askers_get_along(tmp_path):
    """Nobody fails but a writer that is told that another writes, every answer is kept, and nothing is wrong with the index at the end."""
    docs, index = put(tmp_path, OLD), tmp_path / ".localrag"
    assert run_localrag("index", "docs", "--extractor", "phrases", cwd=tmp_path).returncode == 0
    watcher = subprocess.Popen(
        [sys.executable, "-m", "localrag", "index", "docs", "--watch"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    said = []
    threading.Thread(target=lambda: said.extend(watcher.stderr), daemon=True).start()
    askers = [
        subprocess.Popen([sys.executable, "-c", ASKER, tmp_path, str(n)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for n in range(ASKERS)
    ]
    ran, longest, rng = [], 0, random.Random(0)
    try:
        until = time.monotonic() + SECONDS
        for n in count():
            if time.monotonic() > until:
                break
            name = rng.choice(sorted(OLD))
            (docs / name).write_text(f"{OLD[name]} Lars Holm wrote letter {n} about the Skua.\n", encoding="utf-8")
            words = ("rm", f"docs/{rng.choice(sorted(OLD))}") if n % 3 == 2 else ("index", "docs", "-q")
            ran.append((words, run_localrag(*words, cwd=tmp_path)))
            longest = max(longest, (index / "index.db-wal").stat().st_size)
            assert watcher.poll() is None, said
            assert [a.poll() for a in askers] == [None] * ASKERS
    finally:
        (tmp_path / "stop").touch()
        watcher.send_signal(signal.SIGINT)
        ended = [a.communicate(timeout=300) for a in askers]
        watcher.wait(timeout=300)
    refused = [(words, done.stderr) for words, done in ran if done.returncode not in (0, IndexBusy.exit_code)]
    gone = [words for words, why in refused if words[0] == "rm" and "The index has no document at" in why]
    sys.stderr.write(json.dumps({"writes": len(ran), "refused": len(refused), "asked": [o for o, _ in ended], "log": longest}) + "\n")

    assert len(refused) == len(gone), refused  # removed twice
    assert [a.returncode for a in askers] == [0] * ASKERS, ended
    assert watcher.returncode in (0, 130), said  # interrupted while it waited, or in a run
    assert sum(done.returncode == 0 for _, done in ran) > SECONDS / 60
    assert longest < 80 << 20
    assert run_localrag("index", "docs", "-q", cwd=tmp_path).returncode == 0
    db = open_index(index)
    assert not list(problems(check_index(db, index)))
    db.close()
