"""Cells as a spreadsheet shows them. The figures agree with SheetJS's ssf where it reads the format."""

from datetime import date, datetime, time, timedelta
from typing import Any

import pytest

from evaluation.golden.numberformat import shown

DAY = datetime(2024, 4, 1)  # noqa: DTZ001
AT = datetime(2024, 4, 1, 9, 5, 7)  # noqa: DTZ001
YEN = '_ "¥"* #,##0_ ;_ "¥"* \\-#,##0_ ;_ "¥"* "-"_ ;_ @_ '
DOLLAR = '_($* #,##0.00_);_($* (#,##0.00);_($* "-"??_);_(@_)'


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (0.08, "0%", "8%"),
        (0.075, "0.0%", "7.5%"),
        (1, "0%", "100%"),
        (0.08, "0.00%;-0.00%", "8.00%"),
        (123, "0000", "0123"),
        (9012345678, "000-0000-0000", "090-1234-5678"),
        (1234567, "000\\-0000", "123-4567"),
        (2000, '#,##0"円"', "2,000円"),
        (1234, '"¥"#,##0;[Red]"¥"\\-#,##0', "¥1,234"),
        (-1234, '"¥"#,##0;[Red]"¥"\\-#,##0', "¥-1,234"),
        (1234, "[$¥-411]#,##0", "¥1,234"),
        (1234.5, "[$€-407] #,##0.00", "€ 1,234.50"),
        (1234.5, "#,##0.00 [$€-40C]", "1,234.50 €"),
        (1234.5, "$#,##0.00_);($#,##0.00)", "$1,234.50"),
        (-1234.5, "$#,##0.00_);($#,##0.00)", "($1,234.50)"),
        (1234, YEN, "¥1,234"),
        (1234.5, DOLLAR, "$1,234.50"),
        # A dash alone would be read as no value.
        (0, YEN, "0"),
        (1500000, "#,##0,", "1,500"),
        (1500000, '#,##0.0,,"百万円"', "1.5百万円"),
        (1500, '[>=1000]#,##0.0,"千";0', "1.5千"),
        (15, '[>=1000]#,##0.0,"千";0', "15"),
        (-5, "0;△0", "△5"),
        (-5, "0", "-5"),
        (0, "0;-0;;@", ""),
        (0, '0;-0;"なし"', "なし"),
        (1.5, "# ?/?", "1 1/2"),
        (0.5, "?/?", "1/2"),
        (2.375, "# ?/8", "2 3/8"),
        (3, "# ?/?", "3"),
        (12345, "0.00E+00", "1.23E+04"),
        (0.00012, "0.0E+00", "1.2E-04"),
        (99.995, "0.00E+00", "1.00E+02"),
        (2.675, "0.00", "2.68"),
        (1.005, "0.00", "1.01"),
        (0.5, "#.##", ".5"),
        (3, "0.0#", "3.0"),
        (3.14159, "0.0##", "3.142"),
        (10, '"約"#"日"', "約10日"),
        (3, "General", "3"),
        (12.5, 'General"円"', "12.5円"),
        (12.5, "G/標準", "12.5"),
        (1 / 3, "General", "0.333333333"),
        (0.1 + 0.2, "General", "0.3"),
        (1234567890123, "General", "1234567890123"),
        (1e-7, "General", "1E-07"),
        (5, "@", "5"),
        (True, "General", "TRUE"),
        (False, "0", "FALSE"),
        ("休暇", "@", "休暇"),
        ("山田", '@"様"', "山田様"),
        ("山田", '0;-0;0;"担当："@', "担当：山田"),
        ("10", '#,##0"円"', "10"),
    ],
)
def test_a_number_or_text_is_shown_in_its_format(value: Any, code: str, text: str) -> None:
    assert shown(value, code) == text


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (DAY, 'yyyy"年"m"月"d"日"', "2024年4月1日"),
        (DAY, "yyyy/m/d", "2024/4/1"),
        (DAY, "yyyy-mm-dd", "2024-04-01"),
        (DAY, "d.m.yyyy", "1.4.2024"),
        (DAY, "dd/mm/yy", "01/04/24"),
        (DAY, "[$-F800]dddd\\,\\ mmmm\\ dd\\,\\ yyyy", "Monday, April 01, 2024"),
        (DAY, "mmm-yy", "Apr-24"),
        (DAY, '[$-411]ggge"年"m"月"d"日";@', "令和6年4月1日"),
        (DAY, "[$-411]ge.m.d", "R6.4.1"),
        (DAY, '[$-ja-JP]gge"年"', "令6年"),
        (date(2019, 5, 1), '[$-ja-JP-x-gannen]ggge"年"m"月"d"日";@', "令和元年5月1日"),
        (date(2019, 4, 30), '[$-411]ggge"年"m"月"', "平成31年4月"),
        (date(1989, 1, 7), '[$-411]ggge"年"', "昭和64年"),
        (DAY, 'm"月"d"日"(aaa)', "4月1日(月)"),
        (DAY, "[$-411]dddd", "月曜日"),
        (DAY, "aaaa", "月曜日"),
        (DAY, "[$-804]dddd", "星期一"),
        (AT, "yyyy/m/d h:mm", "2024/4/1 9:05"),
        (AT, "h:mm:ss", "9:05:07"),
        (AT, 'h"時"mm"分"', "9時05分"),
        (AT, "h:mm AM/PM", "9:05 AM"),
        (AT, "[$-411]AM/PM h:mm", "午前 9:05"),
        (AT, "上午/下午h:mm", "上午9:05"),
        (AT, "yyyy/m/d", "2024/4/1"),
        (time(9, 0), "h:mm", "9:00"),
        (time(17, 30), "h:mm AM/PM", "5:30 PM"),
        (time(0, 1, 2, 500_000), "mm:ss.0", "01:02.5"),
        (timedelta(hours=45, minutes=30), "[h]:mm", "45:30"),
        (timedelta(hours=1, minutes=2, seconds=3), "[h]:mm:ss", "1:02:03"),
        (timedelta(minutes=90), "[m]", "90"),
        (timedelta(hours=100), '[h]"時間"', "100時間"),
        (DAY, "General", "2024-04-01"),
        (AT, "General", "2024-04-01 09:05:07"),
        (45383, "yyyy/m/d", "2024/4/1"),
    ],
)
def test_a_date_or_time_is_shown_in_its_format(value: Any, code: str, text: str) -> None:
    assert shown(value, code) == text


@pytest.mark.parametrize(
    "code", ["", ";;;;", '"', "[", "\\", "0.0.0", "????", "E+", "[$", "0/0", "#/", "[>]0", "_", "*", "m" * 300]
)
@pytest.mark.parametrize("value", [0, -1.5, 1e300, 5e-324, "x", DAY, time(1), timedelta(days=-1), True])
def test_a_format_that_makes_no_sense_breaks_nothing(value: Any, code: str) -> None:
    assert isinstance(shown(value, code), str)
