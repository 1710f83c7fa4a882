"""The shaped reward of wordle: 1 for a solved game, otherwise up to 0.5 for guesses that use the answers.

A guess is consistent if it would have got the recorded answers to all earlier guesses if it were the hidden word.
An unsolved game scores 0.5 times the mean of its guesses: 1 for a consistent one, 0.5 for another new word of the list, else 0.
"""
import json
import sys


def answer(guess, secret):
    """As the server: two equal letters of a guess are both y even if the secret has one."""
    return "".join("g" if a == b else "y" if a in secret else "b" for a, b in zip(guess, secret))


def score(sample):
    if sample["env_reward"] > 0.99:
        return {"score": 1.0}
    past, points, turns = [], 0, sample.get("turns") or []
    for turn in turns:
        guess = turn["action"].strip().replace(" ", "") if turn["parsed"] else ""
        seen = turn["observation"].strip().replace(" ", "")
        if len(seen) != 5 or set(seen) - set("gyb"):
            continue  # not a word of the list
        if guess not in (g for g, _ in past):
            points += 1 if all(answer(g, guess) == s for g, s in past) else 0.5
        past.append((guess, seen))
    return {"score": 0.5 * points / len(turns) if turns else 0.0}


for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"request": request["request"], "scores": [score(s) for s in request["samples"]]}), flush=True)
