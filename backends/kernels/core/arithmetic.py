"""Arithmetic of the kernel builder: integer, float, comparison, conversion and vector operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .values import Operand, Value, element, is_float, lanes, like, vector, width


def _binary(op: str, meaning: str) -> Callable[[ArithMixin, Operand, Operand], Value]:
    """The method of an operation of the arith dialect; `meaning` is its docstring."""

    def method(self: ArithMixin, x: Operand, y: Operand) -> Value:
        return self.binary(op, x, y)

    method.__doc__ = meaning
    return method


class ArithMixin:
    """The pure operations of :class:`KernelBuilder`. Scalars and vectors alike; operands of one type.

    A Python number stands for a constant of the other operand's type. Adding 0, multiplying by 1 and shifting
    by 0 emit nothing.
    """

    def emit(self, text: str, result: str) -> Value:
        """One operation with one result."""
        raise NotImplementedError

    def const(self, number: Operand, mlir_type: str) -> Value:
        """A constant of a type."""
        raise NotImplementedError

    def _pair(self, x: Operand, y: Operand) -> tuple[Value, Value]:
        if isinstance(x, Value):
            return x, self.const(y, x.type)
        if isinstance(y, Value):
            return self.const(x, y.type), y
        raise TypeError("one operand must be a kernel value")

    def binary(self, op: str, x: Operand, y: Operand) -> Value:
        """An operation of the arith dialect by its name."""
        a, b = self._pair(x, y)
        return self.emit(f"arith.{op} {a}, {b} : {a.type}", a.type)

    def _signed(self, integer: str, floating: str, x: Operand, y: Operand) -> Value:
        a, b = self._pair(x, y)
        return self.binary(floating if is_float(a.type) else integer, a, b)

    # -- numbers ---------------------------------------------------------------------------------------------

    def add(self, x: Operand, y: Operand) -> Value:
        """x + y; integers wrap."""
        for a, b in ((x, y), (y, x)):
            if isinstance(b, int) and b == 0 and isinstance(a, Value) and not is_float(a.type):
                return a
        return self._signed("addi", "addf", x, y)

    def sub(self, x: Operand, y: Operand) -> Value:
        """x - y; integers wrap."""
        if isinstance(y, int) and y == 0 and isinstance(x, Value):
            return x
        return self._signed("subi", "subf", x, y)

    def mul(self, x: Operand, y: Operand) -> Value:
        """x * y; integers wrap."""
        for a, b in ((x, y), (y, x)):
            if isinstance(b, int) and b == 1 and isinstance(a, Value):
                return a
        return self._signed("muli", "mulf", x, y)

    div = _binary("divf", "Float quotient.")

    def udiv(self, x: Operand, y: Operand) -> Value:
        """Unsigned integer quotient (indices are never negative here)."""
        return x if isinstance(y, int) and y == 1 and isinstance(x, Value) else self.binary("divui", x, y)

    def urem(self, x: Operand, y: Operand) -> Value:
        """Unsigned integer remainder."""
        if isinstance(y, int) and y == 1 and isinstance(x, Value):
            return self.const(0, x.type)
        return self.binary("remui", x, y)

    smin = _binary("minsi", "Signed minimum.")
    smax = _binary("maxsi", "Signed maximum.")
    umin = _binary("minui", "Unsigned minimum.")
    umax = _binary("maxui", "Unsigned maximum.")
    fmax = _binary("maximumf", "Float maximum; NaN if either is.")
    fmin = _binary("minimumf", "Float minimum; NaN if either is.")
    sdiv = _binary("divsi", "Signed integer quotient, toward zero; undefined for a divisor of 0 and for overflow.")
    srem = _binary("remsi", "Signed integer remainder; undefined where :meth:`sdiv` is.")
    frem = _binary("remf", "Float remainder with the sign of x.")

    def convert(self, op: str, x: Value, elem: str) -> Value:
        """A conversion between kinds by its name: sitofp, uitofp, fptosi."""
        return self._convert(op, x, like(x.type, elem))

    def negf(self, x: Value) -> Value:
        """-x of a float."""
        return self.emit(f"arith.negf {x} : {x.type}", x.type)

    # -- bits ------------------------------------------------------------------------------------------------

    and_ = _binary("andi", "Bitwise and.")
    or_ = _binary("ori", "Bitwise or.")
    xor = _binary("xori", "Bitwise exclusive or.")

    def shl(self, x: Operand, y: Operand) -> Value:
        """Shift to the left."""
        return x if isinstance(y, int) and y == 0 and isinstance(x, Value) else self.binary("shli", x, y)

    def shrl(self, x: Operand, y: Operand) -> Value:
        """Shift to the right, zeros enter."""
        return x if isinstance(y, int) and y == 0 and isinstance(x, Value) else self.binary("shrui", x, y)

    shra = _binary("shrsi", "Shift to the right, the sign enters.")

    # -- choice ----------------------------------------------------------------------------------------------

    def cmp(self, predicate: str, x: Operand, y: Operand) -> Value:
        """Compare: eq ne slt sle sgt sge ult ule ugt uge for integers, oeq olt ogt uno ... for floats."""
        a, b = self._pair(x, y)
        op = "cmpf" if is_float(a.type) else "cmpi"
        return self.emit(f"arith.{op} {predicate}, {a}, {b} : {a.type}", like(a.type, "i1"))

    def select(self, condition: Value, x: Operand, y: Operand) -> Value:
        """x where ``condition`` holds, else y."""
        a, b = self._pair(x, y)
        if lanes(condition.type):
            return self.emit(f"arith.select {condition}, {a}, {b} : {condition.type}, {a.type}", a.type)
        return self.emit(f"arith.select {condition}, {a}, {b} : {a.type}", a.type)

    # -- conversion ------------------------------------------------------------------------------------------

    def _convert(self, op: str, x: Value, to: str) -> Value:
        return self.emit(f"arith.{op} {x} : {x.type} to {to}", to)

    def cast(self, x: Value, elem: str, *, signed: bool = True) -> Value:
        """To another element of the same kind (integers, index and floats), extending or truncating."""
        source, to = element(x.type), like(x.type, elem)
        if source == elem:
            return x
        if "index" in (source, elem):
            return self._convert("index_cast" if signed else "index_castui", x, to)
        if is_float(source):
            return self._convert("extf" if width(elem) > width(source) else "truncf", x, to)
        if width(elem) < width(source):
            return self._convert("trunci", x, to)
        return self._convert("extsi" if signed else "extui", x, to)

    def bitcast(self, x: Value, elem: str) -> Value:
        """The same bits as another element of the same width."""
        return x if element(x.type) == elem else self._convert("bitcast", x, like(x.type, elem))

    def math(self, name: str, x: Value) -> Value:
        """A unary function of the math dialect (exp, log, log1p, absf, ...)."""
        return self.emit(f"math.{name} {x} : {x.type}", x.type)

    def fma(self, x: Value, y: Operand, z: Operand) -> Value:
        """x * y + z, rounded once."""
        return self.emit(f"math.fma {x}, {self.const(y, x.type)}, {self.const(z, x.type)} : {x.type}", x.type)

    def multiply_add(self, x: Value, y: Value, z: Value) -> Value:
        """x * y + z of vectors, rounded once for floats."""
        if is_float(x.type):
            return self.emit(f"vector.fma {x}, {y}, {z} : {x.type}", x.type)
        return self.add(self.mul(x, y), z)

    def across(
        self, state: Sequence[Value], merge: Callable[[list[Value], list[Value]], Sequence[Value]]
    ) -> list[Value]:
        """All lanes of some vectors as one, by halves: ``merge`` combines those of two halves."""
        n = lanes(state[0].type)
        while n > 1:
            n //= 2
            low, high = ([self.shuffle(x, x, range(k, k + n)) for x in state] for k in (0, n))
            state = merge(low, high)
        return [self.extract(x, 0) if lanes(x.type) else x for x in state]

    # -- vectors ---------------------------------------------------------------------------------------------

    def broadcast(self, x: Value, n: int) -> Value:
        """A vector of ``n`` times x."""
        to = vector(n, x.type)
        return self.emit(f"vector.broadcast {x} : {x.type} to {to}", to)

    def from_elements(self, values: Sequence[Value]) -> Value:
        """The vector of these scalars."""
        to = vector(len(values), values[0].type)
        return self.emit(f"vector.from_elements {', '.join(map(str, values))} : {to}", to)

    def extract(self, x: Value, lane: int) -> Value:
        """One lane."""
        return self.emit(f"vector.extract {x}[{lane}] : {element(x.type)} from {x.type}", element(x.type))

    def shuffle(self, x: Value, y: Value, order: Sequence[int]) -> Value:
        """Lanes of x and y (y's numbered after x's) in a new order."""
        to = vector(len(order), element(x.type))
        return self.emit(f"vector.shuffle {x}, {y} [{', '.join(map(str, order))}] : {x.type}, {y.type}", to)

    def interleave(self, x: Value, y: Value) -> Value:
        """x0 y0 x1 y1 ..."""
        to = vector(2 * lanes(x.type), element(x.type))
        return self.emit(f"vector.interleave {x}, {y} : {x.type} -> {to}", to)

    def reduce(self, kind: str, x: Value) -> Value:
        """All lanes combined: add, mul, minsi, maxsi, minui, maxui, and, or, xor, maximumf, ..."""
        return self.emit(f"vector.reduction <{kind}>, {x} : {x.type} into {element(x.type)}", element(x.type))

    def mask(self, n: int, count: Operand) -> Value:
        """A mask of ``n`` lanes, the first ``count`` (an index, at least 0) on."""
        to = vector(n, "i1")
        return self.emit(f"vector.create_mask {self.const(count, 'index')} : {to}", to)
