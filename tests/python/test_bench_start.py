"""Shows that the start bench takes the time of choosing a binary where nothing has imported torch,
and fails where something has, or where there is no binary."""

from __future__ import annotations

import pytest

from bench import choice_probe, start


def test_a_binary_is_chosen_before_torch_is_imported():
    found = start._probe("choice_probe")
    assert set(found) == {"import_s", "choose_s"} and min(found.values()) > 0


def test_torch_that_was_imported_before_is_no_sample(capsys):
    """As in this process, which trains elsewhere."""
    import torch  # noqa: F401

    assert choice_probe.main() == 1
    assert capsys.readouterr() == ("", "torch is imported before a job needs it\n")


def test_a_binary_that_is_missing_is_no_sample(monkeypatch, tmp_path):
    monkeypatch.setenv("LANEWAY_EMBEDDED_LIBRARY", str(tmp_path / "none.so"))
    with pytest.raises(RuntimeError, match=r"none\.so is missing: install the package laneway"):
        start._probe("choice_probe")
