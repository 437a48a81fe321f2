"""Ctrl-C (SIGINT) at any moment: KeyboardInterrupt comes, the service and the job stay usable, and
the state is that of whole iterations. How many ran is asked of the service, and the state compared
with eager training over as many; no test looks at the time."""

import os
import signal

import pytest

from support.children import run_script

# Every iteration is given the same batch, so that only their number matters.
CHECK = """
def come_again(lost):
    # Python drops an interrupt that comes while a destructor runs.
    if lost.exc_type is KeyboardInterrupt:
        os.kill(os.getpid(), signal.SIGINT)
    else:
        sys.__unraisablehook__(lost)

sys.unraisablehook = come_again

def check(step, width, rows, seed=0):
    state = step.state_dict()  # ordered behind what is in flight, so that all of it is counted
    count = step.report()["graphs"][0]["iterations"]
    model, loss_fn, optimizer = make(seed, width)
    torch.manual_seed(seed + 1)
    for _ in range(count):
        eager_step(model, loss_fn, optimizer, batch(0, rows))
    assert_same({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                 "random": torch.get_rng_state()}, state, "state")
    return count

def heard(call):
    try:
        call()
    except KeyboardInterrupt:
        return True
    return False
"""


def interrupt(process):
    os.kill(process.pid, signal.SIGINT)


def well(body):
    child = run_script(CHECK + body, when_ready=interrupt)
    assert child.code == 0, child
    assert "well" in child.out, child


# Short iterations run on the caller's thread, long ones on the lane's.
@pytest.mark.parametrize(("width", "rows"), [(16, 4), (4096, 512)])
def test_during_synchronous_steps(width, rows):
    well(f"""
service = laneway.embedded("1GiB")
step = step_of(service, 0, {width})
step(*batch(0, {rows}))
def train():
    print("ready", flush=True)
    while True:
        step(*batch(0, {rows}))
assert heard(train)
step(*batch(0, {rows}))
assert check(step, {width}, {rows}) >= 2
service.close()
print("well")
""")


def test_during_result():
    well("""
service = laneway.embedded("1GiB")
step = step_of(service, 0, 1024)
step(*batch(0, 256))
def wait():
    print("ready", flush=True)
    while True:
        futures = [step.submit(*batch(0, 256)) for _ in range(20)]
        futures[-1].result()
assert heard(wait)
step(*batch(0, 256))
assert check(step, 1024, 256) >= 2
print("well")
""")


def test_during_the_wait_for_admission():
    well("""
service = laneway.embedded("3MiB")
first = step_of(service, 0, 8192)
first.prepare(*batch(0))
second = step_of(service, 0, 8192, name="second")
def wait():
    threading.Thread(target=lambda: print("ready", flush=True)).start()
    second.prepare(*batch(0))
assert heard(wait)
# Nothing of it is left behind: it can be offered again, and gets the room of the first.
assert [job["name"] for job in service.status()["jobs"]] == [first.name]
first.close()
second(*batch(0))
check(second, 8192, 4)
print("well")
""")


@pytest.mark.parametrize("place", ["forward", "loss", "backward", "optimizer", "anywhere"])
def test_during_capture(place):
    """The model and the optimizer are the user's own again, and can be captured anew."""
    well(f"""
place = {place!r}
service = laneway.embedded("64MiB")
def interrupt(*_):
    if interrupting:
        os.kill(os.getpid(), signal.SIGINT)
interrupting = place != "anywhere"
model, _, optimizer = make()
parameters = list(model.parameters())
loss_fn = nn.CrossEntropyLoss()
if place == "forward":
    model[1].register_forward_hook(interrupt)
if place == "backward":
    model[1].register_full_backward_hook(interrupt)
if place == "optimizer":
    optimizer.register_step_pre_hook(interrupt)
def loss(outputs, labels):
    if place == "loss":
        interrupt()
    return loss_fn(outputs, labels)
def capture():
    if not interrupting:
        print("ready", flush=True)
    while True:
        torch.manual_seed(1)
        step = laneway.train_step(model, loss, optimizer, service, keep_gradients=False)
        step.prepare(*batch(0))
        step.close()
assert heard(capture)
interrupting = False
assert [id(p) for p in model.parameters()] == [id(p) for p in parameters]
assert all(type(p) is nn.Parameter and p.grad is None for p in model.parameters())
assert not optimizer.state
torch.manual_seed(1)
again = laneway.train_step(model, loss, optimizer, service, keep_gradients=False)
for _ in range(3):
    again(*batch(0))
assert check(again, 16, 4) == 3
print("well")
""")


def test_during_close():
    well("""
services = []
def close():
    print("ready", flush=True)
    while True:
        service = laneway.embedded("64MiB")
        services.append(service)
        step = step_of(service)
        step.prepare(*batch(0))
        step.submit(*batch(0))
        service.close()
assert heard(close)
for service in services:
    service.close()
    service.close()
with laneway.embedded("64MiB") as service:
    step = step_of(service)
    step(*batch(0))
    assert check(step, 16, 4) == 1
print("well")
""")


def test_while_another_thread_trains():
    """The main thread hears it; the other one's iterations are not touched."""
    well("""
service = laneway.embedded("64MiB")
step = step_of(service)
enough = threading.Event()
def train():
    while not enough.is_set():
        step(*batch(0))
thread = threading.Thread(target=train)
thread.start()
def wait():
    print("ready", flush=True)
    threading.Event().wait()
assert heard(wait)
enough.set()
thread.join()
assert check(step, 16, 4) > 0
print("well")
""")
