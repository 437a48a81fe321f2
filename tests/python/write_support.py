"""Tries every row of support_rows and writes python/SUPPORT.md, or prints how the page differs.

.venv/bin/python tests/python/write_support.py [--write | --only TEXT | --outcomes FILE [ROW ...]]
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[0:0] = [str(ROOT), str(ROOT / "python"), str(ROOT / "tests" / "python")]
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import laneway  # noqa: E402
from support import support_table  # noqa: E402
from support.support_table import Row  # noqa: E402
from support.trial import outcome_of  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--only", help="try the rows whose name has TEXT, and print them")
    parser.add_argument("--outcomes", type=Path, help="write a JSON line for each row to this file")
    parser.add_argument("rows", nargs="*", help='with --outcomes: "GROUP - ROW"; none: all rows')
    options = parser.parse_args()
    tables = support_table.groups()
    rows = [row for table in tables for row in table.rows]
    with laneway.embedded("1GiB") as service:
        if options.outcomes is not None:
            tried = [row for row in rows if not options.rows or row.title in options.rows]
            return write_outcomes(options.outcomes, tried, service)
        if options.only is not None:
            for row in rows:
                if options.only in row.name:
                    print(f"{row.group}: {row.name}: {outcome_of(row.run, service)}")
            return 0
        outcomes = {(row.group, row.name): outcome_of(row.run, service) for row in rows}
    text = support_table.page(tables, outcomes)
    if options.write:
        support_table.PAGE.write_text(text)
        return 0
    there = support_table.PAGE.read_text() if support_table.PAGE.exists() else ""
    print("\n".join(difflib.unified_diff(there.splitlines(), text.splitlines(), lineterm="")))
    return 0 if there == text else 1


def write_outcomes(file: Path, rows: list[Row], service: laneway.Service) -> int:
    """One JSON line for each row, written when the row was tried: "row", then "kind" and "message"
    of its outcome, or "failure" with the traceback of a row that fails."""
    with file.open("w", buffering=1) as lines:
        for row in rows:
            try:
                outcome = outcome_of(row.run, service)
                found = {"kind": outcome.kind, "message": outcome.message}
            except Exception:  # the test of this row shows it; the other rows are tried as well
                found = {"failure": traceback.format_exc()}
            lines.write(json.dumps({"row": row.title} | found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
