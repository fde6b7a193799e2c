"""`check.c`: runs a model's functions on the arguments that it was exported with, and compares."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from .c_header import SMALL
from .host import Function, Leaf, Model
from .names import parts
from .printing import filled

TOLERANCES = MappingProxyType(
    {
        "float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-12, "complex64": 1e-5, "complex128": 1e-12,
    }
)  # fmt: skip
"""Of each result: the error that is let pass is so many times its largest number, or what rounding of the arguments makes,
where that is more. Integers must be equal."""

_KINDS = MappingProxyType(
    {"float16": "h", "bfloat16": "b", "float32": "f", "float64": "d", "complex64": "f", "complex128": "d"}
)

_TEXT = """\
/* Runs the functions of NAME on the arguments that it was exported with, and compares with the results of quire.

   ./check [--exact] [--time SECONDS] [weights.bin]

   The exit status is 0 if all is right. --exact asks for equal bits; --time measures calls for so long. */
#define _POSIX_C_SOURCE 200809L
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { const char *name; char kind; size_t size, width; double tolerance, rounding; } leaf;

static double number(const unsigned char *p, char kind)
{
    if (kind == 'd') { double x; memcpy(&x, p, 8); return x; }
    if (kind == 'f') { float x; memcpy(&x, p, 4); return x; }
    uint16_t half;
    memcpy(&half, p, 2);
    if (kind == 'b') {
        uint32_t bits = (uint32_t)half << 16;
        float x;
        memcpy(&x, &bits, 4);
        return x;
    }
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double x = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
             : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return half & 0x8000 ? -x : x;
}

/* Whether a result is right; prints how far it is off. */
static int compare(const leaf *l, const unsigned char *got, const unsigned char *expected, int exact)
{
    if (!memcmp(got, expected, l->size)) return 1;
    if (exact || l->kind == 'i') {
        size_t i = 0;
        while (got[i] == expected[i]) i++;
        fprintf(stderr, "%s: element %zu is not equal\\n", l->name, i / l->width);
        return 0;
    }
    double most = 0, error = 0;
    int right = 1;
    for (size_t i = 0; i < l->size; i += l->width) {
        double x = number(expected + i, l->kind);
        if (isfinite(x) && fabs(x) > most) most = fabs(x);
    }
    for (size_t i = 0; i < l->size; i += l->width) {
        double x = number(got + i, l->kind), y = number(expected + i, l->kind);
        if (x == y || (isnan(x) && isnan(y))) continue;
        double off = fabs(x - y);
        if (!(off <= l->tolerance * (most > 1e-30 ? most : 1)) && !(off <= l->rounding)) right = 0;
        if (!(off <= error)) error = off;
    }
    fprintf(stderr, "%s: off by %.3g, the largest is %.3g%s\\n", l->name, error, most, right ? "" : ": WRONG");
    return right;
}

static unsigned char *memory(size_t size)
{
    unsigned char *p = NULL;
    if (posix_memalign((void **)&p, 64, size ? (size + 63) / 64 * 64 : 64)) exit(2);
    return p;
}

static unsigned char *part(FILE *file, size_t size)
{
    unsigned char *p = memory(size);
    if (fread(p, 1, size, file) != size) {
        fprintf(stderr, "check.bin is too short\\n");
        exit(2);
    }
    return p;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int stop(NAME_context *c, const char *what, int code)
{
    fprintf(stderr, "%s: %s %s\\n", what, NAME_message(code), NAME_detail(c));
    return 2;
}

int main(int count, char **words)
{
    const char *weights = WEIGHTS;
    int exact = 0, wrong = 0;
    double seconds = 0;
    for (int i = 1; i < count; i++) {
        if (!strcmp(words[i], "--exact")) exact = 1;
        else if (!strcmp(words[i], "--time") && i + 1 < count) seconds = atof(words[++i]);
        else weights = words[i];
    }
    double start = now();
    NAME_context *c;
    int code = NAME_create(&c, weights);
    if (code) return stop(NULL, "NAME_create", code);
    FILE *file = fopen("check.bin", "rb");
    if (!file) {
        fprintf(stderr, "check.bin cannot be read: run this in its folder\\n");
        return 2;
    }
FUNCTIONS
    fclose(file);
    NAME_destroy(c);
    printf(wrong ? "WRONG\\n" : "ok\\n");
    return wrong;
}
"""


def check(model: Model, rounding: Sequence[Sequence[float]]) -> str:
    """The text of `check.c`; `rounding` is how far that of the arguments may move each result of each function."""
    functions = "\n".join(_function(f, own) for f, own in zip(model.functions, rounding, strict=True))
    weights = '"weights.bin"' if len(model.weights.data) > SMALL else "NULL"
    return filled(_TEXT, {"FUNCTIONS": functions, "NAME": model.name, "WEIGHTS": weights})


def _function(f: Function, rounding: Sequence[float]) -> str:
    own = f.own_results()
    lines = ["    {"]
    n = len(f.arguments)
    for i, leaf in enumerate(f.arguments):
        lines.append(f"        unsigned char *a{i} = part(file, {leaf.nbytes});")
        if leaf.donated:
            lines.append(f"        unsigned char *kept{i} = memory({leaf.nbytes});")
            lines.append(f"        memcpy(kept{i}, a{i}, {leaf.nbytes});")
    for i, leaf in enumerate(f.results):
        lines.append(f"        unsigned char *e{i} = part(file, {leaf.nbytes});")
        inside = f.in_place(i)
        lines.append(f"        unsigned char *r{i} = {f'memory({leaf.nbytes})' if inside is None else f'a{inside}'};")
    given = [*(f"a{i}" for i in range(n)), *(f"r{i}" for i in own)]
    call = f"{f.symbol}(c{''.join(f', (void *){x}' for x in given)})"
    lines += [f"        code = {call};", f'        if (code) return stop(c, "{f.symbol}", code);']
    if f.results:
        lines.append("        static const leaf leaves[] = {")
        lines += [f"            {_leaf(leaf, x)}," for leaf, x in zip(f.results, told(rounding, f), strict=True)]
        lines.append("        };")
    for i in range(len(f.results)):
        lines.append(f"        wrong |= !compare(&leaves[{i}], r{i}, e{i}, exact);")
    again = "".join(f" memcpy(a{i}, kept{i}, {leaf.nbytes});" for i, leaf in enumerate(f.arguments) if leaf.donated)
    lines += [
        "        if (seconds > 0) {",
        f'            printf("{f.symbol}: %.3f ms to the first result\\n", (now() - start) * 1e3);',
        "            double begin = now(), best = 1e9;",
        "            while (now() - begin < seconds) {",
        "                int turns = 0;",
        "                double t = now(), used;",
        f"                do {{{again}",
        f"                    code = {call};",
        "                    turns++;",
        "                } while ((used = now() - t) < 1e-3 && !code);",
        "                if (used / turns < best) best = used / turns;",
        "            }",
        f'            printf("{f.symbol}: %.2f us a call\\n", best * 1e6);',
        "        }",
    ]
    kept = {i for i, leaf in enumerate(f.arguments) if leaf.donated}
    lines += [f"        free(a{i});" for i in range(n)] + [f"        free(kept{i});" for i in sorted(kept)]
    lines += [f"        free(e{i});" for i in range(len(f.results))] + [f"        free(r{i});" for i in own]
    return "\n".join([*lines, "    }"])


def told(rounding: Sequence[float], f: Function) -> Sequence[float]:
    """What is known of the rounding of each result; 0 where nothing is."""
    return rounding or [0.0] * len(f.results)


def _leaf(leaf: Leaf, rounding: float) -> str:
    kind = _KINDS.get(leaf.dtype.name, "i")
    width = leaf.dtype.itemsize // parts(leaf.dtype)
    return f"{{\"{leaf.name}\", '{kind}', {leaf.nbytes}u, {width}u, {TOLERANCES.get(leaf.dtype.name, 0.0)!r}, {rounding:.3g}}}"


def data(arguments: Sequence[Sequence[bytes]], results: Sequence[Sequence[bytes]]) -> bytes:
    """The bytes of `check.bin`: of each function its arguments, then its results."""
    return b"".join(b"".join((*a, *r)) for a, r in zip(arguments, results, strict=True))
