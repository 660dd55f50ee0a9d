"""Asking and looking on the command line: conversations, limits, what is printed, what is refused."""

import json
import shutil

from tests.conftest import TOWN, run_localrag


def ask_json(town, *args):
    done = run_localrag(*args, "--json", cwd=town)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_command_for_a_source_finds_the_index(plain_town, tmp_path):
    """Where the index was named, it names it, too, and works as it stands."""
    shutil.copytree(plain_town, tmp_path / "town")
    asked = run_localrag("ask", "Who is the mate of the Skua?", "--mode", "basic", "--index", "town/.localrag", cwd=tmp_path)
    command = asked.stderr.partition("open a source: localrag ")[2].splitlines()[0]
    shown = run_localrag(*command.split(), cwd=tmp_path)

    assert command.startswith("source 1 --index ")
    assert (shown.returncode, "docs/" in shown.stdout) == (0, True), shown.stderr


def test_search_needs_no_model(town):
    """Passages with their place and best sentence, and no call of the model."""
    found = ask_json(town, "search", "Who wrote to the mayor?")

    assert found[0]["path"] == "docs/b.txt"
    assert "wrote to Mayor Ruth Sand" in found[0]["snippet"]
    for row in found:
        text = TOWN[row["path"].removeprefix("docs/")]
        assert text[row["start"] : row["end"]] == row["text"]
    assert "docs/b.txt" in run_localrag("search", "mayor", cwd=town).stdout


def test_an_entity_is_shown_by_any_of_its_names(town):
    """Names, description, relationships and places; an unknown name is answered with the nearest ones."""
    (found,) = ask_json(town, "entity", "lars holm")
    unknown = run_localrag("entity", "Lars Hölm", cwd=town)

    assert found["type"] == "person"
    assert {r["with"] for r in found["relationships"]}
    assert all(TOWN[m["path"].removeprefix("docs/")][m["start"] : m["end"]] in found["names"] for m in found["mentions"])
    assert "Lars Holm" in run_localrag("entity", "Lars Holm", cwd=town).stdout
    assert unknown.returncode == 1
    assert "Lars Holm" in unknown.stderr


def test_the_tree_holds_every_community_and_its_report_opens(town):
    """`tree` shows communities below each other; `report` prints one with verbatim passages."""
    roots = ask_json(town, "tree")
    status = ask_json(town, "status")
    waiting, ids = list(roots), []
    while waiting:
        node = waiting.pop()
        ids.append(node["id"])
        waiting += node["parts"]
    report = ask_json(town, "report", roots[0]["id"])

    assert len(ids) == len(set(ids)) == status["communities"]
    assert report["title"] == roots[0]["title"]
    for q in report["quotes"]:
        assert TOWN[q["path"].removeprefix("docs/")][q["start"] : q["end"]] == q["quote"]
    assert roots[0]["title"].split()[0] in run_localrag("tree", cwd=town).stdout
    assert run_localrag("report", roots[0]["id"], cwd=town).stdout.startswith("# ")
    assert "no community 9.9" in run_localrag("report", "9.9", cwd=town).stderr


def test_questions_can_be_answered_from_the_documents(town):
    """Suggested questions name what the documents name; an unknown subject is refused."""
    about = ask_json(town, "questions", "--about", "Skua", "-n", "3")

    assert len(about) == 3
    assert all("Skua" in q or "海鸥号" in q for q in about[:1])
    assert "No entity" in run_localrag("questions", "--about", "Atlantis", cwd=town).stderr


def test_what_cannot_be_asked_is_refused_in_a_sentence(town):
    """An unknown mode, style or level, an empty or endless question: exit code 2 and what to do."""
    for args, message in (
        (["ask", "x", "--mode", "best"], "no mode 'best'"),
        (["ask", "x", "--style", "poetic"], "no style 'poetic'"),
        (["ask", "x", "--mode", "global", "--level", "99"], "no community level 99"),
        (["ask", "  "], "question is empty"),
        (["search", ""], "query is empty"),
    ):
        done = run_localrag(*args, cwd=town)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
