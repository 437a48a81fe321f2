"""Children made by fork() of a process with an embedded service: they never hang and never disturb
the parent, eager torch works in them, what is the parent's says so, a service of their own runs.
Each test is a script in a process of its own; the parent's training is compared with eager."""

import pytest

from support.children import check_script

# Says what the child did through its exit code; -1 when it was still there at the end.
WAIT = """
def code_of(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""

REFUSALS = """
def refused(call):
    try:
        call()
    except laneway.ServiceUnavailable as error:
        text = str(error)
        assert f"belongs to process {os.getppid()}" in text, text
        assert f"this is process {os.getpid()}" in text and "open a service" in text, text
        return True
    return False
"""


def test_data_loader_workers_between_steps_and_before_the_first():
    check_script("""
    from torch.utils.data import DataLoader, Dataset

    class Rows(Dataset):
        def __len__(self):
            return 12
        def __getitem__(self, index):
            x, y = batch(index)
            return torch.relu(x) + x - torch.relu(x), y  # eager operators in the worker

    with laneway.embedded("64MiB") as service:
        for early in (False, True):
            step = step_of(service)
            if early:
                step.prepare(*batch())
            loader = DataLoader(Rows(), batch_size=None, num_workers=2,
                                multiprocessing_context="fork", persistent_workers=True)
            expected_model, loss_fn, optimizer = make()
            rows = list(loader)
            for x, y in loader:
                step(x, y)
            torch.manual_seed(1)
            for x, y in rows:
                eager_step(expected_model, loss_fn, optimizer, (x, y))
            assert_same(expected_model.state_dict(), step.state_dict()["model"], "model")
    """)


def test_forks_while_another_thread_has_steps_in_flight():
    """Conv layers, so that iterations hold oneDNN's locks; each child runs them eagerly."""
    check_script(
        WAIT,
        """
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
                        nn.Linear(8 * 14 * 14, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    inputs = torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 2, 0])
    import copy
    twin = copy.deepcopy(net)
    twin_optimizer = torch.optim.SGD(twin.parameters(), lr=0.01, momentum=0.9)
    with laneway.embedded("64MiB") as service:
        step = laneway.train_step(net, nn.CrossEntropyLoss(), optimizer, service)
        step.prepare(*inputs)
        enough = threading.Event()
        count = 0
        def feed():
            global count
            flying = []
            while not enough.is_set():
                flying.append(step.submit(*inputs))
                count += 1
                if len(flying) > 8:
                    flying.pop(0).result()
            for future in flying:
                future.result()
        feeder = threading.Thread(target=feed)
        feeder.start()
        fresh = nn.Conv2d(3, 5, 3)
        for round in range(30):
            pid = os.fork()
            if pid == 0:
                size = 17 + round  # shapes that oneDNN has no primitive for yet
                out = fresh(torch.randn(2, 3, size, size))
                out.sum().backward()
                os._exit(7 if out.shape[-1] == size - 2 else 8)
            assert code_of(pid) == 7
        enough.set()
        feeder.join()
        for _ in range(count):
            eager_step(twin, nn.CrossEntropyLoss(), twin_optimizer, inputs)
        assert count > 0
        assert_same(twin.state_dict(), step.state_dict()["model"], "model")
    """,
    )


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("sys.exit(3)", 3),
        ("os._exit(4)", 4),
        ("raise RuntimeError('on purpose')", 1),
        ("service.close(); step.close(); predict.close(); sys.exit(5)", 5),
        ("del step, predict, future, service; import gc; gc.collect(); sys.exit(6)", 6),
    ],
)
def test_a_child_ends_as_it_wants_and_the_parent_goes_on(ending, code):
    # The child runs to the end of the interpreter, through the context managers of its parent.
    check_script(
        WAIT,
        f"""
    def body():
        with laneway.embedded("64MiB") as service, step_of(service) as step:
            step(*batch(0))
            predict = laneway.inference(step)
            predict(batch(0)[0])
            future = step.submit(*batch(1))
            pid = os.fork()
            if pid == 0:
                {ending}
            assert code_of(pid) == {code}, "child"
            future.result()
            step(*batch(2))
            assert_same(eager(3), step.state_dict(), "state")
            print("parent is well")
    body()
    """,
    )


def test_everything_of_the_parents_says_that_it_is_the_parents():
    check_script(
        WAIT,
        REFUSALS,
        """
    service = laneway.embedded("64MiB")
    step = step_of(service)
    never_called = step_of(service)
    step(*batch(0))
    predict = laneway.inference(step)
    predict(batch(0)[0])
    future = step.submit(*batch(1))
    known = step.submit(*batch(2))
    value = known.result()
    pid = os.fork()
    if pid == 0:
        calls = [
            lambda: step(*batch(0)), lambda: step.submit(*batch(0)), step.state_dict,
            lambda: step.load_state_dict({}), step.report, lambda: step.sync_to(step.model),
            lambda: predict(batch(0)[0]), lambda: laneway.inference(step)(batch(0)[0]),
            lambda: never_called(*batch(0)), service.status, future.result, future.done,
            lambda: step_of(service)(*batch(0)), lambda: step.job.read_state([]),
        ]
        wrong = [i for i, call in enumerate(calls) if not refused(call)]
        print("not refused:", wrong, file=sys.stderr)
        for each in (step, predict, never_called, service):
            each.close()
        assert known.result() is value
        os._exit(1 if wrong else 9)
    assert code_of(pid) == 9
    future.result()
    assert_same(eager(3), step.state_dict(), "state")
    service.close()
    """,
    )


def test_locks_that_other_threads_held_at_the_fork_do_not_hang_the_child():
    check_script(
        WAIT,
        REFUSALS,
        """
    service = laneway.embedded("64MiB")
    step = step_of(service)
    step(*batch(0))
    held, go = threading.Event(), threading.Event()
    def hold():
        with step._lock, service._lock, step.job._lock:
            held.set()
            go.wait()
    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    pid = os.fork()
    if pid == 0:
        ok = refused(step.state_dict) and refused(service.status)
        step.close()
        service.close()
        with laneway.embedded("64MiB") as own, step_of(own) as mine:
            mine(*batch(0))
            assert_same(eager(1), mine.state_dict(), "state")
        default = laneway.train_step(*make())
        default(*batch(0))
        sys.exit(9 if ok else 1)
    assert code_of(pid) == 9
    go.set()
    holder.join()
    step(*batch(1))
    assert_same(eager(2), step.state_dict(), "state")
    """,
    )


def test_a_child_has_neither_the_pool_nor_its_descriptor():
    """What a child had of it, it could write into the parent's jobs, and would keep taken."""
    check_script(
        WAIT,
        """
    def traces():
        with open("/proc/self/maps") as maps:
            mapped = maps.read().count("laneway-pool")
        links = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                 if os.path.islink(f"/proc/self/fd/{fd}")]
        return mapped, sum("laneway-pool" in link for link in links)

    with laneway.embedded("64MiB") as service, step_of(service) as step:
        step(*batch(0))
        assert traces() == (1, 1), traces()
        pid = os.fork()
        if pid == 0:
            os._exit(9 if traces() == (0, 0) else 1)
        assert code_of(pid) == 9
        assert traces() == (1, 1)
        step(*batch(1))
        assert_same(eager(2), step.state_dict(), "state")
    """,
    )


def test_multiprocessing_children_collect_the_parents_handles():
    check_script("""
    import gc, multiprocessing
    context = multiprocessing.get_context("fork")
    service = laneway.embedded("64MiB")
    objects = [step_of(service)]
    objects[0](*batch(0))
    objects += [laneway.inference(objects[0]), objects[0].submit(*batch(1)), service]
    objects[1](batch(0)[0])

    def work(numbers):
        del objects[:]
        global service
        del service
        gc.collect()
        model, loss_fn, optimizer = make()
        numbers.put(eager_step(model, loss_fn, optimizer, batch(0)).item())

    numbers = context.SimpleQueue()
    children = [context.Process(target=work, args=(numbers,)) for _ in range(4)]
    for child in children:
        child.start()
    assert len({numbers.get() for _ in children}) > 0
    for child in children:
        child.join()
        assert child.exitcode == 0, child.exitcode
    objects[2].result()
    assert_same(eager(2), objects[0].state_dict(), "state")
    service.close()
    """)


def test_a_grandchild_is_refused_too_and_a_childs_service_is_its_own():
    check_script(
        WAIT,
        REFUSALS,
        """
    service = laneway.embedded("64MiB")
    step = step_of(service)
    step(*batch(0))
    pid = os.fork()
    if pid == 0:
        own = laneway.embedded("64MiB")
        mine = step_of(own)
        mine(*batch(0))
        grandchild = os.fork()
        if grandchild == 0:
            try:
                step(*batch(1))
            except laneway.ServiceUnavailable:
                os._exit(9 if refused(lambda: mine(*batch(1))) else 1)
            os._exit(2)
        code = code_of(grandchild)
        mine(*batch(1))
        assert_same(eager(2), mine.state_dict(), "state")
        sys.exit(code)
    assert code_of(pid) == 9
    step(*batch(1))
    assert_same(eager(2), step.state_dict(), "state")
    """,
    )


def test_capture_does_not_forbid_backward_in_children():
    """It used to start autograd's threads for devices that are not there; torch refuses backward()
    in a child of such a process."""
    check_script(
        WAIT,
        """
    with laneway.embedded("64MiB") as service, step_of(service) as step:
        step.prepare(*batch(0))  # no eager backward() came before
        tasks = os.listdir("/proc/self/task")
        names = [open(f"/proc/self/task/{task}/comm").read() for task in tasks]
        assert not any("autograd" in name for name in names), names
        pid = os.fork()
        if pid == 0:
            eager(1)
            os._exit(9)
        assert code_of(pid) == 9
    """,
    )


def test_a_fork_in_the_middle_of_another_threads_capture():
    """What a capture changes for all threads (of torch.random, of GradScaler) is as torch made it
    in the child, and locks that were held there are free."""
    check_script(
        WAIT,
        """
    from torch.amp.grad_scaler import GradScaler
    from laneway.capture import loss_scaling, random_state
    inside, go, held, end = (threading.Event() for _ in range(4))
    model, loss_fn, optimizer = make()
    def loss(outputs, labels):
        inside.set()
        go.wait()
        return loss_fn(outputs, labels)
    service = laneway.embedded("64MiB")
    torch.manual_seed(1)
    step = laneway.train_step(model, loss, optimizer, service)
    def capture():
        step.prepare(*batch(0))
        with loss_scaling._watching._lock, random_state._serving._lock:
            held.set()
            end.wait()
    thread = threading.Thread(target=capture)
    thread.start()

    def fork():
        pid = os.fork()
        if pid == 0:
            assert torch.random.default_generator is torch.default_generator
            assert "__getattribute__" not in vars(GradScaler)
            with laneway.embedded("64MiB") as own, step_of(own) as mine:
                mine(*batch(0))
                assert_same(eager(1), mine.state_dict(), "state")
            os._exit(9)
        assert code_of(pid) == 9

    inside.wait()
    fork()  # inside the capture
    assert "__getattribute__" in vars(GradScaler)
    go.set()
    held.wait()
    fork()  # with the locks held
    end.set()
    thread.join()
    assert torch.random.default_generator is torch.default_generator
    assert "__getattribute__" not in vars(GradScaler)
    step(*batch(0))
    assert_same(eager(1), step.state_dict(), "state")
    """,
    )
