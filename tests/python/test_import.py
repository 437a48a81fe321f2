"""What `import laneway` loads and shows: names come when they are used, torch with those that need
it, each library with the first service of its kind."""

import importlib.util
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import laneway
from laneway.native import bindings

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 240


def fresh(code):
    """What a new interpreter prints that runs `code`."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r}); {code}"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "module",
    [
        "laneway",
        "laneway.native.bindings",
        "laneway.errors",
        "laneway.jobs.service",
        "laneway.native.process",
        "laneway.cli",
        "laneway.demo.__main__",
    ],
)
def test_what_the_command_line_needs_does_without_torch(module):
    assert fresh(f"import {module}; print('torch' in sys.modules)") == "False"


def test_errors_connections_and_sizes_do_without_torch():
    """Names that a program uses which never makes a step."""
    code = "import laneway; laneway.Refused, laneway.connect, laneway.Service, laneway.embedded"
    assert fresh(f"{code}; print('torch' in sys.modules)") == "False"


def test_the_report_of_compiled_code_is_there_after_import_laneway():
    """It was an AttributeError until torch had loaded the backend."""
    code = "import laneway; print('torch' in sys.modules, laneway.compile_backend.report())"
    assert fresh(code) == "False []"
    assert "compile_backend" in dir(laneway)


@pytest.mark.parametrize("name", laneway.__all__)
def test_every_public_name_is_there_alone_and_after_all_modules(name):
    """Each in an order of its own: a module must not hide a name."""
    value = getattr(laneway, name)
    assert value.__name__ == name and name in dir(laneway)
    for home in (*laneway._HOMES.values(), "errors"):
        importlib.import_module(f"laneway.{home}")
    assert getattr(laneway, name) is value
    assert pickle.loads(pickle.dumps(value)) is value


def test_no_module_has_the_name_of_something_public():
    modules = {module.name for module in pkgutil.iter_modules(laneway.__path__)}
    assert {"capture", "compile_backend", "errors", "jobs"} <= modules
    assert not modules & set(laneway.__all__)


def test_all_names_can_be_imported_in_a_fresh_interpreter():
    code = "from laneway import *; import laneway"
    assert fresh(f"{code}; print(sorted(set(laneway.__all__) - set(globals())))") == "[]"


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        laneway.no_such_name  # noqa: B018
    with pytest.raises(ImportError):
        exec("from laneway import no_such_name", {})


@pytest.mark.parametrize("kind", ["embedded", "client"])
def test_a_library_that_is_missing_or_is_none_says_what_to_do(kind, tmp_path, monkeypatch):
    """Past the cache, which holds the one that this process uses."""
    load = getattr(bindings, f"{kind}_library").__wrapped__
    variable = f"LANEWAY_{kind.upper()}_LIBRARY"
    monkeypatch.setenv(variable, str(tmp_path / "nothing.so"))
    with pytest.raises(laneway.ServiceUnavailable, match=f"nothing.so.*dev build.*{variable}"):
        load()
    (tmp_path / "text.so").write_text("not a shared object")
    monkeypatch.setenv(variable, str(tmp_path / "text.so"))
    with pytest.raises(laneway.ServiceUnavailable, match=r"text.so.*dev build"):
        load()
    monkeypatch.delenv(variable)
    assert bindings.library_path(kind) == ROOT / f"python/laneway/lib/liblaneway_{kind}.so"


def test_handles_go_to_the_library_that_made_them():
    """A service carries its library; its jobs and calls speak to that one."""
    import torch

    with laneway.embedded("64MiB") as service:
        assert service.library is bindings.embedded_library()
        with laneway.inference(torch.nn.Linear(4, 2), service) as predict:
            predict(torch.ones(3, 4))
            assert predict.job.library is service.library
