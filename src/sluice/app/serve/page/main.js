// The page: asks for the streams every second, and brings the parts together.

import { TokenNeeded, call, get, stream as pathOf } from "./api.js";
import { Card } from "./cards.js";
import { drawChart } from "./chart.js";
import { onSubmit, tokenDialog } from "./dialogs.js";
import { JpegFeed } from "./live.js";
import { Answers, ModelPanel, followEvents, showCounters } from "./panels.js";

const EVERY = 1000, SECONDS = 300;
const byId = (id) => document.getElementById(id);
const cards = new Map();
const totals = [];
const uris = new Map(); // of streams that were removed too, for their events
let statistics = null, events = null, removing = null, webrtc = false, loaded = false;

const feed = new JpegFeed((name, picture) => cards.get(name)?.draw(picture));
const answers = new Answers();
const model = new ModelPanel(report);
const askForToken = tokenDialog("This service asks for the token of its configuration (http.token).", refresh);
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const card = cards.get(entry.target.dataset.stream);
    if (card) card.visible = entry.isIntersecting;
  }
  chooseTransport();
}, { rootMargin: "120px" });

function report(error) {
  if (error instanceof TokenNeeded) return logIn();
  byId("notice").hidden = !error;
  byId("notice").textContent = error ? error.message : "";
}

async function attempt(work) {
  try {
    await work();
    report(null);
  } catch (error) {
    report(error);
  }
}

const actions = {
  restart: (name) => attempt(() => call("POST", `${pathOf(name)}/restart`)),
  remove(name) {
    removing = name;
    byId("remove-text").textContent = `${name} is taken out, also for the next start of the service.`;
    byId("remove-dialog").showModal();
  },
  transportChanged: chooseTransport,
};

function transportMode() {
  const chosen = byId("transport").value;
  return chosen === "auto" ? (webrtc ? "webrtc" : "jpeg") : chosen;
}

function chooseTransport() {
  const mode = document.hidden ? "off" : transportMode();
  feed.watch([...cards.values()].filter((card) => card.transport(mode)).map((card) => card.name));
}

function showStreams(streams) {
  const names = new Set(streams.map((status) => status.name));
  for (const [name, card] of cards) {
    if (names.has(name)) continue;
    card.leave();
    seen.unobserve(card.root);
    card.root.remove();
    cards.delete(name);
  }
  const news = [];
  for (const status of streams) {
    let card = cards.get(status.name);
    if (!card) {
      card = new Card(status.name, actions);
      cards.set(status.name, card);
      byId("streams").append(card.root);
      seen.observe(card.root);
    }
    uris.set(status.name, status.uri);
    const said = card.update(status);
    if (said) news.push(said);
  }
  if (news.length) byId("announce").textContent = news.join(". ");
  byId("empty").hidden = streams.length > 0;
  chooseTransport();
}

function showNumbers(streams, before) {
  const now = Date.now() / 1000;
  const fps = streams.reduce((sum, status) => sum + status.fps, 0);
  totals.push({ time: now, value: fps });
  while (totals.length && now - totals[0].time > SECONDS) totals.shift();
  for (const status of streams) cards.get(status.name).sample(now, status.fps, SECONDS);
  drawAll();
  const playing = streams.filter((status) => status.state === "playing").length;
  byId("summary").textContent = `${streams.length} streams · ${playing} playing · ${fps.toFixed(1)} fps`;
  showCounters(statistics, before);
  byId("advice").hidden = !statistics.advice;
  byId("advice").textContent = statistics.advice;
}

function drawAll() {
  drawChart(byId("chart"), totals, SECONDS);
  for (const card of cards.values()) card.drawHistory(SECONDS);
}

async function loadOnce() {
  const { samples } = await get("/api/history");
  for (const sample of samples) {
    totals.push({ time: sample.time, value: Object.values(sample.fps).reduce((sum, value) => sum + value, 0) });
    for (const [name, value] of Object.entries(sample.fps)) cards.get(name)?.history.push({ time: sample.time, value });
  }
  await model.load();
  byId("events").replaceChildren();
  events = followEvents((event) => {
    if (event.kind.startsWith("model")) model.update().catch(report);
  }, (name) => uris.get(name));
  loaded = true;
}

async function refresh() {
  try {
    const [{ streams }, numbers] = await Promise.all([get("/api/streams"), get("/api/statistics")]);
    const before = statistics;
    statistics = numbers;
    if (before && numbers.uptime < before.uptime) { // it was started anew, and its events are counted from 1 again
      events?.close();
      loaded = false;
    }
    webrtc = numbers.webrtc_advised && "RTCPeerConnection" in window;
    showStreams(streams);
    if (!loaded) await loadOnce();
    showNumbers(streams, before);
    await answers.update();
    if (byId("notice").dataset.away) {
      delete byId("notice").dataset.away;
      report(null);
    }
  } catch (error) {
    if (error instanceof TokenNeeded) return logIn();
    byId("notice").dataset.away = "yes";
    report(error instanceof TypeError ? new Error("The service does not answer. Trying again …") : error);
  }
  setTimeout(refresh, EVERY);
}

function logIn() {
  events?.close();
  loaded = false;
  askForToken();
}

onSubmit("add", async () => {
  const policy = { delivery: byId("add-delivery").value, loop: byId("add-loop").checked };
  if (byId("add-fps").value) policy.fps = Number(byId("add-fps").value);
  await call("POST", "/api/streams", { source: byId("add-source").value.trim(), name: byId("add-name").value.trim(), policy });
}, report);
onSubmit("remove", async () => {
  byId("remove-dialog").close();
  await call("DELETE", pathOf(removing));
  byId("streams").focus();
}, report);
byId("add").addEventListener("click", () => byId("add-dialog").showModal());
byId("transport").addEventListener("change", () => {
  for (const card of cards.values()) card.webrtcFailed = false;
  chooseTransport();
});
document.addEventListener("visibilitychange", chooseTransport);

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  drawAll();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
const remembered = localStorage.getItem("sluice-theme") ?? "auto";
byId("theme").value = remembered;
setTheme(remembered);
byId("theme").addEventListener("change", () => {
  localStorage.setItem("sluice-theme", byId("theme").value);
  setTheme(byId("theme").value);
});

refresh();
