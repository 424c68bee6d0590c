"""Run the command line: `python -m dikkat_runtime`."""

from dikkat_runtime.cli.main import main

main()
