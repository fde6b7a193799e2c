"""Functions of a shared library, compiled from C by the test, in compiled programs (quire.ffi); docs/ffi.md is run."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quire
import quire.ffi
import quire.numpy as qnp

DOC = Path(__file__).resolve().parents[2] / "docs" / "ffi.md"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler (cc, gcc or clang)")

SOURCE = """
#include "quire_ffi.h"

const char *scale(const quire_ffi_call *call) {
  if (call->version < 1 || call->num_args != 1 || call->num_results != 1) return "scale: one argument, one result";
  if (call->args[0].dtype != quire_ffi_f32) return "expected float32";
  const quire_ffi_attr *by = quire_ffi_find_attr(call, "by");
  if (by == NULL || by->dtype != quire_ffi_f64 || by->count != 1) return "expected an attribute by of float64";
  const float *x = call->args[0].data;
  float *y = call->results[0].data;
  for (int64_t i = 0; i < call->args[0].size; ++i) y[i] = x[i] * (float)*(const double *)by->data;
  return NULL;
}

/* the sum and the number of elements of each row; attributes of every kind are checked */
const char *rows(const quire_ffi_call *call) {
  const quire_ffi_buffer *x = &call->args[0];
  const quire_ffi_attr *name = quire_ffi_find_attr(call, "name"), *weights = quire_ffi_find_attr(call, "weights");
  const quire_ffi_attr *flag = quire_ffi_find_attr(call, "flag"), *n = quire_ffi_find_attr(call, "n");
  if (!name || name->dtype != quire_ffi_string || strcmp(name->data, "rows") != 0 || name->count != 4) return "name";
  if (!weights || weights->dtype != quire_ffi_f32 || weights->count != x->shape[x->rank - 1]) return "weights";
  if (!flag || flag->dtype != quire_ffi_bool || *(const uint8_t *)flag->data != 1) return "flag";
  if (!n || n->dtype != quire_ffi_s64 || *(const int64_t *)n->data != -7) return "n";
  int64_t columns = x->shape[x->rank - 1];
  for (int64_t i = 0; i < x->size / columns; ++i) {
    float sum = 0;
    for (int64_t j = 0; j < columns; ++j) sum += ((const float *)x->data)[i * columns + j] * ((const float *)weights->data)[j];
    ((float *)call->results[0].data)[i] = sum;
    ((int32_t *)call->results[1].data)[i] = (int32_t)columns;
  }
  return NULL;
}

static int calls = 0;

const char *increment(const quire_ffi_call *call) {
  int32_t *x = call->results[0].data;
  if (call->args[0].data != call->results[0].data) return "not in place";
  for (int64_t i = 0; i < call->results[0].size; ++i) x[i] += 1;
  ++calls;
  return NULL;
}

int number_of_calls(void) { return calls; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("ffi")
    (folder / "functions.c").write_text(SOURCE)
    command = [COMPILER, "-std=c99", "-Wall", "-Werror", "-shared", "-fPIC", "-I", quire.ffi.include_dir()]
    subprocess.run([*command, "functions.c", "-o", "functions.so"], cwd=folder, check=True)
    found = ctypes.CDLL(str(folder / "functions.so"))
    quire.ffi.register_ffi_target("test_scale", quire.ffi.pycapsule(found.scale))
    quire.ffi.register_ffi_target("test_rows", found.rows, platform="cpu")
    quire.ffi.register_ffi_target("test_increment", {"execute": found.increment})
    return found


def scale(x: Any, by: float = 2.0, **options: Any) -> Any:
    return quire.ffi.ffi_call("test_scale", quire.ShapeDtypeStruct(x.shape, x.dtype), **options)(x, by=by)


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_call_alone_and_in_a_program(library: Any):
    np.testing.assert_array_equal(scale(qnp.asarray(X)), 2 * X)
    f = quire.jit(lambda x: scale(qnp.sin(x), by=3.0).sum() + scale(x)[0, 1])
    assert float(f(X)) == pytest.approx(float(3 * np.sin(X).sum() + 2), rel=1e-5)
    text = str(quire.make_jaxpr(scale)(X))
    assert "ffi_call" in text and "name=test_scale" in text


def test_several_results_and_attributes(library: Any):
    declared = (quire.ShapeDtypeStruct((2,), np.float32), quire.ShapeDtypeStruct((2,), np.int32))

    def rows(x: Any) -> Any:
        weights = np.array([1, 2, 3], np.float32)
        return quire.ffi.ffi_call("test_rows", declared)(x, name="rows", weights=weights, flag=True, n=-7)

    for out in (rows(qnp.asarray(X)), quire.jit(rows)(X)):
        assert isinstance(out, tuple)
        np.testing.assert_array_equal(out[0], X @ np.array([1, 2, 3], np.float32))
        np.testing.assert_array_equal(out[1], [3, 3])


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_under_vmap(library: Any, method: str):
    f = quire.vmap(lambda x: scale(x, vmap_method=method))
    np.testing.assert_array_equal(f(X), 2 * X)
    np.testing.assert_array_equal(quire.jit(quire.vmap(f))(X[None]), 2 * X[None])


def test_in_a_loop_and_with_a_derivative_of_its_own(library: Any):
    @quire.custom_vjp
    def f(x: Any) -> Any:
        return scale(x, by=3.0, vmap_method="broadcast_all")

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (scale(ct, by=3.0, vmap_method="broadcast_all"),))

    def g(x: Any) -> Any:
        return quire.lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0].sum()

    np.testing.assert_array_equal(quire.grad(g)(X), np.full((2, 3), 27, np.float32))
    np.testing.assert_array_equal(quire.jit(quire.grad(g))(X), np.full((2, 3), 27, np.float32))
    np.testing.assert_array_equal(quire.vmap(quire.grad(g))(X), np.full((2, 3), 27, np.float32))


def test_aliases_and_side_effects(library: Any):
    x = np.arange(3, dtype=np.int32)
    call = quire.ffi.ffi_call(
        "test_increment", quire.ShapeDtypeStruct((3,), np.int32), input_output_aliases={0: 0}, has_side_effect=True
    )
    before = library.number_of_calls()
    np.testing.assert_array_equal(quire.jit(call)(x), x + 1)
    np.testing.assert_array_equal(x, [0, 1, 2])
    quire.block_until_ready(quire.jit(lambda x: (call(x), x * 2)[1])(x))  # not used, and called nevertheless
    assert library.number_of_calls() == before + 2
    with pytest.raises(ValueError, match=r"operand 0 is f32\[2,3\], its alias, result 0, i32\[3\]"):
        call(X)


def test_as_the_lowering_of_a_primitive(library: Any):
    p = quire.extend.core.Primitive("scaled_in_c")
    p.def_abstract_eval(lambda x, by: x)
    quire.interpreters.mlir.register_lowering(p, quire.ffi.ffi_lowering("test_scale"))
    np.testing.assert_array_equal(quire.jit(lambda x: p.bind(x, by=4.0))(X), 4 * X)


def test_mistakes(library: Any):
    with pytest.raises(quire.ffi.ForeignFunctionError, match="test_scale: expected float32"):
        scale(np.arange(3))
    with pytest.raises(quire.ffi.ForeignFunctionError, match="test_scale: expected float32"):
        quire.jit(scale)(np.arange(3))
    with pytest.raises(quire.ffi.ForeignFunctionError, match="attribute by of float64"):
        scale(X, by=3)
    missing = quire.ffi.ffi_call("no_such_target", quire.ShapeDtypeStruct((3,), np.float32))
    for f in (missing, quire.jit(missing)):
        with pytest.raises(KeyError, match="no target is named 'no_such_target'; registered are .*test_scale"):
            f(np.ones(3, np.float32))
    with pytest.raises(ValueError, match="platform 'CUDA'; quire calls functions of shared libraries on cpu"):
        quire.ffi.register_ffi_target("test_scale", library.scale, platform="CUDA")
    with pytest.raises(ValueError, match="registered for cpu already, with another function"):
        quire.ffi.register_ffi_target("test_scale", library.rows)
    with pytest.raises(TypeError, match="expected a function of ctypes, a PyCapsule or an address"):
        quire.ffi.register_ffi_target("test_other", "scale")
    with pytest.raises(TypeError, match="attribute by must be a number, a text or a NumPy array"):
        scale(X, by=object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ffi_call has no derivative: wrap it in custom_jvp or custom_vjp"):
        quire.grad(lambda x: scale(x).sum())(X)
    with pytest.raises(NotImplementedError, match="vmap of ffi_call: give vmap_method="):
        quire.vmap(scale)(X)
    with pytest.raises(ValueError, match=r"output_layouts\[0\] is \(1, 0\)"):
        scale(X, output_layouts=(1, 0))
    with pytest.raises(quire.errors.UnsupportedError, match="registered for cpu, not for vulkan"):
        quire.jit(scale).trace(X).lower(backend="vulkan").as_text()


def test_the_example_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = DOC.read_text(encoding="utf-8")
    (c_source,) = re.findall(r"```c\n(.*?)```", text, re.DOTALL)
    (python,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "rms_norm.c").write_text(c_source)
    command = [COMPILER, "-O2", "-shared", "-fPIC", "-I", quire.ffi.include_dir(), "rms_norm.c", "-o", "rms_norm.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(python, str(DOC), "exec"), names)
    x = np.linspace(-0.5, 0.5, 32, dtype=np.float32).reshape(8, 4)

    def want(x: Any) -> Any:
        return x / qnp.sqrt(qnp.mean(x**2, axis=-1, keepdims=True) + 1e-5)

    def loss(f: Any) -> Any:
        return lambda x: (qnp.sin(f(x)) * x).sum()

    np.testing.assert_allclose(names["rms_norm"](x), want(x), rtol=1e-5)
    np.testing.assert_allclose(quire.jit(quire.vmap(names["rms_norm"]))(x), want(x), rtol=1e-5)
    got, expected = quire.jit(quire.grad(loss(names["rms_norm"])))(x), quire.grad(loss(want))(x)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
