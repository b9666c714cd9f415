"""Where a ledger on a server is: ``postgresql://user@host:5432/database?schema=clinic``.

The address names the server, the database and the schema, which holds one ledger and nothing else. It is shown in
errors and listings, so it never holds a password: that is the driver's to find, in the file of PGPASSFILE, in a service
of PGSERVICEFILE, or in PGPASSWORD. What else the driver may be told in an address is listed in ``ALLOWED``.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from duckdp.errors import ParameterError

SCHEMES = ("postgresql", "postgres")
SCHEMA = "duckdp"  # where the address names none
#: Parameters of the driver that an address may have.
ALLOWED = frozenset(
    {"host", "hostaddr", "port", "dbname", "user", "service", "passfile", "connect_timeout", "target_session_attrs"}
    | {"sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "sslnegotiation", "channel_binding", "require_auth"}
    | {"gssencmode", "krbsrvname", "load_balance_hosts", "tcp_user_timeout"}
)

# Addresses of other forms, which are no names of files either: they may hold a password.
_FOREIGN = re.compile(r"[a-z][a-z0-9+.-]+:(//|/?[^/]*:[^/]*@)|.*\bpassword\s*=", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SHAPE = "postgresql://user@host:5432/database?schema=clinic"


class Address(NamedTuple):
    """An address, taken apart for the driver.

    Attributes:
        text: in one form.
        schema: which holds the ledger.
        parameters: for the driver.
    """

    text: str
    schema: str
    parameters: dict[str, str]


def is_address(path: str) -> bool:
    """Whether a ledger is named by an address, rather than by the path of a file."""
    return path.partition("://")[0] in SCHEMES and "://" in path


def require_path(given: str) -> None:
    """Refuse an address of another form: as the name of a file it would be shown, with the password in it.

    Raises:
        ParameterError: P107; it is not repeated.
    """
    if _FOREIGN.match(given) is not None:
        rule = f"must be the path of a file, or an address such as {_SHAPE}, in small letters, with no password in it."
        raise _refused(rule)


def parse(given: str) -> Address:
    """An address, as it was given.

    Raises:
        ParameterError: P107; it is not repeated, since it may hold a password.
    """
    try:
        split = urlsplit(given)
        login, _, hosts = split.netloc.rpartition("@")
        query = parse_qsl(split.query, keep_blank_values=True, strict_parsing=bool(split.query))
    except ValueError:
        raise _refused(f"must be an address such as {_SHAPE}.") from None
    named = dict(query)
    if ":" in login or {"password", "sslpassword"} & set(named):
        raise _refused(
            "must hold no password. Put it into the file that PGPASSFILE names (~/.pgpass by default), into a service, "
            "or into the environment as PGPASSWORD."
        )
    schema = named.pop("schema", SCHEMA)
    unknown = sorted(set(named) - ALLOWED)
    if split.fragment or unknown or len(named) + ("schema" in dict(query)) != len(query):
        raise _refused(f"must hold nothing but what an address may: {', '.join(sorted(ALLOWED))}, schema; each once.")
    if not _NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise _refused("must name its schema by small letters, digits and underscores, and not begin it with pg_.")
    parameters = {**_login(login), **_hosts(hosts), **_database(split.path), **named}
    if any("\0" in value for value in parameters.values()):
        raise _refused(f"must be an address such as {_SHAPE}.")
    return Address(_text(parameters, schema), schema, parameters)


def canonical(given: str) -> str:
    """The one form of an address.

    Raises:
        ParameterError: P107.
    """
    return parse(given).text


def _login(text: str) -> dict[str, str]:
    return {"user": unquote(text)} if text else {}


def _hosts(text: str) -> dict[str, str]:
    """Hosts and ports, several separated by commas."""
    if not text:
        return {}
    hosts, ports = [], []
    for each in text.split(","):
        found = re.fullmatch(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]]*)(?::([0-9]{1,5}))?", each)
        if found is None:
            raise _refused(f"must be an address such as {_SHAPE}.")
        hosts.append(unquote(found[1]).strip("[]"))
        ports.append(found[2] or "")
    joined = {"host": ",".join(hosts)} if any(hosts) else {}
    return joined | ({"port": ",".join(ports)} if any(ports) else {})


def _database(path: str) -> dict[str, str]:
    return {"dbname": unquote(path[1:])} if path[1:] else {}


def _text(parameters: dict[str, str], schema: str) -> str:
    rest = dict(parameters)
    user, host, port = rest.pop("user", ""), rest.get("host", ""), rest.get("port", "")
    plain = "" if "," in host + port or "/" in host or ":" in host else host
    where = ""
    if plain:
        del rest["host"]
        where = plain + (f":{rest.pop('port')}" if port else "")
    login = f"{quote(user, safe='')}@" if user else ""
    database = quote(rest.pop("dbname", ""), safe="")
    query = "&".join(f"{name}={quote(value, safe='/,:')}" for name, value in sorted(rest.items()))
    return f"postgresql://{login}{where}/{database}?{query + '&' if query else ''}schema={schema}"


def _refused(rule: str) -> ParameterError:
    return ParameterError("P107", "ledger", "postgresql://...", rule)
