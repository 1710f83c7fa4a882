"""{{.Name}}: an environment server for openmanus.

The task: raise a counter to a target number with the actions "one", which adds 1, and
"two", which adds 2. Replace the class Game by your own environment; the rest of the file
serves it.

Test:   python3 -m unittest test_server.py
Start:  python3 server.py --port 8000
Check:  openmanus env check http://127.0.0.1:8000 --env agentgym --actions one,jump
Train:  openmanus train config.toml, which starts the server itself

The protocol is AgentGym's. All bodies are JSON objects:

    POST /create  {}                        -> {"id": 0}
    POST /reset   {"id": 0, "data_idx": 3}  -> {"id": 0, "observation": "...", "reward": 0, "done": false}
    POST /step    {"id": 0, "action": "..."}-> {"observation": "...", "reward": 0, "done": false}
    POST /close   {"id": 0}                 -> true, or false for an unknown id
    GET  /                                  -> "{{.Name}}": clients see that the server runs

An unknown id, a step after the end and a bad argument are
answered with {"error": "..."}. An instance plays one game at a time; many instances are
played at the same time.
"""

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_STEPS = 10


class Game:
    """One episode. Equal tasks must give equal games."""

    def __init__(self, task):
        self.target = 4 + task % 4
        self.value = task // 4 % 4
        self.steps = 0
        self.done = False

    def observation(self):
        return f"The counter is {self.value}. The target is {self.target}."

    def step(self, action):
        """Returns the reward of the action."""
        self.steps += 1
        amount = {"one": 1, "two": 2}.get(action.strip().lower())
        if amount is None:
            self.done = self.steps >= MAX_STEPS
            return 0.0
        self.value += amount
        self.done = self.value >= self.target or self.steps >= MAX_STEPS
        return 1.0 if self.value == self.target else 0.0


class Fault(Exception):
    """A request that cannot be answered."""


class Games:
    """The instances of the server by id."""

    def __init__(self):
        self.lock = threading.Lock()
        self.games = {}
        self.next_id = 0

    def create(self, _):
        with self.lock:
            id = self.next_id
            self.next_id += 1
            self.games[id] = Game(0)
        return {"id": id}

    def reset(self, body):
        task = body.get("data_idx")
        if isinstance(task, bool) or not isinstance(task, int) or task < 0:
            raise Fault("data_idx must be an integer of 0 or greater")
        with self.lock:
            id = self.known(body)
            game = self.games[id] = Game(task)
        return {"id": id, "observation": game.observation(), "reward": 0.0, "done": False}

    def step(self, body):
        action = body.get("action")
        if not isinstance(action, str):
            raise Fault("action must be a text")
        with self.lock:
            game = self.games[self.known(body)]
            if game.done:
                raise Fault("the episode has ended: reset the instance")
            reward = game.step(action)
            return {"observation": game.observation(), "reward": reward, "done": game.done}

    def close(self, body):
        with self.lock:
            id = body.get("id")
            return isinstance(id, int) and self.games.pop(id, None) is not None

    def known(self, body):
        id = body.get("id")
        if isinstance(id, bool) or not isinstance(id, int) or id not in self.games:
            raise Fault(f"there is no instance {id!r}")
        return id


CALLS = {"/create": Games.create, "/reset": Games.reset, "/step": Games.step, "/close": Games.close}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open between requests
    disable_nagle_algorithm = True  # headers and body are two writes; without it the body is sent about 40 ms later
    timeout = 60

    def do_GET(self):
        path = self.target()
        if path == "/":
            self.reply(200, "{{.Name}}")
        elif path in CALLS:
            self.reply(405, {"detail": "Method Not Allowed"})
        else:
            self.reply(404, {"detail": "Not Found"})

    def do_POST(self):
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        call = CALLS.get(self.target())
        if call is None:
            self.reply(404, {"detail": "Not Found"})
            return
        try:
            body = json.loads(text or b"{}")
        except ValueError:
            body = None
        if not isinstance(body, dict):
            self.reply(422, {"detail": "the body is not a JSON object"})
            return
        try:
            self.reply(200, call(self.server.games, body))
        except Fault as e:
            self.reply(200, {"error": str(e)})

    def target(self):
        """Returns the path as the client wrote it; self.path has no double slash at its start."""
        return self.requestline.split()[1].split("?")[0]

    def reply(self, status, value):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format, *args):
        pass  # one line per request would fill the log


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address):
        super().__init__(address, Handler)
        self.games = Games()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    with Server((options.host, options.port)) as server:
        print(f"{{.Name}} on http://{options.host}:{server.server_address[1]}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
