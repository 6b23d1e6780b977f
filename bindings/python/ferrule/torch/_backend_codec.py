"""Which collectives of the backend are compressed: none, until somebody asks."""

import torch
import torch.distributed as dist

from ferrule._ferrule import Codec

# By name of the process group; "" is the default of all of them.
_chosen: dict[str, tuple[str, int]] = {}


def set_codec(codec: str | None, *, group=None, min_bytes: int = 1 << 16) -> None:
    """Lets the backend "ferrule" compress sums. Call it alike on all ranks of the group.

    codec: such as "int4" or "int8:block=256"; "none" is exact; None takes the choice back, and FERRULE_CODEC is in effect
        again.
    group: of which process group; None: of all that have none of their own.
    min_bytes: smaller tensors stay exact.

    Only all-reduces and reduce-scatters with SUM or AVG of float32, float16 and bfloat16 are ever compressed. Integers,
    float64, other operations, broadcasts and gathers stay exact.
    """
    name = "" if group is None else _name_of(group)
    if codec is None:
        _chosen.pop(name, None)
        return
    automatic, inner = codec.startswith("auto:"), codec.removeprefix("auto:")
    _chosen[name] = (("auto:" if automatic else "") + Codec(inner).spec, min_bytes)


def codec_of(group_name: str, flat: torch.Tensor, op: str) -> str | None:
    """The codec of one sum, None: the communicator's default, which FERRULE_CODEC sets."""
    chosen = _chosen.get(group_name) or _chosen.get("")
    if chosen is None:
        return None
    codec, min_bytes = chosen
    compressible = flat.dtype in (torch.float32, torch.float16, torch.bfloat16) and op in ("sum", "avg")
    return codec if compressible and flat.numel() * flat.element_size() >= min_bytes else "none"


def _name_of(group) -> str:
    return getattr(group, "group_name", None) or dist.distributed_c10d._get_process_group_name(group)
