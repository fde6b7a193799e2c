"""Lowering of a jaxpr to a StableHLO module through the MLIR bindings.

A rule is ``rule(ctx, *operands, **params)``: it gets MLIR values of exactly the operands' avals and returns the
result (or a list of them for several results), building operations at the current insertion point with `hlo`. A
primitive may instead be given by ordinary traced operations: `lower_traced`. What the target cannot do a rule says by
raising `ctx.unsupported`, an UnsupportedError.

Everything here is a value: what is written in place, and what has to be copied before, is decided by the plan of the
whole program (backends/plan).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import iree.compiler.ir as mlir
import numpy as np
from iree.compiler._mlir_libs import _mlir  # pyright: ignore[reportAttributeAccessIssue]

from quire.ir import dtypes, errors
from quire.ir.avals import ShapedArray
from quire.ir.collection import collection_put_off
from quire.ir.config import config
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, all_eqns, has_nested, map_nested
from quire.ir.primitive import Primitive, RuleTable
from quire.ir.primitives import calls
from quire.ir.source import Source, where
from quire.ir.tracing import trace_flat

from ..host_call import HostCall
from ..kernels import SERIAL
from ..targets import Target
from . import hlo, origins, types
from .choices import Choice, KernelUse
from .result_storage import store_results

LoweringRule = Callable[..., Any]
lowering: RuleTable[LoweringRule] = RuleTable("stablehlo", "lowering to StableHLO")


@lru_cache(maxsize=1)
def mlir_context() -> Any:
    """The MLIR context that all lowering shares."""
    # The bindings look for a Python module of a dialect at each operation of it that is looked at, again and again
    # where there is none, 40 us each time. IREE has none of StableHLO: with this prefix they find our package.
    _mlir.globals.append_dialect_search_prefix(__name__.rpartition(".stablehlo.")[0])
    return mlir.Context()


@dataclass
class ModuleLowering:
    """What one module collects while it is lowered: its target, its host functions, its kernels."""

    module: Any
    target: Target
    donated: frozenset[int] = frozenset()
    sole: frozenset[int] = frozenset()  # the arguments that one equation reads and that are not returned
    host_calls: list[HostCall] = field(default_factory=list)
    entry: Any = None
    locations: dict[Source | None, Any] = field(default_factory=dict)
    # Where there is a choice of form, what was chosen and why.
    choices: list[Choice] = field(default_factory=list)
    kernel_uses: list[KernelUse] = field(default_factory=list)
    path: list[Eqn] = field(default_factory=list)  # the equations that are being lowered, each a part of the one before
    host_loops: set[int] = field(default_factory=set)  # the identities of the loop equations that are no kernels
    kernels: set[str] = field(default_factory=set)  # the symbols of quire's own kernels in the module
    # Formulas that occur more than once are private functions: see `_outlined`.
    functions: dict[Jaxpr, str | None] = field(default_factory=dict)
    of_elements: bool = False  # within the function of elements of a reduction or scatter, where no function is called
    inserted: list[str] = field(default_factory=list)  # the names of modules that were given as text

    def location(self, source: Source | None) -> Any:
        """MLIR's location of a user's line; one object for each."""
        found = self.locations.get(source)
        if found is None:
            if source is None:
                found = mlir.Location.unknown()
            else:
                file = mlir.Location.file(source.file, source.line, 0)
                found = mlir.Location.name("/".join(filter(None, (source.scope, source.function))), file)
            self.locations[source] = found
        return found

    def location_of(self, eqn: Eqn, source: Source | None) -> Any:
        """MLIR's location of an equation: its own line, then those of the equations that a fusion or a loop is made of."""
        if not has_nested(eqn.params):
            return self.location(source)
        lines = [source, *(e.source for e in all_eqns(Jaxpr((), (), (), (eqn,))))]
        parts = [self.location(at) for at in dict.fromkeys(lines) if at is not None]
        return mlir.Location.fused(parts) if len(parts) > 1 else self.location(source)


@dataclass
class Ctx:
    """What a rule sees beside its operands."""

    module: ModuleLowering
    eqn: Eqn
    avals_in: list[ShapedArray]
    avals_out: list[ShapedArray]
    source: Source | None = None  # the equation's, or that of the equation which it is a part of
    shared: Sequence[Any] = ()  # the operands that something else reads too
    unread: Sequence[int] = ()  # the numbers of the results that nothing reads

    def is_shared(self, x: Any) -> bool:
        """Whether x is, or is a view of, an operand that something else reads too."""
        return any(hlo.base_of(x) == hlo.base_of(y) for y in self.shared)

    def is_spent(self, x: Any) -> bool:
        """Whether x is a donated argument's memory, and this equation alone reads it."""
        base = hlo.base_of(x)
        if not isinstance(base.owner, mlir.Block) or base.owner != self.module.entry or self.is_shared(x):
            return False
        number = mlir.BlockArgument(base).arg_number
        return number in self.module.donated and number in self.module.sole

    @property
    def target(self) -> Target:
        """What the module is compiled for."""
        return self.module.target

    def is_kept(self, x: Any) -> bool:
        """Whether x must keep its elements: others read it, or it may be an argument that is not donated."""
        return self.is_shared(x) or may_be_argument(x, self.module)

    def chose(self, what: str) -> None:
        """Record the form this equation is given, and why: dumpir prints it with the module."""
        self.module.choices.append(Choice(self.path, self.source, what))

    @property
    def path(self) -> tuple[Eqn, ...]:
        """The equation, behind those that it is a part of."""
        path = self.module.path
        return tuple(path) if path and path[-1] is self.eqn else (*path, self.eqn)

    @property
    def in_loop(self) -> bool:
        """Whether the equation is part of a loop's."""
        return any(e.primitive.name in ("scan", "while", "bounded_while") for e in self.path)

    def unsupported(self, what: str, instead: str) -> errors.UnsupportedError:
        """The error of something that the target cannot do, naming the user's line."""
        return errors.UnsupportedError(
            f"{self.eqn.primitive.name}: target {self.target.name} cannot do {what}{where(self.source)}: {instead}"
        )


_BRANCHES = frozenset(("stablehlo.if", "stablehlo.case"))
SOME_TRIPS = "quire_some_trips"
"""The attribute of a ``stablehlo.while`` whose body runs at least once."""


def may_be_argument(x: Any, module: ModuleLowering) -> bool:
    """Whether x may share memory with an entry argument that is not donated.

    A loop's result may be its initial value (after no iteration, or passed on by the body), a branch's what it returns.
    """
    pending, seen = [x], set[Any]()
    while pending:
        x = pending.pop()
        if x in seen:
            continue
        seen.add(x)
        owner = x.owner
        if isinstance(owner, mlir.Block):
            argument = mlir.BlockArgument(x)
            if argument.owner == module.entry:
                if argument.arg_number not in module.donated:
                    return True
            elif len(seen) > 1 and owner.owner.name == "stablehlo.while":  # passed on by a loop's body
                pending.append(owner.owner.operands[argument.arg_number])
            continue
        index = mlir.OpResult(x).result_number
        if owner.name in hlo.VIEWS:
            pending.append(owner.operands[index if len(owner.operands) > 1 else 0])
        elif owner.name == "stablehlo.while":
            if SOME_TRIPS not in owner.attributes:
                pending.append(owner.operands[index])
            pending.append(_returned(owner.regions[1], index))
        elif owner.name in _BRANCHES:
            pending.extend(_returned(region, index) for region in owner.regions)
    return False


def _returned(region: Any, index: int) -> Any:
    """What a region's block returns."""
    operations = region.blocks[0].operations
    return operations[len(operations) - 1].operands[index]


def lower_traced(f: Callable[..., Any], *primitives: Primitive) -> None:
    """Register, as the lowering of some primitives, a function of ordinary traced operations: see `traced_rule`."""
    rule = traced_rule(f)
    for p in primitives:
        lowering.add(p, rule)


def traced_rule(f: Callable[..., Any], *, enable_x64: bool | None = None, elementwise: bool = False) -> LoweringRule:
    """The lowering rule that a function of ordinary traced operations is.

    `f` takes the operands and the parameters as the primitive does and returns a value, or a list for several.
    `enable_x64` makes 64-bit steps possible whatever the user's program may use. `elementwise` states that it is a
    formula: it has one result, and computes it. Traces are kept by types and parameters.
    """
    traced: dict[Any, Jaxpr] = {}

    def trace(p: Primitive, avals: Sequence[ShapedArray], params: Mapping[str, Any]) -> Jaxpr:
        key = (tuple(avals), tuple(params.items()), config.options.enable_x64)
        jaxpr = traced.get(key)
        if jaxpr is None:

            def flat(*xs: Any) -> list[Any]:
                out = f(*xs, **params)
                return list(out) if p.multiple_results else [out]

            with config.override(**({} if enable_x64 is None else {"enable_x64": enable_x64})):
                jaxpr, captured, _ = trace_flat(flat, avals, name=f"lowering of {p.name}")
            assert not captured, "lowering functions use constants through literals and iota only"
            jaxpr = traced[key] = _without_sources(jaxpr)
        return jaxpr

    def rule(ctx: Ctx, *operands: Any, **params: Any) -> Any:
        jaxpr = trace(ctx.eqn.primitive, ctx.avals_in, params)
        if elementwise and len(jaxpr.eqns) >= _OUTLINE_FROM:
            return _outlined(ctx, jaxpr, operands)
        return lower_jaxpr(ctx.module, jaxpr, (), operands, ctx.source)

    FORMULAS[rule] = lambda target, p, avals, params: trace(p, avals, params)
    return rule


Formula = Callable[[Target, Primitive, Sequence[ShapedArray], Mapping[str, Any]], "Jaxpr | None"]
FORMULAS: dict[LoweringRule, Formula] = {}
"""Of rules that are traced operations: the jaxpr that is lowered for operands of given avals."""


def formula_of(p: Primitive, avals: Sequence[ShapedArray], params: Mapping[str, Any], target: Target) -> Jaxpr | None:
    """The traced operations that a primitive is lowered to, None where its rule builds StableHLO itself."""
    rule = lowering.get(p)
    formula = None if rule is None else FORMULAS.get(rule)
    return None if formula is None else formula(target, p, avals, params)


_OUTLINE_FROM = 8


def _outlined(ctx: Ctx, jaxpr: Jaxpr, operands: Sequence[Any]) -> list[Any]:
    """Emit a formula: in place at its first use in the module, as a call of a private function at any later one.

    Functions of elements hold all of it, so that `hlo` sees each operation of theirs.
    IREE puts the calls in place before anything else: its output is the same, and here the operations are made once.
    """
    module = ctx.module
    if module.of_elements:
        return lower_jaxpr(module, jaxpr, (), operands, ctx.source)
    if jaxpr not in module.functions:
        module.functions[jaxpr] = None
        return lower_jaxpr(module, jaxpr, (), operands, ctx.source)
    out_types = [types.aval_type(a) for a in jaxpr.out_avals]
    symbol = module.functions[jaxpr]
    if symbol is None:
        # Formulas of one use have no name, so the length of the table would name two functions the same.
        named = sum(name is not None for name in module.functions.values())
        symbol = module.functions[jaxpr] = f"formula_{named}"
        in_types = [x.type for x in operands]
        with mlir.InsertionPoint(module.module.body), mlir.Location.unknown():
            function = mlir.Operation.create(
                "func.func", regions=1,
                attributes={
                    "sym_name": mlir.StringAttr.get(symbol),
                    "sym_visibility": mlir.StringAttr.get("private"),
                    "function_type": mlir.TypeAttr.get(mlir.FunctionType.get(in_types, out_types)),
                },
            )  # fmt: skip
        block = mlir.Block.create_at_start(function.regions[0], in_types)
        with mlir.InsertionPoint(block), mlir.Location.unknown():
            hlo.op("func.return", lower_jaxpr(module, jaxpr, (), list(block.arguments)), [])
    return list(hlo.op("func.call", operands, out_types, callee=mlir.FlatSymbolRefAttr.get(symbol)).results)


def _without_sources(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr of a lowering function: its equations stand for the user's equation, and take its source."""
    eqns = [
        Eqn(e.inputs, e.outputs, e.primitive, map_nested(e.params, _closed_without_sources), e.effects)
        for e in jaxpr.eqns
    ]
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns)


def _closed_without_sources(closed: ClosedJaxpr) -> ClosedJaxpr:
    return ClosedJaxpr(_without_sources(closed.jaxpr), closed.consts)


def lower_jaxpr(
    module: ModuleLowering, jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any], source: Source | None = None
) -> list[Any]:
    """Emit a jaxpr's equations at the current insertion point; returns the values of its outputs.

    Equations without a source are given `source`, or where there is none either, stay at the current location.
    """
    env: dict[Var, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))

    def read(a: Any) -> Any:
        if a.aval.dtype == dtypes.float0:  # no elements, no value
            return None
        return hlo.constant(a.value, a.aval.dtype) if isinstance(a, Literal) else env[a]

    reads = Counter(a for e in jaxpr.eqns for a in e.inputs if isinstance(a, Var))
    reads.update(a for a in jaxpr.outvars if isinstance(a, Var))
    for eqn in jaxpr.eqns:
        if eqn.outputs and all(v.aval.dtype == dtypes.float0 for v in eqn.outputs):
            continue
        at = eqn.source or source
        operands = [read(a) for a in eqn.inputs]
        shared = [x for a, x in zip(eqn.inputs, operands) if isinstance(a, Var) and reads[a] > 1]
        unread = [i for i, v in enumerate(eqn.outputs) if not reads[v]]
        if at is None:
            out = lower_eqn(module, eqn, operands, shared=shared, unread=unread)
        else:
            fused = eqn.primitive is calls.fusion_p
            with module.location_of(eqn, at) if fused else module.location(at):
                out = lower_eqn(module, eqn, operands, at, shared, unread)
        env.update(zip(eqn.outputs, out, strict=True))
    return [read(a) for a in jaxpr.outvars]


def lower_eqn(
    module: ModuleLowering,
    eqn: Eqn,
    operands: Sequence[Any],
    source: Source | None = None,
    shared: Sequence[Any] = (),
    unread: Sequence[int] = (),
) -> Sequence[Any]:
    """Emit one equation. `shared` are the operands that another equation, or the caller, reads too; `unread` the numbers of the
    results that nothing reads.

    Raises UnsupportedError, with the user's line, where its primitive has no lowering rule, or where the target has no
    operations of its dtypes.
    """
    rule = lowering.get(eqn.primitive)
    if rule is None:
        why = lowering.reasons.get(eqn.primitive, "it has no lowering rule")
        of = f" of {eqn.params['name']}" if "name" in eqn.params else ""
        raise errors.UnsupportedError(f"primitive {eqn.primitive.name}{of} cannot be compiled{where(source)}: {why}")
    ctx = Ctx(module, eqn, [a.aval for a in eqn.inputs], [v.aval for v in eqn.outputs], source, shared, unread)
    if module.target.unsupported:
        for aval in (*ctx.avals_in, *ctx.avals_out):
            reason = module.target.unsupported.get(aval.dtype.name)
            if reason is not None:
                raise ctx.unsupported(f"dtype {aval.dtype}", reason)
    module.path.append(eqn)
    try:
        out = rule(ctx, *operands, **eqn.params)
    finally:
        module.path.pop()
    return out if isinstance(out, list | tuple) else [out]


@dataclass(frozen=True)
class LoweredModule:
    """A StableHLO module with what the runtime must know to run it.

    `results` tells where each output of the jaxpr comes from: ("result", k) is the module's k-th result,
    ("argument", i) is the i-th argument itself (returned unchanged, it never enters the module), ("float0", 0) is the
    tangent of an integer, which has no elements to compute. `serial`: it is made of
    kernels of one workgroup, and other threads have nothing to do. `host_loops`: the identities of the loop equations
    whose turns the host counts. `stored`: the types of those results for which the
    module takes memory, as further arguments after its own. `choices` are the forms that equations were given and why,
    `kernels` the calls of quire's own kernels, in order.
    """

    module: Any
    results: tuple[tuple[str, int], ...]
    host_calls: tuple[HostCall, ...]
    serial: bool = False
    host_loops: frozenset[int] = frozenset()
    choices: tuple[Choice, ...] = ()
    stored: tuple[ShapedArray, ...] = ()
    kernels: tuple[KernelUse, ...] = ()

    def text(self, locations: bool = False) -> str:
        """The module, under comments that tell which forms were chosen and why."""
        comments = "".join(f"// {line}\n" for line in self.choices)
        return comments + self.module.operation.get_asm(enable_debug_info=locations)

    def located_text(self) -> str:
        """The module, with the location of each operation written out at the end of its line."""
        return self.module.operation.get_asm(
            enable_debug_info=True, use_local_scope=True, large_elements_limit=64, large_resource_limit=64
        )

    def bytecode(self) -> bytes:
        """The module as MLIR's bytecode, which the compiler is given."""
        import io

        out = io.BytesIO()
        self.module.operation.write_bytecode(out)
        return out.getvalue()


@collection_put_off()
def parsed_module(text: str) -> Any:
    """A module of StableHLO's text as MLIR's own object, in a context of its own.

    Raises:
        ValueError: the text is no module.
    """
    with mlir_context(), mlir.Location.unknown():
        return mlir.Module.parse(text)


def constant_for(array: np.ndarray[Any, Any], dtype: dtypes.DType, target: Target) -> Any:
    """A constant of the program. IREE finds no SPIR-V for vectors of bfloat16: they are given by their bits."""
    if dtype == dtypes.bfloat16 and target.backend == "vulkan-spirv" and array.size > 1:
        return hlo.bitcast(hlo.constant(array.view(np.uint16), dtypes.uint16), dtype)
    return hlo.constant(array, dtype)


def lower_module(
    closed: ClosedJaxpr,
    target: Target,
    *,
    name: str = "main",
    donated: Sequence[int] = (),
    names: Sequence[str] = (),
) -> LoweredModule:
    """Lower a closed jaxpr to a module with one public function `main`; its constants are embedded.

    `donated` are the numbers of the arguments whose memory the program may write, `names` the arguments' paths, which
    become their locations.

    Raises:
        UnsupportedError: the target cannot compute an equation.
        CompileError: MLIR's verifier does not accept the module, a fault of a rule.
    """
    jaxpr = closed.jaxpr
    results: list[tuple[str, int]] = []
    outvars: list[Any] = []
    position = {v: i for i, v in enumerate(jaxpr.invars)}
    seen: dict[Var, int] = {}
    for a in jaxpr.outvars:
        if a.aval.dtype == dtypes.float0:
            results.append(("float0", 0))
        elif isinstance(a, Var) and a in position:
            results.append(("argument", position[a]))
        elif isinstance(a, Var) and a in seen:
            results.append(("result", seen[a]))
        else:
            if isinstance(a, Var):
                seen[a] = len(outvars)
            results.append(("result", len(outvars)))
            outvars.append(a)
    # An argument that is returned keeps its elements, also where the program was given its memory.
    donated = [i for i in donated if ("argument", i) not in results]
    inner = Jaxpr(jaxpr.constvars, jaxpr.invars, outvars, jaxpr.eqns)
    with mlir_context(), mlir.Location.unknown():
        module = mlir.Module.create()
        module.operation.attributes["sym_name"] = mlir.StringAttr.get(_symbol(name))
        if target.device_targets is not None:
            module.operation.attributes["hal.device.targets"] = mlir.Attribute.parse(target.device_targets)
        in_types = [types.aval_type(a) for a in inner.in_avals]
        out_types = [types.aval_type(a) for a in inner.out_avals]
        attributes = {
            "sym_name": mlir.StringAttr.get("main"),
            "function_type": mlir.TypeAttr.get(mlir.FunctionType.get(in_types, out_types)),
        }
        if donated:
            consumed = {"iree.abi.consume": mlir.UnitAttr.get()}
            attributes["arg_attrs"] = mlir.ArrayAttr.get(
                [mlir.DictAttr.get(consumed if i in donated else {}) for i in range(len(in_types))]
            )
        with mlir.InsertionPoint(module.body):
            function = mlir.Operation.create("func.func", regions=1, attributes=attributes)
        places = [mlir.Location.name(n) for n in names] if len(names) == len(in_types) else None
        block = mlir.Block.create_at_start(function.regions[0], in_types, places)
        reads = Counter(a for e in jaxpr.eqns for a in dict.fromkeys(e.inputs) if isinstance(a, Var))
        sole = frozenset(i for i, v in enumerate(jaxpr.invars) if reads[v] == 1 and v not in jaxpr.outvars)
        state = ModuleLowering(module, target, frozenset(donated), sole, entry=block)
        with mlir.InsertionPoint(block), origins.apart_from_one_another():
            consts = [
                None if v.aval.dtype == dtypes.float0 else constant_for(np.asarray(c), v.aval.dtype, target)
                for c, v in zip(closed.consts, jaxpr.constvars)
            ]
            values = lower_jaxpr(state, inner, consts, list(block.arguments))
            hlo.op("func.return", values, [])
        stored = store_results(function, inner.out_avals, target.stored_results) if target.stored_results else ()
        try:
            module.operation.verify()
        except mlir.MLIRError as error:
            raise errors.CompileError(f"the StableHLO of {name} does not verify: {error}") from error
    return LoweredModule(
        module, tuple(results), tuple(state.host_calls), _serial(block, state.donated), frozenset(state.host_loops),
        tuple(state.choices), stored, tuple(state.kernel_uses),
    )  # fmt: skip


_FREE = frozenset(
    ("func.return", "arith.constant")
    + tuple("stablehlo." + n for n in ("constant", "reshape", "bitcast_convert", "broadcast_in_dim", "iota"))
)


_COPIES = frozenset(
    "stablehlo." + n for n in ("slice", "concatenate", "transpose", "pad", "dynamic_slice", "dynamic_update_slice")
)
#: So many elements one thread copies sooner than another wakes.
_COPIED = 1 << 17
_NOT_BY_ELEMENT = frozenset(
    "stablehlo." + n for n in ("dot_general", "convolution", "fft", "cholesky", "triangular_solve", "custom_call")
)
_COMPUTED = 8
"""An element that is computed, or read by a reduction, counts as so many that are copied."""


def _serial(block: Any, donated: Collection[int]) -> bool:
    """Whether a function's work is that of kernels of one workgroup, but for some copies and a little arithmetic.

    An argument that a kernel updates in place is copied before, unless it is donated.
    """
    others, copied = False, 0
    for view in block.operations:
        op = view.operation
        if op.name in _COPIES:
            copied += math.prod(hlo.shape_of(op.results[0]))
        elif op.name not in _FREE:
            if SERIAL in op.attributes:
                others = True
                copied += sum(math.prod(hlo.shape_of(x)) for x in _updated(op) if _is_kept_argument(x, donated))
            elif (computed := _computed(op)) is not None:
                copied += _COMPUTED * computed
            else:
                return False
    return others and copied <= _COPIED


def _updated(op: Any) -> list[Any]:
    """The operands that a kernel writes its results into."""
    tied = op.attributes["tied_operands"] if "tied_operands" in op.attributes else ()
    return [op.operands[k] for k in (int(a.value) for a in tied) if k >= 0]


def _is_kept_argument(x: Any, donated: Collection[int]) -> bool:
    base = hlo.base_of(x)
    return isinstance(base.owner, mlir.Block) and mlir.BlockArgument(base).arg_number not in donated


def _computed(op: Any) -> int | None:
    """The elements that an elementwise operation or a reduction goes through; None of others."""
    if op.name in _NOT_BY_ELEMENT or not op.name.startswith("stablehlo."):
        return None
    shapes = [tuple(hlo.shape_of(value)) for value in (*op.operands, *op.results)]
    one_each = not op.regions and all(s in ((), shapes[-1]) for s in shapes)
    return max(map(math.prod, shapes)) if one_each or op.name == "stablehlo.reduce" else None


def _symbol(name: str) -> str:
    clean = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    return clean or "main"
