"""Every folder with sources has a README.md of a readable length (rules.toml, [readmes])."""

from tree import Finding, Fixture, Tree, inside


def run(tree: Tree) -> list[Finding]:
    rules = tree.rules["readmes"]
    shortest, longest = rules["lines"]
    findings = []
    for folder in rules["folders"]:
        sources = [
            path
            for path in tree.with_suffix(".h", ".cc", ".py", ".sh", ".cmake")
            if inside(path, folder)
        ]
        readme = f"{folder}/README.md"
        if not sources:
            continue
        if readme not in tree.paths:
            findings.append(
                Finding(
                    folder, 0, "has no README.md: concept, what it may include, how to add one more"
                )
            )
            continue
        lines = tree.text(readme).count("\n")
        if not shortest <= lines <= longest:
            findings.append(
                Finding(readme, 0, f"has {lines} lines; between {shortest} and {longest} are read")
            )
    return findings


FIXTURES = [
    Fixture("a folder with its page", {"base/a.h": "", "base/README.md": "line\n" * 30}, None),
    Fixture("a folder without one", {"base/a.h": ""}, "base: has no README.md"),
    Fixture(
        "a page that is too short",
        {"base/a.h": "", "base/README.md": "base\n"},
        "base/README.md: has 1 lines",
    ),
    Fixture("a folder that is empty yet", {"README.md": "x\n"}, None),
]
