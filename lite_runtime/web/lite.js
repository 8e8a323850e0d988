// Runs and trains .ms models in a browser or in Node, by lite.wasm, which lies beside this file.
//
//   import { Session } from "./lite.js";
//   const session = await Session.load(await (await fetch("model.ms")).arrayBuffer());
//   const { logits } = session.run({ image });                                 // image: a Float32Array
//   const { loss } = session.run({ image, label, lr: 0.1 }, "train");
//   download(session.save());
//
// A session is an instance of the module with a memory of its own: it needs no closing, and shares nothing.

/** An error of the runtime, or of what it was given: one line. `status` is the name of lite.h's code. */
export class LiteError extends Error {
  constructor(message, status = "bad_argument") {
    super(message);
    this.name = "LiteError";
    this.status = status;
  }
}

/** A dense, row-major tensor: `data` is a typed array, `shape` a list of numbers. */
export class Tensor {
  constructor(data, shape = [data.length]) {
    const elements = shape.reduce((a, b) => a * b, 1);
    if (elements !== data.length) {
      throw new LiteError(`tensor: ${data.length} elements, want ${elements} for a shape of [${shape}]`);
    }
    this.data = data;
    this.shape = [...shape];
  }
}

/** An open model. */
export class Session {
  #wasm; // exports of the instance
  #at; // address of its lite_session
  #entries = new Map(); // name -> number, inputs and outputs
  #weights = new Map(); // name -> number, kind, shape, dtype
  #blocks = []; // memory for the inputs of a run: address and size
  #room = 0; // some bytes for structs

  /** Opens a model, given as bytes, which are copied.
   *
   *  Options: `backend`, "auto" or "ref"; `checkFinite`; limits of a run, `mostMemory`, `mostSteps`, `timeoutS`,
   *  `mostDepth`, as lite.h has them; `wasm`, the module where it does not lie beside this file: a URL, its bytes, or
   *  a WebAssembly.Module. Throws LiteError. */
  static async load(model, options = {}) {
    return new Session(await instantiate(options.wasm), model, options);
  }

  /** Use `load`. */
  constructor(wasm, model, options) {
    this.#wasm = wasm;
    this.#open(bytesOf(model, "model"), options);
    this.#readWeights();
    for (let i = 0; i < wasm.lite_entry_count(this.#at); ++i) {
      const name = this.#text(wasm.lite_entry_name(this.#at, i));
      if (name !== "") this.#entries.set(name, { number: i, inputs: null, outputs: null });
    }
  }

  /** The names of the entry points. */
  get entries() {
    return [...this.#entries.keys()];
  }

  /** What the file says about the model, by key. */
  get metadata() {
    const all = {};
    const at = this.#scratch();
    for (let i = 0; i < this.#wasm.lite_metadata_count(this.#at); ++i) {
      this.#check(this.#wasm.lite_metadata(this.#at, i, at, at + 4));
      const view = this.#view();
      all[this.#text(view.getUint32(at, true))] = this.#text(view.getUint32(at + 4, true));
    }
    return all;
  }

  /** What an entry takes, in order: name, dtype, and shape, in which a size that varies is a text. */
  inputs(entry) {
    return this.#infos(entry, "input");
  }

  /** What an entry gives, in order. */
  outputs(entry) {
    return this.#infos(entry, "output");
  }

  /** Runs an entry ("infer", or the first one, where none is named).
   *
   *  Inputs by name: a typed array of the input's type, a list of numbers, a number, or a Tensor, which says its shape;
   *  without one, the shape is the entry's, and one size that varies follows from the number of elements. Gives the
   *  outputs by name as Tensors, copies of the runtime's. Throws LiteError. */
  run(inputs, entry) {
    const row = this.#entry(entry);
    const takes = this.inputs(entry);
    for (const name of Object.keys(inputs)) {
      if (!takes.some((info) => info.name === name)) {
        throw new LiteError(`input ${name}: no such input; want ${list(takes)}`);
      }
    }
    takes.forEach((info, i) => {
      if (!(info.name in inputs)) throw new LiteError(`input ${info.name} is missing; want ${list(takes)}`);
      this.#setInput(row.number, i, info, tensorOf(inputs[info.name], info));
    });
    this.#check(this.#wasm.lite_run(this.#at, row.number));
    const results = {};
    this.outputs(entry).forEach((info, i) => {
      const tensor = this.#read((at) => this.#wasm.lite_output(this.#at, row.number, i, at));
      results[info.name] = new Tensor(this.#copyOf(tensor), tensor.shape);
    });
    return results;
  }

  /** Copies of the weights by name, as Tensors: all but constants, or the trainable ones alone. */
  weights({ trainable = false } = {}) {
    const all = {};
    for (const [name, weight] of this.#weights) {
      if (!trainable || weight.kind === "trainable") all[name] = this.weight(name);
    }
    return all;
  }

  /** A copy of one weight. */
  weight(name) {
    const { number } = this.#weightRow(name);
    const tensor = this.#read((at) => this.#wasm.lite_weight(this.#at, number, at, 0));
    return new Tensor(this.#copyOf(tensor), tensor.shape);
  }

  /** What is known of the weights that have names: name, kind (trainable, state or frozen), dtype and shape. */
  get weightInfos() {
    return [...this.#weights].map(([name, { kind, dtype, shape }]) => ({ name, kind, dtype, shape: [...shape] }));
  }

  /** Replaces trainable weights or state by name: all that are given, or on an error none. */
  setWeights(weights) {
    const checked = Object.entries(weights).map(([name, given]) => {
      const row = this.#weightRow(name);
      if (row.kind === "frozen") throw new LiteError(`weight ${name}: frozen; want a trainable one or state`);
      const data = given instanceof Tensor ? given.data : given;
      const array = arrayOf(data, row.dtype, `weight ${name}`);
      const elements = row.shape.reduce((a, b) => a * b, 1);
      const same = !(given instanceof Tensor) || String(given.shape) === String(row.shape);
      if (array.length !== elements || !same) {
        throw new LiteError(`weight ${name}: ${array.length} elements, want a shape of [${row.shape}]`);
      }
      return [row.number, array];
    });
    for (const [number, array] of checked) {
      const at = this.#block(0, array.byteLength);
      this.#bytes(at, array.byteLength).set(bytesOf(array));
      this.#check(this.#wasm.lite_set_weight(this.#at, number, at, array.byteLength));
    }
  }

  /** The model's file with the weights of today, without its signature: a Uint8Array. */
  save() {
    const at = this.#scratch();
    this.#check(this.#wasm.lite_save_memory(this.#at, at, at + 4));
    const file = this.#view().getUint32(at, true);
    const size = this.#view().getUint32(at + 4, true);
    const bytes = this.#bytes(file, size).slice();
    this.#wasm.lite_free(file);
    return bytes;
  }

  /** Bytes of memory that a run of an entry wants at the present sizes, beside weights. */
  plannedBytes(entry) {
    const at = this.#scratch();
    this.#check(this.#wasm.lite_memory_info(this.#at, this.#entry(entry).number, at));
    return this.#view().getUint32(at, true);
  }

  #open(bytes, options) {
    const given = this.#scratch();
    this.#wasm.lite_default_options(given);
    const backend = this.#allocate(32);
    const name = new TextEncoder().encode(`${options.backend ?? "auto"}`).subarray(0, 31);
    this.#bytes(backend, 32).fill(0).set(name);
    const view = this.#view();
    view.setInt32(given + OPTIONS.threads, 1, true);
    view.setInt32(given + OPTIONS.checkFinite, options.checkFinite ? 1 : 0, true);
    view.setUint32(given + OPTIONS.backend, backend, true);
    view.setBigUint64(given + OPTIONS.mostMemory, BigInt(options.mostMemory ?? 0), true);
    view.setBigInt64(given + OPTIONS.mostSteps, BigInt(options.mostSteps ?? 0), true);
    view.setFloat64(given + OPTIONS.timeoutS, options.timeoutS ?? 0, true);
    if (options.mostDepth !== undefined) view.setInt32(given + OPTIONS.mostDepth, options.mostDepth, true);
    const file = this.#allocate(bytes.length);
    const error = this.#allocate(ERROR_BYTES);
    const session = this.#allocate(4);
    this.#bytes(file, bytes.length).set(bytes);
    const status = this.#wasm.lite_open_memory(file, bytes.length, given, session, error, ERROR_BYTES);
    this.#wasm.free(file);
    if (status !== 0) throw new LiteError(this.#text(error), STATUS[status]);
    this.#at = this.#view().getUint32(session, true);
    for (const at of [error, session, backend]) this.#wasm.free(at);
  }

  #readWeights() {
    const kindAt = this.#allocate(4);
    for (let i = 0; i < this.#wasm.lite_weight_count(this.#at); ++i) {
      const tensor = this.#read((at) => this.#wasm.lite_weight(this.#at, i, at, kindAt));
      const kind = KINDS[this.#view().getInt32(kindAt, true)];
      const { name, shape, dtype } = tensor;
      if (kind !== "constant") this.#weights.set(name || `weight${i}`, { number: i, kind, shape, dtype });
    }
    this.#wasm.free(kindAt);
  }

  #entry(name) {
    const wanted = name ?? (this.#entries.has("infer") ? "infer" : this.entries[0]);
    const row = this.#entries.get(wanted);
    if (row === undefined) throw new LiteError(`entry ${wanted}: the model has ${this.entries.join(", ")}`);
    return row;
  }

  #weightRow(name) {
    const row = this.#weights.get(name);
    if (row === undefined) throw new LiteError(`weight ${name}: the model has no weight of this name`);
    return row;
  }

  // Infos of inputs or outputs, read once: these do not change.
  #infos(entry, which) {
    const row = this.#entry(entry);
    row[`${which}s`] ??= Array.from({ length: this.#wasm[`lite_${which}_count`](this.#at, row.number) }, (_, i) => {
      const tensor = this.#read((at) => this.#wasm[`lite_${which}`](this.#at, row.number, i, at));
      const text = this.#scratch();
      const shape = tensor.shape.map((_, axis) => {
        this.#check(this.#wasm[`lite_${which}_size`](this.#at, row.number, i, axis, text, ROOM));
        const size = this.#text(text);
        return /^\d+$/.test(size) ? Number(size) : size;
      });
      return { name: tensor.name, dtype: tensor.dtype, shape };
    });
    return row[`${which}s`];
  }

  #setInput(entry, i, info, { data, shape }) {
    const at = this.#block(i, data.byteLength);
    this.#bytes(at, data.byteLength).set(bytesOf(data));
    const tensor = this.#scratch();
    const view = this.#view();
    view.setUint32(tensor + TENSOR.data, at, true);
    view.setUint32(tensor + TENSOR.sizeBytes, data.byteLength, true);
    view.setInt32(tensor + TENSOR.dtype, DTYPES.indexOf(info.dtype), true);
    view.setInt32(tensor + TENSOR.rank, shape.length, true);
    shape.forEach((size, axis) => view.setInt32(tensor + TENSOR.shape + 4 * axis, size, true));
    this.#check(this.#wasm.lite_set_input(this.#at, entry, i, tensor));
  }

  // The tensor that fill(address) writes.
  #read(fill) {
    const at = this.#scratch();
    this.#check(fill(at));
    const view = this.#view();
    const rank = view.getInt32(at + TENSOR.rank, true);
    return {
      name: this.#text(view.getUint32(at + TENSOR.name, true)),
      at: view.getUint32(at + TENSOR.data, true),
      sizeBytes: view.getUint32(at + TENSOR.sizeBytes, true),
      dtype: DTYPES[view.getInt32(at + TENSOR.dtype, true)],
      shape: Array.from({ length: rank }, (_, axis) => view.getInt32(at + TENSOR.shape + 4 * axis, true)),
    };
  }

  #copyOf({ at, sizeBytes, dtype }) {
    return new ARRAYS[dtype](this.#bytes(at, sizeBytes).slice().buffer);
  }

  // Memory of the module; views of it end when it grows, so that none is kept.
  #view() {
    return new DataView(this.#wasm.memory.buffer);
  }
  #bytes(at, size) {
    return new Uint8Array(this.#wasm.memory.buffer, at, size);
  }
  #text(address) {
    const at = address >>> 0; // numbers of the module are signed
    const memory = new Uint8Array(this.#wasm.memory.buffer);
    return new TextDecoder().decode(memory.subarray(at, memory.indexOf(0, at)));
  }
  #allocate(size) {
    const at = this.#wasm.malloc(Math.max(size, 1));
    if (at === 0) throw new LiteError(`no memory for ${size} bytes`, "out_of_memory");
    return at >>> 0;
  }
  // ROOM bytes, which the next call may overwrite.
  #scratch() {
    this.#room ||= this.#allocate(ROOM);
    return this.#room;
  }
  // Block `i`, which keeps its bytes until a run has ended.
  #block(i, size) {
    const block = (this.#blocks[i] ??= { at: 0, size: -1 });
    if (size > block.size) {
      this.#wasm.free(block.at);
      block.size = -1;
      block.at = this.#allocate(size);
      block.size = size;
    }
    return block.at;
  }
  #check(status) {
    if (status !== 0) throw new LiteError(this.#text(this.#wasm.lite_last_error(this.#at)), STATUS[status]);
  }
}

const ARRAYS = {
  f32: Float32Array,
  f16: Uint16Array, // bits: JavaScript knows no such numbers
  i8: Int8Array,
  u8: Uint8Array,
  i32: Int32Array,
  i64: BigInt64Array,
  bool: Uint8Array, // of 0 and 1
  f64: Float64Array,
};

// lite.h's numbers, and where the fields of its structs lie (layout.cc).
const DTYPES = ["none", ...Object.keys(ARRAYS)];
const KINDS = ["constant", "trainable", "state", "frozen"];
const STATUS = [
  "ok",
  "bad_argument",
  "bad_file",
  "no_kernel",
  "bad_index",
  "out_of_memory",
  "io",
  "not_finite",
  "cancelled",
];
const TENSOR = { name: 0, data: 4, sizeBytes: 8, dtype: 12, rank: 16, shape: 20 };
const OPTIONS = { threads: 4, checkFinite: 8, backend: 12, mostMemory: 16, mostSteps: 24, timeoutS: 32, mostDepth: 40 };
const ERROR_BYTES = 256;
const ROOM = 256;

const list = (infos) => infos.map((info) => info.name).join(", ") || "none";

const isSingle = (value) => ["number", "bigint", "boolean"].includes(typeof value);

function bytesOf(data, place = "data") {
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  throw new LiteError(`${place}: want its bytes, an ArrayBuffer or a typed array`);
}

// What was given for an input, with its shape.
function tensorOf(given, info) {
  const place = `input ${info.name}`;
  if (given instanceof Tensor) return new Tensor(arrayOf(given.data, info.dtype, place), given.shape);
  const data = arrayOf(isSingle(given) ? [given] : given, info.dtype, place);
  const known = info.shape.filter((size) => typeof size === "number").reduce((a, b) => a * b, 1);
  const free = info.shape.length - info.shape.filter((size) => typeof size === "number").length;
  const size = free === 0 ? 1 : data.length / known;
  if (free > 1 || !Number.isInteger(size) || known * size !== data.length) {
    const advice = free > 1 ? "; want a Tensor, which says its shape" : "";
    throw new LiteError(`${place}: ${data.length} elements for a shape of [${info.shape}]${advice}`);
  }
  return new Tensor(data, info.shape.map((own) => (typeof own === "number" ? own : size)));
}

// A typed array of a type: lists of numbers that it can hold, floats of another width, integers that fit.
function arrayOf(data, dtype, place) {
  const Wanted = ARRAYS[dtype];
  if (data instanceof Wanted) return data;
  const name = data?.constructor?.name ?? typeof data;
  if (!Array.isArray(data) && !(ArrayBuffer.isView(data) && "length" in data)) {
    throw new LiteError(`${place}: ${name}, want ${Wanted.name}`);
  }
  const kind = kindOf(Wanted);
  if (Array.isArray(data) && !data.every(isSingle)) {
    throw new LiteError(`${place}: a list of more than numbers; want a flat list, or a Tensor`);
  }
  if (!Array.isArray(data) && (kindOf(data.constructor) !== kind || dtype === "f16")) {
    throw new LiteError(`${place}: ${name}, want ${Wanted.name}`);
  }
  if (kind === "float") return Wanted.from(data, Number);
  const array = dtype === "i64" ? toBigInts(data, place) : Wanted.from(data, Number);
  const wrong = array.findIndex((value, i) => value != data[i]); // as 1n == 1
  if (wrong >= 0) throw new LiteError(`${place}: ${data[wrong]} does not fit ${dtype}`);
  return array;
}

function toBigInts(data, place) {
  const whole = (value) => typeof value === "bigint" || Number.isSafeInteger(value);
  const wrong = data.findIndex((value) => !whole(value));
  if (wrong >= 0) throw new LiteError(`${place}: ${data[wrong]} does not fit i64`);
  return BigInt64Array.from(data, BigInt);
}

function kindOf(Type) {
  return Type === Float32Array || Type === Float64Array ? "float" : "integer";
}

let own; // the module beside this file, compiled once

async function instantiate(wasm) {
  own = wasm === undefined ? (own ?? compile(new URL("lite.wasm", import.meta.url))) : own;
  const module = await (wasm === undefined ? own : compile(wasm));
  let memory;
  const instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: system(() => memory) });
  memory = instance.exports.memory;
  instance.exports._initialize();
  return instance.exports;
}

async function compile(wasm) {
  if (wasm instanceof WebAssembly.Module) return wasm;
  if (!(wasm instanceof URL) && typeof wasm !== "string") return WebAssembly.compile(bytesOf(wasm, "wasm"));
  const url = new URL(wasm, import.meta.url);
  if (url.protocol === "file:") return WebAssembly.compile(await (await import("node:fs/promises")).readFile(url));
  const response = await fetch(url);
  if (!response.ok) throw new LiteError(`${url}: ${response.status} ${response.statusText}`, "io");
  return WebAssembly.compile(await response.arrayBuffer());
}

// What the C library imports. It has a clock, and no files.
function system(memory) {
  const BAD_FILE = 8;
  return {
    clock_time_get(_clock, _precision, at) {
      const now = BigInt(Math.round(performance.now() * 1e6));
      new DataView(memory().buffer).setBigUint64(at, now, true);
      return 0;
    },
    fd_close: () => BAD_FILE,
    fd_seek: () => BAD_FILE,
    fd_write: () => BAD_FILE,
  };
}
