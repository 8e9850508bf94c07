"""Counts the usage of logs of Codex, OpenCode and Pi by the shortest road. Each log is a session of its own.

Usage: check_agents.py FOLDER. Prints {"codex": {"responses", "input_tokens", ...}, ...} as JSON. Knows nothing of backcast."""

import json
import pathlib
import subprocess
import sys


def text(path):
    if path.name.endswith(".zst"):
        return subprocess.run(["zstd", "-dcq", path], check=True, stdout=subprocess.PIPE).stdout.decode()
    return path.read_text()


def codex(log):
    before = None
    for line in filter(str.strip, log.split("\n")):
        payload = json.loads(line).get("payload", {})
        info = payload.get("info") if payload.get("type") == "token_count" else None
        if not info or info["total_token_usage"] == before:
            continue
        before, last = info["total_token_usage"], info["last_token_usage"]
        write = last.get("cache_write_input_tokens", 0)
        yield last["input_tokens"] - last["cached_input_tokens"] - write, last["output_tokens"], last["cached_input_tokens"], write


def opencode(log):
    for message in json.loads(log)["messages"]:
        if message["info"]["role"] != "assistant":
            continue
        steps = [part["tokens"] for part in message["parts"] if part["type"] == "step-finish"]
        for tokens in steps if len(steps) > 1 else [message["info"].get("tokens")]:
            if tokens:
                yield tokens["input"], tokens["output"] + tokens["reasoning"], tokens["cache"]["read"], tokens["cache"]["write"]


def pi(log):
    for line in filter(str.strip, log.split("\n")):
        message = json.loads(line).get("message", {})
        if message.get("role") == "assistant":
            usage = message["usage"]
            yield usage["input"], usage["output"], usage["cacheRead"], usage["cacheWrite"]


sums = {}
for agent, calls in (("codex", codex), ("opencode", opencode), ("pi", pi)):
    found = [call for path in sorted((pathlib.Path(sys.argv[1]) / agent).rglob("*.json*")) for call in calls(text(path))]
    found = [call for call in found if any(call)]
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens")
    sums[agent] = {name: sum(column) for name, column in zip(names, zip(*found))}
    sums[agent] |= {"responses": len(found), "cache_write_1h_tokens": 0}
json.dump(sums, sys.stdout)
