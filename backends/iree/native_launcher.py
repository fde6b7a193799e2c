"""How a kernel is called as IREE's runtime calls it: for each workgroup, with three structures.

`TEXT` is a function of LLVM's dialect that does it for any kernel. What is constant of a launch is a record that it reads
(`record`), so that a launch is one call in the text of a program, and one of many launches takes LLVM no longer than its
kernels do.

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

TEXT = f"""
llvm.func internal @{NAME}(%env: !llvm.ptr, %kernel: !llvm.ptr, %table: !llvm.ptr, %told: !llvm.ptr, %push: !llvm.ptr)
    attributes {{passthrough = ["noinline"]}} {{
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
  "llvm.intr.memcpy"(%state, %told, %head) <{{isVolatile = false}}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
  %zero = llvm.mlir.constant(0 : i8) : i8
  "llvm.intr.memset"(%group, %zero, %group_size) <{{isVolatile = false}}> : (!llvm.ptr, i8, i64) -> ()
  %s24 = llvm.getelementptr %state[24] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %push, %s24 : !llvm.ptr, !llvm.ptr
  %s32 = llvm.getelementptr %state[32] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %bound, %s32 : !llvm.ptr, !llvm.ptr
  %s40 = llvm.getelementptr %state[40] : (!llvm.ptr) -> !llvm.ptr, i8
  %lengths = llvm.getelementptr %told[4] : (!llvm.ptr) -> !llvm.ptr, i64
  llvm.store %lengths, %s40 : !llvm.ptr, !llvm.ptr
  %t24 = llvm.getelementptr %told[3] : (!llvm.ptr) -> !llvm.ptr, i64
  %n = llvm.load %t24 : !llvm.ptr -> i64
  %numbers = llvm.getelementptr %lengths[%n] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %starts = llvm.getelementptr %numbers[%n] : (!llvm.ptr, i64) -> !llvm.ptr, i64
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
  %s12 = llvm.getelementptr %state[12] : (!llvm.ptr) -> !llvm.ptr, i8
  %xs32 = llvm.load %s12 : !llvm.ptr -> i32
  %xs = llvm.zext %xs32 : i32 to i64
  %s16 = llvm.getelementptr %state[16] : (!llvm.ptr) -> !llvm.ptr, i8
  %ys32 = llvm.load %s16 : !llvm.ptr -> i32
  %ys = llvm.zext %ys32 : i32 to i64
  %s20 = llvm.getelementptr %state[20] : (!llvm.ptr) -> !llvm.ptr, i8
  %zs16 = llvm.load %s20 : !llvm.ptr -> i16
  %zs = llvm.zext %zs16 : i16 to i64
  %xy = llvm.mul %xs, %ys : i64
  %all = llvm.mul %xy, %zs : i64
  %g4 = llvm.getelementptr %group[4] : (!llvm.ptr) -> !llvm.ptr, i8
  %g8 = llvm.getelementptr %group[8] : (!llvm.ptr) -> !llvm.ptr, i8
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
  llvm.return
}}
"""
"""Calls a kernel for each of its workgroups, x running fastest.

What it is told of a launch is constant: 24 bytes of the dispatch's structure, then words: the number of bindings, and for
all of them the lengths, the numbers in the table of buffers, and the offsets there. Behind these are the kernel's scalars.
"""


def record(
    counts: Sequence[int], scalars: int, lengths: Sequence[int], numbers: Sequence[int], starts: Sequence[int]
) -> bytes:
    """What the function is told of a launch, but for known scalars, which follow at its end.

    Args:
        counts: of workgroups along x, y and z.
        scalars: how many 32-bit scalars the kernel takes.
        lengths: the bytes of each binding.
        numbers: which of the table's buffers each binding is in.
        starts: where in it.
    """
    # One processor, and a size of 1 along each dimension: sizes of workgroups mean nothing on CPUs.
    state = struct.pack("<IIHHIIHBB", 1, 1, 1, scalars, *counts, 1, len(numbers))
    return state + struct.pack(f"<{1 + 3 * len(numbers)}q", len(numbers), *lengths, *numbers, *starts)


def scalars_at(bindings: int) -> int:
    """Where in a record the known scalars are."""
    return 32 + 24 * bindings
