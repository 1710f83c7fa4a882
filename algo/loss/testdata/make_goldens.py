#!/usr/bin/env python3
"""Makes golden.json, the expected results of the policy losses, from the functions of verl and TRL.

    pip download --no-deps verl==0.9.1 trl==1.16.0 && unzip verl-0.9.1-*.whl -d VERL && unzip trl-1.16.0-*.whl -d TRL
    python make_goldens.py VERL TRL

Needs torch. Runs only the functions named below, without the rest of verl and TRL. In TRL luspo is part of a long
method, so this script repeats its formula. Each case has the tokens in the loss, row after row, and the resulting loss,
gradient and metrics.
"""
import __future__
import ast
import json
import math
import pathlib
import sys
import types

import torch

HERE = pathlib.Path(__file__).resolve().parent
LENS, WIDTH = [4, 1, 6, 3, 5], 6
MASK = torch.tensor([[1.0] * n + [0.0] * (WIDTH - n) for n in LENS], dtype=torch.float64)


def run(path, names, scope):
    """Defines the named functions of a Python file in scope, methods too, without decorators and annotations."""
    found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef) and node.name in names]
    assert len(found) == len(names), f"{path} has not all of {names}"
    for node in found:
        node.decorator_list = []
    exec(compile(ast.Module(found, []), str(path), "exec", flags=__future__.annotations.compiler_flag), scope)


def load(verl, trl):
    masked = {"torch": torch}
    run(verl / "verl/utils/torch_functional.py", {"masked_sum", "masked_mean"}, masked)
    scope = {"torch": torch, "math": math, "verl_F": types.SimpleNamespace(**masked), "AlgoConfig": type("AlgoConfig", (), {})}
    run(verl / "verl/trainer/ppo/core_algos.py", {
        "agg_loss", "compute_policy_loss_vanilla", "compute_policy_loss_dppo_tv", "compute_policy_loss_dppo_kl", "compute_policy_loss_dro",
    }, scope)
    run(trl / "trl/trainer/grpo_trainer.py", {"get_gamma_weights"}, scope)
    return scope


class Config(types.SimpleNamespace):
    def get(self, key, default=None):
        return getattr(self, key, default)


def inputs(seed, spread, by_row):
    g = torch.Generator().manual_seed(seed)
    shape = (len(LENS), WIDTH)
    logp = -2.5 * torch.rand(shape, generator=g, dtype=torch.float64) - 0.01
    old = (logp + spread * torch.randn(shape, generator=g, dtype=torch.float64)).clamp(max=-0.001)
    adv = torch.randn((shape[0], 1) if by_row else shape, generator=g, dtype=torch.float64).expand(shape).clone()
    adv[1] = 0
    weights = 2 * torch.rand(shape, generator=g, dtype=torch.float64) + 0.01
    return [(x * 1000).round() / 1000 for x in (logp, old, adv, weights)]


def tokens(x):
    return [round(float(v), 9) for row, n in zip(x, LENS) for v in row[:n]]


def verl_case(scope, name, agg, options, seed, spread, weighed):
    logp, old, adv, weights = inputs(seed, spread, False)
    logp.requires_grad_(True)
    config = Config(clip_ratio=None, policy_loss=Config(dro_beta=options.get("dro_beta")), global_batch_info={}, **options)
    loss, metrics = scope["compute_policy_loss_" + name](old, logp, adv, MASK, agg, config, weights if weighed else None)
    loss.backward()
    return {"name": name, "agg": agg, "options": options, "logp": tokens(logp), "old": tokens(old), "adv": tokens(adv),
            "weights": tokens(weights) if weighed else None, "loss": float(loss), "grad": tokens(logp.grad), "metrics": metrics}


def trl_case(scope, name, agg, options, seed, spread, weighed):
    logp, old, adv, weights = inputs(seed, spread, True)
    logp.requires_grad_(True)
    adv = adv[:, :1]
    if name == "vespo":
        ratio = torch.where(MASK > 0, weights, torch.ones_like(weights)) if weighed else None
        with torch.no_grad():
            phi = scope["get_gamma_weights"](adv, logp - old, MASK, ratio, options["vespo_k_pos"], options["vespo_lambda_pos"],
                                             options["vespo_k_neg"], options["vespo_lambda_neg"])
        loss = (-phi * adv * logp * MASK).sum() / MASK.sum()
    else:
        ratio = torch.exp(((logp - old) * MASK).sum(-1, keepdim=True) / MASK.sum(-1, keepdim=True))
        clipped = torch.clamp(ratio, 1 - options["clip_ratio_low"], 1 + options["clip_ratio_high"])
        loss = (-torch.min(ratio * adv, clipped * adv) * MASK).sum(-1).mean()
    loss.backward()
    return {"name": name, "agg": agg, "options": options, "logp": tokens(logp), "old": tokens(old), "adv": tokens(adv.expand(-1, WIDTH)),
            "weights": tokens(weights) if weighed else None, "loss": float(loss), "grad": tokens(logp.grad), "metrics": None}


if __name__ == "__main__":
    scope = load(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    cases = []
    clip = {"clip_ratio_low": 0.1, "clip_ratio_high": 0.15, "clip_ratio_c": 1.5}
    for weighed in (False, True):
        for name, options in (("vanilla", clip), ("dppo_tv", clip), ("dppo_kl", {**clip, "clip_ratio_low": 0.02, "clip_ratio_high": 0.03}),
                              ("dro", {"dro_beta": 0.4})):
            for agg in ("token-mean", "token-sum", "seq-mean-token-sum"):
                cases.append(verl_case(scope, name, agg, options, len(cases), 0.5, weighed))
        gamma = {"vespo_k_pos": 2.0, "vespo_lambda_pos": 3.0, "vespo_k_neg": 3.0, "vespo_lambda_neg": 2.0}
        for spread in (0.05, 0.3, 4.0):
            cases.append(trl_case(scope, "vespo", "token-mean", gamma, len(cases), spread, weighed))
        for spread in () if weighed else (0.05, 0.3):
            cases.append(trl_case(scope, "luspo", "seq-mean-token-sum", {"clip_ratio_low": 0.02, "clip_ratio_high": 0.03}, len(cases), spread, weighed))
    text = json.dumps({"lens": LENS, "cases": cases}, indent=None, separators=(",", ":"))
    (HERE / "golden.json").write_text(text.replace('{"name"', '\n{"name"') + "\n")
