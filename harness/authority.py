"""A certificate authority in memory, whose certificates may be of any age."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_YEARS = 10
_SKEW = dt.timedelta(minutes=5)


@dataclass(frozen=True, slots=True, repr=False)
class Authority:
    """A CA: its certificate and its key. Has no repr, so that no log shows the key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def new_authority(name: str, now: dt.datetime) -> Authority:
    """A CA that signs itself, valid for ten years from `now` (aware of its zone)."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(name, name, key.public_key(), now)
    signs_only = x509.KeyUsage(
        key_cert_sign=True, crl_sign=True, digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(signs_only, critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate, key)


def read_authority(certificate: bytes, key: bytes) -> Authority:
    """The CA of these two PEM files.

    Raises:
        ValueError: they aren't PEM, or not of the same CA.
    """
    authority = x509.load_pem_x509_certificate(certificate)
    private = serialization.load_pem_private_key(key, password=None)
    if not isinstance(private, ec.EllipticCurvePrivateKey) or private.public_key() != authority.public_key():
        raise ValueError("the key is not that of the certificate")
    return Authority(authority, private)


def issue(authority: Authority, name: str, hosts: Iterable[str], now: dt.datetime) -> tuple[bytes, bytes]:
    """A certificate of `name` for `hosts` (names or IP addresses), and its key: both PEM.

    It serves as the certificate of a server and of a client, since nodes call one another.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        _builder(name, str(issuer), key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), _pem(key)


def authority_pems(authority: Authority) -> tuple[bytes, bytes]:
    """The CA's certificate and its key, both PEM."""
    return authority.certificate.public_bytes(serialization.Encoding.PEM), _pem(authority.key)


def _builder(subject: str, issuer: str, key: ec.EllipticCurvePublicKey, now: dt.datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + dt.timedelta(days=365 * _YEARS))
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
