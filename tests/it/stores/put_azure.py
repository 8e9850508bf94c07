"""Makes a container of an Azure blob server and writes files into it under their paths."""

import base64
import hashlib
import hmac
import sys
import urllib.error
import urllib.parse
import urllib.request

VERSION = "2021-12-02"


def put(server, account, key, path, query, headers, body):
    """Sends a signed PUT."""
    headers = {**headers, "x-ms-date": "Thu, 01 Jan 2026 00:00:00 GMT", "x-ms-version": VERSION}
    signed = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers) if name.startswith("x-ms-"))
    length = str(len(body)) if body else ""
    kind = headers.get("Content-Type", "")
    resource = f"/{account}/{account}{path}" + "".join(f"\n{name}:{query[name]}" for name in sorted(query))
    text = f"PUT\n\n\n{length}\n\n{kind}\n\n\n\n\n\n\n{signed}{resource}"
    signature = base64.b64encode(hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()).decode()
    headers["Authorization"] = f"SharedKey {account}:{signature}"
    url = f"{server}/{account}{path}" + ("?" + urllib.parse.urlencode(query) if query else "")
    urllib.request.urlopen(urllib.request.Request(url, data=body, method="PUT", headers=headers))


def main():
    server, account, key, container, *files = sys.argv[1:]
    try:
        # Without a type, the client of the library would add one.
        put(server, account, key, f"/{container}", {"restype": "container"}, {"Content-Type": "text/plain"}, b"")
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise
    for name in files:
        with open(name, "rb") as file:
            body = file.read()
        headers = {"x-ms-blob-type": "BlockBlob", "Content-Type": "application/octet-stream"}
        put(server, account, key, f"/{container}/{urllib.parse.quote(name)}", {}, headers, body)


main()
