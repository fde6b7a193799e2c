"""Linear algebra of well-conditioned matrices."""

from __future__ import annotations

from ..builder import Builder, Value


def _matrix(b: Builder) -> Value:
    return b.pick(
        "fc",
        lambda v: (
            v.ndim in (2, 3)
            and v.shape[-1] == v.shape[-2]
            and 0 < v.shape[-1] <= 17
            and v.dtype not in ("float16", "bfloat16")
        ),
    )


def factor(b: Builder) -> object:
    x = _matrix(b)
    n = x.shape[-1]
    good = (
        f"np.eye({n}, dtype={x.dtype!r}) + 0.2 * np.tanh({{0}}) / {n}"
        if x.kind == "f"
        else f"np.eye({n}, dtype={x.dtype!r}) + 0.2 * {{0}} / (1 + np.abs({{0}})) / {n}"
    )
    spd = f"np.eye({n}, dtype={x.dtype!r}) + {{0}} @ np.conj(np.swapaxes({{0}}, -1, -2)) * 0.01"
    options = [
        f"np.linalg.cholesky({spd})", f"np.linalg.inv({good})", f"np.linalg.solve({good}, {{0}})", f"np.linalg.det({good})",
        f"np.matmul(*np.linalg.qr({good}))", f"np.linalg.slogdet({good})[1]",
        f"api.scipy.linalg.solve_triangular({good}, {{0}}, lower={b.one(True, False)})",
        f"api.scipy.linalg.cho_solve((np.linalg.cholesky({spd}), True), {{0}})" if x.ndim == 2 else f"np.linalg.cholesky({spd})",
    ]  # fmt: skip
    if x.kind == "f":
        diagonals = "np.tanh({0}[..., 0]), 3 + np.tanh({0}[..., 0]), np.tanh({0}[..., -1])"
        options.append(f"api.lax.linalg.tridiagonal_solve({diagonals}, {{0}})")
    if x.kind == "f" and not b.setting.reverse:
        options += [f"np.linalg.eigvalsh({spd})", f"np.linalg.svd({spd}, compute_uv=False)"]
    return b.emit(b.one(*options), x)


def power(b: Builder) -> object:
    x = _matrix(b)
    return b.emit(
        b.one(
            "np.linalg.matrix_power({0} * 0.2, 3)",
            "np.linalg.norm({0} + 0.1, axis=-1)",
            "np.kron({0}, {0})" if x.size < 40 and x.ndim == 2 else "{0} @ {0}",
        ),
        x,
    )


FAMILY = (factor, power)
