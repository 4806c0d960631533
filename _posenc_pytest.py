"""A plugin of pytest: the fixture `posenc_audit`, so that a model's own tests take one line.

    def test_positions(posenc_audit):
        posenc_audit(my_model(), require=["step", "left_pad"])

It is there wherever posenc is installed; `-p no:posenc` leaves it out. The module stands outside the package, because
every run of pytest imports it, and with the package would come torch.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import pytest


@pytest.fixture(scope="session")
def posenc_audit() -> Callable[..., Any]:
    """A function that audits a model, fails the test if something is wrong, and returns the report."""

    def run(
        model: Any, *, require: Iterable[str] = (), baseline: str | os.PathLike[str] | None = None, **options: Any
    ) -> Any:
        """Audits a model.

        Args:
            model: as for `posenc.audit.audit`.
            require: names of tests that must apply and pass; the others must not fail.
            baseline: a file of known failures, as `report.to_baseline(path)` writes it: what it names may fail, and
                is named in a warning once it fails no more.
            options: as for `posenc.audit.audit`: only, more, reference, configuration, causal, …

        Returns:
            The report.
        """
        from posenc.audit import audit  # when it is used, so that other test suites start as fast as before

        __tracebackhide__ = True
        report = audit(model, **options)
        known = report.against(baseline) if baseline is not None else None
        require = [require] if isinstance(require, str) else list(require)
        wrong = [f for f in report if not f.passed or not report.tried] if known is None else list(known.new)
        wrong += [f for f in map(report.__getitem__, require) if not f.asked]
        if known is not None and known.fixed:
            warnings.warn(f"fixed: {', '.join(known.fixed)}. Take them out of {os.fspath(baseline)}", stacklevel=2)  # type: ignore[arg-type]
        if wrong:
            pytest.fail("\n".join(map(str, wrong)), pytrace=False)
        return report

    return run
