"""Tensors of torch's, as arrays that the native collectives take: flat, contiguous, in host memory."""

import torch

# Element types that the native library adds up, and what stands in for the others: the same numbers, wider.
_NATIVE = {
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int32,
    torch.int64,
    torch.uint8,
}
_WIDER = {torch.int8: torch.int32, torch.int16: torch.int32}
for _name in ("uint16", "uint32", "uint64"):
    if hasattr(torch, _name):
        _WIDER[getattr(torch, _name)] = torch.int64


class Buffer:
    """A flat array for the native library, and the tensor that it came from. Where the tensor is strided, on a device or of
    another type, the array is a copy: store() puts it back."""

    def __init__(self, tensor, flat):
        self.tensor = tensor
        self.flat = flat
        self._shape = None

    def store(self):
        """Puts a result that was made in the array into the tensor."""
        if not self.is_view():
            self.tensor.copy_(self.as_tensor())

    def is_view(self):
        return self.flat.data_ptr() == self.tensor.data_ptr() and self.tensor.device.type == "cpu"

    def as_tensor(self):
        """The array with the tensor's shape and element type."""
        flat = self.flat
        if flat.dtype != self.tensor.dtype:
            same_size = flat.element_size() * flat.numel() == self.tensor.element_size() * self.tensor.numel()
            if self.tensor.is_complex() or (flat.dtype == torch.uint8 and same_size):
                flat = flat.view(self.tensor.dtype)
            else:
                flat = flat.to(self.tensor.dtype)
        return flat.view(self.tensor.shape)


def _contiguous(tensor):
    if tensor.is_sparse or tensor.layout != torch.strided:
        raise RuntimeError(f"ferrule: tensors must be dense, and this one has layout {tensor.layout}")
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().view(-1)


def as_bytes(tensor):
    """For what is only moved: any element type."""
    flat = _contiguous(tensor)
    return Buffer(tensor.detach(), flat.view(torch.uint8))


def as_numbers(tensor, op):
    """For what is added up: a Buffer, and the native name of the operation. op: a name in small letters."""
    flat = _contiguous(tensor)
    if tensor.dtype == torch.bool:
        return Buffer(tensor.detach(), flat.view(torch.uint8)), {"sum": "max", "prod": "min"}.get(op, op)
    if tensor.is_complex():
        if op not in ("sum", "avg"):
            raise ValueError(f"ferrule: {op} of complex numbers is not defined")
        return Buffer(tensor.detach(), torch.view_as_real(flat).view(-1)), op
    if tensor.dtype in _WIDER:
        return Buffer(tensor.detach(), flat.to(_WIDER[tensor.dtype])), op
    if tensor.dtype not in _NATIVE:
        raise RuntimeError(f"ferrule: no operation on {tensor.dtype}; move it as another type, or convert it")
    return Buffer(tensor.detach(), flat), op


def pack(tensors):
    """The bytes of several tensors, one after another, and the number of each."""
    parts = [_contiguous(tensor).view(torch.uint8) for tensor in tensors]
    return (torch.cat(parts) if parts else torch.empty(0, dtype=torch.uint8)), [part.numel() for part in parts]


def byte_counts(tensors):
    return [tensor.numel() * tensor.element_size() for tensor in tensors]


def unpack(flat, tensors):
    """The opposite of pack()."""
    begin = 0
    for tensor in tensors:
        bytes_ = tensor.numel() * tensor.element_size()
        part = flat[begin : begin + bytes_]
        begin += bytes_
        if part.storage_offset() % tensor.element_size() != 0:
            part = part.clone()
        tensor.detach().copy_(part.view(tensor.dtype).view(tensor.shape))
