"""What the rounds of decode_speed.py come to: medians, shares of peak, and ratios between engines."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.harness import Measured
from benchmarks.peak_throughput import linear_layers

OURS, BYTES, CT2_EXACT = "dikkat", "dikkat int8", "ctranslate2 float32"
PLAIN = "dikkat pytorch"
OWN = (OURS, BYTES, PLAIN)
EQUAL_BLEU = 0.2
FIGURES = ("sentences_per_second", "alone_p50", "alone_p90", "share_of_peak", "alone_share_of_peak")


def summary(rounds: Sequence[Measured], engines: dict[str, str], data: Measured) -> Measured:
    """Medians of every side and search, and all of ours against the fastest variant of every other engine."""
    each = [{name: figures(one, name, data) for name in engines} for one in rounds]
    medians = {
        name: {
            search: {
                **{key: statistics.median(one[name][search][key] for one in each) for key in FIGURES},
                "batch_size": each[-1][name][search]["batch_size"],
                **data["scores"].get(name, {}).get(search, {}),
            }
            for search in each[0][name]
        }
        for name in engines
    }
    return {
        "medians": medians,
        "comparisons": [
            compare(each, medians, own, [name for name in engines if engines[name] == engine], search)
            for own in OWN
            if own in engines
            for engine in dict.fromkeys(engines.values())
            if engine not in OWN
            for search in medians[own]
        ],
        "copy_bytes_per_second": statistics.median(one["peak"]["copy_bytes_per_second"] for one in rounds),
    }


def figures(one: Measured, name: str, data: Measured) -> Measured:
    """Of one side in one round, by search: speed at its fastest batch size, time for one, shares of peak."""
    found = {}
    for search, times in one["contenders"][name]["searches"].items():
        size = min(times["batch_seconds"], key=times["batch_seconds"].__getitem__)
        seconds = times["batch_seconds"][size]
        beam = int(search.rpartition(" ")[2]) if search.startswith("beam") else 1
        found[search] = {
            "batch_size": int(size),
            "sentences_per_second": data["sentences"] / seconds,
            "share_of_peak": least_seconds(one["peak"], data, search, beam, "batch") / seconds,
            "alone_p50": times["alone_p50"],
            "alone_p90": times["alone_p90"],
            "alone_share_of_peak": least_seconds(one["peak"], data, search, beam, "alone")
            / data["sentences"]
            / times["alone_p50"],
        }
    return found


def least_seconds(peak: Measured, data: Measured, search: str, beam: int, way: str) -> float:
    """Seconds for all sentences if only the matrix products of the linear layers took time."""
    rates, layers = peak["flop_per_second"], linear_layers(data["model"])
    sources, targets = data["source_tokens"], beam * data["target_tokens"][search]
    on_source = sum(
        2 * layer.products(sources, 0) / rate for layer, rate in zip(layers, rates[f"source {way}"], strict=True)
    )
    on_target = sum(
        2 * layer.products(0, targets) / rate for layer, rate in zip(layers, rates[f"{search} {way}"], strict=True)
    )
    return on_source + on_target


def compare(each: list[Measured], medians: Measured, own: str, variants: list[str], search: str) -> Measured:
    """How many times as many sentences a second, and what part of the time for one, each against the best variant.

    That is the fastest of equal quality; where none is of equal quality, the fastest.
    """
    counted = [name for name in variants if quality(medians, own, name, search)["equal_quality"] is not False]
    many = max(counted or variants, key=lambda name: medians[name][search]["sentences_per_second"])
    one = min(counted or variants, key=lambda name: medians[name][search]["alone_p50"])
    speeds = [
        found[own][search]["sentences_per_second"] / found[many][search]["sentences_per_second"] for found in each
    ]
    times = [found[own][search]["alone_p50"] / found[one][search]["alone_p50"] for found in each]
    return {
        "ours": own,
        "search": search,
        "batch": {"peer": many, "speed_ratio": statistics.median(speeds), "rounds": speeds}
        | quality(medians, own, many, search),
        "alone": {"peer": one, "time_ratio": statistics.median(times), "rounds": times}
        | quality(medians, own, one, search),
    }


def quality(medians: Measured, own: str, peer: str, search: str) -> Measured:
    """How much better our BLEU is, and whether both count as equal; nothing where the peer has other weights."""
    if "bleu" not in medians[peer][search]:
        return {"bleu_difference": None, "equal_quality": None}
    difference = medians[own][search]["bleu"] - medians[peer][search]["bleu"]
    return {"bleu_difference": difference, "equal_quality": abs(difference) <= EQUAL_BLEU}


def table(found: Measured) -> str:
    heads = ("batch", "sent/s", "of peak", "alone p50", "p90 ms", "of peak", "BLEU", "same text")
    lines = [f"  {'':51}" + "".join(f"{head:>12}" for head in heads)]
    for name, searches in found["medians"].items():
        lines += [f"  {name:43}{search:8}{cells(each)}" for search, each in searches.items()]
    return "\n".join(lines)


def cells(found: Measured) -> str:
    text = (
        f"{found['batch_size']:>12}{found['sentences_per_second']:>12,.1f}{found['share_of_peak']:>12.1%}"
        f"{1e3 * found['alone_p50']:>12.1f}{1e3 * found['alone_p90']:>12.1f}{found['alone_share_of_peak']:>12.1%}"
    )
    return text + (
        f"{found['bleu']:>12.2f}{found['same_text']:>12.1%}" if "bleu" in found else f"{'other weights':>24}"
    )


def conclusion(found: Measured) -> str:
    lines = []
    for each in found["comparisons"]:
        for way, key in (("batch", "speed_ratio"), ("alone", "time_ratio")):
            result = each[way]
            lines.append(
                f"{each['ours']} / {result['peer']}, {each['search']}, {way}: {key.replace('_', ' ')} {result[key]:.2f}"
                f" (rounds: {', '.join(f'{ratio:.2f}' for ratio in result['rounds'])}); {verdict(result)}"
            )
    return "\n".join(lines)


def verdict(result: Measured) -> str:
    if result["equal_quality"] is None:
        return "BLEU not comparable: other weights"
    equal = "equal quality" if result["equal_quality"] else "NOT of equal quality"
    return f"BLEU {result['bleu_difference']:+.2f}: {equal}"
