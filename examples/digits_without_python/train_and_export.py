"""Trains examples/digits_mlp.py's network and writes it for C and JavaScript, with the held-out digits beside it.

``python train_and_export.py FOLDER`` makes FOLDER/c, FOLDER/web, FOLDER/pixels.f32 and FOLDER/labels.i32.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import digits_mlp

import quire
import quire.export
import quire.numpy as qnp


def main(folder: Path) -> None:
    params, accuracy = digits_mlp.train(int(os.environ.get("EPOCHS", digits_mlp.EPOCHS)), report=lambda line: None)
    pixels, labels = digits_mlp.load_digits()
    held_out, labels = pixels[: digits_mlp.HELD_OUT], labels[: digits_mlp.HELD_OUT]
    params = [{key: np.asarray(value) for key, value in layer.items()} for layer in params]
    _, predict = digits_mlp.make_step(quire, qnp)

    def one(digit):
        """The class of a digit, f32[64]."""
        return {"label": predict(params, digit[None])[0]}

    def several(digits):
        """The classes of all held-out digits, f32[360,64]."""
        return {"labels": predict(params, digits)}

    functions = {"one": (one, (held_out[0],)), "several": (several, (held_out,))}
    # For the processor that compiles it: a name such as x86-64-v3 is for others too.
    c = quire.export.c(functions, to=folder / "c", name="digits", target="host")
    web = quire.export.javascript(functions, to=folder / "web", name="digits")
    (folder / "pixels.f32").write_bytes(held_out.tobytes())
    (folder / "labels.i32").write_bytes(labels.tobytes())
    print(f"Python: {accuracy:.2%} of {len(labels)} held-out digits are recognised")
    for made in (c, web):
        print(
            f"  {made.path.name}: {sum(made.files.values())} bytes in {len(made.files)} files, checked: {made.checked}"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
