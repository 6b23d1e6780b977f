"""Parameter averaging beside compressed gradients."""

import torch

from ferrule._ferrule import Communicator
from ferrule.torch import _registry
from ferrule.torch._group import communicator_of


@torch.no_grad()
def average_parameters(ddp_model: torch.nn.Module) -> None:
    """Replaces all floating parameters and buffers by their exact mean over the ranks; then ranks hold the same bits.

    For loops in which ranks go separate ways for a while: periodic averaging, local SGD after a warm-up. All ranks
    call it at the same place. One all-reduce for each dtype.
    """
    reducer = _registry.reducer_of(ddp_model, "average_parameters()")
    if reducer is not None:
        _average(ddp_model.module, reducer.communicator)
        return
    with communicator_of(ddp_model.process_group) as communicator:
        _average(ddp_model.module, communicator)


def _average(module: torch.nn.Module, communicator: Communicator) -> None:
    by_dtype: dict[torch.dtype, list[torch.Tensor]] = {}
    for tensor in [*module.parameters(), *module.buffers()]:
        if tensor.is_floating_point():
            by_dtype.setdefault(tensor.dtype, []).append(tensor.detach())
    for tensors in by_dtype.values():
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        communicator.all_reduce(flat, op="avg", codec="none")
        for tensor, mean in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
            tensor.copy_(mean.view(tensor.shape))
