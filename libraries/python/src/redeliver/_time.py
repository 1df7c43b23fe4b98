"""Moments: milliseconds since 1970, with microseconds as a fraction. Python's own dates begin with the year 1."""

import math
import re

_RFC_3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:\.([0-9]+))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_DAY = 86_400_000
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def rfc3339(moment: float) -> str:
    """RFC 3339 UTC with microseconds and ``Z``, as redeliver writes all its times."""
    whole = math.floor(moment)
    micros = math.floor((moment - whole) * 1000 + 0.5)
    whole, micros = whole + micros // 1000, micros % 1000
    days, rest = divmod(whole, _DAY)
    year, month, day = _date(days)
    seconds, millis = divmod(rest, 1000)
    time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{year:04}-{month:02}-{day:02}T{time}.{millis:03}{micros:03}Z"


def parse_rfc3339(text: str) -> float | None:
    """Reads RFC 3339 with any offset; nothing if it is no time that exists."""
    found = _RFC_3339.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    fraction, sign, of_hours, of_minutes = found.group(7) or "", found[8], int(found[9] or 0), int(found[10] or 0)
    exists = 1 <= month <= 12 and 1 <= day <= _days_of(year, month) and hour <= 23 and minute <= 59 and second <= 60
    if not exists or of_hours > 23 or of_minutes > 59:
        return None
    offset = (-1 if sign == "-" else 1) * (of_hours * 60 + of_minutes)
    minutes = hour * 60 + minute - offset
    # A leap second is the last one of a day in UTC.
    if second == 60 and minutes % 1440 != 1439:
        return None
    whole = _days(year, month, day) * _DAY + minutes * 60_000 + second * 1000
    return whole + int(fraction[:6].ljust(6, "0")) / 1000


def _days_of(year: int, month: int) -> int:
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and is_leap else _MONTHS[month - 1]


def _days(year: int, month: int, day: int) -> int:
    """Since 1970; a year is counted from March, so that a leap day is its last one."""
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    return year * 365 + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 1 - 719_468


def _date(days: int) -> tuple[int, int, int]:
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    return (year + 400 * era + (month > 9), month + 3 if month < 10 else month - 9, day)
