import torch

from posenc.schemes.grid import mrope_positions


def advancing(by):
    """M-RoPE's boxes, where the next span begins `by(span)` later."""

    def positions(spans):
        parts, start = [], 0
        for span in spans:
            alone = mrope_positions([span])
            parts.append(alone + start)
            start += span if isinstance(span, int) else by(*span)
        return torch.cat(parts)

    return positions


def swapped(spans):
    return mrope_positions([s if isinstance(s, int) else (s[0], s[2], s[1]) for s in spans])


def still_time(spans):
    found = mrope_positions(spans)
    start = 0
    for span in spans:
        size = span if isinstance(span, int) else span[0] * span[1] * span[2]
        if not isinstance(span, int):
            found[start : start + size, 0] = 0
        start += size
    return found


def numbered(spans):
    size = sum(s if isinstance(s, int) else s[0] * s[1] * s[2] for s in spans)
    return torch.arange(size)[:, None].expand(-1, 3)


def each_axis(spans):
    """Each axis goes on after its own largest coordinate."""
    parts, start = [], torch.zeros(3, dtype=torch.long)
    for span in spans:
        parts.append(mrope_positions([span]) + start)
        start = parts[-1].amax(0) + 1
    return torch.cat(parts)


def rows_from_zero(spans):
    """Rows and columns of an image count from 0, wherever it stands."""
    parts = list(mrope_positions(spans).split([s if isinstance(s, int) else s[0] * s[1] * s[2] for s in spans]))
    for span, part in zip(spans, parts, strict=True):
        if not isinstance(span, int):
            part[:, 1:] -= part[0, 1:].clone()
    return torch.cat(parts)


SOLUTIONS = {"video_positions": mrope_positions}
WRONG = {
    "video_positions": [
        (advancing(lambda t, h, w: max(h, w)), "one after the largest"),
        (advancing(lambda t, h, w: max(t, h, w) - 1), "one after the largest"),
        (advancing(lambda t, h, w: t * h * w), "one after the largest"),
        (swapped, "read like a page"),
        (still_time, "read like a page"),
        (numbered, "read like a page"),
        (lambda spans: mrope_positions(spans) + 1, "text alone"),
        (each_axis, "three equal coordinates"),
        (rows_from_zero, "lies on the diagonal"),
    ],
}
