"""Exported programs, compiled by a C compiler or linked to WebAssembly, and run."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import quire
import quire.export
import quire.numpy as qnp
from quire import lax
from quire.backends.export import names
from quire.backends.export.targets import export_target
from quire.backends.iree import native_launcher  # pyright: ignore
from quire.backends.targets import cpu_features
from quire.export.__main__ import main
from quire.export.folders import write_c
from quire.export.programs import lowered_for, model_of, prepare
from quire.export.web import write_javascript
from quire.ir.errors import ExportError

from .groups import exported_with_examples, groups
from .table import TABLE

HALF = ("half", "to_half")
LEVEL = "x86-64-v3" if {"avx2", "fma"} <= cpu_features() else "x86-64-v2"
FEW = (
    "mlp",
    "fft",
    "sort",
    "while_fft",
    "cond",
    "cholesky",
    "normal",
    "cumsum",
    "at_add",
    "donated_tree",
    "scan",
    "complex",
)


def need(*tools: str) -> None:
    missing = [t for t in tools if shutil.which(t) is None]
    if missing:
        pytest.skip(f"there is no {' and no '.join(missing)} here")


def need_host() -> None:
    need("cc")
    try:
        export_target("host")
    except ExportError as error:
        pytest.skip(str(error))


def run(*command: str, cwd: Path, **kwargs):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, **kwargs)


def built(folder: Path, source: str, *flags: str) -> Path:
    """A program beside an exported one."""
    (folder / "program.c").write_text(source)
    objects = [p.name for p in folder.glob("*_kernels.o")]
    made = run(
        "cc",
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
        *flags,
        "-o",
        "program",
        "program.c",
        "model.c",
        *objects,
        "-lm",
        cwd=folder,
    )
    assert not made.returncode, made.stderr
    return folder / "program"


def test_table_in_c(tmp_path):
    """All functions in one program, against the reference backend."""
    if "sse4_2" not in cpu_features():
        pytest.skip("this processor is no x86-64-v2")
    need("cc")
    target = export_target(LEVEL)
    made, examples = exported_with_examples(groups(list(TABLE)), "table", target)
    model = model_of(made, name="table", target=target, threads=0)
    assert write_c(tmp_path, made, examples, model, target, True).checked


def test_table_in_javascript(tmp_path):
    """Every other group of functions; half floats are refused."""
    need("node")
    target = export_target("wasm32")
    chosen = [n for i, n in enumerate(TABLE) if n not in HALF and i % 5 in (0, 3)]
    made, examples = exported_with_examples(groups(chosen), "table", target)
    model = model_of(made, name="table", target=target, threads=0)
    assert write_javascript(tmp_path, examples, model, target, True).checked
    with pytest.raises(ExportError, match=r"target wasm32 cannot do dtype float16 \(at .*table.py:\d+"):
        exported_with_examples({"half": TABLE["half"]}, "table", target)


@pytest.mark.parametrize("name", ["aarch64", "riscv64"])
def test_other_processors(name, tmp_path):
    target = export_target(name)
    need(target.compiler, target.emulator)
    made, examples = exported_with_examples(groups(FEW), "few", target)
    model = model_of(made, name="few", target=target, threads=0)
    assert write_c(tmp_path, made, examples, model, target, True).checked


def loop(x, n, w):
    """A loop of which the data decides, kernels of quire's, a branch and a random number."""

    def body(c):
        y, k = c
        return qnp.sort(qnp.fft.rfft(y).real[:8].repeat(2)) + y, k + 1

    y, k = lax.while_loop(lambda c: c[1] < n, body, (x, 0))
    z = lax.cond(k > 2, lambda v: qnp.cumsum(v @ w), lambda v: v * 2, y)
    return {"y": y, "z": z, "u": quire.random.uniform(quire.random.key(3), (4,)) + z[0]}


@pytest.fixture(scope="module")
def looped(tmp_path_factory):
    """A folder for this machine, with weights in a file; and its arguments and quire's results."""
    need_host()
    folder = tmp_path_factory.mktemp("loop")
    w = np.random.default_rng(1).normal(size=(16, 16)).astype(np.float32) / 8
    big = np.random.default_rng(2).normal(size=(16, 100)).astype(np.float32)

    def f(x, n):
        return loop(x, n, w) | {"big": x @ big}

    x = np.random.default_rng(3).normal(size=16).astype(np.float32)
    made = quire.export.c(f, x, np.int32(3), to=folder, target="host", name="loop")
    assert made.checked and "weights.bin" in made.files
    return folder, f, x, tuple(made.files)


def test_bits_are_those_of_quire(looped):
    folder, *_ = looped
    assert not run("make", "-s", "check", cwd=folder).returncode
    exact = run("./check", "--exact", cwd=folder)
    assert exact.returncode == 0, exact.stderr


DRIVER = r"""
#include "model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define SHOW(code) printf("%s|%s\n", loop_message(code), loop_detail(c))
int main(void) {
    loop_context *c = NULL, *two;
    printf("%s\n", loop_message(loop_create(&c, "no such file")));
    printf("%s\n", loop_message(loop_create(&c, "check.bin")));
    printf("%s\n", loop_message(loop_create(NULL, "weights.bin")));
    if (loop_create(&c, "weights.bin")) return 1;
    unsigned char *memory = malloc(4096 + 4);
    for (int off = 0; off < 2; off++) {  /* aligned to nothing: the same results */
        float *x = (float *)(void *)(memory + 4 * off), *big = x + 100, *u = big + 120, *y = u + 20, *z = y + 40;
        FILE *f = fopen("check.bin", "rb");
        if (fread(x, 4, LOOP_RUN_X_LENGTH, f) != LOOP_RUN_X_LENGTH) return 2;
        int32_t n;
        if (fread(&n, 4, 1, f) != 1) return 2;
        fclose(f);
        if (loop_run(c, x, &n, big, u, y, z)) return 3;
        float first = y[0];
        if (loop_create_of(&two, c) || loop_run(two, x, &n, big, u, y, z) || first != y[0]) return 4;
        loop_destroy(two);
        SHOW(loop_run(c, NULL, &n, big, u, y, z));
        SHOW(loop_run(c, x, &n, big, u, NULL, z));
        void *args[] = {x, &n}, *results[] = {big, u, y, z};
        size_t sizes[] = {64, 4}, result_sizes[] = {400, 16, 64, 64};
        SHOW(loop_run_checked(c, args, sizes, 2, results, result_sizes, 4));
        sizes[0] = 60;
        SHOW(loop_run_checked(c, args, sizes, 2, results, result_sizes, 4));
        sizes[0] = 64;
        SHOW(loop_run_checked(c, args, sizes, 1, results, result_sizes, 4));
        results[2] = x + 2;
        SHOW(loop_run_checked(c, args, sizes, 2, results, result_sizes, 4));
        results[2] = NULL;
        SHOW(loop_run_checked(c, args, sizes, 2, results, result_sizes, 4));
        SHOW(loop_run_checked(c, NULL, sizes, 2, results, result_sizes, 4));
    }
    free(memory);
    loop_destroy(c);
    loop_destroy(NULL);
    return 0;
}
"""


def test_bad_arguments_are_codes(looped):
    """Null, wrong sizes, wrong counts, overlaps, foreign weights, places that are not aligned; under sanitizers."""
    folder, *_ = looped
    program = built(folder, DRIVER, "-std=c99", "-fsanitize=address,undefined", "-fno-sanitize-recover")
    told = run(str(program), cwd=folder)
    assert told.returncode == 0, told.stderr
    once = [
        "an argument is a null pointer|x",
        "an argument is a null pointer|y",
        "no error|",
        "an argument or a result has another size than the function's|x: 60 bytes given, 64 expected",
        "not as many arguments or results as the function has|1 arguments and 4 results given, 2 and 4 expected",
        "a result overlaps an argument or another result|y",
        "an argument is a null pointer|y",
        "an argument is a null pointer|",
    ]
    assert told.stdout.splitlines() == [
        "the file of weights cannot be read", "these weights belong to another model", "an argument is a null pointer", *once, *once,
    ]  # fmt: skip


THREADS = r"""
#include "model.h"
#include <pthread.h>
#include <string.h>
#include <stdlib.h>
#include <stdio.h>
static wide_context *first;
static float x[WIDE_RUN_X_LENGTH], expected[WIDE_RUN_RESULT_LENGTH];
static void *work(void *unused) {
    (void)unused;
    wide_context *c;
    float *y = malloc(sizeof expected);
    if (wide_create_of(&c, first)) return &first;
    for (int i = 0; i < 5; i++)
        if (wide_run(c, x, y) || memcmp(y, expected, sizeof expected)) return &first;
    wide_destroy(c);
    free(y);
    return NULL;
}
int main(void) {
    pthread_t threads[2];
    void *wrong = NULL;
    FILE *f = fopen("check.bin", "rb");
    if (fread(x, 4, WIDE_RUN_X_LENGTH, f) != WIDE_RUN_X_LENGTH) return 2;
    fclose(f);
    if (wide_create(&first, "weights.bin") || wide_run(first, x, expected)) return 3;
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &wrong);
        if (wrong) return 4;
    }
    wide_destroy(first);
    return 0;
}
"""


@pytest.mark.parametrize("threads", [0, 3])
def test_two_contexts_in_two_threads(threads, tmp_path):
    """With and without threads of their own, under the sanitizers of threads and of memory."""
    need_host()
    w = np.random.default_rng(0).normal(size=(300, 64)).astype(np.float32)

    def wide(x):
        return qnp.cumsum(qnp.tanh(x @ w) @ w.T, axis=1)

    x = np.random.default_rng(1).normal(size=(40, 300)).astype(np.float32)
    assert quire.export.c(wide, x, to=tmp_path, target="host", threads=threads).checked
    for sanitizer in ("thread", "address,undefined"):
        program = built(tmp_path, THREADS, "-std=c11", "-pthread", f"-fsanitize={sanitizer}")
        told = run(str(program), cwd=tmp_path)
        assert told.returncode == 0 and not told.stderr, told.stderr


def test_loader_and_shared_library(looped):
    """NumPy and ctypes, without quire."""
    folder, f, x, _ = looped
    made = run("make", "-s", "lib", cwd=folder)
    assert not made.returncode, made.stderr
    want = quire.jit(f)(x, np.int32(3))
    np.save(folder / "x.npy", x)
    text = (
        "import loader, numpy as np, sys; assert 'quire' not in sys.modules\n"
        "out = loader.call('run', np.load('x.npy'), np.int32(3)); np.savez('out.npz', *out)\n"
        "for x in (np.load('x.npy')[:4], np.load('x.npy').view('int32'), np.load('x.npy').reshape(4, 4)):\n"
        "    try: loader.call('run', x, np.int32(3))\n"
        "    except ValueError as error: print(error)\n"
        "for words in (('run', x), ('walk', x)):\n"
        "    try: loader.call(*words)\n"
        "    except ValueError as error: print(error)"
    )
    told = run(sys.executable, "-c", text, cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)})
    convert = ": convert it, as by numpy.asarray(x, dtype)"
    assert told.stdout.splitlines() == [
        f"x: expected float32 of shape (16,), got float32 of shape (4,){convert}",
        f"x: expected float32 of shape (16,), got int32 of shape (16,){convert}",
        f"x: expected float32 of shape (16,), got float32 of shape (4, 4){convert}",
        "run: 1 arguments given, 2 expected",
        "there is no function 'walk': there are run",
    ], told.stderr
    for got, key in zip(np.load(folder / "out.npz").values(), ("big", "u", "y", "z")):
        np.testing.assert_array_equal(got, want[key])


def test_several_functions_share_weights_and_a_context(tmp_path):
    """What two functions close over is in the file once; donated arguments are written in place."""
    need_host()
    w = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    x = qnp.ones((4, 64))

    def step(p, x):
        return {"p": p - 0.1 * (x @ w), "loss": (x @ w).sum()}

    functions = {"predict": (lambda x: qnp.tanh(x @ w), (x,)), "step": (quire.jit(step, donate_argnums=0), (x, x))}
    made = quire.export.c(functions, to=tmp_path, target="host", name="net")
    assert made.checked and x.sum() == 256  # the export has donated copies
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert w.nbytes <= manifest["weights_bytes"] < 2 * w.nbytes
    assert [f["symbol"] for f in manifest["functions"]] == ["net_predict", "net_step"]
    assert manifest["functions"][1]["results"][1]["in_place_of"] == "p"
    assert re.search(r"int net_step\(net_context \*context,\n    float p\[\]", (tmp_path / "model.h").read_text())


def everything(SIZE, LOCAL_AT, MY_CONTEXT, package, interface, arguments, eval, memcpy, size_t, linux, explicit, Float32Array, Math,
               float32, net_context, NET_OK, NET_RUN_SIZE_LENGTH, NULL, Q_LOCAL, x_t):  # fmt: skip
    """Placeholders, words of C, C++ and JavaScript, names of the standard headers and of the exported program itself."""
    words = package + interface + arguments + eval + memcpy + size_t + linux + explicit + Float32Array + Math + float32
    own = net_context + NET_OK + NET_RUN_SIZE_LENGTH + NULL + Q_LOCAL + x_t
    return {"BATCH_SIZE": SIZE, "and": words, "CASES": own + LOCAL_AT, "WEIGHTS": MY_CONTEXT + 1}


NAMES = (
    "create create_of create_from_memory destroy message detail run_checked run_kernels_library_query fill launch text bring "
    "take copy constructor bytes view kernels start then CONTEXT x x_y"
).split()


def test_names_of_the_users(tmp_path):
    """No name has a meaning already: of arguments, results, functions and models; in C, in C++ and in JavaScript."""
    need_host()
    need("c++", "node")
    x = np.arange(4, dtype=np.float32)
    functions = {name: (lambda a, name=name: {name: a[: len(name) % 4 + 1] * 2}, (x,)) for name in NAMES}
    functions["x"] = (lambda y_z: {"a*/b": y_z + 1}, (x,))
    functions["x_y"] = (lambda z: z["/*a*/"] + 1, ({"/*a*/": x[:3]},))
    functions["run"] = (everything, tuple(x + i for i in range(everything.__code__.co_argcount)))
    made: dict[str, list] = {}
    for write in (quire.export.c, quire.export.javascript):
        folder = tmp_path / write.__name__
        assert write(functions, to=folder, name="net").checked
        made[write.__name__] = json.loads((folder / "manifest.json").read_text())["functions"]
    named = {k: [f["name"] for f in told] for k, told in made.items()}
    assert named["c"][:9] == [
        "create_", "create_of_", "create_from_memory_", "destroy_", "message_", "detail_", "run_checked_",
        "run_kernels_library_query_", "fill",
    ]  # fmt: skip
    assert named["javascript"][5:21] == [
        "detail", "run_checked", "run_kernels_library_query",
        *(f"{n}_" for n in "fill launch text bring take copy constructor bytes view kernels start then".split()), "CONTEXT",
    ]  # fmt: skip
    for told in made.values():
        assert [r["name"].rstrip("_") for r in told[-1]["results"]] == ["BATCH_SIZE", "CASES", "WEIGHTS", "and"]
        assert [a["name"].rstrip("_") for a in told[-1]["arguments"]] == list(everything.__code__.co_varnames[:20])
    assert {a["name"] for a in made["c"][-1]["arguments"]} > {
        "SIZE",
        "x_t",
        "Math",
        "package",
        "size_t_",
        "NULL_",
        "linux_",
    }
    assert {a["name"] for a in made["javascript"][-1]["arguments"]} > {
        "SIZE",
        "x_t",
        "Math_",
        "package_",
        "size_t",
        "NULL",
    }
    folder = tmp_path / "c"
    (folder / "user.cc").write_text('#include <complex>\n#include <climits>\n#include <cmath>\n#include "model.h"\n')
    for command in ("c++ -std=c++20 user.cc", "cc -std=gnu99 model.c", "cc -std=c99 model.c check.c"):
        told = run(*command.split(), "-Wall", "-Wextra", "-Werror", "-fsyntax-only", cwd=folder)
        assert not told.returncode, told.stderr
    for name in ("q", "CONTEXT", "check", "class"):
        assert quire.export.c(lambda a: a + 1, x, to=tmp_path / name, name=name).checked


def test_names_of_the_programs_own(looped, tmp_path):
    """The tables of names hold all that the written programs define."""
    header, text = ((looped[0] / file).read_text() for file in ("model.h", "model.c"))
    own = set(re.findall(r"\bloop_(?!run\b|run_)(\w+)", header + text))
    assert own == set(names.C_MEMBERS)
    assert set(re.findall(r"\bLOOP_(?!RUN_)(\w+)", header + text)) == {*names.C_CODES, "H"}
    quire.export.javascript(lambda x: qnp.sort(x) + 1, looped[2], to=tmp_path, name="f", check=False)
    text = (tmp_path / "model.mjs").read_text()
    members = {*re.findall(r"this\.(\w+)", text), *re.findall(r"^  (\w+)\(.*\{$", text, re.MULTILINE)} - {"run"}
    known = names.LANGUAGES["javascript"]
    assert members <= known.members
    outer = re.findall(r"^(?:export )?(?:async )?(?:const|class|function) (\w+)", text, re.MULTILINE)
    assert {*outer, "unsigned64"} <= known.words, outer


OVERLAPS = r"""
#include "model.h"
#include <stdio.h>
int main(void) {
    net_context *c;
    float x[16] = {0}, y[4] = {0};
    int32_t n[3];
    if (net_create(&c, NULL)) return 1;
    void *args[] = {x, x + 2}, *results[] = {n};
    size_t sizes[] = {16, 48}, result_sizes[] = {12};
    printf("%s|", net_message(net_step_checked(c, args, sizes, 2, NULL, NULL, 0)));
    printf("%s\n", net_detail(c));
    args[0] = y;
    printf("%s\n", net_message(net_step_checked(c, args, sizes, 2, NULL, NULL, 0)));
    args[1] = y, args[0] = y, sizes[1] = 16;
    printf("%s\n", net_message(net_same_checked(c, args, sizes, 2, (void *[]){x}, sizes, 1)));
    printf("%s\n", net_message(net_none_checked(c, NULL, NULL, 0, results, result_sizes, 1)));
    printf("%s\n", net_message(net_nothing_checked(c, NULL, NULL, 0, NULL, NULL, 0)));
    net_destroy(c);
    return 0;
}
"""


def test_checked_forms_of_what_is_written_to(tmp_path):
    """A donated argument overlaps no other; arguments that are read may be one; functions without arrays warn of nothing."""
    need_host()
    x = np.arange(12, dtype=np.float32)
    functions = {
        "step": (quire.jit(lambda p, x: p - x.sum(), donate_argnums=0), (x[:4], x)),
        "same": (lambda a, b: a + b, (x[:4], x[:4])),
        "none": (lambda: qnp.arange(3, dtype="int32"), ()),
        "nothing": (lambda: (), ()),
    }
    assert quire.export.c(functions, to=tmp_path, target="host", name="net").checked
    told = run(str(built(tmp_path, OVERLAPS, "-std=c99")), cwd=tmp_path)
    overlap = "a result overlaps an argument or another result"
    assert told.stdout.splitlines() == [f"{overlap}|x", *["no error"] * 4], told.stderr
    alone = quire.export.c({"nothing": (lambda: (), ())}, to=tmp_path / "alone", target="host")
    told = run("cc", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "model.c", cwd=alone.path)
    assert not told.returncode, told.stderr


def test_a_residual_is_right_within_the_rounding_of_arguments(tmp_path):
    """What is zero but for rounding differs between programs; a small result that is no difference is compared all the same."""
    need_host()
    need("node")
    x = np.linspace(-0.9, 0.9, 64).astype(np.float32)

    def residual(x, y):
        return {"zero": x - qnp.tanh(qnp.arctanh(x)), "small": y * 1e-9, "whole": qnp.arange(3)}

    example = prepare(residual, (x, x), {}, name="run", model="f", target=export_target("host"), threads=0).example()
    small, whole, zero = example.rounding
    assert whole == 0 and small < 1e-14 and 1e-8 < zero < 1e-5
    assert quire.export.javascript(residual, x, x, to=tmp_path / "js").checked
    assert quire.export.c(residual, x, x, to=tmp_path, target=LEVEL).checked
    text = (tmp_path / "check.c").read_text()
    wrong = re.sub(r'("small".*, )\S+, \S+(\},)', r"\g<1>0.0, 0.0\2", text)
    assert wrong != text
    data = bytearray((tmp_path / "check.bin").read_bytes())
    data[512:516] = np.float32(2e-9).tobytes()  # of `small`: the first result, behind two arguments
    (tmp_path / "check.bin").write_bytes(data)
    assert run("make", "-s", "check", cwd=tmp_path).returncode == 0
    told = run("./check", cwd=tmp_path)
    assert told.returncode and "small: off by" in told.stderr and "WRONG" in told.stderr


def test_what_is_written(looped, tmp_path):
    """All memory of a context is taken when it is made: no function but those of contexts allocates."""
    text = (looped[0] / "model.c").read_text()
    assert "malloc" not in text[text.index("int loop_run(") :]
    # What was written tells neither where, nor from which folder.
    made = {
        *quire.export.javascript(
            loop, looped[2], np.int32(3), np.eye(16, dtype="float32"), to=tmp_path, check=False
        ).files
    }
    assert {"model.wasm", "model.mjs"} <= made
    written = [f for folder in (looped[0], tmp_path) for f in folder.iterdir() if f.name in {*looped[3], *made}]
    assert len(written) > 12
    for file in written:
        data = file.read_bytes()
        assert str(Path(__file__).parent).encode() not in data and str(looped[0]).encode() not in data, file


def test_structures_are_as_the_compiler_prints_them(tmp_path):
    """A kernel's text holds the two structures; C lays them out in the same way."""
    from quire.backends.iree.service import compile_service

    target = export_target("x86-64-v2")
    traced = quire.jit(lambda x: qnp.sort(x @ x).sum()).trace(np.ones((256, 256), np.float32))
    low = lowered_for(traced, target, 0)
    text = compile_service().compile(low.module.bytecode(), target.flags(), phase="executable-targets").text
    assert text is not None and native_launcher.STATE in text and native_launcher.GROUP in text
    need("cc")
    quire.export.c(lambda x: x @ x, np.ones((8, 8), np.float32), to=tmp_path, target="x86-64-v2", name="f", check=False)
    source = (tmp_path / "model.c").read_text()
    checks = "".join(
        f"typedef char check_{i}[offsetof({s}, {m}) == {at} ? 1 : -1];\n"
        for i, (s, m, at) in enumerate(
            [
                ("q_dispatch", "size_z", 8), ("q_dispatch", "scalar_count", 10), ("q_dispatch", "count_x", 12),
                ("q_dispatch", "count_z", 20), ("q_dispatch", "binding_count", 23), ("q_dispatch", "scalars", 24),
                ("q_dispatch", "bindings", 32), ("q_dispatch", "lengths", 40), ("q_group", "z", 8),
                ("q_group", "processor_id", 12), ("q_group", "local", 16), ("q_group", "local_size", 24),
            ]
        )
    )  # fmt: skip
    (tmp_path / "layout.c").write_text(source + checks)
    assert not run("cc", "-fsyntax-only", "layout.c", cwd=tmp_path).returncode
    assert ctypes.sizeof(ctypes.c_void_p) == 8


def callback(x):
    return quire.pure_callback(np.sin, quire.ShapeDtypeStruct((3,), "float32"), x) + 1


def test_errors_at_export(tmp_path):
    x = np.ones(3, np.float32)
    with pytest.raises(ExportError) as error:
        quire.export.c(callback, x, to=tmp_path)
    assert re.fullmatch(
        r"callback cannot be exported: pure_callback: target x86-64-v3 cannot do calls of Python functions "
        r"\(at .*test_programs\.py:\d+, in callback\): leave it out, or use the cpu target",
        str(error.value),
    )
    with pytest.raises(ExportError, match="cannot do calls of Python functions"):
        quire.export.javascript(lambda x: quire.debug.print("{}", x), x, to=tmp_path)
    with pytest.raises(ExportError, match="unknown target 'z80' of an export; there are host, x86-64-v2"):
        quire.export.c(callback, x, to=tmp_path, target="z80")
    with pytest.raises(ExportError, match="is for JavaScript: use quire.export.javascript"):
        quire.export.c(callback, x, to=tmp_path, target="wasm32")
    with pytest.raises(ExportError, match="takes or closes over references"):
        quire.export.c(lambda r: r[...], quire.new_ref(x), to=tmp_path)
    with pytest.raises(ValueError, match="threads=-1: give a number of threads"):
        quire.export.c(callback, x, to=tmp_path, threads=-1)
    with pytest.raises(ValueError, match="arguments are given with each function"):
        quire.export.c({"f": (callback, (x,))}, x, to=tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_the_walk_does_not_know_is_an_error():
    """With the user's line, as the module's locations tell it."""
    from quire.backends.iree.service import compile_service

    flags = export_target("x86-64-v2").flags()
    call = """
    func.func private @outside(tensor<4xf32>) -> tensor<4xf32>
    func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = call @outside(%a) : (tensor<4xf32>) -> tensor<4xf32> loc("model.py":7:1)
      return %0 : tensor<4xf32>
    }"""
    with pytest.raises(ExportError) as error:
        compile_service().export(call, flags, name="f")
    assert str(error.value) == (
        "'f' cannot be exported, because only quire's own runtime does this: util.call at model.py:7. Leave it out of the "
        "exported function: compute it before or after the call"
    )
    sized = """
    func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {
      %0 = stablehlo.add %a, %a : tensor<?xf32>
      return %0 : tensor<?xf32>
    }"""
    with pytest.raises(ExportError, match="does this: the size of an array is not known before it runs"):
        compile_service().export(sized, flags, name="f")


def test_without_a_c_compiler_the_folder_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.warns(UserWarning, match="is written, and not checked: there is no cc here"):
        made = quire.export.c(lambda x: x + 1, np.ones(3, np.float32), to=tmp_path / "f", name="f")
    assert not made.checked and (tmp_path / "f" / "model.c").is_file()
    with pytest.warns(UserWarning, match="is written, and not checked: there is no node here"):
        assert not quire.export.javascript(lambda x: x + 1, np.ones(3, np.float32), to=tmp_path / "g", name="g").checked


def test_command_line(tmp_path, capsys):
    script = tmp_path / "model.py"
    script.write_text(
        "import quire.numpy as np\nclass nets:\n    def f(x, n): return np.sort(x)[:3] * n\n    def h(x, n): return x * n\n"
    )
    words = [f"{script}:nets.f", "--args", "f32[8]", "n=2.5", "--to", str(tmp_path / "out"), "--target", LEVEL]
    assert main([*words, "--name", "smallest", "--no-check"]) == 0
    assert "not checked" in capsys.readouterr().out
    assert "int smallest_run(" in (tmp_path / "out" / "model.h").read_text()
    assert main([f"{script}:nets.g", *words[1:]]) == 1
    assert "has no function nets.g; it has f, h" in capsys.readouterr().err
    for args, extra, expected in (
        (["f32[8]", "m=2"], (), r"TypeError: .*missing a required argument: 'n'|TypeError: .*argument"),
        (["f32[8]", "'abc'"], (), "TypeError: argument n of .*abc|TypeError: .*str"),
        (
            ["f32[-1]", "n=2"],
            (),
            r"ValueError: nets.h: argument x has type f32\[-1\].*: dimensions of a program are known and not negative",
        ),
        (["f32[8]", "n=f32[3]"], (), r"at .*model.py:4"),
        (["f32[8]", "n=2"], ("--threads", "-1"), "ValueError: .*threads=-1: give a number of threads"),
    ):
        assert (
            main([f"{script}:nets.h", "--args", *args, "--to", str(tmp_path / "out"), "--target", LEVEL, *extra]) == 1
        )
        told = capsys.readouterr().err
        assert re.search(expected, told) and "Traceback" not in told, told
    assert main([*words, "--threads", "-1", "--traceback"]) == 1
    assert "Traceback" in capsys.readouterr().err
    assert main([str(script), *words[1:]]) == 1
    assert "name a function of a script" in capsys.readouterr().err
