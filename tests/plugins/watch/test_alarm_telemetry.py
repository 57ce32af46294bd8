"""Alarms as OpenTelemetry: one log event for each change, and gauges of what is in force."""

import pytest

from llmeval_sdk.plugins.watch.delivery import (
    ACTIVE,
    EVENT,
    EVIDENCE,
    UNDECIDED,
    AlertMessage,
    Telemetry,
)


pytest.importorskip("opentelemetry.sdk")


def test_a_change_is_an_event_and_the_alarm_a_gauge():
    """By the providers of the process, with the alert's name on both."""
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    logs, reader = InMemoryLogRecordExporter(), InMemoryMetricReader()
    loggers = LoggerProvider()
    loggers.add_log_record_processor(SimpleLogRecordProcessor(logs))
    telemetry = Telemetry(loggers, MeterProvider([reader]))
    telemetry.event(
        AlertMessage("1", "groundedness<0.9", "raised", 1_000, "ALARM groundedness<0.9", {}, 1_000)
    )
    telemetry.gauges("groundedness<0.9", "alarm", 1.5)
    telemetry.flush()
    (record,) = logs.get_finished_logs()
    assert record.log_record.event_name == EVENT
    assert record.log_record.body == "ALARM groundedness<0.9"
    assert record.log_record.attributes["llmeval.alert.change"] == "raised"
    metrics = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    found = {each.name: each.data.data_points[0] for each in metrics}
    assert found[ACTIVE].value == 1
    assert found[EVIDENCE].value == 1.5
    assert found[UNDECIDED].value == 0
    assert found[ACTIVE].attributes == {"llmeval.alert": "groundedness<0.9"}


def test_what_cannot_be_decided_is_no_zero():
    """A gauge of its own is 1, and the others have no value: a 0 would look like calm."""
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    telemetry = Telemetry(LoggerProvider(), MeterProvider([reader]))

    def values():
        metrics = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
        return {metric.name: metric.data.data_points[0].value for metric in metrics}

    telemetry.gauges("groundedness<0.9", "calm", 0.2)
    assert values() == {ACTIVE: 0, EVIDENCE: 0.2, UNDECIDED: 0}
    telemetry.gauges("groundedness<0.9", "undecided", 0.2)
    assert values() == {UNDECIDED: 1}


def test_without_providers_nothing_happens():
    """The API's stand-ins take what is said."""
    telemetry = Telemetry()
    telemetry.gauges("groundedness<0.9", "calm", 0.0)
    telemetry.flush()
