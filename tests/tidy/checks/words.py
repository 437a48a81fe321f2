"""Words that no file of the repository holds (rules.toml, [[words]]). The tidy folder itself, which
must name them, is left out."""

import re

from tree import Finding, Fixture, Tree, matches

SKIPPED = ("tests/tidy/", "LICENSE")
SUFFIXES = (
    ".h",
    ".hpp",
    ".cc",
    ".c",
    ".py",
    ".md",
    ".toml",
    ".txt",
    ".cmake",
    ".sh",
    ".json",
    ".yml",
    ".in",
)


def run(tree: Tree) -> list[Finding]:
    findings = []
    for path in tree.paths:
        if path.startswith(SKIPPED) or not (path.endswith(SUFFIXES) or path in ("dev", ".ci/run")):
            continue
        rules = [
            rule
            for rule in tree.rules["words"]
            if "files" not in rule or matches(path, rule["files"])
        ]
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            for rule in rules:
                found = re.search(rule["pattern"], line)
                if found:
                    text = f'"{found.group()}" stays out: {rule["why"]} [{rule["rule"]}]'
                    findings.append(Finding(path, number, text))
    return findings


FIXTURES = [
    Fixture(
        "plain words",
        {"README.md": "Jobs share a pool; see build/bench and /tmp/laneway-1000.\n"},
        None,
    ),
    Fixture("something left over", {"base/a.cc": "int x;\n// TODO: more\n"}, "base/a.cc:2:"),
    Fixture("a path of one machine", {"README.md": "cd /root/laneway\n"}, "[machine-path]"),
    Fixture(
        "a folder named work below another", {"base/a.cc": "// build/work/x and ~/work/y\n"}, None
    ),
    Fixture("a registry", {"dev": "pip install -i https://pypi.org/simple x\n"}, "[registry-host]"),
    Fixture(
        "a word of the field",
        {"service/a.cc": "// Iterations in flight: kMaxInFlight, in_flight_.\n"},
        None,
    ),
    Fixture("a household word", {"service/a.cc": "// The flight has landed.\n"}, "[household]"),
    Fixture("talk about organisation", {"ROADMAP.md": "Done in issue 12.\n"}, "[organisation]"),
]
