"""Completion of the commands in a shell: bash offers what the command line takes, and the list of
lanewayd's options is lanewayd's own."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from laneway.cli import completion
from laneway.cli.arguments import parser
from laneway.native.programs import program

ROOT = Path(__file__).resolve().parents[2]


def offered(*words):
    """What bash offers for the last of these words."""
    line = " ".join(f"'{word}'" for word in words)
    function = "_lanewayd" if words[0] == "lanewayd" else "_laneway"
    script = completion.script("bash", parser())
    script += f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; {function}\n"
    script += 'printf "%s\\n" "${COMPREPLY[@]}"\n'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_bash_offers_the_commands():
    assert offered("laneway", "s") == {"status", "shutdown", "set", "simulate", "serve"}
    assert offered("laneway", "") >= {
        "status",
        "jobs",
        "kill",
        "release",
        "policy",
        "trace",
        "completion",
    }


def test_bash_offers_the_options_and_arguments_of_a_command():
    options = {"--address", "--help", "--json", "--limits", "--timeout", "--watch"}
    assert offered("laneway", "status", "--") == options
    assert offered("laneway", "jobs", "--s") == {"--state", "--sort"}
    assert offered("laneway", "trace", "--c") == {"--chrome"}
    assert offered("laneway", "completion", "") == {*completion.SHELLS, "--help"}


def test_bash_offers_the_options_of_lanewayd():
    assert offered("lanewayd", "--lo") == {"--log-level", "--log-file"}


def test_the_options_of_lanewayd_are_those_of_its_help():
    lanewayd = program("lanewayd")
    if lanewayd is None:
        pytest.skip("lanewayd is not built")
    text = subprocess.run([lanewayd, "--help"], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", text, re.MULTILINE)) == set(
        completion.LANEWAYD_OPTIONS
    )


def test_the_policies_of_the_help_are_those_that_there_are():
    lanewayd = program("lanewayd")
    if lanewayd is None:
        pytest.skip("lanewayd is not built")
    done = subprocess.run([lanewayd, "--policy", "none-such"], capture_output=True, text=True)
    known = re.search(r"known policies are: ([\w, ]+), and files", done.stderr)
    assert known is not None, done.stderr
    assert known[1].split(", ") == list(completion.POLICIES)


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_a_script_parses_in_its_shell_and_names_every_command(shell, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "laneway.cli", "completion", shell],
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=True,
    )
    commands = "status jobs kill release policy trace completion shutdown"
    for command in commands.split():
        assert re.search(rf"\b{command}\b", done.stdout), command
    if shutil.which(shell):
        file = tmp_path / "script"
        file.write_text(done.stdout)
        subprocess.run([shell, "-n", str(file)], check=True)


def test_another_shell_is_refused_with_those_there_are():
    done = subprocess.run(
        [sys.executable, "-m", "laneway.cli", "completion", "tcsh"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert all(shell in done.stderr for shell in ("tcsh", *completion.SHELLS))
