// One card per stream: its picture, state and numbers, and what can be done with it.

import { clock, element, stream as pathOf } from "./api.js";
import { drawSpark } from "./chart.js";
import { WebRtcView } from "./live.js";

const KINDS = {
  playing: "good", connecting: "busy", "format-changed": "busy", "codec-changed": "busy", "clock-jumped": "busy",
  stalled: "warn", ended: "still", removed: "still",
};
const OUT_SECONDS = 5; // over which the outgoing rate is taken
const kindOf = (state) => KINDS[state] ?? "bad";

export class Card {
  constructor(name, actions) {
    Object.assign(this, { name, actions, visible: true, history: [], outs: [], webrtcFailed: false });
    this.canvas = element("canvas", { role: "img", ariaLabel: `Live picture of ${name}` });
    this.video = element("video", { muted: true, playsInline: true, autoplay: true, hidden: true, ariaLabel: `Live picture of ${name}` });
    this.badge = element("span", { className: "badge" });
    this.rate = element("span", { className: "rate" });
    this.nothing = element("p", { className: "nothing" });
    this.uri = element("p", { className: "uri" });
    this.reason = element("p", { className: "reason" });
    this.facts = element("p", { className: "facts" });
    this.spark = element("canvas", { className: "spark", role: "img", ariaLabel: "No numbers yet" });
    this.restart = this.button("Restart", () => actions.restart(name));
    this.widen = this.button("Enlarge", () => this.toggle());
    this.remove = this.button("Remove", () => actions.remove(name));
    const title = element("h3", { textContent: name, id: `stream-${name}` });
    this.root = element("li", { className: "card", dataset: { stream: name } },
      element("div", { className: "view" }, this.canvas, this.video, this.nothing, this.badge, this.rate),
      element("div", { className: "about" },
        element("div", { className: "title" }, title, this.spark), this.uri, this.reason, this.facts,
        element("div", { className: "last" }, this.widen, this.restart, this.remove)));
    this.root.setAttribute("aria-labelledby", title.id);
  }

  button(text, act) {
    const made = element("button", { type: "button", className: "small", textContent: text, onclick: act });
    made.setAttribute("aria-label", `${text} ${this.name}`);
    return made;
  }

  toggle() {
    const wide = this.root.classList.toggle("wide");
    this.widen.textContent = wide ? "Shrink" : "Enlarge";
    this.widen.setAttribute("aria-label", `${this.widen.textContent} ${this.name}`);
    this.root.scrollIntoView({ block: "nearest" });
  }

  // Shows what the API says; returns a sentence for screen readers if the state has changed.
  update(status) {
    const kind = kindOf(status.state);
    const changed = this.status && this.status.state !== status.state;
    this.status = status;
    this.badge.textContent = status.state;
    this.badge.dataset.kind = this.reason.dataset.kind = kind;
    this.root.dataset.state = status.state;
    this.root.classList.toggle("down", kind === "bad" || kind === "warn");
    this.showRate(status);
    this.uri.textContent = this.uri.title = status.uri;
    this.reason.textContent = [status.reason, this.retry(status)].filter(Boolean).join(" · ");
    this.reason.hidden = !this.reason.textContent;
    this.facts.textContent = [
      status.width ? `${status.width}×${status.height}` : "", status.decoder,
      `${status.frames_out.toLocaleString()} frames`,
      status.dropped ? `${status.dropped.toLocaleString()} dropped` : "",
      status.reconnects ? `${status.reconnects} reconnects` : "",
    ].filter(Boolean).join(" · ");
    this.nothing.textContent = kind === "good" && this.drawn ? "" : this.hint(status, kind);
    return changed ? `${this.name} is ${status.state}` : "";
  }

  // Frames per second that come; and that go out, where those are clearly fewer.
  showRate(status) {
    const now = performance.now() / 1000;
    this.outs.push([now, status.frames_out]);
    while (this.outs.length > 2 && now - this.outs[0][0] > OUT_SECONDS) this.outs.shift();
    const [then, frames] = this.outs[0];
    const out = now - then > 1 ? Math.max(0, status.frames_out - frames) / (now - then) : status.fps;
    const comes = status.fps.toFixed(1);
    const slow = out < status.fps * 0.8;
    this.rate.textContent = slow ? `${comes} → ${out.toFixed(1)} fps` : `${comes} fps`;
    this.rate.title = slow ? `${comes} frames per second come, ${out.toFixed(1)} go out` : `${comes} frames per second`;
  }

  hint(status, kind) {
    if (kind === "bad" || kind === "warn") return `No picture since ${clock(status.since)}`;
    if (kind === "still") return "It has come to its end";
    return this.drawn ? "" : "Waiting for the first picture …";
  }

  retry(status) {
    if (!status.next_retry) return "";
    const seconds = Math.max(0, Math.round(status.next_retry - Date.now() / 1000));
    return `next attempt in ${seconds} s`;
  }

  sample(time, value, seconds) {
    this.history.push({ time, value });
    while (this.history.length && time - this.history[0].time > seconds) this.history.shift();
  }

  drawHistory(seconds) {
    drawSpark(this.spark, this.history, seconds);
  }

  // A decoded JPEG.
  draw(picture) {
    if (!this.video.hidden) return;
    if (this.canvas.width !== picture.width || this.canvas.height !== picture.height) {
      Object.assign(this.canvas, { width: picture.width, height: picture.height });
    }
    this.canvas.getContext("2d").drawImage(picture, 0, 0);
    if (!this.drawn) this.nothing.textContent = "";
    this.drawn = true;
    this.root.dataset.transport = "jpeg";
  }

  // How the picture comes: "webrtc", "jpeg" or "off". Returns whether JPEG pictures are wanted.
  transport(mode) {
    const wanted = mode !== "off" && this.visible && this.status && kindOf(this.status.state) !== "still";
    const webrtc = wanted && mode === "webrtc" && !this.webrtcFailed;
    if (webrtc && !this.view) {
      this.video.onplaying = () => {
        this.video.hidden = false;
        this.root.dataset.transport = "webrtc";
        this.drawn = true;
        this.nothing.textContent = "";
      };
      this.view = new WebRtcView(pathOf(this.name), this.video, () => this.webrtcEnded());
    } else if (!webrtc && this.view) {
      this.leave();
    }
    return wanted && (!webrtc || this.video.hidden);
  }

  webrtcEnded() {
    this.webrtcFailed = true; // JPEG from now on, until another transport is chosen
    this.leave();
    this.actions.transportChanged();
  }

  leave() {
    this.view?.close();
    this.view = null;
    this.video.hidden = true;
    delete this.root.dataset.transport;
  }
}
