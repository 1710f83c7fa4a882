"""Writes golden.safetensors with the reference implementation.

Needs: pip install torch safetensors numpy
Run:   python make_golden.py   (in this folder)
"""

import torch
from safetensors.torch import save_file

tensors = {
    "f64": torch.tensor([0.1, -2.5, 1e300], dtype=torch.float64),
    "f32": torch.arange(6, dtype=torch.float32).reshape(2, 3) / 4,
    "f16": torch.tensor([1.0, -0.5, 65504.0], dtype=torch.float16),
    "bf16": torch.tensor([[1.0], [-3.0]], dtype=torch.bfloat16),
    "i64": torch.tensor([-(2**63), 2**63 - 1]),
    "i32": torch.tensor([-7, 7], dtype=torch.int32),
    "i16": torch.tensor([-7, 7], dtype=torch.int16),
    "i8": torch.tensor([-128, 127, 0], dtype=torch.int8),
    "u8": torch.tensor([0, 255], dtype=torch.uint8),
    "bool": torch.tensor([True, False, True]),
    "scalar": torch.tensor(3.5, dtype=torch.float32),
    "empty": torch.zeros(0, 4, dtype=torch.float32),
    'name "with" é': torch.tensor([1], dtype=torch.uint8),
}
save_file(tensors, "golden.safetensors", metadata={"format": "pt", "note": "golden"})
