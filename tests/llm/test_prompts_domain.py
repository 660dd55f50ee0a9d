"""The domain file: read, written, taken back, and what prompts make of it."""

import pytest

from localrag.errors import UsageError
from localrag.indexing.extraction.extract import extraction_hash
from localrag.llm.prompts import DOMAIN_FILE, load_prompt, read_domain, with_domain, write_domain
from localrag.settings import Domain, Example, IndexSettings

DOMAIN = Domain(
    description="ferries of the north",
    persona="a harbour pilot",
    language="English",
    rating_criteria="what sinks ships for $5",
    entity_types=("person", "ship"),
    examples=(Example("Lars sails the Skua.", (("Lars", "person"), ("Skua", "ship")), (("Lars", "Skua"),)),),
)


def test_a_domain_is_read_as_it_was_written(tmp_path):
    """What `write_domain` writes, `read_domain` reads; no file is an empty domain."""
    assert read_domain(tmp_path) == Domain()

    write_domain(tmp_path, DOMAIN)

    assert read_domain(tmp_path) == DOMAIN


@pytest.mark.parametrize(
    "text",
    ["about = ", "colour = 'red'", "entity_types = ['ship']\n[[examples]]\ntext = 'x'\nentities = [['Lars', 'person']]", "examples = [1]"],
)
def test_a_broken_file_is_named_with_its_remedy(tmp_path, text):
    """Wrong syntax, unknown words and examples of unknown types are refused."""
    (tmp_path / DOMAIN_FILE).write_text(text)

    with pytest.raises(UsageError, match=DOMAIN_FILE) as error:
        read_domain(tmp_path)
    assert "localrag tune" in error.value.hint


def test_examples_take_the_place_of_the_prompt_s_own():
    """The system message says the domain, the examples are the domain's alone, signs of money survive."""
    prompt = with_domain(load_prompt("extractive/entities"), DOMAIN, "entities")

    filled = prompt.fill(text="The Skua leaks.", types="person, ship")

    assert [m["role"] for m in filled] == ["system", "user", "assistant", "user"]
    assert "ferries of the north" in filled[0]["content"]
    assert filled[2]["content"].splitlines() == ['{"name": "Lars", "type": "person"}', '{"name": "Skua", "type": "ship"}']
    report = with_domain(load_prompt("abstractive/report"), DOMAIN, "report").fill(context="x", language="English", shape="{}")
    assert "what sinks ships for $5" in report[0]["content"]


def test_another_domain_is_another_recipe():
    """A change of the domain makes chunks be extracted anew; its types are the settings'."""
    settings = IndexSettings()
    tuned = settings.with_domain(DOMAIN)

    assert tuned.entity_types == ("person", "ship")
    assert extraction_hash(settings, "m", "extractive") != extraction_hash(tuned, "m", "extractive")
    assert "domain" not in tuned.to_json()
