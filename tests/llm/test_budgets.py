"""How much is put before a model and asked of it: by its window and size, and by the script of the text."""

import asyncio
import json
from itertools import pairwise

import pytest

from localrag.engine.tokenizer import Tokenizer
from localrag.indexing.reports import ContextElement, abstractive_report, report_fields, reports_hash
from localrag.llm.budgets import MIN_BUDGETS, TokenBudgets, TokenDensity, max_json_tokens
from localrag.llm.prompts import load_prompt
from localrag.llm.shapes import schema_of, shape_text
from localrag.project import open_for_query, open_for_writing, resolve_token_budgets
from localrag.query.abstractive import MAX_LAST_UNIT_CHARS
from localrag.query.global_search import _point_fields
from localrag.records import Community
from localrag.settings import IndexSettings
from tests.fakes import CutOff, Scripted, example

CHINESE = "小镇因出售造船厂而分裂。它还必须从洪水中恢复过来，那场洪水摧毁了下街。王海明说，渡轮漏水不是他的错。" * 40
ENGLISH = "The town was divided over the sale of the boatyard. It also had to recover from the flood, which destroyed a street. " * 40
GERMAN = "Die Stadt war wegen des Verkaufs der Bootswerft gespalten. Sie musste sich außerdem von der Überschwemmung erholen. " * 40
RUSSIAN = "Город разделился из-за продажи верфи. Ему также пришлось оправляться от наводнения, разрушившего нижнюю улицу. " * 40
TEXTS = {"Chinese": CHINESE, "English": ENGLISH, "German": GERMAN, "Russian": RUSSIAN}


@pytest.fixture(scope="module")
def count(chat_file):
    """Counts tokens as the bundled model does, in the way of `Model.count`."""
    tokenizer = Tokenizer(chat_file)

    async def counted(text):
        return tokenizer.count(text)

    return counted


def script(count, *texts, language=""):
    return asyncio.run(TokenDensity.measure(count, *texts, language=language))


def filled(schema, text):
    """The longest value of a schema, its strings full of a text."""
    if "enum" in schema:
        return max(schema["enum"], key=len)
    if schema["type"] == "object":
        return {name: filled(part, text) for name, part in schema["properties"].items()}
    if schema["type"] == "array":
        return [filled(schema["items"], text)] * schema["maxItems"]
    return schema["maximum"] if schema["type"] == "integer" else text[: schema["maxLength"]]


def test_budgets_grow_with_the_window_up_to_the_papers_contexts():
    """No number shrinks in a larger window; contexts end at 8,000 tokens, reports at ten findings of some sentences."""
    sizes = [TokenBudgets.of(w) for w in (4096, 8192, 16384, 32768)]

    for less, more in pairwise(sizes):
        assert all(getattr(less, name) <= getattr(more, name) for name in TokenBudgets.__slots__)
    assert sizes[0].report_context < sizes[1].report_context < sizes[2].report_context == sizes[3].report_context == 8000
    assert (sizes[2].findings, sizes[2].explanation) == (10, 600)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("window", [4096, 8192, 16384])
def test_prompt_context_and_longest_answer_fit_the_window(count, window, text):
    """For every task, in every script: the prompt, a context as large as its budget and the longest answer are no more than the window."""
    budgets, ids = TokenBudgets.of(window), [f"R{n}" for n in range(150)]
    s = script(count, text)

    async def needed(prompt, context, answer):
        return sum([await count(body) + 6 for _, body in load_prompt(f"abstractive/{prompt}").messages]) + context + answer

    async def all_tasks():
        report = await max_json_tokens(schema_of(report_fields(ids, budgets, s)), s, count)
        fields = _point_fields(ids[:20], budgets.points, s)
        points = await max_json_tokens(schema_of(fields), s, count) + await count(shape_text(fields))
        prose = s.max_tokens(s.max_chars(MAX_LAST_UNIT_CHARS) + s.max_chars(budgets.max_answer_chars))
        yield await needed("report_long" if budgets.long_reports else "report", budgets.report_context, report)
        yield await needed("map", budgets.map_batch + 4 * 20, points)
        yield await needed("answer", budgets.sources + 4 * 20, prose)
        yield await needed("reduce", budgets.reduce_context + 12 * 20, prose)
        yield await needed("describe", budgets.descriptions + 3 * 50, s.max_tokens(s.max_chars(budgets.description)) + 8)

    async def largest():
        return [n async for n in all_tasks()]

    assert max(asyncio.run(largest())) <= window


def test_chinese_limits_are_tokens_not_characters(count):
    """What is 300 characters of English is a fraction of that in Chinese, and takes no more tokens; English is not cut."""
    chinese, english = script(count, CHINESE), script(count, ENGLISH)

    assert english.max_chars(300) == 300
    assert 10 < chinese.max_chars(300) < 100
    assert asyncio.run(count(CHINESE[: chinese.max_chars(300)])) <= 150


def test_a_language_that_is_asked_for_counts(count):
    """Reports in Chinese on English documents have the limits of Chinese."""
    assert script(count, ENGLISH, language="Chinese").tokens_per_char > 2
    assert script(count, ENGLISH, language="English").tokens_per_char == script(count, "In 1953?").tokens_per_char == 0.5


def test_reports_of_other_budgets_are_other_reports():
    """Written ones; quoted ones are the same for all."""
    settings = IndexSettings()
    assert len({reports_hash(settings, "f", "abstractive", TokenBudgets.of(w)) for w in (4096, 8192, 16384)}) == 3
    assert reports_hash(settings, "f", "extractive", TokenBudgets.of(16384)) == reports_hash(settings, "f", "extractive", MIN_BUDGETS)


def chosen(folder, window, **how):
    with open_for_writing(folder, **how) as project:
        project.model._engine = Scripted(None, window=window)
        return asyncio.run(resolve_token_budgets(project))


def test_another_window_on_another_day_changes_no_budget(tmp_path):
    """An index keeps the budgets of the first window it saw, until it is rebuilt."""
    first = chosen(tmp_path, 16384)

    assert first == TokenBudgets.of(16384)
    assert chosen(tmp_path, 4096) == chosen(tmp_path, 8192) == first
    assert chosen(tmp_path, 8192, rebuild=True) == TokenBudgets.of(8192)


def test_known_budgets_need_no_model(tmp_path):
    """A later process learns them from the index alone."""
    chosen(tmp_path, 8192)

    with open_for_query(tmp_path) as project:
        assert asyncio.run(resolve_token_budgets(project)) == TokenBudgets.of(8192)
        assert project.model.metrics() == {}


def test_a_report_asks_for_as_much_as_the_data_has(tmp_path):
    """In a large window a community with much data has at least five findings of ten possible; one with a relationship has one."""
    budgets = TokenBudgets.of(16384)
    seen = []
    engine = Scripted(lambda r: seen.append(r.grammar.schema["properties"]["findings"]) or example(r.grammar.schema), window=16384)
    with open_for_writing(tmp_path) as project:
        project.model._engine = engine
        for n in (3, 60):
            elements = [ContextElement(f"E{i}", f"entity E{i}: Anna Marsh (person)", 9, ()) for i in range(n)]
            community = Community("c", 0, 0, None, ("a",))
            made = asyncio.run(abstractive_report(community, elements, "k", project.model, project.settings, budgets))
            assert made.findings

    assert [(s["minItems"], s["maxItems"]) for s in seen] == [(1, 10), (5, 10)]


def test_a_chinese_report_that_fills_its_limits_is_complete(tmp_path, chat_file):
    """A model that uses up every limit in Chinese says all of it in the tokens it was given, as the bundled model counts them."""
    tokens = Tokenizer(chat_file).count

    def fills(request):
        value = filled(request.grammar.schema, CHINESE)
        said = json.dumps(value, ensure_ascii=False)
        return value if tokens(said) <= request.max_tokens else CutOff(said)

    elements = [ContextElement(f"E{i}", f"entity E{i}: 王海明 (person): {CHINESE[:60]}", 90, ()) for i in range(4)]
    with open_for_writing(tmp_path) as project:
        project.model._engine = engine = Scripted(fills)
        community = Community("c", 0, 0, None, ("a",))
        made = asyncio.run(abstractive_report(community, elements, "k", project.model, project.settings, MIN_BUDGETS))

    assert len(made.findings) == MIN_BUDGETS.findings
    assert len(engine.requests) == 1
