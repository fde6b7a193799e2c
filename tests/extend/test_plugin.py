"""docs/extending.md is true: its package, installed apart from quire, adds a primitive, a pass, rules and a target."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import quire
import quire.numpy as qnp
from quire import plugins
from quire.backends.kernels.blocks.language import Block
from quire.ir import extensions
from quire.passes.base import passes_key

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "tests" / "plugin"
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")

USE = """
import numpy as np
import quire
import quire.numpy as qnp
import quire_sample
from quire.plugins import PassManager, get_target, registered_passes
from quire.passes.simplify import RULES

assert "site" in quire_sample.__file__, quire_sample.__file__
def want(x):
    return x * x * (3 - 2 * x)

# a primitive, under every transformation
x = np.linspace(0, 1, 7, dtype=np.float32)
step = quire_sample.smoothstep
np.testing.assert_allclose(step(qnp.array(x)), want(x), 1e-6)
np.testing.assert_allclose(quire.compile(quire.vmap(step))(np.stack([x, 1 - x])), want(np.stack([x, 1 - x])), 1e-6)
slope = quire.compile(quire.grad(lambda x: qnp.sum(qnp.sin(step(x)))))
np.testing.assert_allclose(slope(x), np.cos(want(x)) * 6 * x * (1 - x), 1e-5, 1e-6)

# a pass, by its entry point, in a compile call
def cube(x):
    return quire.lax.fori_loop(0, 3, lambda i, y: quire.lax.integer_pow(y, 3) + x, x) + quire.lax.integer_pow(x, 5)
def powers(pipeline):
    text = quire.compile(cube, passes=pipeline).lower(x).as_text("optimized")
    return text.count("integer_pow")
assert [powers("default"), powers("powers-as-products,default"), powers("powers-as-products{most=5},default")] == [2, 1, 0]
manager = PassManager("powers-as-products{most=5},default".replace("default", get_target("cpu").pipeline))
assert powers(manager) == powers(manager.passes) == 0
results = [np.asarray(quire.compile(cube, passes=p)(x)) for p in (None, "powers-as-products{most=5},default", manager)]
np.testing.assert_allclose(results[1], results[0], 1e-6)
np.testing.assert_array_equal(results[1], results[2])
infos = [quire.compile(cube, passes=f"powers-as-products{{most={n}}},default").lower(x).request.key() for n in (3, 4, 3)]
assert infos[0] == infos[2] != infos[1]

# an identity
before = quire.make_jaxpr(lambda x, y: qnp.maximum(-x, -y))(x, x)
after = str(PassManager("simplify,dce").run(before))
assert "min" in after and "max" not in after, after
assert "max(neg(x), neg(y)) -> neg(min(x, y))" in [r.name for rules in RULES.values() for r in rules]

# a target, by its entry point
baseline = get_target("baseline-cpu")
compiled = quire.compile(step, target="baseline-cpu")
np.testing.assert_allclose(compiled(x), want(x), 1e-6)
assert compiled.lower(x).request.target is baseline and baseline.runs_on == "cpu"
assert "--iree-llvmcpu-target-cpu=x86-64" in baseline.flags and "--iree-llvmcpu-target-cpu=host" not in baseline.flags
assert compiled.lower(x).request.key() != quire.compile(step).lower(x).request.key()

# a kernel
rows = np.random.default_rng(0).normal(size=(5, 33)).astype(np.float32)
np.testing.assert_allclose(quire.compile(quire_sample.centred)(rows), rows - rows.mean(1, keepdims=True), 1e-4, 1e-6)
quire_sample.centred.check(lambda rng, size: (rng.normal(size=(size(), size())).astype("f4"),), trials=1)

# a primitive that is lowered to a kernel
from quire.plugins import ShapedArray, lower_traced, primitive

@primitive("centred")
def centred_p(x: ShapedArray) -> ShapedArray:
    return x

lower_traced(quire_sample.centred, centred_p)
lowered = quire.compile(lambda x: centred_p.bind(x * 2))
np.testing.assert_allclose(lowered(rows), 2 * (rows - rows.mean(1, keepdims=True)), 1e-4, 1e-6)
assert "quire.kernel centred" in lowered.lower(rows).as_text()
print("done")
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the package is installed: what pip makes of it, without pip, which would need `wheel`."""
    folder = tmp_path_factory.mktemp("plugin") / "site"
    for name, text in files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / f"quire_sample-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    (info / "entry_points.txt").write_text(
        "".join(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()) for group, entries in groups)
    )
    return folder


def files() -> dict[str, str]:
    return {
        str(f.relative_to(PLUGIN)): f.read_text(encoding="utf-8")
        for f in sorted([*PLUGIN.glob("*.toml"), *PLUGIN.rglob("*.py")])
    }


def run(site: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=site.parent,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(site), **environment},
        check=False,
    )


def test_the_page_has_the_packages_files() -> None:
    shown = re.findall(r"^```(?:python|toml)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    missing = [name for name, text in files().items() if text not in shown and not name.endswith("__init__.py")]
    assert not missing
    assert len(shown) == 8  # those six, and two of calls


def test_the_package_uses_public_names_only() -> None:
    imports = re.findall(r"^(?:from|import) (quire[\w.]*)", "\n".join(files().values()), re.MULTILINE)
    assert imports and set(imports) == {"quire", "quire.numpy", "quire.plugins"}


def test_an_installed_package_adds_everything(site: Path) -> None:
    ran = run(site, "-W", "error", "-c", USE)
    assert ran.stdout == "done\n", ran.stderr


def test_from_the_command_line_and_by_the_environment(site: Path) -> None:
    (site.parent / "model.py").write_text(
        "import quire, numpy as np\nfrom quire import lax\n"
        "@quire.compile(passes='powers-as-products{most=4},default')\n"
        "def f(x):\n    return lax.integer_pow(x, 4) - 1.0\n"
        "if __name__ == '__main__':\n"
        "    print(f(np.ones(4, np.float32)), f.lower(np.ones(4, np.float32)).request.target.name, quire.default_backend())\n"
    )
    main = "import sys\nfrom quire.tools.dumpir import main\nfor line in sys.argv[1:]:\n    print(main(line.split()))\n"
    (site.parent / "dump.py").write_text(main)
    ran = run(
        site, "dump.py", "--list-passes", "--list-targets", "model.py:f --args f32[8] --stage optimized",
        "model.py:f --args f32[8] --stage optimized --passes powers-as-products{most=3},default --target baseline-cpu",
    )  # fmt: skip
    listed, ours, asked = ran.stdout.partition("f: optimized")[0], *ran.stdout.split("f: optimized")[1:]
    assert "powers-as-products: Write" in listed and "most: int = 3" in listed and "baseline-cpu" in listed, ran.stderr
    assert "integer_pow" not in ours and "(cpu)" in ours
    assert "integer_pow" in asked and "(baseline-cpu)" in asked
    ran = run(site, "model.py", QUIRE_PLATFORM="baseline-cpu")
    assert ran.stdout == "[0. 0. 0. 0.] baseline-cpu cpu\n", ran.stderr


def test_broken_entry_points_are_warnings_that_name_them(site: Path, tmp_path: Path) -> None:
    (tmp_path / "broken-2.0.dist-info").mkdir()
    (tmp_path / "broken-2.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 2.0\n")
    (tmp_path / "broken-2.0.dist-info" / "entry_points.txt").write_text(
        "[quire.passes]\ngone = no_such_module:Pass\nnumber = broken:NUMBER\n"
        "[quire.targets]\nother = broken:cpu\nraises = broken:raises\n"
    )
    (tmp_path / "broken.py").write_text(
        "from quire.plugins import get_target\nNUMBER = 3\n"
        "def cpu():\n    return get_target('cpu').derived('named-otherwise')\n"
        "def raises():\n    raise OSError('no licence')\n"
    )
    code = (
        "from quire.plugins import registered_passes, registered_targets\n"
        "print('powers-as-products' in registered_passes(), 'baseline-cpu' in registered_targets(), 'gone' in registered_passes())"
    )
    ran = run(site, "-c", code, PYTHONPATH=f"{site}{os.pathsep}{tmp_path}")
    assert ran.stdout == "True True False\n", ran.stderr
    for text in (
        "the entry point gone = no_such_module:Pass of broken 2.0 (quire.passes) is left out: ModuleNotFoundError: No module",
        "the entry point number = broken:NUMBER of broken 2.0 (quire.passes) is left out: it holds 3, which is not a Pass class",
        "the entry point other = broken:cpu of broken 2.0 (quire.targets) is left out: ValueError: it gives the target "
        "'named-otherwise'",
        "the entry point raises = broken:raises of broken 2.0 (quire.targets) is left out: OSError: no licence",
    ):
        assert text in ran.stderr


# -- within this process ----------------------------------------------------------------------------------------------


def test_changed_code_of_a_package_is_another_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "sample_of_code"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import ONE\n")
    (package / "inner.py").write_text("ONE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import importlib

    importlib.import_module("sample_of_code")
    first = extensions.code_fingerprint(["sample_of_code.inner", "quire.passes.cse"])
    assert first.startswith("sample_of_code ") and first == extensions.code_fingerprint(["sample_of_code"])
    (package / "inner.py").write_text("ONE = 1  # longer\n")
    extensions._package_fingerprint.cache_clear()
    assert extensions.code_fingerprint(["sample_of_code.inner"]) != first
    assert extensions.code_fingerprint(["quire.passes"]) == ""


def test_programs_of_other_passes_and_targets_have_other_keys() -> None:
    def f(x: object) -> object:
        return qnp.sin(x) * 2

    old = quire.plugins.get_target("cpu").derived("old", "--iree-llvmcpu-target-cpu=x86-64")
    asked = [{}, {"passes": "default"}, {"passes": "cse"}, {"passes": "cse,fuse{least-elements=1}"}, {"target": old}]
    keys = [quire.compile(f, **options).lower(qnp.ones(3)).request.key() for options in asked]
    assert len(set(keys)) == len(keys)
    assert passes_key(plugins.parse_pipeline("cse")) == passes_key(plugins.PassManager("cse").passes)
    again = quire.compile(f, passes="cse")
    assert again._known is quire.compile(f, passes="cse")._known is not quire.compile(f)._known


def test_passes_reach_functions_with_references() -> None:
    total = quire.new_ref(qnp.zeros(3))

    @quire.compile(passes="cse,dce")
    def add(x: object) -> object:
        total[...] += x
        return total[...] * 2

    assert add(qnp.ones(3)).tolist() == [2, 2, 2] and total[...].tolist() == [1, 1, 1]


def test_what_is_asked_for_in_error() -> None:
    old = plugins.get_target("cpu").derived("old")
    for options, kind, text in (
        ({"passes": "default,hoits"}, plugins.PassError, "no pass is named 'hoits'; did you mean 'hoist'?"),
        ({"passes": 3}, TypeError, "3 is no pass; expected a text such as"),
        ({"passes": [old]}, TypeError, "is no pass; expected"),
        ({"target": "olg"}, ValueError, "unknown target 'olg'; there are cpu, vulkan"),
        ({"target": 4}, TypeError, "target=4 is neither"),
        ({"target": "vulkan", "backend": "cpu"}, ValueError, "does not run programs for the target 'vulkan'"),
    ):
        with pytest.raises(kind, match=re.escape(text)):
            quire.compile(lambda x: x, **options)
    with pytest.raises(RuntimeError, match="target metal has no devices: programs for it are compiled only"):
        quire.compile(lambda x: x + 1, target="metal")(1.0)
    for identity, text in (
        (("flaot", ("add", "x", 0), "x"), "no set of dtypes is named 'flaot'"),
        (("float", ("ad", "x", 0), "x"), "no primitive is named 'ad'"),
        (("float", ("add", "x", 0), "y"), "the pattern does not have y"),
    ):
        with pytest.raises(ValueError, match=text):
            plugins.add_identities(identity)


# -- what is kept stable ----------------------------------------------------------------------------------------------


def signatures() -> list[str]:
    """A line for each public name: functions and classes with their parameters, and the public methods of classes."""
    lines: list[str] = []
    for name in sorted(plugins.__all__):
        value = getattr(plugins, name)
        if inspect.isclass(value):
            lines.append(f"{name}{parameters(value)}")
            lines += [
                f"{name}.{m}{parameters(f) if callable(f) else ''}"
                for m, f in sorted(vars(value).items())
                if not m.startswith("_") and (inspect.isfunction(f) or isinstance(f, property))
            ]
        else:
            lines.append(f"{name}{parameters(value) if inspect.isfunction(value) else ''}")
    named = set(re.findall(r"\w+", (ROOT / "docs" / "user-kernels.md").read_text(encoding="utf-8")))
    methods = (
        (n, f) for n, f in sorted(vars(Block).items()) if n in named - {"memory", "store"} and inspect.isfunction(f)
    )
    return [*lines, *(f"k.{n}{parameters(f)}" for n, f in methods)]


def parameters(f: object) -> str:
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return ""
    return f"({', '.join(str(p.replace(annotation=p.empty)) for p in signature.parameters.values())})"


def test_public_signatures_are_kept(update: bool) -> None:
    """A change here breaks other packages: say so in CHANGELOG.md. `pytest --update` writes the list anew."""
    kept = Path(__file__).with_name("plugin_signatures.txt")
    now = "\n".join(signatures()) + "\n"
    if update:
        kept.write_text(now, encoding="utf-8")
    assert now == kept.read_text(encoding="utf-8")
