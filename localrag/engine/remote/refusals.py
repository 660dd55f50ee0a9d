"""Errors of model servers and their meaning: a prompt beyond the window, a fault that passes, a field that is not supported.

Servers word the same error in many ways and with different status codes, so an error is recognised by status, type and words together.
Words are read only from the fields that describe an error, up to MAX_ERROR_CHARS characters: other fields repeat the request.
"""

import re
from typing import Any

MAX_ERROR_CHARS = 2000
MAX_ERROR_FIELDS = 100
_DESCRIBING = {"message", "msg", "code", "type", "param", "detail", "details", "error", "errors", "loc", "reason", "description", "title"}

SERVER_FAILED, BUSY, GATEWAY = (500, 501), (408, 425, 429, 503, 529), (502, 504, 520, 521, 522, 523, 524)
_BAD_REQUEST = (400, 413, 422)

# Gaps are bounded, so that a search takes linear time.
_TOO_LONG = re.compile(
    r"context[ _-]?(?:length|size|window|limit|overflow)|contextwindow|(?:maximum|max|model) context|\bn_ctx\b|\bn_keep\b"
    r"|\bmax_(?:seq|model|position)_?len|\bmax_input_tokens\b|string_above_max_length|request_too_large"
    r"|\b(?:prompt|inputs?|messages?|request|conversation|sequence|entity)\b.{0,60}?"
    r"(?:too (?:long|large|big)|exceed|longer than|larger than|greater than)"
    r"|too many (?:\w+ ){0,2}tokens|(?:number|count) of (?:\w+ ){0,2}tokens.{0,40}?(?:exceed|greater|larger|more than|limit|maximum)"
    r"|(?:exceed|beyond|longer than|greater than|larger than|at most|less than|<=).{0,60}?(?:tokens|token limit|sequence length)"
    r"|tokens?\b.{0,60}?(?:exceed|too (?:long|large|many)|must be <=)|reduce (?:the |your )?(?:\w+ ){0,2}(?:length|size)"
    r"|range of input length|max(?:imum)? (?:input|prompt|sequence|model) (?:length|size)"
    r"|(?:超过|超出|超长|过长).{0,20}(?:长度|上下文|token)"
)
_UNSUPPORTED = re.compile(
    r"not (?:be )?(?:supported|permitted|allowed|available|implemented|recogni[sz]ed)|(?:does not|doesn't) support|unsupported|unknown"
    r"|unexpected|unrecogni[sz]ed|unavailable|invalid|extra (?:inputs|fields)|disabled|only|(?:must|should) be"
)
# "Try again" is none of these words: errors that never pass say so, too.
_PASSING = re.compile(
    r"\bunload(?:ed|ing)\b|\bmodel (?:\S{1,100} )?(?:is )?(?:still |currently |being )?(?:re)?loading\b|\bmodel is being (?:re)?loaded"
    r"|\bnot (?:yet |currently )?loaded\b|\bno (?:\w{1,40} )?models? (?:\w{1,40} ){0,2}loaded|\bloading model|\bswapping|overloaded"
    r"|currently unavailable|\bno (?:available )?slots?\b|\b(?:server|system) (?:is )?(?:too )?busy|queue (?:is )?full|shutting down"
    r"|restarting|starting up|warming up|not (?:yet )?ready|resource_exhausted|rate.?limit"
)
_UNKNOWN_MODEL = re.compile(
    r"model.{0,160}?(?:not (?:be )?found|does(?: not|n't) exist|not exist|unknown|invalid model|not a valid)"
    r"|(?:unknown|invalid|no such) model|model_not_found"
)
_WINDOW_NUMBERS = (
    re.compile(r"(?:context|n_ctx|(?:max_)?(?:seq|model|sequence)[ _]?len(?:gth)?)(?!.{0,30}?\bby\b)[^\d]{0,60}?(\d{3,8})"),
    re.compile(r"(?:<=|>=|>|at most|less than|limit(?: of| is|:)?|maximum(?: of| is|:)?)[^\d]{0,20}(\d{3,8})"),
)
# Fields that not every server supports, with the words by which errors name them. `max_tokens` has a newer name.
_NAMED_BY = {
    "chat_template_kwargs": re.compile("chat_template"),
    "reasoning_effort": re.compile("reasoning|think"),
    "stream_options": re.compile("stream_options|include_usage"),
    "seed": re.compile(r"\bseed\b"),
    "response_format": re.compile(r"response_format|json.?schema|json.?object|structured.?output|\bgrammar|guided|\bformat\b"),
    "min_p": re.compile(r"\bmin_p\b"),
    "top_p": re.compile(r"\btop_p\b"),
    "temperature": re.compile(r"\btemperature\b"),
    "max_tokens": re.compile("max_completion_tokens"),
}
_EXTRAS = ("chat_template_kwargs", "reasoning_effort", "stream_options", "seed")  # omitted first where an error names none
# Values that a server may reject while it takes another: "low" for gpt-oss, which always thinks; json_object with a schema, which is older.
LEAST_REASONING = "reasoning_effort=none"
JSON_SCHEMA = "response_format=json_schema"
_OTHER_VALUES = {"reasoning_effort": LEAST_REASONING, "response_format": JSON_SCHEMA}


class HttpError(Exception):
    """The server answered with an error. `words` only serves to recognise errors: it may echo the request."""

    def __init__(self, status: int, kind: str = "", words: str = "", retry_after: float = 0.0) -> None:
        super().__init__(f"{status} {kind}".strip())
        self.status, self.kind, self.words, self.retry_after = status, kind, words.lower(), retry_after


def refused(status: int, details: Any, retry_after: float = 0.0) -> HttpError:
    """An error from a server's description: `{"type", "code", "message"}`, a list of these, or a sentence."""
    kind = details.get("type") if isinstance(details, dict) else ""
    kind = kind if isinstance(kind, str) and kind.replace("_", "").isalpha() and len(kind) < 40 else ""
    return HttpError(status, kind, _describing_words(details), retry_after)


def error_in(event: Any) -> HttpError | None:
    """The error that an event of an answer describes, under "error" or by itself; None for any other event."""
    if not isinstance(event, dict):
        return None
    details = event.get("error")
    if not details and not (event.get("choices") is None and (event.get("object") == "error" or {"message", "detail"} & event.keys())):
        return None
    details = details or event
    codes = [part.get(name) for part in (details, event) if isinstance(part, dict) for name in ("code", "status", "status_code")]
    numbers = (int(c) for c in codes if isinstance(c, (int, str)) and str(c).isascii() and str(c).isdigit() and len(str(c)) == 3)
    status = next((n for n in numbers if 400 <= n < 600), 500)
    return refused(status, details)


def _describing_words(details: Any) -> str:
    """The texts of an error's description, without the fields that repeat the request."""
    words: list[str] = []
    waiting = [details]
    for _ in range(MAX_ERROR_FIELDS):
        if not waiting:
            break
        part = waiting.pop(0)
        if isinstance(part, dict):
            waiting += [value for name, value in part.items() if str(name).lower() in _DESCRIBING]
        elif isinstance(part, list):
            waiting += part[:MAX_ERROR_FIELDS]
        elif part is not None:
            words.append(str(part)[:MAX_ERROR_CHARS])
    return " ".join(" · ".join(words)[:MAX_ERROR_CHARS].split())


def retry_delay(header: str) -> float:
    """The seconds of a Retry-After header; 0 for anything else, such as a date."""
    return float(header[:6]) if header.isascii() and header.isdigit() else 0.0


def is_passing(error: HttpError) -> bool:
    """Whether an error is expected to pass: the server is busy, or its model is being loaded or swapped."""
    return error.status in BUSY or (error.status in (*_BAD_REQUEST, 404, 409, *SERVER_FAILED) and bool(_PASSING.search(error.words)))


def is_too_long(error: HttpError) -> bool:
    """Whether a server rejected a request because it exceeds its window."""
    if error.kind in ("exceed_context_size_error", "context_length_exceeded") or error.status == 413:
        return True
    return error.status in (*_BAD_REQUEST, *SERVER_FAILED) and bool(_TOO_LONG.search(error.words)) and not _names_unsupported(error)


def _names_unsupported(error: HttpError) -> bool:
    return bool(re.search(r"unsupported|not supported|unrecogni[sz]ed|extra inputs", error.words))


def is_unknown_model(error: HttpError) -> bool:
    """Whether a server says that it does not have the requested model."""
    return error.status in (400, 404, 422) and bool(_UNKNOWN_MODEL.search(error.words)) and not is_passing(error)


def window_in(error: HttpError, tokens: int) -> int:
    """The window that an error names, in tokens; 0 if it names none that a request of so many tokens can exceed."""
    for pattern in _WINDOW_NUMBERS:
        for found in pattern.finditer(error.words):
            if 128 <= (number := int(found[1])) < 1.5 * tokens:
                return number
    return 0


def next_omitted_fields(error: HttpError, fields: frozenset[str], without: frozenset[str]) -> tuple[frozenset[str], bool] | None:
    """Fields to omit after an error, and whether it names them; else those that few servers support, then `response_format`; or None."""
    if error.status not in (*_BAD_REQUEST, *SERVER_FAILED, 404):
        return None
    named = [name for name, words in _NAMED_BY.items() if name in fields and words.search(error.words)]
    if named:
        sure = bool(_UNSUPPORTED.search(error.words))
        if len(named) == 1 and (value := _OTHER_VALUES.get(named[0])) and value not in without:
            return without | {value}, sure
        return without | set(named), sure
    if error.status not in _BAD_REQUEST:
        return None
    omitted = [name for name in _EXTRAS if name in fields] or [name for name in ("response_format",) if name in fields]
    return (without | set(omitted), False) if omitted else None
