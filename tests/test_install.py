"""`make demo` and `make setup`: each step says what it does, and the demo gets only what it needs."""

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WHEEL = "llama_cpp_python-{version}-py3-none-linux_x86_64.whl"
# Stands in for the Python of .venv: notes what pip is asked, and prints what pip prints.
PYTHON = """#!/bin/sh
echo "$*" >> {log}
case "$*" in
  "-c "*torch*|"-c "*llama*) exit 1 ;;
  "-c "*"'localrag'"*) {former} ;;
  *"pip wheel "*) touch "$6/localrag-0-py3-none-any.whl" ;;
  *"cache dir"*) echo {cache} ;;
  *"cache list"*) ls {cache}/*.whl 2>/dev/null ;;
  *"install --verbose llama-cpp-python"*)
    {failure}
    echo "Installing collected packages: diskcache, llama-cpp-python" ;;
esac
"""


@pytest.fixture
def install(tmp_path):
    """A function that runs the script in a folder of its own; its exit code, what it printed, and the calls of pip."""

    def run(target, folder=".venv", *, cached=False, failure=":", former="exit 1", compiler="true"):
        for name in ("install.py", "compiler_flags.py"):
            (tmp_path / "scripts").mkdir(exist_ok=True)
            shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
        shutil.copy(ROOT / "pyproject.toml", tmp_path)
        cache, log = tmp_path / "cache", tmp_path / "calls"
        cache.mkdir(exist_ok=True)
        log.write_text("")
        if cached:
            requirement = next(line for line in (ROOT / "pyproject.toml").read_text().splitlines() if '"llama-cpp-python' in line)
            (cache / WHEEL.format(version=requirement.split(">=")[1].split(",")[0])).touch()
        python = tmp_path / folder / "bin" / "python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(PYTHON.format(log=log, cache=cache, failure=failure, former=former))
        python.chmod(python.stat().st_mode | stat.S_IXUSR)
        # Without a compiler no program is compiled to look for faulty ones.
        done = subprocess.run(
            [sys.executable, tmp_path / "scripts" / "install.py", *target.split(), *([] if folder == ".venv" else [tmp_path / folder])],
            check=False,
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin", "CC": compiler, "CXX": compiler},
        )
        return done, [line for line in log.read_text().splitlines() if "install " in line]

    return run


def test_the_demo_gets_only_what_it_needs(install):
    """Neither the extras nor the tests' packages; every step says what it does and how long it takes."""
    done, calls = install("demo")

    assert done.returncode == 0, done.stderr
    assert not [call for call in calls if "[" in call or "--group" in call]
    assert any(call.endswith("install -e . --progress-bar=off") for call in calls)
    steps = [line for line in done.stdout.splitlines() if line.startswith("[")]
    assert [step[:5] for step in steps] == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]
    assert all("second" in step or "minute" in step for step in steps)
    assert "compiled for this processor" in steps[2]


def test_setup_installs_everything(install):
    """After the steps of the demo, the extras and what tests and documentation need."""
    done, calls = install("all")

    assert done.returncode == 0, done.stderr
    assert "[5/5]" in done.stdout
    assert "-e .[all,train,ray] --group dev" in calls[-1]


def test_the_wheel_goes_into_the_folder_that_is_named(install):
    """Built from here and installed with its libraries, and again where it was there; no extra, nothing from the checkout."""
    done, calls = install("wheel", "elsewhere")

    assert done.returncode == 0, done.stderr
    assert [call.split()[3:-2] for call in calls[-2:]] == [[], ["--force-reinstall", "--no-deps"]]
    assert all(call.split()[-2].endswith("/localrag-0-py3-none-any.whl") for call in calls[-2:])
    assert not [call for call in calls if "[" in call or "-e" in call.split()]


def test_a_failed_step_shows_what_pip_said_and_ends(install):
    """The last lines of its output, the command, and an exit code; no later step is tried."""
    done, calls = install("demo", failure='echo "no cmake was found"; exit 1')

    assert done.returncode == 1
    assert "no cmake was found" in done.stderr
    assert "This command failed" in done.stderr
    assert not [call for call in calls if "-e ." in call]


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_a_missing_compiler_is_said_before_anything_large_is_downloaded(install, compiler):
    """In one sentence that says what to install; `false` stands for that of macOS, which is there and does not work."""
    done, calls = install("demo", compiler=compiler)

    assert done.returncode == 1
    assert done.stderr.count(". ") == 0
    for command in ("apt-get install build-essential (Debian", "dnf install gcc-c++ (Fedora", "xcode-select --install (macOS"):
        assert command in done.stderr
    assert [call for call in calls if "--upgrade pip" not in call] == []


def test_no_compiler_is_needed_where_nothing_is_compiled(install):
    """A wheel in pip's cache is enough."""
    done, calls = install("demo", cached=True, compiler="no-such-compiler")

    assert done.returncode == 0, done.stderr
    assert any("install -e ." in call for call in calls)


def test_the_former_name_of_this_checkout_is_removed_before_it_is_installed(install, tmp_path):
    """Removed afterwards, it would take the command along, which both have."""
    url = tmp_path.as_uri()
    done, calls = install("demo", former=f"""echo '{{"dir_info": {{"editable": true}}, "url": "{url}"}}'""")

    assert done.returncode == 0, done.stderr
    assert [call.removeprefix("-m pip ").partition(" --prog")[0] for call in calls[-2:]] == ["uninstall --yes localrag", "install -e ."]


@pytest.mark.parametrize("record", ["{}", '{"dir_info": {}, "url": "file:///elsewhere"}'])
def test_a_stranger_of_that_name_is_not_removed_and_not_run(install, record):
    """It may be another author's package, and would be imported instead of this checkout."""
    done, calls = install("demo", former=f"echo '{record}'")

    assert done.returncode == 1
    assert "pip uninstall localrag" in done.stderr
    assert not [call for call in calls if "uninstall" in call or "-e ." in call]
