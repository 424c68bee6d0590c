"""The cost model of benchmarks/scaling.py: what it was fitted to comes out again, and its limits are those of sums."""

from __future__ import annotations

import pytest
from benchmarks.scaling_model import Machine, breaking_point, fit, forecasts, update_seconds

LATENCY, RATE = 2e-4, 5e8
SECONDS = {"compute": 1.0, "matrices": 0.2, "rest": 0.05}
MATRICES = [[256, 256]] * 24
PARAMETERS = 4_000_000


def measured(ranks: int) -> list[dict[str, object]]:
    """What ranks of a known machine would measure."""
    processor = sum(SECONDS.values())
    update = {"wall": processor, "processor": processor, "exchange": 0.0, "tokens": 3900.0, **SECONDS}
    exchanges = {str(size): LATENCY + (size / RATE if size > 4000 else 0.0) for size in (4000, 400_000, 40_000_000)}
    facts = {"parameters": PARAMETERS, "matrices": MATRICES, "startup": 6.0, "reading": 0.01}
    return [{"updates": [update] * 3, "exchanges": exchanges, **facts}] * ranks


def test_an_update_of_one_rank_costs_its_parts() -> None:
    model = fit([measured(1)], [measured(2)])
    assert update_seconds(model, 1) == pytest.approx(sum(SECONDS.values()))
    assert (model["latency"], model["bytes_per_second"]) == (LATENCY, pytest.approx(RATE))


@pytest.mark.parametrize("ranks", [2, 8, 64])
def test_more_ranks_share_what_is_shared_and_pay_for_what_they_send(ranks: int) -> None:
    model = fit([measured(1)], [measured(2)])
    sent = 4 * PARAMETERS * (2 * (ranks - 1) / ranks + 1)
    own = 1.0 / ranks + 0.2 / min(ranks, 24) + 0.05
    assert update_seconds(model, ranks) == pytest.approx(own + sent / RATE + 2 * (ranks - 1) * LATENCY)
    free = Machine("free", 10.0, 1e18, 0.0)
    assert update_seconds(model, ranks, free) == pytest.approx(own / 10.0)
    assert update_seconds(model, ranks, free, batches=ranks) == pytest.approx((own + 1.0 - 1.0 / ranks) / 10.0)


def test_half_is_lost_from_the_breaking_point_on() -> None:
    model = fit([measured(1)], [measured(2)])
    machine = Machine("slow", 1.0, 1e8, 1e-3)
    last = breaking_point(model, machine)
    alone = update_seconds(model, 1, machine)
    assert alone / update_seconds(model, last, machine) / last < 0.5
    assert last == 2 or alone / update_seconds(model, last - 1, machine) / (last - 1) >= 0.5
    assert sum(line.startswith("| ") for line in forecasts(model)) == 1 + 4 + 3 + 3
