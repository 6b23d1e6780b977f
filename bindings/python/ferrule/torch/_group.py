"""A communicator over the ranks of a torch process group, met through torch's own store."""

import collections

import torch.distributed as dist
from torch.distributed import distributed_c10d

from ferrule._ferrule import Communicator

# Communicators made so far for each group; every rank of a group makes them in the same order, so that their names agree.
_made: collections.Counter = collections.Counter()


def communicator_of(process_group, **config) -> Communicator:
    """A new communicator. Blocks until all ranks of the group have called it."""
    group_name = getattr(process_group, "group_name", "default")
    name = f"ferrule/{group_name}/{_made[group_name]}"
    _made[group_name] += 1
    return Communicator.from_store(
        distributed_c10d._get_default_store(),
        dist.get_rank(process_group),
        dist.get_world_size(process_group),
        name,
        **config,
    )
