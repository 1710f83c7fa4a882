"""Opens saved models with transformers and prints their properties.

  python open_saved.py < QUESTION

QUESTION is JSON: {"folders": [...], "ids": [...], "text": "..."}. Prints one
line of JSON per folder: log-probs of the ids in float32, the ids of the text,
the text of a chat, and the settings that change the model's output. Works
with transformers 4 and 5. Needs torch, transformers.
"""
import json
import sys
import warnings

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

warnings.simplefilter("error")  # a warning means a setting that transformers does not know


def rope(config):
    """Returns theta and the scaling, in the layout of transformers 4 or 5."""
    new = getattr(config, "rope_parameters", None) or {}
    old = getattr(config, "rope_scaling", None) or {}
    params = {**new, **old}
    theta = params.pop("rope_theta", None) or getattr(config, "rope_theta", None)
    if params.get("rope_type") == "default":
        params = {}
    return theta, params


def main():
    question = json.load(sys.stdin)
    ids = torch.tensor([question["ids"]])
    for folder in question["folders"]:
        config = AutoConfig.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, **{"torch_dtype": torch.float32})
        tok = AutoTokenizer.from_pretrained(folder)
        with torch.no_grad():
            logps = torch.log_softmax(model(ids).logits[0, :-1].double(), -1)
        theta, scaling = rope(config)
        eos = GenerationConfig.from_pretrained(folder).eos_token_id
        print(json.dumps({
            "logprobs": logps.gather(-1, ids[0, 1:, None])[:, 0].tolist(),
            "text_ids": tok(question["text"])["input_ids"],
            "chat": tok.apply_chat_template([{"role": "user", "content": question["text"]}], tokenize=False, add_generation_prompt=True),
            "theta": theta,
            "scaling": scaling,
            "dtype": str(config.torch_dtype if getattr(config, "torch_dtype", None) is not None else config.dtype).replace("torch.", ""),
            "eos": eos if isinstance(eos, list) else [eos],
            "tied": config.tie_word_embeddings,
        }))


if __name__ == "__main__":
    main()
