"""Holds ForwardingAllocator against the CUDA allocator in the headers of the torch that is built
with: the object file has a function for each virtual one of it. One that is forgotten compiles, and
torch's own CUDA graphs and snapshots would do nothing.

    allocator_overrides.py TORCH-INCLUDE OBJECT   exits with 1 and names what is missing
    allocator_overrides.py --catches              that it finds what is missing
"""

import pathlib
import re
import subprocess
import sys

# The interface and what it inherits from.
CLASSES = (
    ("c10/core/Allocator.h", "Allocator"),
    ("c10/core/CachingDeviceAllocator.h", "DeviceAllocator"),
    ("c10/cuda/CUDACachingAllocator.h", "CUDAAllocator"),
)
OVERRIDDEN_BY = re.compile(r"\b(?:ForwardingAllocator|CudaLaneAllocator)::(\w+)(?:\[abi:\w+\])?\(")
# As many as torch 2.11 has. Fewer: the headers are written in a way that this does not read.
LEAST = 47


def class_body(text: str, name: str) -> str:
    """What is between the braces of the class; "" where the text defines none of the name."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    head = re.search(
        rf"\b(?:class|struct)\s+(?:\w+\s+)?{name}\s*(?:final\s*)?(?::[^{{;]*)?{{", text
    )
    if head is None:
        return ""
    depth, at = 1, head.end()
    while depth and at < len(text):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return text[head.end() : at]


def virtual_functions(body: str) -> set[str]:
    return set(re.findall(r"\bvirtual\b[^;{}()~]*?\b(\w+)\s*\(", body))


def missing(virtuals: set[str], symbols: str) -> list[str]:
    return sorted(virtuals - set(OVERRIDDEN_BY.findall(symbols)))


def check(include: pathlib.Path, built: str) -> int:
    virtuals: set[str] = set()
    for header, name in CLASSES:
        found = virtual_functions(class_body((include / header).read_text(), name))
        if not found:
            print(f"{include / header} has no class {name} with virtual functions")
            return 1
        virtuals |= found
    if len(virtuals) < LEAST:
        print(f"{include} has {len(virtuals)} virtual functions of an allocator, not {LEAST}")
        return 1
    symbols = subprocess.run(
        ["nm", "--demangle", "--defined-only", built], check=True, capture_output=True, text=True
    ).stdout
    forgotten = missing(virtuals, symbols)
    for name in forgotten:
        print(f"adaptor/cuda/forwarding_allocator.h passes on no {name}, which {include} has")
    return 1 if forgotten else 0


SAMPLE = """
class Allocator;
struct C10_API Other { virtual void not_ours() = 0; };
class C10_API Allocator : public Base {
  virtual ~Allocator() = default;
  // virtual void told() = 0;
  virtual void* raw(
      size_t bytes) = 0;
  virtual std::shared_ptr<Context> context(const void* block) { if (block) { return {}; } }
  virtual bool asks(std::function<bool(int)> filter) { return false; }
  void plain();
};
class After { virtual void after(); };
"""


def catches() -> int:
    found = virtual_functions(class_body(SAMPLE, "Allocator"))
    assert found == {"raw", "context", "asks"}, found
    assert class_body(SAMPLE, "DeviceAllocator") == ""
    symbols = (
        "0 W laneway::adaptor::ForwardingAllocator::raw[abi:cxx11](unsigned long)\n"
        "0 t laneway::adaptor::(anonymous namespace)::CudaLaneAllocator::context(void const*)\n"
        "0 W c10::Allocator::asks(std::function<bool (int)>)\n"
    )
    assert missing(found, symbols) == ["asks"], missing(found, symbols)
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--catches"]:
        sys.exit(catches())
    sys.exit(check(pathlib.Path(sys.argv[1]), sys.argv[2]))
