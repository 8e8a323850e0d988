// Runs and trains .ms models in a browser or in Node, by lite.wasm, which lies beside this file.
//
//   import { Session } from "./lite.js";
//   const session = await Session.load(await (await fetch("model.ms")).arrayBuffer());
//   const { logits } = session.run({ image });                                 // image: a Float32Array
//   const { loss } = session.run({ image, label, lr: 0.1 }, "train");
//   download(session.save());
//
// A session is an instance of the module with a memory of its own: it needs no closing, and shares nothing.

import { instantiate } from "./module.js";
import { ARRAYS, arrayOf, bytesOf, LiteError, Tensor, tensorOf } from "./tensor.js";

export { LiteError, Tensor };

/** An open model. */
export class Session {
  #wasm; // exports of the instance
  #at; // address of its lite_session
  #counts; // how many entries, weights and pairs of metadata the model has
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
    this.#readCounts();
    this.#readWeights();
    for (let i = 0; i < this.#counts.entries; ++i) {
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
    const at = this.#scratch();
    const pairs = Array.from({ length: this.#counts.metadata }, (_, i) => {
      this.#check(this.#wasm.lite_metadata(this.#at, i, at, at + 4));
      const view = this.#view();
      return [this.#text(view.getUint32(at, true)), this.#text(view.getUint32(at + 4, true))];
    });
    return Object.fromEntries(pairs); // which gives names such as __proto__ no power
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
      if (!Object.hasOwn(inputs, info.name)) throw new LiteError(`input ${info.name} is missing; want ${list(takes)}`);
      this.#setInput(row.number, i, info, tensorOf(inputs[info.name], info));
    });
    this.#check(this.#wasm.lite_run(this.#at, row.number));
    const results = this.outputs(entry).map((info, i) => {
      const tensor = this.#read((at) => this.#wasm.lite_output(this.#at, row.number, i, at));
      return [info.name, new Tensor(this.#copyOf(tensor), tensor.shape)];
    });
    return Object.fromEntries(results);
  }

  /** Copies of the weights by name, as Tensors: all but constants, or the trainable ones alone. */
  weights({ trainable = false } = {}) {
    const wanted = this.weightInfos.filter((info) => !trainable || info.kind === "trainable");
    return Object.fromEntries(wanted.map(({ name }) => [name, this.weight(name)]));
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
    for (let i = 0; i < this.#counts.weights; ++i) {
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
    row[`${which}s`] ??= Array.from(this.#idsOf(row.number, which), (id, i) => {
      const tensor = this.#read((at) => this.#wasm[`lite_${which}`](this.#at, row.number, i, at));
      const text = this.#scratch();
      const shape = tensor.shape.map((_, axis) => {
        this.#check(this.#wasm.lite_size_text(this.#at, row.number, id, axis, text, ROOM));
        const size = this.#text(text);
        return /^\d+$/.test(size) ? Number(size) : size;
      });
      return { name: tensor.name, dtype: tensor.dtype, shape };
    });
    return row[`${which}s`];
  }

  // The ids of an entry's inputs or outputs.
  #idsOf(entry, which) {
    const at = this.#scratch();
    this.#check(this.#wasm.lite_entry_info(this.#at, entry, at));
    const view = this.#view();
    const outputs = view.getInt32(at + ENTRY.outputCount, true);
    if (which === "output") return this.#numbers(view.getUint32(at + ENTRY.outputIds, true), outputs);
    const inputs = view.getInt32(at + ENTRY.inputCount, true);
    return Array.from({ length: inputs }, (_, i) => this.#counts.weights + i);
  }

  #readCounts() {
    const at = this.#scratch();
    this.#wasm.lite_model_info(at, this.#at);
    const [entries, weights, , metadata] = this.#numbers(at, 4);
    this.#counts = { entries, weights, metadata };
  }

  // So many numbers of 32 bits.
  #numbers(at, count) {
    const view = this.#view();
    return Array.from({ length: count }, (_, i) => view.getInt32(at + 4 * i, true));
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
      shape: this.#numbers(at + TENSOR.shape, rank),
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
const ENTRY = { inputCount: 0, outputCount: 4, outputIds: 12 };
const OPTIONS = { threads: 4, checkFinite: 8, backend: 12, mostMemory: 16, mostSteps: 24, timeoutS: 32, mostDepth: 40 };
const ERROR_BYTES = 256;
const ROOM = 256;

const list = (infos) => infos.map((info) => info.name).join(", ") || "none";
