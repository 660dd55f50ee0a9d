"""The reader: answers in passages, relevance and entailment; the same whatever is read beside."""

import pytest

from localrag import model_files
from localrag.engine import e5
from localrag.errors import ModelError
from localrag.llm import reader as reader_module
from localrag.llm.reader import WINDOW_TOKENS, PassageReader

FERRY = "The ferry Skua was bought by Ingrid Holm in 1974. She paid four hundred pounds for it."
OTHERS = ["Bread is baked from flour, water and salt.", "The Tern was painted white in 1950.", "渔船海鸥号由霍尔姆于1974年购得。"]


@pytest.fixture(scope="module")
def reader():
    return PassageReader()


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who bought the ferry?", "Ingrid Holm"),
        ("When was the Skua bought?", "1974"),
        ("How much did she pay?", "four hundred pounds"),
        pytest.param("Wer kaufte die Fähre Skua?", "Ingrid Holm", marks=pytest.mark.xfail(strict=True, reason="weak across languages")),
    ],
)
def test_an_answer_is_a_stretch_of_the_passage(reader, question, answer):
    """The passage that answers is the most relevant one, and the answer stands in it as marked."""
    passages = [*OTHERS[:2], FERRY]
    found = reader.read(question, passages)

    assert max(found, key=lambda r: r.relevance) is found[2]
    assert FERRY[found[2].start : found[2].end] == answer
    assert found[2].score > 0 > found[0].score


def test_what_is_struck_through_is_neither_answer_nor_proof(reader):
    """The places of the answer are those of the passage as it stands."""
    tariff = "A bicycle pays ~~14 crowns~~ 19 crowns on the ferry."
    found = reader.read("How many crowns does a bicycle pay on the ferry?", [tariff])[0]
    assert tariff[found.start : found.end] == "19"
    valid, struck = reader.entailments(
        [(text, "Dogs travel free of charge.") for text in ("Dogs travel free.", "~~Dogs travel free.~~ Cats pay.")]
    )
    assert valid.entailed > 0.5 > struck.entailed


def test_chinese_is_read(reader):
    """A question and a passage in Chinese."""
    found = reader.read("谁买了海鸥号？", OTHERS)

    assert max(found, key=lambda r: r.relevance) is found[2]
    assert "霍尔姆" in OTHERS[2][found[2].start : found[2].end]


def test_the_pieces_of_the_texts_suffice(reader):
    """Texts of many scripts have the tokens that all pieces give them; unknown signs beside each other are one token."""
    tokenizer = e5.E5File(e5.package_file()).tokenizer()
    whole, numbers = tokenizer.over(range(len(tokenizer._pieces)))
    texts = [
        "",
        " ",
        *OTHERS,
        FERRY,
        "ﬁrst\t\tＡ  ½",
        "wo boght teh fery skuaa",
        "ཀ་ཁ་ག ꙮꙮ a\u200bb",
        "def f(x):\n    return x[0]",
        "😀" * 9,
        "x" * 2000,
    ]
    texts += ["Die Fähre fährt über den Fjord.", "Паром идёт через фьорд.", "フェリーはフィヨルドを渡る。", "العبّارة تعبر المضيق"]

    expected = [whole.encode(text, add_special_tokens=False) for text in texts]
    assert [(t.ids, t.offsets) for t in tokenizer.tokenize(texts)] == [([numbers[n] for n in e.ids], e.offsets) for e in expected]


def test_a_long_passage_is_read_to_its_end(reader):
    """The answer is found in the last of many windows."""
    passage = "Nothing of interest happened that day on the pier, and the gulls were quiet. " * 60 + FERRY
    found = reader.read("Who bought the ferry Skua?", [passage])[0]

    assert len(reader._model.tokenize([passage])[0].ids) > 3 * WINDOW_TOKENS
    assert passage[found.start : found.end] == "Ingrid Holm"


@pytest.mark.ci
def test_several_questions_are_read_as_each_alone(reader):
    """Passages of several questions, some with many windows, give in one batch bit for bit what each gives alone."""
    questions, passages = ["Who bought the ferry Skua?", "How old is the mate?"], [FERRY, *OTHERS, FERRY * 40, ""]
    together = reader.read_pairs([(question, passage) for question in questions for passage in passages])

    assert together == [reading for question in questions for reading in reader.read(question, passages)]
    assert reader.read_pairs([]) == []


@pytest.mark.parametrize("question", ["?", "the of and", "x" * 2000, "wo boght teh fery skuaa", "ཀ་ཁ་ག", "\u200b"])
@pytest.mark.parametrize("passage", ["", " ", "a", "def f(x):\n    return x\n" * 50, "| 1 | 2 |\n" * 500, "\U0001f600" * 300])
def test_odd_texts_are_read(reader, question, passage):
    """Questions of one sign, of stop words, misspelt or of an unknown script; passages of nothing, one letter, code and rows."""
    (found,) = reader.read(question, [passage])

    assert 0 <= found.start <= found.end <= len(passage)


def test_entailment_tells_what_a_passage_says(reader):
    """Three probabilities; a statement of the passage is entailed more than one about something else."""
    said, other = reader.entailments([(FERRY, "Ingrid Holm bought the Skua."), (FERRY, "The mate is old.")])

    assert sum(said) == pytest.approx(1, abs=1e-5)
    assert said.entailed > 0.5 > other.entailed


@pytest.mark.parametrize(
    ("premise", "hypothesis"), [("", "A mill."), ("A mill.", ""), ("The mill is old. " * 2500, "The mill is old."), (FERRY, "船是谁买的")]
)
def test_any_pair_has_three_probabilities(reader, premise, hypothesis):
    """Nothing on either side, a premise of 10,000 words, a statement in another language."""
    (found,) = reader.entailments([(premise, hypothesis)])

    assert sum(found) == pytest.approx(1, abs=1e-5)
    assert min(found) >= 0


def test_a_statement_is_found_anywhere_in_a_long_premise(reader):
    """By the window that entails it most."""
    hidden, absent = (f"{'The weather was calm. ' * 400}{said} {'Few came. ' * 400}" for said in ("Ingrid Holm bought the Skua.", ""))
    found, missing = reader.entailments([(text, "Ingrid Holm bought the Skua.") for text in (hidden, absent)])

    assert found.entailed > 0.5 > missing.entailed


@pytest.mark.parametrize("damage", [lambda data: data[:-100], lambda data: data.replace(b"nli.0", b"nli.9", 1), lambda _: b""])
def test_a_damaged_judge_is_refused_by_its_hash(monkeypatch, tmp_path, damage):
    """Cut, changed or empty weights; the error names the command that mends them."""
    there, damaged = model_files.shipped_data_path, tmp_path / "judge_e5.safetensors"
    damaged.write_bytes(damage(there("adapters/judge_e5.safetensors").read_bytes()))
    monkeypatch.setattr(model_files, "shipped_data_path", lambda name: damaged if name.endswith(damaged.name) else there(name))

    with pytest.raises(ModelError, match="damaged") as refused:
        PassageReader().load()
    assert refused.value.hint


@pytest.mark.parametrize("is_truncated", [True, False])
def test_other_words_than_its_own_are_refused(monkeypatch, tmp_path, is_truncated):
    """A truncated file of words, and the one of another model in the same package."""
    damaged = tmp_path / "e5-small-q4.bin"
    damaged.write_bytes(e5.package_file().read_bytes()[:20_000_000])
    if is_truncated:
        monkeypatch.setattr(reader_module, "package_file", lambda: damaged)
    else:
        monkeypatch.setattr(e5, "BASE_FILE", "e5-small-enpt-q4.bin")
    with pytest.raises(ModelError, match=r"damaged|cannot be loaded") as refused:
        PassageReader().load()
    assert "pip install" in refused.value.hint


def test_a_reader_that_loads_beside_other_work_reads_the_same(reader):
    """`read` waits for the thread, which loads the model once."""
    beside = PassageReader()
    beside.start_loading()
    beside.start_loading()

    assert beside.read("Who bought the ferry?", [FERRY]) == reader.read("Who bought the ferry?", [FERRY])


def test_without_its_package_the_reader_says_what_to_install(monkeypatch):
    """The error names the package; where a thread loads the reader beside other work it is raised when the reader is asked."""
    monkeypatch.setattr(e5, "BASE_PACKAGE", "no_such_package")
    beside = PassageReader()
    beside.start_loading()
    with pytest.raises(ModelError, match="no_such_package is not installed") as refused:
        beside.read("Who bought the ferry?", [FERRY])
    assert "pip install" in refused.value.hint
