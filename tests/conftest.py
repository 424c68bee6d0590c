"""What every test shares: checked tensor shapes, a fixed seed, and the data that lies beside the repository."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import jaxtyping
import pytest

from dikkat.kernels.environment import set_environment

if "PYTEST_XDIST_WORKER" in os.environ:
    # a process for each core: more threads would only wait for one another. Tests of threads set their number.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# as the command does, before torch is loaded
set_environment()
# Before anything imports them: from here on every shape annotation of these packages is checked at every call.
jaxtyping.install_import_hook(["dikkat.kernels", "dikkat.nn", "dikkat.models"], "beartype.beartype")

import torch  # noqa: E402
from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: E402

from dikkat.models.encoder_decoder import EncoderDecoder  # noqa: E402
from dikkat.models.language_model import LanguageModel  # noqa: E402
from dikkat.training.optimizer import Optimizer  # noqa: E402

CHECKED_UPDATES = 4
"""Of a test: a training calls the same functions with the same shapes, and checks are two fifths of its time."""
CHECKED_STEPS = 16
"""Of a test that decodes, for the same reason: checks are three quarters of its time."""
_calls: Counter[str] = Counter()


def _count(kind: str, checked: int) -> None:
    _calls[kind] += 1
    if _calls[kind] == checked:
        jaxtyping.config.update("jaxtyping_disable", True)


def _counted(function: Callable[..., Any], kind: str, checked: int) -> Callable[..., Any]:
    @wraps(function)
    def counted(*arguments: Any, **options: Any) -> Any:
        _count(kind, checked)
        return function(*arguments, **options)

    return counted


register_optimizer_step_post_hook(lambda *_: _count("updates", CHECKED_UPDATES))
Optimizer.step = _counted(Optimizer.step, "updates", CHECKED_UPDATES)  # type: ignore[method-assign]
for _model in (EncoderDecoder, LanguageModel):
    _model.step = _counted(_model.step, "steps", CHECKED_STEPS)  # type: ignore[method-assign]

SHARED_DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _checked_shapes() -> None:
    _calls.clear()
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the public corpora, `../shared/data` beside the repository; without it the test is skipped."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"needs the data in {SHARED_DATA}, which is not there")
    return SHARED_DATA


@pytest.fixture
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """PyTorch does the work of the native kernels, as on a computer without a C compiler."""
    from dikkat import kernels

    # for whoever chooses an engine from now on
    monkeypatch.setenv("DIKKAT_NATIVE", "0")
    with kernels.use("torch"):
        yield


@pytest.fixture(params=["native", "torch"])
def either_path(request: pytest.FixtureRequest) -> None:
    """Both ways, one after the other: with the native kernels and as if there were none."""
    from dikkat.kernels.library import library, why_absent

    if request.param == "torch":
        request.getfixturevalue("without_kernels")
    elif library() is None:
        pytest.skip(f"no native kernels: {why_absent()}")


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """Switches the shape checks off, so that a wrong argument meets our own error message."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
