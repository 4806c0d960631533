"""posenc._atomic: a file is written whole, or stays as it was."""

import os

import pytest

from posenc._atomic import atomic


def test_the_file_appears_when_all_of_it_is_written(tmp_path):
    path = tmp_path / "new" / "folder" / "file"
    with atomic(str(path)) as part:
        part.write_text("half")
        assert not path.exists()
        assert part.parent == path.parent
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
