"""``sluice doctor``: what is wrong with this machine, and for each fault the one command that mends it.

Imports the standard library only, so that it works where everything else does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["ok", "note", "fault"]


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: name of the check.
        status: "ok"; "note", something to know; or "fault", something that will not work.
        text: what was found.
        fix: the one command that mends it; None where nothing needs mending.
    """

    check: str
    status: Status
    text: str
    fix: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as JSON takes it."""
        return asdict(self)


Check = Callable[[], Iterable[Finding]]


def examine() -> list[Finding]:
    """Run all checks, in an order in which a fault explains those after it; takes some seconds."""
    from sluice.app.doctor_gstreamer import CHECKS as GSTREAMER
    from sluice.app.doctor_python import CHECKS as PYTHON
    from sluice.app.doctor_python import gi_works

    findings = _run(PYTHON)
    if gi_works():
        findings += _run(GSTREAMER)
    return findings


def render(findings: Iterable[Finding]) -> str:
    """Return the findings as lines for people."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.status:5} {finding.check:18} {finding.text}")
        if finding.fix is not None:
            lines.append(f"{'':24} mend it with: {finding.fix}")
    return "\n".join(lines)


def _run(checks: Iterable[Check]) -> list[Finding]:
    """Run the checks; one that fails itself is a fault too, and the others still run."""
    findings: list[Finding] = []
    for check in checks:
        name = check.__name__.removeprefix("check_").replace("_", " ")
        try:
            findings += check()
        except Exception as error:
            findings.append(Finding(name, "fault", f"the check itself failed: {type(error).__name__}: {error}"))
    return findings
