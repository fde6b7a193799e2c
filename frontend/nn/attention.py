"""Attention, and matrix products of block-scaled operands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes

from .. import lax
from .. import numpy as jnp
from ..arrays.operands import Value, array_of, one_of
from .normalization import logsumexp, softmax

_NAME = "quire.nn.dot_product_attention"


def dot_product_attention(
    query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, *, scale: Any = None, is_causal: bool = False,
    query_seq_lengths: Any = None, key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None, implementation: str | None = None,
    return_residual: bool = False,
) -> Any:  # fmt: skip
    """Scaled dot product attention, softmax(scale * query @ key.T + bias) @ value for each head.

    The sizes are B (batch), T and S (positions of the query, and of key and value), N and K (heads of the query, and of key
    and value), H (the size of a head). N is a multiple of K: with K < N, N / K heads of the query share each head of key
    and value (grouped or multi-query attention).

    Args:
        query: (B, T, N, H) or (T, N, H).
        key, value: (B, S, K, H) or (S, K, H), with the dtype of the query.
        bias: added to the logits; of 4 dimensions (or fewer), it broadcasts to (B, N, T, S).
        mask: bool, of such a shape: which positions count.
        scale: 1 / sqrt(H) for None.
        is_causal: whether each position of the query sees only positions of the key up to its own.
        query_seq_lengths, key_value_seq_lengths: int32 of shape (B,): later positions are padding. Those of the query
            give zeros.
        local_window_size: (left, right): each position sees so many to its left and to its right; or a number for both.
        implementation: None or "xla": there is one implementation.
        return_residual: also return logsumexp of the logits, of shape (B, T, N) or (T, N), without derivative.

    Returns an array of the query's shape. Where nothing is left to see the result is the mean of all values, as in JAX.
    Logits are computed in float32 at least.

    Raises:
        ValueError: shapes or dtypes do not fit; the message names the argument.
        NotImplementedError: implementation "cudnn".

    Follows `jax.nn.dot_product_attention`.

    >>> q = quire.numpy.ones((4, 2, 8))
    >>> v = quire.numpy.arange(4.)[:, None, None] * quire.numpy.ones((4, 2, 8))
    >>> quire.nn.dot_product_attention(q, q, v, is_causal=True)[:, 0, 0]
    Array([0. , 0.5, 1. , 1.5], dtype=float32)
    """
    _check_implementation(implementation)
    q, k, v = (_four(x, what) for x, what in ((query, "query"), (key, "key"), (value, "value")))
    shape = jnp.shape(query)
    (batch, s, groups, h), (_, t, heads, _) = k.shape, q.shape
    _check(v, (batch, s, groups, h), k.dtype, "value")
    _check(q, (batch, None, None, h), k.dtype, "query")
    if heads % groups:
        raise ValueError(f"{_NAME}: the query's heads, {heads}, must be a multiple of those of key and value, {groups}")
    allowed = None if mask is None else _four(mask, "mask")
    if allowed is not None:
        _check(allowed, (None,) * 4, dtypes.bool_, "mask")
    q_lengths = _lengths(query_seq_lengths, batch, "query_seq_lengths")
    kv_lengths = _lengths(key_value_seq_lengths, batch, "key_value_seq_lengths")

    # The heads of the query that share one of the key are rows of one matrix product.
    shared = heads // groups
    rows = jnp.transpose(q.reshape(batch, t, groups, shared, h), (0, 2, 3, 1, 4)).reshape(batch, groups, shared * t, h)
    keys, values = (jnp.transpose(x, (0, 2, 1, 3)) for x in (k, v))
    wide = jnp.promote_types(q.dtype, np.float32)
    logits = lax.dot_general(rows, keys, (((3,), (3,)), ((0, 1), (0, 1))), preferred_element_type=wide)
    logits = logits.reshape(batch, heads, t, s) * jnp.array(1 / math.sqrt(h) if scale is None else scale, wide)
    if bias is not None:
        logits = _broadcast(logits, _four(bias, "bias"), "bias", lambda x, b: (x + b).astype(wide))
    for seen in (
        _causal(t, s) if is_causal else None,
        _window(t, s, local_window_size),
        _real(t, s, q_lengths, kv_lengths),
    ):
        if seen is not None:
            allowed = seen if allowed is None else _broadcast(allowed, seen, "mask", jnp.logical_and)
    if allowed is not None:
        # Not -inf, which would give NaN where nothing is left.
        hidden = -0.7 * float(np.finfo(np.float32).max)
        logits = _broadcast(logits, allowed, "mask", lambda x, m: jnp.where(m, x, hidden))
    weights = softmax(logits, axis=-1).astype(k.dtype).reshape(batch, groups, shared * t, s)
    out = lax.dot_general(weights, values, (((3,), (2,)), ((0, 1), (0, 1))))
    out = jnp.transpose(out.reshape(batch, groups, shared, t, h), (0, 3, 1, 2, 4)).reshape(batch, t, heads, h)
    if q_lengths is not None:
        out = jnp.where(jnp.arange(t)[None, :, None, None] < q_lengths[:, None, None, None], out, 0)
    if not return_residual:
        return out.reshape(shape)
    residual = jnp.transpose(logsumexp(logits, axis=-1).astype(k.dtype), (0, 2, 1))
    return out.reshape(shape), lax.stop_gradient(residual).reshape(shape[:-1])


def _check_implementation(implementation: Any) -> None:
    if implementation == "cudnn":
        raise NotImplementedError(f"{_NAME}: implementation 'cudnn' is not there: use None")
    one_of(_NAME, implementation, "implementation", (None, "xla"))


def _four(x: Any, what: str) -> Value:
    """An argument with dimensions of size 1 before its own, to make 4."""
    x = array_of(_NAME, x, what)
    if x.ndim > 4:
        raise ValueError(f"{_NAME}: {what} must have at most 4 dimensions, got {x.aval.short()}")
    return jnp.expand_dims(x, tuple(range(4 - x.ndim)))


def _check(x: Value, shape: Sequence[int | None], dtype: Any, what: str) -> None:
    if len(x.shape) != len(shape) or any(n is not None and n != m for n, m in zip(shape, x.shape)):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"{_NAME}: {what} must have shape ({wanted}), got {x.aval.short()}")
    if x.dtype != dtype:
        raise ValueError(f"{_NAME}: {what} must have dtype {dtype}, got {x.aval.short()}")


def _lengths(x: Any, batch: int, what: str) -> Value | None:
    if x is None:
        return None
    x = jnp.asarray(x)
    _check(x, (batch,), dtypes.int32, what)
    return x


def _broadcast(x: Value, y: Value, what: str, f: Any) -> Value:
    """f(x, y); ValueError if y does not broadcast with x."""
    try:
        jnp.broadcast_shapes(x.shape, y.shape)
    except (TypeError, ValueError):
        raise ValueError(f"{_NAME}: {what} {y.aval.short()} does not broadcast to the logits {x.shape}") from None
    return f(x, y)


def _causal(t: int, s: int) -> Value:
    return jnp.tri(t, s, dtype=bool)[None, None]


def _window(t: int, s: int, size: int | tuple[int, int] | None) -> Value | None:
    if size is None:
        return None
    left, right = (size, size) if isinstance(size, int) else size
    ahead = jnp.arange(s)[None, :] - jnp.arange(t)[:, None]
    return ((ahead >= -left) & (ahead <= right))[None, None]


def _real(t: int, s: int, q_lengths: Value | None, kv_lengths: Value | None) -> Value | None:
    """Which logits are not of padding."""
    parts = []
    if q_lengths is not None:
        parts.append(jnp.arange(t)[None, None, :, None] < q_lengths[:, None, None, None])
    if kv_lengths is not None:
        parts.append(jnp.arange(s)[None, None, None, :] < kv_lengths[:, None, None, None])
    return None if not parts else parts[0] if len(parts) == 1 else parts[0] & parts[1]


# -- block-scaled products ----------------------------------------------------------------------------------------------------


def scaled_matmul(
    lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any, preferred_element_type: Any = np.float32
) -> Value:
    """lhs @ rhs.T for each matrix of a batch, blocks of their rows being multiplied by scales.

    Args:
        lhs: (B, M, K). rhs: (B, N, K).
        lhs_scales: (B, M, k), k being a divisor of K: one number for each K / k elements of a row.
        rhs_scales: (B, N, k') likewise.
        preferred_element_type: the dtype of the result.

    Returns an array of shape (B, M, N).

    Raises:
        ValueError: the shapes do not fit.

    Follows `jax.nn.scaled_matmul`; the operands have 16 bits or more, there being no narrower floats.

    >>> a, b = quire.numpy.array([[[1., 2., 3.]]]), quire.numpy.array([[[4., 5., 6.]]])
    >>> half = quire.numpy.array([[[0.5]]])
    >>> quire.nn.scaled_matmul(a, b, half, half)
    Array([[[8.]]], dtype=float32)
    """
    name = "quire.nn.scaled_matmul"
    operands = {"lhs": lhs, "rhs": rhs, "lhs_scales": lhs_scales, "rhs_scales": rhs_scales}
    x, y, xs, ys = (array_of(name, v, what) for what, v in operands.items())
    for what, v in zip(operands, (x, y, xs, ys)):
        if v.ndim != 3:
            raise ValueError(f"{name}: {what} must have 3 dimensions, got {v.aval.short()}")
    if x.shape[0] != y.shape[0] or x.shape[2] != y.shape[2]:
        raise ValueError(f"{name}: lhs must be (B, M, K) and rhs (B, N, K), got {x.aval.short()} and {y.aval.short()}")
    for what, v, scales in (("lhs", x, xs), ("rhs", y, ys)):
        if v.shape[:2] != scales.shape[:2] or not scales.shape[2] or v.shape[2] % scales.shape[2]:
            raise ValueError(
                f"{name}: {what}_scales must be {v.shape[:2]} and a divisor of {v.shape[2]}, got {scales.aval.short()}"
            )
    wide = jnp.promote_types(preferred_element_type, np.float32)
    scaled = [
        (v.astype(wide).reshape(*s.shape, -1) * s.astype(wide)[..., None]).reshape(v.shape)
        for v, s in ((x, xs), (y, ys))
    ]
    out = lax.dot_general(*scaled, (((2,), (2,)), ((0,), (0,))))  # pyright: ignore
    return out.astype(preferred_element_type)


def scaled_dot_general(
    lhs: Any, rhs: Any, dimension_numbers: Any, preferred_element_type: Any = np.float32, configs: Any = None,
    implementation: str | None = None,
) -> Value:  # fmt: skip
    """`lax.dot_general`, for programs written for quantized products.

    Raises:
        NotImplementedError: for `configs`: quantization needs floats of 8 or 4 bits, which quire does not have.

    Follows `jax.nn.scaled_dot_general`.

    >>> x = quire.numpy.ones((2, 3))
    >>> quire.nn.scaled_dot_general(x, x, (((1,), (1,)), ((), ()))).shape
    (2, 2)
    """
    if configs is not None:
        raise NotImplementedError(
            "quire.nn.scaled_dot_general: configs are not supported: quantization needs floats of 8 or 4 bits"
        )
    return lax.dot_general(lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type)


__all__ = [
    "dot_product_attention", "scaled_dot_general", "scaled_matmul",
]  # fmt: skip
