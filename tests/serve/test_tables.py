"""Tables over HTTP: made beside questions, one at a time, stopped, kept, decided about; what is wrong is said."""

import io
import json
import shutil
import threading
import zipfile

import pytest

from localrag.analysis.tables import Cell, Column, TableRow, make_table
from localrag.filters import DocumentFilter
from localrag.index import Index
from localrag.project import open_for_query
from localrag.records import Citation
from localrag.serve import table_worker
from localrag.serve.query_worker import QueryWorker, ServerBusy
from localrag.serve.table_worker import MAX_KEPT_TABLES, MAX_PENDING_TABLES, TableRequest, TableStopped, TableWorker
from tests.conftest import mostly_ci, write_documents
from tests.serve.server import events, served_here

CONTRACTS = {
    "anders.txt": "Supply agreement\n\nThe harbour pays a fee of $1,200 a month until 2 March 2024.\n\nThe supplier is Anders Boats.\n",
    "bruun.md": "# Repair\n\n## Price\n\nThe harbour pays a fee of 4,500 euros a year.\n\n## Parties\n\nThe supplier is Bruun and Sons.\n",
    "odd #1.md": "# Odd\n\n## One\n\nThe harbour pays a fee of $90 a day.\n\n## Two\n\nThe supplier is Carl Quist.\n",
}
QUESTIONS = ["amount: What fee does the harbour pay?", "Who is the supplier?"]
SOON = 60.0  # seconds after which a test gives up


@pytest.fixture(scope="module")
def folder(tmp_path_factory, home):
    """An index of three short contracts."""
    folder = tmp_path_factory.mktemp("contracts")
    write_documents(folder, CONTRACTS)
    with Index.create(folder, extractor="phrases") as index:
        index.add(folder)
    return folder


@pytest.fixture(scope="module")
def server(folder):
    """A server with the reader, which tables need."""
    with served_here(folder, reads=True) as running:
        yield running


def events_of(client, kind, **body):
    """The events of a table that is made."""
    answer = client.post(f"/api/tables/{kind}", json=body)
    assert answer.status_code == 200, answer.text
    return events(answer)


def read_lines(answer):
    """The events of a stream, as they come."""
    return (json.loads(line) for line in answer.iter_lines() if line)


def made_table(client, kind, **body):
    *_, last = events_of(client, kind, **body)
    assert last["event"] == "done", last
    return last


@pytest.mark.parametrize("rows", mostly_ci(["document", "chapter"], "document"))
def test_a_review_is_streamed_and_its_quotes_lead_to_their_words(client, rows):
    """Begun, how far, done; a row names its document and section, and the document marks each quote at its characters."""
    first, *between, last = events_of(client, "review", questions=QUESTIONS, rows=rows)
    assert (first["event"], last["event"], last["stopped"]) == ("started", "done", False)
    assert {event["event"] for event in between} <= {"progress"}
    table = last["table"]
    assert table["questions"] == QUESTIONS
    assert [column["kind"] for column in table["columns"]] == ["text", "amount", "text"]
    assert {row["path"] for row in table["rows"]} == set(CONTRACTS)
    sections = {row["section"] for row in table["rows"]} - {""}
    assert sections == (set() if rows == "document" else {"Price", "Parties", "One", "Two"})
    assert table["citations"]
    for cited in table["citations"]:
        assert CONTRACTS[cited["path"]][cited["start"] : cited["end"]] == cited["quote"]
        mark = f"{cited['start']}-{cited['end']}"
        segments = client.get(f"/api/documents/{cited['document']}", params={"mark": mark}).json()["segments"]
        assert "".join(s["text"] for s in segments if s.get("mark")) == cited["quote"]
    assert all(client.get(f"/api/documents/{row['document']}").json()["path"] == row["path"] for row in table["rows"])


def test_the_plan_says_what_a_review_will_read(client):
    """Before it, all cells; after it, none."""
    asked = {"questions": ["Who pays what to whom?"], "filter": "path=a*"}
    plan = client.post("/api/tables/review/plan", json=asked).json()
    assert (plan["rows"], plan["cells"], plan["new_cells"]) == (1, 1, 1)
    assert plan["seconds"] > 0
    table = made_table(client, "review", **asked)["table"]
    assert [row["path"] for row in table["rows"]] == ["anders.txt"]
    assert client.post("/api/tables/review/plan", json=asked).json()["new_cells"] == 0


def test_a_cell_is_corrected_approved_and_opened_again(client):
    """The correction quotes the document where it stands there, and is in the table that is kept; opened again, the cell is not read."""
    made = made_table(client, "review", questions=QUESTIONS)
    cell = {"path": "anders.txt", "question": QUESTIONS[1]}

    def kept():
        table = client.get(f"/api/tables/{made['id']}").json()["table"]
        (row,) = [row for row in table["rows"] if row["path"] == "anders.txt"]
        return row["cells"][2]

    corrected = client.put("/api/review/cell", json=cell | {"text": " Anders Boats "}).json()["cell"]
    assert (corrected["text"], corrected["state"]) == ("Anders Boats", "corrected")
    assert corrected["citations"][0]["quote"] == "Anders Boats"
    assert corrected["citations"][0]["document"]
    assert (kept()["text"], kept()["state"]) == ("Anders Boats", "corrected")
    approved = client.put("/api/review/cell", json=cell | {"text": None}).json()["cell"]
    assert (approved["text"], approved["state"]) == ("Anders Boats", "approved")
    again = made_table(client, "review", questions=QUESTIONS)["table"]
    assert [row["cells"][2]["state"] for row in again["rows"] if row["path"] == "anders.txt"] == ["approved"]
    assert client.delete("/api/review/cell", params=cell).json()["cell"]["citations"] == []
    assert (kept()["text"], kept()["note"]) == ("", "Not read yet: the same review goes on.")
    assert client.post("/api/tables/review/plan", json={"questions": QUESTIONS}).json()["new_cells"] == 1


def test_a_section_is_decided_by_its_own_name(client):
    """Also of a file with a number sign in its name."""
    made_table(client, "review", questions=QUESTIONS, rows="chapter")
    cell = {"path": "odd #1.md", "section": "Two", "rows": "chapter", "question": QUESTIONS[1], "text": "Carl Quist"}
    assert client.put("/api/review/cell", json=cell).json()["cell"]["state"] == "corrected"
    table = made_table(client, "review", questions=QUESTIONS, rows="chapter")["table"]
    states = {(row["path"], row["section"]): row["cells"][2]["state"] for row in table["rows"]}
    assert states["odd #1.md", "Two"] == "corrected"
    assert "corrected" not in {state for place, state in states.items() if place != ("odd #1.md", "Two")}


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", "/api/tables/poem", {}, "no tables of kind"),
        ("POST", "/api/tables/review", {}, "`questions`"),
        ("POST", "/api/tables/review", {"questions": []}, "no question"),
        ("POST", "/api/tables/review", {"questions": ["Who?"], "rows": "page"}, "`rows`"),
        ("POST", "/api/tables/review", {"questions": ["Who?"], "filter": "pth=a"}, "no key"),
        ("POST", "/api/tables/review/plan", {"questions": ["Who?"], "filter": "path=nothing*"}, "No document matches"),
        ("POST", "/api/tables/timeline", {"limit": True}, "`limit`"),
        ("POST", "/api/tables/timeline", {"about": "x" * 10_001}, "`about`"),
        ("POST", "/api/tables/list", {"request": " "}, "`request`"),
        ("POST", "/api/tables/compare", {"first": "anders.txt"}, "`second`"),
        ("POST", "/api/tables/compare", {"first": "a", "second": "b", "include_same": "maybe"}, "`include_same`"),
        ("PUT", "/api/review/cell", {"path": "anders.txt"}, "question"),
        ("PUT", "/api/review/cell", {"path": "no.txt", "question": "Who?"}, "no document"),
        ("PUT", "/api/review/cell", {"path": "anders.txt", "question": "Never asked before?"}, "not read"),
        ("PUT", "/api/review/cell", {"path": "anders.txt", "question": "Who?", "text": "x" * 10_001}, "`text`"),
        ("DELETE", "/api/review/cell", None, "`path`"),
        ("DELETE", "/api/review/cell?path=no.txt&question=Who", None, "no document"),
    ],
)
def test_wrong_input_is_refused_in_words(client, method, path, body, said):
    """With status 400 and what is wrong."""
    answer = client.request(method, path, json=body)
    assert answer.status_code == 400, answer.text
    assert said in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/api/tables/nothing", "/api/tables/nothing/file.csv"])
def test_a_table_that_is_not_there_is_said(client, path):
    """Neither shown nor written; nothing is there to be stopped."""
    assert client.get(path).json()["error"]["code"] == "not_found"
    assert client.delete("/api/tables/nothing").status_code == 404


def test_a_format_that_is_not_there_is_refused(client):
    """In words."""
    made = made_table(client, "review", questions=QUESTIONS)
    answer = client.get(f"/api/tables/{made['id']}/file.exe")
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


def test_a_server_that_only_reads_decides_nothing(folder, tmp_path):
    """It makes tables all the same."""
    with served_here(shutil.copytree(folder, tmp_path / "contracts"), reads=True, read_only=True) as running, running.client() as client:
        cell = {"path": "anders.txt", "question": QUESTIONS[1]}
        assert made_table(client, "review", questions=QUESTIONS)["table"]["rows"]
        assert client.put("/api/review/cell", json=cell).status_code == 403
        assert client.delete("/api/review/cell", params=cell).status_code == 403


@pytest.mark.parametrize("suffix", ["csv", "xlsx", "docx", "md", "json"])
def test_a_table_is_downloaded_as_a_file(client, suffix):
    """To be saved, not shown; its text has the cells."""
    made = made_table(client, "review", questions=QUESTIONS)
    answer = client.get(f"/api/tables/{made['id']}/file.{suffix}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"] == f'attachment; filename="review.{suffix}"'
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-security-policy"] == "sandbox"
    if suffix in ("xlsx", "docx"):
        with zipfile.ZipFile(io.BytesIO(answer.content)) as package:
            text = "".join(package.read(name).decode() for name in package.namelist() if name.endswith(".xml"))
    else:
        text = answer.content.decode("utf-8-sig")
    assert "What fee does the harbour pay?" in text
    assert "bruun.md" in text


def test_two_documents_are_compared(client):
    """Passage by passage, each with its place; an unknown one is said in the stream, with its hint."""
    table = made_table(client, "compare", first="anders.txt", second="bruun.md")["table"]
    assert {cited["path"] for cited in table["citations"]} == {"anders.txt", "bruun.md"}
    assert all(CONTRACTS[c["path"]][c["start"] : c["end"]] == c["quote"] and c["document"] for c in table["citations"])
    *_, last = events_of(client, "compare", first="anders.txt", second="nowhere.txt")
    assert last["event"] == "error"
    assert "nowhere.txt" in last["error"]["message"]
    assert last["error"]["hint"]


# What is made here is told by the tests, so that they can stop it in the middle.


class MadeTables:
    """Makes tables of as many units of work as a test lets it: `units` of them, each after `go_on`."""

    def __init__(self, units=1000):
        self.units, self.made = units, []
        self.go_on, self.begun, self.stopped = (threading.Event() for _ in range(3))

    def __call__(self, request, _project, on_work, max_seconds=None):
        self.made.append((request, max_seconds))
        if max_seconds is None:
            for done in range(self.units):
                self.begun.set()
                self.go_on.wait(0.01)
                try:
                    on_work(done, self.units)
                except TableStopped:
                    self.stopped.set()
                    raise
        cited = Citation(0, "docs/a.md", 2, 11, "The ferry")
        row = TableRow((Cell(request.text), Cell("The ferry", (cited,))), "docs/a.md")
        return make_table(request.kind, request.text, [Column("What"), Column("Quote")], [row])


@pytest.fixture
def work(monkeypatch):
    made = MadeTables()
    monkeypatch.setattr(table_worker, "make_requested_table", made)
    return made


@pytest.fixture
def tables(own_town):
    """A worker that makes tables of the letters."""
    index = own_town / ".localrag"
    made = TableWorker(QueryWorker(index, lambda: open_for_query(index)))
    yield made
    made.close()


def listing(text="ships"):
    return TableRequest("list", text)


def ended(task):
    """The table of a task at its end."""
    assert task.has_ended.wait(SOON)
    return task.result()


@pytest.mark.ci
def test_a_stopped_table_ends_after_its_unit_of_work_and_a_waiting_one_at_once(tables, work):
    """Both say so."""
    first, second = tables.start(listing("ships")), tables.start(listing("crews"))
    assert work.begun.wait(SOON)
    assert (tables.n_before(first), tables.n_before(second)) == (0, 1)
    tables.stop(second)
    assert second.has_ended.is_set()
    tables.stop(first)
    for task in (first, second):
        with pytest.raises(TableStopped):
            ended(task)
    assert [request.text for request, _ in work.made] == ["ships"]


def test_no_more_tables_wait_than_can_be_made_soon(tables, work):
    """Further ones are refused; places are free again when tables end."""
    tasks = [tables.start(listing(str(n))) for n in range(MAX_PENDING_TABLES)]
    with pytest.raises(ServerBusy):
        tables.start(listing("one more"))
    tables.stop(tasks[-1])
    tables.start(listing("one more"))


@pytest.mark.parametrize(("cells", "kept"), [(None, MAX_KEPT_TABLES), (3, 1)])
def test_only_the_last_tables_are_kept(tables, work, monkeypatch, cells, kept):
    """By number, and by their cells; the newest always."""
    if cells:
        monkeypatch.setattr(table_worker, "MAX_KEPT_CELLS", cells)
    work.units = 0
    tasks = []
    for n in range(MAX_KEPT_TABLES + 2):
        tasks.append(tables.start(listing(str(n))))
        ended(tasks[-1])
    assert [task for task in tasks if tables.find(task.id)] == tasks[-kept:]


def test_the_same_table_is_made_once_while_the_index_stays(tables, work, own_town):
    """While it is made and after; a changed index gets a new one, a stopped one is nobody's, and a review is always read again."""
    running = tables.start(listing())
    assert tables.find_same(listing()) is running
    assert tables.find_same(TableRequest("list", "ships", selection=DocumentFilter("path=a*"))) is None
    work.go_on.set()
    work.units = 0
    ended(running)
    assert tables.find_same(listing()) is running
    assert tables.is_current(running)
    (own_town / "docs" / "d.txt").write_text("The Tern sank.\n", encoding="utf-8")
    with Index.open(own_town) as index:
        index.add(own_town / "docs")
    assert tables.find_same(listing()) is None
    assert not tables.is_current(running)
    review = tables.start(TableRequest("review", questions=("Who?",)))
    assert tables.find_same(review.request) is None


def test_questions_go_first(tables, work, monkeypatch):
    """While one is answered, no unit of work is begun; then it goes on."""
    monkeypatch.setattr(table_worker, "MAX_PAUSE_S", SOON)
    tables.questions._pending[True] = 1
    work.go_on.set()
    work.units = 3
    task = tables.start(listing())
    assert work.begun.wait(SOON)
    assert not task.has_ended.wait(0.3)
    assert task.progress == (0, 3)
    tables.questions._pending[True] = 0
    assert ended(task)


def test_closing_ends_what_is_made_and_what_waits(tables, work):
    """And waits for the thread."""
    tasks = [tables.start(listing(str(n))) for n in range(3)]
    assert work.begun.wait(SOON)
    tables.close()
    assert all(task.has_ended.is_set() for task in tasks)


def test_a_client_that_goes_stops_its_table(server, client, work):
    """And the next one is made."""
    with client.stream("POST", "/api/tables/list", json={"request": "ships"}) as answer:
        lines = read_lines(answer)  # held, since the connection ends with it
        assert next(lines)["event"] == "started"
        assert work.begun.wait(SOON)
    assert work.stopped.wait(SOON)
    work.units = 0
    assert made_table(client, "list", request="crews")["table"]["title"] == "crews"


def test_a_table_is_stopped_by_its_id(client, work):
    """The stream ends, and has no table; a review has one."""
    with client.stream("POST", "/api/tables/list", json={"request": "ships"}) as answer:
        lines = read_lines(answer)
        begun = next(lines)
        assert client.delete(f"/api/tables/{begun['id']}").json() == {"stopped": True}
        *_, last = lines
    assert last == {"event": "done", "id": begun["id"], "table": None, "stopped": True}


def test_how_far_a_table_is_and_how_many_are_before_it_is_told(client, work):
    """As units done, in all, and tables that are made first."""
    with client.stream("POST", "/api/tables/list", json={"request": "hulls"}) as first:
        told = read_lines(first)
        shown = next(e for e in told if e["event"] == "progress" and e["done"])
        assert (shown["total"], shown["waiting"]) == (1000, 0)
        with client.stream("POST", "/api/tables/list", json={"request": "masts"}) as second:
            waiting = read_lines(second)
            assert next(waiting)["event"] == "started"
            assert next(waiting) == {"event": "progress", "done": 0, "total": 0, "waiting": 1}


def test_what_is_unexpected_says_nothing_of_the_documents(client, monkeypatch):
    """Only where it happened; the next table is made."""

    def broken(request, *_, **__):
        if request.text == "bad":
            raise RuntimeError("secret words of a document")
        return MadeTables(0)(request, None, None)

    monkeypatch.setattr(table_worker, "make_requested_table", broken)
    *_, last = events_of(client, "list", request="bad")
    assert last["event"] == "error"
    assert "RuntimeError" in last["error"]["message"]
    assert "secret" not in json.dumps(last)
    assert made_table(client, "list", request="good")["table"]["title"] == "good"


def test_a_table_larger_than_the_page_shows_is_cut(client, work, monkeypatch):
    """It says how many rows there are; its files have all."""
    from localrag.serve import tables as routes

    def made(request, *_, **__):
        rows = [TableRow((Cell(str(n)), Cell("x"))) for n in range(50)]
        return make_table(request.kind, "many", [Column("a"), Column("b")], rows)

    monkeypatch.setattr(routes, "MAX_SHOWN_CELLS", 20)
    monkeypatch.setattr(table_worker, "make_requested_table", made)
    table = made_table(client, "list", request="many things")["table"]
    assert (len(table["rows"]), table["total_rows"]) == (10, 50)
