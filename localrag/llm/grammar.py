"""Grammars built for one call: what the model may say is bounded by what the text says.

They are Lark grammars as llguidance reads them. A list is written one JSON object a line; each line gets a grammar of its own that
leaves out what was listed already. Lines end in a line break, where tokenizers always cut, so nothing is torn.
"""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from localrag.engine.sampler import Grammar
from localrag.llm.budgets import USUAL, Script
from localrag.llm.limits import ended
from localrag.records import content_id
from localrag.text.plain import Said, is_cjk

THING = "thing"  # the type of a noun phrase that is of none of the types asked for
LONGEST_WORD = 40  # characters; longer ones, of base64 or addresses, are no part of names
NAME_WORDS = 8
NAME_CHARACTERS = 60
ANSWER_WORDS = 16  # of a short answer, at most
DESCRIPTION_CHARACTERS = 200
ENTITY_BYTES, PAIR_BYTES = 3500, 2500  # a list ends after the line that passes this: a small model would fill any limit
CLAIM_BYTES = 2500
LINE_SENTENCES = 6  # of a line of prose, at most
REPEATS = 2  # lines that say nothing new, after which prose ends
ENTITY_TOKENS, PAIR_TOKENS, CLAIM_TOKENS = 1800, 1500, 1500  # room for that and one more line, so that a list is never cut off
LEAST_LIST = 300  # tokens; with room for less, a list would miss too much, and its text is asked about in parts
FOR_PAIRS = 0.5  # share of the room left in the window that is kept for the turns after a list of entities
LINE_TOKENS, CLAIM_LINE_TOKENS = 45, 110  # of a described line, as a server writes it
_PROSE = {"type": "string", "maxLength": DESCRIPTION_CHARACTERS}


def _size(text: str, script: Script | None) -> float:
    """How many characters of Latin script take as many tokens as `text`, whose other characters are of a measured script.

    Of an unknown one they count nine each or so: a small model's vocabulary may have a token for every byte of them.
    """
    latin = sum(c.isascii() for c in text)
    if script is None:
        return 3 * len(text.encode()) - 2 * latin
    return latin + (len(text) - latin) * script.density / USUAL


def quoted(text: str) -> str:
    """A Lark literal that matches exactly `text`."""
    return json.dumps(text, ensure_ascii=False)


def inside_json(text: str) -> str:
    """`text` as it stands between the quotes of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def one_of(options: Collection[str]) -> str:
    """A Lark alternative of JSON-escaped literals."""
    return "(" + " | ".join(quoted(inside_json(o)) for o in options) + ")"


def fixed(lark: str) -> Grammar:
    """One grammar for the whole answer."""
    return Grammar(content_id(lark), lambda text: None if text else lark)


def choice(options: Sequence[str]) -> Grammar:
    """Exactly one of the options."""
    made = fixed("start: " + " | ".join(map(quoted, options)))
    return replace(made, schema=object_schema(answer={"enum": list(options)}), from_json=lambda value: [value["answer"]])


def line(max_characters: int) -> Grammar:
    """A short line of free text: no quotes, brackets or markup, no space at its ends."""
    body = rf"/[^\s\"'#*<>\[\]{{}}()_:.,][^\n\"#*<>\[\]{{}}_]{{2,{max_characters - 2}}}[^\s\"'#*<>\[\]{{}}_:,.]/"
    made = fixed(f'start: LINE "\\n"\nLINE: {body}')
    return replace(
        made,
        schema=object_schema(line={"type": "string", "maxLength": max_characters}),
        from_json=lambda value: [value["line"].strip() + "\n"],
    )


def question_lines(most: int, asked: Sequence[str] = ()) -> Grammar:
    """Exactly `most` lines of one question each, none twice and none of those `asked` already."""
    return _distinct_lines("questions", most, most, r"[^\s\-*#][^\n*#]{8,140}[?？]", asked)


def short_lines(least: int, most: int, longest: int) -> Grammar:
    """`least` to `most` lines of free text of at most so many characters, none twice; no markup."""
    return _distinct_lines("short", least, most, rf"[^\s\-*#\"][^\n*#\"]{{3,{longest - 2}}}[^\s*#\":,]", ())


def _distinct_lines(kind: str, least: int, most: int, pattern: str, known: Sequence[str]) -> Grammar:
    def following(text: str) -> str | None:
        seen = text.split("\n")[:-1]
        if len(seen) >= most:
            return None
        left_out = [*known, *seen]
        unseen = f" & ~({' | '.join(map(quoted, left_out))})" if left_out else ""
        return f'start: (LINE "\\n"){"?" if len(seen) >= least else ""}\nLINE: /{pattern}/{unseen}'

    schema = object_schema(items={"type": "array", "items": {"type": "string", "maxLength": 150}, "minItems": least, "maxItems": most})
    return Grammar(
        content_id(kind, least, most, pattern, *known), following, schema, lambda value: [r.strip() + "\n" for r in value["items"]]
    )


def word_lines(*, most: int) -> Grammar:
    """Lines of one common noun in small letters or two to six Chinese characters, none twice; the list ends where the model ends it."""

    def following(text: str) -> str | None:
        seen = text.split("\n")[:-1]
        unseen = f" & ~({' | '.join(map(quoted, seen))})" if seen else ""
        more = f'(WORD "\\n"){"?" if seen else ""}'
        return None if len(seen) >= most else f"start: {more}\nWORD: /[a-z]{{3,20}}|[\u4e00-\u9fff]{{2,6}}/{unseen}"

    schema = object_schema(
        items={"type": "array", "items": {"type": "string", "pattern": "^[a-z]{3,20}$"}, "minItems": 1, "maxItems": most}
    )
    return Grammar(content_id("words", most), following, schema, lambda value: [f"{word}\n" for word in dict.fromkeys(value["items"])])


def json_object(schema: dict[str, Any]) -> Grammar:
    """One JSON object of that schema, written with ", " and ": " and no other whitespace."""
    options = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    made = fixed("start: %json " + json.dumps(schema | {"x-guidance": options}, ensure_ascii=False))
    return replace(made, schema=schema, from_json=lambda value: [_json(value)])


def entity_lines(
    names: Sequence[str],
    types: Sequence[str],
    *,
    span_of: str = "",
    described: bool = False,
    most: int = 40,
    known: Sequence[str] = (),
    phrases: Collection[str] = (),
    script: Script | None = None,
    tokens: int = ENTITY_TOKENS,
) -> Grammar:
    """Lines `{"name", "type"[, "description"]}`, no name twice.

    Without `span_of`, exactly the given names in their order, each with its type (in an order of its own choice the bundled model typed
    0.78 of CoNLL04's names right, so 0.80). With it, the names are suggestions: any word-aligned stretch of that text may be named, and
    the list ends when the model would rather end or after `most` lines. Names that are `known` already cannot be listed; those that are
    mere noun `phrases` may also be of the type THING. `script` is that of the descriptions, where it was measured. The list ends so that
    it fits into `tokens`.
    """
    most, enough = (min(most, _lines_in(tokens, LINE_TOKENS)) if span_of else most), _bytes_in(tokens, ENTITY_TOKENS, ENTITY_BYTES)
    spans = f"NAME: SPAN & {_stretch(span_of, NAME_WORDS, NAME_CHARACTERS // 3)}" if span_of else ""
    tail = _description(script) if described else '"\\"}\\n"'

    def following(text: str) -> str | None:
        seen = [*known, *(row["name"] for row in parse_lines(text))]
        left = [n for n in names if n not in seen]
        if len(seen) - len(known) >= most or not (left or span_of) or (span_of and _size(text, script) > enough):
            return None
        kinds = [*types, THING] if left and left[0] in phrases and THING not in types else types
        item = f'"{{\\"name\\": \\"" {"NAME" if span_of else one_of(left[:1])} "\\", \\"type\\": \\"" {one_of(kinds)} {tail}'
        if not span_of:
            return f"start: {item}"
        unseen = f" & ~({' | '.join(map(quoted, seen))})" if seen else ""
        return f"start: ({item})?\n{spans}{unseen}\n{_span(span_of)}"

    kind, prose = {"enum": list(types)}, {"description": _PROSE} if described else {}
    if span_of:
        name = {"type": "string", "maxLength": NAME_CHARACTERS}
        schema = object_schema(items={"type": "array", "items": object_schema(name=name, type=kind, **prose), "maxItems": most})
        lines = _items
    else:
        schema = object_schema(**{n: {"enum": [*types, THING]} if n in phrases else kind for n in names})

        def lines(value: Any) -> list[str]:
            return [_json({"name": n, "type": value[n]}) + "\n" for n in names]

    return Grammar(content_id("entities", *names, *types, span_of, described, most, *known, "phrases", *phrases), following, schema, lines)


def _lines_in(tokens: int, each: int) -> int:
    """How many lines fit into this many tokens."""
    return max(1, tokens // each)


def _bytes_in(tokens: int, whole: int, most: int) -> int:
    """The bytes after which a list ends so that one more line fits: `most` if there are `whole` tokens, less if there are fewer."""
    return max(1, most - 2 * max(0, whole - tokens))


def pair_lines(
    pairs: Sequence[tuple[str, str]], *, described: bool = False, most: int, script: Script | None = None, tokens: int = PAIR_TOKENS
) -> Grammar:
    """Lines `["source", "target"]` over the given unordered pairs of different names, none twice.

    `described`: lines `{"source", "target", "description", "strength"}` instead. The list ends when the model would rather end, or after
    `most` lines, or so that it fits into `tokens`.
    """
    most, enough = min(most, _lines_in(tokens, LINE_TOKENS)), _bytes_in(tokens, PAIR_TOKENS, PAIR_BYTES)
    allowed = {frozenset(p): p for p in pairs}
    names = list(dict.fromkeys(n for p in pairs for n in p))
    head, middle, tail = (
        ('"{\\"source\\": \\""', '", "target": "', _description(script, _STRENGTH)) if described else ('"[\\""', '", "', '"\\"]\\n"')
    )

    def following(text: str) -> str | None:
        seen = {frozenset(pair) for pair in parse_pairs(text)}
        left = allowed.keys() - seen
        ways = []
        for name in names:
            partners = [n for n in names if frozenset((name, n)) in left and n != name]
            if partners:
                ways.append(quoted(inside_json(name) + middle) + " " + one_of(partners))
        if not ways or len(seen) >= most or _size(text, script) > enough:
            return None
        return f"start: ({head} (" + " | ".join(ways) + f") {tail})?"

    end = {"enum": names}
    about: dict[str, Any] = {"description": _PROSE, "strength": {"enum": list(range(1, 11))}} if described else {}
    schema = object_schema(items={"type": "array", "items": object_schema(source=end, target=end, **about), "maxItems": most})

    def lines(value: Any) -> list[str]:
        return _items(value) if described else [_json([row["source"], row["target"]]) + "\n" for row in value["items"]]

    return Grammar(content_id("pairs", *(f"{a}\0{b}" for a, b in pairs), described, most), following, schema, lines)


_STRENGTH = '"\\", \\"strength\\": " ("10" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9") "}\\n"'


STATUSES = ("TRUE", "FALSE", "SUSPECTED")
NOBODY = "NONE"  # the object of a claim that has none
SOURCE_WORDS, SOURCE_CHARACTERS = 30, 80


def _span(text: str) -> str:
    """The rule SPAN: any word-aligned stretch of a text, of characters where it is Chinese. Words longer than LONGEST_WORD are left out."""
    if is_cjk(text):
        return "SPAN: %regex " + json.dumps({"substring_chars": text}, ensure_ascii=False)
    kept = " ".join(word for word in re.split(r"[ \t]+", text) if max(map(len, word.split("\n"))) <= LONGEST_WORD)
    return "SPAN: %regex " + json.dumps({"substring_words": kept}, ensure_ascii=False)


def _stretch(text: str, words: int, characters: int) -> str:
    """What a stretch may look like: so many words of one line (or characters of a Chinese text), no quotation mark, no point at its end.

    Its length is counted in words because a limit inside a word would leave nothing that may follow.
    """
    end = r'[^\s"\\,.;:，。；：、！？]'
    if is_cjk(text):
        return rf'/[^\s"\\]([^\n"\\]{{0,{characters - 2}}}{end})?/'
    word = rf'[^\s"\\]{{1,{LONGEST_WORD}}}'
    return rf'/(\.?\w[^\s"\\]{{0,{LONGEST_WORD}}} ({word} ){{0,{words - 2}}})?[^\s"\\]{{0,{LONGEST_WORD}}}{end}/'


def short_answer(text: str, others: Sequence[str], *, stretch: bool = True) -> Grammar:
    """One of the `others`, or a stretch of a text's words that ends in no punctuation."""
    if not stretch:
        return choice(others)
    shape = rf"([^\s]{{1,{LONGEST_WORD}}} ){{0,{ANSWER_WORDS - 1}}}[^\s]{{0,{LONGEST_WORD}}}" + r'[^\s",.;:!?]'
    return fixed(f"start: {' | '.join(map(quoted, others))} | ANSWER\n{_span(text)}\nANSWER: SPAN & /{shape}/")


def claim_lines(
    names: Sequence[str], text: str, *, described: bool = False, most: int = 12, script: Script | None = None, tokens: int = CLAIM_TOKENS
) -> Grammar:
    """Lines `{"subject", "object", "source", "type", "status", "from", "to"[, "description"]}`, none twice.

    Subject and object are two of the names, or the object is NONE; the source is a stretch of the text's words that holds no quotation
    mark; dates are empty or ISO dates of a year that the text names. The list ends when the model would rather end, or so that
    it fits into `tokens`.
    """
    most, enough = min(most, _lines_in(tokens, CLAIM_LINE_TOKENS)), _bytes_in(tokens, CLAIM_TOKENS, CLAIM_BYTES)
    years = sorted(set(re.findall(r"(?<!\d)[12]\d{3}(?!\d)", text)))
    date = f'(({" | ".join(map(quoted, years))}) ("-" /0[1-9]|1[0-2]/ ("-" /0[1-9]|[12][0-9]|3[01]/)?)?)?' if years else '""'
    tail = _description(script) if described else '"\\"}\\n"'

    def following(said: str) -> str | None:
        rows = parse_lines(said)
        if len(rows) >= most or _size(said, script) > enough:
            return None
        told = " | ".join(quoted(row["source"]) for row in rows)
        ends = " | ".join(
            quoted(inside_json(a)) + ' "\\", \\"object\\": \\"" ' + one_of([*(b for b in names if b != a), NOBODY]) for a in names
        )
        item = (
            f'"{{\\"subject\\": \\"" ({ends}) "\\", \\"source\\": \\"" SOURCE "\\", \\"type\\": \\"" KIND "\\", \\"status\\": \\"" '
            f'{one_of(STATUSES)} "\\", \\"from\\": \\"" {date} "\\", \\"to\\": \\"" {date} {tail}'
        )
        unseen = f" & ~({told})" if told else ""
        source = f"SPAN & {_stretch(text, SOURCE_WORDS, SOURCE_CHARACTERS)}{unseen}"
        return f"start: ({item})?\nSOURCE: {source}\n{_span(text)}\n" + r'KIND: /[^\W\d_][^\n"\\]{1,30}/'

    end, free = {"enum": [*names, NOBODY]}, {"type": "string"}
    shape = {
        "subject": {"enum": list(names)},
        "object": end,
        "source": free,
        "type": free,
        "status": {"enum": list(STATUSES)},
    }
    shape |= {"from": free, "to": free} | ({"description": _PROSE} if described else {})
    schema = object_schema(items={"type": "array", "items": object_schema(**shape), "maxItems": most})
    return Grammar(content_id("claims", *names, text, described, most), following, schema, _items)


def cited_lines(marks: Sequence[str], *, most: int, enough: int = 1600, none: str = "") -> Grammar:
    """Lines of prose, none twice, each ending in one to three different marks; at least one line, at most `most`.

    A line has at most LINE_SENTENCES sentences: a limit in characters would end it inside a word. The text ends with the line that makes it
    `enough` characters long, or with the second that says nothing new: a model that repeats itself does not stop by itself. A single line
    may end in the mark `none` instead, where there is nothing to cite.
    """
    mark = " | ".join(map(quoted, marks))

    def following(text: str) -> str | None:
        lines = [line.split("[")[0] for line in text.split("\n")[:-1]]
        if len(lines) >= most or len(text) > enough or _repeats(lines) >= REPEATS or (none and text.endswith(none + "\n")):
            return None
        said = " | ".join(map(quoted, lines))
        prose = rf"/[^\s\[\]][^\[\]\n]{{10,}}/ & {_LINE}"
        prose += f" & ~({said})" if said else ""
        ends = f"(MARK{{1,3}} | {quoted(none)})" if none and not lines else "MARK{1,3}"
        return f'start: (TEXT {ends} "\\n"){"?" if lines else ""}\nTEXT: {prose}\nMARK: {mark}'

    cited = {"type": "array", "items": {"enum": [*marks, *[none] * bool(none)]}, "minItems": 1, "maxItems": 3}
    point = object_schema(text={"type": "string"}, marks=cited)
    schema = object_schema(items={"type": "array", "items": point, "minItems": 1, "maxItems": most})

    def lines(value: Any) -> list[str]:
        return [
            " ".join(row["text"].split()) + " " + ("".join(m for m in row["marks"] if m != none) or none) + "\n" for row in value["items"]
        ]

    return Grammar(content_id("cited", *marks, most, enough, none), following, schema, lines)


_STOP = "[.!?…]"
_INSIDE = rf"([^\[\]\n.!?…。！？]|{_STOP}+[^\s\[\].!?…。！？])*"  # of a sentence: a full stop without a space behind it does not end it
_LINE = rf"/({_INSIDE}({_STOP}+ |[。！？])){{0,{LINE_SENTENCES - 1}}}{_INSIDE}({_STOP}+ ?|[。！？])?/"


def _repeats(lines: Sequence[str]) -> int:
    """How many lines say nothing new."""
    said = Said()
    return sum(not said.is_new(line) for line in lines)


def object_schema(**properties: Any) -> dict[str, Any]:
    """The JSON schema of an object with just these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _items(value: Any) -> list[str]:
    return [_json(row) + "\n" for row in value["items"]]


def _description_limit(script: Script | None) -> int:
    return script.characters(DESCRIPTION_CHARACTERS) if script else DESCRIPTION_CHARACTERS


def _description(script: Script | None, end: str = '"\\"}\\n"') -> str:
    longest = _description_limit(script)
    return f'"\\", \\"description\\": \\"" /[^\\s"\\\\][^\\n"\\\\]{{5,{longest}}}/ {end}'


def parse_lines(text: str) -> list[Any]:
    """The JSON values of an answer written one a line."""
    return [json.loads(row) for row in text.split("\n") if row]


def described_lines(text: str, script: Script | None) -> list[Any]:
    """As `parse_lines`, but a description cut off at its limit is trimmed to its last whole sentence or word."""
    rows, longest = parse_lines(text), _description_limit(script)
    return [row | {"description": ended(row["description"], longest)} if "description" in row else row for row in rows]


def parse_pairs(text: str) -> list[tuple[str, str]]:
    """The (source, target) pairs of an answer to `pair_lines`, written either way."""
    return [(row["source"], row["target"]) if isinstance(row, dict) else (row[0], row[1]) for row in parse_lines(text)]
