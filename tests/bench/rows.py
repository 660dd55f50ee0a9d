"""A model's measurements, made by hand."""

from localrag.bench.runs import model_metrics


def measured(name="a", *, typed=((8, 10, 10),) * 10, relations=((2, 4, 4),) * 10, failed=0, seconds=60.0, speeds=(100.0, 102.0, 98.0)):
    """A row of a run: ten paragraphs, `failed` of them without an answer."""
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
        "speeds": [{"prefill_tokens_per_s": 5 * s, "decode_tokens_per_s": 2 * s, "output_tokens_per_s": s} for s in speeds],
        "peak_bytes": 900_000_000,
    }
    return row | {"figures": model_metrics(row)}
