"""The key that signs kept verdicts: who can write the file of verdicts cannot make one up.

A file in a checkout comes with whatever somebody put in it, and a verdict in it would pass a gate
without a judge being asked. So the key is outside: a secret of the CI, or one of this machine.
"""

from __future__ import annotations

import hmac
import os
import secrets
import struct
from hashlib import sha256
from pathlib import Path

from llmeval_sdk import _private
from llmeval_sdk._process.shield import tell
from llmeval_sdk.config import Settings
from llmeval_sdk.config.verdicts import VerdictSettings


KEY_BYTES = 32
_PURPOSE = b"llmeval verdict 1"


class Signer:
    """Signs verdicts and checks their signatures."""

    def __init__(self, key: bytes) -> None:
        self._key = sha256(_PURPOSE + key).digest()

    def sign(self, name: bytes, made: float, verdict: str) -> bytes:
        """Sign a verdict, the judgement it is of, and when it was made."""
        text = verdict.encode("utf-8", "surrogatepass")
        parts = struct.pack(">Qd", len(name), made), name, text
        return hmac.new(self._key, b"".join(parts), sha256).digest()

    def made_this(self, signature: object, name: bytes, made: object, verdict: object) -> bool:
        """Say whether a signature is one of this key, over just this."""
        if not (
            isinstance(signature, bytes) and isinstance(made, float) and isinstance(verdict, str)
        ):
            return False
        return hmac.compare_digest(signature, self.sign(name, made, verdict))


def signer_of(settings: Settings) -> Signer:
    """Return what signs with the secret of the environment, else with this machine's key.

    Where there is neither and none can be kept, the key is of this run alone, which is said.
    """
    own = settings.of(VerdictSettings)
    if own.verdict_key is not None:
        return Signer(own.verdict_key.reveal().encode())
    path = Path(own.state).expanduser() / "verdict.key"
    try:
        return Signer(_machine_key(path))
    except (OSError, ValueError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or error
        tell(
            "cache of verdicts",
            f"no key can be kept at {path} ({why}): verdicts of earlier runs are not used, and "
            "those of this one by no other; set LLMEVAL_VERDICT_KEY, or LLMEVAL_STATE to a folder",
        )
        return Signer(secrets.token_bytes(KEY_BYTES))


def _machine_key(path: Path) -> bytes:
    """Read the key of this machine, made where there is none.

    Raises:
        OSError: it cannot be made, or others could have put it there or can read it.
        ValueError: what is there is no key.
    """
    if not path.exists():
        _private.make_folder(path.parent)
        beside = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            _private.make_file(beside)
            beside.write_bytes(secrets.token_bytes(KEY_BYTES))
            os.link(beside, path)  # whole or not at all, and of two processes the first one's
        except FileExistsError:
            pass
        finally:
            beside.unlink(missing_ok=True)
    _private.check_folder(path.parent.lstat())
    _private.check_file(path)
    if path.stat().st_mode & 0o077 and hasattr(os, "geteuid"):
        raise PermissionError(f"others can read {path.name}: remove it, and a new one is made")
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise ValueError(f"{path.name} holds no key: remove it, and a new one is made")
    return key
