"""What the helper and those who ask it send each other: a header in JSON, and bytes."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any, Literal

NOWHERE: Literal["nowhere"] = "nowhere"
Place = tuple[str, int] | Literal["nowhere"] | None
"""Where a worker keeps dispatches: in a cache, by its directory and its bytes, or in none."""

_SIZES = struct.Struct("<IQ")
_PIECE = 1 << 20


def send(connection: socket.socket, header: dict[str, Any], payload: bytes = b"") -> None:
    """Sends one message."""
    data = json.dumps(header).encode()
    connection.sendall(_SIZES.pack(len(data), len(payload)) + data)
    # The other side may have closed already when the header was all that it needed.
    if payload:
        connection.sendall(payload)


def receive(connection: socket.socket) -> tuple[dict[str, Any], bytes]:
    """Waits for one message: its header and its bytes.

    Raises EOFError if the other side is gone before its end.
    """
    header_size, size = _SIZES.unpack(_exactly(connection, _SIZES.size))
    header = json.loads(_exactly(connection, header_size))
    return header, _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(_PIECE, size - len(data)))
        if not piece:
            raise EOFError("the connection ended within a message")
        data += piece
    return bytes(data)
