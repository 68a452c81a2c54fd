"""An OpenAI-compatible chat endpoint on loopback, with latency and faults by script; used by tests and the bench."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    """What the server does with one request.

    Attributes:
        text: what the model says; None for `body` as it is.
        status, headers, body: of the response.
        delay: seconds before it.
        repeat: how often `body` is sent.
        drop: close the connection without a response.
        hang: send nothing until the client or the server goes away.
        trickle: seconds between the bytes of the body.
    """

    text: str | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0.0
    repeat: int = 1
    drop: bool = False
    hang: bool = False
    trickle: float = 0.0


@dataclass
class Asked:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        return next(part["text"] for part in self.body["messages"][-1]["content"] if part["type"] == "text")

    @property
    def images(self) -> list[str]:
        content = self.body["messages"][-1]["content"]
        return [part["image_url"]["url"] for part in content if part["type"] == "image_url"]


class ChatServer:
    """A context manager; `replies` are used in order, then `answer` makes one of each request."""

    def __init__(self, *replies: Reply, answer: Callable[[Asked], Reply] = lambda asked: Reply(text="a street")):
        self.replies = list(replies)
        self.answer = answer
        self.asked: list[Asked] = []
        self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()
        self.stopping = threading.Event()
        self.aborted = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()

    def next_reply(self, asked: Asked) -> Reply:
        with self._lock:
            self.asked.append(asked)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            return self.replies.pop(0) if self.replies else self.answer(asked)

    def done(self) -> None:
        with self._lock:
            self.at_once -= 1


def completion(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps(
        {"id": "chat-1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    ).encode()


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            data = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = server.next_reply(Asked(self.path, headers, json.loads(data)))
            try:
                self._send(reply)
            except OSError:
                server.aborted += 1
                self.close_connection = True
            finally:
                server.done()

        def _send(self, reply):
            if reply.hang:
                self._hang()
                return
            if reply.delay and server.stopping.wait(reply.delay):
                return
            if reply.drop:
                self.close_connection = True
                return
            body = reply.body if reply.text is None else completion(reply.text)
            self.send_response(reply.status)
            for name, value in {"content-type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body) * reply.repeat))
            self.end_headers()
            if reply.trickle:
                for place in range(len(body)):
                    self.wfile.write(body[place : place + 1])
                    self.wfile.flush()
                    time.sleep(reply.trickle)
                return
            for _ in range(reply.repeat):
                self.wfile.write(body)

        def _hang(self):
            """Until the other side closes: a client that gives up is seen by its end of file."""
            self.close_connection = True
            self.connection.settimeout(0.1)
            while not server.stopping.is_set():
                try:
                    if not self.connection.recv(1):
                        server.aborted += 1
                        return
                except TimeoutError:
                    pass

        def log_message(self, *_):
            pass

    return Handler
