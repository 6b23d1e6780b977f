"""What torch's holder of a work written in Python does not pass on.

torch 2.15 hands such a work to the program inside a holder of its own, which passes on wait() and get_future() alone: is_completed()
is never true, and the source of a receive from any rank is an error. Both can be known through the future, so torch's Work is taught
to ask that. Only works whose kind torch does not know are looked at; those of other backends go their own way.
"""

import collections
import functools
import threading

import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

_KEPT = 4096
_sources: "collections.OrderedDict[int, int]" = collections.OrderedDict()  # by address of the tensor received into
_lock = threading.Lock()


def note_source(tensor, rank: int) -> None:
    """A receive into this tensor has ended."""
    with _lock:
        _sources[tensor.data_ptr()] = rank
        _sources.move_to_end(tensor.data_ptr())
        if len(_sources) > _KEPT:
            _sources.popitem(last=False)


def _is_held(work) -> bool:
    return work._get_op_type() == int(c10d.OpType.UNKNOWN)


def _teach(name, ask_future):
    original = getattr(dist.Work, name)

    @functools.wraps(original)
    def method(self):
        return ask_future(self.get_future()) if type(self) is dist.Work and _is_held(self) else original(self)

    setattr(dist.Work, name, method)


def _source(future) -> int:
    received = future.wait()[0]
    with _lock:
        return _sources[received.data_ptr()]


def _is_well(future) -> bool:
    try:
        future.value()
    except RuntimeError:
        return False
    return future.done()


def teach_torch() -> None:
    """Once, when the backend is registered."""
    if getattr(dist.Work, "_ferrule_taught", False) or not hasattr(dist.Work, "_get_op_type"):
        return
    _teach("is_completed", lambda future: future.done())
    _teach("is_success", _is_well)
    _teach("result", lambda future: future.value())
    for name in ("source_rank", "_source_rank"):
        _teach(name, _source)
    dist.Work._ferrule_taught = True
