// Tensors, and what becomes one: the types of models as typed arrays.

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

/** The typed array of each type of elements, in the order of lite.h's numbers. */
export const ARRAYS = {
  f32: Float32Array,
  f16: Uint16Array, // bits: JavaScript knows no such numbers
  i8: Int8Array,
  u8: Uint8Array,
  i32: Int32Array,
  i64: BigInt64Array,
  bool: Uint8Array, // of 0 and 1
  f64: Float64Array,
  tape: undefined, // between nodes alone
  i16: Int16Array,
};

const isSingle = (value) => ["number", "bigint", "boolean"].includes(typeof value);

/** The bytes of a buffer or a typed array, in place. */
export function bytesOf(data, place = "data") {
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  throw new LiteError(`${place}: want its bytes, an ArrayBuffer or a typed array`);
}

/** What was given for an input, as a Tensor of its type. */
export function tensorOf(given, info) {
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

/** A typed array of a type: lists of numbers that it can hold, floats of another width, integers that fit. */
export function arrayOf(data, dtype, place) {
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
