"""An agent that does nothing but ask: python3 gateway_client.py PORT, standard library only.

A line on its input is one exchange on its one kept connection: the target and a body in JSON, with a tab between. A
line on its output says when the first byte of the answer's body was there and when the last was, in nanoseconds since
the request was begun, and how many bytes they were.
"""

from __future__ import annotations

import http.client
import socket
import sys
import time


def main() -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=600)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    headers = {"content-type": "application/json", "x-api-key": "dummy", "anthropic-version": "2023-06-01"}
    for line in sys.stdin:
        target, _, body = line.rstrip("\n").partition("\t")
        began = time.perf_counter_ns()
        connection.request("POST", target, body, headers)
        answer = connection.getresponse()
        size = len(answer.read(1))
        first = time.perf_counter_ns() - began
        while piece := answer.read(65536):
            size += len(piece)
        last = time.perf_counter_ns() - began
        if answer.status != 200:
            raise SystemExit(f"{target}: {answer.status}")
        sys.stdout.write(f"{first} {last} {size}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
