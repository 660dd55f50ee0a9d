"""`localrag config`, as a user types it."""

import json
import stat
import tomllib

import pytest

from localrag.cli import settings
from tests.conftest import run_localrag


@pytest.fixture
def own(tmp_path, home):
    """A folder of its own, and no settings of the user's, then or afterwards."""
    yield tmp_path
    (home / "config.toml").unlink(missing_ok=True)


def run(folder, *args, **env):
    return run_localrag(*args, cwd=folder, **env)


def ok(folder, *args, **env):
    done = run(folder, *args, **env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_setting_is_shown_with_its_value_and_origin(own):
    """As a table and as JSON: the variable's name, the file with its line, or that it is the default."""
    ok(own, "config", "set", "style", "extractive", "--user")
    (own / "localrag.toml").write_text("# mine\n\nmode = 'global'\n", encoding="utf-8")
    found = json.loads(ok(own, "config", "--json", LOCALRAG_MAX_CALLS="7"))
    rows = {row["name"]: row for row in found["settings"]}
    lines = ok(own, "config", LOCALRAG_MAX_CALLS="7").splitlines()

    assert tuple(rows) == settings.SETTING_NAMES
    assert found["files"] == {"project": str(own / "localrag.toml"), "user": str(settings.user_file())}
    assert (rows["max_calls"]["value"], rows["max_calls"]["where"]) == (7, "LOCALRAG_MAX_CALLS")
    assert (rows["mode"]["value"], rows["mode"]["where"]) == ("global", f"{own / 'localrag.toml'}, line 3")
    assert (rows["style"]["origin"], rows["style"]["where"]) == ("user", f"{settings.user_file()}, line 1")
    assert (rows["port"]["value"], rows["port"]["origin"]) == (8765, "default")
    assert len(lines) == len(rows)
    assert next(line.split(None, 2) for line in lines if line.startswith("mode ")) == ["mode", '"global"', rows["mode"]["where"]]


def test_what_the_index_was_made_with_is_shown(own, plain_town):
    """A setting of the index, and one that a file sets."""
    (own / "localrag.toml").write_text("chunk_tokens = 500\n", encoding="utf-8")
    rows = {r["name"]: r for r in json.loads(ok(own, "config", "--index", str(plain_town), "--json"))["settings"]}

    assert (rows["extractor"]["value"], rows["extractor"]["origin"]) == ("phrases", "index")
    assert (rows["model"]["value"], rows["model"]["origin"]) == ("smollm2-135m", "index")
    assert rows["chunk_tokens"]["value"] == 500
    assert "line 1" in ok(own, "config", LOCALRAG_INDEX=str(plain_town))


@pytest.mark.parametrize(
    ("name", "text", "printed", "kept"),
    [
        ("mode", "mix", "mix", "mix"),
        ("max_calls", "12", "12", 12),
        ("max_seconds", "1.5", "1.5", 1.5),
        ("strict", "yes", "true", True),
        ("types", "person, ship", "person,ship", ["person", "ship"]),
        ("response_type", 'a "short" list', 'a "short" list', 'a "short" list'),
    ],
)
def test_a_value_is_set_read_and_taken_out(own, name, text, printed, kept):
    """In ./localrag.toml, in TOML's own type; `get` prints it as its option takes it."""
    ok(own, "config", "set", name, text)
    written = tomllib.loads((own / "localrag.toml").read_text(encoding="utf-8"))
    got = ok(own, "config", "get", name)
    ok(own, "config", "unset", name)

    assert written == {name: kept}
    assert got == f"{printed}\n"
    assert tomllib.loads((own / "localrag.toml").read_text(encoding="utf-8")) == {}
    assert run(own, "config", "unset", name).returncode == 2


def test_comments_order_and_rights_are_kept(own):
    """Only the line that is set changes, and the file stays readable to whom it was."""
    path = own / "localrag.toml"
    path.write_text("# why\nmode = 'mix'  # for now\n\n# sizes\nchunk_tokens = 400\n", encoding="utf-8")
    path.chmod(0o644)
    ok(own, "config", "set", "mode", "global")
    ok(own, "config", "set", "claims", "true")
    ok(own, "config", "unset", "chunk_tokens")

    assert path.read_text(encoding="utf-8") == '# why\nmode = "global"  # for now\n\n# sizes\nclaims = true\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_what_may_not_be_set_is_refused_and_nothing_is_written(own):
    """An unknown name, a value that cannot be, what opens the machine in a file that may come from others, a file that is no TOML."""
    for args, said in (
        (("moed", "mix"), "Did you mean 'mode'"),
        (("chunk_tokens", "9"), "from 100 to 4000"),
        (("engine", "slots=0"), "slots must be at least 1"),
        (("allow_host", "gpu.example"), "localrag config set allow_host gpu.example --user"),
    ):
        done = run(own, "config", "set", *args)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
        assert not (own / "localrag.toml").exists()
    (own / "localrag.toml").write_text("mode = \n", encoding="utf-8")

    assert "not valid TOML" in run(own, "config", "set", "mode", "mix").stderr
    assert (own / "localrag.toml").read_text(encoding="utf-8") == "mode = \n"


def test_the_user_file_is_for_its_owner_alone_and_takes_what_opens_the_machine(own):
    """`--user` writes to the user's folder of settings; every command finds it there."""
    ok(own, "config", "set", "allow_host", "gpu.example,other.example", "--user")
    path = settings.user_file()

    assert ok(own, "config", "get", "allow_host") == "gpu.example,other.example\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not (own / "localrag.toml").exists()


def test_the_nearest_file_is_written_to_and_paths_are_seen_from_it(own, chat_file):
    """From a folder below, `set` changes the file above, and a file that is named from below is found from everywhere."""
    (own / "below").mkdir()
    ok(own, "config", "set", "mode", "mix")
    (own / "below" / "model.gguf").symlink_to(chat_file.path)
    ok(own / "below", "config", "set", "model", "model.gguf")

    assert not (own / "below" / "localrag.toml").exists()
    assert ok(own, "config", "get", "model").strip().endswith(".gguf")
    assert run(own, "config", "get", "model").returncode == 0
