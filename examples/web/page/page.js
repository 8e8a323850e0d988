// The page: a board to draw on, what the network makes of it, and training on what was drawn.
import { Session, Tensor } from "./lite.js";

const SIDE = 8; // of the network's image
const PEN = 32; // width of a stroke on the board
const STEPS = 30; // of training for each digit that is taught
const REHEARSED = 50; // digits of the base's own data in each step, so that it does not forget them

const $ = (id) => document.getElementById(id);
const board = $("board");
const pen = board.getContext("2d", { willReadFrequently: true });
const taught = []; // digits of this page's user: pixels and label
let session, examples;

// ---- The network ----

async function open(bytes) {
  session = await Session.load(bytes);
  const trainable = session.weightInfos.filter((w) => w.kind === "trainable");
  const moving = trainable.reduce((sum, w) => sum + w.shape.reduce((a, b) => a * b, 1), 0);
  $("facts").textContent = `${bytes.byteLength.toLocaleString("en")} bytes of model, ${moving} weights that train.`;
}

function probabilities(pixels) {
  const logits = Object.values(session.run({ x: new Tensor(pixels, [1, SIDE, SIDE, 1]) }))[0].data;
  const most = Math.max(...logits);
  const powers = Array.from(logits, (z) => Math.exp(z - most));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((p) => p / sum);
}

// Steps on everything taught so far, each with some of the base's digits; the losses of the first and the last one.
function train() {
  const losses = [];
  const started = performance.now();
  for (let step = 0; step < STEPS; ++step) {
    const known = Array.from({ length: REHEARSED }, (_, i) => examples.known[(step * REHEARSED + i) % examples.known.length]);
    const batch = [...taught, ...known];
    const x = new Float32Array(batch.length * SIDE * SIDE);
    batch.forEach(({ pixels }, i) => x.set(pixels, i * SIDE * SIDE));
    const label = Int32Array.from(batch, ({ label }) => label);
    losses.push(session.run({ x, label, lr: 0.05 }, "train").loss.data[0]);
  }
  return { first: losses[0], last: losses.at(-1), ms: performance.now() - started };
}

// ---- The board ----

function clear() {
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, board.width, board.height);
  $("answer").textContent = "Draw a digit";
  show(new Float32Array(SIDE * SIDE), null);
}

function stroke(from, to) {
  pen.strokeStyle = "#1c2430";
  pen.lineWidth = PEN;
  pen.lineCap = "round";
  pen.beginPath();
  pen.moveTo(from.offsetX, from.offsetY);
  pen.lineTo(to.offsetX, to.offsetY);
  pen.stroke();
}

// The drawing as the data set has its own: cut out, scaled to fill 32 by 32 cells, ink counted in squares of 4 by 4.
function look() {
  const { data } = pen.getImageData(0, 0, board.width, board.height);
  const inked = (x, y) => data[4 * (y * board.width + x)] < 128;
  let [left, top, right, bottom] = [board.width, board.height, -1, -1];
  for (let y = 0; y < board.height; ++y) {
    for (let x = 0; x < board.width; ++x) {
      if (!inked(x, y)) continue;
      [left, right] = [Math.min(left, x), Math.max(right, x)];
      [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
    }
  }
  const pixels = new Float32Array(SIDE * SIDE);
  if (right < 0) return null;
  const cells = 4 * SIDE;
  const size = Math.max(right - left, bottom - top) + 1;
  const x0 = (left + right + 1 - size) / 2;
  const y0 = (top + bottom + 1 - size) / 2;
  for (let j = 0; j < cells; ++j) {
    for (let i = 0; i < cells; ++i) {
      const x = Math.floor(x0 + ((i + 0.5) * size) / cells);
      const y = Math.floor(y0 + ((j + 0.5) * size) / cells);
      if (x >= 0 && x < board.width && y >= 0 && y < board.height && inked(x, y)) {
        pixels[(j >> 2) * SIDE + (i >> 2)] += 1 / 16;
      }
    }
  }
  return pixels;
}

// ---- What is shown ----

let current = null; // the pixels that are shown, if there is ink

function show(pixels, chances) {
  current = chances ? pixels : null;
  const image = new ImageData(SIDE, SIDE);
  pixels.forEach((ink, i) => image.data.set([255 * (1 - ink), 255 * (1 - ink), 255 * (1 - ink), 255], 4 * i));
  $("seen").getContext("2d").putImageData(image, 0, 0);
  const best = chances ? chances.indexOf(Math.max(...chances)) : -1;
  [...$("bars").children].forEach((bar, k) => {
    bar.className = k === best ? "best" : "";
    bar.firstChild.style.width = `${chances ? 100 * chances[k] : 0}%`;
  });
  if (chances) $("answer").textContent = `It is a ${best} (${Math.round(100 * chances[best])} %)`;
}

function classify(pixels) {
  if (pixels) show(pixels, probabilities(pixels));
}

function teach(label) {
  if (!current) {
    $("learned").textContent = "Draw a digit first.";
    return;
  }
  taught.push({ label, pixels: current });
  const { first, last, ms } = train();
  $("learned").textContent =
    `Learned from ${taught.length} of yours: loss ${first.toFixed(3)} → ${last.toFixed(3)} in ${Math.round(ms)} ms.`;
  $("save").disabled = false;
  classify(current);
}

function showExample() {
  const { pixels } = examples.unseen[Math.floor(Math.random() * examples.unseen.length)];
  clear();
  const cell = board.width / SIDE;
  pixels.forEach((ink, i) => {
    pen.fillStyle = `rgb(28 36 48 / ${ink})`;
    pen.fillRect((i % SIDE) * cell, Math.floor(i / SIDE) * cell, cell, cell);
  });
  classify(Float32Array.from(pixels));
}

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([session.save()], { type: "application/octet-stream" }));
  link.download = "personal.ms";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000); // the browser has taken it by then
}

// ---- Start ----

function listen() {
  let last = null;
  board.addEventListener("pointerdown", (event) => {
    board.setPointerCapture(event.pointerId);
    last = event;
    stroke(event, event);
  });
  board.addEventListener("pointermove", (event) => {
    if (last) stroke(last, event);
    last &&= event;
  });
  board.addEventListener("pointerup", () => {
    last = null;
    classify(look());
  });
  $("clear").onclick = clear;
  $("example").onclick = showExample;
  $("save").onclick = save;
  $("open").onchange = async (event) => {
    try {
      await open(await event.target.files[0].arrayBuffer());
      classify(current);
    } catch (error) {
      $("learned").textContent = error.message;
    }
  };
}

for (let k = 0; k < 10; ++k) {
  $("bars").append(document.createElement("li"));
  $("bars").lastChild.append(document.createElement("div"));
  const button = document.createElement("button");
  button.textContent = k;
  button.onclick = () => teach(k);
  $("labels").append(button);
}
try {
  const [model, list] = await Promise.all([fetch("digits.ms"), fetch("examples.json")]);
  examples = await list.json();
  await open(await model.arrayBuffer());
  clear();
  listen();
} catch (error) {
  $("answer").textContent = error.message;
}
