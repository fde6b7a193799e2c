"""The passes of some of IREE's phases without their repeated clean-up.

IREE 3.13 cleans up (canonicalise, CSE, a second set of patterns, globals) again and again; each time it builds its
tables of patterns anew, of all dialects it has loaded. The lists below keep every pass that transforms or checks, in
IREE's order, with one clean-up where the next step needs it. The compiler's own pipeline runs instead where somebody
looks at the IR, and for a module for which these fail.

Source: `iree-opt --iree-vm-transformation-pipeline --dump-pass-pipeline` and the like, the order that
`--mlir-print-ir-before-all` shows, and the files Passes.cpp of the dialects.
"""

from __future__ import annotations


def _functions(*passes: str) -> str:
    """The passes on each function of the host's part."""
    return f"util.func({','.join(passes)})"


def _hosts(*passes: str) -> str:
    """The passes on each function of the host's part, initialisers of globals too."""
    return f"{_functions(*passes)},util.initializer({','.join(passes)})"


_GLOBAL_ACCESSES = "iree-util-simplify-global-accesses"


def _stablehlo(*passes: str) -> str:
    """The passes on each function of a module of StableHLO."""
    return f"func.func({','.join(passes)})"


SIMPLIFIED = ",".join(
    (
        _stablehlo("chlo-legalize-to-stablehlo", "canonicalize", "iree-stablehlo-canonicalize", "cse"),
        _stablehlo("iree-stablehlo-legalize-custom-calls", "iree-stablehlo-legalize-control-flow"),
        "iree-stablehlo-to-stablehlo-preprocessing{order-conv-features=true}",
        _stablehlo("iree-stablehlo-canonicalize", "canonicalize", "iree-stablehlo-canonicalize"),
        "inline",
        _stablehlo("canonicalize", "iree-stablehlo-canonicalize", "cse"),
        _stablehlo(
            "iree-stablehlo-legalize-shape-computations", "iree-stablehlo-to-linalg-ext", "chlo-legalize-to-stablehlo"
        ),
    )
)
"""The input phase up to the conversion of StableHLO to linalg; shape_orders.py and clones.py come between."""

SHAPES = _stablehlo("iree-stablehlo-canonicalize")
"""What follows each change that shape_orders.py makes."""

CONVERTED = ",".join(
    (
        "iree-stablehlo-to-iree-input",
        "reconcile-unrealized-casts",
        _stablehlo("canonicalize"),
        "iree-stablehlo-verify-compiler-input-legality",
        "iree-import-public",
        "iree-sanitize-module-names",
    )
)
"""The rest of the input phase."""

ABI = ",".join(
    (
        "iree-abi-convert-streamable-ops",
        "iree-abi-wrap-entry-points{invocation-model=sync}",
        "inline",
        _functions("canonicalize", "cse"),
        "symbol-dce",
    )
)
"""The abi phase."""

CALLS = ",".join(
    (
        "iree-stablehlo-to-iree-input",
        "reconcile-unrealized-casts",
        "iree-import-public",
        "iree-sanitize-module-names",
        ABI,
    )
)
"""The input and abi phases, where nothing is to be computed but by kernels."""

_SIMPLER = ("iree-flow-canonicalize", "cse")

GLOBALLY = ",".join(
    (
        _functions(
            "iree-util-optimize-int-arithmetic",
            "iree-flow-canonicalize",
            "iree-global-opt-remove-zero-extent-tensors",
            "iree-global-opt-detach-elementwise-from-named-ops",
            "simplify-depthwise-conv",
        ),
        "iree-global-opt-erase-unused-linalg-operands",
        "iree-global-opt-expand-tensor-shapes",
        _functions(
            "convert-elementwise-to-linalg",
            "iree-global-opt-raise-special-ops",
            "iree-global-opt-decompose-concat{enable-concat-transposition=true}",
            "iree-global-opt-generalize-linalg-named-ops{enable-generalize-matmul=true}",
            "iree-dispatch-creation-insert-tensor-barriers",
        ),
        "iree-dispatch-creation-fold-unit-extent-dims",
        _functions(
            "iree-dispatch-creation-fold-reshapes-into-tensor-barriers",
            *_SIMPLER,
            "iree-global-opt-convert-batch-matmul-to-matmul",
            "iree-global-opt-propagate-linalg-transpose{enable-aggressive-propagation=true enable-attention-v-transpose=true}",
            *_SIMPLER,
            "iree-global-opt-convert-strided-contraction-to-contraction",
            "iree-global-opt-generalize-linalg-named-ops",
            "iree-global-opt-loop-invariant-code-motion",
            *_SIMPLER,
            "iree-util-optimize-int-arithmetic",
            *_SIMPLER,
            "iree-global-opt-raise-special-ops",
        ),
    )
)
"""The global-optimization phase, but for quantized arithmetic and globals."""

_ELEMENTWISE = "iree-dispatch-creation-elementwise-op-fusion"
_MULTI_USE = "iree-dispatch-creation-fuse-multi-use-elementwise-producer"


Forming = tuple[str, str, str, str]
"""The lists of the dispatch-creation phase.

The first part, but for split reductions; the next pass, by which each dispatch becomes a region of the function (twice is the
same as once); what fuses within the regions, and clones into them what is cheap to compute again (twice too); the rest, but for
encodings, by which regions become dispatches.
"""


def forming(multi_use: bool = True, aggressive: bool = True) -> Forming:
    """By two of IREE's options: whether what several read is fused with one of them, and whether aggressively."""
    several = (f"{_MULTI_USE}{{num-iterations=2}}", *_SIMPLER) if multi_use else ()
    return (
        _functions(
            "iree-dispatch-creation-tensor-pad-to-tensor-insert-slice",
            "iree-dispatch-creation-fusion-preprocessing",
            *_SIMPLER,
            f"{_ELEMENTWISE}{{fuse-multi-reduction=true}}",
            *_SIMPLER,
            "iree-dispatch-creation-fold-reshapes-into-tensor-barriers",
            "iree-dispatch-creation-bubble-up-expand-shapes",
            *_SIMPLER,
            f"{_ELEMENTWISE}{{fuse-multi-reduction=true}}",
            *_SIMPLER,
            "iree-dispatch-creation-sink-reshapes",
            *_SIMPLER,
            *several,
            "iree-dispatch-creation-transpose-generic-ops",
            *_SIMPLER,
            "iree-dispatch-creation-form-scalar-dispatches",
        ),
        _functions(
            "iree-dispatch-creation-form-dispatch-regions"
            f"{{aggressive-fusion={str(aggressive).lower()} fuse-multi-use-producers={str(multi_use).lower()}}}"
        ),
        _functions(
            f"{_ELEMENTWISE}{{fuse-broadcast-ops=true fuse-truncate-ops=true intra-dispatch=true}}",
            f"{_MULTI_USE}{{intra-dispatch=true num-iterations=32}}",
            f"iree-dispatch-creation-clone-producers-into-dispatch-regions{{aggressive={str(aggressive).lower()}}}",
        ),
        _functions(
            "iree-dispatch-creation-collapse-dimensions",
            "iree-dispatch-creation-hoist-uniform-scalar-compute",
            "iree-dispatch-creation-convert-encoding-to-flow",
            "iree-dispatch-creation-remove-tensor-barriers",
            "iree-dispatch-creation-convert-dispatch-regions-to-workgroups",
            "iree-dispatch-creation-convert-tensor-to-flow",
            "cse",
            "iree-flow-canonicalize",
            "iree-dispatch-creation-materialize-default-workgroup-count-region",
            "iree-dispatch-creation-bitcast-unsupported-element-types",
            *_SIMPLER,
        ),
    )


OUTLINED = ",".join(
    (
        _functions("iree-flow-initialize-empty-tensors", "iree-flow-capture-dynamic-dims", *_SIMPLER),
        "iree-flow-outline-dispatch-externs",
        "iree-flow-outline-dispatch-regions",
        "iree-flow-annotate-dispatches",
        _functions("iree-flow-canonicalize"),
        "iree-flow-deduplicate-executables",
        _functions("iree-flow-cleanup-tensor-shapes"),
        "iree-flow-outline-constants",
        _functions("iree-util-optimize-int-arithmetic", *_SIMPLER),
        "iree-util-fold-globals",
        "symbol-dce",
    )
)
"""The flow phase."""

_NO_MULTI_USE = "--iree-dispatch-creation-fuse-multi-use=false"
_NOT_AGGRESSIVE = "--iree-dispatch-creation-enable-aggressive-fusion=false"
_ELSEWHERE = ("--iree-hal-", "--iree-llvmcpu-", "--iree-vulkan-", "--iree-cuda-", "--iree-input-", "--iree-opt-const-")
"""How the options begin that change nothing about the lists above; those of the other phases are IREE's passes' own."""
_LEVEL = "--iree-opt-level=O"


def forming_by(flags: tuple[str, ...]) -> Forming | None:
    """The lists by which dispatches are formed as by IREE's pipelines with these options; None where no lists do."""
    others = [f for f in flags if not f.startswith((*_ELSEWHERE, _LEVEL))]
    if not set(others) <= {_NO_MULTI_USE, _NOT_AGGRESSIVE}:
        return None
    return forming(_NO_MULTI_USE not in others, _NOT_AGGRESSIVE not in others and _level(flags) >= 2)


def optimizes_as_listed(flags: tuple[str, ...]) -> bool:
    """Whether GLOBALLY and OUTLINED are what IREE does with options for which dispatches are formed by lists."""
    return _level(flags) == 3


def _level(flags: tuple[str, ...]) -> int:
    """The last counts."""
    return int(next((f[len(_LEVEL) :] for f in reversed(flags) if f.startswith(_LEVEL)), "0"))


FLOW = ",".join(
    (
        _functions("iree-flow-initialize-empty-tensors", "iree-dispatch-creation-convert-tensor-to-flow", *_SIMPLER),
        "iree-flow-outline-constants",
        "iree-util-fold-globals",
        "symbol-dce",
    )
)
"""From the end of the preprocessing phase to that of the flow phase, where no dispatches are to be formed."""


_VALUES_CLEAN_UP = f"{_hosts('canonicalize', 'cse', 'iree-util-optimize-int-arithmetic')},iree-util-fold-globals"
"""Where resources are values still."""

_TIDY = _hosts("canonicalize")
"""Where commands write to resources.

Not iree-util-optimize-int-arithmetic: it takes what comes from a global for unreachable, and a range's offset that is such in a
loop's first turn for that of the others.
"""

_ENCODED = "iree-stream-specialize-encodings,"

ENCODED_VALUES = ",".join(
    (
        "iree-stream-verify-input",
        "iree-stream-clone-to-consumers",
        "iree-stream-conversion",
        "iree-stream-verify-lowering-to-tensors",
        _VALUES_CLEAN_UP,
        # tensors to asynchronous operations
        _ENCODED + _hosts("iree-stream-encode-host-tensors"),
        "stream.executable(iree-stream-encode-device-tensors)",
        "iree-stream-materialize-encodings",
        _hosts("iree-stream-layout-slices"),
        _VALUES_CLEAN_UP,
        "iree-stream-verify-lowering-to-async-resources",
        "iree-stream-verify-async-access-ranges",
        # A fill of 8 bytes becomes a dispatch.
        "iree-stream-materialize-builtins",
    )
)
"""The stream phase's first part, host tensors to resources, which are values still: where IREE's pipelines form dispatches."""

VALUES = ENCODED_VALUES.replace(_ENCODED, "")
"""The same where types have no encodings, as the lists above give none.

The pass that resolves encodings finds each value's device first, in rounds that go a step further along a chain of updates
each, and fails after some hundred: an array put together from 130 others, and 150 scatters into one, did not compile.
"""

COMMANDS = ",".join(
    (
        _hosts("iree-stream-pack-constants", "iree-stream-layout-slices", "canonicalize"),
        _hosts("convert-scf-to-cf"),
        _TIDY,
        "iree-util-fold-globals",
        _TIDY,
        "symbol-dce",
    )
)
"""From commands in loops and branches to commands in blocks."""

STRUCTURED = ",".join((_TIDY, "iree-util-fold-globals", _TIDY, "symbol-dce"))
"""In the place of COMMANDS, for what is printed in other languages: loops and branches stay, and so does each constant."""

DISPATCHES = ",".join(
    (
        "iree-stream-fuse-dispatch-bindings",
        "iree-stream-annotate-dispatch-arguments",
        "iree-stream-annotate-dispatch-assumptions",
        "iree-stream-pack-dispatch-operands",
        _hosts("canonicalize", "cse"),
        "iree-stream-fold-uniform-operands",
        _hosts("canonicalize", "cse"),
    )
)

"""The rest of the stream phase: what executables are given."""

LINKED = "iree-llvmcpu-link-executables{target=llvm-cpu}"
"""Before or after the executable-targets phase, for the CPU: the executables to one."""

HAL_COMMANDS = ",".join(
    (
        "iree-hal-conversion",
        "iree-hal-outline-memoize-regions",
        _hosts("canonicalize", "cse"),
        "iree-hal-prune-executables",
        "hal.executable(hal.executable.variant(iree-llvmcpu-assign-constant-ordinals,"
        "iree-llvmcpu-assign-import-ordinals,iree-hal-hoist-executable-objects))",
        "iree-hal-resolve-export-ordinals",
    )
)
"""Commands to calls of the HAL."""

HAL_HOST = ",".join(
    (
        "iree-hal-materialize-resource-caches",
        "iree-hal-resolve-topology-queries",
        "iree-hal-memoize-device-selection",
        "iree-hal-memoize-device-queries",
        _hosts("canonicalize", "cse", _GLOBAL_ACCESSES, "iree-util-apply-patterns"),
        "iree-util-fold-globals",
        "iree-util-fuse-globals",
        _hosts("iree-hal-elide-redundant-commands"),
    )
)
"""The host's part while its devices still tell what they are."""

HAL_END = ",".join(
    (
        "iree-affine-expand-index-ops",
        "iree-lower-affine",
        _hosts("convert-scf-to-cf", "canonicalize", "cse", _GLOBAL_ACCESSES),
        "iree-util-fold-globals",
        "iree-util-ipo",
        "symbol-dce",
    )
)
"""The end of the hal phase, with binaries in place."""

VM = ",".join(
    (
        "inline",
        "symbol-dce",
        "iree-util-verify-initialization-order",
        "iree-util-combine-initializers",
        # what one initialiser stores, the next need not load
        _hosts("cse", _GLOBAL_ACCESSES),
        "iree-util-fold-globals",
        _hosts("loop-invariant-code-motion", "convert-scf-to-cf", "iree-affine-expand-index-ops", "iree-lower-affine"),
        "iree-util-propagate-subranges",
        _hosts(_GLOBAL_ACCESSES, "canonicalize", "cse"),
        "symbol-dce",
        "iree-vm-conversion{f32-extension=true f64-extension=true index-bits=64 optimize-for-stack-size=true "
        "truncate-unsupported-floats=true}",
        "vm.module(iree-vm-reify-rodata-tables,iree-vm-hoist-inlined-rodata,iree-vm-deduplicate-rodata,"
        "iree-vm-drop-unused-calls,iree-vm-resolve-rodata-loads)",
        "inline",
        "symbol-dce",
        "vm.module(iree-vm-drop-unused-calls,iree-vm-global-initialization)",
        "canonicalize",
        "cse",
        "vm.module(iree-vm-drop-empty-module-initializers,iree-vm-annotate-functions,"
        "iree-vm-convert-to-yieldable-calls,iree-vm-drop-optimization-barriers,iree-vm-materialize-ref-discards)",
    )
)
"""From the end of the hal phase to the VM's module."""
