"""A name that a module does not have: the error suggests the nearest."""

import pytest

import quire


@pytest.mark.parametrize(
    ("module", "name", "near"),
    [
        (quire, "value_and_grads", "quire.value_and_grad"),
        (quire.numpy, "concatanate", "quire.numpy.concatenate"),
        (quire.lax, "dynamic_slise", "quire.lax.dynamic_slice"),
    ],
)
def test_the_nearest_name_is_suggested(module, name, near):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; did you mean {near}?"):
        getattr(module, name)
    assert not hasattr(module, "something_quite_different")
