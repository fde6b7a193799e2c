"""Programs in SPIR-V whose drivers must compute floats as IEEE 754 has them: with NaN, infinities and signed zeros, step by step.

SPIR-V leaves it to the driver to take floats for real numbers, and drivers do: `x - x` is 0, `sqrt(x) * sqrt(x)` is |x|. IREE
writes nothing that forbids it. What it has translated is given the decoration NoContraction here, of each sum, difference,
product and quotient: such an operation is neither joined with others nor exchanged for one that is equal in real numbers. A
multiplication and an addition are then one operation only where IREE has written one (GLSL's Fma, in products of matrices).

Mesa's software driver looks besides for operands that are the constant 0 where it writes its own code, and there it heeds no
decoration: `x * 0` and `0 / x` are 0, `x + 0` is x, `x / 0` anything. So zeros among the operands become a number of which it cannot
know that it is 0: an odd number's square is 1 modulo 8, so its bit of four is 0, which no analysis of single bits finds. It
is computed once in a function that has such a zero.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import ctypes

import mlir_c

_ARITHMETIC = frozenset(b"spirv." + name for name in (b"FAdd", b"FSub", b"FMul", b"FDiv", b"FRem", b"FMod", b"FNegate"))
_HIDDEN_IN = frozenset((*_ARITHMETIC, b"spirv.GL.Fma", b"spirv.Branch", b"spirv.BranchConditional"))
"""Whose operands may not be a zero that is known: branches begin loops with theirs, which drivers unroll."""
_BUILT_IN = b"WorkgroupId"


def make_exact(mlir: mlir_c.Mlir, module: int) -> None:
    """Keep drivers from simplifying the arithmetic of floats in a module's executables, which are in the dialect of SPIR-V."""
    for code in mlir.within(module, frozenset((b"spirv.module",))):
        for function in list(mlir.named(mlir.first_block(code), b"spirv.func")):
            _hide_zeros(mlir, code, function)
    context = mlir.mlirOperationGetContext(module)
    unit = mlir.mlirAttributeParseGet(context, mlir_c.text(b"unit"))
    for op in mlir.within(module, _ARITHMETIC):
        mlir.mlirOperationSetDiscardableAttributeByName(op, mlir_c.text(b"no_contraction"), unit)


def _hide_zeros(mlir: mlir_c.Mlir, code: int, function: int) -> None:
    zero = 0
    for constant in mlir.within(function, frozenset((b"spirv.Constant",))):
        signs = _zeros(mlir, constant)
        hidden_in = [
            use for use in mlir.uses(mlir.mlirOperationGetResult(constant, 0)) if mlir.name(use[0]) in _HIDDEN_IN
        ]
        if not hidden_in or not any(signs):
            continue
        zero = zero or _unknown_zero(mlir, code, function)
        hidden = _hidden(mlir, constant, signs, zero)
        for user, number in hidden_in:
            mlir.mlirOperationSetOperand(user, number, hidden)


def _zeros(mlir: mlir_c.Mlir, constant: int) -> list[bytes]:
    """The zeros of a constant with their signs, in the place of each element; nothing in that of others and of integers."""
    if mlir.printed(mlir.mlirTypePrint, _element(mlir, constant))[:1] != b"f":
        return []
    text, _, _ = mlir.printed(mlir.mlirAttributePrint, mlir.attribute(constant, b"value")).partition(b" :")
    elements = text.removeprefix(b"dense<").removesuffix(b">").strip(b"[]").split(b", ")
    kind = mlir.mlirValueGetType(mlir.mlirOperationGetResult(constant, 0))
    count = mlir.mlirShapedTypeGetDimSize(kind, 0) if mlir.mlirTypeIsAVector(kind) else 1
    # NaN and infinities are written by their bits, of which none are a zero's.
    signs = [(e[:1] if e[:1] == b"-" else b"+") if not e.startswith(b"0x") and float(e) == 0 else b"" for e in elements]
    return signs * (count // len(signs))


def _element(mlir: mlir_c.Mlir, constant: int) -> int:
    kind = mlir.mlirValueGetType(mlir.mlirOperationGetResult(constant, 0))
    return mlir.mlirShapedTypeGetElementType(kind) if mlir.mlirTypeIsAVector(kind) else kind


def _hidden(mlir: mlir_c.Mlir, constant: int, signs: list[bytes], zero: int) -> int:
    """A constant whose zeros are made of a float32 of which no driver knows that it is 0."""
    value = mlir.mlirOperationGetResult(constant, 0)
    element, after = _element(mlir, constant), mlir.mlirOperationGetNextInBlock(constant)
    if not mlir.mlirTypeEqual(element, mlir.mlirValueGetType(zero)):
        zero = _make(mlir, after, b"FConvert", [zero], element)
    elements = list[int]()
    for i, sign in enumerate(signs):
        if not sign:
            elements.append(_make(mlir, after, b"CompositeExtract", [value], element, indices=b"[%d : i32]" % i))
        elif sign == b"-":
            elements.append(_make(mlir, after, b"FNegate", [zero], element))
        else:
            elements.append(zero)
    if len(elements) == 1:
        return elements[0]
    return _make(mlir, after, b"CompositeConstruct", elements, mlir.mlirValueGetType(value))


def _unknown_zero(mlir: mlir_c.Mlir, code: int, function: int) -> int:
    """A float32 0 at the beginning of a function, of the number of the workgroup.

    Not of a thread's: where a workgroup has one thread, drivers know that.
    """
    context, before = (
        mlir.mlirOperationGetContext(function),
        mlir.mlirBlockGetFirstOperation(mlir.first_block(function)),
    )
    word, pointer, three, number = (
        mlir.mlirTypeParseGet(context, mlir_c.text(kind))
        for kind in (b"i32", b"!spirv.ptr<vector<3xi32>, Input>", b"vector<3xi32>", b"f32")
    )
    variable = b"@" + _workgroup_number(mlir, code, pointer)
    address = _make(mlir, before, b"mlir.addressof", [], pointer, variable=variable)
    numbers = _make(mlir, before, b"Load", [address], three)
    first = _make(mlir, before, b"CompositeExtract", [numbers], word, indices=b"[0 : i32]")
    one, four = (_make(mlir, before, b"Constant", [], word, value=value) for value in (b"1 : i32", b"4 : i32"))
    odd = _make(mlir, before, b"BitwiseOr", [first, one], word)
    bits = _make(mlir, before, b"BitwiseAnd", [_make(mlir, before, b"IMul", [odd, odd], word), four], word)
    return _make(mlir, before, b"Bitcast", [bits], number)


def _make(mlir: mlir_c.Mlir, before: int, name: bytes, operands: list[int], kind: int, **attributes: bytes) -> int:
    """The result of a new operation of SPIR-V, of this type, with attributes as MLIR writes them."""
    context = mlir.mlirOperationGetContext(before)
    parsed: dict[bytes, int | None] = {
        key.encode(): mlir.mlirAttributeParseGet(context, mlir_c.text(value)) for key, value in attributes.items()
    }
    return mlir.mlirOperationGetResult(mlir.create(b"spirv." + name, operands, [kind], parsed, before=before), 0)


def _workgroup_number(mlir: mlir_c.Mlir, code: int, pointer: int) -> bytes:
    """The variable of a module of SPIR-V with the numbers of the workgroup, of which all its entry points are told."""
    context, block = mlir.mlirOperationGetContext(code), mlir.first_block(code)
    built_in = mlir.mlirStringAttrGet(context, mlir_c.text(_BUILT_IN))
    variables = mlir.named(block, b"spirv.GlobalVariable")
    name = next((mlir.symbol(v) for v in variables if mlir.attribute(v, b"built_in") == built_in), None)
    if name is None:
        name = b"__builtin__" + _BUILT_IN + b"__"
        symbol = mlir.mlirStringAttrGet(context, mlir_c.text(name))
        attributes: dict[bytes, int | None] = {
            b"sym_name": symbol,
            b"type": mlir.mlirTypeAttrGet(pointer),
            b"built_in": built_in,
        }
        mlir.create(b"spirv.GlobalVariable", [], [], attributes, before=mlir.mlirBlockGetFirstOperation(block))
    variable = mlir.mlirAttributeParseGet(context, mlir_c.text(b"@" + name))
    for entry in mlir.named(block, b"spirv.EntryPoint"):
        told = mlir.attribute(entry, b"interface")
        variables = [mlir.mlirArrayAttrGetElement(told, i) for i in range(mlir.mlirArrayAttrGetNumElements(told))]
        if variable not in variables:
            every = (ctypes.c_void_p * (len(variables) + 1))(*variables, variable)
            interface = mlir.mlirArrayAttrGet(context, len(every), every)
            mlir.mlirOperationSetAttributeByName(entry, mlir_c.text(b"interface"), interface)
    return name
