"""OpenMP teams in a process with embedded services: at most one of its threads keeps one, so that
barriers do not become sleeps. libgomp is told to wait without sleeping for as long as its threads
do not outnumber the processors; a barrier that sleeps is then a voluntary context switch, whatever
else the machine does. Scripts of their own, because libgomp reads its settings once.

A busy machine makes steps long; long ones are left to the lane's thread, whose sleeps between them
are the few that are allowed here."""

import os

import pytest

from support.children import check_script

pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="one processor: no two threads compute at once"
)

# Two threads: a second team of two is one thread more than two processors have. On a machine with
# more the script is kept on two.
SPINNING = {"GOMP_SPINCOUNT": "1000000000", "OMP_NUM_THREADS": "2"}

# A thread of the team sleeps some 70 times a step if its barriers sleep; MANY is below that, and
# above what anything else costs.
NETWORK = """
MANY = 30
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
torch.set_num_threads(2)

def network(seed=0):
    torch.manual_seed(seed)
    layers = []
    for _ in range(3):
        layers += [nn.Linear(256, 256), nn.LayerNorm(256), nn.GELU()]
    model = nn.Sequential(*layers)
    return model, nn.MSELoss(), torch.optim.AdamW(model.parameters())

x, y = torch.randn(256, 256), torch.randn(256, 256)

def tasks():
    return os.listdir("/proc/self/task")

def sleeps():
    # Of each thread but this one, which also sleeps while it waits for a lane's.
    counts = {}
    for task in set(tasks()) - {str(os.getpid())}:
        try:
            with open(f"/proc/self/task/{task}/status") as status:
                counts[task] = next(int(l.split()[1]) for l in status if l.startswith("voluntary"))
        except (FileNotFoundError, ProcessLookupError):
            pass  # it ended just now
    return counts

def sleeps_of(call, times=3, rounds=6):
    # A call, of the threads that are there at the end, in the best of the rounds: on a busy machine
    # it takes a while until a thread comes to end its team.
    least = float("inf")
    for _ in range(rounds):
        call()
        before = sleeps()
        for _ in range(times):
            call()
        counts = sleeps().items()
        least = min(least, sum(count - before.get(task, 0) for task, count in counts) / times)
        if least < MANY / 10:
            break
    return least

def wait_until(condition):
    while not condition():
        threading.Event().wait(0.001)

trained = network()
def eager():
    eager_step(*trained, (x, y))
"""


def check_teams(script: str) -> None:
    check_script(NETWORK, script, environment=SPINNING)


def test_a_second_team_makes_barriers_sleep():
    """Without Laneway, so that the other tests here can fail."""
    check_teams("""
    assert sleeps_of(eager) < MANY / 10, "alone"
    done, leave = threading.Event(), threading.Event()
    def other():
        torch.relu(torch.randn(100_000))
        done.set()
        leave.wait()
    thread = threading.Thread(target=other)
    thread.start()
    done.wait()
    assert sleeps_of(eager) > MANY, "beside another team"
    leave.set()
    thread.join()
    """)


def test_synchronous_steps_and_eager_work_beside_them_do_not_sleep():
    """Two services; each lane's thread ran the first iterations and had a team for them."""
    check_teams("""
    with laneway.embedded("256MiB") as service, laneway.embedded("256MiB") as second:
        steps = [laneway.train_step(*network(), each) for each in (service, second)]
        for step in steps:
            step.prepare(x, y)
        eager()
        with_one_team = len(tasks())
        for step in steps:
            step(x, y)
            wait_until(lambda: len(tasks()) <= with_one_team)
            assert sleeps_of(lambda: step(x, y)) < MANY
            wait_until(lambda: len(tasks()) <= with_one_team)
            assert sleeps_of(eager) < MANY / 10
        assert len(tasks()) <= with_one_team
    """)


def test_submitted_steps_do_not_sleep_at_barriers():
    """The team that the caller's eager work left is what would make them."""
    check_teams("""
    with laneway.embedded("256MiB") as service:
        step = laneway.train_step(*network(), service)
        step(x, y)
        eager()
        threading.Event().wait(0.003)  # teams are ended at most once in 2 ms
        assert sleeps_of(lambda: step.submit(x, y).result()) < MANY
    """)


def test_a_thread_count_that_changes_between_steps():
    """A step keeps the count that it was captured with; the caller's own says nothing about it."""
    check_teams("""
    with laneway.embedded("256MiB") as service:
        step = laneway.train_step(*network(), service)
        step.prepare(x, y)
        eager()
        with_one_team = len(tasks())
        done = []
        for count in (1, 2):
            torch.set_num_threads(count)
            done.append(step.submit(x, y).result())
            wait_until(lambda: len(tasks()) <= with_one_team)
            assert sleeps_of(lambda: done.append(step(x, y))) < MANY, count
            assert torch.get_num_threads() == count
        expected = network()
        for _ in done:
            eager_step(*expected, (x, y))
        assert_same({"model": expected[0].state_dict(), "optimizer": expected[2].state_dict(),
                     "random": torch.get_rng_state()},
                    step.state_dict(), "state")
    """)


def test_one_thread_makes_no_team():
    check_teams("""
    torch.set_num_threads(1)
    with laneway.embedded("256MiB") as service:
        step = laneway.train_step(*network(), service)
        step(x, y)
        count = len(tasks())
        step.submit(x, y).result()
        step(x, y)
        assert len(tasks()) == count
    """)


def test_a_child_of_a_fork_computes_after_teams_were_given_back():
    """A child has none of the threads that its parent's team had: to compute with them would hang.
    submit() has ended the team of the thread that called it and now forks."""
    check_teams("""
    with laneway.embedded("256MiB") as service:
        step = laneway.train_step(*network(), service)
        eager()
        threading.Event().wait(0.003)
        step.submit(x, y).result()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            eager()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        eager()
        step(x, y)
    """)


@pytest.mark.parametrize("parent", ["eager alone", "a service, then eager"])
@pytest.mark.parametrize("call", ["step(x, y)", "step.submit(x, y).result()"])
def test_a_child_of_a_fork_trains_with_two_threads(parent, call):
    """The thread that forked had a team, whose threads are not in the child: to compute with them
    or to end them would hang. The library may not have been loaded when it forked."""
    before = "" if parent == "eager alone" else "laneway.train_step(*narrow(), own()).prepare(x, y)"
    check_teams(f"""
    x, y = x[:, :8].contiguous(), y[:, :8].contiguous()
    def narrow():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 256), nn.GELU(), nn.Linear(256, 8))
        return model, nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1)
    def own():
        return laneway.embedded("64MiB")
    {before}
    eager_step(*network(), (torch.randn(256, 256), torch.randn(256, 256)))
    child = os.fork()
    if child == 0:
        import faulthandler
        faulthandler.dump_traceback_later(60, exit=True)
        step = laneway.train_step(*narrow(), own())
        for _ in range(8):
            {call}
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    """)


@pytest.mark.skipif(not os.path.exists("/proc/pressure/cpu"), reason="the kernel shows no pressure")
def test_on_a_busy_machine_barriers_sleep_and_bits_stay():
    """An idle thread with a team of its own is what makes them sleep; it comes only when cores are
    short. Without the settings of the other tests, which decide how barriers wait."""
    check_script(
        NETWORK,
        """
    import contextlib, subprocess
    beside = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(8)]
    def kept():
        def name(task):
            with contextlib.suppress(OSError):
                with open(f"/proc/self/task/{task}/comm") as comm:
                    return comm.read().strip()
        return any(name(task) == "laneway-idle" for task in tasks())
    try:
        with laneway.embedded("256MiB") as service:
            step = laneway.train_step(*network(), service)
            count = 0
            while not kept():
                step(x, y)
                count += 1
            step(x, y)
            expected = network()
            for _ in range(count + 1):
                eager_step(*expected, (x, y))
            assert_same({"model": expected[0].state_dict(), "optimizer": expected[2].state_dict(),
                     "random": torch.get_rng_state()},
                        step.state_dict(), "state")
    finally:
        for process in beside:
            process.kill()
            process.wait()
    """,
    )
