"""The passes of two of IREE's phases without their repeated clean-up.

IREE 3.13 cleans up (canonicalise, CSE, a second set of patterns, globals) some fifteen times in its stream phase and
again in its vm phase; each time it builds its tables of patterns anew, of all dialects it has loaded. Of a small module
that is a third of the compile. The lists below keep every pass that transforms or checks, in IREE's order, with one
clean-up where the next step needs it. The compiler's own pipelines run instead where somebody looks at the IR, and for
a module for which these fail.

Source: `iree-opt --iree-stream-transformation-pipeline --dump-pass-pipeline`, the same of `iree-vm-...`, and the order
that `--mlir-print-ir-before-all` shows.
"""

from __future__ import annotations

_CLEAN = "util.func(canonicalize,cse)"


def _hosts(*passes: str) -> str:
    """The passes on each function of the host's part, initialisers of globals too."""
    text = ",".join(passes)
    return f"util.func({text}),util.initializer({text})"


STREAM = ",".join(
    (
        "iree-stream-verify-input",
        "iree-stream-clone-to-consumers",
        "iree-stream-conversion",
        "iree-stream-verify-lowering-to-tensors",
        "iree-util-combine-initializers",
        _hosts("canonicalize", "cse"),
        "iree-stream-specialize-encodings",
        _hosts("iree-stream-encode-host-tensors"),
        "stream.executable(iree-stream-encode-device-tensors)",
        "iree-stream-materialize-encodings",
        _hosts("canonicalize", "cse"),
        "iree-stream-verify-lowering-to-async-resources",
        _hosts("iree-stream-materialize-copy-on-write"),
        _CLEAN,
        "iree-stream-elide-async-copies",
        _hosts("canonicalize", "iree-stream-emplace-allocations"),
        "iree-stream-refine-usage",
        _CLEAN,
        "iree-stream-elide-async-copies",
        "iree-stream-verify-async-access-ranges",
        "iree-stream-place-transfer-executions",
        _hosts("iree-stream-schedule-execution", "iree-stream-schedule-concurrency"),
        "iree-stream-sync-initializers",
        "iree-stream-propagate-timepoints",
        "iree-stream-materialize-builtins",
        _hosts("canonicalize", "cse"),
        "iree-stream-verify-lowering-to-async",
        "iree-stream-schedule-allocation",
        "iree-stream-emplace-transients",
        "iree-stream-materialize-transient-size-queries",
        _hosts("iree-stream-pack-constants", "iree-stream-layout-slices"),
        "iree-util-propagate-subranges",
        _hosts("canonicalize", "cse", "iree-util-optimize-int-arithmetic"),
        "iree-stream-automatic-reference-counting",
        "iree-stream-annotate-constant-transient-size",
        "iree-stream-verify-lowering-to-cmd",
        _hosts("iree-stream-reuse-allocations", "convert-scf-to-cf"),
        "iree-stream-elide-timepoints",
        "iree-stream-fuse-dispatch-bindings",
        "iree-stream-annotate-dispatch-arguments",
        "iree-stream-annotate-dispatch-assumptions",
        "iree-stream-pack-dispatch-operands",
        "iree-stream-fold-uniform-operands",
        _hosts("canonicalize", "cse"),
        "symbol-dce",
    )
)
"""From the end of the flow phase to the end of the stream phase."""

VM = ",".join(
    (
        "inline",
        "symbol-dce",
        "iree-util-verify-initialization-order",
        "iree-util-combine-initializers",
        _hosts("loop-invariant-code-motion", "convert-scf-to-cf", "iree-affine-expand-index-ops", "iree-lower-affine"),
        "iree-util-propagate-subranges",
        _hosts("canonicalize", "cse"),
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
