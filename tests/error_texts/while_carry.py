"""A while loop whose body returns another tree."""

from quire import lax

lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1], c[1]), (0, 1.0))

#| TypeError: while_loop: body_fun <lambda> must return a carry of the structure it takes.
#|   the carry it takes:   (*, *)
#|   the carry it returns: (*, *, *)
