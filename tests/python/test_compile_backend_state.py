"""The weights of code compiled with backend="laneway": what the user does to them is in the next
result, what the graph does to them is in the user's, and jobs end with them."""

import copy
import gc
import io
import threading
import weakref

import pytest
import torch
from torch import nn

from laneway.jobs.service import default_service
from support.children import check_script
from support.compiled import (
    compare,
    compiled,
    eager_reasons,
    own_service,  # noqa: F401
    running,
)


def small():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).eval()


X = torch.linspace(-1, 1, 12).reshape(3, 4)


def in_place(model):
    model[0].weight.add_(1)


def through_data(model):
    model[0].weight.data.mul_(2)


def other_data(model):
    model[3].weight.data = torch.randn(2, 8)


def replaced(model):
    model[3].weight = nn.Parameter(torch.randn(2, 8))


def swapped(model):
    """Two of the same layout."""
    model.append(copy.deepcopy(model[3]))
    other = model.pop(-1)
    other.weight.mul_(3)
    model[3] = other


def exchanged(model):
    """By torch's own way, which forbids weak references."""
    torch.utils.swap_tensors(model[3].weight, nn.Parameter(torch.full((2, 8), 3.0)))


def loaded(model):
    model.load_state_dict(small().state_dict())


def assigned(model):
    model.load_state_dict(small().state_dict(), assign=True)


def buffer(model):
    model[1].running_mean.add_(0.5)


def averaged(model):
    """As exponential moving averages are often written."""
    for mine, theirs in zip(model.parameters(), small().parameters()):
        mine.data.mul_(0.9).add_(theirs.data, alpha=0.1)


def of_numpy(model):
    model[0].bias.detach().numpy()[:] += 1


def stepped(fused):
    def step(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        model[0].weight.grad[:2] = -20  # not in the middle, where is looked
        optimizer.step()

    return step


CHANGES = {
    "in place": in_place,
    "through data": through_data,
    "other data": other_data,
    "replaced": replaced,
    "swapped": swapped,
    "loaded": loaded,
    "assigned": assigned,
    "exchanged": exchanged,
    "buffer": buffer,
    "averaged": averaged,
    "numpy": of_numpy,
    "step": stepped(False),
    "fused step": stepped(True),
}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_of_the_weights_is_in_the_next_result(change, mode):
    model = small()
    made = compiled(model)
    with torch.no_grad():
        assert torch.equal(made(X), model(X))
        before = made(X)
        change(model)
    with mode():
        expected = model(X)
        assert not torch.equal(before, expected), "the change must show"
        for _ in range(2):
            assert torch.equal(made(X), expected)
    assert running() and not eager_reasons()


def row_of_a_token(model):
    model[0].weight.data[-1] = 7.0


def pruned_row(model):
    model[1].weight.data[0] = 0.0


def clipped(model):
    model[1].weight.data.clamp_(-0.02, 0.02)


def masked(model):
    model[1].weight.data[model[1].weight.data.abs() > 0.01] = 0.0


def by_numpy(model):
    model[0].weight.numpy()[3] = 1.0


def one_element(model):
    model[1].bias.data[2] += 1.0


PARTS = [row_of_a_token, pruned_row, clipped, masked, by_numpy, one_element]


@pytest.mark.parametrize("width", [16, 4096])
def test_a_part_that_is_written_without_a_count_is_in_the_next_result(width):
    """Few bytes are compared before a call, many while the service computes."""
    model = nn.Sequential(nn.Embedding(40, width), nn.Linear(width, 8)).eval()
    run, tokens = compiled(model), torch.arange(40)
    with torch.no_grad():
        run(tokens)
        for write in PARTS:
            write(model)
            assert torch.equal(run(tokens), model(tokens)), write.__name__
            assert torch.equal(run(tokens), model(tokens)), write.__name__


def test_weights_made_in_inference_mode_are_given_anew():
    """Torch counts no changes of such tensors."""
    with torch.inference_mode():
        model = small()
        made = compiled(model)
        assert torch.equal(made(X), model(X))
        model[0].weight[0, 0] += 1
        assert torch.equal(made(X), model(X))
    assert running() and not eager_reasons()


def test_two_models_of_one_class_have_a_job_each():
    """Torch compiles their code once; calls of one must not upload what the other has."""
    models = [small() for _ in range(3)]
    made = [compiled(model) for model in models]
    with torch.no_grad():
        for _ in range(3):
            for one, model in zip(made, models):
                assert torch.equal(one(X), model(X))
    assert len(running()) == 3


def test_tied_weights_stay_tied_and_can_come_apart():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
            self.two.weight = self.one.weight

        def forward(self, x):
            return self.two(self.one(x))

    model = Tied().eval()
    made = compiled(model)
    with torch.no_grad():
        assert torch.equal(made(X), model(X))
        model.two.weight.add_(1)
        assert torch.equal(made(X), model(X))
        model.two.weight = nn.Parameter(torch.randn(4, 4))
        assert torch.equal(made(X), model(X))


def test_batch_norm_in_training_mode_updates_the_users_buffers():
    with torch.no_grad():
        compare(small().train(), [(X,), (X + 1,), (X[:2],)])
    assert not eager_reasons()


def test_a_buffer_that_counts_and_keeps():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.tensor(0))
            self.register_buffer("last", torch.zeros(3, 4))

        def forward(self, x):
            self.calls += 1
            before = self.last.clone()
            self.last.copy_(x)
            return x + before * self.calls

    with torch.no_grad():
        compare(Counting(), [(X,), (X + 1,), (X + 2,)])
    assert not eager_reasons()


def test_threads_may_call_at_once():
    model = small().train()  # so that each call writes
    made, found = compiled(model), []
    with torch.no_grad():
        made(X)

    def call():
        with torch.no_grad():
            for _ in range(20):
                found.append(made(X))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80 and all(torch.equal(y, found[0]) for y in found)
    assert model[1].num_batches_tracked == 81


def test_jobs_end_when_the_model_is_collected():
    model = small()
    made = compiled(model)
    with torch.no_grad():
        made(X)
    assert len(running()) == 1
    del made, model
    gc.collect()
    assert running() == []


def test_jobs_end_with_tensors_that_were_exchanged():
    model, other = small(), nn.Parameter(torch.ones(2, 8))
    made = compiled(model)
    with torch.no_grad():
        made(X)
        torch.utils.swap_tensors(model[3].weight, other)
        torch.utils.swap_tensors(model[3].weight, other)
        assert torch.equal(made(X), model(X))
    with pytest.raises(RuntimeError, match="weakref"):
        held = weakref.ref(other)
        torch.utils.swap_tensors(other, held())  # the user's own reference
    assert len(running()) == 1
    del made, model
    gc.collect()
    assert running() == []


def test_jobs_end_at_reset_and_come_again():
    model = small()
    made = compiled(model)
    with torch.no_grad():
        made(X)
        assert len(running()) == 1
        torch._dynamo.reset()
        assert running() == []
        assert torch.equal(made(X), model(X))
        assert len(running()) == 1


def test_a_service_that_was_closed_is_replaced():
    model = small()
    made = compiled(model)
    with torch.no_grad():
        made(X)
        default_service().close()
        assert torch.equal(made(X), model(X))
    assert len(running()) == 1


def test_a_compiled_model_can_be_saved_and_copied():
    """Dynamo's own promise; nothing of ours may stand in its way."""
    model = small()
    made = compiled(model)
    with torch.no_grad():
        expected = made(X)
        stream = io.BytesIO()
        torch.save(made.state_dict(), stream)
        other = copy.deepcopy(model)
        assert torch.equal(compiled(other)(X), expected)


def test_generation_with_a_cache_has_its_weights_in_the_pool_once():
    """Prompt and later tokens are graphs of their own for torch."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    ids = torch.randint(1, 64, (1, 5))
    settings = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(ids, **settings)
    model.forward = compiled(model.forward)
    assert torch.equal(model.generate(ids, **settings), expected)
    assert len(running()) == 1 and not eager_reasons()


SCRIPT = """
model, _, _ = make()
model.eval()
made = torch.compile(model, backend="laneway")
x, _ = batch()
with torch.no_grad():
    assert torch.equal(made(x), model(x))
"""


def test_a_child_made_by_fork_has_jobs_of_its_own():
    check_script(
        SCRIPT,
        """
        with torch.no_grad():
            for change in (0.0, 1.0):
                pid = os.fork()
                if pid == 0:
                    model[0].weight.add_(change)
                    os._exit(0 if torch.equal(made(x), model(x)) else 1)
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
                assert torch.equal(made(x), model(x))
        """,
    )


def test_a_script_ends_without_a_word():
    child = check_script(SCRIPT)
    assert child.out == "" and child.err == ""
