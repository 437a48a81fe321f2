"""The service around the iterations: inference on a training job's weights, state in torch's own
layouts in both directions, waiting and refusal with the arithmetic, closing, errors that leave
everything as it was."""

import asyncio
import gc
import threading
import warnings

import pytest
import torch
from torch import nn

import laneway
from bench import models
from support.eager import assert_same, eager_step
from support.engine import batches_of, eager_state, make_step, train


def small_step(service, **options):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    return laneway.train_step(model, nn.CrossEntropyLoss(), optimizer, service, **options)


def small_batch(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(4, 8, generator=generator),
        torch.randint(0, 3, (4,), generator=generator),
    )


def test_inference_of_a_step_uses_its_current_weights(service):
    batches = batches_of("cnn", 0, 6)
    with make_step(service, "cnn", 0) as step:
        step(*batches[0])
        predict = laneway.inference(step)
        for batch in batches[1:]:
            step(*batch)
            twin = models.make("cnn", 0).model
            twin.load_state_dict(step.state_dict()["model"])
            twin.eval()
            with torch.no_grad():
                assert_same(twin(batch[0]), predict(batch[0]), "prediction")
        state = step.state_dict()
        jobs = service.status()["jobs"]
    assert len(jobs) == 1 and len({job["lane"] for job in jobs}) == 1
    expected = eager_state("cnn", 0, "default", batches)
    assert_same(expected["model"], state["model"], "model")


def test_inference_of_a_model_equals_eager(service):
    workload = models.make("bert", 0)
    inputs = workload.batch(0)[:-1]
    workload.model.eval()
    with torch.no_grad():
        expected = workload.model(*inputs)
    workload.model.train()
    with laneway.inference(workload.model, service) as predict:
        assert_same(expected, predict(*inputs), "prediction")
        assert_same(expected, predict.submit(*inputs).result(), "prediction")
    assert workload.model.training


def test_state_goes_to_plain_torch_and_back(service):
    """Ten steps here, ten in plain torch, ten here again: equal to thirty in plain torch."""
    batches = batches_of("mlp", 2, 30)
    with make_step(service, "mlp", 2) as step:
        first = train(step, batches[:10])
        between = models.make("mlp", 9)
        step.sync_to(between.model, between.optimizer)
        for batch in batches[10:20]:
            eager_step(between.model, between.loss_fn, between.optimizer, batch)
        step.load_state_dict(
            {"model": between.model.state_dict(), "optimizer": between.optimizer.state_dict()}
        )
        last = train(step, batches[20:])
    expected = eager_state("mlp", 2, "default", batches)
    assert first["losses"] == expected["losses"][:10]
    assert_same(expected["model"], last["model"], "model")
    assert_same(expected["optimizer"], last["optimizer"], "optimizer")


def test_state_of_before_the_first_step_starts_a_job_anew(service):
    """A state_dict without optimizer state puts the job back to where torch would begin."""
    batches = batches_of("cnn", 3, 8)
    with make_step(service, "cnn", 3) as step:
        train(step, batches[:3])
        fresh = models.make("cnn", 3)
        step.load_state_dict(
            {"model": fresh.model.state_dict(), "optimizer": fresh.optimizer.state_dict()}
        )
        losses = [step(*batch).item() for batch in batches[3:]]
        state = step.state_dict()
    twin = models.make("cnn", 3)
    torch.manual_seed(103)
    drawn = models.make("cnn", 3)
    for batch in batches[:3]:  # draws what the job drew before
        eager_step(drawn.model, drawn.loss_fn, drawn.optimizer, batch)
    expected = [
        eager_step(twin.model, twin.loss_fn, twin.optimizer, batch).item() for batch in batches[3:]
    ]
    assert losses == expected
    assert_same(twin.optimizer.state_dict(), state["optimizer"], "optimizer")


def test_a_scheduler_needs_no_new_capture(service):
    batches = batches_of("cnn", 0, 9)
    here, there = models.make("cnn", 0), models.make("cnn", 0)
    torch.manual_seed(5)
    step = laneway.train_step(here.model, here.loss_fn, here.optimizer, service)
    schedules = [torch.optim.lr_scheduler.StepLR(w.optimizer, 2, gamma=0.5) for w in (here, there)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the scheduler sees that steps come before it
        for batch in batches:
            step(*batch)
            schedules[0].step()
    torch.manual_seed(5)
    for batch in batches:
        eager_step(there.model, there.loss_fn, there.optimizer, batch)
        schedules[1].step()
    assert_same(there.model.state_dict(), step.state_dict()["model"], "model")
    assert step.report()["graphs"][0]["iterations"] == len(batches)


def test_a_future_can_be_awaited_and_times_out(service):
    step = small_step(service)
    expected = step(*small_batch()).item()

    async def one():
        return (await step.submit(*small_batch())).item()

    assert asyncio.run(one()) < expected
    future = step.submit(*small_batch())
    assert future.result(timeout=60).shape == ()
    assert future.done()


def test_a_job_larger_than_the_pool_is_refused_with_the_arithmetic():
    with laneway.embedded("64MiB") as service:
        model = nn.Linear(4096, 4096)  # 64 MiB of weights, as much again per momentum
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        step = laneway.train_step(model, nn.MSELoss(), optimizer, service, name="large")
        with pytest.raises(laneway.OutOfMemory) as refused:
            step(torch.zeros(2, 4096), torch.zeros(2, 4096))
        assert "64 MiB" in str(refused.value) and "MiB" in str(refused.value)
        # Nothing is lost: another job runs.
        assert small_step(service)(*small_batch()).item() > 0


def test_a_full_pool_means_waiting_with_a_reason_until_there_is_room():
    with laneway.embedded("18MiB", staging=0) as service:

        def wide(name, timeout):
            model = nn.Linear(1024, 1024)  # 4 MiB, with momentum 8
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            return laneway.train_step(
                model, nn.MSELoss(), optimizer, service, name=name, admission_timeout=timeout
            )

        batch = (torch.zeros(2, 1024), torch.ones(2, 1024))
        first = wide("first", None)
        first(*batch)
        with pytest.raises(laneway.Refused, match=r"not admitted within 0.2 s.*18 MiB"):
            wide("impatient", 0.2)(*batch)
        waiting = wide("patient", None)
        losses = []
        thread = threading.Thread(target=lambda: losses.append(waiting(*batch).item()))
        thread.start()
        while not any(job["name"] == "patient" for job in service.status()["jobs"]):
            pass
        line = next(job for job in service.status()["jobs"] if job["name"] == "patient")
        assert line["state"] == "waiting" and line["reason"]["numbers"]["position"] == 1
        assert line["reason"]["code"] in ("pool_full", "pool_fragmented")
        first.close()
        thread.join()
        assert len(losses) == 1


def test_a_full_pool_does_not_stop_its_jobs_from_sharing_a_lane():
    """No room for a second region, but for a second image: the lane is shared."""
    model_bytes = 1024 * 1024 * 4
    with laneway.embedded(4 * model_bytes) as service:
        steps = []
        for name in ("a", "b"):
            model = nn.Linear(1024, 1024)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            steps.append(laneway.train_step(model, nn.MSELoss(), optimizer, service, name=name))
        for step in steps:
            assert step(torch.zeros(2, 1024), torch.ones(2, 1024)).item() > 0


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (lambda x, y: (x[:, :2], y), "reduction dim|shape"),
        (lambda x, y: (x.double(), y), "dtype"),
        (lambda x, y: (x,), "argument"),
        (lambda x, y: (x, "label"), "argument 'target'"),
        (lambda x, y: (x, y.numpy()), "argument 1 is a numpy ndarray"),
        (lambda x, y: (x.to("meta"), y), "meta"),
        (lambda x, y: (x.to_sparse(), y), "sparse"),
    ],
)
def test_inputs_that_the_step_cannot_take_are_refused_and_nothing_is_lost(service, inputs, said):
    step, twin = small_step(service), small_step(service)
    x, y = small_batch()
    step(x, y), twin(x, y)
    with pytest.raises((laneway.InvalidInput, laneway.CaptureError), match=said):
        step(*inputs(x, y))
    assert_same(twin(x, y), step(x, y), "loss")
    assert_same(twin.state_dict(), step.state_dict(), "state")


def test_a_label_out_of_range_fails_its_iteration_alone(service):
    step, twin = small_step(service), small_step(service)
    x, y = small_batch()
    step(x, y), twin(x, y)
    with pytest.raises(laneway.InvalidInput, match=r"nll_loss.*as before"):
        step(x, y + 100)
    with pytest.raises(laneway.InvalidInput, match=r"nll_loss.*as before"):
        step.submit(x, y + 100).result()
    assert_same(twin(x, y), step(x, y), "loss")
    assert_same(twin.state_dict(), step.state_dict(), "state")


def test_an_exception_in_a_closure_comes_out_and_nothing_is_lost(service):
    class Mine(Exception):
        pass

    def closure(model, optimizer, *inputs):
        raise Mine("on purpose")

    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = laneway.train_step(model, None, optimizer, service, closure=closure)
    before = [job["id"] for job in service.status()["jobs"]]
    with pytest.raises((Mine, laneway.CaptureError), match="on purpose"):
        step(torch.zeros(2, 3))
    assert [job["id"] for job in service.status()["jobs"]] == before
    assert small_step(service)(*small_batch()).item() > 0


def test_a_step_that_cannot_be_captured_names_operator_and_remedy(service):
    class Data(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            y = self.layer(x)
            return y * 2 if y.sum() > 0 else y

    model = Data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = laneway.train_step(model, nn.MSELoss(), optimizer, service)
    with pytest.raises(laneway.CaptureError, match=r"test_engine_service.py") as error:
        step(torch.zeros(2, 3), torch.zeros(2, 3))
    assert error.value.remedy


def test_calling_the_model_in_training_mode_warns_once(service):
    step = small_step(service, sync="manual")
    step(*small_batch())
    with pytest.warns(UserWarning, match="sync_to"):
        step.model(small_batch()[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step.model(small_batch()[0])


def test_closing_a_step_frees_its_memory_and_ends_its_calls(service):
    step = small_step(service)
    step(*small_batch())
    assert service.status()["pool"]["persistent_bytes"] > 0
    step.close()
    step.close()
    status = service.status()
    assert status["pool"]["persistent_bytes"] == 0 and status["pool"]["region_bytes"] == 0
    for call in (lambda: step(*small_batch()), step.state_dict, step.report):
        with pytest.raises(laneway.ServiceUnavailable, match="closed"):
            call()


def test_closing_the_service_with_work_in_flight_ends_everything():
    service = laneway.embedded("256MiB")
    step = make_step(service, "gpt", 0, sync="manual")  # the model does not wait for the queue
    batch = batches_of("gpt", 0, 1)[0]
    futures = [step.submit(*batch) for _ in range(40)]
    futures[0].result()
    service.close()
    ended = []
    for future in futures:
        try:
            ended.append(future.result())
        except laneway.ServiceUnavailable as error:
            ended.append(error)
    assert len(ended) == 40 and any(isinstance(e, laneway.Error) for e in ended)
    with pytest.raises(laneway.ServiceUnavailable, match="closed"):
        step(*batch)
    with pytest.raises(laneway.ServiceUnavailable, match="closed"):
        service.status()


def test_many_services_one_after_another_leave_nothing_behind():
    before = threading.active_count()
    with open("/proc/self/maps") as maps:
        pools = maps.read().count("laneway-pool")
    for round_number in range(5):
        with laneway.embedded("64MiB") as service:
            assert small_step(service)(*small_batch(round_number)).item() > 0
    gc.collect()
    assert threading.active_count() == before
    with open("/proc/self/maps") as maps:
        assert maps.read().count("laneway-pool") <= pools


def test_status_adds_up(service):
    with make_step(service, "mlp", 0) as step:
        train(step, batches_of("mlp", 0, 3))
        status = service.status()
        pool = status["pool"]
        parts = ("persistent_bytes", "region_bytes", "other_bytes", "reserve_bytes", "free_bytes")
        assert sum(pool[part] for part in parts) == pool["capacity_bytes"] == 256 << 20
        assert sum(piece["bytes"] for piece in status["map"]) == pool["capacity_bytes"]
        held = {piece["kind"]: piece["bytes"] for piece in status["map"]}
        assert held["image"] == pool["persistent_bytes"] and held["region"] == pool["region_bytes"]
        report = step.report(with_tapes=True)["graphs"][0]
        # The region shrank to the plan of the only job in it.
        assert held["region"] == report["planned_peak_bytes"]
        assert len(report["tape"]["allocations"]) == len(report["tape"]["frees"])


def test_the_service_says_which_kernels_run_its_jobs(service):
    assert service.kernels in ("cpu", "cuda")
    assert service.status()["service"]["kernels"] == service.kernels


@pytest.mark.embedded_only
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pool": "lots"}, "'lots'"),
        ({"pool": 0}, "0 bytes"),
        ({"policy": "nonsense"}, "nonsense.*fifo"),
        ({"lanes": 0}, "lanes = 0"),
        ({"lanes": 1000}, "1000.*64"),
        pytest.param({"device": "cuda:0"}, "cuda:0", marks=pytest.mark.host_only),
        ({"lane_sms": -1}, "lane_sms = -1"),
    ],
)
def test_bad_options_are_named_with_what_is_possible(options, said):
    with pytest.raises(laneway.Error, match=said):
        laneway.embedded(**options)
