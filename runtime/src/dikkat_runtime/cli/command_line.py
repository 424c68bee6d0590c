"""The commands of `dikkat-runtime`: their options, and one line with an exit code for every failure."""

from __future__ import annotations

import argparse
import os
import traceback
from collections.abc import Sequence
from pathlib import Path

from dikkat_runtime import __version__
from dikkat_runtime.cli.commands import classify, embed, generate, translate
from dikkat_runtime.cli.failures import as_known
from dikkat_runtime.cli.native_notices import NativeNotices
from dikkat_runtime.cli.serve import OneLineParser
from dikkat_runtime.cli.serve import add_options as _serve
from dikkat_runtime.cli.signals import code_of
from dikkat_runtime.cli.streams import discard_output
from dikkat_runtime.cli.translate_files import ALL_WORDS_HELP
from dikkat_runtime.cli.translate_files import HELP as FILES_HELP
from dikkat_runtime.cli.translate_files import add_options as _translate_files
from dikkat_runtime.cli.whole_numbers import at_least_one, beam_size
from dikkat_runtime.errors import SettingError
from dikkat_runtime.localization import pop_language_option
from dikkat_runtime.messages import msg
from dikkat_runtime.native.notices import listen
from dikkat_runtime.native.waiting import set_waiting
from dikkat_runtime.text.visible import say

PROGRAM, DEBUG = "dikkat-runtime", "DIKKAT_DEBUG"
"""The name of the program, and of the variable that shows the traceback of a bug."""
PRECISION_HELP = msg("int8 is faster; auto takes it where training measured that it loses next to nothing.")

LANGUAGE_HELP = msg("Language of help, messages and reports, after any command too: en or tr; else by LANG.")


def run_command(arguments: Sequence[str]) -> int:
    """Run one command; every failure that a user can cause is one line on standard error."""
    set_waiting()
    listen(NativeNotices("dikkat-runtime"))
    try:
        options = _parser().parse_args(pop_language_option(arguments))
        if "action" not in options:
            _parser().print_help()
            return 0
        code: int | None = options.action(options)
        return code or 0
    except BrokenPipeError:
        # the reader of our output has gone, so no message is written
        discard_output()
        return 141
    except KeyboardInterrupt as interrupt:
        return _fail(msg("interrupted"), code_of(interrupt))
    except Exception as error:
        if os.environ.get(DEBUG):
            traceback.print_exception(error)
        known = as_known(error, msg("give a smaller --batch-size"), f"{DEBUG}=1 {PROGRAM} …")
        return _fail(known.about_option if isinstance(known, SettingError) else str(known), known.exit_code)


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(prog="dikkat-runtime", description="Run models that dikkat trained, without PyTorch.")
    parser.add_argument("--version", action="version", version=f"dikkat-runtime {__version__}")
    parser.add_argument("--language", metavar="CODE", help=LANGUAGE_HELP)
    commands = parser.add_subparsers(title="commands", parser_class=OneLineParser)
    _translate(commands.add_parser("translate", help="Translate FILE or standard input, line by line."))
    _translate_files(commands.add_parser("translate-files", help=FILES_HELP), PRECISION_HELP)
    _classify(commands.add_parser("classify", help="Classify the lines of FILE or standard input."))
    _generate(commands.add_parser("generate", help="Write a text on, token by token."))
    _embed(commands.add_parser("embed", help="Turn each line into a vector."))
    _serve(commands.add_parser("serve", help="Serve runs over HTTP, as clients of other translators expect it."))
    return parser


def _translate(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action=translate)
    _run_and_file(parser, "Text, one sentence a line; standard input if absent.")
    parser.add_argument("--out", type=Path, help="Read FILE as a document (.po .xlf .md .docx …), write it here.")
    parser.add_argument("--columns", default="", help="Of a table with --out, as in source:target or 2:3.")
    parser.add_argument("--beam", type=beam_size, default=5, help="Hypotheses followed side by side; 1 is greedy.")
    parser.add_argument("--n-best", type=at_least_one, default=1, help="Translations a line, as number, score, text.")
    parser.add_argument("--scores", action="store_true", help="Number and score before each text.")
    parser.add_argument(
        "--length-penalty", type=float, help="Larger favours longer output; if absent, as the run says."
    )
    parser.add_argument("--sample", action="store_true", help="Draw at random instead of searching.")
    parser.add_argument("--temperature", type=float, default=1.0, help="Of sampling: below 1 sharper, above 1 flatter.")
    parser.add_argument("--top-k", type=int, default=0, help="Of sampling: only so many likeliest tokens; 0 is all.")
    parser.add_argument("--top-p", type=float, default=1.0, help="Of sampling: only the most probable of this share.")
    parser.add_argument("--seed", type=int, default=1, help="Of sampling.")
    parser.add_argument(
        "--no-repeat-ngram",
        type=int,
        help="Write no n-gram of so many tokens twice; 0 allows all. If absent, only lines that came out as a loop are"
        " translated again with 3.",
    )
    parser.add_argument("--repetition-penalty", type=float, default=1.0, help="Above 1 repeats less.")
    parser.add_argument("--no-corrections", action="store_true", help="Leave aside what people have corrected.")
    parser.add_argument("--all-words", action="store_true", help=ALL_WORDS_HELP)
    parser.add_argument(
        "--glossary", type=Path, help="Terms: a term, a tab and its translation a line, several parted by |."
    )
    parser.add_argument("--prefix", type=Path, help="What the translation of each line begins with, one a line.")
    parser.add_argument("--confidence", action="store_true", help="Probability before each text, faults after it.")
    parser.add_argument("--json", action="store_true", help="A line of JSON each, with the probability of each word.")
    parser.add_argument("--abstain", type=float, help="Leave a line empty that is less probably right than this.")
    _numbers(parser)
    parser.add_argument("--batch-size", type=at_least_one, default=128, help="Sentences translated at once.")


def _classify(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action=classify)
    _run_and_file(parser, "Text, one a line; standard input if absent.")
    parser.add_argument("--all", action="store_true", help="Label and probability of every class, likeliest first.")
    _numbers(parser)


def _generate(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action=generate)
    parser.add_argument("run", type=Path, help="Run directory of a language model.")
    parser.add_argument("prompt", nargs="?", help="Start of the text; else standard input, else a new text.")
    parser.add_argument("--max-tokens", type=int, default=200, help="Most tokens to write.")
    parser.add_argument("--greedy", action="store_true", help="Always the most probable token: temperature 0.")
    parser.add_argument("--temperature", type=float, default=0.8, help="Below 1 sharper, above 1 flatter.")
    parser.add_argument("--top-k", type=int, default=0, help="Only so many most probable tokens; 0 is all.")
    parser.add_argument("--top-p", type=float, default=1.0, help="Only the most probable tokens of this share.")
    parser.add_argument("--min-p", type=float, default=0.0, help="Only tokens with this share of the best one's.")
    parser.add_argument("--repetition-penalty", type=float, default=1.0, help="Above 1 repeats less.")
    parser.add_argument("--seed", type=int, default=1, help="Decides what is drawn.")
    _numbers(parser)


def _embed(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action=embed)
    _run_and_file(parser, "Text, one a line; standard input if absent.")
    parser.add_argument(
        "--of",
        choices=("text", "cross"),
        default="text",
        help="text: what is read; cross: what cross-attention gives each token that a translator writes.",
    )
    _numbers(parser)


def _numbers(parser: argparse.ArgumentParser) -> None:
    names = ("auto", "float32", "int8")
    parser.add_argument("--precision", choices=names, default="auto", help=PRECISION_HELP)
    parser.add_argument("--threads", type=at_least_one, help="Threads to compute with; all processors if absent.")


def _run_and_file(parser: argparse.ArgumentParser, file_help: str) -> None:
    parser.add_argument("run", type=Path, help="Run directory.")
    parser.add_argument("file", type=Path, nargs="?", help=file_help)


def _fail(message: str, exit_code: int) -> int:
    say(message)
    return exit_code
