"""Writes golden.gguf and golden.json with ggml's Python package.

Needs: pip install gguf numpy
Run:   python make_golden.py            (in this folder)
       python make_golden.py FILE.gguf  prints the sha256 of dequantised tensors
                                        of a real file, for TestRealFile
"""

import hashlib
import json
import sys

import numpy as np
from gguf import GGMLQuantizationType as Q
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize, quantize

if len(sys.argv) > 1:
    for t in GGUFReader(sys.argv[1]).tensors:
        if t.name in ("token_embd.weight", "blk.0.attn_q.weight", "blk.29.ffn_down.weight", "output_norm.weight"):
            x = dequantize(t.data, t.tensor_type).astype("<f4")
            print(t.name, x.shape, hashlib.sha256(x.tobytes()).hexdigest())
    sys.exit()

w = GGUFWriter("golden.gguf", "llama")
w.add_custom_alignment(64)
w.add_uint8("t.u8", 200)
w.add_int8("t.i8", -100)
w.add_uint16("t.u16", 60000)
w.add_int16("t.i16", -30000)
w.add_uint32("t.u32", 4000000000)
w.add_int32("t.i32", -2000000000)
w.add_float32("t.f32", 0.1)
w.add_bool("t.bool", True)
w.add_string("t.string", "Ġhello é\n")
w.add_uint64("t.u64", 2**64 - 1)
w.add_int64("t.i64", -(2**63))
w.add_float64("t.f64", 0.1)
w.add_array("a.string", ["a", "", "日本"])
w.add_array("a.bool", [True, False])
for name, kind, values in [
    ("u8", GGUFValueType.UINT8, [0, 255]),
    ("i8", GGUFValueType.INT8, [-128, 127]),
    ("u16", GGUFValueType.UINT16, [0, 65535]),
    ("i16", GGUFValueType.INT16, [-32768, 32767]),
    ("u32", GGUFValueType.UINT32, [0, 2**32 - 1]),
    ("i32", GGUFValueType.INT32, [-(2**31), 2**31 - 1]),
    ("f32", GGUFValueType.FLOAT32, [0.5, -1.5]),
    ("u64", GGUFValueType.UINT64, [0, 2**64 - 1]),
    ("i64", GGUFValueType.INT64, [-(2**63), 2**63 - 1]),
    ("f64", GGUFValueType.FLOAT64, [0.25, 1e300]),
]:
    w.add_key_value("a." + name, values, GGUFValueType.ARRAY, sub_type=kind)

rng = np.random.default_rng(7)
want = {}
for kind in (Q.F32, Q.F16, Q.BF16, Q.Q8_0, Q.Q4_0, Q.Q4_1):
    x = rng.standard_normal((3, 64)).astype(np.float32)
    x[0, :5] = [0.0, -0.0, 1e-7, 6e-5, 65504.0]  # zeros, float16 subnormals, the largest float16
    x[1, :32] = 0.25
    raw = x if kind == Q.F32 else quantize(x, kind)
    name = kind.name.lower()
    if kind == Q.F32:
        w.add_tensor(name, raw)
    elif kind == Q.F16:
        w.add_tensor(name, raw.view(np.float16))
    else:
        w.add_tensor(name, raw, raw_dtype=kind)
    y = dequantize(raw, kind).astype(np.float32)
    want[name] = {"type": kind.name, "shape": list(y.shape), "values": [float(v) for v in y.flatten()]}
w.add_tensor("one", np.array([42.0], dtype=np.float32))
want["one"] = {"type": "F32", "shape": [1], "values": [42.0]}
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
with open("golden.json", "w") as f:
    json.dump(want, f)
    f.write("\n")
