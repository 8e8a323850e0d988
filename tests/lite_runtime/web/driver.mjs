// Does what a list of jobs says, with lite.js: `node driver.mjs LITE.JS LITE.WASM < jobs.json > results.json`.
// A job is a model and steps on its session; a step's result is what it gave, or its error.
import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";

const [lite_js, lite_wasm] = process.argv.slice(2);
const { LiteError, Session, Tensor } = await import(pathToFileURL(lite_js));
const wasm = await WebAssembly.compile(await readFile(lite_wasm));

const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  bool: Uint8Array,
};

const bytes = (base64) => new Uint8Array(Buffer.from(base64, "base64")); // a copy on a boundary of its own
const base64 = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString("base64");
const map = (object, f) => Object.fromEntries(Object.entries(object).map(([key, value]) => [key, f(value)]));

function given(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  const data = new ARRAYS[value.dtype](bytes(value.data).buffer);
  return value.shape === undefined ? data : new Tensor(data, value.shape);
}
const told = ({ data, shape }) => ({ data: base64(data), type: data.constructor.name, shape });

const STEPS = {
  entries: (session) => session.entries,
  inputs: (session, { entry }) => session.inputs(entry),
  outputs: (session, { entry }) => session.outputs(entry),
  metadata: (session) => session.metadata,
  weight_infos: (session) => session.weightInfos,
  planned_bytes: (session, { entry }) => session.plannedBytes(entry),
  run: (session, { inputs, entry, times = 1 }) => {
    let results;
    for (let i = 0; i < times; ++i) results = session.run(map(inputs, given), entry);
    return map(results, told);
  },
  weights: (session, { trainable = false }) => map(session.weights({ trainable }), told),
  set: (session, { weights }) => session.setWeights(map(weights, given)) ?? null,
  save: (session) => base64(session.save()),
};

async function attempt(f) {
  try {
    return { gave: await f() };
  } catch (error) {
    if (!(error instanceof LiteError)) return { broke: `${error}` };
    return { error: error.message, status: error.status };
  }
}

async function done({ model, options, steps }) {
  let session;
  const results = [
    await attempt(async () => {
      session = await Session.load(bytes(model), { wasm, ...options });
      return null;
    }),
  ];
  for (const step of session === undefined ? [] : steps) {
    results.push(await attempt(() => STEPS[step.do](session, step)));
  }
  return results;
}

const results = [];
for (const job of JSON.parse(await text(process.stdin))) results.push(await done(job));
console.log(JSON.stringify(results));
