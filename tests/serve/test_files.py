"""Files that come in and those that are looked at: under a plain name, whole or not at all; a PDF's words where they stand."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pypdfium2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from localrag.errors import UsageError
from localrag.serve import runs
from localrag.serve.app import make_app
from localrag.serve.auth import AccessPolicy
from localrag.serve.context import FileUnavailable, IndexProcess, ServerContext
from localrag.serve.files import MAX_NAME_BYTES, MIN_FREE_BYTES, PageRenderer, _file, uploaded_name, validate_name
from localrag.serve.query_worker import QueryWorker
from localrag.store.database import snapshot
from localrag.store.opening import open_index, writer_lock
from localrag.system.trust import delete_written_file
from tests.conftest import TOWN, until
from tests.indexing.files import pdf, pdf_of
from tests.serve.server import document_of, served

LINES = ["The ferry Skua was built in 1974.", "Ruth Sand bought it in the spring", "of the year after."]


@pytest.fixture(scope="module")
def folder(indexed):
    """An index of letters and a PDF."""
    labels = b"/Pages 2 0 R /PageLabels << /Nums [0 << /S /r /St 4 >>] >> >>"
    return indexed(TOWN | {"ferry.pdf": pdf(LINES).replace(b"/Pages 2 0 R >>", labels, 1)}, "--extractor", "phrases")


@pytest.fixture(scope="module")
def pages():
    """The process that reads PDFs."""
    made = PageRenderer()
    yield made
    made.close()


def head_of(server, name, length):
    """The head of a request that sends a file."""
    host = server.address.removeprefix("http://")
    lines = [f"PUT /api/files/{name} HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {server.key}", f"Content-Length: {length}"]
    return "\r\n".join([*lines, "", ""]).encode()


def under(file, page, boxes):
    """The letters of a page whose middle lies in a box of the picture."""
    shown = pypdfium2.PdfDocument(file)[page]
    assert shown.get_rotation() == 0
    width, height = shown.get_size()
    text = shown.get_textpage()
    found = ""
    for i in range(text.count_chars()):
        left, bottom, right, top = text.get_charbox(i)
        x, y = (left + right) / 2 / width, 1 - (bottom + top) / 2 / height
        found += text.get_text_range(i, 1) if any(a <= x <= c and b <= y <= d for a, b, c, d in boxes) else ""
    return found


def test_a_file_that_is_sent_lies_whole_in_the_inbox(client, folder):
    """The name may be of any script; a second file of the name is refused, and nothing is left of the sending."""
    sent = client.put("/api/files/%E6%B8%A1%E8%BD%AE%20%F0%9F%98%80.txt", content=b"The ferry.")
    assert (sent.status_code, sent.json()) == (201, {"name": "渡轮 😀.txt", "bytes": 10})
    assert (folder / "inbox" / "渡轮 😀.txt").read_text() == "The ferry."
    again = client.put("/api/files/%E6%B8%A1%E8%BD%AE%20%F0%9F%98%80.txt", content=b"Other.")
    assert again.status_code == 409
    assert (folder / "inbox" / "渡轮 😀.txt").read_text() == "The ferry."
    assert not list((folder / "inbox").glob("*.part"))


@pytest.mark.parametrize(
    "name",
    [
        "Bericht: 2024.txt",
        "\"quoted\" 'twice'.txt",
        "a<b>|c*.txt",
        "a%2fb.txt",
        "--index.md",
        *["thesis.part", "dot at the end.", "👨\u200d👩\u200d👧.txt", "می\u200cخواهم.txt", "é" * 125 + ".txt", "x" * 251 + ".txt"],
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="its file systems do not hold them")
def test_a_name_that_the_disk_can_hold_is_taken(client, folder, name):
    """Signs that only other systems forbid, joined letters, and as many bytes as a name may have."""
    sent = client.put(f"/api/files/{quote(name, safe='')}", content=b"text")
    assert (sent.status_code, sent.json()) == (201, {"name": name, "bytes": 4})
    assert (folder / "inbox" / name).read_text() == "text"
    (folder / "inbox" / name).unlink()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a/b.txt", "a /, which separates folders"),
        ("..\\b.txt", "which separates folders"),
        ("a\0.txt", "U+0000"),
        ("\u202eexe.txt", "U+202E"),
        (".bashrc", "hidden files"),
        ("", "blank"),
        ("Index.db", "uses this name itself"),
        ("localrag.toml", "uses this name itself"),
        ("COM1.txt", "a device on Windows"),
        ("é" * 126 + ".txt", "256 bytes, and a name may have 255"),
    ],
)
def test_a_name_that_is_refused_is_told_why_and_what_helps(name, reason):
    """The sign or the rule, and that another name helps."""
    with pytest.raises(ValueError, match="Rename the file, and send it again") as refused:
        validate_name(name)
    assert reason in str(refused.value)


def client_of(folder, inbox, **more):
    """A client of a server whose inbox is a folder of a test."""
    site = ServerContext(folder, folder, QueryWorker(folder, None), IndexProcess(folder), inbox, **more)
    headers = {"host": "127.0.0.1:8765", "authorization": f"Bearer {'k' * 32}"}
    return TestClient(make_app(site, AccessPolicy("k" * 32)), headers=headers)


@pytest.fixture
def client_here(tmp_path):
    """Such a client, and its inbox."""
    with client_of(tmp_path, tmp_path / "inbox") as client:
        yield client, tmp_path / "inbox"


def test_a_link_in_the_inbox_is_neither_followed_nor_replaced(client_here, tmp_path):
    """One with the name of the file that is sent, wherever it leads."""
    client, inbox = client_here
    inbox.mkdir()
    (inbox / "a.txt").symlink_to(tmp_path / "nowhere")
    assert client.put("/api/files/a.txt", content=b"text").status_code == 409
    assert not (tmp_path / "nowhere").exists()
    assert (inbox / "a.txt").is_symlink()


NAMES = "..%2F..%2Fevil.txt %2e%2e/evil.txt a%5Cb.txt .bashrc nul.txt a%00.txt %20 x%2F index.db Writer.LOCK".split()


@pytest.mark.parametrize("name", [*NAMES, "%E2%80%AEa.txt"])
def test_no_name_leads_out_of_the_inbox(client, folder, name):
    """Folders, hidden files, devices of another system and unseen signs are refused in words."""
    before = sorted(p for p in folder.rglob("*") if ".localrag" not in p.parts)
    refused = client.put(f"/api/files/{name}", content=b"text")
    assert refused.status_code in (400, 404)
    assert refused.json()["error"]["message"]
    assert sorted(p for p in folder.rglob("*") if ".localrag" not in p.parts) == before


@settings(max_examples=500, deadline=None)
@given(st.text(max_size=300))
def test_whatever_is_sent_is_one_name_in_the_folder_or_refused(sent):
    """An accepted name stays what it is when it is joined to a folder."""
    try:
        name = validate_name(sent)
    except ValueError:
        return
    assert Path(os.path.normpath(Path("/inbox") / name)).parent == Path("/inbox")
    assert len(name.encode()) <= MAX_NAME_BYTES
    assert validate_name(name) == name


def test_a_file_that_is_too_large_is_refused_before_it_is_sent_and_while_it_comes(tmp_path):
    """By its length where it is said, else when the bytes have come; nothing of it stays."""
    with client_of(tmp_path, tmp_path / "inbox", most_bytes=1000) as client:
        said = client.put("/api/files/large.txt", content=b"a" * 1_001)
        unsaid = client.put("/api/files/large.txt", content=(b"a" * 100 for _ in range(20)))
    assert (said.status_code, unsaid.status_code) == (413, 413)
    assert "1,000 bytes" in said.json()["error"]["message"]
    assert not list((tmp_path / "inbox").glob("*"))


def test_uploads_leave_the_reserve_of_the_disk(client_here, monkeypatch):
    """By the length that is said, and by the bytes that come; nothing of a refused one stays."""
    client, inbox = client_here

    def disk(_folder):
        return SimpleNamespace(free=MIN_FREE_BYTES + 1000 - sum(f.stat().st_size for f in inbox.iterdir()))

    monkeypatch.setattr("localrag.serve.files.shutil.disk_usage", disk)
    assert client.put("/api/files/a.txt", content=b"a" * 700).status_code == 201
    assert client.put("/api/files/b.txt", content=b"b" * 400).status_code == 507
    assert client.put("/api/files/c.txt", content=(b"c" * 100 for _ in range(5))).status_code == 507
    assert client.put("/api/files/d.txt", content=b"d" * 200).status_code == 201
    assert sorted(f.name for f in inbox.iterdir()) == ["a.txt", "d.txt"]


def test_a_gigabyte_is_refused_at_its_head(server, folder):
    """The answer comes before the body."""
    host, port = server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as link:
        link.sendall(head_of(server, "big.txt", 1 << 30))
        assert b" 413 " in link.recv(1000)
    assert not list((folder / "inbox").glob("big*"))


def test_a_file_that_breaks_off_leaves_nothing(server, folder):
    """Half a file is none, and its name is free again."""
    host, port = server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as link:
        link.sendall(head_of(server, "half.txt", 1000) + b"half")
    with server.client() as client:
        until(lambda: not list((folder / "inbox").glob("half*")))
        assert client.put("/api/files/half.txt", content=b"whole").status_code == 201


def test_what_is_no_text_and_no_known_format_is_refused(client):
    """By its first bytes; a format that is read is taken by its name."""
    assert client.put("/api/files/a.exe", content=b"MZ\x00\x01\x02\x00").status_code == 415
    assert client.put("/api/files/a.pdf", content=pdf(["A line."])).status_code == 201


def test_a_server_deletes_only_uploads_that_a_killed_server_left(tmp_path):
    """The inbox may be a folder of the user, where other programs keep unfinished downloads and where links lead elsewhere."""
    theirs = ["thesis.iso.part", "chapter1.part", "b.txt", "a.localrag-1.part", "localrag-1-ab.part", "x.localrag-99999999-ab.part.txt"]
    theirs.append(f"x.localrag-{'9' * 40}-ab.part")
    for name in theirs:
        (tmp_path / name).write_text("mine")
    (tmp_path / "link.localrag-99999999-abcd.part").symlink_to(tmp_path / "b.txt")
    os.mkfifo(tmp_path / "pipe.localrag-99999998-abcd.part")
    process = subprocess.Popen([sys.executable, "-c", UNFINISHED, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout.readline()
    process.kill()
    process.wait()
    assert len(list(tmp_path.glob("half.txt*.part"))) == 1
    with client_of(tmp_path, tmp_path):
        assert not list(tmp_path.glob("half.txt*"))
    assert {name: (tmp_path / name).read_text() for name in theirs} == dict.fromkeys(theirs, "mine")
    assert (tmp_path / "link.localrag-99999999-abcd.part").is_symlink()


UNFINISHED = """
import sys, time
from pathlib import Path
from localrag.system.files import open_part_file
part, file = open_part_file(Path(sys.argv[1]) / "half.txt")
print(part, flush=True)
time.sleep(60)
"""


def test_only_a_file_that_was_sent_goes_with_its_document(client_here, tmp_path):
    """Not one that lay in the inbox before, nor one that somebody changed since, nor a link that took its place."""
    client, inbox = client_here
    for name in ("sent.txt", "changed.txt", "linked.txt"):
        assert client.put(f"/api/files/{name}", content=b"text").status_code == 201
    (inbox / "mine.txt").write_text("text")
    (inbox / "changed.txt").write_text("text of mine")
    (inbox / "linked.txt").rename(tmp_path / "elsewhere.txt")
    (inbox / "linked.txt").symlink_to(tmp_path / "elsewhere.txt")
    found = [uploaded_name(f"inbox/{name}", tmp_path, inbox) for name in ("sent.txt", "mine.txt", "changed.txt", "linked.txt")]
    assert found == ["sent.txt", "", "", ""]
    delete_written_file(inbox, "sent.txt")
    delete_written_file(inbox, "mine.txt")
    assert sorted(p.name for p in inbox.iterdir()) == ["changed.txt", "linked.txt", "mine.txt"]


@pytest.mark.slow
@pytest.mark.ci
def test_a_document_that_was_dragged_in_goes_with_its_file(folder, home):
    """Once the index has dropped it, which fails while another program writes; one that lies elsewhere is only forgotten."""
    with served(folder) as server, server.client() as client:
        client.put("/api/files/note.txt", content=b"The harbour of Vardby has two piers.")
        client.post("/api/index", json={})
        ended(client)
        with writer_lock(folder / ".localrag"):
            client.delete(f"/api/documents/{document_of(client, 'inbox/note.txt')[0]}")
            ended(client)
            assert client.get("/api/status").json()["run"]["state"] == "failed"
        assert (folder / "inbox" / "note.txt").exists()
        for path, file in (("inbox/note.txt", "removed"), ("docs/b.txt", "kept")):
            removed = client.delete(f"/api/documents/{document_of(client, path)[0]}")
            assert removed.json() == {"started": True, "file": file}
            ended(client)
    assert not (folder / "inbox" / "note.txt").exists()
    assert (folder / "docs" / "b.txt").exists()


def ended(client):
    """Wait until no run goes on."""
    until(lambda: not client.get("/api/status").json()["run"]["ours"])


def test_a_pages_picture_is_a_png_of_the_width_that_is_asked_for(client):
    """A page that is not there is said so."""
    key = document_of(client, "ferry.pdf")[0]
    found = client.get(f"/api/documents/{key}/pages/1.png", params={"width": 300})
    assert found.headers["content-type"] == "image/png"
    assert int.from_bytes(found.content[16:20], "big") == 300
    missing = client.get(f"/api/documents/{key}/pages/9.png")
    assert missing.status_code == 410
    assert missing.json()["error"]["message"] == "ferry.pdf cannot be shown: it has no page 9"


def test_a_page_with_a_printed_number_of_its_own_is_found(client):
    """It is page iv, and the first of the file."""
    key, text = document_of(client, "ferry.pdf")
    place = {"start": text.index("Ruth"), "end": text.index("Ruth") + 9}
    [page] = client.get(f"/api/documents/{key}/boxes", params=place).json()["pages"]
    assert page["n"] == 1
    assert page["boxes"]


def test_a_document_without_pages_has_no_boxes(client):
    """It is said, not guessed."""
    refused = client.get(f"/api/documents/{document_of(client, 'c.txt')[0]}/boxes", params={"start": 0, "end": 5})
    assert refused.status_code == 404
    assert "no pages" in refused.json()["error"]["message"]


def test_the_original_is_saved_and_never_shown(client, folder):
    """A browser saves it under its name, whatever it holds."""
    found = client.get(f"/api/documents/{document_of(client, 'ferry.pdf')[0]}/original")
    assert found.content == (folder / "docs" / "ferry.pdf").read_bytes()
    assert found.headers["content-disposition"].startswith("attachment")
    assert found.headers["content-type"] == "application/octet-stream"


def test_a_file_that_is_gone_is_said_so(client, folder):
    """The text stays askable; the picture cannot be made."""
    key = document_of(client, "ferry.pdf")[0]
    file = folder / "docs" / "ferry.pdf"
    file.rename(folder / "aside.pdf")
    try:
        refused = [client.get(f"/api/documents/{key}/{what}") for what in ("pages/1.png", "original", "boxes?start=0&end=9")]
    finally:
        (folder / "aside.pdf").rename(file)
    assert [r.status_code for r in refused] == [410, 410, 410]
    assert all("ferry.pdf" in r.json()["error"]["message"] for r in refused)


@pytest.mark.parametrize(
    ("lines", "quote"),
    [
        (["One line of words stands here.", "Another one."], "words stands"),
        (["The ferry crosses the har-", "bour twice a day."], "the harbour twice"),
        (["Name  Ruth Sand      1974", "x"], "Ruth Sand · 1974"),
    ],
)
def test_words_are_found_over_hyphens_and_cells(pages, tmp_path, lines, quote):
    """The text that was read out differs from the page by what joins its lines and cells."""
    file = tmp_path / "a.pdf"
    file.write_bytes(pdf(lines))
    [page] = asyncio.run(pages.find_boxes(file, [1], quote, 0.5))
    assert "".join(c for c in under(file, 0, page["boxes"]) if c.isalnum()) == "".join(c for c in quote if c.isalnum())


ACCENTS = r"BT /F1 12 Tf 50 700 Td [(The br) (\250) 600 (ucke of K) (\250) 600 (oln is old.)] TJ ET"


@pytest.mark.parametrize(
    ("data", "quote", "found"),
    [
        (pdf(["Fill in the form before the", "first of March, by noon."]),
         "the form (https://ness.example/form-1) before ~~the first~~ of ==March==,",
         "theformbeforethefirstofMarch"),
        (pdf_of([ACCENTS]), "brücke of Köln is", "brucke of Koln is"),
    ],
)  # fmt: skip
def test_what_only_the_text_has_is_no_hindrance(pages, tmp_path, data, quote, found):
    """Addresses of links, signs of marks, accents within their letters."""
    file = tmp_path / "a.pdf"
    file.write_bytes(data)
    [page] = asyncio.run(pages.find_boxes(file, [1], quote, 0.1))
    assert "".join(c for c in under(file, 0, page["boxes"]) if c.isalnum()) == found.replace(" ", "")


def test_of_two_places_the_nearer_is_boxed(pages, tmp_path):
    """`before` tells how much of the text comes first."""
    file = tmp_path / "a.pdf"
    file.write_bytes(pdf(["The tide turns.", *["Other words stand here."] * 5, "The tide turns."]))
    tops = [asyncio.run(pages.find_boxes(file, [1], "The tide turns.", before))[0]["boxes"][0][1] for before in (0.0, 0.95)]
    assert tops[0] < tops[1]


def test_a_turned_page_is_boxed_as_it_is_seen(pages, tmp_path):
    """The line runs down the picture."""
    file = tmp_path / "a.pdf"
    file.write_bytes(pdf(["The ferry crosses twice."]).replace(b"/MediaBox", b"/Rotate 90 /MediaBox"))
    [[left, top, right, bottom]] = asyncio.run(pages.find_boxes(file, [1], "ferry crosses", 0.1))[0]["boxes"]
    assert bottom - top > 3 * (right - left)


def test_words_that_are_not_there_have_no_box(pages, tmp_path):
    """A mark in a wrong place would be a false proof."""
    file = tmp_path / "a.pdf"
    file.write_bytes(pdf(["The ferry crosses twice."]))
    assert asyncio.run(pages.find_boxes(file, [1], "Nothing of this is written anywhere.", 0.5))[0]["boxes"] == []


def test_a_file_that_takes_the_reader_down_is_an_error_in_words(pages, tmp_path):
    """The next file is read by a new process."""
    broken, good = tmp_path / "broken.pdf", tmp_path / "good.pdf"
    broken.write_bytes(b"%PDF-1.4\n" + b"\x00" * 1000)
    good.write_bytes(pdf_of(["BT /F1 12 Tf 50 700 Td (Words) Tj ET"]))
    with pytest.raises(FileUnavailable, match=r"broken\.pdf cannot be shown"):
        asyncio.run(pages.picture(broken, 1, 200))
    assert asyncio.run(pages.picture(good, 1, 200)).startswith(b"\x89PNG")


def test_an_index_from_elsewhere_names_no_place_for_the_page(own_town, tmp_path):
    """Neither its sources nor its documents, whatever it says that it has read, also behind a link of the folder that it came with."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "private.txt").write_text("4711")
    (own_town / "docs" / "more").symlink_to(tmp_path / "home")
    site = SimpleNamespace(folder=own_town / ".localrag", root=own_town, inbox=own_town / "inbox")
    own = runs._sources(site)
    for private in ("docs/more/private.txt", str(tmp_path / "home" / "private.txt"), "../home/private.txt"):
        with closing(open_index(site.folder, create=True)) as db, db.atomic():
            db.execute("UPDATE documents SET path = ? WHERE id = (SELECT min(id) FROM documents)", [private])
            db.execute("INSERT OR REPLACE INTO file_stats VALUES (?, 4, 1, 1, '')", [private])
            db.execute("INSERT OR REPLACE INTO index_settings VALUES ('source_paths', ?)", [json.dumps(["docs", private])])
            (key,) = db.execute("SELECT min(id) FROM documents").fetchone()
        with pytest.raises(UsageError, match="not indexed on this machine") as refused:
            runs._sources(site)
        with snapshot(site.folder) as db, pytest.raises(FileUnavailable):
            _file(SimpleNamespace(path_params={"id": key}), db, site)
        assert "localrag index" in refused.value.hint

    assert own == [str(own_town / "docs")]
