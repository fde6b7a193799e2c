"""Checkpoints: what is saved is loaded, onto any mesh and by any number of processes."""

from __future__ import annotations

import collections
import json
import sys

import ml_dtypes
import numpy as np
import pytest

import quire
from quire.experimental.array_serialization import pytree_serialization as ckpt
from quire.experimental.array_serialization import safetensors
from quire.ir.config import config
from quire.ir.errors import IndivisibleError
from quire.sharding import Mesh, NamedSharding
from quire.sharding import PartitionSpec as P

from .test_programs import launch

STATE = {
    "params": {"w": np.arange(32, dtype=np.float32).reshape(8, 4), "b": np.arange(4, dtype=ml_dtypes.bfloat16)},
    "step": (np.int32(3), [np.array([True, False]), None]),
    "c": np.array([1 + 2j, 3j], np.complex64),
    "empty": np.zeros((0, 3), np.float32),
}


def equal(found, expected):
    assert quire.tree_util.tree_structure(found) == quire.tree_util.tree_structure(expected)
    for a, b in zip(quire.tree_util.tree_leaves(found), quire.tree_util.tree_leaves(expected)):
        assert a.dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_round_trip(tmp_path):
    ckpt.save(STATE, tmp_path / "a")
    equal(ckpt.load(tmp_path / "a"), STATE)
    structs = ckpt.load_pytreedef(tmp_path / "a")
    assert structs["params"]["w"].shape == (8, 4) and structs["step"][1][1] is None
    masked = ckpt.load(tmp_path / "a", mask={"params": False, "step": True, "c": False, "empty": False})
    assert masked["params"] == {"w": None, "b": None} and int(masked["step"][0]) == 3
    with pytest.raises(ValueError, match="overwrite=False"):
        ckpt.save(STATE, tmp_path / "a", overwrite=False)
    ckpt.save({"x": quire.random.key(5)}, tmp_path / "a")
    loaded = ckpt.load(tmp_path / "a")["x"]
    assert quire.random.bits(loaded).item() == quire.random.bits(quire.random.key(5)).item()
    assert len(list((tmp_path / "a").iterdir())) == 2  # what was there before is gone


def test_other_meshes(tmp_path):
    with config.override(num_cpu_devices=4):
        mesh = Mesh(np.array(quire.devices()).reshape(2, 2), ("x", "y"))
        a = quire.device_put(STATE["params"]["w"], NamedSharding(mesh, P("x", "y")))
        ckpt.save([a], tmp_path)
        (b,) = ckpt.load(tmp_path, NamedSharding(mesh, P(None, "x")))
        assert b.sharding.spec == P(None, "x")
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        (c,) = ckpt.load(tmp_path, quire.devices()[3])
        assert c.device is quire.devices()[3]
        with pytest.raises(IndivisibleError):
            ckpt.load(tmp_path, [NamedSharding(Mesh(np.array(quire.devices()[:3]), "z"), P("z"))])


def test_nodes_that_only_the_program_knows(tmp_path):
    pair = collections.namedtuple("pair", "u v")
    ckpt.save(pair(np.ones(2), {"z": np.zeros(3)}), tmp_path)
    with pytest.raises(
        ValueError, match="only the program knows: give shardings as a pytree of these types, with 2 leaves"
    ):
        ckpt.load(tmp_path)
    device = quire.devices()[0]
    loaded = ckpt.load(tmp_path, pair(device, {"z": device}))
    assert type(loaded) is pair and loaded.v["z"].shape == (3,)


def test_damage_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no checkpoint"):
        ckpt.load(tmp_path)
    ckpt.save({"x": np.ones(1000)}, tmp_path)
    (data,) = tmp_path.glob("*.safetensors")
    whole = data.read_bytes()
    data.write_bytes(whole[:-8])
    with pytest.raises(ValueError, match="ends early: x is at"):
        ckpt.load(tmp_path)
    data.write_bytes(b"\xff" * 20)
    with pytest.raises(ValueError, match="is no file of safetensors"):
        ckpt.load(tmp_path)
    data.write_bytes(whole)
    index = json.loads((tmp_path / "index.json").read_text())
    index["leaves"][0]["boxes"] = []
    (tmp_path / "index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match="holds 0 of the 1000 elements of 'x' that are needed"):
        ckpt.load(tmp_path)
    with pytest.raises(TypeError, match="tensorstore"):
        ckpt.save({}, tmp_path, ts_specs={})


def test_files_are_those_of_the_format(tmp_path):
    safetensors.write(tmp_path / "f", {"a": np.arange(6, dtype=np.int16).reshape(2, 3), "b": np.ones((), np.complex64)})
    found = safetensors.read(tmp_path / "f")
    assert isinstance(found["a"], np.memmap) and found["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    raw = (tmp_path / "f").read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    assert header["a"] == {"dtype": "I16", "shape": [2, 3], "data_offsets": [0, 12]}
    assert header["b"] == {"dtype": "F32", "shape": [2], "data_offsets": [12, 20]}
    with pytest.raises(TypeError, match="cannot be stored"):
        safetensors.write(tmp_path / "g", {"a": np.array(["x"])})


def test_other_numbers_of_processes(tmp_path):
    program = "import sys; from tests.processes import test_checkpoints as t; t.other_process(*sys.argv[1:])"
    for count, what in ((4, "save"), (2, "load")):
        run = launch(count, "-c", program, what, str(tmp_path), devices=1)
        assert run.returncode == 0, run.stderr
    assert len(list(tmp_path.glob("*.safetensors"))) == 4
    equal(ckpt.load(tmp_path), {"w": STATE["params"]["w"], "b": STATE["params"]["b"]})
    assert sum(f.stat().st_size for f in tmp_path.glob("*.safetensors")) < 32 * 4 + 4 * 2 + 4 * 300  # nothing twice


def other_process(what: str, folder: str) -> None:
    quire.distributed.initialize()
    count = quire.device_count()
    mesh = Mesh(np.array(quire.devices()), "x")
    rows, every = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    w, b = STATE["params"]["w"], STATE["params"]["b"]
    if what == "save":
        ckpt.save({"w": quire.device_put(w, rows), "b": quire.device_put(b, every)}, folder)
        return
    columns = NamedSharding(mesh, P(None, "x"))
    state = ckpt.load(folder, {"w": columns, "b": every})
    here = quire.process_index()
    step = 4 // count
    assert np.asarray(state["w"].addressable_data(0)).tolist() == w[:, here * step : here * step + step].tolist()
    assert np.asarray(state["b"]).tolist() == b.tolist()
    sys.stdout.write("loaded\n")
