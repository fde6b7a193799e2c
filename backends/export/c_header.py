"""`model.h`: what a C or C++ program includes."""

from __future__ import annotations

from .host import Function, Leaf, Model
from .names import C_CODES, C_TYPES, NOTES, parts, type_text, unique
from .printing import comment

_MEANINGS = (
    "no error",
    "an argument is a null pointer",
    "not as many arguments or results as the function has",
    "an argument or a result has another size than the function's",
    "a result overlaps an argument or another result",
    "there is no memory left",
    "the file of weights cannot be read",
    "these weights belong to another model",
    "the kernels' object belongs to another model",
    "a kernel reported an error",
    "a thread cannot be started",
)
CODES = tuple(zip(C_CODES, _MEANINGS, strict=True))
"""What functions return, and what it means."""


def parameter(leaf: Leaf, *, written: bool) -> str:
    """A parameter's declaration."""
    return f"{'' if written else 'const '}{C_TYPES[leaf.dtype.name]} {leaf.name}[]"


def parameters(f: Function) -> list[tuple[str, str]]:
    """The parameters of a function after the context: declarations and what is known of each."""
    inside = {a: i for i in range(len(f.results)) if (a := f.in_place(i)) is not None}
    out: list[tuple[str, str]] = []
    for number, leaf in enumerate(f.arguments):
        note = f"{type_text(leaf.dtype, leaf.shape)} {leaf.path}"
        if number in inside:
            note += f"; result {f.results[inside[number]].path or '0'} is left here"
        elif leaf.donated:
            note += "; its content is lost"
        out.append((parameter(leaf, written=leaf.donated), note + _note(leaf)))
    for i in f.own_results():
        leaf = f.results[i]
        out.append(
            (parameter(leaf, written=True), f"result {type_text(leaf.dtype, leaf.shape)} {leaf.path}" + _note(leaf))
        )
    return out


def _note(leaf: Leaf) -> str:
    note = NOTES.get(leaf.dtype.name)
    return f" ({note})" if note else ""


def declaration(model: Model, f: Function) -> str:
    """A function's head, without what is known of its parameters."""
    listed = "".join(f",\n    {text}" for text, _ in parameters(f))
    return f"int {f.symbol}({model.name}_context *context{listed})"


def checked_declaration(model: Model, f: Function) -> str:
    """The head of a function's checked form."""
    return (
        f"int {f.symbol}_checked({model.name}_context *context,\n"
        "    void *const *arguments, const size_t *argument_sizes, size_t argument_count,\n"
        "    void *const *results, const size_t *result_sizes, size_t result_count)"
    )


def lengths(model: Model) -> list[list[str]]:
    """Of each function a macro for the number of elements of each parameter; each has another name."""
    leaves = [[*f.arguments, *(f.results[i] for i in f.own_results())] for f in model.functions]
    names = iter(
        unique(
            f"{f.symbol}_{leaf.name}_length".upper() for f, own in zip(model.functions, leaves, strict=True) for leaf in own
        )
    )  # fmt: skip
    return [[f"#define {next(names)} {leaf.size * parts(leaf.dtype)}" for leaf in own] for own in leaves]


def header(model: Model) -> str:
    """The text of `model.h`."""
    name = model.name
    guard = f"{name.upper()}_H"
    codes = "\n".join(f"    {name.upper()}_{code} = {i}, /* {meaning} */" for i, (code, meaning) in enumerate(CODES))
    weights = "the path of weights.bin" if len(model.weights.data) > SMALL else "NULL: the constants are in the program"
    parts_: list[str] = []
    for f, macros in zip(model.functions, lengths(model), strict=True):
        listed = "".join(f",\n    {text} /* {comment(note)} */" for text, note in parameters(f))
        head = f"int {f.symbol}({name}_context *context{listed});"
        parts_.append("\n".join(["", *macros, "", head, checked_declaration(model, f) + ";"]))
    functions = "\n".join(parts_)
    return f"""\
/* {name}: written by quire {model.version} for {model.target}. It needs nothing but the C library.

   {name}_context *context;
   int code = {name}_create(&context, {"weights" if len(model.weights.data) > SMALL else "NULL"});
   code = {model.functions[0].symbol}(context, ...);
   {name}_destroy(context);

   Functions return {name.upper()}_OK or another of the codes below. Arrays are dense, in row-major order. A context serves one thread
   at a time; several contexts may be used in several threads. Results must not overlap arguments. Arrays that do not begin at
   a multiple of 64 bytes are copied. */
#ifndef {guard}
#define {guard}

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

enum {{
{codes}
}};

typedef struct {name}_context {name}_context;

/* A new context with its weights and all memory that calls need. weights: {weights}. */
int {name}_create({name}_context **context, const char *weights);
/* The same of weights in memory, which must stay while the context, or one made of it, is in use. */
int {name}_create_from_memory({name}_context **context, const void *weights, size_t size);
/* One more context of the same weights, which are those of `of`: it must be destroyed last. */
int {name}_create_of({name}_context **context, const {name}_context *of);
void {name}_destroy({name}_context *context);
/* What a code means. */
const char *{name}_message(int code);
/* What the last error in a context was about, such as an argument's name; empty where nothing more is known. */
const char *{name}_detail(const {name}_context *context);

/* Functions take a pointer to the first element of each argument, and of each result. The checked forms take sizes in bytes,
   and check them, and that results overlap nothing. */
{functions}

#ifdef __cplusplus
}}
#endif
#endif
"""


SMALL = 4096
"""Constants of so many bytes are in the program, and no file is needed."""
