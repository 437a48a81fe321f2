// The page of `laneway web`: draws what store.js knows, and asks for what its user wants.

import { ask, known, listen } from "./store.js";
import { drawHealth, drawLanes, drawPool } from "./pool.js";
import { drawJobs, remember, setUp } from "./jobs.js";
import { byId, element, say } from "./text.js";

const EVENTS_SHOWN = 100;
const VERBS = { load: "Bring into the pool", unload: "Send out of the pool", pin: "Pin", unpin: "Unpin", release: "Try again", kill: "End" };
let job = null; // of the dialog
let asked = false; // whether kill was pressed once

let waits = false;
function draw() {
  if (waits) return; // several events of one second are one picture
  waits = true;
  setTimeout(() => {
    waits = false;
    drawHealth();
    byId("operator").hidden = !known.whose?.operator;
    drawEvents();
    if (!known.status) return;
    drawPool();
    drawLanes();
    drawJobs();
    if (byId("dialog").open) fillDialog();
  }, 0);
}

let eventsDrawn = null;
function drawEvents() {
  if (eventsDrawn === known.events) return;
  eventsDrawn = known.events;
  const lines = known.events.slice(-EVENTS_SHOWN).reverse().map((event) => {
    const line = element("li", "", { "data-kind": event.kind, class: "name" });
    line.textContent = `${new Date(event.at * 1000).toLocaleTimeString()} ${event.kind}: ${event.text}`;
    return line;
  });
  byId("events").replaceChildren(...(lines.length ? lines : [element("li", "Nothing happened.")]));
}

function openDialog(id) {
  job = id;
  asked = false;
  const row = known.jobs.get(id);
  if (!row) return;
  byId("priority").value = row.priority;
  byId("weight").value = row.weight;
  say("dialog-said", "");
  byId("verbs").replaceChildren(...Object.keys(VERBS).map((verb) => {
    const button = element("button", VERBS[verb], { type: "button", "data-verb": verb });
    button.addEventListener("click", () => press(verb, button));
    return button;
  }));
  fillDialog();
  byId("dialog").showModal();
}

function fillDialog() {
  const row = known.jobs.get(job);
  say("dialog-title", row ? `Job ${row.id}, ${row.name}` : `Job ${job} is gone`);
  say("dialog-reason", row ? `${row.state}. ${row.reason?.text ?? ""}` : "");
  for (const button of byId("verbs").children) {
    const hidden = { release: row?.state !== "quarantined", pin: row?.image.pinned, unpin: !row?.image.pinned };
    button.hidden = Boolean(hidden[button.dataset.verb]);
  }
}

async function press(verb, button) {
  if (verb === "kill" && !asked) {
    asked = true;
    button.textContent = "End it now, for good";
    say("dialog-said", "Its iterations end and its state is gone. Press again to end it.");
    return;
  }
  await tell("dialog-said", verb, { job });
}

async function tell(place, verb, body) {
  say(place, `asking: ${verb}`);
  try {
    say(place, await ask(verb, body));
  } catch (error) {
    say(place, `laneway web does not answer: ${error.message}`);
  }
}

function onSubmit(form, act) {
  byId(form).addEventListener("submit", (event) => {
    event.preventDefault();
    act();
  });
}

setUp(openDialog);
remember();
byId("close").addEventListener("click", () => byId("dialog").close());
onSubmit("set-form", () => tell("dialog-said", "set", { job, priority: Number(byId("priority").value), weight: Number(byId("weight").value) }));
onSubmit("policy-form", () => tell("said", "policy", { policy: byId("policy").value }));
onSubmit("pool-form", () => tell("said", "pool", { size: byId("size").value }));
listen(draw);
