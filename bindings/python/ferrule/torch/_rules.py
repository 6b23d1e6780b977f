"""Which codec each parameter's gradient takes."""

import dataclasses
import fnmatch
from collections.abc import Mapping

import torch

from ferrule._errors import FerruleError
from ferrule._ferrule import Codec

EXACT = "none"
_LOSSY_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def canonical(codec: str) -> str:
    """A codec's text with all of its parameters, and its "auto:" if it has one. Raises for a text that is none."""
    inner = codec.removeprefix("auto:")
    return codec[: len(codec) - len(inner)] + Codec(inner).spec


def is_exact(spec: str) -> bool:
    """Also of a list for several levels, such as none/none."""
    return all(level.partition(":")[0] == EXACT for level in spec.removeprefix("auto:").split("/"))


@dataclasses.dataclass(frozen=True)
class Rules:
    """`default` for large matrices; `patterns` (the first that fits a parameter's name) before that; else exact."""

    default: str
    min_elements: int
    patterns: tuple[tuple[str, str], ...] = ()

    @classmethod
    def make(cls, codec: str, min_elements: int, rules: Mapping[str, str] | None) -> "Rules":
        patterns = tuple((pattern, canonical(spec)) for pattern, spec in (rules or {}).items())
        return cls(canonical(codec), min_elements, patterns)

    def codec_of(self, name: str, parameter: torch.Tensor, dtype: torch.dtype) -> str:
        """The codec of a gradient of this dtype; EXACT for one that is not compressed."""
        spec = self._pattern_codec(name)
        if spec is None:
            large = parameter.dim() > 1 and parameter.numel() >= self.min_elements
            lossy = large and dtype in _LOSSY_DTYPES and not parameter.is_complex()
            spec = self.default if lossy else EXACT
        return EXACT if is_exact(spec) else spec

    def check(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """A pattern without a parameter, or for one that cannot be compressed, is a mistake that nobody would notice."""
        for pattern, spec in self.patterns:
            if not any(fnmatch.fnmatchcase(name, pattern) for name in parameters):
                raise FerruleError(
                    f"no parameter is called like '{pattern}' (in rules); there are {', '.join(list(parameters)[:8])}"
                    f"{' ...' if len(parameters) > 8 else ''}",
                    "invalid_argument",
                )
        for name, parameter in parameters.items():
            spec = self._pattern_codec(name)
            if spec is not None and not is_exact(spec) and parameter.dtype not in _LOSSY_DTYPES:
                raise FerruleError(
                    f"rules ask for '{spec}' for '{name}', which is {parameter.dtype}; only float32, float16 and "
                    "bfloat16 are compressed: give 'none' for it in an earlier rule",
                    "unsupported",
                )

    def _pattern_codec(self, name: str) -> str | None:
        return next((spec for pattern, spec in self.patterns if fnmatch.fnmatchcase(name, pattern)), None)
