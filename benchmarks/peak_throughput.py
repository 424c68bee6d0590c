"""The peak throughput of a processor, by instruction, and that of a model's linear layers by PyTorch's products.

Run as a script, it prints operations a second of each kind of instruction that the processor has (a multiplication and
its addition are two), from registers, from L1 and from L2, and the bytes a second that it reads.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import HERE, OWN_PYTHON, Measured, child, fail, note, parser, provenance

REPEATS = 7


@dataclass(frozen=True, slots=True)
class Layer:
    """A shape of linear layers, and how often a source and a target token pass through one of this shape."""

    inputs: int
    outputs: int
    on_source: int
    on_target: int

    def products(self, source_tokens: float, target_tokens: float) -> float:
        """Multiplications, each with its addition, of these tokens in the forward pass."""
        return self.inputs * self.outputs * (self.on_source * source_tokens + self.on_target * target_tokens)


def linear_layers(model: Measured) -> list[Layer]:
    """All linear layers of an encoder-decoder; attention scores and padding are not counted as work."""
    width, hidden = model["model_dim"], model["feed_forward_dim"]
    encoder, decoder = model["encoder_layers"], model["decoder_layers"]
    return [
        Layer(width, 3 * width, encoder, decoder),  # query, key and value of self-attention
        Layer(width, 2 * width, decoder, 0),  # key and value of cross-attention
        Layer(width, width, encoder, 3 * decoder),  # outputs of attention, query of cross-attention
        Layer(width, hidden, encoder, decoder),
        Layer(hidden, width, encoder, decoder),
        Layer(width, model["vocab_size"], 0, 1),
    ]


def measure_products(products: Sequence[tuple[int, Layer]], threads: int, *, backward: bool) -> Measured:
    """By type, FLOP/s of the products of so many rows with each layer; and the bytes a second of a copy in memory."""
    shapes = [(rows, layer.inputs, layer.outputs) for rows, layer in products]
    job = {"shapes": shapes, "backward": backward, "repeats": REPEATS}
    return child(OWN_PYTHON, "matrix_products", job, threads)


def instruction_peak(threads: int, seconds: float) -> Measured:
    """By kind of instruction, operations a second of all threads together; `bytes_read` is in bytes a second.

    Each is measured for about so many `seconds`.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "instruction_peak"
        command = ["cc", "-O2", "-pthread", "-o", str(program), str(HERE / "contenders" / "instruction_peak.c")]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            fail(f"cc could not compile it: {built.stderr.strip().splitlines()[0]}")
        done = subprocess.run([str(program), str(threads), str(seconds)], capture_output=True, text=True, check=False)
    if done.returncode:
        fail(f"instruction_peak ended with exit code {done.returncode}")
    peak: Measured = json.loads(done.stdout)
    return peak


def main() -> None:
    """Print a table on standard error and one line of JSON on standard output."""
    arguments = parser(__doc__)
    arguments.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads")
    arguments.add_argument("--seconds", type=float, default=0.25, help="of each measurement")
    options = arguments.parse_args()
    if min(options.threads) < 1 or options.seconds <= 0:
        arguments.error("--threads must be at least 1, --seconds more than 0")
    found = {threads: instruction_peak(threads, options.seconds) for threads in options.threads}
    for threads, peak in found.items():
        for kind, rates in peak.items():
            unit = "GB/s" if kind == "bytes_read" else "G operations/s"
            rates_in_words = ", ".join(f"{rate / 1e9:,.0f} from {place}" for place, rate in rates.items())
            note(f"{threads} threads, {kind}: {rates_in_words} ({unit})")
    print(json.dumps({**provenance("the peak of the processor by instruction"), "threads": found}))


if __name__ == "__main__":
    main()
