"""Counts the usage of logs of Codex, OpenCode and Pi by the shortest road. A fork counts what it added to its parent.

Usage: check_agents.py FOLDER. Prints {"codex": {"responses", "input_tokens", ...}, ...} as JSON. Knows nothing of backcast."""

import json
import pathlib
import subprocess
import sys


def text(path):
    if path.name.endswith(".zst"):
        return subprocess.run(["zstd", "-dcq", path], check=True, stdout=subprocess.PIPE).stdout.decode()
    return path.read_text()


def records(log):
    for line in filter(str.strip, log.split("\n")):
        try:
            yield json.loads(line)
        except ValueError:
            pass


def thread(log):
    """The id of a thread of Codex, the thread that it descends from, and its rows: (totals, usage)."""
    head, rows, before = None, [], None
    for record in records(log):
        payload = record.get("payload", {})
        if record.get("type") == "session_meta" and head is None:
            source = payload.get("source")
            agent = source.get("subagent") if isinstance(source, dict) else None
            spawn = agent.get("thread_spawn", {}) if isinstance(agent, dict) else {}
            head = payload["id"], payload.get("forked_from_id") or spawn.get("parent_thread_id")
        info = payload.get("info") if payload.get("type") == "token_count" else None
        if info and info["total_token_usage"] != before:
            before = info["total_token_usage"]
            rows.append((before, info["last_token_usage"]))
    return *(head or (None, None)), rows


def codex(logs):
    threads = [thread(log) for log in logs]
    rows_of = {id: rows for id, _, rows in threads}
    for id, parent, rows in threads:
        copied = rows_of.get(parent, []) if parent != id else []
        own = 0
        while own < min(len(rows), len(copied)) and rows[own] == copied[own]:
            own += 1
        for _, last in rows[own:]:
            write = last.get("cache_write_input_tokens", 0)
            fresh = last["input_tokens"] - last["cached_input_tokens"] - write
            yield fresh, last["output_tokens"], last["cached_input_tokens"], write


def opencode(logs):
    for message in (message for log in logs for message in json.loads(log)["messages"]):
        if message["info"]["role"] != "assistant":
            continue
        steps = [part["tokens"] for part in message["parts"] if part["type"] == "step-finish"]
        for tokens in steps if len(steps) > 1 else [message["info"].get("tokens")]:
            if tokens:
                yield tokens["input"], tokens["output"] + tokens["reasoning"], tokens["cache"]["read"], tokens["cache"]["write"]


def pi(logs):
    sessions = [list(records(log)) for log in logs]
    names = {entries[0].get("id"): {(entry.get("id"), entry.get("timestamp")) for entry in entries} for entries in sessions}
    for entries in sessions:
        # A fork has the entries of its parent, with their ids and times. Its file is named after the parent.
        parent = entries[0].get("parentSession", "").removesuffix(".jsonl").rpartition("_")[2]
        copied = names.get(parent, set())
        for entry in entries:
            message = entry.get("message", {})
            if message.get("role") == "assistant" and (entry.get("id"), entry.get("timestamp")) not in copied:
                usage = message["usage"]
                yield usage["input"], usage["output"], usage["cacheRead"], usage["cacheWrite"]


sums = {}
for agent, calls in (("codex", codex), ("opencode", opencode), ("pi", pi)):
    paths = sorted((pathlib.Path(sys.argv[1]) / agent).rglob("*.json*"))
    found = [call for call in calls([text(path) for path in paths if path.name != "expected.json"]) if any(call)]
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens")
    sums[agent] = {name: sum(column) for name, column in zip(names, zip(*found))}
    sums[agent] |= {"responses": len(found), "cache_write_1h_tokens": 0}
json.dump(sums, sys.stdout)
