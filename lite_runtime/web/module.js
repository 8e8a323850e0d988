// Instances of lite.wasm, which lies beside this file.

import { bytesOf, LiteError } from "./tensor.js";

/** The exports of a new instance; `wasm` is the module, its bytes or its address, if it is another one. */
export async function instantiate(wasm) {
  const module = await (wasm === undefined ? compiled() : compile(wasm));
  let memory;
  const instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: system(() => memory) });
  memory = instance.exports.memory;
  instance.exports._initialize();
  return instance.exports;
}

let own; // the module beside this file, compiled once

function compiled() {
  own ??= compile(new URL("lite.wasm", import.meta.url)).catch((error) => {
    own = undefined; // so that the next session tries again
    throw error;
  });
  return own;
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
