"""Every row of the table of what is supported is tried, and python/SUPPORT.md has its outcome.

A row trains or infers through an embedded service and is held against eager PyTorch, bit for bit. A
row that differs, compares nothing, or raises anything but laneway.Error fails here; one whose
outcome is not the page's says how the page is made anew.

The rows are tried once, all in one process of their own, as the page is made: what other tests
leave in this one (torch's caches, say) must not decide the outcomes.
"""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from support import support_table
from support.trial import Outcome

TABLES = support_table.groups()
ROWS = {row.title: row for table in TABLES for row in table.rows}
MADE_BY = "run .venv/bin/python tests/python/write_support.py --write"


@pytest.fixture(scope="module")
def tried(request, tmp_path_factory) -> dict[str, dict[str, Any]]:
    """What came of each row that a selected test asks for; of all rows for the page."""
    mine = [item for item in request.session.items if item.path == Path(__file__)]
    titles = [item.callspec.params["title"] for item in mine if hasattr(item, "callspec")]
    if len(titles) < len(mine):
        titles = []  # the page needs them all
    file = tmp_path_factory.mktemp("rows") / "outcomes"
    script = Path(__file__).with_name("write_support.py")
    command = [sys.executable, str(script), "--outcomes", str(file), *titles]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = file.read_text().splitlines() if file.exists() else []
    found = {line.pop("row"): line for line in map(json.loads, lines)}
    last = list(found)[-1] if found else "none"
    ended = f"the process ended with {done.returncode}; the last row tried: {last}\n{done.stderr}"
    assert done.returncode == 0, ended
    return found


@pytest.mark.parametrize("title", ROWS)
def test_row(title: str, tried: dict[str, dict[str, Any]]) -> None:
    assert "failure" not in tried[title], tried[title]["failure"]


def test_the_page_is_what_the_rows_say(tried: dict[str, dict[str, Any]]) -> None:
    assert tried.keys() == ROWS.keys()
    failed = [title for title, found in tried.items() if "failure" in found]
    assert not failed, "these rows fail: see test_row"
    outcomes = {(row.group, row.name): Outcome(**tried[row.title]) for row in ROWS.values()}
    text, there = support_table.page(TABLES, outcomes), support_table.PAGE.read_text()
    lines = difflib.unified_diff(there.splitlines(), text.splitlines(), lineterm="")
    assert there == text, f"python/SUPPORT.md: {MADE_BY}\n" + "\n".join(lines)
