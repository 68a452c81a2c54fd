"""Changes the model of a running service over REST, and waits until the new one runs or was refused.

sluice serve examples/serve/pattern.yaml &
python examples/hot_swap_rest.py http://127.0.0.1:8080 people
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request


def call(url: str, method: str = "GET", body: object = None) -> dict:
    headers = {"Content-Type": "application/json"}
    if token := os.environ.get("SLUICE_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or b"{}")


def wait_until_ready(service: str) -> None:
    for _ in range(300):
        try:
            call(f"{service}/readyz")
        except urllib.error.URLError:  # it still loads its model
            time.sleep(0.1)
        else:
            return


def main(service: str, model: str) -> int:
    wait_until_ready(service)
    call(f"{service}/api/models/swap", "POST", {"model": model})
    for _ in range(300):
        running = call(f"{service}/api/models")["current"]
        if running["state"] == "running":
            print(
                f"{running['name']} runs" + (f"; {model} was refused: {running['reason']}" if running["reason"] else "")
            )
            return 1 if running["reason"] else 0
        time.sleep(0.1)
    print("it is still being loaded after 30 s")
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
