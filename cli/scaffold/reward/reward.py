"""{{.Name}}: a score function for openmanus.

Replace score() by your own; the rest of the file serves it. Test it with

    python3 -m unittest test_reward.py

openmanus starts the program itself if the configuration has these lines:

    [reward]
    score_fn = "exec:python3 {{.Dir}}/reward.py"
    allocation = "per_turn"    # for estimators that use the reward of each turn

The program then reads one request per line and writes one reply per line. It can serve
the same over HTTP, for other machines: python3 reward.py --port 8001, with
score_fn = "http://127.0.0.1:8001/".
"""

import argparse
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def score(sample):
    """Returns the score of an episode: a number, or a list with a number for each turn.

    sample has the keys id, data_source, prompt, response (the replies of the model),
    ground_truth, env_reward (the reward of the environment) and turns: a list of objects
    with text (the reply), action, parsed, observation and reward. A single reply to a
    prompt has no turns.

    This example gives the last turn the reward of the environment, and takes 0.1 from
    every turn whose reply is longer than 200 characters.
    """
    turns = sample.get("turns") or [{"text": sample["response"]}]
    scores = [-0.1 if len(turn["text"]) > 200 else 0.0 for turn in turns]
    scores[-1] += sample["env_reward"]
    return scores


def reply(request):
    return {"request": request.get("request", 0), "scores": [score(sample) for sample in request["samples"]]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes; without it the body is sent about 40 ms later

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        text = json.dumps(reply(json.loads(body))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format, *args):
        pass  # one line per request would fill the log


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, help="serve HTTP on this port instead of reading standard input")
    port = parser.parse_args().port
    if port is None:
        for line in sys.stdin:
            print(json.dumps(reply(json.loads(line))), flush=True)
        return
    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        print(f"{{.Name}} on http://127.0.0.1:{server.server_address[1]}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
