"""Whose files are used: those of this user, which nobody else may write to."""

import grp
import os
import pwd

import pytest

from localrag.system.ownership import foreign

pytestmark = pytest.mark.skipif(os.name != "posix", reason="files have neither owners nor modes there")
needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the superuser gives files away")
STRANGER = 12345


def test_what_others_may_write_to_is_foreign(tmp_path):
    """Everybody, or a group with others in it; with a sticky folder as well. Who may only read harms nothing."""
    file = tmp_path / "file"
    file.touch()
    shared = next((g.gr_gid for g in grp.getgrall() if g.gr_name != pwd.getpwuid(os.geteuid()).pw_name and g.gr_gid in allowed()), None)
    found = {}
    for mode in (0o600, 0o644, 0o602, 0o666):
        file.chmod(mode)
        found[mode] = foreign(file)
    tmp_path.chmod(0o1777)

    assert [mode for mode, why in found.items() if why] == [0o602, 0o666]
    assert "everybody" in foreign(tmp_path)
    if shared is not None:
        os.chown(file, -1, shared)
        file.chmod(0o660)
        assert "group" in foreign(file)


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

    assert foreign(file) == ""


@needs_root
def test_what_belongs_to_another_user_is_foreign(tmp_path, monkeypatch):
    """Also a link that another user made to one's own; but not what belongs to whoever called sudo."""
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch(mode=0o600)
    link.symlink_to(file)
    own = foreign(link)
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    by_link = foreign(link)
    os.chown(file, STRANGER, STRANGER)
    by_file = foreign(file)
    monkeypatch.setenv("SUDO_UID", str(STRANGER))

    assert own == ""
    assert "another user" in by_link and "another user" in by_file
    assert foreign(file) == ""


def test_what_is_not_there_is_foreign(tmp_path):
    """Nothing is known of it."""
    assert "No such file" in foreign(tmp_path / "nowhere")
