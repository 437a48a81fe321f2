"""What documents point at is there: every relative link of every document, every option that the
operator's page names, every code of the C interface and every exception in its table."""

import inspect
import re
import subprocess
from pathlib import Path

import pytest

from laneway import errors
from laneway.cli.completion import LANEWAYD_OPTIONS

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def documents():
    done = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "*.md"], capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in done.stdout.split()]


def broken_links(document):
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [
        target
        for target in LINK.findall(text)
        if not re.match(r"[a-z]+:", target) and not (document.parent / target).exists()
    ]


def test_every_link_of_every_document_leads_somewhere():
    found = documents()
    assert len(found) > 30
    broken = {str(d.relative_to(ROOT)): broken_links(d) for d in found}
    assert {name: links for name, links in broken.items() if links} == {}


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("[a](page.md) [b](gone.md) [c](https://example.org) [d](page.md#there)\n")
    assert broken_links(page) == ["gone.md"]


def test_the_error_table_has_every_exception_and_every_code():
    page = (ROOT / "docs/operating.md").read_text()
    exceptions = [
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if "laneway" in kind.__module__
    ]
    assert len(exceptions) > 8
    missing = [name for name in exceptions if f"| `{name}` |" not in page]
    assert missing == []
    rows = re.findall(r"^\| `[A-Z]\w+` \| ([\d, ]*) \|", page, re.MULTILINE)
    listed = {int(code) for row in rows for code in row.replace(",", " ").split()}
    header = (ROOT / "service/api/laneway.h").read_text()
    codes = {int(code) for code in re.findall(r"^  LANEWAY_\w+ = (\d+),? ?(?:/\*|$)", header, re.M)}
    assert listed <= set(range(2, 64)) and len(listed) > 8
    assert {code for code in codes if code >= 6} <= listed


@pytest.mark.parametrize("page", ["README.md", "docs/operating.md", "docs/first-steps.md"])
def test_options_of_lanewayd_in_documents_exist(page):
    text = (ROOT / page).read_text()
    for line in re.findall(r"^ {4}.*lanewayd (--.*)$", text, re.MULTILINE):
        for option in re.findall(r"--[\w-]+", line.partition("#")[0]):
            assert option in LANEWAYD_OPTIONS, (page, option)


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().split()) <= 480
