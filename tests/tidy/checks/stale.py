"""Every path and pattern in layers.toml and rules.toml matches a file of the tree, and every header
of a third party is included somewhere: a rule that matches nothing holds nothing."""

import re

from tree import Finding, Fixture, Tree, inside, matches

_INCLUDED = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def run(tree: Tree) -> list[Finding]:
    findings = []
    for table in ("layers.toml", "rules.toml"):
        if not tree.has_table(table):
            continue
        places = _layers(tree) if table == "layers.toml" else _rules(tree)
        findings += [
            Finding(f"tests/tidy/{table}", 0, f'{where} names "{what}", which matches nothing')
            for where, what, found in places
            if not found
        ]
    return findings


def _folder(tree: Tree, name: str) -> bool:
    return any(inside(path, name) for path in tree.paths)


def _pattern(tree: Tree, pattern: str) -> bool:
    return any(matches(path, [pattern]) for path in tree.paths)


def _layers(tree: Tree):
    """Each entry of the layer table: where it stands, what it names, whether that is there."""
    for row in tree.layers["layer"]:
        for key in ("may_use", "forbid"):
            for name in row.get(key, []):
                yield f"the row of {row['folder']}", name, _folder(tree, name)
        yield "a layer", row["folder"], _folder(tree, row["folder"])
    included = {name for path in tree.cpp() for name in _INCLUDED.findall(tree.text(path))}
    for party in tree.layers.get("third_party", []):
        for pattern in party["files"]:
            yield f"the row of {party['name']}", pattern, _pattern(tree, pattern)
        for name in party["folders"]:
            yield f"the row of {party['name']}", name, _folder(tree, name)
        for header in party["headers"]:
            prefix = header.endswith("/")
            found = any(h == header or (prefix and h.startswith(header)) for h in included)
            yield f"the row of {party['name']}", header, found


def _rules(tree: Tree):
    """The same of the other table: every list called files, folders, except or public."""
    for name, section in tree.rules.items():
        rows = section if isinstance(section, list) else [section]
        for row in rows:
            where = f"[{row.get('rule', name)}]"
            for key in ("files", "except", "public"):
                for pattern in row.get(key, []):
                    yield where, pattern, _pattern(tree, pattern)
            for folder in row.get("folders", []):
                yield where, folder, _folder(tree, folder.rstrip("/"))


_LAYERS = """
[[layer]]
folder = "base"
may_use = [{uses}]
[[third_party]]
name = "a library"
headers = ["lib.h"]
files = [{files}]
links = []
folders = ["base"]
"""


def _tree(uses: str = "", files: str = '"base/a.cc"') -> dict[str, str]:
    return {
        "base/a.cc": "#include <lib.h>\n",
        "tests/tidy/layers.toml": _LAYERS.format(uses=uses, files=files),
    }


FIXTURES = [
    Fixture("a table whose rows all match", _tree(), None),
    Fixture(
        "a layer that is gone",
        _tree(uses='"memory"'),
        'the row of base names "memory", which matches nothing',
    ),
    Fixture(
        "a file that is gone",
        _tree(files='"base/"  , "base/gone.cc"'),
        'the row of a library names "base/gone.cc"',
    ),
    Fixture(
        "a header that nobody includes any more",
        {**_tree(), "base/a.cc": "int x;\n"},
        'the row of a library names "lib.h"',
    ),
    Fixture(
        "an exception for a file that is gone",
        {
            "base/a.cc": "int x;\n",
            "tests/tidy/rules.toml": '[core]\nfiles = ["base/"]\nexcept = ["base/gone.*"]\n',
        },
        '[core] names "base/gone.*"',
    ),
]
