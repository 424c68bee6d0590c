"""`python -m dikkat` is the command line; `--nproc` starts its ranks so."""

from dikkat.training.distributed.environment import is_started_by_torchrun
from dikkat_runtime.cli.main import main
from dikkat_runtime.cli.signals import unblock_sigint

main(unblock_sigint if is_started_by_torchrun() else None)
