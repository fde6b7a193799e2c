"""Quantum circuits: states of qubits, the ground state of a chain of spins by variation, evolution in time, measurements."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

QUBITS, LAYERS = 4, 2


def programs(xp: Any) -> list[Program]:
    np, lax = xp.numpy, xp.lax

    def applied(state, gate, qubit):
        """A gate of one qubit; the state's bits are counted from the left."""
        s = state.reshape(2**qubit, 2, -1)
        return np.einsum("ab,xby->xay", gate, s).reshape(-1)

    def controlled(state, control, target):
        """A controlled not: the target's halves change places where the control is set."""
        s = state.reshape((2,) * QUBITS)
        set_ = lax.index_in_dim(s, 1, control, keepdims=True)
        return lax.dynamic_update_slice_in_dim(s, np.flip(set_, target), 1, control).reshape(-1)

    def rotation_y(angle):
        c, s = np.cos(angle / 2), np.sin(angle / 2)
        return np.array([[c, -s], [s, c]]).astype(np.complex64)

    def rotation_z(angle):
        return np.diag(np.exp(0.5j * angle * np.array([-1, 1])))

    def prepared(angles):
        """Layers of rotations, and of controlled nots around the ring; each layer is a step of a scan."""

        def layer(state, angle):
            for q in range(QUBITS):
                state = applied(state, rotation_z(angle[1, q]) @ rotation_y(angle[0, q]), q)
            for q in range(QUBITS):
                state = controlled(state, q, (q + 1) % QUBITS)
            return state, np.abs(state[0]) ** 2

        zero = np.zeros(2**QUBITS, np.complex64).at[0].set(1)
        return lax.scan(layer, zero, angles)

    def signs(qubit):
        """Of the Pauli matrix Z of a qubit."""
        bits = (np.arange(2**QUBITS) >> (QUBITS - 1 - qubit)) & 1
        return 1 - 2 * bits.astype(np.int8)

    def flipped(state, qubit):
        return state.reshape(2**qubit, 2, -1)[:, ::-1].reshape(-1)

    def energy(state, field):
        """Of a ring of spins that like to be parallel, in a field across."""
        chances = np.abs(state) ** 2
        bonds = sum(signs(q) * signs((q + 1) % QUBITS) for q in range(QUBITS))
        across = sum(np.vdot(state, flipped(state, q)).real for q in range(QUBITS))
        return -np.sum(bonds * chances) - field * across

    def variation(angles, field):
        def value(a):
            return energy(prepared(a)[0], field)

        found, gradient = xp.value_and_grad(value)(angles)
        return angles - 0.1 * gradient, found

    def evolved(state, field, time):
        """Trotter's steps in a place that is written to; the magnetisation after each."""
        place = xp.new_ref(state)
        dt = time / 8
        turn = np.array([[np.cos(dt * field), 1j * np.sin(dt * field)], [1j * np.sin(dt * field), np.cos(dt * field)]])
        bonds = sum(signs(q) * signs((q + 1) % QUBITS) for q in range(QUBITS))

        def step(_, i):
            place[...] = place[...] * np.exp(1j * dt * bonds)
            for q in range(QUBITS):
                place[...] = applied(place[...], turn.astype(np.complex64), q)
            return None, np.sum(signs(0) * np.abs(place[...]) ** 2)

        _, seen = lax.scan(step, None, np.arange(8))
        return xp.freeze(place), seen

    def echo(field, state):
        """How well the state comes back when the field is turned around, and its derivative by the field."""

        def back(h):
            return np.abs(np.vdot(state, evolved(evolved(state, h, 0.9)[0], -h, 0.9)[0])) ** 2

        return xp.value_and_grad(back)(field)

    def reduced(state):
        """The density matrix of two qubits, its purity, and shots of measurements."""
        m = state.reshape(4, 4)
        rho = m @ m.conj().T
        shots = xp.random.categorical(xp.random.key(3), np.log(np.abs(state) ** 2 + 1e-9), shape=(64,))
        counts = np.bincount(shots, length=2**QUBITS).astype(np.uint8)
        return rho, np.trace(rho @ rho).real, np.linalg.eigvalsh(rho), counts

    rng = onp.random.default_rng(9)
    angles = rng.uniform(-1, 1, (LAYERS, 2, QUBITS)).astype(onp.float32)
    state = rng.standard_normal(2**QUBITS) + 1j * rng.standard_normal(2**QUBITS)
    state = (state / onp.linalg.norm(state)).astype(onp.complex64)
    field = onp.float32(0.7)
    return [
        Program("prepared", prepared, (angles,), rtol=5e-6),
        Program("variation", variation, (angles, field), rtol=5e-5, step=True),
        Program("evolved", evolved, (state, field, onp.float32(0.8)), rtol=1e-5),
        Program("echo", echo, (field, state), rtol=5e-5, reference=False),
        Program("reduced", reduced, (state,), rtol=2e-5),
    ]


def test_quantum_circuits():
    check(programs)
