"""Show how the attention of a run came about: its maps after more and more updates, beside the loss."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dikkat.explain.attention_map import SentenceMaps, attention_name
from dikkat.explain.explorer.document import MapKind, Page, assemble
from dikkat.explain.head_analysis.head_stats import HeadStats, HeadStatsCollector
from dikkat.explain.head_analysis.importance import HeadName
from dikkat.explain.notebook import PAGE_KINDS, by_layer, page_sentence
from dikkat.nn.recorder import MapName
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.map_history import MapHistory
from dikkat_runtime.files import write_atomically
from dikkat_runtime.localization import language, translated
from dikkat_runtime.run.config import guided_indices
from dikkat_runtime.text.tokenizer import Tokenizer

Labels = Sequence[Callable[[Sequence[int]], list[str]]]


class OverTraining:
    """Hold what a run has kept of its attention. Raises as `MapHistory.read`."""

    def __init__(self, path: Path) -> None:
        self.run = RunDirectory.open(path)
        self.history = MapHistory.read(self.run)
        source = Tokenizer.load(self.run.tokenizer)
        target = Tokenizer.load(self.run.target_tokenizer) if self.run.target_tokenizer.exists() else source
        self._labels: Labels = (source.labels, target.labels)
        self.losses = [
            (int(row["step"]), float(row["valid_loss"])) for row in self.run.read_metrics() if row.get("valid_loss")
        ]
        self.stats = [self._stats(look) for look in range(len(self.history.updates))]
        """The statistics of each head over all sentences, for each look."""

    def sentence(self, number: int, look: int) -> SentenceMaps:
        return self.history.sentence(number, look, self._labels)

    def _stats(self, look: int) -> dict[HeadName, HeadStats]:
        collector, heads = HeadStatsCollector(), []
        for number in range(len(self.history.pairs)):
            for layer in by_layer(self.sentence(number, look)):
                one = layer[0]
                weights = np.stack([item.weights for item in layer]).astype(np.float64)
                collector.add(MapName(one.stack, one.layer, one.kind), weights, one.query_tokens, one.key_tokens)
                heads += [HeadName(one.stack, one.layer, one.kind, head) for head in range(len(layer))]
        return {head: collector.of(head) for head in dict.fromkeys(heads)}

    def at(self, settings: Mapping[str, Any]) -> SentenceMaps:
        """Return the maps of the sentence and the update that a step of a lesson sets, by default the last update."""
        updates, last = self.history.updates, len(self.history.pairs) - 1
        update = settings.get("update", updates[-1])
        look = min(range(len(updates)), key=lambda number: abs(updates[number] - update))
        return self.sentence(min(settings.get("sentence", 0), last), look)

    def page(self, refresh: int | None = None, lesson: Mapping[str, Any] | None = None) -> str:
        """Return the page with a slider over the updates, a whole HTML file that reloads itself after `refresh` s."""
        updates = self.history.updates
        sentences = [
            page_sentence(self.sentence(number, look), is_given=True)
            for number in range(len(self.history.pairs))
            for look in range(len(updates))
        ]
        training = {
            "updates": updates,
            "losses": self.losses,
            "entropy": self._over_looks(lambda stats: round(stats.entropy, 4)),
            "roles": self._over_looks(lambda stats: stats.target),
            "shares": self._over_looks(lambda stats: round(stats.target_share, 4)),
        }
        name, guided = self.run.path.resolve().name, guided_indices(self.run.read_config())
        return assemble(Page(name, "", "", sentences, training, lesson, guided), language(), refresh)

    def write_page(self, out: Path, lesson: Mapping[str, Any] | None = None) -> None:
        """Write the page, with a lesson where there is one. Raises `DiskError` or `CannotCreateError`."""
        write_atomically(out, self.page(lesson=lesson).encode("utf-8", "replace"))

    def _over_looks(self, value: Callable[[HeadStats], Any]) -> dict[MapKind, list[list[list[Any]]]]:
        """A value of each look, by kind of map, layer and head."""
        table: dict[MapKind, list[list[list[Any]]]] = {}
        for head in self.stats[-1]:
            layers = table.setdefault(PAGE_KINDS[head.stack, head.kind], [])
            layers += [[]] if head.layer == len(layers) else []
            layers[head.layer].append([value(stats[head]) for stats in self.stats])
        return table

    def lines(self, targets: dict[Any, str]) -> Iterator[str]:
        """Yield a line for each head: its entropy at a few updates, what it is drawn to now, and since which update."""
        updates = self.history.updates
        columns = np.unique(np.linspace(0, len(updates) - 1, 6).astype(int)).tolist()
        shown = ", ".join(f"{updates[column]:,}" for column in columns)
        yield translated(
            "{run}: {count} snapshots; entropy in nats after the updates {updates}", self.run.path, len(updates), shown
        )
        for head, last in self.stats[-1].items():
            role = [stats[head].target for stats in self.stats]
            since = next(look for look in range(len(role)) if all(one == last.target for one in role[look:]))
            entropies = "  ".join(f"{self.stats[column][head].entropy:.2f}" for column in columns)
            attention = attention_name(head.stack, head.kind)
            name = translated("{attention}, layer {layer}, head {head}", attention, head.layer + 1, head.head + 1)
            drawn = translated("{role} since update {update:,}", targets[last.target], updates[since])
            yield f"{name:<44}  {entropies}  {drawn}"
