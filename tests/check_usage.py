"""Counts the usage of session logs by the shortest road: every line through json, every response once.

Usage: check_usage.py FOLDER. Prints {"responses", "input_tokens", ...} as JSON. Knows nothing of backcast."""

import json
import pathlib
import shutil
import subprocess
import sys

NAMES = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def lines(path):
    if path.name.endswith(".zst"):
        return subprocess.run(["zstd", "-dcq", path], check=True, stdout=subprocess.PIPE).stdout.split(b"\n")
    return path.read_bytes().split(b"\n")


def records(line):
    """A line is a record, or several without newlines between them, some of them torn."""
    text = line.decode("utf-8", "replace").strip("\ufeff\0\r\n\t ")
    try:
        yield json.loads(text, strict=False)
        return
    except ValueError:
        pass
    starts = [0] + [at for at in range(1, len(text)) if text.startswith(('{"parentUuid":', '{"type":'), at)]
    end = 0
    for start in starts:
        if start >= end:
            try:
                record, end = json.JSONDecoder(strict=False).raw_decode(text, start)
            except ValueError:
                continue
            if isinstance(record, dict) and "sessionId" in record:
                yield record


def tokens(usage):
    """Input, output, cache reads, five-minute writes, one-hour writes."""
    count = [usage.get(name) or 0 for name in NAMES]
    hour = (usage.get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0
    return count[:3] + [count[3] - hour, hour]


def usage_of(message):
    usage = message.get("usage") or {}
    if any(usage.get(name) for name in NAMES):
        return tokens(usage)
    # Zeroed at the top (the split of the writes may stand there still): the iterations were billed.
    own = [one for one in usage.get("iterations") or [] if one.get("type") != "advisor_message"]
    return [sum(column) for column in zip(*map(tokens, own))]


def calls_inside(message):
    """Calls of other models that the top level leaves out: advice, and a model that declined before another answered."""
    iterations = (message.get("usage") or {}).get("iterations") or []
    kinds = [one.get("type") for one in iterations]
    answered = kinds.index("fallback_message") if "fallback_message" in kinds else 0
    for number, one in enumerate(iterations):
        if kinds[number] == "advisor_message" or number < answered:
            yield number, tokens(one)


def main(folder):
    paths = [path for path in sorted(folder.rglob("*.jsonl*")) if path.name.endswith((".jsonl", ".jsonl.zst"))]
    if any(path.suffix == ".zst" for path in paths) and not shutil.which("zstd"):
        sys.exit("zstd is not installed")
    # An id of the API is one call, whatever the request. Other ids give way to the request, which any line of them may name.
    found = []
    requests = {}
    anonymous = []
    inside = {}
    for path in paths:
        for line in lines(path):
            for record in records(line):
                message = record.get("message") if isinstance(record, dict) else None
                if record_is_foreign(record, message):
                    continue
                billed = usage_of(message)
                if not any(billed):
                    continue
                if not message.get("id"):
                    anonymous.append(billed)
                    continue
                request = record.get("requestId")
                found.append((message["id"], billed))
                inside.update(((message["id"], number), one) for number, one in calls_inside(message) if any(one))
                if request and not message["id"].startswith("msg_"):
                    requests.setdefault(message["id"], request)
    calls = {}
    for name, billed in found:
        key = ("request", requests[name]) if name in requests else ("id", name)
        calls[key] = max(calls.get(key, billed), billed, key=lambda one: (one[1], sum(one)))
    billed = anonymous + list(calls.values()) + list(inside.values())
    sums = [sum(column) for column in zip(*billed)] or [0] * 5
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens")
    print(json.dumps({"responses": len(billed), **dict(zip(names, sums))}))


def record_is_foreign(record, message):
    """Whether a record is no line of a response that was billed."""
    is_response = isinstance(message, dict) and record.get("type") == "assistant"
    return not is_response or message.get("model") == "<synthetic>"


main(pathlib.Path(sys.argv[1]))
