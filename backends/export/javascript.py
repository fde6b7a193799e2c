"""`model.mjs` and `check.mjs`: a model in JavaScript, whose kernels are WebAssembly."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .c_check import TOLERANCES, told
from .host import ALIGNMENT, Function, Model
from .js_host import HELPERS, JsPrinter, zero
from .names import JS_TYPES, parts, type_text
from .printing import comment, filled

MATH = frozenset(
    "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp expm1 log log1p log2 log10 sqrt cbrt floor ceil trunc "
    "pow atan2 hypot".split()
)
"""Functions of the C library that JavaScript's `Math` has, in double and in single precision (with an f behind)."""
KNOWN = frozenset(
    {*MATH, *(f"{m}f" for m in MATH), *"fmax fmin fmaxf fminf fmod fmodf fabs fabsf fma fmaf round roundf".split()}
)
"""Those that a program may import."""

_IMPORTS = """\
// Functions of the C library that kernels call.
const library = (() => {
  const f = Math.fround, out = {};
  for (const name of [MATH]) {
    out[name] = Math[name];
    out[name + "f"] = (...xs) => f(Math[name](...xs));
  }
  const largest = (a, b) => a !== a ? b : b !== b ? a : Math.max(a, b), least = (a, b) => a !== a ? b : b !== b ? a : Math.min(a, b);
  const whole = x => Math.sign(x) * Math.floor(Math.abs(x) + 0.5);
  return Object.assign(out, {
    fmax: largest, fmaxf: largest, fmin: least, fminf: least, fmod: (a, b) => a % b, fmodf: (a, b) => f(a % b), fabs: Math.abs,
    fabsf: Math.abs, fma: (a, b, c) => a * b + c, fmaf: (a, b, c) => f(a * b + c), round: whole, roundf: whole,
  });
})();
"""

_RUNTIME = """\
// A model: its memory is the instance's, in which constants, the programs' own memory, arguments and results have fixed places.
export class Model {
  constructor(instance, constants) {
    const { memory, __heap_base: base, __indirect_function_table: table } = instance.exports;
    this.start = Math.ceil(base.value / 64) * 64;
    const size = this.start + SIZE;
    if (memory.buffer.byteLength < size) memory.grow(Math.ceil((size - memory.buffer.byteLength) / 65536));
    this.bytes = new Uint8Array(memory.buffer);
    this.view = new DataView(memory.buffer);
    if (constants) this.bytes.set(constants, this.start);
    this.kernels = [];
    for (const [query, wanted] of libraries) {
      const view = this.view, word = p => view.getUint32(p, true);
      const found = instance.exports[query](6, this.start + ENVIRONMENT);
      if (!found || word(word(found)) !== 6) throw new Error("the kernels belong to another model");
      const count = word(found + 12), kernels = word(found + 16), attributes = word(found + 20), names = word(found + 32);
      for (const name of wanted) {
        let k = 0;
        while (k < count && this.text(word(names + 4 * k)) !== name) k++;
        if (k === count || view.getUint16(attributes + 64 * k + 8, true) * 4096 > LOCAL)
          throw new Error("the kernels belong to another model");
        this.kernels.push(table.get(word(kernels + 4 * k)));
      }
    }
  }

  text(at) {
    let end = at;
    while (this.bytes[end]) end++;
    return String.fromCharCode(...this.bytes.subarray(at, end));
  }

  copy(to, of, size) {
    this.bytes.copyWithin(to, of, of + size);
  }

  fill(to, size, width, set, x) {
    for (let i = 0; i + width <= size; i += width) this.view[set](to + i, x, true);
  }

  // A kernel for each of its workgroups. What it is told of them lies at the end of the memory.
  launch(kernel, x, y, z, scalars, places, lengths) {
    const view = this.view, environment = this.start + ENVIRONMENT, told = environment + 128, group = told + 64;
    const pushed = group + 64, bound = pushed + 4 * scalars.length, sizes = bound + 4 * places.length;
    scalars.forEach((s, i) => view.setInt32(pushed + 4 * i, s, true));
    places.forEach((p, i) => view.setUint32(bound + 4 * i, p, true));
    lengths.forEach((n, i) => view.setUint32(sizes + 4 * i, n, true));
    [1, 1].forEach((n, i) => view.setUint32(told + 4 * i, n, true));
    view.setUint16(told + 8, 1, true), view.setUint16(told + 10, scalars.length, true);
    view.setUint32(told + 12, x, true), view.setUint32(told + 16, y, true), view.setUint16(told + 20, z, true);
    view.setUint8(told + 22, 1), view.setUint8(told + 23, places.length);
    [pushed, bound, sizes].forEach((p, i) => view.setUint32(told + 24 + 4 * i, p, true));
    view.setUint32(group + 16, this.start + LOCAL_AT, true), view.setUint32(group + 20, LOCAL, true);
    for (let k = 0; k < z; k++)
      for (let j = 0; j < y; j++)
        for (let i = 0; i < x; i++) {
          view.setUint32(group, i, true), view.setUint32(group + 4, j, true), view.setUint16(group + 8, k, true);
          if (this.kernels[kernel](environment, told, group)) throw new Error("a kernel reported an error");
        }
  }

  // An argument brought to its place.
  bring(name, x, type, length, at) {
    if (!(x instanceof type)) throw new TypeError(`${name}: expected a ${type.name}, got ${x?.constructor?.name ?? x}`);
    if (x.length !== length) throw new RangeError(`${name}: expected ${length} elements, got ${x.length}`);
    this.bytes.set(new Uint8Array(x.buffer, x.byteOffset, x.byteLength), at);
  }

  // A result, taken from its place.
  take(type, length, at) {
    return new type(this.bytes.slice(at, at + length * type.BYTES_PER_ELEMENT).buffer);
  }
FUNCTIONS
}

const here = import.meta.url;

async function read(name) {
  const url = new URL(name, here);
  if (url.protocol === "file:") return (await import("node:fs/promises")).readFile(url);
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
  return new Uint8Array(await answer.arrayBuffer());
}

// A model from the bytes of model.wasm (null where there is none) and of weights.bin (null where there are no constants).
export async function create(wasm, weights) {
  if (WEIGHTS) {
    const view = weights && new DataView(weights.buffer, weights.byteOffset, weights.byteLength);
    if (!weights || weights.length !== WEIGHTS + 64 || view.getBigUint64(16, true) !== IDENTITYn)
      throw new Error("these weights belong to another model");
  }
  const { instance } = await WebAssembly.instantiate(wasm, { env: library });
  return new Model(instance, WEIGHTS ? weights.subarray(64) : null);
}

// A model from the files beside this one.
export async function load() {
  return create(await read("model.wasm"), WEIGHTS ? await read("weights.bin") : null);
}
"""

_CHECK = """\
// Runs the functions of NAME on the arguments that it was exported with, and compares with the results of quire: node check.mjs
import { readFileSync } from "node:fs";
import { load } from "./model.mjs";

const cases = CASES;
const data = readFileSync(new URL("check.bin", import.meta.url));
let at = 0;
const part = ([, type, length]) => {
  const kind = globalThis[type], size = length * kind.BYTES_PER_ELEMENT;
  const bytes = data.buffer.slice(data.byteOffset + at, data.byteOffset + at + size);
  at += size;
  return new kind(bytes);
};
const half = bits => {
  const e = bits >> 10 & 31, m = bits & 1023, x = e === 31 ? (m ? NaN : Infinity) : e ? (1024 + m) * 2 ** (e - 25) : m * 2 ** -24;
  return bits & 32768 ? -x : x;
};
const upper = bits => new Float32Array(new Uint32Array([bits << 16]).buffer)[0];
const model = await load();
let wrong = false;
for (const { name, args, results } of cases) {
  const given = args.map(part), expected = results.map(part);
  const got = Object.values(model[name](...given));
  results.forEach(([label, , , tolerance, dtype, rounding], k) => {
    const number = dtype === "float16" ? half : dtype === "bfloat16" ? upper : Number;
    const xs = Array.from(got[k], number), ys = Array.from(expected[k], number);
    const most = Math.max(1e-30, ...ys.filter(Number.isFinite).map(Math.abs));
    const off = xs.map((x, i) => x === ys[i] || (x !== x && ys[i] !== ys[i]) ? 0 : Math.abs(x - ys[i]));
    const error = off.reduce((a, b) => (b <= a ? a : b), 0);
    if (!(error <= Math.max(tolerance * most, rounding))) {
      wrong = true;
      console.error(`${name}.${label}: off by ${error}, the largest is ${most}: WRONG`);
    }
  });
}
console.log(wrong ? "WRONG" : "ok");
process.exit(wrong ? 1 : 0);
"""


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _places(f: Function, start: int) -> tuple[list[int], dict[int, int], int]:
    """Where arguments and own results lie, from a model's start, and where they end."""
    arguments: list[int] = []
    results: dict[int, int] = {}
    for leaf in f.arguments:
        arguments.append(start)
        start += _aligned(leaf.nbytes)
    for i in (r for r in range(len(f.results)) if f.left_in(r) is None):
        results[i] = start
        start += _aligned(f.results[i].nbytes)
    return arguments, results, start


def program(model: Model) -> str:
    """The text of `model.mjs`."""
    arena = _aligned(len(model.weights.data))
    local = arena + _aligned(model.arena)
    first = local + model.local
    ends = [_places(f, first)[2] for f in model.functions]
    environment = max(ends)
    texts: list[str] = []
    kernels = 0
    for f, offsets in zip(model.functions, model.weights.offsets, strict=True):
        texts += _method(f, offsets, kernels, arena, first)
        kernels += len(f.host["kernels"])
    libraries = json.dumps(
        [
            [f"{f.symbol}_kernels_library_query", [k["name"] for k in f.host["kernels"]]]
            for f in model.functions
            if f.host["kernels"]
        ]
    )
    most = max((_told(f.host["steps"]) for f in model.functions), default=0)
    runtime = filled(
        _RUNTIME,
        {
            "FUNCTIONS": "\n".join(texts), "ENVIRONMENT": environment, "LOCAL_AT": local, "LOCAL": model.local,
            "WEIGHTS": len(model.weights.data), "IDENTITY": model.identity, "SIZE": environment + 256 + most,
        },
    )  # fmt: skip
    imports = filled(_IMPORTS, {"MATH": ", ".join(f'"{m}"' for m in sorted(MATH))})
    head = f"// {model.name}: written by quire {model.version} for WebAssembly. See manifest.json for the functions.\n"
    return "\n".join([head + HELPERS, imports, f"const libraries = {libraries};\n", runtime])


def _told(steps: Sequence[Sequence[object]]) -> int:
    """The bytes that the largest launch is told with."""
    most = 0
    for step in steps:
        if step[0] == "dispatch":
            _, _, scalars, bindings, _ = step
            most = max(most, 4 * len(scalars) + 8 * len(bindings))  # pyright: ignore[reportArgumentType]
        for part in step[1:]:
            if isinstance(part, list) and step[0] in ("if", "for", "while"):
                most = max(most, _told(part))  # pyright: ignore[reportUnknownArgumentType]
        if step[0] == "switch":
            most = max(most, _told(step[3]), *(_told(c[1]) for c in step[2]))  # pyright: ignore
    return most


def _method(f: Function, offsets: Sequence[int], first_kernel: int, arena: int, first: int) -> list[str]:
    printer = JsPrinter(f, offsets, first_kernel=first_kernel)
    printer.steps(f.host["steps"])
    arguments, results, _ = _places(f, first)
    used = {x: k for k, x in enumerate(f.kept)}
    lines = ["", "  /**"]
    lines += [
        f"   * @param {{{JS_TYPES[x.dtype.name]}}} {x.name} {type_text(x.dtype, x.shape)} {comment(x.path)}"
        for x in f.arguments
    ]
    returns = ", ".join(f"{x.name}: {JS_TYPES[x.dtype.name]}" for x in f.results)
    lines += [f"   * @returns {{{{{returns}}}}} {', '.join(type_text(x.dtype, x.shape) for x in f.results)}", "   */"]
    lines.append(f"  {f.name}({', '.join(x.name for x in f.arguments)}) {{")
    lines.append(f"    const weights = this.start, arena = this.start + {arena};")
    names: dict[int, str] = {}
    place = [f"a{used[i]}" if i in used else f"u{i}" for i in range(len(f.arguments))]
    for i, leaf in enumerate(f.arguments):
        lines.append(f"    const {place[i]} = this.start + {arguments[i]};")
        kind, size = JS_TYPES[leaf.dtype.name], leaf.size * parts(leaf.dtype)
        lines.append(f'    this.bring("{leaf.name}", {leaf.name}, {kind}, {size}, {place[i]});')
    for i in range(len(f.results)):
        if (a := f.left_in(i)) is not None:
            names[i] = place[a]
            continue
        names[i] = f.pointer(i)
        lines.append(f"    const {names[i]} = this.start + {results[i]};")
    before, after = f.copies()
    lines += [f"    this.copy({names[i]}, {place[a]}, {f.results[i].nbytes});" for i, a in before]
    variables = [f"v{i} = {zero(kind)}" for i, kind in enumerate(f.host["variables"])]
    if variables:
        lines.append(f"    let {', '.join(variables)};")
    lines += printer.lines
    lines += [f"    this.copy({names[i]}, {names[of]}, {f.results[i].nbytes});" for i, of in after]
    lines.append("    return {")
    for i, leaf in enumerate(f.results):
        kind, size = JS_TYPES[leaf.dtype.name], leaf.size * parts(leaf.dtype)
        lines.append(f"      {leaf.name}: this.take({kind}, {size}, {names[i]}),")
    return [*lines, "    };", "  }"]


def check(model: Model, rounding: Sequence[Sequence[float]]) -> str:
    """The text of `check.mjs`; `rounding` is how far that of the arguments may move each result of each function."""
    cases = [
        {
            "name": f.name,
            "args": [[x.name, JS_TYPES[x.dtype.name], x.size * parts(x.dtype)] for x in f.arguments],
            "results": [
                [
                    x.name,
                    JS_TYPES[x.dtype.name],
                    x.size * parts(x.dtype),
                    TOLERANCES.get(x.dtype.name, 0.0),
                    x.dtype.name,
                    off,
                ]
                for x, off in zip(f.results, told(own, f), strict=True)
            ],
        }
        for f, own in zip(model.functions, rounding, strict=True)
    ]
    return filled(_CHECK, {"NAME": model.name, "CASES": json.dumps(cases)})
