"""Shows that what Python declares to cffi is laneway.h: both are brought to one form (no comments,
no macros, addresses of bytes as integers) and compared declaration by declaration."""

import re
from pathlib import Path

from laneway.native import bindings

HEADER = Path(__file__).resolve().parents[2] / "service" / "api" / "laneway.h"

# Declared as addresses in C and as integers in Python, because Tensor.data_ptr() gives those.
ADDRESSES = ("initial", "random_state", "data")


def declarations(text: str) -> dict[str, str]:
    """By name: every struct and function, one line each."""
    text = re.sub(r"\s+", " ", text)
    structs = re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text)
    text = re.sub(r"typedef struct \w+ \{.*?\} \w+;", "", text)
    functions = re.findall(r"([\w* ]+?\b(laneway_\w+)\([^()]*\));", text)
    found = {name: body.strip() for name, body in structs}
    found.update((name, whole.strip()) for whole, name in functions)
    return {name: as_python(body) for name, body in found.items()}


def as_python(declaration: str) -> str:
    for name in ADDRESSES:
        declaration = re.sub(rf"\b(const )?void\* {name}\b", f"uintptr_t {name}", declaration)
    return declaration


def header() -> str:
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"typedef enum.*?;", "", text, flags=re.DOTALL)
    return text.replace("LANEWAY_API ", "").replace('extern "C" {', "")


def test_python_declares_what_the_header_does():
    wanted, found = declarations(header()), declarations(bindings.DECLARATIONS)
    assert len(wanted) > 30
    assert found == wanted


def test_codes_and_sizes_are_those_of_the_header():
    text = HEADER.read_text()
    codes = dict(re.findall(r"(LANEWAY_\w+) = (\d+)", text))
    assert int(codes["LANEWAY_OK"]) == bindings.OK
    assert int(codes["LANEWAY_PENDING"]) == bindings.PENDING
    defined = dict(re.findall(r"#define (LANEWAY_\w+) (\d+)", text))
    assert int(defined["LANEWAY_ABI_VERSION"]) == bindings.ABI_VERSION
    assert int(defined["LANEWAY_RANDOM_STATE_BYTES"]) == bindings.RANDOM_STATE_BYTES
