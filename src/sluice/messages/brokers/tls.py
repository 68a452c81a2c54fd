"""The options of TLS as a context of Python's ssl module."""

from __future__ import annotations

import ssl

from sluice.errors import ConfigurationError
from sluice.messages.brokers.endpoint import Endpoint


def tls_context(endpoint: Endpoint) -> ssl.SSLContext | None:
    """Return the context for an endpoint's options; None where TLS is off.

    Raises:
        ConfigurationError: a certificate file cannot be used; names it.
    """
    if not endpoint.flag("enable-tls"):
        return None
    options = endpoint.options
    context = ssl.create_default_context()
    try:
        trusted, folder = options["tls-cafile"], options.get("tls-capath", "")
        if trusted or folder:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(trusted or None, folder or None)
    except OSError as error:
        raise ConfigurationError(f"tls-cafile {trusted or folder!r} cannot be used: {error}") from error
    if options["tls-certfile"]:
        try:
            context.load_cert_chain(options["tls-certfile"], options["tls-keyfile"])
        except OSError as error:
            raise ConfigurationError(f"tls-certfile {options['tls-certfile']!r} cannot be used: {error}") from error
    return context
