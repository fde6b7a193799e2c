"""Operations of StableHLO for lowering rules, under the names of JAX's bindings: ``hlo.AddOp(hlo.MulOp(x, y), z).result``.

Operations whose result's type follows from their operands take operands and attributes; the others take the result's type
first. The builders in small letters give the value: ``hlo.add(x, y)``. Operations with regions (reduce, while, sort, ...)
are not here: a rule calls ``mlir.lower_fun(f)(ctx, *values)`` for those parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import iree.compiler.ir as ir
import numpy as np

from quire.ir.primitive import PRIMITIVES

Value = Any


class _Operation:
    """An operation that was made: its results are values, and one with a single result may be an operand."""

    name = ""
    typed = False
    arity = 0  # -1: any number
    lists: tuple[int, ...] = ()
    attributes: tuple[str, ...] = ()

    def __init__(self, *args: Any, results: Any = None, loc: Any = None, ip: Any = None, **kwargs: Any) -> None:
        given = list(args)
        result_types = results
        if self.typed:
            if not given and results is None:
                raise TypeError(f"hlo.{type(self).__name__}: the result's type comes first")
            result_types = [given.pop(0)] if results is None else results
        count = len(given) if self.arity < 0 else self.arity
        operands: list[Any] = []
        for x in given[:count]:
            operands.extend(map(value_of, x) if isinstance(x, list | tuple) else [value_of(x)])
        named = dict(zip(self.attributes, given[count:]))
        unknown = [k for k in kwargs if k not in self.attributes]
        if len(given) - count > len(self.attributes) or unknown:
            raise TypeError(f"hlo.{type(self).__name__} takes the attributes {', '.join(self.attributes) or 'none'}")
        named.update(kwargs)
        found = {k: attribute(self.name, k, v) for k, v in named.items() if v is not None}
        options: dict[str, Any] = {"infer_type": True} if result_types is None else {"results": list(result_types)}
        self.operation = ir.Operation.create(
            f"stablehlo.{self.name}", operands=operands, attributes=found, loc=loc, ip=ip, **options
        )

    @property
    def results(self) -> list[Value]:
        """The results' values."""
        return list(self.operation.results)

    @property
    def result(self) -> Value:
        """The one result's value."""
        return self.operation.result

    @property
    def type(self) -> Any:
        """The one result's type."""
        return self.result.type


def value_of(x: Any) -> Value:
    """A value, of a value or of an operation with one result.

    Raises TypeError for anything else.
    """
    if isinstance(x, _Operation):
        return x.result
    if isinstance(x, ir.Value):
        return x
    if isinstance(x, ir.OpView | ir.Operation):
        return x.operation.result
    raise TypeError(
        f"a lowering rule's values are MLIR's, or operations; got {x!r} (mlir.ir_constant makes one of an array)"
    )


_ENUMS = {
    "comparison_direction": "comparison_direction", "compare_type": "comparison_type", "fft_type": "fft_type",
    "transpose_a": "transpose",
}  # fmt: skip
_SMALL = ("exponent_bits", "mantissa_bits")


def attribute(operation: str, name: str, value: Any) -> Any:
    """An attribute of MLIR of a Python value; one of MLIR's is taken as it is.

    Raises TypeError for a value of which there is none.
    """
    if isinstance(value, ir.Attribute):
        return value
    if isinstance(value, str):
        kind = _ENUMS.get(name)
        return ir.StringAttr.get(value) if kind is None else ir.Attribute.parse(f"#stablehlo<{kind} {value}>")
    if isinstance(value, bool | np.bool_):
        return ir.BoolAttr.get(bool(value))
    if isinstance(value, int | np.integer):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(32 if name in _SMALL else 64), int(value))
    if isinstance(value, np.ndarray) and name == "value":
        return ir.DenseElementsAttr.get(np.ascontiguousarray(value))
    if isinstance(value, Sequence | np.ndarray):
        items = list(value)
        if all(isinstance(i, int | np.integer) for i in items):
            return ir.DenseI64ArrayAttr.get([int(i) for i in items])
        return ir.ArrayAttr.get(items)
    raise TypeError(f"stablehlo.{operation}: attribute {name} cannot be made of {value!r}")


# JAX's names of the classes are the primitives', but for these.
_NAMED = {"cos": "CosineOp", "sin": "SineOp", "sub": "SubtractOp"}
# Class, operation, whether the result's type comes first, operands (lists count as one), attributes.
_OTHERS: tuple[tuple[str, str, bool, int, tuple[str, ...]], ...] = (
    ("CompareOp", "compare", False, 2, ("comparison_direction", "compare_type")),
    ("PowOp", "power", False, 2, ()),
    ("RoundOp", "round_nearest_afz", False, 1, ()),
    ("RoundNearestEvenOp", "round_nearest_even", False, 1, ()),
    ("SelectOp", "select", False, 3, ()),
    ("ClampOp", "clamp", False, 3, ()),
    ("ConstantOp", "constant", False, 0, ("value",)),
    ("ConcatenateOp", "concatenate", False, 1, ("dimension",)),
    ("TransposeOp", "transpose", False, 1, ("permutation",)),
    ("SliceOp", "slice", False, 1, ("start_indices", "limit_indices", "strides")),
    ("DynamicSliceOp", "dynamic_slice", False, 2, ("slice_sizes",)),
    ("DynamicUpdateSliceOp", "dynamic_update_slice", False, 3, ()),
    ("PadOp", "pad", False, 2, ("edge_padding_low", "edge_padding_high", "interior_padding")),
    ("CholeskyOp", "cholesky", False, 1, ("lower",)),
    ("FftOp", "fft", False, 1, ("fft_type", "fft_length")),
    ("OptimizationBarrierOp", "optimization_barrier", False, -1, ()),
    ("ReverseOp", "reverse", False, 1, ("dimensions",)),
    ("ReducePrecisionOp", "reduce_precision", False, 1, ("exponent_bits", "mantissa_bits")),
    ("TriangularSolveOp", "triangular_solve", False, 2, ("left_side", "lower", "unit_diagonal", "transpose_a")),
    ("BroadcastInDimOp", "broadcast_in_dim", True, 1, ("broadcast_dimensions",)),
    ("ReshapeOp", "reshape", True, 1, ()),
    ("ConvertOp", "convert", True, 1, ()),
    ("BitcastConvertOp", "bitcast_convert", True, 1, ()),
    ("IotaOp", "iota", True, 0, ("iota_dimension",)),
    ("DotGeneralOp", "dot_general", True, 2, ("dot_dimension_numbers", "precision_config")),
)


def _builder(kind: type[_Operation]) -> Any:
    def build(*args: Any, **kwargs: Any) -> Any:
        made = kind(*args, **kwargs)
        return made.result if len(made.results) == 1 else made.results

    build.__name__ = build.__qualname__ = kind.name
    build.__doc__ = f"The value of a `{kind.__name__}`."
    return build


def _declare() -> list[str]:
    declared = [p for p in PRIMITIVES.values() if p.stablehlo and not p.stablehlo.startswith("chlo.")]
    table = [
        (
            _NAMED.get(p.name) or "".join(map(str.capitalize, p.name.split("_"))) + "Op",
            p.stablehlo,
            False,
            p.arity or 0,
            (),
        )
        for p in declared
    ]
    names: list[str] = []
    for label, name, typed, arity, attributes in (*table, *_OTHERS):
        fields = {
            "name": name, "typed": typed, "arity": arity, "attributes": attributes, "__doc__": f"stablehlo.{name}",
            "__module__": __name__,
        }  # fmt: skip
        kind = type(label, (_Operation,), fields)
        function = f"{name}_" if name in ("and", "or", "not") else name
        globals()[label], globals()[function] = kind, _builder(kind)
        names += [label, function]
    return names


class _Enum:
    """An attribute of StableHLO that is one of some words: ``ComparisonDirectionAttr.get("LT")``."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def get(self, value: str, context: Any = None) -> Any:
        """The attribute of a word."""
        return ir.Attribute.parse(f"#stablehlo<{self._kind} {value}>")


ComparisonDirectionAttr = _Enum("comparison_direction")
ComparisonTypeAttr = _Enum("comparison_type")
FftTypeAttr = _Enum("fft_type")
PrecisionAttr = _Enum("precision")
TransposeAttr = _Enum("transpose")


class DotDimensionNumbers:
    """Which dimensions a `DotGeneralOp` pairs, and which it sums over."""

    @staticmethod
    def get(
        lhs_batching_dimensions: Sequence[int] = (), rhs_batching_dimensions: Sequence[int] = (),
        lhs_contracting_dimensions: Sequence[int] = (), rhs_contracting_dimensions: Sequence[int] = (),
        context: Any = None,
    ) -> Any:  # fmt: skip
        """The attribute."""
        fields = {
            "lhs_batching_dimensions": lhs_batching_dimensions, "rhs_batching_dimensions": rhs_batching_dimensions,
            "lhs_contracting_dimensions": lhs_contracting_dimensions,
            "rhs_contracting_dimensions": rhs_contracting_dimensions,
        }  # fmt: skip
        said = ", ".join(f"{k} = [{', '.join(map(str, v))}]" for k, v in fields.items() if len(v))
        return ir.Attribute.parse(f"#stablehlo.dot<{said}>")


__all__ = [
    "ComparisonDirectionAttr", "ComparisonTypeAttr", "DotDimensionNumbers", "FftTypeAttr", "PrecisionAttr", "TransposeAttr",
    *_declare(),
]  # fmt: skip
