"""TCP connections to a server that can be cut without a word, as by a switch without power."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class TcpRelay:
    """Forwards connections to a local port; while it is a black hole nothing arrives."""

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._passes = threading.Event()
        self._passes.set()
        self._sockets: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._forwarding: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def blackhole(self) -> None:
        """From now on hold back all bytes, and keep every connection open."""
        self._passes.clear()

    def heal(self) -> None:
        """Deliver what was held back."""
        self._passes.set()

    def close(self) -> None:
        """Close all connections.

        They are shut down first: a thread that still waits for a closed one may go on with the
        socket of another test that was given its number.
        """
        self.heal()
        _shut_down(self._server)
        self._accepting.join()
        self._server.close()
        for each in self._sockets:
            _shut_down(each)
        for thread in self._forwarding:
            thread.join()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
                server = socket.create_connection(("127.0.0.1", self._upstream))
            except OSError:
                return
            self._sockets += [client, server]
            for source, target in ((client, server), (server, client)):
                thread = threading.Thread(target=self._forward, args=(source, target), daemon=True)
                self._forwarding.append(thread)
                thread.start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                self._passes.wait()
                target.sendall(data)
            self._passes.wait()
            target.shutdown(socket.SHUT_WR)
        except OSError:
            # One of them is gone.
            return


def _shut_down(connection: socket.socket) -> None:
    """Wake the threads that wait for it."""
    with suppress(OSError):
        # Its other end may be gone.
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def tcp_relay(port: int) -> Iterator[TcpRelay]:
    """A relay while the block runs."""
    relay = TcpRelay(port)
    try:
        yield relay
    finally:
        relay.close()
