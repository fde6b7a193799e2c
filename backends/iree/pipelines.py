"""The passes of IREE's vm phase without their repeated clean-up.

IREE 3.13 cleans up (canonicalise, CSE, a second set of patterns, globals) again and again; each time it builds its
tables of patterns anew, of all dialects it has loaded. The list below keeps every pass that transforms or checks, in
IREE's order, with one clean-up where the next step needs it. The compiler's own pipeline runs instead where somebody
looks at the IR, and for a module for which this one fails.

Source: `iree-opt --iree-vm-transformation-pipeline --dump-pass-pipeline`, and the order that
`--mlir-print-ir-before-all` shows.
"""

from __future__ import annotations


def _hosts(*passes: str) -> str:
    """The passes on each function of the host's part, initialisers of globals too."""
    text = ",".join(passes)
    return f"util.func({text}),util.initializer({text})"


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
