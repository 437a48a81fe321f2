// The pool to scale, its table, and the lanes.

import { byId, colour, duration, element, label, mebibytes, say } from "./text.js";
import { known } from "./store.js";

const MINUTE_S = 60;
let drawn = "";

export function drawPool() {
  const { pool, map, store, spill, recovery } = known.status;
  const moving = pool.wanted_bytes === pool.capacity_bytes ? "" : `, on its way to ${mebibytes(pool.wanted_bytes)}`;
  say("pool", `${mebibytes(pool.capacity_bytes)} MiB${moving}: ${mebibytes(pool.persistent_bytes)} images, ` +
    `${mebibytes(pool.region_bytes)} lanes, ${mebibytes(pool.other_bytes)} other, ` +
    `${mebibytes(pool.reserve_bytes)} reserve, ${mebibytes(pool.free_bytes)} free`);
  const tiers = [["Store", store], ["Spill file", spill], ["Recovery", recovery]].filter(([, tier]) => tier);
  say("outside", tiers.map(([name, tier]) =>
    `${name}: ${mebibytes(tier.used_bytes)} of ${mebibytes(tier.capacity_bytes)} MiB in use` +
    (tier.stalls ? ", STALLS: a copy to it is late" : "")).join(" · "));
  const pieces = whole(map, pool.capacity_bytes);
  const text = JSON.stringify([pieces, pool.capacity_bytes]);
  if (text === drawn) return;
  drawn = text;
  byId("map").replaceChildren(...pieces.map((piece) => pieceOf(piece, pool.capacity_bytes)));
  byId("pieces").replaceChildren(...pieces.map(pieceRow));
}

// Pieces whose bytes add up to the pool: what the map does not name is "other".
function whole(map, capacity) {
  const pieces = map.filter((piece) => piece.bytes > 0);
  const rest = capacity - pieces.reduce((sum, piece) => sum + piece.bytes, 0);
  return rest > 0 ? [...pieces, { offset: capacity - rest, bytes: rest, kind: "other", job: null, lane: null }] : pieces;
}

function whose(piece) {
  if (piece.kind === "region") return `lane ${piece.lane ?? "-"}`;
  if (piece.kind === "image") return label(known.jobs.get(piece.job)) || `job ${piece.job}`;
  return piece.kind;
}

function pieceOf(piece, capacity) {
  const made = element("span", whose(piece), { "data-kind": piece.kind, "data-bytes": piece.bytes });
  made.style.width = `${(100 * piece.bytes) / capacity}%`;
  const row = known.jobs.get(piece.job);
  if (row) {
    made.style.background = colour(row);
    made.dataset.owner = row.name;
  }
  return made;
}

function pieceRow(piece) {
  const made = element("tr");
  made.append(element("td", mebibytes(piece.offset)), element("td", mebibytes(piece.bytes)),
    element("td", piece.kind), element("td", whose(piece), { class: "name" }));
  return made;
}

export function drawLanes() {
  const body = byId("lanes").tBodies[0];
  const lanes = known.status.lanes;
  while (body.rows.length > lanes.length) body.lastElementChild.remove();
  lanes.forEach((lane, at) => {
    const row = body.rows[at] ?? body.appendChild(emptyLane());
    const waits = lane.jobs.map((id) => known.jobs.get(id)).filter((job) => job && job.id !== lane.running && job.reason);
    waits.sort((a, b) => b.priority - a.priority || (b.waiting_s ?? 0) - (a.waiting_s ?? 0));
    row.cells[0].textContent = lane.id;
    row.cells[1].textContent = label(known.jobs.get(lane.running));
    row.cells[2].textContent = waits.map(label).join(", ") || "nobody waits";
    gantt(row.cells[3].firstChild, lane.id);
  });
}

function emptyLane() {
  const row = element("tr");
  const picture = element("td");
  picture.append(element("canvas", "", { width: 600, height: 24, role: "img" }));
  row.append(element("th", "", { scope: "row" }), element("td", "", { class: "name" }),
    element("td", "", { class: "name" }), picture);
  return row;
}

function gantt(canvas, lane) {
  const samples = known.minute.lanes;
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, canvas.width, canvas.height);
  const end = samples.length ? samples[samples.length - 1].at : 0;
  const seconds = new Map();
  let before = null;
  samples.forEach((sample) => {
    const row = known.jobs.get(sample.running[lane]);
    if (row) seconds.set(row, (seconds.get(row) ?? 0) + 1);
    const x = canvas.width * (1 - (end - sample.at + 1) / (MINUTE_S + 1));
    if (!row || x < 0) {
      before = null;
      return;
    }
    const width = canvas.width / (MINUTE_S + 1);
    pen.fillStyle = colour(row);
    pen.fillRect(x, 0, width + 0.5, canvas.height);
    if (row !== before) {
      pen.fillStyle = "#fff";
      pen.font = "12px sans-serif";
      pen.fillText(String(row.id), x + 1, 16);
    }
    before = row;
  });
  const parts = [...seconds].map(([row, count]) => `${label(row)}: ${count} of ${samples.length}`);
  canvas.setAttribute("aria-label", parts.join(", ") || "nobody was seen computing");
}

export function drawHealth() {
  const place = byId("health");
  if (!known.status) {
    place.dataset.state = "away";
    say("health", `No service answers: ${known.why}`);
    return;
  }
  const { service, workers, store, spill } = known.status;
  const role = (name) => workers.find((worker) => worker.role === name);
  const active = role("active");
  const standby = role("standby");
  const wrong = [];
  if (active?.state !== "ready") wrong.push(`active worker ${active?.state ?? "missing"}`);
  if (standby && standby.state !== "ready") wrong.push(`standby ${standby.state}`);
  if (store?.stalls || spill?.stalls) wrong.push("a copy out of the pool is late");
  const process = service.policy_process;
  if (process && process.state !== "running") wrong.push("the policy's process is stopped, fifo decides");
  place.dataset.state = wrong.length ? "wrong" : "ok";
  say("health", wrong.length ? `Look here: ${wrong.join(", ")}` : "Healthy");
  const prepared = standby?.jobs_to_prepare ? `, has prepared ${standby.jobs_prepared} of ${standby.jobs_to_prepare} jobs` : "";
  byId("service").textContent = `version ${service.version}, ${service.device}, policy ${service.policy}, ` +
    `up ${duration(service.uptime_s)}; ` + workers.map((w) => `${w.role} worker ${w.pid} ${w.state}`).join(", ") + prepared;
}
