"""Makes secrets at random by the shapes that their makers document; none is real."""

from __future__ import annotations

import base64
import json
import random
import string
from functools import cache


HEX = "0123456789abcdef"
ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase
BASE64 = ALNUM + "+/"

# Prefix, and the alphabet and length of each part; a part that is a text stands as it is. No prefix
# is whole here, so that no scanner of this repository takes one for a key.
_SHAPES = {
    "openai": ("sk", "-", (ALNUM, 48)), "openai project": ("sk", "-proj-", (ALNUM + "_-", 120)),
    "anthropic": ("sk", "-ant-api03-", (ALNUM, 80), "-", (ALNUM, 6), "AA"),
    "openrouter": ("sk", "-or-v1-", (HEX, 64)), "google": ("AI", "za", (ALNUM + "-_", 35)),
    "google oauth": ("ya", "29.", (ALNUM, 60)), "google client": ("GOC", "SPX-", (ALNUM, 28)),
    "aws id": ("AK", "IA", (UPPER + "234567", 16)), "hugging face": ("h", "f_", (string.ascii_letters, 34)),
    "github": ("gh", "p_", (ALNUM, 36)), "github fine": ("github", "_pat_", (ALNUM, 22), "_", (ALNUM, 59)),
    "gitlab": ("gl", "pat-", (ALNUM, 20)), "gitlab runner": ("gl", "rt-", (ALNUM, 20)),
    "slack": ("xo", "xb-", (string.digits, 12), "-", (string.digits, 12), "-", (ALNUM, 24)),
    "slack hook": ("https://hooks.sl", "ack.com/services/T", (ALNUM, 8), "/B", (ALNUM, 8), "/", (ALNUM, 24)),
    "stripe": ("sk", "_live_", (ALNUM, 24)), "stripe hook": ("wh", "sec_", (ALNUM, 32)),
    "groq": ("gs", "k_", (ALNUM, 52)), "xai": ("xa", "i-", (ALNUM, 80)),
    "perplexity": ("pp", "lx-", (ALNUM, 48)), "replicate": ("r", "8_", (ALNUM, 37)),
    "fireworks": ("f", "w_", (ALNUM, 24)), "nvidia": ("nv", "api-", (ALNUM, 64)),
    "cerebras": ("cs", "k-", (ALNUM, 48)), "pinecone": ("pc", "sk_", (ALNUM, 60)),
    "langsmith": ("ls", "v2_pt_", (HEX, 32), "_", (HEX, 10)), "tavily": ("tv", "ly-", (ALNUM, 32)),
    "voyage": ("p", "a-", (ALNUM, 43)), "databricks": ("da", "pi", (HEX, 32)),
    "sendgrid": ("S", "G.", (ALNUM, 22), ".", (ALNUM, 43)), "twilio": ("S", "K", (HEX, 32)),
    "npm": ("np", "m_", (ALNUM, 36)), "pypi": ("py", "pi-Ag", (ALNUM, 85)),
    "digitalocean": ("do", "p_v1_", (HEX, 64)), "vault": ("hv", "s.", (ALNUM, 90)),
    "shopify": ("sh", "pat_", (HEX, 32)), "telegram": ("123456789", ":AA", (ALNUM, 33)),
    "mailgun": ("ke", "y-", (HEX, 32)), "age": ("AGE-SECRET", "-KEY-1", (UPPER + string.digits, 58)),
    "linear": ("lin", "_api_", (ALNUM, 40)), "notion": ("nt", "n_", (ALNUM, 46)),
    "grafana": ("gl", "sa_", (ALNUM, 32), "_", (HEX, 8)), "sentry": ("sntr", "yu_", (HEX, 64)),
    "docker": ("dckr", "_pat_", (ALNUM + "_-", 27)), "figma": ("fi", "gd_", (ALNUM + "_-", 43)),
    "bearer": ("a Bear", "er ", (ALNUM, 40)),
}  # fmt: skip
_NAMED = {
    "aws secret": ("aws_secret_access_key=", (BASE64, 40)),
    "env": ("COHERE_API_KEY=", (ALNUM, 40)), "azure": ("api-key: ", (HEX, 32)),
    "datadog": ("DD_API_KEY=", (HEX, 32)), "sig": ("https://a.net/c?sv=2022&sig=", (ALNUM, 43), "%3D"),
    "header": ("Authorization: Bearer ", (ALNUM, 32)), "password": ("password=pA1", (ALNUM, 9)),
    "odbc": ("Server=x;Uid=sa;Pwd=pA1", (ALNUM, 11), ";"), "colon": ("Password: pA1", (ALNUM, 9)),
    "storage": ("AccountName=a;AccountKey=", (BASE64, 86), "=="),
    "url": ("postgres://admin:", (ALNUM, 12), "@db.internal:5432/x"),
    "url without a user": ("redis://:", (ALNUM, 12), "@cache:6379"),
}  # fmt: skip


@cache
def forms(seed: int) -> dict[str, tuple[str, str]]:
    """Return by name a text that holds a secret, and a part of it that must not be left."""
    chance = random.Random(seed)

    def letters(alphabet: str, length: int) -> str:
        return "".join(chance.choice(alphabet) for _ in range(length))

    made = {}
    for name, shape in (*_SHAPES.items(), *_NAMED.items()):
        parts = [part if isinstance(part, str) else letters(*part) for part in shape]
        longest = max(
            range(len(parts)), key=lambda at: (not isinstance(shape[at], str), len(parts[at]))
        )
        made[name] = "".join(parts), parts[longest]
    basic = base64.b64encode(letters(string.ascii_lowercase, 16).encode()).decode()
    made["basic"] = f"Authorization: Basic {basic}", basic
    for kind in ("PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"):
        lines = [letters(BASE64, 64) for _ in range(chance.randrange(1, 25))]
        begin, end = f"-----BEGIN {kind}-----", f"-----END {kind}-----"
        made[kind] = "\n".join((begin, *lines, end)), lines[-1]
        made[f"{kind} in JSON"] = json.dumps({"pem": made[kind][0]}), lines[0]
        made[f"{kind} escaped"] = "\\r\\n".join((begin, *lines, end)), lines[0]
        headers = (
            "Proc-Type: 4,ENCRYPTED",
            f"DEK-Info: AES-128-CBC,{letters('0123456789ABCDEF', 32)}",
        )
        made[f"{kind} with headers"] = "\n".join((begin, *headers, "", *lines, end)), lines[0]
        made[f"{kind} cut off"] = "\n".join((begin, *lines)), lines[0]
    return made


FIELDS = """api_key apikey api-key apiKey API_KEY OPENAI_API_KEY x-api-key X-API-Key password Password
PASSWORD passwd pwd db_password secret client_secret clientSecret access_token accessToken token
auth_token refresh_token id_token authorization Authorization Proxy-Authorization cookie Set-Cookie
session_token private_key credentials aws_secret_access_key AWS_SECRET_ACCESS_KEY connection_string
dsn DATABASE_URL webhook_secret signing_key passphrase AccountKey X-Amz-Security-Token auth""".split()
HARMLESS_FIELDS = """max_tokens input_tokens tokens tokenizer eos_token next_page_token monkey keyboard
primary_key secretary passenger author authors cookies_enabled session_id key_points
question""".split()
