// The types of lite.js.

export type DType = "f32" | "f16" | "i8" | "u8" | "i32" | "i64" | "bool" | "f64" | "i16";

/** float16 lies in a Uint16Array, as bits; bool in a Uint8Array, as 0 and 1. */
export type TypedArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | BigInt64Array;

export type Status =
  | "bad_argument"
  | "bad_file"
  | "no_kernel"
  | "bad_index"
  | "out_of_memory"
  | "io"
  | "not_finite"
  | "cancelled";

/** An error of the runtime, or of what it was given: one line. */
export class LiteError extends Error {
  constructor(message: string, status?: Status);
  readonly status: Status;
}

/** A dense, row-major tensor. */
export class Tensor<A extends TypedArray = TypedArray> {
  constructor(data: A, shape?: readonly number[]);
  readonly data: A;
  readonly shape: number[];
}

/** What an entry takes or gives. A size is a number, or the text of one that may vary. */
export interface TensorInfo {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly (number | string)[];
}

export interface WeightInfo {
  readonly name: string;
  readonly kind: "trainable" | "state" | "frozen";
  readonly dtype: DType;
  readonly shape: readonly number[];
}

/** How a model is opened. Limits are those of a run; 0 is none. */
export interface Options {
  /** "auto", the default: SIMD kernels and, where there is none, reference ones; or "ref" or "wasm". */
  backend?: "auto" | "ref" | "wasm";
  /** Stop at the first input or result that holds a NaN or an infinity; such a run changes no weight. */
  checkFinite?: boolean;
  /** Bytes for results, frames and tapes. */
  mostMemory?: number;
  /** Nodes, those in loops counted each turn. */
  mostSteps?: number;
  timeoutS?: number;
  /** Sub-graphs inside of each other, as in a recursion; 100,000 by default. */
  mostDepth?: number;
  /** The module, where it does not lie beside lite.js: itself, its bytes, or its address as seen from lite.js. */
  wasm?: string | URL | ArrayBuffer | Uint8Array | WebAssembly.Module;
}

export type Input = Tensor | TypedArray | readonly (number | bigint | boolean)[] | number | bigint | boolean;

/** An open model: an instance of the module with a memory of its own. */
export class Session {
  private constructor();
  /** Opens a model, given as bytes, which are copied. Rejects with a LiteError. */
  static load(model: ArrayBuffer | Uint8Array, options?: Options): Promise<Session>;
  readonly entries: string[];
  readonly metadata: Record<string, string>;
  readonly weightInfos: WeightInfo[];
  inputs(entry?: string): readonly TensorInfo[];
  outputs(entry?: string): readonly TensorInfo[];
  /** Runs an entry: "infer", or the first one, where none is named. Outputs are copies. Throws LiteError. */
  run(inputs: Record<string, Input>, entry?: string): Record<string, Tensor>;
  /** Copies of all weights but constants, or of the trainable ones alone. */
  weights(which?: { trainable?: boolean }): Record<string, Tensor>;
  weight(name: string): Tensor;
  /** Replaces trainable weights or state: all that are given, or on an error none. Throws LiteError. */
  setWeights(weights: Record<string, Input>): void;
  /** The model's file with the weights of today, without its signature. */
  save(): Uint8Array;
  /** Bytes of memory that a run wants at the present sizes, beside weights. */
  plannedBytes(entry?: string): number;
}
