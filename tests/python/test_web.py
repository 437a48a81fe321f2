"""`laneway web`: who is let in, what a page is told, what it may do, and what happens when the
service goes and comes back. Against a real lanewayd where the service matters."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import laneway
from support.cli import run
from support.daemon import Lanewayd, wait_until
from support.small_step import small_step
from support.web import Answer, Stream, Web, read_all

ROOT = Path(__file__).resolve().parents[2]
NAMES = ['a "quoted"', "<img src=x onerror=alert(1)>", "two\nlines", "n" * 255]


@pytest.fixture(scope="module")
def daemon():
    with Lanewayd() as running:
        yield running


@pytest.fixture(scope="module")
def web(daemon):
    with Web(daemon.address) as running:
        wait_until(lambda: running.get("/api/status").code == 200, "the first status")
        yield running


def test_the_ready_line_is_one_address_that_opens_the_page(web):
    assert web.url == f"http://{web.host}/?token={web.token}"
    answer = web.get(f"/?token={web.token}", authorization=None)
    assert answer.code == 200 and b"<!doctype html>" in answer.body
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    again = web.get("/api/status", authorization=None, cookie=cookie.partition(";")[0])
    assert again.code == 200 and "set-cookie" not in again.headers
    assert again.headers["content-security-policy"].startswith("default-src 'self';")


@pytest.mark.parametrize("path", ["/", "/metrics", "/api/status", "/api/events", "/static/app.js"])
@pytest.mark.parametrize(
    "token", [None, "Bearer old-token-of-another-run", "Basic x", "Bearer \xe9"]
)
def test_without_the_token_nothing_is_told(web, path, token):
    answer = web.get(path, authorization=token)
    assert answer.code == 401 and "laneway web" in answer.error
    assert "content-security-policy" in answer.headers


def test_health_needs_no_token(web):
    assert web.get("/healthz", authorization=None).json() == {"web": "ready", "service": "ready"}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "", None])
def test_another_host_is_refused(web, host):
    """A name of somebody else's that leads here (DNS rebinding)."""
    assert web.get("/api/status", host=host).code in (400, 421)
    assert web.get("/healthz", host=host).code in (400, 421)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", None])
def test_a_post_of_another_page_is_refused(web, origin):
    answer = web.post("/api/policy", {"policy": "srtf"}, origin=origin)
    assert answer.code == 403 and web.host in answer.error
    assert web.get("/api/status").json()["service"]["policy"] == "fifo"


def test_the_status_is_that_of_the_command_line(web, daemon):
    told = json.loads(run("status", "--json", address=daemon.address).stdout)
    shown = web.get("/api/status").json()
    assert shown.keys() == told.keys() and shown["pool"] == told["pool"]


@pytest.mark.parametrize("name", NAMES)
def test_a_job_of_any_name_is_told_and_ended(web, daemon, name):
    with daemon.connect() as service, Stream(web) as page:
        step = small_step(service, name)
        rows = page.until("change", lambda c: any(j["name"] == name for j in c["jobs"]))["jobs"]
        (job,) = (row for row in rows if row["name"] == name)
        page.until("happened", lambda all: any(name in e["text"] for e in all))
        metrics = web.get("/metrics").body.decode()
        escaped = name.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        assert f'job="{escaped}"' in metrics
        assert web.post("/api/set", {"job": job["id"], "weight": 2}).json() == {"done": "set"}
        assert web.post("/api/kill", {"job": job["id"]}).json() == {"done": "kill"}
        with pytest.raises(laneway.Error):
            step(torch.randn(4, 8), torch.randint(0, 3, (4,)))


def test_images_move_and_policy_and_pool_change(web, daemon):
    with daemon.connect() as service:
        step = small_step(service, "mover")
        for verb in ("pin", "unpin", "unload", "load"):
            assert web.post(f"/api/{verb}", {"job": "mover"}).json() == {"done": verb}
        assert web.post("/api/policy", {"policy": "srtf"}).code == 200
        assert web.post("/api/pool", {"size": "128MiB"}).json()["pool_bytes"] == 128 << 20
        status = service.status()
        assert status["service"]["policy"] == "srtf"
        assert web.post("/api/policy", {"policy": "fifo"}).code == 200
        assert web.post("/api/pool", {"size": "256MiB"}).code == 200
        step.close()


@pytest.mark.parametrize(
    ("verb", "body", "words"),
    [
        ("kill", {"job": 999}, "999"),
        ("policy", {"policy": "nonsense"}, "nonsense"),
        ("pool", {"size": "1TiB"}, "TiB"),
    ],
)
def test_a_refusal_is_409_with_the_sentence_of_the_service(web, verb, body, words):
    answer = web.post(f"/api/{verb}", body)
    assert answer.code == 409 and words in answer.error


@pytest.mark.parametrize(
    ("verb", "body", "code"),
    [
        ("kill", b"{", 400),
        ("kill", b"[" * 60_000, 400),
        ("kill", {"job": True}, 400),
        ("kill", {"job": 1, "more": 2}, 400),
        ("set", {"job": 1, "weight": -1}, 400),
        ("set", {"job": 1}, 400),
        ("set", {"job": 1, "weight": 10**400}, 400),
        ("set", {"job": 1, "job_class": []}, 400),
        ("pool", {"size": "much"}, 400),
        ("pool", {"size": "9" * 400}, 400),
        ("dance", {"job": 1}, 404),
    ],
)
def test_a_wrong_request_is_refused_before_the_service_is_asked(web, verb, body, code):
    answer = web.post(f"/api/{verb}", body)
    assert answer.code == code and answer.error


def test_a_long_body_is_refused_by_its_length_before_it_is_sent(web):
    with web.connect() as opened:
        opened.sendall(web.head("POST", "/api/kill", content_length=str(1 << 40)))
        assert Answer(read_all(opened)).code == 413


def test_an_endless_body_is_cut_off(web):
    with web.connect() as opened:
        opened.sendall(web.head("POST", "/api/kill", transfer_encoding="chunked"))
        chunk = b"1000\r\n" + b" " * 4096 + b"\r\n"
        sent = 0
        try:
            while sent < 1 << 30:
                opened.sendall(chunk)
                sent += len(chunk)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert sent < 1 << 30


def test_half_a_request_is_cut_off_and_keeps_nobody_waiting(daemon):
    with Web(daemon.address, limits={"HEAD_S": 1.0, "BODY_S": 1.0}) as web:
        halves = [b"", b"GET / HT", web.head("GET", "/")[:-2]]
        for half in halves:
            with web.connect() as opened:
                opened.sendall(half)
                assert web.get("/healthz").code == 200
                assert read_all(opened) == b""
        with web.connect() as opened:  # kept alive, then half of a second one
            opened.sendall(web.head("GET", "/healthz") + b"GET / HT")
            assert b"200 OK" in read_all(opened)
        with web.connect() as opened:
            opened.sendall(web.head("POST", "/api/kill", content_length="10") + b"{")
            assert Answer(read_all(opened)).code == 408


def test_a_head_without_end_is_cut_off(web):
    with web.connect() as opened:
        opened.sendall(b"GET / HTTP/1.1\r\n")
        sent = 0
        try:
            while sent < 1 << 30:
                opened.sendall(b"x: " + b"y" * 4096 + b"\r\n")
                sent += 4096
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert sent < 1 << 30


def test_of_200_pages_a_bounded_number_is_served_and_all_else_goes_on(daemon):
    with Web(daemon.address) as web:
        pages = [Stream(web) for _ in range(200)]
        codes = [page.code for page in pages]
        assert codes.count(200) == 64 and codes.count(503) == 136
        assert "laneway_web_streams 64" in web.get("/metrics").body.decode()
        for page in pages:
            page.__exit__()
        wait_until(lambda: b"laneway_web_streams 0" in web.get("/metrics").body, "their end")
        with Stream(web) as page:
            assert page.code == 200


def test_a_broker_dies_under_an_open_page():
    """The page goes on, in the same stream, with the same job; the training loses nothing."""
    with Lanewayd() as daemon, daemon.connect() as service, Web(daemon.address) as web:
        step = small_step(service, "lasting")
        with Stream(web) as page:
            done = 0
            while done != 1:
                done = iterations_of(page, done)
            daemon.kill(daemon.broker())
            for _ in range(3):
                step(torch.randn(4, 8), torch.randint(0, 3, (4,)))
            while done != 4:
                done = iterations_of(page, done)


def iterations_of(page, known):
    """Of the only job, after the next of these events."""
    _, data = page.next("change", "status")
    return data["jobs"][0]["iterations"] if data["jobs"] else known


def test_the_service_goes_and_comes_back_on_the_same_address():
    with Lanewayd() as daemon, Web(daemon.address) as web, Stream(web) as page:
        page.next("status")
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.wait(120)
        why = page.until("away", lambda a: True)["why"]
        assert daemon.address.removeprefix("ipc://") in why or "service" in why
        answer = web.get("/api/status")
        assert answer.code == 503 and answer.error
        assert web.get("/healthz").json()["service"] == "away"
        assert "laneway_up 0" in web.get("/metrics").body.decode()
        assert web.post("/api/kill", {"job": 1}).code == 503
        daemon.process.stdout.close()
        daemon.start()
        page.next("status")
        page.until("happened", lambda all: any("answers again" in e["text"] for e in all))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_0_also_while_pages_are_open(number):
    with Web() as web, Stream(web) as page:
        page.next("away")
        assert web.end(number) == 0
        assert web.process.stderr.read() == ""


def test_a_unix_socket_is_the_users_alone_and_gone_at_the_end(daemon, tmp_path):
    path = tmp_path / "web.sock"
    socket.socket(socket.AF_UNIX).bind(str(path))  # of a program that has died
    with Web(daemon.address, listen=f"unix:{path}") as web:
        assert path.stat().st_mode & 0o777 == 0o600
        assert web.get("/healthz", host="localhost").code == 200
        assert web.get("/healthz", host="evil.example").code == 421
        again = run("web", "--listen", f"unix:{path}", address=daemon.address)
        assert again.returncode == 4 and "cannot listen on" in again.stderr
    assert not path.exists()


def token_file(folder, text, mode=0o600):
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_a_token_file_is_used_and_lets_it_listen_for_others(daemon, tmp_path):
    words = ("--token-file", token_file(tmp_path, "t" * 32 + "\n"))
    with Web(daemon.address, *words, listen="0.0.0.0:0") as web:
        port = web.host.rpartition(":")[2]
        assert web.token == "t" * 32
        for host in (f"127.0.0.1:{port}", f"192.0.2.7:{port}", f"{socket.gethostname()}:{port}"):
            assert web.get("/healthz", host=host).code == 200
        assert web.get("/healthz", host=f"evil.example:{port}").code == 421


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--listen", "0.0.0.0:0"), "--token-file"),
        (("--listen", "nowhere"), "HOST:PORT"),
        (("--listen", "127.0.0.1:99999"), "HOST:PORT"),
        (("--listen", "unix:"), "unix:PATH"),
        (("--token-file", "/nonexistent"), "/nonexistent"),
    ],
)
def test_wrong_usage_is_2_and_says_what_to_do(words, says):
    done = run("web", *words)
    assert done.returncode == 2 and says in done.stderr


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [("t" * 32, 0o640, "chmod 600"), ("short", 0o600, "16"), ("with space" * 4, 0o600, "16")],
)
def test_a_token_file_that_is_none_is_refused(tmp_path, text, mode, says):
    done = run("web", "--token-file", token_file(tmp_path, text, mode))
    assert done.returncode == 2 and says in done.stderr


def test_a_place_that_is_taken_is_refused(web):
    done = run("web", "--listen", web.host)
    assert done.returncode == 4 and web.host in done.stderr


def fresh(code):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done


@pytest.mark.parametrize("library", ["starlette", "uvicorn", "httptools", "prometheus_client"])
def test_without_its_libraries_it_says_how_to_get_them(library):
    code = f"import sys; sys.modules[{library!r}] = None; from laneway.cli import main"
    done = fresh(f"{code}; sys.exit(main(['web']))")
    assert done.returncode == 1 and "pip install 'laneway[web]'" in done.stderr


def test_other_commands_do_not_load_its_libraries(daemon):
    loaded = (
        "[m for m in ('starlette', 'uvicorn', 'prometheus_client', 'torch') if m in sys.modules]"
    )
    code = "import sys, laneway; from laneway.cli import main; main(['status', '--address', "
    done = fresh(f"{code}{daemon.address!r}]); print({loaded})")
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
