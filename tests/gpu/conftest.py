"""The device under test. Without LANEWAY_TEST_DEVICE nothing runs here."""

import os

import pytest
import torch


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes more than some seconds")


@pytest.fixture
def device():
    """Laneway's name of the device."""
    name = os.environ.get("LANEWAY_TEST_DEVICE")
    if name is None:
        pytest.skip("no device: LANEWAY_TEST_DEVICE names one")
    return name


@pytest.fixture(autouse=True)
def same_start():
    torch.manual_seed(0)
