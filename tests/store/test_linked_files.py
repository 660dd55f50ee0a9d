"""An index folder that came from somebody else may have links as its files: what they lead to is neither changed nor waited for."""

import sys

import pytest

from localrag.errors import LocalragError
from localrag.indexing.graph.entity_resolution import add_alias, remove_aliases
from localrag.llm.prompts import Domain, update_domain_files, write_domain
from localrag.store.database import back_up_database
from localrag.store.opening import open_index, writer_lock
from localrag.store.runs import save_settings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
MINE = {"text": b"A = B\nmy own text\n", "empty": b""}
FILES = ["index.db", "index.db-wal", "index.db-shm", "index.db-journal", "index.db.part", "index.db.part-journal"]
FILES += ["index.db.before-1", "writer.lock", "aliases.txt", "domain.toml", "domain.toml.before"]


def written(folder):
    """Everything that writes into an index folder by name."""
    with writer_lock(folder):
        db = open_index(folder, create=True)
        save_settings(db, seen="yes")
        back_up_database(db, folder / "index.db", "1")
        db.close()
    open_index(folder).close()
    add_alias(folder, "A = B")
    add_alias(folder, "C != D")
    remove_aliases(folder, lambda line: line.startswith("C"))
    write_domain(folder, Domain("one"))
    write_domain(folder, Domain("two"))
    update_domain_files(folder, lambda domain: Domain("three"))


@pytest.mark.parametrize("content", MINE)
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("is_there", [True, False])
def test_nothing_is_written_through_a_link_in_an_index_folder(name, content, is_there, tmp_path):
    """A file of the user that it leads to stays as it is, and none appears where it leads to nothing."""
    folder, private = tmp_path / "clone" / ".localrag", tmp_path / "private"
    folder.parent.mkdir()
    private.mkdir()
    if name != "index.db":
        open_index(folder, create=True).close()
    if is_there:
        (private / "precious").write_bytes(MINE[content])
    for old in folder.glob(f"{name}*") if folder.is_dir() else ():
        old.unlink()
    folder.mkdir(exist_ok=True)
    (folder / name).symlink_to(private / "precious")
    try:
        written(folder)
    except LocalragError as error:
        assert "link" in str(error)
    assert [p.read_bytes() for p in private.iterdir()] == [MINE[content]] * is_there
