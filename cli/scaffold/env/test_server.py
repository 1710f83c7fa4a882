"""Tests of server.py. Run them in this folder: python3 -m unittest test_server.py"""

import json
import threading
import unittest
from urllib.request import Request, urlopen

import server


class GameTest(unittest.TestCase):
    def test_success(self):
        game = server.Game(4)  # from 1 to 4
        self.assertEqual(game.step("two"), 0.0)
        self.assertFalse(game.done)
        self.assertEqual(game.step("One"), 1.0)
        self.assertTrue(game.done)

    def test_overshoot(self):
        game = server.Game(4)
        game.step("two")
        self.assertEqual(game.step("two"), 0.0)
        self.assertTrue(game.done)

    def test_invalid_actions_end_the_episode(self):
        game = server.Game(0)
        for _ in range(server.MAX_STEPS):
            self.assertFalse(game.done)
            self.assertEqual(game.step("jump"), 0.0)
        self.assertTrue(game.done)


class ServerTest(unittest.TestCase):
    def setUp(self):
        self.server = server.Server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.url + path, data, {"Content-Type": "application/json"}), timeout=10) as reply:
            return json.load(reply)

    def test_episode(self):
        id = self.call("/create", {})["id"]
        first = self.call("/reset", {"id": id, "data_idx": 0})
        self.assertEqual(first["observation"], "The counter is 0. The target is 4.")
        self.call("/step", {"id": id, "action": "two"})
        last = self.call("/step", {"id": id, "action": "two"})
        self.assertEqual((last["reward"], last["done"]), (1.0, True))
        self.assertIn("error", self.call("/step", {"id": id, "action": "one"}))
        self.assertIs(self.call("/close", {"id": id}), True)
        self.assertIs(self.call("/close", {"id": id}), False)

    def test_instances_are_separate(self):
        a, b = self.call("/create", {})["id"], self.call("/create", {})["id"]
        self.assertNotEqual(a, b)
        self.call("/reset", {"id": a, "data_idx": 0})
        self.call("/reset", {"id": b, "data_idx": 0})
        self.call("/step", {"id": a, "action": "two"})
        self.assertIn("counter is 1", self.call("/step", {"id": b, "action": "one"})["observation"])

    def test_errors(self):
        id = self.call("/create", {})["id"]
        self.assertIn("error", self.call("/step", {"id": id}))
        self.assertIn("error", self.call("/reset", {"id": id, "data_idx": -1}))
        self.assertIn("error", self.call("/reset", {"id": 99, "data_idx": 0}))


if __name__ == "__main__":
    unittest.main()
