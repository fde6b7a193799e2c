"""Programs with references, written once for quire and JAX: each takes the library and arrays of a fixed type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Program = Callable[..., Any]
PROGRAMS: dict[str, tuple[Program, tuple[Any, ...]]] = {}
"""By name: the program, and its arguments. Those whose name begins with "d" are differentiable in all arguments."""

X = np.array([0.5, -1.5, 2.0, 0.25], np.float32)
M = np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4)
I = np.array([2, 0, 2], np.int32)  # noqa: E741


def program(*args: Any) -> Callable[[Program], Program]:
    def add(f: Program) -> Program:
        PROGRAMS[f.__name__] = (f, args)
        return f

    return add


def _set(ref: Any, index: Any, value: Any) -> None:
    ref[index] = value


@program(X)
def d_whole(m: Any, x: Any) -> Any:
    ref = m.new_ref(x)
    ref[...] = m.numpy.sin(ref[...])
    ref[...] *= x
    return m.freeze(ref)


@program(X)
def d_elements(m: Any, x: Any) -> Any:
    ref = m.new_ref(m.numpy.zeros(4, m.numpy.float32))
    ref[0] = x[1]
    ref[-1] = ref[0] * x[2]
    m.ref.addupdate(ref, 2, ref[0] * ref[3])
    old = m.ref.swap(ref, 0, x[3])
    return ref[...], old


@program(M)
def d_slices(m: Any, x: Any) -> Any:
    ref = m.new_ref(x)
    ref[1:, :2] = m.numpy.cos(ref[:2, 2:])
    ref[:1, 1::2] = ref[1:2, ::2]
    ref[::2, 3:] += x[:2, :1]
    m.ref.addupdate(ref, (slice(None), slice(0, 4, 3)), x[:, :2])
    return ref[...], ref[1], ref[..., 1], ref[1:2]


@program(M, I)
def arrays(m: Any, x: Any, i: Any) -> Any:
    ref = m.new_ref(x)
    m.ref.addupdate(ref, i, x)
    read = ref[:, i], ref[i, i], ref[i[:, None], i[:2]], ref[0, i]
    ref[1:, i] = m.numpy.ones((2, 3), m.numpy.float32)
    ref[i, 1] = x[0, :3]
    return (*read, ref[...])


@program(M, np.int32(1))
def dynamic(m: Any, x: Any, i: Any) -> Any:
    ref = m.new_ref(x)
    ref[i] = x[0]
    ref[i + 9, 1] = 5.0  # beyond the end: the last
    m.ref.addupdate(ref, (i - 3, slice(1, 3)), x[1, :2])
    return ref[...], ref[-i], ref[i + 7, :], ref[i, 1:3], ref[i - 9]


@program(M, np.array([0, 7, -1, -9], np.int32))
def outside(m: Any, x: Any, i: Any) -> Any:
    ref = m.new_ref(x)
    read = ref[i]  # the nearest
    ref[i, 2] = m.numpy.arange(4.0, dtype=m.numpy.float32)  # left out
    m.ref.addupdate(ref, (i, slice(0, 4, 2)), m.numpy.ones((4, 2), m.numpy.float32))
    return read, ref[...]


@program(X)
def d_two(m: Any, x: Any) -> Any:
    a, b = m.new_ref(x), m.new_ref(x[:2])
    a[1:3] = b[...]
    b[0] = a[3] * a[1]
    a[...], c = a[...] + b[0], a[2]
    return m.freeze(a), m.freeze(b), c


@program(X)
def d_scan(m: Any, x: Any) -> Any:
    total = m.new_ref(m.numpy.float32(0))
    seen = m.new_ref(m.numpy.zeros(4, m.numpy.float32))

    def body(i: Any, y: Any) -> Any:
        total[...] += m.numpy.sin(y)
        seen[i] = total[...] * y
        return i + 1, seen[0]

    _, ys = m.lax.scan(body, 0, x)
    return total[...], seen[...], ys


@program(M)
def d_scan_over(m: Any, x: Any) -> Any:
    rows = m.new_ref(x)

    def body(c: Any, row: Any) -> Any:
        row[...] = m.numpy.sin(row[...]) + c
        return row[0], row[1]

    last, ys = m.lax.scan(body, x[0, 0], rows, reverse=True)
    return m.freeze(rows), last, ys


@program(X)
def d_fori(m: Any, x: Any) -> Any:
    ref = m.new_ref(x)
    m.lax.fori_loop(0, 3, lambda i, _: _set(ref, i, ref[i] * ref[i + 1]), None)
    return ref[...]


@program(X, np.int32(3))
def loops(m: Any, x: Any, n: Any) -> Any:
    ref, count = m.new_ref(x), m.new_ref(m.numpy.int32(0))

    def body(i: Any) -> Any:
        ref[i] = ref[i - 1] + 1.0
        count[...] += 1
        return i + 1

    i = m.lax.while_loop(lambda i: i < n, body, 1)
    m.lax.fori_loop(0, n, lambda i, c: (_set(ref, i, 2.0 * ref[i]), c)[1], 0)
    return ref[...], count[...], i


@program(X, np.array([True, False]))
def d_cond_(m: Any, x: Any, p: Any) -> Any:
    a, b = m.new_ref(x), m.new_ref(x[0])
    for k in range(2):
        m.lax.cond(p[k], lambda: _set(a, 0, b[...] * 2), lambda: _set(b, ..., a[1] + 1))
    y = m.lax.switch(
        p[0].astype(m.numpy.int32) + 1, [lambda r: r[0], lambda r: r[1], lambda r: m.ref.swap(r, 2, x[3])], a
    )
    return a[...], b[...], y


@program(M)
def d_nested(m: Any, x: Any) -> Any:
    a, b = m.new_ref(x), m.new_ref(m.numpy.float32(1))

    @m.jit
    def step(i: Any, row: Any) -> Any:
        def inner(j: Any, v: Any) -> Any:
            m.lax.cond(j % 2 == 0, lambda: _set(b, ..., b[...] + v), lambda: _set(a, (i, j), v * b[...]))
            return j + 1, b[...]

        return m.lax.scan(inner, 0, row)[1]

    def outer(i: Any, row: Any) -> Any:
        return i + 1, step(i, row)

    _, ys = m.lax.scan(outer, 0, x)
    return a[...], b[...], ys


@program(X)
def d_remat(m: Any, x: Any) -> Any:
    @m.checkpoint
    def layer(y: Any) -> Any:
        ref = m.new_ref(y)
        ref[1:] = m.numpy.sin(ref[:-1])
        ref[...] = m.numpy.sin(ref[...])
        return ref[...]

    return layer(layer(x))


@program(X)
def d_passed_on(m: Any, x: Any) -> Any:
    ref = m.new_ref(m.numpy.stack([x, 2 * x]))

    @m.jit
    def change(r: Any, v: Any) -> Any:
        r[1, 1:3] = v[:2] * r[0, 2:]
        m.ref.addupdate(r, (0, 3), v[1])
        return r[0]

    return change(ref, x), change(ref, ref[1]), ref[...]


@program(np.array([1, 2, 3], np.int32), np.array([True, False, True]), np.array([1 + 2j, 3j], np.complex64))
def dtypes_(m: Any, i: Any, b: Any, c: Any) -> Any:
    ri, rb, rc = m.new_ref(i), m.new_ref(b), m.new_ref(c)
    rh = m.new_ref(m.numpy.zeros(2, m.numpy.bfloat16))
    ri[0] = 7
    ri[1:] += ri[0]
    rb[1] = True
    rb[0] = ri[0] > 8
    rc[0] = c[1] * 2j
    rh[1] = 1.5
    m.ref.addupdate(rb, 2, True)
    return ri[...], rb[...], rc[...], rh[...].astype(m.numpy.float32)


@program(X)
def d_empty(m: Any, x: Any) -> Any:
    ref = m.empty_ref(m.ShapeDtypeStruct((4,), m.numpy.float32))
    ref[...] = x * x
    y = ref[...]
    m.free_ref(ref)
    return y


@program(M)
def d_map(m: Any, x: Any) -> Any:
    def lane(row: Any) -> Any:
        ref = m.new_ref(m.numpy.float32(0))  # the same for all lanes, until it is written
        m.lax.scan(lambda c, y: (c, _set(ref, ..., ref[...] * 0.5 + y)), 0, row)
        return ref[...]

    return m.vmap(lane)(x)


@program(M)
def inner_grad(m: Any, x: Any) -> Any:
    ref = m.new_ref(m.numpy.float32(1))

    def f(y: Any) -> Any:
        own = m.new_ref(y)
        own[0] *= ref[...]
        ref[...] += 1.0
        return (own[...] ** 2).sum()

    g = m.grad(f)(x[0]) + m.grad(f)(x[1])
    return g, ref[...]


@program(X)
def d_custom(m: Any, x: Any) -> Any:
    @m.custom_vjp
    def f(y: Any) -> Any:
        ref = m.new_ref(y)
        ref[0] = 3.0 * y[1]
        return ref[...]

    f.defvjp(lambda y: (f(y), y), lambda y, ct: (m.numpy.cos(y) * ct,))
    ref = m.new_ref(x)
    ref[...] = f(ref[...])
    return ref[...]
