"""What of a web page is no text of its own: navigation, permalinks, line numbers, banners, and what is hidden, but for what opens."""

import re
from functools import cache
from itertools import islice, takewhile
from typing import Any

from localrag.loaders.math_text import mathml_text

_HIDDEN_NAMES = frozenset("script style noscript svg head iframe object datalist map audio video canvas".split())
_CONSENT = re.compile(r"cookie|consent|gdpr", re.IGNORECASE)  # in the names of what asks for it
_MAX_CONSENT_CHARS = 3000
_NAVIGATION_ROLES = frozenset({"navigation", "search", "menu", "menubar"})
# Ids and classes of what documentation generators, wikis and blogs put around a text; it is left out if it is mostly links.
_NAVIGATION = re.compile(
    r"side-?(?:bar|nav)|(?:top|sub|bottom|skip|main|global|site|page)-?nav|nav-?(?:bar|list|path|menu|box|wrapper|chapters)"
    r"|table-?of-?contents|prev-?next|edit-?(?:page|link|this|section)|on-this-page|skip-?(?:link|to)|catlinks"
    r"|(?<![^\s_-])(?:toc|contents|menu|pager|pagination|related|book-summary)(?![^\s_-])",
    re.IGNORECASE,
)
_TOOL = re.compile(
    r"(?:edit|view|show|improve|suggest).{1,20}(?:page|source|github|gitlab|edits)|(?:skip|jump) to .{1,30}|back to top", re.IGNORECASE
)
_FOOTER = re.compile(r"(?<![^\s_-])footer(?![^\s_-])", re.IGNORECASE)
_IMPRINT = re.compile(r"©|copyright|all rights reserved|(?:built|created|generated|made|powered) (?:with|using|by)", re.IGNORECASE)
_MAX_FOOTER_CHARS = 600
_PERMALINK = re.compile(r"(?:header|heading|perma|hash|self)-?link|anchor|backref", re.IGNORECASE)
_PERMALINK_SIGNS = frozenset("¶ # § 🔗 ↩ ↩︎ ↑ ∞ ⚓".split())
_PERMALINK_WORDS = re.compile(r"\W*|(?:permalink|permanent link|direct link|link|anchor)(?: (?:to|for) .*)?", re.IGNORECASE)
_LINE_NUMBER = re.compile(r"line-?(?:no|num)|(?<!\S)lnt?(?!\S)|gutter|hljs-ln-n|blob-num", re.IGNORECASE)
_MAX_NUMBERS = 50_000  # texts of a column of line numbers
_DIGITS = re.compile(r"[\d\s.:|]*")
CODE_NAME = re.compile(
    r"(?<!\S)(?:code|highlight|highlighttable|source-?code|src|hljs\S*|listing|chroma|lntable|rouge-\S+|blob-code\S*|prettyprint"
    r"|codehilite\w*|fragment|language-\S+|literal-block)(?!\S)",
    re.IGNORECASE,
)
_PANEL = re.compile(r"tab-?(?:pane|panel|content)|accordion|collaps|panel|faq|answer|expand|toggle|spoiler", re.IGNORECASE)
_MAX_PANEL_TEXTS = 500  # of a hidden element, in which a sentence is looked for
_MESSAGE = re.compile(r"error|success|alert|toast|loading|tooltip|newsletter|log-?in|sign-?(?:in|up)|search|menu", re.IGNORECASE)
_OPENERS = frozenset("button dt summary h1 h2 h3 h4 h5 h6".split())  # before what opens
_REFERRING = frozenset({"aria-controls", "popovertarget", "onclick"})
_NAME = re.compile(r"[\w.:-]+")
_MAX_REFERRING_CHARS = 200
_SENTENCE_END = re.compile(r"[.!?…।۔؟。！？]")
_MIN_SENTENCE_CHARS = 10  # before its end
_PLACEHOLDER = re.compile(r"\{\{|\$\{|\{%")


def local_name(node: Any) -> str:
    """The name of an element without its namespace; empty for a comment."""
    return _local(node.tag) if isinstance(node.tag, str) else ""


@cache
def _local(tag: str) -> str:
    return tag.rpartition("}")[2].lower()


def line_of(node: Any) -> str:
    """The text of an element on one line."""
    return " ".join("".join(node.itertext()).split())


def class_names(node: Any) -> str:
    """The id and the classes of an element."""
    return f"{node.get('id') or ''} {node.get('class') or ''}"


def empty(node: Any, text: str = "") -> None:
    """Leave nothing of an element but a text."""
    node.clear(keep_tail=True)
    node.tag, node.text = "span", text


def remove_furniture(body: Any) -> None:
    """Empty the elements of a page that are no text of its own."""
    from lxml import etree

    sizes, references = _sizes(body), _references(body)
    furniture, unseen = list[Any](), list[Any]()
    walk = etree.iterwalk(body, events=("start",))
    for _, node in walk:
        if _is_unseen(node) or (_is_hidden(node) and not _can_be_opened(node, sizes, references)):
            unseen.append(node)
            walk.skip_subtree()
        elif _is_furniture(node, *sizes[node]):
            furniture.append(node)
            walk.skip_subtree()
    if sum(sizes[node][0] for node in furniture) < sizes[body][0]:  # else the page is nothing but links
        unseen += furniture
    for node in unseen:
        empty(node)


def _sizes(body: Any) -> dict[Any, tuple[int, int]]:
    """Element → the number of its characters, and of those in links and buttons."""
    from lxml import etree

    sizes: dict[Any, tuple[int, int]] = {}
    for _, node in etree.iterwalk(body, events=("end",)):
        n_chars, n_linked = _n_chars(node.text), 0
        for child in node:
            n_inner, n_inner_linked = sizes.get(child, (0, 0))
            n_chars, n_linked = n_chars + n_inner + _n_chars(child.tail), n_linked + n_inner_linked
        name = local_name(node)
        sizes[node] = (0, 0) if name in _HIDDEN_NAMES else (n_chars, n_chars if name in {"a", "button"} else n_linked)
    return sizes


def _n_chars(text: str | None) -> int:
    return len("".join(text.split())) if text else 0


def _references(body: Any) -> set[str]:
    """The names to which links and controls of a page refer."""
    found: set[str] = set()
    for node in body.iter("*"):
        for name, value in node.attrib.items():
            if name in _REFERRING or name.startswith("data-") or (name == "href" and value.startswith("#")):
                found.update(_NAME.findall(value[:_MAX_REFERRING_CHARS]))
    return found


def _is_unseen(node: Any) -> bool:
    name = local_name(node)
    if name in _HIDDEN_NAMES or (name == "a" and _is_permalink(node)) or _is_line_number(node):
        return True
    if name == "button" and (_is_in_code(node) or "copy" in f"{class_names(node)} {node.get('title')}".lower()):
        return True
    asks = bool(_CONSENT.search(class_names(node))) and next(node.iter("{*}button", "{*}input"), None) is not None
    return asks and len("".join(node.itertext())) <= _MAX_CONSENT_CHARS


def _is_permalink(link: Any) -> bool:
    if "#" not in str(link.get("href") or "") or next(link.iter("{*}img"), None) is not None:
        return False
    text = line_of(link)
    return text in _PERMALINK_SIGNS or (bool(_PERMALINK.search(class_names(link))) and bool(_PERMALINK_WORDS.fullmatch(text)))


def _is_in_code(node: Any) -> bool:
    return next(node.iterancestors("{*}pre", "{*}code"), None) is not None


def _is_line_number(node: Any) -> bool:
    is_named = bool(_LINE_NUMBER.search(class_names(node))) or "data-line-number" in node.attrib
    is_cell = local_name(node) in {"td", "th"} and node.getnext() is not None and (is_named or node.getprevious() is None)
    if not (is_cell or (is_named and _is_in_code(node))) or not _DIGITS.fullmatch("".join(islice(node.itertext(), _MAX_NUMBERS))):
        return False
    around = " ".join(class_names(e) for e in (node.getnext(), *islice(node.iterancestors(), 4))) if is_cell else ""
    return not is_cell or bool(CODE_NAME.search(around))


def _is_furniture(node: Any, n_chars: int, n_linked: int) -> bool:
    name, names, role = local_name(node), class_names(node), node.get("role")
    if name == "a":
        return bool(_NAVIGATION.search(names) or _TOOL.fullmatch(line_of(node)))
    if "breadcrumb" in f"{names} {node.get('aria-label')}".lower():
        return n_chars <= _MAX_FOOTER_CHARS
    is_mostly_links = n_linked >= 0.5 * n_chars
    if name == "footer" or role == "contentinfo" or _FOOTER.search(names):
        return n_chars <= _MAX_FOOTER_CHARS and (is_mostly_links or bool(_IMPRINT.search(line_of(node))))
    if not is_mostly_links or name in {"html", "body", "main", "article"}:
        return False
    return name == "nav" or role in _NAVIGATION_ROLES or bool(_NAVIGATION.search(names))


def _is_hidden(node: Any) -> bool:
    name = local_name(node)
    if name == "template" or (name == "dialog" and "open" not in node.attrib):
        return True
    is_drawn = "display:none" not in (node.get("style") or "").replace(" ", "").lower()
    return "hidden" in node.attrib or node.get("aria-hidden") == "true" or not is_drawn


def _can_be_opened(node: Any, sizes: dict[Any, tuple[int, int]], references: set[str]) -> bool:
    """Whether a hidden element is text that a reader can open: a panel, a dialog, a part of a saved page; no menu, form or message."""
    if "shadowrootmode" in node.attrib:
        return True
    n_chars, n_linked = sizes[node]
    if (
        n_linked > 0.5 * n_chars
        or _MESSAGE.search(class_names(node))
        or node.get("role") in {"alert", "status", "menu", "tooltip", "listbox"}
    ):
        return False
    if not _is_panel(node, references) or next(node.iter("{*}form", "{*}textarea", "{*}input"), None) is not None:
        return False
    text = " ".join("".join(islice(node.itertext(), _MAX_PANEL_TEXTS)).split())
    is_said = bool(_SENTENCE_END.search(text, _MIN_SENTENCE_CHARS)) or next(node.iter("{*}pre", "{*}table", "{*}ol"), None) is not None
    return is_said and not _PLACEHOLDER.search(text)


def _is_panel(node: Any, references: set[str]) -> bool:
    """Whether an element opens, by its kind, its names, what refers to it, or what stands before it."""
    if local_name(node) in {"dialog", "template"} or node.get("role") == "tabpanel" or node.get("id") in references:
        return True
    before = node.getprevious()
    is_below = before is not None and (local_name(before) in _OPENERS or "aria-expanded" in before.attrib)
    return is_below or bool(_PANEL.search(class_names(node)))


_FORMULA = re.compile(r"katex|mathjax|mjx|mwe-math", re.IGNORECASE)
_STYLED = re.compile(r"\s*\{\s*\\(?:display|text)style\b(.*)\}\s*", re.DOTALL)


def write_formulas(body: Any) -> None:
    """Replace each formula, with what only draws it, by its text."""
    for script in list(body.iter("{*}script")):
        if str(script.get("type")).startswith("math/tex"):
            for element in takewhile(lambda e: _draws_formula(e) and not (e.tail or "").strip(), script.itersiblings(preceding=True)):
                empty(element)
            empty(script, _one_line(script.text or ""))
    for formula in list(body.iter("{*}math")):
        drawn = list(takewhile(_draws_formula, formula.iterancestors()))
        empty(drawn[-1] if drawn else formula, _formula_text(formula))


def _draws_formula(element: Any) -> bool:
    return local_name(element).startswith("mjx") or (local_name(element) == "span" and bool(_FORMULA.search(str(element.get("class")))))


def _formula_text(formula: Any) -> str:
    """A formula as its author wrote it in TeX, else as its signs on one line."""
    written = next((e.text for e in formula.iter("{*}annotation") if "tex" in str(e.get("encoding")).lower()), formula.get("alttext"))
    return _one_line(written) if written else mathml_text(formula)


def _one_line(formula: str) -> str:
    styled = _STYLED.fullmatch(formula)
    return " ".join((styled[1] if styled else formula).split())
