"""Trains examples/digits_mlp.py's network and writes one page in which a digit drawn with the mouse is classified.

``python examples/digits_page.py digits.html`` makes a file that any browser opens: the network's program is WebAssembly within
it, exported by `quire.export.javascript`, with its weights. It asks nothing of a network. EPOCHS trains for fewer epochs.
"""

# ruff: noqa: E501  (a page's lines)

from __future__ import annotations

import base64
import os
import sys
import tempfile
from pathlib import Path

import digits_mlp
import numpy as np

import quire
import quire.export
import quire.numpy as qnp

# The data's digits fill the 32 x 32 bitmap of which 4 x 4 blocks are counted, in the middle of it, and all have about as much ink:
# a drawing is brought to that form, and its blocks are 64 numbers as those that the network was trained on.
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Draw a digit</title>
<style>
body{font:16px/1.5 system-ui,sans-serif;margin:24px;color:#1d2430}
canvas{border:1px solid #8b95a5;touch-action:none;cursor:crosshair}main{display:flex;gap:28px;align-items:flex-start}
#class{font-size:96px;line-height:1;height:100px}.score{display:flex;gap:8px;align-items:center;font:13px ui-monospace,monospace}
.score i{display:block;height:12px;background:#7aa7e0}.score.best i{background:#d9762b}button{font:inherit;margin:8px 8px 0 0}
</style></head><body>
<h1>Draw a digit</h1>
<main><div><canvas id="pad" width="280" height="280"></canvas><br><button id="clear">clear</button></div>
<div><canvas id="seen" width="96" height="96" title="what the network sees: 8 x 8 numbers"></canvas><div id="class"></div></div>
<div id="scores"></div></main>
<script type="module">
MODEL
const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
const model = await create(bytes("WASM"), bytes("WEIGHTS"));
const $ = id => document.getElementById(id), pad = $("pad"), pen = pad.getContext("2d");
const small = new OffscreenCanvas(32, 32), ink = small.getContext("2d", { willReadFrequently: true });
let strokes = [];

function line(to, points, width) {
  to.lineWidth = width; to.lineCap = to.lineJoin = "round";
  to.beginPath(); to.moveTo(...points[0]);
  for (const p of points) to.lineTo(...p);
  to.stroke();
}

// f32[64]: how much of each block of 4 x 4 pixels has ink, of the drawing brought to 32 x 32 with lines of some width.
function blocks(width) {
  const all = strokes.flat(), xs = all.map(p => p[0]), ys = all.map(p => p[1]);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const scale = (32 - width) / Math.max(right - left, bottom - top, 1);
  const moved = ([x, y]) => [16 + (x - (left + right) / 2) * scale, 16 + (y - (top + bottom) / 2) * scale];
  ink.reset();
  for (const s of strokes) line(ink, s.map(moved), width);
  const data = ink.getImageData(0, 0, 32, 32).data, out = new Float32Array(64);
  for (let y = 0; y < 32; y++) for (let x = 0; x < 32; x++) out[8 * (y >> 2) + (x >> 2)] += (data[4 * (32 * y + x) + 3] > 127) / 16;
  return out;
}

// The 64 numbers of lines so wide that there is as much ink as in the data.
function pixels() {
  const away = digit => Math.abs(digit.reduce((a, v) => a + v) - INK);
  let best = blocks(3);
  for (let width = 3.5; width <= 10; width += 0.5) {
    const other = blocks(width);
    if (away(other) < away(best)) best = other;
  }
  return best;
}

function draw() {
  pen.clearRect(0, 0, pad.width, pad.height);
  for (const s of strokes) line(pen, s, 18);
}

function classify() {
  const digit = pixels(), start = performance.now(), { label, scores } = model.run(digit);
  const took = performance.now() - start, best = Math.max(...scores);
  $("class").textContent = label[0];
  const seen = $("seen").getContext("2d");
  digit.forEach((v, i) => { seen.fillStyle = `rgb(${255 * (1 - v)},${255 * (1 - v)},${255 * (1 - v)})`; seen.fillRect(12 * (i % 8), 12 * (i >> 3), 12, 12); });
  $("scores").replaceChildren(...Array.from(scores, (s, k) => {
    const row = document.createElement("div"), bar = document.createElement("i");
    row.className = k === label[0] ? "score best" : "score"; bar.style.width = `${Math.max(1, 12 * (s - best + 14))}px`;
    row.append(`${k}`, bar); return row;
  }));
  Object.assign(document.body.dataset, { label: label[0], milliseconds: took, pixels: JSON.stringify(Array.from(digit)) });
}

pad.onpointerdown = e => { pad.setPointerCapture(e.pointerId); strokes.push([[e.offsetX, e.offsetY]]); draw(); };
pad.onpointermove = e => { if (e.buttons && strokes.length) { strokes.at(-1).push([e.offsetX, e.offsetY]); draw(); } };
pad.onpointerup = () => { if (strokes.length) classify(); };
$("clear").onclick = () => { strokes = []; draw(); $("class").textContent = ""; $("scores").replaceChildren(); delete document.body.dataset.label; };
document.body.dataset.ready = "yes";
</script></body></html>
"""


def page(params: list[dict[str, np.ndarray]]) -> str:
    """The page for a trained network."""

    def classify(digit):
        """The class of a digit, f32[64], and the ten scores behind it: those of digits_mlp's network."""
        *hidden, last = params
        x = digit
        for layer in hidden:
            x = qnp.maximum(x @ layer["w"] + layer["b"], 0.0)
        scores = x @ last["w"] + last["b"]
        return {"label": scores.argmax()[None], "scores": scores}

    with tempfile.TemporaryDirectory() as folder:
        made = quire.export.javascript(classify, np.zeros(64, np.float32), to=folder, name="digits", check=False).path
        files = {"WASM": "model.wasm", "WEIGHTS": "weights.bin"}
        text = {name: base64.b64encode((made / f).read_bytes()).decode() for name, f in files.items()}
        model = (made / "model.mjs").read_text(encoding="utf-8")
    pixels, _ = digits_mlp.load_digits()
    out = PAGE.replace("INK", f"{pixels.sum(axis=1).mean():.2f}").replace("MODEL\n", model)
    for name, data in text.items():
        out = out.replace(f'"{name}"', f'"{data}"')
    return out


def main(path: Path) -> None:
    params, accuracy = digits_mlp.train(int(os.environ.get("EPOCHS", digits_mlp.EPOCHS)), report=lambda line: None)
    text = page([{key: np.asarray(value) for key, value in layer.items()} for layer in params])
    path.write_text(text, encoding="utf-8")
    print(f"{path}: {len(text) / 1e3:.0f} KB; {accuracy:.2%} of {digits_mlp.HELD_OUT} held-out digits are recognised")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
