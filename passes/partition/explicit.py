"""How the results of one equation are divided along axes of type Explicit: as its operands are, or an error.

Axes of type Auto are the partitioner's, which looks at a whole program (`propagation`). Along Explicit axes types say how values
are divided, so each operation's result must follow from its operands alone. What would need a decision is an error, with
JAX's words; `strict=False`, for equations that no user wrote, decides for the first operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import NO_AXES, AxisNames, ShapedArray
from quire.ir.errors import ShardingTypeError
from quire.ir.jaxpr import NO_EFFECTS, ClosedJaxpr, Eqn, Jaxpr, Params, Var, nested_jaxprs
from quire.ir.primitive import Primitive
from quire.ir.primitives import collectives as co
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st
from quire.ir.primitives.shard_map import shard_map_p
from quire.ir.primitives.sharding import sharding_constraint_p
from quire.ir.sharding import UNCONSTRAINED, AbstractMesh, AxisName, Mesh, NamedSharding, axes_of
from quire.ir.sums import put_off

from .propagation import NESTED, factors_of, propagate
from .rules import Factors, spread
from .specs import Axes, Sizes, Spec, from_partition_spec, is_prefix, parts, replicated, to_partition_spec
from .structural import reshape_factors

# Elements move within these dimensions, and JAX lets them stay divided where the result divides evenly.
_KEEP = frozenset(("concatenate", "pad", "rev", "slice", "dynamic_slice", "dynamic_update_slice", "fft"))
_CUMULATIVE = frozenset(("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"))


def typed(aval: ShapedArray, spec: Spec, dtype: str | None = None) -> str:
    """A type with its sharding: ``f32[8@x,4]``; `dtype`: what to call the dtype."""
    dims = [
        str(n) if not a else f"{n}@{a[0]}" if len(a) == 1 else f"{n}@({','.join(map(str, a))})"
        for n, a in zip(aval.shape, spec)
    ]
    return f"{dtype or dtypes.SHORT[aval.dtype]}[{','.join(dims)}]"


def _entries(spec: Spec) -> str:
    return str(tuple(None if not a else a[0] if len(a) == 1 else a for a in spec))


def explicit_avals(
    p: Primitive, avals: Sequence[Any], params: Params, mesh: AbstractMesh, strict: bool = True
) -> tuple[Any, ...]:
    """The types of an equation's results, which say how they are divided along the explicit axes of a mesh.

    Args:
        p, avals, params: the equation's primitive, the types of its operands, its parameters.
        mesh: the axes; only those of type Explicit are spoken of.
        strict: whether what does not follow from the operands is an error.

    Raises:
        ShardingTypeError: the operands are divided in ways of which none is the result's (`strict`).
        ValueError: `scan` is given arrays that are divided along the dimension that it walks (`strict`).
        TypeError: as the primitive's type rule.
    """
    if p.name in NESTED:
        return _nested(p, avals, params, mesh, strict)
    out = p.infer_undivided([a.undivided() for a in avals], params)
    if p.family == "calls":  # of functions of the user's: the types are declared with them
        return out
    specs = [division_of(a, mesh) for a in avals]
    eqn = Eqn([Var(a.undivided()) for a in avals], [Var(a) for a in out], p, params, NO_EFFECTS, None)
    found = explicit_results(eqn, specs, mesh, strict)
    if p is sharding_constraint_p:
        unreduced, reduced = params["sharding"].spec.unreduced, params["sharding"].spec.reduced
    else:
        unreduced, reduced = put_off(p.name, p.family, avals, params, strict)
    return tuple(_divided(a, s, mesh, unreduced, reduced) for a, s in zip(out, found, strict=True))


def division_of(aval: Any, mesh: AbstractMesh) -> Spec:
    """For each dimension of a type the explicit axes of a mesh along which it is divided."""
    if aval.division is None:
        return replicated(getattr(aval, "ndim", 0))
    return _only(from_partition_spec(aval.division.spec, aval.ndim), mesh.explicit_axes)


def _divided(
    aval: Any, spec: Spec, mesh: AbstractMesh, unreduced: AxisNames = NO_AXES, reduced: AxisNames = NO_AXES
) -> Any:
    if not (any(spec) or unreduced or reduced):
        return aval
    sizes = mesh.shape
    spec = tuple(e if n % parts(e, sizes) == 0 else () for n, e in zip(aval.shape, spec, strict=True))
    explicit = frozenset(mesh.explicit_axes)
    wanted = to_partition_spec(spec).update(unreduced=unreduced & explicit, reduced=reduced & explicit)
    return aval.update(sharding=NamedSharding(mesh, wanted))


def explicit_results(eqn: Eqn, specs: Sequence[Spec], mesh: AbstractMesh, strict: bool = True) -> list[Spec]:
    """The spec of each result of an equation of plain types that holds no program.

    Raises ShardingTypeError where the operands do not decide it (`strict`).
    """
    axes = mesh.explicit_axes
    name = eqn.primitive.name
    if eqn.primitive is sharding_constraint_p:
        wanted = eqn.params["sharding"].spec
        given = [*wanted, *[None] * (eqn.outputs[0].aval.ndim - len(wanted))]
        return [
            tuple(
                has if e is UNCONSTRAINED else tuple(a for a in axes_of(e) if a in axes)
                for e, has in zip(given, specs[0])
            )
        ]
    known = list(specs)
    sizes = dict(mesh.shape)
    if eqn.primitive is st.reshape_p:
        return [_reshaped(eqn, known[0], sizes, strict)]
    if not any(any(s) for s in known):
        return [replicated(v.aval.ndim) for v in eqn.outputs]
    if eqn.primitive.family == "collectives":
        return [_communicated(eqn, known[0], sizes, strict)]
    if name in _KEEP:
        return [_kept(eqn, known, sizes, strict)]
    if eqn.primitive is st.split_p:
        return [_kept(eqn, known, sizes, strict, i) for i in range(len(eqn.outputs))]
    f = factors_of(eqn)
    if not strict and name.startswith("scatter"):
        return [_filled(f, known, sizes)]
    if strict:
        _check_whole(eqn, f, known, mesh)
        _check_contraction(eqn, known)
    best: dict[int, Axes] = {}
    for spec, dims in zip(known, f.operands, strict=True):
        for i, got in spread(f, dims, spec, sizes).items():
            have = best.setdefault(i, got)
            if have != got and strict:
                shown = ", ".join(_entries(s) for s in known if s)
                raise ShardingTypeError(f"{name} got incompatible shardings for broadcasting: {shown}.")
            if is_prefix(have, got):
                best[i] = got
    out: list[Spec] = []
    for v, dims in zip(eqn.outputs, f.results, strict=True):
        spec = tuple(best.get(ids[0], ()) if ids else () for ids in dims)
        out.append(_once(eqn, v.aval, spec, known, strict))
    return out


def _only(spec: Spec, axes: Sequence[AxisName]) -> Spec:
    return tuple(tuple(a for a in entry if a in axes) for entry in spec)


def _once(eqn: Eqn, aval: ShapedArray, spec: Spec, known: Sequence[Spec], strict: bool) -> Spec:
    """The spec, in which an axis may divide one dimension only."""
    out = _without_repeats(spec)
    if strict and out != spec:
        inputs = ", ".join(typed(a.aval, s) for a, s in zip(eqn.inputs, known))
        raise ShardingTypeError(
            f"{eqn.primitive.name} operation with inputs: {inputs} produces an illegally sharded result: {typed(aval, spec)}"
        )
    return out


def _nested(p: Primitive, avals: Sequence[Any], params: Params, mesh: AbstractMesh, strict: bool) -> tuple[Any, ...]:
    """Results of loops, branches and calls: as their programs' types say.

    Programs that a transformation made of others may have plain types: what follows from them is found by propagation.
    """
    if strict and p is cf.scan_p:
        for a in avals[params["num_consts"] + params["num_carry"] :]:
            if a.division is not None and division_of(a, mesh)[0]:
                raise ValueError(f"0th dimension of all xs should be replicated. Got {a.sharding.spec}")
    out = p.infer_undivided(avals, params)
    if p is shard_map_p:  # which says it
        return out
    inner = [j for j in nested_jaxprs(params) if isinstance(j, ClosedJaxpr)]
    specs = [division_of(a, mesh) for a in avals]
    if not any(map(any, specs)) or any(a.division is not None for j in inner for a in j.in_avals):
        if p is cf.scan_p and any(a.division is not None for a in params["jaxpr"].out_avals):
            n = params["num_carry"]
            out = (*out[:n], *(a.along(0, params["length"]) for a in params["jaxpr"].out_avals[n:]))
        return out
    variables = [Var(a.undivided()) for a in avals]
    outputs = [Var(a.undivided()) for a in out]
    eqn = Eqn(variables, outputs, p, params, NO_EFFECTS, None)
    found = propagate(ClosedJaxpr(Jaxpr((), variables, outputs, [eqn])), mesh, list(map(to_partition_spec, specs)))
    return tuple(
        _divided(v.aval, _only(from_partition_spec(s, v.aval.ndim), mesh.explicit_axes), mesh)
        if v.aval.ndim
        else v.aval
        for s, v in zip(found, outputs, strict=True)
    )


def _reshaped(eqn: Eqn, spec: Spec, sizes: Sizes, strict: bool) -> Spec:
    """Axes go with the major factor of their dimension; dimensions that are merged must be divided from the left on."""
    aval, new = eqn.inputs[0].aval, eqn.outputs[0].aval
    factors, left, right = reshape_factors(aval.shape, new.shape)
    given: dict[int, Axes] = {}
    fits = True
    for entry, ids in zip(spec, left):
        rest = list(entry)
        for i in ids:
            got: list[AxisName] = []
            while rest and factors[i] > 0 and factors[i] % (parts(tuple(got), sizes) * sizes[rest[0]]) == 0:
                got.append(rest.pop(0))
            given[i] = tuple(got)
            if parts(given[i], sizes) != factors[i]:
                break
        fits = fits and not rest
    out: list[Axes] = []
    for ids in right:
        entry: Axes = ()
        gap = False
        for i in ids:
            got_ = given.get(i, ())
            if got_ and gap:
                fits = False
                break
            gap = gap or not got_ and factors[i] != 1
            entry += got_
        out.append(entry)
    if strict and not fits:
        raise ShardingTypeError(
            "This reshape is not supported. Please specify the sharding of the output via the `out_sharding` argument of "
            f"quire.lax.reshape. Got operand type: {typed(aval, spec, str(aval.dtype))}, new sizes: {new.shape}"
        )
    return tuple(out)


def _kept(eqn: Eqn, known: Sequence[Spec], sizes: Sizes, strict: bool, result: int = 0) -> Spec:
    """The first operand's spec, and in dimensions that it leaves whole that of others, where a result divides evenly."""
    arrays = [(a, s) for a, s in zip(eqn.inputs, known) if a.aval.ndim]
    if strict and eqn.primitive.name == "concatenate" and len({s for _, s in arrays}) > 1:
        shown = ", ".join(f"P{_entries(s)}" for _, s in arrays)
        raise ShardingTypeError(f"All operands should have the same sharding. Got shardings {shown}")
    operand, first = arrays[0]
    rank = operand.aval.ndim
    alike = [(a.aval.shape, s) for a, s in arrays if a.aval.ndim == rank]
    entries = [[s[d] for n, s in alike if s[d] and n[d] == operand.aval.shape[d]] for d in range(rank)]
    if strict and eqn.primitive is ix.dynamic_update_slice_p and any(len(set(e)) > 1 for e in entries):
        raise ShardingTypeError(
            "dynamic_update_slice operand sharding must be equal to update sharding, got operand sharding "
            f"{typed(operand.aval, first, str(operand.aval.dtype))} and update sharding "
            f"{typed(arrays[1][0].aval, arrays[1][1], str(operand.aval.dtype))}."
        )
    # Where the first operand is whole, one that is as long may tell: a rule of vmap's repeats what is the same for all lanes.
    spec = _without_repeats(tuple(own or next(iter(e), ()) for own, e in zip(first, entries)))
    shape: tuple[int, ...] = eqn.outputs[result].aval.shape
    out: list[Axes] = []
    for n, entry in zip(shape, spec):
        if n % parts(entry, sizes) == 0:
            out.append(entry)
        elif strict:
            name = {"slice": "slicing"}.get(eqn.primitive.name, eqn.primitive.name)
            raise ShardingTypeError(
                f"{name} on sharded dims where out dim ({n}) is not divisible by mesh axes ({parts(entry, sizes)}) with spec "
                f"({', '.join(map(str, entry))}) is not implemented. Got input type={typed(operand.aval, spec)} and output "
                f"shape={shape}"
            )
        else:
            out.append(())
    return tuple(out)


def _filled(f: Factors, known: Sequence[Spec], sizes: Sizes) -> Spec:
    """The first operand's spec, and in dimensions that it leaves whole what other operands say of them."""
    others: dict[int, Axes] = {}
    for spec, dims in zip(known[1:], f.operands[1:], strict=True):
        others.update(spread(f, dims, spec, sizes))
    return _without_repeats(
        tuple(
            entry or (others.get(ids[0], ()) if ids else ()) for entry, ids in zip(known[0], f.results[0], strict=True)
        )
    )


def _without_repeats(spec: Spec) -> Spec:
    """The spec, in which an axis divides the first dimension only that names it."""
    seen: set[AxisName] = set()
    out: list[Axes] = []
    for entry in spec:
        out.append(tuple(a for a in entry if a not in seen))
        seen.update(entry)
    return tuple(out)


def _communicated(eqn: Eqn, spec: Spec, sizes: Sizes, strict: bool) -> Spec:
    """The result of a collective over manual axes: divided along the explicit axes as its operand is.

    Raises ValueError where the dimension that it splits is divided and its parts are not (`strict`).
    """
    entries = list(spec)
    p, params = eqn.primitive, eqn.params
    if p is co.all_gather_p and not params["tiled"]:
        entries.insert(params["all_gather_dimension"], ())
    elif p is co.reduce_scatter_p and not params["tiled"]:
        _check_split(eqn, entries.pop(params["scatter_dimension"]), 1, sizes, strict)
    shape: tuple[int, ...] = eqn.outputs[0].aval.shape
    return tuple(e if _check_split(eqn, e, n, sizes, strict) else () for e, n in zip(entries, shape, strict=True))


def _check_split(eqn: Eqn, entry: Axes, n: int, sizes: Sizes, strict: bool) -> bool:
    """Whether a dimension of a collective's result can be divided as that of its operand is. Raises ValueError (`strict`)."""
    if n % parts(entry, sizes) == 0:
        return True
    if strict:
        raise ValueError(
            f"{eqn.primitive.name}: the operand {eqn.inputs[0].aval.short()} is divided along {', '.join(map(repr, entry))} in the "
            f"dimension that is split, into {parts(entry, sizes)} parts, and the result has size {n} in it: reshard the operand "
            "before, so that this dimension is whole"
        )
    return False


def _check_whole(eqn: Eqn, f: Factors, known: Sequence[Spec], mesh: Mesh | AbstractMesh) -> None:
    """Raise where an operation needs a dimension whole that is divided, and JAX asks the user what to do."""
    name = eqn.primitive.name
    for a, spec, dims in zip(eqn.inputs, known, f.operands, strict=True):
        along = [d for d, (entry, ids) in enumerate(zip(spec, dims)) if entry and any(i in f.whole for i in ids)]
        if name in _CUMULATIVE and spec[eqn.params["axis"]]:
            raise ShardingTypeError(
                "Input should be unsharded over the axis being reduced. Got input "
                f"type={typed(a.aval, spec, str(a.aval.dtype))} and axis={eqn.params['axis']}"
            )
        if name == "sort" and along:
            raise ShardingTypeError(
                "Arguments to sort must be unsharded over the sorting dimension. Got arg sharding=NamedSharding(mesh="
                f"{mesh.abstract_mesh}, spec=P{_entries(spec)}) and sorting dimension={eqn.params['dimension']}"
            )
    if name == "gather" or name.startswith("scatter"):
        results = {i for dims in f.results for ids in dims for i in ids}
        moved = f.operands[0]
        if any(e and not results.issuperset(ids) or e and f.whole.intersection(ids) for e, ids in zip(known[0], moved)):
            _refuse_positions(eqn, known)


def _refuse_positions(eqn: Eqn, known: Sequence[Spec]) -> None:
    kinds = [f"ShapedArray({typed(a.aval, s, str(a.aval.dtype))})" for a, s in zip(eqn.inputs, known)]
    if eqn.primitive.name == "gather":
        raise ShardingTypeError(
            "Use `.at[...].get(out_sharding=)` to provide output PartitionSpec for the gather indexing as out sharding could "
            f"not be resolved unambiguously (or would require collectives on inputs). Got operand={kinds[0]}, indices={kinds[1]}"
        )
    raise ShardingTypeError(
        "Use `.at[...].set/add/mul/...(out_sharding=)` to provide output PartitionSpec for the scatter update as out sharding "
        f"could not be resolved unambiguously (or would require collectives on inputs). Got operand={kinds[0]}, "
        f"indices={kinds[1]}, updates={kinds[2]}"
    )


def _check_contraction(eqn: Eqn, known: Sequence[Spec]) -> None:
    """Raise where a contraction sums over a divided dimension: the result could be divided in several ways."""
    if eqn.primitive.name != "dot_general":
        return
    ((left, right), _) = eqn.params["dimension_numbers"]
    one, other = (
        tuple(None if not (e := spec[d]) else e[0] if len(e) == 1 else e for d in dims)
        for spec, dims in zip(known, (left, right))
    )
    if any(a is not None and b is not None and a != b for a, b in zip(one, other)):
        raise ShardingTypeError(
            f"dot_general requires contracting dimensions to have consistent sharding, got {one} and {other}."
        )
    if any(a is not None and a == b for a, b in zip(one, other)):
        raise ShardingTypeError(
            "Contracting dimensions are sharded and it is ambiguous how the output should be sharded. Please specify the "
            f"output sharding via the `out_sharding` parameter. Got lhs_contracting_spec={one} and rhs_contracting_spec={other}"
        )


__all__: Sequence[str] = ["division_of", "explicit_avals", "typed"]
