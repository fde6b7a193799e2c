"""Buffers: NumPy to device and back."""

import gc
import sys

import ml_dtypes
import numpy as np
import pytest

from quire.runtime.buffers import (
    COPY_BELOW,
    ELEMENT_TYPES,
    aligned_empty,
    element_type,
    from_numpy,
    is_aligned,
    to_numpy,
)

SHAPES = [(), (1,), (5,), (0,), (3, 0, 2), (3, 7), (2, 3, 4), (130, 131)]


def values(shape, dtype):
    random = np.random.default_rng(0)
    numbers = random.standard_normal(shape) * 50
    if np.dtype(dtype).kind == "c":
        numbers = numbers + 1j * random.standard_normal(shape)
    with np.errstate(invalid="ignore"):
        return np.asarray(numbers).astype(dtype)


@pytest.mark.parametrize("dtype", ELEMENT_TYPES, ids=str)
def test_round_trip(device, dtype):
    for shape in SHAPES:
        array = values(shape, dtype)
        view = from_numpy(array, device)
        assert tuple(view.shape) == shape
        for back in (to_numpy(view, device), to_numpy(view, device, dtype, shape)):
            assert back.dtype == dtype and back.shape == shape and not back.flags.writeable
            np.testing.assert_array_equal(back, array)


def test_arrays_that_are_not_contiguous(device):
    for array in (
        np.arange(24.0).reshape(4, 6).T,
        np.arange(20, dtype=np.int16)[::-2],
        np.broadcast_to(np.float32(3), (2, 5)),
        np.asfortranarray(np.ones((300, 301))),
    ):
        np.testing.assert_array_equal(to_numpy(from_numpy(array, device), device), array)


def test_byte_order(device):
    array = np.arange(5, dtype=">f4")
    back = to_numpy(from_numpy(array, device), device)
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back, array)


def test_special_values_are_kept_bit_by_bit(device):
    array = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38], np.float32)
    back = to_numpy(from_numpy(array, device), device)
    np.testing.assert_array_equal(back.view(np.uint32), array.view(np.uint32))


def test_read_only_results(device):
    back = to_numpy(from_numpy(np.ones(3), device), device)
    with pytest.raises(ValueError, match="read-only"):
        back[0] = 2
    again = from_numpy(back, device)
    np.testing.assert_array_equal(to_numpy(again, device), [1, 1, 1])


def test_aligned_memory_is_shared_and_kept_alive(cpu):
    array = aligned_empty((COPY_BELOW,), np.float32)
    array[:] = 1
    assert array.ctypes.data % 64 == 0 and is_aligned(array)
    before = sys.getrefcount(array)
    view = from_numpy(array, cpu)
    array[5] = 7
    assert to_numpy(view, cpu)[5] == 7
    back = to_numpy(view, cpu)
    assert np.shares_memory(back, array)
    del view
    gc.collect()
    assert sys.getrefcount(array) > before  # `back` needs it
    array = None
    gc.collect()
    assert back[5] == 7 and back.sum() == COPY_BELOW + 6


@pytest.mark.parametrize("dtype", [np.bool_, ml_dtypes.bfloat16, np.complex128, np.int8], ids=str)
def test_every_kind_of_dtype_is_shared(cpu, dtype):
    array = aligned_empty((300, 1000), dtype)
    array[...] = values((300, 1000), dtype)
    back = to_numpy(from_numpy(array, cpu, copy=False), cpu)
    assert back.dtype == dtype and np.shares_memory(back.view(np.uint8), array.view(np.uint8))


def test_copy_true_never_shares(cpu):
    array = aligned_empty((COPY_BELOW,), np.float32)
    assert not np.shares_memory(to_numpy(from_numpy(array, cpu, copy=True), cpu), array)


def test_small_and_unaligned_arrays_are_copied(cpu):
    small = aligned_empty((4,), np.float32)
    assert not np.shares_memory(to_numpy(from_numpy(small, cpu), cpu), small)
    big = aligned_empty((COPY_BELOW + 1,), np.float32)
    big[:] = np.arange(big.size)
    unaligned = big[1:]
    back = to_numpy(from_numpy(unaligned, cpu), cpu)
    assert back.ctypes.data % 64 == 0 and not np.shares_memory(back, big)
    np.testing.assert_array_equal(back, unaligned)
    with pytest.raises(ValueError, match="cannot be used without a copy.*multiple of 64"):
        from_numpy(unaligned, cpu, copy=False)


def test_a_view_outlives_its_buffer(cpu):
    back = to_numpy(from_numpy(np.arange(1000.0), cpu), cpu)
    gc.collect()
    others = [from_numpy(np.zeros(1000), cpu) for _ in range(20)]  # would take the memory if it were free
    assert back[999] == 999 and len(others) == 20


def test_large_memory_is_recycled_without_page_faults(cpu):
    resource = pytest.importorskip("resource")

    def fill():
        aligned_empty((32 << 20,), np.uint8)[::4096] = 1

    fill()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        fill()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 500


def test_unsupported_dtypes(device):
    with pytest.raises(TypeError, match=r"dtype <U3 has no device representation; use one of bool, int8"):
        from_numpy(np.array(["abc"]), device)
    with pytest.raises(TypeError, match="object"):
        element_type(np.dtype(object))
    with pytest.raises(TypeError, match="float8_e4m3fn"):
        element_type(np.dtype(ml_dtypes.float8_e4m3fn))


@pytest.mark.vulkan
def test_vulkan_memory_is_not_numpys(vulkan):
    with pytest.raises(TypeError, match=r"VulkanDevice\(id=0\) has no memory that NumPy can reach"):
        aligned_empty((3,), np.float32, vulkan)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_borrowed_array_is_used_as_it_is(cpu, dtype):
    array = aligned_empty((1 << 16,), dtype)
    array[:] = 3
    view = from_numpy(array, cpu, borrow=True)
    array[5] = 4
    got = to_numpy(view, cpu)
    assert got[5] == 4 and got[6] == 3 and got.dtype == array.dtype
    # What cannot be used as it is, or is small, is copied as always.
    for other in (array[1:], array[:8]):
        copied = to_numpy(from_numpy(other, cpu, borrow=True), cpu)
        before = copied.copy()
        other[:] = 9
        np.testing.assert_array_equal(copied, before)


def test_a_call_with_an_array_that_is_converted():
    """The converted array is nobody else's: it must live as long as the call."""
    import quire

    double = quire.jit(lambda x: x * 2)
    x = aligned_empty((1 << 17,), np.float64)
    for i in range(20):
        x[:] = i
        np.testing.assert_array_equal(double(x), np.full(x.shape, 2 * i, np.float32))
