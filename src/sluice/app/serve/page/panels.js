// What stands beside the streams: counters, the model and its thresholds, events and answers.

import { call, clock, element, get } from "./api.js";

const MOST_LINES = 200;
const byId = (id) => document.getElementById(id);

export function showCounters(statistics, before) {
  const totals = statistics.totals;
  const cpu = before ? (statistics.cpu_seconds - before.cpu_seconds) / Math.max(0.1, statistics.uptime - before.uptime) : 0;
  const pairs = [
    ["Frames in", totals.frames_in.toLocaleString()], ["Frames out", totals.frames_out.toLocaleString()],
    ["Dropped", totals.dropped.toLocaleString()], ["Reconnects", totals.reconnects.toLocaleString()],
    ["Processor", `${Math.round(cpu * 100)} %`], ["Memory", `${Math.round(statistics.memory_bytes / 2 ** 20)} MiB`],
    ["Running for", duration(statistics.uptime)], ["Viewers", String(statistics.viewers)], ["Version", statistics.version],
  ];
  byId("counters").replaceChildren(...pairs.map(([name, value]) =>
    element("div", {}, element("dt", { textContent: name }), element("dd", { textContent: value }))));
}

function duration(seconds) {
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1) return `${Math.floor(seconds)} s`;
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function addLine(list, time, name, text) {
  list.querySelector(".none")?.remove();
  const made = element("time", { textContent: clock(time), dateTime: new Date(time * 1000).toISOString() });
  const line = element("span", { className: "text" });
  if (name) line.append(element("strong", { textContent: name }), " ");
  line.append(text);
  list.prepend(element("li", {}, made, line));
  while (list.children.length > MOST_LINES) list.lastChild.remove();
}

// The text behind the stream's address or name, which stands before it in bold.
function shortened(text, name, uri) {
  const start = [uri, name].find((known) => known && text.startsWith(known));
  return start ? text.slice(start.length).replace(/^:? /, "") : text;
}

// Follows the events; `onEvent` is told of each, `uriOf` gives a stream's address.
export function followEvents(onEvent, uriOf) {
  const list = byId("events");
  if (!list.children.length) list.append(element("li", { className: "none", textContent: "Nothing has happened yet." }));
  let last = 0;
  const source = new EventSource("/api/events/stream");
  source.addEventListener("happening", (message) => {
    const event = JSON.parse(message.data);
    if (event.number <= last) return;
    last = event.number;
    addLine(list, event.time, event.stream, shortened(event.text, event.stream, uriOf(event.stream)));
    onEvent(event);
  });
  return source;
}

export class Answers {
  last = 0;

  async update() {
    const { answers } = await get(`/api/answers?since=${this.last}`);
    for (const answer of answers) {
      this.last = answer.time;
      addLine(byId("answers"), answer.time, answer.stream, answer.text);
      byId("answers-panel").hidden = false;
    }
  }
}

export class ModelPanel {
  constructor(report) {
    this.report = report; // (error or null)
    byId("swap").addEventListener("submit", (event) => this.act(event, () => this.swap()));
    byId("thresholds").addEventListener("submit", (event) => this.act(event, () => this.apply()));
    byId("thresholds").addEventListener("reset", (event) => this.act(event, () => this.reset()));
    for (const name of ["confidence", "iou"]) {
      byId(name).addEventListener("input", () => { byId(name).dataset.set = "yes"; this.showValue(name); });
      byId(name).addEventListener("change", () => this.act(null, () => this.apply()));
    }
  }

  async act(event, work) {
    event?.preventDefault();
    try {
      await work();
      this.report(null);
    } catch (error) {
      this.report(error);
    }
  }

  async swap() {
    await call("POST", "/api/models/swap", { model: byId("model-choice").value.trim() });
    byId("model-choice").value = "";
    await this.update();
  }

  async apply() {
    const classes = byId("classes").value.split(",").map((name) => name.trim()).filter(Boolean)
      .map((name) => (/^\d+$/.test(name) ? Number(name) : name));
    const body = { classes: classes.length ? classes : null };
    for (const name of ["confidence", "iou"]) if (byId(name).dataset.set) body[name] = Number(byId(name).value);
    await call("PATCH", "/api/thresholds", body);
  }

  async reset() {
    await call("PATCH", "/api/thresholds", { confidence: null, iou: null, classes: null });
    for (const name of ["confidence", "iou"]) {
      delete byId(name).dataset.set;
      this.showValue(name);
    }
    byId("classes").value = "";
  }

  async update() {
    const { current, available } = await get("/api/models");
    const remarks = [current.runtime, current.state].filter((word) => !["ready", "running", "none"].includes(word));
    byId("model-current").textContent = current.name + (remarks.length ? ` (${remarks.join(", ")})` : "");
    byId("models").replaceChildren(...available.map((value) => element("option", { value })));
  }

  async load() {
    await this.update();
    const thresholds = await get("/api/thresholds");
    for (const name of ["confidence", "iou"]) {
      if (thresholds[name] !== null) Object.assign(byId(name), { value: thresholds[name] }).dataset.set = "yes";
      this.showValue(name);
    }
    byId("classes").value ||= (thresholds.classes ?? []).join(", "); // what was typed meanwhile stays
  }

  showValue(name) {
    byId(`${name}-value`).textContent = byId(name).dataset.set ? Number(byId(name).value).toFixed(2) : "default";
  }
}
