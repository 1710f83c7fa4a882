"""Records solutions.json: the replies of AgentGym's own servers to recorded winning sequences.

    python3 record.py CHECKOUT BABYAI WEATHER MOVIE ACADEMIA > solutions.json

CHECKOUT is AgentGym at 3ef9235 (2026-05-30), the other arguments are addresses of its servers; babyai ran with
minigrid 2.3.1, the tool servers without network. The sequences of babyai are from the rows babyai_0,
babyai_130 and babyai_324 of AgentTraj-L (OpenManus-RL's data/babyai/train.parquet), whose first
observations these servers return unchanged. The answers to the tool servers' tasks are from
agentenv-tool/Toolusage/data/*.jsonl. todo and sheet need live accounts: the script builds their texts
from the same files, as the code of these servers does.
"""

import json
import sys
import urllib.request

checkout, servers = sys.argv[1], dict(zip(["babyai", "weather", "movie", "academia"], sys.argv[2:]))
toolusage = checkout + "/agentenv-tool/Toolusage/"


def post(env, path, body):
    request = urllib.request.Request(servers[env] + path, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=60))


def goals(env):
    with open(toolusage + "data/" + env + ".jsonl") as f:
        return [json.loads(line) for line in f]


def finish(answer):
    return "Action: finish with Action Input: " + repr({"answer": answer})


def opening(goal):
    return "Now new trial starts.\nYou should perform actions to accomplish the goal: " + goal + "\nGive me one action."


out = {}
i = post("babyai", "/create", {})["id"]
out["babyai"] = {"tasks": {}}
for task, actions in {
    0: ["go to red ball 1"],
    130: ["go to red closed door 1"],
    324: ["move forward", "turn right", "go to green box 1"],
}.items():
    reset = post("babyai", "/reset", {"id": i, "data_idx": task})
    steps = [{"action": a, "reply": post("babyai", "/step", {"id": i, "action": a})} for a in actions]
    out["babyai"]["tasks"][task] = {"reset": reset, "steps": steps}

valid = "Action: check_valid_actions with Action Input: {}"
for env in ["weather", "movie", "academia"]:
    i = post(env, "/create", {"id": 0})
    out[env] = {"tasks": {}}
    for task in [0, 1]:
        reset = post(env, "/reset", {"env_idx": i, "id": task})
        if task == 0:
            out[env]["tools"] = post(env, "/step", {"env_idx": i, "action": valid})["observation"]
        action = finish(goals(env)[task]["additional_info"]["answer"])
        steps = [{"action": action, "reply": post(env, "/step", {"env_idx": i, "action": action})}]
        out[env]["tasks"][task] = {"reset": reset, "steps": steps}

for env, answer in {"todo": "You can use following valid actions: %s", "sheet": "ERROR | Invalid action: check_valid_actions. Please choose another valid action from %s"}.items():
    with open(toolusage + "toolusage/prompts/Raw/" + env + "_raw.json") as f:
        names = [tool["name"] for tool in json.load(f)["tool_set_message"]]
    out[env] = {"tools": "Observation: " + answer % names + "\nGive me one action.", "tasks": {}}
    for task in [0, 1]:
        goal = goals(env)[task]
        steps = []
        if env == "todo" and task == 0:  # the task is a question about a date
            [answer] = goal["subgoals"]
            reply = {"observation": "Observation: " + answer + "\nGive me one action.", "reward": 1.0, "done": True}
            steps = [{"action": finish(answer), "reply": reply}]
        out[env]["tasks"][task] = {"reset": opening(goal["goal"]), "steps": steps}

json.dump(out, sys.stdout, indent=1, ensure_ascii=False)
print()
