"""Numeric state of the process and of its threads: jobs side by side with different thread counts,
with flags that conflict, beside eager training: each is bit-equal to its own eager run, and the
user's own state is as it was. Scripts of their own, because the flags are the process's."""

from support.children import check_script

# Wide enough for operators to be split over threads: one and two differ in bits.
WIDE = """
import copy

def wide(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(),
                          nn.Linear(16 * 14 * 14, 64), nn.LayerNorm(64), nn.Linear(64, 3))
    return model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

def rows(number):
    generator = torch.Generator().manual_seed(number)
    return (torch.randn(64, 3, 16, 16, generator=generator, dtype=torch.float32),
            torch.randint(0, 3, (64,), generator=generator))

def state_of(trained):
    return {"model": trained[0].state_dict(), "optimizer": trained[2].state_dict()}

def of_job(step):
    return {key: value for key, value in step.state_dict().items() if key != "random"}

def eager_wide(seed, count):
    trained = wide(seed)
    for number in range(count):
        eager_step(*trained, rows(number))
    return state_of(trained)
"""


def test_thread_counts_side_by_side_and_beside_eager_training():
    check_script(
        WIDE,
        """
expected = {}
for threads in (1, 2):
    torch.set_num_threads(threads)
    expected[threads] = eager_wide(0, 6)
first, second = (expected[threads]["model"]["4.weight"] for threads in (1, 2))
assert not torch.equal(first, second), "the counts must differ in bits for this to show anything"

with laneway.embedded("256MiB") as service:
    steps = {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        steps[threads] = laneway.train_step(*wide(0), service)
        steps[threads].prepare(*rows(0))
    torch.set_num_threads(1)
    beside = wide(0)
    futures = {t: [step.submit(*rows(n)) for n in range(6)] for t, step in steps.items()}
    for number in range(6):
        eager_step(*beside, rows(number))
    counts = []
    thread = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    for each in futures.values():
        each[-1].result()
    assert counts == [1], counts
    assert torch.get_num_threads() == 1
    for threads, step in steps.items():
        assert_same(expected[threads], of_job(step), f"{threads} threads")
    assert_same(expected[1], state_of(beside), "beside")
    assert len({job["lane"] for job in service.status()["jobs"]}) == 2
    # The same through calls from this thread, with a count that is not theirs.
    for threads, step in steps.items():
        step(*rows(6))
        torch.set_num_threads(threads)
        seventh = eager_wide(0, 7)
        torch.set_num_threads(1)
        assert_same(seventh, of_job(step), f"{threads} threads, called")
""",
    )


# The conflicting contexts: made, and undone, as a user does.
FLAGS = """
import contextlib

@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)

@contextlib.contextmanager
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)

@contextlib.contextmanager
def medium():
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision("highest")

@contextlib.contextmanager
def no_mkldnn():
    with torch.backends.mkldnn.flags(enabled=False):
        yield

@contextlib.contextmanager
def flushing():
    torch.set_flush_denormal(True)
    yield
    torch.set_flush_denormal(False)

def loss_of(kind):
    # A mean of integers has the default dtype; 1e-40 is a denormal.
    def loss(outputs, labels):
        extra = (labels / 7).sum() + (outputs.detach() * 0 + 1e-20).mul(1e-20).sum() * 1e30
        return nn.functional.cross_entropy(outputs, labels) * (1 + extra.to(outputs.dtype))
    return loss

def flags():
    tiny = torch.tensor([torch.finfo(torch.float32).tiny])
    return (torch.are_deterministic_algorithms_enabled(), torch.get_default_dtype(),
            torch.get_float32_matmul_precision(), torch.backends.mkldnn.enabled,
            bool((tiny * 0.5).eq(0)))

kinds = {"plain": contextlib.nullcontext, "deterministic": deterministic, "double": double,
         "medium": medium, "no mkldnn": no_mkldnn, "flushing": flushing}
def made(kind):
    model, _, optimizer = wide(0)
    if kind == "double":
        model.double()
    return model, loss_of(kind), optimizer
def data(kind, number):
    x, y = rows(number)
    return (x.double() if kind == "double" else x), y
"""


def test_jobs_with_conflicting_flags_take_turns_and_keep_their_bits():
    check_script(
        WIDE,
        FLAGS,
        """
expected, steps = {}, {}
plain = flags()
with laneway.embedded("512MiB") as service:
    for kind, scope in kinds.items():
        with scope():
            trained = made(kind)
            for number in range(4):
                eager_step(*trained, data(kind, number))
            expected[kind] = state_of(trained)
            steps[kind] = laneway.train_step(*made(kind), service, name=kind)
            steps[kind].prepare(*data(kind, 0))
    assert flags() == plain
    for number in range(3):
        for kind, step in steps.items():
            # The modes around a call are part of its form; and they are the process's, so nobody
            # changes them while an iteration is in flight.
            with kinds[kind]():
                step.submit(*data(kind, number)).result()
    for kind, step in steps.items():
        with kinds[kind]():
            step(*data(kind, 3))  # on this thread or in the lane
        step.state_dict()
        assert flags() == plain, (kind, flags())
    for kind, step in steps.items():
        assert_same(expected[kind], of_job(step), kind)
    with flushing():  # this thread's flag is not the jobs', and stays
        steps["plain"](*data("plain", 0))
        assert flags()[-1]
""",
    )
