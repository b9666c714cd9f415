"""serve/scram.py, users.py: the exchange against the RFC's own, wrong passwords, names that nobody has, the file."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import stat
from pathlib import Path

import pytest

from duckdp.errors import LedgerError, ParameterError
from duckdp.serve.messages import ProtocolError
from duckdp.serve.scram import ITERATIONS, Exchange, Verifier, make_verifier, nobodys, read_verifier
from duckdp.serve.users import Users


def _proof(password: str, bare: bytes, first: bytes, without: bytes) -> tuple[bytes, bytes]:
    """A client's proof, and the server's signature that it expects, written down from the RFC anew."""
    fields = dict(part.split(b"=", 1) for part in first.split(b","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(fields[b"s"]), int(fields[b"i"]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    said = b",".join((bare, first, without))
    signature = hmac.digest(hashlib.sha256(client_key).digest(), said, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), said, "sha256")
    return base64.b64encode(proof), b"v=" + base64.b64encode(server)


def _talk(verifier: Verifier, password: str) -> tuple[bytes | None, bytes]:
    exchange, bare = Exchange(verifier), b"n=,r=fyko+d2lbbFgONRv9qkxdawL"
    first = exchange.first(b"n,," + bare)
    nonce = first.split(b",")[0]
    without = b"c=biws," + nonce
    proof, expected = _proof(password, bare, first, without)
    return exchange.last(without + b",p=" + proof), expected


def test_the_example_of_the_rfc() -> None:
    """RFC 7677, section 3: password "pencil"; its proof fits our verifier's keys, and its signature is ours."""
    verifier = make_verifier("pencil", salt=base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), iterations=4096)
    said = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(verifier.stored_key, said, "sha256")
    key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert hashlib.sha256(key).digest() == verifier.stored_key
    expected = base64.b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert hmac.digest(verifier.server_key, said, "sha256") == expected


def test_who_knows_the_password_gets_in_and_nobody_else() -> None:
    verifier = make_verifier("right horse", iterations=10)
    said, expected = _talk(verifier, "right horse")
    assert said == expected
    for wrong in ("right hors", "right horse ", "", "RIGHT HORSE"):
        assert _talk(verifier, wrong)[0] is None
    assert _talk(nobodys("eve", b"secret"), "right horse")[0] is None


def test_a_verifier_is_its_text_and_shows_no_key() -> None:
    verifier = make_verifier("right horse", iterations=10)
    assert read_verifier(str(verifier)) == verifier
    assert base64.b64encode(verifier.stored_key).decode() not in repr(verifier)
    for text in ("", "SCRAM-SHA-256$1:$:", str(verifier)[:-5], str(verifier).replace("SHA-256", "SHA-1")):
        with pytest.raises(ValueError):
            read_verifier(text)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"n,,",
        b"n,,n=x",
        b"p=tls-unique,,n=,r=abc",
        b"n,a=other,n=,r=abc",
        b"n,,m=ext,n=,r=abc",
        b"n,,n=,r=abc,r=abd",
        b"\xff,,n=,r=",
    ],
)
def test_first_messages_that_are_none_are_refused(said: bytes) -> None:
    with pytest.raises(ProtocolError):
        Exchange(make_verifier("right horse", iterations=10)).first(said)


def test_last_messages_of_another_exchange_are_refused() -> None:
    verifier = make_verifier("right horse", iterations=10)
    for change in (b"c=biws,r=abc,p=", b"c=eSws,r=%s,p=", b"r=%s,p=", b"c=biws,r=%s,p=!"):
        exchange = Exchange(verifier)
        nonce = exchange.first(b"n,,n=,r=abc").split(b",")[0][2:]
        said = (change % nonce if b"%s" in change else change) + base64.b64encode(bytes(32))
        with pytest.raises(ProtocolError):
            exchange.last(said)


def test_names_that_nobody_has_are_answered_like_others(tmp_path: Path) -> None:
    users = Users(tmp_path / "u")
    users.add("ana", "right horse")
    again = Users(tmp_path / "u")
    (one, known), (two, unknown), (three, _) = (again.verifier(n) for n in ("ana", "eve", "eve"))
    assert known
    assert not unknown
    assert two == three  # the same salt each time, also in another process
    assert two != again.verifier("mallory")[0]
    assert one.iterations == two.iterations == ITERATIONS
    assert len(one.salt) == len(two.salt)
    assert Users(tmp_path / "u").verifier("eve")[0] == two


def test_the_file_holds_no_password_and_its_owner_alone_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "u"
    users = Users(path)
    users.add("ana", "right horse")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "horse" not in path.read_text()
    users.add("ana", "another horse")
    assert _talk(Users(path).verifier("ana")[0], "another horse")[0] is not None
    assert _talk(Users(path).verifier("ana")[0], "right horse")[0] is None
    users.remove("ana")
    assert users.names() == []
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "u.lock"]


def test_what_cannot_be_a_user_is_refused(tmp_path: Path) -> None:
    users = Users(tmp_path / "u")
    for name, password in (("", "right horse"), ("a\n", "right horse"), ("x" * 64, "right horse"), ("ana", "short")):
        with pytest.raises(ParameterError):
            users.add(name, password)
    with pytest.raises(ParameterError):
        users.remove("ana")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"users": {"ana": "x"}, "secret": ""}', json.dumps({"users": {}})])
def test_a_damaged_file_lets_nobody_in(tmp_path: Path, text: str) -> None:
    (tmp_path / "u").write_text(text)
    with pytest.raises(LedgerError):
        Users(tmp_path / "u").verifier("ana")
