// The chart and the small ones on the cards: a line with its area, drawn in the page's colours.

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function fitted(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}

function niceTop(most) {
  const step = 10 ** Math.floor(Math.log10(Math.max(most, 1)));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * step).find((top) => top >= most) ?? most;
}

function line(pen, points, base) {
  if (points.length < 2) return;
  pen.beginPath();
  points.forEach(([x, y], index) => (index ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.strokeStyle = colour("--accent");
  pen.lineWidth = 1.75;
  pen.lineJoin = "round";
  pen.stroke();
  pen.lineTo(points.at(-1)[0], base);
  pen.lineTo(points[0][0], base);
  pen.closePath();
  pen.fillStyle = colour("--area");
  pen.fill();
}

// samples: [{time, value}], oldest first; seconds: how far back the chart goes.
export function drawChart(canvas, samples, seconds) {
  const { pen, width, height } = fitted(canvas);
  const left = 34, bottom = 18, top = 8;
  const base = height - bottom;
  const most = niceTop(Math.max(1, ...samples.map((sample) => sample.value)));
  const end = samples.at(-1)?.time ?? 0;
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  for (const share of [0, 0.5, 1]) {
    const y = Math.round(base - share * (base - top)) + 0.5;
    pen.strokeStyle = colour("--line");
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(left, y);
    pen.lineTo(width, y);
    pen.stroke();
    pen.fillStyle = colour("--quiet");
    pen.textAlign = "right";
    pen.fillText(String(most * share), left - 6, y);
  }
  const x = (time) => width - ((end - time) / seconds) * (width - left);
  pen.textBaseline = "alphabetic";
  for (const minutes of [4, 3, 2, 1]) {
    pen.textAlign = "center";
    pen.fillText(`−${minutes} min`, x(end - minutes * 60), height - 3);
  }
  const shown = samples.filter((sample) => end - sample.time <= seconds);
  line(pen, shown.map((sample) => [x(sample.time), base - (sample.value / most) * (base - top)]), base);
  canvas.setAttribute("aria-label", described(shown));
}

export function drawSpark(canvas, samples, seconds) {
  const { pen, width, height } = fitted(canvas);
  const most = Math.max(1, ...samples.map((sample) => sample.value));
  const end = samples.at(-1)?.time ?? 0;
  const shown = samples.filter((sample) => end - sample.time <= seconds);
  const points = shown.map((sample) => [
    width - ((end - sample.time) / seconds) * width,
    height - 2 - (sample.value / most) * (height - 4),
  ]);
  line(pen, points, height);
  canvas.setAttribute("aria-label", described(shown));
}

function described(samples) {
  if (!samples.length) return "No numbers yet";
  const values = samples.map((sample) => sample.value);
  const words = [values.at(-1), Math.min(...values), Math.max(...values)].map((value) => value.toFixed(1));
  return `Frames per second: now ${words[0]}, least ${words[1]}, most ${words[2]}`;
}
