"""Files are used only if they belong to this user and nobody else may write to them."""

import grp
import os
import pwd

import pytest

from localrag.system.trust import untrusted_reason

pytestmark = pytest.mark.skipif(os.name != "posix", reason="files have neither owners nor modes there")
needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the superuser gives files away")
STRANGER = 12345


def test_what_others_may_write_to_is_foreign(tmp_path):
    """A file that everybody or a shared group may write to is not trusted, nor is a sticky folder; readers do no harm."""
    file = tmp_path / "file"
    file.touch()
    shared = next((g.gr_gid for g in grp.getgrall() if g.gr_name != pwd.getpwuid(os.geteuid()).pw_name and g.gr_gid in allowed()), None)
    found = {}
    for mode in (0o600, 0o644, 0o602, 0o666):
        file.chmod(mode)
        found[mode] = untrusted_reason(file)
    tmp_path.chmod(0o1777)

    assert [mode for mode, why in found.items() if why] == [0o602, 0o666]
    assert "everybody" in untrusted_reason(tmp_path)
    if shared is not None:
        os.chown(file, -1, shared)
        file.chmod(0o660)
        assert "group" in untrusted_reason(file)


def allowed():
    """The groups that this user may give files to."""
    return {g.gr_gid for g in grp.getgrall()} if os.geteuid() == 0 else {*os.getgroups()}


def test_the_users_own_group_may_write(tmp_path):
    """Under `umask 002` every file may be written to by a group that its owner is alone in."""
    me = pwd.getpwuid(os.geteuid())
    group = grp.getgrgid(me.pw_gid)
    if group.gr_name != me.pw_name or set(group.gr_mem) - {me.pw_name}:
        pytest.skip("this user has no group alone")
    file = tmp_path / "file"
    file.touch()
    os.chown(file, -1, me.pw_gid)
    file.chmod(0o664)

    assert untrusted_reason(file) == ""


@needs_root
def test_what_belongs_to_another_user_is_foreign(tmp_path, monkeypatch):
    """Also a link that another user made to one's own; but not what belongs to whoever called sudo."""
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch(mode=0o600)
    link.symlink_to(file)
    own = untrusted_reason(link)
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    by_link = untrusted_reason(link)
    os.chown(file, STRANGER, STRANGER)
    by_file = untrusted_reason(file)
    monkeypatch.setenv("SUDO_UID", str(STRANGER))

    assert own == ""
    assert "another user" in by_link and "another user" in by_file
    assert untrusted_reason(file) == ""


def test_what_is_not_there_is_foreign(tmp_path):
    """A missing file is not trusted."""
    assert "No such file" in untrusted_reason(tmp_path / "nowhere")
