"""A finished kernel: the text of one ``stream.executable`` and how a function calls it."""

from __future__ import annotations

import functools
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iree.compiler import ir

from .dtypes import DType, dtype_of
from .errors import TooManyArrays

if TYPE_CHECKING:
    from .packing import Packing


@dataclass(frozen=True)
class Spec:
    """Static shape and element type of one operand or result."""

    shape: tuple[int, ...]
    dtype: DType

    @staticmethod
    def of(shape: Sequence[int], dtype: object) -> Spec:
        """A spec from any shape sequence and anything :func:`dtype_of` takes."""
        return Spec(tuple(int(d) for d in shape), dtype_of(dtype))  # type: ignore[arg-type]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"


#: The attribute that says why an operation is a kernel, or why it is none.
REASON = "quire_reason"
#: The attribute of a dispatch of one workgroup.
SERIAL = "quire_serial"

#: The buffers that IREE 3.13 binds to one executable: with more a program cannot be loaded.
MOST_BINDINGS = 32

#: In ``Kernel.forward``: the result is a new, empty (zero-size) tensor.
EMPTY = -1


@dataclass(frozen=True)
class Kernel:
    """One executable of the module.

    ``name`` is its symbol and holds a hash of the text, so equal kernels of one module are one op.
    ``results`` are the caller's results followed by ``scratch`` results that only the kernel uses (IREE
    allocates them; their contents mean nothing). ``tied[i] = j`` says that result i is operand j updated in
    place: whoever calls must hand over an operand that may be written (see the copy rule of the lowering).
    ``scalars`` index numbers follow the operands (one text then serves several steps of an algorithm).
    ``forward``, when set, stands in place of a text: nothing has to be computed because of zero-size shapes,
    and result i is operand ``forward[i]`` or :data:`EMPTY`. ``reason`` is one line: why this form was chosen.
    ``packing``, when set, says of which of the caller's arrays the operands and results are made.
    """

    name: str
    text: str
    operands: tuple[Spec, ...]
    results: tuple[Spec, ...]
    scratch: int
    tied: tuple[tuple[int, int], ...]
    reason: str
    forward: tuple[int, ...] | None = None
    scalars: int = 0
    groups: int = 0
    packing: Packing | None = None

    @staticmethod
    def make(
        base: str,
        text: str,
        operands: Sequence[Spec],
        results: Sequence[Spec],
        scratch: int,
        tied: Sequence[tuple[int, int]],
        reason: str,
        scalars: int = 0,
        groups: int = 0,
    ) -> Kernel:
        """Name ``text``, in which ``@KERNEL`` stands for the symbol, by its content.

        Raises :class:`TooManyArrays` for more buffers than IREE binds to an executable.
        """
        bindings = len(operands) + len(results) - len(tied)
        if bindings > MOST_BINDINGS:
            raise TooManyArrays(bindings, MOST_BINDINGS)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        name = f"{re.sub(r'[^A-Za-z0-9_]', '_', base)}_{digest}"
        text = text.replace("@KERNEL", f"@{name}")
        return Kernel(name, text, tuple(operands), tuple(results), scratch, tuple(tied), reason, None, scalars, groups)

    @staticmethod
    def nothing(
        base: str, operands: Sequence[Spec], results: Sequence[Spec], forward: Sequence[int], reason: str
    ) -> Kernel:
        """The kernel of a zero-size case: results are forwarded operands or empty tensors."""
        return Kernel(base, "", tuple(operands), tuple(results), 0, (), reason, tuple(forward))

    @property
    def outputs(self) -> tuple[Spec, ...]:
        """The results a caller sees (``results`` without the scratch)."""
        return self.results[: len(self.results) - self.scratch]

    def insert(self, module: ir.Module) -> None:
        """Append the executable to ``module`` unless an op of the same symbol is there."""
        if self.forward is not None or _has_symbol(module, self.name):
            return
        with module.context, ir.Location.unknown(module.context):
            parsed = ir.Module.parse(self.text)
            module.body.append(parsed.body.operations[0])

    def call(
        self, operands: Sequence[ir.Value], loc: ir.Location | None = None, scalars: Sequence[int] = ()
    ) -> list[ir.Value]:
        """Emit the dispatch at the current insertion point and return the caller's results.

        ``operands`` are ranked static tensors of StableHLO element types as ``self.operands`` says. Unsigned
        tensors pass through ``stablehlo.bitcast_convert`` (``flow.dispatch`` takes signless types only; the
        conversion costs nothing). ``scalars`` are the numbers that the kernel is told at the launch.

        Raises ValueError for another number of operands or scalars than the kernel takes.
        """
        if len(operands) != len(self.operands):
            raise ValueError(f"{self.name} takes {len(self.operands)} operands, got {len(operands)}")
        if len(scalars) != self.scalars:
            raise ValueError(f"{self.name} takes {self.scalars} scalars, got {len(scalars)}")
        with loc or ir.Location.unknown():
            if self.forward is not None:
                return [
                    _empty(spec) if source == EMPTY else operands[source]
                    for source, spec in zip(self.forward, self.results)
                ]
            arguments = [_bitcast(v, spec, spec.dtype.signless) for v, spec in zip(operands, self.operands)]
            tied = dict(self.tied)
            index = ir.IndexType.get()
            arguments += [_index(number) for number in scalars]
            ties = [ir.IntegerAttr.get(index, tied.get(i, -1)) for i in range(len(self.results))]
            op = ir.Operation.create(
                "flow.dispatch",
                results=[_tensor(spec, spec.dtype.signless) for spec in self.results],
                operands=arguments,
                attributes={
                    "entry_points": ir.ArrayAttr.get([ir.SymbolRefAttr.get([self.name, self.name])]),
                    "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, len(arguments), 0, 0]),
                    "tied_operands": ir.ArrayAttr.get(ties),
                    REASON: ir.StringAttr.get(self.reason),
                },
            )
            if self.groups == 1:
                op.attributes[SERIAL] = ir.UnitAttr.get()
            return [
                _bitcast(result, spec, spec.dtype.boundary)
                for result, spec in zip(op.results[: len(self.outputs)], self.outputs)
            ]


@dataclass(frozen=True)
class Step:
    """One dispatch of a :class:`KernelChain`; ``sources`` are numbers of values (see there)."""

    kernel: Kernel
    sources: tuple[int, ...]
    scalars: tuple[int, ...] = ()


@dataclass(frozen=True)
class KernelChain:
    """Several dispatches in the place of one kernel, for algorithms that must wait for all workgroups.

    Values are numbered: first the operands, then the outputs of each step in order; ``picked`` are the
    numbers of the chain's results.
    """

    steps: tuple[Step, ...]
    operands: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    picked: tuple[int, ...]
    reason: str
    tied: tuple[tuple[int, int], ...] = ()

    @property
    def name(self) -> str:
        """The name of the first kernel stands for the chain."""
        return self.steps[0].kernel.name

    def insert(self, module: ir.Module) -> None:
        """Append the executables of all steps to ``module``, each once."""
        for step in self.steps:
            step.kernel.insert(module)

    def call(self, operands: Sequence[ir.Value], loc: ir.Location | None = None) -> list[ir.Value]:
        """Emit the dispatches at the current insertion point and return the results."""
        values = list(operands)
        for step in self.steps:
            values += step.kernel.call([values[i] for i in step.sources], loc, step.scalars)
        return [values[i] for i in self.picked]


class ChainOf:
    """A :class:`KernelChain` in the making: dispatches in their order, and whole chains among them."""

    def __init__(self, operands: Sequence[Spec]) -> None:
        self.operands = tuple(operands)
        self.steps: list[Step] = []
        self._specs = list(operands)

    def then(self, kernel: Kernel | KernelChain, sources: Sequence[int], scalars: Sequence[int] = ()) -> list[int]:
        """Run this with the values of these numbers; the numbers of its outputs."""
        if isinstance(kernel, KernelChain):
            values = list(sources)
            for step in kernel.steps:
                values += self.then(step.kernel, [values[i] for i in step.sources], step.scalars)
            return [values[i] for i in kernel.picked]
        first = len(self._specs)
        self.steps.append(Step(kernel, tuple(sources), tuple(scalars)))
        self._specs += kernel.outputs
        return list(range(first, len(self._specs)))

    def finished(self, picked: Sequence[int], reason: str) -> KernelChain:
        """The chain whose results are these values."""
        outputs = tuple(self._specs[i] for i in picked)
        return KernelChain(tuple(self.steps), self.operands, outputs, tuple(picked), reason)


def _index(number: int) -> ir.Value:
    value = ir.IntegerAttr.get(ir.IndexType.get(), number)
    return ir.Operation.create("arith.constant", results=[ir.IndexType.get()], attributes={"value": value}).result


def _has_symbol(module: ir.Module, name: str) -> bool:
    return name in ir.SymbolTable(module.operation)


def _tensor(spec: Spec, elem: str) -> ir.Type:
    return _tensor_type(ir.Context.current, spec.shape, elem)


@functools.lru_cache(maxsize=4096)
def _tensor_type(context: ir.Context, shape: tuple[int, ...], elem: str) -> ir.Type:
    return ir.RankedTensorType.get(list(shape), ir.Type.parse(elem, context))


def _bitcast(value: ir.Value, spec: Spec, elem: str) -> ir.Value:
    wanted = _tensor(spec, elem)
    if value.type == wanted:
        return value
    if spec.dtype.kind != "uint":
        raise ValueError(f"a kernel expected {wanted}, got {value.type}")
    return ir.Operation.create("stablehlo.bitcast_convert", results=[wanted], operands=[value]).result


def _empty(spec: Spec) -> ir.Value:
    """A zero-size tensor made of operations StableHLO and IREE accept for every element type."""
    boundary = spec.dtype.boundary
    if spec.dtype.kind == "complex":
        part = _tensor(spec, spec.dtype.scalar)
        zero = ir.Operation.create(
            "stablehlo.constant",
            results=[part],
            attributes={"value": ir.Attribute.parse(f"dense<> : {part}")},
        ).result
        return ir.Operation.create("stablehlo.complex", results=[_tensor(spec, boundary)], operands=[zero, zero]).result
    wanted = _tensor(spec, boundary)
    value = ir.Attribute.parse(f"dense<> : {wanted}")
    return ir.Operation.create("stablehlo.constant", results=[wanted], attributes={"value": value}).result
