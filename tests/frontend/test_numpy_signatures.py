"""Signatures of quire.numpy's functions against jax.numpy's: names, order, kinds and defaults of the parameters."""

from __future__ import annotations

import inspect

import jax.numpy as jnp
import pytest

import quire.numpy as qnp

# Where they differ on purpose: names, and why.
DEVIATIONS = {
    " ".join(
        n for n in dir(jnp) if isinstance(getattr(jnp, n), jnp.ufunc)
    ): "ufuncs name their operands, JAX says *args",
    "array": "JAX's *args catches arguments by position that it deprecates; here they are keywords",
    "einsum": "_dot_general is private to JAX",
    "fromiter": "JAX refuses always; here it makes a concrete array",
    "fromfile": "both refuse",
    "set_printoptions printoptions": "NumPy's own functions, whose parameters are NumPy's",
    "ndarray": "a type that is not called",
}
ALLOWED = {name for names in DEVIATIONS for name in names.split()}


def parameters(f):
    """The parameters in a form that compares; None where there is no signature."""
    try:
        own = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return None
    return [(p.name, p.kind.name, p.default if p.default is p.empty else repr(p.default)) for p in own]


FUNCTIONS = [n for n in dir(jnp) if not n.startswith("_") and callable(getattr(jnp, n)) and hasattr(qnp, n)]


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ALLOWED])
def test_signature(name):
    want = parameters(getattr(jnp, name))
    if want is not None:
        assert parameters(getattr(qnp, name)) == want


@pytest.mark.parametrize("name", sorted(ALLOWED - {"printoptions", "fromfile"}))
def test_deviations_are_needed(name):
    assert parameters(getattr(qnp, name)) != parameters(getattr(jnp, name))


def test_ufuncs_take_operands_by_position():
    for name in next(iter(DEVIATIONS)).split():
        kinds = [p.kind for p in inspect.signature(getattr(qnp, name)).parameters.values()]
        assert kinds == [inspect.Parameter.POSITIONAL_ONLY] * (len(kinds) - 2) + [inspect.Parameter.KEYWORD_ONLY] * 2


def test_trim_zeros_along_axes():
    import numpy as np

    x = np.array([[0, 0, 0], [0, 2, 0], [0, 0, 0]])
    for axis in (None, 0, 1, (0, 1)):
        for trim in ("fb", "f", "b"):
            assert (
                qnp.trim_zeros(qnp.asarray(x), trim, axis=axis).tolist() == np.trim_zeros(x, trim, axis=axis).tolist()
            )
    assert qnp.trim_zeros(qnp.zeros(3)).shape == (0,)
