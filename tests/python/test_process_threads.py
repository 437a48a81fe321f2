"""Threads of a process with embedded services: many inside one step, closing while others are
inside, services that come and go, jobs that nobody holds. Whoever waits gets a result or an error
of laneway, nothing hangs, and what trains keeps eager's bits. Scripts in processes of their own,
with a limit in time, because what these tests look for would hang or crash them."""

from support.children import check_script

# Threads that note how each of their calls ended; what is neither a result nor an error of ours,
# or the wrong one, ends the script.
THREADS = '''
import gc, itertools

def in_threads(*bodies):
    wrong = []
    def guarded(body):
        try:
            body()
        except BaseException as error:
            wrong.append(error)
            raise
    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    def join():
        for thread in threads:
            thread.join()
        assert not wrong, wrong
    return join

def names_in(service):
    """Of the jobs that are there; the status has the last ended ones too."""
    ended = ("finished", "failed", "refused")
    return [job["name"] for job in service.status()["jobs"] if job["state"] not in ended]

def until_closed(call):
    """Calls until it is refused; the number of results."""
    count = 0
    while True:
        try:
            value = call()
        except laneway.ServiceUnavailable as error:
            assert "closed" in str(error) or "ended" in str(error), error
            return count
        assert torch.isfinite(value).all()
        count += 1
'''


def test_threads_inside_one_step_with_errors_among_them():
    """What fails leaves no trace: neither in the state, nor in the masks that others draw."""
    check_script(
        THREADS,
        """
    x, y = batch(0)
    bad = y.clone()
    bad[1] = 3  # of three classes
    failed = []
    with laneway.embedded("64MiB") as service, step_of(service) as step:
        step.prepare(x, y)
        def train():
            for _ in range(40):
                step(x, y)
        def submit():
            for _ in range(10):
                for future in [step.submit(x, y) for _ in range(4)]:
                    future.result()
        def fail():
            for number in range(40):
                try:
                    step(x, bad) if number % 2 else step.submit(x, bad).result()
                except laneway.Error:
                    failed.append(number)
        def mistake():
            for _ in range(10):
                try:
                    step(x[:, :5], y)
                except laneway.InvalidInput:
                    failed.append(None)
        in_threads(train, submit, fail, fail, mistake)()
        assert len(failed) == 90, len(failed)
        model, loss_fn, optimizer = make()
        torch.manual_seed(1)
        for _ in range(80):
            eager_step(model, loss_fn, optimizer, (x, y))
        assert_same({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                     "random": torch.get_rng_state()},
                    step.state_dict(), "state")
    """,
    )


def test_training_goes_on_unchanged_while_others_capture_the_model():
    """A capture of an inference has the model in evaluation mode and on fakes for a while."""
    check_script(
        THREADS,
        """
    x, y = batch(0)
    with laneway.embedded("64MiB") as service, step_of(service) as step:
        step(x, y)
        enough, ran = threading.Event(), threading.Semaphore(0)
        count = 1
        def train():
            global count
            while not enough.is_set():
                step(x, y) if count % 2 else step.submit(x, y).result()
                count += 1
                ran.release()
        join = in_threads(train)
        for rows in range(2, 12):
            laneway.inference(step)(batch(0, rows)[0])
            laneway.inference(step.model, service=service)(batch(0, rows)[0])
            ran.acquire()
        enough.set()
        join()
        model, loss_fn, optimizer = make()
        torch.manual_seed(1)
        for _ in range(count):
            eager_step(model, loss_fn, optimizer, (x, y))
        assert_same({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                     "random": torch.get_rng_state()},
                    step.state_dict(), "state")
    """,
    )


def test_closing_while_others_are_inside_calls_or_wait():
    """Again and again, each time after another number of calls, so that it falls everywhere."""
    check_script(
        THREADS,
        """
    x, y = batch(0)
    for round, closed in itertools.product(range(14), ("step", "predict", "service")):
        service = laneway.embedded("64MiB")
        step = step_of(service)
        step.prepare(x, y)
        model = make()[0]
        predict = laneway.inference(step if round % 2 else model, service=service)
        predict(x)
        inside = threading.Semaphore(0)
        def note(value):
            inside.release()
            return value
        def wait():
            futures = [step.submit(x, y) for _ in range(8)]
            return [note(future.result()) for future in futures][-1]
        def read():
            return step.state_dict()["model"]["0.bias"]
        calls = {"step": [lambda: note(step(x, y)), wait, read],
                 "predict": [lambda: note(predict(x)), lambda: note(predict.submit(x).result())]}
        calls["service"] = calls["step"] + calls["predict"]
        join = in_threads(*[lambda call=call: until_closed(call) for call in calls[closed]])
        for _ in range(round):
            inside.acquire()
        {"step": step, "predict": predict, "service": service}[closed].close()
        join()
        # What was not closed goes on; the rest says that it was.
        if closed == "predict":
            step(x, y)
        if closed == "service":
            assert until_closed(lambda: step(x, y)) == 0
            assert until_closed(lambda: predict(x)) == 0
        elif round % 2 == 0:
            with laneway.inference(model, service=service) as other:
                other(x)
        service.close()
    """,
    )


def test_closing_while_a_capture_runs_or_waits_for_admission():
    check_script(
        THREADS,
        """
    x, y = batch(0)
    for closed in ("step", "service"):
        for known in (False, True):  # the first graph, or another one of a job that is there
            service = laneway.embedded("64MiB")
            model, loss_fn, optimizer = make()
            inside, go = threading.Event(), threading.Event()
            capturing = [not known]
            def loss(outputs, labels):
                if capturing[0]:
                    inside.set()
                    go.wait()
                return loss_fn(outputs, labels)
            step = laneway.train_step(model, loss, optimizer, service)
            if known:
                step(x, y)
                capturing[0] = True
            counts = []
            def call():
                inputs = batch(0, 7)
                counts.append(until_closed(lambda: step(*inputs)))
            join = in_threads(call)
            inside.wait()
            # A step waits for the capture; a service does not.
            closing = in_threads((step if closed == "step" else service).close)
            if closed == "service":
                closing()
            go.set()
            closing()
            join()
            assert counts[0] == 0, counts
            # The model is the user's own again.
            capturing[0] = False
            eager_step(model, loss, optimizer, (x, y))
            service.close()

    # A wait for admission that would never end by itself.
    for closed in ("step", "service", "predict"):
        service = laneway.embedded("3MiB", staging=0)
        first = step_of(service, 0, 8192)
        first.prepare(*batch())
        step = step_of(service, 0, 8192, name="second")
        predict = laneway.inference(make(0, 25000)[0], service=service, name="third")
        waiting = {"step": lambda: step(x, y), "predict": lambda: predict(x)}
        names = ["step", "predict"] if closed == "service" else [closed]
        join = in_threads(*[lambda name=name: until_closed(waiting[name]) for name in names])
        while len(names_in(service)) < 1 + len(names):
            pass
        {"step": step, "service": service, "predict": predict}[closed].close()
        join()
        if closed != "service":
            assert names_in(service) == [first.name]
            first(*batch())
        service.close()
    """,
    )


def test_many_services_one_after_another_leave_nothing_behind():
    check_script("""
    def held():
        with open("/proc/self/maps") as maps:
            pools = maps.read().count("laneway-pool")
        return {"descriptors": len(os.listdir("/proc/self/fd")),
                "threads": len(os.listdir("/proc/self/task")), "pools": pools}

    def with_job():
        with laneway.embedded("64MiB") as service, step_of(service) as step:
            step(*batch(0))
            step.submit(*batch(1))
            laneway.inference(step)(batch(0)[0])

    def let_go():
        step_of(laneway.embedded("64MiB"))(*batch(0))

    for make_one, count in ((lambda: laneway.embedded("64MiB").close(), 100), (with_job, 10),
                            (let_go, 10)):
        for _ in range(3):
            make_one()
        threading.Event().wait(0.1)
        before = held()
        assert before["pools"] == 0, before
        for _ in range(count):
            make_one()
        # A thread that has ended is shown until it had a processor to do so.
        for _ in range(1000):
            if held() == before:
                break
            threading.Event().wait(0.01)
        assert held() == before, (before, held())
    """)


def test_two_services_at_once_keep_eagers_bits_and_end_apart():
    check_script(
        THREADS,
        """
    services = [laneway.embedded("64MiB"), laneway.embedded("64MiB", policy="srtf")]
    steps = [step_of(service, seed) for seed in (0, 1) for service in services]
    def train(step, first, last):
        for number in range(first, last):
            step(*batch(number)) if number % 2 else step.submit(*batch(number)).result()
    in_threads(*[lambda step=step: train(step, 0, 20) for step in steps])()
    expected = [eager(20, 0), eager(20, 1)]
    for position, step in enumerate(steps):
        assert_same(expected[position // 2], step.state_dict(), f"step {position}")
    assert all(len(service.status()["jobs"]) == 2 for service in services)
    services[0].close()
    in_threads(*[lambda step=step: train(step, 20, 25) for step in (steps[1], steps[3])])()
    assert_same(eager(25, 0), steps[1].state_dict(), "goes on")
    assert_same(eager(25, 1), steps[3].state_dict(), "goes on")
    services[1].close()
    """,
    )


def test_a_job_that_nobody_holds_ends_and_frees_its_memory():
    check_script(
        THREADS,
        """
    import warnings
    warnings.simplefilter("error")
    gc.disable()  # nothing below waits for a collection of cycles
    x, y = batch(0)
    service = laneway.embedded("64MiB")
    empty = service.status()["map"]

    step = step_of(service, name="first")
    step(x, y)
    step(*batch(0, 7))
    model = step.model
    assert names_in(service) == ["first"] and service.status()["map"] != empty
    predict = laneway.inference(step)
    expected = predict(x)
    del step
    assert names_in(service) == ["first"], "an inference keeps its step"
    assert_same(expected, predict(x), "inference")
    del predict
    assert names_in(service) == []
    model.train()(x)  # it would warn of a job that trains it

    # Futures keep the job as long as they are held.
    def submit():
        step = step_of(service, name="second")
        return [step.submit(*batch(number)) for number in range(20)]
    futures = submit()
    assert names_in(service) == ["second"]
    assert torch.isfinite(futures[-1].result())
    del futures
    assert names_in(service) == []

    alone = laneway.inference(model, service=service, name="alone")
    alone(x)
    del alone
    assert names_in(service) == []

    # In a cycle, with work under way: the collection ends it, whichever thread that runs in.
    def cycle():
        step = step_of(service, name="third")
        step.prepare(x, y)
        step.itself = step
        for _ in range(30):
            step.submit(x, y)
    cycle()
    assert names_in(service) == ["third"]
    in_threads(gc.collect)()
    assert names_in(service) == []
    assert service.status()["map"] == empty, service.status()["map"]

    # Its room is there for others: each alone fills most of a pool.
    small = laneway.embedded("3MiB")
    for number in range(3):
        step = step_of(small, number, 8192, admission_timeout=0)
        step(x, y)
        del step
    small.close()
    service.close()
    """,
    )
