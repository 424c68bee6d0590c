"""`dikkat train lm`: from files of text to a run directory."""

import time
from typing import Annotated

from dikkat.cli.training import Ending, TrainOptions, run_job
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.errors import msg
from dikkat_runtime.hints import command

EXAMPLE = """Which text? A file or a folder of plain text, read from its beginning to its end.
For example, plays.txt:

  JULIET:
  O Romeo, Romeo! wherefore art thou Romeo?
  Deny thy father and refuse thy name;

  dikkat train lm plays.txt --out runs/plays --minutes 15"""


def lm(
    data: Annotated[
        list[str] | None, Argument(help="Files of plain text (also compressed), or folders of such files.")
    ] = None,
    training: TrainOptions = ...,  # type: ignore[assignment]
    preset: Annotated[
        str | None, Option(help="tiny, small, base or nanogpt_cpu; else chosen from the amount of text.")
    ] = None,
) -> int:
    """Train a language model from plain text; the last part of it is held out."""
    started = time.monotonic()
    settings = training.settings()

    from dikkat.tasks.common.settings import Request
    from dikkat.tasks.language_model.train import LanguageModelJob

    columns = (None, None)
    request = Request(data or (), (), columns, preset, settings, training.where, training.device, training.start)
    ending = Ending(msg("best validation loss {loss:.4f} nats a token"), command("generate", training.out), -1.0)
    return run_job("lm", LanguageModelJob(request), training, started, ending)
