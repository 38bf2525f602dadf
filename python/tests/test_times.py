"""Times of Python and pandas in samples: what they become, and that nothing of them is lost."""

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import pykiste as ki

UTC = dt.timezone.utc


def again(value):
    return ki.unpack(ki.pack(value))


def zone(**offset):
    return dt.timezone(dt.timedelta(**offset))


AWARE = [
    dt.datetime(1970, 1, 1, tzinfo=UTC),
    dt.datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC),
    dt.datetime.min.replace(tzinfo=UTC),
    dt.datetime.max.replace(tzinfo=UTC),
    dt.datetime(2024, 1, 1, tzinfo=zone(hours=5, minutes=30)),
    dt.datetime(2024, 1, 1, tzinfo=zone(hours=-11, seconds=-1, microseconds=-5)),
    dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=zone(microseconds=2)),
]


@pytest.mark.parametrize("value", AWARE, ids=str)
def test_a_time_with_a_zone_is_a_timestamp(value):
    found = again(value)
    assert type(found) is ki.Timestamp and 0 <= found.nanoseconds < 1_000_000_000
    assert found.to_datetime() == value


def test_an_hour_that_comes_twice():
    berlin = ZoneInfo("Europe/Berlin")
    first = dt.datetime(2024, 10, 27, 2, 30, tzinfo=berlin)
    assert again(first.replace(fold=1)).seconds - again(first).seconds == 3600


@pytest.mark.parametrize("value", [dt.datetime.min, dt.datetime.max, dt.datetime(2024, 1, 1, 12, 30, 15, 123)], ids=str)
def test_a_time_without_a_zone_has_none_when_it_is_read(value):
    found = again({"key": "a", "when": [value]})["when"][0]
    assert found.dtype == "M8[us]" and found.item() == value and type(found.item()) is dt.datetime


def test_a_time_without_a_zone_that_means_one_is_refused():
    with pytest.raises(ki.errors.InvalidError, match=r"field 'when': expected a time without `fold`"):
        ki.pack({"when": dt.datetime(2024, 10, 27, 2, 30, fold=1)})


@pytest.mark.parametrize("value", [dt.date.min, dt.date.max, dt.date(1969, 12, 31)], ids=str)
def test_a_date_is_a_date(value):
    found = again(value)
    assert found.dtype == "M8[D]" and found.item() == value and type(found.item()) is dt.date


@pytest.mark.parametrize("value", [dt.timedelta(0), dt.timedelta(-1, 1, 1), dt.timedelta(days=10_000_000)], ids=str)
def test_a_time_span(value):
    found = again(value)
    assert found.dtype == "m8[us]" and found.item() == value


def test_what_has_no_form_is_refused():
    with pytest.raises(ki.errors.NumberError, match="a time span that 64 bits of microseconds have"):
        ki.pack(dt.timedelta.max)
    for value in dt.time(1), dt.timezone.utc:
        with pytest.raises(ki.errors.WrongTypeError, match="cannot be packed"):
            ki.pack(value)


def test_subclasses_are_times_too():
    class Moment(dt.datetime):
        pass

    class Day(dt.date):
        pass

    assert again(Moment(2024, 1, 1, tzinfo=UTC)) == ki.Timestamp(1704067200)
    assert again(Day(2024, 1, 1)) == np.datetime64("2024-01-01")


def test_pandas_keeps_nanoseconds():
    pd = pytest.importorskip("pandas")
    for zone_name in "UTC", "America/New_York":
        for text in "2024-01-01 00:00:00.123456789", "1969-12-31 23:59:59.999999999", "1677-09-22", "2262-04-11":
            value = pd.Timestamp(text, tz=zone_name)
            found = again(value)
            assert type(found) is ki.Timestamp
            assert found.seconds * 10**9 + found.nanoseconds == value.as_unit("ns").value, text
    for unit in "s", "ms", "us", "ns":
        naive = pd.Timestamp("2024-01-01 00:00:05").as_unit(unit)
        found = again(naive)
        assert found.dtype == f"M8[{unit}]" and pd.Timestamp(found) == naive
        span = pd.Timedelta(5, "s").as_unit(unit)
        assert again(span).dtype == f"m8[{unit}]" and pd.Timedelta(again(span)) == span
    assert pd.Timestamp(again(pd.Timestamp("2024-01-01 00:00:00.000000001"))).nanosecond == 1


def test_not_a_time():
    pd = pytest.importorskip("pandas")
    found = again({"when": pd.NaT})["when"]
    assert found.dtype == "M8[ns]" and np.isnat(found) and pd.isna(found)


def test_times_in_a_dataset(tmp_path):
    sample = {"key": "a", "aware": AWARE[1], "naive": dt.datetime(2024, 1, 1), "day": dt.date(2024, 1, 1)}
    with ki.Writer(tmp_path / "x.msgpack") as writer:
        writer.write(sample)
    found = ki.open(tmp_path / "x.msgpack")["a"]
    assert found["aware"].to_datetime() == AWARE[1] and found["naive"].item() == sample["naive"]
    assert ki.verify(tmp_path / "x.msgpack", deep=True)["good"]
