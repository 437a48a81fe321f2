"""Tries every row of support_rows and writes python/SUPPORT.md, or says in what it differs.

.venv/bin/python tests/python/write_support.py [--write] [--only TEXT]
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[0:0] = [str(ROOT), str(ROOT / "python"), str(ROOT / "tests" / "python")]
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import laneway  # noqa: E402
from support import support_table  # noqa: E402
from support.trial import outcome_of  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--only", help="try the rows whose name has TEXT, and print them")
    options = parser.parse_args()
    tables = support_table.groups()
    outcomes = {}
    with laneway.embedded("1GiB") as service:
        for row in (row for table in tables for row in table.rows):
            if options.only is None or options.only in row.name:
                outcomes[row.group, row.name] = outcome_of(row.run, service)
    if options.only is not None:
        for (group, name), outcome in outcomes.items():
            print(f"{group}: {name}: {outcome}")
        return 0
    text = support_table.page(tables, outcomes)
    if options.write:
        support_table.PAGE.write_text(text)
        return 0
    there = support_table.PAGE.read_text() if support_table.PAGE.exists() else ""
    print("\n".join(difflib.unified_diff(there.splitlines(), text.splitlines(), lineterm="")))
    return 0 if there == text else 1


if __name__ == "__main__":
    sys.exit(main())
