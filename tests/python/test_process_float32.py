"""The float32 precision of products, in both forms that torch has: the newer settings of a library
and a kind of operator (torch.backends.cuda.matmul.fp32_precision) and the older ones. Set before a
capture, between two iterations and during one: a job keeps the precision of its capture, to eager's
bits, and the process keeps its settings. Scripts of their own, because settings are the process's;
where oneDNN has bfloat16, the bits of "medium" differ from those of "highest"."""

import pytest

from support.children import check_script
from support.daemon import Lanewayd

SETTINGS = """
def settings():
    b = torch.backends
    def older(get):
        try:
            return get()
        except RuntimeError:
            return "raises"
    return (b.fp32_precision, b.cuda.matmul.fp32_precision, b.cudnn.conv.fp32_precision,
            b.cudnn.rnn.fp32_precision, b.mkldnn.matmul.fp32_precision,
            b.mkldnn.conv.fp32_precision, b.mkldnn.rnn.fp32_precision,
            older(torch.get_float32_matmul_precision), older(lambda: b.cudnn.allow_tf32))

def set_cuda_matmul(): torch.backends.cuda.matmul.fp32_precision = "tf32"
def set_cudnn_conv(): torch.backends.cudnn.conv.fp32_precision = "ieee"
def set_cudnn_rnn(): torch.backends.cudnn.rnn.fp32_precision = "ieee"
def set_mkldnn_matmul(): torch.backends.mkldnn.matmul.fp32_precision = "bf16"
def set_generic(): torch.backends.fp32_precision = "tf32"
def set_older(): torch.set_float32_matmul_precision("medium")
SETTERS = (set_cuda_matmul, set_cudnn_conv, set_cudnn_rnn, set_mkldnn_matmul, set_generic,
           set_older)

def back():
    torch.backends.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = True

def wide_step(seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
    return model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.5)

def rows(number):
    generator = torch.Generator().manual_seed(number)
    return (torch.randn(256, 256, generator=generator),
            torch.randint(0, 256, (256,), generator=generator))

def expect(setter, count):
    setter()
    trained = wide_step()
    for number in range(count):
        eager_step(*trained, rows(number))
    back()
    return {"model": trained[0].state_dict()}

def of_job(step):
    return {"model": step.state_dict()["model"]}
"""

# The same for every kind of service: `service` is open.
BETWEEN = """
plain = expect(lambda: None, 6)
for setter in SETTERS:
    step = laneway.train_step(*wide_step(), service, name=setter.__name__)
    step(*rows(0))
    setter()
    set_to = settings()
    step(*rows(1)).item()
    step.submit(*rows(2)).result()
    for future in [step.submit(*rows(number)) for number in range(3, 6)]:
        future.result()
    assert_same(plain, of_job(step), setter.__name__)
    assert settings() == set_to, (setter.__name__, settings(), set_to)
    step.close()
    back()
"""

BEFORE = """
for setter in SETTERS:
    expected = expect(setter, 4)
    setter()
    set_to = settings()
    step = laneway.train_step(*wide_step(), service, name="under " + setter.__name__)
    step(*rows(0))
    assert settings() == set_to, (setter.__name__, settings(), set_to)
    back()
    unset = settings()
    for number in range(1, 4):
        step.submit(*rows(number)).result() if number % 2 else step(*rows(number)).item()
    assert_same(expected, of_job(step), setter.__name__)
    assert settings() == unset, (setter.__name__, settings(), unset)
    step.close()
"""

EMBEDDED = """
service = laneway.embedded("256MiB")
"""


@pytest.mark.embedded_only("opens services of its own")
@pytest.mark.parametrize("part", [BETWEEN, BEFORE], ids=["between", "before"])
def test_embedded_jobs_keep_the_precision_of_their_capture(part):
    check_script(SETTINGS, EMBEDDED, part, "service.close()")


@pytest.mark.embedded_only("opens services of its own")
@pytest.mark.parametrize("part", [BETWEEN, BEFORE], ids=["between", "before"])
def test_jobs_of_a_daemon_keep_the_precision_of_their_capture(part):
    with Lanewayd("--standby", "0") as daemon:
        check_script(SETTINGS, f"service = laneway.connect({daemon.address!r})", part)


@pytest.mark.embedded_only("opens services of its own")
def test_a_setting_that_another_thread_switches_during_an_iteration_stays():
    """Forty iterations are in flight when this thread begins to switch, and some still are when it
    has: an iteration that sees it says so once."""
    child = check_script(
        SETTINGS,
        EMBEDDED,
        """
        plain = expect(lambda: None, 40)
        step = laneway.train_step(*wide_step(), service)
        step.prepare(*rows(0))
        futures = [step.submit(*rows(number)) for number in range(40)]
        while not futures[-1].done():
            set_cuda_matmul()  # the host's operators do not ask for it
            set_cudnn_conv()
        for future in futures:
            future.result()
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
        assert torch.backends.cudnn.conv.fp32_precision == "ieee"
        assert_same(plain, of_job(step), "switched")
        step(*rows(0))
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
        service.close()
        """,
    )
    assert child.err.count("float32 precision (TF32) was changed while an iteration") <= 1
