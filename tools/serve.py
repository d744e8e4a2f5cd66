"""Serve the built site on this machine only: ``python tools/serve.py [--port 8000]``.

The site needs no server (a double click opens it); this shows it as a host would, with
its 404 page.
"""

from __future__ import annotations

import argparse
import functools
import http.server
from pathlib import Path

import environment

SITE = environment.ROOT / "_build" / "html"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves one folder; an address that it lacks gets the site's own 404 page."""

    def send_error(self, code, message=None, explain=None):
        page = Path(self.directory) / "404.html"
        if code != 404 or not page.is_file():
            super().send_error(code, message, explain)
            return
        body = page.read_bytes()
        self.send_response(404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def make_server(folder: Path, port: int) -> http.server.ThreadingHTTPServer:
    """A server of one folder, bound to this machine alone."""
    if not (folder / "index.html").is_file():
        raise environment.Stop("The site is not built yet: run `make book` first.")
    handler = functools.partial(Handler, directory=str(folder))
    try:
        return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as trouble:
        raise environment.Stop(
            f"Port {port} cannot be used ({trouble.strerror}): name another one, "
            f'`make serve ARGS="--port {port + 1}"`.'
        ) from trouble


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8000)
    server = make_server(SITE, parser.parse_args().port)
    address = f"http://127.0.0.1:{server.server_port}/"
    environment.say(f"{address} shows the book; Ctrl-C ends it.")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        environment.say()
    finally:
        server.server_close()
    return 0


if __name__ == "__main__":
    environment.finish(main)
