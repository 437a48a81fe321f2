"""C++ text without what is not code, and its functions: enough for line rules, not a parser."""

import bisect
import dataclasses
import re

_NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<raw>[^()\s\\]{0,16})\(.*?\)(?P=raw)"'
    r'|"(?:[^"\\\n]|\\.)*"|(?<![0-9a-zA-Z_])\'(?:[^\'\\\n]|\\.)*\'',
    re.DOTALL,
)


def strip(text: str) -> str:
    """`text` with comments blanked and string and character literals emptied; every line keeps its
    number. The names of included files are kept."""

    def blank(match: re.Match) -> str:
        found = match.group()
        if found.startswith(("//", "/*")):
            return re.sub(r"[^\n]", " ", found)
        line_start = text.rfind("\n", 0, match.start()) + 1
        if re.match(r"\s*#\s*include\b", text[line_start : match.start()]):
            return found
        return '"' + re.sub(r"[^\n]", " ", found[1:-1]) + '"'

    return _NOT_CODE.sub(blank, text)


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    first_line: int
    last_line: int

    @property
    def lines(self) -> int:
        return self.last_line - self.first_line + 1


_TYPE = re.compile(r'(namespace|class|struct|union|enum|extern ")')
_CONTROL = re.compile(r"^\s*(if|for|while|switch|catch|else|do|try)\b")
_NAME = re.compile(r"([~\w:<>]+|operator[^\s(]+)\s*\(")


def functions(text: str) -> list[Function]:
    """The outermost function bodies of C++ `text`, with the lines from head to closing brace. A
    lambda counts as part of the function that it lies in."""
    code = re.sub(
        r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
        lambda m: re.sub(r"[^\n]", " ", m.group()),
        strip(text),
        flags=re.MULTILINE,
    )
    newlines = [match.start() for match in re.finditer("\n", code)]
    found: list[Function] = []
    open_braces: list[tuple[str, str, int]] = []  # kind, head, offset of the head
    head_start, parentheses, in_function = 0, 0, 0
    for offset, char in enumerate(code):
        if char in "()":
            parentheses += 1 if char == "(" else -1
        elif char == "{":
            head = code[head_start:offset]
            kind = "other"
            if not in_function and parentheses == 0:
                kind = _kind(head)
            open_braces.append((kind, head, head_start))
            in_function += kind == "function"
            if kind != "other":
                head_start = offset + 1
        elif char == "}" and open_braces:
            kind, head, start = open_braces.pop()
            if kind == "function":
                in_function -= 1
                start += len(head) - len(head.lstrip())
                first = bisect.bisect_left(newlines, start) + 1
                last = bisect.bisect_left(newlines, offset) + 1
                name = _NAME.search(head)
                found.append(Function(name.group(1) if name else "?", first, last))
            if kind != "other" or not in_function:
                head_start = offset + 1
        elif char == ";" and parentheses == 0 and not in_function:
            head_start = offset + 1
    return found


def _kind(head: str) -> str:
    flat = re.sub(r"\[\[.*?\]\]", "", " ".join(head.split()))
    flat = re.sub(r"^((public|private|protected) ?: ?)*", "", flat.strip())
    while flat.startswith("template"):
        flat = _after_template(flat)
    if _TYPE.match(flat):
        return "type"
    if _CONTROL.match(flat) or flat.endswith("="):
        return "other"
    return "function" if ")" in flat else "other"


def _after_template(flat: str) -> str:
    depth = 0
    for offset, char in enumerate(flat):
        depth += (char == "<") - (char == ">")
        if char == ">" and depth == 0:
            return flat[offset + 1 :].lstrip()
    return ""
