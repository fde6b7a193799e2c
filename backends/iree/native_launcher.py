"""How a kernel is called as IREE's runtime calls it: for each workgroup, with three structures.

`TEXT` is a function of LLVM's dialect that does it for any number of launches one after the other. What is constant of a
launch is a record that it reads (`record`). So the text of a program has one call for what lies between two loads, copies or
branches, and LLVM takes no longer for many launches than for few.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from collections.abc import Sequence

STATE = '"iree_hal_executable_dispatch_state_v0_t", (i32, i32, i16, i16, i32, i32, i16, i8, i8, ptr, ptr, ptr)'
GROUP = '"iree_hal_executable_workgroup_state_v0_t", (i32, i32, i16, i16, i32, ptr, i32)'
"""What a kernel is told of its dispatch, and of its workgroup, as IREE 3.13 writes it. The dispatch: size of a workgroup (x, y,
z), number of scalars, number of workgroups (x, y, z), processors, number of bindings; scalars, bindings, their lengths. The
workgroup: its number (x, y, z), two bytes of nothing, the processor's number, memory of its own, and how much."""

MOST_BINDINGS = 32
"""More buffers IREE's runtime does not bind to one dispatch."""
NAME = "quire_launch"
KERNELS = "quire_kernels"
"""The kernels' addresses, which records number."""

TEXT = f"""
llvm.func internal @{NAME}(%env: !llvm.ptr, %table: !llvm.ptr, %records: !llvm.ptr, %scalars: !llvm.ptr, %count: i64)
    attributes {{passthrough = ["noinline", "optsize"]}} {{
  %none = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %most = llvm.mlir.constant({8 * MOST_BINDINGS} : i64) : i64
  %state_size = llvm.mlir.constant(48 : i64) : i64
  %group_size = llvm.mlir.constant(32 : i64) : i64
  %head = llvm.mlir.constant(24 : i64) : i64
  %state = llvm.alloca %state_size x i8 {{alignment = 16 : i64}} : (i64) -> !llvm.ptr
  %group = llvm.alloca %group_size x i8 {{alignment = 16 : i64}} : (i64) -> !llvm.ptr
  %bound = llvm.alloca %most x i8 {{alignment = 16 : i64}} : (i64) -> !llvm.ptr
  %zero = llvm.mlir.constant(0 : i8) : i8
  %kernels = llvm.mlir.addressof @{KERNELS} : !llvm.ptr
  %given = llvm.icmp "ne" %scalars, %null : !llvm.ptr
  %s12 = llvm.getelementptr %state[12] : (!llvm.ptr) -> !llvm.ptr, i8
  %s16 = llvm.getelementptr %state[16] : (!llvm.ptr) -> !llvm.ptr, i8
  %s20 = llvm.getelementptr %state[20] : (!llvm.ptr) -> !llvm.ptr, i8
  %s24 = llvm.getelementptr %state[24] : (!llvm.ptr) -> !llvm.ptr, i8
  %s32 = llvm.getelementptr %state[32] : (!llvm.ptr) -> !llvm.ptr, i8
  %s40 = llvm.getelementptr %state[40] : (!llvm.ptr) -> !llvm.ptr, i8
  %g4 = llvm.getelementptr %group[4] : (!llvm.ptr) -> !llvm.ptr, i8
  %g8 = llvm.getelementptr %group[8] : (!llvm.ptr) -> !llvm.ptr, i8
  "llvm.intr.memset"(%group, %zero, %group_size) <{{isVolatile = false}}> : (!llvm.ptr, i8, i64) -> ()
  llvm.store %bound, %s32 : !llvm.ptr, !llvm.ptr
  llvm.br ^launches(%none, %records : i64, !llvm.ptr)
^launches(%launch: i64, %told: !llvm.ptr):
  %left = llvm.icmp "ult" %launch, %count : i64
  llvm.cond_br %left, ^launch, ^end
^launch:
  "llvm.intr.memcpy"(%state, %told, %head) <{{isVolatile = false}}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
  %lengths = llvm.getelementptr %told[6] : (!llvm.ptr) -> !llvm.ptr, i64
  llvm.store %lengths, %s40 : !llvm.ptr, !llvm.ptr
  %t24 = llvm.getelementptr %told[3] : (!llvm.ptr) -> !llvm.ptr, i64
  %n = llvm.load %t24 : !llvm.ptr -> i64
  %numbers = llvm.getelementptr %lengths[%n] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %starts = llvm.getelementptr %numbers[%n] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %own = llvm.getelementptr %starts[%n] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %push = llvm.select %given, %scalars, %own : i1, !llvm.ptr
  llvm.store %push, %s24 : !llvm.ptr, !llvm.ptr
  %t32 = llvm.getelementptr %told[4] : (!llvm.ptr) -> !llvm.ptr, i64
  %which = llvm.load %t32 : !llvm.ptr -> i64
  %kernel_at = llvm.getelementptr %kernels[%which] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.ptr
  %kernel = llvm.load %kernel_at : !llvm.ptr -> !llvm.ptr
  %t40 = llvm.getelementptr %told[5] : (!llvm.ptr) -> !llvm.ptr, i64
  %words = llvm.load %t40 : !llvm.ptr -> i64
  llvm.br ^bind(%none : i64)
^bind(%i: i64):
  %more = llvm.icmp "ult" %i, %n : i64
  llvm.cond_br %more, ^one, ^bound
^one:
  %number_at = llvm.getelementptr %numbers[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %number = llvm.load %number_at : !llvm.ptr -> i64
  %start_at = llvm.getelementptr %starts[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %start = llvm.load %start_at : !llvm.ptr -> i64
  %buffer_at = llvm.getelementptr %table[%number] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.ptr
  %buffer = llvm.load %buffer_at : !llvm.ptr -> !llvm.ptr
  %place = llvm.getelementptr %buffer[%start] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %bound_at = llvm.getelementptr %bound[%i] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.ptr
  llvm.store %place, %bound_at : !llvm.ptr, !llvm.ptr
  %next = llvm.add %i, %one : i64
  llvm.br ^bind(%next : i64)
^bound:
  %xs32 = llvm.load %s12 : !llvm.ptr -> i32
  %xs = llvm.zext %xs32 : i32 to i64
  %ys32 = llvm.load %s16 : !llvm.ptr -> i32
  %ys = llvm.zext %ys32 : i32 to i64
  %zs16 = llvm.load %s20 : !llvm.ptr -> i16
  %zs = llvm.zext %zs16 : i16 to i64
  %xy = llvm.mul %xs, %ys : i64
  %all = llvm.mul %xy, %zs : i64
  llvm.br ^groups(%none, %none, %none, %none : i64, i64, i64, i64)
^groups(%g: i64, %x: i64, %y: i64, %z: i64):
  %some = llvm.icmp "ult" %g, %all : i64
  llvm.cond_br %some, ^group, ^done
^group:
  %x32 = llvm.trunc %x : i64 to i32
  llvm.store %x32, %group : i32, !llvm.ptr
  %y32 = llvm.trunc %y : i64 to i32
  llvm.store %y32, %g4 : i32, !llvm.ptr
  %z16 = llvm.trunc %z : i64 to i16
  llvm.store %z16, %g8 : i16, !llvm.ptr
  %code = llvm.call %kernel(%env, %state, %group) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
  %following = llvm.add %g, %one : i64
  %x1 = llvm.add %x, %one : i64
  %x_ends = llvm.icmp "eq" %x1, %xs : i64
  %x2 = llvm.select %x_ends, %none, %x1 : i1, i64
  %by_x = llvm.zext %x_ends : i1 to i64
  %y1 = llvm.add %y, %by_x : i64
  %y_ends = llvm.icmp "eq" %y1, %ys : i64
  %y2 = llvm.select %y_ends, %none, %y1 : i1, i64
  %by_y = llvm.zext %y_ends : i1 to i64
  %z1 = llvm.add %z, %by_y : i64
  llvm.br ^groups(%following, %x2, %y2, %z1 : i64, i64, i64, i64)
^done:
  %following_launch = llvm.add %launch, %one : i64
  %following_told = llvm.getelementptr %told[%words] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  llvm.br ^launches(%following_launch, %following_told : i64, !llvm.ptr)
^end:
  llvm.return
}}
"""
"""Calls kernels, one after the other, each for all its workgroups, x running fastest.

What it is told of a launch is constant: 24 bytes of the dispatch's structure, then words: the number of bindings, the kernel's
number, the words of this record, and for all bindings the lengths, the numbers in the table of buffers, and the offsets
there. Behind these are the kernel's scalars, unless others are given.
"""


def record(
    kernel: int, counts: Sequence[int], scalars: int, known: Sequence[int], lengths: Sequence[int], numbers: Sequence[int],
    starts: Sequence[int],
) -> bytes:  # fmt: skip
    """What the function is told of a launch.

    Args:
        kernel: its number.
        counts: of workgroups along x, y and z.
        scalars: how many 32-bit scalars the kernel takes.
        known: these, or nothing.
        lengths: the bytes of each binding.
        numbers: which of the table's buffers each binding is in.
        starts: where in it.
    """
    bindings, words = len(numbers), (len(known) + 1) // 2
    # One processor, and a size of 1 along each dimension: sizes of workgroups mean nothing on CPUs.
    state = struct.pack("<IIHHIIHBB", 1, 1, 1, scalars, *counts, 1, bindings)
    told = (bindings, kernel, 6 + 3 * bindings + words, *lengths, *numbers, *starts)
    end = struct.pack(f"<{len(known)}I", *(x & 0xFFFFFFFF for x in known)).ljust(8 * words, b"\0")
    return state + struct.pack(f"<{len(told)}q", *told) + end


def tables(records: bytes, kernels: Sequence[str], name: str) -> str:
    """The constants that the function reads: the records, under a name, and the kernels' addresses."""
    words = struct.unpack(f"<{len(records) // 8}q", records)
    n = len(kernels)
    filled = "\n".join(
        f"%k{i} = llvm.mlir.addressof @{kernel} : !llvm.ptr\n"
        f"%a{i + 1} = llvm.insertvalue %k{i}, %a{i}[{i}] : !llvm.array<{n} x ptr>"
        for i, kernel in enumerate(kernels)
    )
    return f"""
llvm.mlir.global internal constant @{name}(dense<[{", ".join(map(str, words))}]> : tensor<{len(words)}xi64>)
    {{addr_space = 0 : i32, alignment = 16 : i64}} : !llvm.array<{len(words)} x i64>
llvm.mlir.global internal constant @{KERNELS}() {{addr_space = 0 : i32}} : !llvm.array<{n} x ptr> {{
  %a0 = llvm.mlir.undef : !llvm.array<{n} x ptr>
{filled}
  llvm.return %a{n} : !llvm.array<{n} x ptr>
}}"""
