"""The metrics of `laneway web`: names and figures are those of the status, promtool finds nothing
wrong with them, and what lies in docs/monitoring works on them."""

import json
import re
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from bench import web_stand_in
from laneway.web.changes import difference, happened
from laneway.web.metrics import Collector
from laneway.web.streams import Streams
from laneway.web.watch import Watch
from support.judges import needs_promtool, promtool

MONITORING = Path(__file__).resolve().parents[2] / "docs" / "monitoring"


def exposition(status):
    watch = Watch(lambda: status)
    watch.look()
    collector = Collector(Streams(watch.seen))
    collector.look = watch.seen()
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry)


def samples(text):
    families = text_string_to_metric_families(text.decode())
    return [sample for family in families for sample in family.samples]


def test_the_pool_adds_up_and_jobs_are_counted():
    found = samples(exposition(web_stand_in.status(60)))
    pool = sum(s.value for s in found if s.name == "laneway_pool_bytes")
    assert pool == web_stand_in.CAPACITY
    assert sum(s.value for s in found if s.name == "laneway_jobs") == 60


def test_what_is_unknown_has_no_sample():
    status = web_stand_in.status(1)
    status["jobs"][0] |= {"ephemeral_bytes": None, "total_iterations": None, "waiting_s": None}
    names = {s.name for s in samples(exposition(status))}
    assert "laneway_job_iterations_total" in names
    unknown = {"ephemeral_bytes", "progress_ratio", "waiting_seconds"}
    assert not names & {f"laneway_job_{name}" for name in unknown}


def test_what_the_service_counts_is_there_and_what_it_does_not_is_not():
    status = web_stand_in.status(1)
    assert "laneway_turns_total" not in {s.name for s in samples(exposition(status))}
    tiers = {"store": 3, "spill": 0}
    status["counters"] = {
        "turns": 17,
        "evictions": tiers,
        "returns": tiers,
        "moved_bytes": {"out": 64, "in": 128, "inside": 0},
        "refusals": {"larger_than_pool": 2},
        "deaths": {"active": 1, "standby": 0, "policy": 0, "broker": 0},
        "lost_records": None,
    }
    text = exposition(status)
    found = {(s.name, *s.labels.values()): s.value for s in samples(text)}
    assert found["laneway_turns_total",] == 17
    assert found["laneway_evictions_total", "store"] == 3
    assert found["laneway_moved_bytes_total", "in"] == 128
    assert found["laneway_refusals_total", "larger_than_pool"] == 2
    assert found["laneway_process_deaths_total", "active"] == 1
    assert ("laneway_trace_lost_records_total",) not in found
    status["counters"]["lost_records"] = 5
    assert b"laneway_trace_lost_records_total 5" in exposition(status)


def test_a_job_of_any_name_keeps_it():
    status = web_stand_in.status(4)
    names = ['a "b"', "c\nd", "\\n", "<b>&" + "n" * 250]
    for job, name in zip(status["jobs"], names):
        job["name"] = name
    found = samples(exposition(status))
    assert [s.labels["job"] for s in found if s.name == "laneway_job_weight"] == names


@needs_promtool
def test_promtool_finds_nothing_wrong_with_the_metrics():
    done = promtool("check", "metrics", given=exposition(web_stand_in.status(20)))
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


@needs_promtool
def test_promtool_runs_the_alerts_over_made_series():
    done = promtool("test", "rules", str(MONITORING / "alerts_test.yml"))
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


@needs_promtool
def test_promtool_takes_the_configuration():
    config = str(MONITORING / "prometheus.yml")
    done = promtool("check", "config", "--syntax-only", config)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def test_the_dashboard_and_the_alerts_use_names_that_are_there():
    known = {s.name for s in samples(exposition(web_stand_in.status(20)))}
    for name in ("dashboard.json", "alerts.yml"):
        text = (MONITORING / name).read_text()
        used = set(re.findall(r"\blaneway_(?!inference_)\w+", text))  # those are serve's
        assert len(used) > 3 and used <= known
    json.loads((MONITORING / "dashboard.json").read_text())


def test_what_happened_is_told_from_two_statuses():
    before, after = web_stand_in.status(20), web_stand_in.status(20)
    after["service"]["policy"] = "srtf"
    after["workers"] = [{**before["workers"][1], "role": "active"}]
    after["jobs"][1]["state"] = "away"
    after["jobs"][2]["state"] = "quarantined"
    assert before["jobs"][4]["state"] == "away"
    after["jobs"][4]["state"] = "restoring"
    kinds = [event["kind"] for event in happened(before, after)]
    assert kinds == ["policy", "died", "worker", "evicted", "quarantined", "returned"]
    assert happened(before, before) == []


def test_another_service_is_one_event_and_its_processes_and_jobs_are_none():
    before, after = web_stand_in.status(20), web_stand_in.status(20)
    after["service"]["pid"] = before["service"]["pid"] + 1
    after["workers"] = [{**worker, "pid": worker["pid"] + 1} for worker in before["workers"]]
    after["jobs"] = after["jobs"][:3]
    assert [event["kind"] for event in happened(before, after)] == ["service"]


def test_a_service_counts_its_time_anew_only_when_it_was_known_before():
    before, after = web_stand_in.status(20), web_stand_in.status(20)
    before["service"]["uptime_s"] = None
    assert happened(before, after) == []
    before["service"]["uptime_s"] = after["service"]["uptime_s"] + 1
    assert [event["kind"] for event in happened(before, after)] == ["service"]


def test_a_row_whose_clock_goes_on_is_not_sent_again():
    before, after = web_stand_in.status(20, tick=1), web_stand_in.status(20, tick=2)
    changed = {row["id"] for row in difference(before, after)["jobs"]}
    assert changed == {1, 2}  # those that compute
    after["jobs"][9]["waiting_s"] = None
    del after["jobs"][0]
    told = difference(before, after)
    assert {row["id"] for row in told["jobs"]} == {2, 10} and told["gone"] == [1]


def test_after_a_clock_was_set_back_old_events_go_and_none_is_negative():
    now = [1000.0]
    states = [web_stand_in.status(4), web_stand_in.status(4), web_stand_in.status(4)]
    states[1]["service"]["policy"] = "las"
    watch = Watch(lambda: states.pop(0), clock=lambda: now[0])
    watch.look()
    watch.look()
    assert [event["kind"] for event in watch.seen().events] == ["policy"]
    now[0] = 10.0
    watch.look()
    assert [event["at"] for event in watch.seen().events] == [10.0]
    assert json.loads(watch.seen().minute)["window_s"] == 0.0
