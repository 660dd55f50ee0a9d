"""Words of the prompt in what a model says."""

from localrag.bench.tasks import prompt_leaks, wording_of, wording_of_style

PROMPTS = wording_of(
    [
        "List every named entity of the text.",
        "The council of Tilbury wrote to Anna Marsh about the flood.",
        '{"name": "Tilbury", "type": "place", "description": "Tilbury is a town whose council wrote to Anna Marsh"}',
    ]
)
TEXT = "The mayor of Wick wrote to Ada Bo about the harbour."


def test_a_name_of_an_example_is_a_leak_unless_the_text_has_it():
    """Tilbury is the prompt's; Wick is the text's; Tilbury in a text that names it is the text's."""
    assert prompt_leaks("Tilbury", TEXT, PROMPTS)
    assert prompt_leaks("Ada Bo wrote to Tilbury", TEXT, PROMPTS)
    assert not prompt_leaks("Wick", TEXT, PROMPTS)
    assert not prompt_leaks("Tilbury", "The road to Tilbury is closed.", PROMPTS)


def test_an_instruction_said_again_is_a_leak():
    """Five words in a row of an instruction are its own; four that any text may have are not."""
    assert prompt_leaks("She will list every named entity of the house", TEXT, PROMPTS)
    assert not prompt_leaks("wrote to Ada Bo about the flood", TEXT, PROMPTS)


def test_nothing_said_leaks_nothing():
    """An empty description is no leak."""
    assert not prompt_leaks("", TEXT, PROMPTS)


def test_the_prompts_own_examples_are_known():
    """Both styles' wordings hold the names of their examples."""
    assert all("Tilbury" in wording_of_style(style).names for style in ("extractive", "abstractive"))
