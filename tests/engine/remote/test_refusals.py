"""What the errors of model servers mean, in the words that these use."""

import json

import pytest

from localrag.engine.remote import refusals
from localrag.engine.remote.refusals import (
    error_in,
    is_passing,
    is_too_long,
    is_unknown_model,
    next_omitted_fields,
    refused,
    retry_delay,
    window_in,
)

OVERFLOWS = [
    (400, "request (9031 tokens) exceeds the available context size (2048 tokens), try increasing it", 2048),
    (500, "rpc error: code = Internal desc = request (9031 tokens) exceeds the available context size (2048 tokens)", 2048),
    (400, "Cannot truncate prompt with n_keep (9031) >= n_ctx (4096)", 4096),
    (400, "Trying to keep the first 9031 tokens. However, the model is loaded with context length of only 4096 tokens", 4096),
    (400, "This model's maximum context length is 4096 tokens. However, you requested 9031 tokens (8031 in the messages)", 4096),
    (400, "You passed 9015 input tokens. However, the model's context length is only 1024 tokens", 1024),
    (400, "the prompt is longer than the maximum model length of 4096", 4096),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 9031", 4096),
    (400, "The input (9031 tokens) is longer than the model's context length (8192 tokens).", 8192),
    (400, "prompt is too long: 9031 tokens > 8000 maximum", 8000),
    (400, "prompt too long; exceeded max context length by 200 tokens", 0),
    (400, "The input token count (9031) exceeds the maximum number of tokens allowed (8192).", 0),
    (400, "Prompt length 9031 is greater than max_seq_len 4096", 4096),
    (400, "Please reduce the length of the messages or completion.", 0),
    (413, "", 0),
    (413, "Request Entity Too Large", 0),
    (400, "Context size has been exceeded.", 0),
    (400, "Range of input length should be [1, 6000]", 0),
    (500, "input length exceeds maximum context length", 0),
]


@pytest.mark.parametrize(("status", "message", "window"), OVERFLOWS)
def test_a_request_beyond_the_window_is_known_in_any_wording(status, message, window):
    """By its status or its words; the window is the one that the error names, where it names one."""
    error = refused(status, {"message": message})

    assert is_too_long(error)
    assert window_in(error, 9031) == window


def test_a_request_beyond_the_window_is_known_by_its_code():
    """OpenAI's code and llama-server's type say it without words."""
    assert is_too_long(refused(400, {"code": "context_length_exceeded", "message": ""}))
    assert is_too_long(refused(400, {"type": "exceed_context_size_error"}))


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Model unloaded."),
        (404, "No models loaded. Please load a model in the developer page or use the 'lms load' command."),
        (400, "The model is not loaded yet"),
        (503, "Loading model"),
        (500, "model is swapping, try again"),
        (429, ""),
        (503, ""),
        (529, "Overloaded"),
        (500, "server busy, please try again.  maximum pending requests reached"),
    ],
)
def test_a_fault_that_passes_is_known_in_any_wording(status, message):
    """The server is busy, or its model is being loaded or swapped; it is no missing model, and no request that is too long."""
    error = refused(status, message)

    assert is_passing(error)
    assert not is_too_long(error)
    assert not is_unknown_model(error)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This response_format type is unavailable now"),
        (400, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
        (400, "model 'm' not found"),
        (500, "model requires more system memory (8 GiB) than is available (4 GiB)"),
        (500, "llama runner process has terminated: exit status 2"),
        (500, "Internal error, please try again later"),
        (400, "Invalid request, please correct it and try again"),
        (401, "the token has expired; it exceeds the limit"),
        (400, "invalid reasoning value: none"),
    ],
)
def test_other_errors_are_neither(status, message):
    """What must not be waited for, and is no matter of length."""
    error = refused(status, message)

    assert not is_passing(error)
    assert not is_too_long(error)


def test_words_of_the_request_do_not_count():
    """An error that repeats the request is not taken for what the documents in it say."""
    echo = [{"loc": ["body", "seed"], "msg": "extra fields not permitted", "input": "the prompt is too long; model unloaded, try again"}]
    error = refused(422, echo)

    assert not is_too_long(error)
    assert not is_passing(error)
    assert next_omitted_fields(error, frozenset({"seed", "stream_options"}), frozenset()) == (frozenset({"seed"}), True)


FIELDS = frozenset({"max_tokens", "seed", "response_format", "reasoning_effort", "stream_options", "chat_template_kwargs", "temperature"})


@pytest.mark.parametrize(
    ("message", "omitted"),
    [
        ("This response_format type is unavailable now", {refusals.JSON_SCHEMA}),
        ("structured outputs are not supported by this model", {refusals.JSON_SCHEMA}),
        ("Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.", {"max_tokens"}),
        ("Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1) is.", {"temperature"}),
        ('"gemma3" does not support thinking', {refusals.LEAST_REASONING}),
    ],
)
def test_a_field_that_an_error_names_is_omitted_for_good(message, omitted):
    """What the server says it does not support is not sent again; a value of a field that has another one goes before the field."""
    error = refused(400, message)
    assert next_omitted_fields(error, FIELDS, frozenset()) == (frozenset(omitted), True)
    for value in omitted & {refusals.JSON_SCHEMA, refusals.LEAST_REASONING}:
        assert next_omitted_fields(error, FIELDS, frozenset({value})) == (frozenset({value, value.partition("=")[0]}), True)


def test_an_unknown_model_is_known():
    """In the words of Ollama, vLLM and OpenAI."""
    for message in ("model 'qwen3' not found", "The model `m` does not exist.", "model_not_found"):
        assert is_unknown_model(refused(404, {"message": message}))


def test_an_error_within_a_stream_is_one():
    """Under "error", by itself, or as a detail; an event of an answer is none."""
    vllm = {"object": "error", "message": "maximum context length is 4096 tokens", "type": "BadRequestError", "code": 400}

    assert [e.status for e in map(error_in, (vllm, {"error": vllm}, {"error": "x"}, {"detail": "x"})) if e] == [400, 400, 500, 500]
    assert error_in({"choices": [], "usage": {}}) is None
    assert error_in({"id": 1}) is None


def test_waiting_times_are_seconds():
    """Nonsense and a date are no time to wait."""
    assert [retry_delay(text) for text in ("3", "Fri, 27 Nov 2020 00:00:00 GMT", "soon", "", "²", "-1")] == [3, 0, 0, 0, 0, 0]


def test_a_long_error_is_read_in_part():
    """A megabyte of an error in one line, and a thousand levels of it, are cut."""
    deep = "x"
    for _ in range(500):
        deep = {"error": deep}

    assert len(refused(400, {"message": "context " * 200_000}).words) <= refusals.MAX_ERROR_CHARS
    assert refused(400, [{"message": "a"}] * 10_000).words.count("a") <= refusals.MAX_ERROR_FIELDS
    assert refused(400, json.loads(json.dumps(deep))).words == ""
    assert not is_too_long(refused(400, "prompt " * 200_000))
