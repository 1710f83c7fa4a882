"""Opens a file with the reference implementation and prints what it holds.

Run: python check.py FILE; the Go test TestReferenceReads does so where it can.
"""

import sys

from safetensors import safe_open

with safe_open(sys.argv[1], framework="pt") as f:
    print("metadata", f.metadata())
    for name in sorted(f.keys()):
        t = f.get_tensor(name)
        print(name, t.dtype, list(t.shape), t.flatten().tolist())
