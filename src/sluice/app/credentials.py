"""User names and passwords in URIs: found though they should have been escaped, and removed from what is shown.

A camera's password may hold any character, and people paste it as it is. Where such a URI can be read in two ways, it
is opened as it was likeliest meant, and shown without all that may be a part of a password.
"""

import re
from urllib.parse import quote

_URI = re.compile(r"([a-zA-Z][\w+.-]*://)([^\s'\"]+)")
_SECRET_QUERY = re.compile(
    r"(?i)([?&;](?:pass(?:word|wd|phrase)?|pwd|token|secret|key|api[_-]?key|sig(?:nature)?|auth)=)[^&;#\s'\"]+?"
    r"(?=:?(?:[&;#\s'\"]|$))"  # a colon behind it is the text's
)
_QUERY = re.compile(r"[?&][\w.-]+=")
_AUTHORITY = re.compile(r"[^/?#]*")
_ADDRESS = re.compile(r"(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:.]+\])(?::\d*)?")
_HOST = re.compile(r"(?=[^:/?#]*[a-zA-Z])[\w.-]+(?::\d*)?(?=[/?#,;)]|$)")
_KEPT = ":%!$&'()*+,;=~"  # what need not be escaped in a user part


def redact(text: str) -> str:
    """Return the text without the credentials of any URI in it: user and password, and secret query values.

    The user part ends at the last "@" that may stand before a host, so that passwords with an "@", "/", "?" or "#" are
    removed whole. Of the rare path that holds an "@" too, the part before that may go with them.
    """
    without = _URI.sub(lambda match: match[1] + match[2][_end_of_user_info(match[2], shown=True) :], text)
    return _SECRET_QUERY.sub(r"\1***", without)


def escape_user_info(uri: str) -> str:
    """Escape what a user or password may not hold in a URI ("@", "/", "?", "#"), as cameras' passwords often do."""
    match = _URI.match(uri)
    end = _end_of_user_info(match[2], shown=False) if match is not None else 0
    if match is None or end == 0:
        return uri
    return match[1] + quote(match[2][: end - 1], safe=_KEPT) + uri[match.start(2) + end - 1 :]


def _end_of_user_info(rest: str, *, shown: bool) -> int:
    """Return where the host begins in what follows "scheme://"; 0 where there is no user part.

    Args:
        rest: the URI behind its scheme.
        shown: whether everything is to be found that may be a user part, rather than what is the likeliest one.
    """
    authority = _AUTHORITY.match(rest)
    assert authority is not None  # it may be empty
    if rest.startswith("["):  # an address of IPv6
        return 0
    first = authority[0].rfind("@") + 1
    last = rest.rfind("@") + 1
    if last <= authority.end() or _QUERY.search(rest, first, last):
        return first if first < len(rest) else 0
    host, tail = authority[0][first:], _HOST.match(rest, last) or _ADDRESS.match(rest, last)
    name, colon, port = host.partition(":")
    if colon and port and not port.isdecimal():
        return last  # what stands behind the ":" is no port, and so a password
    if tail is None or _ADDRESS.fullmatch(host) is not None:
        return first
    followed = tail.end() < len(rest) or ":" in tail[0]
    if not first:
        return last if shown and ":" in rest[:last] and followed else 0
    if shown:
        return first if port else last
    return last if "." not in name and not port and ("." in tail[0] or ":" in tail[0]) else first
