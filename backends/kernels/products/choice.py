"""Which contractions become kernels: the decision, with its reason, and the kernel.

Every rule here was measured; ``docs/kernels.md`` has the figures.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dtypes import DType
from ..core.errors import NoKernel, no_kernel_of
from ..core.kernel import Kernel, KernelChain, Spec
from ..core.memoized import memoized
from ..core.shapes import row_major
from ..core.target import KernelTarget
from .attention import attention
from .attention_rows import AttentionRows
from .convolution import Conv, Window, conv
from .dot_products import dot_products
from .epilogue import Epilogue
from .gemm import Gemm
from .matrices import DimensionNumbers, Product, assembled, product, result_shape
from .matrix_units import FRAGMENT, by_matrix_units, unit_of
from .plans import dot_products_plan, plan, vecmat_plan
from .vecmat import vecmat

#: Products of less work are left to the compiler, which does them as fast and fuses what stands around them.
LEAST_FLOPS = 1 << 17
#: Products of less work are not worth blocks for matrix units.
LEAST_UNITS = 1 << 22
#: Left operands are converted outside up to this size.
WIDENED_BYTES = 4 << 20
#: Convolutions of less work.
LEAST_CONVOLUTION = 1 << 13


#: Products with the cluster between them of less work.
LEAST_ATTENTION = 1 << 18


Order = tuple[int, ...]


@memoized(1024)
def dot(
    lhs: Spec,
    rhs: Spec,
    total: DType,
    dimension_numbers: DimensionNumbers,
    target: KernelTarget,
    orders: tuple[Order | None, Order | None] = (None, None),
    epilogue: Epilogue | None = None,
    coarse: bool = False,
) -> Kernel:
    """The kernel of a dot_general that sums in ``total``. Raises :class:`NoKernel` where it is left to StableHLO.

    Operands are of the dtype ``total`` or a narrower one of its kind. ``lhs`` and ``rhs`` are what the contraction
    is of; with an entry in ``orders`` the kernel's operand is the array whose transposition that is. The result has
    the dtype ``total``, or is what the ``epilogue`` makes of it. On GPUs there are kernels for matrix units, which may round
    float32 to fewer bits where the program is ``coarse``. Dimension numbers are tuples: kernels are kept by their arguments.
    """
    if target.kind == "gpu":
        unit = unit_of(lhs.dtype, rhs.dtype, total, coarse, target)
        problem = product(lhs.shape, rhs.shape, dimension_numbers, orders)
        if problem.flops < LEAST_UNITS or min(problem.m, problem.n, problem.k) < FRAGMENT:
            raise NoKernel(f"{problem}: fewer than {LEAST_UNITS} operations, or than {FRAGMENT} rows, columns or sums")
        out = Spec.of(result_shape(lhs.shape, rhs.shape, dimension_numbers), total)
        return by_matrix_units(problem, unit, (_stored(lhs, orders[0]), _stored(rhs, orders[1]), out), target)
    _check_sums(lhs.dtype, rhs.dtype, total, target)
    problem = product(lhs.shape, rhs.shape, dimension_numbers, orders)
    if problem.flops < LEAST_FLOPS:
        raise NoKernel(f"{problem}: fewer than {LEAST_FLOPS} operations")
    out = Spec.of(result_shape(lhs.shape, rhs.shape, dimension_numbers), total)
    return kernel(problem, total, (_stored(lhs, orders[0]), _stored(rhs, orders[1]), out), target, epilogue)


def _stored(spec: Spec, order: Order | None) -> Spec:
    """The array that ``order`` makes ``spec`` of."""
    if order is None:
        return spec
    shape = dict(zip(order, spec.shape))
    return Spec(tuple(shape[d] for d in range(len(order))), spec.dtype)


def widens(lhs: Spec, rhs: Spec, total: DType, dimension_numbers: DimensionNumbers) -> bool:
    """Whether lhs had better be converted to ``total`` before the kernel, which would otherwise do so by packing it."""
    if lhs.dtype == total or lhs.size * total.nbytes > WIDENED_BYTES:
        return False
    p = product(lhs.shape, rhs.shape, dimension_numbers)
    return p.flops >= LEAST_FLOPS and min(p.m, p.n) >= 16


@memoized(128)
def attention_of(
    operands: tuple[Spec, ...],
    orders: tuple[Order | None, ...],
    dimension_numbers: tuple[DimensionNumbers, ...],
    rows: AttentionRows,
    total: DType,
    out: Spec,
    target: KernelTarget,
) -> Kernel:
    """The kernel of products, the cluster ``rows`` of their rows and the product of those.

    ``operands`` are both of each first product and the right one of the second, and ``orders`` as in :func:`dot`.
    Raises :class:`NoKernel`.
    """
    shapes = [spec.shape for spec in operands]
    *firsts, last = dimension_numbers
    products = [
        product(x, y, numbers, (left, right))
        for x, y, numbers, left, right in zip(shapes[::2], shapes[1::2], firsts, orders[::2], orders[1::2])
    ]
    products.append(product(rows.scores[0].aval.shape, shapes[-1], last, (None, orders[-1])))
    if sum(p.flops for p in products) < LEAST_ATTENTION:
        raise NoKernel(f"{products[0]}: fewer than {LEAST_ATTENTION} operations")
    specs = [_stored(spec, order) for spec, order in zip(operands, orders)]
    with no_kernel_of(str(products[0])):
        return attention(products, rows, total, [*specs, out], target)


def reads_in_place(shape: Sequence[int], order: Order, fixed: Sequence[int]) -> bool:
    """Whether a product may read the transposition of an array itself: neighbours in memory are not ``fixed``.

    ``fixed`` are the batch dimensions. Where they vary fastest nothing could be read by vectors.
    """
    fastest = next((i for i in sorted(range(len(shape)), key=lambda i: -order[i]) if shape[i] > 1), None)
    return fastest is None or fastest not in fixed


def kernel(
    problem: Product, total: DType, specs: Sequence[Spec], target: KernelTarget, epilogue: Epilogue | None = None
) -> Kernel:
    """The kernel of a product in its best form; ``specs`` are those of the operands and the result.

    Raises :class:`NoKernel`: only products in tiles have epilogues.
    """
    operands = [specs[i].dtype for i in problem.operands]
    what = f"{problem} {' @ '.join(sorted({d.name for d in operands}))}"
    for turned in (problem, problem.swapped()):
        by_dots = dot_products_plan(turned, total.nbytes, target)
        if by_dots is not None:
            if epilogue is not None:
                raise NoKernel(f"{what}: dot products have no epilogue")
            return dot_products(turned, total, by_dots, target, specs, f"{what}: {by_dots}")
        by_rows = vecmat_plan(turned, total.nbytes, target)
        if by_rows is not None and turned.out.column == 1:
            if epilogue is not None:
                raise NoKernel(f"{what}: added rows have no epilogue")
            return vecmat(turned, total, by_rows, target, specs, f"{what}: {by_rows}")
    if problem.out.column != 1 or (problem.n == 1 and problem.out.row == 1):
        problem = problem.swapped()
    left, right = (specs[i].dtype != total for i in problem.operands)
    chosen = plan(problem, (left, right), total.nbytes, target)
    if epilogue is None:
        return Gemm(problem, total, chosen, target, specs).build(f"{what}: {chosen}")
    with no_kernel_of(f"{what}: no {epilogue}"):
        return Gemm(problem, total, chosen, target, specs, epilogue).build(f"{what}: {chosen}, {epilogue}")


def _check_sums(lhs: DType, rhs: DType, total: DType, target: KernelTarget) -> None:
    """Raise :class:`NoKernel` unless products of these operands are summed in ``total`` by kernels."""
    if target.kind != "cpu":
        raise NoKernel("the contraction kernels are for CPUs")
    if total.kind not in ("float", "int") or total.bits < 32:
        raise NoKernel(f"no kernel sums in {total.name}")
    for operand in (lhs, rhs):
        if operand.kind != total.kind or operand.bits > total.bits:
            raise NoKernel(f"no kernel sums {operand.name} in {total.name}")


@memoized(512)
def convolution(
    c: Conv, operand: DType, total: DType, target: KernelTarget, epilogue: Epilogue | None = None
) -> KernelChain:
    """The kernels of a convolution (features last) of a padded input and a filter.

    Raises :class:`NoKernel` where it is left to StableHLO.
    """
    with no_kernel_of(str(c)):
        _check_sums(operand, operand, total, target)
        if c.groups > 1 and (c.group_features < 4 or c.group_outputs < target.lanes(total.bits)):
            raise NoKernel("few features in a group, which the compiler does well")
        if c.flops < LEAST_CONVOLUTION:
            raise NoKernel(f"fewer than {LEAST_CONVOLUTION} operations")
        with no_kernel_of(f"no {epilogue}"):
            return conv(c, operand, total, target, epilogue)


@memoized(512)
def correlation(
    lhs: Spec, rhs: Spec, out: Spec, windows: tuple[Window, ...], target: KernelTarget,
    epilogue: Epilogue | None = None,
) -> Kernel:  # fmt: skip
    """The kernel of a convolution with a large window and a small result, as the gradient of a filter is.

    Operands are the padded ``[i, ..., b]`` and ``[i, ..., o]``, the result is ``[..., b, o]``: the sum over i and the
    window is that of a matrix product, one for each place of the result. Raises :class:`NoKernel`.
    """
    n = len(windows)
    ls, rs, os = row_major(lhs.shape), row_major(rhs.shape), row_major(out.shape)
    places = [(w.out, ls[1 + d] * w.stride, 0, os[d]) for d, w in enumerate(windows)]
    taps = [(w.taps, ls[1 + d] * w.dilation, rs[1 + d], 0) for d, w in enumerate(windows)]
    p = assembled(
        [],
        [*places, (lhs.shape[n + 1], 1, 0, os[n])],
        [(rhs.shape[n + 1], 0, 1, 1)],
        [(lhs.shape[0], ls[0], rs[0], 0), *taps],
    )
    with no_kernel_of(str(p)):
        _check_sums(lhs.dtype, rhs.dtype, out.dtype, target)
        if p.flops < LEAST_CONVOLUTION:
            raise NoKernel(f"fewer than {LEAST_CONVOLUTION} operations")
    return kernel(p, out.dtype, (lhs, rhs, out), target, epilogue)
