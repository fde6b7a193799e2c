"""quire.scipy's minimisation, interpolation, vector quantisation, cosine transforms and rotations against SciPy."""

from __future__ import annotations

import importlib
import inspect
import itertools
import warnings

import jax
import jax.scipy.optimize
import numpy as np
import pytest
import scipy
import scipy.cluster.vq
import scipy.fft
import scipy.ndimage
import scipy.optimize
from scipy.spatial import transform as scipy_transform

import quire
import quire.numpy as qnp
import quire.scipy.linalg
from quire.ir.config import config
from quire.scipy import fft, integrate, interpolate, ndimage, optimize
from quire.scipy.cluster import vq
from quire.scipy.spatial.transform import Rotation, Slerp

from ..helpers import Case
from ..helpers import check as check_cases

R = np.random.default_rng(0)
q = qnp.asarray
LBFGS = "l-bfgs-experimental-do-not-rely-on-this"

MODULES = [
    "optimize",
    "ndimage",
    "interpolate",
    "cluster",
    "cluster.vq",
    "integrate",
    "spatial",
    "spatial.transform",
    "fft",
]


@pytest.mark.parametrize("name", MODULES)
def test_names_and_signatures_are_those_of_jax(name):
    pytest.importorskip("jax")
    mine, theirs = (importlib.import_module(f"{package}.scipy.{name}") for package in ("quire", "jax"))
    want = {n for n in dir(theirs) if not n.startswith("_")}
    assert want <= {n for n in dir(mine) if not n.startswith("_")}
    for n in want:
        if callable(getattr(theirs, n)):
            got = inspect.signature(getattr(mine, n)).parameters.values()
            expected = inspect.signature(getattr(theirs, n)).parameters.values()
            assert [(p.name, p.kind, str(p.default)) for p in got] == [
                (p.name, p.kind, str(p.default)) for p in expected
            ], n


def test_submodules_load_when_first_used():
    import quire.scipy

    assert quire.scipy.integrate is integrate and "special" in dir(quire.scipy)
    with pytest.raises(
        AttributeError, match="module 'quire.scipy' has no attribute 'stat'; did you mean quire.scipy.stats"
    ):
        _ = quire.scipy.stat


# -- minimize ---------------------------------------------------------------------------------------------------------


def rosenbrock(x):
    return qnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(x):
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def matyas(x):
    return 0.26 * (x[0] ** 2 + x[1] ** 2) - 0.48 * x[0] * x[1]


def well(x):
    return -qnp.exp(-qnp.sum(x**2)) + 0.1 * qnp.sum(x**4)


MINIMA = [
    (rosenbrock, [-1.2, 1.0], [1, 1]),
    (himmelblau, [0.0, 0.0], [3, 2]),
    (matyas, [5.0, -3.0], [0, 0]),
    (well, [2.0, 3.0], [0, 0]),
]


@pytest.mark.parametrize("method", ["BFGS", LBFGS])
def test_minimize(method, x64):
    with config.override(disable_jit=True):
        for f, start, want in MINIMA[:3] if method == LBFGS else MINIMA:
            result = optimize.minimize(f, q(start), method=method)
            assert bool(result.success), f.__name__
            np.testing.assert_allclose(result.x, want, atol=5e-5, err_msg=f.__name__)
            np.testing.assert_allclose(result.jac, quire.grad(f)(result.x), atol=1e-12)
            assert result.fun.item() == f(result.x).item()
            assert int(result.nfev) >= int(result.nit) > 1
    if method == "BFGS":
        np.testing.assert_allclose(result.hess_inv, np.linalg.inv(quire.hessian(well)(result.x)), atol=0.05)


def test_minimize_takes_the_steps_that_jax_takes(x64):
    rng = np.random.default_rng(0)
    a, b, x = rng.normal(size=(6, 6)), rng.normal(size=6), rng.uniform(-3, 3, size=(8, 1))
    square, distances, y = a @ a.T + np.eye(6), (x - x.T) ** 2, np.sin(x[:, 0])

    def likelihood(n, linalg):
        def f(p):
            size, length, noise = n.exp(p)
            factor = linalg.cholesky(size * n.exp(-distances / (2 * length**2)) + noise * n.eye(8), lower=True)
            z = linalg.solve_triangular(factor, n.asarray(y), lower=True)
            return 0.5 * z @ z + n.sum(n.log(n.diag(factor)))

        return f

    mine, theirs = (qnp, quire.scipy.linalg), (jax.numpy, jax.scipy.linalg)
    cases = [
        (lambda n, linalg: lambda v: 100 * (v[1] - v[0] ** 2) ** 2 + (1 - v[0]) ** 2, [-1.2, 1.0], (1, 2, 4, 7)),
        (lambda n, linalg: lambda v: 0.5 * v @ (square @ v) - b @ v, [0.0] * 6, (3, 6)),
        (likelihood, [0.0, 0.0, -1.0], (2, 5)),
    ]
    for make, start, iterations in cases:
        for most in iterations:
            with jax.enable_x64(True):
                want = jax.scipy.optimize.minimize(
                    make(*theirs), jax.numpy.array(start), method="BFGS", options={"maxiter": most}
                )
            with config.override(disable_jit=True):
                got = optimize.minimize(make(*mine), q(start), method="BFGS", options={"maxiter": most})
            np.testing.assert_allclose(got.x, want.x, rtol=1e-9, atol=1e-9)
            assert (int(got.nit), int(got.nfev)) == (int(want.nit), int(want.nfev)) == (most, int(got.njev))


def test_minimize_searches_on_where_the_slope_has_turned(x64):
    with config.override(disable_jit=True):
        got = optimize.minimize(himmelblau, qnp.zeros(2), method="BFGS")
    assert (int(got.status), bool(got.success)) == (0, True)
    with jax.enable_x64(True):
        want = jax.scipy.optimize.minimize(himmelblau, jax.numpy.zeros(2), method="BFGS")
    assert int(want.status) == 3 and float(want.fun) > float(got.fun) + 1


def test_minimize_options(x64):
    with config.override(disable_jit=True):
        one = optimize.minimize(
            lambda x, a: qnp.sum((x - a) ** 4), qnp.zeros(2), (q([1.0, 2.0]),), method="bfgs", options={"maxiter": 1}
        )
        assert (int(one.status), bool(one.success), int(one.nit)) == (1, False, 1)
        loose = optimize.minimize(rosenbrock, qnp.zeros(2), method="BFGS", tol=0.5)
        assert bool(loose.success) and np.abs(loose.jac).max() < 0.5
        none = optimize.minimize(rosenbrock, qnp.ones(2), method=LBFGS)
        assert (int(none.nit), int(none.nfev), bool(none.success)) == (0, 1, True)
        few = optimize.minimize(rosenbrock, qnp.zeros(2), method=LBFGS, options={"maxfun": 3})
        assert int(few.status) == 2 and not few.success


def test_minimize_compiled():
    result = quire.jit(lambda x: optimize.minimize(himmelblau, x, method="BFGS"))(qnp.zeros(2))
    np.testing.assert_allclose(result.x, [3, 2], atol=1e-3)
    assert float(result.fun) < 1e-5


def test_minimize_errors():
    zero = qnp.zeros(2)
    for arguments, error, text in (
        (
            {"method": "foo"},
            ValueError,
            "quire.scipy.optimize.minimize: method must be one of 'BFGS', 'l-bfgs.*', got 'foo'",
        ),
        ({"method": "BFGS", "args": [1]}, TypeError, r"minimize: args must be a tuple, got \[1\]"),
        (
            {"method": "BFGS", "options": {"foo": 2}},
            TypeError,
            "minimize: unknown option 'foo' for method 'BFGS': it takes maxiter, norm, gtol",
        ),
        (
            {"method": "BFGS", "x0": qnp.zeros((2, 2))},
            ValueError,
            r"minimize: x0 must be a vector, got f32\[2,2\]: use quire.numpy.ravel",
        ),
        (
            {"method": "BFGS", "x0": qnp.zeros(2, "int32")},
            TypeError,
            r"minimize: x0 must be real floats, got i32\[2\]: convert it",
        ),
    ):
        with pytest.raises(error, match=text):
            optimize.minimize(rosenbrock, **{"x0": zero, **arguments})


# -- images and grids -------------------------------------------------------------------------------------------------

IMAGE = np.arange(12.0, dtype="f4").reshape(3, 4)
PLACES = np.array([[-1.4, -0.6, 0, 0.6, 1.2, 2.4, 3.2], [0, 1, 2.6, 3, 3.6, -1, 4]], "f4")


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("mode", ["constant", "nearest", "mirror", "reflect", "wrap"])
def test_map_coordinates(mode, order):
    got = ndimage.map_coordinates(q(IMAGE), list(q(PLACES)), order, mode, 7.0)
    if mode == "constant":  # where only the corner is outside, SciPy gives the constant; JAX and quire weigh it
        padded = np.pad(IMAGE, 3, constant_values=7.0)
        want = scipy.ndimage.map_coordinates(padded, PLACES + 3, order=order, mode="nearest")
    else:
        want = scipy.ndimage.map_coordinates(IMAGE, PLACES, order=order, mode="grid-wrap" if mode == "wrap" else mode)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-5)


def test_map_coordinates_dtypes_and_errors():
    whole = ndimage.map_coordinates(q(IMAGE.astype("i4")), [q([0.0, 0.5, 1.2]), q([0.5, 1.0, 1.0])], 1)
    assert whole.dtype == "int32" and whole.tolist() == [1, 3, 6]
    assert ndimage.map_coordinates(q(IMAGE * 1j), [q([0.5]), q([0.5])], 1).tolist() == [2.5j]
    slope = quire.grad(lambda c: ndimage.map_coordinates(q(IMAGE), c, 1))([0.5, 0.5])
    assert [s.item() for s in slope] == [4.0, 1.0]
    for arguments, error, text in (
        ((PLACES, 2), NotImplementedError, "map_coordinates: order must be 0 or 1, got 2"),
        ((PLACES, 1, "foo"), NotImplementedError, "map_coordinates: mode must be one of constant, .*, got 'foo'"),
        (
            (PLACES[:1], 1),
            ValueError,
            r"coordinates must be one array for each of the 2 dimensions of f32\[3,4\], got 1",
        ),
    ):
        with pytest.raises(error, match=f"quire.scipy.ndimage.*{text}|{text}"):
            ndimage.map_coordinates(q(IMAGE), *arguments)


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, -1.0, None])
def test_regular_grid_interpolator(method, fill):
    grid = [np.array([0.0, 0.5, 2.0]), np.array([0.0, 1.0, 3.0, 4.0])]
    points = R.uniform(-0.5, 4.5, (40, 2)).astype("f4")
    for values in (IMAGE, np.stack([IMAGE, IMAGE**2], -1)):
        mine = interpolate.RegularGridInterpolator([q(g) for g in grid], q(values), method, fill_value=fill)
        theirs = scipy.interpolate.RegularGridInterpolator(grid, values, method, bounds_error=False, fill_value=fill)
        np.testing.assert_allclose(mine(q(points)), theirs(points), rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(mine((q(points[:, 0]), 0.5)), theirs((points[:, 0], 0.5)), rtol=1e-5, atol=1e-4)
    other = "linear" if method == "nearest" else "nearest"
    np.testing.assert_allclose(mine(q(points), method=other), theirs(points, method=other), rtol=1e-5, atol=1e-4)


def test_regular_grid_interpolator_errors():
    grid, f = (qnp.arange(3), qnp.arange(4)), interpolate.RegularGridInterpolator
    for make, error, text in (
        (lambda: f(grid, q(IMAGE), "cubic"), ValueError, "method must be 'linear' or 'nearest', got 'cubic'"),
        (lambda: f(grid, q(IMAGE), bounds_error=True), NotImplementedError, "bounds_error=True is not supported"),
        (
            lambda: f((grid[0], qnp.arange(5)), q(IMAGE)),
            ValueError,
            r"points\[1\] must be a vector of 4 numbers for values f32\[3,4\], got i32\[5\]",
        ),
        (lambda: f((*grid, grid[0]), q(IMAGE)), ValueError, r"3 vectors of points, but values f32\[3,4\]"),
        (lambda: f((q([0, 2, 1]), grid[1]), q(IMAGE)), ValueError, r"points\[0\] must increase: sort them"),
        (lambda: f(grid, q(IMAGE), fill_value=1j), ValueError, "fill_value must be real for real values"),
        (
            lambda: f(grid, q(IMAGE))(qnp.ones((1, 3))),
            ValueError,
            r"xi must have 2 coordinates along its last dimension, .*, got f32\[1,3\]",
        ),
    ):
        with pytest.raises(error, match=f"quire.scipy.interpolate.RegularGridInterpolator: {text}"):
            make()


def test_vq_and_trapezoid():
    obs, book = R.normal(size=(20, 3)).astype("f4"), R.normal(size=(5, 3)).astype("f4")
    for a, b in ((obs, book), (obs[:, 0], book[:, 0])):
        for got, want in zip(vq.vq(q(a), q(b)), scipy.cluster.vq.vq(a, b)):
            np.testing.assert_allclose(got, want, rtol=1e-5)
    for a, b, text in ((obs, book[0], "must have as many dimensions"), (obs[0, 0], book[0, 0], "obs must be a vector or a matrix"),
                       (obs, book[:, :2], "rows of one size"), (obs, book[:0], "code_book has no codes")):  # fmt: skip
        with pytest.raises(ValueError, match=rf"quire.scipy.cluster.vq.vq: .*{text}, got f32.* and f32"):
            vq.vq(q(a), q(b))
    assert integrate.trapezoid(q([1.0, 2.0, 3.0]), q([0.0, 1.0, 3.0])).item() == 6.5
    np.testing.assert_allclose(integrate.trapezoid(q(IMAGE), dx=0.5, axis=0), np.trapezoid(IMAGE, dx=0.5, axis=0))


# -- cosine transforms ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dct", "idct", "dctn", "idctn"])
def test_cosine_transforms(name):
    x = R.normal(size=(5, 8)).astype("f4")
    mine, theirs = getattr(fft, name), getattr(scipy.fft, name)
    variants = (
        [{"s": (3, 9)}, {"axes": (1,)}, {"s": (4,), "axes": (0,)}]
        if name.endswith("n")
        else [{"axis": 0}, {"n": 3}, {"n": 7}, {"n": 1}]
    )
    for arguments in ({}, *variants):
        for norm in (None, "ortho", "forward"):
            got, want = mine(q(x), norm=norm, **arguments), theirs(x, norm=norm, **arguments)
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5, err_msg=f"{arguments} {norm}")
    np.testing.assert_allclose(mine(q(x * (1 + 2j))), theirs(x * (1 + 2j)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(mine(qnp.arange(4)), theirs(np.arange(4.0)), rtol=1e-5, atol=1e-5)
    with config.override(enable_x64=True):
        np.testing.assert_allclose(mine(q(x, "float64")), theirs(x.astype("f8")), rtol=1e-12, atol=1e-13)
    slope = quire.grad(lambda v: qnp.sum(mine(v) * q(x)))(q(x))  # a linear map: the gradient is its transpose's value
    unit = np.zeros_like(x)
    unit[1, 2] = 1
    np.testing.assert_allclose(slope[1, 2], np.sum(theirs(unit) * x), rtol=1e-3, atol=1e-4)


def test_cosine_transform_errors():
    x = qnp.ones((2, 3))
    for call, error, text in (
        (lambda: fft.dct(x, type=1), NotImplementedError, "dct: only type 2 is supported, got 1"),
        (
            lambda: fft.idct(x, norm="foo"),
            ValueError,
            "idct: norm must be None, 'backward', 'ortho' or 'forward', got 'foo'",
        ),
        (lambda: fft.dct(x, n=0), ValueError, "dct: the length must be at least 1, got 0"),
        (
            lambda: fft.dctn(x, s=(2,), axes=(0, 1)),
            ValueError,
            r"dctn: s and axes must have one length, got \(2,\) and \(0, 1\)",
        ),
        (lambda: fft.dctn(x, axes=(0, 0)), ValueError, "fft.dctn: duplicate value in axes"),
    ):
        with pytest.raises(error, match=text):
            call()


# -- rotations --------------------------------------------------------------------------------------------------------

QUATS = R.normal(size=(6, 4)).astype("f4")
MINE, THEIRS = Rotation.from_quat(q(QUATS)), scipy_transform.Rotation.from_quat(QUATS)


def near(got, want):
    np.testing.assert_allclose(got, want, rtol=3e-5, atol=3e-5)


def test_rotation_forms():
    near(MINE.as_matrix(), THEIRS.as_matrix())
    near(MINE.as_rotvec(), THEIRS.as_rotvec())
    near(MINE.as_rotvec(degrees=True) / 50, THEIRS.as_rotvec(degrees=True) / 50)
    near(MINE.as_mrp(), THEIRS.as_mrp())
    near(MINE.as_quat(canonical=True), THEIRS.as_quat(canonical=True))
    near(MINE.as_quat(scalar_first=True)[:, 1:], THEIRS.as_quat()[:, :3])
    near(MINE.magnitude(), THEIRS.magnitude())
    for name in ("matrix", "rotvec", "mrp", "quat"):
        form = getattr(MINE, f"as_{name}")()
        near(getattr(Rotation, f"from_{name}")(form).as_matrix(), THEIRS.as_matrix())
        near(getattr(Rotation, f"from_{name}")(form[2]).as_matrix(), THEIRS[2].as_matrix())
    assert Rotation.identity().as_matrix().tolist() == np.eye(3).tolist()
    assert Rotation.from_matrix(q(np.diag([1.0, -1.0, -1.0]))).quat.tolist() == [1, 0, 0, 0]


def test_euler_angles():
    sequences = [
        s for c in ("xyz", "XYZ") for s in map("".join, itertools.product(c, repeat=3)) if s[0] != s[1] != s[2]
    ]
    angles = R.uniform(-3, 3, (4, 3)).astype("f4")
    for s in sequences:
        near(MINE.as_euler(s), THEIRS.as_euler(s))
        near(Rotation.from_euler(s, q(angles)).as_matrix(), scipy_transform.Rotation.from_euler(s, angles).as_matrix())
    near(
        Rotation.from_euler("zx", q(angles[:, :2] * 50), degrees=True).as_matrix(),
        scipy_transform.Rotation.from_euler("zx", angles[:, :2] * 50, degrees=True).as_matrix(),
    )
    near(Rotation.from_euler("z", 0.5).as_matrix(), scipy_transform.Rotation.from_euler("z", 0.5).as_matrix())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gimbal lock
        for s, locked in (("xyz", [0.1, np.pi / 2, 0.3]), ("ZXZ", [0.1, 0, 0.3]), ("zyz", [0.1, np.pi, 0.3])):
            near(
                Rotation.from_euler(s, q(locked)).as_euler(s),
                scipy_transform.Rotation.from_euler(s, locked).as_euler(s),
            )


def test_rotation_operations():
    v = R.normal(size=(6, 3)).astype("f4")
    for vectors in (v, v[0]):
        near(MINE.apply(q(vectors)), THEIRS.apply(vectors))
        near(MINE.apply(q(vectors), inverse=True), THEIRS.apply(vectors, inverse=True))
    near((MINE * MINE[0]).as_matrix(), (THEIRS * THEIRS[0]).as_matrix())
    near((MINE * MINE.inv()).magnitude(), np.zeros(6))
    near(MINE.mean().as_matrix(), THEIRS.mean().as_matrix())
    with config.override(numpy_rank_promotion="raise"):
        near(
            MINE.mean(np.arange(1.0, len(QUATS) + 1)).as_matrix(),
            THEIRS.mean(np.arange(1.0, len(QUATS) + 1)).as_matrix(),
        )
    weights = np.arange(1.0, 7)
    near(MINE.mean(q(weights)).as_matrix(), THEIRS.mean(weights).as_matrix())
    assert len(MINE) == 6 and len(Rotation.concatenate([MINE, MINE[0], MINE[:2]])) == 9 and MINE[1].single
    turned = Rotation.random(quire.random.key(0), 300)
    near(qnp.sum(turned.quat**2, axis=-1), np.ones(300))
    assert np.abs(np.asarray(turned.apply(q([1.0, 0, 0]))).mean(0)).max() < 0.15
    slope = quire.jacfwd(lambda w: Rotation.from_rotvec(w).as_rotvec())(qnp.zeros(3))
    assert slope.tolist() == np.eye(3).tolist()


def test_slerp():
    times = np.array([0.0, 1.0, 1.5, 3.0, 4.0, 6.0])
    mine, theirs = Slerp.init(q(times), MINE), scipy_transform.Slerp(times, THEIRS)
    at = np.array([0.0, 0.3, 1.2, 3.0, 5.5, 6.0])
    near(mine(q(at)).as_matrix(), theirs(at).as_matrix())
    near(mine(2.2).as_matrix(), theirs(2.2).as_matrix())


def test_rotation_errors():
    single = Rotation.identity()
    for call, error, text in (
        (
            lambda: Rotation.from_euler("xX", q([1.0, 2.0])),
            ValueError,
            "from_euler: seq must be 1 to 3 axes from 'xyz' .*, got 'xX'",
        ),
        (
            lambda: Rotation.from_euler("xxy", qnp.ones(3)),
            ValueError,
            "from_euler: consecutive axes of seq must differ, got 'xxy'",
        ),
        (
            lambda: Rotation.from_euler("xyz", qnp.ones(2)),
            ValueError,
            r"angles must have 3 numbers along the last dimension for seq='xyz', got f32\[2\]",
        ),
        (lambda: single.as_euler("xy"), ValueError, "as_euler: seq must be 3 axes"),
        (
            lambda: Rotation.from_quat(qnp.ones(3)),
            ValueError,
            r"from_quat: takes an array of shape \(4,\) or \(number, 4\), got f32\[3\]",
        ),
        (lambda: Rotation.from_matrix(qnp.ones((2, 3))), ValueError, r"from_matrix: takes an array of shape \(3, 3\)"),
        (lambda: single.apply(qnp.ones(2)), ValueError, r"apply: takes an array of shape \(3,\)"),
        (lambda: len(single), TypeError, r"a single rotation has no len\(\)"),
        (lambda: single[0], TypeError, "a single rotation cannot be indexed"),
        (lambda: MINE.mean(qnp.ones(2)), ValueError, r"mean: weights must be a vector of 6 numbers, got f32\[2\]"),
        (
            lambda: Slerp.init(qnp.arange(2.0), MINE),
            ValueError,
            r"times must be 6 numbers, one for each rotation, got f32\[2\]",
        ),
        (lambda: Slerp.init(qnp.arange(1.0), single), ValueError, "rotations must be two or more rotations"),
        (lambda: Slerp.init(q([0.0, 2, 1, 3, 4, 5]), MINE), ValueError, "times must increase"),
        (lambda: Slerp.init(qnp.arange(6.0), MINE)(qnp.ones((2, 2))), ValueError, "times must be a number or a vector"),
    ):
        with pytest.raises(error, match=text):
            call()


def test_compiled():
    grid = (np.arange(3.0, dtype="f4"), np.arange(4.0, dtype="f4"))
    cases = [
        Case("map_coordinates", lambda x, c: ndimage.map_coordinates(x, list(c), 1, "reflect"), [IMAGE, PLACES], rtol=1e-5),
        Case("interpolate", lambda v, x: interpolate.RegularGridInterpolator(grid, v)(x), [IMAGE, PLACES.T], rtol=1e-5),
        Case("vq", lambda a, b: list(vq.vq(a, b)), [PLACES.T, PLACES.T[::2].copy()], rtol=1e-5),
        Case("dct", lambda x: [fft.dct(x), fft.idct(x, n=5)], [IMAGE], rtol=1e-5, atol=1e-4),
        Case("rotation", lambda w: [Rotation.from_rotvec(w).as_euler("xyz"), Rotation.from_matrix(Rotation.from_rotvec(w).as_matrix()).as_rotvec()],
             [R.normal(size=(3, 3)).astype("f4")], rtol=1e-4, atol=1e-5),
    ]  # fmt: skip
    check_cases(cases)
