"""How deep JSON nests, found without nesting: before any reader that recurses is let near it.

The standard library's reader recurses in C, and what stops it is Python's recursion limit, which
any library may have raised (py_ecc does, to 100,000). The stack ends before, and the process.
"""

import re

# A text is taken whole, also one that does not end: nothing is looked at twice.
_PIECES = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def nests_deeper(text: str, most: int) -> bool:
    """Whether more than `most` objects and arrays stand inside one another.

    Of what is no JSON it says something, too: never False where a reader would go deeper.
    """
    depth = 0
    for piece in _PIECES.finditer(text):
        match text[piece.start()]:
            case "[" | "{":
                depth += 1
                if depth > most:
                    return True
            case "]" | "}":
                depth -= 1
    return False
