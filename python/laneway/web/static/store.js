// The state of the service as the page knows it: what the events of /api/events add up to.

export const known = {
  status: null, // null while no service answers
  why: "",
  minute: { window_s: 0, device_s: {}, lanes: [] },
  events: [],
  whose: null,
  jobs: new Map(), // by id: the row, with `seen` (when it came) and `speed` of its image
};

export function listen(changed) {
  const source = new EventSource("/api/events");
  const on = (name, take) =>
    source.addEventListener(name, (event) => {
      take(JSON.parse(event.data));
      changed();
    });
  on("status", (status) => {
    known.jobs = new Map();
    takeRows(status.jobs);
    known.status = status;
  });
  on("change", (change) => {
    for (const id of change.gone) known.jobs.delete(id);
    takeRows(change.jobs);
    if (known.status) Object.assign(known.status, change.sections);
  });
  on("away", (away) => {
    known.status = null;
    known.why = away.why;
  });
  on("minute", (minute) => (known.minute = minute));
  on("happened", (events) => (known.events = events));
  on("whose", (whose) => (known.whose = whose));
  source.onerror = () => {
    known.status = null;
    known.why = "laneway web does not answer; if it was started anew, open the address that it printed";
    changed();
  };
}

function takeRows(rows) {
  const now = performance.now();
  for (const row of rows) {
    const before = known.jobs.get(row.id);
    row.seen = now;
    row.speed = null;
    const moved = row.image.moved_bytes;
    if (moved !== null && before && before.image.moved_bytes !== null && now > before.seen) {
      row.speed = Math.max(0, ((moved - before.image.moved_bytes) * 1000) / (now - before.seen));
    }
    known.jobs.set(row.id, row);
  }
}

// A row's clock: it goes on by itself between two changes of the row.
export function waited(row) {
  return row.waiting_s === null ? null : row.waiting_s + (performance.now() - row.seen) / 1000;
}

export async function ask(verb, body) {
  const answer = await fetch(`/api/${verb}`, { method: "POST", body: JSON.stringify(body) });
  const said = await answer.json();
  return answer.ok ? `done: ${verb}` : said.error;
}
