"""What a release says of itself agrees: versions, what conda installs, and the licences of what is shipped."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.build_wheels import TARGETS
from tools.sbom import carried, unlicensed

import dikkat
import dikkat_runtime
from dikkat_runtime.cli.failures import explain_failure

ROOT = Path(__file__).resolve().parents[2]
RECIPE: dict[str, Any] = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}


def project(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def requirements(lines: list[str]) -> dict[str, str]:
    """Return bounds by name, as conda calls the packages."""
    split = (re.fullmatch(r"([\w-]+) *([=>].*)", line) for line in lines)
    return {CONDA_NAMES.get(match[1], match[1]): match[2] for match in split if match}


def test_all_versions_are_the_one_of_the_runtime() -> None:
    version = dikkat_runtime.__version__
    assert project(".")["version"] == project("runtime")["version"] == RECIPE["context"]["version"] == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"dikkat-runtime=={version}" in project(".")["dependencies"]


@pytest.mark.parametrize(("folder", "output"), [("runtime", 0), (".", 1)])
def test_conda_installs_what_pip_installs(folder: str, output: int) -> None:
    declared = project(folder)
    recipe = RECIPE["outputs"][output]
    wanted = [*declared["dependencies"], f"python {declared['requires-python']}"]
    in_conda = [line.replace("${{ version }}", dikkat_runtime.__version__) for line in recipe["requirements"]["run"]]
    assert requirements(in_conda) == requirements(wanted)
    assert recipe["package"]["name"] == declared["name"]


def test_every_file_that_a_package_carries_has_a_licence(tmp_path: Path) -> None:
    packages = tmp_path
    (packages / "dikkat").symlink_to(ROOT / "src" / "dikkat")
    (packages / "dikkat_runtime").symlink_to(ROOT / "runtime" / "src" / "dikkat_runtime")
    names = {Path(component["name"]).name for component in carried(packages)}
    assert {"core.wasm", "phrasebook.tsv.gz", "000.md"} <= names
    assert unlicensed([*carried(packages), {"name": "stranger"}]) == ["stranger"]


def test_a_file_of_a_stranger_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dikkat").mkdir()
    (tmp_path / "dikkat" / "Roboto.woff2").write_bytes(b"font")
    with pytest.raises(SystemExit, match=r"no licence is known of dikkat/Roboto\.woff2"):
        carried(tmp_path)


def test_the_release_builds_every_wheel() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    (built,) = re.findall(r"tools\.build_wheels --out dist (.*)", workflow)
    assert set(built.split()) == set(TARGETS) - {"manylinux-x86_64"}


def test_a_runtime_of_another_version_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dikkat_runtime, "__version__", "0.0.9")
    with pytest.raises(ImportError, match=r"^dikkat 0\.1\.0 needs dikkat-runtime 0\.1\.0, not 0\.0\.9$") as raised:
        importlib.reload(dikkat)
    said, code = explain_failure(raised.value, ["train"])
    assert said.endswith("not 0.0.9): pip install --upgrade dikkat-runtime dikkat")
    assert code == 2
