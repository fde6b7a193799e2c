"""A pass that does not exist is asked for in a compile call."""

import quire

quire.compile(lambda x: x, passes="default,hoits")

#| quire.ir.errors.PassError: no pass is named 'hoits'; did you mean 'hoist'?
