"""Collection is put off inside, in all threads, and is afterwards as it was."""

import gc
import threading

import pytest

from quire.ir.collection import collection_put_off


@pytest.fixture(autouse=True)
def restored():
    enabled = gc.isenabled()
    yield
    (gc.enable if enabled else gc.disable)()


@pytest.mark.parametrize("enabled", [True, False])
def test_it_is_restored_after_nested_blocks_and_after_errors(enabled):
    (gc.enable if enabled else gc.disable)()
    with pytest.raises(ZeroDivisionError), collection_put_off():
        with collection_put_off():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ZeroDivisionError
    assert gc.isenabled() == enabled


def test_the_last_of_several_threads_restores_it():
    gc.enable()
    inside, go_on = threading.Event(), threading.Event()

    def other():
        with collection_put_off():
            inside.set()
            go_on.wait(10)

    thread = threading.Thread(target=other)
    with collection_put_off():
        thread.start()
        assert inside.wait(10)
    assert not gc.isenabled()
    go_on.set()
    thread.join()
    assert gc.isenabled()
