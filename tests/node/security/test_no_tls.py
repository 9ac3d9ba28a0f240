from __future__ import annotations

import ssl

from storekeeper.node.security.no_tls import NO_TLS


def test_it_trusts_no_certificate() -> None:
    assert NO_TLS.verify_mode is ssl.CERT_REQUIRED
    assert NO_TLS.get_ca_certs() == []
