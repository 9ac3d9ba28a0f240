"""Issues tokens as an OpenID Connect provider does: for clients with a secret, signed with a key that it publishes."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

SECRET = "of a client"  # noqa: S105
_LIFETIME_S = 3600
_KEY_ID = "tests"


class TokenIssuer:
    """A server on loopback, in a thread of its own, until `close`.

    Attributes:
        url: its address.
    """

    def __init__(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                _answer(self, 200, {"keys": [_public(key)]})

            def do_POST(self) -> None:
                client, secret = _credentials(self)
                if secret == SECRET:
                    token = _token(key, client)
                    _answer(self, 200, {"access_token": token, "token_type": "Bearer", "expires_in": _LIFETIME_S})
                else:
                    _answer(self, 401, {"error": "invalid_client"})

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()


def _credentials(request: BaseHTTPRequestHandler) -> tuple[str, str]:
    """The client and its secret, from the header of Kafka's clients or from the form of the schema registry."""
    form = parse_qs(request.rfile.read(int(request.headers.get("Content-Length", 0))).decode())
    if "client_id" in form:
        return form["client_id"][0], form["client_secret"][0]
    given = base64.b64decode(request.headers.get("Authorization", "").removeprefix("Basic ")).decode()
    client, _, secret = given.partition(":")
    return client, secret


def _answer(request: BaseHTTPRequestHandler, status: int, content: Any) -> None:
    body = json.dumps(content).encode()
    request.send_response(status)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def _token(key: rsa.RSAPrivateKey, subject: str) -> str:
    now = int(time.time())
    header = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
    claims = {"sub": subject, "iat": now, "exp": now + _LIFETIME_S, "scope": "kafka"}
    signed = f"{_encoded(json.dumps(header).encode())}.{_encoded(json.dumps(claims).encode())}"
    return f"{signed}.{_encoded(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _public(key: rsa.RSAPrivateKey) -> dict[str, str]:
    numbers = key.public_key().public_numbers()
    parts = {"n": numbers.n, "e": numbers.e}
    encoded = {name: _encoded(number.to_bytes((number.bit_length() + 7) // 8)) for name, number in parts.items()}
    return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY_ID, **encoded}


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
