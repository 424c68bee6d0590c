"""The files of a call: links are followed, nothing is left out in silence, no output takes the place of an input."""

from __future__ import annotations

from pathlib import Path

import pytest

from dikkat_runtime.errors import MissingInputError, UsageError
from dikkat_runtime.shards.call import plan_shards


def names(folder: Path, out: Path) -> list[str]:
    return [str(shard.output.relative_to(out)) for shard in plan_shards([folder], out).shards]


def test_links_are_followed_and_end(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "in", tmp_path / "elsewhere"
    for path in (folder / "a.txt", elsewhere / "b.txt", elsewhere / "deep" / "c.txt", elsewhere / ".git" / "d.txt"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
    (folder / "linked").symlink_to(elsewhere)
    (elsewhere / "deep" / "around").symlink_to(elsewhere)
    (folder / "above").symlink_to(tmp_path / "in")
    (folder / "z.txt").symlink_to(elsewhere / "b.txt")
    assert names(folder, tmp_path / "out") == ["a.txt", "linked/b.txt", "linked/deep/c.txt", "z.txt"]
    # outputs are no inputs by whatever name
    (folder / "outputs").symlink_to(tmp_path / "out")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.txt").write_text("X\n")
    assert names(folder, tmp_path / "out") == ["a.txt", "linked/b.txt", "linked/deep/c.txt", "z.txt"]


def test_a_link_to_nothing_is_named(tmp_path: Path) -> None:
    link = tmp_path / "in" / "a.txt"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "gone.txt")
    with pytest.raises(MissingInputError, match=r"in/a\.txt: cannot be read: No such file or directory"):
        plan_shards([tmp_path / "in"], tmp_path / "out")


def test_a_folder_that_cannot_be_read_is_not_left_out_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "in" / "shut"
    folder.mkdir(parents=True)
    (tmp_path / "in" / "a.txt").write_text("x\n")
    listed = Path.iterdir

    def iterdir(path: Path) -> object:
        if path == folder:
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    with pytest.raises(MissingInputError, match="in/shut: cannot be read: Permission denied"):
        plan_shards([tmp_path / "in"], tmp_path / "out")


def test_a_folder_that_may_only_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without the right to search it (r--) tells its names, and nothing of what is behind them."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("x\n")
    status = Path.stat

    def stat(path: Path, *, follow_symlinks: bool = True) -> object:
        if path.parent == tmp_path / "in":
            raise PermissionError(13, "Permission denied")
        return status(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", stat)
    with pytest.raises(MissingInputError, match="in: cannot be read: Permission denied"):
        plan_shards([tmp_path / "in"], tmp_path / "out")


def test_no_output_takes_the_place_of_another_input(tmp_path: Path) -> None:
    """With --force it would be written over before it is read."""
    folder = tmp_path / "data" / "in"
    for path in (folder / "a.txt", folder / "in" / "a.txt"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
    message = f"{folder / 'a.txt'}: would be replaced by the output of {folder / 'in' / 'a.txt'}; give another --out"
    with pytest.raises(UsageError) as caught:
        plan_shards([folder], tmp_path / "data")
    assert str(caught.value) == message
    with pytest.raises(UsageError, match="would be replaced by its own output; give another --out"):
        plan_shards([folder], folder)
