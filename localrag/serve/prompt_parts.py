"""The parts of a prompt that a chat program makes of its user's message: text that it attaches, and the user's own question.

Programs mark what they attach by tags (`<context>…</context>`, `[FILES]…[/FILES]`), fences named after a file, or lines of dashes, and the
question by tags (`<user_query>`), a heading or a label (`Query:`), or by nothing: it is then what stands outside. Only this structure is
read; the words of a program's template do not matter.
"""

import re
from collections import defaultdict
from dataclasses import dataclass

_TAG = re.compile(
    r"(?P<indent>^[ \t]{0,20})?(?:<(?P<close>/?)(?P<name>[A-Za-z_][\w.:-]{0,60})(?P<attributes>[ \t][^<>\n]{0,500})?>"
    r"|\[(?P<close_label>/|END )?(?P<label>[A-Z][A-Z\d_ ]{2,60})\])",
    re.MULTILINE,
)
_FENCE = re.compile(r"^[ \t]{0,3}(`{3,}+|~{3,}+)[ \t]*+([^\n`]*)$", re.MULTILINE)
_RULE = re.compile(r"^[ \t]{0,3}([-=_*#]{5,}|\"{3})[ \t]*$", re.MULTILINE)
_ADJECTIVES = "(?:(?:my|the|a|new|next|last|latest|current|final|original|follow[- ]?up|users?|user['’]s|meine|die|ma|la|mi)[ \t]){0,4}"
_QUESTION = "(?:question|query|request|input|message|prompt|frage|anfrage|pregunta|consulta|domanda|问题|提问|質問)(?:[ \t]is)?"
_LABEL = re.compile(
    rf"^[ \t]{{0,8}}(?:#{{1,6}}[ \t]{{0,4}})?\*{{0,2}}{_ADJECTIVES}{_QUESTION}\*{{0,2}}[ \t]{{0,2}}[:：]\*{{0,2}}"
    rf"|^[ \t]{{0,3}}#{{1,6}}[ \t]{{1,4}}{_ADJECTIVES}{_QUESTION}[ \t]{{0,4}}$",
    re.MULTILINE | re.IGNORECASE,
)
_STUB = re.compile(r"^[^\n:：]{1,60}[:：][ \t]*+\**[ \t]*$")  # a line that the model is to complete: "Helpful Answer:"
_GAP = "\x1e"  # stands for a block that was left out
_SECTION = re.compile(r"^[ \t]{0,3}(?:#{1,6}[ \t]|[-=_*]{5,}[ \t]*$|\x1e)", re.MULTILINE)
_STEP = re.compile(r"\[[^\n]{1,300}\][^\n?]{0,40}:")  # of an agent: "[read_file for 'a.md'] Result:"
_SOURCE_TAG = re.compile(r"context|source|document|docs?$|file|attach|knowledge|reference|search|result|page|passage|chunk|data|note")
QUESTION_TAGS = frozenset(
    "userquery query question userquestion userrequest request usermessage userinput userprompt task feedback userfeedback".split()
)
HTML_TAGS = frozenset(
    "a b blockquote body br code div em font h1 h2 h3 h4 h5 h6 html i li ol p pre s span strong table td th tr u ul".split()
)
MAX_TEMPLATE_CHARS = 300  # before attached text: a longer text is a template, a shorter one belongs to the question


@dataclass(frozen=True, slots=True)
class AttachedBlock:
    """A marked part of a prompt from `start` to `end`: its inner text, and the name of its tag, empty for fences and lines of dashes."""

    start: int
    end: int
    text: str
    name: str = ""

    @property
    def is_question(self) -> bool:
        """Whether its tag says that the user wrote it."""
        return self.name in QUESTION_TAGS


@dataclass(frozen=True, slots=True)
class UserPrompt:
    """The user's own question in a prompt, empty if there is none, and whether the program attached texts of sources or files."""

    question: str
    has_attached: bool = False


def read_prompt(text: str) -> UserPrompt:
    """The user's question in a message of a chat program; the whole message if nothing in it is marked."""
    blocks = outermost([*tagged_blocks(text), *fenced_blocks(text, named_only=True)])
    if asked := [block.text.strip() for block in blocks if block.is_question and block.text.strip()]:
        return UserPrompt(asked[-1], _has_source(blocks))
    marked = outermost([*blocks, *fenced_blocks(text), *ruled_blocks(text)])
    if labelled := _labelled_question(text, marked):
        return UserPrompt(labelled, _has_source(marked))
    if not blocks:
        return UserPrompt(text.strip())
    before, after = text[: blocks[0].start].strip(), text[blocks[-1].end :].strip()
    if len(before) > MAX_TEMPLATE_CHARS or re.search(r"^#{1,6} ", before, re.MULTILINE):
        before = "" if after else before
    question = "\n\n".join(filter(None, (before, after)))
    return UserPrompt("" if _STEP.fullmatch(question) else question, _has_source(blocks))


def _has_source(blocks: list[AttachedBlock]) -> bool:
    return any(block.text.strip() and not block.is_question and (not block.name or _SOURCE_TAG.search(block.name)) for block in blocks)


def tagged_blocks(text: str) -> list[AttachedBlock]:
    """The outermost pairs of tags that begin a line, in order; those of HTML are text, and so is a pair within a line."""
    open_tags: dict[str, list[re.Match[str]]] = defaultdict(list)
    closings: dict[int, re.Match[str]] = {}
    openings = []
    for tag in _TAG.finditer(text):
        name = _tag_name(tag)
        if name in HTML_TAGS:
            continue
        if not (tag["close"] or tag["close_label"]):
            open_tags[name].append(tag)
            openings.append(tag)
        elif open_tags[name]:
            closings[open_tags[name].pop().start()] = tag
    blocks: list[AttachedBlock] = []
    for tag in openings:
        closing = closings.get(tag.start())
        if closing is None or tag["indent"] is None or (blocks and tag.start() < blocks[-1].end):
            continue
        name, inner = re.sub(r"[\W_]", "", _tag_name(tag)), text[tag.end() : closing.start()]
        if name in QUESTION_TAGS or tag["attributes"] or "\n" in inner:
            blocks.append(AttachedBlock(tag.start(), closing.end(), inner, name))
    return blocks


def _tag_name(tag: re.Match[str]) -> str:
    return str(tag["name"] or tag["label"]).casefold()


def fenced_blocks(text: str, *, named_only: bool = False) -> list[AttachedBlock]:
    """The closed fences of a text in order; `named_only`: those whose first line names a file."""
    blocks, opening = [], None
    for fence in _FENCE.finditer(text):
        if opening is None:
            opening = fence
        elif fence[1].startswith(opening[1]) and not fence[2].strip():
            if not named_only or re.search(r"[./\\]", opening[2]):
                blocks.append(AttachedBlock(opening.start(), fence.end(), text[opening.end() : fence.start()]))
            opening = None
    return blocks


def ruled_blocks(text: str) -> list[AttachedBlock]:
    """The text between the first and the last line of dashes or quotation marks of one kind; at most one block."""
    lines = list(_RULE.finditer(text))
    alike = [line for line in lines if line[1][0] == lines[0][1][0]]
    if len(alike) < 2:
        return []
    return [AttachedBlock(alike[0].start(), alike[-1].end(), text[alike[0].end() : alike[-1].start()])]


def outermost(blocks: list[AttachedBlock]) -> list[AttachedBlock]:
    """Blocks in their order, without those that begin within another one."""
    kept: list[AttachedBlock] = []
    for block in sorted(blocks, key=lambda b: (b.start, -b.end)):
        if not kept or block.start >= kept[-1].end:
            kept.append(block)
    return kept


def _outside_text(text: str, blocks: list[AttachedBlock], gap: str) -> str:
    starts, ends = [0, *(block.end for block in blocks)], [*(block.start for block in blocks), len(text)]
    return gap.join(text[start:end] for start, end in zip(starts, ends, strict=True))


def _labelled_question(text: str, blocks: list[AttachedBlock]) -> str:
    """The text behind the last label of a question outside attached text; empty without one, or if nothing is attached."""
    outside = _outside_text(text, blocks, f"\n{_GAP}\n").rstrip()
    last_line = outside[outside.rfind("\n") + 1 :]
    is_template = bool(_STUB.match(last_line)) and outside.count("\n") > 1
    if not blocks and not is_template:
        return ""
    if is_template:
        outside = outside[: -len(last_line)].rstrip()
    labels = list(_LABEL.finditer(outside))
    if not labels:
        return ""
    rest = outside[labels[-1].end() :].lstrip(" \t\r\n")
    end = _SECTION.search(rest)
    return (rest[: end.start()] if end else rest).strip()
