"""Random numbers from given keys; the values are JAX's."""

from __future__ import annotations

from ..builder import Builder


def _key(b: Builder) -> str:
    return f"random.key({b.one(0, b.rng.randint(0, 99))})"


def sample(b: Builder) -> object:
    shape = b.shape(2)
    key = _key(b)
    dtype = b.one(*(d for d in b.setting.floats if not d.startswith("complex")), "float32")
    i = b.rng.randint(0, 9)
    if b.chance(0.3):
        key = f"random.fold_in({key}, {i})"
    elif b.chance(0.3):
        key = f"random.split({key}, 3)[{i % 3}]"
    options = [
        f"random.normal({key}, {shape}, {dtype!r})", f"random.uniform({key}, {shape}, {dtype!r}, -1, 1)",
        f"random.bernoulli({key}, 0.4, {shape})", f"random.randint({key}, {shape}, -3, 9)",
        f"random.exponential({key}, {shape}, {dtype!r})", f"random.bits({key}, {shape}, 'uint32')",
        f"random.categorical({key}, np.zeros(5), shape={shape})", f"random.laplace({key}, {shape}, {dtype!r})",
        f"random.truncated_normal({key}, -1.0, 1.0, {shape}, {dtype!r})", f"random.gumbel({key}, {shape}, {dtype!r})",
    ]  # fmt: skip
    return b.emit(b.one(*options))


def shuffled(b: Builder) -> object:
    x = b.pick(least_ndim=1, nonempty=True, most=600)
    return b.emit(
        b.one(
            f"random.permutation({_key(b)}, {{0}})",
            f"random.choice({_key(b)}, {{0}}, (4,))",
            f"{{0}} * random.bernoulli({_key(b)}, 0.7, {x.shape})",
        ),
        x,
    )


def data_dependent(b: Builder) -> object:
    """A key made of a value."""
    x = b.pick("iu", ndim=0)
    return b.emit(f"random.normal(random.fold_in({_key(b)}, {{0}}.astype('uint32')), {b.shape(1)})", x)


FAMILY = (sample, sample, shuffled, data_dependent)
