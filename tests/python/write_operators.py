"""Runs the short form of torch's databases and writes python/OPERATORS.md, or says in what it
differs.

.venv/bin/python tests/python/write_operators.py [--write]
"""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[0:0] = [str(ROOT), str(ROOT / "python"), str(ROOT / "tests" / "python")]

from bench.corpus import outcomes, pool  # noqa: E402
from support import corpus_page  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    rows = {
        part: pool.judge(corpus_page.short_form(part), options.workers)
        for part in corpus_page.SHORT_PARTS
    }
    wrong = [r for found in rows.values() for r in found if r.outcome.kind in outcomes.WRONG]
    for row in wrong:
        print(row.line(), file=sys.stderr)
    text = corpus_page.page(rows)
    if options.write:
        corpus_page.PAGE.write_text(text)
        return 1 if wrong else 0
    there = corpus_page.PAGE.read_text() if corpus_page.PAGE.exists() else ""
    print("\n".join(difflib.unified_diff(there.splitlines(), text.splitlines(), lineterm="")))
    return 0 if there == text and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
