"""Shows that a job made with shared=True is joined by its name: an inference of another model
object over the job's slots gives what eager torch gives with the job's weights, whatever that
model's own weights are, and follows training; what does not fit is refused by name; detaching ends
nothing. Cancelled work does not run."""

import pytest
import torch

import laneway


def build(width: int = 8) -> torch.nn.Sequential:
    model = torch.nn.Sequential(
        torch.nn.Linear(4, width), torch.nn.BatchNorm1d(width), torch.nn.Linear(width, 3)
    )
    return model


@pytest.fixture
def service():
    with laneway.embedded(pool="64MiB") as opened:
        yield opened


def trained(service, **options):
    model = build()
    optimizer = torch.optim.AdamW(model.parameters())
    loss = torch.nn.functional.cross_entropy
    step = laneway.train_step(model, loss, optimizer, service=service, name="digits", **options)
    step(torch.randn(5, 4), torch.randint(3, (5,)))
    return step


def iterations_of(step):
    return sum(graph["iterations"] for graph in step.report()["graphs"])


def expected(step, inputs):
    current = build()
    step.sync_to(current)
    current.eval()
    with torch.no_grad():
        return current(inputs)


def test_inference_of_another_model_uses_the_jobs_weights(service):
    step = trained(service, shared=True)
    inputs = torch.randn(6, 4)
    with laneway.attach("digits", service) as handle:
        predict = handle.inference(build())
        for _ in range(3):
            assert torch.equal(predict(inputs), expected(step, inputs))
            step(torch.randn(5, 4), torch.randint(3, (5,)))
        assert handle.report()["name"] == "digits"
    step(torch.randn(5, 4), torch.randint(3, (5,)))
    with pytest.raises(laneway.ServiceUnavailable):
        predict(inputs)


def test_a_job_that_is_not_shared_is_refused(service):
    held = trained(service)
    with pytest.raises(laneway.Refused, match=r"'digits'.*shared=True"):
        laneway.attach("digits", service)
    with pytest.raises(laneway.Refused, match="no job 'letters'"):
        laneway.attach("letters", service)
    held.close()


def test_a_model_of_other_sizes_or_names_is_refused(service):
    step = trained(service, shared=True)
    handle = laneway.attach("digits", service)
    with pytest.raises(laneway.InvalidInput, match=r"model/0.weight .* has 128 bytes"):
        handle.inference(build(9))
    with pytest.raises(laneway.InvalidInput, match="has none of this model's tensors"):
        handle.inference(torch.nn.Bilinear(2, 2, 2))
    step.close()
    with pytest.raises(laneway.Refused):
        laneway.attach("digits", service)


def test_an_attachment_keeps_nothing_alive(service):
    step = trained(service, shared=True)
    handle = laneway.attach("digits", service)
    predict = handle.inference(build())
    predict(torch.randn(2, 4))
    step.close()
    with pytest.raises(laneway.ServiceUnavailable):
        predict(torch.randn(2, 4))


def test_a_future_is_cancelled_or_has_begun(service):
    step = trained(service)
    batch = torch.randn(5, 4), torch.randint(3, (5,))
    while not (before := iterations_of(step)):
        continue  # what trained() ran is answered before it is counted
    futures = [step.submit(*batch) for _ in range(30)]
    cancelled = [future.cancel() for future in reversed(futures)]
    for future, gone in zip(reversed(futures), cancelled):
        if gone:
            with pytest.raises(laneway.ServiceUnavailable, match="cancelled"):
                future.result()
        else:
            future.result()
    assert iterations_of(step) == before + cancelled.count(False)
    assert not futures[0].cancel() or cancelled[-1]


def test_connect_says_what_to_do_when_nobody_is_there(tmp_path):
    with pytest.raises(laneway.ServiceUnavailable, match="start one with `lanewayd`"):
        laneway.connect(f"ipc://{tmp_path}/none.sock")
