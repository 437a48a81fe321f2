"""Waits through lanewayd, whose client and lane spin before they sleep, under bad conditions: a
fork, Ctrl-C, two services, a thread count that changes, random gaps, a machine with more to do than
it has cores. Requests follow each other without a pause, so that an event comes within a spin in
some of its many repetitions; results are compared with eager's, and none looks at the time. When a
side spins is tests/service/transport/adaptive_spin_test.cc's subject."""

import contextlib
import os
import signal

from support.children import run_script
from support.daemon import Lanewayd

STEPS = """
import random, subprocess
services = [laneway.connect(address) for address in ADDRESSES]

def check(step, count, seed=0):
    assert_same(eager(count, seed), step.state_dict(), "state")

def numbered(step, count, between=lambda number: None):
    for number in range(count):
        between(number)
        step(*batch(number))
    check(step, count)
"""


def script_through(count: int, *parts: str, **options: object):
    """Runs the parts with connections to `count` daemons, and asserts that they ended well."""
    with contextlib.ExitStack() as stack:
        daemons = [stack.enter_context(Lanewayd("--standby", "0")) for _ in range(count)]
        addresses = f"ADDRESSES = {[daemon.address for daemon in daemons]!r}"
        child = run_script(addresses, STEPS, *parts, **options)
        assert child.code == 0, child


def test_forks_while_client_and_lane_spin():
    """The child computes eagerly and is refused the parent's step; the parent goes on."""
    script_through(
        1,
        """
    step = step_of(services[0])
    step.prepare(*batch())
    count, enough = 0, threading.Event()
    def train():
        global count
        while not enough.is_set():
            step(*batch(count))
            count += 1
    trainer = threading.Thread(target=train)
    trainer.start()
    for _ in range(30):
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            eager(1)
            try:
                step(*batch(0))
            except laneway.ServiceUnavailable:
                os._exit(9)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    enough.set()
    trainer.join()
    assert count > 0
    check(step, count)
    """,
    )


def test_ctrl_c_while_the_client_spins():
    """The state is that of whole iterations: how many is asked of the job."""
    interrupts = 20

    def interrupt(process):
        for line in process.stdout:
            if line.strip() == "again":
                os.kill(process.pid, signal.SIGINT)
            if line.strip() == "well":
                return

    script_through(
        1,
        f"""
    step = step_of(services[0])
    step(*batch())
    print("ready", flush=True)
    for _ in range({interrupts}):
        try:
            print("again", flush=True)
            while True:
                step(*batch())
        except KeyboardInterrupt:
            pass
    state = step.state_dict()
    count = step.report()["graphs"][0]["iterations"]
    model, loss_fn, optimizer = make()
    torch.manual_seed(1)
    for _ in range(count):
        eager_step(model, loss_fn, optimizer, batch())
    expected = {{"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                "random": torch.get_rng_state()}}
    assert_same(expected, state, "state")
    print("well", flush=True)
    """,
        when_ready=interrupt,
    )


def test_two_services_of_one_process():
    script_through(
        2,
        """
    steps = []
    for service in services:
        steps.append(step_of(service))
        steps[-1].prepare(*batch())
    def train(step):
        for number in range(200):
            step(*batch(number))
    threads = [threading.Thread(target=train, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for step in steps:
        check(step, 200)
    """,
    )


def test_a_thread_count_that_changes_between_steps():
    script_through(
        1,
        """
    numbered(step_of(services[0]), 100, lambda number: torch.set_num_threads(1 + number % 2))
    """,
    )


def test_random_gaps_between_requests():
    script_through(
        1,
        """
    seed = int(os.environ.get("LANEWAY_SEED", "7"))
    print("LANEWAY_SEED", seed)
    gaps = random.Random(seed)
    pause = threading.Event()
    numbered(step_of(services[0]), 200, lambda number: pause.wait(gaps.uniform(0, 0.002)))
    """,
    )


def test_eight_busy_processes_beside():
    script_through(
        1,
        """
    beside = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(8)]
    try:
        numbered(step_of(services[0]), 100)
        assert all(process.poll() is None for process in beside)
    finally:
        for process in beside:
            process.kill()
            process.wait()
    """,
    )
