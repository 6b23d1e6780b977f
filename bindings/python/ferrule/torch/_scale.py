"""The loss scale of automatic mixed precision, as the residuals need it.

Gradients arrive multiplied by the loss scale, and so do residuals. When the scale changes by a factor, the residuals are
multiplied by it (a power of two with torch's scaler: exact).
"""

import math
from collections.abc import Callable
from typing import Any

from ferrule._errors import FerruleError


class LossScale:
    """`source` is a GradScaler (anything with get_scale()), or a function that returns the scale; None: no scaling."""

    def __init__(self, source: Any = None):
        self._read: Callable[[], float] | None = None
        self.value = 1.0
        if source is not None:
            self.follow(source)

    def follow(self, source: Any) -> None:
        """From now on the scale comes from here; None: it stays as it is."""
        read = getattr(source, "get_scale", source)
        if source is not None and not callable(read):
            raise TypeError(f"a scaler has get_scale(), or is a function; {type(source).__name__} is neither")
        self._read = read

    @property
    def is_followed(self) -> bool:
        return self._read is not None

    def update(self) -> float:
        """Reads the scale; returns the factor by which it has changed."""
        if self._read is None:
            return 1.0
        value = float(self._read())
        if not (math.isfinite(value) and value > 0):
            raise FerruleError(f"the loss scale is {value}; it must be finite and above zero", "invalid_argument")
        factor = value / self.value
        self.value = value
        return factor
