"""quire.profiler: what a trace file holds, and that calls are as quick as before afterwards."""

import gzip
import json

import numpy as np
import pytest

import quire as qr
import quire.numpy as qnp
from quire import profiler

F = np.float32


def events(path):
    return [e for e in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if e["ph"] == "X"]


def test_stages_calls_operations_and_annotations(tmp_path):
    f = qr.compile(lambda x: qnp.sin(x) * 4.125 - 77.0625)

    @profiler.annotate_function
    def load():
        return qnp.ones(3) + 1

    profiler.start_trace(tmp_path, create_perfetto_trace=True)
    with pytest.raises(RuntimeError, match="only one trace at a time: call stop_trace"):
        profiler.start_trace(tmp_path)
    for i in range(3):
        with profiler.StepTraceAnnotation("train", step_num=i):
            f(F(i))
            load()
    path = profiler.stop_trace()
    assert path.parent.parent == tmp_path / "plugins" / "profile"
    assert (path.parent / "perfetto_trace.json.gz").read_bytes() == path.read_bytes()
    found = events(path)
    kinds = [e["cat"] for e in found]
    assert {"trace", "load", "run", "operation", "annotation", "step"} <= set(kinds)
    # From an empty cache also: passes, lower, compile, in this order.
    stages = [k for k in kinds if k in ("trace", "passes", "lower", "compile", "load")]
    assert stages in (["trace", "load"], ["trace", "passes", "lower", "compile", "load"])
    runs = [e for e in found if e["cat"] == "run"]
    assert len(runs) == 3 and all(e["name"].endswith("<lambda>") for e in runs)
    steps = [e for e in found if e["cat"] == "step"]
    assert [e["args"]["step_num"] for e in steps] == [0, 1, 2]
    for step, run in zip(steps, runs):
        assert step["ts"] <= run["ts"] and run["ts"] + run["dur"] <= step["ts"] + step["dur"] + 1
    (line,) = {e["args"]["line"] for e in found if e["name"] == "add"}
    assert "test_profiler.py:" in line and "load" in line
    assert sum(e["name"].endswith("load") for e in found) == 3


def test_nothing_remains_after_a_trace(tmp_path):
    from quire.ir.tracing import hooks

    f = qr.compile(lambda x: x * 2.0)
    x = qnp.ones(3)
    f(x), f(x), f(x)
    evaluate, known = hooks.evaluate, f._fast[1]
    with profiler.trace(tmp_path), profiler.TraceAnnotation("block", n=1):
        f(x)
        assert hooks.evaluate is not evaluate
    assert hooks.evaluate is evaluate and not qr.config.options.profiling
    f(x), f(x)
    assert len(f._fast[1]) == len(known) == 1 and f._fast[0] is qr.config._base
    names = [e["name"] for p in tmp_path.rglob("*.trace.json.gz") for e in events(p)]
    assert names.count("block") == 1
    with profiler.TraceAnnotation("outside"):  # nothing is recorded
        pass


def test_wrong_calls(tmp_path):
    with pytest.raises(RuntimeError, match="no trace is going on"):
        profiler.stop_trace()
    with pytest.raises(ValueError, match="create_perfetto|no server for a link"):
        profiler.start_trace(tmp_path, create_perfetto_link=True)
    with pytest.raises(TypeError, match="annotate_function: func must be a function"):
        profiler.annotate_function(3)
    with pytest.raises(AttributeError, match="no attribute 'start_server': there is no profiling server"):
        profiler.start_server()
