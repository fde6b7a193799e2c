"""Programs whose data structures are arrays that change in loops: queues, heaps, stacks, automata, two equal buffers."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

N = 12


def programs(xp: Any) -> list[Program]:
    np, lax = xp.numpy, xp.lax

    def two_equal_buffers(x):
        """Both begin as zeros; one gets the values, one their squares in reverse."""

        def body(i, c):
            a, b, seen = c
            return a.at[i].set(x[i]), b.at[N - 1 - i].set(x[i] ** 2), seen.at[i].set(a[i - 1] + b[N - i])

        return lax.fori_loop(0, N, body, (np.zeros(N), np.zeros(N), np.zeros(N)))

    def partition(x, pivot):
        """Small values to one buffer, the others to another, with a count each; the order is kept."""

        def body(c, value):
            small, large, n, m = c
            less = value < pivot
            small = np.where(less, small.at[n].set(value), small)
            large = np.where(less, large, large.at[m].set(value))
            return (small, large, n + less, m + ~less), (n, small)

        return lax.scan(body, (np.zeros(N), np.zeros(N), 0, 0), x)

    def heap_sort(x):
        """A binary heap in an array: sift up as values come, sift down as they leave."""

        def swap(h, i, j):
            a, b = h[i], h[j]
            return h.at[i].set(b).at[j].set(a)

        def push(n, h):
            h = h.at[n].set(x[n])

            def above(c):
                h, i = c
                return (i > 0) & (h[(i - 1) // 2] > h[i])

            return lax.while_loop(above, lambda c: (swap(c[0], c[1], (c[1] - 1) // 2), (c[1] - 1) // 2), (h, n))[0]

        def pop(k, c):
            h, out = c
            size = N - 1 - k
            out = out.at[k].set(h[0])
            h = h.at[0].set(h[size]).at[size].set(np.inf)

            def least(h, i):
                l, r = np.minimum(2 * i + 1, N), np.minimum(2 * i + 2, N)
                v = h.at[np.stack([l, r])].get(mode="fill", fill_value=np.inf)
                return np.where(v[0] <= v[1], l, r), np.minimum(v[0], v[1])

            def below(c):
                h, i = c
                return least(h, i)[1] < h[i]

            def down(c):
                h, i = c
                j = least(h, i)[0]
                return swap(h, i, j), j

            return lax.while_loop(below, down, (h, 0))[0], out

        heap = lax.fori_loop(0, N, push, np.full(N, np.inf))
        empty, sorted_ = lax.fori_loop(0, N, pop, (heap, np.zeros(N)))
        return heap, sorted_, empty

    def breadth_first(walls):
        """Distances in a maze, by a queue in an array with head and tail."""
        size = walls.shape[0]
        moves = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])

        def body(c):
            queue, head, tail, distance = c
            here = queue[head]

            def look(k, c):
                queue, tail, distance = c
                there = here + moves[k]
                inside = np.all((there >= 0) & (there < size))
                y, x = np.clip(there, 0, size - 1)
                new = inside & ~walls[y, x] & (distance[y, x] < 0)
                queue = np.where(new, queue.at[tail].set(there), queue)
                distance = np.where(new, distance.at[y, x].set(distance[here[0], here[1]] + 1), distance)
                return queue, tail + new, distance

            queue, tail, distance = lax.fori_loop(0, 4, look, (queue, tail, distance))
            return queue, head + 1, tail, distance

        queue = np.zeros((size * size, 2), "int32")
        distance = np.full(walls.shape, -1).at[0, 0].set(0)
        queue, head, tail, distance = lax.while_loop(lambda c: c[1] < c[2], body, (queue, 0, 1, distance))
        return distance, tail, queue

    def sandpile(grid):
        """Abelian sandpile: grains fall to neighbours until all is stable; generations of the last state."""

        def body(c):
            g, before, n = c
            falls = (g >= 4).astype("int32")
            p = np.pad(falls, 1)
            new = g - 4 * falls + p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
            return new, g, n + 1

        return lax.while_loop(lambda c: np.any(c[0] >= 4) & (c[2] < 60), body, (grid, np.zeros_like(grid), 0))

    def life(grid, steps=6):
        """Conway's game, the last three generations in a ring."""

        def body(t, ring):
            g = ring[t % 3]
            n = sum(
                np.roll(g, s, (0, 1)) for s in ((0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))
            )
            return ring.at[(t + 1) % 3].set(((n == 3) | ((g == 1) & (n == 2))).astype(g.dtype))

        return lax.fori_loop(0, steps, body, np.zeros((3, *grid.shape), grid.dtype).at[0].set(grid))

    def stack_machine(code, values):
        """A program in reverse Polish notation, run on a stack; every state of the stack is kept."""

        def body(c, instruction):
            stack, top = c
            kind, operand = instruction
            a, b = stack[top - 1], stack[np.maximum(top - 2, 0)]
            branches = (
                lambda _: (stack.at[top].set(values[operand]), top + 1),
                lambda _: (stack.at[top - 2].set(b + a), top - 1),
                lambda _: (stack.at[top - 2].set(b * a), top - 1),
                lambda _: (stack.at[top - 1].set(np.sin(a)), top),
                lambda _: (stack.at[top - 2].set(a).at[top - 1].set(b), top),
            )
            new = lax.switch(kind, branches, None)
            return new, stack

        (stack, top), states = lax.scan(body, (np.zeros(6), 0), code)
        return stack[0], (states, top)

    def shifts(x):
        """Values moved within one array, old and new returned together."""
        v = np.sin(x)
        right = v.at[1:].set(v[:-1])
        doubled = v.at[::2].add(v[1::2])
        turned = v.at[2:].set(v[2:][::-1])
        spread = v.at[1:].add(v[:-1])
        picked = v.at[np.array([0, 3, 5])].set(v[np.array([5, 0, 3])])
        window = lax.dynamic_update_slice(v, lax.dynamic_slice(v, (2,), (6,)), (4,))
        return v, np.cumsum(v), right, doubled, turned, spread, picked, window, v.at[:3].set(0.0), v

    def shifted_loss(x):
        v = np.sin(x)
        right = v.at[1:].set(v[:-1])
        return np.sum(right * v[::-1]) + np.sum(right.at[2:].add(right[:-2]) ** 2)

    def insertion(x):
        """Insertion sort: the tail moves by one place within the array; how far each value went."""

        def body(i, c):
            a, moved = c
            value = a[i]
            place = np.sum(np.where(np.arange(N) < i, a <= value, False))
            shifted = a.at[1:].set(a[:-1])
            a = np.where((np.arange(N) > place) & (np.arange(N) <= i), shifted, a).at[place].set(value)
            return a, moved.at[i].set(i - place)

        return lax.fori_loop(1, N, body, (x, np.zeros(N, "int32")))

    rng = onp.random.default_rng(20)
    x = rng.standard_normal(N).astype(onp.float32)
    walls = rng.uniform(size=(7, 7)) < 0.25
    walls[0, 0] = False
    grid = rng.integers(0, 7, (8, 8)).astype(onp.int32)
    code = (onp.array([0, 0, 2, 0, 4, 3, 1, 3], onp.int32), onp.array([0, 1, 0, 2, 0, 0, 0, 0], onp.int32))
    return [
        Program("two equal buffers", two_equal_buffers, (x,)),
        Program("its gradient", xp.grad(lambda x: sum(np.sum(o**2) for o in two_equal_buffers(x))), (x,)),
        Program("partition", partition, (x, onp.float32(0.1))),
        Program("heap", heap_sort, (x,)),
        Program("maze", breadth_first, (walls,)),
        Program("mazes", xp.vmap(breadth_first), (onp.stack([walls, walls.T]),)),
        Program("sandpile", sandpile, (grid,)),
        Program("life", life, ((grid > 4).astype(onp.int32),)),
        Program("stack machine", xp.value_and_grad(stack_machine, 1, has_aux=True), (code, x[:3])),
        Program("shifts", lambda x: (shifts(x), xp.grad(shifted_loss)(x)), (x,)),
        Program("insertion sort", insertion, (x,)),
        Program("insertion sorts", xp.vmap(insertion), (onp.stack([x, -x, x[::-1]]),)),
    ]


def test_buffers_in_loops():
    check(programs)
