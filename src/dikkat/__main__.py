"""`python -m dikkat` is the command line."""

from dikkat.cli.main import main

main()
