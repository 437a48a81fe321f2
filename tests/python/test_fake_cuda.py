"""Torch's own CUDA code runs on the fake CUDA: models are trained, streams and events order work,
graphs are captured and launched again, errors of the device come through. What is computed means
nothing there; that every call is answered, in its order and on live memory, is what is shown."""

import pytest

from support.fake_cuda import on_fake, try_on_fake

pytestmark = pytest.mark.embedded_only("needs no service")

GPT = """
    import torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self, width=64, heads=4):
            super().__init__()
            self.heads = heads
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                     nn.Linear(4 * width, width), nn.Dropout(0.1))

        def forward(self, x):
            rows, length, width = x.shape
            split = self.qkv(self.before(x)).view(rows, length, 3, self.heads, -1)
            q, k, v = split.permute(2, 0, 3, 1, 4)
            with torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.MATH]):
                mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
            return x + self.mlp(self.between(x))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.place = nn.Embedding(100, 64), nn.Embedding(16, 64)
            self.block, self.head = Block(), nn.Linear(64, 100)

        def forward(self, tokens):
            places = torch.arange(16, device=tokens.device)
            return self.head(self.block(self.token(tokens) + self.place(places)))
"""


def test_torch_takes_the_fake_for_a_gpu():
    on_fake("""
        assert torch.cuda.is_available() and torch.cuda.device_count() == 1
        assert torch.cuda.get_device_capability() == (9, 0)
        assert torch.cuda.get_device_properties(0).multi_processor_count == 132
        there = torch.arange(10).cuda()
        assert there.cpu().tolist() == list(range(10))  # copies are real
        assert torch.zeros(3, device="cuda").data_ptr() % 512 == 0
        assert not complaints(), complaints()
    """)


def test_without_a_device_torch_has_none():
    child = on_fake(
        "assert not torch.cuda.is_available()", environment={"FAKE_CUDA_FORBID": "device"}
    )
    assert child.err == ""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_mlp_trains(dtype):
    on_fake(f"""
        model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
        model = model.cuda().to(torch.{dtype})
        for optimizer in (torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
                          torch.optim.Adam(model.parameters(), foreach=True),
                          torch.optim.AdamW(model.parameters(), fused=True)):
            inputs = torch.randn(16, 8, device="cuda", dtype=torch.{dtype})
            targets = torch.randint(0, 4, (16,)).cuda()
            for _ in range(2):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(inputs), targets).backward()
                optimizer.step()
        torch.cuda.synchronize()
        assert count("kernel:cublas") >= 6 * 4 and count("kernel:") > 100
        assert count("cublas without workspace") == 0
        assert not complaints(), complaints()
    """)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_gpt_trains(dtype):
    on_fake(
        GPT,
        f"""
        model = Gpt().cuda().to(torch.{dtype})
        optimizer = torch.optim.AdamW(model.parameters())
        tokens = torch.randint(0, 100, (2, 16)).cuda()
        for _ in range(2):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(tokens).view(-1, 100).float(), tokens.view(-1))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        loss.item()
        for name in ("layer_norm", "embedding", "softmax", "cublas", "multi_tensor_apply"):
            assert count(f"kernel:{{name}}") > 0, name
        assert not complaints(), complaints()
        """,
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_convolutions_and_batch_normalization_train(dtype):
    on_fake(f"""
        model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                              nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.AdaptiveAvgPool2d(1),
                              nn.Flatten(), nn.Linear(8, 4)).cuda().to(torch.{dtype})
        images = torch.randn(2, 3, 16, 16, device="cuda", dtype=torch.{dtype})
        model(images).sum().backward()
        torch.cuda.synchronize()
        assert count("kernel:cudnn plan") == 2 + 3  # the images need no gradient
        assert not complaints(), complaints()
    """)


def test_recurrent_layers_train():
    on_fake("""
        for kind in (nn.LSTM, nn.GRU, nn.RNN):
            for options in ({"dropout": 0.1}, {"bidirectional": True}):
                layers = kind(8, 16, num_layers=2, **options).cuda()
                layers(torch.randn(5, 2, 8, device="cuda"))[0].sum().backward()
                torch.cuda.synchronize()
                assert all(p.grad.shape == p.shape for p in layers.parameters())
        assert count("kernel:cudnnRNNForward") == 6
        assert count("kernel:cudnnRNNBackwardWeights") == 6
        assert not complaints(), complaints()
    """)


def test_a_graph_is_captured_and_its_kernels_run_again_at_each_launch():
    on_fake(
        GPT,
        """
        block, graph, stream = Block().cuda(), torch.cuda.CUDAGraph(), torch.cuda.Stream()
        inputs = torch.randn(2, 16, 64, device="cuda")
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            block(inputs).sum().backward()
        torch.cuda.current_stream().wait_stream(stream)
        fake.fake_cuda_note(1)

        def kernels_run():
            text = ctypes.create_string_buffer(1 << 24)
            fake.fake_cuda_notes(text, len(text))
            lines = text.value.decode().splitlines()
            return sum("run kernel" in line and "layer_norm" in line for line in lines)

        kernels_run()
        with torch.cuda.graph(graph):
            output = block(inputs)
            noise = torch.randn(10, device="cuda")
        assert kernels_run() == 0
        for _ in range(2):
            graph.replay()
            torch.cuda.synchronize()
            assert kernels_run() == 2
        assert live("executables") == 1
        del graph
        torch.cuda.synchronize()
        assert live("executables") == 0 and live("graphs") == 0
        assert not complaints(), complaints()
        """,
    )


def test_work_runs_behind_and_events_tell():
    on_fake("""
        stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
        there = torch.zeros(1000, device="cuda")
        torch.cuda.synchronize()
        assert fake.fake_cuda_hold_stream(stream.cuda_stream)
        sent = torch.arange(1000, dtype=torch.float32).pin_memory()
        with torch.cuda.stream(stream):
            there.copy_(sent, non_blocking=True)
            event.record()
        assert not event.query() and not stream.query() and fake.fake_cuda_pending() == 2
        assert there.sum().item() is not None  # another stream goes on
        sent += 1  # too early: what is sent is read when its turn comes
        fake.fake_cuda_release_stream(stream.cuda_stream)
        event.synchronize()
        assert torch.equal(there.cpu(), torch.arange(1, 1001, dtype=torch.float32))
        assert not complaints(), complaints()
    """)


def test_a_device_assert_answers_everything_from_then_on():
    on_fake("""
        table = nn.Embedding(10, 4, device="cuda")
        wrong = torch.tensor([11]).cuda()
        fake.fake_cuda_fail_kernel(b"index", 710)
        fake.fake_cuda_hold()
        table(wrong)
        fake.fake_cuda_release()
        for call in (torch.cuda.synchronize, lambda: torch.zeros(1, device="cuda").cpu()):
            try:
                call()
            except RuntimeError as error:
                assert "device-side assert" in str(error), error
            else:
                raise AssertionError("nothing was said")
    """)


def test_a_cpu_that_touches_device_memory_crashes():
    child = try_on_fake("""
        there = torch.zeros(4, device="cuda")
        torch.cuda.synchronize()
        ctypes.string_at(there.data_ptr(), 4)
    """)
    assert child.code == -11, child


def test_generators_draw_and_keep_their_state():
    on_fake("""
        generator = torch.Generator(device="cuda").manual_seed(4)
        before = generator.get_state()
        torch.randn(3, generator=generator, device="cuda")
        assert not torch.equal(before, generator.get_state())
        generator.set_state(before)
        torch.cuda.manual_seed(3)
        torch.randn(3, device="cuda")
        assert not complaints(), complaints()
    """)
