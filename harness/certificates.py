"""A CA and certificates, made by openssl."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA in a folder."""

    folder: Path
    name: str = "ca"

    @property
    def certificate(self) -> Path:
        """The CA's own certificate."""
        return self.folder / f"{self.name}.pem"

    def issue(self, name: str, addresses: str = "IP:127.0.0.1") -> tuple[Path, Path]:
        """A certificate for a node or client, and its key."""
        key, request, certificate = (self.folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={addresses}\nextendedKeyUsage=serverAuth,clientAuth\n")
        _openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", str(key), "-out", str(request)),
        )
        _openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-days", "2"),
            *("-CAkey", str(self.folder / f"{self.name}.key"), "-CAcreateserial", "-extfile", str(extensions)),
            *("-out", str(certificate)),
        )
        key.chmod(0o600)
        return certificate, key


def make_authority(folder: Path, name: str = "ca") -> Authority:
    """A new CA."""
    folder.mkdir(parents=True, exist_ok=True)
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
        *("-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign"),
        *("-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")),
    )
    return Authority(folder, name)


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
