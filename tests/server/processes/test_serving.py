"""Servers in processes of their own: shutdown, workers, bodies that are slow or too long. Issue 3, items 9 and 10."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections import Counter
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from derender_server.metrics import forget_dead_workers

BODY = b'{"tokens": [1]}'


LENGTH = len(BODY)


def head(*, length=LENGTH, **headers):
    lines = ["POST /detokenize HTTP/1.1", "host: x", "content-type: application/json"]
    if length is not None:
        lines.append(f"content-length: {length}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def error_type(body):
    return json.loads(body)["error"]["type"]


def wait_until_in_flight(server, count):
    """Wait until so many requests are in progress, the one that asks not counted."""
    while True:
        text = httpx.get(f"{server.url}/metrics").text
        if f"derender_requests_in_progress {count + 1}.0" in text:
            return


# -- bodies ------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("2.13", "8.6")
def test_a_body_that_stalls_is_408_and_does_not_keep_others_waiting(serve, answer_of):
    server = serve("--body-timeout", "2")
    with server.connect() as stalled:
        stalled.sendall(head(x_request_id="slow-1") + BODY[:5])
        assert httpx.post(f"{server.url}/detokenize", content=BODY).status_code == 200
        status, headers, body = answer_of(stalled)
        assert (status, error_type(body)) == (408, "RequestTimeoutError")
        assert headers["x-request-id"] == "slow-1"
        assert headers["connection"] == "close"
        assert stalled.recv(1) == b""


@pytest.mark.rule("8.6")
def test_a_body_that_drips_is_408_too(serve, answer_of):
    server = serve("--body-timeout", "1")
    stop = threading.Event()
    with server.connect() as dripping:
        dripping.sendall(head(length=1000))

        def drip():
            while not stop.wait(0.05):
                try:
                    dripping.sendall(b" ")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            status, _, body = answer_of(dripping)
        finally:
            stop.set()
            thread.join()
    assert (status, error_type(body)) == (408, "RequestTimeoutError")


@pytest.mark.rule("2.5")
def test_a_body_that_is_announced_too_long_is_413_before_any_of_it_is_sent(serve, answer_of):
    server = serve("--body-limit", "1000")
    with server.connect() as connection:
        connection.sendall(head(length=1001))
        status, _, body = answer_of(connection)
    assert (status, error_type(body)) == (413, "PayloadTooLargeError")
    assert "--body-limit" in json.loads(body)["error"]["message"]


@pytest.mark.rule("2.5")
def test_a_body_that_grows_too_long_is_413_before_its_end(serve, answer_of):
    server = serve("--body-limit", "1000")
    with server.connect() as connection:
        connection.sendall(head(length=None, transfer_encoding="chunked"))
        connection.sendall(b"3e9\r\n" + b" " * 1001 + b"\r\n")  # no last chunk
        status, _, body = answer_of(connection)
    assert (status, error_type(body)) == (413, "PayloadTooLargeError")


@pytest.mark.rule("8.6")
def test_a_client_that_goes_away_is_no_fault_of_ours(serve):
    server = serve()
    with server.connect() as connection:
        connection.sendall(head(x_request_id="gone-1") + BODY[:5])
        wait_until_in_flight(server, 1)
    wait_until_in_flight(server, 0)
    server.stop()
    assert len(server.errors) == 1, server.errors
    (line,) = [json.loads(line) for line in server.lines if "gone-1" in line]
    assert (line["status"], line["route"]) == (499, "/detokenize")


@pytest.mark.rule("8.6")
@pytest.mark.parametrize("sent", [b"", b"POST /detokenize HTTP/1.1\r\nHost: here\r\nX-Slow: "])
def test_a_head_that_never_ends_does_not_hold_its_connection(serve, sent):
    server = serve("--body-timeout", "0.5")
    with server.connect() as connection:
        connection.sendall(sent)
        assert connection.recv(1) == b""


def test_connections_are_kept_for_later_requests(serve):
    server = serve("--body-timeout", "0.3")
    with httpx.Client() as client:
        ports = set()
        for _ in range(3):
            response = client.post(f"{server.url}/detokenize", content=BODY)
            ports.add(response.extensions["network_stream"].get_extra_info("client_addr"))
            threading.Event().wait(0.5)  # longer than a head may take
    assert len(ports) == 1


@pytest.mark.rule("2.1")
def test_what_is_no_http_is_400_in_the_shape_of_all_errors(serve, answer_of):
    server = serve()
    for sent in (b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n"):
        with server.connect() as connection:
            connection.sendall(sent)
            status, headers, body = answer_of(connection)
        assert (status, error_type(body)) == (400, "BadRequestError")
        assert headers["content-type"] == "application/json"


# -- the end -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("9.5")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_finishes_what_is_in_flight_and_refuses_what_is_new(serve, answer_of, free_port, workers):
    server = serve("--workers", workers, "--port", str(free_port))
    with server.connect() as begun:
        begun.sendall(head() + BODY[:5])
        wait_until_in_flight(server, 1)
        server.process.send_signal(signal.SIGTERM)
        refused = until_refused(server, answer_of)
        assert refused in ((503, "ServiceUnavailableError"), "no connection")
        if workers == "1":
            assert refused == (503, "ServiceUnavailableError")
        assert server.process.poll() is None
        begun.sendall(BODY[5:])
        status, _, body = answer_of(begun)
        assert status == 200, body
    code = server.process.wait(timeout=60)
    assert code in (0, -signal.SIGTERM)


def until_refused(server, answer_of):
    while True:
        try:
            with server.connect() as connection:
                connection.sendall(head() + BODY)
                status, headers, body = answer_of(connection)
        except (OSError, AssertionError):
            return "no connection"
        if status != 200:
            assert headers["connection"] == "close"
            assert headers["retry-after"]
            return status, error_type(body)


def test_what_takes_longer_than_the_shutdown_timeout_is_cut(serve):
    server = serve("--shutdown-timeout", "0.5")
    with server.connect() as stalled:
        stalled.sendall(head() + BODY[:5])
        wait_until_in_flight(server, 1)
        assert server.stop(signal.SIGTERM) in (0, -signal.SIGTERM)


# -- workers -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("9.7")
def test_workers_share_a_port_and_count_together(serve, free_port):
    server = serve("--workers", "2", "--port", str(free_port))
    while len({json.loads(line)["pid"] for line in server.lines}) < 2:  # one may still be starting
        httpx.post(f"{server.url}/detokenize", content=BODY)
    before = requests_counted(server)
    for _ in range(40):  # a connection each, so that both are asked
        assert httpx.post(f"{server.url}/detokenize", content=BODY).status_code == 200
    assert {requests_counted(server) for _ in range(8)} == {before + 40}
    server.stop()
    lines = [json.loads(line) for line in server.lines]
    assert Counter(line["route"] for line in lines)["/detokenize"] >= 40
    assert all(line["request_id"] for line in lines)


def test_connections_that_come_at_once_are_dealt_out_to_all_workers(serve, free_port):
    server = serve("--workers", "2", "--port", str(free_port))
    while len({json.loads(line)["pid"] for line in server.lines}) < 2:
        httpx.post(f"{server.url}/detokenize", content=BODY)
    before = len(server.lines)
    with ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection(("127.0.0.1", free_port), timeout=10)) for _ in range(64)
        ]
        for connection in connections:
            connection.sendall(b"GET /version HTTP/1.1\r\nHost: here\r\n\r\n")
        assert all(connection.recv(4096).startswith(b"HTTP/1.1 200") for connection in connections)
    server.stop()
    pids = Counter(json.loads(line)["pid"] for line in server.lines[before:] if '"/version"' in line)
    assert sum(pids.values()) == 64
    assert min(pids.values()) >= 8, "by chance less than once in 10^9"
    assert len(pids) == 2


def requests_counted(server):
    families = text_string_to_metric_families(httpx.get(f"{server.url}/metrics").text)
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "derender_requests_total" and sample.labels["route"] == "/detokenize"
    )


def test_what_a_dead_worker_was_doing_is_forgotten(tmp_path):
    gone, here = tmp_path / "gauge_livesum_999999999.db", tmp_path / f"gauge_livesum_{os.getpid()}.db"
    counted = tmp_path / "counter_999999999.db"
    for file in (gone, here, counted):
        file.touch()
    forget_dead_workers(str(tmp_path))
    assert not gone.exists()
    assert here.exists()
    assert counted.exists(), "what it had done was done"


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# -- traces ------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("9.4")
def test_traces_go_to_the_collector_that_opentelemetrys_variables_name(serve):
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    received = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{collector.server_port}"
        server = serve(env={"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_EXPORTER_OTLP_COMPRESSION": "none"})
        assert httpx.post(f"{server.url}/detokenize", content=BODY).status_code == 200
        server.stop()
        collector.shutdown()
        thread.join()
    assert [path for path, _ in received] == ["/v1/traces"]
    (spans,) = ExportTraceServiceRequest.FromString(received[0][1]).resource_spans
    names = {one.key: one.value.string_value for one in spans.resource.attributes}
    assert names["service.name"] == "derender"
    assert [span.name for span in spans.scope_spans[0].spans] == ["POST /detokenize"]
