"""Opens a file with the reference implementation and prints its tensors.

Run: python check.py FILE. The Go test TestReferenceReads runs it if the
reference implementation is installed. It reads through numpy, which starts fast
and has no bfloat16.
"""

import sys

from safetensors import safe_open

with safe_open(sys.argv[1], framework="np") as f:
    print("metadata", f.metadata())
    for name in sorted(f.keys()):
        part = f.get_slice(name)
        values = "" if part.get_dtype() == "BF16" else f.get_tensor(name).flatten().tolist()
        print(name, part.get_dtype(), part.get_shape(), values)
