"""What JAX's own test files found: expressions of quire and of JAX side by side, with values, dtypes and error classes.

q is quire or jax, n its numpy, s its scipy. An expression that raises must raise in both, by the same builtin class.
"""

import collections
import functools
import importlib
import warnings

import numpy as np
import pytest

import quire

jax = pytest.importorskip("jax")

C = np.array([[1 + 2j, 3 - 1j], [0.5j, 2]], np.complex64)
SPD = np.array([[4.0, 1.0], [1.0, 3.0]], np.float32)
LOWER = np.tril(np.arange(1.0, 17.0, dtype=np.float32).reshape(4, 4))
GRID = (np.linspace(0.0, 10.0, 6, dtype=np.float32),)
ANGLES = np.linspace(-2.0, 1.0, 4, dtype=np.float32)


class Sizes:
    """A sequence without `__iter__`."""

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return (2, 2)[i]


# Under strict promotion of dtypes and ranks, in which JAX's own tests run.
STRICT = {
    "linspace of integers": lambda q, n, s: n.linspace(0, 1, 5) + n.geomspace(1.0, 8.0, 5),
    "linspace of complex numbers": lambda q, n, s: n.linspace(n.complex64(0), n.complex64(1 + 1j), 3),
    "leslie matrices": lambda q, n, s: s.linalg.leslie(n.ones((2, 3)), n.ones((2, 2))),
    "samples of many parameters": lambda q, n, s: q.random.multivariate_normal(
        q.random.key(0), n.zeros(2), n.asarray(SPD), (3,)
    ),
    **{
        f"{method} of complex numbers": lambda q, n, s, method=method: getattr(s.sparse.linalg, method)(
            n.asarray(np.array([[3, 1j], [-1j, 2]], np.complex64)), n.asarray(np.array([1, 2j], np.complex64))
        )[0]
        for method in ("cg", "gmres", "bicgstab")
    },
    "pad by a ramp": lambda q, n, s: n.pad(n.asarray(C), 1, "linear_ramp"),
    "funm": lambda q, n, s: s.linalg.funm(n.asarray(SPD), n.sqrt),
    "choices of several ranks": lambda q, n, s: n.choose(
        n.array([[0, 1], [1, 0]]), [n.array(1), n.array([2, 3])], mode="clip"
    ),
    "a covariance for each polynomial": lambda q, n, s: n.polyfit(
        n.arange(6.0), n.arange(12.0).reshape(6, 2) ** 2, 2, cov=True
    )[1],
    "polyfit": lambda q, n, s: n.polyfit(n.arange(5.0), n.arange(5.0) ** 2, 2),
    "dct": lambda q, n, s: s.fft.dct(n.asarray(SPD)),
    "idctn": lambda q, n, s: s.fft.idctn(n.asarray(SPD)),
    "stft": lambda q, n, s: s.signal.stft(n.ones((2, 3, 32)), nperseg=8)[2],
    "istft": lambda q, n, s: s.signal.istft(n.ones((2, 5, 6), "complex64"), nperseg=8)[1],
    "welch": lambda q, n, s: s.signal.welch(n.arange(64.0).reshape(2, 32), nperseg=8)[1],
    "sqrtm of a batch": lambda q, n, s: s.linalg.sqrtm(n.asarray(SPD)) @ s.linalg.sqrtm(n.asarray(SPD)),
    "logsumexp of complex numbers": lambda q, n, s: s.special.logsumexp(n.asarray(C)),
    "vectorize checks ranks": lambda q, n, s: n.vectorize(n.add, signature="(),()->()")(n.ones((2, 2)), n.ones(2)),
}

USUAL = {
    "special functions of a number by halves": lambda q, n, s: [
        f(0.5) * n.ones(2, "bfloat16")
        for f in (
            *(
                getattr(s.special, name)
                for name in (
                    "dawsn",
                    "erfcx",
                    "exp1",
                    "expi",
                    "gamma",
                    "ndtr",
                    "ndtri",
                    "log_ndtr",
                    "spence",
                    "gammaln",
                    "digamma",
                    "i0",
                )
            ),
            lambda x: s.special.expn(2, x),
            lambda x: s.special.owens_t(x, x),
            lambda x: s.special.sici(x)[0],
            lambda x: s.special.fresnel(x)[1],
            lambda x: s.special.betaln(x, x),
            n.log2,
            n.log10,
            n.log,
            n.sinc,
            n.deg2rad,
        )
    ],
    "leaky_relu of integers": lambda q, n, s: [q.nn.leaky_relu(n.array([-2, 3]), 2), q.nn.leaky_relu(n.array([-2, 3]))],
    "softmax of some elements: tangents and cotangents of the others": lambda q, n, s: [
        (q.jvp(f, (x,), (t,))[1], q.vjp(f, x)[1](t)[0], q.jvp(q.grad(lambda x, f=f: f(x)[0]), (x,), (t,))[1])
        for f in [functools.partial(q.nn.softmax, where=n.array([True, True, False, True]))]
        for x in (n.arange(4.0), n.array([1.0, 2.0, n.nan, 4.0]))
        for t in (n.array([1.0, 0.5, 3.0, 2.0]), n.array([1.0, 0.5, n.nan, 2.0]))
    ],
    # Products in a preferred dtype: operands are not rounded, wrapped or taken for signed before they are in it.
    "preferred: operands of two dtypes": lambda q, n, s: [
        f(n.full((4, 4), x, a), n.full((4, 4), 3, b))
        for f in (
            functools.partial(n.matmul, preferred_element_type="float32"),
            functools.partial(n.tensordot, axes=1, preferred_element_type="float32"),
            functools.partial(n.einsum, "ij,kj->ik", preferred_element_type="float32"),
            functools.partial(n.inner, preferred_element_type="float32"),
            functools.partial(n.vdot, preferred_element_type="float32"),
            functools.partial(n.vecdot, preferred_element_type="float32"),
        )
        for x, a, b in (
            (4000000000, "uint32", "int8"),
            (200, "uint8", "int8"),
            (100, "int8", "bool"),
            (1, "bool", "bool"),
        )
    ],
    "preferred: float16 by int8 as integers": lambda q, n, s: n.dot(
        n.full(3, 2, "float16"), n.full(3, 100, "int8"), preferred_element_type="int32"
    ),
    # Floats are summed and then converted; a float by an integer is a product of integers.
    **{
        f"preferred: integers of {a} by {b}": lambda q, n, s, a=a, b=b: [
            f(x.astype(a), x.astype(b))
            for x in (n.array([[1.7, 2.5], [0.6, -3.2]]), n.array([[n.nan, n.inf], [60.5, -60.5]]))[
                : 1 if "int32" in (a, b) else 2
            ]
            for p in ("int8", "int32", "uint8", "bool")[: 2 if "int32" in (a, b) else 4]
            for f in (
                functools.partial(n.matmul, preferred_element_type=p),
                functools.partial(n.tensordot, axes=1, preferred_element_type=p),
                functools.partial(n.einsum, "ij,kj->ik", preferred_element_type=p),
                functools.partial(n.vdot, preferred_element_type=p),
                functools.partial(q.lax.dot, preferred_element_type=n.dtype(p)),
                q.jit(functools.partial(n.matmul, preferred_element_type=p)),
            )
        ]
        for a, b in (
            ("float32", "float32"),
            ("bfloat16", "bfloat16"),
            ("float16", "float32"),
            ("float32", "int32"),
            ("int32", "float16"),
        )
    },
    "preferred: gradients of integers": lambda q, n, s: q.grad(
        lambda x: n.matmul(x, x, preferred_element_type="int32").astype("float32").sum()
    )(n.array([[1.7, 2.5], [0.6, -3.2]])),
    "preferred: integers of parts of floats": lambda q, n, s: q.lax.ragged_dot(
        n.array([[1.7, 2.5], [0.6, -3.2]]),
        n.array([[[1.7, 2.5], [0.6, -3.2]]]),
        n.array([2]),
        preferred_element_type=n.dtype("int32"),
    ),
    "preferred: narrower than an operand": lambda q, n, s: n.dot(
        n.ones(3, "int8"), n.ones(3, "int16"), preferred_element_type="int8"
    ),
    "preferred: sums of one operand": lambda q, n, s: [
        n.einsum("ij->i", n.full((2, 4), 100, "int8"), preferred_element_type="int32"),
        n.einsum("ij->i", n.ones((2, 4), bool), preferred_element_type="float32"),
        n.einsum("ij,k->k", n.full((2, 4), 100, "int8"), n.full(3, 2, "int8"), preferred_element_type="int32"),
    ],
    **{
        f"condition numbers of matrices {shape}, norm {order}": lambda q, n, s, shape=shape, order=order: n.linalg.cond(
            n.ones(shape), order
        )
        for shape in ((0, 2, 2), (0, 2, 3), (2, 0, 3, 3), (2, 0, 0), (0, 2), (2, 0, 3))
        for order in (None, -2, 1, "fro")
    },
    "names of padding and dilated operands": lambda q, n, s: q.lax.conv_general_dilated(
        n.ones((1, 1, 4)), n.ones((1, 1, 3)), (1,), "SAME", lhs_dilation=(1,), rhs_dilation=(2,)
    ),
    **{
        f"{padding} of a dilated operand": lambda q, n, s, padding=padding, f=f: f(q.lax)(
            n.ones((1, 1, 4)), n.ones((1, 1, 3)), (1,), padding, (2,), (1,)
        )
        for padding in ("SAME", "VALID")
        for f in (lambda l: l.conv_general_dilated, lambda l: l.conv_with_general_padding)
    },
    "values in vectors": lambda q, n, s: [1.0 in n.arange(3.0), 4 in n.arange(3), n.int8(2) in n.arange(3)],
    "sets of integers and floats keep the first one's elements": lambda q, n, s: [
        n.setdiff1d(n.array([2**24 + 1, 5, 2**24 + 3, 2]), x, **options)
        for x in (n.array([5.0, 0.5]), n.array([5.0, 0.5], "float16"), n.array([True]), 2.5)
        for options in ({}, {"assume_unique": True}, {"size": 4}, {"size": 4, "fill_value": 7.5})
    ],
    "differences of numbers without a width have none": lambda q, n, s: [
        n.setdiff1d(x, n.array([1]), size=2) + n.ones(2, d) for x, d in ((5, "int8"), (5.5, "float16"))
    ],
    "round to integers": lambda q, n, s: [
        f(n.array([1, 2, 3], d))
        for d in ("int8", "uint8", "int32", "float16", "float32")
        for f in (round, lambda x: round(x, 0), lambda x: round(x, 1), q.jit(round))
    ],
    "round numbers without a width": lambda q, n, s: [
        n.ones(2, "int8") + round(x) for x in (n.asarray(2), n.asarray(2.5))
    ],
    "ldexp by what 32 bits with a sign do not hold": lambda q, n, s: n.ldexp(
        n.array([2.0, 0.5, -3.0]), n.array([2**32 - 1, 2**31, 5], "uint32")
    ),
    "ldexp by narrow integers": lambda q, n, s: [
        n.ldexp(n.array([2.0, 0.5, -3.0], x), n.array([1, 0, 1], d))
        for x in ("float16", "float32", "uint8")
        for d in ("int8", "uint16", "bool")
    ],
    "gelu has a width": lambda q, n, s: [
        n.ones(2, "bfloat16") + q.nn.gelu(x, approximate=a) for x in (0.5, 1) for a in (True, False)
    ],
    "ranks of halves": lambda q, n, s: s.stats.rankdata(n.arange(6, dtype="float16")),
    "zeta at its pole": lambda q, n, s: [
        f(n.array([1.0, 1.0, 1.0]), n.array([n.inf, -1.0, 2.0])) for f in (s.special.zeta, q.lax.zeta)
    ],
    "derivatives of zeta, at 0 and far": lambda q, n, s: [
        q.grad(lambda x: s.special.zeta(n.array([0.0, 2.0, 0.0]), x).sum())(n.array([2.5, 3.0, 0.25])),
        q.grad(lambda x: s.special.zeta(x, n.array([3.0, 0.75])).sum())(n.array([30.0, 40.0])),
    ],
    "numbers that are none of the integers' dtype": lambda q, n, s: [
        f(a, b)
        for f in (
            n.divide,
            n.arctan2,
            n.hypot,
            n.logaddexp,
            n.logaddexp2,
            n.copysign,
            n.heaviside,
            n.nextafter,
            n.float_power,
        )
        for x in (n.array([1, 100], n.uint8), n.array([-3, 100], n.int8), n.array([True, False]))
        for y in (300, -7, n.asarray(70000))
        for a, b in ((x, y), (y, x))
    ],
    "numbers as conditions": lambda q, n, s: [
        n.select([n.array([1, 0, 2]), n.array([0.0, 0.5, 0.0])], [1.0, 2.0], 5.0),
        n.select([1, 0], [n.ones(2), n.zeros(2)]),
    ],
    "bools as indices to take": lambda q, n, s: n.take(n.arange(4) * 5, n.array([True, False])),
    "places in a shape without elements": lambda q, n, s: [
        n.unravel_index(5, (0, 4)),
        n.unravel_index(n.zeros(0, int), (4, 0)),
        n.unravel_index(n.array([5, 6]), (0,)),
    ],
    "reshape without a copy": lambda q, n, s: n.reshape(n.arange(4), (2, 2), copy=False),
    "places to insert at outside": lambda q, n, s: [
        f(n.arange(4), i, 7) for f in (n.insert, q.jit(n.insert)) for i in (9, -9, n.array([-9, 1]), n.array([], int))
    ],
    "counts of categories as integers": lambda q, n, s: [
        q.random.multinomial(q.random.key(0), 50, n.array([0.3, 0.7]), dtype=d) for d in ("int32", "uint8", "float16")
    ],
    "bools for keys": lambda q, n, s: [
        q.random.key_data(k)
        for k in (
            q.random.key(True),
            q.random.PRNGKey(False),
            q.random.fold_in(q.random.key(0), True),
            q.random.fold_in(q.random.key(0), n.array(True)),
            q.random.fold_in(q.random.key(0), np.int64(-1)),
        )
    ],
    "rolls by narrow integers and bools": lambda q, n, s: [
        *[f(n.arange(300), i) for f in (n.roll, q.jit(n.roll)) for i in (n.array(-3, "int8"), True, n.uint32(7))],
        n.roll(n.arange(4), (True, 2), 0),
    ],
    "a mean of bools": lambda q, n, s: n.mean(n.arange(3), dtype=bool),
    "a range of bools": lambda q, n, s: n.arange(2, dtype=bool),
    "frequencies that are floats": lambda q, n, s: n.cov(n.arange(3.0), fweights=n.arange(3.0)),
    "a triangle of a negative size": lambda q, n, s: n.tri(3, -1),
    "an order by another kind": lambda q, n, s: n.sort(n.arange(3), kind="stable"),
    "places in an order": lambda q, n, s: n.argsort(n.arange(3), order="f"),
    "a dimension moved twice": lambda q, n, s: n.transpose(n.ones((2, 2)), (0, 0)),
    "spacing of complex numbers": lambda q, n, s: n.spacing(n.array(1j)),
    "take at fractions": lambda q, n, s: n.take(n.arange(3), n.array([1.0])),
    "take of what is promised": lambda q, n, s: n.take(n.arange(3), n.array([1]), mode="promise_in_bounds"),
    "put of what is dropped": lambda q, n, s: n.put(n.arange(3), n.array([1]), 5, mode="drop", inplace=False),
    "put in an unknown mode": lambda q, n, s: n.put(n.arange(3), n.array([1]), 5, mode="foo", inplace=False),
    "repetitions in a list": lambda q, n, s: n.repeat(n.arange(2), [1, 2]),
    "places to delete in a list": lambda q, n, s: n.delete(n.arange(3), [1]),
    "places to delete that are fractions": lambda q, n, s: n.delete(n.arange(3), 1.0),
    "places to insert at in a list": lambda q, n, s: n.insert(n.arange(3), [1], 5),
    "places to insert at that are fractions": lambda q, n, s: n.insert(n.arange(3), n.array([1.0]), 5),
    "a condition in a list": lambda q, n, s: n.compress([True, False], n.arange(3)),
    "a list to compress": lambda q, n, s: n.compress(n.array([True, False]), [1, 2]),
    "probabilities in a list": lambda q, n, s: q.random.choice(q.random.key(0), 2, p=[0.5, 0.5]),
    "a probability that is an integer": lambda q, n, s: q.random.bernoulli(q.random.key(0), 1),
    "logits that are integers": lambda q, n, s: q.random.categorical(q.random.key(0), n.array([0, 1])),
    "logits that are complex": lambda q, n, s: q.random.categorical(q.random.key(0), n.array([0j, 1])),
    "logits in a list": lambda q, n, s: q.random.categorical(q.random.key(0), [0.0, 1.0]),
    "a bound that no integer holds": lambda q, n, s: q.random.randint(q.random.key(0), (3,), 0, 2**32),
    "a lower bound that no integer holds": lambda q, n, s: q.random.randint(
        q.random.key(0), (3,), -(2**40), 3, "uint8"
    ),
    "a negative number for a key": lambda q, n, s: q.random.key_data(q.random.fold_in(q.random.key(0), -1)),
    "a large number for a key": lambda q, n, s: q.random.key_data(q.random.fold_in(q.random.key(0), 2**32)),
    "indices filled up with a number of another dtype": lambda q, n, s: [
        n.nonzero(n.arange(4), size=5, fill_value=2.5),
        n.nonzero(n.eye(2), size=3, fill_value=(1, 2.5)),
        n.nonzero(n.arange(4), fill_value=1j),
        n.argwhere(n.eye(2), size=3, fill_value=2.5),
        n.flatnonzero(n.eye(2), size=3, fill_value=n.int8(3)),
        n.where(n.arange(4), size=5, fill_value=True),
        q.jit(lambda x: n.nonzero(x, size=5, fill_value=x[2] + 0.5))(n.arange(4)),
    ],
    "sets filled up with a number of another dtype": lambda q, n, s: (
        [
            f(n.arange(4), n.array(b, int), size=6, fill_value=2.5)
            for f in (n.intersect1d, n.setxor1d, n.setdiff1d, n.union1d)
            for b in ([1, 7], [])
        ]
        + [n.setxor1d(n.zeros(0, int), n.zeros(0, int), True, size=2, fill_value=2.5)]
    ),
    **{
        f"a vector to fill up with: {name}": lambda q, n, s, name=name: getattr(n, name)(
            *[n.arange(4)] * (2 if name.endswith("1d") else 1), size=6, fill_value=n.array([1, 2])
        )
        for name in ("nonzero", "flatnonzero", "argwhere", "where", "unique", "union1d", "setdiff1d", "setxor1d")
    },
    "a vector to fill up with: at": lambda q, n, s: n.arange(4).at[9].get(mode="fill", fill_value=n.array([1, 2])),
    "integers full of floats": lambda q, n, s: (
        [
            f(d, v)
            for f in (
                lambda d, v: n.full(2, v, d),
                lambda d, v: n.full_like(n.zeros(2, d), v),
                lambda d, v: q.lax.full((2,), v, d),
            )
            for d in ("int32", "uint8", "bool")
            for v in (n.nan, n.inf, -n.inf, 1e20, -1.5, 2.7)
        ]
        + [n.full(2, n.array(n.inf, "bfloat16"), "uint16"), n.full(2, np.float32(n.nan), "int32")]
    ),
    "integers of numbers of Python": lambda q, n, s: [q.lax.convert_element_type(v, "int32") for v in (n.nan, n.inf)],
    "real numbers full of a complex one": lambda q, n, s: n.full(2, 1j, "float32"),
    "an array full of a complex number, like a real one": lambda q, n, s: n.full_like(n.ones(2), 1j),
    "lax.full of a complex number": lambda q, n, s: q.jit(lambda: q.lax.full((2,), 1j, "float32"))(),
    "a rotation by a quaternion of zeros": lambda q, n, s: [
        (r.as_matrix(), r.as_rotvec(), r.as_euler("xyz"), r.inv().as_quat(), r.magnitude(), r.apply(n.ones(3)))
        for r in [s.spatial.transform.Rotation.from_quat(n.zeros(4))]
    ],
    "types of results of numbers of Python": lambda q, n, s: [
        x + n.ones((), "bfloat16")
        for x in (
            s.spatial.transform.Rotation.from_euler("z", 0.1).as_quat(),
            s.linalg.toeplitz(3.0),
            s.linalg.block_diag(3.0),
            n.polyfit(n.arange(5.0), n.arange(5.0) ** 2, 2, full=True)[4],
        )
    ],
    "spectra of nothing": lambda q, n, s: [
        s.signal.welch(n.zeros(0)),
        s.signal.welch(n.zeros((2, 0), "complex64")),
        s.signal.csd(n.zeros(0), n.zeros(0)),
        s.signal.stft(n.zeros(0)),
    ],
    "convolutions of nothing": lambda q, n, s: [
        s.signal.fftconvolve(n.zeros(0), n.ones(300)),
        s.signal.fftconvolve(n.ones(3), n.zeros(0)),
        s.signal.fftconvolve(n.zeros(0), n.ones(3), "same"),
        s.signal.fftconvolve(n.zeros((0, 2)), n.ones((3, 2))),
        s.signal.fftconvolve(n.zeros((0, 2)), n.ones((3, 2)), axes=0),
        s.signal.convolve(n.ones(3), n.zeros(0), method="fft"),
    ],
    "direct convolution of nothing": lambda q, n, s: s.signal.convolve(n.ones(3), n.zeros(0)),
    "repetitions of nothing of a given length": lambda q, n, s: [
        n.repeat(n.zeros(0), 3, total_repeat_length=4),
        n.repeat(n.zeros((2, 0)), 3, axis=1, total_repeat_length=4),
        n.repeat(n.zeros((2, 0)), 3, axis=0, total_repeat_length=4),
    ],
    "tails of the logistic distribution": lambda q, n, s: n.sort(
        q.random.logistic(q.random.key(3), (2000,), "bfloat16")
    ),
    "lower tail of the logistic distribution": lambda q, n, s: n.min(q.random.logistic(q.random.key(0), (100000,))),
    "counts as halves": lambda q, n, s: [
        q.random.binomial(q.random.key(7), k, 0.3, (9,), d) for k in (10, 5000.0) for d in ("float16", "bfloat16")
    ],
    "counts of half probabilities": lambda q, n, s: q.random.binomial(
        q.random.key(7), 10, n.bfloat16(0.3), (9,), "bfloat16"
    ),
    "put": lambda q, n, s: [
        n.put(n.zeros(5), n.array([-1, 0, 7, -9]), n.array([1.0, 2, 3, 4]), m, inplace=False)
        for m in (None, "clip", "wrap")
    ],
    "derivatives of the gamma function's sign": lambda q, n, s: q.vmap(q.grad(s.special.gammasgn))(
        n.array([n.nan, 0.5, -1.5])
    ),
    "derivatives at the poles of loggamma": lambda q, n, s: q.vmap(q.grad(s.special.loggamma))(
        n.array([0.0, -1, n.inf, 0.5])
    ),
    "variances of a complex dtype": lambda q, n, s: [
        f(n.arange(4.0), dtype="complex64") for f in (n.var, n.std, n.nanvar, n.nanstd)
    ],
    "a vector to pad by": lambda q, n, s: q.lax.pad(n.zeros(2), n.zeros(2), [(0, 0, 0)]),
    "numbers of dimensions that a gather lacks": lambda q, n, s: q.lax.gather(
        n.ones((2, 2)), n.zeros((2, 1), int), q.lax.GatherDimensionNumbers((5,), (0,), (0,)), (1, 2)
    ),
    "indices that a top_k cannot count": lambda q, n, s: q.eval_shape(
        lambda x: q.lax.top_k(x, 3), q.ShapeDtypeStruct((2**31 + 1,), "float32")
    ),
    "the derivative of a mantissa": lambda q, n, s: [
        q.jvp(lambda x: n.frexp(x)[0], (n.array([3.0, -0.1, 0.0, 7e20], d),), (n.ones(4, d),))
        for d in ("float32", "bfloat16")
    ],
    "eye of a traced diagonal": lambda q, n, s: [q.jit(lambda k: n.eye(3, 4, k=k))(k) for k in (-1, 2)],
    "scalars of NumPy": lambda q, n, s: [n.isscalar(np.array(16)), n.isscalar(np.array([0])), n.isscalar(n.array(1))],
    "repetitions of nothing": lambda q, n, s: [
        q.jit(lambda x, k: n.repeat(x, k, axis=1, total_repeat_length=0))(n.ones((2, 0)), 2),
        n.repeat(n.ones(0), 2, total_repeat_length=0),
    ],
    "trapezoids of an array of widths": lambda q, n, s: [
        n.trapezoid(n.arange(60.0).reshape(3, 4, 5), dx=n.arange(40.0).reshape(2, 4, 5), axis=0),
        n.trapezoid(n.arange(60.0).reshape(3, 4, 5), dx=n.arange(4.0)),
        n.trapezoid(n.arange(12.0).reshape(3, 4), dx=n.arange(3.0)),
    ],
    "numbers of more than 64 bits": lambda q, n, s: n.array([0, -(2**63) - 1]),
    "steps of linspace that nothing spans": lambda q, n, s: [
        n.linspace(n.ones(2), n.ones(2) * 3, num, endpoint=end, retstep=True) for num in (0, 1) for end in (True, False)
    ],
    "put of no values": lambda q, n, s: n.put(n.arange(4.0), n.array([1]), n.array([]), inplace=False),
    "ravel_multi_index": lambda q, n, s: [
        n.ravel_multi_index((n.array([0, 1], "int8"),) * 2, (2, 3), mode="ignore"),
        n.ravel_multi_index((n.array([0, 1], "uint8"),) * 2, (2, 3), mode="clip", dtype="int16"),
    ],
    "ravel_multi_index of a narrow dtype": lambda q, n, s: n.ravel_multi_index((n.array([0], "int8"),) * 2, (20, 30)),
    "ravel_multi_index of floats": lambda q, n, s: n.ravel_multi_index((n.array([0.0]),) * 2, (20, 30)),
    "take_along_axis by one-hot rows": lambda q, n, s: [
        n.take_along_axis(n.arange(4.0), n.array([1, -2, 5]), 0, mode="one_hot"),
        n.take_along_axis(n.arange(6).reshape(2, 3), n.array([[1], [-1]]), 1, mode="one_hot"),
    ],
    "deletion at traced places": lambda q, n, s: [
        q.jit(lambda x, i: n.delete(x, i, assume_unique_indices=True))(n.arange(6), n.array([[1, -1]])),
        q.jit(lambda x, i: n.delete(x, i, axis=1, assume_unique_indices=True))(
            n.arange(6).reshape(2, 3), n.array([2, 0])
        ),
    ],
    "a solution of a singular tridiagonal system": lambda q, n, s: [
        q.lax.linalg.tridiagonal_solve(
            *(n.array(x, "float32") for x in ([0, 1], [1, 3], [3, 0], [[1], [4]])), perturb_singular=perturbed
        )
        for perturbed in (False, True)
    ],
    "the solution of a regular tridiagonal system": lambda q, n, s: q.lax.linalg.tridiagonal_solve(
        *(n.array(x, "float32") for x in ([0, 1, 1], [4, 5, 6], [1, 2, 0], [[1], [4], [2]])), perturb_singular=True
    ),
    "products in another dtype": lambda q, n, s: q.lax.mul(
        n.array([100, 50], "int8"), n.array([100, 3], "int8"), out_dtype="int32"
    ),
    "functions of an accuracy": lambda q, n, s: q.lax.tanh(n.ones(2), accuracy=q.lax.AccuracyMode.HIGHEST),
    "a Fourier transform over no dimension": lambda q, n, s: q.lax.fft(n.ones((2, 3), "complex64"), "FFT", ()),
    "shapes of negative sizes": lambda q, n, s: q.lax.broadcast_shapes((-1,)),
    "shapes that are none": lambda q, n, s: q.lax.broadcast_shapes("hello"),
    "a dimension that does not fit": lambda q, n, s: q.lax.broadcast_in_dim(n.ones(2), (3,), (0,)),
    "a dimension that is not there": lambda q, n, s: q.lax.broadcast_in_dim(n.ones(2), (2, 3), (2,)),
    "dimensions that occur twice": lambda q, n, s: q.lax.broadcast_in_dim(n.ones((2, 2)), (2, 2), (0, 0)),
    "pads are numbers of Python": lambda q, n, s: [
        type(x) is int
        for pair in q.lax.padtype_to_pads(np.array([10]), np.array([5]), np.array([1]), "SAME")
        for x in pair
    ],
    "a field that is no metadata": lambda q, n, s: dict(q.tree.static(metadata={"static": False}).metadata),
    "the order of a defaultdict": lambda q, n, s: list(
        q.tree_util.tree_unflatten(
            q.tree_util.tree_flatten_with_path(collections.defaultdict(int, {"b": 2, "a": 1}))[1], [1, 2]
        ).values()
    ),
    "new dimensions at no place": lambda q, n, s: n.expand_dims(n.ones(2), None),
    "sem of all elements": lambda q, n, s: s.stats.sem(n.asarray(SPD), axis=None, keepdims=True),
    "gradient of interp at close points": lambda q, n, s: q.grad(lambda z: n.interp(z, z, n.ones_like(z)).sum())(
        np.exp(np.linspace(-90, -20, 1000, dtype=np.float32))
    ),
    "interp at close points": lambda q, n, s: n.interp(
        np.float32(1.5e-15), np.array([0, 1e-15, 2e-15, 1], np.float32), np.array([1, 2, 3, 4], np.float32)
    ),
    "a gather over no lanes": lambda q, n, s: q.vmap(lambda x, i: x[i])(n.ones((0, 4, 2)), n.ones((0, 3), int)),
    "a slice over no lanes": lambda q, n, s: q.vmap(lambda x, i: q.lax.dynamic_slice(x, (i,), (2,)))(
        n.ones((0, 4)), n.ones(0, int)
    ),
    "spherical harmonics of negative angles": lambda q, n, s: s.special.sph_harm_y(
        n.array([1, 2, 3, 3]), n.array([1, -1, 3, -3]), n.asarray(ANGLES), n.asarray(ANGLES), n_max=3
    ),
    "halves of coordinates": lambda q, n, s: s.ndimage.map_coordinates(
        n.arange(-3.0, 3.0), [n.array([0.5, 1.5, 2.5, 3.5])], 0
    ),
    "points of a grid of one dimension": lambda q, n, s: s.interpolate.RegularGridInterpolator(GRID, GRID[0] ** 2)(
        n.array([0.5, 3.0, 9.0], "float32")
    ),
    "setdiff1d keeps the first dtype": lambda q, n, s: n.setdiff1d(n.array([1, 2], "int8"), n.array([1], "int32")),
    "setxor1d of values that occur twice": lambda q, n, s: n.setxor1d(
        n.array([1, 1, 2]), n.array([3]), assume_unique=True
    ),
    "weak types of bools": lambda q, n, s: [
        f(n.asarray(1.0), n.asarray(2)).weak_type
        for f in (
            lambda a, i: a > 0,
            lambda a, i: a == i,
            lambda a, i: q.lax.lt(a, a),
            lambda a, i: n.isfinite(a),
            lambda a, i: n.isnan(a),
            lambda a, i: n.isinf(a),
            lambda a, i: n.isposinf(a),
            lambda a, i: ~(a > 0),
            lambda a, i: n.logical_not(a),
            lambda a, i: n.logical_or(a, i),
            lambda a, i: n.logical_and(a > 0, i),
            lambda a, i: (a > 0) & (a > 1),
            lambda a, i: (a > 0) == (a > 1),
            lambda a, i: (a > 0) + (a > 1),
            lambda a, i: a.astype(bool),
            lambda a, i: n.any(a > 0),
            lambda a, i: n.all(i),
            lambda a, i: (a > 0)[None][0],
            lambda a, i: n.where(a > 0, a > 0, a < 0),
            lambda a, i: n.isclose(a, 1.0),
            lambda a, i: n.signbit(a),
            lambda a, i: a > n.ones(3),
            lambda a, i: q.lax.reduce_or((a > 0)[None], (0,)),
            lambda a, i: (a > 0) * 2.5,
        )
    ],
    "weak types of activations of bools": lambda q, n, s: [
        (y, y.weak_type)
        for f in (q.nn.softplus, q.nn.soft_sign, q.nn.mish, q.nn.squareplus, q.nn.elu, q.nn.gelu)
        for x in (n.array([True, False]), n.array([1]), n.asarray(1.5), n.array([1], "float16"))
        for run in (lambda f: f, q.jit)
        for y in [run(f)(x)]
    ],
    "squareplus of bools and numbers": lambda q, n, s: [
        q.nn.squareplus(n.array([True]), b).weak_type for b in (4, 4.0, n.asarray(4), n.ones(1))
    ],
    "softmax of bools beside a mask": lambda q, n, s: [
        (y, y.weak_type)
        for f in (q.nn.softmax, q.nn.log_softmax)
        for mask in (np.array([True, True, False]), np.array([[False], [True]]))
        for y in [f(n.array([[True, False, True], [True, False, False]]), where=mask)]
    ],
    "softmax of bools without a mask": lambda q, n, s: q.nn.log_softmax(n.array([True])),
    "carries that begin as bools of numbers": lambda q, n, s: [
        q.lax.scan(lambda c, x: (c * x, None), n.asarray(1.0) > 0, n.arange(1.0, 4.0))[0],
        q.lax.fori_loop(0, 5, lambda i, c: c + (i > 2).astype(int), n.asarray(1.0) > 0),
        q.lax.while_loop(lambda c: c < 3, lambda c: c + 1, n.asarray(1.0) > 0),
        q.jit(lambda v, t: q.lax.scan(lambda c, x: (c * x, c), t > 0.5, v)[0])(n.arange(1.0, 4.0), 1.0),
    ],
    "weak types of what is put into arrays": lambda q, n, s: [
        f(x, n.ones(3)).weak_type
        for x in [n.where(n.eye(3, dtype=bool), 0.0, 1.0)]
        for f in (
            lambda x, v: n.place(x, x > 0, v, inplace=False),
            lambda x, v: n.insert(x, 1, v, axis=0),
            lambda x, v: n.put(x, n.arange(3), v, inplace=False),
            lambda x, v: n.fill_diagonal(x, v, inplace=False),
            lambda x, v: n.pad(x, 1, constant_values=v[0]),
            lambda x, v: n.pad(x, 1, mode="mean"),
            lambda x, v: n.setdiff1d(x, v, size=4, fill_value=v[0]),
            lambda x, v: q.jit(lambda x, v: x.at[0].set(v))(x, v),
        )
    ],
    "powers of 0 beyond the bits of an integer": lambda q, n, s: [
        n.power(n.array([0, 0, 1, 0], dtype), n.array([64, 127, 64, 0], dtype))
        for dtype in ("int8", "uint8", "int32", "uint32")
    ],
    "variances asked for as halves": lambda q, n, s: [
        f(n.arange(201).astype(of), dtype=dtype)
        for f in (n.var, n.nanstd)
        for of in ("float16", "float32", "uint8")
        for dtype in ("float16", "bfloat16")
    ],
    "setxor1d of a given size with NaN": lambda q, n, s: [
        n.setxor1d(n.array(x), n.array(y), unique, size=6)
        for x, y in (([3.0, np.nan], [np.nan, 1.0]), ([np.inf, 1.0], [2.0]), ([True], [False]))
        for unique in (False, True)
    ],
    "setxor1d of a given size": lambda q, n, s: n.setxor1d(
        n.array([1, 1, 2]), n.array([3]), assume_unique=True, size=3, fill_value=9
    ),
    "cov of nothing": lambda q, n, s: n.cov(n.ones((2, 0))),
    "take from nothing": lambda q, n, s: n.take(n.ones((2, 0)), n.array([0]), axis=1),
    "reduceat of nowhere": lambda q, n, s: n.add.reduceat(n.arange(4), n.array([], "int32")),
    "ufuncs are read-only": lambda q, n, s: setattr(n.add, "nin", 3),
    "vectorize passes None": lambda q, n, s: n.vectorize(lambda x, y: x if y is None else x + y)(n.arange(3), None),
    "compress as a method": lambda q, n, s: n.arange(6).reshape(2, 3).compress(n.array([1, 0, 1]), axis=1),
    "byteswap": lambda q, n, s: (n.array([1, 2], "int16").byteswap(), n.asarray(C).byteswap() == n.asarray(C)),
    "insert at a traced place": lambda q, n, s: q.jit(lambda i: n.insert(n.arange(5), i, n.array([7, 8])))(2),
    "insert at a traced negative place": lambda q, n, s: q.jit(
        lambda i: n.insert(n.arange(6).reshape(2, 3), i, n.array([7, 8]), axis=1)
    )(-1),
    "insert at traced places": lambda q, n, s: q.jit(lambda i: n.insert(n.arange(5), i, n.array([7, 8])))(
        n.array([3, -5])
    ),
    "solve by a vector for each matrix": lambda q, n, s: s.linalg.solve_triangular(
        n.asarray(np.stack([LOWER] * 3)), n.ones(4), lower=True
    ),
    "quantile by the distribution's inverse": lambda q, n, s: n.quantile(
        n.array([3.0, 1.0, 10.0, 2.0]), n.array([0.0, 0.3, 0.5, 1.0]), method="inverted_cdf"
    ),
    "types of a branch: weak where the first one's are": lambda q, n, s: [
        int(v.dtype == n.bfloat16)
        for v in (
            q.lax.cond(True, lambda x: np.float32(1) * x, lambda x: x * 2, 2.0) + n.ones(2, "bfloat16"),
            q.lax.cond(True, lambda x: x * 2, lambda x: np.float32(1) * x, 2.0) + n.ones(2, "bfloat16"),
            q.lax.switch(1, [lambda x: x * 2, lambda x: np.float32(1) * x], 2.0) + n.ones(2, "bfloat16"),
        )
    ],
    "quantile with weights": lambda q, n, s: n.quantile(
        n.array([[3.0, 1.0, 2.0], [1.0, 5.0, 4.0]]),
        0.4,
        axis=1,
        weights=n.array([0.0, 1.0, 2.0]),
        method="inverted_cdf",
    ),
    "nanquantile with weights": lambda q, n, s: n.nanquantile(
        n.array([3.0, n.nan, 2.0]), n.array([0.3, 0.9]), weights=n.array([1.0, 9.0, 2.0]), method="inverted_cdf"
    ),
    "quantile: weights of other methods": lambda q, n, s: n.quantile(n.ones(2), 0.5, weights=n.ones(2)),
    "average with weights of several axes": lambda q, n, s: n.average(
        n.arange(24.0).reshape(2, 3, 4), axis=(0, 2), weights=n.arange(8.0).reshape(2, 4)
    ),
    "cov of one row, by columns": lambda q, n, s: n.cov(n.arange(3.0).reshape(1, 3), rowvar=False),
    "cov in integers": lambda q, n, s: n.cov(n.ones((2, 3)), dtype=int),
    "comparison with a list": lambda q, n, s: n.arange(3) == [0, 1, 2],
    "comparison with None": lambda q, n, s: n.arange(3) == None,  # noqa: E711
    "index_take": lambda q, n, s: q.lax.index_take(
        n.arange(60).reshape(3, 4, 5), (np.array([-1, 2]), np.array([1, 7])), [0, 2]
    ),
    "no window": lambda q, n, s: q.lax.reduce_window(n.ones(1), 0.0, q.lax.add, (0,), (1,), "VALID"),
    "derivative of windows of products": lambda q, n, s: q.jvp(
        lambda v: q.lax.reduce_window(v, 1.0, q.lax.mul, (2,), (1,), "VALID"), (n.arange(1.0, 5.0),), (n.ones(4),)
    ),
    "derivative of a complete QR": lambda q, n, s: q.jvp(
        lambda a: (lambda f: (n.abs(f.Q[:, :2]), f.Q @ f.R))(n.linalg.qr(a, mode="complete")),
        (n.array([[1.0, 2.0], [3.0, 5.0], [5.0, 7.5]]),),
        (n.ones((3, 2)),),
    ),
    "derivative of a tall pseudo-inverse": lambda q, n, s: q.jvp(
        n.linalg.pinv, (n.arange(8.0).reshape(4, 2) ** 2,), (n.ones((4, 2)),)
    ),
    "derivative of a wide pseudo-inverse": lambda q, n, s: q.jvp(
        n.linalg.pinv, (n.arange(8.0).reshape(2, 4) ** 2,), (n.ones((2, 4)),)
    ),
    "keys of one value": lambda q, n, s: [
        q.random.key_data(k)
        for k in (
            n.full((2,), q.random.key(3), dtype=q.random.key(0).dtype),
            n.ones((2,), dtype=q.random.key(0).dtype),
            n.zeros_like(q.random.split(q.random.key(0))),
            n.full_like(q.random.split(q.random.key(0)), q.random.key(5)),
        )
    ],
    "rsf2csf of one T and several Z": lambda q, n, s: (
        s.linalg.rsf2csf(n.array([[0.0, 1.0], [-1.0, 0.0]]), n.ones((3, 2, 2)))[1].shape
    ),
    "reshape by a sequence of a class of its own": lambda q, n, s: n.reshape(n.arange(4), Sizes()),
    "tri at a traced diagonal": lambda q, n, s: q.jit(lambda k: n.tri(3, k=k))(1),
    "full of an unsigned integer": lambda q, n, s: n.full((2,), 0x85A308D3, "uint32"),
    "a seed beyond 64 bits": lambda q, n, s: q.random.key(2**63),
    "a key's generator said twice": lambda q, n, s: q.random.key(0, impl="rbg", dtype=q.random.key(0).dtype),
    "a struct like an array": lambda q, n, s: q.ShapeDtypeStruct.like(n.ones(3)).shape,
    "an array of keys, by their dtype": lambda q, n, s: q.random.key_data(
        n.array(q.random.key(1), dtype=q.random.key(0).dtype)
    ),
    "lax.dtype of a type": lambda q, n, s: q.lax.dtype(np.float64) == np.float32,
    "members of SvdAlgorithm": lambda q, n, s: [len(a.value) for a in q.lax.linalg.SvdAlgorithm],
    "ShapedArray of a scalar type": lambda q, n, s: q.core.ShapedArray((2,), np.float32).dtype == np.float32,
    "tolerances by dtype": lambda q, n, s: q.test_util.check_grads(
        n.sin, (n.float32(0.5),), 1, atol={np.float32: 1e-2}, rtol={np.float32: 1e-2}
    ),
}


def result(f, q):
    """What an expression gives, as NumPy arrays; or the class of its error."""
    for name in (
        "scipy",
        "scipy.fft",
        "scipy.interpolate",
        "scipy.ndimage",
        "scipy.signal",
        "scipy.sparse.linalg",
        "scipy.spatial.transform",
        "test_util",
        "core",
    ):
        importlib.import_module(f"{q.__name__}.{name}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = f(q, q.numpy, q.scipy)
    except Exception as error:
        return next(c for c in type(error).__mro__ if c.__module__ == "builtins")
    return [np.asarray(x) for x in q.tree_util.tree_leaves(out)]


def compare(f):
    got, want = result(f, quire), result(f, jax)
    if isinstance(got, type) or isinstance(want, type):
        assert got is want
        return
    assert [(x.shape, x.dtype) for x in got] == [(x.shape, x.dtype) for x in want]
    for g, w in zip(got, want):
        np.testing.assert_allclose(g, w, rtol=2e-4, atol=2e-5)


# With numbers of 64 bits: what becomes of integers.
WIDE = {
    **{
        f"fft.{name}": lambda q, n, s, name=name: [
            getattr(n.fft, name)(n.array([[3, 1], [2, 5]], d)) for d in ("int64", "uint64", "int32", "bool")
        ]
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "rfftn", "irfft2")
    },
    "sort_complex": lambda q, n, s: [n.sort_complex(n.array([3, 1], d)) for d in ("int64", "uint64", "int32")],
    "ldexp": lambda q, n, s: n.ldexp(n.full(4, 2.0), n.array([2**64 - 1, 2**63, 2**40, 3], "uint64")),
    "round": lambda q, n, s: [round(n.array([2.5, 3.0], d)) for d in ("float32", "float64", "int32")],
    "mode": lambda q, n, s: s.stats.mode(n.array([3, 1, 3], "int32")),
    "rankdata": lambda q, n, s: [s.stats.rankdata(n.array([3, 1, 3], d)) for d in ("int32", "float32")],
    "hard_sigmoid": lambda q, n, s: [
        f(n.array([3, 1, 3], d)) for f in (q.nn.hard_sigmoid, q.nn.hard_silu) for d in ("int32", "int64", "float32")
    ],
    "setdiff1d": lambda q, n, s: n.setdiff1d(n.array([2**53 + 1, 3, 5], "uint64"), n.array([3], "int64")),
}


@pytest.mark.parametrize("name", STRICT)
def test_strict(name):
    with (
        quire.numpy_dtype_promotion("strict"),
        quire.numpy_rank_promotion("raise"),
        jax.numpy_dtype_promotion("strict"),
        jax.numpy_rank_promotion("raise"),
    ):
        compare(STRICT[name])


@pytest.mark.parametrize("name", USUAL)
def test_usual(name):
    compare(USUAL[name])


@pytest.mark.parametrize("name", WIDE)
def test_wide(name):
    with quire.enable_x64(True), jax.enable_x64(True):
        compare(WIDE[name])
