"""A model's measurements, made by hand."""

from localrag.bench.runs import model_metrics


def measured(
    name="a", *, typed=((8, 10, 10),) * 10, relations=((2, 4, 4),) * 10, failed=0, seconds=60.0, says=None, speeds=(100.0, 102.0, 98.0)
):
    """A row as `localrag bench` keeps it: ten paragraphs, ten questions, `failed` of the paragraphs without an answer."""
    lost = [(0, 0, t[2]) for t in typed]
    paragraphs = [
        {
            "id": f"en-{n}",
            "names": list(lost[n] if n < failed else typed[n]),
            "typed": list(lost[n] if n < failed else typed[n]),
            "relations": [0, 0, relations[n][2]] if n < failed else list(relations[n]),
            "listed": 0 if n < failed else typed[n][1],
            "in_text": 0 if n < failed else typed[n][1],
            "duplicates": 0,
            "words": 43,
            "error": "failed in the engine" if n < failed else "",
        }
        for n in range(len(typed))
    ]
    said = says or [n % 2 == 0 for n in range(10)]
    yes_no = [{"id": f"q{n}", "answer": n % 2 == 0, "said": said[n], "error": ""} for n in range(10)]
    row = {
        "name": name,
        "given": f"/models/{name}.gguf",
        "fingerprint": name,
        "error": "",
        "file_bytes": 98_000_000,
        "quantisation": "Q4_1",
        "load_seconds": 1.0,
        "parameters": 135_000_000,
        "engine": {"slots": 8, "weights": "own"},
        "style": "extractive",
        "paragraphs": paragraphs,
        "extraction": {
            "calls": 40,
            "failed_calls": failed,
            "prompt_tokens": 1000,
            "cached_tokens": 0,
            "output_tokens": 500,
            "forced_tokens": 400,
            "seconds": {"en": seconds, "zh": 9.0},
        },
        "yes_no": yes_no,
        "speeds": [{"prefill_tokens_per_s": 5 * s, "decode_tokens_per_s": 2 * s, "output_tokens_per_s": s} for s in speeds],
        "peak_bytes": 900_000_000,
        "index": None,
        "questions": [],
    }
    return row | {"figures": model_metrics(row)}


def run_of(*models):
    """A run of those models."""
    machine = {"system": "Linux", "cpu": "CPU", "cores": 2, "all_cores": 2, "memory": 8 << 30}
    options = {"engine": "", "deterministic": False, "repeat": 3, "quick": True, "limit": 0, "style": "auto"}
    return {
        "version": 1,
        "localrag": "0.1.0",
        "started": "2026-01-01T00:00:00+00:00",
        "machine": machine,
        "options": options,
        "models": list(models),
    }
