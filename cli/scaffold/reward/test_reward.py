"""Tests of reward.py. Run them in this folder: python3 -m unittest test_reward.py"""

import json
import subprocess
import sys
import threading
import unittest
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

import reward

EPISODE = {
    "id": "maze_3",
    "response": "...",
    "env_reward": 1.0,
    "turns": [{"text": "Action: move up"}, {"text": "x" * 201}, {"text": "Action: move left"}],
}
REQUEST = {"request": 7, "samples": [EPISODE, {"id": "row_0", "response": "42", "env_reward": 0.5}]}
REPLY = {"request": 7, "scores": [[0.0, -0.1, 1.0], [0.5]]}


class ScoreTest(unittest.TestCase):
    def test_episode(self):
        self.assertEqual(reward.score(EPISODE), [0.0, -0.1, 1.0])

    def test_single_reply(self):
        self.assertEqual(reward.score({"response": "x" * 300, "env_reward": 1.0}), [0.9])


class ProtocolTest(unittest.TestCase):
    def test_program(self):
        program = [sys.executable, str(Path(reward.__file__).resolve())]
        lines = json.dumps(REQUEST) + "\n" + json.dumps(dict(REQUEST, request=8)) + "\n"
        out = subprocess.run(program, input=lines, capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertEqual([json.loads(line) for line in out.splitlines()], [REPLY, dict(REPLY, request=8)])

    def test_server(self):
        server = ThreadingHTTPServer(("127.0.0.1", 0), reward.Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        with urlopen(Request(url, json.dumps(REQUEST).encode()), timeout=10) as answer:
            self.assertEqual(json.load(answer), REPLY)


if __name__ == "__main__":
    unittest.main()
