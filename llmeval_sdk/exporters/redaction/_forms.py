"""The shapes of secrets, as their makers and the maintained scanners document them: pure facts.

A token is known by its prefix. A password has no shape, so it is known by the name it stands under.
"""

from __future__ import annotations


W, D, X = "[A-Za-z0-9]", "[A-Za-z0-9_-]", "[A-Fa-f0-9]"
_END = "(?![A-Za-z0-9])"
_UUID = f"{X}{{8}}(?:-{X}{{4}}){{3}}-{X}{{12}}"

_NUMBERS = tuple(f"{first}{second}" for first in "MNO" for second in "DTjz")

TOKENS: tuple[tuple[str, str], ...] = (
    # Model providers and the tools around them: `sk-` is OpenAI, Anthropic, DeepSeek, OpenRouter …
    ("sk-", f"{D}{{20,}}"), ("hf_", f"{W}{{30,}}"), ("api_org_", f"{W}{{30,}}"),
    ("gsk_", f"{W}{{40,}}"),
    ("xai-", f"{W}{{40,}}"), ("pplx-", f"{W}{{32,}}"), ("r8_", f"{W}{{32,}}"),
    ("fw_", f"{W}{{22,}}"), ("nvapi-", f"{D}{{40,}}"),
    ("csk-", f"{W}{{40,}}"), ("pcsk_", f"{D}{{40,}}"), ("lsv2_", f"(?:pt|sk)_{X}{{32}}_{X}{{10}}"),
    ("ls__", f"{X}{{32,}}"), ("tvly-", f"{D}{{20,}}"), ("jina_", f"{D}{{40,}}"),
    ("pa-", f"{D}{{43}}(?!{D})"), ("tgp_v1_", f"{D}{{40,}}"),
    ("fc-", f"{X}{{32,}}"), ("e2b_", f"{X}{{40,}}"), ("phx_", f"{W}{{40,}}"),
    # Clouds and hosts.
    *((kind, f"[A-Z0-9]{{16}}{_END}") for kind in ("AKIA", "ASIA", "ABIA", "ACCA")),
    ("AIza", f"{D}{{35}}(?!{D})"), ("ya29.", f"{D}{{20,}}"), ("GOCSPX-", f"{D}{{20,}}"),
    ("LTAI", f"{W}{{16,20}}{_END}"),
    ("AQVN", f"{D}{{35,}}"), ("dapi", f"{X}{{32,}}"), ("HRKU-", f"{D}{{30,}}"),
    *((f"do{kind}_v1_", f"{X}{{64,}}") for kind in "opr"), ("v1.0-", f"{X}{{24}}-{X}{{100,}}"),
    ("fo1_", f"{D}{{43,}}"), ("fm2_", "[A-Za-z0-9+/]{100,}={0,3}"), ("pul-", f"{X}{{40,}}"),
    ("sha256~", f"{D}{{43,}}"), ("hvs.", f"{D}{{24,}}"), ("hvb.", f"{D}{{24,}}"),
    ("pscale_", r"(?:tkn|oauth|pw)_[A-Za-z0-9_.=-]{32,}"), ("sbp_", f"{X}{{40,}}"),
    ("sb_secret_", f"{D}{{20,}}"), ("mdb_sa_sk_", f"{D}{{20,}}"),
    # Code and packages.
    *((f"gh{kind}_", f"{W}{{36,}}") for kind in "pousr"), ("github_pat_", "[A-Za-z0-9_]{22,}"),
    (
        "gl",
        f"(?:pat|dt|ft|imt|agent|oas|ptt|rt|soat|cbt|ffct)-{D}{{20,}}(?:[.][0-9a-z]{{2,9}}){{0,3}}",
    ),
    ("GR1348941", f"{D}{{20,}}"), ("npm_", f"{W}{{36,}}"), ("pypi-Ag", f"{D}{{50,}}"),
    ("rubygems_", f"{X}{{48,}}"), ("dckr_pat_", f"{D}{{20,}}"), ("CLOJARS_", f"{W}{{60,}}"),
    ("AKCp", f"{W}{{69,}}"), ("ATATT3", "[A-Za-z0-9_=-]{100,}"), ("ATBB", f"{W}{{28,}}"),
    ("bkua_", f"{X}{{40,}}"), ("sgp_", f"(?:{X}{{16}}_|local_)?{X}{{40,}}"),
    # Payments, mail, chat and the rest.
    *((f"{side}_{mode}_", f"{W}{{16,}}") for side in ("sk", "rk") for mode in ("live", "test")),
    ("whsec_", "[A-Za-z0-9+/]{24,}={0,2}"), ("sq0atp-", f"{D}{{22,}}"), ("sq0csp-", f"{D}{{40,}}"),
    ("EAAA", f"{D}{{50,}}"), ("xox", "[abeoprs]-[A-Za-z0-9-]{14,}"), ("xapp-", "[A-Za-z0-9-]{20,}"),
    ("hooks.slack.com/", "(?:services|workflows|triggers)/[A-Za-z0-9+/]{20,}"),
    ("discord.com/api/webhooks/", f"[0-9]{{15,}}/{D}{{50,}}"),
    ("SG.", f"{D}{{16,}}[.]{D}{{16,}}"), ("SK", f"{X}{{32}}{_END}"), ("key-", f"{X}{{32}}{_END}"),
    ("xkeysib-", f"{X}{{64}}-{W}{{16}}"), ("AA", f"(?<=[0-9]:AA){D}{{32,}}"),
    *((f"shp{kind}_", f"{X}{{32,}}") for kind in ("at", "ca", "pa", "ss")),
    ("lin_api_", f"{W}{{32,}}"), ("ntn_", f"{W}{{40,}}"), ("secret_", f"{W}{{43}}{_END}"),
    ("glc_", "[A-Za-z0-9+/]{32,}={0,3}"), ("glsa_", f"{W}{{32}}_{X}{{8}}"),
    ("sntryu_", f"{X}{{64,}}"), ("sntrys_", "[A-Za-z0-9_+/=-]{40,}"),
    ("PMAK-", f"{X}{{24}}-{X}{{34}}"), ("dt0c01.", f"{W}{{24}}[.]{W}{{64}}"),
    ("dp.pt.", f"{W}{{40,}}"), ("duffel_", f"(?:test|live)_{D}{{43}}"), ("figd_", f"{D}{{40,}}"),
    ("EZAK", f"{W}{{54}}"), ("EZTK", f"{W}{{54}}"), ("fio-u-", f"{D}{{64}}"),
    ("ico-", f"{W}{{32}}{_END}"), ("shippo_", f"(?:live|test)_{X}{{40}}"),
    ("tfp_", "[A-Za-z0-9_.=-]{40,}"), ("pnu_", f"{W}{{36,}}"), ("rdme_", "[a-z0-9]{70}"),
    ("API-", f"[A-Z0-9]{{26}}{_END}"), ("NRAK-", "[A-Z0-9]{27}"), ("tk-us-", f"{D}{{48}}"),
    ("AGE-SECRET-KEY-1", "[A-Z0-9]{50,}"),
    # Further model tools, clouds, code hosts, mail and payments.
    ("sk_", f"{X}{{48}}{_END}"), ("sk_V2_", f"{D}{{30,}}"), ("wandb_v1_", f"{D}{{40,}}"),
    ("rpa_", f"{W}{{32,}}"), ("pylf_v", f"[0-9]_[a-z]{{2,8}}_{W}{{40,}}"),
    ("esecret_", f"{W}{{24,}}"), ("ABSK", "[A-Za-z0-9+/]{100,}={0,2}"),
    ("1//0", f"{D}{{40,}}"), ("AKID", f"{W}{{32}}{_END}"), ("tskey-", f"[a-z]{{3,8}}-{D}{{20,}}"),
    ("napi_", f"{W}{{40,}}"), ("rnd_", f"{W}{{28,}}"), ("vercel_blob_rw_", f"{D}{{30,}}"),
    *((f"nf{kind}_", f"{W}{{36,}}") for kind in "pcobu"), ("AstraCS:", f"{W}{{20,}}:{X}{{60,}}"),
    ("hvr.", f"{D}{{24,}}"), ("ops_eyJ", f"{D}{{100,}}"), ("ory_", f"[a-z]{{2,4}}_{D}{{30,}}"),
    ("dp.", f"(?:st|ct|sa|scim|audit)[.](?:{D}{{2,35}}[.])?{W}{{40,}}"),
    ("CCIPAT_", f"{D}{{40,}}"), ("CCIPRJ_", f"{D}{{40,}}"), ("ATCTT3", "[A-Za-z0-9_=-]{100,}"),
    ("ATSTT3", "[A-Za-z0-9_=-]{100,}"), ("cio", f"{W}{{32}}{_END}"),
    ("oy2", f"[a-z0-9]{{43}}{_END}"),
    ("cmVmd", f"{W}{{59}}{_END}"), ("PMAT-", "[A-Z0-9]{26}"),
    ("dt0s16.", f"{W}{{8,24}}[.]{W}{{64}}"),
    ("lin_oauth_", f"{X}{{64}}"), ("re_", f"{W}{{8}}_{W}{{24,}}"), ("md-", f"{D}{{22}}(?!{D})"),
    ("xsmtpsib-", f"{X}{{64}}-{W}{{16}}"),
    ("pat-", f"(?:na|eu)[0-9]-{_UUID}"),
    ("pat", f"{W}{{14}}[.]{X}{{64}}"),
    ("access-", f"(?:sandbox|development|production)-{_UUID}"),
    ("APP_USR-", f"[0-9]{{12,}}-{D}{{40,}}"), ("FLWSECK", f"(?:_TEST)?-{X}{{12,}}"),
    ("sk.eyJ", f"{D}{{20,}}[.]{D}{{20,}}"), ("xoxe.xox", "[bp]-[A-Za-z0-9-]{40,}"),
    ("cal_live_", f"{X}{{32}}"), ("EAA", f"{W}{{90,}}"),
    # And more of each, as their makers or at least two maintained scanners describe them.
    ("apify_api_", f"{W}{{34,}}"), ("dtn_", f"{X}{{40,}}"), ("KGAT_", f"{X}{{32,}}"),
    ("bedrock-api-key-", "[A-Za-z0-9+/=]{40,}"), ("AQ.Ab8", f"{D}{{40,}}"),
    ("IQoJb3JpZ2lu", "[A-Za-z0-9+/=%]{100,}"), ("FwoGZXIvYXdz", "[A-Za-z0-9+/=%]{100,}"),
    ("AKLT", f"{W}{{35,}}"), ("SCW", f"[A-Z0-9]{{17}}{_END}"), ("sl.", f"{D}{{100,}}"),
    *((f"vc{kind}_", f"{W}{{24,}}") for kind in "piark"),
    *((f"cf{kind}_", f"{D}{{40,}}") for kind in ("at", "ut", "k")), ("cflt", "[A-Za-z0-9+/]{60}"),
    ("t1.", f"{D}{{1,}}={{0,2}}[.]{D}{{43,}}={{0,2}}"), ("dckr_oat_", f"{D}{{32,}}"),
    *((f"sq{kind}_", f"{X}{{40}}") for kind in "pua"), ("CFPAT-", f"{D}{{43,}}"),
    *((f"{side}_org_{mode}_", f"{W}{{16,}}") for side in ("sk", "rk") for mode in ("live", "test")),
    *((f"rzp_{mode}_", f"{W}{{14,}}") for mode in ("live", "test")),
    *((f"{mode}_", f"{X}{{35}}{_END}") for mode in ("live", "test")),
    *((f"dbt{kind}_", f"{D}{{30,}}") for kind in "cu"), ("sgp_", f"{W}{{64}}"),
    ("WPL_AP1.", f"{W}{{16}}[.][A-Za-z0-9+/]{{6,}}={{0,2}}"), ("dG9rOj", f"{W}{{40,}}={{0,2}}"),
    *((f"hca{kind}_", "[a-z0-9]{50,}") for kind in ("ik", "ic")),
    ("A3-", f"(?:[A-Z0-9]{{5,11}}-){{4,5}}[A-Z0-9]{{5}}{_END}"),
    *((f"{kind}-", f"{_UUID}{_END}") for kind in ("sdk", "api")), ("as-", f"{W}{{22}}{_END}"),
    ("ver:", "[12]-hint:[0-9]{1,20}-ETMsDg[A-Za-z0-9+/=%]{40,}"),
    ("A" * 21, "[A-Za-z0-9%]{60,110}(?![A-Za-z0-9%+/])"),
    ("webhook.office.com/webhookb2/", f"{X}[A-Za-z0-9@/-]{{60,}}"),
    # A bot's token begins with its number in base64: a figure, and the upper half of another.
    *((begin, f"{D}{{20,26}}[.]{D}{{6}}[.]{D}{{27,}}") for begin in _NUMBERS),
)  # fmt: skip
"""Prefix and the pattern of what follows it; together never shorter than `SHORTEST`."""

MARKED: tuple[tuple[str, str, int], ...] = (
    ("-us", f"{X}{{32}}-us[0-9]{{1,2}}{_END}", 32),
    (".atlasv1.", f"{W}{{14}}[.]atlasv1[.]{D}{{60,}}", 14),
    ("AZDO", f"{W}{{76}}AZDO{W}{{4}}{_END}", 76), ("JQQJ99", f"{W}{{52}}JQQJ99{W}{{10,40}}", 52),
    ("Q~", "[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}", 4),
    ("access_token$", f"access_token[$](?:production|sandbox)[$]{W}{{16}}[$]{X}{{32}}", 0),
)  # fmt: skip
"""Tokens that are known by what stands in them: that text, the whole, and how much is before it."""

SHORTEST = 18
"""Characters of `TOKEN_CHARACTERS` in a row that every token has."""
TOKEN_CHARACTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/=.~"

PASSWORD_NAMES = ("password", "passwd", "passphrase", "pwd", "passwort")
"""Endings of names whose value people choose: it may be short, and have no figure."""

FREQUENT_PASSWORDS = (
    "qwerty", "qwertz", "iloveyou", "letmein", "monkey", "dragon", "changeme", "changeit",
    "sunshine", "princess", "football", "baseball", "superman", "batman", "welcome", "trustnoone",
    "abcdef",
)  # fmt: skip
"""The most frequent ones without a figure; any other word needs surroundings that make it one."""

NO_PASSWORDS = (
    "none", "null", "true", "false", "str", "string", "text", "required", "optional", "hidden",
    "redacted", "password", "passwd", "passphrase", "pwd", "secret", "invalid", "incorrect",
    "missing", "wrong", "empty", "unknown", "changed", "expired", "input", "field", "value",
    "default", "example", "environ",
)  # fmt: skip
"""Words that stand under such a name and are none."""

SURE_NAMES = (
    *PASSWORD_NAMES, "secret", "api key", "access key", "account key",
    "private key", "secret key", "signing key", "encryption key", "master key", "auth key",
    "authorization", "subscription key", "application key",
)  # fmt: skip
"""Endings of names whose value is a secret, whatever it looks like; a space stands for an optional
hyphen, underscore, dot or space."""

LIKELY_NAMES = ("token", "cookie", "sig", "credential", "credentials")
"""Endings of names that also have harmless values; in a text the value has to look random."""

PAIRED_NAME = "value"
NAMING_FIELDS = ("name", "key", "field", "variable", "header", "Name", "Key")
"""Fields of a pair: ``{"name": "DB_PASSWORD", "value": "…"}``, as in lists of variables."""

FIELD_NAMES = (
    *SURE_NAMES, *LIKELY_NAMES, "secrets", "passwords", "api keys", "creds", "dsn", "db pass",
    "user pass", "connection string", "database url",
)  # fmt: skip
"""Endings of the names of fields and arguments whose value never leaves."""

HARMLESS_NAMES = frozenset(
    f"{kind}token"
    for kind in (
        "eos", "bos", "pad", "unk", "sep", "cls", "mask", "stop", "special", "start", "end",
        "first", "last", "nextpage", "page", "next", "continuation",
    )
)  # fmt: skip
"""Names that end like one of those and belong to tokenizers or to paging."""
