"""What a process does with CUDA beside an embedded service on the fake device: torch.compile's CUDA
graphs, graphs of the user's own captured while jobs are recorded, and jobs that come and go."""

import pytest

from support.fake_cuda import on_fake

pytestmark = pytest.mark.embedded_only("opens services of its own")


def test_torchs_trees_of_cuda_graphs_go_on_beside_a_service():
    """Where a branch follows a graph that was replayed, torch looks at the deleters of what lives
    in its pool; beside a service it used to find another than its allocator's."""
    on_fake("""
        def branches():
            torch._dynamo.reset()
            options = {"backend": "cudagraphs", "dynamic": False}
            first = torch.compile(lambda x: torch.relu(x @ x) + 1, **options)
            second = torch.compile(lambda x: torch.tanh(x @ x) - 1, **options)
            inputs = torch.ones(64, 64, device="cuda")
            for number in range(8):
                torch.compiler.cudagraph_mark_step_begin()
                kept = first(inputs)
                if number > 3:
                    second(kept.clone())
                    last = second(inputs)
            return count("cudaGraphLaunch")

        alone = branches()
        assert alone > 8
        with laneway.embedded(device="cuda:0", pool="64MiB"):
            assert branches() == 2 * alone
        assert not complaints(), complaints()
    """)


def test_graphs_of_the_users_are_captured_while_jobs_are_recorded():
    on_fake("""
        from support.fake_training import Trial

        x, stream = torch.ones(100, device="cuda"), torch.cuda.Stream()
        torch.cuda.synchronize()
        with laneway.embedded(device="cuda:0", pool="64MiB") as service:
            trained, done = [], threading.Event()
            def train():
                try:
                    for kind in ("mlp", "cnn", "lstm"):
                        trained.append(Trial(service, kind, replay="on").train(8))
                finally:
                    done.set()
            thread = threading.Thread(target=train)
            thread.start()
            captured = 0
            while not done.is_set() or captured < 3:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.stream(stream):
                    graph.capture_begin()
                    y = x * 2 + 1
                    graph.capture_end()
                graph.replay()
                captured += 1
            thread.join()
            assert [trial.iterations for trial in trained] == [8, 8, 8]
            for trial in trained:
                trial.check()
            assert count("cudaGraphLaunch") > captured, "nothing of ours was replayed"
        torch.cuda.synchronize()
        assert not complaints(), complaints()
    """)


def test_jobs_that_come_and_go_take_no_more_of_the_device():
    """Beside the pool, after the last of one round of all kinds and after four."""
    on_fake("""
        from support.fake_training import KINDS, Trial

        used = []
        with laneway.embedded(device="cuda:0", pool="64MiB") as service:
            for _ in range(4):
                for kind in KINDS:
                    trial = Trial(service, kind, replay="on").train(6)
                    trial.step.close()
                used.append(fake.fake_cuda_used())
        assert used == [used[0]] * 4, used
        torch.cuda.empty_cache()
        assert fake.fake_cuda_used() == 0
        assert not complaints(), complaints()
    """)
