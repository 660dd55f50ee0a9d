"""Files within files: each is a document of its own, found below the file that it is in, and follows that file."""

import asyncio
import io
import mailbox
import warnings
import zipfile
from email.message import EmailMessage

import pytest

from localrag.engine.settings import EngineOptions
from localrag.exchange.pack import pack_index
from localrag.indexing.documents import DeletionPolicy
from localrag.indexing.pipeline import build_index
from localrag.loaders.containers import safe_name, split_text
from localrag.loaders.content import InnerDocument
from localrag.loaders.reader import _inner_documents, load_files
from localrag.project import open_for_writing
from localrag.records import DocumentPart
from tests.conftest import run_localrag
from tests.indexing.runs import rows

pytestmark = pytest.mark.usefixtures("hashed_module")
BRIDGE, SHIPS = "archive.mbox/2019-03-02 Re: bridge", "archive.mbox/2019-03-02 Re: bridge/ships.csv"
MILL = "archive.mbox/2019-03-04 Mill"


def message(subject, text, day=2, **files):
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = "Ruth Sand <ruth@vardby.example>", "lars@vardby.example", subject
    made["Date"] = f"Sat, 0{day} Mar 2019 10:00:00 +0000"
    made.set_content(text)
    for name, data in files.items():
        made.add_attachment(data.encode(), maintype="text", subtype="csv", filename=f"{name}.csv")
    return made


def write_mailbox(path, *messages):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    box = mailbox.mbox(path)
    for one in messages:
        box.add(one)
    box.close()


TWO = (message("Re: bridge", "The bridge is closed.", ships="name,port\nSkua,Vardby\n"), message("Mill", "The mill burnt down.", day=4))


def index(folder, **options):
    with open_for_writing(folder / ".localrag", extractor="phrases", engine=EngineOptions()) as project:
        deletion = DeletionPolicy(prune=True)
        paths = [folder / "docs"]
        return asyncio.run(build_index(paths, project, lambda _: None, deletion=deletion, **options)).documents


def documents(folder):
    return {path.removeprefix("docs/"): text for path, text in rows(folder, "SELECT path, text FROM documents")}


@pytest.fixture
def archive(tmp_path):
    write_mailbox(tmp_path / "docs" / "archive.mbox", *TWO)
    (tmp_path / "docs" / "note.txt").write_text("Lars Holm is the mate of the Skua.")
    index(tmp_path)
    return tmp_path


def test_messages_and_their_attachments_are_documents(archive):
    """Each has its own text, title and date below the path of its file, which lists them; an attachment is as old as its mail."""
    found = documents(archive)

    assert list(found) == [*sorted(["archive.mbox", BRIDGE, SHIPS, MILL]), "note.txt"]
    assert found["archive.mbox"] == "# 2019-03-02 Re: bridge\n\n# 2019-03-04 Mill"
    assert found[SHIPS] == "name: Skua · port: Vardby"
    assert found[BRIDGE].endswith("The bridge is closed.\n\nAttachments: ships.csv")
    dated = rows(archive, "SELECT title, date FROM documents WHERE path LIKE 'docs/archive.mbox/%' ORDER BY path")
    assert dated == [("Re: bridge", "2019-03-02"), ("ships", "2019-03-02"), ("Mill", "2019-03-04")]


def test_an_edit_of_the_file_costs_what_it_changes(archive):
    """A message that is new or gone is one document more or less; the others keep their chunks, and the next run has nothing to do."""
    chunks = dict(rows(archive, "SELECT text, id FROM chunks"))
    write_mailbox(archive / "docs" / "archive.mbox", TWO[0], message("Tower", "The tower is sold.", day=5))

    changed = index(archive)

    assert {p.removeprefix("docs/") for p in (*changed.new, *changed.changed)} == {"archive.mbox", "archive.mbox/2019-03-05 Tower"}
    assert changed.deleted == (f"docs/{MILL}",)
    assert MILL not in documents(archive)
    assert dict(rows(archive, "SELECT text, id FROM chunks"))[documents(archive)[SHIPS]] == chunks[documents(archive)[SHIPS]]
    assert index(archive).n_changed == 0


def test_they_move_and_go_with_their_file(archive):
    """A mailbox that is renamed takes its messages along, without being read; one that is deleted takes them away."""
    ids = dict(rows(archive, "SELECT text, id FROM documents"))
    (archive / "docs" / "archive.mbox").rename(archive / "docs" / "old.mbox")

    moved = index(archive)

    assert (len(moved.moved), moved.new, moved.deleted) == (4, (), ())
    assert documents(archive).keys() == {name.replace("archive.mbox", "old.mbox") for name in (BRIDGE, SHIPS, MILL, "archive.mbox")} | {
        "note.txt"
    }
    assert dict(rows(archive, "SELECT text, id FROM documents")) == ids

    (archive / "docs" / "old.mbox").unlink()
    assert len(index(archive).deleted) == 4
    assert documents(archive).keys() == {"note.txt"}


def test_a_deleted_mailbox_is_no_missing_folder(archive):
    """Its messages go with it; they are not kept as the documents of an unmounted drive are."""
    (archive / "docs" / "archive.mbox").unlink()
    with open_for_writing(archive / ".localrag", extractor="phrases", engine=EngineOptions()) as project:
        policy = DeletionPolicy(confirm=lambda *_: True)
        gone = asyncio.run(build_index([archive / "docs"], project, lambda _: None, deletion=policy)).documents

    assert (len(gone.deleted), gone.unreachable) == (4, ())


def test_the_file_is_removed_found_and_collected_with_what_is_in_it(archive):
    """`rm` of a mailbox, a filter by its path, and a collection concern its messages; a pack has the file once and misses nothing."""
    index(archive, collections=["letters"])
    in_collection = rows(archive, "SELECT path FROM collection_documents WHERE name = 'letters'")
    assert {path for (path,) in in_collection} >= {f"docs/{name}" for name in ("archive.mbox", BRIDGE, SHIPS, MILL)}
    found = run_localrag("search", "mill burnt", "--filter", "path=archive.mbox", "--json", cwd=archive)
    assert MILL in found.stdout, found.stderr
    packed = pack_index(archive / "index.localrag", archive / ".localrag", documents=True)
    assert packed.skipped_files == ()

    removed = run_localrag("rm", "docs/archive.mbox", "--yes", cwd=archive)

    assert removed.returncode == 0, removed.stderr
    assert documents(archive).keys() == {"note.txt"}


@pytest.mark.ci
def test_an_answer_names_the_place_of_an_attachment_once(archive):
    """Mailbox, message and file; a title that the path says already is not repeated."""
    asked = run_localrag("ask", "In which port is the Skua?", cwd=archive)

    assert "**docs/archive.mbox › 2019-03-02 Re: bridge › ships.csv**" in asked.stdout, asked.stderr
    assert "**docs/archive.mbox › 2019-03-04 Mill**" in asked.stdout


def test_a_name_within_a_file_leads_nowhere_else():
    """Names come from strangers: none leaves the folder of its file, and two that are equal get different paths."""
    assert safe_name("../../etc/passwd") == "etc/passwd"
    assert safe_name("/a//b\x00c") == "a/b c"
    assert (safe_name("..\\.."), safe_name(""), safe_name("..")) == (".. ..", "unnamed", "unnamed")
    inner = [InnerDocument("a", 0, 0, 4), InnerDocument("a/b", 2, 2, 4), InnerDocument("a", 5, 5, 9), InnerDocument("a/b", 7, 7, 9)]

    names = [part.name for part in split_text("one!/two?", [], [], inner)]

    assert names == ["", "a", "a/b", "a (2)", "a (2)/b"]


@pytest.mark.parametrize(
    "names",
    [
        ["a.txt", "a.txt", "a.txt (2)"],
        ["a.txt (2)", "a.txt", "a.txt"],
        ["a.txt (2)", "a.txt", "a.txt", "a.txt (2)", "a.txt (2) (2)", "a.txt (3)"],
        ["x/a.txt", "x/a.txt", "x/a.txt (2)"],
        ["a.txt", "./a.txt", "../a.txt", "/a.txt", "a.txt (2)", "a\x00.txt", "a .txt"],
        [f"{'n' * 150}{i}.txt" for i in range(3)] + [f"{'n' * 120} (2)"],
    ],
)
def test_no_file_within_a_file_is_lost_whatever_the_names(names, tmp_path):
    """Also where one is called as another one's number makes it, in mails, mailboxes and archives; each text has a path of its own."""
    texts = [f"Text number {n} of the harbour." for n in range(len(names))]
    mail, packed = (message(subject, "See below.") for subject in ("Papers", "Archive"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, text in zip(names, texts, strict=True):
            mail.add_attachment(text.encode(), maintype="text", subtype="plain", filename=name)
            archive.writestr(name.replace("\x00", ""), text)
    packed.add_attachment(buffer.getvalue(), maintype="application", subtype="zip", filename="c.zip")
    (tmp_path / "mail.eml").write_bytes(mail.as_bytes())
    (tmp_path / "packed.eml").write_bytes(packed.as_bytes())
    write_mailbox(tmp_path / "box.mbox", mail, mail)
    for file, times in (("mail.eml", 1), ("packed.eml", 1), ("box.mbox", 2)):
        read = list(load_files([tmp_path / file], tmp_path))
        assert len({document.path for document in read}) == len(read)
        assert sorted(d.text for d in read if d.text.startswith("Text number")) == sorted(texts * times)


def test_every_file_within_a_file_that_is_not_read_is_listed(tmp_path):
    """Also two of one name, with the reason of each."""
    mail = message("Papers", "See below.")
    for data in (b"MZ\0\1" * 99, b"MZ\0\2" * 99):
        mail.add_attachment(data, maintype="application", subtype="octet-stream", filename="run.exe")
    mail.add_attachment(b"no zip", maintype="application", subtype="zip", filename="a.zip")
    mail.add_attachment(b"nor this", maintype="application", subtype="zip", filename="a.zip")
    (tmp_path / "mail.eml").write_bytes(mail.as_bytes())
    (read,) = load_files([tmp_path / "mail.eml"], tmp_path)
    listed = dict(read.metadata)["not read"]
    assert (listed.count("run.exe"), listed.count("a.zip")) == (2, 2)


def test_every_character_is_in_one_document():
    """The text of a file without what is in it, and each of these without the next; parts that are whole in one go with it."""
    text = "Cover.\n\n# a.txt\n\nAlpha beta.\n\nEnd."
    start = text.index("Alpha")
    inner = [InnerDocument("a.txt", text.index("#"), start, start + len("Alpha beta."))]
    parts = [
        DocumentPart("page 1", 0, 6),
        DocumentPart("attachment a.txt", text.index("#"), start + 11),
        DocumentPart("page 2", text.index("End"), len(text)),
    ]

    whole, attached = split_text(text, parts, [], inner)

    assert (whole.text, attached.text) == ("Cover.\n\nEnd.", "Alpha beta.")
    assert [(p.label, whole.text[p.start : p.end]) for p in whole.parts] == [("page 1", "Cover."), ("page 2", "End.")]
    assert attached.parts == ()


@pytest.mark.parametrize(
    "rows",
    [
        [{"cut": 0, "start": 0, "end": 4}] * 50,
        [{"cut": 0, "start": 0, "end": 3}, {"cut": 2, "start": 2, "end": 4}],
        [{"cut": 0, "start": 0, "end": 99}],
        [{"cut": 3, "start": 1, "end": 4}],
        [{}],
    ],
    ids=["deep", "crossing", "beyond the text", "backwards", "without places"],
)
def test_places_that_no_parser_sends_are_ignored(rows):
    """A hostile file may control the parser process: its documents must nest, a few deep, or the file is one document."""
    named = [{"name": "a", "title": "", "metadata": []} | row for row in rows]

    assert _inner_documents(named, "text") == []
    assert len(_inner_documents([{"name": "a", "title": "", "metadata": [], "cut": 0, "start": 0, "end": 4}], "text")) == 1
