"""Read at the start of every Python process that has this folder on its path: layouts fail there as FAULTS says.

FAULTS is JSON, from a part of a layout's name to what computing with it does: a signal's name, "hang", or "wrong" (random logits).
"user SIGSEGV" happens only outside of the processes in which layouts are tried. Each time is noted in FAULTS_LOG.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

if FAULTS := json.loads(os.environ.get("FAULTS", "{}")):
    import numpy as np

    from localrag.engine.autotune import trial
    from localrag.engine.llama.model import LlamaModel
    from localrag.engine.settings import sized_layout_key

    trial.HANG_TIMEOUT_S = 20.0
    IS_TRIAL = "localrag.engine.autotune.trial" in sys.orig_argv
    computed = LlamaModel.decode

    def decode(self, rows):
        for part, fault in FAULTS.items():
            where, _, what = fault.rpartition(" ")
            if part in f"{sized_layout_key(self.settings)}," and not (where and IS_TRIAL):
                with Path(os.environ["FAULTS_LOG"]).open("a", encoding="utf-8") as log:
                    log.write(f"{what} {'trial' if IS_TRIAL else 'user'} {sized_layout_key(self.settings)}\n")
                if what == "hang":
                    time.sleep(3600)
                if what == "wrong":
                    logits = computed(self, rows)
                    return np.random.default_rng(0).normal(0, 5, logits.shape).astype(np.float32)
                signal.raise_signal(getattr(signal, what))  # in this thread, as native code fails: in the middle of a computation
        return computed(self, rows)

    LlamaModel.decode = decode
