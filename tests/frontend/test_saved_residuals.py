"""ad_checkpoint.print_saved_residuals: what a derivative keeps, and where it comes from."""

import quire
import quire.numpy as qnp


def test_residuals_and_their_origins(capsys):
    w = qnp.ones((3, 4))

    def f(x, scale=2.0):
        return qnp.sum(qnp.sin(x @ w) * scale)

    quire.ad_checkpoint.print_saved_residuals(f, qnp.ones((2, 3)), scale=3.0)
    lines = capsys.readouterr().out.splitlines()
    assert any("output of cos" in line and "test_saved_residuals.py:" in line for line in lines)
    assert any(line == "f32[3,4] from a constant" for line in lines)
    quire.ad_checkpoint.print_saved_residuals(quire.checkpoint(f), qnp.ones((2, 3)))
    assert "output of" not in capsys.readouterr().out
