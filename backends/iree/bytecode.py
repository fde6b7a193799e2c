"""A repair of VM bytecode: branches that clear a value which is still needed.

IREE 3.12 and 3.13 *move* a reference into a block's argument where the branch is its last use. When a branch passes one
reference twice (two parts of one allocation, as loops with several carried values do) and one of the two places is the
register that it is in already, the move to the other place clears it: the program fails with "indirect buffer reference
slot 0 is out range of the declared binding capacity" or "ref is null", or meets a null fence and does not wait
(iree-org/iree issue 24753, pull request 24781). No flag avoids it. A copy in the place of a move is always right: it
only keeps a reference until its register is written again or the function returns. So no branch moves.

A branch is known by its form: the opcode, a target that is the start of a block, a list of pairs of registers of the
same kind, and, since it ends its block, the next block's marker or the function's end directly after it. What has not
exactly this form is left as it is.

Delete this module when the pinned IREE holds the cure: tests/backends/test_bytecode.py tells.
"""

from __future__ import annotations

import struct
import zlib

VERSION = 17
"""The major version of the bytecode that this module knows."""

_BLOCK, _BRANCH, _COND_BRANCH = 0x79, 0x56, 0x57
_REF, _MOVE = 0x8000, 0x4000
# Fields of the flatbuffer's root table (bytecode_module_def.fbs).
_FUNCTIONS, _BYTECODE_VERSION, _BYTECODE = 12, 13, 14
_DESCRIPTOR = struct.Struct("<iiIhhhh")


def without_branch_moves(vmfb: bytes) -> bytes:
    """The module with every move in a branch made a copy; the same bytes where there is none."""
    data = bytearray(vmfb)
    module = _Module(data)
    if module.version != VERSION:
        return vmfb
    changed = 0
    for start, end in module.functions():
        changed += _repair(data, start, end)
    if not changed:
        return vmfb
    module.renew_checksum()
    return bytes(data)


class _Module:
    """Where things are in a compiled module: a flatbuffer, usually the first member of an uncompressed zip file."""

    def __init__(self, data: bytearray) -> None:
        self.data = data
        self.zipped = data[:4] == b"PK\x03\x04"
        self.start = 0
        if self.zipped:
            name, extra = struct.unpack_from("<HH", data, 26)
            self.start = 30 + name + extra
        self.root = self._pointer(self.start + 4)
        version = self._field(_BYTECODE_VERSION)
        self.version = self._u32(version) >> 16 if version and data[self.start + 8 : self.start + 12] == b"IREE" else 0

    def _u32(self, at: int) -> int:
        return struct.unpack_from("<I", self.data, at)[0]

    def _pointer(self, at: int) -> int:
        return at + self._u32(at)

    def _field(self, number: int) -> int | None:
        """The position of a field of the root table; None where it is absent."""
        table = self.root - struct.unpack_from("<i", self.data, self.root)[0]
        if 4 + 2 * number >= struct.unpack_from("<H", self.data, table)[0]:
            return None
        offset = struct.unpack_from("<H", self.data, table + 4 + 2 * number)[0]
        return self.root + offset if offset else None

    def functions(self) -> list[tuple[int, int]]:
        """The start and the end of each function's code."""
        table, code = self._field(_FUNCTIONS), self._field(_BYTECODE)
        if table is None or code is None:
            return []
        first, base = self._pointer(table), self._pointer(code) + 4
        spans = (
            _DESCRIPTOR.unpack_from(self.data, first + 4 + _DESCRIPTOR.size * i)[:2] for i in range(self._u32(first))
        )
        return [(base + offset, base + offset + length) for offset, length in dict.fromkeys(spans)]

    def renew_checksum(self) -> None:
        """The zip file's two checksums of the flatbuffer: IREE does not read them, other tools do."""
        if not self.zipped:
            return
        end = self.start + self._u32(self.start)  # the member's size, as in the zip file's directory
        old = self.data[14:18]
        new = struct.pack("<I", zlib.crc32(memoryview(self.data)[self.start : end]))
        entry = self.data.rfind(b"PK\x01\x02")
        while entry >= 0 and self.data[entry + 16 : entry + 20] != old:
            entry = self.data.rfind(b"PK\x01\x02", 0, entry)
        if entry >= 0:
            self.data[entry + 16 : entry + 20] = new
            self.data[14:18] = new


def _repair(data: bytearray, start: int, end: int) -> int:
    """Clear the moves of one function's branches; returns how many there were."""
    code = bytes(data[start:end])
    changed = 0
    for opcode in (_BRANCH, _COND_BRANCH):
        at = code.find(opcode)
        while at >= 0:
            for place in _moves(code, at):
                register = struct.unpack_from("<H", code, place)[0]
                struct.pack_into("<H", data, start + place, register & ~_MOVE)
                changed += 1
            at = code.find(opcode, at + 1)
    return changed


def _moves(code: bytes, at: int) -> list[int]:
    """Where the moved registers of a branch are; nothing if there is no branch at this position."""
    moves: list[int] = []
    if code[at] == _BRANCH:
        end = _target(code, at + 1, moves)
    else:
        end = _target(code, at + 3, moves)
        end = end and _target(code, end, moves)
    if not end or (end < len(code) and code[end] != _BLOCK):
        return []
    return moves


def _target(code: bytes, at: int, moves: list[int]) -> int:
    """Read one target and its pairs of registers from `at`; returns the position after them, 0 if it is none."""
    if at + 6 > len(code):
        return 0
    block = struct.unpack_from("<I", code, at)[0]
    if block >= len(code) or code[block] != _BLOCK:
        return 0
    at += 4
    at += at & 1
    if at + 2 > len(code):
        return 0
    count = struct.unpack_from("<H", code, at)[0]
    end = at + 2 + 4 * count
    if end > len(code):
        return 0
    for place in range(at + 2, end, 4):
        source, target = struct.unpack_from("<HH", code, place)
        if (source ^ target) & _REF or (target & _REF and target & _MOVE):
            return 0
        if source & _REF and source & _MOVE:
            moves.append(place)
    return end
