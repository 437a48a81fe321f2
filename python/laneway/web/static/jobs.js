// The table of jobs: only rows that are in view are in the document.

import { byId, colour, duration, element, mebibytes } from "./text.js";
import { known, waited } from "./store.js";

const GUESS_PX = 74; // of a row that was never seen
const heights = new Map();
const ORDER = "running held paused resident moving staged restoring evicting waiting away quarantined failed cancelled finished".split(" ");
const SORTS = {
  state: (a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || (a.position ?? 0) - (b.position ?? 0) || a.id - b.id,
  number: (a, b) => a.id - b.id,
  name: (a, b) => a.name.localeCompare(b.name) || a.id - b.id,
  waiting: (a, b) => (waited(b) ?? -1) - (waited(a) ?? -1) || a.id - b.id,
  device: (a, b) => share(b) - share(a) || a.id - b.id,
};
let open = () => {};

export function setUp(onOpen) {
  open = onOpen;
  byId("state").append(...["all", ...ORDER].map((name) => element("option", name)));
  byId("sort").append(...Object.keys(SORTS).map((name) => element("option", name)));
  const asked = new URLSearchParams(location.search);
  for (const id of ["find", "state", "sort"]) {
    if (asked.has(id)) byId(id).value = asked.get(id);
    if (byId(id).selectedIndex === -1) byId(id).selectedIndex = 0;
    byId(id).addEventListener("input", () => {
      byId("jobs").scrollTop = 0;
      remember();
      drawJobs();
    });
  }
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("jobs").addEventListener("scroll", () => requestAnimationFrame(drawJobs));
  addEventListener("resize", () => (heights.clear(), drawJobs()));
}

// The state of the page is its address. It never has the token, which came with the first request.
export function remember() {
  const kept = new URLSearchParams();
  for (const id of ["find", "state", "sort"]) {
    const value = byId(id).value;
    if (value && value !== "all" && !(id === "sort" && value === "state")) kept.set(id, value);
  }
  const text = kept.toString();
  history.replaceState(null, "", text ? `/?${text}` : "/");
}

function share(row) {
  const { window_s, device_s } = known.minute;
  return window_s > 0 ? (device_s[row.id] ?? 0) / window_s : 0;
}

function chosen() {
  const find = byId("find").value.toLowerCase();
  const state = byId("state").value;
  const rows = [...known.jobs.values()].filter((row) =>
    (state === "all" || row.state === state) &&
    (!find || row.name.toLowerCase().includes(find) || row.user.toLowerCase().includes(find) || String(row.id) === find));
  return rows.sort(SORTS[byId("sort").value]);
}

export function drawJobs() {
  const rows = chosen();
  const total = known.jobs.size;
  const count = rows.length === total ? `${total} jobs` : `${rows.length} of ${total} jobs`;
  if (byId("count").textContent !== count) byId("count").textContent = count;
  const view = byId("jobs");
  const wrapper = view.firstElementChild;
  const body = wrapper.querySelector("tbody");
  const height = (row) => heights.get(row.id) ?? GUESS_PX;
  const from = view.scrollTop - 100;
  const until = view.scrollTop + Math.max(view.clientHeight, 300) + 100;
  let above = 0, first = 0;
  while (first < rows.length && above + height(rows[first]) < from) above += height(rows[first++]);
  let shown = above, last = first;
  while (last < rows.length && shown < until) shown += height(rows[last++]);
  let below = 0;
  for (let at = last; at < rows.length; at++) below += height(rows[at]);
  place(body, rows.slice(first, last), first);
  wrapper.style.paddingTop = `${above}px`;
  wrapper.style.paddingBottom = `${below}px`;
  wrapper.firstElementChild.setAttribute("aria-rowcount", rows.length + 1);
  for (const made of body.rows) heights.set(Number(made.dataset.id), made.offsetHeight);
}

// Keeps the row that is there, so that the focus stays where it is.
function place(body, rows, first) {
  const there = new Map([...body.rows].map((made) => [Number(made.dataset.id), made]));
  rows.forEach((row, at) => {
    const made = there.get(row.id) ?? empty(row);
    there.delete(row.id);
    fill(made, row);
    made.setAttribute("aria-rowindex", first + at + 2);
    if (body.rows[at] !== made) body.insertBefore(made, body.rows[at] ?? null);
  });
  for (const made of there.values()) made.remove();
}

function empty(row) {
  const made = element("tr", "", { "data-id": row.id });
  const name = element("th", "", { scope: "row" });
  const mark = element("span", "", { class: "mark", "aria-hidden": "true" });
  mark.style.background = colour(row);
  name.append(mark, element("span", "", { class: "name" }), element("span", "", { class: "small" }));
  const state = element("td");
  state.append(element("b"), element("span", "", { class: "reason" }));
  const done = element("td");
  done.append(element("span"), element("span", "", { class: "small" }));
  const may = element("td");
  const button = element("button", "Actions", { type: "button" });
  button.addEventListener("click", () => open(row.id));
  may.append(button);
  made.append(name, state, done, element("td"), element("td"), may);
  return made;
}

function put(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

function fill(made, row) {
  made.dataset.job = row.name;
  made.dataset.state = row.state;
  const [name, state, done, used, image, may] = made.cells;
  put(name.children[1], row.name);
  put(name.children[2], `number ${row.id}, ${row.user}, ${row.class}, priority ${row.priority}`);
  const since = waited(row);
  put(state.children[0], since === null ? row.state : `${row.state}, since ${duration(since)}`);
  const until = row.wait_estimate_s === null ? "" : ` About ${duration(row.wait_estimate_s)} to go.`;
  put(state.children[1], row.reason ? ` ${row.reason.text}${until}` : "");
  put(done.children[0], row.total_iterations === null ? `${row.iterations} iterations`
    : `${row.iterations} of ${row.total_iterations} (${Math.floor((100 * row.iterations) / row.total_iterations)} %)`);
  put(done.children[1], ends(row));
  put(used, `${(100 * share(row)).toFixed(1)} %, weight ${row.weight}`);
  put(image, where(row));
  const mine = known.whose && (known.whose.operator || known.whose.user === row.user);
  may.firstChild.hidden = !mine;
  may.firstChild.setAttribute("aria-label", `Actions on job ${row.id}, ${row.name}`);
}

// When it will be done, by what it got in the last minute.
function ends(row) {
  const used = share(row);
  if (row.deadline_missed_by_s !== null && row.deadline_missed_by_s > 0) return `misses its deadline by ${duration(row.deadline_missed_by_s)}`;
  if (row.total_iterations === null || row.iterations === 0 || used === 0) return "";
  const left = (row.total_iterations - row.iterations) * (row.device_time_s / row.iterations);
  return `done in about ${duration(left / used)} at this pace`;
}

function where(row) {
  const image = row.image;
  const places = ["pool", "store", "spill"].filter((tier) => image[`${tier}_bytes`] > 0);
  const warm = places.length === 0 ? "-" : places.map((tier) => `${mebibytes(image[`${tier}_bytes`])} MiB ${tier}`).join(", ");
  const pinned = image.pinned ? ", pinned" : "";
  if (image.moved_bytes === null) return warm + pinned;
  const speed = row.speed === null ? "" : `, ${mebibytes(row.speed)} MiB/s`;
  return `${warm}${pinned}; moves: ${mebibytes(image.moved_bytes)} of ${mebibytes(row.persistent_bytes)} MiB${speed}`;
}
