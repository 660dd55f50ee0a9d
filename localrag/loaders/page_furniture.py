"""What of a web page is no text of its own: navigation, permalinks, line numbers, banners, and what is hidden, but for what opens."""

import re
from functools import cache
from itertools import islice, takewhile
from typing import Any

_UNSEEN = frozenset("script style noscript svg head iframe object datalist map audio video canvas".split())
_CONSENT = re.compile(r"cookie|consent|gdpr", re.IGNORECASE)  # in the names of what asks for it
_MAX_CONSENT_CHARS = 3000
_NAVIGATION_ROLES = frozenset({"navigation", "search", "menu", "menubar", "toolbar"})
# Ids and classes of what documentation generators, wikis and blogs put around a text; it is left out if it is mostly links.
_NAVIGATION = re.compile(
    r"side-?(?:bar|nav)|(?:top|sub|bottom|skip|main|global|site|page)-?nav|nav-?(?:bar|list|path|menu|box|wrapper|chapters)|bread-?crumb"
    r"|table-?of-?contents|prev-?next|edit-?(?:page|link|this|section)|on-this-page|skip-?(?:link|to)|catlinks"
    r"|(?<![^\s_-])(?:toc|contents|menu|pager|pagination|related|book-summary)(?![^\s_-])",
    re.IGNORECASE,
)
_TOOL = re.compile(
    r"(?:edit|view|show|improve|suggest).{1,20}(?:page|source|github|gitlab|edits)|(?:skip|jump) to .{1,30}|back to top", re.IGNORECASE
)
_BREADCRUMBS = re.compile(r"bread-?crumb", re.IGNORECASE)
_FOOTER = re.compile(r"(?<![^\s_-])footer(?![^\s_-])", re.IGNORECASE)
_IMPRINT = re.compile(r"©|copyright|all rights reserved|(?:built|created|generated|made|powered) (?:with|using|by)", re.IGNORECASE)
_MAX_FOOTER_CHARS = 600
_PERMALINK = re.compile(r"header-?link|perma-?link|anchor|hash-?link|heading-?link|backref|self-?link", re.IGNORECASE)
_PERMALINK_SIGNS = frozenset("¶ # § 🔗 ↩ ↩︎ ↑ ∞ ⚓".split())
_PERMALINK_WORDS = re.compile(r"(?:permalink|permanent link|direct link|link|anchor)(?: (?:to|for) .*)?", re.IGNORECASE)
_LINE_NUMBER = re.compile(r"line-?(?:no|num)|(?<!\S)lnt?(?!\S)|gutter|hljs-ln-n|blob-num|crayon-num|(?<!\S)nums?(?!\S)", re.IGNORECASE)
_CODE_CELL = re.compile(r"code|line|content|src", re.IGNORECASE)
_MAX_NUMBERS = 50_000  # texts of a column of line numbers
_DIGITS = re.compile(r"[\d\s.:|]*")
CODE_NAME = re.compile(
    r"(?<!\S)(?:code|highlight|highlighttable|source-?code|src|hljs\S*|listing|chroma|lntable|rouge-\S+|blob-code\S*|prettyprint|crayon-\S+"
    r"|syntaxhighlighter|codehilite\w*|fragment|language-\S+|brush\S*|literal-block|programlisting)(?!\S)",
    re.IGNORECASE,
)
_PANEL = re.compile(r"tab-?(?:pane|panel|content)|accordion|collaps|panel|faq|answer|expand|toggle|spoiler", re.IGNORECASE)
_MAX_PANEL_TEXTS = 500  # of a hidden element, in which a sentence is looked for
_MESSAGE = re.compile(
    r"error|success|alert|toast|spinner|loading|loader|tooltip|popover|newsletter|log-?in|sign-?(?:in|up)|search|menu", re.IGNORECASE
)
_OPENERS = frozenset("button dt summary h1 h2 h3 h4 h5 h6".split())  # before what opens
_REFERRING = frozenset({"aria-controls", "aria-owns", "popovertarget", "commandfor", "onclick"})
_NAME = re.compile(r"[\w.:-]+")
_MAX_REFERRING_CHARS = 200
_SENTENCE_END = re.compile(r"(?<=[.!?…।۔؟])[\"'”’»)\]]*(?:\s+|\Z)|(?<=[。！？])")
_PLACEHOLDER = re.compile(r"\{\{|\$\{|\[\[|<%|\{%")
_DUPLICATE_CHARS = 200  # by which a hidden text is found elsewhere in the page


def local_name(node: Any) -> str:
    """The name of an element without its namespace; empty for a comment."""
    return _local(node.tag) if isinstance(node.tag, str) else ""


@cache
def _local(tag: str) -> str:
    return tag.rpartition("}")[2].lower()


def line_of(node: Any) -> str:
    """The text of an element on one line."""
    return " ".join("".join(node.itertext()).split())


def names_of(node: Any) -> str:
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
    furniture, unseen, opened = list[Any](), list[Any](), list[Any]()
    walk = etree.iterwalk(body, events=("start",))
    for _, node in walk:
        if _is_unseen(node):
            found = unseen
        elif _is_hidden(node):
            found = opened if _can_be_opened(node, sizes, references) else unseen
        elif _is_furniture(node, *sizes[node]):
            found = furniture
        else:
            continue
        found.append(node)
        if found is not opened:
            walk.skip_subtree()
    if sum(sizes[node][0] for node in furniture) < sizes[body][0]:  # else the page is nothing but links
        unseen += furniture
    for node in unseen:
        empty(node)
    _remove_duplicates(body, opened)


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
        sizes[node] = (0, 0) if name in _UNSEEN else (n_chars, n_chars if name in {"a", "button"} else n_linked)
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
    if name in _UNSEEN or (name == "a" and _is_permalink(node)) or _is_line_number(node):
        return True
    if name == "button" and (_is_in_code(node) or "copy" in f"{names_of(node)} {node.get('title')}".lower()):
        return True
    return bool(_CONSENT.search(names_of(node))) and _is_consent(node)


def _is_consent(node: Any) -> bool:
    """Whether an element with such a name is a banner: a dialog, or short and with buttons."""
    asks = node.get("role") in {"dialog", "alertdialog"} or next(node.iter("{*}button", "{*}input"), None) is not None
    return asks and len("".join(node.itertext())) <= _MAX_CONSENT_CHARS


def _is_permalink(link: Any) -> bool:
    """Whether a link is a sign that leads to the place where it stands."""
    href, text = str(link.get("href") or ""), line_of(link)
    if "#" not in href or next(link.iter("{*}img"), None) is not None:
        return False
    if text in _PERMALINK_SIGNS:
        return True
    return bool(_PERMALINK.search(names_of(link))) and (not any(map(str.isalnum, text)) or bool(_PERMALINK_WORDS.fullmatch(text)))


def _is_in_code(node: Any) -> bool:
    return next(node.iterancestors("{*}pre", "{*}code"), None) is not None


def _is_line_number(node: Any) -> bool:
    """Whether an element holds the numbers of the lines of a listing."""
    names = names_of(node)
    is_named = bool(_LINE_NUMBER.search(names)) or "data-line-number" in node.attrib
    is_cell = local_name(node) in {"td", "th"}
    if not (is_cell or (is_named and _is_in_code(node))) or not _DIGITS.fullmatch("".join(islice(node.itertext(), _MAX_NUMBERS))):
        return False
    if not is_cell:
        return True
    following = node.getnext()
    if following is None:
        return False
    around = f"{names_of(following)} {' '.join(names_of(e) for e in islice(node.iterancestors(), 4))}"
    if is_named:
        return bool(
            _CODE_CELL.search(names_of(following))
            or CODE_NAME.search(around)
            or next(following.iter("{*}pre", "{*}code"), None) is not None
        )
    return node.getprevious() is None and line_of(node).isdecimal() and bool(CODE_NAME.search(around))


def _is_furniture(node: Any, n_chars: int, n_linked: int) -> bool:
    name, names, role = local_name(node), names_of(node), node.get("role")
    if name == "a":
        return bool(_NAVIGATION.search(names) or _TOOL.fullmatch(line_of(node)))
    if _BREADCRUMBS.search(f"{names} {node.get('aria-label')}"):
        return n_chars <= _MAX_FOOTER_CHARS
    is_mostly_links = n_linked >= 0.5 * n_chars
    if name == "footer" or role == "contentinfo" or _FOOTER.search(names):
        return n_chars <= _MAX_FOOTER_CHARS and (is_mostly_links or bool(_IMPRINT.search(line_of(node))))
    if not is_mostly_links or name in {"html", "body", "main", "article"}:
        return False
    return name == "nav" or role in _NAVIGATION_ROLES or bool(_NAVIGATION.search(names))


def _is_hidden(node: Any) -> bool:
    name = local_name(node)
    if (
        "hidden" in node.attrib
        or node.get("aria-hidden") == "true"
        or name == "template"
        or (name == "dialog" and "open" not in node.attrib)
    ):
        return True
    return "display:none" in (node.get("style") or "").replace(" ", "").lower()


def _can_be_opened(node: Any, sizes: dict[Any, tuple[int, int]], references: set[str]) -> bool:
    """Whether a hidden element is text that a reader can open: a panel, a dialog, a part of a saved page; no menu, form or message."""
    if "shadowrootmode" in node.attrib or "shadowroot" in node.attrib:
        return True
    n_chars, n_linked = sizes[node]
    if n_linked > 0.5 * n_chars or _MESSAGE.search(names_of(node)) or node.get("role") in {"alert", "status", "menu", "tooltip", "listbox"}:
        return False
    if not _is_panel(node, references) or next(node.iter("{*}form", "{*}textarea", "{*}input"), None) is not None:
        return False
    text = " ".join("".join(islice(node.itertext(), _MAX_PANEL_TEXTS)).split())
    return not _PLACEHOLDER.search(text) and (_has_sentence(text) or next(node.iter("{*}pre", "{*}table", "{*}ol"), None) is not None)


def _is_panel(node: Any, references: set[str]) -> bool:
    """Whether an element is one that opens, by its kind, its names, what refers to it, or what stands before it."""
    if local_name(node) in {"dialog", "template"} or node.get("role") == "tabpanel" or node.get("hidden") == "until-found":
        return True
    if node.get("id") in references or _PANEL.search(names_of(node)):
        return True
    before, after = node.getprevious(), node.getnext()
    if node.get("class") and any(e is not None and (e.tag, e.get("class")) == (node.tag, node.get("class")) for e in (before, after)):
        return True
    if before is None:
        return False
    is_opener = local_name(before) in _OPENERS or any("aria-expanded" in e.attrib for e in (before, *before))
    return is_opener or line_of(before).endswith(("?", "？"))


def _has_sentence(text: str) -> bool:
    return any(len(part.split()) > 4 or (part[-1:] in {"。", "！", "？"} and len(part) > 9) for part in _SENTENCE_END.split(text)[:-1])


def _remove_duplicates(body: Any, opened: list[Any]) -> None:
    """Empty the hidden elements whose text the page shows elsewhere, too, such as its version for a small screen."""
    whole = line_of(body) if opened else ""
    counts: dict[str, int] = {}
    for node in opened:
        text = line_of(node)[:_DUPLICATE_CHARS]
        counts[text] = counts.get(text) or whole.count(text)
        if counts[text] > 1:
            counts[text] -= 1
            empty(node)


_FORMULA = re.compile(r"katex|mathjax|mjx|mwe-math|written-formula", re.IGNORECASE)
_WRITTEN = "written-formula"
_STYLED = re.compile(r"\s*\{\s*\\(?:display|text)style\b(.*)\}\s*", re.DOTALL)


def write_formulas(body: Any) -> None:
    """Replace each formula, with what only draws it, by its text."""
    for formula in list(body.iter("{*}math")):
        drawn = list(takewhile(_draws_formula, formula.iterancestors()))
        _replace_formula(drawn[-1] if drawn else formula, _formula_text(formula))
    for script in list(body.iter("{*}script")):
        if str(script.get("type")).startswith("math/tex"):
            drawn = list(takewhile(lambda e: _draws_formula(e) and not (e.tail or "").strip(), script.itersiblings(preceding=True)))
            is_written = any(e.get("class") == _WRITTEN and line_of(e) for e in drawn)
            for element in drawn * (not is_written):
                empty(element)
            _replace_formula(script, "" if is_written else _one_line(script.text or ""))


def _draws_formula(element: Any) -> bool:
    return local_name(element).startswith("mjx") or (local_name(element) == "span" and bool(_FORMULA.search(str(element.get("class")))))


def _replace_formula(element: Any, text: str) -> None:
    empty(element, text)
    element.set("class", _WRITTEN)


def _formula_text(formula: Any) -> str:
    """A formula as its author wrote it in TeX, else as its signs."""
    written = next((e.text for e in formula.iter("{*}annotation") if "tex" in str(e.get("encoding")).lower()), formula.get("alttext"))
    return _one_line(written or " ".join(formula.itertext()))


def _one_line(formula: str) -> str:
    styled = _STYLED.fullmatch(formula)
    return " ".join((styled[1] if styled else formula).split())
