"""Exceptions in one line, for reports and for the terminal. Needs the standard library alone."""

from __future__ import annotations


def error_line(error: BaseException, width: int = 160) -> str:
    """An exception by its class and message, in one line."""
    return f"{type(error).__name__}: {first_line(error, width)}"


def first_line(error: BaseException, width: int = 160) -> str:
    """An error's message, in one line."""
    message = " ".join(str(error).split())
    return message if len(message) <= width else message[: width - 1] + "…"
