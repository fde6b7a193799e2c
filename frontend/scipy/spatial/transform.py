"""quire.scipy.spatial.transform: rotations in three dimensions as pytrees of quaternions, and paths between them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew

from ... import lax, random
from ... import numpy as qnp
from ...absent_names import module_getattr
from ...arrays.operands import Value, array, cast, concrete, epsilon, promote_inexact

_NAME = "spatial.transform.Rotation"


def _vectors(name: str, x: Any, size: int) -> Value:
    """A float array with `size` numbers along the last dimension, and at most one dimension more."""
    (value,) = promote_inexact(array(f"{_NAME}.{name}", x))
    shape = aval_of(value).shape
    if len(shape) not in (1, 2) or shape[-1] != size:
        raise ValueError(
            f"quire.scipy.{_NAME}.{name}: takes an array of shape ({size},) or (number, {size}), got {aval_of(value).short()}"
        )
    return value


def _length(x: Value) -> Value:
    """The length of vectors; its derivative at 0 is 0."""
    square = qnp.sum(x * x, axis=-1, keepdims=True)
    zero = square == 0
    return qnp.where(zero, 0.0, qnp.sqrt(qnp.where(zero, 1.0, square)))


def _unit(x: Value) -> Value:
    """x with length 1; NaN where it has none."""
    return x / _length(x)


def _cross(a: Value, b: Value) -> Value:
    ax, ay, az = (a[..., i] for i in range(3))
    bx, by, bz = (b[..., i] for i in range(3))
    return qnp.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)


def _product(p: Value, q: Value) -> Value:
    """Hamilton's product of quaternions with the scalar last: first q, then p."""
    u, v, s, t = p[..., :3], q[..., :3], p[..., 3:], q[..., 3:]
    vector = s * v + t * u + _cross(*qnp.broadcast_arrays(u, v))
    return qnp.concatenate([vector, s * t - qnp.sum(u * v, axis=-1, keepdims=True)], axis=-1)


def _from_rotvec(vector: Value) -> Value:
    square = qnp.sum(vector * vector, axis=-1, keepdims=True)
    small = square < 1e-2
    angle = qnp.sqrt(qnp.where(small, 1.0, square))
    series = 0.5 - square * (1 / 48 - square * (1 / 3840 - square / 645120))
    scale = qnp.where(small, series, ew.sin(0.5 * angle) / angle)
    near = 1.0 - square * (1 / 8 - square * (1 / 384 - square / 46080))
    return qnp.concatenate([scale * vector, qnp.where(small, near, ew.cos(0.5 * angle))], axis=-1)


def _as_rotvec(quat: Value) -> Value:
    quat = qnp.where(quat[..., 3:] < 0, -quat, quat)
    vector, scalar = quat[..., :3], quat[..., 3:]
    square = qnp.sum(vector * vector, axis=-1, keepdims=True)  # of the sine of half the angle
    small = square < 1e-3
    sine = qnp.sqrt(qnp.where(small, 0.25, square))
    scale = qnp.where(
        small, 2.0 + square * (1 / 3 + square * (3 / 20 + square * (5 / 56))), 2.0 * ew.atan2(sine, scalar) / sine
    )
    return scale * vector


def _from_matrix(m: Value) -> Value:
    """Of the four formulas for the quaternion the one whose divisor is largest (S. Shepperd 1978)."""
    trace = m[..., 0, 0] + m[..., 1, 1] + m[..., 2, 2]
    choices = qnp.stack([m[..., 0, 0], m[..., 1, 1], m[..., 2, 2], trace], axis=-1)
    best = qnp.argmax(choices, axis=-1)
    candidates: list[Value] = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts: list[Any] = [None] * 4
        parts[i] = 1.0 - trace + 2.0 * m[..., i, i]
        parts[j] = m[..., j, i] + m[..., i, j]
        parts[k] = m[..., k, i] + m[..., i, k]
        parts[3] = m[..., k, j] - m[..., j, k]
        candidates.append(qnp.stack(parts, axis=-1))
    turned = [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1], 1.0 + trace]
    quat = qnp.stack(turned, axis=-1)
    for i in range(3):
        quat = qnp.where((best == i)[..., None], candidates[i], quat)
    return _unit(quat)


def _axes(name: str, seq: str, least: int, most: int) -> tuple[list[int], bool]:
    """The axes of a sequence of Euler angles, and whether the rotations are about fixed axes."""
    if not isinstance(seq, str) or not re.fullmatch(f"[xyz]{{{least},{most}}}|[XYZ]{{{least},{most}}}", seq):
        count = str(least) if least == most else f"{least} to {most}"
        raise ValueError(
            f"quire.scipy.{_NAME}.{name}: seq must be {count} axes from 'xyz' (fixed axes) or from 'XYZ' (axes that "
            f"turn), got {seq!r}"
        )
    if any(a == b for a, b in zip(seq, seq[1:])):
        raise ValueError(f"quire.scipy.{_NAME}.{name}: consecutive axes of seq must differ, got {seq!r}")
    return ["xyz".index(c) for c in seq.lower()], seq.islower()


def _elementary(axis: int, angle: Value) -> Value:
    half = 0.5 * angle
    zero = qnp.zeros_like(half)
    parts = [zero, zero, zero, ew.cos(half)]
    parts[axis] = ew.sin(half)
    return qnp.stack(parts, axis=-1)


class Rotation(NamedTuple):
    """Rotations in three dimensions: one, or a vector of them. A pytree.

    Attributes:
        quat: unit quaternions (x, y, z, w), the scalar last, of shape (4,) or (number, 4).

    Follows `scipy.spatial.transform.Rotation`.

    >>> r = quire.scipy.spatial.transform.Rotation.from_euler("z", 90.0, degrees=True)
    >>> [round(v, 3) for v in r.apply(quire.numpy.array([1., 0., 0.])).tolist()]
    [0.0, 1.0, 0.0]
    """

    quat: Any

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """One vector of all these rotations."""
        return cls(qnp.concatenate([qnp.atleast_2d(r.quat) for r in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """From Euler angles.

        Args:
            seq: one to three axes from "xyz" for rotations about fixed axes, or from "XYZ" for axes that turn along.
            angles: a number for one axis, or an array with an angle for each axis along its last dimension.
            degrees: whether the angles are degrees.

        Raises:
            ValueError: `seq` is no such string or has an axis twice in a row, or the last dimension of `angles` is not
                the number of axes.
        """
        axes, fixed = _axes("from_euler", seq, 1, 3)
        (value,) = promote_inexact(array(f"{_NAME}.from_euler", angles, "angles"))
        value = cast(value, aval_of(value).dtype)
        value = value[None] if aval_of(value).ndim == 0 else value
        if aval_of(value).ndim > 2 or aval_of(value).shape[-1] != len(axes):
            raise ValueError(
                f"quire.scipy.{_NAME}.from_euler: angles must have {len(axes)} numbers along the last dimension for "
                f"seq={seq!r}, got {aval_of(value).short()}"
            )
        value = value * (math.pi / 180) if degrees else value
        quat = _elementary(axes[0], value[..., 0])
        for i, axis in enumerate(axes[1:], 1):
            following = _elementary(axis, value[..., i])
            quat = _product(following, quat) if fixed else _product(quat, following)
        return cls(quat)

    @classmethod
    def from_matrix(cls, matrix: Any) -> Rotation:
        """From orthogonal matrices of shape (3, 3) or (number, 3, 3).

        Raises:
            ValueError: the array has another shape.
        """
        (value,) = promote_inexact(array(f"{_NAME}.from_matrix", matrix))
        if aval_of(value).ndim not in (2, 3) or aval_of(value).shape[-2:] != (3, 3):
            raise ValueError(
                f"quire.scipy.{_NAME}.from_matrix: takes an array of shape (3, 3) or (number, 3, 3), got "
                f"{aval_of(value).short()}"
            )
        return cls(_from_matrix(value))

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """From modified Rodrigues parameters, the axis times the tangent of a quarter of the angle."""
        value = _vectors("from_mrp", mrp, 3)
        square = qnp.sum(value * value, axis=-1, keepdims=True)
        return cls(qnp.concatenate([2.0 * value, 1.0 - square], axis=-1) / (1.0 + square))

    @classmethod
    def from_quat(cls, quat: Any) -> Rotation:
        """From quaternions (x, y, z, w), which are brought to length 1; one of zeros is no rotation, and becomes NaN."""
        return cls(_unit(_vectors("from_quat", quat, 4)))

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """From rotation vectors: the axis times the angle."""
        value = _vectors("from_rotvec", rotvec, 3)
        return cls(_from_rotvec(value * (math.pi / 180) if degrees else value))

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """The rotation that changes nothing, or a vector of `num` of them."""
        quat = qnp.array([0.0, 0.0, 0.0, 1.0], dtype=dtype)
        return cls(quat if num is None else qnp.tile(quat, (num, 1)))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """A random rotation, or `num` of them, equally distributed."""
        return cls(_unit(random.normal(random_key, (4,) if num is None else (num, 4))))

    def __getitem__(self, indexer: Any) -> Rotation:
        """Some of several rotations."""
        if self.single:
            raise TypeError(f"quire.scipy.{_NAME}: a single rotation cannot be indexed")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        if self.single:
            raise TypeError(f"quire.scipy.{_NAME}: a single rotation has no len()")
        return self.quat.shape[0]

    def __mul__(self, other: Rotation) -> Rotation:  # type: ignore[override]
        """The composition: first `other`, then this rotation."""
        if not isinstance(other, Rotation):
            return NotImplemented
        return Rotation(_product(*promote_inexact(self.quat, other.quat)))

    def apply(self, vectors: Any, inverse: bool = False) -> Value:
        """The rotated vectors, of shape (3,) or (number, 3); `inverse` rotates back."""
        v, quat = promote_inexact(_vectors("apply", vectors, 3), self.quat)
        u = -quat[..., :3] if inverse else quat[..., :3]
        u, v = qnp.broadcast_arrays(u, v)
        twice = 2.0 * _cross(u, v)
        return v + quat[..., 3:] * twice + _cross(u, twice)

    def as_euler(self, seq: str, degrees: bool = False) -> Value:
        """The Euler angles for three axes (`from_euler`); at gimbal lock the third is 0.

        The method of E. Bernardes and S. Viollet (PLoS ONE 17, 2022), as SciPy's.
        """
        (i, j, k), fixed = _axes("as_euler", seq, 3, 3)
        if not fixed:
            i, k = k, i
        first, third = (0, 2) if fixed else (2, 0)
        symmetric = i == k
        k = 3 - i - j if symmetric else k
        sign = (i - j) * (j - k) * (k - i) // 2
        qi, qj, qk, w = (self.quat[..., n] for n in (i, j, k, 3))
        qk = sign * qk
        a, b, c, d = (w, qi, qj, qk) if symmetric else (w - qj, qi + qk, qj + w, qk - qi)
        middle = 2.0 * ew.atan2(ew.sqrt(c * c + d * d), ew.sqrt(a * a + b * b))
        small = max(1e-7, 8 * epsilon(a))
        low, high = middle <= small, middle >= math.pi - small
        total, difference = ew.atan2(b, a), ew.atan2(d, c)
        angles: list[Any] = [None] * 3
        locked = qnp.where(low, 2.0 * total, (-2.0 if fixed else 2.0) * difference)
        angles[first], angles[1], angles[third] = total - difference, middle, total + difference
        angles[0] = qnp.where(low | high, locked, angles[0])
        angles[2] = qnp.where(low | high, 0.0, angles[2])
        if not symmetric:
            angles[third] = angles[third] * float(sign)
            angles[1] = middle - 0.5 * math.pi
        out = qnp.stack(angles, axis=-1)
        out = qnp.where(out < -math.pi, out + 2 * math.pi, qnp.where(out > math.pi, out - 2 * math.pi, out))
        return out * (180 / math.pi) if degrees else out

    def as_matrix(self) -> Value:
        """Orthogonal matrices of shape (3, 3) or (number, 3, 3)."""
        x, y, z, w = (self.quat[..., n] for n in range(4))
        rows = [
            [x * x - y * y - z * z + w * w, 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
            [2.0 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2.0 * (y * z - x * w)],
            [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), -x * x - y * y + z * z + w * w],
        ]
        return qnp.stack([qnp.stack(row, axis=-1) for row in rows], axis=-2)

    def as_mrp(self) -> Value:
        """Modified Rodrigues parameters (`from_mrp`)."""
        quat = qnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        return quat[..., :3] / (1.0 + quat[..., 3:])

    def as_rotvec(self, degrees: bool = False) -> Value:
        """Rotation vectors: the axis times the angle, which is in [0, pi]."""
        vector = _as_rotvec(self.quat)
        return vector * (180 / math.pi) if degrees else vector

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Value:
        """The quaternions; `canonical` ones have a scalar of at least 0."""
        quat = self.quat
        if canonical:
            x, y, z, w = (quat[..., n] for n in range(4))
            negative = (w < 0) | ((w == 0) & ((x < 0) | ((x == 0) & ((y < 0) | ((y == 0) & (z < 0))))))
            quat = qnp.where(negative[..., None], -quat, quat)
        return qnp.concatenate([quat[..., 3:], quat[..., :3]], axis=-1) if scalar_first else quat

    def inv(self) -> Rotation:
        """The inverse rotations."""
        return Rotation(qnp.concatenate([-self.quat[..., :3], self.quat[..., 3:]], axis=-1))

    def magnitude(self) -> Value:
        """The angles of the rotations, in [0, pi]."""
        return 2.0 * ew.atan2(_length(self.quat[..., :3])[..., 0], qnp.abs(self.quat[..., 3]))

    def mean(self, weights: Any = None) -> Rotation:
        """The rotation of the least squared distance from all (F.L. Markley et al., J. Guid. Control Dyn. 30, 2007).

        Raises:
            ValueError: `weights` is not a vector with a number for each rotation.
        """
        quat = qnp.atleast_2d(self.quat)
        w = qnp.ones(aval_of(quat).shape[0], dtype=aval_of(quat).dtype)
        if weights is not None:
            w = cast(array(f"{_NAME}.mean", weights, "weights"), aval_of(quat).dtype)
            if aval_of(w).shape != aval_of(quat).shape[:1]:
                raise ValueError(
                    f"quire.scipy.{_NAME}.mean: weights must be a vector of {aval_of(quat).shape[0]} numbers, got "
                    f"{aval_of(w).short()}"
                )
        vectors, _ = lax.linalg.eigh(qnp.matmul(quat.T * w[None, :], quat))
        return Rotation(vectors[:, -1])

    @property
    def single(self) -> bool:
        """Whether this is one rotation and not a vector of them."""
        return self.quat.ndim == 1


class Slerp(NamedTuple):
    """Interpolation between rotations at constant speed, made by `Slerp.init`. A pytree.

    Attributes:
        times, timedelta: the increasing times of the rotations, and their differences.
        rotations, rotvecs: all rotations but the last, and the rotation vectors that lead from each to the next.

    Follows `scipy.spatial.transform.Slerp`.

    >>> q, t = quire.numpy, quire.scipy.spatial.transform
    >>> path = t.Slerp.init(q.array([0., 1.]), t.Rotation.from_euler("z", q.array([[0.], [1.]])))
    >>> [round(v, 3) for v in path(0.25).as_rotvec().tolist()]
    [0.0, 0.0, 0.25]
    """

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """The path through rotations at increasing times.

        Raises:
            ValueError: `rotations` are not two or more rotations, `times` is not a vector with a number for each, or
                the times do not increase (where they are known).
        """
        name = "spatial.transform.Slerp.init"
        if not isinstance(rotations, Rotation) or rotations.single or len(rotations) < 2:
            raise ValueError(f"quire.scipy.{name}: rotations must be two or more rotations")
        (value,) = promote_inexact(array(name, times))
        if aval_of(value).shape != (len(rotations),):
            raise ValueError(
                f"quire.scipy.{name}: times must be {len(rotations)} numbers, one for each rotation, got "
                f"{aval_of(value).short()}"
            )
        known = concrete(value)
        if known is not None and not np.all(np.diff(known) > 0):
            raise ValueError(f"quire.scipy.{name}: times must increase")
        start, end = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        vectors = (start.inv() * end).as_rotvec()
        return cls(value, value[1:] - value[:-1], start, vectors)

    def __call__(self, times: Any) -> Rotation:
        """The rotations at these times: one, or a vector. Before the first time and after the last the motion goes on.

        Raises:
            ValueError: `times` has more than one dimension.
        """
        (value,) = promote_inexact(array("spatial.transform.Slerp", times))
        if aval_of(value).ndim > 1:
            raise ValueError(
                f"quire.scipy.spatial.transform.Slerp: times must be a number or a vector, got {aval_of(value).short()}"
            )
        index = qnp.clip(qnp.searchsorted(self.times, value) - 1, 0, self.times.shape[0] - 2)
        share = (value - self.times[index]) / self.timedelta[index]
        return Rotation(self.rotations.quat[index]) * Rotation(_from_rotvec(self.rotvecs[index] * share[..., None]))


__all__ = ["Rotation", "Slerp"]
__getattr__ = module_getattr("quire.scipy.spatial.transform", globals())
