"""Pytrees of arrays in a folder: each process writes and reads what its devices hold (`pytree_serialization` of JAX).

A folder has a file of safetensors for each process, and `index.json`, which says where each array's boxes are. It is read onto
any mesh and by any number of processes: each reads the parts of those files that its own boxes need.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.runtime.array import Array, from_box, from_numpy, local_value
from quire.runtime.placements import Placement, placement_of
from quire.runtime.processes.current import process

from ... import random, tree_util
from ...arrays.key_array import PRNGKeyArray
from ...arrays.meshes import as_sharding, is_sharding
from ...arrays.placement import check_divides, device_put
from .safetensors import read, write

_INDEX = "index.json"
_FORMAT = "quire.checkpoint 1"


def save(data: Any, directory: str | os.PathLike[str], *, overwrite: bool = True, ts_specs: Any = None) -> None:
    """Save a pytree of arrays to a folder. All processes call it; it returns when all have written.

    What is in the folder is readable at any time: a checkpoint that was there until the new one is complete.

    Args:
        data: arrays, numbers and random keys in dicts, lists, tuples and None, or any other pytree (see `load`). What is
            not divided among processes is written by the first that has it.
        directory: the folder, one for all processes; it is made.
        overwrite: a checkpoint that is there may be replaced.
        ts_specs: must be None; it is for JAX's storage.

    Raises:
        ValueError: there is a checkpoint, and it may not be replaced.
        TypeError: `ts_specs` is given.
    """
    _no_specs(ts_specs, "save")
    folder = Path(directory)
    here = process()
    found, mark = here.exchange(((folder / _INDEX).exists(), uuid.uuid4().hex[:12]), "save")[0]
    if found and not overwrite:
        raise ValueError(f"save: {folder} holds a checkpoint already, and overwrite=False")
    folder.mkdir(parents=True, exist_ok=True)
    leaves, tree = tree_util.tree_flatten(data)
    names = _names(data)
    held: dict[str, Any] = {}
    boxes: list[list[Any]] = []
    described: list[dict[str, Any]] = []
    for name, leaf in zip(names, leaves, strict=True):
        key = isinstance(leaf, PRNGKeyArray)
        x = random.key_data(leaf) if key else leaf
        aval = aval_of(x)
        described.append(
            {"name": name, "shape": list(aval.shape), "dtype": aval.dtype.name, "weak_type": aval.weak_type}
            | ({"key": str(random.key_impl(leaf))} if key else {})
        )
        box = _own_box(x, aval)
        boxes.append([box] if box is not None else [])
        if box is not None:
            held[name] = np.asarray(local_value(x) if type(x) is Array else np.asarray(x, aval.dtype))
    file = f"{mark}-process-{here.rank}-of-{here.size}.safetensors"
    error = None
    try:
        write(folder / file, held)
    except Exception as e:  # the others must not wait for this process
        error = e
    outcomes = here.exchange((None if error is None else str(error), boxes), "save")
    failed = next((f"process {i}: {text}" for i, (text, _) in enumerate(outcomes) if text is not None), None)
    if failed is not None:
        (folder / file).unlink(missing_ok=True)
        raise error if error is not None else ValueError(f"save: {folder} was not written: {failed}")
    if here.rank == 0:
        files = [f"{mark}-process-{i}-of-{here.size}.safetensors" for i in range(here.size)]
        for i, entry in enumerate(described):
            entry["boxes"] = [{"file": k, "start": b} for k, (_, all_) in enumerate(outcomes) for b in all_[i]]
        index = {"format": _FORMAT, "files": files, "tree": _tree_text(data), "leaves": described}
        temporary = folder / f"{mark}.part"
        temporary.write_text(json.dumps(index, indent=1), encoding="utf-8")
        os.replace(temporary, folder / _INDEX)
        for old in folder.glob("*-process-*.safetensors"):
            if old.name not in files:
                old.unlink(missing_ok=True)
    here.barrier("save")


def load(directory: str | os.PathLike[str], shardings: Any = None, *, mask: Any = None, ts_specs: Any = None) -> Any:
    """Load a pytree of arrays from a folder that `save` has written.

    Args:
        directory: the folder.
        shardings: where the arrays are to lie: a sharding, a device, or a pytree prefix of these; None: on this process' own
            device. Each process reads what its devices hold. If the pytree that was saved has nodes of other
            types than dict, list, tuple and None, a pytree of the same types.
        mask: a pytree prefix of bools: arrays that are not to be loaded are None.
        ts_specs: must be None; it is for JAX's storage.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: the files are damaged, or `shardings` does not fit what was saved.
        IndivisibleError: a dimension is no multiple of the number of parts into which a sharding divides it.
        TypeError: `ts_specs` is given.
    """
    _no_specs(ts_specs, "load")
    folder = Path(directory)
    index = _index(folder)
    entries = index["leaves"]
    example = _example(index, shardings, folder)
    wanted = _prefix(shardings, example, "shardings") if shardings is not None else [None] * len(entries)
    chosen = _prefix(mask, example, "mask") if mask is not None else [True] * len(entries)
    opened: dict[int, dict[str, Any]] = {}
    out: list[Any] = []
    for entry, sharding, use in zip(entries, wanted, chosen, strict=True):
        out.append(_loaded(folder, index["files"], entry, sharding, opened) if use else None)
    return tree_util.tree_unflatten(tree_util.tree_structure(example), out)


def load_pytreedef(directory: str | os.PathLike[str]) -> Any:
    """The pytree that a folder holds, with a `ShapeDtypeStruct` for each array.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: it has nodes of other types than dict, list, tuple and None, which only the program knows.
    """
    from ...arrays.shape_struct import ShapeDtypeStruct

    folder = Path(directory)
    index = _index(folder)
    structs = [ShapeDtypeStruct(tuple(e["shape"]), dtypes.as_dtype(e["dtype"])) for e in index["leaves"]]
    return tree_util.tree_unflatten(tree_util.tree_structure(_example(index, None, folder)), structs)


# -- what is saved -----------------------------------------------------------------------------------------------------


def _no_specs(given: Any, what: str) -> None:
    if given is not None:
        raise TypeError(f"{what}: ts_specs is for tensorstore; checkpoints are files of safetensors here")


def _names(data: Any) -> list[str]:
    """A name for each leaf, as paths are written: ``params/w``."""
    names: list[str] = []
    for path, _ in tree_util.tree_leaves_with_path(data):
        name = tree_util.keystr(path, simple=True, separator="/") or "value"
        names.append(name if name not in names else f"{name}#{len(names)}")
    return names


def _own_box(x: Any, aval: ShapedArray) -> list[int] | None:
    """Where the box begins that this process is to write; None where another one writes it."""
    here = process()
    place = x._device if type(x) is Array else None
    if type(place) is not Placement or place.grid is None:
        return [0] * aval.ndim if here.rank == 0 else None
    spec = place.sharding.spec
    mine = place.box(aval.shape)
    first = next(r for r in place.grid.ranks if place.grid.box(r, spec, aval.shape) == mine)
    return [s.start for s in mine] if first == here.rank else None


def _tree_text(data: Any) -> Any:
    """The structure of dicts, lists, tuples and None, for JSON; None for others."""
    if data is None:
        return {"none": []}
    if type(data) in (list, tuple):
        inner = [_tree_text(x) for x in data]
        return None if None in inner else {type(data).__name__: inner}
    if type(data) is dict:
        if not all(type(k) in (str, int) for k in data):
            return None
        inner = [[k, _tree_text(x)] for k, x in data.items()]
        return None if any(x is None for _, x in inner) else {"dict": inner}
    return "leaf" if tree_util.all_leaves([data]) else None


# -- what is loaded ----------------------------------------------------------------------------------------------------


def _index(folder: Path) -> dict[str, Any]:
    path = folder / _INDEX
    if not path.exists():
        raise FileNotFoundError(f"load: {folder} holds no checkpoint: there is no {_INDEX}")
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"load: {path} is damaged: {error}") from None
    if index.get("format") != _FORMAT:
        raise ValueError(f"load: {path} has the format {index.get('format')!r}, expected {_FORMAT!r}")
    return index


def _example(index: dict[str, Any], given: Any, folder: Path) -> Any:
    """A pytree of the structure that was saved, with numbers as leaves."""
    count = iter(range(len(index["leaves"])))

    def made(text: Any) -> Any:
        if text == "leaf":
            return next(count)
        ((kind, inner),) = text.items()
        if kind == "none":
            return None
        if kind == "dict":
            # Leaves are numbered as trees are flattened: by sorted keys.
            found = {k: None for k, _ in inner}
            for k, x in sorted(inner, key=lambda e: e[0]) if len({type(k) for k, _ in inner}) == 1 else inner:
                found[k] = made(x)
            return found
        values = [made(x) for x in inner]
        return values if kind == "list" else tuple(values)

    if index["tree"] is not None:
        return made(index["tree"])
    if given is not None:
        leaves, tree = tree_util.tree_flatten(given, is_leaf=is_sharding)
        if len(leaves) == len(index["leaves"]):
            return tree_util.tree_unflatten(tree, list(range(len(leaves))))
    raise ValueError(
        f"load: the pytree in {folder} has nodes of other types than dict, list, tuple and None, which only the program knows: "
        f"give shardings as a pytree of these types, with {len(index['leaves'])} leaves"
    )


def _prefix(prefix: Any, example: Any, what: str) -> list[Any]:
    try:
        return tree_util.broadcast_prefix(prefix, example)
    except ValueError as error:
        raise ValueError(f"load: {what} is no prefix of the pytree that was saved: {error}") from None


def _loaded(
    folder: Path, files: Sequence[str], entry: dict[str, Any], sharding: Any, opened: dict[int, dict[str, Any]]
) -> Any:
    """One array, of which this process reads what it holds."""
    shape, dtype = tuple(entry["shape"]), dtypes.as_dtype(entry["dtype"])
    aval = ShapedArray(shape, dtype, entry["weak_type"])
    place: Any = None
    if sharding is not None:
        wanted = as_sharding(sharding, "load")
        check_divides(wanted, shape, f"load of {entry['name']}")
        place = placement_of(wanted)
    over = type(place) is Placement
    box = place.box(shape) if over else tuple(slice(0, n) for n in shape)
    value = np.empty([s.stop - s.start for s in box], dtype)
    filled = 0
    for saved in entry["boxes"]:
        number: int = saved["file"]
        if number not in opened:
            opened[number] = read(folder / files[number])
        source = opened[number].get(entry["name"])
        if source is None:
            raise ValueError(f"load: {folder / files[number]} lacks {entry['name']!r}")
        if dtype.kind == "c":
            source = source.view(dtype)[..., 0]
        begins = saved["start"]
        overlap = [(max(s.start, b), min(s.stop, b + n)) for s, b, n in zip(box, begins, source.shape, strict=True)]
        if any(a >= b for a, b in overlap):
            continue
        target = tuple(slice(a - s.start, b - s.start) for (a, b), s in zip(overlap, box))
        value[target] = source[tuple(slice(a - n, b - n) for (a, b), n in zip(overlap, begins))]
        filled += value[target].size
    if filled != value.size:
        raise ValueError(
            f"load: {folder} holds {filled} of the {value.size} elements of {entry['name']!r} that are needed"
        )
    value.setflags(write=False)
    out: Any = from_box(value, aval, place) if over else from_numpy(value, aval)
    if place is not None and not over:
        out = device_put(out, place)
    return random.wrap_key_data(out, impl=entry["key"]) if "key" in entry else out


__all__ = ["load", "load_pytreedef", "save"]
