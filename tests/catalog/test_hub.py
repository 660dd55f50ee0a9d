"""Downloads from a hub that breaks off, lies about lengths, serves wrong bytes, and sends on to others."""

import os
import time
from pathlib import Path

import pytest

from localrag.catalog import hub as hub_catalog
from localrag.catalog.hub import RemoteFile, download, list_files, select_quantization
from localrag.errors import ModelError
from tests.catalog.hub import Hub
from tests.servers import Dripping

REPO = "org/model-GGUF"
DATA = os.urandom(300_000)


@pytest.fixture
def hub(monkeypatch):
    made = Hub({"README.md": b"read me", "model-Q4_K_M.gguf": DATA, "model-Q8_0.gguf": DATA[:1000], "mmproj-model-f16.gguf": b"eyes"})
    monkeypatch.setenv("HF_ENDPOINT", made.url)
    monkeypatch.setattr(hub_catalog, "RETRY_DELAY_S", 0.01)
    yield made
    made.close()


def pulled(folder, quant="Q4_K_M", hosts=()):
    """The bytes of the file that is there after a pull, and what the progress said."""
    steps = []
    (path,) = download(list_files(REPO, quant, hosts), folder, lambda *step: steps.append(step), hosts)
    return path.read_bytes(), steps


def parts(folder):
    return list(folder.rglob("*.part"))


def test_a_file_is_pulled_whole_for_its_owner_alone(hub, tmp_path):
    """It lies under its repository's name, nobody else can read it, and the progress ends with all of it."""
    data, steps = pulled(tmp_path)

    path = tmp_path / "org" / "model-GGUF" / "model-Q4_K_M.gguf"
    assert data == DATA
    assert path.stat().st_mode & 0o077 == 0
    assert steps[-1] == (len(DATA), len(DATA))
    assert not parts(tmp_path)


def test_what_is_there_is_not_fetched_again(hub, tmp_path):
    """A second pull asks for the list alone."""
    pulled(tmp_path)
    hub.asked.clear()
    pulled(tmp_path)

    assert [path for path, *_ in hub.asked] == [f"/api/models/{REPO}/tree/main?recursive=true"]


@pytest.mark.parametrize("fault", [{"hides": 70_000}, {"fails": 2}])
def test_a_server_that_lies_about_lengths_or_is_busy_is_asked_again(hub, tmp_path, fault):
    """Each answer announces and sends 70,000 bytes though there are more, or two are 503: all of it is there in the end."""
    vars(hub).update(fault)
    assert pulled(tmp_path)[0] == DATA


def test_a_connection_that_breaks_off_is_taken_up_where_it_was(hub, tmp_path):
    """A server that ends every answer after 40,000 bytes is asked for the rest, and no byte twice."""
    hub.stretch = 40_000
    data, _ = pulled(tmp_path)

    assert data == DATA
    assert [begin for _, begin, _ in hub.asked[1:]] == ["", *(f"bytes={n}-" for n in range(40_000, 300_000, 40_000))]


@pytest.mark.parametrize("ignores_range", [False, True])
def test_a_pull_that_ended_is_gone_on_with_by_the_next(hub, tmp_path, ignores_range):
    """What came before a server went silent stays, and the next command asks for the rest; one that ignores Range sends all again."""
    (file,) = list_files(REPO, "Q4_K_M")
    part = tmp_path / "org" / "model-GGUF" / f"model-Q4_K_M.gguf.{file.digest[:16]}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(DATA[:250_000])
    hub.asked.clear()
    hub.ignores_range = ignores_range

    assert pulled(tmp_path)[0] == DATA
    assert hub.asked[1][1] == "bytes=250000-"


def test_a_server_that_stops_is_an_error_that_says_how_far_it_came(hub, tmp_path):
    """It has fewer bytes than announced: after some tries the error names how many there are, and they stay."""
    file = RemoteFile(REPO, "model-Q4_K_M.gguf", len(DATA) + 500, "0" * 64)
    with pytest.raises(ModelError, match=r"was interrupted at 300,000 of 300,500 bytes") as raised:
        download([file], tmp_path, lambda *_: None)

    assert "same command" in raised.value.hint
    assert parts(tmp_path)[0].stat().st_size == len(DATA)


def test_more_bytes_than_announced_are_refused(hub, tmp_path):
    """A server that does not stop is left at the announced size, and nothing of it is kept."""
    hub.longer = True
    with pytest.raises(ModelError, match="more than the 300,000 bytes"):
        pulled(tmp_path)

    assert sum(p.stat().st_size for p in parts(tmp_path)) == 0


@pytest.mark.parametrize("git", [False, True])
def test_wrong_bytes_are_deleted_and_said(hub, tmp_path, git):
    """Content that does not have the announced hash (SHA-256, or git's own of a small file) never becomes a model."""
    hub.wrong, hub.git = True, git
    with pytest.raises(ModelError, match="differs from what the hub announced"):
        pulled(tmp_path)

    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
    hub.wrong = False
    assert pulled(tmp_path)[0] == DATA


def test_a_new_version_does_not_go_on_from_half_of_the_old(hub, tmp_path):
    """The half of another content is left alone."""
    old = tmp_path / "org" / "model-GGUF" / "model-Q4_K_M.gguf.0123456789abcdef.part"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"old")

    assert pulled(tmp_path)[0] == DATA
    assert hub.asked[-1][1] == ""


def test_redirects_lead_to_allowed_hosts_only(hub, tmp_path, monkeypatch):
    """Sent on to another host, the pull ends with that host's name; allowed, it goes there, but HF_TOKEN is for the hub alone."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    other = Hub(hub.files, "localhost")
    hub.moved = other.url
    with pytest.raises(ModelError, match="localhost, which is not its own") as raised:
        pulled(tmp_path)
    assert "--allow-host localhost" in raised.value.hint
    assert other.asked == []

    assert pulled(tmp_path, hosts=("localhost",))[0] == DATA
    assert {authorization for *_, authorization in hub.asked} == {"Bearer hf_secret"}
    assert {authorization for *_, authorization in other.asked} == {""}
    other.close()


def test_a_circle_of_redirects_ends(hub, tmp_path, monkeypatch):
    """A hub that sends everything on to itself is given up."""
    (file,) = list_files(REPO, "Q4_K_M")
    monkeypatch.setattr(hub.server.RequestHandlerClass, "do_GET", lambda self: self.answer(302, b"", Location=self.path))
    with pytest.raises(ModelError, match="in a loop"):
        download([file], tmp_path, lambda *_: None)


def test_a_hub_that_cannot_be_reached_is_said_with_the_way_without_one(monkeypatch):
    """Where nobody listens, the error names the host and how to bring a model in by hand."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelError, match=r"127\.0\.0\.1 cannot be reached") as raised:
        list_files(REPO, "")
    assert "models add" in raised.value.hint


def test_an_unknown_or_gated_repository_is_said(hub):
    """404 and 401 are told apart, the latter with what to do."""
    with pytest.raises(ModelError, match="knows no repository org/other"):
        list_files("org/other", "")
    hub.gated = True
    with pytest.raises(ModelError, match="needs your consent") as raised:
        list_files(REPO, "")
    assert "HF_TOKEN" in raised.value.hint


def test_a_full_disk_is_said_before_anything_is_fetched(hub, tmp_path):
    """A file larger than what is free is not begun."""
    file = RemoteFile(REPO, "model-Q4_K_M.gguf", 1 << 60, "0" * 64)
    hub.asked.clear()
    with pytest.raises(ModelError, match="are free"):
        download([file], tmp_path, lambda *_: None)
    assert hub.asked == []


def names(*paths):
    return [RemoteFile(REPO, path, 1, "0" * 64) for path in paths]


def test_the_quantisation_is_chosen():
    """Named, or a usual one; shards together; the eyes of a model and calibration data never."""
    files = names("m-Q2_K.gguf", "m-Q4_K_M.gguf", "m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf", "sub/m-Q4_K_M.gguf")

    assert [f.path for f in select_quantization(files, REPO, "")] == ["m-Q4_K_M.gguf"]
    assert [f.path for f in select_quantization(files, REPO, "q2_k")] == ["m-Q2_K.gguf"]
    assert [f.path for f in select_quantization(files, REPO, "Q8_0")] == ["m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"]
    assert [f.path for f in select_quantization(names("only.gguf"), REPO, "")] == ["only.gguf"]
    with pytest.raises(ModelError, match="has no file Q5_K_M") as raised:
        select_quantization(files, REPO, "Q5_K_M")
    assert "m-Q2_K" in raised.value.hint
    with pytest.raises(ModelError, match="has no GGUF file"):
        select_quantization([], REPO, "")


def test_a_path_that_leads_out_is_no_list_of_files(hub):
    """A repository that names ../x is refused as a whole."""
    hub.files["../evil-Q4_K_M.gguf"] = b"x"
    with pytest.raises(ModelError, match="is not a list of files"):
        list_files(REPO, "")
    assert not Path("evil-Q4_K_M.gguf").exists()


@pytest.mark.parametrize("form", ["spaces", "headers"])
@pytest.mark.ci
def test_a_hub_that_drips_is_given_up(monkeypatch, tmp_path, form):
    """Its list of files and its files, whether headers or bytes come now and then; what came stays for the next try."""
    monkeypatch.setattr(hub_catalog, "STALL_S", 0.5)
    monkeypatch.setattr(hub_catalog, "RESPONSE_TIMEOUT_S", 0.5)
    monkeypatch.setattr(hub_catalog, "RETRY_DELAY_S", 0.0)
    with Dripping(["/api/models/a/b/tree/main?recursive=true", "/a/b/resolve/main/m.gguf"], form) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url.removesuffix("/v1"))
        began = time.monotonic()
        with pytest.raises(ModelError, match="cannot be reached"):
            list_files("a/b", "")
        with pytest.raises(ModelError, match="was interrupted"):
            download([RemoteFile("a/b", "m.gguf", 1 << 30, "0" * 64)], tmp_path, lambda *_: None)
        assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:9"),
        ("all_proxy", "ftp://127.0.0.1:9"),
        ("HTTPS_PROXY", "http://user:secret@host:port"),
        ("http_proxy", "http://[::1"),
        ("SSL_CERT_FILE", "/missing/ca.pem"),
        ("SSL_CERT_FILE", __file__),
        ("SSL_CERT_FILE", "/"),
        ("HF_TOKEN", "hf_secret\nhf_secret"),
        ("HF_TOKEN", "hf_sécret"),
    ],
)
def test_an_environment_that_allows_no_connection_is_told_by_the_variable_to_change(hub, monkeypatch, name, value):
    """A proxy, certificates or a token that cannot be used; its value is not shown, since it may hold a password."""
    monkeypatch.setenv(name, value)
    with pytest.raises(ModelError) as caught:
        list_files(REPO, "Q4_K_M")

    assert name in str(caught.value)
    assert f"unset {name}" in caught.value.hint
    assert "secret" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("url", ["http://example.org", "https://[::1", "https://host:port", ""])
def test_an_endpoint_that_is_no_address_or_not_encrypted_is_refused(monkeypatch, url):
    """HF_ENDPOINT must be https, but on this machine."""
    monkeypatch.setenv("HF_ENDPOINT", url)
    with pytest.raises(ModelError, match="not an https address"):
        list_files(REPO, "Q4_K_M")


@pytest.mark.parametrize("location", ["http://[::1", None])
def test_a_redirect_that_leads_nowhere_is_an_error_of_the_hub(hub, tmp_path, location):
    """Its address is none, or is missing."""
    listed = list_files(REPO, "Q4_K_M")
    hub.moved_to = {"Location": location} if location else {}
    with pytest.raises(ModelError):
        download(listed, tmp_path, lambda *_: None)
