// The other side of wasm.py: runs models in Node as often as it is told, and says how many seconds that took.
//   node wasm.mjs LITE.JS LITE.WASM [ORT.MJS]
// A line in is JSON: what to open or run; a line out is the answer.
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [lite_js, lite_wasm, ort_mjs] = process.argv.slice(2);
const { Session, Tensor } = await import(pathToFileURL(lite_js));
const module = await WebAssembly.compile(await readFile(lite_wasm));
const ort = ort_mjs === undefined ? undefined : await import(pathToFileURL(ort_mjs));
if (ort !== undefined) ort.env.wasm.numThreads = 1;

const WARM_MS = 1000;
const ARRAYS = { float32: Float32Array, int32: Int32Array };
const data = ({ dtype, base64 }) => new ARRAYS[dtype](new Uint8Array(Buffer.from(base64, "base64")).buffer);
const map = (object, f) => Object.fromEntries(Object.entries(object).map(([key, value]) => [key, f(value)]));
const runs = new Map();

async function open({ name, who, model, inputs, entry }) {
  const bytes = await readFile(model);
  if (who === "onnxruntime-web") {
    const session = await ort.InferenceSession.create(bytes, { executionProviders: ["wasm"] });
    const feed = map(inputs, (x) => new ort.Tensor("float32", data(x), x.shape));
    runs.set(name, () => session.run(feed));
  } else {
    const session = await Session.load(bytes, { wasm: module, backend: who });
    const feed = map(inputs, (x) => new Tensor(data(x), x.shape));
    runs.set(name, () => session.run(feed, entry));
  }
  const results = await runs.get(name)();
  // An engine compiles anew, and better, what has run for a while.
  for (const end = performance.now() + WARM_MS; performance.now() < end; ) await runs.get(name)();
  return Array.from(Object.values(results)[0].data).slice(0, 1000);
}

async function run({ name, calls }) {
  const once = runs.get(name);
  const wait = once() instanceof Promise;
  const start = performance.now();
  for (let i = 0; i < calls; ++i) {
    if (wait) await once();
    else once();
  }
  return (performance.now() - start) / 1e3;
}

for await (const line of createInterface({ input: process.stdin })) {
  const job = JSON.parse(line);
  console.log(JSON.stringify(await (job.calls === undefined ? open(job) : run(job))));
}
