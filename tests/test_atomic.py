"""posenc._atomic: a file is written whole, or stays as it was."""

import os
import stat
import threading
import time

import pytest

from posenc import _atomic
from posenc._atomic import atomic

posix = pytest.mark.skipif(os.name != "posix", reason="links, pipes and modes are POSIX's")


def test_the_file_appears_when_all_of_it_is_written(tmp_path):
    path = tmp_path / "new" / "folder" / "file"
    with atomic(str(path)) as part:
        part.write_text("half")
        assert not path.exists()
        assert part.stat().st_dev == path.parent.stat().st_dev  # so that it can be renamed
        part.write_text("all of it")
    assert path.read_text() == "all of it"
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("no")])
def test_after_an_error_the_old_file_is_there_and_nothing_else(error, tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail():
        with atomic(path) as part:
            part.write_text("half")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_bytes_are_on_the_disk_before_the_file_is_renamed(tmp_path, monkeypatch):
    path, synced = tmp_path / "file", []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(path.exists()))
    with atomic(path) as part:
        part.write_text("all of it")
    assert synced == [False]
    assert path.exists()


def test_a_block_that_writes_nothing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), atomic(tmp_path / "file"):
        pass
    assert os.listdir(tmp_path) == []


def write(path, text):
    with atomic(path) as part:
        part.write_text(text)


@posix
def test_a_device_stays_a_device(tmp_path):
    """A device of the test's own: the machine's /dev/null would be gone if this failed."""
    path = tmp_path / "null"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.stat(os.devnull).st_rdev)
        path.write_text("a device that can be opened")
    except OSError:
        pytest.skip("only root makes devices")
    inode = path.stat().st_ino
    write(path, "all of it")
    assert stat.S_ISCHR(path.stat().st_mode) and path.stat().st_ino == inode
    assert os.listdir(tmp_path) == ["null"]


@posix
def test_a_pipe_is_written_to(tmp_path):
    path, read = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_text()), daemon=True)
    reader.start()
    write(path, "all of it")
    reader.join(10)
    assert read == ["all of it"]
    assert stat.S_ISFIFO(path.stat().st_mode) and os.listdir(tmp_path) == ["pipe"]


@posix
def test_an_open_file_that_is_named_as_a_device_is_not_replaced(tmp_path):
    path = tmp_path / "out"
    with path.open("w") as file:
        if not os.path.exists(name := f"/dev/fd/{file.fileno()}"):
            pytest.skip("no /dev/fd")
        inode = path.stat().st_ino
        write(name, "all of it")
    assert path.read_text() == "all of it" and path.stat().st_ino == inode


@posix
@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_what_it_leads_to_is_written(there, tmp_path):
    target, link, last = tmp_path / "far" / "file", tmp_path / "link", tmp_path / "last"
    target.parent.mkdir()
    if there:
        target.write_text("old")
    link.symlink_to("far/file")
    last.symlink_to(link)
    write(last, "new")
    assert link.is_symlink() and last.is_symlink() and target.read_text() == "new"
    assert os.listdir(target.parent) == ["file"]


@posix
def test_links_that_go_round_are_an_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic link"):
        write(tmp_path / "a", "new")


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_a_file_keeps_its_mode(mode, tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(mode)
    write(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


@posix
def test_a_new_file_has_the_usual_mode(tmp_path):
    write(tmp_path / "file", "new")
    (tmp_path / "other").write_text("new")
    modes = {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    assert len(modes) == 1


@posix
def test_nobody_else_can_say_where_the_temporary_file_goes(tmp_path):
    path, rooms = tmp_path / "file", []
    for _ in range(2):
        with atomic(path) as part:
            assert stat.S_IMODE(part.parent.stat().st_mode) == 0o700
            part.write_text("all of it")
            rooms.append(part.parent)
    assert rooms[0] != rooms[1] and str(os.getpid()) not in rooms[0].name.split(".")


def test_threads_may_write_the_same_file(tmp_path):
    path, failed = tmp_path / "file", []

    def often(text):
        try:
            for _ in range(25):
                write(path, text)
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=often, args=(letter * 999,)) for letter in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert path.read_text() in ("a" * 999, "b" * 999) and os.listdir(tmp_path) == ["file"]


def test_what_a_killed_process_left_behind_is_removed_later(tmp_path):
    path = tmp_path / "file"
    old, young, other = (tmp_path / name for name in (".file.x1.part", ".file.x2.part", ".others.x3.part"))
    for room in (old, young, other):
        room.mkdir()
        (room / "file").write_text("half")
    long_ago = time.time() - 2 * _atomic.STALE
    for room in (old, other):
        os.utime(room, (long_ago, long_ago))
    write(path, "all of it")
    assert sorted(os.listdir(tmp_path)) == [".file.x2.part", ".others.x3.part", "file"]


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(IsADirectoryError, match="name a file in it"):
        write(tmp_path, "new")
    assert os.listdir(tmp_path) == []
