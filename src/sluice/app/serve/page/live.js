// Live pictures as JPEG: those of all visible streams come in one answer, as browsers open few connections to a host.

import { call } from "./api.js";

const RATE = 10; // pictures per second and stream
const AGAIN = 2000; // milliseconds until a lost answer is asked for again
const decoder = new TextDecoder();

export class JpegFeed {
  constructor(show) {
    this.show = show; // (name, ImageBitmap)
    this.names = [];
    this.pending = new Set();
  }

  watch(names) {
    const wanted = [...names].sort();
    if (wanted.join("\n") === this.names.join("\n")) return;
    this.names = wanted;
    this.abort?.abort();
    if (wanted.length) this.run(wanted, (this.abort = new AbortController()));
  }

  async run(names, abort) {
    const query = names.map((name) => `stream=${encodeURIComponent(name)}`).join("&");
    while (!abort.signal.aborted) {
      try {
        const answer = await fetch(`/api/live?fps=${RATE}&${query}`, { signal: abort.signal, credentials: "same-origin" });
        if (answer.ok) await this.read(answer.body.getReader(), abort.signal);
      } catch (error) {
        if (error.name === "AbortError") return;
      }
      await new Promise((go) => setTimeout(go, AGAIN));
    }
  }

  async read(reader, signal) {
    let rest = new Uint8Array(0);
    while (!signal.aborted) {
      const { value, done } = await reader.read();
      if (done) return;
      const bytes = new Uint8Array(rest.length + value.length);
      bytes.set(rest);
      bytes.set(value, rest.length);
      rest = bytes.slice(this.parts(bytes, signal));
    }
  }

  // Shows every whole part and returns where the first that is not whole begins.
  parts(bytes, signal) {
    let at = 0;
    for (;;) {
      const end = headEnd(bytes, at);
      if (end < 0) return at;
      const head = decoder.decode(bytes.subarray(at, end));
      const length = Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 0);
      const next = end + length + 2; // the picture and its line end
      if (bytes.length < next) return at;
      const name = /x-stream: *(\S+)/i.exec(head)?.[1];
      this.decode(name, bytes.slice(end, end + length), signal);
      at = next;
    }
  }

  async decode(name, jpeg, signal) {
    if (this.pending.has(name)) return; // the one before is still being decoded: this one is late already
    this.pending.add(name);
    try {
      const picture = await createImageBitmap(new Blob([jpeg], { type: "image/jpeg" }));
      if (!signal.aborted) this.show(name, picture);
      picture.close();
    } catch {
      // A picture that cannot be decoded is left out.
    } finally {
      this.pending.delete(name);
    }
  }
}

function headEnd(bytes, from) {
  for (let at = from; at + 3 < bytes.length; at++) {
    if (bytes[at] === 13 && bytes[at + 1] === 10 && bytes[at + 2] === 13 && bytes[at + 3] === 10) return at + 4;
  }
  return -1;
}

// One stream by WebRTC, as WHEP does it: one offer with all candidates, one answer.
export class WebRtcView {
  constructor(path, video, onFailure) {
    Object.assign(this, { path, video, onFailure, closed: false });
    this.start().catch(() => this.fail());
  }

  async start() {
    const peer = (this.peer = new RTCPeerConnection());
    peer.addTransceiver("video", { direction: "recvonly" });
    peer.ontrack = (event) => {
      this.video.srcObject = event.streams[0] ?? new MediaStream([event.track]);
      this.video.play().catch(() => {});
    };
    peer.onconnectionstatechange = () => {
      if (["failed", "closed"].includes(peer.connectionState)) this.fail();
    };
    await peer.setLocalDescription(await peer.createOffer());
    await gathered(peer);
    const answer = await call("POST", `${this.path}/whep`, peer.localDescription.sdp, "application/sdp");
    this.session = answer.headers.get("Location");
    if (this.closed) return this.close();
    await peer.setRemoteDescription({ type: "answer", sdp: await answer.text() });
    this.timer = setTimeout(() => this.video.videoWidth || this.fail(), 8000);
  }

  fail() {
    if (this.closed) return;
    this.close();
    this.onFailure();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.peer?.close();
    this.video.srcObject = null;
    if (this.session) call("DELETE", this.session).catch(() => {});
    this.session = null;
  }
}

function gathered(peer) {
  if (peer.iceGatheringState === "complete") return Promise.resolve();
  return new Promise((done) => {
    const limit = setTimeout(done, 2000);
    peer.addEventListener("icegatheringstatechange", () => {
      if (peer.iceGatheringState !== "complete") return;
      clearTimeout(limit);
      done();
    });
  });
}
