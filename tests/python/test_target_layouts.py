"""The graphs of captures for CUDA declare the layouts that torch's CUDA code gives: every operator
of them is called on the fake CUDA, where all of torch's code runs but the kernels."""

from __future__ import annotations

import re

import pytest

from support.fake_cuda import on_fake

pytestmark = pytest.mark.embedded_only("needs no service")


@pytest.mark.parametrize("name", ["mlp", "cnn", "gpt", "lstm", "resnet18", "hf_llama"])
def test_results_have_the_layouts_that_the_graph_declares(name: str) -> None:
    child = on_fake(f"""
        from support.declared_layouts import main
        main([{name!r}])
    """)
    calls, different = re.fullmatch(
        r"(\d+) calls, (\d+) differ", child.out.strip().splitlines()[-1]
    ).groups()
    assert int(calls) > 20, child
    assert int(different) == 0, child
