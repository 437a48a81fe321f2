"""Every row of the table of what is supported is tried, and python/SUPPORT.md says what came of it.

A row trains or infers through an embedded service and is held against eager PyTorch, bit for bit. A
row that differs, compares nothing, or raises anything but laneway.Error fails here; one whose
outcome is not the page's says how the page is made anew.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import laneway
from support import support_table
from support.trial import Outcome, outcome_of

TABLES = support_table.groups()
ROWS = {(row.group, row.name): row for table in TABLES for row in table.rows}
MADE_BY = "run .venv/bin/python tests/python/write_support.py --write"


@pytest.fixture(scope="module")
def outcome():
    """Tries a row."""
    with laneway.embedded("1GiB") as service:
        yield lambda key: outcome_of(ROWS[key].run, service)


@pytest.mark.parametrize("key", ROWS, ids=lambda key: " - ".join(key))
def test_row(key: tuple[str, str], outcome) -> None:
    found: Outcome = outcome(key)
    text = support_table.PAGE.read_text()
    assert support_table.cell(found) in text, f"python/SUPPORT.md says something else: {MADE_BY}"


def test_the_page_is_what_the_rows_say() -> None:
    """In a process of its own, as the page is made: what other tests have left in this one (torch's
    caches, say) must not decide what the page says."""
    script = Path(__file__).with_name("write_support.py")
    tried = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert tried.returncode == 0, f"python/SUPPORT.md: {MADE_BY}\n{tried.stdout}\n{tried.stderr}"
