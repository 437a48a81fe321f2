"""The interpreter ends, however it ends, whatever a service is doing: at once, with the right exit
code, without a crash and without a word from the library. Each test is a script of its own."""

import pytest

from support.children import run_script

OPEN = """
service = laneway.embedded("64MiB")
step = step_of(service, width=2048)
step(*batch(0, 64))
futures = [step.submit(*batch(i, 64)) for i in range(40)]
"""


def ends(body, code, said=""):
    child = run_script(body)
    assert child.code == code, child
    assert said in child.err, child
    for word in ("terminate", "mutex", "check failed", "Fatal", "Segmentation", "laneway:"):
        assert word not in child.err, child
    if not said:
        assert child.err == "", child


@pytest.mark.parametrize(
    ("ending", "code", "said"),
    [
        ("", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("raise RuntimeError('on purpose')", 1, "on purpose"),
        ("os._exit(4)", 4, ""),
        ("os.kill(os.getpid(), signal.SIGTERM)", -15, ""),
        ("signal.raise_signal(signal.SIGINT)", -2, "KeyboardInterrupt"),
        ("del service, step", 0, ""),
        ("del futures", 0, ""),
    ],
)
def test_with_steps_in_flight_and_an_open_service(ending, code, said):
    ends(OPEN + ending, code, said)


def test_with_a_default_service_that_nobody_closed():
    ends("step = step_of(None)\nstep(*batch(0))\nstep.submit(*batch(1))", 0)


def test_while_a_daemon_thread_is_inside_a_step():
    ends(
        OPEN
        + """
inside = threading.Event()
def train():
    try:
        while True:
            inside.set()
            step(*batch(0, 64))
    except laneway.ServiceUnavailable:
        pass  # the service is closed at exit
thread = threading.Thread(target=train, daemon=True)
thread.start()
inside.wait()
""",
        0,
    )


def test_while_a_daemon_thread_waits_for_admission():
    ends(
        OPEN
        + """
full = laneway.embedded("2MiB")
first = laneway.train_step(*[*make(0, 8192)][:3], full)
first.prepare(*batch(0))
def wait():
    second = laneway.train_step(*make(1, 8192), full)
    try:
        second.prepare(*batch(0))
    except laneway.ServiceUnavailable:
        pass
threading.Thread(target=wait, daemon=True).start()
while len(full.status()["jobs"]) < 2:  # torch itself does not survive an exit inside its Python
    pass
""",
        0,
    )


def test_sys_exit_in_a_thread_ends_that_thread_alone():
    ends(
        """
with laneway.embedded("64MiB") as service:
    step = step_of(service)
    step(*batch(0))
    def leave():
        step(*batch(1))
        sys.exit(7)
    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    step(*batch(2))
    assert_same(eager(3), step.state_dict(), "state")
    sys.exit(5)
""",
        5,
    )


def test_an_exit_handler_of_the_users_finds_the_service_closed_or_open_but_not_broken():
    """Handlers that were registered after the import run before the service is closed, others find
    it closed and are told so."""
    ends(
        """
import atexit
with open(os.devnull):
    pass
service = laneway.embedded("64MiB")
step = step_of(service)
step(*batch(0))
def late():
    step(*batch(1))
    assert_same(eager(2), step.state_dict(), "state")
    os.write(1, b"trained at exit")
atexit.register(late)
""",
        0,
    )


def test_a_reference_cycle_through_everything_is_no_obstacle():
    ends(
        OPEN
        + """
class Holder: pass
a = Holder()
a.parts = (service, step, futures, a)
sys.modules["holder"] = a
del service, step, futures, a
""",
        0,
    )
