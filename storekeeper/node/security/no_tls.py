"""For clients of plain HTTP."""

from __future__ import annotations

import ssl

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""`verify` of an HTTP client without TLS. It trusts no certificate.

Without it, each client loads all certificates that the machine trusts: 30 ms of a processor.
"""
