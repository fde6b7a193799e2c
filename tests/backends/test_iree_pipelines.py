"""quire's own pipelines of IREE's passes make the very module for the VM that IREE's make, but for names and order.

The stream phase, of which quire leaves out passes that change results, is the same for both.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.backends.iree import pipelines, worker
from quire.backends.iree.paths import compiler_library
from quire.backends.targets import get_target

FLAGS = get_target("cpu").flags
X, Y = (np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64) + k for k in (0, 1))
V = np.arange(3, dtype=np.float32)


def some_matrix_functions(x):
    return quire.scipy.linalg.expm(x), qnp.linalg.inv(x + 4 * qnp.eye(3)), qnp.fft.fft(x)


# name: (function, arguments, the first of quire's pipelines that is used)
PROGRAMS = {
    "elementwise": (lambda x, y: qnp.tanh(x) * y + 1, (X, Y), "SIMPLIFIED"),
    "product": (lambda x, y: qnp.tanh(x @ y), (X, Y), "CALLS"),
    "product and transpose": (lambda x, y: (x @ y).T[::2] + 1, (X, Y), "SIMPLIFIED"),
    "sort and sum": (lambda x, y: (qnp.sort(x, axis=1), qnp.sum(y, axis=0)), (X, Y), None),
    "gradient": (quire.grad(lambda x, y: qnp.sum(quire.nn.softmax(x @ y) ** 2)), (X, Y), None),
    "loop": (lambda v: quire.lax.while_loop(lambda c: c[0] < 40, lambda c: c * 1.5 + 1, v), (V,), None),
    "product in a loop": (
        lambda x: quire.lax.while_loop(lambda c: qnp.sum(c) < 1e6, lambda c: c @ c + 1, x),
        (X,),
        "CALLS",
    ),
    "loop on the host": (
        lambda x: quire.lax.while_loop(lambda c: qnp.sum(c) < 1e6, lambda c: qnp.fft.fft(qnp.sort(c)).real + 1, x),
        (X,),
        "SIMPLIFIED",
    ),
    "constant array": (lambda x: x + X[::-1] @ Y, (X,), None),
    "kernel of constants": (lambda x: x + quire.random.normal(quire.random.key(0), (64, 64)), (X,), "SIMPLIFIED"),
    "constants only": (lambda: (qnp.arange(5), qnp.arange(7.0) * 2, qnp.eye(3)), (), None),
    "matrices": (some_matrix_functions, (np.eye(3, dtype=np.float32),), "SIMPLIFIED"),
    "results that are arguments": (lambda x, y: (y, x), (X, Y), "SIMPLIFIED"),
}


@pytest.fixture(scope="module")
def compiler() -> worker.Compiler:
    return worker.Compiler(str(compiler_library()))


def lines(compiler: worker.Compiler, invocation: worker.Invocation) -> Counter[str]:
    """The module's lines without the names of values, constants and linked executables, and without binaries."""
    text = compiler.output(compiler.lib.ireeCompilerInvocationOutputIR, invocation.invocation or 0).decode()
    for pattern, by in (
        (r'dense<"0x[^"]*"', "dense<"),
        (r"vector<\d+xi8>", "vector"),
        (r"%[-\w#]+", "%"),
        (r"\^bb\d+", "^bb"),
        (r"@_const\w*", "@const"),
        (r"@?\w*_linked\w*|executable_0_\w+", "linked"),
    ):
        text = re.sub(pattern, by, text)
    kept = (line.strip() for line in text.split("\n"))
    return Counter(line for line in kept if line and "vm.const" not in line and "// " not in line)


def by_iree(compiler: worker.Compiler, module: bytes, flags: tuple[str, ...] = FLAGS) -> Counter[str]:
    """All phases but stream as they are in IREE."""
    invocation = worker.Invocation(compiler, module, flags)
    run = invocation.run_passes
    invocation.to_linalg = lambda _: iter((invocation.run("input"),))
    invocation.forming = None
    invocation.run_passes = lambda p: invocation.run("abi", "input") if p == pipelines.ABI else run(p)
    assert invocation.parse() and all(invocation.compile_shown("vm", None)), invocation.diagnostics
    found = lines(compiler, invocation)
    invocation.close()
    return found


def by_quire(
    compiler: worker.Compiler, module: bytes, trusted: bool = False, flags: tuple[str, ...] = FLAGS
) -> tuple[Counter[str], list[str]]:
    """Those of the worker, and the names of the pipelines of its own that it ran."""
    names = {text: name for name, text in vars(pipelines).items() if isinstance(text, str)}
    for lists in (pipelines.forming(a, b) for a in (False, True) for b in (False, True)):
        names.update(zip(lists, ("FUSED", "REGIONS", "FILLED", "WORKGROUPS"), strict=True))
    invocation, steps = worker.Invocation(compiler, module, flags), list[str]()
    run = invocation.run_passes
    invocation.run_passes = lambda text: (steps.append(names[text]), run(text))[1]
    try:
        assert invocation.parse() and all(invocation.compile(trusted=trusted)), invocation.diagnostics
        return lines(compiler, invocation), steps
    finally:
        invocation.close()


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_module_is_that_of_irees_pipelines(compiler, name):
    """Where IREE's are right: quire takes dispatches apart of which IREE would make wrong code."""
    function, arguments, first = PROGRAMS[name]
    module = quire.jit(function).lower(*arguments).as_text().encode() + b"\0"
    ours, steps = by_quire(compiler, module)
    assert first is None or steps[0] == first
    try:
        theirs = by_iree(compiler, module)
    except worker.CompilerError:  # a dispatch that is not let pass
        assert steps.count("REGIONS") > 1, "quire did not take it apart"
        return
    assert not theirs - ours and not ours - theirs


@pytest.mark.parametrize(
    "options",
    [
        ("--iree-dispatch-creation-fuse-multi-use=false",),
        ("--iree-dispatch-creation-enable-aggressive-fusion=false",),
        ("--iree-dispatch-creation-fuse-multi-use=false", "--iree-dispatch-creation-enable-aggressive-fusion=false"),
        ("--iree-opt-level=O2",),
        ("--iree-opt-level=O1",),
    ],
    ids=lambda options: " ".join(option.split("-", 4)[-1] for option in options),
)
def test_options_that_put_less_into_a_dispatch_have_lists_too(compiler, options):
    """Those with which a module is compiled again; the last level counts."""
    module = quire.jit(quire.grad(lambda x: qnp.sum(qnp.tanh(x) * qnp.sum(x, 1)))).lower(X).as_text().encode() + b"\0"
    ours, steps = by_quire(compiler, module, flags=(*FLAGS, *options))
    assert steps.count("REGIONS") == 1
    assert ours == by_iree(compiler, module, flags=(*FLAGS, *options))


@pytest.mark.parametrize("target", ["vulkan", "cuda"])
def test_dispatches_for_gpus_are_formed_by_lists(compiler, target):
    module = quire.jit(lambda x: qnp.tanh(x) / qnp.sum(x, 1, keepdims=True)).lower(X).as_text().encode() + b"\0"
    texts = []
    for forms in (True, False):
        invocation, steps = worker.Invocation(compiler, module, get_target(target).flags), list[str]()
        run = invocation.run_passes
        invocation.run_passes = lambda text, steps=steps, run=run: (steps.append(text), run(text))[1]
        if not forms:
            invocation.forming = None
        assert invocation.parse() and all(invocation.compile_shown("flow", None)), invocation.diagnostics
        assert any("form-dispatch-regions" in text for text in steps) == forms
        texts.append(lines(compiler, invocation))
        invocation.close()
    assert texts[0] == texts[1]


def test_other_options_have_irees_pipelines(compiler):
    """Passes that are named in a list take none of the compiler's options."""
    module = quire.jit(lambda x: qnp.sum(qnp.sin(x), 0)).lower(X[:4, :8]).as_text().encode() + b"\0"
    _, told = by_quire(compiler, module)
    assert "REGIONS" in told
    _, steps = by_quire(compiler, module, flags=(*FLAGS, "--iree-dispatch-creation-enable-split-reduction=true"))
    assert "REGIONS" not in steps


@pytest.mark.parametrize("name", ["elementwise", "product"])
def test_a_trusted_program_does_not_check_its_arguments(compiler, name):
    function, arguments, _ = PROGRAMS[name]
    module = quire.jit(function).lower(*arguments).as_text().encode() + b"\0"
    checked, _ = by_quire(compiler, module)
    trusted, _ = by_quire(compiler, module, trusted=True)
    for check in ("@hal.buffer_view.assert(", "@hal.buffer.assert("):
        assert sum(n for line, n in checked.items() if "vm.call" in line and check in line) == len(arguments)
        assert not [line for line in trusted if check in line]
    assert sum(trusted.values()) < sum(checked.values())
