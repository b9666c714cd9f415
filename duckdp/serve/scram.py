"""SCRAM-SHA-256: who knows a password shows it without saying it, and what is stored does not let anybody in.

A verifier holds salt, iterations, StoredKey = H(ClientKey) and ServerKey, never the password. Whoever steals it must
guess passwords one by one at ``ITERATIONS`` hashes each, or be a server that the client was made to trust.

Source: RFC 5802 and 7677; PostgreSQL documentation, "SASL Authentication". Passwords are taken as they are, in UTF-8:
saslprep is left out where it would change nothing, and what is not ASCII must be typed the same on both sides.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass

from duckdp.serve.messages import ProtocolError

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 4096 * 16  # RFC 7677 says at least 4096
SALT = 16  # bytes
NONCE = 18  # bytes of the server's part


@dataclass(frozen=True, kw_only=True)
class Verifier:
    """What is stored of a password.

    Attributes:
        salt, iterations: of its key, public to whoever asks by name.
        stored_key, server_key: 32 bytes each.
    """

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __str__(self) -> str:
        keys = f"{_base64(self.stored_key)}:{_base64(self.server_key)}"
        return f"{MECHANISM}${self.iterations}:{_base64(self.salt)}${keys}"

    __repr__ = object.__repr__  # a traceback shows no keys


def make_verifier(password: str, *, salt: bytes | None = None, iterations: int = ITERATIONS) -> Verifier:
    """What to store of a password."""
    salt = secrets.token_bytes(SALT) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    client_key = _hmac(salted, b"Client Key")
    return Verifier(
        salt=salt,
        iterations=iterations,
        stored_key=hashlib.sha256(client_key).digest(),
        server_key=_hmac(salted, b"Server Key"),
    )


def read_verifier(stored: str) -> Verifier:
    """The verifier of its text.

    Raises:
        ValueError: the text is none.
    """
    name, public, keys = stored.split("$")
    iterations, salt = public.split(":")
    stored_key, server_key = (b64decode(k, validate=True) for k in keys.split(":"))
    if name != MECHANISM or len(stored_key) != 32 or len(server_key) != 32 or int(iterations) < 1:
        raise ValueError("not a verifier")
    return Verifier(
        salt=b64decode(salt, validate=True), iterations=int(iterations), stored_key=stored_key, server_key=server_key
    )


def nobodys(user: str, secret: bytes) -> Verifier:
    """The verifier of a user that there is not: the same each time, and no password fits it.

    So that a stranger learns nothing from the salt, or from the work, of a name that nobody has.
    """
    salt = _hmac(secret, b"salt" + user.encode())[:SALT]
    keys = (_hmac(secret, what + user.encode()) for what in (b"stored", b"server"))
    stored_key, server_key = keys
    return Verifier(salt=salt, iterations=ITERATIONS, stored_key=stored_key, server_key=server_key)


class Exchange:
    """The server's side of one exchange: two messages of the client's, each answered once.

    Args:
        verifier: of who the client says it is.
    """

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier
        self._bare = self._first = b""
        self._header = b""
        self._nonce = b""

    def first(self, said: bytes) -> bytes:
        """The answer to the client's first message.

        Raises:
            ProtocolError: it is not one, or wants what is not offered.
        """
        flag, _, rest = said.partition(b",")
        name, _, bare = rest.partition(b",")
        if flag not in (b"n", b"y") or name:  # channel binding and another identity are not offered
            raise ProtocolError("channel binding or another identity is asked for")
        fields = _fields(bare)
        if b"m" in fields or not fields.get(b"r"):
            raise ProtocolError("a SCRAM message lacks its nonce, or asks for an extension")
        self._header, self._bare = flag + b",,", bare
        self._nonce = fields[b"r"] + b64encode(secrets.token_bytes(NONCE))
        salt = b64encode(self._verifier.salt)
        self._first = b"r=%s,s=%s,i=%d" % (self._nonce, salt, self._verifier.iterations)
        return self._first

    def last(self, said: bytes) -> bytes | None:
        """The proof that the server knows the verifier; None, where the client does not know the password.

        Raises:
            ProtocolError: the message is not of this exchange.
        """
        without, _, proof = said.rpartition(b",p=")
        fields = _fields(without)
        try:
            header, given = b64decode(fields.get(b"c", b""), validate=True), b64decode(proof, validate=True)
        except Base64Error:
            raise ProtocolError("a SCRAM message is not base64") from None
        if not self._nonce or header != self._header or fields.get(b"r") != self._nonce or len(given) != 32:
            raise ProtocolError("a SCRAM message is of another exchange")
        whole = b",".join((self._bare, self._first, without))
        self._nonce = b""  # once
        signature = _hmac(self._verifier.stored_key, whole)
        client_key = bytes(a ^ b for a, b in zip(given, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key):
            return None
        return b"v=" + b64encode(_hmac(self._verifier.server_key, whole))


def _fields(said: bytes) -> dict[bytes, bytes]:
    found = {}
    for part in said.split(b","):
        name, equals, value = part.partition(b"=")
        if len(name) != 1 or not equals or name in found:
            raise ProtocolError("a SCRAM message is not a list of fields")
        found[name] = value
    return found


def _hmac(key: bytes, said: bytes) -> bytes:
    return hmac.digest(key, said, "sha256")


def _base64(data: bytes) -> str:
    return b64encode(data).decode()
