"""Packages of Argos as files: hostile or damaged ones are one line, and no run."""

from __future__ import annotations

import json
import random
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.interop.ctranslate2_folders import complaint, damaged, foreign_files, refusal, small_run
from tests.unit.interop.older_ctranslate2 import FORMATS, older_folder

from dikkat.interop.argos_package import package_metadata
from dikkat.interop.foreign_translator import ForeignTranslator, Languages
from dikkat.interop.importing import read_foreign
from dikkat_runtime.cli.main import run as run_command


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return foreign_files(small_run(tmp_path_factory.mktemp("run") / "run"))


NOTHING: Mapping[str, bytes] = {}
METADATA: Mapping[str, Any] = {"from_code": "en", "to_code": "fr", "package_version": "1.0"}


def package(
    path: Path, foreign: dict[str, bytes], metadata: Mapping[str, Any] = METADATA, more: Mapping[str, bytes] = NOTHING
) -> Path:
    """An .argosmodel file with this model."""
    root = "translate-en_fr-1_0"
    model = {f"{root}/model/{name}": content for name, content in foreign.items() if name != "sentencepiece.model"}
    files = {f"{root}/metadata.json": json.dumps(dict(metadata)).encode(), **model}
    files[f"{root}/sentencepiece.model"] = foreign["sentencepiece.model"]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (files | dict(more)).items():
            archive.writestr(name, content)
    return path


def test_a_package_is_read_with_its_languages(foreign: dict[str, bytes], tmp_path: Path) -> None:
    path = package(tmp_path / "en_fr.ARGOSMODEL", foreign)
    assert run_command(["import", str(path), "--out", str(tmp_path / "run")]) == 0
    data = json.loads((tmp_path / "run" / "config.json").read_text())["data"]
    assert (data["source_language"], data["target_language"]) == ("en", "fr")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "installed")
    assert read_foreign(tmp_path / "installed" / "translate-en_fr-1_0").parameters > 0


def test_a_map_that_argos_never_asks_for_is_left_out(foreign: dict[str, bytes], tmp_path: Path) -> None:
    path = package(tmp_path / "en_fr.argosmodel", foreign, more={"translate-en_fr-1_0/model/vmap.txt": b"\tword\n"})
    found = read_foreign(path)
    assert isinstance(found, ForeignTranslator)
    assert found.shortlist is None
    assert found.left_out == ("model/vmap.txt",)


def test_hostile_packages_are_refused_in_a_line_and_write_nothing(foreign: dict[str, bytes], tmp_path: Path) -> None:
    def told(name: str, more: Mapping[str, bytes]) -> str:
        return refusal(package(tmp_path / f"{name}.argosmodel", foreign, more=more))

    assert "names a file outside the package" in told("above", {"../evil": b"x"})
    assert "names a file outside the package" in told("root", {"/evil": b"x"})
    assert "names a file outside the package" in told("windows", {"translate-en_fr-1_0/..\\evil": b"x"})
    assert "must hold one folder" in told("two", {"other/metadata.json": b"{}"})
    assert "unpack to" in told("bomb", {"translate-en_fr-1_0/model/zeros": b"\0" * (64 << 20)})
    link = zipfile.ZipInfo("translate-en_fr-1_0/model/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = package(tmp_path / "link.argosmodel", foreign)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    assert "holds a link" in refusal(path)
    prefixed = package(tmp_path / "prefix.argosmodel", foreign, {**METADATA, "target_prefix": ">>fra<<"})
    assert "target_prefix = '>>fra<<' must be an entry of the target's vocabulary" in refusal(prefixed)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".argosmodel"] * 7


@pytest.mark.parametrize("kind", ["cut", "flipped"])
def test_two_hundred_damaged_packages_are_refused_in_a_line(
    kind: str, foreign: dict[str, bytes], tmp_path: Path
) -> None:
    generator = random.Random(9)
    path = package(tmp_path / "en_fr.argosmodel", foreign)
    whole, complaints = path.read_bytes(), []
    for _ in range(200):
        path.write_bytes(damaged(whole, kind, generator))
        complaints.append(complaint(path))
    told = [line for line in complaints if line]
    # a zip has fields that nobody reads, such as times
    assert len(told) == 200 if kind == "cut" else len(told) > 180
    assert all(line.startswith(str(path)) and line.isprintable() for line in told)
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_a_package_names_its_languages_in_english() -> None:
    names = {name: value for name, value in package_metadata(Languages("en", "tr")).items() if name.endswith("_name")}
    assert names == {"from_name": "English", "to_name": "Turkish"}
    assert package_metadata(Languages("pt_BR", "xyz"))["from_name"] == "Portuguese (Brazil)"
    assert package_metadata(Languages("pt_BR", "xyz"))["to_name"] == "xyz"


def older_package(path: Path, foreign: dict[str, bytes]) -> Path:
    """A package of 2021, whose model has neither a config.json nor a format of today."""
    files = older_folder(foreign, FORMATS["2021"], path.with_suffix(""))
    path.with_suffix("").rmdir()
    return package(path, files)


@pytest.mark.parametrize("kind", ["cut", "flipped"])
@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.nightly)])
def test_damaged_models_of_older_packages_are_refused_in_a_line_or_read_whole(
    kind: str, count: int, foreign: dict[str, bytes], tmp_path: Path
) -> None:
    generator = random.Random(10)
    files = older_folder(foreign, FORMATS["2021"], tmp_path / "made")
    whole, complaints = files["model.bin"], []
    for number in range(count):
        path = tmp_path / f"{number}.argosmodel"
        # behind the weights stand settings and names: a bit of a weight is another weight, since there is no checksum
        kept = whole[:-400] if kind == "flipped" else b""
        package(path, files | {"model.bin": kept + damaged(whole[len(kept) :], kind, generator)})
        complaints.append(complaint(path))
        assert not complaints[-1] or complaints[-1].startswith(str(path))
        path.unlink()
    told = [line for line in complaints if line]
    assert len(told) == count if kind == "cut" else len(told) >= count // 2
    assert all(line.isprintable() for line in told)


def test_what_an_older_package_may_say_and_is_not_computed_is_named(foreign: dict[str, bytes], tmp_path: Path) -> None:
    def told(name: str, flags: Mapping[str, int]) -> str:
        form = replace(FORMATS["2021"], flags=flags)
        return refusal(package(tmp_path / f"{name}.argosmodel", older_folder(foreign, form, tmp_path / name)))

    assert read_foreign(older_package(tmp_path / "whole.argosmodel", foreign)).parameters > 0
    assert "add_source_bos = True is not supported" in told("begin", {"with_source_bos": 1})
    assert "decoder_start_token = None must be an entry" in told("open", {"user_decoder_start_tokens": 1})
    assert "with_relative_position = 1 is not supported" in told("relative", {"with_relative_position": 1})
    assert "new_setting = 1 is not supported" in told("new", {"new_setting": 1})
