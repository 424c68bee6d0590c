"""What every test shares: checked tensor shapes, a fixed seed, and the data that lies beside the repository."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import hypothesis
import jaxtyping
import pytest
from tests import shape_checks
from tests.longest_files import index_of
from tests.sampled_cases import is_strict, left_to_the_nightly

from dikkat.kernels.environment import set_environment
from dikkat_runtime import localization

if "PYTEST_XDIST_WORKER" in os.environ:
    # a process for each core: more threads would only wait for one another. Tests of threads set their number.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# as the command does, before torch is loaded
set_environment()
# Before anything imports them: from here on shape annotations of these packages are checked.
shape_checks.install(["dikkat.kernels", "dikkat.nn", "dikkat.models"])


def _take_signals_again() -> None:
    """Let signals end a process, as at a terminal.

    A shell starts what it sends to the background with Ctrl-C ignored, and nohup what it keeps with SIGHUP ignored.
    Every command that a test starts would inherit that, and obey it.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    for number in numbers:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    _take_signals_again()
    # of this session alone: a pytest that a test starts runs what it is given. Workers, who run the tests, read it too.
    if "PYTEST_XDIST_WORKER" in os.environ or not getattr(config.option, "numprocesses", None):
        os.environ.pop("PYTEST_ADDOPTS", None)
    if "not nightly" not in config.option.markexpr:
        # new examples each time; by day the same ones, so that what passes once passes again
        hypothesis.settings.load_profile("by night")
    # hundreds of modules that are imported leave no garbage, and looking for it took a third of the collection
    gc.disable()
    # pytest-xdist would begin with the files of most tests
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_runtest_logfinish() -> None:
    # a command that a test has run in Turkish does not decide for the next one
    if localization.language() != "en":
        localization._chosen.clear()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    # before pytest deselects by marker; a case that is named runs
    if not any("[" in argument for argument in config.invocation_params.args):
        for index in left_to_the_nightly([item.nodeid for item in items]):
            items[index].add_marker(pytest.mark.nightly)
    yield
    if hasattr(config, "workerinput"):  # where files are distributed to processes
        items.sort(key=lambda item: index_of(item.nodeid))


def pytest_collection_finish() -> None:
    if "dikkat.tasks.common.train" in sys.modules:  # imported by a test that is to run
        from tests import training_pictures

        training_pictures.install()
    # thousands of collected tests stay to the end: whoever looks for garbage need not look at them each time
    gc.collect()
    gc.freeze()
    # tests leave little: by Python's own thresholds looking for it takes a fortieth of their time
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


# a busy machine is slow, not wrong
_ANY_MACHINE = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("by day", derandomize=True, **_ANY_MACHINE)  # type: ignore[arg-type]
hypothesis.settings.register_profile("by night", **_ANY_MACHINE)  # type: ignore[arg-type]
hypothesis.settings.load_profile("by day")

SHARED_DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"


@cache
def _seeding() -> Callable[[int], object]:
    import torch

    def of_processor(seed: int) -> torch.Generator:
        return torch.default_generator.manual_seed(int(seed))

    if not torch.accelerator.is_available():
        # PyTorch's own notes down the stack of calls for each kind of GPU, in case that one is used later
        vars(torch)["manual_seed"] = of_processor
    return torch.manual_seed


@pytest.fixture(autouse=True)
def _seed() -> None:
    # here, since the process that distributes files to others needs no torch
    _seeding()(0)


@pytest.fixture(autouse=True)
def _checked_shapes(request: pytest.FixtureRequest) -> None:
    shape_checks.begin_test(every_call=is_strict(request.node.nodeid, request.config.option.markexpr))
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


@pytest.fixture
def without_dikkat(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The runtime as it is where dikkat is not installed beside it."""
    from dikkat_runtime.engine import choose as factory

    monkeypatch.setattr(factory, "entry_points", lambda **group: ())
    factory.torch_factory.cache_clear()
    yield
    factory.torch_factory.cache_clear()
