"""The pause bench: the eager script is killed and started again, for real."""

from bench import pause


def test_the_eager_script_goes_on_from_its_file():
    """A pause has at least the start of Python and torch in it."""
    found = pause.eager_pauses("mlp", 2)
    assert len(found) == 2
    assert all(seconds > 0.1 for seconds in found)
