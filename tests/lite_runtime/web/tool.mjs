// Runs a program of WebAssembly with the arguments behind its name: `node tool.mjs PROGRAM ...`.
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [program, ...args] = process.argv.slice(2);
const wasi = new WASI({ version: "preview1", args: [program, ...args], preopens: { "/": "/" } });
let exports;

// body(context), which may trap: then memory is as the trap left it, and the stack as it was before.
function survives(body, context) {
  const stack = exports.__stack_pointer.value;
  try {
    exports.__indirect_function_table.get(body)(context);
    return 0;
  } catch (error) {
    if (!(error instanceof WebAssembly.RuntimeError) && !(error instanceof RangeError)) throw error;
    exports.__stack_pointer.value = stack;
    return 1;
  }
}

const { instance } = await WebAssembly.instantiate(await readFile(program), {
  ...wasi.getImportObject(),
  host: { survives },
});
exports = instance.exports;
process.exitCode = wasi.start(instance);
