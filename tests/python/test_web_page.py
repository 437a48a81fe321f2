"""The page of `laneway web` in a headless Chromium: it says what the status says, in the document
and for who cannot see it; names are texts, never markup; it asks nobody but its own server."""

import pytest
import torch

import laneway
from bench import web_stand_in
from support.daemon import Lanewayd
from support.judges import Browser, needs_chromium
from support.small_step import small_step
from support.web import Web

pytestmark = needs_chromium
ROWS = "document.querySelectorAll('tr[data-job]').length"
NAMES = ['a "quoted"', "<img src=x onerror=alert(1)>", "two\nlines", "n" * 255]


def opened(browser, web):
    browser.open(web.url)
    browser.until(f"{ROWS} > 0")


def assert_clean(browser, web):
    assert browser.errors == []
    elsewhere = [
        url for url in browser.requests if not url.startswith((web.place, "about:", "data:"))
    ]
    assert elsewhere == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_axe_finds_nothing(width, dark):
    with Web(jobs=60) as web, Browser(width=width, dark=dark) as browser:
        opened(browser, web)
        assert browser.axe() == []
        browser.value("document.querySelector('tr[data-job] button').click()")
        assert browser.axe() == []
        assert browser.value("document.documentElement.scrollWidth") <= width
        assert_clean(browser, web)


def test_the_map_adds_up_and_comes_before_the_lanes():
    with Web(jobs=60) as web, Browser() as browser:
        opened(browser, web)
        pieces = browser.value(
            "[...document.querySelectorAll('#map [data-kind][data-bytes]')]"
            ".map((e) => Number(e.dataset.bytes))"
        )
        assert sum(pieces) == web_stand_in.CAPACITY
        assert browser.value(
            "Boolean(document.getElementById('map').compareDocumentPosition("
            "document.getElementById('lanes')) & Node.DOCUMENT_POSITION_FOLLOWING)"
        )


def test_of_1000_jobs_only_those_in_view_are_in_the_document():
    with Web(jobs=1000) as web, Browser() as browser:
        opened(browser, web)
        assert browser.until("document.getElementById('count').textContent") == "1000 jobs"
        assert browser.value(ROWS) < 60
        browser.value("{ const j = document.getElementById('jobs'); j.scrollTop = 1e9; 1 }")
        browser.until('document.querySelector(\'tr[data-id="1000"], tr[data-id="999"]\') !== null')
        assert browser.value(ROWS) < 60
        assert_clean(browser, web)


def test_a_row_says_why_its_job_waits_and_the_address_keeps_the_filter():
    made = web_stand_in.status(60)
    waiting = next(job for job in made["jobs"] if job["state"] == "waiting")
    with Web(jobs=60) as web, Browser() as browser:
        opened(browser, web)
        assert "token" not in browser.value("location.href")
        browser.open(f"{web.place}?find={waiting['name']}")
        browser.until(f"{ROWS} === 1")
        row = f"document.querySelector('tr[data-job=\"{waiting['name']}\"]')"
        assert browser.value(f"{row}.dataset.state") == "waiting"
        assert waiting["reason"]["text"] in browser.value(f"{row}.textContent")
        assert "since" in browser.value(f"{row}.textContent")
        browser.value(
            "{ const s = document.getElementById('sort'); s.value = 'name';"
            " s.dispatchEvent(new Event('input')); 1 }"
        )
        assert browser.value("location.search") == f"?find={waiting['name']}&sort=name"


def test_names_are_texts_and_a_kill_by_keyboard_asks_twice():
    with Lanewayd() as daemon, daemon.connect() as service, Web(daemon.address) as web:
        steps = [small_step(service, name) for name in NAMES]
        with Browser() as browser:
            opened(browser, web)
            browser.until(f"{ROWS} === {len(NAMES)}")
            shown = browser.value(
                "[...document.querySelectorAll('tr[data-job]')].map((e) => e.dataset.job).sort()"
            )
            assert shown == sorted(NAMES)
            assert browser.value("document.querySelectorAll('img').length") == 0
            browser.value("document.querySelector('tr[data-id=\"1\"] button').focus()")
            browser.press("Enter")
            browser.until("document.getElementById('dialog').open")
            browser.value("document.querySelector('[data-verb=kill]').focus()")
            browser.press("Enter")
            browser.until("document.querySelector('[data-verb=kill]').textContent.includes('now')")
            states = {job["id"]: job["state"] for job in service.status()["jobs"]}
            assert states[1] not in ("cancelled", "failed")
            browser.press("Enter")
            browser.until("document.getElementById('dialog-said').textContent === 'done: kill'")
            with pytest.raises(laneway.Error):
                steps[0](torch.randn(4, 8), torch.randint(0, 3, (4,)))
            browser.press("Escape")
            browser.until("!document.getElementById('dialog').open")
            browser.until("document.getElementById('events').textContent.includes('a \"quoted\"')")
            assert_clean(browser, web)


def test_it_says_that_the_service_is_away():
    with Web() as web, Browser() as browser:
        browser.open(web.url)
        browser.until("document.getElementById('health')?.dataset.state === 'away'")
        text = browser.until(
            "(document.getElementById('health').textContent.includes('laneway-nobody')"
            " && document.getElementById('health').textContent)"
        )
        assert text.startswith("No service answers: ")
        assert_clean(browser, web)
