"""Whether a provider refused a call because its quota or its balance is used up, from the provider's own words.

Waiting a moment does not help then: somebody has to pay, or the day has to end.
"""

import re

_MONEY = r"(balance|credits?|funds?|quota)"
_LIMIT = r"(limit|quota|allowance|cap)"
_REACHED = r"(reached|exceeded|exhausted|used up|hit)"
_LONG_TIME = r"(daily|weekly|monthly|per[ _-]?(day|week|month)|/ ?(day|week|month))"
_USED_UP = (
    rf"insufficient[ _](\w+[ _])?{_MONEY}",
    rf"usage[ _]limit.{{0,20}}{_REACHED}|{_REACHED}.{{0,30}}usage[ _]limit",
    rf"{_MONEY} (is|are|has been|have been) (too low|insufficient|not enough|exhausted|used up|overdrawn)",
    rf"(out of|not enough|no more|add more|requires? more|all available|exceeded \w+ \w+ included) {_MONEY}",
    r"exceeded[ _]current[ _]quota",
    r"plans? (and|&) billing|billing[ _](details|hard|not|period|cycle)",
    r"arrearage|overdue[ -](balance|payment)|in good standing|payment required|spending limit|api usage limits",
    rf"(free[ -]?(tier|trial|quota|allocation)|trial quota|hosted model provider).{{0,40}}{_REACHED}",
    r"(exhausted|used up) (its|your|the) (\w+ )?free",
    r"free[ -]?tier[ -]?only|resource_?pack_?exhausted|total request limit reached",
    rf"{_LONG_TIME}\W.{{0,40}}\b{_LIMIT}\b.{{0,30}}{_REACHED}|{_REACHED}\b.{{0,40}}{_LONG_TIME}.{{0,40}}\b{_LIMIT}\b",
    # Dify's own words for its hosted models, such as "Model provider openai quota exceeded."
    r"model provider \S+ quota exceeded|provider_quota_exceeded",
    r"余额不足|余额已用尽|欠费|充值|无可用资源包|(额度|配额|资源包|流量包)\w{0,4}(不足|用尽|用完|耗尽)",
    r"(每日|每天|今日|当日|当天|每月|本月)\w{0,12}(上限|限制|额度|限额)",
    r"(残高|クレジット|利用枠)\w{0,4}(不足|足り|なくな|使い切)",
    r"(1日|一日|本日|日次|月間|今月|当月)\w{0,12}(上限|制限|枠)",
    r"잔액\w{0,3} ?부족|크레딧\w{0,3} ?부족",
)
# Limits that a wait of a minute meets, and, where it is a limit at all, those that it does not.
_A_MINUTE = r"per[ _-]?(min|sec)|/ ?(min|sec)|\b[RT]P[MS]\b"
_A_DAY = rf"{_LONG_TIME}|by(day|month)|\b[RT]PD\b"
# Google says the same for its limits per minute and per day. Where the quota's id does not tell, the figures of the
# free tier do: at most 15 requests a minute, at least 20 a day, and tokens are counted by the minute.
_GOOGLE = r"quota exceeded for metric: (?P<metric>\S+?), limit: (?P<limit>\d+)"
_GOOGLE_ID = r"quota_?id['\"]?: ?['\"]?\w*?per(day|minute)"
_MOST_A_MINUTE = 15
# Google's details stand far behind its message.
_DETAILS_CHARACTERS = 4000


def is_used_up(message: str, head: str, *, limited: bool) -> bool:
    """Whether the provider says that nothing is left.

    Args:
        message: the provider's whole text.
        head: its beginning, without what it may repeat of our prompt.
        limited: whether it is some limit at all (429, or such words): then a limit per day counts too.
    """
    if google := re.search(_GOOGLE, head, re.IGNORECASE):
        return _is_googles_day(google["metric"], int(google["limit"]), message)
    if any(_says(pattern, head) for pattern in _USED_UP):
        return True
    return limited and _says(_A_DAY, head) and not _says(_A_MINUTE, head)


def _is_googles_day(metric: str, limit: int, message: str) -> bool:
    told = {time.casefold() for time in re.findall(_GOOGLE_ID, message[:_DETAILS_CHARACTERS], re.IGNORECASE)}
    if told or limit == 0:
        return "day" in told or limit == 0
    if _says(_A_DAY, metric):
        return True
    return limit > _MOST_A_MINUTE and "token" not in metric and not _says(_A_MINUTE, metric)


def _says(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None
