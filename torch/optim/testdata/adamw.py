"""Makes adamw.json: 20 steps of torch.optim.AdamW and clip_grad_norm_. Run it with PyTorch 2.11."""
import json
import pathlib

import torch

STEPS, LR, CLIP = 20, 0.05, 1.5


def start(n, k):
    return torch.tensor([((7 * i + k) % 11 - 5) / 5 for i in range(n)])


def loss(ps):
    # Mixes the parameters, so that the gradients depend on all of them.
    return (ps[0].sin() * ps[1]).sum() + ((ps[2] - 1) ** 2).sum() * ps[1].mean() + (ps[0] ** 2).sum() / 4


def run(dtype, clip):
    ps = [start(6, 0).reshape(2, 3), start(6, 3).reshape(2, 3), start(5, 6)]
    ps = [p.to(dtype).requires_grad_(True) for p in ps]
    opt = torch.optim.AdamW(
        [{"params": ps[:2], "weight_decay": 0.1}, {"params": ps[2:], "weight_decay": 0.0}],
        lr=LR, betas=(0.9, 0.95), eps=1e-8, foreach=False,
    )
    steps = []
    for k in range(STEPS):
        opt.zero_grad()
        loss(ps).backward()
        norm = torch.nn.utils.clip_grad_norm_(ps, clip) if clip else torch.nn.utils.get_total_norm([p.grad for p in ps])
        for g in opt.param_groups:
            g["lr"] = LR * (k + 1) / STEPS
        opt.step()
        steps.append({"norm": float(norm), "params": [p.detach().double().flatten().tolist() for p in ps]})
    return steps


out = {"float32": run(torch.float32, 0), "float32_clip": run(torch.float32, CLIP), "float64": run(torch.float64, 0)}
path = pathlib.Path(__file__).with_name("adamw.json")
path.write_text(json.dumps(out, indent=None, separators=(",", ":")) + "\n")
