"""What breaks a trained model, and what to expect of it, by how position enters: breaks.js makes the positions."""

from __future__ import annotations

from posenc._attention.encoding import Encoding
from posenc.schemes.alibi import ALiBi
from posenc.schemes.learned import Learned
from posenc.schemes.rope import RoPE
from posenc.schemes.sinusoidal import Sinusoidal

NONE = "nothing changes, since it has no positions."
OFFSETS = "nothing changes: it sees offsets alone, and all of them stay as they were."
AGAIN = "a jump at byte 64, where positions begin at 0 again, as in a decoder that counts only the new tokens."
HEALS = "Once enough new bytes stand near, it recovers."
PAIRS = "nothing changes: it forms no pairs of channels."

BREAKS: dict[str, dict[str, str]] = {
    "nothing": {"other": ""},
    "positions shifted by 1,000": {
        "none": NONE,
        "table": "it can’t read at all. Its table has no row for the position 1,000.",
        "waves": "a worse loss from the first byte on. Rows of this size exist for every position, but training never "
        "showed it these.",
        "other": OFFSETS,
    },
    "positions shuffled": {
        "none": NONE,
        "other": "a high loss everywhere. Each byte stands where it stood and claims the position of another one, not "
        "32 bytes away, so near and far mean nothing.",
    },
    "encoding dropped": {
        "none": NONE,
        "table": "a high loss everywhere. The rows were what told one byte’s place from another’s, and the model "
        "counts on them.",
        "waves": "a high loss everywhere. The waves were what told one byte’s place from another’s, and the model "
        "counts on them.",
        "turn": "a high loss everywhere. No vector is rotated, so every key matches as if it stood where the query "
        "stands.",
        "slope": "a high loss everywhere. No key pays for its distance any more, so the many far ones drown the near "
        "ones.",
        "other": "a high loss everywhere. Without what was learned for each distance, far keys count as much as near "
        "ones.",
    },
    "cache offset wrong": {
        "none": NONE,
        "table": f"{AGAIN} Each row then stands in two places. {HEALS}",
        "waves": f"{AGAIN} Each position is then there twice. {HEALS}",
        "turn": f"{AGAIN} What was read before now seems to lie ahead. {HEALS}",
        "slope": f"{AGAIN} What was read before has a negative distance, and is rewarded for it. {HEALS}",
        "other": f"{AGAIN} What was read before now seems to lie ahead. {HEALS}",
    },
    "the other layout": {
        "none": PAIRS,
        "turn": "a high loss everywhere. Channels t and t + d/2 now rotate together, and training had paired 2t with "
        "2t + 1.",
        "other": PAIRS,
    },
}
"""By break and kind. The order is that of breaks.js."""


def kind(encoding: Encoding) -> str:
    """How position enters, a key of the sentences."""
    if not encoding.doors:
        return "none"
    known = {Learned: "table", Sinusoidal: "waves", RoPE: "turn", ALiBi: "slope"}
    return known.get(type(encoding), "other")
