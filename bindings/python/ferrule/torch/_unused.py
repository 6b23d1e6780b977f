"""Parameters that no rank used in a step: torch leaves their gradient as it is (None), so nothing of their residual may
be delivered to it.

Whether others used a parameter is known only afterwards. So each rank tells, in a tiny exact all-reduce beside the data,
which gradients it put in that are not zero; where all were zero the residual goes back to what it was and the result is
zero. The ledger holds: nothing went in, nothing came out, nothing has changed.
"""

import torch

from ferrule.torch._layout import Layout, Part, Piece


class UsedFlags:
    """One bucket's flags: a byte for each parameter that is compressed."""

    def __init__(self, bucket: torch.Tensor, layout: Layout):
        self._owners: list[tuple[Part, int, Piece]] = [
            (part, i, piece)
            for part in layout.parts
            if part.unit.residual is not None
            for i, piece in enumerate(part.unit.pieces)
        ]
        used = [bool(part.views(bucket)[i].any()) for part, i, _ in self._owners]
        for part in {id(part): part for (part, _, _), seen in zip(self._owners, used) if not seen}.values():
            part.unit.keep()
        self.flags = torch.tensor(used, dtype=torch.uint8)

    @torch.no_grad()
    def settle(self, bucket: torch.Tensor) -> None:
        """After the reductions: where nobody used a parameter, nothing has happened to it."""
        for (part, i, piece), used in zip(self._owners, self.flags.tolist()):
            if not used:
                part.unit.roll_back(piece)
                part.views(bucket)[i].zero_()
