"""What an engine did, in a line."""

from typing import Any


def engine_line(figures: dict[str, Any]) -> str:
    """What an engine did in one line; empty where it did nothing."""
    if not figures.get("steps"):  # also where workers did it
        return ""
    tasks = figures["tasks"].values()
    prompt, cached, wrote, forced, drafted = (
        sum(t[k] for t in tasks) for k in ("prompt_tokens", "cached_tokens", "output_tokens", "forced_tokens", "drafted_tokens")
    )
    if "server" in figures:
        return f"{figures['server']} read {prompt} tokens and wrote {wrote}"
    return (
        f"read {prompt} tokens, {share(cached, prompt)} of them from the KV cache, at {figures['prefill_tokens_per_s']:.0f} tok/s · wrote "
        f"{wrote}, {share(forced, wrote)} forced, {share(drafted, wrote)} guessed, at {figures['decode_tokens_per_s']:.0f} tok/s · "
        f"{figures['steps']} steps, slots {figures['slot_use']:.0%} full"
    )


def share(part: int, whole: int) -> str:
    """`part` of `whole` in per cent."""
    return f"{part / whole:.0%}" if whole else "0%"
