// The page of a fleet: asks how it is every two seconds.

import { TokenNeeded, element, get } from "/page/api.js";
import { tokenDialog } from "/page/dialogs.js";

const EVERY = 2000, MOST_ROWS = 500;
const byId = (id) => document.getElementById(id);
const KINDS = { playing: "good", connecting: "busy", placed: "busy", waiting: "busy" };

const cell = (text, properties = {}) => element("td", { textContent: text, ...properties });

function nodeState(node) {
  if (!node.alive) return ["gone", "bad"];
  if (node.quarantined) return [`left alone for ${Math.ceil(node.quarantined)} s`, "bad"];
  return node.drained ? ["drained", "busy"] : ["in use", "good"];
}

function showNodes(fleet) {
  const up = fleet.workers.filter((worker) => worker.state === "up");
  const rows = fleet.nodes.map((node) => {
    const own = up.filter((worker) => worker.node === node.id);
    const [text, kind] = nodeState(node);
    const streams = own.reduce((sum, worker) => sum + worker.streams.length, 0);
    return element("tr", { title: node.id }, cell(node.name), cell(text, { dataset: { kind } }), cell(own.length), cell(streams));
  });
  byId("nodes").replaceChildren(...rows);
}

function showStreams(fleet) {
  const wanted = byId("filter").value === "all" ? fleet.streams : fleet.streams.filter((s) => s.state !== "playing");
  byId("shown").textContent = wanted.length > MOST_ROWS ? `the first ${MOST_ROWS} of ${wanted.length}` : `${wanted.length}`;
  byId("streams").replaceChildren(...wanted.slice(0, MOST_ROWS).map((stream) => element("tr", {},
    cell(stream.name),
    cell(stream.state, { dataset: { kind: KINDS[stream.state] ?? "bad" } }),
    cell(stream.fps.toFixed(1)),
    cell(stream.worker ?? "–"),
    cell(stream.reason, { className: "why" }))));
}

function show(fleet) {
  const playing = fleet.streams.filter((stream) => stream.state === "playing").length;
  const up = fleet.workers.filter((worker) => worker.state === "up").length;
  byId("name").textContent = `Fleet ${fleet.name}`;
  byId("summary").textContent = `${playing} of ${fleet.streams.length} streams play; ${up} of ${fleet.workers.length} workers up; `
    + `model ${fleet.model}` + (fleet.rollout ? `; ${fleet.rollout.model} is being tried` : "");
  const failures = Object.entries(fleet.failures);
  byId("failures-panel").hidden = !failures.length;
  byId("failures").replaceChildren(...failures.map(([worker, reason]) => element("li", { textContent: `${worker}: ${reason}` })));
  showNodes(fleet);
  showStreams(fleet);
}

async function look() {
  try {
    if (!document.hidden) show(await get("/api/fleet"));
    byId("notice").hidden = true;
  } catch (error) {
    if (error instanceof TokenNeeded) return askForToken();
    byId("notice").textContent = error.message;
    byId("notice").hidden = false;
  }
}

byId("filter").addEventListener("change", look);
const askForToken = tokenDialog("This page asks for the token that sluice fleet serve was given.", look);

look();
setInterval(look, EVERY);
