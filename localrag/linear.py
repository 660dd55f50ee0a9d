"""Regular expressions from untrusted sources, matched by RE2 in time proportional to the length of the pattern times that of the text."""

from collections.abc import Callable
from typing import Any, cast

from localrag.errors import UsageError


class PatternError(UsageError):
    """A pattern that cannot be compiled."""


def compile_linear(pattern: str) -> Callable[[str], Any]:
    """Compile a pattern in RE2's syntax, where `.` also matches a line end; returns its search function, like `re.Pattern.search`.

    Raises PatternError for a pattern that is invalid or too long.
    """
    import re2  # loading it takes 30 ms, and few commands need it

    options = re2.Options()
    options.dot_nl, options.log_errors = True, False
    try:
        return cast(Callable[[str], Any], re2.compile(pattern, options).search)
    except (re2.error, UnicodeEncodeError) as error:
        raise PatternError(f"A pattern cannot be read: {error}.", "Write a shorter or a simpler one.") from None
