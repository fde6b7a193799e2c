#!/bin/sh
# Trains the digits' network, exports it, and classifies the held-out digits in C, and in node, without Python.
#
#   examples/digits_without_python.sh [FOLDER]
#
# PYTHON and CC name other programs than python3 and cc; EPOCHS trains for fewer epochs.
set -e
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$(mktemp -d)}
mkdir -p "$out"

"${PYTHON:-python3}" "$here/digits_without_python/train_and_export.py" "$out"

if command -v "${CC:-cc}" > /dev/null; then
    "${CC:-cc}" -O2 -I "$out/c" -o "$out/classify" "$here/digits_without_python/classify.c" "$out/c/model.c" "$out"/c/*_kernels.o -lm
    "$out/classify" "$out/c/weights.bin" "$out/pixels.f32" "$out/labels.i32"
else
    echo "there is no C compiler here: the program in C is in $out/c"
fi

if command -v node > /dev/null; then
    node "$here/digits_without_python/classify.mjs" "$out/web/model.mjs" "$out/pixels.f32" "$out/labels.i32"
else
    echo "there is no node here: the program in JavaScript is in $out/web"
fi
