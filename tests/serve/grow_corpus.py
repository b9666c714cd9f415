"""Grows ``tests/fixtures/wire.txt``: messages that a fuzzer led by coverage keeps (``pip install atheris``).

Run: ``python -m tests.serve.grow_corpus FOLDER [libFuzzer's options]``, such as ``-max_total_time=480``. It begins with
messages that are right, keeps in FOLDER what reaches code of ``duckdp/serve`` that nothing did before, and ends at the
first exception, cut reply or input that takes 20 s. Then ``-merge=1 SMALL FOLDER`` puts the fewest that reach as much
into an empty folder, and ``--write SMALL`` makes the fixture of them.

The first byte of an input says which it is: 0 a conversation, 1 a stranger's first bytes, other ones are passed over.
"""

from __future__ import annotations

import base64
import random
import struct
import sys
from pathlib import Path

FEW = 400  # conversations that it begins with; strangers are as many
WITH_VALUES: list[tuple[str, list[tuple[int, bytes]]]] = [
    ("SELECT $1 + 1, $2::VARCHAR", [(23, b"4"), (25, b"x")]),
    ("SELECT $1, $2", [(23, b"\0\0\0\4"), (701, b"\x3f\xf0\0\0\0\0\0\0")]),
    ("SELECT * FROM t WHERE a > $1 AND b = ANY($2) LIMIT $3", [(0, b"1"), (0, b"{x1,x2}"), (0, b"3")]),
    ("SELECT $1", [(1007, b"\0\0\0\1\0\0\0\0\0\0\0\x17\0\0\0\1\0\0\0\1\0\0\0\4\0\0\0\7")]),
    ("SELECT $1, $2", [(1082, b"2024-02-29"), (1114, b"2024-02-29 01:02:03")]),
    ("SELECT $1, $2", [(1700, b"12.50"), (16, b"t")]),
    ("SELECT $1", [(1700, b"\0\2\0\0\0\0\0\2\0\x0c\x13\x88")]),
    ("COPY (SELECT $1::INTEGER AS a) TO STDOUT (FORMAT binary)", [(23, b"1")]),
    ("DECLARE c CURSOR FOR SELECT $1::INTEGER", [(23, b"1")]),
    ("INSERT INTO t SELECT $1, $2 WHERE false", [(20, b"1"), (25, b"x")]),
    ("SELECT count(*) FROM visits WHERE age > $1", [(23, b"30")]),
]
SLOWEST = "-timeout=20"  # seconds of one input


def write(folder: Path) -> None:
    """The fixture, of a folder's files."""
    from tests.serve.test_fuzz import CORPUS

    kinds = {b"\0": "c", b"\1": "s"}
    inputs = sorted(data for path in folder.iterdir() if (data := path.read_bytes())[:1] in kinds)
    lines = [f"{kinds[data[:1]]} {base64.b64encode(data[1:]).decode()}\n" for data in inputs]
    CORPUS.write_text("".join(lines))


def extended(statement: str, values: list[tuple[int, bytes]]) -> bytes:
    """A statement by the extended protocol; values are of a type each, and all in text (0) or all in binary."""
    from tests.serve.test_fuzz import message, text

    form = int(any(byte < 32 for _, raw in values for byte in raw))
    oids = struct.pack(f"!H{len(values)}I", len(values), *(oid for oid, _ in values))
    raw = b"".join(struct.pack("!i", len(value)) + value for _, value in values)
    bound = struct.pack("!HHH", 1, form, len(values)) + raw + struct.pack("!HH", 1, form)
    parts = [
        (b"P", text("s") + text(statement) + oids),
        (b"D", b"S" + text("s")),
        (b"B", text("p") + text("s") + bound),
        (b"D", b"P" + text("p")),
        (b"E", text("p") + struct.pack("!i", 2)),
        (b"E", text("p") + struct.pack("!i", 0)),
        (b"C", b"S" + text("s")),
        (b"S", b""),
    ]
    return b"".join(message(*part) for part in parts)


def begin(folder: Path) -> None:
    """Fill an empty folder with messages that are right, or nearly."""
    from tests.serve.test_fuzz import TEXTS, message, one, proof, startup, text, torn

    draw = random.Random(5)
    for number in range(FEW):
        said = [torn(one(draw), draw) if draw.random() < 0.03 else one(draw) for _ in range(draw.randrange(1, 7))]
        (folder / f"c{number}").write_bytes(b"\0" + b"".join(said))
        (folder / f"s{number}").write_bytes(b"\1" + startup(draw) + proof(draw) + proof(draw))
    for number, each in enumerate(TEXTS):
        (folder / f"q{number}").write_bytes(b"\0" + message(b"Q", text(each)))
        (folder / f"e{number}").write_bytes(b"\0" + extended(each, []))
    for number, (each, values) in enumerate(WITH_VALUES):
        (folder / f"v{number}").write_bytes(b"\0" + extended(each, values))


def main() -> None:
    """Fuzz, by libFuzzer's own options."""
    import atheris  # type: ignore[import-not-found]

    with atheris.instrument_imports(include=["duckdp.serve"]):
        from duckdp.serve import listener
        from tests.serve import test_fuzz
    folder = next((Path(word) for word in sys.argv[1:] if not word.startswith("-")), None)
    if folder is not None and not any("-merge" in word for word in sys.argv) and not any(folder.iterdir()):
        begin(folder)
    listener.DELAY = 0.0
    with test_fuzz.confined() as con:

        def ask(data: bytes) -> None:
            if data[:1] == b"\0":
                test_fuzz.converse(con, [data[1:]])
            elif data[:1] == b"\1":
                test_fuzz.met([data[1:]])

        again = f"{sys.executable} -m tests.serve.grow_corpus"  # how a merge starts itself, by a shell
        atheris.Setup([again, SLOWEST, *sys.argv[1:]], ask)
        atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(Path(sys.argv[2]))
    else:
        main()
