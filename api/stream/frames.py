"""WebSocket frames (RFC 6455) as a server sends them: whole, unmasked, uncompressed. Pure."""

_TEXT, _CLOSE, _PING, _PONG = 0x81, 0x88, 0x89, 0x8A
_MAX_REASON_BYTES = 123
"""A control frame holds 125, two of them the code."""

PING = bytes([_PING, 0])


def text(payload: bytes) -> bytes:
    """A message of UTF-8 text."""
    size = len(payload)
    if size < 126:
        return bytes((_TEXT, size)) + payload
    if size < 0x1_0000:
        return b"%c\x7e%b%b" % (_TEXT, size.to_bytes(2, "big"), payload)
    return b"%c\x7f%b%b" % (_TEXT, size.to_bytes(8, "big"), payload)


def pong(payload: bytes) -> bytes:
    """The answer to a ping, which holds at most 125 bytes."""
    return bytes((_PONG, len(payload))) + payload


def close(code: int | None, reason: str = "") -> bytes:
    """A close frame; None answers a close frame without a code. `reason` is plain ASCII."""
    body = b"" if code is None else code.to_bytes(2, "big") + reason.encode()[:_MAX_REASON_BYTES]
    return bytes((_CLOSE, len(body))) + body


def end_of_frame(data: bytes, offset: int) -> int:
    """End of the frame that contains `offset`; `offset` itself when it lies between two.

    `data` is whole frames of this module.
    """
    end = 0
    while end < offset:
        size, head = data[end + 1], 2
        if size == 126:
            size, head = int.from_bytes(data[end + 2 : end + 4], "big"), 4
        elif size == 127:
            size, head = int.from_bytes(data[end + 2 : end + 10], "big"), 10
        end += head + size
    return end
