"""Opens a file with the reference implementation and prints what it holds.

Run: python check.py FILE; the Go test TestReferenceReads does so where it can.
It reads through numpy, which starts in an instant and has no bfloat16.
"""

import sys

from safetensors import safe_open

with safe_open(sys.argv[1], framework="np") as f:
    print("metadata", f.metadata())
    for name in sorted(f.keys()):
        part = f.get_slice(name)
        values = "" if part.get_dtype() == "BF16" else f.get_tensor(name).flatten().tolist()
        print(name, part.get_dtype(), part.get_shape(), values)
