"""Grammars for single calls: they restrict the model's answer to what the text allows.

Written in llguidance's Lark syntax. A list has one JSON object per line; each line gets its own grammar, which excludes items already
listed. Lines end in a line break, where all tokenizers split, so no token spans two lines.
"""

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from localrag.engine.sampler import Grammar
from localrag.llm.budgets import DEFAULT_TOKENS_PER_CHAR, TokenDensity
from localrag.llm.model import end_at_sentence
from localrag.llm.repair import conformed, known_name, known_option, line_of_text, rows_of, strength, verbatim_name
from localrag.records import content_id
from localrag.text.sentences import collapse_whitespace, is_cjk

DEFAULT_ENTITY_TYPE = "thing"  # the type of a noun phrase that has none of the requested types
MAX_WORD_CHARS = 40  # longer words (base64, addresses) are no part of names
MAX_NAME_WORDS = 8
MAX_NAME_CHARS = 60
MIN_DESCRIPTION_CHARS, MAX_DESCRIPTION_CHARS = 6, 200
ENTITY_BYTES, PAIR_BYTES = 3500, 2500  # a list ends after the line that exceeds this: a small model would fill any limit
MAX_CLAIM_BYTES = 2500
WRITTEN_PAIR_BYTES, WRITTEN_PAIR_TOKENS = 5000, 2600  # of pairs with descriptions, which larger models write and end themselves
ENTITY_TOKENS, PAIR_TOKENS, CLAIM_TOKENS = 1800, 1500, 1500  # room for this and one more line, so that no list is truncated
LEAST_LIST = 300  # tokens; with less room the text is split, since a list would be too incomplete
FOR_PAIRS = 0.5  # share of the free window reserved for the turns after a list of entities
LINE_TOKENS, CLAIM_LINE_TOKENS = 45, 110  # of a line with a description, as written by a server
_PROSE = {"type": "string", "maxLength": MAX_DESCRIPTION_CHARS}


def _size(text: str, script: TokenDensity | None) -> float:
    """The Latin characters that take as many tokens as `text`; others count by the measured density, without one about nine each."""
    latin = sum(c.isascii() for c in text)
    if script is None:
        return 3 * len(text.encode()) - 2 * latin
    return latin + (len(text) - latin) * script.tokens_per_char / DEFAULT_TOKENS_PER_CHAR


def lark_literal(text: str) -> str:
    """A Lark literal that matches exactly `text`."""
    return json.dumps(text, ensure_ascii=False)


def json_escaped(text: str) -> str:
    """`text` as it is written between the quotes of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def lark_alternatives(options: Collection[str]) -> str:
    """A Lark alternative of JSON-escaped literals."""
    return "(" + " | ".join(lark_literal(json_escaped(o)) for o in options) + ")"


def from_lark(lark: str) -> Grammar:
    """A single grammar for the whole answer."""
    return Grammar(content_id(lark), lambda text: None if text else lark)


def choice_of(options: Sequence[str]) -> Grammar:
    """A grammar for exactly one of the options."""
    grammar = from_lark("start: " + " | ".join(map(lark_literal, options)))
    return replace(grammar, schema=object_schema(answer={"enum": list(options)}), from_json=lambda value: [value["answer"]])


def single_line(max_characters: int) -> Grammar:
    """A short line of free text without space at its ends; of what a server wrote, what its lines say up to the last whole sentence."""
    return _line_grammar(
        rf"\S[^\n]{{1,{max_characters - 2}}}\S",
        max_characters,
        lambda text: end_at_sentence(collapse_whitespace(text)[:max_characters], max_characters),
    )


def standalone_line(max_characters: int) -> Grammar:
    """A short line of free text that ends with its first question mark, if it has one: a small model would go on asking."""
    pattern = rf"\S[^\n?？]{{2,{max_characters - 2}}}[?？]?"
    return _line_grammar(pattern, max_characters, lambda text: re.sub("([?？]).*", r"\1", " ".join(text.split())))


def _line_grammar(pattern: str, max_characters: int, to_line: Callable[[str], str]) -> Grammar:
    """One line of a pattern; `to_line` makes one of what a server wrote."""
    grammar = from_lark(f'start: LINE "\\n"\nLINE: /{pattern}/')
    schema = object_schema(line={"type": "string", "maxLength": max_characters})
    return replace(grammar, schema=schema, from_json=lambda value: [to_line(value["line"]) + "\n"])


def word_lines(*, most: int) -> Grammar:
    """Different lines of one lower-case common noun or two to six Chinese characters; the model decides when the list ends."""
    return distinct_lines("[a-z]{3,20}|[\u4e00-\u9fff]{2,6}", 1, most)


def distinct_lines(pattern: str, min_lines: int, max_lines: int) -> Grammar:
    """`min_lines` to `max_lines` different lines of a pattern."""

    def following(text: str) -> str | None:
        seen = text.split("\n")[:-1]
        if len(seen) >= max_lines:
            return None
        unseen = f" & ~({' | '.join(map(lark_literal, seen))})" if seen else ""
        return f'start: (LINE "\\n"){"?" if len(seen) >= min_lines else ""}\nLINE: /{pattern}/{unseen}'

    line = {"type": "string", "maxLength": 150}
    schema = object_schema(items={"type": "array", "items": line, "minItems": min_lines, "maxItems": max_lines})
    key = content_id("lines", min_lines, max_lines, pattern)
    return Grammar(key, following, schema, lambda value: [f"{row.strip()}\n" for row in dict.fromkeys(value["items"])])


def json_object(schema: dict[str, Any]) -> Grammar:
    """One JSON object of this schema, written with ", " and ": " and no other whitespace."""
    options = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    grammar = from_lark("start: %json " + json.dumps(schema | {"x-guidance": options}, ensure_ascii=False))
    return replace(grammar, schema=schema, from_json=lambda value: [_json(conformed(value, schema))])


def entity_lines(
    names: Sequence[str],
    types: Sequence[str],
    *,
    span_of: str = "",
    described: bool = False,
    most: int = 40,
    known: Sequence[str] = (),
    phrases: Collection[str] = (),
    script: TokenDensity | None = None,
    tokens: int = ENTITY_TOKENS,
) -> Grammar:
    """Lines `{"name", "type"[, "description"]}`, no name twice.

    Without `span_of`, exactly the given names in their order, each with its type (free order was no better: the bundled model typed 0.78 of
    CoNLL04's names right, in given order 0.80). With it, any word-aligned span of that text may be named, and
    the model decides when the list ends, after at most `most` lines. Names already `known` are excluded; noun `phrases` may also have the
    type DEFAULT_ENTITY_TYPE. `script` is the measured density of the descriptions. The list fits into `tokens`.
    """
    most, enough = (min(most, _lines_in(tokens, LINE_TOKENS)) if span_of else most), _bytes_in(tokens, ENTITY_TOKENS, ENTITY_BYTES)
    spans = f"NAME: SPAN & {_phrase_rule(span_of, MAX_NAME_WORDS, MAX_NAME_CHARS // 3)}" if span_of else ""
    tail = _description(script) if described else '"\\"}\\n"'

    def following(text: str) -> str | None:
        seen = [*known, *(row["name"] for row in parse_lines(text))]
        remaining = [n for n in names if n not in seen]
        if len(seen) - len(known) >= most or not (remaining or span_of) or (span_of and _size(text, script) > enough):
            return None
        kinds = [*types, DEFAULT_ENTITY_TYPE] if remaining and remaining[0] in phrases and DEFAULT_ENTITY_TYPE not in types else types
        name_part = "NAME" if span_of else lark_alternatives(remaining[:1])
        item = f'"{{\\"name\\": \\"" {name_part} "\\", \\"type\\": \\"" {lark_alternatives(kinds)} {tail}'
        if not span_of:
            return f"start: {item}"
        unseen = f" & ~({' | '.join(map(lark_literal, seen))})" if seen else ""
        return f"start: ({item})?\n{spans}{unseen}\n{_span_rule(span_of)}"

    kind, prose = {"enum": list(types)}, {"description": _PROSE} if described else {}
    if span_of:
        name = {"type": "string", "maxLength": MAX_NAME_CHARS}
        schema = object_schema(items={"type": "array", "items": object_schema(name=name, type=kind, **prose), "maxItems": most})

        def lines(value: Any) -> list[str]:
            return [_json(_repaired_entity(row, span_of, types, script)) + "\n" for row in rows_of(value, schema)]

    else:
        schema = object_schema(**{n: {"enum": [*types, DEFAULT_ENTITY_TYPE]} if n in phrases else kind for n in names})

        def lines(value: Any) -> list[str]:
            types_of = {n: part["enum"] for n, part in schema["properties"].items()}
            return [_json({"name": n, "type": known_option(value[n], types_of[n])}) + "\n" for n in names]

    return Grammar(content_id("entities", *names, *types, span_of, described, most, *known, "phrases", *phrases), following, schema, lines)


def _lines_in(tokens: int, each: int) -> int:
    return max(1, tokens // each)


def _bytes_in(tokens: int, full_tokens: int, max_bytes: int) -> int:
    """The size in bytes after which a list must end so that one more line fits: `max_bytes` for `full_tokens`, less for fewer."""
    return max(1, max_bytes - 2 * max(0, full_tokens - tokens))


def pair_lines(
    pairs: Sequence[tuple[str, str]], *, described: bool = False, most: int, script: TokenDensity | None = None, tokens: int = PAIR_TOKENS
) -> Grammar:
    """Lines `["source", "target"]` of the given unordered pairs of different names, none twice.

    `described`: lines `{"source", "target", "description", "strength"}` instead. The model decides when the list ends, after at most `most`
    lines; it fits into `tokens`.
    """
    full_tokens, full_bytes = (WRITTEN_PAIR_TOKENS, WRITTEN_PAIR_BYTES) if described else (PAIR_TOKENS, PAIR_BYTES)
    most, enough = min(most, _lines_in(tokens, LINE_TOKENS)), _bytes_in(tokens, full_tokens, full_bytes)
    allowed = {frozenset(p): p for p in pairs}
    names = list(dict.fromkeys(n for p in pairs for n in p))
    head, middle, tail = (
        ('"{\\"source\\": \\""', '", "target": "', _description(script, _STRENGTH)) if described else ('"[\\""', '", "', '"\\"]\\n"')
    )

    def following(text: str) -> str | None:
        seen = {frozenset(pair) for pair in parse_pairs(text)}
        remaining = allowed.keys() - seen
        alternatives = []
        for name in names:
            partners = [n for n in names if frozenset((name, n)) in remaining and n != name]
            if partners:
                alternatives.append(lark_literal(json_escaped(name) + middle) + " " + lark_alternatives(partners))
        if not alternatives or len(seen) >= most or _size(text, script) > enough:
            return None
        return f"start: ({head} (" + " | ".join(alternatives) + f") {tail})?"

    endpoint = {"enum": names}
    properties: dict[str, Any] = {"description": _PROSE, "strength": {"enum": list(range(1, 11))}} if described else {}
    schema = object_schema(
        items={"type": "array", "items": object_schema(source=endpoint, target=endpoint, **properties), "maxItems": most}
    )

    def lines(value: Any) -> list[str]:
        rows = [_repaired_pair(row, names, script) for row in rows_of(value, schema)]
        return [_json(row if described or not isinstance(row, dict) else [row["source"], row["target"]]) + "\n" for row in rows]

    return Grammar(content_id("pairs", *(f"{a}\0{b}" for a, b in pairs), described, most), following, schema, lines)


def _repaired_entity(row: Any, text: str, types: Sequence[str], script: TokenDensity | None) -> Any:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        return row
    fixed = row | {"name": verbatim_name(row["name"], text), "type": known_option(row.get("type"), types)}
    return fixed | _repaired_description(row, row["name"], script)


def _repaired_pair(row: Any, names: Sequence[str], script: TokenDensity | None) -> Any:
    if not isinstance(row, dict):
        return row
    fixed = row | {end: known_name(row.get(end), names) for end in ("source", "target")}
    if "strength" in row:
        fixed["strength"] = strength(row["strength"])
    return fixed | _repaired_description(row, f"{fixed['source']} and {fixed['target']}", script)


def _repaired_claim(row: Any, names: Sequence[str], text: str, script: TokenDensity | None) -> Any:
    if not isinstance(row, dict):
        return row
    fixed = row | {
        "subject": known_name(row.get("subject"), names),
        "object": known_name(row.get("object") or NO_OBJECT, [*names, NO_OBJECT]),
    }
    fixed |= {"source": verbatim_name(str(row.get("source")), text), "type": line_of_text(row.get("type"), 30)}
    fixed |= {"status": known_option(row.get("status"), CLAIM_STATUSES), "from": row.get("from") or "", "to": row.get("to") or ""}
    return fixed | _repaired_description(row, str(fixed["subject"]), script)


def _repaired_description(row: dict[str, Any], about: str, script: TokenDensity | None) -> dict[str, Any]:
    if "description" not in row:
        return {}
    longest = _description_limit(script)
    return {"description": line_of_text(row["description"], longest, MIN_DESCRIPTION_CHARS, about=about.replace('"', ""))}


_STRENGTH = '"\\", \\"strength\\": " ("10" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9") "}\\n"'


CLAIM_STATUSES = ("TRUE", "FALSE", "SUSPECTED")
NO_OBJECT = "NONE"  # the object of a claim without one
SOURCE_WORDS, SOURCE_CHARACTERS = 30, 80


def _span_rule(text: str) -> str:
    """The rule SPAN: any word-aligned span, of characters if it is Chinese, without runs over MAX_WORD_CHARS. Joined marks are words."""
    if is_cjk(text):
        return "SPAN: %regex " + json.dumps({"substring_chars": text}, ensure_ascii=False)
    short_words = re.sub(rf"\w{{{MAX_WORD_CHARS + 1},}}", " ", text)
    return "SPAN: %regex " + json.dumps({"substring_words": short_words}, ensure_ascii=False)


def _phrase_rule(text: str, words: int, characters: int) -> str:
    """A pattern for spans: so many words of one line (or Chinese characters), without quotation marks.

    Of final punctuation only the full stop of an abbreviation, a short word, belongs to a span.

    The length is counted in words because a limit inside a word would leave no valid continuation.
    """
    end = r'[^\s"\\,.;:，。；：、！？]'
    if is_cjk(text):
        return rf'/[^\s"\\]([^\n"\\]{{0,{characters - 2}}}{end})?/'
    word = rf'[^\s"\\]{{1,{MAX_WORD_CHARS}}}'
    return rf'/(\.?\w[^\s"\\]{{0,{MAX_WORD_CHARS}}} ({word} ){{0,{words - 2}}})?([^\s"\\]{{0,{MAX_WORD_CHARS}}}{end}|(\w{{1,4}}\.)+)/'


def claim_lines(
    names: Sequence[str],
    text: str,
    *,
    described: bool = False,
    most: int = 12,
    script: TokenDensity | None = None,
    tokens: int = CLAIM_TOKENS,
) -> Grammar:
    """Lines `{"subject", "object", "source", "type", "status", "from", "to"[, "description"]}`, none twice.

    Subject and object are two of the names, or the object is NONE; the source is a span of the text without quotation marks; dates are
    empty or ISO dates of a year in the text. The model decides when the list ends, after at most `most` lines; it fits into `tokens`.
    """
    most, enough = min(most, _lines_in(tokens, CLAIM_LINE_TOKENS)), _bytes_in(tokens, CLAIM_TOKENS, MAX_CLAIM_BYTES)
    years = sorted(set(re.findall(r"(?<!\d)[12]\d{3}(?!\d)", text)))
    date = f'(({" | ".join(map(lark_literal, years))}) ("-" /0[1-9]|1[0-2]/ ("-" /0[1-9]|[12][0-9]|3[01]/)?)?)?' if years else '""'
    tail = _description(script) if described else '"\\"}\\n"'

    def following(text_so_far: str) -> str | None:
        rows = parse_lines(text_so_far)
        if len(rows) >= most or _size(text_so_far, script) > enough:
            return None
        used_sources = " | ".join(lark_literal(row["source"]) for row in rows)
        pairs = " | ".join(
            lark_literal(json_escaped(a)) + ' "\\", \\"object\\": \\"" ' + lark_alternatives([*(b for b in names if b != a), NO_OBJECT])
            for a in names
        )
        item = (
            f'"{{\\"subject\\": \\"" ({pairs}) "\\", \\"source\\": \\"" SOURCE "\\", \\"type\\": \\"" KIND "\\", \\"status\\": \\"" '
            f'{lark_alternatives(CLAIM_STATUSES)} "\\", \\"from\\": \\"" {date} "\\", \\"to\\": \\"" {date} {tail}'
        )
        unseen = f" & ~({used_sources})" if used_sources else ""
        source = f"SPAN & {_phrase_rule(text, SOURCE_WORDS, SOURCE_CHARACTERS)}{unseen}"
        return f"start: ({item})?\nSOURCE: {source}\n{_span_rule(text)}\n" + r'KIND: /[^\W\d_][^\n"\\]{1,30}/'

    endpoint, any_string = {"enum": [*names, NO_OBJECT]}, {"type": "string"}
    shape = {
        "subject": {"enum": list(names)},
        "object": endpoint,
        "source": any_string,
        "type": any_string,
        "status": {"enum": list(CLAIM_STATUSES)},
    }
    shape |= {"from": any_string, "to": any_string} | ({"description": _PROSE} if described else {})
    schema = object_schema(items={"type": "array", "items": object_schema(**shape), "maxItems": most})

    def lines(value: Any) -> list[str]:
        return [_json(_repaired_claim(row, names, text, script)) + "\n" for row in rows_of(value, schema)]

    return Grammar(content_id("claims", *names, text, described, most), following, schema, lines)


def object_schema(**properties: Any) -> dict[str, Any]:
    """The JSON schema of an object with exactly these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _description_limit(script: TokenDensity | None) -> int:
    return script.max_chars(MAX_DESCRIPTION_CHARS) if script else MAX_DESCRIPTION_CHARS


def _description(script: TokenDensity | None, end: str = '"\\"}\\n"') -> str:
    longest = _description_limit(script)
    return f'"\\", \\"description\\": \\"" /[^\\s"\\\\][^\\n"\\\\]{{{MIN_DESCRIPTION_CHARS - 1},{longest}}}/ {end}'


def parse_lines(text: str) -> list[Any]:
    """The JSON values of an answer with one value per line."""
    return [json.loads(row) for row in text.split("\n") if row]


def described_lines(text: str, script: TokenDensity | None) -> list[Any]:
    """As `parse_lines`; a description truncated at its limit is trimmed to its last whole sentence or word."""
    rows, longest = parse_lines(text), _description_limit(script)
    return [row | {"description": end_at_sentence(row["description"], longest)} if "description" in row else row for row in rows]


def parse_pairs(text: str) -> list[tuple[str, str]]:
    """The (source, target) pairs of an answer to `pair_lines`, in either format."""
    return [(row["source"], row["target"]) if isinstance(row, dict) else (row[0], row[1]) for row in parse_lines(text)]
