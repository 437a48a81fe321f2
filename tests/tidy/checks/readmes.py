"""Every folder with sources has a README.md, and every folder's README.md has a readable length, in
words (rules.toml, [readmes]): lines can be as long as one likes."""

import re

from tree import Finding, Fixture, Tree, inside


def run(tree: Tree) -> list[Finding]:
    rules = tree.rules["readmes"]
    findings = []
    sources = tree.with_suffix(".h", ".cc", ".py", ".sh", ".cmake")
    for folder in rules["folders"]:
        has_sources = any(inside(path, folder) for path in sources)
        if has_sources and f"{folder}/README.md" not in tree.paths:
            text = "has no README.md: concept, what it may include, how to add one more"
            findings.append(Finding(folder, 0, text))
    shortest, longest = rules["words"]
    for path in tree.paths:
        if not path.endswith("/README.md"):
            continue
        words = sum(1 for word in tree.text(path).split() if re.search(r"\w", word))
        if words < shortest or (words > longest and path not in rules["over"]):
            text = f"has {words} words; between {shortest} and {longest} are read"
            findings.append(Finding(path, 0, text))
        elif words <= longest and path in rules["over"]:
            text = f"[readmes] lists {path}, which is short enough"
            findings.append(Finding("tests/tidy/rules.toml", 0, text))
    return findings


FIXTURES = [
    Fixture("a folder with its page", {"base/a.h": "", "base/README.md": "a word\n" * 100}, None),
    Fixture("a folder without one", {"base/a.h": ""}, "base: has no README.md"),
    Fixture(
        "a page that is too short",
        {"base/a.h": "", "base/README.md": "base\n"},
        "base/README.md: has 1 words",
    ),
    Fixture(
        "a page of few lines and too many words",
        {"base/a.h": "", "base/README.md": ("word " * 200 + "| --- |\n") * 3},
        "base/README.md: has 600 words",
    ),
    Fixture("a folder that is empty yet", {"README.md": "x\n"}, None),
]
