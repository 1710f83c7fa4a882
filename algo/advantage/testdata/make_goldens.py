#!/usr/bin/env python3
"""Makes the golden files of the estimators' tests from verl's functions.

    pip download --no-deps verl==0.9.1 && unzip verl-0.9.1-*.whl -d VERL
    python make_goldens.py VERL

Needs torch and numpy. Runs only the functions named below, without the rest of verl. Each case has the input rows
and the resulting advantages and returns.
"""
import ast
import __future__
import json
import os
import pathlib
import sys
import types
from collections import defaultdict

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent


def run(path, names, scope):
    """Defines the named functions of a Python file in scope, without decorators and annotations."""
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    assert len(tree.body) == len(names), f"{path} has not all of {names}"
    for node in tree.body:
        node.decorator_list = []
    exec(compile(tree, str(path), "exec", flags=__future__.annotations.compiler_flag), scope)


def load(verl):
    common = types.SimpleNamespace()
    scope = {"torch": torch}
    run(verl / "verl/utils/torch_functional.py", {"masked_sum", "masked_mean", "masked_var", "masked_whiten"}, scope)
    common.__dict__.update(scope)
    scope = {"torch": torch, "np": np, "os": os, "defaultdict": defaultdict, "verl_F": common}
    run(verl / "verl/utils/groupwise.py", {"_resolve_device", "_to_1d_numpy_object_array", "as_torch_index", "group_mean_std"}, scope)
    scope["_resolve_device"] = lambda _: torch.device("cpu")
    run(verl / "verl/trainer/ppo/core_algos.py", {
        "compute_optimal_token_baseline_advantage", "compute_multi_turn_optimal_token_baseline_advantage",
        "compute_grpo_outcome_advantage", "compute_grpo_vectorized_outcome_advantage",
        "compute_reinforce_plus_plus_outcome_advantage", "compute_gdpo_outcome_advantage",
    }, scope)
    return scope


def batch(seed, spans, width):
    """Random rows; spans are, for each row, the spans of its sampled tokens."""
    g = torch.Generator().manual_seed(seed)
    mask = torch.zeros(len(spans), width)
    for row, list_ in enumerate(spans):
        for start, end in list_:
            mask[row, start:end] = 1
    shape = mask.shape
    logp = -2 * torch.rand(shape, generator=g)
    floor = logp.exp() ** 2
    b = {
        "old": logp, "rewards": torch.randn(shape, generator=g) * (torch.rand(shape, generator=g) < 0.3),
        "sum_pi_squared": floor + (1 - floor) * 0.5 * torch.rand(shape, generator=g), "weights": 2 * torch.rand(shape, generator=g),
    }
    return {"mask": mask, **{k: (v.double() * 1000).round() / 1000 for k, v in b.items()}}


def numbers(x):
    return [[round(float(v), 7) for v in row] for row in x.double()]


# Rows of one turn and different lengths. The second group has two longest rows, the third group one row.
ONE_TURN = [[(0, 7)], [(0, 3)], [(0, 4)], [(0, 6)], [(0, 6)], [(0, 2)], [(0, 5)]]
# Rows of several turns, with observations between them that shift the later tokens.
TURNS = [[(0, 2), (5, 9)], [(1, 4)], [(0, 1), (3, 4), (6, 8)], [(2, 9)], [(0, 3), (4, 9)], [(8, 9)], [(0, 2), (3, 5)]]
UIDS = ["a", "a", "a", "b", "b", "b", "c"]


def optimal_token(scope):
    out = []
    for name, function, spans in (
        ("one turn", "compute_optimal_token_baseline_advantage", ONE_TURN),
        ("one turn, as if several", "compute_multi_turn_optimal_token_baseline_advantage", ONE_TURN),
        ("several turns", "compute_multi_turn_optimal_token_baseline_advantage", TURNS),
    ):
        for weighed in (False, True):
            b = batch(len(out) + 1, spans, 9)
            advantages, returns = scope[function](
                token_level_rewards=b["rewards"], response_mask=b["mask"], index=np.array(UIDS, dtype=object), old_log_probs=b["old"],
                sum_pi_squared=b["sum_pi_squared"], rollout_is_weights=b["weights"] if weighed else None)
            case = {"name": name + (", with importance weights" if weighed else ""), "uids": UIDS}
            if not weighed:
                del b["weights"]
            case.update({k: numbers(v) for k, v in b.items()})
            case["advantages"], case["returns"] = numbers(advantages), numbers(returns * b["mask"])
            out.append(case)
    return out


def compared(scope):
    """Estimators that use only rewards and groups. In the last case the rewards of a group differ by 2e-4 at most."""
    out = []
    for seed, spans, scale in ((11, ONE_TURN, 1.0), (12, TURNS, 1.0), (13, TURNS, 1e-4)):
        b = batch(seed, spans, 9)
        rewards = (b["rewards"] * scale).float()
        index = np.array(UIDS, dtype=object)
        for name, run in (
            ("grpo", lambda: scope["compute_grpo_outcome_advantage"](rewards * b["mask"], b["mask"], index)),
            ("grpo_vectorized", lambda: scope["compute_grpo_vectorized_outcome_advantage"](rewards * b["mask"], b["mask"], index)),
            ("reinforce_plus_plus", lambda: scope["compute_reinforce_plus_plus_outcome_advantage"](
                rewards, b["mask"], config=types.SimpleNamespace(gamma=0.9))),
        ):
            advantages, returns = run()
            out.append({"name": f"scale {scale}, seed {seed}", "estimator": name, "uids": UIDS, "mask": numbers(b["mask"]),
                        "rewards": numbers(rewards * b["mask"]), "advantages": numbers(advantages), "returns": numbers(returns * b["mask"])})
    return out


def by_part(scope):
    """gdpo of scores that consist of parts; in group b the second part is the same for all."""
    out = []
    for seed, normed, weights in ((21, True, [1.0, 0.5, 2.0]), (22, False, [1.0, 0.5, 2.0]), (23, True, [1.0])):
        b = batch(seed, TURNS, 9)
        g = torch.Generator().manual_seed(seed)
        parts = (torch.randn(len(UIDS), len(weights), generator=g) * torch.tensor([1.0, 100.0, 0.01])[:len(weights)] * 1000).round() / 1000
        if len(weights) > 1:
            parts[3:6, 1] = 7
        keys = [f"part{k}" for k in range(len(weights))]
        mask = b["mask"].float()
        advantages, returns = scope["compute_gdpo_outcome_advantage"](
            torch.zeros_like(mask), mask, np.array(UIDS, dtype=object), norm_adv_by_std_in_grpo=normed,
            config={"gdpo_reward_keys": keys, "gdpo_reward_weights": weights},
            non_tensor_batch={key: parts[:, k].numpy() for k, key in enumerate(keys)},
            batch={"prompts": torch.zeros(len(UIDS), 2), "attention_mask": torch.ones(len(UIDS), 11, dtype=torch.long)})
        out.append({"name": f"{len(weights)} parts, divided by the spread: {normed}", "estimator": "gdpo", "uids": UIDS, "mask": numbers(mask),
                    "rewards": numbers(torch.zeros_like(mask)), "no_std": not normed,
                    "parts": [[{"weight": w, "value": round(float(v), 7)} for w, v in zip(weights, row)] for row in parts],
                    "advantages": numbers(advantages), "returns": numbers(returns)})
    return out


if __name__ == "__main__":
    scope = load(pathlib.Path(sys.argv[1]))
    for name, cases in (("optimal_token", optimal_token(scope)), ("compared", compared(scope) + by_part(scope))):
        (HERE / f"{name}.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")
