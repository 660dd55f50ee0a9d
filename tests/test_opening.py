"""Opening an index from somebody else: servers and files that it names are not used before the user chose them on this machine."""

import json
import os
import shlex
import shutil

import pytest

from localrag.errors import UsageError
from localrag.project import find_index, index_folder_or_default
from localrag.store import runs
from localrag.store.opening import open_index
from tests.conftest import run_localrag, run_process
from tests.fakes import example
from tests.servers import Server

posix = pytest.mark.skipif(os.name != "posix", reason="files have neither owners nor modes there")
STRANGER = 12345


@pytest.fixture
def foreign(own_town):
    """An index as it comes from another machine; a function that sets what it names."""
    folder = own_town / ".localrag"

    def names(**bound):
        db = open_index(folder, create=True)
        settings = runs.load_settings(db)
        changed = {kind: settings[kind] | {"path": path, "name": "theirs"} for kind, path in bound.items()}
        runs.save_settings(db, id=os.urandom(16).hex(), **changed)
        db.close()
        return own_town

    return names


def play(body):
    """What a server answers."""
    return json.dumps(example(body["response_format"]["json_schema"]["schema"])) if "response_format" in body else "It was Ingrid Holm."


def ask(folder, *args, **env):
    return run_localrag("ask", "Who bought the ferry Skua?", *args, cwd=folder, **env)


@pytest.mark.ci
def test_an_index_from_elsewhere_sends_nothing_to_the_server_it_names(foreign):
    """Neither a question nor the key, not even a look at what the server is; the command to agree is named, and once is enough."""
    key = os.urandom(16).hex()
    with Server(play) as made:
        folder = foreign(chat_model=f"{made.url}#theirs")
        refused = [
            ask(folder, LOCALRAG_API_KEY=key),
            run_localrag("index", "docs", cwd=folder),
            run_localrag("rm", "docs/a.md", cwd=folder),
        ]
        doctor = run_localrag("doctor", cwd=folder)
        before = [*made.asked, *made.bodies]
        hint = refused[0].stderr.partition("→")[2]
        agreed = ask(folder, *shlex.split(hint.partition("localrag ask")[2])[1:], "--style", "abstractive", LOCALRAG_API_KEY=key)
        again = ask(folder, "--style", "abstractive", LOCALRAG_API_KEY=key)
        sent = {h.get("Authorization") for h in made.headers}

    assert [r.returncode for r in refused] == [2, 2, 2]
    assert f"{made.url}#theirs. Nothing was sent there." in refused[0].stderr
    assert made.url in doctor.stdout
    assert before == []
    assert agreed.returncode == 0, agreed.stderr
    assert again.returncode == 0, again.stderr
    assert sent == {f"Bearer {key}"}


def test_what_was_chosen_for_one_index_is_not_chosen_for_another(foreign, plain_town, tmp_path):
    """A second index that names the same server is asked about for itself."""
    with Server(play) as made:
        folder = foreign(chat_model=f"{made.url}#theirs")
        first = ask(folder, "--model", f"{made.url}#theirs", "--style", "abstractive")
        foreign()
        second = ask(folder, "--style", "abstractive")

    assert first.returncode == 0, first.stderr
    assert second.returncode == 2


@pytest.mark.parametrize("kind", ["chat_model", "embedder"])
@pytest.mark.ci
def test_a_model_file_that_an_index_names_is_not_opened(foreign, tmp_path, kind):
    """Whoever made the index may have sent the file along and knows its fingerprint: native code gets it once the user has chosen it."""
    path = tmp_path / "town" / "docs" / "theirs.gguf"
    folder = foreign(**{kind: str(path)})
    os.mkfifo(path)  # whoever opens it waits for ever
    refused = run_process("ask", "Who bought the ferry Skua?", cwd=folder, timeout=120)

    assert refused.returncode == 2
    assert f"{path}. It was not opened." in refused.stderr
    assert shlex.quote(str(path)) in refused.stderr.partition("→")[2]


@pytest.mark.ci
def test_a_model_on_the_users_list_is_theirs_wherever_it_lies(foreign, chat_file, tmp_path, home):
    """`localrag models add` is how a file becomes the user's own, and `--model` how it is chosen for one index."""
    path = tmp_path / "town" / "docs" / "theirs.gguf"
    folder = foreign(chat_model=str(path))
    shutil.copy(chat_file.path, path)
    refused = ask(folder)
    try:
        added = run_localrag("models", "add", str(path), "--no-test", cwd=folder)
        listed = ask(folder)
    finally:
        (home / "models.toml").unlink(missing_ok=True)
    chosen, again = ask(folder, "--model", str(path)), ask(folder)

    assert refused.returncode == 2
    assert added.returncode == 0, added.stderr
    assert listed.returncode == 0, listed.stderr
    assert chosen.returncode == again.returncode == 0, again.stderr


@posix
def test_an_index_that_others_may_write_to_is_not_taken_for_ones_own(own_town, tmp_path, monkeypatch):
    """A folder above may be anybody's: the index in it is used only where it is named, and none is made in its place."""
    folder = own_town / ".localrag"
    monkeypatch.chdir(own_town / "docs")
    mine = find_index(None)
    folder.chmod(0o777)
    refused = run_localrag("index", ".", cwd=own_town / "docs")
    with pytest.raises(UsageError):
        index_folder_or_default(None)
    named = run_localrag("status", "--json", "--index", str(folder), cwd=tmp_path)
    folder.chmod(0o700)
    (folder / "index.db").chmod(0o666)
    with pytest.raises(UsageError, match="can be written by everybody"):
        find_index(None)

    assert mine == folder
    assert refused.returncode == 2
    assert f"--index {folder}" in refused.stderr
    assert json.loads(named.stdout)["documents"] == 3


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the superuser gives files away")
def test_an_index_of_another_user_is_not_taken_for_ones_own(own_town, tmp_path, monkeypatch):
    """Nor one behind a link that another user made; the command that uses it all the same is named."""
    folder = own_town / ".localrag"
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / ".localrag").symlink_to(folder)
    os.chown(tmp_path / "tmp" / ".localrag", STRANGER, STRANGER, follow_symlinks=False)
    linked = run_localrag("status", cwd=tmp_path / "tmp")
    os.chown(folder, STRANGER, STRANGER)
    refused = run_localrag("status", cwd=own_town)
    named = run_localrag("status", "--index", str(folder), cwd=own_town)

    assert (linked.returncode, refused.returncode, named.returncode) == (2, 2, 0)
    assert "belongs to another user" in refused.stderr
    assert f"--index {folder}" in refused.stderr
