"""The screen of `laneway top`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.css.query import NoMatches
from textual.widgets import DataTable, Footer, Input, Static

from laneway import errors
from laneway.cli import job_table, view
from laneway.cli.screen import Screen
from laneway.printable import cut, escaped

Document = dict[str, Any]
_NAME = 24  # columns of a name
_NARROW = ("DEVICE-TIME", "E-MiB", "P-MiB", "REASON")  # the reason stands below the table
_COLUMNS = tuple(column for column in job_table.COLUMNS if column.head not in _NARROW)
_STYLES = {"running": "green", "waiting": "yellow", "away": "yellow", "paused": "yellow"}
_STYLES |= {"failed": "red", "quarantined": "red"}


class Top(App[None]):
    """`look` gives a status, None while the service is gone, and what is to be said of that; `act`
    asks the service for something, and raises errors.Error: both are called in threads. `screen` is
    of the terminal."""

    CSS = """
    #head { height: auto; padding: 0 1; }
    #jobs { height: 1fr; }
    #chosen { height: auto; max-height: 4; padding: 0 1; }
    #said { height: auto; padding: 0 1; }
    #entry { display: none; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding("q", "quit", "quit"),
        Binding("s", "sort", "sort"),
        Binding("slash", "filter", "filter"),
        Binding("k", "kill", "kill"),
        Binding("p", "priority", "priority"),
        Binding("y", "yes", "yes", show=False),
        Binding("n,escape", "no", "no", show=False),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        look: Callable[[], tuple[Document | None, str]],
        act: Callable[..., None],
        screen: Screen,
        every_s: float,
        sort: str | None = None,
    ) -> None:
        super().__init__()
        self._look, self._act, self._terminal, self._every_s = look, act, screen, every_s
        self._sort, self._filter = sort or "id", ""
        self._status: Document | None = None
        self._asked: list[Document] = []  # the job that an end was asked for, once or twice
        self._entering: Callable[[str], None] | None = None
        self._looking = False

    def compose(self) -> ComposeResult:
        yield Static(id="head", markup=False)
        yield DataTable(id="jobs", cursor_type="row", zebra_stripes=True)
        yield Static(id="chosen", markup=False)
        yield Static(id="said", markup=False)
        yield Input(id="entry")
        yield Footer()

    def on_mount(self) -> None:
        table = self.query_one(DataTable)
        for column in _COLUMNS:
            table.add_column(column.head, key=column.head)
        table.focus()
        self._again()
        self.set_interval(self._every_s, self._again)

    def _again(self) -> None:
        """One look at a time, however long the service takes to answer."""
        if not self._looking:
            self._looking = True
            self.run_worker(self._look_once, thread=True, group="look")

    def _look_once(self) -> None:
        try:
            status, said = self._look()
        finally:
            self._looking = False
        self._tell(self._show, status, said)

    def _tell(self, what: Callable[..., None], *given: Any) -> None:
        """Calls it in the app's thread, unless the app has ended meanwhile."""
        with contextlib.suppress(RuntimeError, NoMatches):
            self.call_from_thread(what, *given)

    def _show(self, status: Document | None, said: str) -> None:
        if said:
            self._say(said)
        if status is None:
            return
        self._status = status
        without_jobs = {**status, "jobs": [], "lanes": []}
        lines = view.status_lines(without_jobs, self._terminal)[:-2]
        lanes = view.lane_lines(status, self._terminal) if status["lanes"] else []
        self.query_one("#head", Static).update(Text("\n".join([*lines, *lanes])))
        self._fill()

    def _fill(self) -> None:
        """The table anew; the chosen job stays so."""
        table, chosen = self.query_one(DataTable), self._chosen()
        table.clear()
        for job in self._jobs():
            cells = [Text(cut(escaped(c.text(job)), _NAME)) for c in _COLUMNS]
            cells[4].stylize(_STYLES.get(job["state"], ""))
            table.add_row(*cells, key=str(job["id"]))
        ids = [job["id"] for job in self._jobs()]
        if chosen is not None and chosen["id"] in ids:
            table.move_cursor(row=ids.index(chosen["id"]))
        words = f"by {self._sort}" + (f", with {self._filter!r}" if self._filter else "")
        table.border_title = words
        self._tell_chosen()

    def _jobs(self) -> list[Document]:
        if self._status is None:
            return []
        jobs = job_table.chosen(self._status["jobs"], None, (), self._sort)
        text = self._filter.lower()
        return [
            job
            for job in jobs
            if any(text in str(job[key]).lower() for key in ("name", "user", "state", "class"))
        ]

    def _chosen(self) -> Document | None:
        """The job of the cursor."""
        table = self.query_one(DataTable)
        if not table.row_count:
            return None
        key = table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value
        jobs = [] if self._status is None else self._status["jobs"]
        return next((job for job in jobs if str(job["id"]) == key), None)

    def _tell_chosen(self) -> None:
        job = self._chosen()
        text = "" if job is None else f"job {job['id']}, {job['name']}: {job_table.reason(job)}"
        self.query_one("#chosen", Static).update(Text(escaped(text)))

    def on_data_table_row_highlighted(self) -> None:
        with contextlib.suppress(NoMatches):  # the app ends
            self._tell_chosen()

    def _say(self, text: str) -> None:
        self.query_one("#said", Static).update(Text(escaped(text)))

    def action_sort(self) -> None:
        keys = job_table.SORT_KEYS
        self._sort = keys[(keys.index(self._sort) + 1) % len(keys)]
        self._say(f"sorted by {self._sort}")
        self._fill()

    def action_filter(self) -> None:
        self._enter("shown are jobs with this in name, user, state or class", self._set_filter)

    def _set_filter(self, text: str) -> None:
        self._filter = text
        self._say(f"with {text!r}" if text else "all jobs")
        self._fill()

    def action_kill(self) -> None:
        """Asks twice: an end cannot be taken back."""
        job = self._chosen()
        if job is not None:
            self._asked = [job]
            self._say(f"end job {job['id']}, {job['name']}? y or n")

    def action_yes(self) -> None:
        if len(self._asked) == 1:
            job = self._asked[0]
            self._asked.append(job)
            done = f"{job['iterations']:,} iterations are lost unless its client saved them"
            self._say(f"really end job {job['id']}, {job['name']}? {done}. y or n")
        elif self._asked:
            job, self._asked = self._asked[0], []
            self._do(f"job {job['id']} ends", "kill", job["id"])

    def action_no(self) -> None:
        if self._asked:
            self._asked = []
            self._say("nothing was ended")
        self._leave_entry()

    def action_priority(self) -> None:
        job = self._chosen()
        if job is None:
            return

        def set_priority(text: str) -> None:
            try:
                value = int(text)
            except ValueError:
                self._say(f"{text!r} is no whole number")
                return
            self._do(f"job {job['id']} has priority {value}", "priority", job["id"], value)

        self._enter(f"priority of job {job['id']}, now {job['priority']}", set_priority)

    def _enter(self, what: str, then: Callable[[str], None]) -> None:
        self._entering, self._asked = then, []
        entry = self.query_one(Input)
        entry.value, entry.placeholder, entry.display = "", what, True
        entry.focus()

    def _leave_entry(self) -> None:
        self._entering = None
        self.query_one(Input).display = False
        self.query_one(DataTable).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        then = self._entering
        self._leave_entry()
        if then is not None:
            then(event.value.strip())

    def _do(self, done: str, *what: Any) -> None:
        def ask() -> None:
            try:
                self._act(*what)
                said = done
            except errors.Error as error:
                said = str(error)
            self._tell(self._say, said)
            self._tell(self._again)

        self.run_worker(ask, thread=True, group="act")
