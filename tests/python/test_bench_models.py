"""The ten workloads of the benches: sizes as published, deterministic, trainable in each form."""

import pytest
import torch

from bench.models import FIVE, FORMS, NAMES, make

# Parameter counts worked out from the layer sizes, or published for the 1,000-class networks less
# what the classifier of 10 classes saves.
PARAMETERS = {
    "mlp": 64 * 128 + 128 + 128 * 10 + 10,
    "cnn": (9 * 16 + 16) + 2 * 16 + (9 * 16 * 32 + 32) + 2 * 32 + (32 * 49 * 10 + 10),
    "lstm": 4 * 128 * (64 + 128 + 2) + 128 * 10 + 10,
    "resnet18": 11_689_512 - 990 * 513,
    "vgg11": 132_863_336 - 990 * 4097,
    "densenet121": 7_978_856 - 990 * 1025,
    "mobilenet_v3_small": 2_542_856 - 990 * 1025,
}
SHAPES = {
    "mlp": [(64, 64), (64,)],
    "cnn": [(64, 1, 28, 28), (64,)],
    "gpt": [(8, 64), (8, 64)],
    "gpt6": [(4, 128), (4, 128)],
    "lstm": [(16, 32, 64), (16,)],
    "bert": [(4, 128), (4, 128), (4,)],
}


def test_there_are_ten_and_the_five_are_among_them():
    assert len(NAMES) == 10 and set(FIVE) < set(NAMES) and len(FIVE) == 5


@pytest.mark.parametrize("name", NAMES)
def test_sizes(name):
    work = make(name)
    found = sum(parameter.numel() for parameter in work.model.parameters())
    if name in PARAMETERS:
        assert found == PARAMETERS[name]
    expected = SHAPES.get(name, [(4, 3, 64, 64), (4,)])
    assert [tuple(tensor.shape) for tensor in work.batch(0)] == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_fixes_weights_and_batches_and_leaves_torchs_generator_alone(name):
    before = torch.get_rng_state()
    first, second = make(name, seed=7), make(name, seed=7)
    assert torch.equal(torch.get_rng_state(), before)
    for a, b in zip(
        first.model.state_dict().values(), second.model.state_dict().values(), strict=False
    ):
        assert torch.equal(a, b)
    torch.randn(3)  # batches do not depend on what else is drawn
    for a, b in zip(first.batch(5), second.batch(5), strict=False):
        assert torch.equal(a, b) and a.data_ptr() != b.data_ptr()
    assert any(not torch.equal(a, b) for a, b in zip(first.batch(5), first.batch(6), strict=False))
    assert any(
        not torch.equal(a, b) for a, b in zip(first.batch(5), make(name, 8).batch(5), strict=False)
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["mlp", "cnn", "gpt", "lstm", "bert"])
def test_a_step_changes_every_parameter_and_buffer(name, form):
    work = make(name, form=form)
    before = {key: value.clone() for key, value in work.model.state_dict().items()}
    *inputs, target = work.batch(0)
    loss = work.loss_fn(work.model(*inputs), target)
    loss.backward()
    work.optimizer.step()
    assert torch.isfinite(loss)
    # A bias before batch-norm has no gradient but rounding: it may or may not move.
    before_norm = {"0.bias", "4.bias"} if name == "cnn" else set()
    for key, value in work.model.state_dict().items():
        if key in before_norm:
            continue
        assert not torch.equal(value, before[key]), key


def test_unknown_names_and_forms_are_refused_with_what_there_is():
    with pytest.raises(ValueError, match="mobilenet_v3_small"):
        make("lenet")
    with pytest.raises(ValueError, match="foreach"):
        make("mlp", form="compiled")
