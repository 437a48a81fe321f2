"""Completion of `laneway` and `lanewayd` for bash, zsh and fish: `laneway completion SHELL` prints
the script that a shell reads."""

from __future__ import annotations

import argparse

SHELLS = ("bash", "zsh", "fish")

# The options of lanewayd; a test compares them with `lanewayd --help`.
LANEWAYD_OPTIONS = (
    *("--help", "--device", "--pool", "--address", "--policy", "--standby", "--lanes"),
    *("--max-threads", "--graph-memory", "--lane-sms", "--reserve", "--recovery-memory"),
    *("--staging", "--spill"),
    "--copy-bandwidth",
    *("--log-level", "--log-file", "--trace", "--worker"),
    *("--config", "--version"),
)

# Those of policies/registry.cc; a test compares them with what a service says that there are.
POLICIES = ("edf", "fair", "fifo", "las", "packing", "priority", "sjf", "srtf")


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The completion script of `shell` for lanewayd and for the command line of `parser`."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](_commands(parser))


def _commands(parser: argparse.ArgumentParser) -> dict[str, tuple[str, list[str], list[str]]]:
    """By command: what it does, its options, and the words that may be its argument."""
    (actions,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    does = {choice.dest: choice.help or "" for choice in actions._choices_actions}
    return {
        name: (
            does.get(name, ""),
            [o for action in command._actions for o in action.option_strings if o[:2] == "--"],
            [str(c) for a in command._actions if not a.option_strings for c in a.choices or ()],
        )
        for name, command in actions.choices.items()
    }


def _bash(commands: dict[str, tuple[str, list[str], list[str]]]) -> str:
    cases = "\n".join(
        f'    {name}) words="{" ".join([*options, *arguments])}" ;;'
        for name, (_, options, arguments) in commands.items()
    )
    return f"""\
# bash completion of laneway and lanewayd; read it with: source <(laneway completion bash)
_laneway() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} words
  case ${{COMP_WORDS[1]}} in
{cases}
  esac
  [ "$COMP_CWORD" -gt 1 ] || words="{" ".join(commands)} --help --version"
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}}
_lanewayd() {{
  local word=${{COMP_WORDS[COMP_CWORD]}}
  mapfile -t COMPREPLY < <(compgen -W "{" ".join(LANEWAYD_OPTIONS)}" -- "$word")
}}
complete -o default -F _laneway laneway
complete -o default -F _lanewayd lanewayd
"""


def _zsh(commands: dict[str, tuple[str, list[str], list[str]]]) -> str:
    described = "\n".join(
        f"    '{name}:{does.replace(chr(39), '')}'" for name, (does, _, _) in commands.items()
    )
    cases = "\n".join(
        f"    {name}) compadd -- {' '.join([*options, *arguments])} ;;"
        for name, (_, options, arguments) in commands.items()
    )
    return f"""\
# zsh completion of laneway and lanewayd; read it with: source <(laneway completion zsh)
_laneway() {{
  local -a commands=(
{described}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    compadd -- --help --version
    return
  fi
  case $words[2] in
{cases}
  esac
  _files
}}
_lanewayd() {{
  compadd -- {" ".join(LANEWAYD_OPTIONS)}
  _files
}}
compdef _laneway laneway
compdef _lanewayd lanewayd
"""


def _fish(commands: dict[str, tuple[str, list[str], list[str]]]) -> str:
    lines = [
        "# fish completion of laneway and lanewayd; read it with: laneway completion fish | source"
    ]
    for name, (does, options, arguments) in commands.items():
        quoted = does.replace("\\", "\\\\").replace("'", "\\'")
        lines.append(f"complete -c laneway -n __fish_use_subcommand -f -a {name} -d '{quoted}'")
        inside = f"complete -c laneway -n '__fish_seen_subcommand_from {name}'"
        lines += [f"{inside} -l {option[2:]}" for option in options]
        lines += [f"{inside} -f -a {argument}" for argument in arguments]
    lines += [f"complete -c lanewayd -l {option[2:]}" for option in LANEWAYD_OPTIONS]
    return "\n".join(lines) + "\n"
