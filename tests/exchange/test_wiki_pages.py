"""Pages of a wiki: the generated block and all that a person wrote around it, byte for byte."""

import re

from hypothesis import assume, example, given
from hypothesis import strategies as st

from localrag.exchange.obsidian import wiki_link
from localrag.exchange.wiki_pages import GeneratedPage, encode_text, new_page, parse_page, read_text, updated_page
from localrag.text.markdown import escape_markdown

FRONT = {"localrag": "entity:x", "kind": "entity", "aliases": ["Ada", "A. Lisle: “x”"], "mentions": 2}
FIRST, SECOND, THIRD = "# Ada\n\nShe met Bob.", "# Ada\n\nShe met Cid.\n\n- one", "# Ada"


def page_of(text, **front):
    return GeneratedPage("entity:x", "entities", "Entities/", FRONT | front, text)


def updated(text, page):
    old = parse_page("a.md", text)
    assert old is not None
    return updated_page(old, page)


# What people write, and what could be taken for markers.
BEGIN_OF_OTHER = "%%localrag:begin entity:y 0123456789abcdef0123 - copied%%\nx\n%%localrag:end%%\n"
own_text = st.one_of(
    st.text(),
    st.text(st.sampled_from("a%-\n\r> #:[]|é👩 ")),
    st.sampled_from(
        [BEGIN_OF_OTHER, "%%localrag:end%%\n", "%%localrag:begin entity:x 0123456789abcdef0123 -%%\n", "---\na: 1\n---\n", "\n\n  \n"]
    ),
)


def with_own(text, before, after):
    """A page with texts before and after its block."""
    at = text.index("%%localrag:begin")
    return text[:at] + before + ("\n" if before and not before.endswith("\n") else "") + text[at:] + after


@given(own_text, own_text)
@example("", "")
@example("", BEGIN_OF_OTHER)
@example(BEGIN_OF_OTHER, "")
def test_what_a_person_wrote_around_the_block_stays_byte_for_byte(before, after):
    """Whatever it is, while the block changes; the new text is that of a new page."""
    first = new_page(page_of(FIRST))
    text = with_own(first, before, after)
    assert updated(text, page_of(SECOND)) == with_own(new_page(page_of(SECOND)), before, after)


@given(own_text, own_text, own_text)
def test_no_character_of_a_person_is_ever_lost(before, inside, after):
    """Not even within the block, nor if it looks like a marker: all of it is there again, in its order, after any update."""
    assume("\r" not in inside)
    text = with_own(new_page(page_of(FIRST)).replace("She met Bob.", f"She met Bob.{inside}"), before, after)
    is_edited = (page := parse_page("a.md", text)) is not None and page.is_edited
    for page in (page_of(SECOND), page_of(THIRD, mentions=3), page_of(FIRST)):
        text = updated(text, page)
        parts = [before, *([inside] if is_edited else []), after]
        position = 0
        for part in parts:
            position = text.index(part, position) + len(part)


def test_a_page_without_its_markers_is_the_persons():
    """Its properties still tell what it is of; nothing in it changes, also where only the last marker is gone."""
    text = new_page(page_of(FIRST))
    for taken in (re.sub(r"^%%.*%%$\n?", "", text, flags=re.MULTILINE), text.replace("%%localrag:end%%\n", "")):
        page = parse_page("a.md", taken)
        assert (page.key, page.block, page.is_edited, page.is_only_generated) == ("entity:x", None, True, False)
        assert updated(taken, page_of(SECOND)) == taken
    assert parse_page("a.md", "# Ada\n\nlocalrag: entity:x") is None


def test_properties_are_replaced_until_a_person_changes_any():
    """Then they stay as they are, while the block changes; nor are any added where they were taken out."""
    text = new_page(page_of(FIRST))
    assert updated(text, page_of(SECOND, mentions=7)) == new_page(page_of(SECOND, mentions=7))
    for mine in (
        text.replace("mentions: 2\n", "mentions: 2\ntags: [mine] # why\n"),
        text.replace("- Ada\n", "- Ada\n- The countess\n"),
        text.replace("kind: entity", "kind: [entity"),
        text[text.index("%%localrag") :],
    ):
        assert mine != text
        now = updated(mine, page_of(SECOND, mentions=9))
        assert now.split("%%localrag:begin")[0] == mine.split("%%localrag:begin")[0]
        assert "met Cid" in now


def edited():
    return new_page(page_of(FIRST)).replace("met Bob", "married Bob") + "Mine.\n"


def test_only_a_page_that_nobody_wrote_in_is_only_generated():
    """White space is nothing; a property, a word or a changed block is something."""
    text = new_page(page_of(FIRST))
    assert parse_page("a.md", text + "\n \n").is_only_generated
    for mine in (text + "x", text.replace("%%localrag:begin", "x\n%%localrag:begin"), edited(), text.replace("kind:", "tags: [x]\nkind:")):
        assert not parse_page("a.md", mine).is_only_generated


def test_line_ends_of_windows_are_no_change_and_stay():
    """An editor may write them everywhere; new text gets them, too."""
    text = (new_page(page_of(FIRST)) + "Mine.\n").replace("\n", "\r\n")
    assert not parse_page("a.md", text).is_edited
    assert updated(text, page_of(FIRST)) == text
    now = updated(text, page_of(SECOND, mentions=5))
    assert now == (new_page(page_of(SECOND, mentions=5)) + "Mine.\n").replace("\n", "\r\n")


def test_bytes_that_are_no_text_stay(tmp_path):
    """A page is read and written without a change of what another editor left in it."""
    data = b"\xef\xbb\xbf" + new_page(page_of(FIRST)).encode() + b"\xff\xfe \x00 \r caf\xe9"
    (tmp_path / "a.md").write_bytes(data)
    text = read_text(tmp_path / "a.md")
    assert encode_text(text) == data
    assert encode_text(updated(text, page_of(FIRST))) == data
    assert encode_text(updated(text, page_of(SECOND))).endswith(b"\xff\xfe \x00 \r caf\xe9")
    assert not parse_page("a.md", text).is_edited


@given(st.text(), st.text())
def test_any_content_makes_a_page_that_is_read_as_it_was_written(name, text):
    """Whatever documents say: its block is unedited, its key known, nobody wrote in it."""
    made = GeneratedPage(
        "entity:x", "", "", FRONT | {"aliases": [name], name or "n": text}, f"# {escape_markdown(name)}\n\n{wiki_link('n', text)}"
    )
    page = parse_page("a.md", new_page(made))
    assert page is not None
    assert (page.key, page.is_edited, page.is_only_generated) == ("entity:x", False, True)
    assert updated_page(page, made) == page.text
