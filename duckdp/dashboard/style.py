"""The owner's page as it looks: one style sheet, named in the page's policy by its hash."""

from __future__ import annotations

import base64
import hashlib

STYLE = """
:root{color-scheme:light dark;--ink:#1d2330;--soft:#667085;--line:#e4e7ec;--back:#f5f6f8;--card:#fff;--blue:#3b6fb6;
--red:#c2413b;--amber:#b7791f;--green:#2f855a}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#98a2b3;--line:#2c3442;--back:#12161d;--card:#1a202b;
--blue:#6ea3e8;--red:#ef7d77;--amber:#e2b25b;--green:#6cc495}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:14px/1.5 system-ui,"DejaVu Sans",sans-serif}
header,main,footer{max-width:70rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:1.6rem}h1{font-size:1.5rem;margin:0}h2{font-size:1.05rem;margin:0 0 .6rem}
h3{font-size:.95rem;margin:1rem 0 .3rem}
header p{margin:.2rem 0;color:var(--soft)}nav{margin:.8rem 0 0}nav a{margin-right:1rem}a{color:var(--blue)}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:1rem 1.2rem;margin:1rem 0}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:.8rem;margin:1rem 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:.8rem 1rem}
.card b{display:block;font-size:1.45rem;font-weight:600;letter-spacing:-.01em;overflow-wrap:anywhere}
.card span{color:var(--soft);font-size:.85rem}.alarm{border-color:var(--red)}.alarm b{color:var(--red)}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}
th{text-align:left;font-weight:600;color:var(--soft);font-size:.8rem;border-bottom:1px solid var(--line);
white-space:nowrap}
td,th{padding:.32rem .7rem .32rem 0;vertical-align:top}tbody tr+tr td{border-top:1px solid var(--line)}
.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}.fit{white-space:nowrap}
.soft{color:var(--soft)}.name{font-weight:600}
code,pre{font:12px/1.45 ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace}
pre{margin:.2rem 0;white-space:pre-wrap;overflow-wrap:anywhere;max-height:24rem;overflow-y:auto}
.say{overflow-wrap:anywhere;unicode-bidi:isolate}summary{cursor:pointer}
.tag{display:inline-block;
border-radius:99px;padding:0 .55rem;font-size:.78rem;border:1px solid currentColor;color:var(--soft)}
.tag.charge{color:var(--blue)}.tag.refused{color:var(--amber)}.tag.failed,.tag.lost{color:var(--red)}
.tag.free{color:var(--green)}
.meter{width:9rem;height:.55rem;display:block;margin:.45rem 0}.rest{fill:var(--line)}.full{fill:var(--red)}
.plot{width:100%;height:auto;display:block}svg text{font:11px system-ui,"DejaVu Sans",sans-serif;fill:var(--soft)}
.grid{stroke:var(--line);fill:none}.limit{stroke:var(--red);stroke-dasharray:5 4;fill:none}.mark{fill:var(--soft)}
.legend{margin:.2rem 0 .6rem;color:var(--soft)}.key{margin-right:1.1rem;white-space:nowrap}
.key svg{width:.7rem;height:.7rem;margin-right:.35rem}
.c0{fill:#3b6fb6}.c1{fill:#e08a3c}.c2{fill:#4f9d69}.c3{fill:#a75d9e}.c4{fill:#c9b037}.c5{fill:#5fb3c4}.c6{fill:#c2605a}.c7{fill:#8d96a5}
.k-charge{fill:#3b6fb6}.k-free{fill:#7fb892}.k-refused{fill:#dca54a}.k-failed{fill:#c2413b}
.limit-key{fill:var(--red)}footer{color:var(--soft);padding-bottom:2rem}
"""


def policy(*, framed: bool = False) -> str:
    """The page's content security policy: nothing is loaded, run, framed or sent; this style sheet alone counts.

    Args:
        framed: say ``frame-ancestors`` too, which counts in a header alone.
    """
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    parts = ["default-src 'none'", f"style-src 'sha256-{digest}'", "base-uri 'none'", "form-action 'none'"]
    return "; ".join([*parts, *(["frame-ancestors 'none'"] if framed else [])])
