"""Names and types of other languages for paths and dtypes.

All names of the user's pass through a `Language`, which knows its words and the names that the printed programs have already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from quire.ir import dtypes
from quire.ir.dtypes import DType

_C_WORDS = (
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false "
    "alignas alignof asm complex constexpr imaginary noreturn nullptr static_assert thread_local typeof typeof_unqual "
    # C++
    "and and_eq bitand bitor catch char8_t char16_t char32_t class co_await co_return co_yield compl concept const_cast "
    "consteval constinit decltype delete dynamic_cast explicit export friend mutable namespace new noexcept not not_eq "
    "operator or or_eq private protected public reinterpret_cast requires static_cast template this throw try typeid "
    "typename using virtual wchar_t xor xor_eq "
    # Macros that stand for no call, of the standard headers and of compilers, and what the programs call.
    "main errno stdin stdout stderr linux unix i386 NULL EOF FILE I NAN INFINITY HUGE_VAL HUGE_VALF "
    "HUGE_VALL BUFSIZ FILENAME_MAX FOPEN_MAX TMP_MAX L_tmpnam SEEK_SET SEEK_CUR SEEK_END RAND_MAX MB_CUR_MAX EXIT_SUCCESS "
    "EXIT_FAILURE CLOCKS_PER_SEC EDOM ERANGE EILSEQ memcpy memmove memset snprintf"
)
_C_PATTERN = (
    r"(u?int(\d+|ptr)|size)_t|q_\w*|Q_[A-Z]+|M_[A-Z0-9_]+|FP_[A-Z]+|(FLT|DBL|LDBL)_[A-Z0-9_]+|S?CHAR_(MIN|MAX|BIT)|"
    r"U?(CHAR|SHRT|INT|LONG|LLONG|INT\w*|SIZE|PTRDIFF|WCHAR)_(MIN|MAX|WIDTH)"
)
"""Types and macros of the standard headers, and what begins as the program's own names do."""
_JS_WORDS = (
    "await break case catch class const continue debugger default delete do else enum export extends false finally for "
    "function if implements import in instanceof interface let new null package private protected public return static super "
    "switch this throw true try typeof var void while with yield arguments eval undefined NaN Infinity globalThis "
    "Math Number BigInt Float32Array Float64Array Int8Array Int16Array Int32Array BigInt64Array Uint8Array Uint16Array "
    "Uint32Array BigUint64Array "
    # What the methods of a model call, and what else the module holds.
    "scratch bits32 float32 bits64 float64 wrap64 unsigned64 whole64 library libraries Model here read create load"
)
_LOCALS = r"c|context|weights|arena|[arvuo]\d+|new_v\d+"
"""Names that the printed functions use themselves, in both languages."""

C_MEMBERS = ("context", "create", "create_of", "create_from_memory", "destroy", "message", "detail")
"""What the names of a model's own functions and types end with, behind its name."""
C_CODES = ("OK", "NULL", "COUNT", "SIZE", "OVERLAP", "MEMORY", "FILE", "WEIGHTS", "LIBRARY", "FAILED", "THREAD")
"""What the codes that its functions return end with, likewise."""
_C_DERIVED = ("_checked", "_kernels_library_query")
"""What is put behind the name of a function to make others."""
_JS_MEMBERS = "constructor start bytes view kernels text copy fill launch bring take then"
"""Of a model's class; an object with a method `then` is taken for a promise by `await`."""
_MODELS = (
    # CMake's own targets, and what is linked.
    "q all all_build help install preinstall clean edit_cache rebuild_cache zero_check test run_tests package package_source "
    "check m c pthread "
    # Libraries whose functions begin so, some with `create` and `destroy` behind it.
    "thrd mtx cnd tss sem timer atomic clock posix"
)


@dataclass(frozen=True)
class Language:
    """Which names the user's must not be in a language.

    Attributes:
        words, pattern: no name at all.
        members: no function of a model, upper and lower case alike.
        derived: what is put behind a function's name to make other names.
        models: no model, upper and lower case alike.
        prefixed: no argument or result, where {model} is the model's name and {upper} the same in upper case.
    """

    words: frozenset[str]
    pattern: re.Pattern[str]
    members: frozenset[str]
    derived: tuple[str, ...]
    models: frozenset[str]
    prefixed: str

    def model(self, text: str) -> str:
        """The name of a model: the prefix of all names in C."""
        return self._fitting(text, lambda name: name.lower() in self.models)

    def functions(self, texts: Iterable[str]) -> list[str]:
        """The names of a model's functions, each another, none of which is made of the name of another."""
        listed = list(texts)
        taken = self.members.union(identifier(text).lower() + ending for text in listed for ending in self.derived)
        names = [self._fitting(text, lambda name: name.lower() in taken) for text in listed]
        return unique(names, self.members, self.derived)

    def leaves(self, paths: Iterable[str], model: str, taken: Iterable[str] = ()) -> list[str]:
        """The names of arguments or results of a function of a model, each another, and none of those that are taken."""
        own = re.compile(self.prefixed.format(model=model, upper=model.upper()))
        return unique([self._fitting(path, lambda name: own.fullmatch(name) is not None) for path in paths], taken)

    def _fitting(self, text: str, taken: Callable[[str], bool]) -> str:
        """A name for a text, with `_` behind where it has a meaning already."""
        name = identifier(text)
        return name + "_" if name in self.words or self.pattern.fullmatch(name) or taken(name) else name


LANGUAGES = MappingProxyType(
    {
        "c": Language(
            frozenset(_C_WORDS.split()), re.compile(f"{_LOCALS}|{_C_PATTERN}"), frozenset(C_MEMBERS), _C_DERIVED,
            frozenset(_MODELS.split()), f"{{model}}_({'|'.join(C_MEMBERS)})|{{upper}}_({'|'.join(C_CODES)}|H|\\w*_LENGTH)",
        ),
        "javascript": Language(
            frozenset(_JS_WORDS.split()), re.compile(_LOCALS), frozenset(_JS_MEMBERS.split()), (), frozenset(), "",
        ),
    }
)  # fmt: skip
"""By the language of a target."""

C_TYPES = MappingProxyType(
    {
        "bool": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t", "uint8": "uint8_t",
        "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t", "float16": "uint16_t", "bfloat16": "uint16_t",
        "float32": "float", "float64": "double", "complex64": "float", "complex128": "double",
    }
)  # fmt: skip
"""The C type of an element; of a complex number that of each of its two parts. Of half floats it is their bits."""
JS_TYPES = MappingProxyType(
    {
        "bool": "Uint8Array", "int8": "Int8Array", "int16": "Int16Array", "int32": "Int32Array", "int64": "BigInt64Array",
        "uint8": "Uint8Array", "uint16": "Uint16Array", "uint32": "Uint32Array", "uint64": "BigUint64Array",
        "float16": "Uint16Array", "bfloat16": "Uint16Array", "float32": "Float32Array", "float64": "Float64Array",
        "complex64": "Float32Array", "complex128": "Float64Array",
    }
)  # fmt: skip
"""The typed array of JavaScript that holds an array."""
NOTES = MappingProxyType(
    {
        "bool": "0 or 1", "float16": "bits of IEEE half floats", "bfloat16": "the upper halves of floats' bits",
        "complex64": "real and imaginary parts in turn", "complex128": "real and imaginary parts in turn",
    }
)  # fmt: skip


def parts(dtype: DType) -> int:
    """How many numbers an element is in C."""
    return 2 if dtype.kind == "c" else 1


def identifier(text: str) -> str:
    """Letters, digits and `_` for a path: ``params['w'][0]`` is ``params_w_0``."""
    name = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_") or "x"
    return "_" + name if name[0].isdigit() else name


def unique(names: Iterable[str], taken: Iterable[str] = (), derived: Sequence[str] = ()) -> list[str]:
    """The names, those that appear before with a number behind. Upper and lower case are alike: macros are upper case.

    `derived` is put behind each name to make others, which none of the names is either.
    """
    known = {name.lower() for name in taken}
    out: list[str] = []
    for name in names:
        own, number = name, 1
        while any(own.lower() + ending in known for ending in ("", *derived)):
            number += 1
            own = f"{name}_{number}"
        known.update(own.lower() + ending for ending in ("", *derived))
        out.append(own)
    return out


def type_text(dtype: DType, shape: Sequence[int]) -> str:
    """As quire prints types: ``f32[8,784]``."""
    return f"{dtypes.SHORT[dtype]}[{','.join(map(str, shape))}]"
