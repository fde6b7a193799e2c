"""The way of a call: from a function and its arguments to the program that answers it. A file a step:

call (`compiled_function`) -> recognise (`recognition`, `arguments`) -> on a miss: trace (`tracing`) -> what is asked for, and
its key (`request`) -> the cache (`compiler`) -> optimise and lower (`lowering`) -> compile (`building`) -> load (`loading`) ->
run (`running`). Each step hands one record to the next. `aot` has the steps for users, and a miss takes these.

Beside the way: the functions that make compiled functions (`api`), which variants there are and why (`variants`), the first
calls of a tiered function (`interim`), the texts of the stages (`stage_texts`), what becomes of memory (`donation`,
`memory_analysis`), whether results are right (`result_checks`), the compiler's early start (`compiler_start`).
"""
