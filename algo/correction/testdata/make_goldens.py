#!/usr/bin/env python3
"""Makes icepop.json: the results of verl's compute_rollout_correction_weights for the rows of the tests, with two bounds.

    pip download --no-deps verl==0.9.1 && unzip verl-0.9.1-*.whl -d VERL
    python make_goldens.py VERL

Needs torch. Runs only the functions named below, without the rest of verl.
"""
import __future__
import ast
import json
import pathlib
import sys
import types

import torch

HERE = pathlib.Path(__file__).resolve().parent
MASK = [[1, 1, 0, 1, 1], [1, 1, 1, 1, 0], [1, 0, 0, 1, 1], [1, 1, 1, 0, 0]]
OLD = [[-1, -2, -.5, -.1, -3], [-.7, -.6, -.5, -.4, -.3], [-2, -2, -2, -2, -2], [-.2, -.4, -.6, -.8, -1]]
RECORDED = [[-1.1, -1.9, -.5, -.1, -3.2], [-.7, -.8, -.5, -.5, -.3], [-2, -2, -2, -2.2, -1.9], [-.2, -.3, -.6, -.8, -1]]


def run(path, names, scope):
    """Defines the named functions of a Python file in scope, without decorators and annotations."""
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    assert len(tree.body) == len(names), f"{path} has not all of {names}"
    exec(compile(tree, str(path), "exec", flags=__future__.annotations.compiler_flag), scope)


if __name__ == "__main__":
    verl = pathlib.Path(sys.argv[1])
    masked = {"torch": torch}
    run(verl / "verl/utils/torch_functional.py", {"masked_sum", "masked_mean"}, masked)
    scope = {"torch": torch, "verl_F": types.SimpleNamespace(**masked), "SAFETY_BOUND": 20.0}
    run(verl / "verl/trainer/ppo/rollout_corr_helper.py",
        {"_parse_rollout_is_threshold", "compute_rollout_correction_weights", "compute_is_metrics"}, scope)
    mask = torch.tensor(MASK, dtype=torch.float64)
    ratio = torch.tensor(OLD, dtype=torch.float64) - torch.tensor(RECORDED, dtype=torch.float64)
    cases = []
    for level, lower, upper in (("token", 0.95, 1.15), ("sequence", 0.95, 1.2), ("token", 0.5, 5.0)):
        for normalize in (False, True):
            weights, metrics = scope["compute_rollout_correction_weights"](ratio, mask, level, f"{lower}_{upper}", normalize)
            cases.append({"level": level, "lower": lower, "upper": upper, "normalize": normalize,
                          "weights": [[round(float(v), 9) for v in row] for row in weights], "metrics": metrics})
    (HERE / "icepop.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")
