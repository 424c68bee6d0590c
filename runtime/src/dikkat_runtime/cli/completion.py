"""Complete commands and options in bash, zsh and fish: the script for the shell, and what it asks this program for."""

import os
from collections.abc import Mapping
from pathlib import Path

from dikkat_runtime.cli.options import Command
from dikkat_runtime.cli.program import NAME, OPTIONS, Group, find_command, summaries
from dikkat_runtime.errors import UsageError, msg

VARIABLE = "_DIKKAT_COMPLETE"
"""Environment variable of a shell that asks what could stand at the word COMP_CWORD of COMP_WORDS."""
_BASH = f"""\
_{NAME}_completion() {{
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${{COMP_WORDS[*]}}" COMP_CWORD=$COMP_CWORD {VARIABLE}=complete_bash $1 ) )
}}
complete -o default -F _{NAME}_completion {NAME}"""
_ZSH = f"""\
#compdef {NAME}
_{NAME}_completion() {{
    local -a found
    found=(${{(f)"$(env COMP_WORDS="${{words[*]}}" COMP_CWORD=$((CURRENT-1)) {VARIABLE}=complete_zsh {NAME})"}})
    if (( $#found )); then compadd -- $found; else _files; fi
}}
compdef _{NAME}_completion {NAME}"""
_FISH = f"""\
complete -c {NAME} -a '(env COMP_WORDS=(commandline -cp) COMP_CWORD=(math (count (commandline -opc))) \
{VARIABLE}=complete_fish {NAME})'"""
_SCRIPTS = {
    "bash": (_BASH, ".local/share/bash-completion/completions/dikkat"),
    "zsh": (_ZSH, ".zfunc/_dikkat"),
    "fish": (_FISH, ".config/fish/completions/dikkat.fish"),
}
"""By shell: the script, and the file under the home folder that the shell reads it from."""


def completion(*, install: bool) -> str:
    """Return the script for the shell of the user, or where it was installed. Raises `UsageError` for another shell."""
    shell = Path(os.environ.get("SHELL", "")).name
    if shell not in _SCRIPTS:
        raise UsageError("completion works in {scripts}, not in {shell}").fill(
            ", ".join(_SCRIPTS), shell or msg("a shell without SHELL")
        )
    script, home_path = _SCRIPTS[shell]
    if not install:
        return script
    path = Path.home() / home_path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{script}\n", encoding="utf-8")
    return str(path)


def candidates(environment: Mapping[str, str]) -> list[str]:
    """Return what could stand where the cursor of the shell is."""
    typed = environment.get("COMP_WORDS", "").split()
    index = int(environment.get("COMP_CWORD", "0") or 0)
    begin = typed[index] if index < len(typed) else ""
    known = list(_known([word for word in typed[1:index] if not word.startswith("-")]))
    return [word for word in known if word.startswith(begin) and (begin.startswith("-") or word[0] != "-")]


def _known(words: list[str]) -> list[str]:
    if not words:
        return [*summaries(), *(name.partition(" ")[0] for name, _ in OPTIONS[:-1]), "--help"]
    if words[0] not in summaries():
        return []
    target = find_command(words[0])
    if isinstance(target, Group):
        return list(target.commands) if len(words) == 1 else Command(NAME, target.function(words[1])).words()
    return Command(NAME, target).words()
