"""The loop-nest builder: writes the text of one kernel at the level of typed values.

A template says what the loops compute; how the outer loops are spread is the target's business
(:class:`~quire.backends.kernels.core.target.KernelTarget`). The text is deterministic: names count up in the order
of the calls, constants are collected at the head of the function. The form of the op and what of it IREE
takes is recorded in ``docs/kernels.md``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from .arithmetic import ArithMixin
from .errors import NoKernel
from .kernel import Kernel, Spec
from .target import KernelTarget
from .values import Buffer, Operand, Value, element, index_list, is_float, lanes, vector, width

_NO_PIPELINE = "#iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline{size}>"

#: Operations that give the same for the same operands.
_PURE = ("arith.", "math.", "vector.broadcast", "vector.extract", "vector.from_elements", "vector.insert",
         "vector.interleave", "vector.shuffle", "vector.create_mask", "vector.reduction")  # fmt: skip

#: Workgroups in one dimension that every GPU's driver takes.
GRID = 65535
#: What one function may take from the stack (IREE's own limit).
STACK_BYTES = 32768
#: Shares of up to so many pieces are made equal to one piece.
FEW_PIECES = 8
LONGEST_CHAIN = 1024
"""So many floats are added to a sum one after the other; longer sums are sums of such sums. The error of a sum grows with the
length of its chain: that of two million equal numbers in one chain was 6e-4 of the result, and is 1e-6 (2e-5 by chains of 4096)."""
#: Where parts of one scratch array begin: at lines of the cache.
LINE_BYTES = 64
#: The most lines of text that one kernel may have: IREE's time grows faster than their number.
MOST_LINES = 9000


class Loop:
    """An open ``scf.for``: ``index``, the ``carried`` values, and after the block ``results``."""

    def __init__(self, index: Value, carried: list[Value], results: list[Value]) -> None:
        self.index = index
        self.carried = carried
        self.results = results
        self.yielded: list[Value] | None = None
        self._types = [v.type for v in carried]

    def yield_(self, *values: Value) -> None:
        """The carried values of the next iteration."""
        self.yielded = _checked("for_", values, self._types)


class Branch:
    """An open ``scf.if`` with results: ``yield_`` in each arm, ``else_`` between them."""

    def __init__(self, builder: KernelBuilder, results: list[Value]) -> None:
        self._builder = builder
        self._types = [v.type for v in results]
        self.results = results
        self.has_else = False
        self.yielded: list[Value] | None = None if results else []

    def yield_(self, *values: Value) -> None:
        """The values of this arm."""
        self.yielded = _checked("if_", values, self._types)

    def else_(self) -> None:
        """Close the arm taken when the condition holds and open the other."""
        self._builder._close_arm(self)
        self.has_else = True
        self.yielded = None if self.results else []


class While:
    """An open ``scf.while``: compute on ``before``, ``condition``, compute on ``after``, ``yield_``."""

    def __init__(self, builder: KernelBuilder, before: list[Value], results: list[Value]) -> None:
        self._builder = builder
        self._types = [v.type for v in before]
        self.before = before
        self.after: list[Value] = []
        self.results = results
        self.yielded: list[Value] | None = None

    def condition(self, condition: Value, *values: Value) -> None:
        """Go on while ``condition``; ``values`` reach the body, and are the results when it ends."""
        self.after = self._builder._open_body(condition, _checked("while_", values, self._types))

    def yield_(self, *values: Value) -> None:
        """The values of the next test."""
        self.yielded = _checked("while_", values, self._types)


def _checked(what: str, values: Sequence[Value], types: Sequence[str]) -> list[Value]:
    got = [v.type for v in values]
    if got != list(types):
        raise TypeError(f"{what} yields {got}, expected {list(types)}")
    return list(values)


class KernelBuilder(ArithMixin):
    """Builds one kernel: open it, emit, and :meth:`build`.

    ``results`` come back to the caller; ``scratch`` is memory of this kernel, allocated by IREE. ``tied``
    maps a result to the operand it updates in place; the two share one binding.
    """

    def __init__(
        self,
        base: str,
        operands: Sequence[Spec],
        results: Sequence[Spec],
        target: KernelTarget,
        *,
        scratch: Sequence[Spec] = (),
        tied: dict[int, int] | None = None,
        scalars: int = 0,
    ) -> None:
        self.base = base
        self.operands = tuple(operands)
        self.results = (*results, *scratch)
        self.target = target
        self._scratch = len(scratch)
        self._shared_scratch: int | None = None
        self._tied = dict(tied or {})
        self._scalars = scalars
        for spec in (*self.operands, *self.results):
            if spec.size == 0:
                raise ValueError(f"kernel {base}: {spec} holds no elements; use Kernel.nothing")
        self._bindings = len(self.operands) + len(self.results) - len(self._tied)
        self._count = 0
        self._head: list[str] = []
        self._constants: dict[tuple[str, str], Value] = {}
        self._views: dict[tuple[int, tuple[int, ...], str], Buffer] = {}
        self._lines: list[str] = []
        self._depth = 3
        self._stack = 0
        self._zero = ""
        self._scopes: list[dict[str, Value]] = [{}]
        self._sums: dict[str, tuple[Value, Value]] = {}

    # -- text ------------------------------------------------------------------------------------------------

    def _name(self) -> str:
        self._count += 1
        return f"%{self._count - 1}"

    def _line(self, text: str) -> None:
        self._lines.append("  " * self._depth + text)

    def emit(self, text: str, result: str) -> Value:
        """One operation with one result of type ``result``; a pure one that is in scope already is not written again."""
        pure = text.startswith(_PURE)
        if pure:
            for scope in reversed(self._scopes):
                if text in scope:
                    return scope[text]
        value = Value(self, self._name(), result)
        self._line(f"{value} = {text}")
        if pure:
            self._scopes[-1][text] = value
        return value

    def effect(self, text: str) -> None:
        """One operation without results."""
        self._line(text)

    def binary(self, op: str, x: Operand, y: Operand) -> Value:
        """An operation of the arith dialect by its name.

        Where the driver reassociates, an operand that is a sum of the other one is hidden from it: see `_opaque`.
        """
        if not self.target.reassociates or op not in ("addf", "subf"):
            return super().binary(op, x, y)
        a, b = self._pair(x, y)
        a, b = (self._opaque(v) if self._undoes(v, w) else v for v, w in ((a, b), (b, a)))
        total = super().binary(op, a, b)
        self._sums[total.name] = (a, b)
        return total

    def _undoes(self, inner: Value, other: Value) -> bool:
        """Whether a value is a sum or difference of another; two constants count, as they would be added."""
        constant = other.name.startswith("%c")
        return any(
            v.name == other.name or (constant and v.name.startswith("%c")) for v in self._sums.get(inner.name, ())
        )

    def _opaque(self, x: Value) -> Value:
        """x, of which a driver cannot know how it was computed: an odd square's bit of four is 0."""
        word = f"i{width(element(x.type))}"
        bits = self.bitcast(x, word)
        number = self.or_(bits, 1)
        return self.bitcast(self.xor(bits, self.and_(self.mul(number, number), 4)), element(x.type))

    def _enter(self) -> None:
        self._depth += 1
        self._scopes.append({})

    def _leave(self) -> None:
        self._depth -= 1
        self._scopes.pop()

    def const(self, number: Operand, mlir_type: str) -> Value:
        """A number (splat for a vector type), written once at the head of the function.

        A value of that type is given as it is; raises TypeError for one of another type.
        """
        if isinstance(number, Value):
            if number.type != mlir_type:
                raise TypeError(f"expected {mlir_type}, got {number.type}")
            return number
        literal = _literal(number, element(mlir_type))
        return self._constant(f"dense<{literal}>" if lanes(mlir_type) else literal, mlir_type)

    def const_vector(self, numbers: Sequence[int], elem: str) -> Value:
        """A vector of given integers."""
        text = ", ".join(_literal(n, elem) for n in numbers)
        return self._constant(f"dense<[{text}]>", vector(len(numbers), elem))

    def _constant(self, literal: str, mlir_type: str) -> Value:
        key = (literal, mlir_type)
        if key not in self._constants:
            name = f"%c{len(self._constants)}"
            if mlir_type == "index":
                name = f"%i{literal}".replace("-", "m")
            self._constants[key] = Value(self, name, mlir_type)
            suffix = "" if mlir_type == "i1" else f" : {mlir_type}"
            self._head.append(f"      {name} = arith.constant {literal}{suffix}")
        return self._constants[key]

    def index(self, number: Operand) -> Value:
        """``number`` as an index value."""
        return self.const(number, "index")

    def divmod(self, x: Operand, y: int) -> tuple[Value, Value]:
        """Quotient and remainder of an index by a positive number."""
        x = self.index(x)
        return self.udiv(x, y), self.urem(x, y)

    def scalar(self, i: int) -> Value:
        """The i-th index number given with each call."""
        return Value(self, f"%s{i}", "index")

    def check_length(self) -> None:
        """Raise :class:`NoKernel` past :data:`MOST_LINES`: one equation alone can be far too long."""
        if self.lines > MOST_LINES:
            raise NoKernel(f"its text would be more than {MOST_LINES} operations")

    @property
    def lines(self) -> int:
        """Lines of text so far."""
        return len(self._lines)

    @contextmanager
    def discarded(self) -> Iterator[None]:
        """What is emitted inside is dropped: to find out what something would emit, or whether it can be."""
        names = ("_count", "_depth", "_stack", "_zero", "results", "_scratch", "_bindings", "_shared_scratch")
        kept = {name: getattr(self, name) for name in names}
        copied = {name: getattr(self, name).copy() for name in ("_head", "_constants", "_views", "_lines", "_scopes")}
        copied["_scopes"] = [scope.copy() for scope in self._scopes]
        try:
            yield
        finally:
            for name, value in (kept | copied).items():
                setattr(self, name, value)

    # -- memory ----------------------------------------------------------------------------------------------

    def _binding(self, result: int) -> int:
        if result in self._tied:
            return self._tied[result]
        free = [i for i in range(len(self.results)) if i not in self._tied]
        return len(self.operands) + free.index(result)

    def operand(self, i: int, shape: Sequence[int] | None = None, elem: str | None = None) -> Buffer:
        """Operand ``i`` as memory; ``shape`` and ``elem`` reinterpret its bytes."""
        return self._view(i, self.operands[i], shape, elem)

    def result(self, i: int, shape: Sequence[int] | None = None, elem: str | None = None) -> Buffer:
        """Result (or scratch) ``i`` as memory; ``shape`` and ``elem`` reinterpret its bytes."""
        return self._view(self._binding(i), self.results[i], shape, elem)

    def _view(self, binding: int, spec: Spec, shape: Sequence[int] | None, elem: str | None) -> Buffer:
        elem = elem or spec.dtype.scalar
        if shape is None:
            shape = (*spec.shape, spec.dtype.parts) if spec.dtype.parts > 1 else spec.shape
        shape = tuple(shape)
        if math.prod(shape) * width(elem) // 8 > spec.size * spec.dtype.nbytes:
            raise ValueError(f"kernel {self.base}: a view {shape} x {elem} is larger than {spec}")
        key = (binding, shape, elem)
        if key not in self._views:
            gpu = self.target.kind == "gpu"
            view = Buffer(f"%m{len(self._views)}", shape, elem, _shifted(shape) if gpu else "")
            zero = self._opaque_zero() if gpu else self.index(0)
            at = f"%b{binding}[{zero}] : !stream.binding"
            self._head.append(f"      {view.name} = stream.binding.subspan {at} -> {view.type}")
            self._views[key] = view
        return self._views[key]

    def sized(self, i: int, is_result: bool, elem: str, numbers: int, scalar: int = 0) -> Buffer:
        """Operand or result ``i`` as flat memory of :meth:`scalar` elements, each of so many numbers (CPU)."""
        binding = self._binding(i) if is_result else i
        key = (binding, (-1, numbers), elem)
        if key not in self._views:
            size = f"%s{scalar}"
            if numbers > 1:
                size = f"%n{len(self._views)}"
                self._head.append(f"      {size} = arith.muli %s{scalar}, {self.index(numbers)} : index")
            view = Buffer(f"%m{len(self._views)}", (-1,), elem)
            at = f"%b{binding}[{self.index(0)}] : !stream.binding"
            self._head.append(f"      {view.name} = stream.binding.subspan {at} -> {view.type}{{{size}}}")
            self._views[key] = view
        return self._views[key]

    def _opaque_zero(self) -> str:
        """A zero that no pass of IREE sees to be one, for the offset of a GPU binding.

        IREE merges bindings that live in one allocation and adds their offsets to the views. On the way to
        SPIR-V a view with an offset gets a layout with an offset and one without does not; loads and stores
        of the other type then fail to compile. With an offset that is unknown in any case, all views are of
        the layout that :func:`_shifted` writes.
        """
        if not self._zero:
            self._zero = "%zero"
            for line in (
                "%zero_t = gpu.thread_id x",
                "%zero_i = arith.index_cast %zero_t : index to i32",
                "%zero_f = arith.sitofp %zero_i : i32 to f32",
                "%zero_c = arith.constant 0.0 : f32",
                "%zero_p = arith.mulf %zero_f, %zero_c : f32",
                "%zero_r = arith.fptosi %zero_p : f32 to i32",
                "%zero = arith.index_cast %zero_r : i32 to index",
            ):
                self._head.append("      " + line)
        return self._zero

    def stack(self, shape: Sequence[int], elem: str) -> Buffer:
        """Memory of this workgroup's own (CPU: stack). Raises :class:`NoKernel` past :data:`STACK_BYTES`."""
        self._stack += max(1, math.prod(shape) * width(elem) // 8)
        if self._stack > STACK_BYTES:
            raise NoKernel(f"kernel {self.base}: more than {STACK_BYTES} bytes of stack")
        buffer = Buffer(self._name(), tuple(shape), elem)
        # Whole cache lines; the generic form, since the other does not take the attribute.
        attributes = "<{alignment = 64 : i64, operandSegmentSizes = array<i32: 0, 0>}>"
        self._head.append(f'      {buffer.name} = "memref.alloca"() {attributes} : () -> {buffer.type}')
        return buffer

    @property
    def stack_bytes(self) -> int:
        """What :meth:`stack` has given."""
        return self._stack

    def more_scratch(self, spec: Spec, shape: Sequence[int] | None = None, elem: str | None = None) -> Buffer:
        """One more scratch result of the kernel, as memory; ``shape`` and ``elem`` reinterpret its bytes."""
        self.results = (*self.results, spec)
        self._scratch += 1
        self._bindings += 1
        return self.result(len(self.results) - 1, shape, elem)

    def part_of_scratch(self, spec: Spec, shape: Sequence[int], elem: str) -> Buffer:
        """Memory as of :meth:`more_scratch` that lies beside what else was asked for so, in one result (CPU)."""
        start = 0
        if self._shared_scratch is None:
            self._shared_scratch = len(self.results)
            self._scratch += 1
            self._bindings += 1
        else:
            start = -(-self.results[self._shared_scratch].size // LINE_BYTES) * LINE_BYTES
        number = self._shared_scratch
        whole = Spec.of((start + spec.size * spec.dtype.nbytes,), "uint8")
        self.results = (*self.results[:number], whole, *self.results[number + 1 :])
        view = Buffer(f"%m{len(self._views)}", tuple(shape), elem)
        self._views[-1 - number, (start, *shape), elem] = view
        at = f"%b{self._binding(number)}[{self.index(start)}] : !stream.binding"
        self._head.append(f"      {view.name} = stream.binding.subspan {at} -> {view.type}")
        return view

    def shared(self, shape: Sequence[int], elem: str) -> Buffer:
        """Memory the threads of one GPU workgroup share."""
        buffer = Buffer(self._name(), tuple(shape), elem, "#gpu.address_space<workgroup>")
        self._head.append(f"      {buffer.name} = memref.alloc() : {buffer.type}")
        return buffer

    def _at(self, buffer: Buffer, indices: Sequence[Operand]) -> str:
        if len(indices) != len(buffer.shape):
            raise ValueError(f"kernel {self.base}: {len(indices)} indices for {buffer.type}")
        return f"{buffer.name}[{index_list([self.index(i) for i in indices])}]"

    def load(self, buffer: Buffer, *indices: Operand) -> Value:
        """One element."""
        return self.emit(f"memref.load {self._at(buffer, indices)} : {buffer.type}", buffer.elem)

    def store(self, value: Operand, buffer: Buffer, *indices: Operand) -> None:
        """Write one element."""
        value = self.const(value, buffer.elem)
        self._line(f"memref.store {value}, {self._at(buffer, indices)} : {buffer.type}")

    def vload(self, n: int, buffer: Buffer, *indices: Operand, mask: Value | None = None) -> Value:
        """``n`` neighbouring elements from ``indices`` on; lanes off in ``mask`` are 0 and are not read."""
        t = vector(n, buffer.elem)
        at = self._at(buffer, indices)
        if mask is None:
            return self.emit(f"vector.load {at} : {buffer.type}, {t}", t)
        zero = self.const(0, t)
        return self.emit(f"vector.maskedload {at}, {mask}, {zero} : {buffer.type}, {mask.type}, {t} into {t}", t)

    def vstore(self, value: Value, buffer: Buffer, *indices: Operand, mask: Value | None = None) -> None:
        """Write a vector to neighbouring elements; lanes off in ``mask`` are not written.

        Raises TypeError where the vector's elements are not of the buffer's type.
        """
        at = self._at(buffer, indices)
        if element(value.type) != buffer.elem:
            raise TypeError(f"kernel {self.base}: storing {value.type} into {buffer.type}")
        if mask is None:
            self._line(f"vector.store {value}, {at} : {buffer.type}, {value.type}")
        else:
            self._line(f"vector.maskedstore {at}, {mask}, {value} : {buffer.type}, {mask.type}, {value.type}")

    def gather(self, buffer: Buffer, start: Operand, places: Value, mask: Value) -> Value:
        """The elements at ``start`` plus each lane of ``places`` (i32) of a flat buffer; 0 where ``mask`` is off."""
        t = vector(lanes(places.type), buffer.elem)
        zero = self.const(0, t)
        types = f"{buffer.type}, {places.type}, {mask.type}, {t} into {t}"
        return self.emit(f"vector.gather {self._at(buffer, [start])}[{places}], {mask}, {zero} : {types}", t)

    def scatter(self, value: Value, buffer: Buffer, start: Operand, places: Value, mask: Value) -> None:
        """Write each lane to ``start`` plus its lane of ``places`` (i32) of a flat buffer, where ``mask`` is on."""
        types = f"{buffer.type}, {places.type}, {mask.type}, {value.type}"
        self._line(f"vector.scatter {self._at(buffer, [start])}[{places}], {mask}, {value} : {types}")

    # -- control ---------------------------------------------------------------------------------------------

    @contextmanager
    def for_(self, start: Operand, stop: Operand, step: Operand = 1, init: Sequence[Value] = ()) -> Iterator[Loop]:
        """``for index in range(start, stop, step)`` with carried values ``init``; ``step`` is positive."""
        bounds = [self.index(v) for v in (start, stop, step)]
        results = [Value(self, self._name(), v.type) for v in init]
        index = Value(self, self._name(), "index")
        carried = [Value(self, self._name(), v.type) for v in init]
        loop = Loop(index, carried, results)
        head = f"scf.for {index} = {bounds[0]} to {bounds[1]} step {bounds[2]}"
        if init:
            pairs = ", ".join(f"{c} = {v}" for c, v in zip(carried, init))
            head += f" iter_args({pairs}) -> ({', '.join(v.type for v in init)})"
        self._line(f"{_targets(results)}{head} {{")
        self._enter()
        yield loop
        if init:
            self._yield("for_", loop.yielded)
        self._leave()
        self._line("}")

    def unrolled(self, count: int, by: int, body: Callable[[Value], None]) -> None:
        """``body`` for each index below ``count``, ``by`` of them a turn of the loop."""
        whole = count // by * by if count >= 4 * by else 0
        if whole:
            with self.for_(0, whole, by) as loop:
                for i in range(by):
                    body(loop.index + i)
        if whole < count:
            with self.for_(whole, count) as loop:
                body(loop.index)

    @contextmanager
    def if_(self, condition: Value, types: Sequence[str] = ()) -> Iterator[Branch]:
        """``if condition``; ``types`` are the types of its results. Raises ValueError where it has some and no ``else_``."""
        results = [Value(self, self._name(), t) for t in types]
        branch = Branch(self, results)
        returns = f" -> ({', '.join(types)})" if types else ""
        self._line(f"{_targets(results)}scf.if {condition}{returns} {{")
        self._enter()
        yield branch
        if types and not branch.has_else:
            raise ValueError("if_ with results needs an else_ arm")
        if branch.results:
            self._yield("if_", branch.yielded)
        self._leave()
        self._line("}")

    def _close_arm(self, branch: Branch) -> None:
        if branch.results:
            self._yield("if_", branch.yielded)
        self._leave()
        self._line("} else {")
        self._enter()

    def switch(self, number: Value, cases: Sequence[Sequence[Value | Buffer]]) -> list[Value | Buffer]:
        """The values and memory of the case of a number (an index); all cases have the same types."""
        types = ", ".join(x.type for x in cases[0])
        picked = [replace(x, name=self._name()) if isinstance(x, Buffer) else Value(self, self._name(), x.type)
                  for x in cases[0]]  # fmt: skip
        self._line(f"{', '.join(x.name for x in picked)} = scf.index_switch {number} -> {types}")
        for k, case in enumerate(cases):
            self._line(f"case {k} {{" if k + 1 < len(cases) else "default {")
            self._line(f"  scf.yield {', '.join(x.name for x in case)} : {', '.join(x.type for x in case)}")
            self._line("}")
        return picked

    @contextmanager
    def while_(self, init: Sequence[Value]) -> Iterator[While]:
        """``while`` with at least one carried value; see :class:`While`."""
        types = [v.type for v in init]
        results = [Value(self, self._name(), t) for t in types]
        before = [Value(self, self._name(), t) for t in types]
        loop = While(self, before, results)
        pairs = ", ".join(f"{c} = {v}" for c, v in zip(before, init))
        signature = f"({', '.join(types)}) -> ({', '.join(types)})"
        self._line(f"{_targets(results)}scf.while ({pairs}) : {signature} {{")
        self._enter()
        yield loop
        self._yield("while_", loop.yielded)
        self._leave()
        self._line("}")

    def _open_body(self, condition: Value, values: list[Value]) -> list[Value]:
        types = ", ".join(v.type for v in values)
        self._line(f"scf.condition({condition}) {index_list(values)} : {types}")
        self._leave()
        self._line("} do {")
        after = [Value(self, self._name(), v.type) for v in values]
        self._line(f"^bb0({', '.join(f'{v}: {v.type}' for v in after)}):")
        self._enter()
        return after

    def _yield(self, what: str, values: list[Value] | None) -> None:
        if values is None:
            raise ValueError(f"{what} with results needs yield_ before its block ends")
        self._line(f"scf.yield {index_list(values)} : {', '.join(v.type for v in values)}")

    # -- mapping of the outer loops --------------------------------------------------------------------------

    def workgroup_id(self, dim: int = 0) -> Value:
        """This workgroup's place in the grid."""
        return self.emit(f"stream.dispatch.workgroup.id[{dim}] : index", "index")

    def thread_id(self) -> Value:
        """This thread's place in its workgroup (GPU)."""
        return self.emit("gpu.thread_id x", "index")

    def barrier(self) -> None:
        """Wait for all threads of the workgroup and make their writes visible (GPU)."""
        self._line("gpu.barrier")

    def moved_inside(self, at: Value, width: int, size: int) -> Value:
        """Where ``width`` elements from place ``at`` on, of ``size`` in all, begin so that none lies beyond the end.

        ``at`` goes by steps of the width: its last value is moved back where the size is no multiple of it. Some elements
        are then computed twice, and none needs a mask or a loop of its own. Not for what is updated in place.
        """
        return self.smin(at, size - width) if size % width else at

    @contextmanager
    def distributed(self, count: int, groups: int) -> Iterator[Value]:
        """Loop over ``count`` independent pieces, in ``groups`` contiguous shares, one a workgroup."""
        if count == 1:
            yield self.index(0)
            return
        share, group = -(-count // groups), self.workgroup_id()
        start = group * share
        stop = self.smin(start + share, self.index(count))
        if count % groups and share <= FEW_PIECES:  # of 10 pieces for 8 each would have 2, and 5 of them all
            start, stop = (self.udiv(g * count, groups) for g in (group, group + 1))
        with self.for_(start, stop) as loop:
            yield loop.index

    @contextmanager
    def pieces(self, count: int) -> Iterator[Value]:
        """Each of ``count`` pieces of work for a whole workgroup, spread over at most :data:`GRID` of them (GPU)."""
        with self.for_(self.workgroup_id(), count, min(count, GRID)) as loop:
            yield loop.index

    @contextmanager
    def threads(self, count: int) -> Iterator[Value]:
        """Each of ``count`` elements, spread over the threads of the workgroup, and a barrier after (GPU)."""
        with self.for_(self.thread_id(), count, self.target.threads) as loop:
            yield loop.index
        self.barrier()

    @contextmanager
    def spread_threads(self, count: int) -> Iterator[Value]:
        """Each of ``count`` independent elements, one a thread, spread over the threads of :meth:`thread_groups` (GPU).

        Neighbouring threads have neighbouring elements. There is no barrier: not all threads have as many.
        """
        threads, groups = self.target.threads, self.thread_groups(count)
        with self.for_(self.workgroup_id() * threads + self.thread_id(), count, groups * threads) as loop:
            yield loop.index

    def thread_groups(self, count: int) -> int:
        """The workgroups that have a thread for each of ``count`` elements, at most :data:`GRID`."""
        return min(-(-count // self.target.threads), GRID)

    # -- the end ---------------------------------------------------------------------------------------------

    def build(self, grid: Sequence[int], reason: str) -> Kernel:
        """The finished kernel, run by ``grid`` workgroups (up to three dimensions)."""
        x, y, z = (*grid, 1, 1)[:3]
        size = f" workgroup_size = [{self.target.threads}, 1, 1]" if self.target.kind == "gpu" else ""
        info = _NO_PIPELINE.format(size=size)
        names = [f"%b{i}: !stream.binding" for i in range(self._bindings)]
        arguments = ", ".join([*names, *(f"%s{i}: index" for i in range(self._scalars))])
        text = "\n".join(
            [
                "stream.executable private @KERNEL {",
                "  stream.executable.export public @KERNEL workgroups() -> (index, index, index) {",
                *(f"    %{d} = arith.constant {n} : index" for d, n in zip("xyz", (x, y, z))),
                "    stream.return %x, %y, %z : index, index, index",
                "  }",
                "  builtin.module {",
                f"    func.func @KERNEL({arguments}) attributes {{translation_info = {info}}} {{",
                *self._head,
                *self._lines,
                "      return",
                "    }",
                "  }",
                "}",
                "",
            ]
        )
        return Kernel.make(
            self.base,
            text,
            self.operands,
            self.results,
            self._scratch,
            sorted(self._tied.items()),
            reason,
            self._scalars,
            x * y * z,
        )


def _shifted(shape: Sequence[int]) -> str:
    """The row-major layout of ``shape`` behind an offset known only at run time."""
    strides = ", ".join(str(math.prod(shape[d + 1 :])) for d in range(len(shape)))
    return f"strided<[{strides}], offset: ?>"


def _targets(results: Sequence[Value]) -> str:
    return f"{index_list(results)} = " if results else ""


def _literal(number: int | float, elem: str) -> str:
    """``number`` as MLIR writes it for ``elem``; integers wrap to the signed range of the width."""
    if is_float(elem):
        return _float_literal(float(number), elem)
    if elem == "i1":
        return "true" if number else "false"
    bits = width(elem)
    wrapped = int(number) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


def _float_literal(number: float, elem: str) -> str:
    text = repr(number)
    if math.isfinite(number) and "." in text and "e" not in text and number == round(number, 4):
        return text
    if elem == "f64":
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    if elem == "f32":
        return f"0x{struct.unpack('<I', struct.pack('<f', number))[0]:08X}"
    if elem == "f16":
        return f"0x{struct.unpack('<H', struct.pack('<e', number))[0]:04X}"
    return f"0x{struct.unpack('<I', struct.pack('<f', number))[0] >> 16:04X}"
