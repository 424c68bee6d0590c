"""Count events of a server for Prometheus; no label holds a text, a key or an address."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from dikkat_runtime.server.work import Batch

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_TOKENS = (8, 32, 128, 512, 2048, 8192, 32768)


class RequestCounts(Collector):
    """Requests by route and status, and their times; counted in one thread, so that no lock is needed."""

    def __init__(self) -> None:
        self._statuses: dict[tuple[str, int], int] = {}
        self._seconds: dict[str, tuple[list[int], list[float]]] = {}
        """By route, requests in each of the buckets and, alone in a list, the sum of their seconds."""

    def add(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self._statuses[route, status] = self._statuses.get((route, status), 0) + 1
        timing = self._seconds.get(route)
        if timing is None:
            timing = self._seconds[route] = [0] * (len(_SECONDS) + 1), [0.0]
        timing[0][bisect_left(_SECONDS, seconds)] += 1
        timing[1][0] += seconds

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics for Prometheus."""
        requests = CounterMetricFamily("dikkat_requests", "Requests answered.", labels=("route", "status"))
        for (route, status), count in self._statuses.items():
            requests.add_metric((route, str(status)), count)
        yield requests
        seconds = HistogramMetricFamily("dikkat_request_seconds", "From the request to its answer.", labels=("route",))
        for route, (counts, total) in self._seconds.items():
            names = [*map(str, _SECONDS), "+Inf"]
            seconds.add_metric((route,), list(zip(names, map(float, accumulate(counts)), strict=True)), total[0])
        yield seconds


class Metrics:
    """Counters of one server; safe to use from several threads."""

    def __init__(self) -> None:
        own = self._registry = CollectorRegistry()
        self._requests = RequestCounts()
        own.register(self._requests)
        self._queued = Histogram(
            "dikkat_queue_seconds", "Wait of the oldest segment of a batch.", buckets=_SECONDS, registry=own
        )
        self._segments = Histogram("dikkat_batch_segments", "Segments computed together.", buckets=_SIZES, registry=own)
        self._tokens = Histogram(
            "dikkat_batch_tokens", "Source tokens computed together.", buckets=_TOKENS, registry=own
        )
        self._source = Counter("dikkat_source_tokens", "Tokens read by models.", registry=own)
        self._written = Counter("dikkat_decode_tokens", "Tokens written by language models.", registry=own)
        self._rejected = Counter("dikkat_rejected", "Requests not answered as asked.", ("reason",), registry=own)
        self._left = Counter("dikkat_clients_gone", "Clients that left before their answer.", registry=own)
        self.waiting = Gauge("dikkat_queue_segments", "Segments that wait now.", registry=own)
        self.inflight = 0
        """Requests that are being answered now."""
        Gauge("dikkat_inflight_requests", "Requests being answered now.", registry=own).set_function(
            lambda: self.inflight
        )

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count one request; `route` is a path of the server's own list. In the event loop."""
        self._requests.add(route, status, seconds)

    def rejected(self, reason: str) -> None:
        """Count one request that could not be answered, by the kind of its problem."""
        self._rejected.labels(reason).inc()

    def client_gone(self) -> None:
        """Count one client that left."""
        self._left.inc()

    def batch(self, batch: Batch, start: float, seconds: float) -> None:
        """Count a computed batch, begun at `start` on the queue's clock."""
        self._segments.observe(len(batch.segments))
        self._tokens.observe(batch.tokens)
        self._source.inc(batch.tokens)
        # the wait of the oldest; the others have waited less
        self._queued.observe(start - min(segment.since for segment in batch.segments))

    def written(self, tokens: int) -> None:
        """Count tokens that a language model wrote."""
        self._written.inc(tokens)

    def page(self) -> bytes:
        """Return all counters in the text format of Prometheus."""
        return generate_latest(self._registry)
