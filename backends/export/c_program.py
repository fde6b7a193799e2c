"""`model.c`: a context, the launch of kernels, and the functions, whose steps `c_host` prints."""

from __future__ import annotations

import re

from . import c_host
from .c_functions import aligned, function
from .c_header import CODES, SMALL
from .host import ALIGNMENT, PAGE, Function, Model
from .printing import filled

MAGIC = b"quirewts"
"""How a file of weights begins; then follow their size and their identity, 8 bytes each, and zeros up to 64 bytes."""

_TYPES = """\
/* How kernels are called, and told in which library: version 6 of this form, the only one that is taken. */
typedef struct {
    const uint32_t *constants;
    void *import_thunk;
    void *const *imports;
    const void **import_contexts;
    uint64_t processor[8];
} q_environment;

typedef struct {
    uint32_t size_x, size_y;
    uint16_t size_z, scalar_count;
    uint32_t count_x, count_y;
    uint16_t count_z;
    uint8_t max_concurrency, binding_count;
    const uint32_t *scalars;
    void *const *bindings;
    const size_t *lengths;
} q_dispatch;

typedef struct {
    uint32_t x, y;
    uint16_t z, reserved;
    uint32_t processor_id;
    void *local;
    uint32_t local_size;
} q_group;

typedef int (*q_kernel)(const q_environment *, const q_dispatch *, const q_group *);

typedef struct {
    uint64_t flags;
    uint16_t local_pages;
    uint8_t scalar_count, binding_count;
    uint32_t rest[13];
} q_attributes;

typedef struct {
    const struct { uint32_t version; const char *name; uint32_t features, sanitizer; } *header;
    struct { uint32_t count; const char *const *names; } imports;
    struct {
        uint32_t count;
        const q_kernel *kernels;
        const q_attributes *attributes;
        const void *parameters, *occupancy;
        const char *const *names;
    } exports;
} q_library;

typedef const q_library *(*q_query)(uint32_t, const q_environment *);
"""

_ALONE = """\
/* Each workgroup of a kernel, one after the other. */
static int q_run(CONTEXT *c, q_kernel kernel, const q_dispatch *told)
{
    q_group group = {0, 0, 0, 0, 0, c->local, Q_LOCAL};
    for (uint32_t z = 0; z < told->count_z; z++)
        for (uint32_t y = 0; y < told->count_y; y++)
            for (uint32_t x = 0; x < told->count_x; x++) {
                group.x = x, group.y = y, group.z = (uint16_t)z;
                if (kernel(&c->environment, told, &group)) return 1;
            }
    return 0;
}
"""

_THREADS = """\
/* The workgroups of a kernel that are left, of which each thread takes the next. */
static void q_work(CONTEXT *c, uint32_t thread)
{
    q_group group = {0, 0, 0, 0, thread, c->local + (size_t)thread * Q_LOCAL, Q_LOCAL};
    const q_dispatch *told = c->told;
    for (uint64_t i; (i = atomic_fetch_add(&c->next, 1)) < c->groups;) {
        group.x = (uint32_t)(i % told->count_x);
        group.y = (uint32_t)(i / told->count_x % told->count_y);
        group.z = (uint16_t)(i / told->count_x / told->count_y);
        if (c->kernel(&c->environment, told, &group)) atomic_store(&c->failed, 1);
    }
}

static void *q_thread(void *of)
{
    const q_thread_state *own = of;
    CONTEXT *c = own->context;
    for (unsigned seen = 0;;) {
        for (int spin = 0; spin < Q_SPIN && atomic_load(&c->turn) == seen; spin++) {}
        pthread_mutex_lock(&c->lock);
        while (atomic_load(&c->turn) == seen) pthread_cond_wait(&c->begin, &c->lock);
        pthread_mutex_unlock(&c->lock);
        seen = atomic_load(&c->turn);
        if (atomic_load(&c->stop)) return NULL;
        q_work(c, own->number);
        if (atomic_fetch_sub(&c->working, 1) == 1) {
            pthread_mutex_lock(&c->lock);
            pthread_cond_signal(&c->end);
            pthread_mutex_unlock(&c->lock);
        }
    }
}

static void q_turn(CONTEXT *c)
{
    pthread_mutex_lock(&c->lock);
    atomic_fetch_add(&c->turn, 1);
    pthread_cond_broadcast(&c->begin);
    pthread_mutex_unlock(&c->lock);
}

/* All workgroups of a kernel, spread over the threads; returns when they are done. */
static int q_run(CONTEXT *c, q_kernel kernel, const q_dispatch *told)
{
    c->kernel = kernel, c->told = told;
    c->groups = (uint64_t)told->count_x * told->count_y * told->count_z;
    atomic_store(&c->next, 0);
    atomic_store(&c->failed, 0);
    if (c->groups > 1 && c->started) {
        atomic_store(&c->working, c->started);
        q_turn(c);
        q_work(c, 0);
        for (int spin = 0; spin < Q_SPIN && atomic_load(&c->working); spin++) {}
        pthread_mutex_lock(&c->lock);
        while (atomic_load(&c->working)) pthread_cond_wait(&c->end, &c->lock);
        pthread_mutex_unlock(&c->lock);
    } else {
        q_work(c, 0);
    }
    return atomic_load(&c->failed);
}
"""

_LAUNCH = """\
static int q_launch(CONTEXT *c, int kernel, uint32_t x, uint32_t y, uint32_t z, int scalar_count, const uint32_t *scalars,
                    int count, void *const *bindings, const size_t *lengths)
{
    const q_dispatch told = {1, 1, 1, (uint16_t)scalar_count, x, y, (uint16_t)z, Q_THREADS, (uint8_t)count, scalars, bindings, lengths};
    return q_run(c, c->kernels[kernel], &told);
}
"""

_FILL = """\
static void q_fill{width}(unsigned char *to, size_t size, uint{bits}_t x)
{{
    for (size_t i = 0; i + {width} <= size; i += {width}) memcpy(to + i, &x, {width});
}}
"""


_REFUSALS = (
    """\
static int q_refuse(CONTEXT *c, int code, const char *name, size_t given, size_t expected)
{
    if (code == UPPER_NULL || code == UPPER_OVERLAP)
        snprintf(c->detail, sizeof c->detail, "%s", name);
    else
        snprintf(c->detail, sizeof c->detail, "%s: %zu bytes given, %zu expected", name, given, expected);
    return code;
}
""",
    """\
static int q_overlap(const void *a, size_t a_size, const void *b, size_t b_size)
{
    return a_size && b_size && (uintptr_t)a < (uintptr_t)b + b_size && (uintptr_t)b < (uintptr_t)a + a_size;
}
""",
    """\
/* Memory for arguments and results that are not aligned: taken at the first of them, and kept. */
static int q_move(CONTEXT *c)
{
    if (c->moved) return 0;
    c->moved_block = malloc(Q_MOVED + ALIGNMENT);
    if (!c->moved_block) return 1;
    c->moved = q_align(c->moved_block);
    return 0;
}
""",
)
"""What functions call for arguments that are not as they should be; a function is written where one calls it."""


def program(model: Model) -> str:
    """The text of `model.c`."""
    kernels = sum(len(f.host["kernels"]) for f in model.functions)
    body: list[str] = []
    first = 0
    for f, offsets in zip(model.functions, model.weights.offsets, strict=True):
        body += function(model, f, offsets, first)
        first += len(f.host["kernels"])
    text = "\n".join(body)
    fills = "\n".join(_FILL.format(width=w, bits=8 * w) for w in (2, 4, 8) if f"q_fill{w}(" in text)
    helpers = "".join(f"{line}\n" for line in c_host.HELPERS.splitlines() if _called(line) in text)
    launch = (_THREADS if model.threads else _ALONE, _LAUNCH)
    words = {"CONTEXT": f"{model.name}_context", "UPPER": model.name.upper(), "ALIGNMENT": ALIGNMENT}
    parts = [
        _top(model, kernels),
        *(filled(x, words) for x in launch if kernels),
        helpers + fills,
        _contexts(model, kernels),
        *(filled(x, words) for x in _REFUSALS if _called(x) in text),
        text,
    ]
    return "\n".join(parts)


def _called(definition: str) -> str:
    """The beginning of a call of the function that is defined."""
    return re.findall(r"q_\w+\(", definition)[0]


def _top(model: Model, kernels: int) -> str:
    name, most = model.name, max(model.threads, 1)
    threads = ""
    fields = ""
    if model.threads:
        threads = "#include <pthread.h>\n#include <stdatomic.h>\n"
        fields = """
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
    pthread_t threads[Q_THREADS];
    q_thread_state states[Q_THREADS];
    atomic_uint turn, working;
    atomic_int stop, failed;
    _Atomic uint64_t next;
    uint64_t groups;
    unsigned started;
    q_kernel kernel;
    const q_dispatch *told;"""
    queries = "".join(
        f"extern const q_library *{f.symbol}_kernels_library_query(uint32_t, const q_environment *);\n"
        for f in model.functions
        if f.host["kernels"]
    )
    state = (
        f"\ntypedef struct {{ {name}_context *context; uint32_t number; }} q_thread_state;\n" if model.threads else ""
    )
    moved = max((_moved(f) for f in model.functions), default=0)
    return f"""\
/* {name}: written by quire {model.version} for {model.target}. See model.h. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
{threads}
#define Q_THREADS {most}
#define Q_SPIN 2000
#define Q_LOCAL {model.local}u
#define Q_ARENA {aligned(model.arena)}u /* the programs' own memory */
#define Q_MOVED {moved}u /* arguments and results that are not aligned */
#define Q_WEIGHTS {len(model.weights.data)}u
#define Q_IDENTITY UINT64_C({model.identity})

{_TYPES if kernels else ""}
{queries}{state}
struct {name}_context {{
    void *block; /* all memory of its own, but for what follows */
    void *moved_block;
    unsigned char *arena, *local, *moved;
    unsigned char *weights;
    char detail[128];{
        '''
    q_environment environment;
    q_kernel kernels['''
        + str(kernels)
        + "];"
        if kernels
        else ""
    }{fields}
}};

/* The first place that is a multiple of {ALIGNMENT}. */
static unsigned char *q_align(void *place)
{{
    unsigned char *p = place;
    return p + ({ALIGNMENT} - (uintptr_t)p % {ALIGNMENT}) % {ALIGNMENT};
}}
"""


def _moved(f: Function) -> int:
    """The bytes for all arguments and results of a function."""
    return sum(aligned(x.nbytes) for x in (*f.arguments, *(f.results[i] for i in f.own_results())))


def _contexts(model: Model, kernels: int) -> str:
    name, upper = model.name, model.name.upper()
    small = len(model.weights.data) <= SMALL
    own = ""
    if small and model.weights.data:
        rows = [
            ", ".join(map(str, model.weights.data[i : i + 24])) + "," for i in range(0, len(model.weights.data), 24)
        ]
        own = "static const unsigned char q_weights[Q_WEIGHTS] = {\n" + "\n".join(rows) + "\n};\n"
    find, number = "", 0
    for f in model.functions:
        told = f.host["kernels"]
        if told:
            listed = ", ".join(f'{{"{k["name"]}", {number + i}}}' for i, k in enumerate(told))
            find += f"""
    {{
        static const q_wanted wanted[] = {{{listed}}};
        if (q_find(c, {f.symbol}_kernels_library_query, wanted, sizeof wanted / sizeof *wanted)) goto wrong;
    }}"""
            number += len(told)
    finder = f"""
typedef struct {{ const char *name; int number; }} q_wanted;

/* The addresses of kernels, by their names. */
static int q_find({name}_context *c, q_query query, const q_wanted *wanted, size_t count)
{{
    const q_library *library = query(6, &c->environment);
    if (!library || library->header->version != 6 || library->imports.count) return 1;
    for (size_t i = 0; i < count; i++) {{
        uint32_t k = 0;
        while (k < library->exports.count && strcmp(library->exports.names[k], wanted[i].name)) k++;
        if (k == library->exports.count || library->exports.attributes[k].local_pages * {PAGE}u > Q_LOCAL) return 1;
        c->kernels[wanted[i].number] = library->exports.kernels[k];
    }}
    return 0;
}}
"""
    start = stop = ""
    if model.threads:
        start = f"""
    if (pthread_mutex_init(&c->lock, NULL) || pthread_cond_init(&c->begin, NULL) || pthread_cond_init(&c->end, NULL)) {{
        free(c->block);
        free(c);
        return {upper}_THREAD;
    }}
    for (uint32_t i = 1; i < Q_THREADS; i++) {{
        c->states[i].context = c, c->states[i].number = i;
        if (pthread_create(&c->threads[i], NULL, q_thread, &c->states[i])) {{
            {name}_destroy(c);
            return {upper}_THREAD;
        }}
        c->started++;
    }}"""
        stop = """
    atomic_store(&context->stop, 1);
    q_turn(context);
    for (uint32_t i = 1; i <= context->started; i++) pthread_join(context->threads[i], NULL);
    pthread_cond_destroy(&context->end);
    pthread_cond_destroy(&context->begin);
    pthread_mutex_destroy(&context->lock);"""
    wrong = (
        f"""
wrong:
    free(c->block);
    free(c);
    return {upper}_LIBRARY;"""
        if kernels
        else ""
    )
    cases = "\n".join(f'    case {upper}_{code}: return "{meaning}";' for code, meaning in CODES)
    if small:
        create = f"""\
int {name}_create({name}_context **context, const char *weights)
{{
    (void)weights;
    return q_create(context, {"q_weights" if model.weights.data else "NULL"}, Q_WEIGHTS);
}}
"""
    else:
        create = f"""\
int {name}_create({name}_context **context, const char *weights)
{{
    if (!context) return {upper}_NULL;
    *context = NULL;
    if (!weights) return {upper}_NULL;
    FILE *file = fopen(weights, "rb");
    if (!file) return {upper}_FILE;
    uint64_t head[8];
    int code = {upper}_OK;
    if (fread(head, 1, sizeof head, file) != sizeof head) {{
        code = {upper}_FILE;
    }} else if (memcmp(head, "{MAGIC.decode()}", 8) || head[1] != Q_WEIGHTS || head[2] != Q_IDENTITY) {{
        code = {upper}_WEIGHTS;
    }} else {{
        code = q_create(context, NULL, Q_WEIGHTS);
        if (!code && fread((*context)->weights, 1, Q_WEIGHTS, file) != Q_WEIGHTS) {{
            {name}_destroy(*context);
            *context = NULL;
            code = {upper}_FILE;
        }}
    }}
    fclose(file);
    return code;
}}
"""
    return f"""\
{own}{finder if kernels else ""}
/* A context whose weights are `borrowed`, or else `weight_bytes` of its own that begin with `copied`. */
static int q_new({
        name
    }_context **context, const unsigned char *borrowed, const unsigned char *copied, size_t weight_bytes)
{{
    if (!context) return {upper}_NULL;
    *context = NULL;
    {name}_context *c = calloc(1, sizeof *c);
    if (!c) return {upper}_MEMORY;
    if (borrowed) weight_bytes = 0;
    c->block = malloc(Q_ARENA + (size_t)Q_LOCAL * Q_THREADS + weight_bytes + {ALIGNMENT});
    if (!c->block) {{
        free(c);
        return {upper}_MEMORY;
    }}
    c->arena = q_align(c->block);
    c->local = c->arena + Q_ARENA;
    c->weights = borrowed ? (unsigned char *)(uintptr_t)borrowed : c->local + (size_t)Q_LOCAL * Q_THREADS;
    if (copied) memcpy(c->weights, copied, weight_bytes);{find}{start}
    *context = c;
    return {upper}_OK;{wrong}
}}

static int q_create({name}_context **context, const unsigned char *copied, size_t weight_bytes)
{{
    return q_new(context, NULL, copied, weight_bytes);
}}

{create}
int {name}_create_from_memory({name}_context **context, const void *weights, size_t size)
{{
    {"" if small else "uint64_t head[8];"}
    {
        "(void)weights, (void)size;"
        if small
        else f'''if (!context || !weights) return {upper}_NULL;
    if (size < sizeof head + Q_WEIGHTS) return {upper}_WEIGHTS;
    memcpy(head, weights, sizeof head);
    if (memcmp(head, "{MAGIC.decode()}", 8) || head[1] != Q_WEIGHTS || head[2] != Q_IDENTITY) return {upper}_WEIGHTS;
    const unsigned char *data = (const unsigned char *)weights + sizeof head;
    return (uintptr_t)data % {ALIGNMENT} ? q_create(context, data, Q_WEIGHTS) : q_new(context, data, NULL, 0);'''
    }
    {f"return {name}_create(context, NULL);" if small else ""}
}}

int {name}_create_of({name}_context **context, const {name}_context *of)
{{
    return of ? q_new(context, of->weights, NULL, 0) : {upper}_NULL;
}}

void {name}_destroy({name}_context *context)
{{
    if (!context) return;{stop}
    free(context->moved_block);
    free(context->block);
    free(context);
}}

const char *{name}_message(int code)
{{
    switch (code) {{
{cases}
    }}
    return "no code of this model";
}}

const char *{name}_detail(const {name}_context *context)
{{
    return context ? context->detail : "";
}}
"""


def weights_file(model: Model) -> bytes:
    """The bytes of `weights.bin`."""
    head = MAGIC + len(model.weights.data).to_bytes(8, "little") + model.identity.to_bytes(8, "little")
    return head.ljust(64, b"\0") + model.weights.data
