"""Takes secrets and personal data out of what was captured, before it goes anywhere."""

from llmeval_sdk.exporters.redaction._detectors import DETECTORS, Detector, detectors
from llmeval_sdk.exporters.redaction._redactor import FAILED, Redactor


__all__ = ["DETECTORS", "FAILED", "Detector", "Redactor", "detectors"]
