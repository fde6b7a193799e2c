"""orbax: a training state with optax's schedule saved and restored by a CheckpointManager and a StandardCheckpointer"""

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp

optimizer = optax.adamw(optax.cosine_decay_schedule(0.1, 10))


@jax.jit
def step(state):
    grads = jax.grad(lambda p: jnp.sum((p["w"] @ p["w"].T - jnp.eye(3)) ** 2) + jnp.sum(p["b"] ** 2))(state["params"])
    updates, opt = optimizer.update(grads, state["opt"], state["params"])
    return {"params": optax.apply_updates(state["params"], updates), "opt": opt, "step": state["step"] + 1}


def main():
    params = {"w": jnp.asarray(np.arange(12).reshape(3, 4) / 10, jnp.float32), "b": jnp.ones(2)}
    state = {"params": params, "opt": optimizer.init(params), "step": 0}
    with tempfile.TemporaryDirectory() as folder:
        with ocp.CheckpointManager(
            Path(folder) / "run", options=ocp.CheckpointManagerOptions(max_to_keep=2)
        ) as manager:
            for i in range(4):
                state = step(state)
                manager.save(i, args=ocp.args.StandardSave(state))
            manager.wait_until_finished()
            kept = manager.all_steps()
            restored = manager.restore(
                2, args=ocp.args.StandardRestore(jax.tree.map(ocp.utils.to_shape_dtype_struct, state))
            )
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(Path(folder) / "single", state)
            checkpointer.wait_until_finished()
            single = checkpointer.restore(Path(folder) / "single", state)
    again = step(restored)
    return {"kept": kept, "restored": restored["params"]["w"], "again": again["params"]["w"], "now": state["params"]["w"],
            "single": single["params"]["w"], "count": restored["opt"][0].count}  # fmt: skip
