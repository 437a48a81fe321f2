"""The names that C++ text declares at namespace, class and enum scope, with where each declaration
and definition lies: enough to count uses, not a parser."""

import dataclasses
import re

from cpp_text import strip

_WORD = re.compile(r"[A-Za-z_]\w*")
_SPECIFIERS = re.compile(r"^(?:(?:public|private|protected)\s*:|\[\[.*?\]\]|\s+)*", re.DOTALL)
_TYPE = re.compile(
    r"\b(class|struct|union|enum(?:\s+class|\s+struct)?)\s+(?:LW_\w+(?:\([^)]*\))?\s*)?(?:alignas\([^)]*\)\s*)?"
    r"(?P<name>[\w:]+)?[^()]*$",
    re.DOTALL,
)
_NOT_NAMES = {
    "operator",
    "requires",
    "noexcept",
    "decltype",
    "alignas",
    "static_assert",
    "if",
    "for",
}
_OTHER = re.compile(r"(using|typedef|friend|static_assert|template\s+class|extern\s+template)\b")
_AHEAD = re.compile(
    r"(template\s*<[^;]*>\s*)?(class|struct|union|enum(\s+class)?)\s+[\w:]+(\s*:\s*\w+)?$"
)


@dataclasses.dataclass(frozen=True)
class Name:
    """One declaration or definition."""

    name: str
    kind: str  # type, function, value (a variable, a constant, a field), enumerator
    scope: str  # the class or enum that it belongs to; "" at namespace scope
    offset: int  # of the name in the text
    end: int  # of the body; the offset's own statement end where there is none
    overrides: bool = False
    has_body: bool = False


def code_of(text: str) -> str:
    """`text` without comments, contents of literals and preprocessor lines; offsets are kept."""
    return re.sub(
        r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
        lambda m: re.sub(r"[^\n]", " ", m.group()),
        strip(text),
        flags=re.MULTILINE,
    )


def names(code: str) -> list[Name]:
    """What `code` (of code_of) declares and defines, in the order of the text."""
    found: list[Name] = []
    _scope(code, 0, len(code), "namespace", "", found)
    return found


def _scope(code: str, start: int, end: int, kind: str, owner: str, found: list[Name]) -> None:
    """Statements of one scope between `start` and `end`."""
    if kind == "enum":
        _enumerators(code, start, end, owner, found)
        return
    head = start
    at = start
    while at < end:
        char = code[at]
        if char == "(":
            at = _closing(code, at, end, "(", ")") + 1
        elif char == "{":
            at, head = _braces(code, head, at, end, owner, found)
        elif char == ";":
            _declaration(code, head, at, owner, found)
            at += 1
            head = at
        elif char == ":" and code[head:at].strip() in ("public", "private", "protected"):
            at += 1
            head = at
        else:
            at += 1


def _braces(
    code: str, head: int, at: int, end: int, owner: str, found: list[Name]
) -> tuple[int, int]:
    """What begins at the brace `at`, whose statement began at `head`; where to go on."""
    text = code[head:at]
    close = _closing(code, at, end, "{", "}")
    flat = _SPECIFIERS.sub("", text)
    if re.match(r"(inline\s+)?namespace\b", flat) or flat.startswith('extern "'):
        _scope(code, at + 1, close, "namespace", owner, found)
        return close + 1, close + 1
    kind = _TYPE.search(_without_templates(text)) if "=" not in flat else None
    if kind:
        name = (kind["name"] or "").split("::")[-1]
        offset = _last_word(code, head, at, name) if name else at
        if name:
            found.append(Name(name, "type", owner, offset, close, has_body=True))
        inner = "enum" if kind[1].startswith("enum") else "class"
        _scope(code, at + 1, close, inner, name, found)
        return close + 1, close + 1
    function = _function_name(code, head, at)
    if function and not flat.rstrip().endswith("="):
        if _is_initialiser(code, head, at):
            return close + 1, head
        name, scope, offset = function
        if name:
            found.append(
                Name(name, "function", scope or owner, offset, close, _overrides(text), True)
            )
        return close + 1, close + 1
    return close + 1, head  # a braced initialiser: the statement goes on to its semicolon


def _is_initialiser(code: str, head: int, at: int) -> bool:
    """Whether the brace at `at` is one of a constructor's `: member{…}, member{…} {`."""
    before = code[head:at]
    colon = re.search(r"\)\s*(?:noexcept\s*)?:(?!:)", before)
    return bool(colon) and bool(re.search(r"[:,]\s*[\w:<>]+\s*$", before))


def _declaration(code: str, head: int, end: int, owner: str, found: list[Name]) -> None:
    text = code[head:end]
    flat = _SPECIFIERS.sub("", text)
    if not flat or _OTHER.match(flat):
        if not (flat.startswith("using") and "=" in flat and not flat.startswith("using enum")):
            return
        offset = head + text.index(flat) + len("using ")
        word = _WORD.match(code, offset)
        if word:
            found.append(Name(word.group(), "type", owner, offset, end))
        return
    if _AHEAD.match(flat.strip()):
        return  # declared ahead
    function = _function_name(code, head, end)
    if function:
        name, scope, offset = function
        if name:
            found.append(Name(name, "function", scope or owner, offset, end, _overrides(text)))
        return
    for offset in _value_names(code, head, end):
        word = _WORD.match(code, offset)
        if word:
            found.append(Name(word.group(), "value", owner, offset, end))


def _function_name(code: str, head: int, end: int) -> tuple[str, str, int] | None:
    """Name ("" for what has none of its own: operators, constructors), class and offset of the
    function whose head begins at `head`; None when it is no function."""
    depth, at = 0, head
    while at < end:
        char = code[at]
        if char == "<" and re.match(r"[\w>]", code[at - 1 : at] or " "):
            depth += 1
        elif char == ">" and depth and code[at - 1] != "-":
            depth -= 1
        elif char == "=" and not depth and "operator" not in code[head:at]:
            return None
        elif char == "(" and not depth:
            before = code[head:at]
            named = re.search(r"((?:\w+(?:<[^<>]*>)?::)*)(~?\w+)\s*$", before)
            if not named:
                return ("", "", at) if "operator" in before else None
            word = named[2]
            if word.startswith("LW_") or word in ("alignas", "decltype", "explicit"):
                at = _closing(code, at, end, "(", ")")
            elif word in _NOT_NAMES or "operator" in before or word.startswith("~"):
                return ("", "", at)
            else:
                return (word, named[1].rstrip(":"), head + named.start(2))
        at += 1
    return None


def _value_names(code: str, head: int, end: int) -> list[int]:
    """Offsets of the variables that the statement declares."""
    text = _without_templates(code[head:end])
    cut = re.split(r"=|\{", text, maxsplit=1)[0]
    cut = re.sub(r"\bLW_\w+\s*\([^)]*\)", lambda m: " " * len(m.group()), cut)
    cut = re.sub(r":\s*\d+\s*$", lambda m: " " * len(m.group()), cut)
    cut = re.sub(r"(\[[^\]]*\]\s*)+$", lambda m: " " * len(m.group()), cut)
    words = list(_WORD.finditer(cut))
    return [head + words[-1].start()] if len(words) > 1 else []


def _enumerators(code: str, start: int, end: int, owner: str, found: list[Name]) -> None:
    at = start
    while at < end:
        word = _WORD.search(code, at, end)
        if not word:
            return
        found.append(Name(word.group(), "enumerator", owner, word.start(), word.end()))
        at = word.end()
        depth = 0
        while at < end and (code[at] != "," or depth):
            depth += (code[at] in "({") - (code[at] in ")}")
            at += 1


def _overrides(text: str) -> bool:
    return bool(re.search(r"\)[^()]*\b(override|final)\b", text))


def _without_templates(text: str) -> str:
    """`text` with what stands between < and > blanked."""
    out, depth = [], 0
    for offset, char in enumerate(text):
        if char == "<" and re.match(r"[\w]", text[offset - 1 : offset] or " "):
            depth += 1
        out.append(" " if depth and char != "\n" else char)
        if char == ">" and depth and text[offset - 1] != "-":
            depth -= 1
    return "".join(out)


def _last_word(code: str, start: int, end: int, word: str) -> int:
    places = [m.start() for m in re.finditer(rf"\b{word}\b", code[start:end])]
    return start + (places[0] if places else 0)


def _closing(code: str, at: int, end: int, opens: str, closes: str) -> int:
    depth = 0
    for offset in range(at, end):
        if code[offset] == opens:
            depth += 1
        elif code[offset] == closes:
            depth -= 1
            if depth == 0:
                return offset
    return end
