"""What watches programs, or is told of them: checks, callbacks, the debugger, reports, spans of time, tracebacks."""
