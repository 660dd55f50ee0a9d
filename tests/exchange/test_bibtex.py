"""Bibliographies of documents: entries that parse, keys that stay."""

import re

from hypothesis import given
from hypothesis import strategies as st

from localrag.exchange.bibtex import citation_key, escape_tex, sources_to_bibtex
from localrag.records import Document


def document(path="docs/ferry.md", title="The Ferry of Vardby", date="1974-05-02", date_source="metadata", **metadata):
    return Document(path, path, title, "text", "hash", tuple(metadata.items()), date=date, date_source=date_source)


def test_the_time_stamp_of_a_file_is_no_year_of_publication():
    """Only a date of the document itself is one."""
    (entry,) = sources_to_bibtex([document(date_source="file")]).split("\n\n")

    assert "1974" not in entry


def entries(text):
    """Kind, key and fields of each entry, by counting braces as BibTeX does."""
    found = []
    for kind, key, body in re.findall(r"^@(\w+)\{([^,\s]+),\n(.*?)^\}\n", text, re.MULTILINE | re.DOTALL):
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", body, re.MULTILINE))
        assert all(value.count("{") == value.count("}") for value in fields.values())
        found.append((kind, key, fields))
    return found


def test_an_entry_has_what_is_known_of_a_document():
    """Title, authors, date and the file; its kind is told by its metadata."""
    text = sources_to_bibtex(
        [
            document(author="Ruth Sand; Holm, Ingrid"),
            document("docs/b.pdf", "A Study", author="R. Sand, A. Lisle", journal="Sea & Ships", doi="10.1/a_b"),
            document("docs/c.html", "Home", date="", url="https://example.org/a_b?c=1%20#d"),
        ]
    )
    (kind, key, first), (_, _, second), (other, _, third) = sorted(entries(text), key=lambda e: e[2]["title"], reverse=True)

    assert (kind, first["author"], first["year"], first["date"]) == ("misc", "Ruth Sand and Holm, Ingrid", "1974", "1974-05-02")
    assert (first["title"], first["howpublished"]) == ("{The Ferry of Vardby}", "docs/ferry.md")
    assert re.fullmatch(r"sand1974ferry[0-9a-f]{4}", key)
    assert (other, third["author"], third["journal"], third["doi"]) == ("article", "R. Sand and A. Lisle", r"Sea \& Ships", r"10.1/a\_b")
    assert "url" in second
    assert "year" not in second


def test_keys_are_unique_and_stay_when_documents_are_added():
    """Also where everything but the path is the same, and where nothing is known."""
    some = [document(f"docs/{n}.md") for n in range(50)] + [document("", "", "")]
    more = [*some, *(document(f"other/{n}.md") for n in range(50))]
    keys = [key for _, key, _ in entries(sources_to_bibtex(some))]

    assert len(set(keys)) == len(keys) == 51
    assert set(keys) <= {key for _, key, _ in entries(sources_to_bibtex(more))}
    assert sources_to_bibtex(reversed(some)) == sources_to_bibtex(some)


@given(st.text(), st.text(), st.text())
def test_any_metadata_makes_an_entry_that_parses(title, author, path):
    """One entry, balanced braces, a key of plain letters and digits."""
    text = sources_to_bibtex([document(path, title, "", author=author, url=f"https://x/{path}")])
    ((_, key, fields),) = entries(text)

    assert re.fullmatch(r"[a-z0-9]+", key)
    assert fields["title"]


def test_signs_of_tex_are_escaped():
    """So that a title prints as it is."""
    assert escape_tex("50% of $x_1 & {a} \\ b^2 ~ #3\n\x07") == (
        r"50\% of \$x\_1 \& \textbraceleft{}a\textbraceright{} \textbackslash{} b\textasciicircum{}2 \textasciitilde{} \#3 �"
    )


def test_a_mail_address_is_no_name():
    """The family name is taken from the name before it."""
    assert citation_key(document(author="Ruth Sand <ruth@example.org>")).startswith("sand1974ferry")
