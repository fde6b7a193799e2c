"""Programs without Python: text of C and JavaScript for the host's part of a compiled program (docs/export.md)."""
