"""Regular expressions for patterns that somebody else wrote: RE2 matches in time that grows with pattern times text, whatever they say."""

from collections.abc import Callable
from typing import Any, cast

from localrag.errors import UsageError


class PatternError(UsageError):
    """A pattern that cannot be compiled."""


def compile_linear(pattern: str) -> Callable[[str], Any]:
    """The search for a pattern of RE2's syntax, in which `.` also is a line's end: as `re.Pattern.search`, it gives a match or None.

    Raises PatternError, also for a pattern that is too long.
    """
    import re2  # takes 30 ms, and most commands match nothing

    options = re2.Options()
    options.dot_nl, options.log_errors = True, False
    try:
        return cast(Callable[[str], Any], re2.compile(pattern, options).search)
    except (re2.error, UnicodeEncodeError) as error:
        raise PatternError(f"A pattern cannot be read: {error}.", "Write a shorter or a simpler one.") from None
