"""What an iteration that is planned asks of the device, besides its kernels, counted on the fake
CUDA: its inputs go there and its loss comes back, the counters that the CPU keeps are written into
the state, and no call waits for a stream: the loss's own event is waited for, and now and then one
that bounds how far the CPU runs ahead. Any further copy to the CPU or wait would hold up the CPU in
every iteration, and hides easily in an operator."""

import pytest

from support.fake_cuda import on_fake

pytestmark = pytest.mark.embedded_only("opens services of its own")

COUNTING = """
import re
from torch.utils.checkpoint import checkpoint
from support import scaled_training
from support.fake_training import KINDS, batch_of, model_of

WAITS = ("cuStreamSynchronize", "cudaStreamSynchronize", "cuCtxSynchronize",
         "cudaDeviceSynchronize")

def asked(step, batch):
    '''Of one iteration behind those that teach the service its plan: copies to the device, back,
    and waits for a stream.'''
    for _ in range(4):
        step(*batch)
    torch.cuda.synchronize()
    fake.fake_cuda_note(1)
    take_notes()
    step(*batch)
    lines = take_notes()
    fake.fake_cuda_note(0)
    copies = [line for line in lines if line.startswith("run ") and "emcpy" in line]
    up = [line for line in copies if re.search("(pinned|pageable) to device", line)]
    back = [line for line in copies if re.search("device to (pinned|pageable)", line)]
    assert len(up) + len(back) == len([c for c in copies if "device to device" not in c]), copies
    waits = [line for line in lines if line.startswith("call ") and line.split()[1] in WAITS]
    return len(up), len(back), len(waits)

def take_notes():
    text = ctypes.create_string_buffer(1 << 24)
    fake.fake_cuda_notes(text, len(text))
    return text.value.decode().splitlines()

def plain(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss

def clipped(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss

def trained(service, make, closure=plain, kind="mlp", model=None):
    model = model_of(kind) if model is None else model
    step = laneway.train_step(model, None, make(model.parameters()), service, closure=closure,
                              replay="off")
    return asked(step, batch_of(kind))
"""

SERVICE = 'with laneway.embedded(device="cuda:0", pool="64MiB") as service:'


def test_the_count_would_show_a_wait():
    """Of a step that reads its loss, and of one whose optimizer keeps nothing on the CPU."""
    on_fake(
        COUNTING,
        f"""
        def reads(model, optimizer, x, y):
            loss = plain(model, optimizer, x, y)
            return loss, loss.item()

        sgd = lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)
        {SERVICE}
            assert trained(service, sgd) == (2, 1, 0)
            up, back, waits = trained(service, sgd, reads)
            assert (up, back) == (2, 2) and waits > 0, (up, back, waits)
        """,
    )


@pytest.mark.parametrize("options", ["", "foreach=False", "fused=True", "capturable=True"])
def test_an_adam_waits_for_its_loss_alone(options):
    counted = options in ("fused=True", "capturable=True")
    on_fake(
        COUNTING,
        f"""
        {SERVICE}
            for make in (torch.optim.Adam, torch.optim.AdamW):
                for closure in (plain, clipped):
                    found = trained(service, lambda p: make(p, {options}), closure)
                    assert found == ({2 if counted else 3}, 1, 0), (make, closure, found)
        """,
    )


def test_models_of_all_kinds_wait_for_their_loss_alone():
    on_fake(
        COUNTING,
        f"""
        {SERVICE}
            for kind in KINDS:
                found = trained(service, torch.optim.Adam, kind=kind)
                assert found == (3, 1, 0), (kind, found)
        """,
    )


def test_a_scaled_step_waits_for_its_loss_alone():
    on_fake(
        COUNTING,
        f"""
        model = scaled_training.make_model()
        optimizer = scaled_training.OPTIMIZERS["adam"](model)
        closure = scaled_training.clipped(scaled_training.make_scaler())
        {SERVICE}
            step = laneway.train_step(model, None, optimizer, service, closure=closure,
                                      replay="off")
            found = asked(step, scaled_training.batches(1)[0])
            assert found == (3, 2, 0), found  # three inputs, loss and norm
        """,
    )


def test_a_checkpointed_layer_draws_again_without_a_wait():
    on_fake(
        COUNTING,
        f"""
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = nn.Sequential(nn.Linear(64, 32), nn.Dropout(0.3))
                self.second = nn.Linear(32, 3)
            def forward(self, x):
                return self.second(checkpoint(self.first, x, use_reentrant=False))

        {SERVICE}
            found = trained(service, lambda p: torch.optim.SGD(p, lr=0.1), model=Model())
            assert found == (2, 1, 0), found
            assert count("kernel:bernoulli") == 2 * 5, "drawn in the forward pass, and again"
        assert not complaints(), complaints()
        """,
    )


def test_a_replayed_iteration_is_one_launch():
    on_fake(
        COUNTING,
        f"""
        {SERVICE}
            for options in ({{"capturable": True}}, {{"fused": True}}):
                model = model_of("mlp")
                optimizer = torch.optim.Adam(model.parameters(), **options)
                step = laneway.train_step(model, nn.CrossEntropyLoss(), optimizer, service,
                                          replay="on")
                for _ in range(6):
                    step(*batch_of("mlp"))
                launched, kernels = count("cudaGraphLaunch"), count("cudaLaunchKernel")
                assert launched > 0, options
                # The inputs; the loss. Where draws begin is told in calls, not copied.
                assert asked(step, batch_of("mlp")) == (2, 1, 0), options
                assert count("cudaGraphLaunch") == launched + 5, options
                assert count("cudaLaunchKernel") == kernels, options
                optimizer.param_groups[0]["lr"] = 0.5  # which the kernels were recorded with
                step(*batch_of("mlp"))
                assert count("cudaGraphLaunch") == launched + 5, options
                assert count("cudaLaunchKernel") > kernels, options
        """,
    )
